/* SPDX-License-Identifier: Apache-2.0 */
/* Who makes progress, and who may be gone, late or in a hurry meanwhile. */
#include "harness.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "support/skip.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#define MIB (1024u * 1024u)

static const char *const options[] = {"use_uring=true", "use_aio=true", "use_posix_aio=true"};
static const char *const labels[] = {"io_uring", "AIO", "POSIX AIO"};

static struct harness h;
static char path[64];
static int fd, direct_fd;
static void *file, *direct;

#define FILE_BYTES (64 * MIB)

static int set_up(void **state) {
    strcpy(path, "/tmp/nixl-posix-XXXXXX");
    fd = mkstemp(path);
    if (fd < 0 || posix_fallocate(fd, 0, FILE_BYTES) != 0) {
        return -1;
    }
    direct_fd = open(path, O_RDWR | O_DIRECT);
    direct = NULL;
    if (harness_open(&h, *state) != NIXL_SUCCESS) {
        h.self = NULL;
        return 0;
    }
    file = harness_file(&h, (uint64_t)fd, NULL);
    direct = direct_fd >= 0 ? harness_file(&h, (uint64_t)direct_fd, NULL) : NULL;
    return 0;
}

static int tear_down(void **state) {
    if (h.self != NULL) {
        h.ops->region_close(h.self, file);
        if (direct != NULL) {
            h.ops->region_close(h.self, direct);
        }
        harness_close(&h);
    }
    close(fd);
    if (direct_fd >= 0) {
        close(direct_fd);
    }
    return unlink(path);
}

static void need(bool direct_too) {
    if (h.self == NULL) {
        test_skip("%s", h.error);
    }
    if (direct_too && direct == NULL) {
        test_skip("no O_DIRECT on /tmp");
    }
}

