/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function of libnixl_capi with each required argument missing, all others being right: INVALID_PARAM each time.
 * exports.sh sees to it that no function is left out here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "capi/pair.h"

#define R assert_invalid

static nixl_capi_agent_t agent;
static nixl_capi_backend_t backend;
static nixl_capi_reg_dlist_t reg;
static nixl_capi_xfer_dlist_t xfer;
static nixl_capi_xfer_dlist_handle_t handle;
static nixl_capi_xfer_req_t req;
static void *data;
static const void *bytes;
static char *name;
static const char *text, *other_text;
static size_t size;
static bool flag;
static nixl_capi_mem_type_t kind;
static nixl_capi_mem_list_t mems;
static nixl_capi_params_t params;
static nixl_capi_opt_args_t args;

static int setup(void **state) {
    struct pair *pair = pair_make(false);

    *state = pair;
    agent = pair->near;
    backend = pair->near_backend;
    reg = pair->near_reg;
    xfer = pair->near_list;
    return 0;
}

static int teardown(void **state) {
    pair_end(*state);
    return 0;
}

static void library_and_agents(void **state) {
    nixl_capi_agent_config_t config = {false, false, 0, NIXL_CAPI_THREAD_SYNC_NONE, 1, 0, 0, false};
    int a, b;

    R(nixl_capi_get_version(NULL, &a, &b));
    R(nixl_capi_get_version(&a, NULL, &b));
    R(nixl_capi_get_version(&a, &b, NULL));
    R(nixl_capi_create_configured_agent(NULL, &config, &agent));
    R(nixl_capi_create_configured_agent("a", NULL, &agent));
    R(nixl_capi_create_configured_agent("a", &config, NULL));
    R(nixl_capi_create_agent(NULL, &agent));
    R(nixl_capi_create_agent("a", NULL));
    R(nixl_capi_destroy_agent(NULL));
    R(nixl_capi_agent_make_connection(NULL, "far", NULL));
    R(nixl_capi_agent_make_connection(agent, NULL, NULL));
}

static void metadata(void **state) {
    R(nixl_capi_get_local_md(NULL, &data, &size));
    R(nixl_capi_get_local_md(agent, NULL, &size));
    R(nixl_capi_get_local_md(agent, &data, NULL));
    R(nixl_capi_get_local_partial_md(NULL, reg, &data, &size, NULL));
    R(nixl_capi_get_local_partial_md(agent, NULL, &data, &size, NULL));
    R(nixl_capi_get_local_partial_md(agent, reg, NULL, &size, NULL));
    R(nixl_capi_get_local_partial_md(agent, reg, &data, NULL, NULL));
    R(nixl_capi_load_remote_md(NULL, "x", 1, &name));
    R(nixl_capi_load_remote_md(agent, NULL, 1, &name));
    R(nixl_capi_load_remote_md(agent, "x", 0, &name));
    R(nixl_capi_load_remote_md(agent, "x", 1, NULL));
    R(nixl_capi_invalidate_remote_md(NULL, "far"));
    R(nixl_capi_invalidate_remote_md(agent, NULL));
    R(nixl_capi_invalidate_local_md(NULL, NULL));
    R(nixl_capi_check_remote_md(NULL, "far", xfer));
    R(nixl_capi_check_remote_md(agent, NULL, xfer));
    R(nixl_capi_send_local_md(NULL, NULL));
    R(nixl_capi_send_local_partial_md(NULL, reg, NULL));
    R(nixl_capi_send_local_partial_md(agent, NULL, NULL));
    R(nixl_capi_fetch_remote_md(NULL, "far", NULL));
    R(nixl_capi_fetch_remote_md(agent, NULL, NULL));
}

