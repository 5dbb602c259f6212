/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, telemetry, views and notifications through libnixl_capi, over the MOCK backend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "capi/pair.h"

static int setup(void **state) {
    *state = pair_make(true);
    return 0;
}

static int teardown(void **state) {
    pair_end(*state);
    return 0;
}

static nixl_capi_xfer_req_t make_write(struct pair *pair, nixl_capi_opt_args_t args) {
    nixl_capi_xfer_req_t req = NULL;

    assert_ok(nixl_capi_create_xfer_req(pair->near, NIXL_CAPI_XFER_OP_WRITE, pair->near_list, pair->far_list,
                                        "far", &req, args));
    return req;
}

static void end_request(struct pair *pair, nixl_capi_xfer_req_t req) {
    assert_ok(nixl_capi_release_xfer_req(pair->near, req));
    assert_ok(nixl_capi_destroy_xfer_req(req));
}

static void write_then_read_carry_every_byte(void **state) {
    struct pair *pair = *state;
    nixl_capi_xfer_req_t req = make_write(pair, NULL);

    assert_ok(pair_run(pair->near, req, NULL));
    assert_memory_equal(pair->near_bytes, pair->far_bytes, PAIR_BYTES);
    end_request(pair, req);

    memset(pair->far_bytes, 0x5a, PAIR_BYTES);
    assert_ok(nixl_capi_create_xfer_req(pair->near, NIXL_CAPI_XFER_OP_READ, pair->near_list, pair->far_list,
                                        "far", &req, NULL));
    assert_ok(pair_run(pair->near, req, NULL));
    assert_memory_equal(pair->near_bytes, pair->far_bytes, PAIR_BYTES);
    assert_int_equal(pair->near_bytes[PAIR_BYTES - 1], 0x5a);
    end_request(pair, req);
}

static void every_failure_to_create_a_request_is_a_backend_error(void **state) {
    struct pair *pair = *state;
    nixl_capi_xfer_req_t req = (nixl_capi_xfer_req_t)pair;

    assert_backend(nixl_capi_create_xfer_req(pair->near, NIXL_CAPI_XFER_OP_WRITE, pair->near_list,
                                             pair->far_list, "nobody", &req, NULL));
    assert_null(req);
    assert_ok(nixl_capi_xfer_dlist_add_desc(pair->far_list, (uintptr_t)pair->far_bytes, 1, 0));
    assert_backend(nixl_capi_create_xfer_req(pair->near, NIXL_CAPI_XFER_OP_WRITE, pair->near_list,
                                             pair->far_list, "far", &req, NULL));
    assert_null(req);
}

static void request_lives_until_released_and_then_only_its_shell(void **state) {
    struct pair *pair = *state;
    nixl_capi_xfer_req_t req = make_write(pair, NULL);
    struct nixl_capi_xfer_telemetry_s times;
    nixl_capi_backend_t backend;
    nixl_capi_cost_t method;
    int64_t duration, margin;

    /* Never posted: the core's NOT_POSTED has no number of its own here. */
    assert_backend(nixl_capi_get_xfer_status(pair->near, req));
    assert_int_equal(nixl_capi_destroy_xfer_req(req), NIXL_CAPI_ERROR_INVALID_STATE);
    assert_ok(nixl_capi_release_xfer_req(pair->near, req));
    assert_invalid(nixl_capi_get_xfer_status(pair->near, req));
    assert_invalid(nixl_capi_post_xfer_req(pair->near, req, NULL));
    assert_invalid(nixl_capi_query_xfer_backend(pair->near, req, &backend));
    assert_invalid(nixl_capi_get_xfer_telemetry(pair->near, req, &times));
    assert_invalid(nixl_capi_estimate_xfer_cost(pair->near, req, NULL, &duration, &margin, &method));
    assert_ok(nixl_capi_destroy_xfer_req(req));
}

static void telemetry_has_times_bytes_and_descriptors(void **state) {
    struct pair *pair = *state;
    struct nixl_capi_xfer_telemetry_s times = {0, 0, 0, 0, 0};
    nixl_capi_xfer_req_t req = make_write(pair, NULL);

    assert_backend(nixl_capi_get_xfer_telemetry(pair->near, req, &times));
    assert_ok(pair_run(pair->near, req, NULL));
    assert_ok(nixl_capi_get_xfer_telemetry(pair->near, req, &times));
    assert_true(times.start_time_us > 0);
    assert_true(times.post_duration_us > 0);
    assert_true(times.xfer_duration_us >= times.post_duration_us);
    assert_int_equal(times.total_bytes, PAIR_BYTES);
    assert_int_equal(times.desc_count, 1);
    end_request(pair, req);
}

