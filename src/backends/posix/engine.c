/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests' way through the backend. post copies what the page cache can serve at once and gives the rest
 * to the kernel or, when nobody is known to poll, to the engine's thread. progress does for a poller what the
 * thread does otherwise. cancel calls everything back.
 */
#include "posix.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Polls that come this close together are a poller's who waits for nothing else. */
#define BURST_POLLS 16u
#define BURST_NS (200 * NS_PER_US)

/* ---- Opening --------------------------------------------------------------------------------------------
 */

static nixl_status_t refuse_alignment(struct posix_engine *engine, const struct nixl_run *run, uint32_t block,
                                      const char *what, uint64_t value, uint32_t align) {
    const struct nixl_host *host = engine->host;
    char path[256];

    return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM,
                      "descriptor %" PRIu64 ": %s %" PRIu64 " is no multiple of %" PRIu32
                      ", as direct input and output on %s "
                      "needs (option bounce=true sends such requests through the page cache)",
                      (uint64_t)run->first_index + block, what, value, align,
                      posix_file_name(run->remote_key, path, sizeof path));
}

static nixl_status_t check_run(struct posix_engine *engine, const struct nixl_request *request,
                               const struct nixl_run *run, struct posix_request *r) {
    const struct nixl_host *host = engine->host;
    struct posix_file *file = run->remote_key;
    bool is_write = request->op == NIXL_WRITE;
    uint64_t last;
    char path[256];

    if (is_write ? !file->can_write : !file->can_read) {
        return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM, "descriptor %" PRIu32 ": %s is not open for %s",
                          run->first_index, posix_file_name(file, path, sizeof path),
                          is_write ? "writing" : "reading");
    }
    if (is_write && file->is_append) {
        return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM,
                          "descriptor %" PRIu32
                          ": %s is open with O_APPEND: the kernel would write at its end, not at the offset",
                          run->first_index, posix_file_name(file, path, sizeof path));
    }
    if (__builtin_mul_overflow((uint64_t)(run->count - 1), run->remote_stride, &last) ||
        __builtin_add_overflow(last, run->remote, &last) || __builtin_add_overflow(last, run->len, &last) ||
        last > INT64_MAX) {
        return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM,
                          "descriptor %" PRIu32 ": %" PRIu64 " bytes at offset %" PRIu64
                          " pass the end of what a file can have",
                          run->first_index, run->len, run->remote);
    }
    r->has_fuse = r->has_fuse || file->is_fuse;
    if (!file->is_direct) {
        r->has_buffered = true;
    } else {
        const char *what;
        uint64_t value;
        uint32_t block, align;

        if (!posix_is_aligned(run, file, &block, &what, &value, &align)) {
            int rc;

            if (!engine->options->bounce) {
                return refuse_alignment(engine, run, block, what, value, align);
            }
            rc = posix_file_twin(file);
            if (rc != 0) {
                return host->fail(host->ctx, NIXL_ERR_BACKEND, "%s cannot be opened for bouncing: %s",
                                  posix_file_name(file, path, sizeof path), strerror(rc));
            }
            r->uses_twin = r->has_buffered = true;
        } else if (run->local_key != NULL) {
            posix_memory_asked(engine, run->local_key, run->len * run->count);
        }
    }
    return NIXL_SUCCESS;
}

nixl_status_t posix_request_open(void *self, struct nixl_request *request) {
    struct posix_engine *engine = self;
    const struct nixl_host *host = engine->host;
    struct posix_request *r = request->state;
    size_t i;

    if (request->local_mem != DRAM_SEG || request->remote_mem != FILE_SEG) {
        return host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED,
                          "the local side of a file transfer is host memory and the remote side, under the "
                          "agent's own name, "
                          "the file; asked was %s to %s",
                          request->local_mem == FILE_SEG ? "a file" : "host memory",
                          request->remote_mem == FILE_SEG ? "a file" : "host memory");
    }
    r->request = request;
    for (i = 0; i < request->run_count; i++) {
        nixl_status_t status = check_run(engine, request, &request->runs[i], r);

        if (status != NIXL_SUCCESS) {
            return status;
        }
    }
    for (i = 0; r->uses_twin && i < request->run_count; i++) {
        struct posix_file *file = request->runs[i].remote_key;

        int rc = file->is_direct ? posix_file_twin(file) : 0;

        if (rc != 0) {
            char path[256];

            return host->fail(host->ctx, NIXL_ERR_BACKEND, "%s cannot be opened for bouncing: %s",
                              posix_file_name(file, path, sizeof path), strerror(rc));
        }
    }
    return NIXL_SUCCESS;
}

/* ---- Posting --------------------------------------------------------------------------------------------
 */

