/* SPDX-License-Identifier: Apache-2.0 */
/* Copies by the kernel between two processes of this host: long lists, a peer that is gone, memory that is gone, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/skip.h"
#include "ucx_harness.h"

#define MEMORY ((size_t)64 << 20)
#define WAIT_MS 30000
#define BLOCKS 100000u
#define BLOCK 256u
#define STEP 600u /* between blocks */

struct fixture {
    struct harness h;
    struct remote r;
    struct harness_memory m;
    void *peer, *key;
    bool is_dead;
};

static int setup_with(void **state, const char *const *params) {
    struct fixture *f = calloc(1, sizeof *f);

    (void)harness_transports("");
    if (!remote_start(&f->r, "remote", MEMORY, NULL) ||
        harness_open(&f->h, "local", params, false) != NIXL_SUCCESS ||
        !harness_register(&f->h, &f->m, MEMORY) ||
        harness_load(&f->h, &f->r, &f->peer, &f->key) != NIXL_SUCCESS) {
        fprintf(stderr, "%s %s\n", f->r.error, f->h.error);
        return -1;
    }
    *state = f;
    return 0;
}

static int setup(void **state) {
    static const char *const params[] = {"copy_threads", "2", NULL};

    return setup_with(state, params);
}

/* Nothing moves but by a call. */
static int setup_without_copier(void **state) {
    static const char *const params[] = {"copy_threads", "0", NULL};

    return setup_with(state, params);
}

static int teardown(void **state) {
    struct fixture *f = *state;

    f->h.ops->key_close(f->h.self, f->peer, f->key);
    f->h.ops->peer_close(f->h.self, f->peer);
    harness_unregister(&f->h, &f->m);
    harness_close(&f->h);
    if (!f->is_dead) {
        remote_stop(&f->r);
    }
    free(f);
    return 0;
}

static struct nixl_run run_of(const struct fixture *f, size_t local, size_t remote, size_t len) {
    return (struct nixl_run){.local = (uintptr_t)f->m.at + local,
                             .remote = f->r.addr + remote,
                             .len = len,
                             .local_key = f->m.region,
                             .remote_key = f->key,
                             .count = 1};
}

static const char *transport_of(struct fixture *f) {
    static char text[64];

    assert_int_equal(f->h.ops->peer_transport(f->h.self, f->peer, DRAM_SEG, text, sizeof text), NIXL_SUCCESS);
    return text;
}

static nixl_status_t move(struct fixture *f, nixl_xfer_op_t op, const struct nixl_run *runs, size_t count) {
    struct harness_request q;
    nixl_status_t status;

    assert_int_equal(harness_request_open(&f->h, &q, op, f->peer, runs, count, NULL), NIXL_SUCCESS);
    status = harness_run(&f->h, &q, WAIT_MS);
    if (status == NIXL_SUCCESS) {
        assert_int_equal(q.request.done_bytes, q.request.total_bytes);
    }
    harness_request_close(&f->h, &q);
    return status;
}

/* Block i of ours goes to block (i * 7919) mod BLOCKS of theirs, and comes back to where it was. */
static void hundred_thousand_scattered_blocks_travel_both_ways(void **state) {
    struct fixture *f = *state;
    struct nixl_run *runs = calloc(BLOCKS, sizeof *runs);
    uint8_t *expected = malloc(MEMORY);

    assert_non_null(runs);
    assert_non_null(expected);
    assert_string_equal(transport_of(f), "cma");
    for (uint32_t i = 0; i < BLOCKS; i++) {
        runs[i] =
            run_of(f, (size_t)i * STEP + i % 7, (size_t)((uint64_t)i * 7919 % BLOCKS) * STEP, BLOCK + i % 3);
        runs[i].first_index = i;
    }
    harness_fill(f->m.at, MEMORY, 1);
    memcpy(expected, f->m.at, MEMORY);
    assert_int_equal(move(f, NIXL_WRITE, runs, BLOCKS), NIXL_SUCCESS);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        memset((void *)(uintptr_t)runs[i].local, 0, runs[i].len);
    }
    assert_memory_not_equal(f->m.at, expected, MEMORY);
    assert_int_equal(move(f, NIXL_READ, runs, BLOCKS), NIXL_SUCCESS);
    assert_memory_equal(f->m.at, expected, MEMORY);
    free(expected);
    free(runs);
}

