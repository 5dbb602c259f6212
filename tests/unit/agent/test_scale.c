/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large numbers with NOOP, which moves nothing: a million descriptors in one list, a hundred thousand regions, a thousand peers,
 * ten thousand updates. Times are this process's own processor time, so that a busy machine does not matter; the limits are some ten times
 * what docs/performance.md says, those on memory twice.
 */
#include "front.h"

#include <malloc.h>
#include <time.h>

#define BASE UINT64_C(0x100000) /* NOOP takes any address */
#define STEP UINT64_C(4096)
#define LEN UINT64_C(1024)

#ifdef __SANITIZE_ADDRESS__
#define SLOWER 20u
#define HEAP_IS_KNOWN false
#elif defined(__SANITIZE_THREAD__)
#define SLOWER 20u
#define HEAP_IS_KNOWN false
#else
#define SLOWER 1u
#define HEAP_IS_KNOWN true
#endif

static uint64_t cpu_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static size_t heap_bytes(void) {
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* What one of `count` may take, of `begin` bytes before. */
static void assert_heap(const char *what, size_t begin, size_t count, size_t limit) {
    size_t each = (heap_bytes() - begin) / count;

    print_message("# %s: %zu bytes each\n", what, each);
    if (HEAP_IS_KNOWN) {
        assert_in_range(each, 0, limit);
    }
}

static void assert_ms(const char *what, uint64_t begin, uint64_t limit) {
    uint64_t took = cpu_ms() - begin;

    print_message("# %s: %u ms\n", what, (unsigned)took);
    assert_in_range(took, 0, limit * SLOWER);
}

static struct nixl_agent *agent_of(const char *name) {
    struct nixl_agent *agent;
    struct nixl_backend *noop;

    assert_status(nixl_agent_create(name, NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "NOOP", NULL, 0, &noop), NIXL_SUCCESS);
    return agent;
}

static struct nixl_desc *blocks(size_t count, uint64_t step) {
    struct nixl_desc *descs = malloc(count * sizeof *descs);

    assert_non_null(descs);
    for (size_t i = 0; i < count; i++) {
        descs[i] = (struct nixl_desc){BASE + i * step, LEN, 0};
    }
    return descs;
}

/* So that no two blocks in a row have the step of the two before. */
static void scatter(struct nixl_desc *descs, size_t count) {
    uint64_t random = 1;

    for (size_t i = count - 1; i > 0; i--) {
        struct nixl_desc last = descs[i];
        size_t other;

        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        other = (size_t)((random >> 33) % (i + 1));
        descs[i] = descs[other];
        descs[other] = last;
    }
}

static void request_over(struct nixl_agent *agent, struct nixl_dlist *local, struct nixl_dlist *remote,
                         size_t count, size_t limit) {
    size_t heap = heap_bytes();
    uint64_t begin = cpu_ms();
    struct nixl_xfer *xfer;

    assert_status(nixl_xfer_make(agent, NIXL_WRITE, local, NULL, remote, NULL, count, NULL, &xfer),
                  NIXL_SUCCESS);
    assert_heap("block of a request", heap, count, limit);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_ms("make, post, release", begin, 500);
}

static void a_million_descriptors_in_one_list(void **state) {
    enum {
        N = 1000000
    };
    struct nixl_agent *a = agent_of("a"), *b = agent_of("b");
    struct nixl_desc *descs = blocks(N, STEP);
    struct nixl_desc all = {BASE, N * STEP, 0};
    struct nixl_list whole = NIXL_LIST(DRAM_SEG, &all, 1), list = NIXL_LIST(DRAM_SEG, descs, N);

    assert_status(nixl_mem_register(a, &whole, NULL), NIXL_SUCCESS);
    assert_status(nixl_mem_register(b, &whole, NULL), NIXL_SUCCESS);
    introduce(a, b);
    for (int scattered = 0; scattered < 2; scattered++) {
        struct nixl_dlist *local, *remote;
        size_t heap = heap_bytes();
        uint64_t begin = cpu_ms();

        assert_status(nixl_dlist_prepare(a, NULL, &list, NULL, &local), NIXL_SUCCESS);
        assert_status(nixl_dlist_prepare(a, "b", &list, NULL, &remote), NIXL_SUCCESS);
        assert_ms(scattered ? "prepare, scattered" : "prepare, a step apart", begin, 500);
        assert_heap("prepared block", heap, 2 * N, scattered ? 48 : 1);
        assert_int_equal(nixl_dlist_count(local), N);
        request_over(a, local, remote, N, scattered ? 160 : 1);
        nixl_dlist_release(local);
        nixl_dlist_release(remote);
        scatter(descs, N);
    }
    free(descs);
    nixl_agent_destroy(a);
    nixl_agent_destroy(b);
}

static void a_hundred_thousand_regions(void **state) {
    enum {
        N = 100000
    };
    struct nixl_agent *a = agent_of("a"), *b = agent_of("b");
    struct nixl_desc *descs = blocks(N, STEP);
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, N);
    struct nixl_dlist *local, *remote;
    size_t heap = heap_bytes();
    uint64_t begin = cpu_ms();
    struct blob blob;

    scatter(descs, N);
    assert_status(nixl_mem_register(a, &list, NULL), NIXL_SUCCESS);
    assert_heap("region", heap, N, 400);
    for (size_t i = 0; i < N; i++) { /* one by one costs no more than a little */
        struct nixl_list one = NIXL_LIST(DRAM_SEG, descs + i, 1);

        assert_int_equal(nixl_mem_register(b, &one, NULL), NIXL_SUCCESS);
    }
    assert_ms("200,000 registrations", begin, 1500);
    begin = cpu_ms();
    blob = blob_of(b);
    heap = heap_bytes();
    assert_int_equal(load_blob_into(a, blob), NIXL_SUCCESS);
    assert_heap("region of a peer", heap, N, 300);
    free(blob.data);
    assert_ms("metadata", begin, 1000);
    begin = cpu_ms();
    assert_status(nixl_dlist_prepare(a, NULL, &list, NULL, &local), NIXL_SUCCESS);
    assert_status(nixl_dlist_prepare(a, "b", &list, NULL, &remote), NIXL_SUCCESS);
    assert_ms("prepare over them all", begin, 500);
    request_over(a, local, remote, N, 200);
    nixl_dlist_release(local);
    nixl_dlist_release(remote);
    begin = cpu_ms();
    assert_status(nixl_mem_deregister(a, &list, NULL), NIXL_SUCCESS);
    free(descs);
    nixl_agent_destroy(a);
    nixl_agent_destroy(b);
    assert_ms("the end of 300,000 regions", begin, 2000);
}

