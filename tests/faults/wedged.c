/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer killed while it is sending. Over shared memory it can die between claiming a place in the survivor's queue and filling
 * it, which blocks UCX's queue for good; the transports that are the default must not suffer from that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "peers.h"

#define MEMORY ((size_t)1 << 20)

static void *kill_soon(void *arg) {
    struct node *n = arg;
    unsigned seed = (unsigned)n->pid;

    (void)usleep(500 + (unsigned)rand_r(&seed) % 6000);
    (void)kill(n->pid, SIGKILL);
    return NULL;
}

static size_t take(struct local *l) {
    struct nixl_notifs *notifs = NULL;
    size_t count = 0;

    if (nixl_notif_take(l->agent, NULL, &notifs) == NIXL_SUCCESS && notifs != NULL) {
        count = notifs->count;
        nixl_notifs_release(notifs);
    }
    return count;
}

/* A new peer's notification arrives, and bytes get there. */
static bool is_well(struct local *l, const struct node_setting *setting) {
    struct nixl_desc block = {(uintptr_t)l->at, 50000, 0}, theirs;
    struct node n;
    size_t got = 0;
    bool well;

    while (take(l) != 0) {
    }
    assert_true(node_start(&n, "new", setting, MEMORY, NULL));
    assert_int_equal(node_load(&n, l), NIXL_SUCCESS);
    assert_int_equal(node_learn(&n, l), NIXL_SUCCESS);
    theirs = (struct nixl_desc){n.addr, 50000, 0};
    well = move(l, &n, NIXL_WRITE, &block, &theirs, 1, NULL) == NIXL_SUCCESS;
    (void)node_notify(&n, "local", "here", 1);
    for (uint64_t end = now_ms() + 3000; got == 0 && now_ms() < end;) {
        got = take(l);
        (void)usleep(500);
    }
    (void)kill(n.pid, SIGKILL);
    node_kill(&n);
    (void)nixl_metadata_invalidate(l->agent, "new");
    return well && got > 0;
}

static void survives(const struct node_setting *setting, bool must) {
    unsigned rounds = rounds_of("NIXL_TEST_WEDGES", 12), wedged = 0;
    struct local l;

    assert_true(local_open(&l, "local", setting, MEMORY));
    for (unsigned i = 0; i < rounds && wedged == 0; i++) {
        pthread_t thread;
        struct node n;

        assert_true(node_start(&n, "sender", setting, MEMORY, NULL));
        assert_int_equal(node_load(&n, &l), NIXL_SUCCESS);
        assert_int_equal(node_learn(&n, &l), NIXL_SUCCESS);
        assert_int_equal(pthread_create(&thread, NULL, kill_soon, &n), 0);
        (void)node_notify(&n, "local", "a message like many others, one after the other", 10000000);
        (void)pthread_join(thread, NULL);
        node_kill(&n);
        (void)nixl_metadata_invalidate(l.agent, "sender");
        wedged += !is_well(&l, setting);
        printf("# round %u: %s\n", i, wedged != 0 ? "wedged" : "well");
    }
    outcome("kill -9 of a peer that is sending", over(setting),
            wedged != 0 ? "the survivor's queue is blocked (UCX's shared memory)" : "the survivor goes on",
            0);
    if (must) {
        assert_int_equal(wedged, 0);
    }
    local_close(&l);
}

static void by_default_the_survivor_goes_on(void **state) {
    static const struct node_setting setting = {"", true};

    (void)state;
    survives(&setting, true);
}

static void over_tcp_the_survivor_goes_on(void **state) {
    static const struct node_setting setting = {"tcp,self", true};

    (void)state;
    survives(&setting, true);
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_default_the_survivor_goes_on),
        cmocka_unit_test(over_tcp_the_survivor_goes_on),
    };

    node_main(argc, argv);
    if (getenv("NIXL_TEST_WEDGE_SM") != NULL) {
        static const struct node_setting sm = {"sm,self", true};

        survives(&sm, false);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
