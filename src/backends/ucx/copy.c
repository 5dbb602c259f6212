/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers that need no UCX: within this process (an agent's own memory, or that of another agent here) by plain copies, and
 * to other processes of this host by the kernel's (cma.c). In bounded pieces: a little in the post, the rest by whoever makes
 * progress. A region of another agent here is entered for each piece, so it cannot be deregistered under a running copy,
 * and a copy after it says so instead of crashing.
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

static void say_gone(const struct ucx_xfer *xfer, bool region, struct ucx_copy_failure *failure) {
    failure->status = region ? NIXL_ERR_NOT_FOUND : NIXL_ERR_REMOTE_DISCONNECT;
    (void)snprintf(failure->text, sizeof failure->text,
                   region ? "agent \"%.128s\" of this process has deregistered the region"
                          : "agent \"%.128s\" of this process has been destroyed",
                   xfer->peer != NULL ? xfer->peer->name : "");
}

enum ucx_copy ucx_copy_here(struct ucx_xfer *xfer, uint64_t bytes, struct ucx_copy_failure *failure) {
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
                say_gone(xfer, true, failure);
                return UCX_COPY_FAILED;
            }
        }
        copy_in_run(xfer, run, &bytes, &blocks);
        if (region != NULL) {
            ucx_region_leave(region);
        }
    }
    return xfer->place.run == request->run_count ? UCX_COPY_DONE : UCX_COPY_MORE;
}

/* The notification of a copy to another process. One that cannot leave at once (the connection is still being made) is waited
 * for in UCX's way: nobody might make progress after the request has ended. */
static enum ucx_copy notify_by_ucx(struct ucx_xfer *xfer, struct ucx_copy_failure *failure) {
    const struct nixl_request *request = xfer->request;
    struct ucx_worker *worker = ucx_first_worker(xfer->self);
    struct ucx_peer *peer = xfer->peer;
    nixl_status_t status = NIXL_ERR_CANCELED;

    ucx_worker_enter(worker);
    /* Who cancels either is seen here, or sees this, waits for the lock and finds what is on its way: a peer that is stopped
     * before it has connected would keep a notification for ever. */
    __atomic_store_n(&xfer->worker, worker, __ATOMIC_RELEASE);
    __atomic_store_n(&xfer->is_copy, false, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&xfer->is_stopping, __ATOMIC_SEQ_CST)) {
        status = ucx_end_connect(&peer->ends[0]);
    }
    if (status == NIXL_SUCCESS) {
        status = ucx_notif_send(peer, request->notif, request->notif_len, xfer);
    }
    if (status == NIXL_IN_PROG) {
        xfer->ops = 1;
        xfer->phase = UCX_NOTIFYING;
        worker->requests++;
    } else {
        __atomic_store_n(&xfer->is_copy, true, __ATOMIC_SEQ_CST);
    }
    ucx_worker_leave(worker);
    if (status >= 0) {
        return status == NIXL_SUCCESS ? UCX_COPY_DONE : UCX_COPY_GIVEN;
    }
    failure->status = status;
    (void)snprintf(failure->text, sizeof failure->text,
                   "the data is in place, but its notification was not sent: %s",
                   status == NIXL_ERR_REMOTE_DISCONNECT ? peer->words
                   : status == NIXL_ERR_CANCELED        ? "it was cancelled"
                                                        : "UCX took it not");
    return UCX_COPY_FAILED;
}

/* The end of a copy whose bytes are in place: its notification. */
static enum ucx_copy copy_notify(struct ucx_xfer *xfer, struct ucx_copy_failure *failure) {
    const struct nixl_request *request = xfer->request;

    if (!request->has_notif || xfer->peer == NULL) {
        return UCX_COPY_DONE;
    }
    xfer->failed_run = NIXL_NO_INDEX;
    if (xfer->by_cma) {
        return notify_by_ucx(xfer, failure);
    }
    if (ucx_registry_notify(xfer->peer->local_id, xfer->self->host->agent, request->notif,
                            request->notif_len)) {
        return UCX_COPY_DONE;
    }
    say_gone(xfer, false, failure);
    return UCX_COPY_FAILED;
}