static void a_strided_run_of_hundred_thousand_blocks_arrives_in_its_places(void **state) {
    struct fixture *f = *state;
    struct nixl_run gather = run_of(f, 0, 0, BLOCK), back = run_of(f, 0, 0, (size_t)BLOCKS * BLOCK);
    uint8_t *expected = malloc((size_t)BLOCKS * BLOCK);

    gather.count = BLOCKS;
    gather.local_stride = STEP;
    gather.remote_stride = BLOCK;
    harness_fill(f->m.at, MEMORY, 2);
    for (size_t i = 0; i < BLOCKS; i++) {
        memcpy(expected + i * BLOCK, f->m.at + i * STEP, BLOCK);
    }
    assert_int_equal(move(f, NIXL_WRITE, &gather, 1), NIXL_SUCCESS);
    assert_int_equal(move(f, NIXL_READ, &back, 1), NIXL_SUCCESS);
    assert_memory_equal(f->m.at, expected, (size_t)BLOCKS * BLOCK);
    free(expected);
}

static void blocks_of_no_bytes_are_passed_over(void **state) {
    struct fixture *f = *state;
    struct nixl_run runs[3] = {run_of(f, 0, 0, 0), run_of(f, 10, 20, 5), run_of(f, 0, 0, 0)};

    runs[0].count = 10000;
    harness_fill(f->m.at, 100, 3);
    remote_fill(&f->r, 0, 100, 4);
    assert_int_equal(move(f, NIXL_WRITE, runs, 3), NIXL_SUCCESS);
    runs[1] = run_of(f, 200, 20, 5);
    assert_int_equal(move(f, NIXL_READ, runs, 3), NIXL_SUCCESS);
    assert_memory_equal(f->m.at + 200, f->m.at + 10, 5);
}

/* So many that they would be worth several threads, but they adjoin, and all go within the post. */
static void small_blocks_that_adjoin_are_one(void **state) {
    struct fixture *f = *state;
    struct nixl_run run = run_of(f, 0, 0, 16);

    run.count = 10000;
    run.local_stride = run.remote_stride = 16;
    for (uint64_t i = 0; i < 10; i++) {
        harness_fill(f->m.at, 160000, i);
        assert_int_equal(move(f, NIXL_WRITE, &run, 1), NIXL_SUCCESS);
        assert_true(remote_check(&f->r, 0, 160000, i));
    }
}

/* The second of three lies where nothing is mapped: the first page. */
static void a_block_that_is_not_mapped_is_named(void **state) {
    struct fixture *f = *state;
    struct nixl_run runs[3] = {run_of(f, 0, 0, 64), run_of(f, 64, 0, 64), run_of(f, 128, 4096, 64)};
    struct harness_request q;

    runs[1].remote = 64;
    runs[1].first_index = 1;
    runs[2].first_index = 2;
    assert_int_equal(harness_request_open(&f->h, &q, NIXL_WRITE, f->peer, runs, 3, NULL), NIXL_SUCCESS);
    assert_int_equal(harness_run(&f->h, &q, WAIT_MS), NIXL_ERR_BACKEND);
    assert_non_null(strstr(f->h.error, "descriptor 1"));
    assert_non_null(strstr(f->h.error, "not mapped"));
    assert_int_equal(q.request.done_bytes, 64);
    harness_request_close(&f->h, &q);
    /* That is a fault of the request, not of the peer. */
    assert_int_equal(f->h.failures, 0);
    runs[1] = run_of(f, 64, 64, 64);
    assert_int_equal(move(f, NIXL_WRITE, runs, 3), NIXL_SUCCESS);
}

