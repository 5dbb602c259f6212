/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handles.h - what stands behind the opaque handles of <nixl/capi.h>, and the few helpers that its files share.
 * Private to this folder. Handles carry no locks: <nixl/nixl.h> guards what is shared, the rest belongs to one
 * thread at a time.
 */
#ifndef NIXL_BINDINGS_CAPI_HANDLES_H
#define NIXL_BINDINGS_CAPI_HANDLES_H

#include <nixl/capi.h>
#include <nixl/nixl.h>

struct nixl_capi_agent_s {
    struct nixl_agent *agent;
};

struct nixl_capi_backend_s {
    struct nixl_backend *backend;
};

struct nixl_capi_string_list_s {
    struct nixl_names *names;
};

struct nixl_capi_mem_list_s {
    size_t count;
    nixl_capi_mem_type_t items[NIXL_MEM_KINDS];
};

struct capi_param {
    char *key, *value;
};

struct nixl_capi_params_s {
    struct capi_param *items;
    size_t count, room;
};

struct nixl_capi_param_iter_s {
    const struct nixl_capi_params_s *params;
    size_t next;
};

struct capi_bytes {
    void *data; /* NULL when len is 0 */
    size_t len;
};

struct nixl_capi_opt_args_s {
    struct nixl_backend **backends;
    size_t backend_count, backend_room;
    struct capi_bytes notif, custom;
    bool has_notif, keep_lists;
    char *ip_addr;
    uint16_t port;
};

/* `mem` is kept as it came: it is judged by the call that uses the list. */
struct nixl_capi_xfer_dlist_s {
    nixl_capi_mem_type_t mem;
    struct nixl_desc *items;
    size_t count, room;
};

struct nixl_capi_reg_dlist_s {
    nixl_capi_mem_type_t mem;
    struct nixl_meta_desc *items; /* `meta` is owned by the list */
    size_t count, room;
};

struct nixl_capi_remote_dlist_s {
    nixl_capi_mem_type_t mem;
    struct nixl_remote_desc *items; /* `agent` is owned by the list */
    size_t count, room;
};

struct nixl_capi_xfer_dlist_handle_s {
    struct nixl_dlist *dlist;
};

struct nixl_capi_xfer_req_s {
    struct nixl_xfer *xfer; /* NULL once released */
};

struct nixl_capi_query_resp_list_s {
    struct nixl_query_results *results; /* NULL: empty */
};

/* The status of this interface that stands for one of the core. */
nixl_capi_status_t capi_status(nixl_status_t status);

/* Makes room for `count` items of `item_bytes` in a growing array; false when there is no memory. */
bool capi_reserve(void **items, size_t *room, size_t count, size_t item_bytes);

/* Replaces `bytes` by a copy of `data`; false, with `bytes` unchanged, when there is no memory. */
bool capi_bytes_set(struct capi_bytes *bytes, const void *data, size_t len);
/* Gives the caller a copy of its own; NULL and 0 for no bytes. */
nixl_capi_status_t capi_bytes_copy(const struct capi_bytes *bytes, void **data, size_t *len);

/* What a call of the core gets for `args`; NULL for NULL. The result borrows from `args`. */
const struct nixl_options *capi_options(struct nixl_options *options, nixl_capi_opt_args_t args);

/* The lists as the core takes them. They borrow the items. */
struct nixl_list capi_xfer_list(const struct nixl_capi_xfer_dlist_s *dlist);
struct nixl_list capi_reg_list(const struct nixl_capi_reg_dlist_s *dlist);
struct nixl_list capi_remote_list(const struct nixl_capi_remote_dlist_s *dlist);

/* New lists: NULL when there is no memory. */
struct nixl_capi_mem_list_s *capi_mem_list_new(uint32_t mems);
struct nixl_capi_params_s *capi_params_from(const struct nixl_params *params);

#endif
