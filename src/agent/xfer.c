/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a request: posted, polled, waited for, cancelled, released.
 *
 * Who may do what is decided by the one word `state` (see internal.h). A post enters by compare-and-swap, so
 * of two one wins. A completion leaves by exchange, its last touch of the request: from then on another
 * thread may post or release it. A cancel holds `turn`: a post that finds it held steps back and waits, so
 * the backend never sees both at once.
 */
#include "xfer.h"

#include <sched.h>
#include <stdlib.h>

/* Kept out of line, so that a post that does without saves no registers for it. */
#define RARE __attribute__((noinline))

#define RELEASE_WAIT_MS 100u
#define ORPHAN_FORCE_MS 100u             /* destroy cancels gently that long, then by force */
#define SLEEP_SLICE_NS (100 * NS_PER_MS) /* a net under a repost by another thread at the wrong moment */
#define SLEEP_BESIDE_NS NS_PER_MS
#define ORPHAN_GIVE_UP_S 30u /* and stops waiting for a backend that does not end a request */

nixl_status_t xfer_fail_inherited(const char *call, const struct nixl_agent *agent) {
    return fail(NIXL_ERR_NOT_ALLOWED,
                "%s: agent %s was made before fork() and lives on in the parent only; make another one here",
                call, agent->name);
}

nixl_status_t xfer_fail_orphan(const char *call) {
    return fail(NIXL_ERR_NOT_FOUND, "%s: the request's agent was destroyed", call);
}

/* ---- list of requests, memory ---- */

void xfer_enlist(struct nixl_xfer *xfer) {
    struct nixl_agent *agent = xfer->agent;

    xfers_take_within(agent);
    xfer->next = agent->xfers;
    if (xfer->next != NULL) {
        xfer->next->prev = xfer;
    }
    agent->xfers = xfer;
    xfers_drop_within(agent);
}

/* Takes it out once nobody else looks at it, and closes keys that stayed open for it alone. The backend has
 * closed it. */
void xfer_delist(struct nixl_xfer *xfer) {
    struct nixl_agent *agent = xfer->agent;
    struct region *ended;

    xfers_take(agent);
    while (xfer->pins != 0) {
        xfers_drop(agent);
        sched_yield();
        xfers_take(agent);
    }
    if (xfer->prev != NULL) {
        xfer->prev->next = xfer->next;
    } else {
        agent->xfers = xfer->next;
    }
    if (xfer->next != NULL) {
        xfer->next->prev = xfer->prev;
    }
    ended = xfer->names_lingering ? linger_drop(xfer) : NULL;
    xfers_drop(agent);
    while (ended != NULL) {
        struct region *next = (struct region *)(uintptr_t)ended->keys[0].bytes;

        peer_region_end(xfer->peer, ended);
        ended = next;
    }
}

/* Gives back the peer. */
static void xfer_let_go(struct nixl_xfer *xfer) {
    xfer->local_count = 0;
    xfer->remote_count = 0;
    if (xfer->peer != NULL) {
        peer_leave(xfer->peer);
        xfer->peer = NULL;
    }
}

void xfer_free(struct nixl_xfer *xfer) {
    xfer_let_go(xfer);
    bytes_free(&xfer->notif);
    free(xfer->words);
    free(xfer->block);
}

/* ---- post ---- */

/* Which side's regions are not all there any more; NULL: none. Tables held. */
static const char *regions_gone(const struct nixl_xfer *xfer) {
    const struct region_set *set = &xfer->agent->regions;

    for (size_t i = 0; i < xfer->local_count; i++) {
        if (region_set_get(set, xfer->local_regions[i]) == NULL) {
            return xfer->peer != NULL ? "local" : "local or loopback";
        }
    }
    for (size_t i = 0; i < xfer->remote_count; i++) {
        if (region_set_get(&xfer->peer->regions, xfer->remote_regions[i]) == NULL) {
            return "remote";
        }
    }
    return NULL;
}

