/* SPDX-License-Identifier: Apache-2.0 */
/* The UCX plugin with a progress thread that sleeps on descriptors, and called by many threads at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "ucx_harness.h"

#define MEMORY ((size_t)64 << 20)
#define WAIT_MS 20000

struct fixture {
    struct harness h;
    struct remote r;
    struct harness_memory m;
    void *peer, *key;
};

static int setup(void **state) {
    const char *tls = *state;
    struct fixture *f = calloc(1, sizeof *f);

    (void)harness_transports(tls);
    if (!remote_start(&f->r, "remote", MEMORY, NULL) ||
        harness_open(&f->h, "local", NULL, true) != NIXL_SUCCESS || !harness_register(&f->h, &f->m, MEMORY) ||
        harness_load(&f->h, &f->r, &f->peer, &f->key) != NIXL_SUCCESS) {
        fprintf(stderr, "%s %s\n", f->r.error, f->h.error);
        return -1;
    }
    harness_start_thread(&f->h);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    f->h.ops->key_close(f->h.self, f->peer, f->key);
    f->h.ops->peer_close(f->h.self, f->peer);
    harness_unregister(&f->h, &f->m);
    harness_close(&f->h);
    remote_stop(&f->r);
    free(f);
    return 0;
}

static struct nixl_run run_of(const struct fixture *f, size_t offset, size_t len) {
    return (struct nixl_run){.local = (uintptr_t)f->m.at + offset,
                             .remote = f->r.addr + offset,
                             .len = len,
                             .local_key = f->m.region,
                             .remote_key = f->key,
                             .count = 1};
}

/* Waits without making progress: only the thread does. */
static nixl_status_t await(struct harness_request *q, unsigned timeout_ms) {
    uint64_t end = clock_now_ns() + timeout_ms * NS_PER_MS;

    while (!__atomic_load_n(&q->is_ended, __ATOMIC_ACQUIRE)) {
        struct timespec nap = {0, 20000};

        if (clock_now_ns() > end) {
            return NIXL_IN_PROG;
        }
        (void)nanosleep(&nap, NULL);
    }
    return q->status;
}

/* Between the posts the thread has gone to sleep. */
static void the_thread_alone_finishes_what_is_posted(void **state) {
    static const size_t sizes[] = {1, 4096, 65536, 1 << 20, 40 << 20};
    struct fixture *f = *state;

    for (size_t i = 0; i < 3 * sizeof sizes / sizeof sizes[0]; i++) {
        size_t len = sizes[i % 5];
        struct nixl_run run = run_of(f, i, len);
        struct harness_request q;
        nixl_status_t status;

        harness_fill(f->m.at + i, len, i);
        assert_int_equal(harness_request_open(&f->h, &q, NIXL_WRITE, f->peer, &run, 1, "x"), NIXL_SUCCESS);
        (void)usleep(i < 5 ? 30000 : 0);
        status = harness_post(&f->h, &q);
        if (status == NIXL_IN_PROG) {
            status = await(&q, WAIT_MS);
        }
        assert_int_equal(status, NIXL_SUCCESS);
        assert_int_equal(remote_received(&f->r, i + 1, WAIT_MS, NULL), i + 1);
        assert_true(remote_check(&f->r, i, len, i));
        harness_request_close(&f->h, &q);
    }
    assert_true(__atomic_load_n(&f->h.sleeps, __ATOMIC_RELAXED) > 0);
}

static void notifications_arrive_though_nobody_polls(void **state) {
    struct fixture *f = *state;
    uint64_t end = clock_now_ns() + WAIT_MS * NS_PER_MS;

    assert_int_equal(remote_load(&f->r, &f->h), NIXL_SUCCESS);
    (void)usleep(50000);
    assert_int_equal(remote_notify(&f->r, "ping", 500, 10), NIXL_SUCCESS);
    while (__atomic_load_n(&f->h.notif_count, __ATOMIC_ACQUIRE) < 500 && clock_now_ns() < end) {
        (void)usleep(100);
    }
    assert_int_equal(f->h.notif_count, 500);
}