static double cpu_seconds(void) {
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void ten_thousand_blocks_that_nobody_polls_complete(void **state) {
    enum {
        BLOCKS = 10000,
        LEN = 4096
    };
    char *bytes = aligned_alloc(4096, BLOCKS * LEN);
    struct nixl_run *runs = calloc(BLOCKS, sizeof *runs);
    int pass;
    size_t i;

    need(true);
    for (pass = 0; pass < 2; pass++) {
        struct transfer t;

        fill_pattern(bytes, BLOCKS * LEN, 5);
        for (i = 0; i < BLOCKS; i++) {
            runs[i] = run_of(pass == 0 ? direct : file, bytes + i * LEN, (BLOCKS - 1 - i) * LEN, LEN);
        }
        assert_int_equal(transfer_open(&h, &t, NIXL_WRITE, runs, BLOCKS, 0), NIXL_SUCCESS);
        assert_int_equal(transfer_post(&t), NIXL_IN_PROG);
        assert_int_equal(transfer_wait(&t, 60000, false), NIXL_SUCCESS);
        transfer_close(&t);
        for (i = 0; i < BLOCKS; i++) {
            runs[i].local = (uintptr_t)(bytes + (BLOCKS - 1 - i) * LEN);
        }
        memset(bytes, 0, BLOCKS * LEN);
        assert_int_equal(transfer_open(&h, &t, NIXL_READ, runs, BLOCKS, 0), NIXL_SUCCESS);
        assert_int_equal(transfer_post(&t), NIXL_IN_PROG);
        assert_int_equal(transfer_wait(&t, 60000, false), NIXL_SUCCESS);
        transfer_close(&t);
        /* Written backwards and read back in file order: block b of memory holds what was block 9,999 - b. */
        for (i = 0; i < BLOCKS; i++) {
            assert_true(check_pattern(bytes + i * LEN, LEN, 5 + (BLOCKS - 1 - i) * LEN));
        }
    }
    free(bytes);
    free(runs);
}

static void idle_backend_uses_no_processor_time(void **state) {
    char *bytes = aligned_alloc(4096, MIB);
    struct transfer t;
    struct nixl_run run;
    double before;

    need(true);
    run = run_of(direct, bytes, 0, MIB);
    assert_int_equal(transfer_open(&h, &t, NIXL_READ, &run, 1, 0), NIXL_SUCCESS);
    assert_int_equal(transfer_run(&t), NIXL_SUCCESS);
    assert_int_equal(transfer_post(&t), NIXL_IN_PROG);
    assert_int_equal(transfer_wait(&t, 20000, false), NIXL_SUCCESS);
    usleep(50000);
    before = cpu_seconds();
    usleep(500000);
    assert_true(cpu_seconds() - before < 0.002);
    transfer_close(&t);
    free(bytes);
}

static void sleeper_on_the_event_descriptor_is_woken(void **state) {
    char *bytes;
    struct transfer t;
    struct nixl_run run;
    int i;

    need(true);
    if (h.instance.event_fd < 0) {
        test_skip("POSIX AIO cannot wake anybody: the engine's thread completes");
    }
    bytes = aligned_alloc(4096, MIB);
    run = run_of(direct, bytes, 0, MIB);
    assert_int_equal(transfer_open(&h, &t, NIXL_READ, &run, 1, 0), NIXL_SUCCESS);
    for (i = 0; i < 200; i++) {
        assert_int_equal(transfer_post(&t), NIXL_IN_PROG);
        while (__atomic_load_n(&t.is_done, __ATOMIC_ACQUIRE) == 0) {
            if (h.ops->arm(h.self) == NIXL_SUCCESS) {
                struct pollfd pfd = {.fd = h.instance.event_fd, .events = POLLIN};

                /* The engine's thread may also have completed it: then nobody writes the descriptor. */
                assert_true(poll(&pfd, 1, 5000) > 0 || errno == EINTR ||
                            __atomic_load_n(&t.is_done, __ATOMIC_ACQUIRE) != 0);
            }
            h.ops->progress(h.self);
        }
        assert_int_equal(t.status, NIXL_SUCCESS);
    }
    transfer_close(&t);
    free(bytes);
}

/* The waiter sleeps in the kernel on the queue itself. */
static void sleeper_within_the_queue_is_woken(void **state) {
    int wake = eventfd(0, EFD_NONBLOCK);
    char *bytes = aligned_alloc(4096, MIB);
    uint64_t begin, one = 1;
    struct transfer t;
    struct nixl_run run;
    int i, turn, slept = 0;

    need(true);
    assert_true(wake >= 0);
    if (h.ops->wait(h.self, wake, clock_now_ns()) == NIXL_ERR_NOT_SUPPORTED) {
        close(wake);
        free(bytes);
        test_skip("this queue has no such call");
    }
    memset(bytes, 1, MIB);
    run = run_of(direct, bytes, 0, MIB);
    assert_int_equal(transfer_open(&h, &t, NIXL_WRITE, &run, 1, 0), NIXL_SUCCESS);
    for (i = 0; i < 200; i++) {
        assert_int_equal(transfer_post(&t), NIXL_IN_PROG);
        while (__atomic_load_n(&t.is_done, __ATOMIC_ACQUIRE) == 0) {
            assert_int_equal(h.ops->wait(h.self, wake, clock_now_ns() + 10 * NS_PER_S), NIXL_SUCCESS);
            slept++;
            h.ops->progress(h.self);
        }
        assert_int_equal(t.status, NIXL_SUCCESS);
    }
    assert_true(slept > 0); /* some may have been there at once, and some the engine's thread's */
    /* Time. */
    begin = clock_now_ns();
    assert_int_equal(h.ops->wait(h.self, wake, begin + 20 * NS_PER_MS), NIXL_SUCCESS);
    assert_true(clock_now_ns() - begin >= 20 * NS_PER_MS);
    /* The descriptor: before the sleep, and again after it was read. */
    for (i = 0; i < 3; i++) {
        assert_int_equal(write(wake, &one, sizeof one), sizeof one);
        begin = clock_now_ns(); /* it may come back for nothing, but not for ever */
        while (h.ops->wait(h.self, wake, clock_now_ns() + 10 * NS_PER_S) != NIXL_IN_PROG) {
            assert_true(clock_now_ns() - begin < 5 * NS_PER_S);
            h.ops->progress(h.self);
        }
        assert_int_equal(read(wake, &one, sizeof one), sizeof one);
        /* Read, it does not end a sleep any more. */
        for (turn = 0; turn < 3; turn++) {
            h.ops->progress(h.self);
            begin = clock_now_ns();
            assert_int_equal(h.ops->wait(h.self, wake, begin + 2 * NS_PER_MS), NIXL_SUCCESS);
        }
        assert_true(clock_now_ns() - begin >= 2 * NS_PER_MS);
    }
    transfer_close(&t);
    close(wake);
    free(bytes);
}

/* What ended one sleep, with nothing in flight, does not end those to come. */
static void sleeper_within_an_idle_queue_uses_no_processor_time(void **state) {
    int wake = eventfd(0, EFD_NONBLOCK);
    uint64_t one = 1, end;
    unsigned turns = 0;

    need(false);
    assert_true(wake >= 0);
    if (h.ops->wait(h.self, wake, clock_now_ns()) == NIXL_ERR_NOT_SUPPORTED) {
        close(wake);
        test_skip("this queue has no such call");
    }
    assert_int_equal(write(wake, &one, sizeof one), sizeof one);
    end = clock_now_ns() + 200 * NS_PER_MS;
    while (clock_now_ns() < end) {
        if (h.ops->wait(h.self, wake, end) == NIXL_IN_PROG) {
            (void)!read(wake, &one, sizeof one);
        }
        h.ops->progress(h.self);
        turns++;
    }
    assert_in_range(turns, 1, 20);
    close(wake);
}

struct silent_poster {
    struct transfer *transfers;
    unsigned count;
};

static void *post_in_silence(void *arg) {
    struct silent_poster *p = arg;
    unsigned i;

    for (i = 0; i < p->count; i++) {
        assert_int_equal(transfer_post(&p->transfers[i]), NIXL_IN_PROG);
    }
    return NULL; /* and never polls */
}

/* While one thread sleeps within the queue, another one posts, direct and through the page cache, and looks at
 * nothing: the sleeper brings all home. */
static void sleeper_within_the_queue_serves_posts_of_others(void **state) {
    enum {
        COUNT = 32
    };
    int wake = eventfd(0, EFD_NONBLOCK);
    struct transfer transfers[COUNT];
    struct silent_poster poster = {transfers, COUNT};
    char *bytes = aligned_alloc(4096, COUNT * 2 * MIB);
    uint64_t end = clock_now_ns() + 60 * NS_PER_S;
    pthread_t thread;
    unsigned i, done = 0;

    need(true);
    assert_true(wake >= 0);
    if (h.ops->wait(h.self, wake, clock_now_ns()) == NIXL_ERR_NOT_SUPPORTED) {
        close(wake);
        free(bytes);
        test_skip("this queue has no such call");
    }
    memset(bytes, 1, COUNT * 2 * MIB);
    for (i = 0; i < COUNT; i++) {
        /* Apart in the file: the kernel may fail direct writes to pages that are being written. */
        struct nixl_run run = i % 2 == 0 ? run_of(direct, bytes + i * 2 * MIB, i % 4 * MIB, 2 * MIB)
                                         : run_of(file, bytes + i * 2 * MIB, (32 + i % 4) * MIB, 2 * MIB);

        assert_int_equal(transfer_open(&h, &transfers[i], i % 4 < 2 ? NIXL_READ : NIXL_WRITE, &run, 1, 0),
                         NIXL_SUCCESS);
    }
    assert_int_equal(pthread_create(&thread, NULL, post_in_silence, &poster), 0);
    while (done < COUNT) {
        assert_true(clock_now_ns() < end);
        assert_true(h.ops->wait(h.self, wake, clock_now_ns() + 100 * NS_PER_MS) >= 0);
        h.ops->progress(h.self);
        for (i = 0, done = 0; i < COUNT; i++) {
            done += __atomic_load_n(&transfers[i].is_done, __ATOMIC_ACQUIRE) != 0;
        }
    }
    pthread_join(thread, NULL);
    for (i = 0; i < COUNT; i++) {
        assert_int_equal(transfers[i].status, NIXL_SUCCESS);
        transfer_close(&transfers[i]);
    }
    close(wake);
    free(bytes);
}

static void request_that_was_cancelled_ends_and_leaves_memory_alone(void **state) {
    enum {
        LEN = 4 * MIB,
        BLOCK = 8192,
        BLOCKS = LEN / BLOCK
    };
    unsigned char *bytes = aligned_alloc(4096, LEN);
    struct nixl_run runs[BLOCKS];
    struct transfer t;
    unsigned canceled = 0;
    int i;
    size_t b;

    need(true);
    for (b = 0; b < BLOCKS;
         b++) { /* 512 operations: nothing adjoins, and not all of them fit into the kernel at once */
        runs[b] = run_of(direct, bytes + b * BLOCK, 2 * b * BLOCK, BLOCK);
    }
    for (i = 0; i < 1000; i++) {
        nixl_status_t status;

        assert_int_equal(transfer_open(&h, &t, NIXL_READ, runs, BLOCKS, 0), NIXL_SUCCESS);
        assert_int_equal(transfer_post(&t), NIXL_IN_PROG);
        if (i % 4 == 1) {
            usleep((unsigned)i % 300);
        }
        h.ops->cancel(h.self, &t.request, i % 2 == 0 ? NIXL_CANCEL_GENTLE : NIXL_CANCEL_FORCE);
        status = transfer_wait(&t, 20000, i % 3 != 0);
        assert_true(status == NIXL_SUCCESS || status == NIXL_ERR_CANCELED);
        canceled += status == NIXL_ERR_CANCELED;
        /* The file holds zeroes: whoever still reads into the buffer wipes the canary out. */
        memset(bytes, 0xC5, LEN);
        transfer_close(&t);
        if (i % 50 == 0) {
            usleep(2000);
        }
        for (b = 0; b < LEN; b += 509) {
            assert_int_equal(bytes[b], 0xC5);
        }
    }
    assert_true(canceled > 0);
    free(bytes);
}

static void cancelling_one_request_leaves_others_alone(void **state) {
    enum {
        LEN = 16 * MIB
    };
    char *bytes = aligned_alloc(4096, 2 * (size_t)LEN);
    struct nixl_run runs[2];
    struct transfer a, b;
    int i;

    need(true);
    fill_pattern(bytes, LEN, 4);
    assert_int_equal(pwrite(fd, bytes, LEN, 0), LEN);
    for (i = 0; i < 50; i++) {
        runs[0] = run_of(direct, bytes, 0, LEN);
        runs[1] = run_of(direct, bytes + LEN, 0, LEN);
        memset(bytes, 0, 2 * (size_t)LEN);
        assert_int_equal(transfer_open(&h, &a, NIXL_READ, &runs[0], 1, 0), NIXL_SUCCESS);
        assert_int_equal(transfer_open(&h, &b, NIXL_READ, &runs[1], 1, 0), NIXL_SUCCESS);
        assert_int_equal(transfer_post(&a), NIXL_IN_PROG);
        assert_int_equal(transfer_post(&b), NIXL_IN_PROG);
        h.ops->cancel(h.self, &a.request, NIXL_CANCEL_GENTLE);
        transfer_wait(&a, 20000, true);
        assert_int_equal(transfer_wait(&b, 20000, true), NIXL_SUCCESS);
        assert_true(check_pattern(bytes + LEN, LEN, 4));
        transfer_close(&a);
        transfer_close(&b);
    }
    free(bytes);
}

/* ---- threads --- */

struct poster {
    struct transfer *transfers;
    size_t count;
    nixl_status_t status;
    bool waits;
};

static void *post_all(void *arg) {
    struct poster *p = arg;
    size_t i;
    int round;

    for (round = 0; round < (p->waits ? 50 : 1); round++) {
        for (i = 0; i < p->count; i++) {
            p->status = p->status == NIXL_SUCCESS && transfer_post(&p->transfers[i]) != NIXL_IN_PROG
                            ? NIXL_ERR_UNKNOWN
                            : p->status;
        }
        for (i = 0; p->waits && i < p->count; i++) {
            nixl_status_t status = transfer_wait(&p->transfers[i], 20000, (round + (int)i) % 3 != 0);

            p->status = p->status != NIXL_SUCCESS ? p->status : status;
        }
    }
    return NULL;
}

static void thread_that_posts_may_end_before_its_transfers(void **state) {
    enum {
        COUNT = 64,
        LEN = 256 * 1024
    };
    char *bytes = aligned_alloc(4096, (size_t)COUNT * LEN);
    static struct transfer t[COUNT];
    int sync_fd, round;
    void *sync_file;
    size_t i;

    need(false);
    /* Synchronous writes go through the queue, and in the kernel by workers of the thread that submits them.
     */
    sync_fd = open(path, O_RDWR | O_SYNC);
    sync_file = harness_file(&h, (uint64_t)sync_fd, NULL);
    for (round = 0; round < 5; round++) {
        struct poster p = {.transfers = t, .count = COUNT};
        pthread_t thread;

        fill_pattern(bytes, (size_t)COUNT * LEN, (uint64_t)round);
        for (i = 0; i < COUNT; i++) {
            struct nixl_run run = run_of(sync_file, bytes + i * LEN, i * LEN, LEN);

            assert_int_equal(transfer_open(&h, &t[i], NIXL_WRITE, &run, 1, 0), NIXL_SUCCESS);
        }
        assert_int_equal(pthread_create(&thread, NULL, post_all, &p), 0);
        pthread_join(thread, NULL);
        assert_int_equal(p.status, NIXL_SUCCESS);
        for (i = 0; i < COUNT; i++) {
            assert_int_equal(transfer_wait(&t[i], 30000, round % 2 == 0), NIXL_SUCCESS);
            transfer_close(&t[i]);
        }
        for (i = 0; i < COUNT; i++) {
            static char back[LEN];

            assert_int_equal(pread(fd, back, LEN, (off_t)(i * LEN)), LEN);
            assert_memory_equal(back, bytes + i * LEN, LEN);
        }
    }
    h.ops->region_close(h.self, sync_file);
    close(sync_fd);
    free(bytes);
}

static void threads_share_an_instance(void **state) {
    enum {
        THREADS = 4,
        EACH = 16,
        LEN = 16384
    };
    static struct transfer t[THREADS][EACH];
    struct poster posters[THREADS];
    pthread_t threads[THREADS];
    char *bytes = aligned_alloc(4096, (size_t)THREADS * EACH * LEN);
    size_t i, k;

    need(true);
    fill_pattern(bytes, (size_t)THREADS * EACH * LEN, 8);
    for (i = 0; i < THREADS; i++) {
        for (k = 0; k < EACH; k++) {
            size_t place = i * EACH + k;
            struct nixl_run run = run_of(k % 2 == 0 ? direct : file, bytes + place * LEN, place * LEN, LEN);

            assert_int_equal(transfer_open(&h, &t[i][k], NIXL_WRITE, &run, 1, 0), NIXL_SUCCESS);
        }
        posters[i] = (struct poster){.transfers = t[i], .count = EACH, .waits = true};
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, &posters[i]), 0);
    }
    for (i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(posters[i].status, NIXL_SUCCESS);
        for (k = 0; k < EACH; k++) {
            transfer_close(&t[i][k]);
        }
    }
    for (i = 0; i < (size_t)THREADS * EACH; i++) {
        static char back[LEN];

        assert_int_equal(pread(fd, back, LEN, (off_t)(i * LEN)), LEN);
        assert_memory_equal(back, bytes + i * LEN, LEN);
    }
    free(bytes);
}

