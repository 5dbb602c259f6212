/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers and the lock around each. Whoever polls makes progress if the lock is free at once; whoever posts waits for it, and
 * progress makes way. UCX's callbacks only note what happened: requests go on, endpoints are closed and the agent is told
 * outside of them, in ucx_worker_settle().
 */
#include "ucx.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define PROGRESS_ROUNDS 4     /* calls of UCX in one turn */
#define IDLE_POLLS 256u       /* polls after which an idle worker is looked at */
#define CLOSE_TURNS_MAX 10000 /* of a worker before it is destroyed, or until so many did nothing */
#define CLOSE_TURNS_IDLE 100
#define CLOSE_WAIT_NS (200 * NS_PER_MS) /* for what is still being sent when an instance closes */

nixl_status_t ucx_fail_inherited(const struct ucx_instance *self) {
    return self->host->fail(
        self->host->ctx, NIXL_ERR_NOT_ALLOWED,
        "this process was forked from the one that started UCX: it cannot use it (use spawn "
        "or exec)");
}

void ucx_worker_enter(struct ucx_worker *worker) {
    ucx_inside_enter(worker->self->host);
    if (lock_try(&worker->lock)) {
        return;
    }
    /* The lock is not fair: without this word a thread that polls in a loop could keep it for long. */
    __atomic_fetch_add(&worker->wanted, 1, __ATOMIC_RELAXED);
    lock_take(&worker->lock);
    __atomic_fetch_sub(&worker->wanted, 1, __ATOMIC_RELAXED);
}

void ucx_worker_leave(struct ucx_worker *worker) {
    if (worker->index != 0) {
        bool busy = worker->requests != 0 || worker->closing != NULL || worker->pending != 0 ||
                    worker->ready.head != NULL || worker->failed != NULL;

        __atomic_store_n(&worker->busy, busy, __ATOMIC_RELAXED);
    }
    lock_drop(&worker->lock);
    ucx_inside_leave();
}

void ucx_worker_ready(struct ucx_worker *worker, struct ucx_xfer *xfer) {
    struct ucx_xfer_queue *ready = &worker->ready;

    if (xfer->is_queued) {
        return;
    }
    xfer->is_queued = true;
    xfer->next = NULL;
    if (ready->tail != NULL) {
        ready->tail->next = xfer;
    } else {
        ready->head = xfer;
    }
    ready->tail = xfer;
}

void ucx_worker_unready(struct ucx_worker *worker, struct ucx_xfer *xfer) {
    struct ucx_xfer_queue *ready = &worker->ready;
    struct ucx_xfer *before = NULL;

    if (__builtin_expect(!xfer->is_queued, 1)) {
        return;
    }
    for (struct ucx_xfer *at = ready->head; at != xfer; at = at->next) {
        before = at;
    }
    if (before != NULL) {
        before->next = xfer->next;
    } else {
        ready->head = xfer->next;
    }
    if (ready->tail == xfer) {
        ready->tail = before;
    }
    xfer->is_queued = false;
}

static struct ucx_xfer *ready_take(struct ucx_xfer_queue *ready) {
    struct ucx_xfer *xfer = ready->head;

    if (xfer != NULL) {
        ready->head = xfer->next;
        if (ready->head == NULL) {
            ready->tail = NULL;
        }
        xfer->is_queued = false;
    }
    return xfer;
}

static void settle_failed(struct ucx_worker *worker) {
    while (worker->failed != NULL) {
        struct ucx_end *end = worker->failed;

        worker->failed = end->next;
        end->next = NULL;
        end->is_queued = false;
        ucx_end_handle_failure(end);
    }
}

static void settle_closing(struct ucx_worker *worker, bool force) {
    struct ucx_end **link = &worker->closing;

    worker->is_closing_soon = false;
    while (*link != NULL) {
        struct ucx_end *end = *link, *next = end->next;

        if (ucx_end_finish_close(end, force)) {
            *link = next;
        } else {
            link = &end->next;
        }
    }
}

