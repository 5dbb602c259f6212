/* SPDX-License-Identifier: Apache-2.0 */
/* Requests from prepared lists: which blocks merge, which share a run, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agents.h"

#define BASE 0x100000u
#define PAGE 256u

/* One agent with NOOP and lists over its memory, local and as a loopback's remote side. */
struct lists {
    struct nixl_agent *agent;
    struct nixl_dlist *local, *remote;
};

static void lists_prepare(struct lists *lists, const struct nixl_desc *local, const struct nixl_desc *remote,
                          size_t count) {
    struct nixl_list l = NIXL_LIST(DRAM_SEG, local, count);
    struct nixl_list r = NIXL_LIST(DRAM_SEG, remote, count);

    assert_status(nixl_dlist_prepare(lists->agent, NULL, &l, NULL, &lists->local), NIXL_SUCCESS);
    assert_status(nixl_dlist_prepare(lists->agent, "A", &r, NULL, &lists->remote), NIXL_SUCCESS);
}

static void lists_begin(struct lists *lists) {
    struct nixl_backend *backend;
    struct nixl_desc desc = {BASE, 1 << 24, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    assert_status(nixl_agent_create("A", NULL, &lists->agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(lists->agent, "NOOP", NULL, 0, &backend), NIXL_SUCCESS);
    assert_status(nixl_mem_register(lists->agent, &list, NULL), NIXL_SUCCESS);
}

/* Pages side by side, then as many again elsewhere, so that flat and compact lists both occur. */
static void lists_begin_dense(struct lists *lists, size_t count, bool flat) {
    struct nixl_desc *descs = calloc(count * 2 + 2, sizeof *descs);

    lists_begin(lists);
    for (size_t i = 0; i < count; i++) {
        descs[i] = (struct nixl_desc){BASE + i * PAGE, PAGE, 0};
    }
    for (size_t i = 0; flat && i < count; i++) {
        descs[count + i] = (struct nixl_desc){BASE + (1 << 20) + i * i * 3 * PAGE, PAGE, 0};
    }
    lists_prepare(lists, descs, descs, flat ? count * 2 : count);
    assert_int_equal(lists->local->views[0].is_flat, flat);
    free(descs);
}

static void lists_end(struct lists *lists) {
    nixl_dlist_release(lists->local);
    nixl_dlist_release(lists->remote);
    nixl_agent_destroy(lists->agent);
}

/* The blocks that the backend is told to move. */
static size_t blocks_of(const struct nixl_xfer *xfer, struct nixl_desc *local, struct nixl_desc *remote,
                        size_t max) {
    size_t n = 0;

    for (size_t r = 0; r < xfer->request.run_count; r++) {
        const struct nixl_run *run = &xfer->request.runs[r];

        for (uint32_t b = 0; b < run->count; b++) {
            assert_true(n < max);
            local[n] = (struct nixl_desc){run->local + b * run->local_stride, run->len, run->first_index + b};
            remote[n++] =
                (struct nixl_desc){run->remote + b * run->remote_stride, run->len, run->first_index + b};
        }
    }
    assert_int_equal(n, xfer->request.block_count);
    return n;
}

static size_t descriptors(struct lists *lists, const int32_t *local, const int32_t *remote, size_t count,
                          bool keep_lists) {
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_desc l[64];
    struct nixl_desc r[64];
    struct nixl_xfer *xfer;
    size_t n;

    options.keep_lists = keep_lists;
    assert_status(nixl_xfer_make(lists->agent, NIXL_WRITE, lists->local, local, lists->remote, remote, count,
                                 &options, &xfer),
                  NIXL_SUCCESS);
    assert_int_equal(xfer->request.total_bytes, count * PAGE);
    n = blocks_of(xfer, l, r, 64);
    if (n == count) {
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(l[i].addr, BASE + (uint64_t)local[i] * PAGE);
            assert_int_equal(r[i].addr, BASE + (uint64_t)remote[i] * PAGE);
            assert_int_equal(l[i].dev, i); /* the user's index */
        }
    }
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    return n;
}

/* The counts are those of the reference. */
static void only_dense_ascending_neighbours_merge(void **state) {
    static const int32_t a[] = {0, 1, 2, 5, 6};
    static const int32_t b[] = {0, 1, 2, 5, 7};
    static const int32_t down[] = {3, 2, 1};
    static const int32_t same[] = {1, 1};
    static const int32_t up[] = {0, 1};

    for (int flat = 0; flat < 2; flat++) {
        struct lists lists;

        lists_begin_dense(&lists, 16, flat == 1);
        assert_int_equal(descriptors(&lists, a, a, 5, false), 2);
        assert_int_equal(descriptors(&lists, a, b, 5, false), 3);
        assert_int_equal(descriptors(&lists, b, a, 5, false), 3);
        assert_int_equal(descriptors(&lists, a, a, 5, true), 5);
        assert_int_equal(descriptors(&lists, down, down, 3, false), 3);
        assert_int_equal(descriptors(&lists, same, up, 2, false), 2);
        assert_int_equal(descriptors(&lists, up, same, 2, false), 2);
        assert_int_equal(descriptors(&lists, up, up, 2, false), 1);
        lists_end(&lists);
    }
}

static void blocks_with_gaps_do_not_merge_but_share_a_run(void **state) {
    struct lists lists;
    struct nixl_desc local[32];
    struct nixl_desc remote[32];
    struct nixl_xfer *xfer;

    lists_begin(&lists);
    for (uint64_t i = 0; i < 32; i++) {
        local[i] = (struct nixl_desc){BASE + i * 2 * PAGE, PAGE, 0};
        remote[i] = (struct nixl_desc){BASE + (1 << 20) + i * 5 * PAGE, PAGE, 0};
    }
    lists_prepare(&lists, local, remote, 32);
    assert_status(
        nixl_xfer_make(lists.agent, NIXL_READ, lists.local, NULL, lists.remote, NULL, 32, NULL, &xfer),
        NIXL_SUCCESS);
    assert_int_equal(xfer->request.block_count, 32);
    assert_int_equal(xfer->request.run_count, 1);
    assert_int_equal(xfer->request.runs[0].count, 32);
    assert_int_equal(xfer->request.runs[0].local_stride, 2 * PAGE);
    assert_int_equal(xfer->request.runs[0].remote_stride, 5 * PAGE);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    lists_end(&lists);
}

/* A merged block stands for several indices, so no other may follow it in a run that counts them singly. */
static void index_of_each_block_stays_the_users(void **state) {
    static const int32_t indices[] = {0, 1, 4, 5, 8, 10, 12, 15, 14};
    static const uint32_t firsts[] = {0, 2, 4, 5, 6, 7, 8};
    struct lists lists;
    struct nixl_desc l[16];
    struct nixl_desc r[16];
    struct nixl_xfer *xfer;

    lists_begin_dense(&lists, 16, false);
    assert_status(
        nixl_xfer_make(lists.agent, NIXL_READ, lists.local, indices, lists.remote, indices, 9, NULL, &xfer),
        NIXL_SUCCESS);
    assert_int_equal(blocks_of(xfer, l, r, 16), 7);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(l[i].dev, firsts[i]);
        assert_int_equal(l[i].addr, BASE + (uint64_t)indices[firsts[i]] * PAGE);
        assert_int_equal(l[i].len, i < 2 ? 2 * PAGE : PAGE);
    }
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    lists_end(&lists);
}

