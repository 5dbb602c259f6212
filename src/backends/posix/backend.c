/* SPDX-License-Identifier: Apache-2.0 */
/* The POSIX backend's front: options, the choice of a queue, opening and closing. */
#include "posix.h"

#include "base/text.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define POOL_DEFAULT 65536u
#define POOL_MIN 64u
#define POOL_MAX 65536u
#define QUEUE_DEFAULT 256u
#define QUEUE_MIN 16u
#define QUEUE_MAX 1024u

static const struct nixl_option option_table[] = {
    {.name = "use_uring",
     .kind = NIXL_OPTION_BOOL,
     .offset = offsetof(struct posix_options, use_uring),
     .default_value = "false",
     .help = "use io_uring and nothing else (default: the best queue that the kernel allows)"},
    {.name = "use_aio",
     .kind = NIXL_OPTION_BOOL,
     .offset = offsetof(struct posix_options, use_aio),
     .default_value = "false",
     .help = "use Linux AIO and nothing else; goes before use_uring and use_posix_aio"},
    {.name = "use_posix_aio",
     .kind = NIXL_OPTION_BOOL,
     .offset = offsetof(struct posix_options, use_posix_aio),
     .default_value = "false",
     .help = "use POSIX AIO and nothing else"},
    {.name = "ios_pool_size",
     .kind = NIXL_OPTION_UINT,
     .offset = offsetof(struct posix_options, ios_pool_size),
     .default_value = "65536",
     .help = "limit of operations, brought into 64 to 65536 (0: the default); requests of any size work with "
             "any limit"},
    {.name = "kernel_queue_size",
     .kind = NIXL_OPTION_UINT,
     .offset = offsetof(struct posix_options, kernel_queue_size),
     .default_value = "256",
     .help = "operations in the kernel at once, brought into 16 to 1024 (0: the default)"},
    {.name = "pin_limit",
     .kind = NIXL_OPTION_SIZE,
     .offset = offsetof(struct posix_options, pin_limit),
     .default_value = "1G",
     .help = "registered memory that io_uring may pin for direct files, in bytes, in pieces of 1G at most; "
             "0: none"},
    {.name = "bounce",
     .kind = NIXL_OPTION_BOOL,
     .offset = offsetof(struct posix_options, bounce),
     .default_value = "false",
     .help = "send requests that are not aligned for direct files through the page cache instead of refusing "
             "them"},
};

static uint64_t brought_into(uint64_t value, uint64_t fallback, uint64_t min, uint64_t max) {
    if (value == 0) {
        return fallback;
    }
    return value < min ? min : value > max ? max : value;
}

/* ---- The choice of a queue ------------------------------------------------------------------------------
 */

static const struct posix_queue_ops *const queues[] = {
#ifdef HAVE_LIBURING
    &posix_uring_ops,
#endif
    &posix_aio_ops,
    &posix_posix_aio_ops,
};

/* What the user insists on; NULL with *is_asked when this build has not got it. */
static const struct posix_queue_ops *asked_for(const struct posix_options *options, bool *is_asked) {
    *is_asked = options->use_aio || options->use_uring || options->use_posix_aio;
    if (options->use_aio) {
        return &posix_aio_ops;
    }
    if (options->use_uring) {
#ifdef HAVE_LIBURING
        return &posix_uring_ops;
#else
        return NULL;
#endif
    }
    return options->use_posix_aio ? &posix_posix_aio_ops : NULL;
}

static nixl_status_t open_queue(struct posix_engine *engine) {
    const struct nixl_host *host = engine->host;
    bool is_asked;
    const struct posix_queue_ops *asked = asked_for(engine->options, &is_asked);
    uint64_t pool = brought_into(engine->options->ios_pool_size, POOL_DEFAULT, POOL_MIN, POOL_MAX);
    uint64_t depth = brought_into(engine->options->kernel_queue_size, QUEUE_DEFAULT, QUEUE_MIN, QUEUE_MAX);
    char why[200], reasons[320] = "";
    size_t at = 0, i;

    if (is_asked && asked == NULL) {
        return host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED,
                          "use_uring: this build has no io_uring (liburing was missing)");
    }
#ifndef HAVE_LIBURING
    text_append(reasons, sizeof reasons, &at, "; io_uring is not in this build");
