/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to other processes. Runs become puts and gets of at most UCX_OP_MAX bytes, of which a bounded number is with UCX at a
 * time. A request is done when every one of them has completed without an error and, for a write, a flush after them has, and
 * the endpoint has not failed: a flush alone says success also for operations that failed. Then its notification is
 * sent, then the agent is told. Callbacks only count; everything else happens outside of them under the worker's lock.
 */
#include "ucx.h"

#include "base/clock.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OPS_PER_SLAB 256
#define CLOCK_EVERY 8u /* small operations between looks at the clock */
#define OP_SLOW_NS UINT64_C(80000)
#define OP_FAST_NS UINT64_C(20000)

/* ---- operation records ---- */

static bool ops_grow(struct ucx_worker *worker) {
    struct {
        void *next;
        struct ucx_op ops[OPS_PER_SLAB];
    } *slab = malloc(sizeof *slab);

    if (slab == NULL) {
        return false;
    }
    slab->next = worker->op_slabs;
    worker->op_slabs = slab;
    for (size_t i = 0; i < OPS_PER_SLAB; i++) {
        slab->ops[i].next = worker->ops;
        worker->ops = &slab->ops[i];
    }
    return true;
}

void ucx_xfer_note_failure(struct ucx_xfer *xfer, ucs_status_t status, size_t run, uint64_t block) {
    if (xfer->status == UCS_OK || run < xfer->failed_run ||
        (run == xfer->failed_run && block < xfer->failed_block)) {
        xfer->status = status;
        xfer->failed_run = run;
        xfer->failed_block = block;
    }
}

static void note_done(struct ucx_xfer *xfer, uint64_t bytes) {
    xfer->done += bytes;
    __atomic_fetch_add(&xfer->request->done_bytes, bytes, __ATOMIC_RELAXED);
}

static bool is_issued(const struct ucx_xfer *xfer) {
    return ucx_place_is(&xfer->place, &xfer->limit);
}

/* The block where an operation begins; of blocks seen as one, the first that it touches. */
static uint64_t block_of(const struct ucx_xfer *xfer, const struct ucx_place *place) {
    const struct nixl_run *run = &xfer->request->runs[place->run];

    return place->offset >= run->len ? place->offset / run->len : place->block;
}

void ucx_op_finish(struct ucx_op *op, ucs_status_t status) {
    struct ucx_xfer *xfer = op->xfer;
    struct ucx_worker *worker = xfer->worker;
    bool is_flush = op->place.run == NIXL_NO_INDEX;

    xfer->ops--;
    xfer->queued -= op->bytes;
    if (status != UCS_OK) {
        ucx_xfer_note_failure(xfer, status, op->place.run, is_flush ? 0 : block_of(xfer, &op->place));
    } else if (!is_flush) {
        note_done(xfer, op->bytes);
    }
    op->next = worker->ops;
    worker->ops = op;
    if (xfer->ops == 0 || !is_issued(xfer)) {
        ucx_worker_ready(worker, xfer);
    }
}

/* UCX's callback for every put, get and flush. */
static void on_op_done(void *request, ucs_status_t status, void *arg) {
    struct ucx_op *op = arg;
    const struct ucx_abi *ucx = op->xfer->self->ucx;

    ucx_op_finish(op, status);
    ucx->request_free(request);
}

/* A record off the free list, counted as in flight; NULL (noted as a failure) without memory. */
static struct ucx_op *op_take(struct ucx_xfer *xfer, struct ucx_place place, uint64_t bytes) {
    struct ucx_worker *worker = xfer->worker;
    struct ucx_op *op;

    if (worker->ops == NULL && !ops_grow(worker)) {
        ucx_xfer_note_failure(xfer, UCS_ERR_NO_MEMORY, place.run, 0);
        return NULL;
    }
    op = worker->ops;
    worker->ops = op->next;
    op->xfer = xfer;
    op->bytes = bytes;
    op->place = place;
    xfer->ops++;
    xfer->queued += bytes;
    return op;
}

/* ---- issuing ---- */

