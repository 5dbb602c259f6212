/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters, options, descriptor lists and maps of libnixl_capi: what needs no agent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "capi/pair.h"

static void version_is_of_the_interface_and_the_library_is_no_stub(void **state) {
    int major = -1, minor = -1, patch = -1;

    assert_ok(nixl_capi_get_version(&major, &minor, &patch));
    assert_int_equal(major, 1);
    assert_int_equal(minor, 5);
    assert_int_equal(patch, 2);
    assert_false(nixl_capi_is_stub());
    assert_non_null(nixl_capi_last_error());
    nixl_capi_mem_free(NULL);
}

static void memory_kinds_have_names_up_to_unknown(void **state) {
    static const char *const names[] = {"DRAM", "VRAM", "BLOCK", "OBJECT", "FILE", "UNKNOWN"};
    const char *name;

    for (int kind = 0; kind < 6; kind++) {
        name = NULL;
        assert_ok(nixl_capi_mem_type_to_string((nixl_capi_mem_type_t)kind, &name));
        assert_string_equal(name, names[kind]);
    }
    assert_invalid(nixl_capi_mem_type_to_string((nixl_capi_mem_type_t)6, &name));
    assert_invalid(nixl_capi_mem_type_to_string((nixl_capi_mem_type_t)-1, &name));
}

static void parameters_are_walked_once_and_the_last_says_so(void **state) {
    const char *key = "untouched", *value = "untouched";
    nixl_capi_params_t params;
    nixl_capi_param_iter_t iter;
    bool is_empty = false, has_next = true;

    assert_ok(nixl_capi_create_params(&params));
    assert_ok(nixl_capi_params_is_empty(params, &is_empty));
    assert_true(is_empty);
    assert_ok(nixl_capi_params_create_iterator(params, &iter));
    assert_ok(nixl_capi_params_iterator_next(iter, &key, &value, &has_next));
    assert_false(has_next);
    assert_string_equal(key, "untouched");
    assert_string_equal(value, "untouched");
    assert_ok(nixl_capi_params_destroy_iterator(iter));

    assert_ok(nixl_capi_params_add(params, "one", "1"));
    assert_ok(nixl_capi_params_add(params, "two", "2"));
    assert_ok(nixl_capi_params_add(params, "one", "11"));
    assert_ok(nixl_capi_params_is_empty(params, &is_empty));
    assert_false(is_empty);
    assert_ok(nixl_capi_params_create_iterator(params, &iter));
    assert_ok(nixl_capi_params_iterator_next(iter, &key, &value, &has_next));
    assert_true(has_next);
    assert_string_equal(key, "one");
    assert_string_equal(value, "11");
    assert_ok(nixl_capi_params_iterator_next(iter, &key, &value, &has_next));
    assert_false(has_next);
    assert_string_equal(key, "two");
    assert_string_equal(value, "2");
    assert_ok(nixl_capi_params_destroy_iterator(iter));
    assert_ok(nixl_capi_destroy_params(params));
}

static void many_parameters_keep_their_values(void **state) {
    char text[16];
    const char *key, *value;
    nixl_capi_params_t params;
    nixl_capi_param_iter_t iter;
    bool has_next = true;

    assert_ok(nixl_capi_create_params(&params));
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "key%d", i);
        assert_ok(nixl_capi_params_add(params, text, text + 3));
    }
    assert_ok(nixl_capi_params_create_iterator(params, &iter));
    for (int i = 0; i < 100; i++) {
        assert_true(has_next);
        assert_ok(nixl_capi_params_iterator_next(iter, &key, &value, &has_next));
        assert_string_equal(key + 3, value);
    }
    assert_false(has_next);
    assert_ok(nixl_capi_params_destroy_iterator(iter));
    assert_ok(nixl_capi_destroy_params(params));
}

static void option_bytes_come_back_as_a_copy(void **state) {
    const unsigned char bytes[] = {0, 1, 0xff, 0};
    nixl_capi_opt_args_t args;
    void *data = &args;
    size_t len = 99;
    bool flag = true;

    assert_ok(nixl_capi_create_opt_args(&args));
    assert_ok(nixl_capi_opt_args_get_notif_msg(args, &data, &len));
    assert_null(data);
    assert_int_equal(len, 0);
    assert_ok(nixl_capi_opt_args_get_has_notif(args, &flag));
    assert_false(flag);

    assert_ok(nixl_capi_opt_args_set_notif_msg(args, bytes, sizeof bytes));
    assert_ok(nixl_capi_opt_args_get_has_notif(args, &flag));
    assert_false(flag);
    assert_ok(nixl_capi_opt_args_set_has_notif(args, true));
    assert_ok(nixl_capi_opt_args_get_has_notif(args, &flag));
    assert_true(flag);
    assert_ok(nixl_capi_opt_args_get_notif_msg(args, &data, &len));
    assert_int_equal(len, sizeof bytes);
    assert_memory_equal(data, bytes, sizeof bytes);
    nixl_capi_mem_free(data);
    assert_ok(nixl_capi_opt_args_set_notif_msg(args, NULL, 0));
    assert_ok(nixl_capi_opt_args_get_notif_msg(args, &data, &len));
    assert_null(data);
    assert_int_equal(len, 0);

    assert_ok(nixl_capi_opt_args_set_custom_param(args, bytes, sizeof bytes));
    assert_ok(nixl_capi_opt_args_get_custom_param(args, &data, &len));
    assert_int_equal(len, sizeof bytes);
    assert_memory_equal(data, bytes, sizeof bytes);
    nixl_capi_mem_free(data);
    assert_ok(nixl_capi_destroy_opt_args(args));
}