static void settle_arrived(struct ucx_worker *worker) {
    struct ucx_xfer *xfer;

    lock_take(&worker->inbox_lock);
    xfer = worker->inbox.head;
    worker->inbox = (struct ucx_xfer_queue){NULL, NULL};
    __atomic_store_n(&worker->arrived, 0, __ATOMIC_RELAXED);
    lock_drop(&worker->inbox_lock);
    while (xfer != NULL) {
        struct ucx_xfer *next = xfer->next;

        ucx_xfer_take_up(worker, xfer);
        xfer = next;
    }
}

unsigned ucx_worker_settle(struct ucx_worker *worker) {
    uint64_t turn_end = 0;
    unsigned served = 0;
    struct ucx_xfer *last;

    if (__atomic_load_n(&worker->arrived, __ATOMIC_ACQUIRE) != 0) {
        settle_arrived(worker);
    }
    settle_failed(worker);
    if (worker->closing != NULL) {
        settle_closing(worker, false);
    }
    /* Those that queue themselves again wait for the next turn. */
    last = worker->ready.tail;
    while (worker->ready.head != NULL) {
        struct ucx_xfer *xfer = ready_take(&worker->ready);
        bool is_last = xfer == last;

        ucx_xfer_go_on(xfer, &turn_end);
        served++;
        if (is_last || (turn_end != 0 && clock_now_ns() >= turn_end)) {
            break;
        }
    }
    settle_failed(worker);
    return served;
}

static bool has_work(const struct ucx_worker *worker) {
    return worker->ready.head != NULL || worker->failed != NULL || worker->is_closing_soon ||
           __atomic_load_n(&worker->arrived, __ATOMIC_ACQUIRE) != 0;
}

unsigned ucx_worker_turn(struct ucx_worker *worker) {
    const struct ucx_instance *self = worker->self;
    unsigned events = 0;

    if (__atomic_load_n(&worker->wanted, __ATOMIC_RELAXED) != 0 || !lock_try(&worker->lock)) {
        return 0;
    }
    ucx_inside_enter(self->host);
    for (int round = 0; round < PROGRESS_ROUNDS; round++) {
        unsigned seen = self->ucx->worker_progress(worker->handle), served = 0;

        worker->turns++;
        if (has_work(worker) || worker->closing != NULL) {
            served = ucx_worker_settle(worker);
        }
        events += seen + served;
        /* A request that went on may have ended: whoever waits for it should not wait for another round. */
        if (seen == 0 || served != 0 || __atomic_load_n(&worker->wanted, __ATOMIC_RELAXED) != 0) {
            break;
        }
    }
    ucx_worker_leave(worker);
    return events;
}

/* The other workers only start things: they have nothing to say unless something is under way, or a peer has failed. */
static unsigned others_turn(struct ucx_instance *self) {
    bool is_round = __atomic_fetch_add(&self->polls, 1, __ATOMIC_RELAXED) % IDLE_POLLS == 0;
    unsigned events = 0;

    for (unsigned i = 1; i < self->worker_count; i++) {
        struct ucx_worker *worker = &self->workers[i];
        bool is_busy = __atomic_load_n(&worker->busy, __ATOMIC_RELAXED) != 0 ||
                       __atomic_load_n(&worker->arrived, __ATOMIC_RELAXED) != 0;

        if (i < self->shared_count ? is_busy || is_round : is_busy && ucx_helper_is_kept(worker)) {
            events += ucx_worker_turn(worker);
        }
    }
    return events;
}

unsigned ucx_progress(void *instance) {
    struct ucx_instance *self = instance;
    unsigned events = 0;

    if (ucx_is_inherited(self)) {
        return 0;
    }
    if (ucx_copy_is_active(self)) {
        events = ucx_copy_progress(self);
    }
    if (self->worker_count > 1) {
        events += others_turn(self);
    }
    return events + ucx_worker_turn(ucx_first_worker(self));
}

nixl_status_t ucx_worker_arm(struct ucx_worker *worker) {
    ucs_status_t status = UCS_ERR_BUSY;

    ucx_worker_enter(worker);
    if (!has_work(worker)) {
        status = worker->self->ucx->worker_arm(worker->handle);
    }
    ucx_worker_leave(worker);
    return status == UCS_OK ? NIXL_SUCCESS : NIXL_IN_PROG;
}