static void telemetry_is_refused_where_it_is_off(void **state) {
    struct pair *pair = pair_make(false);
    struct nixl_capi_xfer_telemetry_s times;
    nixl_capi_xfer_req_t req = make_write(pair, NULL);

    assert_ok(pair_run(pair->near, req, NULL));
    assert_int_equal(nixl_capi_get_xfer_telemetry(pair->near, req, &times), NIXL_CAPI_ERROR_NO_TELEMETRY);
    end_request(pair, req);
    pair_end(pair);
}

static void request_tells_its_backend(void **state) {
    struct pair *pair = *state;
    nixl_capi_xfer_req_t req = make_write(pair, NULL);
    nixl_capi_backend_t backend = NULL;
    nixl_capi_mem_list_t mems;
    nixl_capi_params_t params;
    nixl_capi_cost_t method;
    int64_t duration = -1, margin = -1;

    assert_ok(nixl_capi_query_xfer_backend(pair->near, req, &backend));
    assert_non_null(backend);
    assert_ok(nixl_capi_get_backend_params(pair->near, backend, &mems, &params));
    assert_ok(nixl_capi_destroy_mem_list(mems));
    assert_ok(nixl_capi_destroy_params(params));
    assert_ok(nixl_capi_destroy_backend(backend));
    /* Microseconds: what takes less is told as one. */
    assert_ok(nixl_capi_estimate_xfer_cost(pair->near, req, NULL, &duration, &margin, &method));
    assert_true(duration >= 1 && margin >= 1);
    assert_int_equal(method, NIXL_CAPI_COST_ANALYTICAL_BACKEND);
    end_request(pair, req);
}

/* Eight blocks of 512 bytes on both sides, prepared. */
static void prepare(struct pair *pair, nixl_capi_xfer_dlist_handle_t *local,
                    nixl_capi_xfer_dlist_handle_t *remote) {
    assert_ok(nixl_capi_xfer_dlist_clear(pair->near_list));
    assert_ok(nixl_capi_xfer_dlist_clear(pair->far_list));
    for (size_t at = 0; at < PAIR_BYTES; at += 512) {
        assert_ok(nixl_capi_xfer_dlist_add_desc(pair->near_list, (uintptr_t)pair->near_bytes + at, 512, 0));
        assert_ok(nixl_capi_xfer_dlist_add_desc(pair->far_list, (uintptr_t)pair->far_bytes + at, 512, 0));
    }
    assert_ok(nixl_capi_prep_xfer_dlist(pair->near, "", pair->near_list, local, NULL));
    assert_ok(nixl_capi_prep_xfer_dlist(pair->near, "far", pair->far_list, remote, NULL));
}

