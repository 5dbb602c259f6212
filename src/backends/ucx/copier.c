/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that helps with large copies where num_threads has brought none (copy_threads): one an instance, started when
 * the first request is made that is worth it, asleep on a futex otherwise. It has no worker, and takes pieces from share.c only.
 * By default agents with a progress thread have it; in the others nothing moves but by a call of the program.
 *
 * It is for processors that nobody else needs. How long it was kept from running although it had work, by the clock and by its
 * own processor time, says whether there is one: if not it leaves the copy to who polls, and is not called for a while, longer
 * each time. Nobody waits for it, but for the piece in its hands.
 */
#include "ucx.h"

#include "base/clock.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* Waking up takes some 50 us, up to 100 on a virtual machine. */
#define KEPT_NS (200 * NS_PER_US)
#define REST_MIN_NS (20 * NS_PER_MS)
#define REST_MAX_NS NS_PER_S

enum {
    COPIER_NONE = 0, /* not started, or it could not be */
    COPIER_ASLEEP,
    COPIER_CALLED
};

static bool is_ending(const struct ucx_instance *self) {
    return __atomic_load_n(&self->is_ending, __ATOMIC_ACQUIRE);
}

static uint64_t own_time_ns(void) {
    struct timespec used = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

/* Whether of the time since it was called too much was spent waiting for a processor. */
static bool is_kept(uint64_t called_ns, uint64_t own_ns) {
    uint64_t wall = clock_now_ns() - called_ns, own = own_time_ns() - own_ns;

    return wall > own && wall - own > KEPT_NS + wall / 4;
}

/* Copies until there is nothing left to take, or somebody else needs the processor. */
static void help(struct ucx_instance *self, uint64_t *rest_ns) {
    struct ucx_copier *copier = &self->copier;
    uint64_t called_ns = __atomic_load_n(&copier->called_ns, __ATOMIC_RELAXED), own_ns = own_time_ns();
    bool kept = false;

    while (!kept && ucx_copy_help(self) != 0) {
        kept = is_kept(called_ns, own_ns);
    }
    if (!kept) {
        *rest_ns = 0;
        return;
    }
    *rest_ns = *rest_ns == 0 ? REST_MIN_NS : *rest_ns * 2 < REST_MAX_NS ? *rest_ns * 2 : REST_MAX_NS;
    __atomic_store_n(&copier->rests_until_ns, clock_now_ns() + *rest_ns, __ATOMIC_RELAXED);
}

static void copier_body(void *arg) {
    struct ucx_instance *self = arg;
    struct ucx_copier *copier = &self->copier;
    uint64_t rest_ns = 0;

    while (!is_ending(self)) {
        if (__atomic_load_n(&copier->state, __ATOMIC_ACQUIRE) != COPIER_CALLED) {
            (void)futex_wait(&copier->state, COPIER_ASLEEP, CLOCK_NEVER);
            continue;
        }
        help(self, &rest_ns);
        /* Who stops us has written is_ending before `state`. A call between the last look and this one was lost. */
        (void)__atomic_exchange_n(&copier->state, COPIER_ASLEEP, __ATOMIC_SEQ_CST);
        if (ucx_copy_wants_help(self)) {
            ucx_copier_call(self);
        }
    }
}

static bool has_processors(void) {
    cpu_set_t set;

    /* More processors than such a set holds are enough, too. */
    return cpu_count() > 1 && (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) > 1);
}

void ucx_copier_start(struct ucx_instance *self) {
    struct ucx_copier *copier = &self->copier;
    int rc;

    if (self->options->copy_threads < (self->host->progress_thread ? 1 : 2) || self->helper_count != 0 ||
        __atomic_load_n(&copier->is_tried, __ATOMIC_ACQUIRE)) {
        return;
    }
    lock_take(&copier->lock);
    if (!copier->is_tried && has_processors()) {
        __atomic_store_n(&copier->state, COPIER_ASLEEP, __ATOMIC_RELEASE);
        rc = thread_start(&copier->thread, "nixl-ucx-copy", copier_body, self);
        if (rc != 0) {
            __atomic_store_n(&copier->state, COPIER_NONE, __ATOMIC_RELEASE);
            self->host->log(self->host->ctx, NIXL_LOG_DEBUG,
                            "the thread for large copies (copy_threads) cannot be started: %s", strerror(rc));
        }
    }
    __atomic_store_n(&copier->is_tried, true, __ATOMIC_RELEASE);
    lock_drop(&copier->lock);
}

bool ucx_copier_is_there(const struct ucx_instance *self) {
    return __atomic_load_n(&self->copier.state, __ATOMIC_RELAXED) != COPIER_NONE;
}

void ucx_copier_call(struct ucx_instance *self) {
    struct ucx_copier *copier = &self->copier;
    uint32_t asleep = COPIER_ASLEEP;
    uint64_t now;

    if (__atomic_load_n(&copier->state, __ATOMIC_RELAXED) != COPIER_ASLEEP) {
        return;
    }
    now = clock_now_ns();
    if (now < __atomic_load_n(&copier->rests_until_ns, __ATOMIC_RELAXED)) {
        return;
    }
    __atomic_store_n(&copier->called_ns, now, __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(&copier->state, &asleep, COPIER_CALLED, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED)) {
        (void)futex_wake(&copier->state, 1);
    }
}

void ucx_copier_stop(struct ucx_instance *self) {
    struct ucx_copier *copier = &self->copier;

    /* A forked child has inherited no thread. */
    if (ucx_is_inherited(self)) {
        return;
    }
    lock_take(&copier->lock);
    if (copier->thread.is_running) {
        (void)__atomic_exchange_n(&copier->state, COPIER_CALLED, __ATOMIC_SEQ_CST);
        (void)futex_wake(&copier->state, 1);
        thread_join(&copier->thread);
    }
    lock_drop(&copier->lock);
}
