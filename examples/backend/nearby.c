/* SPDX-License-Identifier: Apache-2.0 */
/* NEARBY - the shortest backend: small requests between blocks of the agent's own memory, copied inside post(). */
#include <nixl/backend.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (64u * 1024u) /* more would keep post() for longer than microseconds */

struct nearby {
    const struct nixl_host *host;
};

static nixl_status_t nearby_open(const struct nixl_host *host, const void *options,
                                 struct nixl_instance *instance, void **self) {
    struct nearby *nearby = malloc(sizeof(*nearby));
    (void)options;
    if (nearby == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    nearby->host = host;
    instance->event_fd = -1; /* everything ends inside post(): there is no progress to be made */
    instance->period_us = 0;
    *self = nearby;
    return NIXL_SUCCESS;
}

static void nearby_close(void *self) {
    free(self);
}

static nixl_status_t nearby_region_open(void *self, nixl_mem_t mem, const struct nixl_meta_desc *desc,
                                        void **region) {
    (void)mem, (void)desc;
    *region = self; /* memory needs nothing done; any pointer serves */
    return NIXL_SUCCESS;
}

static void nearby_region_close(void *self, void *region) {
    (void)self, (void)region;
}

static nixl_status_t nearby_request_open(void *self, struct nixl_request *request) {
    const struct nixl_host *host = ((struct nearby *)self)->host;
    if (request->total_bytes > MOST_BYTES) { /* the agent then tries its next backend */
        return host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED, "at most %u bytes a request", MOST_BYTES);
    }
    return NIXL_SUCCESS;
}

static nixl_status_t nearby_post(void *self, struct nixl_request *request) {
    (void)self;
    for (size_t r = 0; r < request->run_count; r++) {
        const struct nixl_run *run = &request->runs[r];
        for (uint64_t block = 0; block < run->count; block++) {
            void *local = (void *)(uintptr_t)(run->local + block * run->local_stride);
            void *remote = (void *)(uintptr_t)(run->remote + block * run->remote_stride);
            if (request->op == NIXL_WRITE) {
                memmove(remote, local, run->len);
            } else {
                memmove(local, remote, run->len);
            }
        }
    }
    return NIXL_SUCCESS; /* all bytes are in place: complete() is not called */
}

static void nearby_cancel(void *self, struct nixl_request *request, enum nixl_cancel how) {
    (void)self, (void)request, (void)how; /* nothing is ever in flight */
}

static const struct nixl_backend_ops ops = {
    .abi = NIXL_BACKEND_ABI,
    .size = sizeof(ops),
    .name = "NEARBY",
    .version = "1.0",
    .summary = "Small copies within the agent's own memory",
    .mems = NIXL_MEM_BIT(DRAM_SEG),
    .caps = NIXL_CAP_LOCAL,
    .rank = NIXL_RANK_MEMORY,
    .open = nearby_open,
    .close = nearby_close,
    .region_open = nearby_region_open,
    .region_close = nearby_region_close,
    .request_open = nearby_request_open,
    .post = nearby_post,
    .cancel = nearby_cancel,
};

const struct nixl_backend_ops *nixl_backend_v1(void) {
    return &ops;
}