/* Something was deregistered or removed since the last look. The tables' lock waits for whoever is at it. */
static RARE nixl_status_t changes_look(struct nixl_xfer *xfer) {
    struct nixl_agent *agent = xfer->agent;
    const char *gone;

    tables_search(agent);
    gone = regions_gone(xfer);
    if (gone == NULL) {
        xfer->local_changes = __atomic_load_n(&agent->local_changes, __ATOMIC_SEQ_CST);
        if (xfer->peer != NULL) {
            xfer->peer_changes = __atomic_load_n(&xfer->peer->changes, __ATOMIC_SEQ_CST);
        }
    }
    tables_leave(agent);
    if (gone != NULL) {
        return fail(NIXL_ERR_NOT_FOUND, "post: a %s region of the request is no longer registered", gone);
    }
    return NIXL_SUCCESS;
}

static RARE nixl_status_t fail_gone(const struct peer *peer) {
    return fail(NIXL_ERR_NOT_FOUND, "post: peer \"%.64s\" was removed or replaced since the request was made",
                peer->name);
}

/* What the backend is to send. For loopback the core delivers by itself. */
void xfer_notif_set(struct nixl_xfer *xfer, bool sends) {
    xfer->sends_notif = sends;
    xfer->request.has_notif = sends && xfer->peer != NULL;
    xfer->request.notif = xfer->notif.data;
    xfer->request.notif_len = xfer->notif.len;
}

/* The notification that options ask for: stored for this post and later ones. */
static RARE nixl_status_t notif_store(struct nixl_xfer *xfer, const struct nixl_options *given) {
    struct nixl_options storage;
    const struct nixl_options *options = options_view(given, &storage);
    size_t len = options->notif_len;

    if (!options->has_notif) {
        xfer_notif_set(xfer, false);
        return NIXL_SUCCESS;
    }
    if (options->notif == NULL && len != 0) {
        return fail(NIXL_ERR_INVALID_PARAM, "post: a notification of %zu bytes at NULL", len);
    }
    if (len > NIXL_NOTIF_MAX) {
        return fail(NIXL_ERR_INVALID_PARAM, "post: a notification of %zu bytes, at most %u can be sent", len,
                    NIXL_NOTIF_MAX);
    }
    if ((xfer->backend->instance.caps & NIXL_CAP_NOTIF) == 0) {
        return fail(NIXL_ERR_BACKEND, "post: backend %s carries no notifications", xfer->backend->ops.name);
    }
    if (!array_reserve(&xfer->notif.data, &xfer->notif.cap, len, 1)) {
        return fail_memory("a notification", len);
    }
    if (len != 0) {
        memcpy(xfer->notif.data, options->notif, len);
    }
    xfer->notif.len = len;
    xfer_notif_set(xfer, true);
    return NIXL_SUCCESS;
}

/* The way into a post when something is in the way: a state that changed, a cancel, a post that has not come
 * back yet. */
static RARE int32_t post_enter_again(struct nixl_xfer *xfer) {
    int32_t state = __atomic_load_n(&xfer->state, __ATOMIC_RELAXED);

    for (;;) {
        if (xfer_is_active(state)) {
            return state;
        }
        if (!__atomic_compare_exchange_n(&xfer->state, &state, XFER_POSTING, false, __ATOMIC_SEQ_CST,
                                         __ATOMIC_RELAXED)) {
            continue;
        }
        if (!lock_is_held(&xfer->turn)) {
            break;
        }
        /* A cancel is under way: wait for it outside. */
        __atomic_store_n(&xfer->state, state, __ATOMIC_RELEASE);
        lock_take(&xfer->turn);
        lock_drop(&xfer->turn);
    }
    while (__atomic_load_n(&xfer->is_posting, __ATOMIC_ACQUIRE) != 0) {
        sched_yield();
    }
    return state;
}

/*
 * Takes the request for a post: state becomes XFER_POSTING. Returns what it was and goes back to if the post
 * is refused; above 0 it is in flight, and nothing was changed.
 */
