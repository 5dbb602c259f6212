/* SPDX-License-Identifier: Apache-2.0 */
/* Agents, plugins, backends, metadata, registration and storage answers through libnixl_capi. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "capi/pair.h"

static int setup(void **state) {
    *state = pair_make(false);
    return 0;
}

static int teardown(void **state) {
    pair_end(*state);
    return 0;
}

static void agent_needs_a_name_and_a_port_in_range(void **state) {
    nixl_capi_agent_config_t config = {false, false, 0, NIXL_CAPI_THREAD_SYNC_RW, 1, 0, 0, false};
    nixl_capi_agent_t agent;

    assert_backend(nixl_capi_create_agent("", &agent));
    assert_string_not_equal(nixl_capi_last_error(), "");
    config.listen_port = 65536;
    assert_invalid(nixl_capi_create_configured_agent("a", &config, &agent));
    config.listen_port = -1;
    assert_invalid(nixl_capi_create_configured_agent("a", &config, &agent));
    config.listen_port = 0;
    config.thread_sync = (nixl_capi_thread_sync_t)3;
    assert_invalid(nixl_capi_create_configured_agent("a", &config, &agent));
    config.thread_sync = NIXL_CAPI_THREAD_SYNC_STRICT;
    assert_ok(nixl_capi_create_configured_agent("a", &config, &agent));
    assert_ok(nixl_capi_destroy_agent(agent));
    assert_ok(nixl_capi_create_agent("plain", &agent));
    assert_ok(nixl_capi_destroy_agent(agent));
}

static void plugins_are_listed_and_described(void **state) {
    struct pair *pair = *state;
    nixl_capi_string_list_t names;
    nixl_capi_mem_list_t mems;
    nixl_capi_params_t params;
    nixl_capi_mem_type_t kind = NIXL_CAPI_MEM_UNKNOWN;
    const char *name;
    size_t count = 0, found = 0;
    bool is_empty = true;

    assert_ok(nixl_capi_get_available_plugins(pair->near, &names));
    assert_ok(nixl_capi_string_list_size(names, &count));
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        assert_ok(nixl_capi_string_list_get(names, i, &name));
        found += strcmp(name, "MOCK") == 0;
    }
    assert_int_equal(found, 1);
    assert_invalid(nixl_capi_string_list_get(names, count, &name));
    assert_ok(nixl_capi_destroy_string_list(names));

    assert_ok(nixl_capi_get_plugin_params(pair->near, "MOCK", &mems, &params));
    assert_ok(nixl_capi_mem_list_is_empty(mems, &is_empty));
    assert_false(is_empty);
    assert_ok(nixl_capi_mem_list_size(mems, &count));
    assert_ok(nixl_capi_mem_list_get(mems, 0, &kind));
    assert_int_equal(kind, NIXL_CAPI_MEM_DRAM);
    assert_invalid(nixl_capi_mem_list_get(mems, count, &kind));
    assert_ok(nixl_capi_params_is_empty(params, &is_empty));
    assert_false(is_empty);
    assert_ok(nixl_capi_destroy_mem_list(mems));
    assert_ok(nixl_capi_destroy_params(params));
    assert_int_equal(nixl_capi_get_plugin_params(pair->near, "NO_SUCH", &mems, &params),
                     NIXL_CAPI_ERROR_NOT_FOUND);
}

static void parameters_that_a_plugin_names_are_taken_back(void **state) {
    nixl_capi_agent_t agent;
    nixl_capi_backend_t backend;
    nixl_capi_mem_list_t mems;
    nixl_capi_params_t params;
    bool is_empty = true;

    assert_ok(nixl_capi_create_agent("asking", &agent));
    assert_ok(nixl_capi_get_plugin_params(agent, "MOCK", &mems, &params));
    assert_ok(nixl_capi_create_backend(agent, "MOCK", params, &backend));
    assert_ok(nixl_capi_destroy_mem_list(mems));
    assert_ok(nixl_capi_destroy_params(params));
    assert_ok(nixl_capi_get_backend_params(agent, backend, &mems, &params));
    assert_ok(nixl_capi_mem_list_is_empty(mems, &is_empty));
    assert_false(is_empty);
    assert_ok(nixl_capi_params_is_empty(params, &is_empty));
    assert_false(is_empty);
    assert_ok(nixl_capi_destroy_mem_list(mems));
    assert_ok(nixl_capi_destroy_params(params));
    assert_ok(nixl_capi_destroy_backend(backend));
    assert_ok(nixl_capi_destroy_agent(agent));
}

static void every_failure_to_open_a_backend_is_a_backend_error(void **state) {
    struct pair *pair = *state;
    nixl_capi_params_t params;
    nixl_capi_backend_t backend;

    assert_ok(nixl_capi_create_params(&params));
    assert_backend(nixl_capi_create_backend(pair->near, "NO_SUCH", params, &backend));
    assert_non_null(strstr(nixl_capi_last_error(), "NO_SUCH"));
    assert_backend(nixl_capi_create_backend(pair->near, "MOCK", params, &backend));
    assert_ok(nixl_capi_params_add(params, "no_such_option", "1"));
    assert_backend(nixl_capi_create_backend(pair->near, "MOCK", params, &backend));
    assert_ok(nixl_capi_destroy_params(params));
}

static void metadata_is_loaded_checked_and_forgotten(void **state) {
    struct pair *pair = *state;
    nixl_capi_xfer_dlist_t other;
    char *name = NULL;

    assert_ok(nixl_capi_check_remote_md(pair->near, "far", NULL));
    assert_ok(nixl_capi_check_remote_md(pair->near, "far", pair->far_list));
    assert_int_equal(nixl_capi_check_remote_md(pair->near, "nobody", NULL), NIXL_CAPI_ERROR_NOT_FOUND);
    assert_ok(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_DRAM, &other));
    assert_ok(nixl_capi_xfer_dlist_add_desc(other, 4096, 64, 0));
    assert_int_equal(nixl_capi_check_remote_md(pair->near, "far", other), NIXL_CAPI_ERROR_NOT_FOUND);
    assert_ok(nixl_capi_destroy_xfer_dlist(other));
    assert_ok(nixl_capi_agent_make_connection(pair->near, "far", NULL));
    assert_int_equal(nixl_capi_agent_make_connection(pair->near, "nobody", NULL), NIXL_CAPI_ERROR_NOT_FOUND);
    assert_int_equal(nixl_capi_agent_make_connection(pair->near, "near", NULL), NIXL_CAPI_ERROR_NOT_FOUND);
    assert_ok(nixl_capi_invalidate_remote_md(pair->near, "far"));
    assert_int_equal(nixl_capi_invalidate_remote_md(pair->near, "far"), NIXL_CAPI_ERROR_NOT_FOUND);
    assert_int_equal(nixl_capi_check_remote_md(pair->near, "far", NULL), NIXL_CAPI_ERROR_NOT_FOUND);
    assert_backend(nixl_capi_load_remote_md(pair->near, "no metadata", 11, &name));
    assert_null(name);
}

static void partial_metadata_holds_what_it_names(void **state) {
    struct pair *pair = *state;
    nixl_capi_reg_dlist_t other;
    nixl_capi_opt_args_t args;
    void *blob = NULL;
    size_t len = 0;

    assert_ok(nixl_capi_get_local_partial_md(pair->far, pair->far_reg, &blob, &len, NULL));
    assert_true(len > 24);
    nixl_capi_mem_free(blob);
    assert_ok(nixl_capi_create_opt_args(&args));
    assert_ok(nixl_capi_opt_args_add_backend(args, pair->far_backend));
    assert_ok(nixl_capi_get_local_partial_md(pair->far, pair->far_reg, &blob, &len, args));
    nixl_capi_mem_free(blob);
    assert_ok(nixl_capi_destroy_opt_args(args));
    assert_ok(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_DRAM, &other));
    assert_ok(nixl_capi_reg_dlist_add_desc(other, 4096, 64, 0, NULL, 0));
    assert_int_equal(nixl_capi_get_local_partial_md(pair->far, other, &blob, &len, NULL),
                     NIXL_CAPI_ERROR_NOT_FOUND);
    assert_ok(nixl_capi_destroy_reg_dlist(other));
}

static void exchange_without_an_address_or_a_store_is_refused(void **state) {
    struct pair *pair = *state;

    /* No address, and the environment names no store. The number depends on what this build carries. */
    assert_true(nixl_capi_send_local_md(pair->near, NULL) < 0);
    assert_true(nixl_capi_send_local_partial_md(pair->near, pair->near_reg, NULL) < 0);
    assert_true(nixl_capi_fetch_remote_md(pair->near, "nobody", NULL) < 0);
    assert_true(nixl_capi_invalidate_local_md(pair->near, NULL) < 0);
}