static void prepared_lists_pair_by_index_and_merge_unless_told_not_to(void **state) {
    struct pair *pair = *state;
    const int ascending[] = {0, 1, 2, 5, 6}, low[] = {0}, high[] = {7}, bad[] = {8}, negative[] = {-1};
    struct nixl_capi_xfer_telemetry_s times;
    nixl_capi_xfer_dlist_handle_t local, remote;
    nixl_capi_opt_args_t args;
    nixl_capi_xfer_req_t req;

    prepare(pair, &local, &remote);
    assert_ok(nixl_capi_make_xfer_req(pair->near, NIXL_CAPI_XFER_OP_WRITE, local, ascending, 5, remote,
                                      ascending, 5, &req, NULL));
    assert_ok(pair_run(pair->near, req, NULL));
    assert_memory_equal(pair->far_bytes, pair->near_bytes, 3 * 512);
    assert_memory_equal(pair->far_bytes + 5 * 512, pair->near_bytes + 5 * 512, 2 * 512);
    assert_int_equal(pair->far_bytes[3 * 512], 0);
    assert_int_equal(pair->far_bytes[7 * 512], 0);
    assert_ok(nixl_capi_get_xfer_telemetry(pair->near, req, &times));
    assert_int_equal(times.desc_count, 2);
    end_request(pair, req);

    assert_ok(nixl_capi_create_opt_args(&args));
    assert_ok(nixl_capi_opt_args_set_skip_desc_merge(args, true));
    assert_ok(nixl_capi_make_xfer_req(pair->near, NIXL_CAPI_XFER_OP_WRITE, local, ascending, 5, remote,
                                      ascending, 5, &req, args));
    assert_ok(pair_run(pair->near, req, NULL));
    assert_ok(nixl_capi_get_xfer_telemetry(pair->near, req, &times));
    assert_int_equal(times.desc_count, 5);
    end_request(pair, req);
    assert_ok(nixl_capi_destroy_opt_args(args));

    assert_ok(nixl_capi_make_xfer_req(pair->near, NIXL_CAPI_XFER_OP_WRITE, local, low, 1, remote, high, 1,
                                      &req, NULL));
    assert_ok(pair_run(pair->near, req, NULL));
    assert_memory_equal(pair->far_bytes + 7 * 512, pair->near_bytes, 512);
    end_request(pair, req);

    req = (nixl_capi_xfer_req_t)pair;
    assert_invalid(nixl_capi_make_xfer_req(pair->near, NIXL_CAPI_XFER_OP_WRITE, local, bad, 1, remote, low, 1,
                                           &req, NULL));
    assert_null(req);
    assert_invalid(nixl_capi_make_xfer_req(pair->near, NIXL_CAPI_XFER_OP_WRITE, local, low, 1, remote,
                                           negative, 1, &req, NULL));
    assert_invalid(nixl_capi_make_xfer_req(pair->near, NIXL_CAPI_XFER_OP_WRITE, local, ascending, 5, remote,
                                           ascending, 4, &req, NULL));
    assert_invalid(nixl_capi_make_xfer_req(pair->near, NIXL_CAPI_XFER_OP_WRITE, local, low, 0, remote, low, 0,
                                           &req, NULL));
    assert_invalid(nixl_capi_make_xfer_req(pair->near, NIXL_CAPI_XFER_OP_WRITE, remote, low, 1, local, low, 1,
                                           &req, NULL));
    assert_ok(nixl_capi_release_xfer_dlist_handle(pair->near, local));
    assert_ok(nixl_capi_release_xfer_dlist_handle(pair->near, remote));
}

static void preparing_for_a_stranger_is_not_found_and_gives_no_handle(void **state) {
    struct pair *pair = *state;
    nixl_capi_xfer_dlist_handle_t handle = (nixl_capi_xfer_dlist_handle_t)pair;

    assert_int_equal(nixl_capi_prep_xfer_dlist(pair->near, "nobody", pair->far_list, &handle, NULL),
                     NIXL_CAPI_ERROR_NOT_FOUND);
    assert_null(handle);
}

static void notification_arrives_with_the_data_byte_for_byte(void **state) {
    struct pair *pair = *state;
    const unsigned char message[] = {'d', 0, 0xff, 'e'};
    nixl_capi_opt_args_t args;
    nixl_capi_notif_map_t map;
    nixl_capi_xfer_req_t req;
    const void *data;
    const char *agent;
    size_t len;

    assert_ok(nixl_capi_create_opt_args(&args));
    assert_ok(nixl_capi_opt_args_set_notif_msg(args, message, sizeof message));
    assert_ok(nixl_capi_opt_args_set_has_notif(args, true));
    req = make_write(pair, args);
    assert_ok(nixl_capi_create_notif_map(&map));
    assert_ok(pair_run(pair->near, req, NULL));
    assert_int_equal(pair_notifs(pair->far, map, "near", 1), 1);
    assert_memory_equal(pair->near_bytes, pair->far_bytes, PAIR_BYTES);
    assert_ok(nixl_capi_notif_map_size(map, &len));
    assert_int_equal(len, 1);
    assert_ok(nixl_capi_notif_map_get_agent_at(map, 0, &agent));
    assert_string_equal(agent, "near");
    assert_ok(nixl_capi_notif_map_get_notif(map, "near", 0, &data, &len));
    assert_int_equal(len, sizeof message);
    assert_memory_equal(data, message, sizeof message);
    assert_invalid(nixl_capi_notif_map_get_notif(map, "near", 1, &data, &len));
    assert_invalid(nixl_capi_notif_map_get_agent_at(map, 1, &agent));
    assert_ok(nixl_capi_notif_map_clear(map));
    assert_ok(nixl_capi_notif_map_size(map, &len));
    assert_int_equal(len, 0);
    assert_ok(nixl_capi_destroy_notif_map(map));
    assert_ok(nixl_capi_destroy_opt_args(args));
    end_request(pair, req);
}

/* Four posts: with a message, without options, with empty options, without options. The stored message goes out with the
 * first two; empty options drop it. */