static enum posix_stage waiting_stage(const struct posix_engine *engine, const struct posix_request *r) {
    if (r->has_buffered && !engine->queue_ops->takes_buffered) {
        return POSIX_STAGE_BLOCK;
    }
    return r->has_fuse && r->request->op == NIXL_READ && engine->queue_ops->is_wrong_with_fuse
               ? POSIX_STAGE_BLOCK
               : POSIX_STAGE_QUEUE;
}

/* All that is ready; the lock is held. */
static void hand_over(struct posix_engine *engine) {
    engine->kept = 0;
    posix_issue(engine);
    posix_reap(engine); /* what the page cache had is there already */
}

nixl_status_t posix_post(void *self, struct nixl_request *request) {
    struct posix_engine *engine = self;
    struct posix_request *r = request->state;
    enum posix_served served = POSIX_SERVED_WAIT;

    *r = (struct posix_request){.request = request,
                                .has_fuse = r->has_fuse,
                                .has_buffered = r->has_buffered,
                                .uses_twin = r->uses_twin};
    if (r->has_buffered || request->total_bytes == 0) {
        served = posix_serve(r, false);
    }
    if (served == POSIX_SERVED_ALL || served == POSIX_SERVED_FAULT) {
        posix_end(engine, r);
        return NIXL_IN_PROG;
    }
    r->stage = (uint8_t)(served == POSIX_SERVED_SLICE ? POSIX_STAGE_COPY : waiting_stage(engine, r));

    lock_take(&engine->lock);
    engine->posts++;
    __atomic_store_n(&engine->active, engine->active + 1, __ATOMIC_RELEASE);
    posix_enlist(engine, r);
    if (r->stage == POSIX_STAGE_QUEUE && engine->is_polled &&
        (__atomic_load_n(&engine->batches, __ATOMIC_RELAXED) == 0 || ++engine->kept >= POSIX_BATCH_POSTS)) {
        hand_over(engine);
    }
    if (engine->ready[POSIX_STAGE_BLOCK].head != NULL) {
        posix_thread_block(engine);
    } else if (engine->active != 0) {
        posix_thread_hand_over(engine);
    }
    lock_drop(&engine->lock);
    return NIXL_IN_PROG;
}

/* Many operations in one submission are one call, and one knock at the device's door. */
void posix_batch(void *self, bool begins) {
    struct posix_engine *engine = self;

    if (begins) {
        __atomic_add_fetch(&engine->batches, 1, __ATOMIC_RELAXED);
        return;
    }
    __atomic_sub_fetch(&engine->batches, 1, __ATOMIC_RELAXED);
    lock_take(&engine->lock);
    if (engine->is_polled && engine->ready[POSIX_STAGE_QUEUE].head != NULL) {
        hand_over(engine);
    }
    lock_drop(&engine->lock);
}

void posix_cancel(void *self, struct nixl_request *request, enum nixl_cancel how) {
    struct posix_engine *engine = self;
    struct posix_request *r = request->state;

    (void)how; /* a file has no peer to break with: both ways are the same */
    lock_take(&engine->lock);
    /* A request may have ended at this moment: it is not ours any more then, and its state says so. */
    if (r->request != NULL && (r->is_listed || r->is_served || r->in_kernel != 0)) {
        bool was_canceled = r->is_canceled;

        r->is_canceled = true;
        posix_delist(engine, r);
        if (!posix_end_if_over(engine, r) && !was_canceled) {
            posix_recall(engine, r);
            engine->has_pushed = true;
            posix_issue(engine);
            posix_reap(engine);
        }
    }
    lock_drop(&engine->lock);
}

/* ---- Progress -------------------------------------------------------------------------------------------
 */

bool posix_serve_one(struct posix_engine *engine, enum posix_stage stage) {
    struct posix_request *r = engine->ready[stage].head;
    enum posix_served served;

    if (r == NULL) {
        return false;
    }
    posix_delist(engine, r);
    r->is_served = true;
    lock_drop(&engine->lock);
    served = posix_serve(r, stage == POSIX_STAGE_BLOCK);
    lock_take(&engine->lock);
    r->is_served = false;
    if (!posix_end_if_over(engine, r)) {
        if (served == POSIX_SERVED_WAIT) {
            r->stage = (uint8_t)waiting_stage(engine, r);
        }
        posix_enlist(engine, r);
        if (r->stage != POSIX_STAGE_BLOCK) {
            posix_nudge(engine);
        } else if (stage != POSIX_STAGE_BLOCK) {
            posix_thread_block(engine);
        }
    }
    return true;
}

void posix_notify(struct posix_engine *engine, bool on) {
    if (engine->queue_ops->notify != NULL) {
        engine->queue_ops->notify(engine->queue, on);
    }
}

