/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for whatever happens first in an agent: the end of any request, or a notification. A counter of such
 * events moves before anybody is woken, and each waiter knows the count that it was told last, so nothing is
 * missed between a look and a sleep. Without a progress thread one waiter sleeps on the backends' events
 * (progress.c) and makes progress for all; the others sleep on the counter.
 */
#include "internal.h"

#define SLICE_NS (100 * NS_PER_MS) /* a net under a deadline that another thread posts meanwhile */
#define BESIDE_NS NS_PER_MS        /* who sleeps on the backends' events may leave without a word */

static uint64_t events_of(const struct progress *progress) {
    return __atomic_load_n(&progress->events, __ATOMIC_SEQ_CST);
}

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Sleeps until the counter moves. The flag first, then the look: who counts does it the other way round. */
static void sleep_on_counter(struct progress *progress, uint64_t seen, uint64_t until) {
    __atomic_store_n(&progress->is_awaited, true, __ATOMIC_SEQ_CST);
    if (events_of(progress) == seen) {
        (void)futex_wait(progress_events_word(progress), (uint32_t)seen, until);
    }
}

/* Sleeps once, in the way that this agent needs. */
static void sleep_once(struct nixl_agent *agent, uint64_t seen, uint64_t now, uint64_t until) {
    struct progress *progress = &agent->progress;
    struct nixl_backend *backend = progress_sleeper(agent);

    until = earlier(until, now + SLICE_NS);
    if (progress->has_thread) {
        progress_wait_begin(agent);
        sleep_on_counter(progress, seen, until);
        progress_wait_end(agent);
        return;
    }
    until = earlier(until, __atomic_load_n(&progress->deadline_ns, __ATOMIC_SEQ_CST));
    if (backend == NULL) {
        sleep_on_counter(progress, seen, until);
    } else if (progress_sleep_begin(agent)) {
        __atomic_store_n(&progress->is_dozed, true, __ATOMIC_SEQ_CST);
        if (events_of(progress) == seen) {
            progress_sleep(agent, backend, until);
        }
        /* Before the progress that follows, which need wake nobody here. */
        __atomic_store_n(&progress->is_dozed, false, __ATOMIC_RELAXED);
        progress_sleep_end(agent);
    } else {
        sleep_on_counter(progress, seen, earlier(until, now + BESIDE_NS));
    }
}

/* Makes progress until the counter differs from `seen`: returns it; or until the time is over: returns `seen`. */
static uint64_t wait_until(struct nixl_agent *agent, uint64_t seen, uint64_t timeout_ms) {
    struct progress *progress = &agent->progress;
    uint64_t until = 0;
    uint64_t spin_end = 0;
    uint64_t now;

    for (;;) {
        (void)progress_run(agent);
        if (events_of(progress) != seen) {
            return events_of(progress);
        }
        now = clock_now_ns();
        if (until == 0) {
            const struct nixl_backend *backend = progress_sleeper(agent);
            bool can_spin =
                backend != NULL && cpu_count() > 1 && !__atomic_load_n(&backend->can_wait, __ATOMIC_RELAXED);

            until = clock_deadline_ms(now, timeout_ms);
            spin_end = can_spin ? now + PROGRESS_WAIT_SPIN_NS : 0;
        }
        if (!progress->has_thread) {
            progress_deadlines(agent, now);
        }
        if (now >= until) {
            return events_of(progress);
        }
        if (now < spin_end) {
            cpu_relax();
        } else {
            sleep_once(agent, seen, now, until);
        }
    }
}

nixl_status_t nixl_agent_wait(struct nixl_agent *agent, uint64_t *seen, uint64_t timeout_ms) {
    nixl_status_t status = agent_enter(agent, "agent wait");
    uint64_t events;

    if (status != NIXL_SUCCESS) {
        return status;
    }
    agent_leave(agent); /* nobody sleeps while others are kept out */
    if (seen == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "agent wait: seen is NULL");
    }
    if (!__atomic_load_n(&agent->progress.is_watched, __ATOMIC_RELAXED)) {
        __atomic_store_n(&agent->progress.is_watched, true, __ATOMIC_SEQ_CST);
    }
    events = wait_until(agent, *seen, timeout_ms);
    status = events != *seen ? NIXL_SUCCESS : NIXL_IN_PROG;
    *seen = events;
    return status;
}