static void several_instances_share_a_file(void **state) {
    enum {
        INSTANCES = 4,
        LEN = MIB
    };
    struct harness others[INSTANCES];
    struct transfer t[INSTANCES];
    char *bytes = aligned_alloc(4096, (size_t)INSTANCES * LEN);
    size_t i;

    need(false);
    fill_pattern(bytes, (size_t)INSTANCES * LEN, 6);
    for (i = 0; i < INSTANCES; i++) {
        struct nixl_run run;

        /* Every kind of queue beside the one under test. */
        assert_int_equal(harness_open(&others[i], i == 0                  ? NULL
                                                  : i == 1 && !UNDER_TSAN ? "use_posix_aio=true"
                                                                          : *state),
                         NIXL_SUCCESS);
        run =
            run_of(harness_file(&others[i], (uint64_t)(direct_fd >= 0 && i % 2 == 0 ? direct_fd : fd), NULL),
                   bytes + i * LEN, i * LEN, LEN);
        assert_int_equal(transfer_open(&others[i], &t[i], NIXL_WRITE, &run, 1, 0), NIXL_SUCCESS);
        assert_int_equal(transfer_post(&t[i]), NIXL_IN_PROG);
    }
    for (i = 0; i < INSTANCES; i++) {
        static char back[LEN];
        void *key = t[i].runs[0].remote_key;

        assert_int_equal(transfer_wait(&t[i], 20000, i % 2 == 0), NIXL_SUCCESS);
        transfer_close(&t[i]);
        others[i].ops->region_close(others[i].self, key);
        harness_close(&others[i]);
        assert_int_equal(pread(fd, back, LEN, (off_t)(i * LEN)), LEN);
        assert_memory_equal(back, bytes + i * LEN, LEN);
    }
    free(bytes);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int number) {
    alarms++;
}

