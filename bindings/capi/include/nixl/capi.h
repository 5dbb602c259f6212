/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixl/capi.h - libnixl_capi: the handle-and-getter interface that NIXL's Rust crates, and programs that open
 * libnixl_capi.so at run time, are made for. Names, numbers and struct layouts are those of the reference; a
 * program written in C today is better served by <nixl/nixl.h>, on which all of this stands.
 *
 * Conventions
 *  - A required argument that is NULL gives ERROR_INVALID_PARAM. Arguments called `opt_args` may be NULL.
 *  - Status of the core: SUCCESS, IN_PROG, INVALID_PARAM, NOT_FOUND and NO_TELEMETRY have numbers here; every
 *    other failure is ERROR_BACKEND. nixl_capi_last_error() has the words.
 *  - Output handles are written on success only. Each has a destroy function, which takes no NULL.
 *  - Strings and bytes that a getter of a list or map gives belong to that object. Buffers of
 *    nixl_capi_get_local_md(), nixl_capi_get_local_partial_md(), nixl_capi_opt_args_get_*() and the name of
 *    nixl_capi_load_remote_md() are the caller's: nixl_capi_mem_free(), or plain free().
 *  - Threads: calls on an agent may run from any threads at once. Lists, options, maps and iterators belong
 *    to one thread at a time.
 */
#ifndef NIXL_CAPI_H
#define NIXL_CAPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NIXL_CAPI __attribute__((visibility("default")))
#else
#define NIXL_CAPI
#endif

/* The level of this interface, not of the library: programs compare the major number. */
#define NIXL_CAPI_VERSION_MAJOR 1
#define NIXL_CAPI_VERSION_MINOR 5
#define NIXL_CAPI_VERSION_PATCH 2

typedef enum {
    NIXL_CAPI_SUCCESS = 0,
    NIXL_CAPI_ERROR_INVALID_PARAM = -1,
    NIXL_CAPI_ERROR_BACKEND = -2,
    NIXL_CAPI_ERROR_INVALID_STATE = -3,
    NIXL_CAPI_ERROR_EXCEPTION = -4, /* never returned */
    NIXL_CAPI_IN_PROG = 1,
    NIXL_CAPI_ERROR_NO_TELEMETRY = -5,
    NIXL_CAPI_ERROR_NOT_FOUND = -6
} nixl_capi_status_t;

typedef enum {
    NIXL_CAPI_MEM_DRAM = 0,
    NIXL_CAPI_MEM_VRAM = 1,
    NIXL_CAPI_MEM_BLOCK = 2,
    NIXL_CAPI_MEM_OBJECT = 3,
    NIXL_CAPI_MEM_FILE = 4,
    NIXL_CAPI_MEM_UNKNOWN = 5
} nixl_capi_mem_type_t;

typedef enum {
    NIXL_CAPI_THREAD_SYNC_NONE = 0,
    NIXL_CAPI_THREAD_SYNC_STRICT = 1,
    NIXL_CAPI_THREAD_SYNC_RW = 2,
    NIXL_CAPI_THREAD_SYNC_DEFAULT = 0
} nixl_capi_thread_sync_t;

typedef enum {
    NIXL_CAPI_XFER_OP_READ = 0,
    NIXL_CAPI_XFER_OP_WRITE = 1
} nixl_capi_xfer_op_t;

typedef enum {
    NIXL_CAPI_COST_ANALYTICAL_BACKEND = 0
} nixl_capi_cost_t;