enum step {
    STEP_WAIT,
    STEP_TURN_OVER,
    STEP_HANDED, /* to the first worker: it may be over any moment */
    STEP_ENDED
};

/* One put or get of the current block. */
static bool issue_one(struct ucx_xfer *xfer, const struct nixl_run *run, uint64_t len,
                      ucp_request_param_t *param) {
    struct ucx_instance *self = xfer->self;
    struct ucx_op *op = op_take(xfer, xfer->place, len);
    uint64_t local = run->local + xfer->place.block * run->local_stride + xfer->place.offset;
    uint64_t remote = run->remote + xfer->place.block * run->remote_stride + xfer->place.offset;
    ucp_rkey_h rkey = ((const struct ucx_key *)run->remote_key)->rkeys[xfer->worker->index];
    ucs_status_ptr_t request;

    if (op == NULL) {
        return false;
    }
    param->user_data = op;
    param->memh = ((const struct ucx_region *)run->local_key)->memh;
    if (xfer->request->op == NIXL_WRITE) {
        request = self->ucx->put_nbx(xfer->end->ep, (const void *)(uintptr_t)local, len, remote, rkey, param);
    } else {
        request = self->ucx->get_nbx(xfer->end->ep, (void *)(uintptr_t)local, len, remote, rkey, param);
    }
    if (UCS_PTR_IS_PTR(request)) {
        return true;
    }
    /* Not by ucx_op_finish(): who issues goes on by itself. */
    xfer->ops--;
    xfer->queued -= len;
    op->next = xfer->worker->ops;
    xfer->worker->ops = op;
    if (UCS_PTR_IS_ERR(request)) {
        ucx_xfer_note_failure(xfer, UCS_PTR_STATUS(request), op->place.run, block_of(xfer, &op->place));
        return false;
    }
    note_done(xfer, len);
    return true;
}

/* True when the turn's time is over; the clock starts at the first look. */
static bool turn_is_over(uint64_t *turn_end) {
    uint64_t now = clock_now_ns();

    if (*turn_end == 0) {
        *turn_end = now + UCX_TURN_NS;
    }
    return now >= *turn_end;
}

/* Some transports copy within the call (tcp: into the socket). There operations become smaller, so that a post stays short. */
static void adapt_op_max(struct ucx_end *end, uint64_t len, uint64_t took_ns) {
    if (took_ns > OP_SLOW_NS && end->op_max > UCX_OP_MIN && len >= end->op_max / 2) {
        end->op_max /= 2;
    } else if (took_ns < OP_FAST_NS && end->op_max < UCX_OP_MAX && len == end->op_max) {
        end->op_max *= 2;
    }
}

/* Issues the next operation of the current run and moves on. */
static bool issue_next(struct ucx_xfer *xfer, bool in_post, ucp_request_param_t *param, uint64_t *issued) {
    const struct nixl_run *run = &xfer->request->runs[xfer->place.run];
    struct ucx_span span = ucx_run_span(run, xfer->request->flags);
    struct ucx_end *end = xfer->end;
    uint64_t left = span.len - xfer->place.offset;
    uint64_t max = in_post ? end->op_max : UCX_OP_MAX;
    uint64_t len = left < max ? left : max;
    bool is_large = len >= UCX_OP_MIN;
    uint64_t start = is_large ? clock_now_ns() : 0;

    if (!issue_one(xfer, run, len, param)) {
        return false;
    }
    if (is_large && len <= end->op_max) {
        adapt_op_max(end, len, clock_now_ns() - start);
    }
    *issued = len;
    xfer->place.offset += len;
    if (xfer->place.offset == span.len) {
        xfer->place.offset = 0;
        if (++xfer->place.block == span.count) {
            xfer->place.block = 0;
            xfer->place.run++;
        }
    }
    return true;
}

/* One question, which moves the place on by itself. */
static bool ask_next(struct ucx_xfer *xfer, bool in_post, uint64_t *issued) {
    struct ucx_op *op = op_take(xfer, xfer->place, 0);

    *issued = UCX_OP_MIN;
    return op != NULL && ucx_ask(xfer, op, in_post);
}