static inline int32_t post_enter(struct nixl_xfer *xfer) {
    int32_t state = __atomic_load_n(&xfer->state, __ATOMIC_RELAXED);

    if (__builtin_expect(xfer_is_active(state), 0)) {
        return state;
    }
#ifdef BREAK_11 /* a look and a store with a moment between them */
    sched_yield();
    xfer->state = XFER_POSTING;
    return state;
#endif
    /* Before local_changes, is_gone and turn are read: a deregistration, a removal or a cancel either sees
     * this or is seen here. */
    if (__builtin_expect(!__atomic_compare_exchange_n(&xfer->state, &state, XFER_POSTING, false,
                                                      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED),
                         0)) {
        return post_enter_again(xfer);
    }
    if (__builtin_expect(
            lock_is_held(&xfer->turn) || __atomic_load_n(&xfer->is_posting, __ATOMIC_ACQUIRE) != 0, 0)) {
        __atomic_store_n(&xfer->state, state, __ATOMIC_RELEASE);
        return post_enter_again(xfer);
    }
    return state;
}

/* What must hold for a post, and the notification. */
static inline nixl_status_t post_check(struct nixl_xfer *xfer, const struct nixl_options *options) {
    struct nixl_agent *agent = xfer->agent;
    struct peer *peer = xfer->peer;
    nixl_status_t status;

    if (peer != NULL && __builtin_expect(__atomic_load_n(&peer->is_gone, __ATOMIC_SEQ_CST), 0)) {
        return fail_gone(peer);
    }
    if (__builtin_expect(
            xfer->local_changes != __atomic_load_n(&agent->local_changes, __ATOMIC_SEQ_CST) ||
                (peer != NULL && xfer->peer_changes != __atomic_load_n(&peer->changes, __ATOMIC_SEQ_CST)),
            0)) {
        status = changes_look(xfer);
        if (status != NIXL_SUCCESS) {
            return status;
        }
    }
    return options != NULL ? notif_store(xfer, options) : NIXL_SUCCESS;
}

static inline bool has_deadlines(const struct nixl_xfer *xfer) {
    return (xfer->timeout_ms & xfer->stall_timeout_ms) != NIXL_NO_TIMEOUT;
}

/* The backend has begun: clocks for its deadlines. */
static RARE void post_clocks(struct nixl_xfer *xfer) {
    uint64_t now;
    uint64_t deadline;
    uint64_t stall;

    if (!has_deadlines(xfer)) {
        return;
    }
    now = clock_coarse_ns();
    deadline = xfer->timeout_ms != NIXL_NO_TIMEOUT ? clock_deadline_ms(now, xfer->timeout_ms) : CLOCK_NEVER;
    stall = xfer->stall_timeout_ms != NIXL_NO_TIMEOUT ? clock_deadline_ms(now, xfer->stall_timeout_ms)
                                                      : CLOCK_NEVER;
    __atomic_store_n(&xfer->moved_bytes, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&xfer->moved_ns, now, __ATOMIC_RELAXED);
    __atomic_store_n(&xfer->deadline_ns, deadline, __ATOMIC_RELEASE);
    progress_deadline(xfer->agent, deadline < stall ? deadline : stall);
}

static inline void word_store(struct nixl_xfer *xfer, int32_t state, bool is_posting) {
    struct xfer_word word = {state, is_posting};

    __atomic_store(&xfer->word, &word, __ATOMIC_RELEASE);
}

/* Whether the backend gave words shows in its own count: this thread's would cost a call on each post. */
static RARE nixl_status_t post_failed(struct nixl_xfer *xfer, nixl_status_t status, uint32_t words_given) {
    bool has_words = __atomic_load_n(&xfer->backend->words_given, __ATOMIC_RELAXED) != words_given;

    status = backend_fault(xfer->backend, backend_mark() - has_words, status, "posting");
    error_prefix("post");
    xfer_failure_of_post(xfer, status);
    return status;
}