/* Copies on for a bounded time, up to the notification. */
static enum ucx_copy copy_some(struct ucx_xfer *xfer, bool in_post, struct ucx_copy_failure *failure) {
    enum ucx_copy outcome;

    failure->os_error = 0;
    xfer->failed_run = NIXL_NO_INDEX;
    xfer->failed_block = 0;
    outcome = xfer->by_cma ? ucx_cma_some(xfer, in_post, failure)
                           : ucx_copy_here(xfer, in_post ? POST_BYTES : PIECE_BYTES, failure);
    return outcome == UCX_COPY_DONE ? copy_notify(xfer, failure) : outcome;
}

/* The kernel refuses: UCX moves what is left. */
static void give_to_ucx(struct ucx_xfer *xfer) {
    xfer->by_cma = false;
    xfer->failed_run = 0;
    xfer->failed_block = 0;
    xfer->phase = UCX_ISSUING;
    __atomic_store_n(&xfer->is_copy, false, __ATOMIC_SEQ_CST);
}

void ucx_copy_requeue(struct ucx_copies *copies, struct ucx_xfer *xfer) {
    xfer->next = NULL;
    if (copies->queue.tail != NULL) {
        copies->queue.tail->next = xfer;
    } else {
        copies->queue.head = xfer;
    }
    copies->queue.tail = xfer;
    if (xfer->share != NULL) {
        __atomic_fetch_add(&copies->shared, 1, __ATOMIC_RELEASE);
    }
}

void ucx_copy_unqueue(struct ucx_copies *copies, struct ucx_xfer *xfer) {
    struct ucx_xfer *before = NULL;

    for (struct ucx_xfer *at = copies->queue.head; at != xfer; at = at->next) {
        before = at;
    }
    if (before != NULL) {
        before->next = xfer->next;
    } else {
        copies->queue.head = xfer->next;
    }
    if (copies->queue.tail == xfer) {
        copies->queue.tail = before;
    }
    if (xfer->share != NULL) {
        __atomic_fetch_sub(&copies->shared, 1, __ATOMIC_RELEASE);
    }
}

static void copy_push(struct ucx_instance *self, struct ucx_xfer *xfer) {
    struct ucx_copies *copies = &self->copies;

    lock_take(&copies->lock);
    ucx_copy_requeue(copies, xfer);
    lock_drop(&copies->lock);
}

void ucx_copy_queue(struct ucx_xfer *xfer) {
    __atomic_fetch_add(&xfer->self->copies.active, 1, __ATOMIC_RELEASE);
    copy_push(xfer->self, xfer);
}

/* The first in the queue, unless several threads share it. */
static struct ucx_xfer *copy_pop(struct ucx_instance *self) {
    struct ucx_copies *copies = &self->copies;
    struct ucx_xfer *xfer;

    lock_take(&copies->lock);
    xfer = copies->queue.head;
    if (xfer != NULL && xfer->share != NULL) {
        xfer = NULL;
    } else if (xfer != NULL) {
        ucx_copy_unqueue(copies, xfer);
    }
    lock_drop(&copies->lock);
    return xfer;
}

static nixl_status_t fail_post(const struct ucx_xfer *xfer, const struct ucx_copy_failure *failure) {
    const struct nixl_host *host = xfer->self->host;

    if (xfer->failed_run == NIXL_NO_INDEX) {
        return host->fail(host->ctx, failure->status, "%s", failure->text);
    }
    return host->fail(
        host->ctx, failure->status, "descriptor %llu: %s",
        (unsigned long long)(xfer->request->runs[xfer->failed_run].first_index + xfer->failed_block),
        failure->text);
}