static void plugins_and_backends(void **state) {
    nixl_capi_string_list_t names;

    R(nixl_capi_get_available_plugins(NULL, &names));
    R(nixl_capi_get_available_plugins(agent, NULL));
    assert_ok(nixl_capi_get_available_plugins(agent, &names));
    R(nixl_capi_string_list_size(NULL, &size));
    R(nixl_capi_string_list_size(names, NULL));
    R(nixl_capi_string_list_get(NULL, 0, &text));
    R(nixl_capi_string_list_get(names, 0, NULL));
    R(nixl_capi_destroy_string_list(NULL));
    assert_ok(nixl_capi_destroy_string_list(names));

    R(nixl_capi_get_plugin_params(NULL, "MOCK", &mems, &params));
    R(nixl_capi_get_plugin_params(agent, NULL, &mems, &params));
    R(nixl_capi_get_plugin_params(agent, "MOCK", NULL, &params));
    R(nixl_capi_get_plugin_params(agent, "MOCK", &mems, NULL));
    R(nixl_capi_get_backend_params(NULL, backend, &mems, &params));
    R(nixl_capi_get_backend_params(agent, NULL, &mems, &params));
    R(nixl_capi_get_backend_params(agent, backend, NULL, &params));
    R(nixl_capi_get_backend_params(agent, backend, &mems, NULL));
    assert_ok(nixl_capi_get_backend_params(agent, backend, &mems, &params));
    R(nixl_capi_create_backend(NULL, "MOCK", params, &backend));
    R(nixl_capi_create_backend(agent, NULL, params, &backend));
    R(nixl_capi_create_backend(agent, "MOCK", NULL, &backend));
    R(nixl_capi_create_backend(agent, "MOCK", params, NULL));
    R(nixl_capi_destroy_backend(NULL));
    R(nixl_capi_mem_list_is_empty(NULL, &flag));
    R(nixl_capi_mem_list_is_empty(mems, NULL));
    R(nixl_capi_mem_list_size(NULL, &size));
    R(nixl_capi_mem_list_size(mems, NULL));
    R(nixl_capi_mem_list_get(NULL, 0, &kind));
    R(nixl_capi_mem_list_get(mems, 0, NULL));
    R(nixl_capi_mem_type_to_string(NIXL_CAPI_MEM_DRAM, NULL));
    R(nixl_capi_destroy_mem_list(NULL));
    assert_ok(nixl_capi_destroy_mem_list(mems));
    assert_ok(nixl_capi_destroy_params(params));
}

static void parameters(void **state) {
    nixl_capi_param_iter_t iter;

    R(nixl_capi_create_params(NULL));
    R(nixl_capi_destroy_params(NULL));
    assert_ok(nixl_capi_create_params(&params));
    R(nixl_capi_params_add(NULL, "k", "v"));
    R(nixl_capi_params_add(params, NULL, "v"));
    R(nixl_capi_params_add(params, "k", NULL));
    R(nixl_capi_params_is_empty(NULL, &flag));
    R(nixl_capi_params_is_empty(params, NULL));
    R(nixl_capi_params_create_iterator(NULL, &iter));
    R(nixl_capi_params_create_iterator(params, NULL));
    assert_ok(nixl_capi_params_create_iterator(params, &iter));
    R(nixl_capi_params_iterator_next(NULL, &text, &other_text, &flag));
    R(nixl_capi_params_iterator_next(iter, NULL, &other_text, &flag));
    R(nixl_capi_params_iterator_next(iter, &text, NULL, &flag));
    R(nixl_capi_params_iterator_next(iter, &text, &other_text, NULL));
    R(nixl_capi_params_destroy_iterator(NULL));
    assert_ok(nixl_capi_params_destroy_iterator(iter));
    assert_ok(nixl_capi_destroy_params(params));
}

static void options(void **state) {
    R(nixl_capi_create_opt_args(NULL));
    R(nixl_capi_destroy_opt_args(NULL));
    assert_ok(nixl_capi_create_opt_args(&args));
    R(nixl_capi_opt_args_add_backend(NULL, backend));
    R(nixl_capi_opt_args_add_backend(args, NULL));
    R(nixl_capi_opt_args_set_notif_msg(NULL, "x", 1));
    R(nixl_capi_opt_args_set_notif_msg(args, NULL, 1));
    R(nixl_capi_opt_args_get_notif_msg(NULL, &data, &size));
    R(nixl_capi_opt_args_get_notif_msg(args, NULL, &size));
    R(nixl_capi_opt_args_get_notif_msg(args, &data, NULL));
    R(nixl_capi_opt_args_set_has_notif(NULL, true));
    R(nixl_capi_opt_args_get_has_notif(NULL, &flag));
    R(nixl_capi_opt_args_get_has_notif(args, NULL));
    R(nixl_capi_opt_args_set_skip_desc_merge(NULL, true));
    R(nixl_capi_opt_args_get_skip_desc_merge(NULL, &flag));
    R(nixl_capi_opt_args_get_skip_desc_merge(args, NULL));
    R(nixl_capi_opt_args_set_ip_addr(NULL, "127.0.0.1"));
    R(nixl_capi_opt_args_set_ip_addr(args, NULL));
    R(nixl_capi_opt_args_set_port(NULL, 1));
    R(nixl_capi_opt_args_set_custom_param(NULL, "x", 1));
    R(nixl_capi_opt_args_set_custom_param(args, NULL, 1));
    R(nixl_capi_opt_args_get_custom_param(NULL, &data, &size));
    R(nixl_capi_opt_args_get_custom_param(args, NULL, &size));
    R(nixl_capi_opt_args_get_custom_param(args, &data, NULL));
    assert_ok(nixl_capi_destroy_opt_args(args));
}