static void registrations_count_and_must_match_to_be_dropped(void **state) {
    struct pair *pair = *state;
    nixl_capi_reg_dlist_t other;
    nixl_capi_opt_args_t args;

    assert_ok(nixl_capi_create_opt_args(&args));
    assert_ok(nixl_capi_opt_args_add_backend(args, pair->near_backend));
    assert_ok(nixl_capi_register_mem(pair->near, pair->near_reg, args));
    assert_ok(nixl_capi_deregister_mem(pair->near, pair->near_reg, args));
    assert_ok(nixl_capi_destroy_opt_args(args));
    assert_ok(nixl_capi_deregister_mem(pair->near, pair->near_reg, NULL));
    assert_int_equal(nixl_capi_deregister_mem(pair->near, pair->near_reg, NULL), NIXL_CAPI_ERROR_NOT_FOUND);
    assert_ok(nixl_capi_register_mem(pair->near, pair->near_reg, NULL));

    assert_ok(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_UNKNOWN, &other));
    assert_ok(nixl_capi_reg_dlist_add_desc(other, (uintptr_t)pair->near_bytes, 64, 0, NULL, 0));
    assert_true(nixl_capi_register_mem(pair->near, other, NULL) < 0);
    assert_ok(nixl_capi_destroy_reg_dlist(other));
}

