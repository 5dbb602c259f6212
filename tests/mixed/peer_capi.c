/* SPDX-License-Identifier: Apache-2.0 */
/* The agent of README.md, written with <nixl/capi.h>. */
#include "files.h"

#include <inttypes.h>
#include <nixl/capi.h>

static unsigned char inbox[mixed_agents][mixed_bytes], source[mixed_bytes], read_back[mixed_bytes];
static unsigned char blob[1 << 20];

static void check(nixl_capi_status_t status, const char *what) {
    if (status != NIXL_CAPI_SUCCESS) {
        mixed_fail(what, nixl_capi_last_error());
    }
}

static nixl_capi_xfer_dlist_t list_of(uintptr_t addr) {
    nixl_capi_xfer_dlist_t list;

    check(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_DRAM, &list), "list");
    check(nixl_capi_xfer_dlist_add_desc(list, addr, mixed_bytes, 0), "list");
    return list;
}

static void transfer(nixl_capi_agent_t agent, nixl_capi_xfer_op_t op, const void *local, uintptr_t remote,
                     const char *peer, const char *notif) {
    nixl_capi_xfer_dlist_t here = list_of((uintptr_t)local), there = list_of(remote);
    nixl_capi_opt_args_t args;
    nixl_capi_xfer_req_t req;
    nixl_capi_status_t status;

    check(nixl_capi_create_opt_args(&args), "options");
    if (notif) {
        check(nixl_capi_opt_args_set_notif_msg(args, notif, strlen(notif)), "notification");
        check(nixl_capi_opt_args_set_has_notif(args, true), "notification");
    }
    check(nixl_capi_create_xfer_req(agent, op, here, there, peer, &req, args), peer);
    status = nixl_capi_post_xfer_req(agent, req, NULL);
    for (int tries = 0; tries < 200000 && status == NIXL_CAPI_IN_PROG; tries++) {
        usleep(100);
        status = nixl_capi_get_xfer_status(agent, req);
    }
    check(status, peer);
    check(nixl_capi_release_xfer_req(agent, req), peer);
    check(nixl_capi_destroy_xfer_req(req), peer);
    check(nixl_capi_destroy_opt_args(args), peer);
    check(nixl_capi_destroy_xfer_dlist(here), peer);
    check(nixl_capi_destroy_xfer_dlist(there), peer);
}

int main(int argc, char **argv) {
    const struct mixed mixed = mixed_arguments(argc, argv);
    nixl_capi_agent_t agent;
    nixl_capi_backend_t ucx;
    nixl_capi_params_t params;
    nixl_capi_reg_dlist_t memory;
    nixl_capi_notif_map_t map;
    uintptr_t at[2];
    char text[128], *loaded;
    void *own;
    size_t len, came = 0;

    memset(source, 'A' + mixed.self, sizeof source);
    check(nixl_capi_create_agent(mixed.name, &agent), "agent");
    check(nixl_capi_create_params(&params), "parameters");
    check(nixl_capi_create_backend(agent, "UCX", params, &ucx), "UCX");
    check(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_DRAM, &memory), "list");
    check(nixl_capi_reg_dlist_add_desc(memory, (uintptr_t)inbox, sizeof inbox, 0, NULL, 0), "inbox");
    check(nixl_capi_reg_dlist_add_desc(memory, (uintptr_t)source, sizeof source, 0, NULL, 0), "source");
    check(nixl_capi_reg_dlist_add_desc(memory, (uintptr_t)read_back, sizeof read_back, 0, NULL, 0),
          "read back");
    check(nixl_capi_register_mem(agent, memory, NULL), "register");
    check(nixl_capi_get_local_md(agent, &own, &len), "metadata");
    mixed_put(&mixed, "md", own, len);
    nixl_capi_mem_free(own);
    len = (size_t)snprintf(text, sizeof text, "%" PRIuPTR " %" PRIuPTR, (uintptr_t)inbox, (uintptr_t)source);
    mixed_put(&mixed, "at", text, len);
    for (int i = 0; i < mixed.count; i++) {
        if (i == mixed.self) {
            continue;
        }
        len = mixed_get(&mixed, mixed.names[i], "md", blob, sizeof blob);
        check(nixl_capi_load_remote_md(agent, blob, len, &loaded), mixed.names[i]);
        nixl_capi_mem_free(loaded);
        text[mixed_get(&mixed, mixed.names[i], "at", text, sizeof text - 1)] = '\0';
        if (sscanf(text, "%" SCNuPTR " %" SCNuPTR, &at[0], &at[1]) != 2) {
            mixed_fail(mixed.names[i], "gives no addresses");
        }
        transfer(agent, NIXL_CAPI_XFER_OP_READ, read_back, at[1], mixed.names[i], NULL);
        mixed_compare(&mixed, i, read_back, "read of");
        transfer(agent, NIXL_CAPI_XFER_OP_WRITE, source, at[0] + (uintptr_t)mixed.self * mixed_bytes,
                 mixed.names[i], mixed.name);
    }
    check(nixl_capi_create_notif_map(&map), "map");
    for (int tries = 0; tries < 3000 && came < (size_t)mixed.count - 1; tries++) {
        check(nixl_capi_get_notifs(agent, map, NULL), "notifications");
        check(nixl_capi_notif_map_size(map, &came), "map");
        usleep(10000);
    }
    if (came != (size_t)mixed.count - 1) {
        mixed_fail(mixed.name, "notifications are missing");
    }
    for (int i = 0; i < mixed.count; i++) {
        if (i != mixed.self) {
            mixed_compare(&mixed, i, inbox[i], "inbox of");
        }
    }
    mixed_put(&mixed, "done", "", 0);
    for (int i = 0; i < mixed.count; i++) {
        mixed_get(&mixed, mixed.names[i], "done", text, sizeof text);
    }
    check(nixl_capi_destroy_notif_map(map), "end");
    check(nixl_capi_destroy_reg_dlist(memory), "end");
    check(nixl_capi_destroy_params(params), "end");
    check(nixl_capi_destroy_backend(ucx), "end");
    check(nixl_capi_destroy_agent(agent), "end");
    return 0;
}
