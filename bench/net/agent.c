/* SPDX-License-Identifier: Apache-2.0 */
/* The library that bench-net measures: NIXL by its own interface. */
#include "net.h"

#include <nixl/nixl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct agent {
    struct nixl_agent *agent;
    struct nixl_backend *ucx;
};

static void check(nixl_status_t status, const char *what) {
    if (status != NIXL_SUCCESS) {
        stop_with(what);
    }
}

const char *agent_error(void) {
    return nixl_error();
}

struct agent *agent_open(const char *name, bool has_thread) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct agent *agent = calloc(1, sizeof *agent);
    const char *given = getenv("BENCH_NET_PARAMS");
    struct nixl_param params[4];
    char words[256];
    size_t count = 0;

    (void)snprintf(words, sizeof words, "%s", given != NULL ? given : "");
    if (agent == NULL) {
        stop_with("memory");
    }
    config.progress_thread = has_thread;
    for (char *word = strtok(words, " "); word != NULL && count < 4; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');

        if (value == NULL) {
            stop_with("BENCH_NET_PARAMS");
        }
        *value = '\0';
        params[count++] = (struct nixl_param){word, value + 1};
    }
    check(nixl_agent_create(name, &config, &agent->agent), "the agent");
    check(nixl_backend_create(agent->agent, "UCX", params, count, &agent->ucx), "the backend");
    return agent;
}

void agent_close(struct agent *agent) {
    (void)nixl_agent_destroy(agent->agent);
    free(agent);
}

void agent_register(struct agent *agent, void *at, size_t len) {
    struct nixl_desc desc = {(uintptr_t)at, len, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    check(nixl_mem_register(agent->agent, &list, NULL), "registering");
}

void *agent_blob(struct agent *agent, size_t *len) {
    void *blob = NULL, *copy;

    check(nixl_metadata_get(agent->agent, &blob, len), "metadata");
    copy = malloc(*len);
    if (copy == NULL) {
        stop_with("memory");
    }
    memcpy(copy, blob, *len);
    nixl_free(blob);
    return copy;
}

void agent_load(struct agent *agent, const void *blob, size_t len) {
    check(nixl_metadata_load(agent->agent, blob, len, NULL), "loading metadata");
}

static struct nixl_xfer *ours(struct xfer *xfer) {
    return (struct nixl_xfer *)xfer;
}

struct xfer *agent_xfer(struct agent *agent, const char *peer, bool is_write, const struct block *blocks,
                        size_t count, uint64_t len, bool notif) {
    struct nixl_desc *here = calloc(count, sizeof *here), *there = calloc(count, sizeof *there);
    struct nixl_list local = NIXL_LIST(DRAM_SEG, here, count), remote = NIXL_LIST(DRAM_SEG, there, count);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer = NULL;

    if (here == NULL || there == NULL) {
        stop_with("memory");
    }
    for (size_t i = 0; i < count; i++) {
        here[i] = (struct nixl_desc){blocks[i].local, len, 0};
        there[i] = (struct nixl_desc){blocks[i].remote, len, 0};
    }
    options.has_notif = notif;
    options.notif = "bench";
    options.notif_len = notif ? 5 : 0;
    check(nixl_xfer_create(agent->agent, is_write ? NIXL_WRITE : NIXL_READ, &local, &remote, peer, &options,
                           &xfer),
          "making a request");
    free(here);
    free(there);
    return (struct xfer *)xfer;
}

void agent_xfer_free(struct agent *agent, struct xfer *xfer) {
    (void)agent;
    (void)nixl_xfer_release(ours(xfer));
}

static bool is_under_way(nixl_status_t status) {
    if (status < 0) {
        stop_with("a transfer");
    }
    return status == NIXL_IN_PROG;
}

bool agent_post(struct agent *agent, struct xfer *xfer) {
    (void)agent;
    return is_under_way(nixl_xfer_post(ours(xfer), NULL));
}

bool agent_poll(struct agent *agent, struct xfer *xfer) {
    (void)agent;
    return is_under_way(nixl_xfer_poll(ours(xfer)));
}

void agent_notify(struct agent *agent, const char *peer) {
    check(nixl_notif_send(agent->agent, peer, "bench", 5, NULL), "a notification");
}

size_t agent_notified(struct agent *agent) {
    struct nixl_notifs *notifs = NULL;
    size_t count;

    check(nixl_notif_take(agent->agent, NULL, &notifs), "taking notifications");
    count = notifs != NULL ? notifs->count : 0;
    nixl_notifs_release(notifs);
    return count;
}

void agent_progress(struct agent *agent) {
    (void)nixl_agent_progress(agent->agent);
}

const char *agent_backend(struct agent *agent) {
    return nixl_backend_description(agent->ucx);
}

const char *agent_transport(struct agent *agent, struct xfer *xfer) {
    (void)agent;
    return nixl_xfer_transport(ours(xfer));
}