static void storage_question_needs_a_backend_and_is_answered_a_block_at_a_time(void **state) {
    struct pair *pair = *state;
    nixl_capi_query_resp_list_t answers;
    nixl_capi_opt_args_t args;
    nixl_capi_params_t params;
    size_t size = 99;
    bool has_value = false;

    assert_ok(nixl_capi_create_query_resp_list(&answers));
    assert_invalid(nixl_capi_query_mem(pair->near, pair->near_reg, answers, NULL));
    assert_ok(nixl_capi_query_resp_list_size(answers, &size));
    assert_int_equal(size, 0);
    assert_ok(nixl_capi_create_opt_args(&args));
    assert_ok(nixl_capi_opt_args_add_backend(args, pair->near_backend));
    for (int again = 0; again < 2; again++) {
        assert_ok(nixl_capi_query_mem(pair->near, pair->near_reg, answers, args));
        assert_ok(nixl_capi_query_resp_list_size(answers, &size));
        assert_int_equal(size, 1);
    }
    assert_ok(nixl_capi_query_resp_list_has_value(answers, 0, &has_value));
    assert_invalid(nixl_capi_query_resp_list_has_value(answers, 1, &has_value));
    if (has_value) {
        assert_ok(nixl_capi_query_resp_list_get_params(answers, 0, &params));
        assert_ok(nixl_capi_destroy_params(params));
    } else {
        assert_invalid(nixl_capi_query_resp_list_get_params(answers, 0, &params));
    }
    assert_invalid(nixl_capi_query_resp_list_get_params(answers, 1, &params));
    assert_ok(nixl_capi_destroy_opt_args(args));
    assert_ok(nixl_capi_destroy_query_resp_list(answers));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agent_needs_a_name_and_a_port_in_range),
        cmocka_unit_test_setup_teardown(plugins_are_listed_and_described, setup, teardown),
        cmocka_unit_test(parameters_that_a_plugin_names_are_taken_back),
        cmocka_unit_test_setup_teardown(every_failure_to_open_a_backend_is_a_backend_error, setup, teardown),
        cmocka_unit_test_setup_teardown(metadata_is_loaded_checked_and_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(partial_metadata_holds_what_it_names, setup, teardown),
        cmocka_unit_test_setup_teardown(exchange_without_an_address_or_a_store_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(registrations_count_and_must_match_to_be_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(storage_question_needs_a_backend_and_is_answered_a_block_at_a_time,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