static void descriptor_lists(void **state) {
    nixl_capi_remote_dlist_t slots;

    R(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_DRAM, NULL));
    R(nixl_capi_destroy_xfer_dlist(NULL));
    R(nixl_capi_xfer_dlist_get_type(NULL, &kind));
    R(nixl_capi_xfer_dlist_get_type(xfer, NULL));
    R(nixl_capi_xfer_dlist_add_desc(NULL, 1, 1, 0));
    R(nixl_capi_xfer_dlist_desc_count(NULL, &size));
    R(nixl_capi_xfer_dlist_desc_count(xfer, NULL));
    R(nixl_capi_xfer_dlist_len(NULL, &size));
    R(nixl_capi_xfer_dlist_len(xfer, NULL));
    R(nixl_capi_xfer_dlist_is_empty(NULL, &flag));
    R(nixl_capi_xfer_dlist_is_empty(xfer, NULL));
    R(nixl_capi_xfer_dlist_trim(NULL));
    R(nixl_capi_xfer_dlist_rem_desc(NULL, 0));
    R(nixl_capi_xfer_dlist_clear(NULL));
    R(nixl_capi_xfer_dlist_resize(NULL, 1));
    R(nixl_capi_xfer_dlist_print(NULL));
    R(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_DRAM, NULL));
    R(nixl_capi_destroy_reg_dlist(NULL));
    R(nixl_capi_reg_dlist_get_type(NULL, &kind));
    R(nixl_capi_reg_dlist_get_type(reg, NULL));
    R(nixl_capi_reg_dlist_add_desc(NULL, 1, 1, 0, "x", 1));
    R(nixl_capi_reg_dlist_add_desc(reg, 1, 1, 0, NULL, 1));
    R(nixl_capi_reg_dlist_desc_count(NULL, &size));
    R(nixl_capi_reg_dlist_desc_count(reg, NULL));
    R(nixl_capi_reg_dlist_is_empty(NULL, &flag));
    R(nixl_capi_reg_dlist_is_empty(reg, NULL));
    R(nixl_capi_reg_dlist_trim(NULL));
    R(nixl_capi_reg_dlist_rem_desc(NULL, 0));
    R(nixl_capi_reg_dlist_clear(NULL));
    R(nixl_capi_reg_dlist_resize(NULL, 1));
    R(nixl_capi_reg_dlist_print(NULL));
    R(nixl_capi_create_remote_dlist(NIXL_CAPI_MEM_DRAM, NULL));
    R(nixl_capi_destroy_remote_dlist(NULL));
    R(nixl_capi_remote_dlist_add_desc(NULL, 1, 1, 0, "far"));
    assert_ok(nixl_capi_create_remote_dlist(NIXL_CAPI_MEM_DRAM, &slots));
    assert_ok(nixl_capi_destroy_remote_dlist(slots));
}