nixl_status_t ucx_arm(void *instance) {
    struct ucx_instance *self = instance;

    if (ucx_is_inherited(self)) {
        return NIXL_ERR_NOT_ALLOWED;
    }
    if (ucx_copy_is_active(self)) {
        return NIXL_IN_PROG;
    }
    for (unsigned i = 0; i < self->shared_count; i++) {
        nixl_status_t status = ucx_worker_arm(&self->workers[i]);

        if (status != NIXL_SUCCESS) {
            return status;
        }
    }
    return NIXL_SUCCESS;
}

/* ---- between threads ---- */

void ucx_worker_send(struct ucx_worker *worker, struct ucx_xfer *xfer) {
    xfer->next = NULL;
    lock_take(&worker->inbox_lock);
    if (worker->inbox.tail != NULL) {
        worker->inbox.tail->next = xfer;
    } else {
        worker->inbox.head = xfer;
    }
    worker->inbox.tail = xfer;
    __atomic_store_n(&worker->arrived, 1, __ATOMIC_RELEASE);
    lock_drop(&worker->inbox_lock);
}

struct ucx_worker *ucx_worker_choose(struct ucx_instance *self) {
    static __thread char me;
    const void *id = &me;
    unsigned count = self->shared_count;

    for (unsigned i = 0; i < count; i++) {
        const void *taker = __atomic_load_n(&self->takers[i], __ATOMIC_RELAXED);

        if (taker == id ||
            (taker == NULL && __atomic_compare_exchange_n(&self->takers[i], &taker, id, false,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))) {
            return &self->workers[i];
        }
    }
    return &self->workers[count > 1 ? ((uintptr_t)id >> 12) % count : 0];
}

/* ---- open and close ---- */

static nixl_status_t worker_open(struct ucx_worker *worker) {
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    struct ucx_instance *self = worker->self;
    const struct nixl_host *host = self->host;
    char words[512];
    nixl_status_t result;
    ucs_status_t status = self->ucx->worker_create(self->context, &params, &worker->handle);

    if (status != UCS_OK) {
        worker->handle = NULL;
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no UCX worker can be made: %s",
                          ucx_words(self->library, status, words, sizeof words));
    }
    status = self->ucx->worker_get_efd(worker->handle, &worker->event_fd);
    if (status != UCS_OK) {
        return host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED,
                          "the transports that UCX was left with%s%s have no event descriptor: %s",
                          self->tls[0] != '\0' ? " by UCX_TLS=" : "", self->tls,
                          ucx_words(self->library, status, words, sizeof words));
    }
    result = ucx_notif_listen(worker);
    return result == NIXL_SUCCESS ? ucx_serve_listen(worker) : result;
}

/* The agent's address is the first worker's. */
static nixl_status_t worker_address(struct ucx_instance *self) {
    ucp_worker_attr_t attr = {.field_mask =
                                  UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_THREAD_MODE};
    const struct nixl_host *host = self->host;
    ucp_worker_h handle = ucx_first_worker(self)->handle;
    char words[512];
    ucs_status_t status = self->ucx->worker_query(handle, &attr);

    if (status != UCS_OK) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "the worker's address cannot be had: %s",
                          ucx_words(self->library, status, words, sizeof words));
    }
    if (attr.thread_mode < UCS_THREAD_MODE_SERIALIZED) {
        self->ucx->worker_release_address(handle, attr.address);
        return host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED,
                          "UCX %s (%s) gives no worker that several threads may use in turn",
                          self->library->version_text, self->library->path);
    }
    self->address = ucx_padded_copy(attr.address, attr.address_length);
    self->address_len = attr.address_length;
    self->ucx->worker_release_address(handle, attr.address);
    return self->address != NULL ? NIXL_SUCCESS : host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
}

