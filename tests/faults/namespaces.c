/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network between two namespaces that cuts, resets, loses, is slow or far away: the sender in one, its target in the other.
 * Whatever happens, a notification is never before its data and never twice, the target has all bytes when the sender says
 * done, and a cut between the data and their notification is told to the sender, by the request or by the state of the peer.
 * With the default transports the data go by the kernel's copy (both are on one host) and the notification over tcp, which makes
 * that cut an everyday one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nets.h"
#include "peers.h"

#define MEMORY ((size_t)16 << 20)
#define FAR_MS 10u
#define SMALL ((size_t)20000) /* fits into the first window of a connection */

static const struct node_setting settings[] = {
    {"tcp,self", true}, {"tcp,self", false}, {"", true}, {"", false}};

struct fixture {
    const struct node_setting *setting;
    struct local l;
    struct node n;
    size_t had;  /* notifications at the target so far */
    bool is_cut; /* the connection breaks: then the notification of a transfer that is done may be lost */
    unsigned is_lost; /* how many were; the peer's state must tell of the break */
};

static int begin(void **state, bool linked) {
    struct fixture *f = calloc(1, sizeof *f);

    f->setting = *state;
    if (!linked || !local_open(&f->l, "local", f->setting, MEMORY) ||
        !node_start(&f->n, "node", f->setting, MEMORY, NULL) || node_load(&f->n, &f->l) != NIXL_SUCCESS) {
        fprintf(stderr, "# link %d; %s %s\n", linked, f->n.error, nixl_error());
        return -1;
    }
    *state = f;
    return 0;
}

/* Chains for the tests' rules: what leaves A and what comes to it. */
static int setup(void **state) {
    return begin(state, nets_use_near() &&
                            nets_in_a("nft flush ruleset && nft add table ip t && "
                                      "nft add chain ip t out '{ type filter hook output priority 0; }' && "
                                      "nft add chain ip t in '{ type filter hook input priority 0; }'"));
}

static int setup_far(void **state) {
    return begin(state, nets_use_far(FAR_MS));
}

static int teardown(void **state) {
    struct fixture *f = *state;

    (void)nets_in_a("nft flush ruleset; tc qdisc del dev near root 2>/dev/null");
    (void)nets_in_b("tc qdisc del dev near root 2>/dev/null");
    nets_hold(A_TO_B, false);
    nets_hold(B_TO_A, false);
    local_close(&f->l);
    node_stop(&f->n);
    nets_end_far();
    free(f);
    return 0;
}

static bool is_tcp(const struct fixture *f) {
    return f->setting->tls[0] != '\0';
}

static struct nixl_xfer *checked(struct fixture *f, nixl_xfer_op_t op, size_t len, uint64_t seed) {
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer;
    char text[96];

    (void)snprintf(text, sizeof text, "check 0 %zu %llu", len, (unsigned long long)seed);
    options.has_notif = true;
    options.notif = text;
    options.notif_len = strlen(text);
    options.timeout_ms = 30000;
    if (op == NIXL_WRITE) {
        pattern_fill(f->l.at, len, seed);
    } else {
        node_fill(&f->n, 0, len, seed);
        memset(f->l.at, 0, len);
    }
    xfer = request_to(&f->l, &f->n, op, 1, len, len, &options);
    assert_non_null(xfer);
    return xfer;
}

static bool bytes_are_there(struct fixture *f, nixl_xfer_op_t op, size_t len, uint64_t seed) {
    return op == NIXL_WRITE ? node_check(&f->n, 0, len, seed) : pattern_check(f->l.at, len, seed);
}

/* Its end and, if that is success, its notification, which the target takes and checks while the transfer still runs. */
static nixl_status_t ends(struct fixture *f, struct nixl_xfer *xfer, nixl_xfer_op_t op, size_t len,
                          uint64_t seed) {
    nixl_status_t status;
    uint64_t end = now_ms() + 30000;
    size_t now;

    while ((status = nixl_xfer_poll(xfer)) == NIXL_IN_PROG && now_ms() < end) {
        now = node_received(&f->n, f->had + 1, 1);
        assert_true(now <= f->had + 1);
    }
    if (status == NIXL_SUCCESS) {
        assert_true(bytes_are_there(f, op, len, seed));
        end = now_ms() + (f->is_cut ? 300 : 10000);
        do {
            (void)nixl_agent_progress(f->l.agent);
            now = node_received(&f->n, f->had + 1, 20);
        } while (now == f->had && now_ms() < end);
        assert_true(now == f->had + 1 || (now == f->had && f->is_cut));
        f->is_lost += now == f->had;
    } else {
        assert_true(nixl_xfer_error(xfer)[0] != '\0');
        now = node_received(&f->n, f->had + 1, 20);
        assert_true(now <= f->had + 1);
    }
    f->had = now;
    assert_int_equal(node_bad(&f->n), 0);
    return status;
}

