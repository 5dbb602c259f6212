/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that comes back, under the same name or another: its new metadata is loaded without forgetting the old, and transfers
 * work; also when several threads load, forget, prepare and post at once while it comes and goes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>

#include "peers.h"

#define MEMORY ((size_t)4 << 20)
#define FEW 20u
#define MANY 200u

struct fixture {
    const struct node_setting *setting;
    struct local l;
    struct node n;
    bool is_dead;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);

    f->setting = *state;
    f->is_dead = true;
    *state = f;
    if (!local_open(&f->l, "local", f->setting, MEMORY)) {
        fprintf(stderr, "# %s\n", nixl_error());
        return -1;
    }
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    local_close(&f->l);
    if (!f->is_dead) {
        node_stop(&f->n);
    }
    free(f);
    return 0;
}

static bool has_own_ports;

/* A network of its own, in which a port whose connections are closed is free at once. */
static bool take_own_ports(void) {
    return geteuid() == 0 && unshare(CLONE_NEWNET) == 0 &&
           system("ip link set lo up && echo 0 >/proc/sys/net/ipv4/tcp_max_tw_buckets") == 0;
}

static void start(struct fixture *f, const char *name) {
    /* Two ports for all lives of both names, so that who comes has the address of somebody who went. */
    const char *const few_ports[] = {"UCX_TCP_PORT_RANGE=24321-24322", "UCX_WARN_UNUSED_ENV_VARS=n", NULL};
    nixl_status_t status;

    if (!node_start(&f->n, name, f->setting, MEMORY, has_own_ports ? few_ports : NULL)) {
        fprintf(stderr, "# %s\n", f->n.error);
        assert_true(false);
    }
    f->is_dead = false;
    status = node_load(&f->n, &f->l);
    if (status != NIXL_SUCCESS) {
        fprintf(stderr, "# load: %s\n", nixl_error());
    }
    assert_int_equal(status, NIXL_SUCCESS);
}

static bool is_tcp_with_thread(const struct node_setting *setting) {
    return strcmp(setting->tls, "tcp,self") == 0 && setting->progress_thread;
}

/*
 * It dies idle in one round, with a transfer under way in the next, and comes back under its own name and address or under the
 * other one's, which was there before. Nobody forgets it in between.
 */
static void it_comes_back_again_and_again_and_a_load_is_enough(void **state) {
    struct fixture *f = *state;
    unsigned rounds = rounds_of("NIXL_TEST_RESTARTS", is_tcp_with_thread(f->setting) ? MANY : FEW);
    size_t fds = 0, rss = 0;
    uint64_t begun = now_ms();

    for (unsigned i = 0; i < rounds; i++) {
        struct nixl_xfer *xfer;
        nixl_status_t status;

        start(f, i % 4 < 2 ? "node" : "another");
        assert_write_arrives(&f->l, &f->n, 100000, i);
        xfer = request_to(&f->l, &f->n, i % 8 < 4 ? NIXL_READ : NIXL_WRITE, 1, MEMORY, MEMORY, NULL);
        assert_non_null(xfer);
        status = i % 2 == 0 ? nixl_xfer_post(xfer, NULL) : NIXL_ERR_NOT_POSTED;
        node_kill(&f->n);
        f->is_dead = true;
        if (status == NIXL_IN_PROG) {
            status = nixl_xfer_wait(xfer, 10000);
        }
        assert_true(status != NIXL_IN_PROG);
        assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
        if (i + 1 == rounds / 2 || i == 3) {
            fds = open_descriptors();
            rss = rss_kib();
        }
    }
    printf("# %u rounds, %.1f ms each; descriptors %zu to %zu, %zu to %zu KiB\n", rounds,
           (double)(now_ms() - begun) / rounds, fds, open_descriptors(), rss, rss_kib());
    assert_true(open_descriptors() <= fds + 6);
    outcome("peer restarted, under its name or another", over(f->setting),
            "SUCCESS after a load, without invalidate", 0);
}

/* ---- many threads at once ---- */

struct crowd {
    struct fixture *f;
    pthread_mutex_t lock; /* of the blob */
    void *blob;
    size_t len;
    uint64_t addr;
    bool stop;
    unsigned done, refused;
};

static void *crowd_blob(struct crowd *c, size_t *len, uint64_t *addr) {
    void *copy;

    (void)pthread_mutex_lock(&c->lock);
    copy = malloc(c->len);
    memcpy(copy, c->blob, c->len);
    *len = c->len;
    *addr = c->addr;
    (void)pthread_mutex_unlock(&c->lock);
    return copy;
}

