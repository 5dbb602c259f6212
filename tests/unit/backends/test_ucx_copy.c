/* SPDX-License-Identifier: Apache-2.0 */
/* Two agents in one process, and one with itself: the UCX plugin copies without UCX. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "ucx_harness.h"

#define MEMORY ((size_t)32 << 20)
#define WAIT_MS 10000

struct fixture {
    struct harness a, b;
    struct harness_memory ma, mb;
    void *peer, *key; /* b as a sees it */
};

static nixl_status_t load(struct harness *h, struct harness *of, struct harness_memory *m, void **peer,
                          void **key) {
    struct nixl_desc desc = {(uintptr_t)m->at, m->len, 0};
    const void *conn, *note;
    size_t conn_len, note_len;
    nixl_status_t status;

    (void)of->ops->conn_info(of->self, &conn, &conn_len);
    (void)of->ops->note(of->self, &note, &note_len);
    status = h->ops->peer_open(h->self, of->name, of, conn, conn_len, note, note_len, peer);
    if (status == NIXL_SUCCESS) {
        status = h->ops->key_open(h->self, *peer, DRAM_SEG, &desc, m->key, m->key_len, key);
    }
    return status;
}

static int setup_with(void **state, const char *const *params) {
    struct fixture *f = calloc(1, sizeof *f);

    if (harness_open(&f->a, "a", params, false) != NIXL_SUCCESS ||
        harness_open(&f->b, "b", NULL, false) != NIXL_SUCCESS || !harness_register(&f->a, &f->ma, MEMORY) ||
        !harness_register(&f->b, &f->mb, MEMORY) ||
        load(&f->a, &f->b, &f->mb, &f->peer, &f->key) != NIXL_SUCCESS) {
        return -1;
    }
    *state = f;
    return 0;
}

static int setup(void **state) {
    return setup_with(state, NULL);
}

/* Nothing moves but by a call. */
static int setup_without_copier(void **state) {
    static const char *const params[] = {"copy_threads", "0", NULL};

    return setup_with(state, params);
}

static int teardown(void **state) {
    struct fixture *f = *state;

    f->a.ops->key_close(f->a.self, f->peer, f->key);
    f->a.ops->peer_close(f->a.self, f->peer);
    harness_unregister(&f->a, &f->ma);
    if (f->b.self != NULL) {
        if (f->mb.region != NULL) {
            harness_unregister(&f->b, &f->mb);
        }
    }
    harness_close(&f->b);
    harness_close(&f->a);
    free(f);
    return 0;
}

static struct nixl_run run_of(const struct fixture *f, size_t local, size_t remote, size_t len) {
    return (struct nixl_run){.local = (uintptr_t)f->ma.at + local,
                             .remote = (uintptr_t)f->mb.at + remote,
                             .len = len,
                             .local_key = f->ma.region,
                             .remote_key = f->key,
                             .count = 1};
}

static void small_and_large_writes_and_reads_arrive_whole(void **state) {
    static const size_t sizes[] = {1, 100, 65536, 65537, 1 << 20, 31 << 20};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct nixl_run run = run_of(f, 3, 7, sizes[i]);
        struct harness_request q;

        harness_fill(f->ma.at + 3, sizes[i], i);
        memset(f->mb.at, 0, sizes[i] + 16);
        assert_int_equal(harness_request_open(&f->a, &q, NIXL_WRITE, f->peer, &run, 1, NULL), NIXL_SUCCESS);
        assert_int_equal(harness_run(&f->a, &q, WAIT_MS), NIXL_SUCCESS);
        assert_true(harness_check(f->mb.at + 7, sizes[i], i));
        assert_int_equal(f->mb.at[6], 0);
        assert_int_equal(f->mb.at[7 + sizes[i]], 0);
        assert_int_equal(q.request.done_bytes, sizes[i]);
        harness_request_close(&f->a, &q);

        harness_fill(f->mb.at + 7, sizes[i], 100 + i);
        assert_int_equal(harness_request_open(&f->a, &q, NIXL_READ, f->peer, &run, 1, NULL), NIXL_SUCCESS);
        assert_int_equal(harness_run(&f->a, &q, WAIT_MS), NIXL_SUCCESS);
        assert_true(harness_check(f->ma.at + 3, sizes[i], 100 + i));
        harness_request_close(&f->a, &q);
    }
}