/* A list of many runs: any index finds its run, forwards, backwards and at random. */
static void indices_of_a_list_of_runs_find_their_blocks(void **state) {
    enum {
        RUNS = 100,
        EACH = 9,
        N = RUNS * EACH
    };
    struct lists lists;
    static struct nixl_desc descs[N];
    static struct nixl_desc l[N];
    static struct nixl_desc r[N];
    static int32_t indices[N];
    struct nixl_xfer *xfer;

    lists_begin(&lists);
    for (uint64_t i = 0; i < N; i++) {
        descs[i] = (struct nixl_desc){BASE + i / EACH * 100000 + i % EACH * 3 * PAGE, PAGE, 0};
    }
    lists_prepare(&lists, descs, descs, N);
    assert_int_equal(lists.local->views[0].run_count, RUNS);
    for (int way = 0; way < 3; way++) {
        for (int32_t i = 0; i < N; i++) {
            indices[i] = way == 0 ? i : way == 1 ? N - 1 - i : (int32_t)((int64_t)i * 7919 % N);
        }
        assert_status(nixl_xfer_make(lists.agent, NIXL_READ, lists.local, indices, lists.remote, indices, N,
                                     NULL, &xfer),
                      NIXL_SUCCESS);
        assert_int_equal(blocks_of(xfer, l, r, N), N);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(l[i].addr, descs[indices[i]].addr);
            assert_int_equal(r[i].addr, l[i].addr);
            assert_int_equal(l[i].dev, i);
        }
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    }
    lists_end(&lists);
}

