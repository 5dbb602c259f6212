/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend that moves nothing and says that it did: every post is done at once. What is left is the cost of
 * the library itself, which bench-core measures. Registers any address without touching it.
 */
#include <nixl/backend.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef NOOP_NAME
#define NOOP_NAME "NOOP"
#endif

struct noop {
    const struct nixl_host *host;
    char conn[64];
    size_t conn_len;
};

/* What others get of a region: enough for a key to be looked at. */
struct noop_key {
    uint64_t addr, len;
};

static nixl_status_t noop_open(const struct nixl_host *host, const void *options,
                               struct nixl_instance *instance, void **self) {
    struct noop *noop = calloc(1, sizeof *noop);
    size_t len = strlen(host->agent);

    (void)options;
    (void)instance;
    if (noop == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "out of memory");
    }
    noop->host = host;
    if (len > sizeof noop->conn - 5) {
        len = sizeof noop->conn - 5;
    }
    memcpy(noop->conn, "noop:", 5);
    memcpy(noop->conn + 5, host->agent, len);
    noop->conn_len = 5 + len;
    *self = noop;
    return NIXL_SUCCESS;
}

static void noop_close(void *self) {
    free(self);
}

static nixl_status_t noop_region_open(void *self, nixl_mem_t mem, const struct nixl_meta_desc *desc,
                                      void **region) {
    const struct noop *noop = self;
    struct noop_key *key = malloc(sizeof *key);

    (void)mem;
    if (key == NULL) {
        return noop->host->fail(noop->host->ctx, NIXL_ERR_BACKEND, "out of memory");
    }
    key->addr = desc->addr;
    key->len = desc->len;
    *region = key;
    return NIXL_SUCCESS;
}

static void noop_region_close(void *self, void *region) {
    (void)self;
    free(region);
}

static nixl_status_t noop_region_key(void *self, void *region, const void **key, size_t *len) {
    (void)self;
    *key = region;
    *len = sizeof(struct noop_key);
    return NIXL_SUCCESS;
}

static nixl_status_t noop_conn_info(void *self, const void **conn, size_t *len) {
    const struct noop *noop = self;

    *conn = noop->conn;
    *len = noop->conn_len;
    return NIXL_SUCCESS;
}

static nixl_status_t noop_peer_open(void *self, const char *name, void *token, const void *conn,
                                    size_t conn_len, const void *note, size_t note_len, void **peer) {
    const struct noop *noop = self;

    (void)name;
    (void)token;
    (void)note;
    (void)note_len;
    if (conn_len < 5 || memcmp(conn, "noop:", 5) != 0) {
        return noop->host->fail(noop->host->ctx, NIXL_ERR_MISMATCH,
                                "the connection bytes are not of this backend");
    }
    *peer = self; /* there is nothing to keep of a peer, but a peer is not NULL */
    return NIXL_SUCCESS;
}

static void noop_peer_close(void *self, void *peer) {
    (void)self;
    (void)peer;
}

static nixl_status_t noop_key_open(void *self, void *peer, nixl_mem_t mem, const struct nixl_desc *desc,
                                   const void *bytes, size_t len, void **key) {
    const struct noop *noop = self;

    (void)peer;
    (void)mem;
    (void)desc;
    if (len != sizeof(struct noop_key)) {
        return noop->host->fail(noop->host->ctx, NIXL_ERR_MISMATCH, "a key has %zu bytes, not %zu", len,
                                sizeof(struct noop_key));
    }
    (void)bytes;
    *key = self; /* likewise */
    return NIXL_SUCCESS;
}

static void noop_key_close(void *self, void *peer, void *key) {
    (void)self;
    (void)peer;
    (void)key;
}

static nixl_status_t noop_post(void *self, struct nixl_request *request) {
    (void)self;
    request->done_bytes = request->total_bytes;
    return NIXL_SUCCESS;
}

static void noop_cancel(void *self, struct nixl_request *request, enum nixl_cancel how) {
    (void)self;
    (void)request;
    (void)how;
}

static nixl_status_t noop_notify(void *self, void *peer, const void *msg, size_t len) {
    (void)self;
    (void)peer;
    (void)msg;
    (void)len;
    return NIXL_SUCCESS;
}

static const struct nixl_backend_ops noop_ops = {
    .abi = NIXL_BACKEND_ABI,
    .size = sizeof(struct nixl_backend_ops),
    .name = NOOP_NAME,
    .version = "1.0",
    .summary = "moves nothing, for measuring what the library itself costs (tests only)",
    .mems = NIXL_MEM_BIT(DRAM_SEG) | NIXL_MEM_BIT(VRAM_SEG) | NIXL_MEM_BIT(BLK_SEG) | NIXL_MEM_BIT(OBJ_SEG) |
            NIXL_MEM_BIT(FILE_SEG),
    .caps = NIXL_CAP_REMOTE | NIXL_CAP_LOCAL | NIXL_CAP_NOTIF,
    .rank = NIXL_RANK_STORAGE + 100,
    .open = noop_open,
    .close = noop_close,
    .region_open = noop_region_open,
    .region_close = noop_region_close,
    .region_key = noop_region_key,
    .conn_info = noop_conn_info,
    .peer_open = noop_peer_open,
    .peer_close = noop_peer_close,
    .key_open = noop_key_open,
    .key_close = noop_key_close,
    .post = noop_post,
    .cancel = noop_cancel,
    .notify = noop_notify,
};

const struct nixl_backend_ops *nixl_backend_v1(void) {
    return &noop_ops;
}