static void a_large_copy_is_not_done_within_the_post(void **state) {
    struct fixture *f = *state;
    struct nixl_run run = run_of(f, 0, 0, MEMORY);
    struct harness_request q;

    assert_int_equal(harness_request_open(&f->a, &q, NIXL_WRITE, f->peer, &run, 1, NULL), NIXL_SUCCESS);
    assert_int_equal(harness_post(&f->a, &q), NIXL_IN_PROG);
    assert_int_equal(q.request.done_bytes, 64 << 10);
    assert_true(f->a.wakes > 0);
    /* Who sleeps must not: there is work. */
    assert_int_equal(f->a.ops->arm(f->a.self), NIXL_IN_PROG);
    f->a.ops->cancel(f->a.self, &q.request, NIXL_CANCEL_GENTLE);
    assert_int_equal(harness_wait(&f->a, &q, WAIT_MS), NIXL_ERR_CANCELED);
    assert_true(q.failure.bytes_done < MEMORY);
    harness_request_close(&f->a, &q);
}

static void strided_runs_are_copied_block_by_block(void **state) {
    struct fixture *f = *state;
    struct nixl_run run = run_of(f, 0, 0, 3);
    struct harness_request q;

    run.count = 100000;
    run.local_stride = 5;
    run.remote_stride = 9;
    harness_fill(f->ma.at, 500000, 1);
    memset(f->mb.at, 0xcc, 900000);
    assert_int_equal(harness_request_open(&f->a, &q, NIXL_WRITE, f->peer, &run, 1, NULL), NIXL_SUCCESS);
    assert_int_equal(harness_run(&f->a, &q, WAIT_MS), NIXL_SUCCESS);
    for (size_t i = 0; i < 100000; i++) {
        assert_memory_equal(f->mb.at + 9 * i, f->ma.at + 5 * i, 3);
        assert_int_equal(f->mb.at[9 * i + 3], 0xcc);
    }
    harness_request_close(&f->a, &q);
}

static void the_transport_is_memcpy(void **state) {
    struct fixture *f = *state;
    char text[32] = "";

    assert_int_equal(f->a.ops->peer_transport(f->a.self, f->peer, DRAM_SEG, text, sizeof text), NIXL_SUCCESS);
    assert_string_equal(text, "memcpy");
    assert_int_equal(f->a.ops->peer_transport(f->a.self, NULL, DRAM_SEG, text, sizeof text), NIXL_SUCCESS);
    assert_string_equal(text, "memcpy");
}

static void notifications_arrive_in_order_with_those_of_requests(void **state) {
    struct fixture *f = *state;
    struct nixl_run run = run_of(f, 0, 0, 100);
    struct harness_request q;

    assert_int_equal(harness_request_open(&f->a, &q, NIXL_WRITE, f->peer, &run, 1, "two"), NIXL_SUCCESS);
    assert_int_equal(f->a.ops->notify(f->a.self, f->peer, "one", 3), NIXL_SUCCESS);
    assert_int_equal(harness_run(&f->a, &q, WAIT_MS), NIXL_SUCCESS);
    assert_int_equal(f->a.ops->notify(f->a.self, f->peer, "", 0), NIXL_SUCCESS);
    assert_int_equal(f->b.notif_count, 3);
    assert_string_equal(f->b.notifs[0].msg, "one");
    assert_string_equal(f->b.notifs[0].sender, "a");
    assert_string_equal(f->b.notifs[1].msg, "two");
    assert_int_equal(f->b.notifs[2].len, 0);
    harness_request_close(&f->a, &q);
}

/* A deregistered region may be unmapped: copying into it would crash. */
static void a_deregistered_region_fails_the_post_with_words(void **state) {
    struct fixture *f = *state;
    struct nixl_run run = run_of(f, 0, 0, 100);
    struct harness_request q;

    assert_int_equal(harness_request_open(&f->a, &q, NIXL_WRITE, f->peer, &run, 1, NULL), NIXL_SUCCESS);
    harness_unregister(&f->b, &f->mb);
    f->mb.region = NULL;
    assert_int_equal(harness_post(&f->a, &q), NIXL_ERR_NOT_FOUND);
    assert_non_null(strstr(f->a.error, "deregistered"));
    harness_request_close(&f->a, &q);
}