static void many(struct fixture *f, unsigned count, size_t len) {
    for (unsigned i = 0; i < count; i++) {
        nixl_xfer_op_t op = i % 3 == 2 ? NIXL_READ : NIXL_WRITE;
        struct nixl_xfer *xfer = checked(f, op, len, 1000 + i);
        nixl_status_t status = nixl_xfer_post(xfer, NULL);

        if (status == NIXL_SUCCESS || status == NIXL_IN_PROG) {
            status = ends(f, xfer, op, len, 1000 + i);
        }
        if (status != NIXL_SUCCESS) {
            fprintf(stderr, "# %s\n", nixl_xfer_error(xfer));
        }
        assert_int_equal(status, NIXL_SUCCESS);
        assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    }
    /* None comes again. */
    assert_int_equal(node_received(&f->n, f->had + 1, 100), f->had);
}

/* Waits until the dead connection is known to be dead, and has it made anew. */
static void reconnect(struct fixture *f) {
    nixl_status_t status;

    assert_disconnected(&f->l, "node");
    assert_true(nixl_peer_error(f->l.agent, "node")[0] != '\0');
    f->is_cut = false;
    status = node_load(&f->n, &f->l);
    if (status != NIXL_SUCCESS) {
        fprintf(stderr, "# load: %s\n", nixl_error());
    }
    assert_int_equal(status, NIXL_SUCCESS);
}

/* ---- cuts at any moment ---- */

static void killed_by_ss(void) {
    nets_kill_connections();
}

/* A's next packet is answered by a reset, in the middle of whatever is under way. */
static void reset_by_nft(void) {
    assert_true(
        nets_in_a("nft add rule ip t out tcp flags '!=' syn ip daddr 10.99.0.2 reject with tcp reset"));
}

static void cut(struct fixture *f, void (*by)(void), const char *fault) {
    unsigned ok = 0, told = 0, unsure = 0;
    uint64_t worst = 0;

    for (unsigned i = 0; i < 6; i++) {
        nixl_xfer_op_t op = i % 4 == 3 ? NIXL_READ : NIXL_WRITE;
        struct nixl_xfer *xfer;
        nixl_status_t status;
        uint64_t start;
        size_t had;

        /* Connected, and in use. */
        assert_int_equal(run_once(xfer = checked(f, NIXL_WRITE, 1000, i)), NIXL_SUCCESS);
        assert_int_equal(ends(f, xfer, NIXL_WRITE, 1000, i), NIXL_SUCCESS);
        assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
        xfer = checked(f, op, MEMORY, 50 + i);
        had = f->had;
        f->is_cut = true;
        status = nixl_xfer_post(xfer, NULL);
        if (status == NIXL_IN_PROG) {
            (void)nixl_xfer_wait(xfer, i * 3);
        }
        start = now_ms();
        by();
        status = ends(f, xfer, op, MEMORY, 50 + i);
        worst = now_ms() - start > worst ? now_ms() - start : worst;
        assert_true(status == NIXL_SUCCESS || status == NIXL_ERR_REMOTE_DISCONNECT);
        ok += status == NIXL_SUCCESS;
        told += status != NIXL_SUCCESS;
        unsure += status != NIXL_SUCCESS && f->had != had;
        assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
        (void)nets_in_a("nft flush chain ip t out");
        if (by != killed_by_ss) {
            /* The other side has not heard of it. */
            nets_kill_connections();
        }
        reconnect(f);
    }
    printf(
        "# %u done (%u without notification, told by the peer's state), %u told of the cut (%u notified all "
        "the same), at most %llu ms after it\n",
        ok, f->is_lost, told, unsure, (unsigned long long)worst);
    assert_true(told > 0 || !is_tcp(f));
    assert_true(worst <= 3000);
    outcome(fault, over(f->setting), "REMOTE_DISCONNECT, or SUCCESS with all bytes", (double)worst);
}

static void killed_sockets_are_told_to_the_sender(void **state) {
    cut(*state, killed_by_ss, "two namespaces, ss -K during a transfer");
}

static void a_reset_is_told_to_the_sender(void **state) {
    cut(*state, reset_by_nft, "two namespaces, reset during a transfer");
}

/* ---- the cut between the data and their notification, made certain by a link that keeps packets back ---- */