typedef struct nixl_capi_agent_s *nixl_capi_agent_t;
typedef struct nixl_capi_params_s *nixl_capi_params_t;
typedef struct nixl_capi_mem_list_s *nixl_capi_mem_list_t;
typedef struct nixl_capi_string_list_s *nixl_capi_string_list_t;
typedef struct nixl_capi_backend_s *nixl_capi_backend_t;
typedef struct nixl_capi_opt_args_s *nixl_capi_opt_args_t;
typedef struct nixl_capi_param_iter_s *nixl_capi_param_iter_t;
typedef struct nixl_capi_xfer_dlist_s *nixl_capi_xfer_dlist_t;
typedef struct nixl_capi_xfer_dlist_handle_s *nixl_capi_xfer_dlist_handle_t;
typedef struct nixl_capi_reg_dlist_s *nixl_capi_reg_dlist_t;
typedef struct nixl_capi_xfer_req_s *nixl_capi_xfer_req_t;
typedef struct nixl_capi_notif_map_s *nixl_capi_notif_map_t;
typedef struct nixl_capi_query_resp_list_s *nixl_capi_query_resp_list_t;
typedef struct nixl_capi_remote_dlist_s *nixl_capi_remote_dlist_t;
typedef struct nixl_capi_mem_view_s *nixl_capi_mem_view_t;

typedef struct nixl_capi_agent_config_s {
    bool enable_prog_thread;
    bool enable_listen_thread;
    int listen_port; /* 0 to 65535; 0: the system chooses */
    nixl_capi_thread_sync_t thread_sync;
    unsigned int num_workers; /* accepted, without effect */
    uint64_t pthr_delay_us, lthr_delay_us;
    bool capture_telemetry;
} nixl_capi_agent_config_t;

/* Times in microseconds, rounded up; the start counts from the steady clock's epoch, not from 1970. */
typedef struct nixl_capi_xfer_telemetry_s {
    uint64_t start_time_us, post_duration_us, xfer_duration_us, total_bytes, desc_count;
} * nixl_capi_xfer_telemetry_t;

/* ---- The library -------------------------------------------------------------------------------------- */

/* Writes NIXL_CAPI_VERSION_*. */
NIXL_CAPI nixl_capi_status_t nixl_capi_get_version(int *major, int *minor, int *patch);
/* False here. In the stub library: true when no libnixl_capi.so could be opened. */
NIXL_CAPI bool nixl_capi_is_stub(void);
/* Frees a buffer or name that this library gave; NULL is allowed. */
NIXL_CAPI void nixl_capi_mem_free(void *block);
/* Why this thread's last failing call failed, in words; "" when none did. Not in the reference: a program
 * that opens the library at run time must be ready for its absence. */
NIXL_CAPI const char *nixl_capi_last_error(void);

/* ---- Agents and their metadata ------------------------------------------------------------------------ */

NIXL_CAPI nixl_capi_status_t nixl_capi_create_configured_agent(const char *name,
                                                               const nixl_capi_agent_config_t *config,
                                                               nixl_capi_agent_t *agent);
/* With a progress thread, everything else by default. */
NIXL_CAPI nixl_capi_status_t nixl_capi_create_agent(const char *name, nixl_capi_agent_t *agent);
/* Backend handles of the agent may only be destroyed afterwards, requests and lists only be released. */
NIXL_CAPI nixl_capi_status_t nixl_capi_destroy_agent(nixl_capi_agent_t agent);

NIXL_CAPI nixl_capi_status_t nixl_capi_get_local_md(nixl_capi_agent_t agent, void **data, size_t *len);
NIXL_CAPI nixl_capi_status_t nixl_capi_get_local_partial_md(nixl_capi_agent_t agent,
                                                            nixl_capi_reg_dlist_t descs, void **data,
                                                            size_t *len, nixl_capi_opt_args_t opt_args);
NIXL_CAPI nixl_capi_status_t nixl_capi_load_remote_md(nixl_capi_agent_t agent, const void *data, size_t len,
                                                      char **agent_name);
NIXL_CAPI nixl_capi_status_t nixl_capi_invalidate_remote_md(nixl_capi_agent_t agent,
                                                            const char *remote_agent);
NIXL_CAPI nixl_capi_status_t nixl_capi_invalidate_local_md(nixl_capi_agent_t agent,
                                                           nixl_capi_opt_args_t opt_args);