static enum step issue(struct ucx_xfer *xfer, bool in_post, uint64_t *turn_end) {
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_MEMH | xfer->flags,
                                 .cb.send = on_op_done};
    unsigned until_look = CLOCK_EVERY;

    if (xfer->flags != 0 && turn_is_over(turn_end)) {
        return STEP_TURN_OVER;
    }
    while (!is_issued(xfer) && !ucx_xfer_is_stopping(xfer) && xfer->status == UCS_OK &&
           ucx_peer_is(xfer->peer) == UCX_PEER_OPEN) {
        uint64_t issued = 0, look_cost;

        if (xfer->ops >= (xfer->asks ? UCX_ASK_OPS : UCX_QUEUE_OPS) ||
            xfer->queued >= (xfer->asks ? UCX_ASK_QUEUE : UCX_QUEUE_BYTES)) {
            return STEP_WAIT;
        }
        if (xfer->asks && !ucx_ask_may(xfer)) {
            return STEP_WAIT;
        }
        if (until_look == 0) {
            if (turn_is_over(turn_end)) {
                return STEP_TURN_OVER;
            }
            until_look = CLOCK_EVERY;
        }
        if (!(xfer->asks ? ask_next(xfer, in_post, &issued) : issue_next(xfer, in_post, &param, &issued))) {
            break;
        }
        /* After so many operations or as many bytes as one large one has. */
        look_cost = 1 + issued / (UCX_OP_MIN / CLOCK_EVERY);
        until_look = look_cost < until_look ? until_look - (unsigned)look_cost : 0;
    }
    ucx_ask_unhold(xfer);
    xfer->phase = UCX_DRAINING;
    return STEP_WAIT;
}

/* Whether everything was issued and has succeeded so far. */
bool ucx_xfer_is_good(const struct ucx_xfer *xfer) {
    return xfer->status == UCS_OK && is_issued(xfer) && ucx_peer_is(xfer->peer) == UCX_PEER_OPEN;
}

static void start_flush(struct ucx_xfer *xfer) {
    struct ucx_instance *self = xfer->self;
    struct ucx_op *op = op_take(xfer, (struct ucx_place){.run = NIXL_NO_INDEX}, 0);
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = on_op_done,
                                 .user_data = op};
    ucs_status_ptr_t request;

    xfer->phase = UCX_FLUSHING;
    if (op == NULL) {
        return;
    }
    request = self->ucx->ep_flush_nbx(xfer->end->ep, &param);
    if (UCS_PTR_IS_PTR(request)) {
        return;
    }
    xfer->ops--;
    op->next = xfer->worker->ops;
    xfer->worker->ops = op;
    if (UCS_PTR_IS_ERR(request)) {
        ucx_xfer_note_failure(xfer, UCS_PTR_STATUS(request), NIXL_NO_INDEX, 0);
    }
}

/* A request's data is in place: sends its notification. */
static void start_notif(struct ucx_xfer *xfer) {
    const struct nixl_request *request = xfer->request;
    nixl_status_t status;

    xfer->phase = UCX_NOTIFYING;
    status = ucx_end_connect(&xfer->peer->ends[0]);
    if (status == NIXL_SUCCESS) {
        status = ucx_notif_send(xfer->peer, request->notif, request->notif_len, xfer);
    }
    if (status == NIXL_IN_PROG) {
        xfer->ops++;
    } else if (status != NIXL_SUCCESS) {
        ucx_xfer_note_failure(xfer, UCS_ERR_UNREACHABLE, NIXL_NO_INDEX, 0);
    }
}

void ucx_xfer_notified(struct ucx_xfer *xfer, ucs_status_t status) {
    xfer->ops--;
    if (status != UCS_OK) {
        ucx_xfer_note_failure(xfer, status, NIXL_NO_INDEX, 0);
    }
    ucx_worker_ready(xfer->worker, xfer);
}

