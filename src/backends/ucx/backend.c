/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The UCX backend: its operations, its options, opening and closing an instance. See README.md for what it needs and does.
 */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>

static const struct nixl_option options[] = {
    {.name = "ucx_devices",
     .kind = NIXL_OPTION_STRING,
     .offset = offsetof(struct ucx_options, devices),
     .default_value = "",
     .alias = "device_list",
     .help = "network devices to use, separated by commas; empty: all that UCX finds"},
    {.name = "ucx_error_handling_mode",
     .kind = NIXL_OPTION_ENUM,
     .offset = offsetof(struct ucx_options, error_handling),
     .default_value = "peer",
     .choices = "none|peer",
     .help = "peer: dead peers are noticed; none: they are not, and more transports can be used"},
    {.name = "ucx_ep_close_force",
     .kind = NIXL_OPTION_BOOL,
     .offset = offsetof(struct ucx_options, ep_close_force),
     .default_value = "false",
     .help = "close connections without sending what is still queued"},
    {.name = "engine_config",
     .kind = NIXL_OPTION_STRING,
     .offset = offsetof(struct ucx_options, engine_config),
     .default_value = "",
     .help = "UCX settings KEY=VALUE,KEY=VALUE; a UCX_KEY variable goes before"},
    {.name = "num_workers",
     .kind = NIXL_OPTION_UINT,
     .offset = offsetof(struct ucx_options, num_workers),
     .default_value = "1",
     .min = 1,
     .max = 1024,
     .help =
         "UCX workers: each thread of the program makes its requests on one of them; above 64 serve as 64"},
    {.name = "num_threads",
     .kind = NIXL_OPTION_UINT,
     .offset = offsetof(struct ucx_options, num_threads),
     .default_value = "0",
     .max = 1024,
     .help = "threads with a worker of their own, for large copies and long lists; one fewer than processors "
             "at most"},
    {.name = "copy_threads",
     .kind = NIXL_OPTION_UINT,
     .offset = offsetof(struct ucx_options, copy_threads),
     .default_value = "1",
     .max = 2,
     .help = "a thread that helps with large copies within the host where num_threads is 0; 0: none, 1: in "
             "agents with a progress thread, 2: in all"},
    {.name = "split_batch_size",
     .kind = NIXL_OPTION_UINT,
     .offset = offsetof(struct ucx_options, split_batch_size),
     .default_value = "1024",
     .min = 1,
     .max = UINT32_MAX,
     .help = "blocks that each part of a list has at least when it is split over num_threads"},
    {.name = "ucx_num_device_channels",
     .kind = NIXL_OPTION_UINT,
     .offset = offsetof(struct ucx_options, num_device_channels),
     .default_value = "4",
     .min = 1,
     .max = 1024,
     .help = "channels for transfers started on a device (UCX 1.21 and later)"},
    {.name = "ucx_path",
     .kind = NIXL_OPTION_STRING,
     .offset = offsetof(struct ucx_options, path),
     .default_value = "",
     .env = "NIXL_UCX_PATH",
     .help = "libucp.so.0, its folder, or an installation prefix; empty: the system's"},
    {.name = "ucx_memory_hooks",
     .kind = NIXL_OPTION_BOOL,
     .offset = offsetof(struct ucx_options, memory_hooks),
     .default_value = "false",
     .env = "NIXL_UCX_MEMORY_HOOKS",
     .help = "leave UCX's memory hooks on (costs 400 ms at start with 1.22)"},
    {.name = "ucx_messages",
     .kind = NIXL_OPTION_BOOL,
     .offset = offsetof(struct ucx_options, messages),
     .default_value = "true",
     .help =
         "over tcp, read and write by messages of NIXL's own, so that a target survives its reader's death"},
    {.name = "ucx_cma",
     .kind = NIXL_OPTION_BOOL,
     .offset = offsetof(struct ucx_options, cma),
     .default_value = "true",
     .env = "NIXL_UCX_CMA",
     .help = "between processes of one host, copy by the kernel (process_vm_writev), many blocks a call"},
};

static nixl_status_t open_context(struct ucx_instance *self) {
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME,
        .features =
            UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64 | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .mt_workers_shared = 1,
        .name = "nixl",
    };
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    const struct nixl_host *host = self->host;
    ucp_config_t *config = NULL;
    nixl_status_t result = ucx_config_make(host, self->library, self->options, self->tls, &config);
    ucs_status_t status;
    char words[512];

    if (result != NIXL_SUCCESS) {
        return result;
    }
    status = self->ucx->init_version(UCP_API_MAJOR, 13, &params, config, &self->context);
    self->ucx->config_release(config);
    if (status != UCS_OK) {
        self->context = NULL;
        result = host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED, "UCX does not start%s%s: %s",
                            self->tls[0] != '\0' ? " with UCX_TLS=" : "", self->tls,
                            ucx_words(self->library, status, words, sizeof words));
    } else if (self->ucx->context_query(self->context, &attr) == UCS_OK) {
        self->has_device_memory =
            (attr.memory_types & ~(UCS_BIT(UCS_MEMORY_TYPE_HOST) | UCS_BIT(UCS_MEMORY_TYPE_LAST))) != 0;
    }
    return result;
}