/* The request ended inside post. */
static nixl_status_t post_ended(struct nixl_xfer *xfer, nixl_status_t status, uint32_t words_given) {
    if (status == NIXL_SUCCESS) {
        if (xfer->peer == NULL && xfer->sends_notif) {
            xfer_notify_self(xfer);
        }
    } else {
        status = post_failed(xfer, status, words_given);
        if ((xfer->request.flags & NIXL_REQUEST_NOTIFY_FAILURE) != 0) {
            notice_add(xfer, status);
        }
    }
    /* Both at once: whoever sees that the post is over sees the end too (mark_waited). */
    word_store(xfer, (int32_t)status, false);
    if (__builtin_expect(__atomic_load_n(&xfer->agent->progress.is_watched, __ATOMIC_RELAXED), 0)) {
        progress_event(xfer->agent);
    }
    return status;
}

static RARE nixl_status_t post_timed(struct nixl_xfer *xfer) {
    struct nixl_backend *backend = xfer->backend;
    uint64_t start = clock_now_ns();
    nixl_status_t status;
    uint64_t end;

    xfer->start_ns = start;
    xfer->end_ns = 0;
    status = backend->ops.post(backend->self, &xfer->request);
    end = clock_now_ns();
    xfer->post_ns = end > start ? end - start : 1;
    if (status == NIXL_SUCCESS) {
        xfer->end_ns = end;
        cost_note(xfer, start, end);
    }
    return status;
}

static inline __attribute__((always_inline)) nixl_status_t post(struct nixl_xfer *xfer,
                                                                const struct nixl_options *options) {
    struct nixl_backend *backend = xfer->backend;
    struct nixl_request *request = &xfer->request;
    nixl_status_t status;
    uint32_t words_given;
    int32_t prior;

#ifdef BREAK_2 /* the guard is the order: of a request in flight nothing is changed */
    xfer->start_ns = clock_now_ns();
#endif
    prior = post_enter(xfer);
    if (__builtin_expect(xfer_is_active(prior), 0)) {
        return fail(NIXL_ERR_REPOST_ACTIVE, "post: the request is in flight: wait for it or cancel it first");
    }
    status = post_check(xfer, options);
    if (__builtin_expect(status != NIXL_SUCCESS, 0)) {
        __atomic_store_n(&xfer->state, prior, __ATOMIC_RELEASE);
        return status;
    }
    /* Stores before the next post's compare-and-swap are what it waits for, so there are no needless ones.
     * The clocks of the last run stay until post_clocks(): overdue() tells runs apart. */
    __atomic_store_n(&request->done_bytes, 0, __ATOMIC_RELAXED);
    if (__builtin_expect(__atomic_load_n(&xfer->cancel_level, __ATOMIC_RELAXED) != XFER_CANCEL_NONE, 0)) {
        __atomic_store_n(&xfer->cancel_level, XFER_CANCEL_NONE, __ATOMIC_RELAXED);
    }
    word_store(xfer, XFER_IN_PROG, true);
    words_given = __atomic_load_n(&backend->words_given, __ATOMIC_RELAXED);
    status =
        __builtin_expect(xfer->is_timed, 0) ? post_timed(xfer) : backend->ops.post(backend->self, request);
    if (status == NIXL_IN_PROG) {
        post_clocks(xfer);
        __atomic_store_n(&xfer->is_posting, false, __ATOMIC_RELEASE);
        return NIXL_IN_PROG;
    }
    return post_ended(xfer, status, words_given);
}

/* Mode STRICT. */
static RARE nixl_status_t post_alone(struct nixl_xfer *xfer, const struct nixl_options *options) {
    struct nixl_agent *agent = xfer->agent;
    nixl_status_t status;

    lock_take(&agent->strict);
    status = post(xfer, options);
    lock_drop(&agent->strict);
    return status;
}