static void an_idle_instance_uses_next_to_no_processor_time(void **state) {
    struct fixture *f = *state;
    struct nixl_run run = run_of(f, 0, 100);
    struct harness_request q;
    struct timespec before, after;
    nixl_status_t status;
    double used;

    assert_int_equal(harness_request_open(&f->h, &q, NIXL_WRITE, f->peer, &run, 1, NULL), NIXL_SUCCESS);
    status = harness_post(&f->h, &q);
    assert_int_equal(status == NIXL_IN_PROG ? await(&q, WAIT_MS) : status, NIXL_SUCCESS);
    harness_request_close(&f->h, &q);
    (void)usleep(200000);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    (void)usleep(1500000);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    used = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
    printf("# %.2f ms of processor time in 1.5 s\n", used * 1e3);
    assert_true(used < 0.015);
}

struct worker {
    struct fixture *f;
    unsigned index;
    bool polls;
    int bad;
};

enum {
    THREADS = 4,
    ROUNDS = 60,
    SLICE = 2 << 20
};

static void *worker_body(void *arg) {
    struct worker *w = arg;
    struct fixture *f = w->f;
    struct nixl_run run = run_of(f, w->index * (size_t)SLICE, SLICE);
    size_t offset = w->index * (size_t)SLICE;

    for (unsigned i = 0; i < ROUNDS && w->bad == 0; i++) {
        struct harness_request q;
        nixl_status_t status;

        run.len = i % 3 == 0 ? SLICE : 1 + i * 37;
        harness_fill(f->m.at + offset, run.len, w->index * 1000 + i);
        for (int op = NIXL_WRITE; op >= NIXL_READ; op--) {
            if (op == NIXL_READ) {
                memset(f->m.at + offset, 0, run.len);
            }
            w->bad |= harness_request_open(&f->h, &q, (nixl_xfer_op_t)op, f->peer, &run, 1,
                                           op ? "n" : NULL) != NIXL_SUCCESS;
            status = harness_post(&f->h, &q);
            if (status == NIXL_IN_PROG) {
                status = w->polls ? harness_wait(&f->h, &q, WAIT_MS) : await(&q, WAIT_MS);
            }
            w->bad |= status != NIXL_SUCCESS;
            harness_request_close(&f->h, &q);
        }
        w->bad |= !harness_check(f->m.at + offset, run.len, w->index * 1000 + i);
    }
    return NULL;
}

/* Four threads write and read back their own slices; two poll, two only wait; a fifth registers and deregisters. */
static void many_threads_work_on_one_instance(void **state) {
    struct fixture *f = *state;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){f, i, i % 2 == 0, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, worker_body, &workers[i]), 0);
    }
    for (int i = 0; i < 200; i++) {
        struct harness_memory m;
        void *peer, *key;

        assert_true(harness_register(&f->h, &m, 8192));
        assert_int_equal(harness_load(&f->h, &f->r, &peer, &key), NIXL_SUCCESS);
        if (i % 10 == 0) {
            (void)f->h.ops->peer_connect(f->h.self, peer);
        }
        f->h.ops->key_close(f->h.self, peer, key);
        f->h.ops->peer_close(f->h.self, peer);
        harness_unregister(&f->h, &m);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].bad, 0);
    }
    assert_int_equal(remote_received(&f->r, THREADS * ROUNDS, WAIT_MS, NULL), THREADS * ROUNDS);
}

#define TEST(f)                                                                                              \
    { #f, f, setup, teardown, NULL }

static const struct CMUnitTest tests[] = {
    TEST(the_thread_alone_finishes_what_is_posted),
    TEST(notifications_arrive_though_nobody_polls),
    TEST(an_idle_instance_uses_next_to_no_processor_time),
    TEST(many_threads_work_on_one_instance),
};

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

int main(int argc, char **argv) {
    static const char *const transports[] = {"tcp,self", "ucx:sm,self", ""};
    static struct CMUnitTest all[COUNT_OF(transports) * COUNT_OF(tests)];
    static char names[COUNT_OF(all)][128];

    harness_main(argc, argv);
    for (size_t t = 0; t < COUNT_OF(transports); t++) {
        for (size_t i = 0; i < COUNT_OF(tests); i++) {
            size_t at = t * COUNT_OF(tests) + i;

            (void)snprintf(names[at], sizeof names[at], "%s: %s", harness_transports_title(transports[t]),
                           tests[i].name);
            all[at] = tests[i];
            all[at].name = names[at];
            all[at].initial_state = (void *)transports[t];
        }
    }
    return cmocka_run_group_tests(all, NULL, NULL);
}