#endif
    for (i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        const struct posix_queue_ops *ops = queues[i];

        if (asked != NULL && asked != ops) {
            continue;
        }
        engine->depth = (unsigned)(depth < pool ? depth : pool);
        why[0] = '\0';
        if (ops->open(&engine->queue, &engine->depth, engine->event_fd, why, sizeof why) == 0) {
            engine->queue_ops = ops;
            at = 0;
            text_append(engine->description, sizeof engine->description, &at, "%s, %u operations at once%s%s",
                        ops->name, engine->depth, asked != NULL ? ", as asked for" : "", reasons);
            host->log(host->ctx, NIXL_LOG_DEBUG, "files go through %s", engine->description);
            return NIXL_SUCCESS;
        }
        if (asked != NULL) {
            return host->fail(host->ctx, NIXL_ERR_BACKEND, "%s cannot be used: %s", ops->name, why);
        }
        text_append(reasons, sizeof reasons, &at, "; not %s: %s", ops->name, why);
    }
    return host->fail(host->ctx, NIXL_ERR_BACKEND, "no queue can be used%s", reasons);
}

/* ---- Opening and closing --------------------------------------------------------------------------------
 */

static void engine_free(struct posix_engine *engine) {
    if (engine->queue_ops != NULL) {
        engine->queue_ops->close(engine->queue);
    }
    posix_ops_close(engine);
    if (engine->wake_fd >= 0) {
        close(engine->wake_fd);
    }
    if (engine->event_fd >= 0) {
        close(engine->event_fd);
    }
    free(engine);
}

static nixl_status_t backend_open(const struct nixl_host *host, const void *options,
                                  struct nixl_instance *instance, void **self) {
    struct posix_engine *engine = aligned_alloc(_Alignof(struct posix_engine), sizeof *engine);
    nixl_status_t status;
    int rc;

    if (engine == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    memset(engine, 0, sizeof *engine);
    engine->host = host;
    engine->options = options;
    engine->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    engine->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (engine->wake_fd < 0 || engine->event_fd < 0) {
        status = host->fail(host->ctx, NIXL_ERR_BACKEND, "eventfd: %s", strerror(errno));
        engine_free(engine);
        return status;
    }
    status = open_queue(engine);
    if (status != NIXL_SUCCESS) {
        engine_free(engine);
        return status;
    }
    if (!posix_ops_open(engine)) {
        engine_free(engine);
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    rc = posix_thread_start(engine);
    if (rc != 0) {
        engine_free(engine);
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "a thread cannot be started: %s", strerror(rc));
    }
    /* With an event descriptor a sleeping waiter or the agent's progress thread does the work; the thread
     * here only steps in where there is neither. */
    instance->event_fd = engine->queue_ops->is_mute ? -1 : engine->event_fd;
    instance->period_us = 0;
    *self = engine;
    return NIXL_SUCCESS;
}

static void backend_close(void *self) {
    struct posix_engine *engine = self;

    posix_thread_stop(engine);
    engine_free(engine);
}

static const char *backend_describe(void *self) {
    return ((struct posix_engine *)self)->description;
}

static nixl_status_t copy_transport(const struct posix_engine *engine, char *text, size_t size) {
    size_t at = 0;

    text_append(text, size, &at, "%s", engine->queue_ops->transport);
    return NIXL_SUCCESS;
}

static nixl_status_t backend_transport(void *self, const struct nixl_request *request, char *text,
                                       size_t size) {
    (void)request;
    return copy_transport(self, text, size);
}

static nixl_status_t backend_peer_transport(void *self, void *peer, nixl_mem_t mem, char *text, size_t size) {
    (void)peer;
    (void)mem;
    return copy_transport(self, text, size);
}

static const struct nixl_backend_ops ops = {
    .abi = NIXL_BACKEND_ABI,
    .size = sizeof(struct nixl_backend_ops),
    .name = "POSIX",
    .version = NIXL_VERSION_TEXT,
    .summary = "files and block devices through io_uring, Linux AIO or POSIX AIO",
    .mems = NIXL_MEM_BIT(DRAM_SEG) | NIXL_MEM_BIT(FILE_SEG),
    .caps = NIXL_CAP_LOCAL,
    .rank = NIXL_RANK_STORAGE,
    .options_bytes = sizeof(struct posix_options),
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .request_bytes = sizeof(struct posix_request),
    .open = backend_open,
    .close = backend_close,
    .describe = backend_describe,
    .region_open = posix_region_open,
    .region_close = posix_region_close,
    .query = posix_query,
    .peer_transport = backend_peer_transport,
    .request_open = posix_request_open,
    .post = posix_post,
    .cancel = posix_cancel,
    .transport = backend_transport,
    .progress = posix_progress,
    .arm = posix_arm,
    .wait = posix_wait,
    .batch = posix_batch,
};

const struct nixl_backend_ops *nixl_backend_v1(void) {
    return &ops;
}