nixl_status_t ucx_copy_post(struct ucx_xfer *xfer) {
    struct ucx_instance *self = xfer->self;
    const struct nixl_host *host = self->host;
    struct ucx_copy_failure failure;

    if (xfer->peer != NULL) {
        nixl_status_t status = ucx_peer_state(self, xfer->peer);

        if (status < 0) {
            return status;
        }
    }
    if (xfer->share != NULL) {
        return ucx_share_post(xfer);
    }
    switch (copy_some(xfer, true, &failure)) {
    case UCX_COPY_FAILED:
        return fail_post(xfer, &failure);
    case UCX_COPY_REFUSED:
        give_to_ucx(xfer);
        return NIXL_ERR_NOT_SUPPORTED;
    case UCX_COPY_DONE:
        return NIXL_SUCCESS;
    case UCX_COPY_GIVEN:
        host->wake(host->ctx);
        return NIXL_IN_PROG;
    case UCX_COPY_MORE:
        break;
    }
    ucx_copy_queue(xfer);
    host->wake(host->ctx);
    return NIXL_IN_PROG;
}

static void copy_end(struct ucx_xfer *xfer, enum ucx_copy outcome, bool is_stopping,
                     const struct ucx_copy_failure *why) {
    const struct nixl_host *host = xfer->self->host;
    struct nixl_failure failure = NIXL_FAILURE_INIT;

    failure.bytes_done = xfer->done;
    if (is_stopping) {
        failure.status = NIXL_ERR_CANCELED;
    } else if (outcome == UCX_COPY_FAILED) {
        failure.status = why->status;
        failure.os_error = why->os_error;
        failure.text = why->text;
        failure.run = xfer->failed_run;
        failure.block = xfer->failed_block;
    }
    host->complete(host->ctx, xfer->request, outcome == UCX_COPY_DONE ? NULL : &failure);
}

/* What becomes of a request that was taken out of the queue. */
static void copy_over(struct ucx_instance *self, struct ucx_xfer *xfer, enum ucx_copy outcome,
                      bool is_stopping, const struct ucx_copy_failure *failure) {
    struct ucx_worker *worker = xfer->home;

    switch (outcome) {
    case UCX_COPY_MORE:
        copy_push(self, xfer);
        return;
    case UCX_COPY_REFUSED:
        ucx_worker_enter(worker);
        give_to_ucx(xfer);
        worker->requests++;
        ucx_worker_ready(worker, xfer);
        ucx_worker_leave(worker);
        break;
    case UCX_COPY_GIVEN:
        break;
    case UCX_COPY_DONE:
    case UCX_COPY_FAILED:
        copy_end(xfer, outcome, is_stopping, failure);
        break;
    }
    __atomic_fetch_sub(&self->copies.active, 1, __ATOMIC_RELEASE);
}

void ucx_copy_ended(struct ucx_xfer *xfer, enum ucx_copy outcome, struct ucx_copy_failure *failure) {
    struct ucx_instance *self = xfer->self;
    bool is_stopping = ucx_xfer_is_stopping(xfer);

    if (is_stopping) {
        outcome = UCX_COPY_FAILED;
    } else if (outcome == UCX_COPY_DONE) {
        outcome = copy_notify(xfer, failure);
    }
    copy_over(self, xfer, outcome, is_stopping, failure);
}

unsigned ucx_copy_progress(struct ucx_instance *self) {
    struct ucx_copy_failure failure;
    struct ucx_xfer *xfer;
    bool is_stopping;

    if (ucx_copy_wants_help(self) && ucx_share_turn(self, false)) {
        return 1;
    }
    xfer = copy_pop(self);
    if (xfer == NULL) {
        return 0;
    }
    is_stopping = __atomic_load_n(&xfer->is_stopping, __ATOMIC_ACQUIRE);
    copy_over(self, xfer, is_stopping ? UCX_COPY_FAILED : copy_some(xfer, false, &failure), is_stopping,
              &failure);
    return 1;
}
