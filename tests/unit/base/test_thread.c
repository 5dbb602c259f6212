/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks, threads, the lock, futexes, the fork generation. */
#include "support.h"

#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

static void the_two_monotonic_clocks_share_a_time_line(void **state) {
    uint64_t coarse = clock_coarse_ns();
    uint64_t fine = clock_now_ns();
    uint64_t later = clock_now_ns();

    assert_true(later >= fine);
    assert_true(coarse <= fine);
    assert_true(fine - coarse < 5 * NS_PER_S); /* a tick is at most 10 ms; the rest is for a busy machine */
    assert_true(clock_wall_ns() > UINT64_C(1700000000) * NS_PER_S);
}

static void deadlines_saturate(void **state) {
    assert_true(clock_deadline_ms(5, 2) == 2000005);
    assert_true(clock_deadline_ms(1, UINT64_MAX) == CLOCK_NEVER);
    assert_true(clock_deadline_ms(UINT64_MAX - 1, 1) == CLOCK_NEVER);
}

struct seen {
    sigset_t mask;
    char name[16];
    bool is_self;
    struct thread *thread;
    uint32_t go;
};

static void look_around(void *arg) {
    struct seen *seen = arg;

    while (__atomic_load_n(&seen->go, __ATOMIC_ACQUIRE) == 0) {
        futex_wait(&seen->go, 0, CLOCK_NEVER);
    }
    pthread_sigmask(SIG_BLOCK, NULL, &seen->mask);
    pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
    seen->is_self = thread_is_self(seen->thread);
}

static void a_thread_has_its_name_and_takes_no_signals(void **state) {
    struct thread thread;
    struct seen seen = {.thread = &thread};
    sigset_t before;
    sigset_t after;

    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(thread_start(&thread, "nixl-a-rather-long-name", look_around, &seen), 0);
    assert_false(thread_is_self(&thread));
    __atomic_store_n(&seen.go, 1, __ATOMIC_RELEASE);
    futex_wake(&seen.go, 1);
    thread_join(&thread);
    thread_join(&thread); /* twice is nothing */
    assert_string_equal(seen.name, "nixl-a-rather-l");
    assert_true(seen.is_self);
    assert_int_equal(sigismember(&seen.mask, SIGINT), 1);
    assert_int_equal(sigismember(&seen.mask, SIGTERM), 1);
    assert_int_equal(sigismember(&seen.mask, SIGUSR1), 1);
    assert_int_equal(sigismember(&seen.mask, SIGPROF), 1);
    assert_int_equal(sigismember(&seen.mask, SIGSEGV), 0); /* a crash must reach the handler */
    assert_int_equal(sigismember(&seen.mask, SIGBUS), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
}

static void a_thread_that_never_started_is_joined_for_nothing(void **state) {
    struct thread thread = {0};

    thread_join(&thread);
    assert_false(thread_is_self(&thread));
}

static struct lock counter_lock; /* zeroed: open */
static uint64_t counter;

#define ROUNDS 50000

static void count_up(void *arg) {
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 3 == 0 && lock_try(&counter_lock)) {
            counter++;
            lock_drop(&counter_lock);
            continue;
        }
        lock_take(&counter_lock);
        counter++;
        lock_drop(&counter_lock);
    }
}

static void the_lock_excludes(void **state) {
    struct thread threads[4];

    counter = 0;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(thread_start(&threads[i], "count", count_up, NULL), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        thread_join(&threads[i]);
    }
    assert_int_equal(counter, 4 * ROUNDS);
    assert_false(lock_is_held(&counter_lock));
}

static void a_held_lock_cannot_be_tried(void **state) {
    struct lock lock = LOCK_INIT;

    assert_true(lock_try(&lock));
    assert_true(lock_is_held(&lock));
    assert_false(lock_try(&lock));
    lock_drop(&lock);
    assert_true(lock_try(&lock));
    lock_drop(&lock);
}

static void take_and_say(void *arg) {
    uint32_t *said = arg;

    lock_take(&counter_lock);
    __atomic_store_n(said, 1, __ATOMIC_RELEASE);
    lock_drop(&counter_lock);
}

/* The holder keeps it for longer than anybody spins, so the other sleeps and must be woken. */
static void a_sleeper_is_woken_by_the_drop(void **state) {
    struct thread thread;
    uint32_t said = 0;
    uint64_t until = clock_now_ns() + 10 * NS_PER_S;

    lock_take(&counter_lock);
    assert_int_equal(thread_start(&thread, "sleeper", take_and_say, &said), 0);
    while (__atomic_load_n(&counter_lock.sleepers, __ATOMIC_RELAXED) != 1 && clock_now_ns() < until) {
        usleep(1000);
    }
    usleep(5000);
    assert_int_equal(__atomic_load_n(&counter_lock.sleepers, __ATOMIC_RELAXED), 1);
    assert_int_equal(__atomic_load_n(&said, __ATOMIC_ACQUIRE), 0);
    lock_drop(&counter_lock);
    thread_join(&thread);
    assert_int_equal(said, 1);
}