static void a_region_deregistered_in_mid_copy_ends_it_with_words(void **state) {
    struct fixture *f = *state;
    struct nixl_run run = run_of(f, 0, 0, MEMORY);
    struct harness_request q;

    assert_int_equal(harness_request_open(&f->a, &q, NIXL_WRITE, f->peer, &run, 1, NULL), NIXL_SUCCESS);
    assert_int_equal(harness_post(&f->a, &q), NIXL_IN_PROG);
    (void)f->a.ops->progress(f->a.self);
    harness_unregister(&f->b, &f->mb);
    f->mb.region = NULL;
    assert_int_equal(harness_wait(&f->a, &q, WAIT_MS), NIXL_ERR_NOT_FOUND);
    assert_non_null(strstr(q.text, "deregistered"));
    harness_request_close(&f->a, &q);
}

/* The same block twice, the first registration ends: the second still serves. */
static void a_second_registration_of_a_block_serves_on(void **state) {
    struct fixture *f = *state;
    struct nixl_meta_desc desc = {(uintptr_t)f->mb.at, f->mb.len, 0, NULL, 0};
    struct nixl_run run = run_of(f, 0, 0, 100);
    struct harness_request q;
    void *second, *peer, *key;

    assert_int_equal(f->b.ops->region_open(f->b.self, DRAM_SEG, &desc, &second), NIXL_SUCCESS);
    f->b.ops->region_close(f->b.self, f->mb.region);
    f->mb.region = second;
    assert_int_equal(f->b.ops->region_key(f->b.self, second, &f->mb.key, &f->mb.key_len), NIXL_SUCCESS);
    assert_int_equal(load(&f->a, &f->b, &f->mb, &peer, &key), NIXL_SUCCESS);
    run.remote_key = key;
    harness_fill(f->ma.at, 100, 8);
    assert_int_equal(harness_request_open(&f->a, &q, NIXL_WRITE, peer, &run, 1, NULL), NIXL_SUCCESS);
    assert_int_equal(harness_run(&f->a, &q, WAIT_MS), NIXL_SUCCESS);
    assert_true(harness_check(f->mb.at, 100, 8));
    harness_request_close(&f->a, &q);
    f->a.ops->key_close(f->a.self, peer, key);
    f->a.ops->peer_close(f->a.self, peer);
}

static void a_destroyed_agent_is_a_disconnected_peer(void **state) {
    struct fixture *f = *state;
    struct nixl_run run = run_of(f, 0, 0, 100);
    struct harness_request q;

    assert_int_equal(harness_request_open(&f->a, &q, NIXL_WRITE, f->peer, &run, 1, NULL), NIXL_SUCCESS);
    harness_unregister(&f->b, &f->mb);
    f->mb.region = NULL;
    harness_close(&f->b);
    assert_int_equal(harness_post(&f->a, &q), NIXL_ERR_REMOTE_DISCONNECT);
    assert_non_null(strstr(f->a.error, "\"b\""));
    assert_int_equal(f->a.ops->notify(f->a.self, f->peer, "x", 1), NIXL_ERR_REMOTE_DISCONNECT);
    assert_int_equal(f->a.ops->peer_state(f->a.self, f->peer), NIXL_ERR_REMOTE_DISCONNECT);
    assert_int_equal(f->a.failures, 1);
    harness_request_close(&f->a, &q);
}

/* Local and remote blocks overlap: the result is as if the source had been read first. */
static void a_loopback_may_overlap_itself(void **state) {
    struct fixture *f = *state;
    struct nixl_run run = {.local = (uintptr_t)f->ma.at,
                           .remote = (uintptr_t)f->ma.at + 10,
                           .len = 1000,
                           .local_key = f->ma.region,
                           .remote_key = f->ma.region,
                           .count = 1};
    struct harness_request q;

    harness_fill(f->ma.at, 1000, 6);
    assert_int_equal(harness_request_open(&f->a, &q, NIXL_WRITE, NULL, &run, 1, NULL), NIXL_SUCCESS);
    assert_int_equal(harness_run(&f->a, &q, WAIT_MS), NIXL_SUCCESS);
    assert_true(harness_check(f->ma.at + 10, 1000, 6));
    harness_request_close(&f->a, &q);
}

/* Also one that is large enough for several threads: it is left to one, which goes from its front. */
static void a_large_loopback_may_overlap_itself(void **state) {
    struct fixture *f = *state;
    size_t len = MEMORY - (300 << 10);
    struct nixl_run run = {.local = (uintptr_t)f->ma.at + (300 << 10),
                           .remote = (uintptr_t)f->ma.at,
                           .len = len,
                           .local_key = f->ma.region,
                           .remote_key = f->ma.region,
                           .count = 1};
    struct harness_request q;

    for (int i = 0; i < 5; i++) {
        harness_fill(f->ma.at + (300 << 10), len, 6);
        assert_int_equal(harness_request_open(&f->a, &q, NIXL_WRITE, NULL, &run, 1, NULL), NIXL_SUCCESS);
        assert_int_equal(harness_run(&f->a, &q, WAIT_MS), NIXL_SUCCESS);
        assert_true(harness_check(f->ma.at, len, 6));
        harness_request_close(&f->a, &q);
    }
}