static void memory(void **state) {
    nixl_capi_query_resp_list_t answers;
    nixl_capi_remote_dlist_t slots;
    nixl_capi_mem_view_t view;

    R(nixl_capi_register_mem(NULL, reg, NULL));
    R(nixl_capi_register_mem(agent, NULL, NULL));
    R(nixl_capi_deregister_mem(NULL, reg, NULL));
    R(nixl_capi_deregister_mem(agent, NULL, NULL));
    R(nixl_capi_create_query_resp_list(NULL));
    R(nixl_capi_destroy_query_resp_list(NULL));
    assert_ok(nixl_capi_create_query_resp_list(&answers));
    R(nixl_capi_query_mem(NULL, reg, answers, NULL));
    R(nixl_capi_query_mem(agent, NULL, answers, NULL));
    R(nixl_capi_query_mem(agent, reg, NULL, NULL));
    R(nixl_capi_query_resp_list_size(NULL, &size));
    R(nixl_capi_query_resp_list_size(answers, NULL));
    R(nixl_capi_query_resp_list_has_value(NULL, 0, &flag));
    R(nixl_capi_query_resp_list_has_value(answers, 0, NULL));
    R(nixl_capi_query_resp_list_get_params(NULL, 0, &params));
    R(nixl_capi_query_resp_list_get_params(answers, 0, NULL));
    assert_ok(nixl_capi_destroy_query_resp_list(answers));
    assert_ok(nixl_capi_create_remote_dlist(NIXL_CAPI_MEM_DRAM, &slots));
    R(nixl_capi_prep_mem_view_local(NULL, xfer, &view, NULL));
    R(nixl_capi_prep_mem_view_local(agent, NULL, &view, NULL));
    R(nixl_capi_prep_mem_view_local(agent, xfer, NULL, NULL));
    R(nixl_capi_prep_mem_view_remote(NULL, slots, &view, NULL));
    R(nixl_capi_prep_mem_view_remote(agent, NULL, &view, NULL));
    R(nixl_capi_prep_mem_view_remote(agent, slots, NULL, NULL));
    R(nixl_capi_release_mem_view(NULL, (nixl_capi_mem_view_t)slots));
    R(nixl_capi_release_mem_view(agent, NULL));
    assert_ok(nixl_capi_destroy_remote_dlist(slots));
}

static void transfers(void **state) {
    struct pair *pair = *state;
    struct nixl_capi_xfer_telemetry_s times;
    nixl_capi_xfer_dlist_handle_t remote;
    const int index = 0;
    nixl_capi_cost_t method;
    nixl_capi_backend_t found;
    int64_t a, b;

    R(nixl_capi_prep_xfer_dlist(NULL, "", xfer, &handle, NULL));
    R(nixl_capi_prep_xfer_dlist(agent, NULL, xfer, &handle, NULL));
    R(nixl_capi_prep_xfer_dlist(agent, "", NULL, &handle, NULL));
    R(nixl_capi_prep_xfer_dlist(agent, "", xfer, NULL, NULL));
    assert_ok(nixl_capi_prep_xfer_dlist(agent, "", xfer, &handle, NULL));
    assert_ok(nixl_capi_prep_xfer_dlist(agent, "far", pair->far_list, &remote, NULL));
#define MAKE nixl_capi_make_xfer_req
    R(MAKE(NULL, NIXL_CAPI_XFER_OP_READ, handle, &index, 1, remote, &index, 1, &req, NULL));
    R(MAKE(agent, NIXL_CAPI_XFER_OP_READ, NULL, &index, 1, remote, &index, 1, &req, NULL));
    R(MAKE(agent, NIXL_CAPI_XFER_OP_READ, handle, NULL, 1, remote, &index, 1, &req, NULL));
    R(MAKE(agent, NIXL_CAPI_XFER_OP_READ, handle, &index, 1, NULL, &index, 1, &req, NULL));
    R(MAKE(agent, NIXL_CAPI_XFER_OP_READ, handle, &index, 1, remote, NULL, 1, &req, NULL));
    R(MAKE(agent, NIXL_CAPI_XFER_OP_READ, handle, &index, 1, remote, &index, 1, NULL, NULL));
#undef MAKE
    R(nixl_capi_release_xfer_dlist_handle(NULL, handle));
    R(nixl_capi_release_xfer_dlist_handle(agent, NULL));
    assert_ok(nixl_capi_release_xfer_dlist_handle(agent, handle));
    assert_ok(nixl_capi_release_xfer_dlist_handle(agent, remote));

    R(nixl_capi_create_xfer_req(NULL, NIXL_CAPI_XFER_OP_READ, xfer, pair->far_list, "far", &req, NULL));
    R(nixl_capi_create_xfer_req(agent, NIXL_CAPI_XFER_OP_READ, NULL, pair->far_list, "far", &req, NULL));
    R(nixl_capi_create_xfer_req(agent, NIXL_CAPI_XFER_OP_READ, xfer, NULL, "far", &req, NULL));
    R(nixl_capi_create_xfer_req(agent, NIXL_CAPI_XFER_OP_READ, xfer, pair->far_list, NULL, &req, NULL));
    R(nixl_capi_create_xfer_req(agent, NIXL_CAPI_XFER_OP_READ, xfer, pair->far_list, "far", NULL, NULL));
    assert_ok(
        nixl_capi_create_xfer_req(agent, NIXL_CAPI_XFER_OP_READ, xfer, pair->far_list, "far", &req, NULL));
    R(nixl_capi_estimate_xfer_cost(NULL, req, NULL, &a, &b, &method));
    R(nixl_capi_estimate_xfer_cost(agent, NULL, NULL, &a, &b, &method));
    R(nixl_capi_estimate_xfer_cost(agent, req, NULL, NULL, &b, &method));
    R(nixl_capi_estimate_xfer_cost(agent, req, NULL, &a, NULL, &method));
    R(nixl_capi_estimate_xfer_cost(agent, req, NULL, &a, &b, NULL));
    R(nixl_capi_post_xfer_req(NULL, req, NULL));
    R(nixl_capi_post_xfer_req(agent, NULL, NULL));
    R(nixl_capi_get_xfer_status(NULL, req));
    R(nixl_capi_get_xfer_status(agent, NULL));
    R(nixl_capi_get_xfer_telemetry(NULL, req, &times));
    R(nixl_capi_get_xfer_telemetry(agent, NULL, &times));
    R(nixl_capi_get_xfer_telemetry(agent, req, NULL));
    R(nixl_capi_query_xfer_backend(NULL, req, &found));
    R(nixl_capi_query_xfer_backend(agent, NULL, &found));
    R(nixl_capi_query_xfer_backend(agent, req, NULL));
    R(nixl_capi_release_xfer_req(NULL, req));
    R(nixl_capi_release_xfer_req(agent, NULL));
    R(nixl_capi_destroy_xfer_req(NULL));
    assert_ok(nixl_capi_release_xfer_req(agent, req));
    assert_ok(nixl_capi_destroy_xfer_req(req));
}