nixl_status_t nixl_xfer_post(struct nixl_xfer *xfer, const struct nixl_options *options) {
    struct nixl_agent *agent;

    if (xfer == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "post: the request is NULL");
    }
    agent = xfer->agent;
    if (__builtin_expect(agent == NULL, 0)) {
        return xfer_fail_orphan("post");
    }
    if (xfer_is_inherited(agent)) {
        return xfer_fail_inherited("post", agent);
    }
    return agent->sync != NIXL_SYNC_STRICT ? post(xfer, options) : post_alone(xfer, options);
}

/* ---- cancel ---- */

nixl_status_t nixl_xfer_cancel(struct nixl_xfer *xfer) {
    if (xfer == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "cancel: the request is NULL");
    }
    if (xfer->agent == NULL) {
        return NIXL_SUCCESS;
    }
    if (xfer_is_inherited(xfer->agent)) {
        return xfer_fail_inherited("cancel", xfer->agent);
    }
    if (!xfer_is_active(xfer_state(xfer))) {
        return NIXL_SUCCESS;
    }
    xfer_cancel_with(xfer, NIXL_CANCEL_GENTLE, NIXL_ERR_CANCELED, "canceled by the program");
    if (xfer_is_active(xfer_state(xfer)) && xfer->backend->needs_progress) {
        (void)progress_run_one(xfer->agent, xfer->backend);
    }
    return xfer_is_active(xfer_state(xfer)) ? NIXL_IN_PROG : NIXL_SUCCESS;
}

/* ---- poll and wait ---- */

/* The state as the call's result; one below 0 with its words, for this thread's error text. */
static RARE nixl_status_t state_in_words(struct nixl_xfer *xfer, const char *call, int32_t state) {
    nixl_status_t status = (nixl_status_t)state;

    if (status == NIXL_ERR_NOT_POSTED) {
        return fail(status, "%s: the request was not posted yet", call);
    }
    lock_take(&xfer->words_lock);
    (void)fail_at(status, xfer->failure.index, "%s: %s", call,
                  xfer->words != NULL ? xfer->words->text : error_status_name(status));
    lock_drop(&xfer->words_lock);
    return status;
}

static inline nixl_status_t state_told(struct nixl_xfer *xfer, const char *call, int32_t state) {
    return __builtin_expect(state < 0, 0) ? state_in_words(xfer, call, state) : xfer_status_of(state);
}

/* One look at a request in flight: progress, then, where no thread does it, its deadlines. */
static int32_t poll_active(struct nixl_xfer *xfer) {
    struct nixl_agent *agent = xfer->agent;
    int32_t state;

    if (xfer->backend->needs_progress) {
        (void)progress_run_one(agent, xfer->backend);
        state = xfer_state(xfer);
        if (!xfer_is_active(state)) {
            return state;
        }
    }
    if (!agent->progress.has_thread && has_deadlines(xfer)) {
        (void)xfer_deadline_look(xfer, clock_coarse_ns());
    }
    return xfer_state(xfer);
}

nixl_status_t nixl_xfer_poll(struct nixl_xfer *xfer) {
    struct nixl_agent *agent;
    int32_t state;

    if (xfer == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "poll: the request is NULL");
    }
    agent = xfer->agent;
    if (__builtin_expect(agent == NULL, 0)) {
        return xfer_fail_orphan("poll");
    }
    if (xfer_is_inherited(agent)) {
        return xfer_fail_inherited("poll", agent);
    }
    state = xfer_state(xfer);
    if (!xfer_is_active(state)) {
        return state_told(xfer, "poll", state);
    }
    if (agent->sync == NIXL_SYNC_STRICT) {
        lock_take(&agent->strict);
        state = poll_active(xfer);
        lock_drop(&agent->strict);
    } else {
        state = poll_active(xfer);
    }
    if (xfer_is_active(state)) {
        progress_give_way(agent);
    }
    return state_told(xfer, "poll", state);
}