/* Also while nobody has waited for its process: it is there, but has no memory. */
static void a_dead_peer_is_told_in_words(void **state) {
    struct fixture *f = *state;
    struct nixl_run run = run_of(f, 0, 0, 1000);
    struct harness_request q;
    siginfo_t info;

    assert_int_equal(move(f, NIXL_WRITE, &run, 1), NIXL_SUCCESS);
    assert_int_equal(kill(f->r.pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)f->r.pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(harness_request_open(&f->h, &q, NIXL_WRITE, f->peer, &run, 1, NULL), NIXL_SUCCESS);
    assert_int_equal(harness_run(&f->h, &q, WAIT_MS), NIXL_ERR_REMOTE_DISCONNECT);
    assert_non_null(strstr(f->h.error, "remote"));
    assert_non_null(strstr(f->h.error, "failed"));
    harness_request_close(&f->h, &q);
    assert_int_equal(f->h.failures, 1);
    remote_kill(&f->r);
    f->is_dead = true;
    assert_int_equal(f->h.ops->peer_state(f->h.self, f->peer), NIXL_ERR_REMOTE_DISCONNECT);
}

static void refill(struct fixture *f, const char *note) {
    struct nixl_desc desc = {f->r.addr, f->r.len, 0};

    f->h.ops->key_close(f->h.self, f->peer, f->key);
    f->h.ops->peer_close(f->h.self, f->peer);
    assert_int_equal(
        f->h.ops->peer_open(f->h.self, "remote", f, f->r.conn, f->r.conn_len, note, strlen(note), &f->peer),
        NIXL_SUCCESS);
    assert_int_equal(f->h.ops->key_open(f->h.self, f->peer, DRAM_SEG, &desc, f->r.key, f->r.key_len, &f->key),
                     NIXL_SUCCESS);
}

/* A child of ours that sleeps: a process that may be copied to, but is not the peer. */
static void a_process_that_is_not_the_peer_is_never_written_to(void **state) {
    struct fixture *f = *state;
    struct nixl_run run;
    char note[512], *at;
    pid_t stranger = fork();

    if (stranger == 0) {
        (void)pause();
        _exit(0);
    }
    (void)snprintf(note, sizeof note, "%.*s", (int)f->r.note_len, f->r.note);
    at = strstr(note, " cma=");
    assert_non_null(at);
    /* The very place of our own proof: a fork has our memory, but for that page. */
    {
        const void *ours;
        size_t len;
        const char *proof;

        assert_int_equal(f->h.ops->note(f->h.self, &ours, &len), NIXL_SUCCESS);
        proof = strchr(strstr(ours, " cma="), '/');
        (void)snprintf(at, sizeof note - (size_t)(at - note), " cma=%d%s", (int)stranger, proof);
    }
    refill(f, note);
    run = run_of(f, 0, 0, 1000);
    assert_true(strcmp(transport_of(f), "cma") != 0 || harness_is_new_ucx(&f->h));
    harness_fill(f->m.at, 1000, 8);
    assert_int_equal(move(f, NIXL_WRITE, &run, 1), NIXL_SUCCESS);
    assert_true(remote_check(&f->r, 0, 1000, 8));
    assert_non_null(strstr(f->h.debug, "UCX carries its bytes"));
    (void)kill(stranger, SIGKILL);
    (void)waitpid(stranger, NULL, 0);
}

static void notes_that_make_no_sense_leave_it_to_ucx(void **state) {
    static const char *const words[] = {"cma=",    "cma=/",  "cma=-5/0x10", "cma=1", "cma=99999999999/1",
                                        "cma=1/0", "cma=x/y"};
    struct fixture *f = *state;
    struct nixl_run run;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char note[512], *at;

        (void)snprintf(note, sizeof note, "%.*s", (int)f->r.note_len, f->r.note);
        at = strstr(note, "cma=");
        assert_non_null(at);
        (void)snprintf(at, sizeof note - (size_t)(at - note), "%s", words[i]);
        refill(f, note);
        run = run_of(f, 0, 0, 100);
        harness_fill(f->m.at, 100, i);
        assert_int_equal(move(f, NIXL_WRITE, &run, 1), NIXL_SUCCESS);
        assert_true(remote_check(&f->r, 0, 100, i));
    }
}

