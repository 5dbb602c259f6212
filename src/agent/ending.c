/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How requests end: completed by their backend, cancelled by the program, by a deadline or because their peer
 * is gone; and the words for it. Deadlines are looked at by the progress thread, or by callers where there is
 * none.
 */
#include "xfer.h"

#include "base/text.h"

#include <inttypes.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static uint8_t cancel_level(const struct nixl_xfer *xfer) {
    return __atomic_load_n(&xfer->cancel_level, __ATOMIC_ACQUIRE);
}

/* ---- failure in words ---- */

/* Where a failure happened, as the user counts: "descriptor 12 (addr 0x..., 4096 bytes): " */
static size_t blame(struct nixl_xfer *xfer, const struct nixl_failure *failure, char *text, size_t size) {
    const struct nixl_run *run;
    size_t index;
    size_t used = 0;

    text[0] = '\0';
    if (failure->run >= xfer->request.run_count) {
        return NIXL_NO_INDEX;
    }
    run = &xfer->request.runs[failure->run];
    if (failure->block >= run->count) {
        return NIXL_NO_INDEX;
    }
    index = run->first_index + (size_t)failure->block;
    (void)text_append(text, size, &used,
                      "descriptor %zu (local 0x%" PRIx64 ", remote 0x%" PRIx64 ", %" PRIu64 " bytes): ",
                      index, run->local + failure->block * run->local_stride,
                      run->remote + failure->block * run->remote_stride, run->len);
    return index;
}

/* Where the words go; made when first needed. NULL without memory. Under words_lock. */
static struct xfer_words *words_of(struct nixl_xfer *xfer) {
    if (xfer->words == NULL) {
        xfer->words = calloc(1, sizeof *xfer->words);
    }
    return xfer->words;
}

/* Takes over a backend's failure; returns the state the request ends in. */
static int32_t failure_take(struct nixl_xfer *xfer, const struct nixl_failure *given) {
    struct nixl_failure failure = NIXL_FAILURE_INIT;
    struct xfer_words *words;
    nixl_status_t status;
    char place[160];
    char os[80] = "";
    size_t index;
    size_t used = 0;

    memcpy(&failure, given, given->size < sizeof failure ? given->size : sizeof failure);
    status = failure.status;
#ifndef BREAK_12
    if (status >= 0 || status < NIXL_ERR_NO_TELEMETRY) {
        status = NIXL_ERR_BACKEND;
    }
#endif
    index = blame(xfer, &failure, place, sizeof place);
    if (failure.os_error != 0) {
        char reason[64];

        (void)snprintf(os, sizeof os, " (%s)", strerror_r(failure.os_error, reason, sizeof reason));
    }
    lock_take(&xfer->words_lock);
    words = words_of(xfer);
    if (status == NIXL_ERR_CANCELED && cancel_level(xfer) != XFER_CANCEL_NONE) {
        status = xfer->cancel_status;
        index = NIXL_NO_INDEX;
        if (words != NULL) {
            (void)text_append(words->text, sizeof words->text, &used,
                              "%s: %s (backend %s; %" PRIu64 " of %" PRIu64 " bytes are known to be done)",
                              error_status_name(status), words->cancel, xfer->backend->ops.name,
                              failure.bytes_done, xfer->request.total_bytes);
        }
    } else if (words != NULL) {
        (void)text_append(
            words->text, sizeof words->text, &used, "%s: %sbackend %s: %s%s", error_status_name(status),
            place, xfer->backend->ops.name,
            failure.text != NULL && failure.text[0] != '\0' ? failure.text : "no cause was given", os);
    }
    xfer->failure = (struct nixl_failure_info){
        .size = sizeof xfer->failure,
        .status = status,
        .os_error = failure.os_error,
        .index = index,
        .bytes_done = failure.bytes_done,
    };
    lock_drop(&xfer->words_lock);
    return (int32_t)status;
}

/* A post that failed: this thread's error text is the cause. */
void xfer_failure_of_post(struct nixl_xfer *xfer, nixl_status_t status) {
    struct xfer_words *words;
    size_t used = 0;

    lock_take(&xfer->words_lock);
    xfer->failure = (struct nixl_failure_info)NIXL_FAILURE_INFO_INIT;
    xfer->failure.status = status;
    words = words_of(xfer);
    if (words != NULL) {
        (void)text_append(words->text, sizeof words->text, &used, "%s: %s", error_status_name(status),
                          error_text());
    }
    lock_drop(&xfer->words_lock);
}

/* ---- completion ---- */

static struct nixl_xfer *xfer_of(struct nixl_request *request) {
    return (struct nixl_xfer *)(void *)((char *)request - offsetof(struct nixl_xfer, request));
}

