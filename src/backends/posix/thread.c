/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's thread: files move also when nobody polls. It has two manners. While a busy poller does the
 * work (is_polled) it looks after it now and then, and takes over when the polls stop. Else it drives:
 * serves, issues, and sleeps until an operation ends or a request comes. With nothing in flight it sleeps
 * until woken: an idle backend uses no processor time.
 */
#include "posix.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define WATCH_FIRST_US 50u
#define WATCH_LAST_US 4000u
/* Looks without a request before the thread goes to sleep for good. */
#define QUIET_LOOKS 8u
/* How often to look at a queue that cannot tell, or that takes no more for the moment. */
#define LOOK_US 100u
/* A sleeper has that many quick looks to fetch what has ended: a busy machine may not let him run at once. */
#define STALE_LOOKS 5u
#define STALE_US 500u

void posix_thread_wake(struct posix_engine *engine) {
    uint64_t one = 1;

    if (engine->thread_state != POSIX_THREAD_RUNNING && !engine->is_woken) {
        engine->is_woken = true;
        while (write(engine->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
        }
    }
}

void posix_thread_hand_over(struct posix_engine *engine) {
    uint64_t one = 1;

    if (!engine->is_polled || (engine->thread_state == POSIX_THREAD_IDLE && !engine->is_trusted)) {
        posix_thread_wake(engine);
    }
    if (engine->ready[POSIX_STAGE_COPY].head != NULL) {
        posix_nudge(engine);
    }
    if (engine->is_armed && engine->ready[POSIX_STAGE_COPY].head != NULL) {
        /* Work that no operation's end will announce. */
        engine->is_signaled = true;
        while (write(engine->event_fd, &one, sizeof one) < 0 && errno == EINTR) {
        }
    }
}

/* Sleeps without the lock until wake_fd is written or, when driving, an operation ends; at most timeout_us
 * (0: no limit). */
static void sleep_in(struct posix_engine *engine, enum posix_thread_state state, unsigned timeout_us) {
    struct pollfd fds[2] = {{.fd = engine->wake_fd, .events = POLLIN},
                            {.fd = engine->event_fd, .events = POLLIN}};
    struct timespec ts = {.tv_sec = 0, .tv_nsec = (long)timeout_us * 1000};
    uint64_t count;

    engine->thread_state = (uint8_t)state;
    lock_drop(&engine->lock);
    if (ppoll(fds, state == POSIX_THREAD_DRIVE ? 2 : 1, timeout_us != 0 ? &ts : NULL, NULL) > 0 &&
        fds[0].revents != 0) {
        while (read(engine->wake_fd, &count, sizeof count) < 0 && errno == EINTR) {
        }
    }
    lock_take(&engine->lock);
    engine->thread_state = POSIX_THREAD_RUNNING;
    engine->is_woken = false;
    if (fds[1].revents != 0) {
        posix_drain(engine);
        engine->is_signaled = true; /* the next operation may write it again */
    }
}

static bool has_event(const struct posix_engine *engine) {
    struct pollfd pfd = {.fd = engine->event_fd, .events = POLLIN};

    return poll(&pfd, 1, 0) > 0;
}

/* While a poller does the work. Returns when it does not any more, or at the end. */
static void watch(struct posix_engine *engine) {
    unsigned period_us = WATCH_FIRST_US, quiet = QUIET_LOOKS, stale = 0;
    uint32_t polls = 0, posts = 0;

    while (engine->is_polled && !engine->is_stopping) {
        uint32_t now;
        bool is_alive;

        if (engine->blocker_count == 0 && posix_serve_one(engine, POSIX_STAGE_BLOCK)) {
            continue;
        }
        if (quiet >= QUIET_LOOKS || engine->is_trusted) {
            if (engine->active == 0 || engine->is_trusted) {
                sleep_in(engine, POSIX_THREAD_IDLE, 0);
            }
            quiet = 0; /* woken for a first request: give its poller a moment */
            period_us = WATCH_FIRST_US;
            polls = __atomic_load_n(&engine->polls, __ATOMIC_RELAXED);
            posts = engine->posts;
            continue;
        }
        sleep_in(engine, POSIX_THREAD_WATCH, period_us);
        now = __atomic_load_n(&engine->polls, __ATOMIC_RELAXED);
        is_alive = now - polls >= POSIX_BUSY_POLLS || posts != engine->posts || engine->is_serving ||
                   engine->is_waited;
        if (!is_alive && engine->is_armed) {
            /* Somebody sleeps until an operation ends; one that has ended, he should have fetched. */
            stale = has_event(engine) ? stale + 1 : 0;
            is_alive = stale < STALE_LOOKS;
        } else {
            stale = 0;
        }
        if (engine->active != 0 && !is_alive) {
            engine->is_polled = engine->is_armed = false;
        }
        quiet = engine->active == 0 && posts == engine->posts ? quiet + 1 : 0;
        period_us = stale != 0 ? STALE_US : period_us * 2 < WATCH_LAST_US ? period_us * 2 : WATCH_LAST_US;
        polls = now;
        posts = engine->posts;
    }
}

static void drive(struct posix_engine *engine) {
    if (!engine->is_polled) {
        posix_notify(engine, true);
        engine->is_signaled = true;
    }
    while (!engine->is_polled && !engine->is_stopping) {
        unsigned n = posix_reap(engine);

        posix_issue(engine);
        n += posix_reap(engine);
        n += posix_serve_one(engine, POSIX_STAGE_COPY);
        n += engine->blocker_count == 0 && posix_serve_one(engine, POSIX_STAGE_BLOCK);
        if (n != 0) {
            continue;
        }
        if (engine->active == 0) {
            sleep_in(engine, POSIX_THREAD_IDLE, 0);
        } else {
            sleep_in(engine, POSIX_THREAD_DRIVE,
                     engine->queue_ops->is_mute || engine->has_pushed ? LOOK_US : 0);
        }
    }
}

static void body(void *arg) {
    struct posix_engine *engine = arg;

    lock_take(&engine->lock);
    while (!engine->is_stopping) {
        watch(engine);
        drive(engine);
    }
    lock_drop(&engine->lock);
}

/* ---- threads for calls that may wait --- */

static void blocker_body(void *arg) {
    struct posix_engine *engine = arg;

    lock_take(&engine->lock);
    while (!engine->is_stopping) {
        uint32_t seen = engine->blocker_word;

        if (posix_serve_one(engine, POSIX_STAGE_BLOCK)) {
            continue;
        }
        engine->blocker_idle++;
        lock_drop(&engine->lock);
        (void)futex_wait(&engine->blocker_word, seen, CLOCK_NEVER);
        lock_take(&engine->lock);
        engine->blocker_idle--;
    }
    lock_drop(&engine->lock);
}

void posix_thread_block(struct posix_engine *engine) {
    __atomic_add_fetch(&engine->blocker_word, 1, __ATOMIC_RELEASE);
    if (engine->blocker_idle != 0) {
        futex_wake(&engine->blocker_word, 1);
    } else if (engine->blocker_count < POSIX_BLOCKERS &&
               thread_start(&engine->blockers[engine->blocker_count], "nixl-posix-wait", blocker_body,
                            engine) == 0) {
        engine->blocker_count++;
    } else if (engine->blocker_count == 0) {
        posix_thread_wake(engine); /* then the engine's own thread has to wait for the disk */
    }
}

int posix_thread_start(struct posix_engine *engine) {
    engine->is_polled = !engine->queue_ops->is_mute; /* with a mute queue nobody is asked to poll */
    engine->is_trusted = engine->host->progress_thread && !engine->queue_ops->is_mute;
    return thread_start(&engine->thread, "nixl-posix", body, engine);
}

void posix_thread_stop(struct posix_engine *engine) {
    unsigned i;

    lock_take(&engine->lock);
    engine->is_stopping = true;
    posix_thread_wake(engine);
    __atomic_add_fetch(&engine->blocker_word, 1, __ATOMIC_RELEASE);
    futex_wake(&engine->blocker_word, INT_MAX);
    lock_drop(&engine->lock);
    thread_join(&engine->thread);
    for (i = 0; i < engine->blocker_count; i++) {
        thread_join(&engine->blockers[i]);
    }
}