/* `descs` may be NULL: is the agent known at all? */
NIXL_CAPI nixl_capi_status_t nixl_capi_check_remote_md(nixl_capi_agent_t agent, const char *remote_name,
                                                       nixl_capi_xfer_dlist_t descs);
NIXL_CAPI nixl_capi_status_t nixl_capi_send_local_md(nixl_capi_agent_t agent, nixl_capi_opt_args_t opt_args);
NIXL_CAPI nixl_capi_status_t nixl_capi_send_local_partial_md(nixl_capi_agent_t agent,
                                                             nixl_capi_reg_dlist_t descs,
                                                             nixl_capi_opt_args_t opt_args);
NIXL_CAPI nixl_capi_status_t nixl_capi_fetch_remote_md(nixl_capi_agent_t agent, const char *remote_name,
                                                       nixl_capi_opt_args_t opt_args);
/* Starts connecting to a loaded agent; SUCCESS also while that is under way. */
NIXL_CAPI nixl_capi_status_t nixl_capi_agent_make_connection(nixl_capi_agent_t agent,
                                                             const char *remote_agent,
                                                             nixl_capi_opt_args_t opt_args);

/* ---- Plugins and backends ----------------------------------------------------------------------------- */

NIXL_CAPI nixl_capi_status_t nixl_capi_get_available_plugins(nixl_capi_agent_t agent,
                                                             nixl_capi_string_list_t *plugins);
/* The memory kinds that a plugin takes and its options with their defaults. */
NIXL_CAPI nixl_capi_status_t nixl_capi_get_plugin_params(nixl_capi_agent_t agent, const char *plugin_name,
                                                         nixl_capi_mem_list_t *mems,
                                                         nixl_capi_params_t *params);
/* Every failure but a NULL argument is ERROR_BACKEND. */
NIXL_CAPI nixl_capi_status_t nixl_capi_create_backend(nixl_capi_agent_t agent, const char *plugin_name,
                                                      nixl_capi_params_t params,
                                                      nixl_capi_backend_t *backend);
/* Frees the handle; the backend itself lives as long as its agent. */
NIXL_CAPI nixl_capi_status_t nixl_capi_destroy_backend(nixl_capi_backend_t backend);
NIXL_CAPI nixl_capi_status_t nixl_capi_get_backend_params(nixl_capi_agent_t agent,
                                                          nixl_capi_backend_t backend,
                                                          nixl_capi_mem_list_t *mems,
                                                          nixl_capi_params_t *params);

NIXL_CAPI nixl_capi_status_t nixl_capi_destroy_string_list(nixl_capi_string_list_t list);
NIXL_CAPI nixl_capi_status_t nixl_capi_string_list_size(nixl_capi_string_list_t list, size_t *size);
NIXL_CAPI nixl_capi_status_t nixl_capi_string_list_get(nixl_capi_string_list_t list, size_t index,
                                                       const char **str);

NIXL_CAPI nixl_capi_status_t nixl_capi_destroy_mem_list(nixl_capi_mem_list_t list);
NIXL_CAPI nixl_capi_status_t nixl_capi_mem_list_is_empty(nixl_capi_mem_list_t list, bool *is_empty);
NIXL_CAPI nixl_capi_status_t nixl_capi_mem_list_size(nixl_capi_mem_list_t list, size_t *size);
NIXL_CAPI nixl_capi_status_t nixl_capi_mem_list_get(nixl_capi_mem_list_t list, size_t index,
                                                    nixl_capi_mem_type_t *mem_type);
/* "DRAM", "VRAM", "BLOCK", "OBJECT", "FILE", "UNKNOWN". */
NIXL_CAPI nixl_capi_status_t nixl_capi_mem_type_to_string(nixl_capi_mem_type_t mem_type, const char **str);

