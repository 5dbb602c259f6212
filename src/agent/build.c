/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request in the making: its runs are written into the one block of memory that the request lives in.
 */
#include "build.h"
#include "xfer.h"

#include <inttypes.h>
#include <stdlib.h>

#define MANY_RUNS                                                                                            \
    (1u << 20) /* above, room for runs grows by doubling instead of being taken for the worst case */
#define CUSTOM_MAX (UINT32_MAX)    /* bytes for the backend */
#define REQUEST_ALIGN ((size_t)64) /* a request starts on a cache line */
#define MALLOC_ALIGN ((size_t)16)  /* what malloc() gives */

/* ---- the request's memory ---- */

static size_t round_up(size_t n, size_t align) {
    return (n + align - 1) / align * align;
}

/* Offsets within a request's block. */
struct layout {
    size_t state, custom, runs, local_regions, remote_regions, size;
};

static bool layout_make(const struct build *build, size_t cap, struct layout *layout) {
    size_t locals = build->peer != NULL ? 1 : 2; /* loopback has both sides' there */
    size_t each = sizeof(struct nixl_run) + 2 * sizeof(struct region_id);
    size_t bytes;

    layout->state = round_up(sizeof(struct nixl_xfer), 16);
    layout->custom = layout->state + round_up(build->backend->ops.request_bytes, 16);
    layout->runs = layout->custom + round_up(build->custom_len, 16);
    if (!size_mul(cap, each, &bytes) || bytes > PTRDIFF_MAX - layout->runs - 64) {
        return false;
    }
    layout->local_regions = layout->runs + cap * sizeof(struct nixl_run);
    layout->remote_regions = layout->local_regions + locals * cap * sizeof(struct region_id);
    layout->size = layout->runs + cap * each;
    return true;
}

/* Moves what there is into a block with room for `cap` runs. */
static bool build_move(struct build *build, size_t cap) {
    struct layout layout;
    unsigned char *raw;
    unsigned char *block;

    if (!layout_make(build, cap, &layout)) {
        return false;
    }
    /* malloc() and a step to the cache line, since aligned_alloc() takes the allocator's slow way. */
    raw = malloc(layout.size + REQUEST_ALIGN - MALLOC_ALIGN);
    if (raw == NULL) {
        return false;
    }
    block = (unsigned char *)(((uintptr_t)raw + REQUEST_ALIGN - 1) & ~(uintptr_t)(REQUEST_ALIGN - 1));
    memcpy(block + layout.runs, build->runs, build->run_count * sizeof build->runs[0]);
    memcpy(block + layout.local_regions, build->local_regions, build->local_count * sizeof(struct region_id));
    memcpy(block + layout.remote_regions, build->remote_regions,
           build->remote_count * sizeof(struct region_id));
    free(build->block);
    build->block = raw;
    build->xfer = (struct nixl_xfer *)block;
    build->runs = (struct nixl_run *)(block + layout.runs);
    build->local_regions = (struct region_id *)(block + layout.local_regions);
    build->remote_regions = (struct region_id *)(block + layout.remote_regions);
    build->run_cap = cap;
    return true;
}

bool build_grow(struct build *build) {
    size_t most = build->blocks;

    if (most > MANY_RUNS && build->run_cap < most / 2) {
        most = build->run_cap < MANY_RUNS ? MANY_RUNS : build->run_cap * 2;
    }
    return build_move(build, most);
}

void build_begin(struct build *build, struct nixl_agent *agent, struct nixl_backend *backend,
                 struct peer *peer, size_t blocks, size_t custom_len) {
    build->agent = agent;
    build->backend = backend;
    build->peer = peer;
    build->blocks = blocks;
    build->block = NULL;
    build->xfer = NULL;
    build->runs = build->few_runs;
    build->local_regions = build->few_local;
    build->remote_regions = build->few_remote;
    build->run_count = 0;
    build->run_cap = BUILD_FEW_RUNS;
    build->local_count = 0;
    build->remote_count = 0;
    build->block_count = 0;
    build->local_region = NULL;
    build->remote_region = NULL;
    build->can_extend = false;
    build->custom_len = custom_len;
}

void build_drop(struct build *build) {
    free(build->block);
}

void build_use_local(struct build *build, struct region *region) {
    build->local_region = region;
    build->local_key = region_key_of(region, build->backend->slot)->handle;
    build->local_regions[build->local_count++] = region->id;
}

void build_use_remote(struct build *build, struct region *region) {
    const struct region_key *key = region_key_of(region, build->backend->slot);

    build->remote_region = region;
    if (build->peer == NULL) {
        build->remote_key = key->self_key;
        build->local_regions[build->local_count++] = region->id;
    } else {
        build->remote_key = key->handle;
        build->remote_regions[build->remote_count++] = region->id;
    }
}

/* Keeps the compiler from making copies of a function for sizes it knows. */
#ifdef __clang__
#define NOT_SEEN_THROUGH __attribute__((noinline))
#else
#define NOT_SEEN_THROUGH __attribute__((noipa))
#endif

/* A call of the C library's memset(): what compilers make of a size they know (rep stos) is slower for some
 * hundred bytes. */
static NOT_SEEN_THROUGH void clear(void *at, size_t len) {
    memset(at, 0, len);
}

static uint64_t timeout_in_force(uint64_t asked, uint64_t agents) {
    return asked != 0 ? asked : agents;
}

/* Writes the head. The runs are complete. NULL without memory. Tables held. */
struct nixl_xfer *build_finish(struct build *build, const struct recipe *recipe) {
    const struct nixl_options *options = recipe->options;
    struct nixl_agent *agent = build->agent;
    struct nixl_xfer *xfer;
    struct nixl_request *request;
    struct layout layout;

