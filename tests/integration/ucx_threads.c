/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent with several UCX workers and threads (num_workers, num_threads), used from many threads of the program at once, with
 * two peers in processes of their own: nothing is disturbed by what others cancel, release, register or forget; and it is
 * destroyed while transfers are in flight, and its peers are killed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "support/skip.h"
#include "ucx_node.h"

#define MIB ((size_t)1 << 20)
#define THREADS 4u
#define SLICE (24 * MIB) /* of each thread, here and there; a copy of so much is shared by several threads */
#define MEMORY (2 * THREADS * SLICE)
#define BLOCK ((size_t)512)
#define STEP ((size_t)1024)
#define WAIT_MS 30000

struct setting {
    struct node_setting node;
    const char *cma;
};

/* The kernel's copies; those of UCX, which are split; messages. */
static const struct setting settings[] = {
    {{"", true}, "true"}, {{"sm,self", false}, "false"}, {{"tcp,self", true}, "true"}};

struct fixture {
    const struct setting *setting;
    struct local l;
    struct node calm, wild; /* nobody disturbs what goes to the first one */
    bool wild_is_dead, is_destroyed;
    uint32_t stop;
    uint32_t moved, ended; /* whole; cancelled or refused */
};

static int setup(void **state) {
    const struct setting *setting = *state;
    const struct nixl_param params[] = {
        {"num_workers", "4"}, {"num_threads", "2"}, {"split_batch_size", "64"}, {"ucx_cma", setting->cma}};
    struct fixture *f = calloc(1, sizeof *f);

    f->setting = setting;
    if (!node_start(&f->calm, "calm", &setting->node, MEMORY, NULL) ||
        !node_start(&f->wild, "wild", &setting->node, MEMORY, NULL) ||
        !local_open_with(&f->l, "local", &setting->node, MEMORY, params, 4) ||
        node_load(&f->calm, &f->l) != NIXL_SUCCESS || node_load(&f->wild, &f->l) != NIXL_SUCCESS) {
        fprintf(stderr, "# %s %s %s\n", f->calm.error, f->wild.error, nixl_error());
        return -1;
    }
    *state = f;
    return 0;
}

/* UCX before 1.21 ends a process whose peer goes while the two connect over tcp: docs/failures.md. */
static struct fixture *fixture_of(void **state) {
    struct fixture *f = *state;

    if (strncmp(f->setting->node.tls, "tcp", 3) == 0 &&
        strstr(nixl_backend_description(f->l.ucx), "UCX 1.1") != NULL) {
        test_skip("this UCX aborts processes whose peers go over tcp");
    }
    return f;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    if (!f->is_destroyed) {
        local_close(&f->l);
    }
    node_stop(&f->calm);
    if (!f->wild_is_dead) {
        (void)kill(f->wild.pid, SIGCONT);
        node_stop(&f->wild);
    }
    free(f);
    return 0;
}