NIXL_CAPI nixl_capi_status_t nixl_capi_create_params(nixl_capi_params_t *params);
NIXL_CAPI nixl_capi_status_t nixl_capi_destroy_params(nixl_capi_params_t params);
/* A key that is there already gets the new value. */
NIXL_CAPI nixl_capi_status_t nixl_capi_params_add(nixl_capi_params_t params, const char *key,
                                                  const char *value);
NIXL_CAPI nixl_capi_status_t nixl_capi_params_is_empty(nixl_capi_params_t params, bool *is_empty);
NIXL_CAPI nixl_capi_status_t nixl_capi_params_create_iterator(nixl_capi_params_t params,
                                                              nixl_capi_param_iter_t *iter);
/* Gives the next pair; *has_next tells whether another one follows it. Past the end key and value stay as
 * they were. */
NIXL_CAPI nixl_capi_status_t nixl_capi_params_iterator_next(nixl_capi_param_iter_t iter, const char **key,
                                                            const char **value, bool *has_next);
NIXL_CAPI nixl_capi_status_t nixl_capi_params_destroy_iterator(nixl_capi_param_iter_t iter);

/* ---- Optional arguments ------------------------------------------------------------------------------- */

NIXL_CAPI nixl_capi_status_t nixl_capi_create_opt_args(nixl_capi_opt_args_t *args);
NIXL_CAPI nixl_capi_status_t nixl_capi_destroy_opt_args(nixl_capi_opt_args_t args);
NIXL_CAPI nixl_capi_status_t nixl_capi_opt_args_add_backend(nixl_capi_opt_args_t args,
                                                            nixl_capi_backend_t backend);
/* The message is sent only while has_notif is set, before or afterwards. */
NIXL_CAPI nixl_capi_status_t nixl_capi_opt_args_set_notif_msg(nixl_capi_opt_args_t args, const void *data,
                                                              size_t len);
NIXL_CAPI nixl_capi_status_t nixl_capi_opt_args_get_notif_msg(nixl_capi_opt_args_t args, void **data,
                                                              size_t *len);
NIXL_CAPI nixl_capi_status_t nixl_capi_opt_args_set_has_notif(nixl_capi_opt_args_t args, bool has_notif);
NIXL_CAPI nixl_capi_status_t nixl_capi_opt_args_get_has_notif(nixl_capi_opt_args_t args, bool *has_notif);
NIXL_CAPI nixl_capi_status_t nixl_capi_opt_args_set_skip_desc_merge(nixl_capi_opt_args_t args,
                                                                    bool skip_merge);
NIXL_CAPI nixl_capi_status_t nixl_capi_opt_args_get_skip_desc_merge(nixl_capi_opt_args_t args,
                                                                    bool *skip_merge);
NIXL_CAPI nixl_capi_status_t nixl_capi_opt_args_set_ip_addr(nixl_capi_opt_args_t args, const char *ip_addr);
NIXL_CAPI nixl_capi_status_t nixl_capi_opt_args_set_port(nixl_capi_opt_args_t args, uint16_t port);
/* Bytes for the backend, as `custom` of struct nixl_options. */
NIXL_CAPI nixl_capi_status_t nixl_capi_opt_args_set_custom_param(nixl_capi_opt_args_t args, const void *data,
                                                                 size_t len);
NIXL_CAPI nixl_capi_status_t nixl_capi_opt_args_get_custom_param(nixl_capi_opt_args_t args, void **data,
                                                                 size_t *len);

/* ---- Descriptor lists --------------------------------------------------------------------------------- */

/* The memory kind is not checked here but by the call that uses the list. */
NIXL_CAPI nixl_capi_status_t nixl_capi_create_xfer_dlist(nixl_capi_mem_type_t mem_type,
                                                         nixl_capi_xfer_dlist_t *dlist);
NIXL_CAPI nixl_capi_status_t nixl_capi_destroy_xfer_dlist(nixl_capi_xfer_dlist_t dlist);
NIXL_CAPI nixl_capi_status_t nixl_capi_xfer_dlist_get_type(nixl_capi_xfer_dlist_t dlist,
                                                           nixl_capi_mem_type_t *mem_type);