    /* On the stack so far, or with much room for runs that did not come. */
    if (build->xfer == NULL || build->run_cap - build->run_count > build->run_count + 1024) {
        if (!build_move(build, build->run_count)) {
            return NULL;
        }
    }
    xfer = build->xfer;
    clear(xfer, sizeof *xfer);
    xfer->block = build->block;
    if (options->has_notif && options->notif_len != 0 &&
        !bytes_append(&xfer->notif, options->notif, options->notif_len)) {
        return NULL;
    }
    (void)layout_make(build, build->run_cap, &layout);
    request = &xfer->request;
    request->size = sizeof *request;
    request->op = recipe->op;
    request->local_mem = recipe->local_mem;
    request->remote_mem = recipe->remote_mem;
    request->flags = (options->keep_lists ? NIXL_REQUEST_KEEP_LISTS : 0u) |
                     (options->notify_failure ? NIXL_REQUEST_NOTIFY_FAILURE : 0u);
    request->peer = build->peer != NULL ? build->peer->handles[build->backend->slot] : NULL;
    request->runs = build->runs;
    request->run_count = build->run_count;
    request->block_count = build->block_count;
    request->total_bytes = recipe->total_bytes;
    request->state = (unsigned char *)xfer + layout.state;
    memset(request->state, 0, build->backend->ops.request_bytes);
    if (build->custom_len != 0) {
        request->custom = (unsigned char *)xfer + layout.custom;
        request->custom_len = build->custom_len;
        memcpy((unsigned char *)xfer + layout.custom, options->custom, build->custom_len);
    }
    xfer->state = NIXL_ERR_NOT_POSTED;
    xfer->agent = agent;
    xfer->backend = build->backend;
    xfer->peer = build->peer;
    xfer->local_changes = __atomic_load_n(&agent->local_changes, __ATOMIC_RELAXED);
    if (build->peer != NULL) {
        xfer->peer_changes = __atomic_load_n(&build->peer->changes, __ATOMIC_RELAXED);
        peer_use(build->peer);
    }
    xfer->is_timed = agent->telemetry;
    xfer_notif_set(xfer, options->has_notif);
    xfer->timeout_ms = timeout_in_force(options->timeout_ms, agent->xfer_timeout_ms);
    xfer->stall_timeout_ms = build->peer == NULL
                                 ? NIXL_NO_TIMEOUT
                                 : timeout_in_force(options->stall_timeout_ms, agent->stall_timeout_ms);
    xfer->deadline_ns = CLOCK_NEVER;
    xfer->moved_ns = CLOCK_NEVER;
    xfer->local_regions = build->local_regions;
    xfer->local_count = build->local_count;
    xfer->remote_regions = build->remote_regions;
    xfer->remote_count = build->remote_count;
    xfer->failure = (struct nixl_failure_info)NIXL_FAILURE_INFO_INIT;
    xfer_enlist(xfer);
    return xfer;
}

/* ---- what both ways of making share ---- */

/* Options that cannot be right, whatever the backend. */
nixl_status_t build_check_options(nixl_xfer_op_t op, const struct nixl_options *options) {
    if (op != NIXL_READ && op != NIXL_WRITE) {
        return fail(NIXL_ERR_INVALID_PARAM, "%d is neither NIXL_READ nor NIXL_WRITE", (int)op);
    }
    if (options->has_notif && options->notif == NULL && options->notif_len != 0) {
        return fail(NIXL_ERR_INVALID_PARAM, "options: a notification of %zu bytes at NULL",
                    options->notif_len);
    }
    if (options->has_notif && options->notif_len > NIXL_NOTIF_MAX) {
        return fail(NIXL_ERR_INVALID_PARAM, "options: a notification of %zu bytes, at most %u can be sent",
                    options->notif_len, NIXL_NOTIF_MAX);
    }
    if (options->custom_len != 0 && options->custom == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "options: %zu custom bytes at NULL", options->custom_len);
    }
    if (options->custom_len > CUSTOM_MAX) {
        return fail(NIXL_ERR_INVALID_PARAM, "options: %zu custom bytes are too many", options->custom_len);
    }
    return NIXL_SUCCESS;
}

nixl_status_t build_check_notif(const struct nixl_backend *backend, const struct nixl_options *options) {
    if (options->has_notif && (backend->instance.caps & NIXL_CAP_NOTIF) == 0) {
        return fail(NIXL_ERR_BACKEND, "backend %s carries no notifications", backend->ops.name);
    }
    return NIXL_SUCCESS;
}

/* Backends that reach the remote side at all. Tables held. */
uint32_t build_reachers(struct nixl_agent *agent, const struct peer *peer) {
    return peer != NULL ? peer->backends & backend_mask(agent, NIXL_CAP_REMOTE)
                        : backend_mask(agent, NIXL_CAP_LOCAL);
}

/* Lets the backend prepare the request; frees it when it will not. No lock held. */
nixl_status_t build_offer(struct nixl_xfer *xfer) {
    struct nixl_backend *backend = xfer->backend;
    unsigned mark = backend_mark();
    nixl_status_t status;

    if (__builtin_expect(__atomic_load_n(&backend->is_timed, __ATOMIC_RELAXED), 0)) {
        cost_begin(xfer);
    }
    if (backend->ops.request_open == NULL) {
        return NIXL_SUCCESS;
    }
    status = backend->ops.request_open(backend->self, &xfer->request);
    if (status != NIXL_SUCCESS) {
        status = backend_fault(backend, mark, status, "preparing the request");
        xfer_delist(xfer);
        xfer_free(xfer);
    }
    return status;
}