static void large_requests_keep_every_block(void **state) {
    enum {
        N = 50000
    };
    struct lists lists;
    struct nixl_desc *l = calloc(N, sizeof *l);
    struct nixl_desc *r = calloc(N, sizeof *r);
    int32_t *indices = calloc(N, sizeof *indices);
    struct nixl_xfer *xfer;

    lists_begin_dense(&lists, N, false);
    for (int32_t i = 0; i < N; i++) {
        indices[i] = (int32_t)((int64_t)i * 7919 % N);
    }
    assert_status(
        nixl_xfer_make(lists.agent, NIXL_READ, lists.local, indices, lists.remote, indices, N, NULL, &xfer),
        NIXL_SUCCESS);
    assert_int_equal(blocks_of(xfer, l, r, N), N);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(l[i].addr, BASE + (uint64_t)indices[i] * PAGE);
        assert_int_equal(r[i].addr, l[i].addr);
    }
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_status(
        nixl_xfer_make(lists.agent, NIXL_READ, lists.local, NULL, lists.remote, NULL, N, NULL, &xfer),
        NIXL_SUCCESS);
    assert_int_equal(xfer->request.block_count, 1);
    assert_int_equal(xfer->request.runs[0].len, (uint64_t)N * PAGE);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    lists_end(&lists);
    free(l);
    free(r);
    free(indices);
}

static void bad_arguments_are_refused_in_words(void **state) {
    static const int32_t high[] = {0, 16};
    static const int32_t negative[] = {-1, 0};
    static const int32_t good[] = {0, 1};
    struct lists lists;
    struct lists other;
    struct nixl_xfer *xfer = (void *)1;

    lists_begin_dense(&lists, 16, false);
#define REFUSED(words, ...)                                                                                  \
    do {                                                                                                     \
        xfer = (void *)1;                                                                                    \
        assert_int_equal(nixl_xfer_make(__VA_ARGS__, NULL, &xfer), NIXL_ERR_INVALID_PARAM);                  \
        assert_words(nixl_error(), words);                                                                   \
        assert_null(xfer);                                                                                   \
    } while (0)
    REFUSED("the local list is NULL", lists.agent, NIXL_READ, NULL, good, lists.remote, good, 2);
    REFUSED("the remote list is NULL", lists.agent, NIXL_READ, lists.local, good, NULL, good, 2);
    REFUSED("swapped?", lists.agent, NIXL_READ, lists.remote, good, lists.remote, good, 2);
    REFUSED("swapped?", lists.agent, NIXL_READ, lists.local, good, lists.local, good, 2);
    REFUSED("no indices", lists.agent, NIXL_READ, lists.local, good, lists.remote, good, 0);
    REFUSED("2147483648 indices, more than 2147483647", lists.agent, NIXL_READ, lists.local, good,
            lists.remote, good, (size_t)INT32_MAX + 1);
    REFUSED("local index 16 at place 1 is out of range: the list has 16", lists.agent, NIXL_READ, lists.local,
            high, lists.remote, good, 2);
    REFUSED("remote index 16 at place 1", lists.agent, NIXL_READ, lists.local, good, lists.remote, high, 2);
    REFUSED("local index -1 at place 0", lists.agent, NIXL_READ, lists.local, negative, lists.remote, good,
            2);
    REFUSED("index 16 at place 16", lists.agent, NIXL_READ, lists.local, NULL, lists.remote, NULL, 17);
    REFUSED("neither NIXL_READ nor NIXL_WRITE", lists.agent, (nixl_xfer_op_t)2, lists.local, good,
            lists.remote, good, 2);
    assert_int_equal(
        nixl_xfer_make(lists.agent, NIXL_READ, lists.local, good, lists.remote, good, 2, NULL, NULL),
        NIXL_ERR_INVALID_PARAM);
    lists_begin_dense(&other, 16, false);
    REFUSED("not prepared by this agent", other.agent, NIXL_READ, lists.local, good, other.remote, good, 2);
    lists_end(&other);
    lists_end(&lists);
}

