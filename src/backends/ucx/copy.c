/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers within this process: an agent's own memory, or that of another agent here. Plain copies, in bounded pieces: a little
 * in the post, the rest by whoever makes progress. A region of another agent is entered for each piece, so it cannot be
 * deregistered under a running copy, and a copy after it says so instead of crashing.
 */
#include "ucx.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define POST_BYTES (UINT64_C(64) << 10)   /* copied within a post */
#define PIECE_BYTES (UINT64_C(256) << 10) /* in one turn of progress */
#define PIECE_BLOCKS 1024u                /* and not more blocks than these */

/* ---- the instances of this process ---- */

static pthread_rwlock_t registry_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct ucx_instance *registry;

static struct ucx_instance *registry_find(const uint8_t id[16]) {
    for (struct ucx_instance *i = registry; i != NULL; i = i->next) {
        if (memcmp(i->id, id, sizeof i->id) == 0) {
            return i;
        }
    }
    return NULL;
}

void ucx_registry_add(struct ucx_instance *self) {
    pthread_rwlock_wrlock(&registry_lock);
    self->next = registry;
    registry = self;
    pthread_rwlock_unlock(&registry_lock);
}

void ucx_registry_remove(struct ucx_instance *self) {
    pthread_rwlock_wrlock(&registry_lock);
    for (struct ucx_instance **link = &registry; *link != NULL; link = &(*link)->next) {
        if (*link == self) {
            *link = self->next;
            break;
        }
    }
    pthread_rwlock_unlock(&registry_lock);
}

bool ucx_registry_has(const uint8_t id[16]) {
    bool found;

    pthread_rwlock_rdlock(&registry_lock);
    found = registry_find(id) != NULL;
    pthread_rwlock_unlock(&registry_lock);
    return found;
}

bool ucx_registry_notify(const uint8_t id[16], const char *sender, const void *msg, size_t len) {
    struct ucx_instance *target;

    pthread_rwlock_rdlock(&registry_lock);
    target = registry_find(id);
    if (target != NULL) {
        target->host->notified(target->host->ctx, sender, strlen(sender), msg, len);
    }
    pthread_rwlock_unlock(&registry_lock);
    return target != NULL;
}

struct ucx_region *ucx_registry_region(const uint8_t id[16], uint64_t addr, uint64_t len) {
    struct ucx_instance *owner;
    struct ucx_region *region = NULL;

    pthread_rwlock_rdlock(&registry_lock);
    owner = registry_find(id);
    if (owner != NULL) {
        region = ucx_region_find(owner, addr, len);
    }
    pthread_rwlock_unlock(&registry_lock);
    return region;
}

/* ---- copying ---- */

enum copy_outcome {
    COPY_MORE,
    COPY_DONE,
    COPY_FAILED
};

static void copy_block(nixl_xfer_op_t op, uint64_t local, uint64_t remote, uint64_t len) {
    void *here = (void *)(uintptr_t)local, *there = (void *)(uintptr_t)remote;

    /* The two may overlap in a loopback. */
    if (op == NIXL_WRITE) {
        memmove(there, here, len);
    } else {
        memmove(here, there, len);
    }
}

/* Copies on within the current run; the region is entered. */
static void copy_in_run(struct ucx_xfer *xfer, const struct nixl_run *run, uint64_t *bytes,
                        unsigned *blocks) {
    struct nixl_request *request = xfer->request;
    struct ucx_span span = ucx_run_span(run, request->flags);
    uint64_t done = 0;

    while (xfer->place.block<span.count && * bytes> 0 && *blocks > 0) {
        uint64_t left = span.len - xfer->place.offset;
        uint64_t len = left < *bytes ? left : *bytes;

        copy_block(request->op, run->local + xfer->place.block * run->local_stride + xfer->place.offset,
                   run->remote + xfer->place.block * run->remote_stride + xfer->place.offset, len);
        *bytes -= len;
        done += len;
        xfer->place.offset += len;
        if (xfer->place.offset == span.len) {
            xfer->place.offset = 0;
            xfer->place.block++;
            (*blocks)--;
        }
    }
    if (xfer->place.block == span.count) {
        xfer->place.block = 0;
        xfer->place.run++;
    }
    xfer->done += done;
    __atomic_fetch_add(&request->done_bytes, done, __ATOMIC_RELAXED);
}

static enum copy_outcome copy_some(struct ucx_xfer *xfer, uint64_t bytes) {
    struct nixl_request *request = xfer->request;
    unsigned blocks = PIECE_BLOCKS;

