/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a request: times, cost, transport, backend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agents.h"

#include <unistd.h>

static void begin_timed(struct agents *agents, const char *progress) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_param param = {"progress", progress};

    config.capture_telemetry = true;
    agents_begin_with(agents, &config, &param, 1);
}

/* Runs a request of 3 x 512 bytes, releases it and tells how many descriptors it was said to have. */
static uint64_t descs_told(struct nixl_xfer *xfer) {
    struct nixl_xfer_times times = NIXL_XFER_TIMES_INIT;

    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_stats(xfer, &times), NIXL_SUCCESS);
    assert_int_equal(times.total_bytes, 3 * 512);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    return times.desc_count;
}

/* Also of a post that takes less than the clock can tell. */
static void times_are_at_least_one_and_the_transfer_no_shorter_than_its_post(void **state) {
    static const char *const ways[] = {"inline", "event", "own"};

    for (int way = 0; way < 3; way++) {
        struct nixl_xfer_times times = NIXL_XFER_TIMES_INIT;
        struct agents agents;
        struct nixl_xfer *xfer;
        uint64_t before;

        begin_timed(&agents, ways[way]);
        xfer = request_of(&agents, NIXL_WRITE, 0, 12345, NULL);
        for (int i = 0; i < 100; i++) {
            before = clock_now_ns();
            assert_true(nixl_xfer_post(xfer, NULL) >= 0);
            assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
            assert_status(nixl_xfer_stats(xfer, &times), NIXL_SUCCESS);
            assert_true(times.post_ns >= 1);
            assert_true(times.xfer_ns >= times.post_ns);
            assert_in_range(times.start_ns, before, clock_now_ns());
            assert_true(times.xfer_ns <= clock_now_ns() - before);
            assert_int_equal(times.total_bytes, 12345);
            assert_int_equal(times.desc_count, 1);
        }
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        agents_end(&agents);
    }
}

/* What a user is told of the lists of a request: as they were given, or joined where making joins them. */
static void descriptors_are_counted_as_given_and_joined_only_when_made(void **state) {
    static const int32_t dense[] = {0, 1, 2};
    static const int32_t descending[] = {2, 1, 0};
    static const int32_t gap[] = {0, 1, 3};
    static const struct {
        const int32_t *indices;
        bool keep_lists;
        uint64_t descs;
    } cases[] = {{dense, false, 1}, {dense, true, 3}, {descending, false, 3}, {gap, false, 2}};
    struct agents agents;
    struct nixl_desc l[4];
    struct nixl_desc r[4];
    struct nixl_list local = NIXL_LIST(DRAM_SEG, l, 3);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, r, 3);
    struct nixl_dlist *mine;
    struct nixl_dlist *theirs;
    struct nixl_xfer *xfer;

    begin_timed(&agents, "inline");
    for (size_t i = 0; i < 4; i++) {
        l[i] = (struct nixl_desc){(uintptr_t)agents.a.memory + i * 512, 512, 0};
        r[i] = (struct nixl_desc){(uintptr_t)agents.b.memory + i * 512, 512, 0};
    }
    assert_status(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &local, &remote, "B", NULL, &xfer),
                  NIXL_SUCCESS);
    assert_int_equal(descs_told(xfer), 3);
    local.count = remote.count = 4;
    assert_status(nixl_dlist_prepare(agents.a.agent, NULL, &local, NULL, &mine), NIXL_SUCCESS);
    assert_status(nixl_dlist_prepare(agents.a.agent, "B", &remote, NULL, &theirs), NIXL_SUCCESS);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct nixl_options options = NIXL_OPTIONS_INIT;

        options.keep_lists = cases[i].keep_lists;
        assert_status(nixl_xfer_make(agents.a.agent, NIXL_WRITE, mine, cases[i].indices, theirs,
                                     cases[i].indices, 3, &options, &xfer),
                      NIXL_SUCCESS);
        assert_int_equal(descs_told(xfer), cases[i].descs);
    }
    nixl_dlist_release(mine);
    nixl_dlist_release(theirs);
    agents_end(&agents);
}

static void times_of_an_unfinished_request_are_its_state(void **state) {
    struct nixl_xfer_times times = NIXL_XFER_TIMES_INIT;
    struct agents agents;
    struct nixl_xfer *xfer;

    begin_timed(&agents, "event");
    the_mock()->set("A", "hold", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_stats(xfer, &times), NIXL_ERR_NOT_POSTED);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_int_equal(nixl_xfer_stats(xfer, &times), NIXL_IN_PROG);
    (void)nixl_xfer_cancel(xfer);
    assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_ERR_CANCELED);
    assert_int_equal(nixl_xfer_stats(xfer, &times), NIXL_ERR_CANCELED);
    assert_int_equal(times.post_ns, 0);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