/* Lets a request go on as far as it can. Worker lock held, outside callbacks. */
static enum step go_on(struct ucx_xfer *xfer, bool in_post, uint64_t *turn_end) {
    if (xfer->phase == UCX_ISSUING) {
        enum step step = issue(xfer, in_post, turn_end);

        if (xfer->phase == UCX_ISSUING) {
            return step;
        }
    }
    /* A get that has completed has its bytes here, an answer proves its question; puts are proved by a flush. It waits in UCX
     * for all before it, so it goes right behind them: what fails among them is told by its own callback. */
    if (xfer->phase == UCX_DRAINING && ucx_xfer_is_good(xfer) && xfer->request->op == NIXL_WRITE &&
        !xfer->asks) {
        start_flush(xfer);
    }
    if (xfer->ops != 0) {
        return STEP_WAIT;
    }
    if (xfer->phase == UCX_NOTIFYING || !xfer->request->has_notif || ucx_xfer_is_part(xfer) ||
        !ucx_xfer_is_good(xfer)) {
        return STEP_ENDED;
    }
    if (xfer->worker->index != 0) {
        xfer->worker->requests--;
        xfer->phase = UCX_IDLE;
        ucx_worker_unready(xfer->worker, xfer);
        ucx_xfer_hand(xfer);
        return STEP_HANDED;
    }
    start_notif(xfer);
    return xfer->ops == 0 ? STEP_ENDED : STEP_WAIT;
}

void ucx_xfer_hand(struct ucx_xfer *xfer) {
    struct ucx_instance *self = xfer->self;

    __atomic_store_n(&xfer->is_handed, true, __ATOMIC_RELEASE);
    ucx_worker_send(ucx_first_worker(self), xfer);
    self->host->wake(self->host->ctx);
}

void ucx_xfer_take_up(struct ucx_worker *worker, struct ucx_xfer *xfer) {
    worker->requests++;
    if (ucx_xfer_is_part(xfer)) {
        xfer->phase = UCX_ISSUING;
    } else {
        xfer->phase = UCX_HANDED;
        __atomic_store_n(&xfer->worker, worker, __ATOMIC_RELEASE);
        __atomic_store_n(&xfer->is_handed, false, __ATOMIC_RELEASE);
    }
    ucx_worker_ready(worker, xfer);
}

/* ---- ending ---- */

/* NIXL_SUCCESS, or why the request did not succeed. */
static nixl_status_t verdict(const struct ucx_xfer *xfer, struct nixl_failure *failure, char *text,
                             size_t size) {
    const struct ucx_peer *peer = xfer->peer;

    if (ucx_xfer_is_good(xfer)) {
        return NIXL_SUCCESS;
    }
    failure->bytes_done = xfer->done;
    if (xfer->status != UCS_OK) {
        failure->run = xfer->failed_run;
        failure->block = xfer->failed_block;
    }
    if (ucx_peer_is(peer) == UCX_PEER_FAILED) {
        failure->status = peer->is_torn_down ? NIXL_ERR_CANCELED : NIXL_ERR_REMOTE_DISCONNECT;
        failure->text = peer->words;
    } else if (__atomic_load_n(&xfer->is_stopping, __ATOMIC_RELAXED) && xfer->status == UCS_ERR_CANCELED) {
        failure->status = NIXL_ERR_CANCELED;
        failure->run = NIXL_NO_INDEX;
        failure->block = 0;
    } else if (xfer->status != UCS_OK) {
        failure->status = ucx_status(xfer->status);
        if (xfer->asks && (xfer->status == UCS_ERR_NO_ELEM || xfer->status == UCS_ERR_INVALID_ADDR)) {
            failure->status = NIXL_ERR_NOT_FOUND;
            (void)snprintf(text, size, "agent \"%.128s\" has no such region (any more)", peer->name);
            failure->text = text;
            return failure->status;
        }
        (void)snprintf(
            text, size, "%sUCX %s says: %s",
            xfer->phase == UCX_NOTIFYING ? "the data is in place, but its notification was not sent: " : "",
            xfer->self->library->version_text, xfer->self->ucx->status_string(xfer->status));
        failure->text = text;
    } else {
        failure->status = NIXL_ERR_CANCELED;
    }
    return failure->status;
}