/* A list under way is looked at piece by piece, a note without doors (an earlier version's) goes without. */
static void a_long_transfer_ends_when_the_owner_deregisters(void **state) {
    static const nixl_xfer_op_t ops[] = {NIXL_READ, NIXL_WRITE};
    struct fixture *f = *state;
    struct nixl_run run = run_of(f, 0, 0, MEMORY);

    for (int i = 0; i < 2; i++) {
        struct harness_request q;

        assert_int_equal(harness_request_open(&f->h, &q, ops[i], f->peer, &run, 1, "never"), NIXL_SUCCESS);
        if (i == 0) {
            assert_int_equal(harness_post(&f->h, &q), NIXL_IN_PROG);
            remote_deregister(&f->r);
            assert_int_equal(harness_wait(&f->h, &q, WAIT_MS), NIXL_ERR_NOT_FOUND);
            assert_int_equal(q.failure.run, 0);
            assert_non_null(strstr(q.text, "deregistered"));
        } else {
            assert_int_equal(harness_post(&f->h, &q), NIXL_ERR_NOT_FOUND);
            assert_non_null(strstr(f->h.error, "descriptor 0"));
        }
        assert_true(q.request.done_bytes < MEMORY);
        harness_request_close(&f->h, &q);
    }
    assert_int_equal(remote_received(&f->r, 1, 50, NULL), 0);
    /* That is no fault of the peer. */
    assert_int_equal(f->h.failures, 0);
}

/* An earlier version's note has no doors; what another one says may be nonsense. */
static void without_doors_the_kernel_copies_all_the_same(void **state) {
    static const char *const words[] = {
        "", " doors=", " doors=-1", " doors=0", " doors=999999", " doors=x", " doors=99999999999"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct nixl_run run;
        char note[512], *at;

        (void)snprintf(note, sizeof note, "%.*s", (int)f->r.note_len, f->r.note);
        at = strstr(note, " doors=");
        assert_non_null(at);
        (void)snprintf(at, sizeof note - (size_t)(at - note), "%s", words[i]);
        refill(f, note);
        assert_string_equal(transport_of(f), "cma");
        run = run_of(f, 0, 0, 100);
        harness_fill(f->m.at, 100, i);
        assert_int_equal(move(f, NIXL_WRITE, &run, 1), NIXL_SUCCESS);
        assert_true(remote_check(&f->r, 0, 100, i));
    }
    remote_deregister(&f->r);
    assert_int_equal(move(f, NIXL_READ, (struct nixl_run[]){run_of(f, 0, 0, 100)}, 1), NIXL_SUCCESS);
}

/* By the owner's own file: its entries are 32 bytes, a number, the address and the length, from 4096 on. */
static bool is_door_open(struct harness *h, const void *addr, size_t len) {
    const void *note;
    const char *word;
    size_t note_len;
    uint64_t entries[512];
    int fd;

    assert_int_equal(h->ops->note(h->self, &note, &note_len), NIXL_SUCCESS);
    word = strstr(note, " doors=");
    assert_non_null(word);
    fd = atoi(word + 7);
    for (off_t at = 4096; pread(fd, entries, sizeof entries, at) == sizeof entries; at += sizeof entries) {
        for (size_t i = 0; i < 512; i += 4) {
            if (entries[i] != 0 && entries[i + 1] == (uintptr_t)addr && entries[i + 2] == len) {
                return true;
            }
        }
    }
    return false;
}