NIXL_CAPI nixl_capi_status_t nixl_capi_xfer_dlist_add_desc(nixl_capi_xfer_dlist_t dlist, uintptr_t addr,
                                                           size_t len, uint64_t dev_id);
NIXL_CAPI nixl_capi_status_t nixl_capi_xfer_dlist_desc_count(nixl_capi_xfer_dlist_t dlist, size_t *count);
NIXL_CAPI nixl_capi_status_t nixl_capi_xfer_dlist_len(nixl_capi_xfer_dlist_t dlist, size_t *len);
NIXL_CAPI nixl_capi_status_t nixl_capi_xfer_dlist_is_empty(nixl_capi_xfer_dlist_t dlist, bool *is_empty);
/* Does nothing; the same for registration lists. */
NIXL_CAPI nixl_capi_status_t nixl_capi_xfer_dlist_trim(nixl_capi_xfer_dlist_t dlist);
/* ERROR_BACKEND when there is no such index. */
NIXL_CAPI nixl_capi_status_t nixl_capi_xfer_dlist_rem_desc(nixl_capi_xfer_dlist_t dlist, int index);
NIXL_CAPI nixl_capi_status_t nixl_capi_xfer_dlist_clear(nixl_capi_xfer_dlist_t dlist);
/* New descriptors are all zero. */
NIXL_CAPI nixl_capi_status_t nixl_capi_xfer_dlist_resize(nixl_capi_xfer_dlist_t dlist, size_t new_size);
/* To standard output. */
NIXL_CAPI nixl_capi_status_t nixl_capi_xfer_dlist_print(nixl_capi_xfer_dlist_t dlist);

NIXL_CAPI nixl_capi_status_t nixl_capi_create_reg_dlist(nixl_capi_mem_type_t mem_type,
                                                        nixl_capi_reg_dlist_t *dlist);
NIXL_CAPI nixl_capi_status_t nixl_capi_destroy_reg_dlist(nixl_capi_reg_dlist_t dlist);
NIXL_CAPI nixl_capi_status_t nixl_capi_reg_dlist_get_type(nixl_capi_reg_dlist_t dlist,
                                                          nixl_capi_mem_type_t *mem_type);
/* The metadata bytes are copied. */
NIXL_CAPI nixl_capi_status_t nixl_capi_reg_dlist_add_desc(nixl_capi_reg_dlist_t dlist, uintptr_t addr,
                                                          size_t len, uint64_t dev_id, const void *metadata,
                                                          size_t metadata_len);
NIXL_CAPI nixl_capi_status_t nixl_capi_reg_dlist_desc_count(nixl_capi_reg_dlist_t dlist, size_t *count);
NIXL_CAPI nixl_capi_status_t nixl_capi_reg_dlist_is_empty(nixl_capi_reg_dlist_t dlist, bool *is_empty);
NIXL_CAPI nixl_capi_status_t nixl_capi_reg_dlist_trim(nixl_capi_reg_dlist_t dlist);
NIXL_CAPI nixl_capi_status_t nixl_capi_reg_dlist_rem_desc(nixl_capi_reg_dlist_t dlist, int index);
NIXL_CAPI nixl_capi_status_t nixl_capi_reg_dlist_clear(nixl_capi_reg_dlist_t dlist);
NIXL_CAPI nixl_capi_status_t nixl_capi_reg_dlist_resize(nixl_capi_reg_dlist_t dlist, size_t new_size);
NIXL_CAPI nixl_capi_status_t nixl_capi_reg_dlist_print(nixl_capi_reg_dlist_t dlist);

NIXL_CAPI nixl_capi_status_t nixl_capi_create_remote_dlist(nixl_capi_mem_type_t mem_type,
                                                           nixl_capi_remote_dlist_t *dlist);