static nixl_status_t end(struct ucx_xfer *xfer, struct nixl_failure *failure, char *text, size_t size) {
    nixl_status_t status = verdict(xfer, failure, text, size);

    xfer->phase = UCX_IDLE;
    xfer->worker->requests--;
    /* The agent may free or repost it from now on. */
    ucx_worker_unready(xfer->worker, xfer);
    return status;
}

void ucx_xfer_complete(struct ucx_xfer *xfer) {
    const struct nixl_host *host = xfer->self->host;
    struct nixl_failure failure = NIXL_FAILURE_INIT;
    char text[256];
    nixl_status_t status = verdict(xfer, &failure, text, sizeof text);

    host->complete(host->ctx, xfer->request, status == NIXL_SUCCESS ? NULL : &failure);
}

void ucx_xfer_go_on(struct ucx_xfer *xfer, uint64_t *turn_end) {
    const struct nixl_host *host = xfer->self->host;
    struct nixl_failure failure = NIXL_FAILURE_INIT;
    nixl_status_t status;
    char text[256];

    switch (go_on(xfer, false, turn_end)) {
    case STEP_WAIT:
    case STEP_HANDED:
        return;
    case STEP_TURN_OVER:
        ucx_worker_ready(xfer->worker, xfer);
        return;
    case STEP_ENDED:
        break;
    }
    if (ucx_xfer_is_part(xfer)) {
        xfer->phase = UCX_IDLE;
        xfer->worker->requests--;
        ucx_worker_unready(xfer->worker, xfer);
        ucx_split_part_ended(xfer);
        return;
    }
    status = end(xfer, &failure, text, sizeof text);
    host->complete(host->ctx, xfer->request, status == NIXL_SUCCESS ? NULL : &failure);
}

/* ---- the operations ---- */

static bool is_device(nixl_mem_t mem) {
    return mem != DRAM_SEG;
}

/* By messages: where UCX would play the operation over messages itself, and where blocks are so small that packing them is faster. */
static bool should_ask(const struct ucx_xfer *xfer) {
    const struct nixl_request *request = xfer->request;

    if (!xfer->peer->takes_questions || is_device(request->local_mem) || is_device(request->remote_mem)) {
        return false;
    }
    if (!xfer->end->is_emulated) {
        return xfer->end->loses_reads && request->op == NIXL_READ;
    }
    return request->op == NIXL_READ || xfer->self->library->version < UCX_VERSION(1, 21, 0) ||
           (request->block_count > 1 && request->total_bytes / request->block_count < UCX_ASK_SMALL);
}

nixl_status_t ucx_xfer_make_ready(struct ucx_xfer *xfer) {
    const struct nixl_request *request = xfer->request;
    nixl_status_t status = ucx_end_connect(xfer->end);

    for (size_t i = 0; i < request->run_count && status == NIXL_SUCCESS && !xfer->has_keys; i++) {
        status = ucx_key_unpack(xfer->end, request->runs[i].remote_key);
    }
    if (status == NIXL_SUCCESS && !xfer->has_keys) {
        if (xfer->by_cma) {
            ucx_end_warm(xfer->end);
        }
        ucx_end_look_at_lanes(xfer->end);
        xfer->asks = should_ask(xfer);
        if (xfer->asks) {
            ucx_ask_warm(xfer->end);
        }
        xfer->has_keys = true;
    }
    return status;
}

/* That of this thread, or the one that the program asks for, in the reference's words. */
static nixl_status_t choose_worker(struct ucx_xfer *xfer) {
    static const char wanted[] = "worker_id=";
    const struct nixl_request *request = xfer->request;
    const struct ucx_instance *self = xfer->self;
    struct text number = {request->custom, request->custom_len};
    uint64_t id = 0;

    xfer->home = self->shared_count > 1 ? ucx_worker_choose(xfer->self) : ucx_first_worker(self);
    if (number.len >= sizeof wanted && memcmp(number.at, wanted, sizeof wanted - 1) == 0) {
        number.at += sizeof wanted - 1;
        number.len -= sizeof wanted - 1;
        if (text_parse_uint(number, &id) != TEXT_OK || id >= self->shared_count) {
            return self->host->fail(self->host->ctx, NIXL_ERR_INVALID_PARAM,
                                    "worker_id=%.*s: this agent's workers are 0 to %u (num_workers)",
                                    (int)(number.len < 32 ? number.len : 32), number.at,
                                    self->shared_count - 1);
        }
        xfer->home = &self->workers[id];
    }
    xfer->worker = xfer->home;
    return NIXL_SUCCESS;
}