static void option_flags_are_kept(void **state) {
    nixl_capi_opt_args_t args;
    bool flag = true;

    assert_ok(nixl_capi_create_opt_args(&args));
    assert_ok(nixl_capi_opt_args_get_skip_desc_merge(args, &flag));
    assert_false(flag);
    assert_ok(nixl_capi_opt_args_set_skip_desc_merge(args, true));
    assert_ok(nixl_capi_opt_args_get_skip_desc_merge(args, &flag));
    assert_true(flag);
    assert_ok(nixl_capi_opt_args_set_has_notif(args, true));
    assert_ok(nixl_capi_opt_args_set_has_notif(args, false));
    assert_ok(nixl_capi_opt_args_get_has_notif(args, &flag));
    assert_false(flag);
    assert_ok(nixl_capi_opt_args_set_ip_addr(args, "127.0.0.1"));
    assert_ok(nixl_capi_opt_args_set_ip_addr(args, "::1"));
    assert_ok(nixl_capi_opt_args_set_port(args, 65535));
    assert_ok(nixl_capi_destroy_opt_args(args));
}

static void transfer_list_grows_shrinks_and_refuses_a_bad_index(void **state) {
    nixl_capi_xfer_dlist_t list;
    nixl_capi_mem_type_t kind = NIXL_CAPI_MEM_DRAM;
    size_t count = 99;
    bool is_empty = false;

    assert_ok(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_VRAM, &list));
    assert_ok(nixl_capi_xfer_dlist_get_type(list, &kind));
    assert_int_equal(kind, NIXL_CAPI_MEM_VRAM);
    assert_ok(nixl_capi_xfer_dlist_is_empty(list, &is_empty));
    assert_true(is_empty);
    for (size_t i = 0; i < 100; i++) {
        assert_ok(nixl_capi_xfer_dlist_add_desc(list, 4096 * i, 64, UINT64_MAX));
    }
    assert_ok(nixl_capi_xfer_dlist_desc_count(list, &count));
    assert_int_equal(count, 100);
    assert_backend(nixl_capi_xfer_dlist_rem_desc(list, 100));
    assert_backend(nixl_capi_xfer_dlist_rem_desc(list, -1));
    assert_ok(nixl_capi_xfer_dlist_rem_desc(list, 99));
    assert_ok(nixl_capi_xfer_dlist_rem_desc(list, 0));
    assert_ok(nixl_capi_xfer_dlist_len(list, &count));
    assert_int_equal(count, 98);
    assert_ok(nixl_capi_xfer_dlist_trim(list));
    assert_ok(nixl_capi_xfer_dlist_resize(list, 3));
    assert_ok(nixl_capi_xfer_dlist_len(list, &count));
    assert_int_equal(count, 3);
    assert_ok(nixl_capi_xfer_dlist_resize(list, 50));
    assert_ok(nixl_capi_xfer_dlist_len(list, &count));
    assert_int_equal(count, 50);
    assert_backend(nixl_capi_xfer_dlist_resize(list, SIZE_MAX));
    assert_ok(nixl_capi_xfer_dlist_clear(list));
    assert_ok(nixl_capi_xfer_dlist_is_empty(list, &is_empty));
    assert_true(is_empty);
    assert_ok(nixl_capi_destroy_xfer_dlist(list));
}

static void registration_list_owns_its_metadata(void **state) {
    nixl_capi_reg_dlist_t list;
    nixl_capi_mem_type_t kind = NIXL_CAPI_MEM_DRAM;
    char meta[] = "rw:/dev/null";
    size_t count = 99;
    bool is_empty = false;

    assert_ok(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_FILE, &list));
    assert_ok(nixl_capi_reg_dlist_get_type(list, &kind));
    assert_int_equal(kind, NIXL_CAPI_MEM_FILE);
    for (size_t i = 0; i < 20; i++) {
        assert_ok(nixl_capi_reg_dlist_add_desc(list, 0, 64, i, meta, sizeof meta - 1));
    }
    assert_ok(nixl_capi_reg_dlist_desc_count(list, &count));
    assert_int_equal(count, 20);
    assert_backend(nixl_capi_reg_dlist_rem_desc(list, 20));
    assert_backend(nixl_capi_reg_dlist_rem_desc(list, -1));
    assert_ok(nixl_capi_reg_dlist_rem_desc(list, 7));
    assert_ok(nixl_capi_reg_dlist_trim(list));
    assert_ok(nixl_capi_reg_dlist_resize(list, 5));
    assert_ok(nixl_capi_reg_dlist_resize(list, 9));
    assert_ok(nixl_capi_reg_dlist_desc_count(list, &count));
    assert_int_equal(count, 9);
    assert_backend(nixl_capi_reg_dlist_resize(list, SIZE_MAX / 2));
    assert_ok(nixl_capi_reg_dlist_is_empty(list, &is_empty));
    assert_false(is_empty);
    assert_ok(nixl_capi_reg_dlist_clear(list));
    assert_ok(nixl_capi_reg_dlist_is_empty(list, &is_empty));
    assert_true(is_empty);
    assert_ok(nixl_capi_destroy_reg_dlist(list));
}