/* One descriptor for all that the agent drives. */
static nixl_status_t join_events(struct ucx_instance *self) {
    const struct nixl_host *host = self->host;

    if (self->shared_count == 1) {
        self->event_fd = ucx_first_worker(self)->event_fd;
        return NIXL_SUCCESS;
    }
    self->event_fd = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < self->shared_count; i++) {
        struct epoll_event event = {.events = EPOLLIN};

        if (self->event_fd < 0 ||
            epoll_ctl(self->event_fd, EPOLL_CTL_ADD, self->workers[i].event_fd, &event) != 0) {
            return host->fail(host->ctx, NIXL_ERR_BACKEND, "the events of %u workers cannot be joined: %s",
                              self->shared_count, strerror(errno));
        }
    }
    return NIXL_SUCCESS;
}

static unsigned at_most(uint64_t wanted, unsigned limit) {
    return wanted < limit ? (unsigned)wanted : limit;
}

nixl_status_t ucx_workers_open(struct ucx_instance *self) {
    nixl_status_t status = NIXL_SUCCESS;

    self->shared_count = at_most(self->options->num_workers, UCX_WORKERS_MAX);
    /* Who polls works too, and more threads than processors only get into each other's way. */
    self->helper_count = at_most(at_most(self->options->num_threads, cpu_count() - 1), UCX_WORKERS_MAX);
    self->workers = calloc(self->shared_count + self->helper_count, sizeof *self->workers);
    if (self->workers == NULL) {
        return self->host->fail(self->host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    self->worker_count = self->shared_count + self->helper_count;
    for (unsigned i = 0; i < self->worker_count; i++) {
        self->workers[i].self = self;
        self->workers[i].index = i;
        self->workers[i].event_fd = -1;
        self->workers[i].helper.wake_fd = -1;
    }
    for (unsigned i = 0; i < self->worker_count && status == NIXL_SUCCESS; i++) {
        status = worker_open(&self->workers[i]);
    }
    if (status == NIXL_SUCCESS) {
        status = worker_address(self);
    }
    return status == NIXL_SUCCESS ? join_events(self) : status;
}

/* Ends what is still being sent, and the worker. */
static void worker_end(struct ucx_worker *worker) {
    const struct ucx_instance *self = worker->self;
    uint64_t end = clock_now_ns() + CLOSE_WAIT_NS;

    ucx_worker_enter(worker);
    while (worker->closing != NULL && clock_now_ns() < end) {
        self->ucx->worker_progress(worker->handle);
        worker->turns++;
        (void)ucx_worker_settle(worker);
    }
    settle_closing(worker, true);
    for (int i = 0; i < 1000 && worker->closing != NULL; i++) {
        self->ucx->worker_progress(worker->handle);
        settle_closing(worker, true);
    }
    /* Endpoints closed by force a moment ago leave work behind for UCX's next turns; 1.22 aborts when it is not done. */
    for (int i = 0, idle = 0; i < CLOSE_TURNS_MAX && idle < CLOSE_TURNS_IDLE; i++) {
        idle = self->ucx->worker_progress(worker->handle) == 0 ? idle + 1 : 0;
    }
    ucx_worker_leave(worker);
    self->ucx->worker_destroy(worker->handle);
}

static void worker_close(struct ucx_worker *worker) {
    if (worker->handle != NULL && !ucx_is_inherited(worker->self)) {
        worker_end(worker);
    }
    while (worker->messages != NULL) {
        struct ucx_message *message = worker->messages;

        worker->messages = message->next;
        bytes_free(&message->bytes);
        free(message);
    }
    while (worker->op_slabs != NULL) {
        void *slab = worker->op_slabs;

        memcpy(&worker->op_slabs, slab, sizeof worker->op_slabs);
        free(slab);
    }
}

void ucx_workers_close(struct ucx_instance *self) {
    ucx_helpers_stop(self);
    if (self->shared_count > 1 && self->event_fd >= 0) {
        (void)close(self->event_fd);
    }
    for (unsigned i = 0; i < self->worker_count; i++) {
        worker_close(&self->workers[i]);
    }
    free(self->workers);
    free(self->address);
}