nixl_status_t ucx_request_open(void *instance, struct nixl_request *request) {
    struct ucx_instance *self = instance;
    struct ucx_xfer *xfer = request->state;
    nixl_status_t status = NIXL_SUCCESS;

    if (ucx_is_inherited(self)) {
        return ucx_fail_inherited(self);
    }
    *xfer = (struct ucx_xfer){.self = self, .request = request, .peer = request->peer, .whole = xfer};
    xfer->limit = (struct ucx_place){.run = request->run_count};
    xfer->is_copy = xfer->peer == NULL || xfer->peer->is_local;
    if (xfer->is_copy) {
        if (is_device(request->local_mem) || is_device(request->remote_mem)) {
            return self->host->fail(self->host->ctx, NIXL_ERR_NOT_SUPPORTED,
                                    "GPU memory cannot be copied within a process by this backend");
        }
        ucx_share_open(xfer);
        return NIXL_SUCCESS;
    }
    xfer->by_cma =
        !is_device(request->local_mem) && !is_device(request->remote_mem) && ucx_cma_can(xfer->peer);
    xfer->is_copy = xfer->by_cma;
    /* Also says that the clock must be looked at. */
    if (request->block_count > 1 || request->total_bytes > UCX_OP_MIN) {
        xfer->flags = UCP_OP_ATTR_FLAG_MULTI_SEND;
    }
    status = choose_worker(xfer);
    if (status != NIXL_SUCCESS) {
        return status;
    }
    xfer->end = &xfer->peer->ends[xfer->home->index];
    ucx_worker_enter(xfer->worker);
    /* A peer that failed is the post's to tell. */
    if (ucx_peer_is(xfer->peer) != UCX_PEER_FAILED) {
        status = ucx_xfer_make_ready(xfer);
    }
    if (status == NIXL_ERR_REMOTE_DISCONNECT) {
        status = NIXL_SUCCESS;
    }
    (void)ucx_worker_settle(xfer->worker);
    ucx_worker_leave(xfer->worker);
    if (xfer->by_cma) {
        ucx_share_open(xfer);
    } else if (status == NIXL_SUCCESS && xfer->has_keys) {
        ucx_split_open(xfer);
    }
    if (self->host->progress_thread) {
        self->host->wake(self->host->ctx);
    }
    return status;
}

void ucx_request_close(void *instance, struct nixl_request *request) {
    struct ucx_xfer *xfer = request->state;

    (void)instance;
    ucx_share_close(xfer);
    ucx_split_close(xfer);
}

static void restart(struct ucx_xfer *xfer) {
    xfer->is_stopping = false;
    xfer->worker = xfer->home;
    /* The last run may have ended as UCX's. */
    xfer->is_copy = xfer->by_cma || xfer->peer == NULL || xfer->peer->is_local;
    xfer->phase = xfer->is_copy ? UCX_IDLE : UCX_ISSUING;
    xfer->place = (struct ucx_place){0};
    xfer->done = 0;
    xfer->status = UCS_OK;
    xfer->failed_run = 0;
    xfer->failed_block = 0;
}

static nixl_status_t post_failed(struct ucx_xfer *xfer, const struct nixl_failure *failure) {
    const struct nixl_host *host = xfer->self->host;
    const struct nixl_request *request = xfer->request;

    if (failure->run == NIXL_NO_INDEX) {
        return host->fail(host->ctx, failure->status, "%s", failure->text);
    }
    return host->fail(host->ctx, failure->status, "descriptor %" PRIu64 ": %s",
                      request->runs[failure->run].first_index + failure->block, failure->text);
}

