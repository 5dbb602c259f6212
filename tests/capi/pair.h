/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair.h - two agents of one process that know each other through the MOCK backend, built with <nixl/capi.h> alone:
 * "near" holds `near_bytes` registered, "far" holds `far_bytes`, and near has far's metadata. Include after cmocka.h.
 */
#ifndef NIXL_TESTS_CAPI_PAIR_H
#define NIXL_TESTS_CAPI_PAIR_H

#include <nixl/capi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAIR_BYTES 4096

#define assert_ok(call) assert_int_equal((call), NIXL_CAPI_SUCCESS)
#define assert_invalid(call) assert_int_equal((call), NIXL_CAPI_ERROR_INVALID_PARAM)
#define assert_backend(call) assert_int_equal((call), NIXL_CAPI_ERROR_BACKEND)

struct pair {
    nixl_capi_agent_t near, far;
    nixl_capi_backend_t near_backend, far_backend;
    unsigned char near_bytes[PAIR_BYTES], far_bytes[PAIR_BYTES];
    nixl_capi_reg_dlist_t near_reg, far_reg;
    nixl_capi_xfer_dlist_t near_list, far_list; /* all bytes in one descriptor */
};

static inline nixl_capi_backend_t pair_backend(nixl_capi_agent_t agent, const char *type) {
    nixl_capi_params_t params;
    nixl_capi_backend_t backend;

    assert_ok(nixl_capi_create_params(&params));
    assert_ok(nixl_capi_create_backend(agent, type, params, &backend));
    assert_ok(nixl_capi_destroy_params(params));
    return backend;
}

static inline void pair_know(nixl_capi_agent_t who, nixl_capi_agent_t whom, const char *name) {
    void *blob;
    size_t len;
    char *loaded;

    assert_ok(nixl_capi_get_local_md(whom, &blob, &len));
    assert_true(len > 0);
    assert_ok(nixl_capi_load_remote_md(who, blob, len, &loaded));
    assert_string_equal(loaded, name);
    nixl_capi_mem_free(loaded);
    nixl_capi_mem_free(blob);
}

static inline struct pair *pair_make(bool telemetry) {
    nixl_capi_agent_config_t config = {true, false, 0, NIXL_CAPI_THREAD_SYNC_NONE, 1, 0, 100000, telemetry};
    struct pair *pair = calloc(1, sizeof *pair);

    assert_non_null(pair);
    assert_ok(nixl_capi_create_configured_agent("near", &config, &pair->near));
    assert_ok(nixl_capi_create_configured_agent("far", &config, &pair->far));
    pair->near_backend = pair_backend(pair->near, "MOCK");
    pair->far_backend = pair_backend(pair->far, "MOCK");
    for (size_t i = 0; i < PAIR_BYTES; i++) {
        pair->near_bytes[i] = (unsigned char)(i * 7 + 1);
    }
    assert_ok(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_DRAM, &pair->near_reg));
    assert_ok(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_DRAM, &pair->far_reg));
    assert_ok(
        nixl_capi_reg_dlist_add_desc(pair->near_reg, (uintptr_t)pair->near_bytes, PAIR_BYTES, 0, NULL, 0));
    assert_ok(
        nixl_capi_reg_dlist_add_desc(pair->far_reg, (uintptr_t)pair->far_bytes, PAIR_BYTES, 0, NULL, 0));
    assert_ok(nixl_capi_register_mem(pair->near, pair->near_reg, NULL));
    assert_ok(nixl_capi_register_mem(pair->far, pair->far_reg, NULL));
    assert_ok(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_DRAM, &pair->near_list));
    assert_ok(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_DRAM, &pair->far_list));
    assert_ok(nixl_capi_xfer_dlist_add_desc(pair->near_list, (uintptr_t)pair->near_bytes, PAIR_BYTES, 0));
    assert_ok(nixl_capi_xfer_dlist_add_desc(pair->far_list, (uintptr_t)pair->far_bytes, PAIR_BYTES, 0));
    pair_know(pair->near, pair->far, "far");
    return pair;
}

static inline void pair_end(struct pair *pair) {
    assert_ok(nixl_capi_destroy_xfer_dlist(pair->near_list));
    assert_ok(nixl_capi_destroy_xfer_dlist(pair->far_list));
    assert_ok(nixl_capi_destroy_reg_dlist(pair->near_reg));
    assert_ok(nixl_capi_destroy_reg_dlist(pair->far_reg));
    assert_ok(nixl_capi_destroy_agent(pair->near));
    assert_ok(nixl_capi_destroy_agent(pair->far));
    assert_ok(nixl_capi_destroy_backend(pair->near_backend));
    assert_ok(nixl_capi_destroy_backend(pair->far_backend));
    free(pair);
}

/* Polls until a posted request ends, at most 20 s. */
static inline nixl_capi_status_t pair_wait(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req) {
    const struct timespec pause = {0, 100000};
    nixl_capi_status_t status = NIXL_CAPI_IN_PROG;

    for (int tries = 0; tries < 200000 && status == NIXL_CAPI_IN_PROG; tries++) {
        status = nixl_capi_get_xfer_status(agent, req);
        if (status == NIXL_CAPI_IN_PROG) {
            nanosleep(&pause, NULL);
        }
    }
    return status;
}

/* Posts a request and waits until it ends. */
static inline nixl_capi_status_t pair_run(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req,
                                          nixl_capi_opt_args_t args) {
    nixl_capi_status_t status = nixl_capi_post_xfer_req(agent, req, args);

    return status == NIXL_CAPI_IN_PROG ? pair_wait(agent, req) : status;
}

/* Takes notifications until `count` of `agent` are there, at most 20 s. */
static inline size_t pair_notifs(nixl_capi_agent_t agent, nixl_capi_notif_map_t map, const char *from,
                                 size_t count) {
    const struct timespec pause = {0, 100000};
    size_t have = 0;

    for (int tries = 0; tries < 200000; tries++) {
        assert_ok(nixl_capi_get_notifs(agent, map, NULL));
        if (nixl_capi_notif_map_get_notifs_size(map, from, &have) == NIXL_CAPI_SUCCESS && have >= count) {
            break;
        }
        nanosleep(&pause, NULL);
    }
    return have;
}

#endif
