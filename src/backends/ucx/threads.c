/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the instance's own (num_threads): each drives one worker, that does parts of split lists, and helps with large
 * copies. It sleeps on its worker's descriptor, armed, and on one that others write when they have something for it; an idle
 * one uses no processor time. Who has written `is_asleep` looks for work once more, and who brings work looks at it
 * afterwards, so one of the two sees the other.
 */
#include "ucx.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SPIN_NS (50 * NS_PER_US) /* after its last event, and only where a processor is left over for it */
#define KEPT_NS (300 * NS_PER_US)

static bool is_ending(const struct ucx_instance *self) {
    return __atomic_load_n(&self->is_ending, __ATOMIC_ACQUIRE);
}

static bool may_spin(const struct ucx_instance *self) {
    return cpu_count() > self->helper_count + 2;
}

/* True when there is something to do before sleeping. */
static bool has_something(struct ucx_worker *worker) {
    return is_ending(worker->self) || ucx_copy_wants_help(worker->self) ||
           ucx_worker_arm(worker) != NIXL_SUCCESS;
}

static void sleep_on(struct ucx_worker *worker) {
    struct ucx_helper *helper = &worker->helper;
    struct pollfd fds[2] = {{.fd = worker->event_fd, .events = POLLIN},
                            {.fd = helper->wake_fd, .events = POLLIN}};
    uint64_t count;

    __atomic_store_n(&helper->is_asleep, 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!has_something(worker) && poll(fds, 2, -1) > 0 && fds[1].revents != 0) {
        (void)!read(helper->wake_fd, &count, sizeof count);
    }
    __atomic_store_n(&helper->is_asleep, 0, __ATOMIC_SEQ_CST);
}

static void helper_body(void *arg) {
    struct ucx_worker *worker = arg;
    struct ucx_instance *self = worker->self;
    uint64_t last_ns = 0;

    while (!is_ending(self)) {
        unsigned events = ucx_worker_turn(worker) + ucx_copy_help(self);

        (void)__atomic_fetch_add(&worker->helper.turns, 1, __ATOMIC_RELAXED);
        /* What it handed over. Somebody in there already may have looked before it came: whoever sleeps is woken, too. */
        if (__atomic_load_n(&ucx_first_worker(self)->arrived, __ATOMIC_ACQUIRE) != 0) {
            events += ucx_worker_turn(ucx_first_worker(self));
        }
        if (events != 0) {
            last_ns = 0;
        } else if (may_spin(self) && (last_ns == 0 || clock_now_ns() - last_ns < SPIN_NS)) {
            last_ns = last_ns == 0 ? clock_now_ns() : last_ns;
            cpu_relax();
        } else {
            sleep_on(worker);
            last_ns = 0;
        }
    }
}

void ucx_helper_wake(struct ucx_worker *worker) {
    uint64_t one = 1;

    __atomic_store_n(&worker->helper.seen_ns, clock_now_ns(), __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&worker->helper.is_asleep, __ATOMIC_SEQ_CST) != 0 &&
        __atomic_exchange_n(&worker->helper.is_asleep, 0, __ATOMIC_SEQ_CST) != 0) {
        (void)!write(worker->helper.wake_fd, &one, sizeof one);
    }
}

void ucx_helpers_wake(struct ucx_instance *self, unsigned count) {
    for (unsigned i = 0; i < self->helper_count && i < count; i++) {
        ucx_helper_wake(&self->workers[self->shared_count + i]);
    }
}

bool ucx_helper_is_kept(struct ucx_worker *worker) {
    struct ucx_helper *helper = &worker->helper;
    uint32_t turns = __atomic_load_n(&helper->turns, __ATOMIC_RELAXED);
    uint64_t now = clock_now_ns();

    if (turns != __atomic_load_n(&helper->seen, __ATOMIC_RELAXED)) {
        __atomic_store_n(&helper->seen, turns, __ATOMIC_RELAXED);
        __atomic_store_n(&helper->seen_ns, now, __ATOMIC_RELAXED);
        return false;
    }
    return now - __atomic_load_n(&helper->seen_ns, __ATOMIC_RELAXED) > KEPT_NS;
}

nixl_status_t ucx_helpers_start(struct ucx_instance *self) {
    const struct nixl_host *host = self->host;

    for (unsigned i = 0; i < self->helper_count; i++) {
        struct ucx_worker *worker = &self->workers[self->shared_count + i];
        char name[16];
        int rc;

        (void)snprintf(name, sizeof name, "nixl-ucx-%u", (unsigned)(uint8_t)i);
        worker->helper.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        rc = worker->helper.wake_fd < 0 ? errno
                                        : thread_start(&worker->helper.thread, name, helper_body, worker);
        if (rc != 0) {
            return host->fail(host->ctx, NIXL_ERR_BACKEND,
                              "thread %u of %u (num_threads) cannot be started: %s", i + 1,
                              self->helper_count, strerror(rc));
        }
    }
    return NIXL_SUCCESS;
}

void ucx_helpers_stop(struct ucx_instance *self) {
    uint64_t one = 1;

    __atomic_store_n(&self->is_ending, true, __ATOMIC_RELEASE);
    ucx_copier_stop(self);
    for (unsigned i = self->shared_count; i < self->worker_count; i++) {
        struct ucx_helper *helper = &self->workers[i].helper;

        /* A forked child has inherited no threads. */
        if (helper->thread.is_running && !ucx_is_inherited(self)) {
            (void)!write(helper->wake_fd, &one, sizeof one);
            thread_join(&helper->thread);
        }
        if (helper->wake_fd >= 0) {
            (void)close(helper->wake_fd);
        }
    }
}