nixl_status_t ucx_post(void *instance, struct nixl_request *request) {
    struct ucx_instance *self = instance;
    struct ucx_xfer *xfer = request->state;
    struct nixl_failure failure = NIXL_FAILURE_INIT;
    struct ucx_worker *worker;
    uint64_t turn_end = 0;
    nixl_status_t status;
    char text[256];

    if (ucx_is_inherited(self)) {
        return ucx_fail_inherited(self);
    }
    restart(xfer);
    if (xfer->is_copy) {
        status = ucx_copy_post(xfer);
        /* In this order: a request that is under way may be anybody's by now. */
        if (status != NIXL_ERR_NOT_SUPPORTED || xfer->is_copy) {
            return status;
        }
    }
    if (xfer->parts != NULL) {
        xfer->phase = UCX_IDLE;
        return ucx_split_post(xfer);
    }
    worker = xfer->home;
    ucx_worker_enter(worker);
    worker->requests++;
    status = ucx_xfer_make_ready(xfer);
    if (status != NIXL_SUCCESS) {
        worker->requests--;
        xfer->phase = UCX_IDLE;
        ucx_worker_leave(worker);
        return status;
    }
    switch (go_on(xfer, true, &turn_end)) {
    case STEP_ENDED:
        status = end(xfer, &failure, text, sizeof text);
        ucx_worker_leave(worker);
        return status == NIXL_SUCCESS ? NIXL_SUCCESS : post_failed(xfer, &failure);
    case STEP_TURN_OVER:
        ucx_worker_ready(worker, xfer);
        break;
    case STEP_WAIT:
    case STEP_HANDED:
        break;
    }
    ucx_worker_leave(worker);
    if (self->host->progress_thread) {
        self->host->wake(self->host->ctx);
    }
    return NIXL_IN_PROG;
}

/* The lock of the worker in whose hands a request is. */
static struct ucx_worker *enter_worker(const struct ucx_xfer *xfer) {
    for (;;) {
        struct ucx_worker *worker = ucx_xfer_worker(xfer);

        ucx_worker_enter(worker);
        if (worker == ucx_xfer_worker(xfer)) {
            return worker;
        }
        ucx_worker_leave(worker);
    }
}

/* Whether nothing but answers to questions of ours is waited for: those are forgotten, and the peer keeps its connection. */
static bool ends_by_itself(const struct ucx_xfer *xfer) {
    return xfer->asks && (xfer->phase == UCX_ISSUING || xfer->phase == UCX_DRAINING);
}

void ucx_cancel(void *instance, struct nixl_request *request, enum nixl_cancel how) {
    struct ucx_instance *self = instance;
    struct ucx_xfer *xfer = request->state;
    struct ucx_worker *worker;

    if (ucx_is_inherited(self)) {
        return;
    }
    /* In this order, and the other way round where a copy becomes UCX's: one of the two sees the other. */
    __atomic_store_n(&xfer->is_stopping, true, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&xfer->is_copy, __ATOMIC_SEQ_CST)) {
        return;
    }
    if (xfer->parts != NULL) {
        ucx_split_cancel(xfer, how);
    }
    worker = enter_worker(xfer);
    if (how == NIXL_CANCEL_FORCE && ends_by_itself(xfer)) {
        xfer->end->is_silent = true;
    } else if (how == NIXL_CANCEL_FORCE &&
               (xfer->phase != UCX_IDLE || __atomic_load_n(&xfer->is_handed, __ATOMIC_ACQUIRE))) {
        ucx_worker_leave(worker);
        ucx_peer_tear_down(xfer->peer,
                           "a transfer to it was ended by force (a deadline, or the peer was removed)");
        worker = enter_worker(xfer);
    }
    if (xfer->phase != UCX_IDLE) {
        /* Answers that come later find nobody: nothing touches local memory any more. */
        ucx_ask_forget(xfer->end, xfer, UCS_ERR_CANCELED);
        ucx_worker_ready(worker, xfer);
        (void)ucx_worker_settle(worker);
    }
    ucx_worker_leave(worker);
    if (self->host->progress_thread) {
        self->host->wake(self->host->ctx);
    }
}

nixl_status_t ucx_transport(void *instance, const struct nixl_request *request, char *text, size_t size) {
    return ucx_peer_transport(instance, request->peer, request->local_mem, text, size);
}
