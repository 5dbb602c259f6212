/* SPDX-License-Identifier: Apache-2.0 */
/* A signal every millisecond, whose handler interrupts system calls: waiting neither ends early nor fails nor loses events. */
#include "front.h"

#include <signal.h>
#include <sys/time.h>

#define LONG_NS (20000 * NS_PER_MS)

static volatile sig_atomic_t signals;

static void on_alarm(int number) {
    (void)number;
    signals = signals + 1;
}

static void alarms(bool on) {
    struct itimerval every = {{0, on ? 1000 : 0}, {0, on ? 1000 : 0}};
    struct sigaction action = {.sa_handler = on_alarm}; /* without SA_RESTART */

    if (on) {
        signals = 0;
        assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    }
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
}

/* With a progress thread the waiter sleeps on the request, without one on the backends' descriptors. */
static void waiting_outlasts_signals(void **state) {
    for (int thread = 0; thread < 2; thread++) {
        struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
        struct nixl_param params[] = {{"hold", "yes"}};
        struct agents agents;
        struct nixl_xfer *xfer;
        uint64_t begin;

        config.progress_thread = thread != 0;
        agents_begin_with(&agents, &config, params, 1);
        xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
        assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
        alarms(true);
        begin = clock_now_ns();
        assert_int_equal(nixl_xfer_wait(xfer, 200), NIXL_IN_PROG);
        assert_true(clock_now_ns() - begin >= 200 * NS_PER_MS);
        /* A busy machine hands out fewer. */
        while (signals <= 10 && clock_now_ns() - begin < LONG_NS) {
            assert_int_equal(nixl_xfer_wait(xfer, 50), NIXL_IN_PROG);
        }
        the_mock()->set("A", "hold", "no");
        assert_status(nixl_xfer_wait(xfer, NIXL_NO_TIMEOUT), NIXL_SUCCESS);
        alarms(false);
        assert_true(signals > 10); /* they did come */
        assert_memory_equal(agents.a.memory, agents.b.memory, 4096);
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        agents_end(&agents);
    }
}

static void the_whole_of_a_transfer_goes_well_under_signals(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    uint64_t begin;

    config.progress_thread = true;
    alarms(true);
    begin = clock_now_ns();
    while (clock_now_ns() - begin < 300 * NS_PER_MS || (signals <= 10 && clock_now_ns() - begin < LONG_NS)) {
        struct agents agents;
        struct nixl_options options = NIXL_OPTIONS_INIT;
        struct nixl_xfer *xfer;
        char last[8] = "";

        options.has_notif = true;
        options.notif = "done";
        options.notif_len = 4;
        agents_begin_with(&agents, &config, NULL, 0);
        xfer = request_of(&agents, NIXL_WRITE, 0, MEMORY, &options);
        assert_true(nixl_xfer_post(xfer, NULL) >= 0);
        assert_status(nixl_xfer_wait(xfer, NIXL_NO_TIMEOUT), NIXL_SUCCESS);
        assert_memory_equal(agents.a.memory, agents.b.memory, MEMORY);
        assert_int_equal(notifs_of(agents.b.agent, last, sizeof last), 1);
        assert_string_equal(last, "done");
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        agents_end(&agents);
    }
    alarms(false);
    assert_true(signals > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(waiting_outlasts_signals),
        TEST(the_whole_of_a_transfer_goes_well_under_signals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
