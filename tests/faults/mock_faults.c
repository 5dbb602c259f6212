/* SPDX-License-Identifier: Apache-2.0 */
/* Where timing must be exact: deadlines, stalls, and what a target is told of a failure. Two agents over MOCK. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "unit/agent/agents.h"

#include "outcome.h"

#include <unistd.h>

static const bool with_thread = true, without_thread = false;

static int setup(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct agents *agents = calloc(1, sizeof *agents);

    config.progress_thread = *(const bool *)*state;
    agents_begin_with(agents, &config, NULL, 0);
    *state = agents;
    return 0;
}

static int teardown(void **state) {
    (void)the_mock()->set("A", "hold", "no");
    (void)the_mock()->set("A", "stubborn", "no");
    agents_end(*state);
    free(*state);
    return 0;
}

/* Ends by its deadline; how late, in ms. A machine that does other things makes some late, not all. */
static double lateness(struct agents *agents, bool stalls, bool waits) {
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint64_t start, took;

    if (stalls) {
        options.stall_timeout_ms = 120;
    } else {
        options.timeout_ms = 120;
    }
    xfer = request_of(agents, NIXL_WRITE, 0, 4096, &options);
    start = clock_now_ns();
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    if (waits) {
        status = nixl_xfer_wait(xfer, 20000);
    } else {
        while ((status = nixl_xfer_poll(xfer)) == NIXL_IN_PROG && clock_now_ns() - start < 20 * NS_PER_S) {
            (void)usleep(500);
        }
    }
    took = clock_now_ns() - start;
    assert_int_equal(status, NIXL_ERR_CANCELED);
    assert_words(nixl_xfer_error(xfer), stalls ? "stalled" : "deadline");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    return (double)took / 1e6 - 120;
}

static void a_deadline_is_kept_within_20_ms(void **state) {
    struct agents *agents = *state;

    assert_true(the_mock()->set("A", "hold", "yes"));
    for (int stalls = 0; stalls < 2; stalls++) {
        for (int waits = 0; waits < 2; waits++) {
            double best = 1e9, late = 0;

            for (int i = 0; i < 5; i++) {
                double ms = lateness(agents, stalls != 0, waits != 0);

                best = ms < best ? ms : best;
                late = ms > late ? ms : late;
                assert_true(ms > -20);
            }
            printf("# %s, %s: 120 ms kept with %.1f ms at best, %.1f at worst\n",
                   stalls ? "stall" : "deadline", waits ? "waiting" : "polling", best, late);
            assert_true(best <= 20);
        }
    }
    outcome("peer silent", "MOCK", "CANCELED (deadline, stalled)", 120);
}

static struct nixl_options told(const char *notif) {
    struct nixl_options options = NIXL_OPTIONS_INIT;

    options.notify_failure = true;
    options.has_notif = notif != NULL;
    options.notif = notif;
    options.notif_len = notif != NULL ? strlen(notif) : 0;
    return options;
}

/* Waits until something has arrived at B, making progress at A as a program without a thread does. */
static size_t arrived(struct agents *agents, char *last, size_t size, unsigned ms) {
    uint64_t end = clock_now_ns() + ms * NS_PER_MS;
    size_t count = 0;

    last[0] = '\0';
    do {
        (void)nixl_agent_progress(agents->a.agent);
        count += notifs_of(agents->b.agent, last, size);
    } while (count == 0 && clock_now_ns() < end);
    return count;
}

static nixl_status_t run(struct nixl_xfer *xfer) {
    nixl_status_t status = nixl_xfer_post(xfer, NULL);

    return status == NIXL_IN_PROG ? nixl_xfer_wait(xfer, 20000) : status;
}

