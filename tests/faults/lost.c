/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that is cut between a transfer's data and its notification: this program and its node in a network namespace of
 * their own, over tcp. What was handed to a dead line is not taken back, but its sender is told that it may be lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>

#include "peers.h"

#define MEMORY ((size_t)1 << 20)

static const struct node_setting settings[] = {{"tcp,self", true}, {"tcp,self", false}};

struct fixture {
    const struct node_setting *setting;
    struct local l;
    struct node n;
};

static bool sh(const char *command) {
    return system(command) == 0;
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);

    f->setting = *state;
    if (!sh("nft flush ruleset && nft add table ip t && "
            "nft add chain ip t out '{ type filter hook output priority 0; }'") ||
        !local_open(&f->l, "local", f->setting, MEMORY) ||
        !node_start(&f->n, "node", f->setting, MEMORY, NULL) || node_load(&f->n, &f->l) != NIXL_SUCCESS) {
        fprintf(stderr, "# %s %s\n", f->n.error, nixl_error());
        return -1;
    }
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    (void)sh("nft flush ruleset");
    local_close(&f->l);
    node_stop(&f->n);
    free(f);
    return 0;
}

static void a_notification_that_a_cut_may_have_swallowed_is_told(void **state) {
    struct fixture *f = *state;
    nixl_status_t status;

    assert_write_arrives(&f->l, &f->n, 1000, 1);
    assert_int_equal(nixl_notif_send(f->l.agent, "node", "first", 5, NULL), NIXL_SUCCESS);
    for (uint64_t end = now_ms() + 10000; node_received(&f->n, 1, 10) == 0 && now_ms() < end;) {
        (void)nixl_agent_progress(f->l.agent);
    }
    assert_int_equal(node_received(&f->n, 1, 50), 1);
    /* Nothing gets through any more; the socket takes it all the same. */
    assert_true(sh("nft add rule ip t out tcp dport != 0 counter drop"));
    assert_int_equal(nixl_notif_send(f->l.agent, "node", "second", 6, NULL), NIXL_SUCCESS);
    for (uint64_t end = now_ms() + 30; now_ms() < end;) {
        (void)nixl_agent_progress(f->l.agent);
    }
    assert_true(sh("ss -K -t state established >/dev/null"));
    for (uint64_t end = now_ms() + 5000;
         (status = nixl_peer_state(f->l.agent, "node")) != NIXL_ERR_REMOTE_DISCONNECT && now_ms() < end;) {
        (void)nixl_agent_progress(f->l.agent);
        (void)usleep(1000);
    }
    assert_int_equal(status, NIXL_ERR_REMOTE_DISCONNECT);
    printf("# %s\n", nixl_peer_error(f->l.agent, "node"));
    assert_non_null(strstr(nixl_peer_error(f->l.agent, "node"), "notification"));
    assert_non_null(strstr(nixl_peer_error(f->l.agent, "node"), "may not have arrived"));
    assert_true(sh("nft flush chain ip t out"));
    assert_int_equal(node_received(&f->n, 2, 100), 1);
    outcome("line cut before a notification came through", over(f->setting),
            "nixl_peer_error(): it may not have arrived", 0);
    assert_int_equal(node_load(&f->n, &f->l), NIXL_SUCCESS);
    assert_write_arrives(&f->l, &f->n, MEMORY, 2);
}

#define TEST(f)                                                                                              \
    { #f, f, setup, teardown, NULL }

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(a_notification_that_a_cut_may_have_swallowed_is_told),
    };
    static struct CMUnitTest all[COUNT_OF(settings) * COUNT_OF(tests)];
    static char names[COUNT_OF(all)][160];

    node_main(argc, argv);
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        printf("1..0 # SKIP a network namespace takes root\n");
        return 0;
    }
    if (!sh("ip link set lo up") || !sh("nft list ruleset >/dev/null 2>&1") ||
        !sh("ss -K -t state listening >/dev/null 2>&1")) {
        printf("1..0 # SKIP ip, nft or ss is not there\n");
        return 0;
    }
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        all[i] = tests[i % COUNT_OF(tests)];
        (void)snprintf(names[i], sizeof names[i], "%s: %s", over(&settings[i / COUNT_OF(tests)]),
                       all[i].name);
        all[i].name = names[i];
        all[i].initial_state = (void *)(uintptr_t)&settings[i / COUNT_OF(tests)];
    }
    return cmocka_run_group_tests(all, NULL, NULL);
}
