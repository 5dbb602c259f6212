/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault 2: a post of a request that is in flight is refused, but the reference has started its clock anew by then, so that
 * the transfer seems to have taken less time than its post.
 */
#include "fault.h"

#define PAUSE_NS (30 * NS_PER_MS)

static void a_refused_post_leaves_the_times_alone(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_xfer_times times = NIXL_XFER_TIMES_INIT;
    struct nixl_param hold = {"hold", "yes"};
    struct timespec pause = {0, PAUSE_NS};
    struct agents agents;
    struct nixl_xfer *xfer;
    uint64_t before, after;

    config.capture_telemetry = true;
    agents_begin_with(&agents, &config, &hold, 1);
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
    before = clock_now_ns();
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    after = clock_now_ns();
    nanosleep(&pause, NULL);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_ERR_REPOST_ACTIVE);
    assert_true(the_mock()->set("A", "hold", "no"));
    assert_status(nixl_xfer_wait(xfer, 10000), NIXL_SUCCESS);

    assert_status(nixl_xfer_stats(xfer, &times), NIXL_SUCCESS);
    assert_in_range(times.start_ns, before, after);
    assert_true(times.xfer_ns >= PAUSE_NS);
    assert_true(times.post_ns <= after - before);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static const struct CMUnitTest tests[] = {
    TEST(a_refused_post_leaves_the_times_alone),
};

FAULT_TESTS(tests)
