/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, futexes, the slow halves of the lock, and the fork generation.
 */
#include "thread.h"

#include "clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOCK_SPINS                                                                                           \
    200 /* about 3 to 8 µs of pauses: longer than any section that this lock guards should take */

/* ---- background threads ---- */

struct thread_start_args {
    void (*body)(void *arg);
    void *arg;
    char name[16];
};

static void *thread_main(void *opaque) {
    struct thread_start_args start = *(struct thread_start_args *)opaque;

    free(opaque);
    pthread_setname_np(pthread_self(), start.name);
    start.body(start.arg);
    return NULL;
}

/* All but the signals that a thread raises by its own fault: those must reach the application's crash
 * handler. */
static void mask_fill(sigset_t *set) {
    sigfillset(set);
    sigdelset(set, SIGSEGV);
    sigdelset(set, SIGBUS);
    sigdelset(set, SIGFPE);
    sigdelset(set, SIGILL);
    sigdelset(set, SIGTRAP);
    sigdelset(set, SIGABRT);
    sigdelset(set, SIGSYS);
}

int thread_start(struct thread *thread, const char *name, void (*body)(void *arg), void *arg) {
    struct thread_start_args *start;
    sigset_t blocked;
    sigset_t before;
    size_t len = strnlen(name, sizeof start->name - 1);
    int rc;

    *thread = (struct thread){0};
    start = calloc(1, sizeof *start);
    if (start == NULL) {
        return ENOMEM;
    }
    start->body = body;
    start->arg = arg;
    memcpy(start->name, name, len);
    mask_fill(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    rc = pthread_create(&thread->handle, NULL, thread_main, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        free(start);
        return rc;
    }
    thread->is_running = true;
    return 0;
}

void thread_join(struct thread *thread) {
    if (thread->is_running) {
        pthread_join(thread->handle, NULL);
        thread->is_running = false;
    }
}

bool thread_is_self(const struct thread *thread) {
    return thread->is_running && pthread_equal(thread->handle, pthread_self()) != 0;
}

/* ---- waiting ---- */

int futex_wait(const uint32_t *word, uint32_t expected, uint64_t deadline_ns) {
    struct timespec until;
    const struct timespec *limit = NULL;
    long rc;

    if (deadline_ns != CLOCK_NEVER) {
        until.tv_sec = (time_t)(deadline_ns / NS_PER_S);
        until.tv_nsec = (long)(deadline_ns % NS_PER_S);
        limit = &until;
    }
    /* The BITSET form takes an absolute time on the monotonic clock; plain FUTEX_WAIT takes a relative one.
     */
    rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, limit, NULL, FUTEX_BITSET_MATCH_ANY);
    return rc == 0 ? 0 : errno;
}

int futex_wake(const uint32_t *word, int count) {
    long rc = syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);

    return rc > 0 ? (int)rc : 0;
}

/* ---- the lock ---- */

static pthread_once_t barrier_once = PTHREAD_ONCE_INIT;
static bool barrier_works;

static void barrier_register(void) {
    barrier_works = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* A full barrier in every thread of the process. False where the kernel or a sandbox has none. */
static bool barrier_everywhere(void) {
    pthread_once(&barrier_once, barrier_register);
    return barrier_works && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void lock_take_slow(struct lock *lock) {
    bool is_safe;

    if (cpu_count() > 1) {
        for (int spin = 0; spin < LOCK_SPINS; spin++) {
            if (!lock_is_held(lock) && lock_try(lock)) {
                return;
            }
            cpu_relax();
        }
    }
    __atomic_add_fetch(&lock->sleepers, 1, __ATOMIC_SEQ_CST);
    /* A dropper stores `word`, then loads `sleepers`. Whoever loaded before this barrier has its store behind
     * it, so we see the lock open; whoever loads after it sees us. Without the barrier we look again now and
     * then. */
    is_safe = barrier_everywhere();
    while (!lock_try(lock)) {
        futex_wait(&lock->word, 1, is_safe ? CLOCK_NEVER : clock_now_ns() + NS_PER_MS);
    }
    __atomic_sub_fetch(&lock->sleepers, 1, __ATOMIC_RELAXED);
}

void lock_drop_slow(struct lock *lock) {
    futex_wake(&lock->word, 1);
}

/* ---- many readers or one writer ---- */

void rwlock_init(struct rwlock *lock) {
    *lock = (struct rwlock)RWLOCK_INIT;
}

void rwlock_destroy(struct rwlock *lock) {
    pthread_rwlock_destroy(&lock->inner);
}

void rwlock_read(struct rwlock *lock) {
    /* EAGAIN: 2^29 readers at once; EDEADLK: this thread holds it for writing. Both are our own mistakes. */
    if (pthread_rwlock_rdlock(&lock->inner) != 0) {
        abort();
    }
}

void rwlock_write(struct rwlock *lock) {
    if (pthread_rwlock_wrlock(&lock->inner) != 0) {
        abort();
    }
}

void rwlock_drop(struct rwlock *lock) {
    pthread_rwlock_unlock(&lock->inner);
}

/* ---- fork ---- */

uint32_t fork_generation_word;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void fork_child(void) {
    __atomic_add_fetch(&fork_generation_word, 1, __ATOMIC_RELAXED);
}

static void fork_register(void) {
    /* Without memory for the handler the generation stays 1: inherited objects then go undetected, nothing
     * worse. */
    (void)pthread_atfork(NULL, NULL, fork_child);
    __atomic_store_n(&fork_generation_word, 1, __ATOMIC_RELAXED);
}

uint32_t fork_generation_start(void) {
    pthread_once(&fork_once, fork_register);
    return __atomic_load_n(&fork_generation_word, __ATOMIC_RELAXED);
}