/*
 * Marks the state as XFER_WAITED or XFER_ASLEEP, so that whoever ends the request wakes. WAITED stays: it does
 * for both. Not while a post is under way: that one may end inside the backend without a look at who waits.
 * False: look again.
 */
static bool mark_waited(struct nixl_xfer *xfer, int32_t mark) {
    int32_t state = XFER_IN_PROG;

    if (__atomic_load_n(&xfer->is_posting, __ATOMIC_ACQUIRE)) {
        sched_yield();
        return false;
    }
    while (
        !__atomic_compare_exchange_n(&xfer->state, &state, mark, false, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)) {
        if (state == mark || state == XFER_WAITED) {
            return true;
        }
        if (state != XFER_ASLEEP && state != XFER_IN_PROG) {
            return false;
        }
    }
    return true;
}

/* Who slept alone looks for himself from now on: nobody need wake him. */
static void unmark_asleep(struct nixl_xfer *xfer) {
    int32_t state = XFER_ASLEEP;

    (void)__atomic_compare_exchange_n(&xfer->state, &state, XFER_IN_PROG, false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_RELAXED);
}

static void sleep_on_state(struct nixl_xfer *xfer, uint64_t until) {
    if (mark_waited(xfer, XFER_WAITED)) {
        futex_wait((const uint32_t *)&xfer->state, XFER_WAITED, until);
    }
}

/* Until when a waiter may sleep: its own deadlines are its business where there is no thread. */
static uint64_t sleep_limit(struct nixl_xfer *xfer, uint64_t now, uint64_t until, uint64_t slice) {
    uint64_t limit = until;

    if (!xfer->agent->progress.has_thread && has_deadlines(xfer)) {
        uint64_t deadline = xfer_deadline_look(xfer, now);

        limit = deadline < limit ? deadline : limit;
    }
    return now + slice < limit ? now + slice : limit;
}

/* Sleeps once, in the way that this agent and backend need. */
static void wait_sleep(struct nixl_xfer *xfer, uint64_t now, uint64_t until) {
    struct nixl_agent *agent = xfer->agent;

    if (agent->progress.has_thread || !xfer->backend->needs_progress) {
        progress_wait_begin(agent);
        sleep_on_state(xfer, sleep_limit(xfer, now, until, SLEEP_SLICE_NS));
        progress_wait_end(agent);
    } else if (progress_sleep_begin(agent)) {
        /* One waiter sleeps on the backends' events; whoever else completes the request wakes it. */
        if (mark_waited(xfer, XFER_ASLEEP)) {
            progress_sleep(agent, xfer->backend, sleep_limit(xfer, now, until, SLEEP_SLICE_NS));
        }
        unmark_asleep(xfer); /* before another one sleeps here, for perhaps the same request */
        progress_sleep_end(agent);
    } else {
        /* Another waiter sleeps there. It may leave without us being told. */
        sleep_on_state(xfer, sleep_limit(xfer, now, until, SLEEP_BESIDE_NS));
    }
}

/* Waits without the agent's locks. Returns the last state seen. */
static int32_t wait_until(struct nixl_xfer *xfer, uint64_t until) {
    bool can_spin = cpu_count() > 1 && !__atomic_load_n(&xfer->backend->can_wait, __ATOMIC_RELAXED);
    uint64_t spin_end = can_spin ? clock_now_ns() + PROGRESS_WAIT_SPIN_NS : 0;
    uint64_t now;
    int32_t state;

    for (;;) {
        state = poll_active(xfer);
        if (!xfer_is_active(state)) {
            return state;
        }
        now = clock_now_ns();
        if (now >= until) {
            return state;
        }
        if (now < spin_end) {
            cpu_relax();
        } else {
            wait_sleep(xfer, now, until);
        }
    }
}