static void empty_options_drop_the_stored_notification_and_none_keep_it(void **state) {
    struct pair *pair = *state;
    nixl_capi_xfer_req_t req = make_write(pair, NULL);
    nixl_capi_opt_args_t with, empty;
    nixl_capi_notif_map_t map;
    const void *data;
    size_t len;

    assert_ok(nixl_capi_create_opt_args(&with));
    assert_ok(nixl_capi_create_opt_args(&empty));
    assert_ok(nixl_capi_opt_args_set_has_notif(with, true));
    assert_ok(nixl_capi_opt_args_set_notif_msg(with, "hi", 2));
    assert_ok(pair_run(pair->near, req, with));
    assert_ok(pair_run(pair->near, req, NULL));
    assert_ok(pair_run(pair->near, req, empty));
    assert_ok(pair_run(pair->near, req, NULL));
    /* A notification apart from transfers arrives after all of these. */
    assert_ok(nixl_capi_gen_notif(pair->near, "far", "end", 3, NULL));
    assert_ok(nixl_capi_create_notif_map(&map));
    assert_int_equal(pair_notifs(pair->far, map, "near", 3), 3);
    assert_ok(nixl_capi_notif_map_get_notif(map, "near", 1, &data, &len));
    assert_memory_equal(data, "hi", 2);
    assert_ok(nixl_capi_notif_map_get_notif(map, "near", 2, &data, &len));
    assert_memory_equal(data, "end", 3);
    assert_ok(nixl_capi_destroy_notif_map(map));
    assert_ok(nixl_capi_destroy_opt_args(with));
    assert_ok(nixl_capi_destroy_opt_args(empty));
    end_request(pair, req);
}

static void notifications_reach_oneself_and_may_be_empty_but_no_stranger(void **state) {
    struct pair *pair = *state;
    nixl_capi_opt_args_t args;
    nixl_capi_notif_map_t map;
    const void *data = NULL;
    size_t len = 99;

    assert_int_equal(nixl_capi_gen_notif(pair->near, "nobody", "x", 1, NULL), NIXL_CAPI_ERROR_NOT_FOUND);
    assert_ok(nixl_capi_create_opt_args(&args));
    assert_ok(nixl_capi_opt_args_add_backend(args, pair->near_backend));
    assert_ok(nixl_capi_gen_notif(pair->near, "near", NULL, 0, args));
    assert_ok(nixl_capi_create_notif_map(&map));
    assert_int_equal(pair_notifs(pair->near, map, "near", 1), 1);
    assert_ok(nixl_capi_notif_map_get_notif(map, "near", 0, &data, &len));
    assert_non_null(data);
    assert_int_equal(len, 0);
    assert_ok(nixl_capi_get_notifs(pair->near, map, args));
    assert_ok(nixl_capi_destroy_notif_map(map));
    assert_ok(nixl_capi_destroy_opt_args(args));
}

static void views_of_nothing_are_refused(void **state) {
    struct pair *pair = *state;
    nixl_capi_remote_dlist_t slots;
    nixl_capi_mem_view_t view = (nixl_capi_mem_view_t)pair;

    assert_ok(nixl_capi_create_remote_dlist(NIXL_CAPI_MEM_DRAM, &slots));
    assert_ok(nixl_capi_remote_dlist_add_desc(slots, 0, 0, 0, NULL));
    assert_true(nixl_capi_prep_mem_view_remote(pair->near, slots, &view, NULL) < 0);
    assert_ok(nixl_capi_destroy_remote_dlist(slots));
    assert_ok(nixl_capi_xfer_dlist_clear(pair->near_list));
    assert_true(nixl_capi_prep_mem_view_local(pair->near, pair->near_list, &view, NULL) < 0);
    assert_ptr_equal(view, pair);
    assert_int_equal(nixl_capi_release_mem_view(pair->near, view), NIXL_CAPI_ERROR_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(write_then_read_carry_every_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(every_failure_to_create_a_request_is_a_backend_error, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(request_lives_until_released_and_then_only_its_shell, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(telemetry_has_times_bytes_and_descriptors, setup, teardown),
        cmocka_unit_test(telemetry_is_refused_where_it_is_off),
        cmocka_unit_test_setup_teardown(request_tells_its_backend, setup, teardown),
        cmocka_unit_test_setup_teardown(prepared_lists_pair_by_index_and_merge_unless_told_not_to, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(preparing_for_a_stranger_is_not_found_and_gives_no_handle, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(notification_arrives_with_the_data_byte_for_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_options_drop_the_stored_notification_and_none_keep_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(notifications_reach_oneself_and_may_be_empty_but_no_stranger, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(views_of_nothing_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