NIXL_CAPI nixl_capi_status_t nixl_capi_destroy_remote_dlist(nixl_capi_remote_dlist_t dlist);
/* `remote_agent` NULL or "NULL_AGENT": an empty slot. */
NIXL_CAPI nixl_capi_status_t nixl_capi_remote_dlist_add_desc(nixl_capi_remote_dlist_t dlist, uintptr_t addr,
                                                             size_t len, uint64_t dev_id,
                                                             const char *remote_agent);

/* ---- Memory ------------------------------------------------------------------------------------------- */

NIXL_CAPI nixl_capi_status_t nixl_capi_register_mem(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t dlist,
                                                    nixl_capi_opt_args_t opt_args);
NIXL_CAPI nixl_capi_status_t nixl_capi_deregister_mem(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t dlist,
                                                      nixl_capi_opt_args_t opt_args);
/* Replaces what `resp` held. `opt_args` names exactly one backend. */
NIXL_CAPI nixl_capi_status_t nixl_capi_query_mem(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t descs,
                                                 nixl_capi_query_resp_list_t resp,
                                                 nixl_capi_opt_args_t opt_args);
NIXL_CAPI nixl_capi_status_t nixl_capi_create_query_resp_list(nixl_capi_query_resp_list_t *list);
NIXL_CAPI nixl_capi_status_t nixl_capi_destroy_query_resp_list(nixl_capi_query_resp_list_t list);
NIXL_CAPI nixl_capi_status_t nixl_capi_query_resp_list_size(nixl_capi_query_resp_list_t list, size_t *size);
NIXL_CAPI nixl_capi_status_t nixl_capi_query_resp_list_has_value(nixl_capi_query_resp_list_t list,
                                                                 size_t index, bool *has_value);
/* A copy of the answer; ERROR_INVALID_PARAM when there is none at that index. */
NIXL_CAPI nixl_capi_status_t nixl_capi_query_resp_list_get_params(nixl_capi_query_resp_list_t list,
                                                                  size_t index, nixl_capi_params_t *params);

/* Views: released with nixl_capi_release_mem_view(), before their agent is destroyed. */
NIXL_CAPI nixl_capi_status_t nixl_capi_prep_mem_view_local(nixl_capi_agent_t agent,
                                                           nixl_capi_xfer_dlist_t descs,
                                                           nixl_capi_mem_view_t *view,
                                                           nixl_capi_opt_args_t opt_args);
NIXL_CAPI nixl_capi_status_t nixl_capi_prep_mem_view_remote(nixl_capi_agent_t agent,
                                                            nixl_capi_remote_dlist_t descs,
                                                            nixl_capi_mem_view_t *view,
                                                            nixl_capi_opt_args_t opt_args);
NIXL_CAPI nixl_capi_status_t nixl_capi_release_mem_view(nixl_capi_agent_t agent, nixl_capi_mem_view_t view);

/* ---- Transfers ---------------------------------------------------------------------------------------- */

/* `agent_name` "": the local side; the agent's own name: loopback; else a loaded agent. */
NIXL_CAPI nixl_capi_status_t nixl_capi_prep_xfer_dlist(nixl_capi_agent_t agent, const char *agent_name,
                                                       nixl_capi_xfer_dlist_t descs,
                                                       nixl_capi_xfer_dlist_handle_t *dlist_handle,
                                                       nixl_capi_opt_args_t opt_args);
/* Frees the handle too. */
NIXL_CAPI nixl_capi_status_t nixl_capi_release_xfer_dlist_handle(nixl_capi_agent_t agent,
                                                                 nixl_capi_xfer_dlist_handle_t dlist_handle);
NIXL_CAPI nixl_capi_status_t nixl_capi_make_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_op_t operation,
                                                     nixl_capi_xfer_dlist_handle_t local_descs,
                                                     const int *local_indices, size_t local_indices_count,
                                                     nixl_capi_xfer_dlist_handle_t remote_descs,
                                                     const int *remote_indices, size_t remote_indices_count,
                                                     nixl_capi_xfer_req_t *req,
                                                     nixl_capi_opt_args_t opt_args);