static void a_failed_transfer_tells_its_target_once(void **state) {
    struct agents *agents = *state;
    struct nixl_options options = told("request 7 is here");
    struct nixl_xfer *xfer = request_of(agents, NIXL_WRITE, 0, 4096, &options);
    char last[200];

    assert_true(the_mock()->set("A", "fail_at", "0"));
    assert_status(run(xfer), NIXL_ERR_BACKEND);
    assert_int_equal(arrived(agents, last, sizeof last, 5000), 1);
    assert_string_equal(last, "NIXL_FAILED NIXL_ERR_BACKEND\nrequest 7 is here");
    assert_int_equal(arrived(agents, last, sizeof last, 50), 0);
    /* The same request, posted again, succeeds: its own notification alone. */
    assert_true(the_mock()->set("A", "fail_at", "-1"));
    assert_status(run(xfer), NIXL_SUCCESS);
    assert_int_equal(arrived(agents, last, sizeof last, 5000), 1);
    assert_string_equal(last, "request 7 is here");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    outcome("failed transfer, notify_failure", "MOCK", "the target is told, once", 0);
}

static void a_failing_post_and_a_cancel_tell_the_target_too(void **state) {
    struct agents *agents = *state;
    struct nixl_options options = told(NULL);
    struct nixl_xfer *xfer = request_of(agents, NIXL_READ, 0, 4096, &options);
    char words[512], last[200];

    assert_true(the_mock()->set("A", "fail_post", "1"));
    assert_true(nixl_xfer_post(xfer, NULL) < 0);
    (void)snprintf(words, sizeof words, "%s", nixl_error());
    assert_int_equal(arrived(agents, last, sizeof last, 5000), 1);
    assert_int_equal(strncmp(last, "NIXL_FAILED NIXL_ERR_", 21), 0);
    assert_true(the_mock()->set("A", "fail_post", "0"));
    assert_true(the_mock()->set("A", "hold", "yes"));
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    (void)nixl_xfer_cancel(xfer);
    assert_int_equal(nixl_xfer_wait(xfer, 20000), NIXL_ERR_CANCELED);
    assert_int_equal(arrived(agents, last, sizeof last, 5000), 1);
    assert_string_equal(last, "NIXL_FAILED NIXL_ERR_CANCELED\n");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

static void who_did_not_ask_tells_nobody(void **state) {
    struct agents *agents = *state;
    struct nixl_options options = told("x");
    struct nixl_xfer *xfer;
    char last[200];

    options.notify_failure = false;
    xfer = request_of(agents, NIXL_WRITE, 0, 4096, &options);
    assert_true(the_mock()->set("A", "fail_at", "0"));
    assert_status(run(xfer), NIXL_ERR_BACKEND);
    assert_int_equal(arrived(agents, last, sizeof last, 100), 0);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_true(the_mock()->set("A", "fail_at", "-1"));
}

/* Its words stay those of the transfer, and nothing waits for the dead. */
static void a_target_that_is_lost_is_not_told_and_not_waited_for(void **state) {
    struct agents *agents = *state;
    struct nixl_options options = told("x");
    struct nixl_xfer *xfer = request_of(agents, NIXL_WRITE, 0, 4096, &options);
    uint64_t start;
    char last[200];

    assert_true(the_mock()->set("A", "hold", "yes"));
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    start = clock_now_ns();
    assert_true(the_mock()->lose_peer("A", "B", "the cable is out"));
    assert_int_equal(nixl_xfer_wait(xfer, 20000), NIXL_ERR_REMOTE_DISCONNECT);
    assert_words(nixl_xfer_error(xfer), "the cable is out");
    assert_int_equal(arrived(agents, last, sizeof last, 100), 0);
    assert_true(clock_now_ns() - start < 3 * NS_PER_S);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    /* A notice under way when the agent ends is let go of. */
    xfer = request_of(agents, NIXL_WRITE, 0, 4096, &options);
    (void)nixl_xfer_post(xfer, NULL);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

/* As any failure: the same words from all sides, nothing moved, nobody notified, nothing held; and the next post begins anew. */
static void a_post_that_the_backend_refuses_is_a_failure_like_others(void **state) {
    struct agents *agents = *state;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    struct nixl_desc block = {(uintptr_t)agents->a.memory, MEMORY, 0};
    struct nixl_list mine = NIXL_LIST(DRAM_SEG, &block, 1);
    struct nixl_xfer *xfer;
    char last[200];

    options.has_notif = true;
    options.notif = "here";
    options.notif_len = 4;
    memset(agents->a.memory, 0x41, 4096);
    memset(agents->b.memory, 0x42, 4096);
    assert_true(the_mock()->set("A", "fail_text", "the queue is full"));
    xfer = request_of(agents, NIXL_WRITE, 0, 4096, &options);
    for (int turn = 1; turn <= 3; turn++) {
        char number[8];

        (void)snprintf(number, sizeof number, "%d", turn);
        assert_true(the_mock()->set("A", "fail_post", number));
        assert_status(nixl_xfer_post(xfer, NULL), NIXL_ERR_BACKEND);
        assert_words(nixl_error(), "the queue is full");
        assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_BACKEND);
        assert_words(nixl_error(), "the queue is full");
        assert_int_equal(nixl_xfer_wait(xfer, 1000), NIXL_ERR_BACKEND);
        assert_words(nixl_xfer_error(xfer), "the queue is full");
        assert_int_equal(nixl_xfer_failure(xfer, &info), NIXL_ERR_BACKEND);
        assert_int_equal(agents->b.memory[0], 0x42);
        assert_int_equal(agents->b.memory[4095], 0x42);
    }
    assert_int_equal(arrived(agents, last, sizeof last, 50), 0);
    assert_status(run(xfer), NIXL_SUCCESS);
    assert_string_equal(nixl_xfer_error(xfer), "");
    assert_memory_equal(agents->b.memory, agents->a.memory, 4096);
    assert_int_equal(arrived(agents, last, sizeof last, 5000), 1);
    assert_string_equal(last, "here");
    /* Refused once more, it holds no region: that can go, and the request is refused for it then. */
    assert_true(the_mock()->set("A", "fail_post", "5"));
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_ERR_BACKEND);
    assert_status(nixl_mem_deregister(agents->a.agent, &mine, NULL), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_status(nixl_mem_register(agents->a.agent, &mine, NULL), NIXL_SUCCESS);
    assert_true(the_mock()->set("A", "fail_post", "0"));
    outcome("post refused by the backend", "MOCK",
            "its status and words by post, poll and wait; the next post works", 0);
}

static void a_failure_nobody_polled_is_discarded_by_the_next_post(void **state) {
    struct agents *agents = *state;
    struct nixl_xfer *xfer = request_of(agents, NIXL_WRITE, 0, 4096, NULL);

    assert_true(the_mock()->set("A", "fail_at", "0"));
    assert_status(run(xfer), NIXL_ERR_BACKEND);
    assert_true(nixl_xfer_error(xfer)[0] != '\0');
    assert_true(the_mock()->set("A", "fail_at", "-1"));
    assert_status(run(xfer), NIXL_SUCCESS);
    assert_string_equal(nixl_xfer_error(xfer), "");
    assert_memory_equal(agents->b.memory, agents->a.memory, 4096);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

#define TEST(f)                                                                                              \
    {#f " (thread)", f, setup, teardown, (void *)&with_thread}, {                                            \
#f " (no thread)", f, setup, teardown, (void *)&without_thread                                       \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_deadline_is_kept_within_20_ms),
        TEST(a_failed_transfer_tells_its_target_once),
        TEST(a_failing_post_and_a_cancel_tell_the_target_too),
        TEST(who_did_not_ask_tells_nobody),
        TEST(a_target_that_is_lost_is_not_told_and_not_waited_for),
        TEST(a_failure_nobody_polled_is_discarded_by_the_next_post),
        TEST(a_post_that_the_backend_refuses_is_a_failure_like_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