static struct lock baton;
static int baton_holder;

static void pass_on(void *arg) {
    int mine = *(int *)arg;

    for (int i = 0; i < 200;) {
        lock_take(&baton);
        if (baton_holder == mine) {
            baton_holder = (mine + 1) % 3;
            i++;
        }
        lock_drop(&baton);
        if (i % 64 == 0) {
            usleep(
                20); /* long enough for the others to fall asleep on a lock that is dropped at that moment */
        }
    }
}

/* A wake-up that got lost would leave all three asleep for good. */
static void no_wake_up_is_lost(void **state) {
    struct thread threads[3];
    static int numbers[3] = {0, 1, 2};

    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(thread_start(&threads[i], "baton", pass_on, &numbers[i]), 0);
    }
    for (size_t i = 0; i < 3; i++) {
        thread_join(&threads[i]);
    }
    assert_int_equal(baton_holder, 0);
    assert_int_equal(baton.sleepers, 0);
}

static void a_futex_wait_ends_at_its_deadline(void **state) {
    uint32_t word = 3;
    uint64_t start = clock_now_ns();

    assert_int_equal(futex_wait(&word, 4, CLOCK_NEVER), EAGAIN);
    assert_int_equal(futex_wait(&word, 3, start + 20 * NS_PER_MS), ETIMEDOUT);
    assert_true(clock_now_ns() - start >= 20 * NS_PER_MS);
    assert_int_equal(futex_wait(&word, 3, 1), ETIMEDOUT); /* long past */
    assert_int_equal(futex_wake(&word, 1), 0);
}

static struct rwlock table_lock = RWLOCK_INIT;
static uint64_t table[2];

static void write_both(void *arg) {
    for (int i = 0; i < ROUNDS / 10; i++) {
        rwlock_write(&table_lock);
        table[0]++;
        table[1]++;
        rwlock_drop(&table_lock);
    }
}

static void read_both(void *arg) {
    bool *torn = arg;

    for (int i = 0; i < ROUNDS / 10; i++) {
        rwlock_read(&table_lock);
        *torn = *torn || table[0] != table[1];
        rwlock_drop(&table_lock);
    }
}

static void readers_never_see_half_a_write(void **state) {
    struct thread threads[4];
    bool torn[2] = {false, false};

    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(
            thread_start(&threads[i], "rw", i < 2 ? write_both : read_both, i < 2 ? NULL : &torn[i - 2]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        thread_join(&threads[i]);
    }
    assert_false(torn[0] || torn[1]);
    assert_int_equal(table[0], 2 * (ROUNDS / 10));
}

static void two_readers_are_in_together(void **state) {
    struct rwlock lock;

    rwlock_init(&lock);
    rwlock_read(&lock);
    rwlock_read(
        &lock); /* the same thread, with no writer waiting: would hang if readers excluded one another */
    rwlock_drop(&lock);
    rwlock_drop(&lock);
    rwlock_write(&lock);
    rwlock_drop(&lock);
    rwlock_destroy(&lock);
}

static int child_status(pid_t pid) {
    int status = 0;

    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void each_forked_child_has_the_next_generation(void **state) {
    uint32_t mine = fork_generation();
    pid_t pid;

    assert_int_equal(fork_generation(), mine);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        pid_t inner;
        int status = 0;

        if (fork_generation() != mine + 1) {
            _exit(1);
        }
        inner = fork();
        if (inner == 0) {
            _exit(fork_generation() == mine + 2 ? 0 : 2);
        }
        _exit(waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status) : 3);
    }
    assert_int_equal(child_status(pid), 0);
    assert_int_equal(fork_generation(), mine); /* the parent's stays */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_two_monotonic_clocks_share_a_time_line),
        TEST(deadlines_saturate),
        TEST(a_thread_has_its_name_and_takes_no_signals),
        TEST(a_thread_that_never_started_is_joined_for_nothing),
        TEST(the_lock_excludes),
        TEST(a_held_lock_cannot_be_tried),
        TEST(a_sleeper_is_woken_by_the_drop),
        TEST(no_wake_up_is_lost),
        TEST(a_futex_wait_ends_at_its_deadline),
        TEST(readers_never_see_half_a_write),
        TEST(two_readers_are_in_together),
        TEST(each_forked_child_has_the_next_generation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