static void a_thousand_peers(void **state) {
    enum {
        N = 1000
    };
    struct nixl_agent *a = agent_of("a");
    struct nixl_agent **peers = calloc(N, sizeof(struct nixl_agent *));
    struct nixl_desc block = {BASE, STEP, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &block, 1);
    struct nixl_names *names;
    uint64_t begin = cpu_ms();
    struct blob *blobs = calloc(N, sizeof *blobs);
    size_t heap;
    char name[32];

    assert_non_null(peers);
    assert_non_null(blobs);
    assert_status(nixl_mem_register(a, &list, NULL), NIXL_SUCCESS);
    /* Few at a time: each has descriptors of its own. */
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "peer-%d", i);
        peers[i] = agent_of(name);
        assert_status(nixl_mem_register(peers[i], &list, NULL), NIXL_SUCCESS);
        blobs[i] = blob_of(peers[i]);
        nixl_agent_destroy(peers[i]);
    }
    assert_ms("agents made and ended", begin, 3000);
    heap = heap_bytes();
    begin = cpu_ms();
    for (int i = 0; i < N; i++) {
        assert_int_equal(load_blob_into(a, blobs[i]), NIXL_SUCCESS);
    }
    assert_heap("peer", heap, N, 12000);
    assert_status(nixl_peer_list(a, &names), NIXL_SUCCESS);
    assert_int_equal(names->count, N);
    free(names);
    for (int i = 0; i < N; i++) {
        struct nixl_xfer *xfer;

        snprintf(name, sizeof name, "peer-%d", i);
        assert_status(nixl_xfer_create(a, NIXL_WRITE, &list, &list, name, NULL, &xfer), NIXL_SUCCESS);
        assert_status(nixl_xfer_post(xfer, NULL), NIXL_SUCCESS);
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        assert_status(nixl_metadata_invalidate(a, name), NIXL_SUCCESS);
    }
    assert_ms("load, transfer, forget", begin, 500);
    print_message("# heap: %zu bytes before the peers, %zu when they are forgotten\n", heap, heap_bytes());
    if (HEAP_IS_KNOWN) {
        assert_in_range(heap_bytes(), 0, heap + 65536);
    }
    for (int i = 0; i < N; i++) {
        free(blobs[i].data);
    }
    free(blobs);
    free(peers);
    nixl_agent_destroy(a);
}

