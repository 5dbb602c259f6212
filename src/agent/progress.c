/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who makes progress, and how everybody else sleeps. With a progress thread: it works while nobody polls,
 * spins a short while after each event, then arms the backends and sleeps on their descriptors; while callers
 * poll it stays away. Without: callers do it in poll, wait and nixl_agent_progress(), and one waiter sleeps
 * on the descriptors. Also the descriptor that tells a program's event loop of completions.
 *
 * Who spins gives way in between (progress_give_way(), and the thread's own spin): the kernel likes to wake the peer's thread on
 * the processor where its message was sent, which is that of the caller who polls for the answer, and it would stay
 * there behind that caller until the scheduler's next tick, 4 ms. Programs that compute do not give the processor back soon,
 * so once that was seen, nobody gives way for a while.
 */
#include "internal.h"

#include "base/config.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AWAY_NS NS_PER_MS /* how long the thread leaves the work to a caller that polled */
#define SPIN_US_DEFAULT 50
#define SPIN_US_MAX 1000000
#define UNARMED_NS NS_PER_MS         /* between looks at a backend that cannot be armed */
#define FRUITLESS_POLLS 4u           /* in a row, before a caller gives way */
#define SPINNING_NS (10 * NS_PER_US) /* polls further apart are no spinning */
#define CROWDED_NS (200 * NS_PER_US) /* who is away for longer gave way to a program that computes */
#define CROWDED_MIN_NS NS_PER_MS /* nobody gives way for so long after that; doubled each time, at most: */
#define CROWDED_MAX_NS (64 * NS_PER_MS)

/* ---- descriptors ---- */

static int set_add(int set, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

static void fd_signal(int fd) {
    uint64_t one = 1;
    ssize_t n;

    /* EAGAIN: the counter is full, so it is readable, which is all that matters. */
    do {
        n = write(fd, &one, sizeof one);
    } while (n < 0 && errno == EINTR);
}

static void fd_drain(int fd) {
    uint64_t count;
    ssize_t n;

    do {
        n = read(fd, &count, sizeof count);
    } while (n < 0 && errno == EINTR);
}

/* Sleeps until `fd` is readable or the time has come. */
static void fd_sleep(int fd, uint64_t until_ns) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    struct timespec timeout;
    uint64_t now;

    if (until_ns == CLOCK_NEVER) {
        (void)ppoll(&entry, 1, NULL, NULL);
        return;
    }
    now = clock_now_ns();
    if (until_ns > now) {
        timeout.tv_sec = (time_t)((until_ns - now) / NS_PER_S);
        timeout.tv_nsec = (long)((until_ns - now) % NS_PER_S);
        (void)ppoll(&entry, 1, &timeout, NULL);
    }
}

/* ---- progress itself ---- */

static unsigned run_all(struct nixl_agent *agent) {
    unsigned count = backend_count(agent);
    unsigned events = 0;

    for (unsigned slot = 0; slot < count; slot++) {
        struct nixl_backend *backend = agent->backends[slot];

        if (backend->needs_progress) {
            events += backend->ops.progress(backend->self);
        }
    }
    return events;
}

/* Not atomic as a whole: that it moves is enough. */
static inline void polls_move(struct progress *progress) {
    __atomic_store_n(&progress->polls, __atomic_load_n(&progress->polls, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELAXED);
}

/* Failed requests tell their targets outside the backends. */
static inline void notices_look(struct nixl_agent *agent) {
    if (__builtin_expect(__atomic_load_n(&agent->notices.head, __ATOMIC_ACQUIRE) != NULL, 0)) {
        notices_send(agent);
    }
}

static inline void note_fruit(struct progress *progress, unsigned events) {
    uint32_t fruitless = events != 0 ? 0 : __atomic_load_n(&progress->fruitless, __ATOMIC_RELAXED) + 1;

    __atomic_store_n(&progress->fruitless, fruitless, __ATOMIC_RELAXED);
}

unsigned progress_run(struct nixl_agent *agent) {
    unsigned events;

    polls_move(&agent->progress);
    events = run_all(agent);
    note_fruit(&agent->progress, events);
    notices_look(agent);
    return events;
}

unsigned progress_run_one(struct nixl_agent *agent, struct nixl_backend *backend) {
    unsigned events;

    polls_move(&agent->progress);
    events = backend->ops.progress(backend->self);
    note_fruit(&agent->progress, events);
    notices_look(agent);
    return events;
}

/*
 * Lets others run on this processor, unless that took long the last time. `now` moves on. The thread remembers by itself;
 * callers share their memory, and nothing but their pace depends on it.
 */
static bool give_way(struct progress_crowd *crowd, uint64_t *now) {
    uint64_t start = *now, pause;

    if (start < __atomic_load_n(&crowd->until_ns, __ATOMIC_RELAXED)) {
        return false;
    }
    (void)sched_yield();
    *now = clock_now_ns();
    if (*now - start < CROWDED_NS) {
        __atomic_store_n(&crowd->pause_ns, 0, __ATOMIC_RELAXED);
        return true;
    }
    pause = __atomic_load_n(&crowd->pause_ns, __ATOMIC_RELAXED) * 2;
    pause = pause < CROWDED_MIN_NS ? CROWDED_MIN_NS : pause < CROWDED_MAX_NS ? pause : CROWDED_MAX_NS;
    __atomic_store_n(&crowd->pause_ns, pause, __ATOMIC_RELAXED);
    __atomic_store_n(&crowd->until_ns, *now + pause, __ATOMIC_RELAXED);
    return false;
}

void progress_give_way(struct nixl_agent *agent) {
    struct progress *progress = &agent->progress;
    uint64_t now, last;

    if (!progress->has_thread || __atomic_load_n(&progress->fruitless, __ATOMIC_RELAXED) < FRUITLESS_POLLS) {
        return;
    }
    now = clock_now_ns();
    last = __atomic_load_n(&progress->polled_ns, __ATOMIC_RELAXED);
    if (now - last < SPINNING_NS) {
        (void)give_way(&progress->crowd, &now);
    }
    __atomic_store_n(&progress->polled_ns, now, __ATOMIC_RELAXED);
}

void progress_deadlines(struct nixl_agent *agent, uint64_t now) {
    struct progress *progress = &agent->progress;
    uint64_t next;

    if (now < __atomic_load_n(&progress->deadline_ns, __ATOMIC_RELAXED)) {
        return;
    }
    /* First, so that a deadline posted during the look is not lost. */
    __atomic_store_n(&progress->deadline_ns, CLOCK_NEVER, __ATOMIC_SEQ_CST);
    next = xfer_check_deadlines(agent, now);
    if (next != CLOCK_NEVER) {
        progress_deadline(agent, next);
    }
}

void progress_deadline(struct nixl_agent *agent, uint64_t deadline_ns) {
    struct progress *progress = &agent->progress;
    uint64_t known = __atomic_load_n(&progress->deadline_ns, __ATOMIC_RELAXED);

    do {
        if (deadline_ns >= known) {
            return;
        }
    } while (!__atomic_compare_exchange_n(&progress->deadline_ns, &known, deadline_ns, false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    if (progress->has_thread && deadline_ns < __atomic_load_n(&progress->wake_at_ns, __ATOMIC_SEQ_CST)) {
        progress_wake(agent);
    }
}

/* Arms every backend that has a descriptor, but `besides` (or NULL). False when one has work instead. */
static bool arm_all(struct nixl_agent *agent, const struct nixl_backend *besides, uint64_t *until_ns) {
    unsigned count = backend_count(agent);
    bool armed = true;

    lock_take(&agent->progress.arming);
    for (unsigned slot = 0; slot < count && armed; slot++) {
        struct nixl_backend *backend = agent->backends[slot];
        uint64_t period_ns;

        if (backend == besides || !backend->needs_progress) {
            continue;
        }
        period_ns = backend->instance.period_us * NS_PER_US;
        if (backend->instance.event_fd >= 0) {
            nixl_status_t status = backend->ops.arm(backend->self);

            armed = status != NIXL_IN_PROG;
            if (status < 0 && (period_ns == 0 || period_ns > UNARMED_NS)) {
                period_ns = UNARMED_NS;
            }
        }
        if (period_ns != 0) {
            uint64_t next = clock_now_ns() + period_ns;

            *until_ns = next < *until_ns ? next : *until_ns;
        }
    }
    lock_drop(&agent->progress.arming);
    return armed;
}

void progress_wake(struct nixl_agent *agent) {
    struct progress *progress = &agent->progress;

    /* Both sides change the word, so one comes after the other: a sleeper that is not seen here sees what the
     * caller has stored before. */
    if (__atomic_fetch_add(&progress->sleepers, 0, __ATOMIC_SEQ_CST) == 0) {
        return;
    }
    if (__atomic_load_n(&progress->is_away, __ATOMIC_SEQ_CST)) {
        uint64_t polls = __atomic_load_n(&progress->polls, __ATOMIC_RELAXED);

        /* It would see that there were polls since, and stay away. */
        if (polls != __atomic_load_n(&progress->polls_away, __ATOMIC_RELAXED)) {
            __atomic_store_n(&progress->polls_wake, polls, __ATOMIC_RELAXED);
            return;
        }
    }
    fd_signal(progress->wake_fd);
}

/*
 * Sleeps once on all events: within `backend`, which was not armed, or, with NULL, on the descriptors. True when
 * wake_fd may have been written.
 */
static bool sleep_armed(struct nixl_agent *agent, struct nixl_backend *backend, uint64_t until) {
    nixl_status_t status;

    if (backend == NULL) {
        fd_sleep(agent->progress.epoll_fd, until);
        return true;
    }
    status = backend->ops.wait(backend->self, agent->progress.epoll_fd, until);
    if (status < 0) {
        __atomic_store_n(&backend->can_wait, false, __ATOMIC_RELAXED); /* the next sleep is on descriptors */
    }
    return status != NIXL_SUCCESS;
}

/* ---- the thread ---- */

static bool thread_stops(const struct progress *progress) {
    return __atomic_load_n(&progress->stop, __ATOMIC_SEQ_CST);
}

static bool thread_is_needed(const struct progress *progress) {
    return __atomic_load_n(&progress->waiting, __ATOMIC_SEQ_CST) != 0 ||
           __atomic_load_n(&progress->is_armed, __ATOMIC_SEQ_CST);
}

/* Callers poll: stay out of their way, but come at once when one of them goes to sleep. */
static void thread_away(struct progress *progress, uint64_t polls) {
    (void)__atomic_exchange_n(&progress->sleepers, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&progress->polls_away, polls, __ATOMIC_RELAXED);
    __atomic_store_n(&progress->is_away, true, __ATOMIC_SEQ_CST);
    if (!thread_stops(progress) && !thread_is_needed(progress)) {
        fd_sleep(progress->wake_fd, clock_now_ns() + AWAY_NS);
    }
    __atomic_store_n(&progress->is_away, false, __ATOMIC_SEQ_CST);
    __atomic_store_n(&progress->sleepers, 0, __ATOMIC_SEQ_CST);
    fd_drain(progress->wake_fd);
}

/* The one backend that needs progress, if there is no other and one can sleep within it. */
static struct nixl_backend *lone_backend(struct nixl_agent *agent) {
    unsigned count = backend_count(agent);
    struct nixl_backend *lone = NULL;

    for (unsigned slot = 0; slot < count; slot++) {
        if (agent->backends[slot]->needs_progress) {
            if (lone != NULL) {
                return NULL;
            }
            lone = agent->backends[slot];
        }
    }
    return lone != NULL && __atomic_load_n(&lone->can_wait, __ATOMIC_RELAXED) ? lone : NULL;
}

/* Nothing happened for a while: arm and sleep. */
static void thread_sleep(struct nixl_agent *agent) {
    struct progress *progress = &agent->progress;
    struct nixl_backend *lone;
    uint64_t until = CLOCK_NEVER;
    uint64_t deadline;
    bool is_woken = true;

    (void)__atomic_exchange_n(&progress->sleepers, 1, __ATOMIC_SEQ_CST);
    lone = lone_backend(agent);
    if (arm_all(agent, lone, &until)) {
        /* Who posts an earlier deadline either sees this time and wakes us, or is seen here. */
        __atomic_store_n(&progress->wake_at_ns, until, __ATOMIC_SEQ_CST);
        deadline = __atomic_load_n(&progress->deadline_ns, __ATOMIC_SEQ_CST);
        if (deadline < until) {
            until = deadline;
            __atomic_store_n(&progress->wake_at_ns, until, __ATOMIC_SEQ_CST);
        }
        if (!thread_stops(progress)) {
            is_woken = sleep_armed(agent, lone, until);
        }
        __atomic_store_n(&progress->wake_at_ns, 0, __ATOMIC_SEQ_CST);
    }
    __atomic_store_n(&progress->sleepers, 0, __ATOMIC_SEQ_CST);
    if (is_woken) {
        fd_drain(progress->wake_fd);
    }
}

static void thread_body(void *arg) {
    struct nixl_agent *agent = arg;
    struct progress *progress = &agent->progress;
    uint64_t spin_ns = cpu_count() > 1 ? progress->spin_ns : 0;
    uint64_t seen = __atomic_load_n(&progress->polls, __ATOMIC_RELAXED);
    uint64_t busy_until = 0;
    struct progress_crowd crowd = {0};

    while (!thread_stops(progress)) {
        uint64_t polls = __atomic_load_n(&progress->polls, __ATOMIC_RELAXED);
        bool moved;
        uint64_t now;

        /* Who posted after the last poll may not poll for long. */
        if (polls != seen && polls != __atomic_load_n(&progress->polls_wake, __ATOMIC_RELAXED) &&
            !thread_is_needed(progress)) {
            seen = polls;
            thread_away(progress, polls);
            now = clock_now_ns();
            if (now >= __atomic_load_n(&progress->deadline_ns, __ATOMIC_RELAXED)) {
                /* After a process was stopped what came meanwhile counts before what seems overdue. */
                (void)run_all(agent);
                progress_deadlines(agent, now);
            }
            continue;
        }
        seen = polls;
        moved = run_all(agent) != 0;
        now = clock_now_ns();
        if (moved) {
            busy_until = now + spin_ns;
        }
        progress_deadlines(agent, now);
        notices_look(agent);
        if (moved) {
            continue;
        }
        if (now < busy_until && give_way(&crowd, &now)) {
            continue;
        }
        thread_sleep(agent);
    }
}

nixl_status_t progress_open(struct nixl_agent *agent) {
    struct progress *progress = &agent->progress;
    uint64_t spin_us;
    nixl_status_t status = config_get_uint_range("NIXL_SPIN_US", SPIN_US_DEFAULT, 0, SPIN_US_MAX, &spin_us);
    int error = 0;

    if (status != NIXL_SUCCESS) {
        return status;
    }
    *progress = (struct progress){
        .wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
        .epoll_fd = -1,
        .deadline_ns = CLOCK_NEVER,
        .polls_wake = UINT64_MAX,
        .spin_ns = spin_us * NS_PER_US,
        .event_fd = -1,
        .outer_fd = -1,
        .events = 1,
        .seen = 1,
    };
    error = progress->wake_fd < 0 ? errno : 0;
    if (error == 0) {
        progress->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        error = progress->epoll_fd < 0 ? errno : set_add(progress->epoll_fd, progress->wake_fd);
    }
    if (error != 0) {
        progress_close(agent);
        return fail_errno(NIXL_ERR_BACKEND, error, "the descriptors for progress cannot be made");
    }
    return NIXL_SUCCESS;
}

nixl_status_t progress_start_thread(struct nixl_agent *agent) {
    int rc;

    agent->progress.has_thread = true;
    rc = thread_start(&agent->progress.thread, "nixl-progress", thread_body, agent);
    if (rc != 0) {
        agent->progress.has_thread = false;
        return fail_errno(NIXL_ERR_BACKEND, rc, "the progress thread cannot be started");
    }
    return NIXL_SUCCESS;
}

void progress_stop(struct nixl_agent *agent) {
    if (agent->progress.has_thread) {
        __atomic_store_n(&agent->progress.stop, true, __ATOMIC_SEQ_CST);
        fd_signal(agent->progress.wake_fd);
        thread_join(&agent->progress.thread);
    }
}

static void fd_close(int *fd) {
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

void progress_close(struct nixl_agent *agent) {
    struct progress *progress = &agent->progress;

    fd_close(&progress->outer_fd);
    fd_close(&progress->event_fd);
    fd_close(&progress->epoll_fd);
    fd_close(&progress->wake_fd);
}

nixl_status_t progress_add_backend(struct nixl_agent *agent, struct nixl_backend *backend) {
    struct progress *progress = &agent->progress;
    int fd = backend->instance.event_fd;
    int error = 0;

    if (fd >= 0) {
        lock_take(&progress->arming);
        error = set_add(progress->epoll_fd, fd);
        if (error == 0 && progress->outer_fd >= 0 && !progress->has_thread) {
            error = set_add(progress->outer_fd, fd);
        }
        lock_drop(&progress->arming);
    }
    if (error != 0) {
        return fail_errno(NIXL_ERR_BACKEND, error, "backend %s: its event descriptor %d cannot be watched",
                          backend->ops.name, fd);
    }
    return NIXL_SUCCESS;
}

/* ---- callers that sleep ---- */

void progress_wait_begin(struct nixl_agent *agent) {
    struct progress *progress = &agent->progress;

    if (progress->has_thread) {
        __atomic_add_fetch(&progress->waiting, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&progress->is_away, __ATOMIC_SEQ_CST)) {
            fd_signal(progress->wake_fd);
        }
    }
}

void progress_wait_end(struct nixl_agent *agent) {
    if (agent->progress.has_thread) {
        __atomic_sub_fetch(&agent->progress.waiting, 1, __ATOMIC_RELEASE);
    }
}

bool progress_sleep_begin(struct nixl_agent *agent) {
    if (!lock_try(&agent->progress.sleeping)) {
        return false;
    }
    (void)__atomic_exchange_n(&agent->progress.sleepers, 1, __ATOMIC_SEQ_CST);
    return true;
}

void progress_sleep(struct nixl_agent *agent, struct nixl_backend *backend, uint64_t until_ns) {
    struct nixl_backend *within = __atomic_load_n(&backend->can_wait, __ATOMIC_RELAXED) ? backend : NULL;
    bool is_woken = within == NULL;

    if (within == NULL && progress_run_one(agent, backend) != 0) {
        /* While a backend finds work at each look, nobody sleeps. */
    } else if (arm_all(agent, within, &until_ns)) {
        is_woken = sleep_armed(agent, within, until_ns);
    } else {
        (void)run_all(agent); /* another backend has work, and would not let us sleep before it is done */
    }
    /* Written later than this, it is seen and read at the end of the next sleep. */
    if (is_woken) {
        fd_drain(agent->progress.wake_fd);
    }
}

struct nixl_backend *progress_sleeper(struct nixl_agent *agent) {
    unsigned count = backend_count(agent);
    struct nixl_backend *first = NULL;

    for (unsigned slot = 0; slot < count; slot++) {
        struct nixl_backend *backend = agent->backends[slot];

        if (backend->needs_progress && __atomic_load_n(&backend->can_wait, __ATOMIC_RELAXED)) {
            return backend;
        }
        if (backend->needs_progress && first == NULL) {
            first = backend;
        }
    }
    return first;
}

void progress_sleep_end(struct nixl_agent *agent) {
    __atomic_store_n(&agent->progress.sleepers, 0, __ATOMIC_SEQ_CST);
    lock_drop(&agent->progress.sleeping);
}

nixl_status_t nixl_agent_progress(struct nixl_agent *agent) {
    nixl_status_t status = agent_enter(agent, "agent progress");
    unsigned events;

    if (status != NIXL_SUCCESS) {
        return status;
    }
    events = progress_run(agent);
    if (!agent->progress.has_thread &&
        __atomic_load_n(&agent->progress.deadline_ns, __ATOMIC_RELAXED) != CLOCK_NEVER) {
        progress_deadlines(agent, clock_coarse_ns());
    }
    agent_leave(agent);
    progress_give_way(agent);
    return events != 0 ? NIXL_SUCCESS : NIXL_IN_PROG;
}

/* ---- the completion descriptor ---- */

void progress_event(struct nixl_agent *agent) {
    struct progress *progress = &agent->progress;

    if (__builtin_expect(!__atomic_load_n(&progress->is_watched, __ATOMIC_ACQUIRE), 1)) {
        return;
    }
    __atomic_add_fetch(&progress->events, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&progress->is_awaited, __ATOMIC_SEQ_CST) &&
        __atomic_exchange_n(&progress->is_awaited, false, __ATOMIC_SEQ_CST)) {
        futex_wake(progress_events_word(progress), INT32_MAX);
    }
    if (__atomic_load_n(&progress->is_dozed, __ATOMIC_SEQ_CST) &&
        __atomic_exchange_n(&progress->is_dozed, false, __ATOMIC_SEQ_CST)) {
        progress_wake(agent);
    }
    if (__atomic_load_n(&progress->is_armed, __ATOMIC_SEQ_CST) &&
        __atomic_exchange_n(&progress->is_armed, false, __ATOMIC_SEQ_CST)) {
        fd_signal(progress->event_fd);
    }
}

/* Makes both descriptors. Under arming. */
static int event_open(struct nixl_agent *agent) {
    struct progress *progress = &agent->progress;
    unsigned count = backend_count(agent);
    int event_fd;
    int outer_fd;
    int error;

    if (progress->outer_fd >= 0) {
        return 0;
    }
    event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (event_fd < 0) {
        return errno;
    }
    outer_fd = epoll_create1(EPOLL_CLOEXEC);
    error = outer_fd < 0 ? errno : set_add(outer_fd, event_fd);
    for (unsigned slot = 0; slot < count && error == 0 && !progress->has_thread; slot++) {
        const struct nixl_backend *backend = agent->backends[slot];

        if (backend->needs_progress && backend->instance.event_fd >= 0) {
            error = set_add(outer_fd, backend->instance.event_fd);
        }
    }
    if (error != 0) {
        fd_close(&outer_fd);
        fd_close(&event_fd);
        return error;
    }
    progress->outer_fd = outer_fd;
    __atomic_store_n(&progress->event_fd, event_fd, __ATOMIC_RELEASE);
    __atomic_store_n(&progress->is_watched, true, __ATOMIC_SEQ_CST);
    return 0;
}

int nixl_agent_fd(struct nixl_agent *agent) {
    int fd = -1;
    int error;

    if (agent_enter(agent, "agent fd") != NIXL_SUCCESS) {
        return -1;
    }
    lock_take(&agent->progress.arming);
    error = event_open(agent);
    fd = agent->progress.outer_fd;
    lock_drop(&agent->progress.arming);
    agent_leave(agent);
    if (error != 0) {
        (void)fail_errno(NIXL_ERR_BACKEND, error, "agent fd: the completion descriptor cannot be made");
        return -1;
    }
    return fd;
}

/* Whether something happened since the last arm; if not, the next event writes the descriptor. Under
 * arming. */
static bool event_arm(struct progress *progress) {
    uint64_t events;

    __atomic_store_n(&progress->is_armed, true, __ATOMIC_SEQ_CST);
    events = __atomic_load_n(&progress->events, __ATOMIC_SEQ_CST);
    if (events == progress->seen) {
        return true;
    }
    __atomic_store_n(&progress->is_armed, false, __ATOMIC_SEQ_CST);
    progress->seen = events;
    fd_drain(progress->event_fd);
    return false;
}

nixl_status_t nixl_agent_arm(struct nixl_agent *agent) {
    struct progress *progress;
    uint64_t until = CLOCK_NEVER;
    bool armed = false;
    int error;
    nixl_status_t status = agent_enter(agent, "agent arm");

    if (status != NIXL_SUCCESS) {
        return status;
    }
    progress = &agent->progress;
    lock_take(&progress->arming);
    error = event_open(agent);
    if (error == 0) {
        armed = event_arm(progress);
    }
    lock_drop(&progress->arming);
    if (error != 0) {
        agent_leave(agent);
        return fail_errno(NIXL_ERR_BACKEND, error, "agent arm: the completion descriptor cannot be made");
    }
    if (armed && __atomic_load_n(&progress->is_away, __ATOMIC_SEQ_CST)) {
        fd_signal(progress->wake_fd); /* who arms does not poll any more */
    }
    /* Without a thread the backends' own descriptors are part of it. */
    if (armed && !progress->has_thread && !arm_all(agent, NULL, &until)) {
        (void)run_all(agent);
        armed = false;
    }
    agent_leave(agent);
    return armed ? NIXL_IN_PROG : NIXL_SUCCESS;
}