static void describe_make(struct ucx_instance *self) {
    const char *hooks = getenv("UCX_MEM_MMAP_HOOK_MODE");
    char workers[64] = "";

    if (self->worker_count > 1) {
        (void)snprintf(workers, sizeof workers, "; %u workers, and %u with a thread", self->shared_count,
                       self->helper_count);
    }
    (void)snprintf(self->about, sizeof self->about,
                   "UCX %s, %s%s; transports %s; errors %s; memory hooks %s%s", self->library->version_text,
                   self->library->path, self->library->was_loaded ? " (loaded before NIXL)" : "",
                   self->tls[0] != '\0' ? self->tls : "all",
                   self->options->error_handling == UCX_ERRORS_PEER ? "peer" : "none",
                   hooks != NULL ? hooks : "as UCX likes", workers);
}

static void ucx_close(void *instance) {
    struct ucx_instance *self = instance;

    ucx_registry_remove(self);
    ucx_cma_close(self);
    /* UCX counts what peers that died or stopped left behind: that is for the log, not for the screen. */
    ucx_inside_enter(self->host);
    ucx_workers_close(self);
    ucx_messages_close(self);
    if (self->context != NULL && !ucx_is_inherited(self)) {
        self->ucx->cleanup(self->context);
    }
    ucx_inside_leave();
    hash_clear(&self->regions, NULL);
    free(self);
}

static nixl_status_t open_all(struct ucx_instance *self) {
    nixl_status_t status;

    status = ucx_config_transports(self->host, self->options, self->tls);
    if (status != NIXL_SUCCESS) {
        return status;
    }
    ucx_config_environment(self->library, self->tls, self->options->error_handling == UCX_ERRORS_PEER);
    status = open_context(self);
    if (status == NIXL_SUCCESS) {
        status = ucx_workers_open(self);
    }
    ucx_config_environment_restore();
    if (status == NIXL_SUCCESS) {
        status = ucx_messages_open(self);
    }
    if (status == NIXL_SUCCESS && ucx_config_is_chosen(self->options, self->tls)) {
        ucx_worker_enter(ucx_first_worker(self));
        status = ucx_peer_probe(self);
        ucx_worker_leave(ucx_first_worker(self));
    }
    return status;
}

static nixl_status_t ucx_open(const struct nixl_host *host, const void *opts, struct nixl_instance *instance,
                              void **out) {
    const struct ucx_options *wanted = opts;
    const struct ucx_library *library = NULL;
    struct ucx_instance *self;
    nixl_status_t status = ucx_library_open(host, wanted->path, wanted->memory_hooks, &library);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    self = calloc(1, sizeof *self);
    if (self == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    self->host = host;
    self->library = library;
    self->ucx = &library->abi;
    self->options = wanted;
    self->generation = fork_generation();
    self->event_fd = -1;
    ucx_inside_enter(host);
    status = open_all(self);
    ucx_inside_leave();
    if (status != NIXL_SUCCESS) {
        ucx_close(self);
        return status;
    }
    ucx_note_make(self);
    describe_make(self);
    status = ucx_helpers_start(self);
    if (status != NIXL_SUCCESS) {
        ucx_close(self);
        return status;
    }
    ucx_registry_add(self);
    instance->event_fd = self->event_fd;
    instance->period_us = 0;
    host->log(host->ctx, NIXL_LOG_DEBUG, "%s", self->about);
    *out = self;
    return NIXL_SUCCESS;
}

static const char *ucx_describe(void *instance) {
    return ((struct ucx_instance *)instance)->about;
}

static const struct nixl_backend_ops ops = {
    .abi = NIXL_BACKEND_ABI,
    .size = sizeof(struct nixl_backend_ops),
    .name = "UCX",
    .version = NIXL_VERSION_TEXT,
    .summary = "memory to memory over RDMA, TCP and shared memory by UCX",
    .mems = NIXL_MEM_BIT(DRAM_SEG) | NIXL_MEM_BIT(VRAM_SEG),
    .caps = NIXL_CAP_REMOTE | NIXL_CAP_LOCAL | NIXL_CAP_NOTIF,
    .rank = NIXL_RANK_RDMA,
    .options_bytes = sizeof(struct ucx_options),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .request_bytes = sizeof(struct ucx_xfer),
    .open = ucx_open,
    .close = ucx_close,
    .describe = ucx_describe,
    .region_open = ucx_region_open,
    .region_close = ucx_region_close,
    .region_key = ucx_region_key,
    .conn_info = ucx_conn_info,
    .note = ucx_note,
    .peer_open = ucx_peer_open,
    .peer_close = ucx_peer_close,
    .peer_connect = ucx_peer_connect,
    .peer_state = ucx_peer_state,
    .peer_transport = ucx_peer_transport,
    .key_open = ucx_key_open,
    .key_close = ucx_key_close,
    .request_open = ucx_request_open,
    .request_close = ucx_request_close,
    .post = ucx_post,
    .cancel = ucx_cancel,
    .cost = ucx_cost,
    .transport = ucx_transport,
    .notify = ucx_notify,
    .progress = ucx_progress,
    .arm = ucx_arm,
};

const struct nixl_backend_ops *nixl_backend_v1(void) {
    return &ops;
}