static uint64_t now_ms(void) {
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* `count` blocks of `len` bytes, `step` apart, at `offset` here and at `there` of the peer. NULL: see nixl_error(). */
static struct nixl_xfer *request(struct fixture *f, const struct node *n, nixl_xfer_op_t op, size_t here,
                                 size_t there, size_t len, size_t step, size_t count, uint64_t timeout_ms) {
    struct nixl_strided_desc ours = {(uintptr_t)f->l.at + here, len, 0, step, count},
                             theirs = {n->addr + there, len, 0, step, count};
    struct nixl_list local = NIXL_LIST_STRIDED(DRAM_SEG, &ours, 1),
                     remote = NIXL_LIST_STRIDED(DRAM_SEG, &theirs, 1);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer = NULL;

    options.timeout_ms = timeout_ms;
    options.has_notif = op == NIXL_WRITE;
    options.notif = "written";
    options.notif_len = 7;
    return nixl_xfer_create(f->l.agent, op, &local, &remote, n->name, &options, &xfer) == NIXL_SUCCESS ? xfer
                                                                                                       : NULL;
}

static nixl_status_t wait_for(struct nixl_xfer *xfer, bool polls) {
    uint64_t end = now_ms() + WAIT_MS;
    nixl_status_t status = nixl_xfer_post(xfer, NULL);

    while (status == NIXL_IN_PROG && now_ms() < end) {
        status = polls ? nixl_xfer_poll(xfer) : nixl_xfer_wait(xfer, WAIT_MS);
    }
    return status;
}

static void release(struct nixl_xfer *xfer) {
    while (nixl_xfer_release(xfer) == NIXL_ERR_REPOST_ACTIVE) {
    }
}

/* ---- many threads ---- */

struct actor {
    struct fixture *f;
    pthread_t thread;
    unsigned index;
    char fault[400];
};

static bool is_over(const struct fixture *f) {
    return __atomic_load_n(&f->stop, __ATOMIC_RELAXED) != 0;
}

static void complain(struct actor *a, const char *what, nixl_status_t status, const struct nixl_xfer *xfer) {
    (void)snprintf(a->fault, sizeof a->fault, "%s: %s: %s", what, nixl_status_string(status),
                   xfer != NULL ? nixl_xfer_error(xfer) : nixl_error());
    __atomic_store_n(&a->f->stop, 1, __ATOMIC_RELAXED);
}

/* To the calm peer and back: every byte arrives. */
static void round_trip(struct actor *a, unsigned round) {
    static const struct {
        size_t len, step, count;
    } shapes[] = {{SLICE, SLICE, 1}, {BLOCK, STEP, SLICE / STEP / 4}, {64, 64, 1}, {BLOCK, STEP, 300}};
    struct fixture *f = a->f;
    size_t len = shapes[round % 4].len, step = shapes[round % 4].step, count = shapes[round % 4].count;
    size_t at = a->index * SLICE, back = (THREADS + a->index) * SLICE;
    struct nixl_xfer *put = request(f, &f->calm, NIXL_WRITE, at, at, len, step, count, 0),
                     *get = request(f, &f->calm, NIXL_READ, back, at, len, step, count, 0);
    nixl_status_t status;

    if (put == NULL || get == NULL) {
        complain(a, "create", NIXL_ERR_UNKNOWN, NULL);
        return;
    }
    pattern_fill(f->l.at + at, step * (count - 1) + len, round * THREADS + a->index);
    for (size_t i = 0; i < count; i++) {
        memset(f->l.at + back + i * step, 0, len);
    }
    if ((status = wait_for(put, round % 3 == 0)) != NIXL_SUCCESS) {
        complain(a, "write", status, put);
    } else if ((status = wait_for(get, round % 3 == 1)) != NIXL_SUCCESS) {
        complain(a, "read", status, get);
    }
    for (size_t i = 0; i < count && status == NIXL_SUCCESS; i++) {
        if (memcmp(f->l.at + at + i * step, f->l.at + back + i * step, len) != 0) {
            complain(a, "other bytes came back", status, NULL);
        }
    }
    __atomic_fetch_add(&f->moved, 1, __ATOMIC_RELAXED);
    release(put);
    release(get);
}

/* To the wild peer: ended at some moment, or by itself. */
static void interrupted(struct actor *a, unsigned round) {
    struct fixture *f = a->f;
    bool is_read = (round & 1) != 0, is_one = (round & 2) != 0;
    size_t at = (is_read ? THREADS + a->index : a->index) * SLICE;
    struct nixl_xfer *xfer =
        request(f, &f->wild, is_read ? NIXL_READ : NIXL_WRITE, at, at, is_one ? SLICE : BLOCK,
                is_one ? SLICE : STEP, is_one ? 1 : 2000, (round & 4) != 0 ? 3 : 0);
    nixl_status_t status;

    if (xfer == NULL) { /* the peer is not known at the moment */
        __atomic_fetch_add(&f->ended, 1, __ATOMIC_RELAXED);
        return;
    }
    status = nixl_xfer_post(xfer, NULL);
    for (unsigned i = 0; i < round % 5 && status == NIXL_IN_PROG; i++) {
        status = nixl_xfer_poll(xfer);
    }
    if (status == NIXL_IN_PROG && (round & 8) != 0) {
        (void)nixl_xfer_cancel(xfer);
        status = nixl_xfer_wait(xfer, WAIT_MS);
        if (status == NIXL_IN_PROG) {
            complain(a, "a cancelled transfer goes on", status, xfer);
        }
    }
    __atomic_fetch_add(&f->ended, 1, __ATOMIC_RELAXED);
    release(xfer);
}

static void *mover(void *arg) {
    struct actor *a = arg;

    for (unsigned round = a->index; !is_over(a->f); round++) {
        round_trip(a, round);
        interrupted(a, round);
    }
    return NULL;
}

/* Everything else that a program does meanwhile. */
static void *meddler(void *arg) {
    struct actor *a = arg;
    struct fixture *f = a->f;
    uint8_t *own = mmap(NULL, 64 * STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct nixl_desc desc = {(uintptr_t)own, 64 * STEP, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    nixl_status_t status;

    for (unsigned round = 0; !is_over(f); round++) {
        struct nixl_notifs *notifs = NULL;

        if ((status = nixl_mem_register(f->l.agent, &list, NULL)) != NIXL_SUCCESS ||
            (status = nixl_notif_send(f->l.agent, "calm", "hello", 5, NULL)) != NIXL_SUCCESS ||
            (status = nixl_notif_take(f->l.agent, NULL, &notifs)) < 0 ||
            (status = nixl_mem_deregister(f->l.agent, &list, NULL)) != NIXL_SUCCESS) {
            complain(a, "meanwhile", status, NULL);
        }
        nixl_notifs_release(notifs);
        /* Over tcp UCX ends processes now and then whose peers go and come back at such a pace: docs/failures.md. */
        if (round % 16 == 0 && strncmp(f->setting->node.tls, "tcp", 3) != 0) {
            (void)nixl_metadata_invalidate(f->l.agent, "wild");
            if ((status = node_load(&f->wild, &f->l)) != NIXL_SUCCESS) {
                complain(a, "load", status, NULL);
            }
        }
        (void)usleep(1000);
    }
    (void)munmap(own, 64 * STEP);
    return NULL;
}

static void many_threads_disturb_each_other_not_at_all(void **state) {
    struct fixture *f = fixture_of(state);
    const char *text = getenv("NIXL_TEST_SECONDS");
    uint64_t end = now_ms() + (text != NULL ? strtoul(text, NULL, 10) * 1000 : 1000);
    struct actor actors[THREADS + 1] = {0};

    for (unsigned i = 0; i <= THREADS; i++) {
        actors[i].f = f;
        actors[i].index = i;
        assert_int_equal(pthread_create(&actors[i].thread, NULL, i < THREADS ? mover : meddler, &actors[i]),
                         0);
    }
    /* However busy the machine is, there is something to compare. */
    while (!is_over(f) && (now_ms() < end || __atomic_load_n(&f->moved, __ATOMIC_RELAXED) < 2 * THREADS)) {
        (void)usleep(1000);
    }
    __atomic_store_n(&f->stop, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i <= THREADS; i++) {
        (void)pthread_join(actors[i].thread, NULL);
        if (actors[i].fault[0] != '\0') {
            fprintf(stderr, "# thread %u: %s\n", i, actors[i].fault);
        }
        assert_string_equal(actors[i].fault, "");
    }
    printf("# UCX %s: %u round trips, %u others\n", f->setting->node.tls, f->moved, f->ended);
}

/* ---- ends ---- */

#define REQUESTS 12u

/* Afterwards UCX notices everywhere that the peer dies. */
static void connect_wild(struct fixture *f) {
    struct nixl_xfer *first = request(f, &f->wild, NIXL_READ, 0, 0, 64, 64, 1, 0);

    assert_non_null(first);
    assert_int_equal(wait_for(first, false), NIXL_SUCCESS);
    release(first);
}

/* Of all kinds; posted. */
static void post_some(struct fixture *f, struct nixl_xfer **xfers, uint64_t timeout_ms) {
    for (unsigned i = 0; i < REQUESTS; i++) {
        size_t at = i % (2 * THREADS) * SLICE;
        nixl_status_t status;

        xfers[i] = request(f, &f->wild, i % 3 == 0 ? NIXL_WRITE : NIXL_READ, at, at, i % 2 ? SLICE : BLOCK,
                           i % 2 ? SLICE : STEP, i % 2 ? 1 : SLICE / STEP, timeout_ms);
        assert_non_null(xfers[i]);
        status = nixl_xfer_post(xfers[i], NULL);
        assert_true(status == NIXL_IN_PROG || status == NIXL_SUCCESS);
    }
}

/* It ends in time, and afterwards nothing touches the memory: it is gone. */
static void an_agent_is_destroyed_with_transfers_in_flight(void **state) {
    struct fixture *f = fixture_of(state);
    struct nixl_xfer *xfers[REQUESTS];
    uint64_t start;

    post_some(f, xfers, 0);
    start = now_ms();
    nixl_agent_destroy(f->l.agent);
    f->is_destroyed = true;
    printf("# destroyed within %llu ms\n", (unsigned long long)(now_ms() - start));
    assert_true(now_ms() - start < 5000);
    memset(f->l.at, 7, f->l.len);
    (void)usleep(20000);
    for (size_t i = 0; i < f->l.len; i += 4096) {
        assert_int_equal(f->l.at[i], 7);
    }
    (void)munmap(f->l.at, f->l.len);
}

/* Several at a time, to one peer that is killed or stopped in the middle. */
static void all_end(struct nixl_xfer **xfers, uint64_t start, uint64_t within_ms) {
    unsigned done = 0;

    for (unsigned i = 0; i < REQUESTS; i++) {
        nixl_status_t status = nixl_xfer_wait(xfers[i], WAIT_MS);

        done += status == NIXL_SUCCESS;
        if (status == NIXL_IN_PROG || now_ms() - start > within_ms) {
            fprintf(stderr, "# request %u: %s after %llu ms\n", i, nixl_status_string(status),
                    (unsigned long long)(now_ms() - start));
        }
        assert_true(status == NIXL_SUCCESS || status == NIXL_ERR_REMOTE_DISCONNECT ||
                    status == NIXL_ERR_CANCELED);
        assert_true(status == NIXL_SUCCESS || nixl_xfer_error(xfers[i])[0] != '\0');
        release(xfers[i]);
    }
    printf("# %u of %u done, all ended within %llu ms\n", done, REQUESTS,
           (unsigned long long)(now_ms() - start));
    assert_true(now_ms() - start <= within_ms);
}

static void many_requests_end_when_their_peer_is_killed(void **state) {
    struct fixture *f = fixture_of(state);
    struct nixl_xfer *xfers[REQUESTS];
    uint64_t start;

    connect_wild(f);
    post_some(f, xfers, 0);
    start = now_ms();
    node_kill(&f->wild);
    f->wild_is_dead = true;
    all_end(xfers, start, 5000);
}

static void many_requests_end_at_their_deadline_when_their_peer_is_stopped(void **state) {
    struct fixture *f = fixture_of(state);
    struct nixl_xfer *xfers[REQUESTS];
    uint64_t start;

    post_some(f, xfers, 400);
    start = now_ms();
    (void)kill(f->wild.pid, SIGSTOP);
    all_end(xfers, start, 3000);
}

#define TEST(f, s)                                                                                           \
    cmocka_unit_test_prestate_setup_teardown(f, setup, teardown, (void *)(uintptr_t)&settings[s])
#define ALL(s)                                                                                               \
    TEST(many_threads_disturb_each_other_not_at_all, s),                                                     \
        TEST(an_agent_is_destroyed_with_transfers_in_flight, s),                                             \
        TEST(many_requests_end_when_their_peer_is_killed, s),                                                \
        TEST(many_requests_end_at_their_deadline_when_their_peer_is_stopped, s)

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {ALL(0), ALL(1), ALL(2)};

    node_main(argc, argv);
    cmocka_set_test_filter(getenv("NIXL_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
