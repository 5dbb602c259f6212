/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large copies (copy.c) by several threads at once: whoever polls, the agent's progress thread, and the threads of num_threads or
 * the one of copy_threads (copier.c) take piece after piece of the list, until there is none left; the last one out ends the
 * request. Pieces are claimed in the list's order under the lock of the copies, and copied without it. Nobody waits for a
 * thread that has not come: it finds no piece left.
 */
#include "ucx.h"

#include "base/clock.h"

#include <stdlib.h>

#define PIECE_BYTES (UINT64_C(1) << 20)
#define PIECE_BYTES_MIN (UINT64_C(256) << 10) /* at the end: who is through waits for the others' last ones */
#define PIECE_BLOCKS 512u
#define POST_BYTES (UINT64_C(256) << 10) /* of the piece that is copied within the post */
#define POST_BLOCKS 64u
/* A copy that takes less is over before a thread has woken up for long enough, and a thread that is kept from running in
 * the middle of a piece would make it longer. */
#define SHARE_NS NS_PER_MS

/* What the crew of a copy knows. The lock of the copies guards it. */
struct ucx_share {
    uint32_t crew; /* pieces in somebody's hands */
    uint64_t left; /* bytes that are not claimed */
    enum ucx_copy outcome;
    struct ucx_copy_failure failure;
};

/* Of the order that was measured: 16 bytes a nanosecond, and 600 ns for each block (4 KiB ones 1.4 us). */
static uint64_t duration_ns(const struct nixl_request *request) {
    uint64_t blocks = 0;

    for (size_t i = 0; i < request->run_count; i++) {
        blocks += ucx_run_span(&request->runs[i], request->flags).count;
    }
    return blocks * 600 + request->total_bytes / 16;
}

/* Whether a run's sides lie in each other's way, as they may in a loopback: those are copied in one order. */
static bool overlaps(const struct nixl_request *request) {
    for (size_t i = 0; i < request->run_count; i++) {
        const struct nixl_run *run = &request->runs[i];
        uint64_t steps = run->count > 0 ? run->count - 1 : 0;
        uint64_t local_end = run->local + steps * run->local_stride + run->len;
        uint64_t remote_end = run->remote + steps * run->remote_stride + run->len;

        if (local_end < run->local || remote_end < run->remote ||
            (run->local < remote_end && run->remote < local_end)) {
            return true;
        }
    }
    return false;
}

void ucx_share_open(struct ucx_xfer *xfer) {
    struct ucx_instance *self = xfer->self;

    if (duration_ns(xfer->request) < SHARE_NS || (!xfer->by_cma && overlaps(xfer->request))) {
        return;
    }
    ucx_copier_start(self);
    if (self->helper_count != 0 || ucx_copier_is_there(self) || self->host->progress_thread) {
        /* Without memory one thread copies. */
        xfer->share = calloc(1, sizeof *xfer->share);
    }
}

void ucx_share_close(struct ucx_xfer *xfer) {
    free(xfer->share);
    xfer->share = NULL;
}

/* Moves the request's place on by a piece; returns its bytes. */
static uint64_t advance(struct ucx_xfer *xfer, uint64_t max_bytes, unsigned max_blocks) {
    const struct nixl_request *request = xfer->request;
    struct ucx_place *place = &xfer->place;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < max_blocks && bytes < max_bytes && place->run < request->run_count; i++) {
        struct ucx_span span = ucx_run_span(&request->runs[place->run], request->flags);
        uint64_t len = span.len - place->offset;

        len = len < max_bytes - bytes ? len : max_bytes - bytes;
        bytes += len;
        place->offset += len;
        if (place->offset == span.len) {
            place->offset = 0;
            if (++place->block == span.count) {
                place->block = 0;
                place->run++;
            }
        }
    }
    return bytes;
}

static uint64_t piece_bytes(const struct ucx_share *share) {
    uint64_t bytes = share->left / 4;

    bytes = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    return bytes > PIECE_BYTES_MIN ? bytes : PIECE_BYTES_MIN;
}

/* Claims the next piece, perhaps an empty one; copies.lock held. */
static uint64_t claim(struct ucx_xfer *xfer, uint64_t max_bytes, unsigned max_blocks,
                      struct ucx_xfer *piece) {
    struct ucx_place from = xfer->place;
    uint64_t bytes = 0;

    xfer->share->crew++;
    if (xfer->share->outcome != UCX_COPY_DONE || ucx_xfer_is_stopping(xfer)) {
        xfer->place = xfer->limit;
        from = xfer->limit;
    } else {
        bytes = advance(xfer, max_bytes, max_blocks);
        xfer->share->left -= bytes;
    }
    /* Not a copy of the whole: a cancel may write to that at any moment. */
    *piece = (struct ucx_xfer){.self = xfer->self,
                               .request = xfer->request,
                               .peer = xfer->peer,
                               .home = xfer->home,
                               .whole = xfer,
                               .is_copy = true,
                               .by_cma = xfer->by_cma,
                               .place = from,
                               .limit = xfer->place};
    return bytes;
}

static enum ucx_copy copy_piece(struct ucx_xfer *piece, uint64_t bytes, struct ucx_copy_failure *failure) {
    enum ucx_copy outcome = UCX_COPY_DONE;

