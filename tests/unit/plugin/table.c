/* SPDX-License-Identifier: Apache-2.0 */
/* A table that passes every check. Its operations have the right types and are never called. */
#include "unit/plugin/table.h"

#include <stddef.h>
#include <stdlib.h>

static nixl_status_t on_open(const struct nixl_host *host, const void *options,
                             struct nixl_instance *instance, void **self) {
    abort();
}

static void on_close(void *self) {
    abort();
}

static nixl_status_t on_region_open(void *self, nixl_mem_t mem, const struct nixl_meta_desc *desc,
                                    void **region) {
    abort();
}

static nixl_status_t on_bytes(void *self, const void **bytes, size_t *len) {
    abort();
}

static nixl_status_t on_region_key(void *self, void *region, const void **key, size_t *len) {
    abort();
}

static void on_two(void *self, void *other) {
    abort();
}

static nixl_status_t on_peer_open(void *self, const char *name, void *token, const void *conn,
                                  size_t conn_len, const void *note, size_t note_len, void **peer) {
    abort();
}

static nixl_status_t on_key_open(void *self, void *peer, nixl_mem_t mem, const struct nixl_desc *desc,
                                 const void *bytes, size_t len, void **key) {
    abort();
}

static void on_key_close(void *self, void *peer, void *key) {
    abort();
}

static nixl_status_t on_post(void *self, struct nixl_request *request) {
    abort();
}

static void on_cancel(void *self, struct nixl_request *request, enum nixl_cancel how) {
    abort();
}

static nixl_status_t on_notify(void *self, void *peer, const void *msg, size_t len) {
    abort();
}

struct nixl_option table_option_list[7] = {
    {.name = "flag",
     .kind = NIXL_OPTION_BOOL,
     .offset = offsetof(struct table_options, flag),
     .default_value = "no",
     .help = "a flag",
     .alias = "switch"},
    {.name = "depth",
     .kind = NIXL_OPTION_INT,
     .offset = offsetof(struct table_options, depth),
     .default_value = "-3",
     .min = -10,
     .max = 10,
     .help = "a depth"},
    {.name = "count",
     .kind = NIXL_OPTION_UINT,
     .offset = offsetof(struct table_options, count),
     .default_value = "4",
     .min = 1,
     .max = 64,
     .help = "a count",
     .env = "NIXL_TEST_TABLE_COUNT"},
    {.name = "bytes",
     .kind = NIXL_OPTION_SIZE,
     .offset = offsetof(struct table_options, bytes),
     .default_value = "64k",
     .help = "a size"},
    {.name = "path",
     .kind = NIXL_OPTION_STRING,
     .offset = offsetof(struct table_options, path),
     .default_value = "",
     .help = "a path"},
    {.name = "secret",
     .kind = NIXL_OPTION_STRING,
     .offset = offsetof(struct table_options, secret),
     .default_value = "",
     .help = "a secret",
     .secret = true},
    {.name = "mode",
     .kind = NIXL_OPTION_ENUM,
     .offset = offsetof(struct table_options, mode),
     .default_value = "peer",
     .choices = "none|peer|all",
     .help = "a mode"},
};

struct nixl_backend_ops table_make(const char *name) {
    return (struct nixl_backend_ops){
        .abi = NIXL_BACKEND_ABI,
        .size = sizeof(struct nixl_backend_ops),
        .name = name,
        .version = "7.2",
        .summary = "a table",
        .mems = NIXL_MEM_BIT(DRAM_SEG),
        .caps = NIXL_CAP_REMOTE | NIXL_CAP_LOCAL | NIXL_CAP_NOTIF,
        .rank = NIXL_RANK_MEMORY,
        .options_bytes = sizeof(struct table_options),
        .options = table_option_list,
        .option_count = 7,
        .open = on_open,
        .close = on_close,
        .region_open = on_region_open,
        .region_close = on_two,
        .region_key = on_region_key,
        .conn_info = on_bytes,
        .peer_open = on_peer_open,
        .peer_close = on_two,
        .key_open = on_key_open,
        .key_close = on_key_close,
        .post = on_post,
        .cancel = on_cancel,
        .notify = on_notify,
    };
}
