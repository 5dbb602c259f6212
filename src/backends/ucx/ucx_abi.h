/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libucp, opened at run time: once a process, and never closed again (UCX leaves threads, handlers and hooks
 * behind that do not survive it). Types come from UCX's headers of 1.13 or later, which the build needs;
 * what is newer than 1.13 is declared here and used only when the library that was found has it.
 */
#ifndef UCX_ABI_H
#define UCX_ABI_H

#include <nixl/backend.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

#define UCX_VERSION(major, minor, patch)                                                                     \
    ((uint32_t)(major) << 16 | (uint32_t)(minor) << 8 | (uint32_t)(patch))

/* ucp_ep_query() of 1.14 and later: which transports an endpoint uses. */
#define UCX_EP_ATTR_TRANSPORTS (UINT64_C(1) << 3)

struct ucx_transport_entry {
    const char *transport_name;
    const char *device_name;
};

struct ucx_transports {
    struct ucx_transport_entry *entries;
    unsigned num_entries;
    size_t entry_size;
};

struct ucx_ep_attr {
    uint64_t field_mask;
    char name[UCP_ENTITY_NAME_MAX];
    struct sockaddr_storage local_sockaddr;
    struct sockaddr_storage remote_sockaddr;
    struct ucx_transports transports;
    void *user_data;
};

/* UCX's functions by pointer; the names are UCX's without the ucp_. All are set unless said otherwise. */
struct ucx_abi {
    ucs_status_t (*lib_query)(ucp_lib_attr_t *attr);
    void (*get_version)(unsigned *major, unsigned *minor, unsigned *release);
    const char *(*get_version_string)(void);
    ucs_status_t (*config_read)(const char *prefix, const char *file, ucp_config_t **config);
    ucs_status_t (*config_modify)(ucp_config_t *config, const char *name, const char *value);
    void (*config_release)(ucp_config_t *config);
    ucs_status_t (*init_version)(unsigned major, unsigned minor, const ucp_params_t *params,
                                 const ucp_config_t *config, ucp_context_h *context);
    void (*cleanup)(ucp_context_h context);
    ucs_status_t (*context_query)(ucp_context_h context, ucp_context_attr_t *attr);

    ucs_status_t (*worker_create)(ucp_context_h context, const ucp_worker_params_t *params,
                                  ucp_worker_h *worker);
    void (*worker_destroy)(ucp_worker_h worker);
    ucs_status_t (*worker_query)(ucp_worker_h worker, ucp_worker_attr_t *attr);
    void (*worker_release_address)(ucp_worker_h worker, ucp_address_t *address);
    unsigned (*worker_progress)(ucp_worker_h worker);
    ucs_status_t (*worker_get_efd)(ucp_worker_h worker, int *fd);
    ucs_status_t (*worker_arm)(ucp_worker_h worker);
    ucs_status_t (*worker_set_am_recv_handler)(ucp_worker_h worker, const ucp_am_handler_param_t *param);

    ucs_status_t (*ep_create)(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep);
    ucs_status_ptr_t (*ep_close_nbx)(ucp_ep_h ep, const ucp_request_param_t *param);
    ucs_status_ptr_t (*ep_flush_nbx)(ucp_ep_h ep, const ucp_request_param_t *param);
    void (*ep_print_info)(ucp_ep_h ep, FILE *stream);
    ucs_status_t (*ep_evaluate_perf)(ucp_ep_h ep, const ucp_ep_evaluate_perf_param_t *param,
                                     ucp_ep_evaluate_perf_attr_t *attr); /* may be NULL */
    ucs_status_t (*ep_query)(ucp_ep_h ep, struct ucx_ep_attr *attr);     /* may be NULL */

    ucs_status_t (*mem_map)(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *memh);
    ucs_status_t (*mem_unmap)(ucp_context_h context, ucp_mem_h memh);
    ucs_status_t (*mem_query)(ucp_mem_h memh, ucp_mem_attr_t *attr);
    ucs_status_t (*rkey_pack)(ucp_context_h context, ucp_mem_h memh, void **buffer, size_t *size);
    void (*rkey_buffer_release)(void *buffer);
    ucs_status_t (*ep_rkey_unpack)(ucp_ep_h ep, const void *buffer, ucp_rkey_h *rkey);
    void (*rkey_destroy)(ucp_rkey_h rkey);

    ucs_status_ptr_t (*put_nbx)(ucp_ep_h ep, const void *buffer, size_t count, uint64_t remote,
                                ucp_rkey_h rkey, const ucp_request_param_t *param);
    ucs_status_ptr_t (*get_nbx)(ucp_ep_h ep, void *buffer, size_t count, uint64_t remote, ucp_rkey_h rkey,
                                const ucp_request_param_t *param);
    ucs_status_ptr_t (*am_send_nbx)(ucp_ep_h ep, unsigned id, const void *header, size_t header_len,
                                    const void *buffer, size_t count, const ucp_request_param_t *param);
    void (*request_free)(void *request);
    ucs_status_t (*dt_create_generic)(const ucp_generic_dt_ops_t *ops, void *context, ucp_datatype_t *type);
    void (*dt_destroy)(ucp_datatype_t type);

    /* libucs */
    const char *(*status_string)(ucs_status_t status);
    void (*log_push_handler)(ucs_log_func_t handler); /* may be NULL */
};

/* What the process has of UCX. */
struct ucx_library {
    struct ucx_abi abi;
    uint32_t version; /* UCX_VERSION() */
    char version_text[48];
    char path[512];
    bool was_loaded;     /* by somebody else, before us */
    bool hooks_were_set; /* UCX_MEM_MMAP_HOOK_MODE came from the environment */
};

/*
 * Opens UCX, or returns what was opened before. `path` (may be "") is the user's choice: a file, a folder with
 * libucp.so.0, or a prefix with lib/libucp.so.0. `hooks` false: UCX's memory hooks stay off, if it is we who
 * load it. Fails in words: NOT_SUPPORTED (not found, too old, not built for threads, not the file that
 * NIXL_UCX_EXPECTED_SONAME wants), NOT_ALLOWED (after fork), BACKEND. Threads: any, one at a time.
 */
nixl_status_t ucx_library_open(const struct nixl_host *host, const char *path, bool hooks,
                               const struct ucx_library **library);

/* Whether UCX was opened in this process, or in the one it was forked from. */
bool ucx_library_was_forked(void);

/* Checks that a library can be called from several threads; for tests it takes any table. */
nixl_status_t ucx_library_check_threads(const struct nixl_host *host, const struct ucx_abi *abi,
                                        const char *version, const char *path);

/* What UCX itself logs at WARN or worse while a thread is inside (calls nest) goes to the host's log at INFO instead of to the
 * screen: what it means for a request or a peer is told by those. Other threads' and other users' lines are left alone. The first line
 * since the outermost enter, or since ucx_words() used it, is kept: ucx_inside_text(), "" for none. */
void ucx_inside_enter(const struct nixl_host *host);
void ucx_inside_leave(void);
const char *ucx_inside_text(void);

/* "UCX 1.22.0 says: <status string>", with the line that was kept when there is one; into `buf`, which is returned. */
const char *ucx_words(const struct ucx_library *library, ucs_status_t status, char *buf, size_t size);

/* NIXL's status for one of UCX's. */
nixl_status_t ucx_status(ucs_status_t status);

#endif
