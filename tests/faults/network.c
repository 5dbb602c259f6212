/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network that refuses, cuts, loses and is slow: this program and its nodes in a network namespace of their own, over tcp.
 * Notifications come after their data and once; a cut is told to the sender; a connection that was refused does no lasting harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>

#include "pair.h"

#define MEMORY ((size_t)32 << 20)

static const struct node_setting settings[] = {{"tcp,self", true}, {"tcp,self", false}};

static bool sh(const char *command) {
    return system(command) == 0;
}

static int setup(void **state) {
    return sh("nft flush ruleset && nft add table ip t && "
              "nft add chain ip t out '{ type filter hook output priority 0; }'")
               ? fixture_open(state, MEMORY)
               : -1;
}

static int teardown(void **state) {
    (void)sh("nft flush ruleset; tc qdisc del dev lo root 2>/dev/null");
    return fixture_close(state);
}

/* A WRITE of `len` bytes at offset 0 with a notification by which the target checks the data when it comes. */
static struct nixl_xfer *checked_write(struct fixture *f, size_t len, uint64_t seed) {
    struct nixl_options options = NIXL_OPTIONS_INIT;
    char text[96];

    (void)snprintf(text, sizeof text, "check 0 %zu %llu", len, (unsigned long long)seed);
    options.has_notif = true;
    options.notif = text;
    options.notif_len = strlen(text);
    options.timeout_ms = 20000;
    pattern_fill(f->l.at, len, seed);
    return request_to(&f->l, &f->n, NIXL_WRITE, 1, len, len, &options);
}