/* The data arrive and nothing comes back: no sender can know, and the notification has not left. */
static void a_cut_before_the_data_are_confirmed_is_told(void **state) {
    struct fixture *f = *state;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint64_t end;

    many(f, 2, 1000);
    pattern_fill(f->l.at, SMALL, 7);
    xfer = checked(f, NIXL_WRITE, SMALL, 7);
    nets_hold(B_TO_A, true);
    status = nixl_xfer_post(xfer, NULL);
    assert_true(status == NIXL_IN_PROG || status == NIXL_SUCCESS);
    for (end = now_ms() + 10000; !node_check(&f->n, 0, SMALL, 7) && now_ms() < end;) {
        (void)nixl_agent_progress(f->l.agent);
        (void)usleep(2000);
    }
    assert_true(node_check(&f->n, 0, SMALL, 7));
    status = nixl_xfer_poll(xfer);
    f->is_cut = true;
    nets_lose();
    nets_hold(B_TO_A, false);
    if (is_tcp(f)) {
        assert_int_equal(status, NIXL_IN_PROG);
    }
    nets_kill_connections();
    nets_lose();
    status = ends(f, xfer, NIXL_WRITE, SMALL, 7);
    printf("# %s: %s\n", nixl_status_string(status), nixl_xfer_error(xfer));
    if (is_tcp(f)) {
        assert_int_equal(status, NIXL_ERR_REMOTE_DISCONNECT);
        assert_int_equal(f->had, 2);
    }
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    reconnect(f);
    many(f, 2, 1000);
    outcome("cut before the data are confirmed", over(f->setting),
            is_tcp(f) ? nixl_status_string(status) : "SUCCESS, then REMOTE_DISCONNECT by nixl_peer_state()",
            0);
}

