/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that die, stop, restart or run on another UCX, cancelling and deadlines: two agents in two processes over UCX. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/skip.h"
#include "ucx_node.h"

#define MEMORY ((size_t)256 << 20)

static const struct node_setting settings[] = {
    {"tcp,self", false}, {"tcp,self", true}, {"sm,self", true}, {"", false}, {"", true},
};

struct fixture {
    struct local l;
    struct node n;
    const struct node_setting *setting;
    bool is_dead;
};

static uint64_t now_ms(void) {
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);

    f->setting = *state;
    if (!node_start(&f->n, "node", f->setting, MEMORY, NULL) ||
        !local_open(&f->l, "local", f->setting, MEMORY) || node_load(&f->n, &f->l) != NIXL_SUCCESS) {
        fprintf(stderr, "# %s %s\n", f->n.error, nixl_error());
        return -1;
    }
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    local_close(&f->l);
    if (!f->is_dead) {
        (void)kill(f->n.pid, SIGCONT);
        node_stop(&f->n);
    }
    free(f);
    return 0;
}

static struct nixl_xfer *make(struct fixture *f, nixl_xfer_op_t op, size_t len, uint64_t timeout_ms) {
    struct nixl_desc ours = {(uintptr_t)f->l.at, len, 0}, theirs = {f->n.addr, len, 0};
    struct nixl_list here = NIXL_LIST(DRAM_SEG, &ours, 1), there = NIXL_LIST(DRAM_SEG, &theirs, 1);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer = NULL;

    options.timeout_ms = timeout_ms;
    assert_int_equal(nixl_xfer_create(f->l.agent, op, &here, &there, "node", &options, &xfer), NIXL_SUCCESS);
    return xfer;
}