static void lists_of_an_unknown_kind_can_be_made(void **state) {
    nixl_capi_xfer_dlist_t xfer;
    nixl_capi_reg_dlist_t reg;
    nixl_capi_mem_type_t kind = NIXL_CAPI_MEM_DRAM;

    assert_ok(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_UNKNOWN, &xfer));
    assert_ok(nixl_capi_xfer_dlist_get_type(xfer, &kind));
    assert_int_equal(kind, NIXL_CAPI_MEM_UNKNOWN);
    assert_ok(nixl_capi_xfer_dlist_add_desc(xfer, 1, 2, 3));
    assert_ok(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_UNKNOWN, &reg));
    assert_ok(nixl_capi_reg_dlist_add_desc(reg, 1, 2, 3, "x", 1));
    /* One printf a list, so that the lines stay whole in what a test prints. */
    printf("# ");
    assert_ok(nixl_capi_xfer_dlist_clear(xfer));
    assert_ok(nixl_capi_xfer_dlist_print(xfer));
    printf("# ");
    assert_ok(nixl_capi_reg_dlist_clear(reg));
    assert_ok(nixl_capi_reg_dlist_print(reg));
    assert_ok(nixl_capi_destroy_xfer_dlist(xfer));
    assert_ok(nixl_capi_destroy_reg_dlist(reg));
}

static void list_for_views_takes_empty_slots(void **state) {
    nixl_capi_remote_dlist_t list;

    assert_ok(nixl_capi_create_remote_dlist(NIXL_CAPI_MEM_VRAM, &list));
    for (int i = 0; i < 20; i++) {
        assert_ok(nixl_capi_remote_dlist_add_desc(list, 4096, 64, 0, i % 2 ? "peer" : NULL));
    }
    assert_ok(nixl_capi_remote_dlist_add_desc(list, 4096, 64, 0, "NULL_AGENT"));
    assert_ok(nixl_capi_destroy_remote_dlist(list));
}

static void empty_maps_and_answers_hold_nothing(void **state) {
    nixl_capi_notif_map_t map;
    nixl_capi_query_resp_list_t answers;
    nixl_capi_params_t params;
    const char *name;
    const void *data;
    size_t size = 99;
    bool has_value;

    assert_ok(nixl_capi_create_notif_map(&map));
    assert_ok(nixl_capi_notif_map_size(map, &size));
    assert_int_equal(size, 0);
    assert_invalid(nixl_capi_notif_map_get_agent_at(map, 0, &name));
    assert_invalid(nixl_capi_notif_map_get_notifs_size(map, "nobody", &size));
    assert_invalid(nixl_capi_notif_map_get_notif(map, "nobody", 0, &data, &size));
    assert_ok(nixl_capi_notif_map_clear(map));
    assert_ok(nixl_capi_destroy_notif_map(map));

    size = 99;
    assert_ok(nixl_capi_create_query_resp_list(&answers));
    assert_ok(nixl_capi_query_resp_list_size(answers, &size));
    assert_int_equal(size, 0);
    assert_invalid(nixl_capi_query_resp_list_has_value(answers, 0, &has_value));
    assert_invalid(nixl_capi_query_resp_list_get_params(answers, 0, &params));
    assert_ok(nixl_capi_destroy_query_resp_list(answers));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_is_of_the_interface_and_the_library_is_no_stub),
        cmocka_unit_test(memory_kinds_have_names_up_to_unknown),
        cmocka_unit_test(parameters_are_walked_once_and_the_last_says_so),
        cmocka_unit_test(many_parameters_keep_their_values),
        cmocka_unit_test(option_bytes_come_back_as_a_copy),
        cmocka_unit_test(option_flags_are_kept),
        cmocka_unit_test(transfer_list_grows_shrinks_and_refuses_a_bad_index),
        cmocka_unit_test(registration_list_owns_its_metadata),
        cmocka_unit_test(lists_of_an_unknown_kind_can_be_made),
        cmocka_unit_test(list_for_views_takes_empty_slots),
        cmocka_unit_test(empty_maps_and_answers_hold_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