void posix_drain(struct posix_engine *engine) {
    uint64_t count;

    if (!engine->is_signaled) {
        return;
    }
    engine->is_signaled = false;
    while (read(engine->event_fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

static void disarm(struct posix_engine *engine) {
    engine->is_armed = false;
    if (engine->is_polled) {
        posix_notify(engine, false);
    }
    posix_drain(engine);
}

nixl_status_t posix_arm(void *self) {
    struct posix_engine *engine = self;
    bool is_busy;

    lock_take(&engine->lock);
    /* Worth some polls: who sleeps here now and then is at work. */
    __atomic_store_n(&engine->polls, __atomic_load_n(&engine->polls, __ATOMIC_RELAXED) + POSIX_BUSY_POLLS,
                     __ATOMIC_RELAXED);
    posix_drain(engine);
    posix_notify(engine, true);
    engine->is_armed = engine->is_signaled = true;
    if (!engine->is_polled) {
        engine->is_polled = true; /* who arms does the work */
        posix_thread_wake(engine);
    }
    /* Only now, with the signal on, what had ended before is seen for sure. */
    is_busy = posix_reap(engine) != 0;
    posix_issue(engine);
    is_busy = posix_reap(engine) != 0 || is_busy || engine->ready[POSIX_STAGE_COPY].head != NULL ||
              engine->has_pushed;
    if (is_busy) {
        disarm(engine);
    }
    lock_drop(&engine->lock);
    return is_busy ? NIXL_IN_PROG : NIXL_SUCCESS;
}

void posix_nudge(struct posix_engine *engine) {
    if (engine->is_waited && !engine->is_nudged) {
        engine->is_nudged = true;
        engine->queue_ops->nudge(engine->queue);
    }
}

nixl_status_t posix_wait(void *self, int fd, uint64_t until_ns) {
    struct posix_engine *engine = self;
    enum posix_sleep how = POSIX_SLEEP_NOT_NOW;
    bool is_readable = false;

    if (engine->queue_ops->sleep == NULL) {
        return NIXL_ERR_NOT_SUPPORTED;
    }
    lock_take(&engine->lock);
    if (!engine->is_polled) {
        engine->is_polled = true; /* who waits does the work */
        posix_thread_wake(engine);
        posix_notify(engine, engine->is_armed);
    }
    if (!engine->is_armed) {
        posix_drain(engine); /* `fd` may look at it */
    }
    posix_issue(engine);
    if (engine->ready[POSIX_STAGE_COPY].head == NULL && !engine->has_pushed && !engine->is_waited) {
        how = engine->queue_ops->sleep_begin(engine->queue, fd);
    }
    if (how == POSIX_SLEEP_NOW) {
        engine->is_waited = true;
        engine->is_nudged = false;
        lock_drop(&engine->lock);
        engine->queue_ops->sleep(engine->queue, until_ns);
        lock_take(&engine->lock);
        engine->is_waited = false;
    }
    is_readable = engine->queue_ops->sleep_end(engine->queue); /* also what was there from the beginning */
    lock_drop(&engine->lock);
    return how == POSIX_SLEEP_NEVER ? NIXL_ERR_NOT_SUPPORTED : is_readable ? NIXL_IN_PROG : NIXL_SUCCESS;
}

/* A poller who asks again and again will do the work itself: the thread need not be woken for each operation.
 */
static void watch_for_pollers(struct posix_engine *engine, uint32_t polls) {
    if (engine->is_polled || polls - engine->burst_polls < BURST_POLLS) {
        return;
    }
    uint64_t now_ns = clock_now_ns();

    if (now_ns - engine->burst_start_ns < BURST_NS) {
        engine->is_polled = true;
        posix_notify(engine, false);
        posix_thread_wake(engine);
    }
    engine->burst_polls = polls;
    engine->burst_start_ns = now_ns;
}

unsigned posix_progress(void *self) {
    struct posix_engine *engine = self;
    unsigned n;
    uint32_t polls;

    if (__atomic_load_n(&engine->active, __ATOMIC_ACQUIRE) == 0) {
        return 0;
    }
    /* Two pollers may lose a count: it only has to move. */
    polls = __atomic_load_n(&engine->polls, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&engine->polls, polls, __ATOMIC_RELAXED);
    if (!lock_try(&engine->lock)) {
        return 0;
    }
    n = posix_reap(engine);
    if (n != 0 && !engine->is_polled) {
        polls += n; /* he was quicker than the thread */
        __atomic_store_n(&engine->polls, polls, __ATOMIC_RELAXED);
    }
    if (n != 0 && engine->is_armed) {
        disarm(engine);
    }
    watch_for_pollers(engine, polls);
    if (engine->is_polled) {
        posix_issue(engine);
        if (engine->ready[POSIX_STAGE_COPY].head != NULL) {
            engine->is_serving = true;
            n += posix_serve_one(engine, POSIX_STAGE_COPY);
            engine->is_serving = false;
        }
    }
    lock_drop(&engine->lock);
    return n;
}