static void connect_node(struct fixture *f) {
    struct nixl_xfer *xfer = make(f, NIXL_WRITE, 100, 0);
    nixl_status_t status = nixl_xfer_post(xfer, NULL);

    assert_int_equal(status == NIXL_IN_PROG ? nixl_xfer_wait(xfer, 10000) : status, NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

static void killed_in_mid_transfer(struct fixture *f, nixl_xfer_op_t op) {
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint64_t start;

    memset(f->l.at, 1, MEMORY);
    connect_node(f);
    xfer = make(f, op, MEMORY, 0);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    node_kill(&f->n);
    f->is_dead = true;
    start = now_ms();
    status = nixl_xfer_wait(xfer, 15000);
    printf("# %s after %llu ms: %s\n", nixl_status_string(status), (unsigned long long)(now_ms() - start),
           nixl_xfer_error(xfer));
    assert_true(status < 0);
    assert_true(strlen(nixl_xfer_error(xfer)) > 0);
    assert_true(now_ms() - start < 8000);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

static void a_write_to_a_peer_killed_in_mid_transfer_fails_with_words(void **state) {
    killed_in_mid_transfer(*state, NIXL_WRITE);
}

static void a_read_from_a_peer_killed_in_mid_transfer_fails_with_words(void **state) {
    killed_in_mid_transfer(*state, NIXL_READ);
}

static void a_restarted_peer_works_once_its_new_metadata_is_loaded(void **state) {
    struct fixture *f = *state;
    struct nixl_desc ours = {(uintptr_t)f->l.at, 5000000, 0}, theirs;

    connect_node(f);
    for (int i = 0; i < 3; i++) {
        node_kill(&f->n);
        f->is_dead = true;
        assert_true(node_start(&f->n, "node", f->setting, MEMORY, NULL));
        f->is_dead = false;
        assert_int_equal(node_load(&f->n, &f->l), NIXL_SUCCESS);
        theirs = (struct nixl_desc){f->n.addr, 5000000, 0};
        pattern_fill(f->l.at, 5000000, (uint64_t)i);
        assert_int_equal(move(&f->l, &f->n, NIXL_WRITE, &ours, &theirs, 1, NULL), NIXL_SUCCESS);
        assert_true(node_check(&f->n, 0, 5000000, (uint64_t)i));
    }
}

static void a_cancelled_transfer_ends_and_the_peer_stays(void **state) {
    struct fixture *f = *state;
    struct nixl_xfer *xfer;
    nixl_status_t status;

    memset(f->l.at, 1, MEMORY);
    connect_node(f);
    xfer = make(f, NIXL_WRITE, MEMORY, 0);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    status = nixl_xfer_cancel(xfer);
    assert_true(status == NIXL_SUCCESS || status == NIXL_IN_PROG);
    status = nixl_xfer_wait(xfer, 10000);
    assert_int_equal(status, NIXL_ERR_CANCELED);
    assert_true(strlen(nixl_xfer_error(xfer)) > 0);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    connect_node(f);
}

/* After the release nothing may touch the memory any more: it is taken away, and a late byte would crash. */
static void a_transfer_released_in_flight_leaves_the_memory_alone(void **state) {
    struct fixture *f = *state;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint64_t end = now_ms() + 10000;

    connect_node(f);
    xfer = make(f, NIXL_READ, MEMORY, 0);
    node_fill(&f->n, 0, MEMORY, 3);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    do {
        status = nixl_xfer_release(xfer);
    } while (status == NIXL_ERR_REPOST_ACTIVE && now_ms() < end);
    assert_int_equal(status, NIXL_SUCCESS);
    memset(f->l.at, 0x5a, MEMORY);
    for (int i = 0; i < 1000; i++) {
        (void)nixl_agent_progress(f->l.agent);
    }
    (void)usleep(50000);
    for (size_t i = 0; i < MEMORY; i += 509) {
        assert_int_equal(f->l.at[i], 0x5a);
    }
    connect_node(f);
}

/* A stopped process is seen by nobody but the clock. */
static void a_deadline_ends_a_transfer_with_a_stopped_peer(void **state) {
    struct fixture *f = *state;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint64_t start;

    connect_node(f);
    xfer = make(f, NIXL_READ, MEMORY, 300);
    if (strstr(nixl_xfer_transport(xfer), "cma") != NULL) {
        /* The kernel copies without the peer's doing: it cannot hold this one up. */
        assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
        return;
    }
    assert_int_equal(kill(f->n.pid, SIGSTOP), 0);
    start = now_ms();
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    status = nixl_xfer_wait(xfer, 10000);
    printf("# %s after %llu ms: %s\n", nixl_status_string(status), (unsigned long long)(now_ms() - start),
           nixl_xfer_error(xfer));
    assert_int_equal(status, NIXL_ERR_CANCELED);
    assert_true(now_ms() - start < 3000);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(kill(f->n.pid, SIGCONT), 0);
}

static void the_transport_is_told(void **state) {
    struct fixture *f = *state;
    struct nixl_xfer *xfer;
    const char *transport;
    bool is_new = strstr(nixl_backend_description(f->l.ucx), "UCX 1.2") != NULL;

    connect_node(f);
    xfer = make(f, NIXL_WRITE, 100, 0);
    transport = nixl_xfer_transport(xfer);
    printf("# %s\n", transport);
    if (strncmp(f->setting->tls, "tcp", 3) == 0) {
        assert_string_equal(transport, "UCX tcp");
    } else if (is_new) {
        assert_string_equal(transport, "UCX cma");
    } else {
        assert_true(strncmp(transport, "UCX ", 4) == 0);
    }
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

static void notifications_travel_both_ways_in_order(void **state) {
    enum {
        COUNT = 200
    };
    struct fixture *f = *state;
    unsigned seen = 0;
    uint64_t end = now_ms() + 10000;

    assert_int_equal(node_learn(&f->n, &f->l), NIXL_SUCCESS);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(nixl_notif_send(f->l.agent, "node", "x", 1, NULL), NIXL_SUCCESS);
    }
    assert_int_equal(node_notify(&f->n, "local", "n", COUNT), NIXL_SUCCESS);
    while (seen < COUNT && now_ms() < end) {
        struct nixl_notifs *notifs = NULL;

        assert_int_equal(nixl_notif_take(f->l.agent, NULL, &notifs), NIXL_SUCCESS);
        for (size_t i = 0; notifs != NULL && i < notifs->count; i++) {
            char text[32];

            (void)snprintf(text, sizeof text, "n %u", seen++);
            assert_string_equal(notifs->items[i].msg, text);
            assert_string_equal(notifs->items[i].agent, "node");
        }
        nixl_notifs_release(notifs);
    }
    assert_int_equal(seen, COUNT);
    /* Ours may wait for the connection yet, which without a thread gets on by our own doing only. */
    end = now_ms() + 10000;
    while (node_received(&f->n, COUNT, 10) < COUNT && now_ms() < end) {
        (void)nixl_agent_progress(f->l.agent);
    }
    assert_int_equal(node_received(&f->n, COUNT, 10), COUNT);
}

/* ---- a peer that is killed and let go before UCX knows of it ---- */

static void forget_at_once(const struct node_setting *setting) {
    struct nixl_desc ours, theirs;
    struct local l;
    struct node n;

    assert_true(local_open(&l, "local", setting, 1 << 20));
    ours = (struct nixl_desc){(uintptr_t)l.at, 65536, 0};
    for (unsigned round = 0; round < 30; round++) {
        assert_true(node_start(&n, "node", setting, 1 << 20, NULL));
        assert_int_equal(node_load(&n, &l), NIXL_SUCCESS);
        theirs = (struct nixl_desc){n.addr, 65536, 0};
        assert_int_equal(move(&l, &n, NIXL_WRITE, &ours, &theirs, 1, "note"), NIXL_SUCCESS);
        if (round % 3 != 0) {
            /* Something is on its way to the dead. */
            assert_int_equal(nixl_notif_send(l.agent, "node", "x", 1, NULL), NIXL_SUCCESS);
        }
        node_kill(&n);
        /* In turn, nobody, a question for its state, or a copy finds it dead before UCX does. */
        if (round % 4 == 1) {
            (void)nixl_peer_state(l.agent, "node");
        } else if (round % 4 == 2) {
            assert_true(move(&l, &n, NIXL_WRITE, &ours, &theirs, 1, NULL) < 0);
        } else if (round % 4 == 3) {
            (void)nixl_notif_send(l.agent, "node", "x", 1, NULL);
        }
        assert_int_equal(nixl_metadata_invalidate(l.agent, "node"), NIXL_SUCCESS);
        for (unsigned i = 0; i < 200; i++) {
            (void)nixl_agent_progress(l.agent);
        }
    }
    /* The survivor still serves. */
    assert_true(node_start(&n, "node", setting, 1 << 20, NULL));
    assert_int_equal(node_load(&n, &l), NIXL_SUCCESS);
    theirs = (struct nixl_desc){n.addr, 65536, 0};
    pattern_fill(l.at, 65536, 7);
    assert_int_equal(move(&l, &n, NIXL_WRITE, &ours, &theirs, 1, NULL), NIXL_SUCCESS);
    assert_true(node_check(&n, 0, 65536, 7));
    local_close(&l);
    node_stop(&n);
}

static void a_killed_peer_is_let_go_of_before_ucx_knows(void **state) {
    static const struct node_setting by_default = {"", false};

    forget_at_once(&by_default);
}

static void a_killed_peer_is_let_go_of_before_ucx_knows_with_a_progress_thread(void **state) {
    static const struct node_setting by_default = {"", true};

    forget_at_once(&by_default);
}

/* ---- two versions of UCX: in a child, because the node's is the other one ---- */

static void another_version_of_ucx_is_refused_at_load_both_ways(void **state) {
    static const struct node_setting setting = {"tcp,self", false};
    const char *other = getenv("NIXL_TEST_UCX122");
    char variable[4200];
    const char *environment[] = {variable, NULL};
    struct local l;
    struct node n;

    if (other == NULL || other[0] == '\0') {
        test_skip("UCX 1.22 is not there (scripts/ucx122.sh fetches it)");
    }
    (void)snprintf(variable, sizeof variable,
                   getenv("NIXL_UCX_PATH") != NULL ? "NIXL_UCX_PATH" : "NIXL_UCX_PATH=%s", other);
    assert_true(node_start(&n, "node", &setting, 4096, environment));
    assert_true(local_open(&l, "local", &setting, 4096));
    assert_int_equal(node_load(&n, &l), NIXL_ERR_MISMATCH);
    assert_non_null(strstr(nixl_error(), "UCX 1."));
    printf("# %s\n", nixl_error());
    assert_int_equal(node_learn(&n, &l), NIXL_ERR_MISMATCH);
    assert_non_null(strstr(n.error, "UCX 1."));
    local_close(&l);
    node_stop(&n);
}

#define TEST(f)                                                                                              \
    { #f, f, setup, teardown, NULL }
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(a_write_to_a_peer_killed_in_mid_transfer_fails_with_words),
        TEST(a_read_from_a_peer_killed_in_mid_transfer_fails_with_words),
        TEST(a_restarted_peer_works_once_its_new_metadata_is_loaded),
        TEST(a_cancelled_transfer_ends_and_the_peer_stays),
        TEST(a_transfer_released_in_flight_leaves_the_memory_alone),
        TEST(a_deadline_ends_a_transfer_with_a_stopped_peer),
        TEST(the_transport_is_told),
        TEST(notifications_travel_both_ways_in_order),
    };
    static struct CMUnitTest all[COUNT_OF(settings) * COUNT_OF(tests) + 3];
    static char names[COUNT_OF(all)][160];
    size_t count = 0;

    node_main(argc, argv);
    for (size_t s = 0; s < COUNT_OF(settings); s++) {
        for (size_t i = 0; i < COUNT_OF(tests); i++, count++) {
            (void)snprintf(names[count], sizeof names[count], "%s, %s: %s",
                           settings[s].tls[0] != '\0' ? settings[s].tls : "default",
                           settings[s].progress_thread ? "thread" : "no thread", tests[i].name);
            all[count] = tests[i];
            all[count].name = names[count];
            all[count].initial_state = (void *)&settings[s];
        }
    }
    all[count].name = "a_killed_peer_is_let_go_of_before_ucx_knows";
    all[count++].test_func = a_killed_peer_is_let_go_of_before_ucx_knows;
    all[count].name = "a_killed_peer_is_let_go_of_before_ucx_knows_with_a_progress_thread";
    all[count++].test_func = a_killed_peer_is_let_go_of_before_ucx_knows_with_a_progress_thread;
    all[count].name = "another_version_of_ucx_is_refused_at_load_both_ways";
    all[count].test_func = another_version_of_ucx_is_refused_at_load_both_ways;
    return cmocka_run_group_tests(all, NULL, NULL);
}