/* The data are there and confirmed; the notification is on the line when that breaks. */
static void a_cut_between_the_data_and_their_notification_is_told(void **state) {
    struct fixture *f = *state;
    struct nixl_xfer *xfer;
    nixl_status_t status;

    many(f, 2, 1000);
    xfer = checked(f, NIXL_WRITE, SMALL, 8);
    nets_hold(B_TO_A, true);
    status = nixl_xfer_post(xfer, NULL);
    assert_true(status == NIXL_IN_PROG || status == NIXL_SUCCESS);
    for (uint64_t end = now_ms() + 10000; !node_check(&f->n, 0, SMALL, 8) && now_ms() < end;) {
        (void)nixl_agent_progress(f->l.agent);
        (void)usleep(2000);
    }
    /* From now on nothing more of A arrives, while A hears all that B has to say. */
    nets_hold(A_TO_B, true);
    nets_hold(B_TO_A, false);
    for (uint64_t end = now_ms() + 10 * FAR_MS; now_ms() < end;) {
        (void)nixl_agent_progress(f->l.agent);
        (void)usleep(500);
    }
    status = nixl_xfer_poll(xfer);
    printf("# before the cut: %s\n", nixl_status_string(status));
    f->is_cut = true;
    nets_lose();
    nets_kill_connections();
    nets_lose();
    nets_hold(A_TO_B, false);
    status = ends(f, xfer, NIXL_WRITE, SMALL, 8);
    printf("# %s: %s\n", nixl_status_string(status), nixl_xfer_error(xfer));
    assert_true(status == NIXL_ERR_REMOTE_DISCONNECT || status == NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    reconnect(f);
    many(f, 2, 1000);
    outcome("cut between data and notification", over(f->setting),
            status == NIXL_SUCCESS ? "SUCCESS, then REMOTE_DISCONNECT by nixl_peer_state()"
                                   : nixl_status_string(status),
            0);
}

/* ---- an address to which no way leads ---- */

static void an_unreachable_address_is_named_and_may_be_tried_again(void **state) {
    struct fixture *f = *state;
    struct nixl_desc ours = {(uintptr_t)f->l.at, 1000, 0}, theirs = {f->n.addr, 1000, 0};
    struct nixl_list here = NIXL_LIST(DRAM_SEG, &ours, 1), there = NIXL_LIST(DRAM_SEG, &theirs, 1);
    struct nixl_xfer *xfer = NULL;
    nixl_status_t status;
    uint64_t start = now_ms();
    char words[1024];

    if (!is_tcp(f)) {
        test_skip("the bytes go by the kernel's copy: no address is needed");
    }
    assert_true(nets_in_a("ip route add unreachable 10.99.0.2/32"));
    status = nixl_xfer_create(f->l.agent, NIXL_WRITE, &here, &there, "node", NULL, &xfer);
    (void)snprintf(words, sizeof words, "%s", nixl_error());
    if (status == NIXL_SUCCESS) {
        status = run_once(xfer);
        (void)snprintf(words, sizeof words, "%s", nixl_xfer_error(xfer));
        assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    }
    printf("# %s after %llu ms: %s\n", nixl_status_string(status), (unsigned long long)(now_ms() - start),
           words);
    assert_true(status == NIXL_ERR_BACKEND || status == NIXL_ERR_REMOTE_DISCONNECT);
    assert_non_null(strstr(words, "10.99.0.2"));
    assert_true(now_ms() - start < 3000);
    outcome("metadata of an unreachable address", over(f->setting), nixl_status_string(status),
            (double)(now_ms() - start));
    assert_true(nets_in_a("ip route del unreachable 10.99.0.2/32"));
    many(f, 2, 1000);
}

/* ---- bad lines ---- */

static unsigned long dropped(const char *chain) {
    unsigned long count = 0;
    char command[160];
    FILE *pipe;

    (void)snprintf(command, sizeof command,
                   "nft list chain ip t %s | sed -n 's/.*counter packets \\([0-9]*\\).*/\\1/p'", chain);
    pipe = popen(command, "r");
    if (pipe != NULL) {
        if (fscanf(pipe, "%lu", &count) != 1) {
            count = 0;
        }
        (void)pclose(pipe);
    }
    return count;
}

static void loss_neither_doubles_nor_reorders_notifications(void **state) {
    struct fixture *f = *state;
    unsigned rounds = 0;

    many(f, 1, 1000);
    assert_true(
        nets_in_a("nft add rule ip t out meta l4proto tcp numgen random mod 100 '<' 4 counter drop && "
                  "nft add rule ip t in meta l4proto tcp numgen random mod 100 '<' 4 counter drop"));
    /* By default only notifications are on the line: as many as it takes until some were lost each way. */
    do {
        many(f, 9, 150000);
    } while ((dropped("out") == 0 || dropped("in") == 0) && ++rounds < 40);
    printf("# %lu packets were dropped on the way out, %lu on the way in\n", dropped("out"), dropped("in"));
    assert_true(dropped("out") > 0 && dropped("in") > 0);
    outcome("two namespaces, 4 % of packets lost each way", over(f->setting),
            "SUCCESS; notifications once, after their data", 0);
}

static void a_slow_line_keeps_the_order(void **state) {
    struct fixture *f = *state;

    many(f, 1, 1000);
    if (!nets_in_a("tc qdisc add dev near root tbf rate 200mbit burst 128kb latency 50ms") ||
        !nets_in_b("tc qdisc add dev near root tbf rate 200mbit burst 128kb latency 50ms")) {
        test_skip("tc has no tbf here");
    }
    many(f, 3, 3 << 20);
    outcome("two namespaces, line of 200 Mbit/s", over(f->setting),
            "SUCCESS; notifications once, after their data", 0);
}

static void a_far_peer_is_written_read_and_notified_in_order(void **state) {
    struct fixture *f = *state;
    uint64_t start;

    many(f, 1, 1000);
    start = now_ms();
    many(f, 6, 200000);
    /* The line is as long as it is said to be: no transfer over it ends before an answer can have come. */
    printf("# %.0f ms a transfer with its notification, %u ms each way\n", (double)(now_ms() - start) / 6,
           FAR_MS);
    assert_true(!is_tcp(f) || now_ms() - start >= (uint64_t)6 * 2 * FAR_MS);
    outcome("a relay that delays by 10 ms each way", over(f->setting),
            "SUCCESS; notifications once, after their data", 0);
}

#define TEST(f, begins)                                                                                      \
    { #f, f, begins, teardown, NULL }

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(killed_sockets_are_told_to_the_sender, setup),
        TEST(a_reset_is_told_to_the_sender, setup),
        TEST(an_unreachable_address_is_named_and_may_be_tried_again, setup),
        TEST(loss_neither_doubles_nor_reorders_notifications, setup),
        TEST(a_slow_line_keeps_the_order, setup),
        TEST(a_far_peer_is_written_read_and_notified_in_order, setup_far),
        TEST(a_cut_before_the_data_are_confirmed_is_told, setup_far),
        TEST(a_cut_between_the_data_and_their_notification_is_told, setup_far),
    };
    static struct CMUnitTest all[COUNT_OF(settings) * COUNT_OF(tests)];
    static char names[COUNT_OF(all)][160];
    const char *why;

    node_main(argc, argv);
    why = nets_open();
    if (why != NULL) {
        printf("1..0 # SKIP %s\n", why);
        return 0;
    }
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        all[i] = tests[i % COUNT_OF(tests)];
        (void)snprintf(names[i], sizeof names[i], "%s: %s", over(&settings[i / COUNT_OF(tests)]),
                       all[i].name);
        all[i].name = names[i];
        all[i].initial_state = (void *)(uintptr_t)&settings[i / COUNT_OF(tests)];
    }
    cmocka_set_test_filter(getenv("NIXL_TEST_ONLY"));
    return cmocka_run_group_tests(all, NULL, NULL);
}