    while (xfer->place.run < request->run_count && bytes > 0 && blocks > 0) {
        const struct nixl_run *run = &request->runs[xfer->place.run];
        struct ucx_region *region = NULL;

        if (xfer->peer != NULL) {
            region = ((struct ucx_key *)run->remote_key)->region;
            if (region == NULL || !ucx_region_enter(region)) {
                xfer->failed_run = xfer->place.run;
                xfer->failed_block = xfer->place.block;
                return COPY_FAILED;
            }
        }
        copy_in_run(xfer, run, &bytes, &blocks);
        if (region != NULL) {
            ucx_region_leave(region);
        }
    }
    return xfer->place.run == request->run_count ? COPY_DONE : COPY_MORE;
}

/* The end of a copy whose bytes are in place: its notification. False: the target's agent is gone. */
static bool copy_notify(struct ucx_xfer *xfer) {
    const struct nixl_request *request = xfer->request;

    return !request->has_notif || xfer->peer == NULL ||
           ucx_registry_notify(xfer->peer->local_id, xfer->self->host->agent, request->notif,
                               request->notif_len);
}

static const char *gone_words(const struct ucx_xfer *xfer, bool region, char *text, size_t size) {
    (void)snprintf(text, size,
                   region ? "agent \"%.128s\" of this process has deregistered the region"
                          : "agent \"%.128s\" of this process has been destroyed",
                   xfer->peer != NULL ? xfer->peer->name : "");
    return text;
}

static void copy_push(struct ucx_instance *self, struct ucx_xfer *xfer) {
    struct ucx_copies *copies = &self->copies;

    xfer->next = NULL;
    lock_take(&copies->lock);
    if (copies->queue.tail != NULL) {
        copies->queue.tail->next = xfer;
    } else {
        copies->queue.head = xfer;
    }
    copies->queue.tail = xfer;
    lock_drop(&copies->lock);
}

static struct ucx_xfer *copy_pop(struct ucx_instance *self) {
    struct ucx_copies *copies = &self->copies;
    struct ucx_xfer *xfer;

    lock_take(&copies->lock);
    xfer = copies->queue.head;
    if (xfer != NULL) {
        copies->queue.head = xfer->next;
        if (copies->queue.head == NULL) {
            copies->queue.tail = NULL;
        }
    }
    lock_drop(&copies->lock);
    return xfer;
}

nixl_status_t ucx_copy_post(struct ucx_xfer *xfer) {
    struct ucx_instance *self = xfer->self;
    const struct nixl_host *host = self->host;
    char text[256];

    if (xfer->peer != NULL) {
        nixl_status_t status = ucx_peer_state(self, xfer->peer);

        if (status < 0) {
            return status;
        }
    }
    switch (copy_some(xfer, POST_BYTES)) {
    case COPY_FAILED:
        return host->fail(
            host->ctx, NIXL_ERR_NOT_FOUND, "descriptor %llu: %s",
            (unsigned long long)(xfer->request->runs[xfer->failed_run].first_index + xfer->failed_block),
            gone_words(xfer, true, text, sizeof text));
    case COPY_DONE:
        if (!copy_notify(xfer)) {
            return host->fail(host->ctx, NIXL_ERR_REMOTE_DISCONNECT, "%s",
                              gone_words(xfer, false, text, sizeof text));
        }
        return NIXL_SUCCESS;
    case COPY_MORE:
        break;
    }
    __atomic_fetch_add(&self->copies.active, 1, __ATOMIC_RELEASE);
    copy_push(self, xfer);
    host->wake(host->ctx);
    return NIXL_IN_PROG;
}

unsigned ucx_copy_progress(struct ucx_instance *self) {
    const struct nixl_host *host = self->host;
    struct nixl_failure failure = NIXL_FAILURE_INIT;
    struct ucx_xfer *xfer = copy_pop(self);
    enum copy_outcome outcome;
    bool is_stopping;
    char text[256];

    if (xfer == NULL) {
        return 0;
    }
    is_stopping = __atomic_load_n(&xfer->is_stopping, __ATOMIC_ACQUIRE);
    outcome = is_stopping ? COPY_FAILED : copy_some(xfer, PIECE_BYTES);
    if (outcome == COPY_MORE) {
        copy_push(self, xfer);
        return 1;
    }
    failure.bytes_done = xfer->done;
    if (is_stopping) {
        failure.status = NIXL_ERR_CANCELED;
    } else if (outcome == COPY_FAILED) {
        failure.status = NIXL_ERR_NOT_FOUND;
        failure.run = xfer->failed_run;
        failure.block = xfer->failed_block;
        failure.text = gone_words(xfer, true, text, sizeof text);
    } else if (!copy_notify(xfer)) {
        failure.status = NIXL_ERR_REMOTE_DISCONNECT;
        failure.text = gone_words(xfer, false, text, sizeof text);
        outcome = COPY_FAILED;
    }
    host->complete(host->ctx, xfer->request, outcome == COPY_DONE ? NULL : &failure);
    __atomic_fetch_sub(&self->copies.active, 1, __ATOMIC_RELEASE);
    return 1;
}
