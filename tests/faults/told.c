/* SPDX-License-Identifier: Apache-2.0 */
/* What a target that is alive is told of a transfer that failed (options.notify_failure), over UCX. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pair.h"

#define MEMORY ((size_t)32 << 20)
#define TEXT "request 7 is here"

static int setup(void **state) {
    return fixture_open(state, MEMORY);
}

static struct nixl_options told(uint64_t timeout_ms) {
    struct nixl_options options = NIXL_OPTIONS_INIT;

    options.notify_failure = true;
    options.has_notif = true;
    options.notif = TEXT;
    options.notif_len = strlen(TEXT);
    options.timeout_ms = timeout_ms;
    return options;
}

/* Waits until it has `count` notifications, making progress as a program without a thread does; the last one is `expected`. */
static void assert_told(struct fixture *f, size_t count, const char *expected) {
    char last[128] = "";
    size_t had = 0;

    for (uint64_t end = now_ms() + 10000; had < count && now_ms() < end;) {
        (void)nixl_agent_progress(f->l.agent);
        had = node_received(&f->n, count, 20);
    }
    assert_int_equal(had, count);
    node_last(&f->n, last, sizeof last);
    assert_string_equal(last, expected);
    /* Once. */
    for (int i = 0; i < 5; i++) {
        (void)nixl_agent_progress(f->l.agent);
        assert_int_equal(node_received(&f->n, count + 1, 10), count);
    }
}

static void a_transfer_that_is_refused_tells_its_target(void **state) {
    struct fixture *f = *state;
    struct nixl_options options = told(0);
    struct nixl_xfer *xfer = request_to(&f->l, &f->n, NIXL_READ, 1, 65536, 65536, &options);

    assert_int_equal(run_once(xfer), NIXL_SUCCESS);
    assert_told(f, 1, TEXT);
    assert_true(node_deregister(&f->n));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(run_once(xfer), NIXL_ERR_NOT_FOUND);
        assert_told(f, 2 + i, "NIXL_FAILED NIXL_ERR_NOT_FOUND\n" TEXT);
    }
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    outcome("failed transfer, notify_failure", over(f->setting), "the target is told, once", 0);
}

/* A read over tcp is given up without its connection, which carries the word when the target goes on. */
static void a_transfer_that_missed_its_deadline_tells_its_target_when_it_goes_on(void **state) {
    struct fixture *f = *state;
    struct nixl_options options = told(150);
    struct nixl_xfer *xfer = request_to(&f->l, &f->n, NIXL_READ, 1, MEMORY, MEMORY, &options);
    nixl_status_t status;

    /* By a connection that stands: a notification that waits for one takes it down with its deadline. */
    assert_int_equal(nixl_notif_send(f->l.agent, "node", "first", 5, NULL), NIXL_SUCCESS);
    assert_told(f, 1, "first");
    assert_int_equal(kill(f->n.pid, SIGSTOP), 0);
    status = run_once(xfer);
    printf("# %s: %s\n", nixl_status_string(status), nixl_xfer_error(xfer));
    for (uint64_t end = now_ms() + 50; now_ms() < end;) {
        (void)nixl_agent_progress(f->l.agent);
    }
    assert_int_equal(kill(f->n.pid, SIGCONT), 0);
    /* The kernel's copies need no doing of the peer. */
    assert_told(f, 2, status == NIXL_SUCCESS ? TEXT : "NIXL_FAILED NIXL_ERR_CANCELED\n" TEXT);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    outcome("deadline passed, notify_failure", over(f->setting),
            status == NIXL_SUCCESS ? "SUCCESS, bytes there" : "the target is told when it goes on", 0);
}

#define TEST(f)                                                                                              \
    { #f, f, setup, fixture_close, NULL }

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(a_transfer_that_is_refused_tells_its_target),
        TEST(a_transfer_that_missed_its_deadline_tells_its_target_when_it_goes_on),
    };

    node_main(argc, argv);
    return run_matrix(tests, COUNT_OF(tests));
}
