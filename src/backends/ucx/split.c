/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long lists over several workers: the blocks of a request are dealt out in parts of equal count, the first to the worker it
 * is posted on, the others to workers that have a thread. A part is a request of its own as far as its worker is concerned:
 * it is over when each of its operations has completed and a flush on its own endpoint has proved that they arrived.
 * Whoever ends the last part ends the request, or hands it to the first worker, by which all notifications leave.
 *
 * Not split: lists of fewer than twice split_batch_size blocks (what adjoins on both sides is one block), lists whose order
 * is to be kept, copies by the kernel (share.c), what UCX plays over tcp, and what goes by messages: there the target's one worker
 * is what is waited for.
 */
#include "ucx.h"

#include <stdlib.h>

static uint64_t span_count(const struct nixl_request *request) {
    uint64_t count = 0;

    for (size_t i = 0; i < request->run_count; i++) {
        count += ucx_run_span(&request->runs[i], request->flags).count;
    }
    return count;
}

/* The place of a block, counted through all runs from that of `from` on. */
static struct ucx_place place_after(const struct nixl_request *request, struct ucx_place from,
                                    uint64_t blocks) {
    while (from.run < request->run_count && blocks > 0) {
        uint64_t left = ucx_run_span(&request->runs[from.run], request->flags).count - from.block;

        if (blocks < left) {
            from.block += blocks;
            break;
        }
        blocks -= left;
        from.block = 0;
        from.run++;
    }
    return from;
}

static unsigned part_count(const struct ucx_xfer *xfer) {
    const struct ucx_instance *self = xfer->self;
    uint64_t parts;

    if (self->helper_count == 0 || xfer->request->block_count < 2 * self->options->split_batch_size ||
        (xfer->request->flags & NIXL_REQUEST_KEEP_LISTS) != 0 || xfer->end->is_emulated || xfer->asks) {
        return 1;
    }
    parts = span_count(xfer->request) / self->options->split_batch_size;
    return parts < self->helper_count + 1 ? (unsigned)parts : self->helper_count + 1;
}

static void part_make(struct ucx_xfer *xfer, struct ucx_xfer *part, struct ucx_worker *worker) {
    *part = (struct ucx_xfer){.self = xfer->self,
                              .request = xfer->request,
                              .peer = xfer->peer,
                              .whole = xfer,
                              .worker = worker,
                              .home = worker,
                              .end = &xfer->peer->ends[worker->index],
                              .flags = UCP_OP_ATTR_FLAG_MULTI_SEND};
}

void ucx_split_open(struct ucx_xfer *xfer) {
    struct ucx_instance *self = xfer->self;
    unsigned count = part_count(xfer);
    nixl_status_t status = NIXL_SUCCESS;
    struct ucx_parts *parts;

    if (count < 2) {
        return;
    }
    parts = calloc(1, sizeof *parts + count * sizeof parts->part[0]);
    if (parts == NULL) {
        return;
    }
    parts->count = count;
    for (unsigned i = 0; i < count && status == NIXL_SUCCESS; i++) {
        struct ucx_worker *worker = i == 0 ? xfer->home : &self->workers[self->shared_count + i - 1];

        part_make(xfer, &parts->part[i], worker);
        ucx_worker_enter(worker);
        status = ucx_xfer_make_ready(&parts->part[i]);
        ucx_worker_leave(worker);
    }
    if (status != NIXL_SUCCESS) {
        free(parts);
        return;
    }
    xfer->parts = parts;
}

void ucx_split_close(struct ucx_xfer *xfer) {
    free(xfer->parts);
    xfer->parts = NULL;
}

/* The last part is over. No worker's lock need be held. */
static void whole_ended(struct ucx_xfer *xfer) {
    const struct ucx_parts *parts = xfer->parts;

    xfer->place = xfer->limit;
    for (unsigned i = 0; i < parts->count; i++) {
        const struct ucx_xfer *part = &parts->part[i];

        xfer->done += part->done;
        if (part->status != UCS_OK) {
            ucx_xfer_note_failure(xfer, part->status, part->failed_run, part->failed_block);
        }
        if (!ucx_place_is(&part->place, &part->limit)) {
            xfer->place = part->place;
        }
    }
    if (xfer->request->has_notif && ucx_xfer_is_good(xfer)) {
        ucx_xfer_hand(xfer);
    } else {
        ucx_xfer_complete(xfer);
    }
}

/* Takes one off; the last one ends the request. */
static void part_off(struct ucx_xfer *xfer) {
    if (__atomic_sub_fetch(&xfer->parts->left, 1, __ATOMIC_ACQ_REL) == 0) {
        whole_ended(xfer);
    }
}

void ucx_split_part_ended(struct ucx_xfer *part) {
    if (!ucx_xfer_is_good(part)) {
        /* The others need not go on. */
        __atomic_store_n(&part->whole->is_stopping, true, __ATOMIC_RELAXED);
    }
    part_off(part->whole);
}

static void part_start(struct ucx_xfer *part, struct ucx_place from, struct ucx_place limit) {
    part->place = from;
    part->limit = limit;
    part->done = 0;
    part->status = UCS_OK;
    part->failed_run = 0;
    part->failed_block = 0;
}

nixl_status_t ucx_split_post(struct ucx_xfer *xfer) {
    struct ucx_parts *parts = xfer->parts;
    struct ucx_worker *worker = xfer->home;
    struct ucx_instance *self = xfer->self;
    uint64_t blocks = span_count(xfer->request), dealt = 0;
    struct ucx_place from = {0};

    if (ucx_peer_is(xfer->peer) == UCX_PEER_FAILED) {
        return ucx_fail_peer(xfer->peer);
    }
    __atomic_store_n(&parts->left, parts->count + 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < parts->count; i++) {
        uint64_t upto = blocks / parts->count * (i + 1) + blocks % parts->count * (i + 1) / parts->count;
        struct ucx_place limit = place_after(xfer->request, from, upto - dealt);

        part_start(&parts->part[i], from, limit);
        from = limit;
        dealt = upto;
    }
    for (unsigned i = 1; i < parts->count; i++) {
        ucx_worker_send(parts->part[i].home, &parts->part[i]);
        ucx_helper_wake(parts->part[i].home);
    }
    ucx_worker_enter(worker);
    ucx_xfer_take_up(worker, &parts->part[0]);
    (void)ucx_worker_settle(worker);
    ucx_worker_leave(worker);
    /* From here on the request may be anybody's. */
    part_off(xfer);
    if (self->host->progress_thread) {
        self->host->wake(self->host->ctx);
    }
    return NIXL_IN_PROG;
}

void ucx_split_cancel(struct ucx_xfer *xfer, enum nixl_cancel how) {
    struct ucx_parts *parts = xfer->parts;

    if (how == NIXL_CANCEL_FORCE && __atomic_load_n(&parts->left, __ATOMIC_ACQUIRE) != 0) {
        ucx_peer_tear_down(xfer->peer,
                           "a transfer to it was ended by force (a deadline, or the peer was removed)");
    }
    for (unsigned i = 0; i < parts->count; i++) {
        struct ucx_xfer *part = &parts->part[i];
        struct ucx_worker *worker = part->home;

        ucx_worker_enter(worker);
        if (part->phase != UCX_IDLE) {
            ucx_ask_forget(part->end, part, UCS_ERR_CANCELED);
            ucx_worker_ready(worker, part);
            (void)ucx_worker_settle(worker);
        }
        ucx_worker_leave(worker);
    }
}