static void signals_while_polling_disturb_nothing(void **state) {
    enum {
        LEN = 64 * 1024
    };
    char *bytes = aligned_alloc(4096, LEN);
    struct sigaction action = {.sa_handler = on_alarm}, old; /* no SA_RESTART: calls are really interrupted */
    struct itimerval storm = {.it_interval = {0, 50}, .it_value = {0, 50}}, calm = {{0, 0}, {0, 0}};
    struct nixl_run runs[2];
    struct transfer t[2];
    uint64_t end;
    unsigned rounds = 0;

    need(true);
    runs[0] = run_of(direct, bytes, 0, LEN);
    runs[1] = run_of(file, bytes, MIB, LEN);
    assert_int_equal(transfer_open(&h, &t[0], NIXL_WRITE, &runs[0], 1, 0), NIXL_SUCCESS);
    assert_int_equal(transfer_open(&h, &t[1], NIXL_WRITE, &runs[1], 1, 0), NIXL_SUCCESS);
    alarms = 0;
    assert_int_equal(sigaction(SIGALRM, &action, &old), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &storm, NULL), 0);
    end = clock_now_ns() + 500 * NS_PER_MS;
    while (clock_now_ns() < end) {
        fill_pattern(bytes, LEN, rounds++);
        assert_int_equal(transfer_run(&t[0]), NIXL_SUCCESS);
        assert_int_equal(transfer_run(&t[1]), NIXL_SUCCESS);
    }
    setitimer(ITIMER_REAL, &calm, NULL);
    sigaction(SIGALRM, &old, NULL);
    assert_true(alarms > 100);
    assert_true(rounds > 10);
    transfer_close(&t[0]);
    transfer_close(&t[1]);
    free(bytes);
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