/* A notification to this agent itself, after the data. */
void xfer_notify_self(struct nixl_xfer *xfer) {
    struct nixl_agent *agent = xfer->agent;

    (void)inbox_add(agent, xfer->backend, agent->name, agent->name_len, xfer->notif.data, xfer->notif.len);
}

void xfer_complete(void *ctx, struct nixl_request *request, const struct nixl_failure *failure) {
    struct nixl_xfer *xfer = xfer_of(request);
    struct nixl_agent *agent = ((struct nixl_backend *)ctx)->agent;
    int32_t final = NIXL_SUCCESS;
    int32_t before;

    if (!xfer_is_active(xfer_state(xfer))) {
        log_error("backend %s completed a request that was not in flight",
                  ((struct nixl_backend *)ctx)->ops.name);
        return;
    }
    if (failure != NULL) {
        final = failure_take(xfer, failure);
        if ((request->flags & NIXL_REQUEST_NOTIFY_FAILURE) != 0) {
            notice_add(xfer, (nixl_status_t) final);
        }
    } else if (xfer->peer == NULL && xfer->sends_notif) {
        xfer_notify_self(xfer);
    }
    if (xfer->is_timed) {
        xfer->end_ns = clock_now_ns();
        if (failure == NULL) {
            cost_note(xfer, xfer->start_ns, xfer->end_ns);
        }
    }
    /* After this another thread may release the request. Only its address is used below. */
    before = __atomic_exchange_n(&xfer->state, final, __ATOMIC_ACQ_REL);
    if (before >= XFER_WAITED) {
        if (before == XFER_WAITED) {
            futex_wake((const uint32_t *)&xfer->state, INT32_MAX);
        }
        progress_wake(agent);
    }
    progress_event(agent);
}

/* ---- cancel ---- */

/* Waits until no post is in the backend or about to enter it, which takes microseconds. Under turn. */
static bool still_active(const struct nixl_xfer *xfer) {
    for (;;) {
        int32_t state = __atomic_load_n(&xfer->state, __ATOMIC_SEQ_CST);

        if (state != XFER_POSTING && !__atomic_load_n(&xfer->is_posting, __ATOMIC_ACQUIRE)) {
            return xfer_is_active(xfer_state(xfer));
        }
        sched_yield();
    }
}

/* Under turn, with the request in flight. */
static void cancel_run(struct nixl_xfer *xfer, enum nixl_cancel how, nixl_status_t status,
                       const char *words) {
    uint8_t level = how == NIXL_CANCEL_FORCE ? XFER_CANCEL_FORCED : XFER_CANCEL_ASKED;

    if (cancel_level(xfer) >= level) {
        return;
    }
    if (cancel_level(xfer) == XFER_CANCEL_NONE) {
        struct xfer_words *kept;

        lock_take(&xfer->words_lock);
        xfer->cancel_status = status;
        kept = words_of(xfer);
        if (kept != NULL) {
            (void)snprintf(kept->cancel, sizeof kept->cancel, "%s", words);
        }
        lock_drop(&xfer->words_lock);
    }
    __atomic_store_n(&xfer->cancel_level, level, __ATOMIC_RELEASE);
    xfer->backend->ops.cancel(xfer->backend->self, &xfer->request, how);
}

void xfer_cancel_with(struct nixl_xfer *xfer, enum nixl_cancel how, nixl_status_t status, const char *words) {
    lock_take(&xfer->turn);
    if (still_active(xfer)) {
        cancel_run(xfer, how, status, words);
    }
    lock_drop(&xfer->turn);
}

/* ---- deadlines ---- */

/* The clocks of one run; all different in another run of the same request. */
struct run_clocks {
    uint64_t deadline_ns, moved_ns;
};

static struct run_clocks clocks_load(const struct nixl_xfer *xfer) {
    return (struct run_clocks){
        __atomic_load_n(&xfer->deadline_ns, __ATOMIC_ACQUIRE),
        __atomic_load_n(&xfer->moved_ns, __ATOMIC_ACQUIRE),
    };
}

/* Ends an overdue run, unless it ended meanwhile or it is another run by now. */
static void overdue(struct nixl_xfer *xfer, const struct run_clocks *of, const char *words) {
    lock_take(&xfer->turn);
    if (still_active(xfer)) {
        struct run_clocks now = clocks_load(xfer);

        if (now.deadline_ns == of->deadline_ns && now.moved_ns == of->moved_ns) {
            cancel_run(xfer, NIXL_CANCEL_FORCE, NIXL_ERR_CANCELED, words);
        }
    }
    lock_drop(&xfer->turn);
}