static void ten_thousand_updates_are_flat_in_time_and_memory(void **state) {
    enum {
        N = 10000,
        ROUND = 100,
        ROUNDS = N / ROUND
    };
    struct nixl_agent *a = agent_of("a"), *b = agent_of("b");
    uint64_t since;
    uint64_t times[ROUNDS]; /* of each 100 updates */
    size_t heap = 0;

    {
        struct nixl_desc keeper = {BASE - STEP, LEN, 0};
        struct nixl_list list = NIXL_LIST(DRAM_SEG, &keeper, 1);

        assert_status(nixl_mem_register(b, &list, NULL), NIXL_SUCCESS);
    }
    introduce(a, b);
    since = nixl_metadata_generation(b);
    /* The log of changes is full before it counts: it has room for 16,384. */
    for (int round = -ROUNDS; round < ROUNDS; round++) {
        struct timespec begin, end;

        if (round == 0) {
            heap = heap_bytes();
        }
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
        for (int i = 0; i < ROUND; i++) {
            struct nixl_desc desc = {BASE + (uint64_t)i * STEP, LEN, 0};
            struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

            assert_int_equal(nixl_mem_register(b, &list, NULL), NIXL_SUCCESS);
            assert_int_equal(load_into(a, update_of(b, since)), NIXL_SUCCESS);
            since = nixl_metadata_generation(b);
            assert_int_equal(nixl_mem_deregister(b, &list, NULL), NIXL_SUCCESS);
        }
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
        if (round >= 0) {
            times[round] = (uint64_t)(end.tv_sec - begin.tv_sec) * UINT64_C(1000000000) +
                           (uint64_t)end.tv_nsec - (uint64_t)begin.tv_nsec;
        }
    }
    /* The quickest hundred of the first and of the last half: what the library needs, without what the machine adds. */
    {
        uint64_t first = UINT64_MAX, last = UINT64_MAX;

        for (int i = 0; i < ROUNDS / 2; i++) {
            first = times[i] < first ? times[i] : first;
            last = times[ROUNDS / 2 + i] < last ? times[ROUNDS / 2 + i] : last;
        }
        print_message("# an update: %u ns in the first half, %u ns in the last\n", (unsigned)(first / ROUND),
                      (unsigned)(last / ROUND));
        assert_true(last < first + first / 2);
    }
    if (HEAP_IS_KNOWN) {
        size_t now = heap_bytes();

        print_message("# heap: %zu bytes before, %zu after\n", heap, now);
        assert_in_range(now, 0, heap + 4096);
    }
    nixl_agent_destroy(a);
    nixl_agent_destroy(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_million_descriptors_in_one_list),
        TEST(a_hundred_thousand_regions),
        TEST(a_thousand_peers),
        TEST(ten_thousand_updates_are_flat_in_time_and_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
