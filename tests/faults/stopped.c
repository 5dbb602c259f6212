/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that is stopped (SIGSTOP): nobody but the clock sees it. Requests end at their deadline, or earlier as done if the bytes
 * are really there; when it goes on, new requests work.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pair.h"

#define MEMORY ((size_t)32 << 20)
#define DEADLINE 250

static int setup(void **state) {
    return fixture_open(state, MEMORY);
}

/* The same request, with the metadata at hand; where its deadline passes again because the machine is slow, one without. */
static void run_again(struct fixture *f, struct nixl_xfer *xfer, nixl_xfer_op_t op, uint64_t seed) {
    nixl_status_t status = NIXL_ERR_CANCELED;

    for (int i = 0; i < 4 && status == NIXL_ERR_CANCELED; i++) {
        status = run_once(xfer);
    }
    if (status == NIXL_ERR_CANCELED) {
        struct nixl_xfer *patient = request_to(&f->l, &f->n, op, 1, MEMORY, MEMORY, NULL);

        assert_non_null(patient);
        status = run_once(patient);
        assert_int_equal(nixl_xfer_release(patient), NIXL_SUCCESS);
    }
    assert_int_equal(status, NIXL_SUCCESS);
    assert_true(op == NIXL_READ ? pattern_check(f->l.at, MEMORY, seed) : node_check(&f->n, 0, MEMORY, seed));
}

/* Where the deadline cost the connection: the words of whatever is tried next say what to do, and the metadata at hand will do. */
static void load_again(struct fixture *f, struct nixl_xfer *xfer, const void *blob, size_t len) {
    struct nixl_desc ours = {(uintptr_t)f->l.at, 64, 0}, theirs = {f->n.addr, 64, 0};
    struct nixl_list here = NIXL_LIST(DRAM_SEG, &ours, 1), there = NIXL_LIST(DRAM_SEG, &theirs, 1);
    struct nixl_xfer *another = NULL;

    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_ERR_REMOTE_DISCONNECT);
    printf("# %s\n", nixl_error());
    assert_non_null(strstr(nixl_error(), "load its metadata again"));
    if (nixl_xfer_create(f->l.agent, NIXL_WRITE, &here, &there, "node", NULL, &another) == NIXL_SUCCESS) {
        assert_int_equal(nixl_xfer_post(another, NULL), NIXL_ERR_REMOTE_DISCONNECT);
        assert_int_equal(nixl_xfer_release(another), NIXL_SUCCESS);
    }
    assert_non_null(strstr(nixl_error(), "load its metadata again"));
    assert_int_equal(nixl_notif_send(f->l.agent, "node", "x", 1, NULL), NIXL_ERR_REMOTE_DISCONNECT);
    assert_non_null(strstr(nixl_error(), "load its metadata again"));
    assert_int_equal(nixl_metadata_load(f->l.agent, blob, len, NULL), NIXL_SUCCESS);
}

