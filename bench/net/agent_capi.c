/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library that bench-net-capi measures: whatever libnixl_capi.so the loader finds, the reference's for one. Calls go through
 * the stub library, so nothing of it is needed where this is built.
 */
#include "net.h"

#include <nixl/capi.h>

#include <stdlib.h>
#include <string.h>

struct agent {
    nixl_capi_agent_t agent;
    nixl_capi_backend_t ucx;
    nixl_capi_notif_map_t notifs;
    size_t early; /* came while progress was made */
};

static void check(nixl_capi_status_t status, const char *what) {
    if (status != NIXL_CAPI_SUCCESS) {
        stop_with(what);
    }
}

/* Only ours has words. */
const char *agent_error(void) {
    return nixl_capi_is_stub() ? nixl_capi_last_error() : "the library gives no reason";
}

struct agent *agent_open(const char *name, bool has_thread) {
    /* As the reference's Python sets it: a thread that never pauses. */
    nixl_capi_agent_config_t config = {.enable_prog_thread = has_thread,
                                       .thread_sync = NIXL_CAPI_THREAD_SYNC_NONE,
                                       .num_workers = 1,
                                       .lthr_delay_us = 100000};
    struct agent *agent = calloc(1, sizeof *agent);
    nixl_capi_params_t params = NULL;

    if (agent == NULL) {
        stop_with("memory");
    }
    check(nixl_capi_create_configured_agent(name, &config, &agent->agent), "the agent");
    check(nixl_capi_create_params(&params), "parameters");
    check(nixl_capi_create_backend(agent->agent, "UCX", params, &agent->ucx), "the backend");
    check(nixl_capi_create_notif_map(&agent->notifs), "notifications");
    (void)nixl_capi_destroy_params(params);
    return agent;
}

void agent_close(struct agent *agent) {
    (void)nixl_capi_destroy_notif_map(agent->notifs);
    (void)nixl_capi_destroy_backend(agent->ucx);
    (void)nixl_capi_destroy_agent(agent->agent);
    free(agent);
}

void agent_register(struct agent *agent, void *at, size_t len) {
    nixl_capi_reg_dlist_t list = NULL;

    check(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_DRAM, &list), "a list");
    check(nixl_capi_reg_dlist_add_desc(list, (uintptr_t)at, len, 0, NULL, 0), "a list");
    check(nixl_capi_register_mem(agent->agent, list, NULL), "registering");
    (void)nixl_capi_destroy_reg_dlist(list);
}

void *agent_blob(struct agent *agent, size_t *len) {
    void *blob = NULL;

    check(nixl_capi_get_local_md(agent->agent, &blob, len), "metadata");
    return blob;
}

void agent_load(struct agent *agent, const void *blob, size_t len) {
    char *name = NULL;

    check(nixl_capi_load_remote_md(agent->agent, blob, len, &name), "loading metadata");
}

static nixl_capi_xfer_req_t theirs(struct xfer *xfer) {
    return (nixl_capi_xfer_req_t)xfer;
}

struct xfer *agent_xfer(struct agent *agent, const char *peer, bool is_write, const struct block *blocks,
                        size_t count, uint64_t len, bool notif) {
    nixl_capi_xfer_dlist_t local = NULL, remote = NULL;
    nixl_capi_opt_args_t options = NULL;
    nixl_capi_xfer_req_t request = NULL;

    check(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_DRAM, &local), "a list");
    check(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_DRAM, &remote), "a list");
    for (size_t i = 0; i < count; i++) {
        check(nixl_capi_xfer_dlist_add_desc(local, blocks[i].local, len, 0), "a list");
        check(nixl_capi_xfer_dlist_add_desc(remote, blocks[i].remote, len, 0), "a list");
    }
    check(nixl_capi_create_opt_args(&options), "options");
    if (notif) {
        check(nixl_capi_opt_args_set_notif_msg(options, "bench", 5), "options");
        check(nixl_capi_opt_args_set_has_notif(options, true), "options");
    }
    check(nixl_capi_create_xfer_req(agent->agent, is_write ? NIXL_CAPI_XFER_OP_WRITE : NIXL_CAPI_XFER_OP_READ,
                                    local, remote, peer, &request, options),
          "making a request");
    (void)nixl_capi_destroy_opt_args(options);
    (void)nixl_capi_destroy_xfer_dlist(local);
    (void)nixl_capi_destroy_xfer_dlist(remote);
    return (struct xfer *)request;
}

void agent_xfer_free(struct agent *agent, struct xfer *xfer) {
    (void)nixl_capi_release_xfer_req(agent->agent, theirs(xfer));
    (void)nixl_capi_destroy_xfer_req(theirs(xfer));
}

static bool is_under_way(nixl_capi_status_t status) {
    if (status != NIXL_CAPI_SUCCESS && status != NIXL_CAPI_IN_PROG) {
        stop_with("a transfer");
    }
    return status == NIXL_CAPI_IN_PROG;
}

bool agent_post(struct agent *agent, struct xfer *xfer) {
    return is_under_way(nixl_capi_post_xfer_req(agent->agent, theirs(xfer), NULL));
}

bool agent_poll(struct agent *agent, struct xfer *xfer) {
    return is_under_way(nixl_capi_get_xfer_status(agent->agent, theirs(xfer)));
}

void agent_notify(struct agent *agent, const char *peer) {
    check(nixl_capi_gen_notif(agent->agent, peer, "bench", 5, NULL), "a notification");
}

size_t agent_notified(struct agent *agent) {
    const char *name = NULL;
    size_t agents = 0, count = 0, all = agent->early;

    agent->early = 0;
    check(nixl_capi_get_notifs(agent->agent, agent->notifs, NULL), "taking notifications");
    check(nixl_capi_notif_map_size(agent->notifs, &agents), "taking notifications");
    for (size_t i = 0; i < agents; i++) {
        check(nixl_capi_notif_map_get_agent_at(agent->notifs, i, &name), "taking notifications");
        check(nixl_capi_notif_map_get_notifs_size(agent->notifs, name, &count), "taking notifications");
        all += count;
    }
    if (agents > 0) {
        check(nixl_capi_notif_map_clear(agent->notifs), "taking notifications");
    }
    return all;
}

/* There is no other way. */
void agent_progress(struct agent *agent) {
    agent->early = agent_notified(agent);
}

const char *agent_backend(struct agent *agent) {
    (void)agent;
    return "";
}

const char *agent_transport(struct agent *agent, struct xfer *xfer) {
    (void)agent;
    (void)xfer;
    return "";
}