int main(void) {
#define CASE(f)                                                                                              \
    { .name = #f, .test_func = f }
    static const struct CMUnitTest cases[] = {
        CASE(ten_thousand_blocks_that_nobody_polls_complete),
        CASE(idle_backend_uses_no_processor_time),
        CASE(sleeper_on_the_event_descriptor_is_woken),
        CASE(sleeper_within_the_queue_is_woken),
        CASE(sleeper_within_an_idle_queue_uses_no_processor_time),
        CASE(sleeper_within_the_queue_serves_posts_of_others),
        CASE(request_that_was_cancelled_ends_and_leaves_memory_alone),
        CASE(cancelling_one_request_leaves_others_alone),
        CASE(thread_that_posts_may_end_before_its_transfers),
        CASE(threads_share_an_instance),
        CASE(several_instances_share_a_file),
        CASE(signals_while_polling_disturb_nothing),
    };
    static struct CMUnitTest tests[COUNT(cases) * COUNT(options)];
    static char names[COUNT(tests)][100];
    size_t i;

    for (i = 0; i < COUNT(tests); i++) {
        tests[i] = cases[i / COUNT(options)];
        snprintf(names[i], sizeof names[i], "%s (%s)", tests[i].name, labels[i % COUNT(options)]);
        tests[i].name = names[i];
        tests[i].setup_func = set_up;
        tests[i].teardown_func = tear_down;
        tests[i].initial_state = (void *)(uintptr_t)options[i % COUNT(options)];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