static void many_copies_at_once_all_end(void **state) {
    enum {
        COUNT = 16
    };
    struct fixture *f = *state;
    struct nixl_run runs[COUNT];
    struct harness_request q[COUNT];

    harness_fill(f->ma.at, MEMORY, 2);
    for (size_t i = 0; i < COUNT; i++) {
        runs[i] = run_of(f, i * (MEMORY / COUNT), i * (MEMORY / COUNT), MEMORY / COUNT);
        assert_int_equal(harness_request_open(&f->a, &q[i], NIXL_WRITE, f->peer, &runs[i], 1, NULL),
                         NIXL_SUCCESS);
        assert_int_equal(harness_post(&f->a, &q[i]), NIXL_IN_PROG);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(harness_wait(&f->a, &q[i], WAIT_MS), NIXL_SUCCESS);
        harness_request_close(&f->a, &q[i]);
    }
    assert_true(harness_check(f->mb.at, MEMORY, 2));
}

static struct nixl_cost cost_of(struct fixture *f, void *peer, const struct nixl_run *run) {
    struct nixl_cost cost = NIXL_COST_INIT;
    struct harness_request q;

    assert_int_equal(harness_request_open(&f->a, &q, NIXL_WRITE, peer, run, 1, NULL), NIXL_SUCCESS);
    assert_int_equal(f->a.ops->cost(f->a.self, &q.request, &cost), NIXL_SUCCESS);
    harness_request_close(&f->a, &q);
    return cost;
}

static void the_cost_is_measured_once_and_in_little_time(void **state) {
    struct fixture *f = *state;
    struct nixl_run small = run_of(f, 0, 0, 64), middle = run_of(f, 0, 0, 1 << 20),
                    large = run_of(f, 0, 0, 16 << 20), self = small;
    struct timespec before, after;
    struct nixl_cost a, b, c;

    /* The processor's time: a busy machine is not the library's. */
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    a = cost_of(f, f->peer, &small);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    assert_true((after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec < 50000000L);
    assert_int_equal(a.method, NIXL_COST_MEASURED);
    assert_true(a.duration_ns > 0 && a.margin_ns > 0);
    b = cost_of(f, f->peer, &small);
    assert_int_equal(b.duration_ns, a.duration_ns);
    assert_int_equal(b.margin_ns, a.margin_ns);
    b = cost_of(f, f->peer, &middle);
    assert_true(b.duration_ns > a.duration_ns);
    /* Half in doubt at least, and wholly where more is copied than was tried. */
    assert_true(b.margin_ns >= b.duration_ns / 2);
    c = cost_of(f, f->peer, &large);
    assert_true(c.duration_ns > 8 * b.duration_ns && c.margin_ns >= c.duration_ns - 1);
    /* An agent's own memory is copied in the same way. */
    self.remote = (uintptr_t)f->ma.at + 4096;
    self.remote_key = f->ma.region;
    b = cost_of(f, NULL, &self);
    assert_int_equal(b.duration_ns, a.duration_ns);
    assert_int_equal(b.method, NIXL_COST_MEASURED);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define STEPWISE(f) cmocka_unit_test_setup_teardown(f, setup_without_copier, teardown)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(small_and_large_writes_and_reads_arrive_whole),
        STEPWISE(a_large_copy_is_not_done_within_the_post),
        TEST(strided_runs_are_copied_block_by_block),
        TEST(the_transport_is_memcpy),
        TEST(notifications_arrive_in_order_with_those_of_requests),
        TEST(a_deregistered_region_fails_the_post_with_words),
        STEPWISE(a_region_deregistered_in_mid_copy_ends_it_with_words),
        TEST(a_second_registration_of_a_block_serves_on),
        TEST(a_destroyed_agent_is_a_disconnected_peer),
        TEST(a_loopback_may_overlap_itself),
        TEST(a_large_loopback_may_overlap_itself),
        TEST(many_copies_at_once_all_end),
        TEST(the_cost_is_measured_once_and_in_little_time),
    };

    harness_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