static void a_door_is_open_as_long_as_one_registration_of_its_block(void **state) {
    struct fixture *f = *state;
    struct nixl_meta_desc desc = {.addr = (uintptr_t)f->m.at, .len = MEMORY};
    void *twin = NULL;
    pid_t child;
    int ended = -1;

    assert_true(is_door_open(&f->h, f->m.at, MEMORY));
    assert_false(is_door_open(&f->h, f->m.at, MEMORY - 1));
    /* A forked child that lets go of what it inherited closes nothing here. */
    child = fork();
    if (child == 0) {
        f->h.ops->region_close(f->h.self, f->m.region);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    assert_true(is_door_open(&f->h, f->m.at, MEMORY));
    /* Of two registrations either may go first. */
    assert_int_equal(f->h.ops->region_open(f->h.self, DRAM_SEG, &desc, &twin), NIXL_SUCCESS);
    f->h.ops->region_close(f->h.self, f->m.region);
    assert_true(is_door_open(&f->h, f->m.at, MEMORY));
    f->h.ops->region_close(f->h.self, twin);
    assert_false(is_door_open(&f->h, f->m.at, MEMORY));
    assert_int_equal(f->h.ops->region_open(f->h.self, DRAM_SEG, &desc, &f->m.region), NIXL_SUCCESS);
    assert_true(is_door_open(&f->h, f->m.at, MEMORY));
}

/* How many of the owner's blocks have no place in the table: 8 bytes at 16. */
static uint64_t unlisted(struct harness *h) {
    uint64_t count = UINT64_MAX;
    const void *note;
    size_t len;

    assert_int_equal(h->ops->note(h->self, &note, &len), NIXL_SUCCESS);
    assert_int_equal(pread(atoi(strstr(note, " doors=") + 7), &count, 8, 16), 8);
    return count;
}

/* More blocks than the table holds: it says so as long as it is so, and keeps those that it has. */
static void a_full_table_of_doors_says_so(void **state) {
    struct fixture *f = *state;
    size_t count = 140000, documented = 80000;
    void **regions = calloc(count, sizeof *regions);

    assert_non_null(regions);
    for (size_t i = 0; i < count; i++) {
        struct nixl_meta_desc desc = {.addr = (uintptr_t)f->m.at + i * 16, .len = 16};

        if (i == documented) {
            assert_int_equal(unlisted(&f->h), 0);
        }
        assert_int_equal(f->h.ops->region_open(f->h.self, DRAM_SEG, &desc, &regions[i]), NIXL_SUCCESS);
    }
    /* 131,200 entries, one of them for the whole memory. */
    assert_true(unlisted(&f->h) >= 140001 - 131200);
    assert_true(is_door_open(&f->h, f->m.at, MEMORY));
    assert_true(is_door_open(&f->h, f->m.at, 16));
    for (size_t i = 0; i < count; i++) {
        f->h.ops->region_close(f->h.self, regions[i]);
    }
    assert_false(is_door_open(&f->h, f->m.at, 16));
    assert_true(is_door_open(&f->h, f->m.at, MEMORY));
    assert_int_equal(unlisted(&f->h), 0);
    free(regions);
}

/* From here on the kernel refuses this thread both calls, as containers do. It cannot be taken back. */
static void refuse_from_now_on(void) {
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};

    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* Polls a request to its end; what it says of its bytes is never more than there are. */
static nixl_status_t watch(struct fixture *f, struct harness_request *q) {
    nixl_status_t status = NIXL_IN_PROG;

    for (int i = 0; i < 10000000 && status == NIXL_IN_PROG; i++) {
        status = harness_wait(&f->h, q, 0);
        assert_true(__atomic_load_n(&q->request.done_bytes, __ATOMIC_RELAXED) <= q->request.total_bytes);
    }
    return status;
}

/* One that a thread copies alone, which goes on where it was, and one that several share, which begins anew. */
static void a_refusal_in_mid_transfer_leaves_the_rest_to_ucx(void **state) {
    struct fixture *f = *state;
    size_t part = 8 << 20;
    struct nixl_run run = run_of(f, part, part, MEMORY - part), small = run_of(f, 0, 0, part);
    struct harness_request q, alone;

    if (harness_is_new_ucx(&f->h)) {
        test_skip("this UCX has chosen such copies too, and has no other way then");
    }
    harness_fill(f->m.at, MEMORY, 5);
    assert_int_equal(harness_request_open(&f->h, &alone, NIXL_WRITE, f->peer, &small, 1, NULL), NIXL_SUCCESS);
    assert_int_equal(harness_request_open(&f->h, &q, NIXL_WRITE, f->peer, &run, 1, "after"), NIXL_SUCCESS);
    assert_int_equal(harness_post(&f->h, &alone), NIXL_IN_PROG);
    assert_int_equal(harness_post(&f->h, &q), NIXL_IN_PROG);
    refuse_from_now_on();
    assert_int_equal(watch(f, &q), NIXL_SUCCESS);
    assert_int_equal(q.request.done_bytes, MEMORY - part);
    assert_int_equal(watch(f, &alone), NIXL_SUCCESS);
    assert_int_equal(alone.request.done_bytes, part);
    harness_request_close(&f->h, &alone);
    assert_true(remote_check(&f->r, 0, MEMORY, 5));
    assert_int_equal(remote_received(&f->r, 1, WAIT_MS, NULL), 1);
    /* And again, whole. */
    harness_fill(f->m.at + part, MEMORY - part, 6);
    assert_int_equal(harness_run(&f->h, &q, WAIT_MS), NIXL_SUCCESS);
    assert_true(remote_check(&f->r, part, MEMORY - part, 6));
    harness_request_close(&f->h, &q);
    assert_string_equal(transport_of(f), "tcp");
}

static void where_the_kernel_refuses_ucx_carries_all_and_the_filter_is_named(void **state) {
    struct nixl_run run;
    struct fixture *f;

    refuse_from_now_on();
    assert_int_equal(setup(state), 0);
    f = *state;
    run = run_of(f, 3, 5, 3 << 20);
    assert_string_equal(transport_of(f), "tcp");
    harness_fill(f->m.at + 3, 3 << 20, 7);
    assert_int_equal(move(f, NIXL_WRITE, &run, 1), NIXL_SUCCESS);
    assert_true(remote_check(&f->r, 5, 3 << 20, 7));
    assert_non_null(strstr(f->h.log, "seccomp"));
    assert_int_equal(teardown(state), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define STEPWISE(f) cmocka_unit_test_setup_teardown(f, setup_without_copier, teardown)

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(hundred_thousand_scattered_blocks_travel_both_ways),
        TEST(a_strided_run_of_hundred_thousand_blocks_arrives_in_its_places),
        TEST(blocks_of_no_bytes_are_passed_over),
        TEST(small_blocks_that_adjoin_are_one),
        TEST(a_block_that_is_not_mapped_is_named),
        TEST(a_dead_peer_is_told_in_words),
        TEST(a_process_that_is_not_the_peer_is_never_written_to),
        TEST(notes_that_make_no_sense_leave_it_to_ucx),
        STEPWISE(a_long_transfer_ends_when_the_owner_deregisters),
        TEST(without_doors_the_kernel_copies_all_the_same),
        TEST(a_door_is_open_as_long_as_one_registration_of_its_block),
        TEST(a_full_table_of_doors_says_so),
        /* These two last: the refusal stays. */
        TEST(a_refusal_in_mid_transfer_leaves_the_rest_to_ucx),
        cmocka_unit_test(where_the_kernel_refuses_ucx_carries_all_and_the_filter_is_named),
    };

    harness_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