/* The peer's listener does not answer yet. Who tries again, with the metadata at hand, gets through. */
static void a_refused_connection_does_not_poison_the_peer(void **state) {
    struct fixture *f = *state;
    struct nixl_desc ours = {(uintptr_t)f->l.at, 1000, 0}, theirs = {f->n.addr, 1000, 0};
    struct nixl_list here = NIXL_LIST(DRAM_SEG, &ours, 1), there = NIXL_LIST(DRAM_SEG, &theirs, 1);
    struct nixl_xfer *xfer = NULL;
    char words[1024] = "";
    uint64_t start = now_ms();
    nixl_status_t status;

    assert_true(sh("nft add rule ip t out tcp flags syn / syn,ack reject with tcp reset"));
    for (int i = 0; i < 3; i++) {
        status = nixl_xfer_create(f->l.agent, NIXL_WRITE, &here, &there, "node", NULL, &xfer);
        (void)snprintf(words, sizeof words, "%s", nixl_error());
        if (status == NIXL_SUCCESS) {
            status = run_once(xfer);
            (void)snprintf(words, sizeof words, "%s", nixl_xfer_error(xfer));
            assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
        }
        assert_true(status == NIXL_ERR_BACKEND || status == NIXL_ERR_REMOTE_DISCONNECT);
    }
    printf("# refused: %s after %llu ms: %s\n", nixl_status_string(status),
           (unsigned long long)(now_ms() - start), words);
    assert_non_null(strstr(words, "127.0.0.1"));
    assert_true(sh("nft flush chain ip t out"));
    xfer = checked_write(f, 100000, 2);
    assert_non_null(xfer);
    assert_int_equal(run_once(xfer), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(node_received(&f->n, 1, 5000), 1);
    assert_int_equal(node_bad(&f->n), 0);
    outcome("first connection refused", over(f->setting),
            "BACKEND, naming the address; the next attempt succeeds", 0);
}

/* Waits until the dead connection is known to be dead, and has it made anew. */
static void reconnect(struct fixture *f) {
    nixl_status_t status;

    assert_disconnected(&f->l, "node");
    status = node_load(&f->n, &f->l);
    if (status != NIXL_SUCCESS) {
        fprintf(stderr, "# load: %s\n", nixl_error());
    }
    assert_int_equal(status, NIXL_SUCCESS);
}

/* Cut at every moment of a transfer. Success means all bytes; whoever is cut off is told, and connects anew by a load. */
static void a_cut_at_any_moment_is_told_to_the_sender(void **state) {
    struct fixture *f = *state;
    unsigned ok = 0, cut = 0, unsure = 0, lost = 0;
    uint64_t worst = 0;
    size_t had = 0;

    for (unsigned i = 0; i < 12; i++) {
        struct nixl_xfer *xfer;
        nixl_status_t status;
        uint64_t start;
        size_t now;

        assert_write_arrives(&f->l, &f->n, 1000, i);
        xfer = checked_write(f, MEMORY, i);
        assert_non_null(xfer);
        status = nixl_xfer_post(xfer, NULL);
        status = status == NIXL_IN_PROG ? nixl_xfer_wait(xfer, i * 4) : status;
        start = now_ms();
        assert_true(sh("ss -K -t state established >/dev/null"));
        if (status == NIXL_IN_PROG) {
            status = nixl_xfer_wait(xfer, 10000);
            worst = now_ms() - start > worst ? now_ms() - start : worst;
        }
        assert_true(status == NIXL_SUCCESS || status == NIXL_ERR_REMOTE_DISCONNECT);
        now = node_received(&f->n, had + 1, status == NIXL_SUCCESS ? 2000 : 50);
        assert_true(now <= had + 1);
        if (status == NIXL_SUCCESS) {
            ok++;
            lost += now == had;
            assert_true(node_check(&f->n, 0, MEMORY, i));
        } else {
            cut++;
            unsure += now != had;
            assert_true(nixl_xfer_error(xfer)[0] != '\0');
        }
        had = now;
        assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
        reconnect(f);
    }
    printf("# %u done (%u without notification), %u told of the cut (%u notified all the same), at most %llu "
           "ms after it\n",
           ok, lost, cut, unsure, (unsigned long long)worst);
    assert_int_equal(node_bad(&f->n), 0);
    assert_true(cut > 0);
    outcome("connection reset during a WRITE", over(f->setting),
            "REMOTE_DISCONNECT, or SUCCESS with all bytes", (double)worst);
}

static unsigned long dropped(void) {
    FILE *pipe = popen("nft list chain ip t out | sed -n 's/.*counter packets \\([0-9]*\\).*/\\1/p'", "r");
    unsigned long count = 0;

    if (pipe != NULL) {
        if (fscanf(pipe, "%lu", &count) != 1) {
            count = 0;
        }
        (void)pclose(pipe);
    }
    return count;
}

static void many(struct fixture *f, unsigned count, size_t len) {
    for (unsigned i = 0; i < count; i++) {
        struct nixl_xfer *xfer = checked_write(f, len, 1000 + i);
        nixl_status_t status = run_once(xfer);

        if (status != NIXL_SUCCESS) {
            fprintf(stderr, "# %s\n", nixl_xfer_error(xfer));
        }
        assert_int_equal(status, NIXL_SUCCESS);
        /* The next one overwrites what this one's notification speaks of. */
        assert_int_equal(node_received(&f->n, i + 1, 20000), i + 1);
        assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    }
    (void)usleep(50000);
    assert_int_equal(node_received(&f->n, count + 1, 50), count);
    assert_int_equal(node_bad(&f->n), 0);
}

static void loss_neither_doubles_nor_reorders_notifications(void **state) {
    struct fixture *f = *state;

    assert_write_arrives(&f->l, &f->n, 1000, 1);
    assert_true(sh("nft add rule ip t out tcp dport != 0 numgen random mod 100 '<' 3 counter drop"));
    many(f, 25, 300000);
    printf("# %lu packets were dropped\n", dropped());
    assert_true(dropped() > 0);
    outcome("3 % of packets lost", over(f->setting), "SUCCESS; notifications once, after their data", 0);
}

static void a_slow_line_keeps_the_order_too(void **state) {
    struct fixture *f = *state;

    assert_write_arrives(&f->l, &f->n, 1000, 1);
    if (!sh("tc qdisc add dev lo root tbf rate 200mbit burst 128kb latency 50ms")) {
        test_skip("tc has no tbf here");
    }
    many(f, 4, 4 << 20);
    outcome("line of 200 Mbit/s", over(f->setting), "SUCCESS; notifications once, after their data", 0);
}

static void a_notification_that_a_cut_may_have_swallowed_is_told(void **state) {
    struct fixture *f = *state;

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
    assert_disconnected(&f->l, "node");
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
        TEST(a_refused_connection_does_not_poison_the_peer),
        TEST(a_cut_at_any_moment_is_told_to_the_sender),
        TEST(a_notification_that_a_cut_may_have_swallowed_is_told),
        TEST(loss_neither_doubles_nor_reorders_notifications),
        TEST(a_slow_line_keeps_the_order_too),
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