/* Loads, prepares, posts and releases; now and then forgets. Whatever is refused is refused by a status in words. */
static void *crowd_member(void *arg) {
    struct crowd *c = arg;
    struct local *l = &c->f->l;
    unsigned seed = (unsigned)(uintptr_t)&seed;

    while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) {
        size_t len;
        uint64_t addr;
        void *blob = crowd_blob(c, &len, &addr);
        struct nixl_desc ours = {(uintptr_t)l->at, 65536, 0}, theirs = {addr, 65536, 0};
        struct nixl_list here = NIXL_LIST(DRAM_SEG, &ours, 1), there = NIXL_LIST(DRAM_SEG, &theirs, 1);
        struct nixl_options options = NIXL_OPTIONS_INIT;
        struct nixl_dlist *mine = NULL, *remote = NULL;
        struct nixl_xfer *xfer = NULL;
        nixl_status_t status = NIXL_ERR_UNKNOWN;

        options.timeout_ms = 5000;
        if (nixl_metadata_load(l->agent, blob, len, NULL) == NIXL_SUCCESS &&
            nixl_dlist_prepare(l->agent, NULL, &here, NULL, &mine) == NIXL_SUCCESS &&
            nixl_dlist_prepare(l->agent, "node", &there, NULL, &remote) == NIXL_SUCCESS &&
            nixl_xfer_make(l->agent, NIXL_WRITE, mine, NULL, remote, NULL, 1, &options, &xfer) ==
                NIXL_SUCCESS) {
            status = nixl_xfer_post(xfer, NULL);
            status = status == NIXL_IN_PROG ? nixl_xfer_wait(xfer, 20000) : status;
        }
        if (status == NIXL_SUCCESS) {
            __atomic_add_fetch(&c->done, 1, __ATOMIC_RELAXED);
        } else {
            __atomic_add_fetch(&c->refused, 1, __ATOMIC_RELAXED);
        }
        while (nixl_xfer_release(xfer) == NIXL_ERR_REPOST_ACTIVE) {
        }
        nixl_dlist_release(mine);
        nixl_dlist_release(remote);
        if (rand_r(&seed) % 16 == 0) {
            (void)nixl_metadata_invalidate(l->agent, "node");
        }
        free(blob);
    }
    return NULL;
}

static void crowd_learn(struct crowd *c) {
    struct node *n = &c->f->n;
    void *blob;

    (void)pthread_mutex_lock(&c->lock);
    free(c->blob);
    c->blob = node_blob(n, &c->len);
    c->addr = n->addr;
    blob = c->blob;
    (void)pthread_mutex_unlock(&c->lock);
    assert_non_null(blob);
}

static void many_threads_load_forget_and_post_while_it_comes_and_goes(void **state) {
    struct fixture *f = *state;
    struct crowd c = {.f = f, .lock = PTHREAD_MUTEX_INITIALIZER};
    unsigned rounds = rounds_of("NIXL_TEST_CROWD_ROUNDS", 3);
    pthread_t threads[6];
    unsigned at_end;

    if (may_be_aborted(&f->l, f->setting)) {
        test_skip("this UCX aborts a process whose peer dies while they connect over tcp");
    }
    start(f, "node");
    crowd_learn(&c);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_member, &c), 0);
    }
    for (unsigned i = 0; i < rounds; i++) {
        (void)usleep(60000);
        node_kill(&f->n);
        f->is_dead = true;
        assert_true(node_start(&f->n, "node", f->setting, MEMORY, NULL));
        f->is_dead = false;
        crowd_learn(&c);
    }
    /* The last one lives: everybody gets through again. */
    at_end = __atomic_load_n(&c.done, __ATOMIC_RELAXED);
    for (uint64_t end = now_ms() + 15000;
         __atomic_load_n(&c.done, __ATOMIC_RELAXED) < at_end + 20 && now_ms() < end;) {
        (void)usleep(1000);
    }
    __atomic_store_n(&c.stop, true, __ATOMIC_RELEASE);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        (void)pthread_join(threads[i], NULL);
    }
    printf("# %u done, %u refused; last words: %s\n", c.done, c.refused, nixl_error());
    assert_true(c.done >= at_end + 20);
    free(c.blob);
    /* Always: somebody may have loaded an older life's metadata last. */
    assert_int_equal(node_load(&f->n, &f->l), NIXL_SUCCESS);
    assert_write_arrives(&f->l, &f->n, MEMORY, 11);
    outcome("peer restarts under 6 threads", over(f->setting), "SUCCESS after a load; else in words", 0);
}

#define TEST(f)                                                                                              \
    { #f, f, setup, teardown, NULL }

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(it_comes_back_again_and_again_and_a_load_is_enough),
        TEST(many_threads_load_forget_and_post_while_it_comes_and_goes),
    };

    node_main(argc, argv);
    has_own_ports = take_own_ports();
    printf("# ports: %s\n", has_own_ports ? "two, used again and again" : "any (two take root and ip)");
    return run_matrix(tests, COUNT_OF(tests));
}