/* The reference restarts the clock there, so that a transfer may seem shorter than its post. */
static void refused_repost_leaves_the_times_alone(void **state) {
    struct nixl_xfer_times times = NIXL_XFER_TIMES_INIT;
    struct agents agents;
    struct nixl_xfer *xfer;
    uint64_t posted;

    begin_timed(&agents, "event");
    the_mock()->set("A", "hold", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    posted = clock_now_ns();
    usleep(2000);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_ERR_REPOST_ACTIVE);
    the_mock()->set("A", "hold", "no");
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_stats(xfer, &times), NIXL_SUCCESS);
    assert_true(times.start_ns <= posted);
    assert_true(times.xfer_ns >= 2000000);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void no_times_without_telemetry(void **state) {
    struct nixl_xfer_times times = NIXL_XFER_TIMES_INIT;
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_stats(xfer, &times), NIXL_ERR_NO_TELEMETRY);
    assert_words(nixl_error(), "NIXL_TELEMETRY_ENABLE");
    assert_int_equal(nixl_xfer_stats(NULL, &times), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_xfer_stats(xfer, NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void caller_with_a_shorter_struct_gets_what_fits(void **state) {
    struct nixl_xfer_times times = NIXL_XFER_TIMES_INIT;
    struct agents agents;
    struct nixl_xfer *xfer;

    begin_timed(&agents, "inline");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    times.size = offsetof(struct nixl_xfer_times, total_bytes);
    times.total_bytes = 7;
    assert_status(nixl_xfer_stats(xfer, &times), NIXL_SUCCESS);
    assert_int_equal(times.size, offsetof(struct nixl_xfer_times, total_bytes));
    assert_true(times.post_ns >= 1);
    assert_int_equal(times.total_bytes, 7);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void transport_names_backend_and_way(void **state) {
    struct side_of_test side;
    struct agents agents;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_string_equal(nixl_xfer_transport(xfer), "MOCK memcpy");
    assert_ptr_equal(nixl_xfer_backend(xfer), agents.a.backend);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
    side_begin(&side, "A", NULL, "NOOP", NULL, 0, true);
    desc = (struct nixl_desc){(uintptr_t)side.memory, 64, 0};
    assert_status(nixl_xfer_create(side.agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_string_equal(nixl_xfer_transport(xfer), "NOOP");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    side_end(&side);
}

static void cost_is_the_backends_estimate(void **state) {
    struct nixl_cost cost = NIXL_COST_INIT;
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, "delay_us", "5");
    xfer = request_of(&agents, NIXL_WRITE, 0, 8000, NULL);
    assert_status(nixl_xfer_cost(xfer, &cost), NIXL_SUCCESS);
    assert_int_equal(cost.duration_ns, 5 * 1000 + 8000 / 8);
    assert_int_equal(cost.margin_ns, 600);
    assert_int_equal(cost.method, NIXL_COST_ANALYTICAL_BACKEND);
    assert_int_equal(nixl_xfer_cost(NULL, &cost), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_xfer_cost(xfer, NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_cost(xfer, &cost), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void cost_that_a_backend_cannot_tell_is_said(void **state) {
    struct nixl_cost cost = NIXL_COST_INIT;
    struct side_of_test side;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_xfer *xfer;

    side_begin(&side, "A", NULL, "NOOP", NULL, 0, true);
    desc = (struct nixl_desc){(uintptr_t)side.memory, 64, 0};
    assert_status(nixl_xfer_create(side.agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_cost(xfer, &cost), NIXL_ERR_NOT_SUPPORTED);
    assert_words(nixl_error(), "backend NOOP cannot tell");
    side_end(&side);
    assert_int_equal(nixl_xfer_cost(xfer, &cost), NIXL_ERR_NOT_FOUND);
    assert_string_equal(nixl_xfer_transport(xfer), "");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

static void state_is_told_without_progress(void **state) {
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_failure(xfer, &info), NIXL_ERR_NOT_POSTED);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(nixl_xfer_failure(xfer, &info), NIXL_IN_PROG);
    }
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_failure(xfer, &info), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_failure(NULL, &info), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_xfer_failure(xfer, NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_at_least_one_and_the_transfer_no_shorter_than_its_post),
        cmocka_unit_test(descriptors_are_counted_as_given_and_joined_only_when_made),
        cmocka_unit_test(times_of_an_unfinished_request_are_its_state),
        cmocka_unit_test(refused_repost_leaves_the_times_alone),
        cmocka_unit_test(no_times_without_telemetry),
        cmocka_unit_test(caller_with_a_shorter_struct_gets_what_fits),
        cmocka_unit_test(transport_names_backend_and_way),
        cmocka_unit_test(cost_is_the_backends_estimate),
        cmocka_unit_test(cost_that_a_backend_cannot_tell_is_said),
        cmocka_unit_test(state_is_told_without_progress),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