/* Every failure but a NULL argument is ERROR_BACKEND. */
NIXL_CAPI nixl_capi_status_t nixl_capi_create_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_op_t operation,
                                                       nixl_capi_xfer_dlist_t local_descs,
                                                       nixl_capi_xfer_dlist_t remote_descs,
                                                       const char *remote_agent, nixl_capi_xfer_req_t *req,
                                                       nixl_capi_opt_args_t opt_args);
NIXL_CAPI nixl_capi_status_t nixl_capi_estimate_xfer_cost(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req,
                                                          nixl_capi_opt_args_t opt_args, int64_t *duration_us,
                                                          int64_t *err_margin_us, nixl_capi_cost_t *method);
/* opt_args NULL: the stored notification is sent again; without a notification: the stored one is dropped. */
NIXL_CAPI nixl_capi_status_t nixl_capi_post_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req,
                                                     nixl_capi_opt_args_t opt_args);
NIXL_CAPI nixl_capi_status_t nixl_capi_get_xfer_status(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req);
/* The status of the request when it has not succeeded, ERROR_NO_TELEMETRY when telemetry is off. */
NIXL_CAPI nixl_capi_status_t nixl_capi_get_xfer_telemetry(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req,
                                                          nixl_capi_xfer_telemetry_t telemetry);
/* A handle of its own: nixl_capi_destroy_backend(). */
NIXL_CAPI nixl_capi_status_t nixl_capi_query_xfer_backend(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req,
                                                          nixl_capi_backend_t *backend);
/* ERROR_BACKEND: it is still in flight, the request stays as it is. After SUCCESS only
 * nixl_capi_destroy_xfer_req() is left to be called. */
NIXL_CAPI nixl_capi_status_t nixl_capi_release_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req);
/* ERROR_INVALID_STATE: not released yet. */
NIXL_CAPI nixl_capi_status_t nixl_capi_destroy_xfer_req(nixl_capi_xfer_req_t req);

/* ---- Notifications ------------------------------------------------------------------------------------ */

NIXL_CAPI nixl_capi_status_t nixl_capi_gen_notif(nixl_capi_agent_t agent, const char *remote_agent,
                                                 const void *data, size_t len, nixl_capi_opt_args_t opt_args);
/* Adds what has arrived to the map. */
NIXL_CAPI nixl_capi_status_t nixl_capi_get_notifs(nixl_capi_agent_t agent, nixl_capi_notif_map_t notif_map,
                                                  nixl_capi_opt_args_t opt_args);
NIXL_CAPI nixl_capi_status_t nixl_capi_create_notif_map(nixl_capi_notif_map_t *notif_map);
NIXL_CAPI nixl_capi_status_t nixl_capi_destroy_notif_map(nixl_capi_notif_map_t notif_map);
/* The number of agents in the map. */
NIXL_CAPI nixl_capi_status_t nixl_capi_notif_map_size(nixl_capi_notif_map_t map, size_t *size);
NIXL_CAPI nixl_capi_status_t nixl_capi_notif_map_get_agent_at(nixl_capi_notif_map_t map, size_t index,
                                                              const char **agent_name);
NIXL_CAPI nixl_capi_status_t nixl_capi_notif_map_get_notifs_size(nixl_capi_notif_map_t map,
                                                                 const char *agent_name, size_t *size);
NIXL_CAPI nixl_capi_status_t nixl_capi_notif_map_get_notif(nixl_capi_notif_map_t map, const char *agent_name,
                                                           size_t index, const void **data, size_t *len);
NIXL_CAPI nixl_capi_status_t nixl_capi_notif_map_clear(nixl_capi_notif_map_t map);

#ifdef __cplusplus
}
#endif
#endif
