/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, the small lock, futexes, processor count and the fork generation. Linux.
 * A zeroed `struct lock` is an open lock. Nothing here needs a call before its first use.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- background threads ---- */

struct thread {
    pthread_t handle;
    bool is_running;
};

/*
 * Starts `body(arg)` in a thread named `name` (cut to 15 bytes) in which every signal is blocked, so that the
 * application's handlers run in the application's threads only; the signals of a thread's own faults
 * (SIGSEGV, SIGBUS, …) stay open for its crash handler. Returns 0 or an errno value.
 */
int thread_start(struct thread *thread, const char *name, void (*body)(void *arg), void *arg);

/* Waits for the end; nothing to do when it was never started. Must not be called from the thread itself. */
void thread_join(struct thread *thread);

/* True when called from that thread. */
bool thread_is_self(const struct thread *thread);

/* ---- waiting ---- */

static inline void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/*
 * Sleeps while *word == expected, until woken or until `deadline_ns` on the monotonic time line (clock_now_ns
 * or clock_coarse_ns plus something; CLOCK_NEVER: no limit). Returns 0 when woken (perhaps for nothing: look
 * again), EAGAIN when *word already differs, EINTR, or ETIMEDOUT (final: the coarse clock may not have got
 * there yet, so do not ask it again). Private to the process.
 */
int futex_wait(const uint32_t *word, uint32_t expected, uint64_t deadline_ns);

/* Wakes up to `count` sleepers of *word; returns how many. */
int futex_wake(const uint32_t *word, int count);

/* ---- the lock ---- */

/*
 * Spins briefly (only where the process may use more than one processor), then sleeps. Not fair, not
 * recursive; released by the thread that took it. Taking it costs one atomic operation and dropping it a
 * plain store: who is about to sleep makes sure, by a barrier in all threads, that the dropper sees it or is
 * seen.
 */
struct lock {
    uint32_t word;     /* 0 open, 1 held */
    uint32_t sleepers; /* who sleeps on `word` or is about to */
};

#define LOCK_INIT                                                                                            \
    { 0, 0 }

void lock_take_slow(struct lock *lock);
void lock_drop_slow(struct lock *lock);

static inline bool lock_try(struct lock *lock) {
    uint32_t open = 0;

    return __atomic_compare_exchange_n(&lock->word, &open, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void lock_take(struct lock *lock) {
    if (__builtin_expect(!lock_try(lock), 0)) {
        lock_take_slow(lock);
    }
}

static inline void lock_drop(struct lock *lock) {
    __atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE);
    if (__builtin_expect(__atomic_load_n(&lock->sleepers, __ATOMIC_RELAXED) != 0, 0)) {
        lock_drop_slow(lock);
    }
}

/* True when somebody holds it; only for assertions and for guessing whether lock_try is worth the store. */
static inline bool lock_is_held(const struct lock *lock) {
    return __atomic_load_n(&lock->word, __ATOMIC_RELAXED) != 0;
}

/* ---- many readers or one writer ---- */

/* Writers go first, so a reader must not take it again while it holds it. */
struct rwlock {
    pthread_rwlock_t inner;
};

#define RWLOCK_INIT                                                                                          \
    { PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP }

void rwlock_init(struct rwlock *lock);
void rwlock_destroy(struct rwlock *lock);
void rwlock_read(struct rwlock *lock);
void rwlock_write(struct rwlock *lock);
void rwlock_drop(struct rwlock *lock); /* either kind */

/* ---- processors and fork ---- */

/*
 * How many processors this process can keep busy: the smaller of its affinity mask and its control group's
 * quota (rounded down: with a quota of 1.5 a spinning thread starves the rest), at least 1. Read once and
 * kept.
 */
unsigned cpu_count(void);

/* cpu_count without the memory: reads the mask and the quota again. */
unsigned cpu_count_now(void);

/*
 * The control groups' quota in thousandths of a processor, 0 for none. `root` stands in front of every path
 * that is read: "" for this machine, a folder with a made-up /proc and /sys in tests.
 */
uint64_t cpu_quota(const char *root);

uint32_t fork_generation_start(void);
extern uint32_t fork_generation_word;

/*
 * Starts at 1 and grows by one in each forked child. An object that keeps the value of its creation knows
 * that it was inherited when they differ. The first call registers the handler, so call it before the fork
 * that matters.
 */
static inline uint32_t fork_generation(void) {
    uint32_t now = __atomic_load_n(&fork_generation_word, __ATOMIC_RELAXED);

    return __builtin_expect(now != 0, 1) ? now : fork_generation_start();
}

#endif