static void lengths_must_agree(void **state) {
    struct nixl_desc local[] = {{BASE, 10, 0}, {BASE + 100, 20, 0}};
    struct nixl_desc remote[] = {{BASE, 10, 0}, {BASE + 100, 21, 0}};
    struct lists lists;
    struct nixl_xfer *xfer = (void *)1;

    lists_begin(&lists);
    lists_prepare(&lists, local, remote, 2);
    assert_int_equal(
        nixl_xfer_make(lists.agent, NIXL_READ, lists.local, NULL, lists.remote, NULL, 2, NULL, &xfer),
        NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(),
                 "make: descriptor 1: 20 bytes on the local side (index 1), 21 on the remote side");
    assert_int_equal(nixl_error_index(), 1);
    assert_null(xfer);
    lists_end(&lists);
}

/* The reference hands freed memory to the backend here. */
static void region_deregistered_since_preparing_is_noticed(void **state) {
    struct lists lists;
    struct nixl_desc desc = {BASE, 1 << 24, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_xfer *xfer;

    lists_begin_dense(&lists, 16, false);
    assert_status(nixl_mem_deregister(lists.agent, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(
        nixl_xfer_make(lists.agent, NIXL_READ, lists.local, NULL, lists.remote, NULL, 3, NULL, &xfer),
        NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "its region is gone since the list was prepared");
    assert_int_equal(nixl_error_index(), 0);
    assert_status(nixl_mem_register(lists.agent, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(
        nixl_xfer_make(lists.agent, NIXL_READ, lists.local, NULL, lists.remote, NULL, 3, NULL, &xfer),
        NIXL_ERR_NOT_FOUND);
    lists_end(&lists);
}

static void peer_replaced_since_preparing_is_noticed(void **state) {
    struct agents agents;
    struct nixl_desc l;
    struct nixl_desc r;
    struct nixl_list local = NIXL_LIST(DRAM_SEG, &l, 1);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, &r, 1);
    struct nixl_dlist *here;
    struct nixl_dlist *there;
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    l = (struct nixl_desc){(uintptr_t)agents.a.memory, 64, 0};
    r = (struct nixl_desc){(uintptr_t)agents.b.memory, 64, 0};
    assert_status(nixl_dlist_prepare(agents.a.agent, NULL, &local, NULL, &here), NIXL_SUCCESS);
    assert_status(nixl_dlist_prepare(agents.a.agent, "B", &remote, NULL, &there), NIXL_SUCCESS);
    assert_status(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(nixl_xfer_make(agents.a.agent, NIXL_WRITE, here, NULL, there, NULL, 1, NULL, &xfer),
                         NIXL_ERR_NOT_FOUND);
        assert_words(nixl_error(), "peer \"B\" was removed or replaced");
        introduce(agents.a.agent, agents.b.agent);
    }
    nixl_dlist_release(here);
    nixl_dlist_release(there);
    agents_end(&agents);
}

static void first_hint_in_common_serves_else_the_cheapest(void **state) {
    struct nixl_param dear = {"rank", "20"};
    struct nixl_agent *agent;
    struct nixl_backend *backends[2];
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_desc desc = {BASE, 4096, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_dlist *local;
    struct nixl_dlist *remote;
    struct nixl_xfer *xfer;
    struct nixl_backend *swapped[2];

    assert_status(nixl_agent_create("A", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "MOCK", &dear, 1, &backends[0]), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "MOCK2", NULL, 0, &backends[1]), NIXL_SUCCESS);
    assert_status(nixl_mem_register(agent, &list, NULL), NIXL_SUCCESS);
    assert_status(nixl_dlist_prepare(agent, NULL, &list, NULL, &local), NIXL_SUCCESS);
    assert_status(nixl_dlist_prepare(agent, "A", &list, NULL, &remote), NIXL_SUCCESS);
    assert_status(nixl_xfer_make(agent, NIXL_READ, local, NULL, remote, NULL, 1, NULL, &xfer), NIXL_SUCCESS);
    assert_ptr_equal(nixl_xfer_backend(xfer), backends[1]);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    options.backends = backends;
    options.backend_count = 2;
    assert_status(nixl_xfer_make(agent, NIXL_READ, local, NULL, remote, NULL, 1, &options, &xfer),
                  NIXL_SUCCESS);
    assert_ptr_equal(nixl_xfer_backend(xfer), backends[0]);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    /* One that will not take the request leaves it to the next. */
    the_mock()->set("A", "reject", "yes");
    assert_status(nixl_xfer_make(agent, NIXL_READ, local, NULL, remote, NULL, 1, &options, &xfer),
                  NIXL_SUCCESS);
    assert_ptr_equal(nixl_xfer_backend(xfer), backends[1]);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    options.backend_count = 1;
    assert_int_equal(nixl_xfer_make(agent, NIXL_READ, local, NULL, remote, NULL, 1, &options, &xfer),
                     NIXL_ERR_NOT_SUPPORTED);
    assert_words(nixl_error(), "make: backend MOCK: such a request is not for this backend");
    the_mock()->set("A", "reject", "no");
    /* Lists prepared for different backends have none in common. */
    nixl_dlist_release(local);
    swapped[0] = backends[1];
    options.backends = swapped;
    assert_status(nixl_dlist_prepare(agent, NULL, &list, &options, &local), NIXL_SUCCESS);
    options.backends = backends;
    nixl_dlist_release(remote);
    assert_status(nixl_dlist_prepare(agent, "A", &list, &options, &remote), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_make(agent, NIXL_READ, local, NULL, remote, NULL, 1, NULL, &xfer),
                     NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "no backend in common: MOCK (remote), MOCK2 (local)");
    nixl_dlist_release(local);
    nixl_dlist_release(remote);
    nixl_agent_destroy(agent);
}

/* One half of what can be counted, named three times. */
static void lengths_sum_up_to_what_can_be_counted(void **state) {
    struct nixl_desc whole = {0, 0, 1};
    struct nixl_desc half = {0, UINT64_MAX / 2, 1};
    struct nixl_list known = NIXL_LIST(FILE_SEG, &whole, 1);
    struct nixl_list list = NIXL_LIST(FILE_SEG, &half, 1);
    static const int32_t indices[] = {0, 0, 0};
    struct nixl_backend *backend;
    struct nixl_dlist *local;
    struct nixl_dlist *remote;
    struct nixl_agent *agent;
    struct nixl_xfer *xfer;

    assert_status(nixl_agent_create("A", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "NOOP", NULL, 0, &backend), NIXL_SUCCESS);
    assert_status(nixl_mem_register(agent, &known, NULL), NIXL_SUCCESS);
    assert_status(nixl_dlist_prepare(agent, NULL, &list, NULL, &local), NIXL_SUCCESS);
    assert_status(nixl_dlist_prepare(agent, "A", &list, NULL, &remote), NIXL_SUCCESS);
    assert_status(nixl_xfer_make(agent, NIXL_READ, local, indices, remote, indices, 2, NULL, &xfer),
                  NIXL_SUCCESS);
    assert_int_equal(xfer->request.total_bytes, UINT64_MAX - 1);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_make(agent, NIXL_READ, local, indices, remote, indices, 3, NULL, &xfer),
                     NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "more than 2^64 bytes");
    assert_int_equal(nixl_error_index(), 2);
    assert_null(xfer);
    nixl_dlist_release(local);
    nixl_dlist_release(remote);
    nixl_agent_destroy(agent);
}

static void custom_bytes_reach_the_backend_as_a_copy(void **state) {
    struct agents agents;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    char custom[] = "for you alone";
    char seen[32] = "";
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    options.custom = custom;
    options.custom_len = sizeof custom;
    xfer = request_of(&agents, NIXL_READ, 0, 64, &options);
    memset(custom, 0, sizeof custom);
    assert_int_equal(the_mock()->custom("A", seen, sizeof seen), sizeof custom);
    assert_string_equal(seen, "for you alone");
    assert_memory_equal(xfer->request.custom, "for you alone", sizeof custom);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_dense_ascending_neighbours_merge),
        cmocka_unit_test(blocks_with_gaps_do_not_merge_but_share_a_run),
        cmocka_unit_test(index_of_each_block_stays_the_users),
        cmocka_unit_test(indices_of_a_list_of_runs_find_their_blocks),
        cmocka_unit_test(large_requests_keep_every_block),
        cmocka_unit_test(bad_arguments_are_refused_in_words),
        cmocka_unit_test(lengths_must_agree),
        cmocka_unit_test(region_deregistered_since_preparing_is_noticed),
        cmocka_unit_test(peer_replaced_since_preparing_is_noticed),
        cmocka_unit_test(first_hint_in_common_serves_else_the_cheapest),
        cmocka_unit_test(lengths_sum_up_to_what_can_be_counted),
        cmocka_unit_test(custom_bytes_reach_the_backend_as_a_copy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