uint64_t xfer_deadline_look(struct nixl_xfer *xfer, uint64_t now) {
    struct run_clocks clocks = clocks_load(xfer);
    uint64_t next = clocks.deadline_ns;
    char words[192];

    if (!xfer_is_active(xfer_state(xfer)) || cancel_level(xfer) == XFER_CANCEL_FORCED) {
        return CLOCK_NEVER;
    }
    if (now >= clocks.deadline_ns) {
        (void)snprintf(words, sizeof words, "its deadline of %" PRIu64 " ms passed", xfer->timeout_ms);
        overdue(xfer, &clocks, words);
        return CLOCK_NEVER;
    }
    if (xfer->stall_timeout_ms != NIXL_NO_TIMEOUT && clocks.moved_ns != CLOCK_NEVER) {
        uint64_t bytes = __atomic_load_n(&xfer->request.done_bytes, __ATOMIC_RELAXED);
        uint64_t heard = __atomic_load_n(&xfer->peer->heard_ns, __ATOMIC_RELAXED);
        uint64_t stalled;

        if (bytes != __atomic_load_n(&xfer->moved_bytes, __ATOMIC_RELAXED)) {
            __atomic_store_n(&xfer->moved_bytes, bytes, __ATOMIC_RELAXED);
            __atomic_store_n(&xfer->moved_ns, now, __ATOMIC_RELAXED);
            clocks.moved_ns = now;
        }
        stalled =
            clock_deadline_ms(heard > clocks.moved_ns ? heard : clocks.moved_ns, xfer->stall_timeout_ms);
        if (now >= stalled) {
            (void)snprintf(words, sizeof words,
                           "stalled: nothing moved for %" PRIu64 " ms and peer \"%.64s\" was silent",
                           xfer->stall_timeout_ms, xfer->peer->name);
            overdue(xfer, &clocks, words);
            return CLOCK_NEVER;
        }
        next = stalled < next ? stalled : next;
    }
    return next;
}

/*
 * Calls `look` for each request of the agent that is in flight, without the list's lock: it is pinned
 * instead. The walk goes on from a pinned request, which stays in the list.
 */
typedef uint64_t (*xfer_look_fn)(struct nixl_xfer *xfer, void *ctx);

static uint64_t each_active(struct nixl_agent *agent, xfer_look_fn look, void *ctx) {
    uint64_t earliest = CLOCK_NEVER;
    struct nixl_xfer *xfer;

    xfers_take(agent);
    xfer = agent->xfers;
    while (xfer != NULL) {
        struct nixl_xfer *next;

        /* A post sets its state, then reads is_gone; who sets is_gone then reads states: one of the two sees
         * the other. */
        if (xfer_is_active(__atomic_load_n(&xfer->state, __ATOMIC_SEQ_CST))) {
            uint64_t at;

            xfer->pins++;
            xfers_drop(agent);
            at = look(xfer, ctx);
            earliest = at < earliest ? at : earliest;
            xfers_take(agent);
            next = xfer->next;
            xfer->pins--;
        } else {
            next = xfer->next;
        }
        xfer = next;
    }
    xfers_drop(agent);
    return earliest;
}

static uint64_t look_deadline(struct nixl_xfer *xfer, void *ctx) {
    return xfer_deadline_look(xfer, *(const uint64_t *)ctx);
}

uint64_t xfer_check_deadlines(struct nixl_agent *agent, uint64_t now_ns) {
    return each_active(agent, look_deadline, &now_ns);
}

struct peer_failure {
    const struct peer *peer;
    const char *words;
};

static uint64_t look_peer(struct nixl_xfer *xfer, void *ctx) {
    const struct peer_failure *failure = ctx;

    if (xfer->peer == failure->peer) {
        xfer_cancel_with(xfer, NIXL_CANCEL_FORCE, NIXL_ERR_NOT_FOUND, failure->words);
    }
    return CLOCK_NEVER;
}

void xfer_fail_peer(struct nixl_agent *agent, struct peer *peer, const char *words) {
    struct peer_failure failure = {peer, words};

#ifdef BREAK_3
    return;
#endif
    (void)each_active(agent, look_peer, &failure);
}

bool xfer_any_active_uses_marked(struct nixl_agent *agent) {
    bool found = false;

    xfers_take_within(agent);
    for (struct nixl_xfer *xfer = agent->xfers; xfer != NULL && !found; xfer = xfer->next) {
        if (!xfer_is_active(__atomic_load_n(&xfer->state, __ATOMIC_SEQ_CST))) {
            continue;
        }
        for (size_t i = 0; i < xfer->local_count && !found; i++) {
            const struct region *region = region_set_get(&agent->regions, xfer->local_regions[i]);

            found = region != NULL && region->mark != 0;
        }
    }
    xfers_drop_within(agent);
    return found;
}