    failure->os_error = 0;
    piece->failed_run = NIXL_NO_INDEX;
    piece->failed_block = 0;
    if (bytes == 0) {
        return UCX_COPY_DONE;
    }
    do {
        outcome = piece->by_cma ? ucx_cma_some(piece, false, failure) : ucx_copy_here(piece, bytes, failure);
    } while (outcome == UCX_COPY_MORE && piece->by_cma && !ucx_xfer_is_stopping(piece));
    return outcome == UCX_COPY_MORE ? UCX_COPY_DONE : outcome;
}

/* Of several failures the first in the list's order counts; a refusal by the kernel goes before. copies.lock held. */
static void merge(struct ucx_xfer *xfer, const struct ucx_xfer *piece, enum ucx_copy outcome,
                  const struct ucx_copy_failure *failure) {
    struct ucx_share *share = xfer->share;

    xfer->done += piece->done;
    if (outcome == UCX_COPY_DONE || share->outcome == UCX_COPY_REFUSED) {
        return;
    }
    if (outcome == UCX_COPY_REFUSED || share->outcome == UCX_COPY_DONE ||
        piece->failed_run < xfer->failed_run ||
        (piece->failed_run == xfer->failed_run && piece->failed_block < xfer->failed_block)) {
        share->outcome = outcome;
        xfer->failed_run = piece->failed_run;
        xfer->failed_block = piece->failed_block;
        if (outcome == UCX_COPY_FAILED) {
            share->failure = *failure;
        }
    }
}

/* Copies what was claimed; the last one out ends the request. */
static void work(struct ucx_xfer *xfer, struct ucx_xfer *piece, uint64_t bytes) {
    struct ucx_copies *copies = &xfer->self->copies;
    struct ucx_copy_failure failure;
    enum ucx_copy outcome = copy_piece(piece, bytes, &failure);
    bool is_last;

    lock_take(&copies->lock);
    merge(xfer, piece, outcome, &failure);
    is_last = --xfer->share->crew == 0 && ucx_place_is(&xfer->place, &xfer->limit);
    lock_drop(&copies->lock);
    if (!is_last) {
        return;
    }
    /* Nobody else has it: it left the queue with its last piece. */
    outcome = xfer->share->outcome;
    if (outcome == UCX_COPY_REFUSED) {
        /* Nobody knows which pieces were refused: all of them again, and none counts twice. */
        xfer->place = (struct ucx_place){0};
        __atomic_fetch_sub(&xfer->request->done_bytes, xfer->done, __ATOMIC_RELAXED);
        xfer->done = 0;
    }
    ucx_copy_ended(xfer, outcome, &xfer->share->failure);
}

nixl_status_t ucx_share_post(struct ucx_xfer *xfer) {
    struct ucx_instance *self = xfer->self;
    uint64_t pieces =
        xfer->request->total_bytes / PIECE_BYTES + xfer->request->block_count / PIECE_BLOCKS + 1;
    struct ucx_xfer piece;
    uint64_t bytes;

    xfer->share->crew = 0;
    xfer->share->left = xfer->request->total_bytes;
    xfer->share->outcome = UCX_COPY_DONE;
    xfer->failed_run = NIXL_NO_INDEX;
    xfer->failed_block = 0;
    bytes = claim(xfer, POST_BYTES, POST_BLOCKS, &piece);
    if (ucx_place_is(&xfer->place, &xfer->limit)) {
        /* There is nothing to take for others, and who ends it does not look for it in the queue. */
        __atomic_fetch_add(&self->copies.active, 1, __ATOMIC_RELEASE);
    } else {
        ucx_copy_queue(xfer);
    }
    ucx_helpers_wake(self, pieces < self->helper_count ? (unsigned)pieces : self->helper_count);
    ucx_copier_call(self);
    work(xfer, &piece, bytes);
    self->host->wake(self->host->ctx);
    return NIXL_IN_PROG;
}

bool ucx_share_turn(struct ucx_instance *self, bool only_shared) {
    struct ucx_copies *copies = &self->copies;
    struct ucx_xfer *xfer, piece;
    bool has_more = false;
    uint64_t bytes;

    lock_take(&copies->lock);
    xfer = copies->queue.head;
    while (only_shared && xfer != NULL && xfer->share == NULL) {
        xfer = xfer->next;
    }
    if (xfer == NULL || xfer->share == NULL) {
        lock_drop(&copies->lock);
        return false;
    }
    bytes = claim(xfer, piece_bytes(xfer->share), PIECE_BLOCKS, &piece);
    ucx_copy_unqueue(copies, xfer);
    if (!ucx_place_is(&xfer->place, &xfer->limit)) {
        ucx_copy_requeue(copies, xfer); /* behind the others, which go on too */
        has_more = true;
    }
    lock_drop(&copies->lock);
    if (has_more) {
        ucx_copier_call(self);
    }
    work(xfer, &piece, bytes);
    return true;
}

bool ucx_copy_wants_help(struct ucx_instance *self) {
    return __atomic_load_n(&self->copies.shared, __ATOMIC_ACQUIRE) != 0;
}

unsigned ucx_copy_help(struct ucx_instance *self) {
    return ucx_copy_wants_help(self) && ucx_share_turn(self, true) ? 1 : 0;
}