nixl_status_t nixl_xfer_wait(struct nixl_xfer *xfer, uint64_t timeout_ms) {
    int32_t state;

    if (xfer == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "wait: the request is NULL");
    }
    if (xfer->agent == NULL) {
        return xfer_fail_orphan("wait");
    }
    if (xfer_is_inherited(xfer->agent)) {
        return xfer_fail_inherited("wait", xfer->agent);
    }
    state = xfer_state(xfer);
    if (!xfer_is_active(state)) {
        return state_told(xfer, "wait", state);
    }
    return state_told(xfer, "wait", wait_until(xfer, clock_deadline_ms(clock_now_ns(), timeout_ms)));
}

/* ---- release ---- */

/* The request has ended. A cancellation that began before may be in the backend still: it holds the turn, and a later one
 * will see there that nothing is in flight. */
static void request_end(struct nixl_xfer *xfer) {
    lock_take(&xfer->turn);
    lock_drop(&xfer->turn);
    if (xfer->backend->ops.request_close != NULL) {
        xfer->backend->ops.request_close(xfer->backend->self, &xfer->request);
    }
}

nixl_status_t nixl_xfer_release(struct nixl_xfer *xfer) {
    if (xfer == NULL) {
        return NIXL_SUCCESS;
    }
    if (xfer->agent == NULL) {
        xfer_free(xfer);
        return NIXL_SUCCESS;
    }
    if (xfer_is_inherited(xfer->agent)) {
        return xfer_fail_inherited("release", xfer->agent);
    }
    if (xfer_is_active(xfer_state(xfer))) {
        xfer_cancel_with(xfer, NIXL_CANCEL_GENTLE, NIXL_ERR_CANCELED, "canceled by its release");
        if (xfer_is_active(wait_until(xfer, clock_deadline_ms(clock_now_ns(), RELEASE_WAIT_MS)))) {
            return fail(NIXL_ERR_REPOST_ACTIVE,
                        "release: the request was cancelled but has not ended after %u ms; it stays valid, "
                        "release it "
                        "again",
                        RELEASE_WAIT_MS);
        }
    }
    request_end(xfer);
    xfer_delist(xfer);
    xfer_free(xfer);
    return NIXL_SUCCESS;
}

/* Ends what is in flight, however long that takes, within reason. */
static bool orphan_quiesce(struct nixl_xfer *xfer) {
    uint64_t begin = clock_now_ns();

    if (!xfer_is_active(xfer_state(xfer))) {
        return true;
    }
    xfer_cancel_with(xfer, NIXL_CANCEL_GENTLE, NIXL_ERR_CANCELED, "canceled by the end of its agent");
    if (!xfer_is_active(wait_until(xfer, clock_deadline_ms(begin, ORPHAN_FORCE_MS)))) {
        return true;
    }
    xfer_cancel_with(xfer, NIXL_CANCEL_FORCE, NIXL_ERR_CANCELED, "canceled by the end of its agent");
    if (!xfer_is_active(wait_until(xfer, begin + ORPHAN_GIVE_UP_S * NS_PER_S))) {
        return true;
    }
    log_error("backend %s has not ended a cancelled request after %u s; the agent ends without it",
              xfer->backend->ops.name, ORPHAN_GIVE_UP_S);
    return false;
}

void xfer_orphan_all(struct nixl_agent *agent) {
    struct nixl_xfer *xfer;

    /* All are told first, so that they end side by side. */
    for (xfer = agent->xfers; xfer != NULL; xfer = xfer->next) {
        if (xfer_is_active(xfer_state(xfer))) {
            xfer_cancel_with(xfer, NIXL_CANCEL_GENTLE, NIXL_ERR_CANCELED, "canceled by the end of its agent");
        }
    }
    while ((xfer = agent->xfers) != NULL) {
        if (orphan_quiesce(xfer)) {
            request_end(xfer);
            xfer_delist(xfer);
            xfer_let_go(xfer);
        } else {
            xfer_delist(xfer);
        }
        xfer->agent = NULL;
        xfer->backend = NULL;
    }
    while (agent->dlists != NULL) {
        dlist_orphan(agent->dlists);
    }
}