static void stopped(void **state, nixl_xfer_op_t op) {
    struct fixture *f = *state;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    const char *fault = op == NIXL_READ ? "SIGSTOP, READ of 32 MiB" : "SIGSTOP, WRITE of 32 MiB";
    double best = 1e9, worst = 0;
    bool was_done = false;
    size_t len;
    void *blob = node_blob(&f->n, &len); /* its metadata as it was at first */

    assert_non_null(blob);
    options.timeout_ms = DEADLINE;
    for (int round = 0; round < 2; round++) {
        struct nixl_xfer *xfer;
        nixl_status_t status;
        uint64_t start, took;
        bool kept = false;

        assert_write_arrives(&f->l, &f->n, 5000, (uint64_t)round);
        if (op == NIXL_READ) {
            node_fill(&f->n, 0, MEMORY, 70 + (uint64_t)round);
            memset(f->l.at, 0, MEMORY);
        } else {
            pattern_fill(f->l.at, MEMORY, 70 + (uint64_t)round);
        }
        xfer = request_to(&f->l, &f->n, op, 1, MEMORY, MEMORY, &options);
        assert_non_null(xfer);
        assert_int_equal(kill(f->n.pid, SIGSTOP), 0);
        (void)usleep(2000);
        start = now_ms();
        status = nixl_xfer_post(xfer, NULL);
        status = status == NIXL_IN_PROG ? nixl_xfer_wait(xfer, 20000) : status;
        took = now_ms() - start;
        printf("# %s after %llu ms: %s\n", nixl_status_string(status), (unsigned long long)took,
               nixl_xfer_error(xfer));
        if (status != NIXL_SUCCESS) {
            assert_int_equal(status, NIXL_ERR_CANCELED);
            assert_non_null(strstr(nixl_xfer_error(xfer), "deadline"));
            assert_true(took + 20 >= DEADLINE);
            best = (double)took < best ? (double)took : best;
        } else {
            was_done = true;
        }
        worst = (double)took > worst ? (double)took : worst;
        if (status != NIXL_SUCCESS) {
            /* What went by messages of NIXL's own, as reads over tcp do, needed nothing torn down. */
            kept = nixl_peer_state(f->l.agent, "node") == NIXL_SUCCESS;
            assert_true(kept || op == NIXL_WRITE);
        }
        assert_int_equal(kill(f->n.pid, SIGCONT), 0);
        if (kept) {
            run_again(f, xfer, op, 70 + (uint64_t)round);
        } else if (status != NIXL_SUCCESS) {
            load_again(f, xfer, blob, len);
        }
        assert_released(xfer, 5000);
        if (status == NIXL_SUCCESS) {
            /* The kernel's copies need no doing of the peer: then the bytes are there. */
            if (op == NIXL_READ) {
                assert_true(pattern_check(f->l.at, MEMORY, 70 + (uint64_t)round));
            } else {
                assert_true(node_check(&f->n, 0, MEMORY, 70 + (uint64_t)round));
            }
        }
        assert_write_arrives(&f->l, &f->n, 1 << 20, 90 + (uint64_t)round);
    }
    free(blob);
    /* Kept to 20 ms by the code where the machine lets it (mock_faults.c); what else runs here may have the processors. */
    assert_true(best > 1e8 || best <= DEADLINE + 2000);
    outcome(fault, over(f->setting), was_done ? "SUCCESS, bytes there" : "CANCELED (deadline of 250 ms)",
            worst);
}

static void a_read_from_a_stopped_peer_ends_at_its_deadline_and_later_ones_work(void **state) {
    stopped(state, NIXL_READ);
}

static void a_write_to_a_stopped_peer_ends_at_its_deadline_and_later_ones_work(void **state) {
    stopped(state, NIXL_WRITE);
}

/* Stopped, then killed: still ends (the deadline is not needed for that). */
static void a_stopped_peer_that_is_killed_ends_what_waits_for_it(void **state) {
    struct fixture *f = *state;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint64_t start;

    options.stall_timeout_ms = NIXL_NO_TIMEOUT;
    assert_write_arrives(&f->l, &f->n, 5000, 1);
    xfer = request_to(&f->l, &f->n, NIXL_READ, 1, MEMORY, MEMORY, &options);
    assert_int_equal(kill(f->n.pid, SIGSTOP), 0);
    (void)usleep(2000);
    status = nixl_xfer_post(xfer, NULL);
    status = status == NIXL_IN_PROG ? nixl_xfer_wait(xfer, 50) : status;
    start = now_ms();
    node_kill(&f->n);
    status = status == NIXL_IN_PROG ? nixl_xfer_wait(xfer, 15000) : status;
    printf("# %s after %llu ms: %s\n", nixl_status_string(status), (unsigned long long)(now_ms() - start),
           nixl_xfer_error(xfer));
    assert_true(status == NIXL_SUCCESS || status == NIXL_ERR_REMOTE_DISCONNECT);
    assert_true(now_ms() - start <= 3000);
    outcome("SIGSTOP, then kill -9, READ", over(f->setting), nixl_status_string(status),
            (double)(now_ms() - start));
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_true(node_start(&f->n, "node", f->setting, MEMORY, NULL));
}

#define TEST(f)                                                                                              \
    { #f, f, setup, fixture_close, NULL }

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(a_read_from_a_stopped_peer_ends_at_its_deadline_and_later_ones_work),
        TEST(a_write_to_a_stopped_peer_ends_at_its_deadline_and_later_ones_work),
        TEST(a_stopped_peer_that_is_killed_ends_what_waits_for_it),
    };

    node_main(argc, argv);
    return run_matrix(tests, COUNT_OF(tests));
}