static void notifications(void **state) {
    nixl_capi_notif_map_t map;

    R(nixl_capi_create_notif_map(NULL));
    R(nixl_capi_destroy_notif_map(NULL));
    assert_ok(nixl_capi_create_notif_map(&map));
    R(nixl_capi_gen_notif(NULL, "far", "x", 1, NULL));
    R(nixl_capi_gen_notif(agent, NULL, "x", 1, NULL));
    R(nixl_capi_gen_notif(agent, "far", NULL, 1, NULL));
    R(nixl_capi_get_notifs(NULL, map, NULL));
    R(nixl_capi_get_notifs(agent, NULL, NULL));
    R(nixl_capi_notif_map_size(NULL, &size));
    R(nixl_capi_notif_map_size(map, NULL));
    R(nixl_capi_notif_map_get_agent_at(NULL, 0, &text));
    R(nixl_capi_notif_map_get_agent_at(map, 0, NULL));
    R(nixl_capi_notif_map_get_notifs_size(NULL, "a", &size));
    R(nixl_capi_notif_map_get_notifs_size(map, NULL, &size));
    R(nixl_capi_notif_map_get_notifs_size(map, "a", NULL));
    R(nixl_capi_notif_map_get_notif(NULL, "a", 0, &bytes, &size));
    R(nixl_capi_notif_map_get_notif(map, NULL, 0, &bytes, &size));
    R(nixl_capi_notif_map_get_notif(map, "a", 0, NULL, &size));
    R(nixl_capi_notif_map_get_notif(map, "a", 0, &bytes, NULL));
    R(nixl_capi_notif_map_clear(NULL));
    assert_ok(nixl_capi_destroy_notif_map(map));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_and_agents),
        cmocka_unit_test(metadata),
        cmocka_unit_test(plugins_and_backends),
        cmocka_unit_test(parameters),
        cmocka_unit_test(options),
        cmocka_unit_test(descriptor_lists),
        cmocka_unit_test(memory),
        cmocka_unit_test(transfers),
        cmocka_unit_test(notifications),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
