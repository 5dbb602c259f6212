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
    /* Only what needs no clock, once it is done. */
    assert_int_equal(times.total_bytes, 0);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_stats(xfer, &times), NIXL_ERR_NO_TELEMETRY);
    assert_int_equal(times.total_bytes, 64);
    assert_int_equal(times.desc_count, 1);
    assert_int_equal(times.xfer_ns, 0);
    agents_end(&agents);
    assert_int_equal(nixl_xfer_stats(xfer, &times), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "stats: ");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
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

/* A backend that cannot tell, one whose word is by its rank: storage here, 100 us and a byte a nanosecond. */
static void cost_of_what_never_moved_is_declared_by_the_backends_kind(void **state) {
    struct nixl_cost cost = NIXL_COST_INIT;
    struct side_of_test side;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_xfer *xfer;

    side_begin(&side, "A", NULL, "NOOP", NULL, 0, true);
    desc = (struct nixl_desc){(uintptr_t)side.memory, 64, 0};
    assert_status(nixl_xfer_create(side.agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_status(nixl_xfer_cost(xfer, &cost), NIXL_SUCCESS);
    assert_int_equal(cost.method, NIXL_COST_DECLARED);
    assert_in_range(cost.duration_ns, 100000 + 4096 + 64, 100000 + 4096 + 64 + 2);
    /* All of it is in doubt. */
    assert_int_equal(cost.margin_ns, cost.duration_ns);
    side_end(&side);
    assert_int_equal(nixl_xfer_cost(xfer, &cost), NIXL_ERR_NOT_FOUND);
    assert_string_equal(nixl_xfer_transport(xfer), "");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

static void declared_costs_grow_with_the_rank_of_the_backend(void **state) {
    static const uint32_t ranks[] = {NIXL_RANK_MEMORY, NIXL_RANK_RDMA, NIXL_RANK_NETWORK, NIXL_RANK_STORAGE};
    struct side_of_test side;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_xfer *xfer;
    uint64_t last = 0;

    side_begin(&side, "A", NULL, "NOOP", NULL, 0, true);
    desc = (struct nixl_desc){(uintptr_t)side.memory, 64, 0};
    assert_status(nixl_xfer_create(side.agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer), NIXL_SUCCESS);
    for (unsigned i = 0; i < 4; i++) {
        struct nixl_cost cost = NIXL_COST_INIT;

        side.backend->instance.rank = ranks[i];
        assert_status(nixl_xfer_cost(xfer, &cost), NIXL_SUCCESS);
        assert_true(cost.duration_ns > last);
        last = cost.duration_ns;
    }
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    side_end(&side);
}

static struct nixl_cost cost_to_b(struct agents *agents, nixl_xfer_op_t op, size_t len) {
    struct nixl_cost cost = NIXL_COST_INIT;
    struct nixl_xfer *xfer = request_of(agents, op, 0, len, NULL);

    assert_status(nixl_xfer_cost(xfer, &cost), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    return cost;
}

static void run_to_b(struct agents *agents, nixl_xfer_op_t op, size_t len, unsigned times) {
    struct nixl_xfer *xfer = request_of(agents, op, 0, len, NULL);

    for (unsigned i = 0; i < times; i++) {
        assert_true(nixl_xfer_post(xfer, NULL) >= 0);
        assert_status(nixl_xfer_wait(xfer, 20000), NIXL_SUCCESS);
    }
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

/* Each transfer takes 3 ms at least, by MOCK's clock: so does the estimate. Its kind's word would be 1 us. */
static void cost_of_a_backend_that_cannot_tell_is_that_of_what_it_moved(void **state) {
    struct nixl_param params[] = {{"mute", "yes"}, {"delay_us", "3000"}};
    struct agents agents;
    struct nixl_cost cost;

    agents_begin_with(&agents, NULL, params, 2);
    cost = cost_to_b(&agents, NIXL_WRITE, 4096);
    assert_int_equal(cost.method, NIXL_COST_DECLARED);
    assert_true(cost.duration_ns < 100000);
    run_to_b(&agents, NIXL_WRITE, 4096, 3);
    cost = cost_to_b(&agents, NIXL_WRITE, 4096);
    assert_int_equal(cost.method, NIXL_COST_MEASURED);
    assert_true(cost.duration_ns >= 3000000);
    assert_true(cost.margin_ns > 0);
    /* The other direction moved nothing yet. */
    cost = cost_to_b(&agents, NIXL_READ, 4096);
    assert_int_equal(cost.method, NIXL_COST_DECLARED);
    /* A size that was not seen is told with all of it in doubt. */
    cost = cost_to_b(&agents, NIXL_WRITE, MEMORY);
    assert_int_equal(cost.method, NIXL_COST_MEASURED);
    assert_true(cost.duration_ns >= 3000000);
    assert_true(cost.margin_ns >= cost.duration_ns - 1);
    /* Sizes that differ and take the same: the start is all there is. */
    run_to_b(&agents, NIXL_WRITE, 1, 4);
    run_to_b(&agents, NIXL_WRITE, 65536, 4);
    cost = cost_to_b(&agents, NIXL_WRITE, 1);
    assert_true(cost.duration_ns >= 2000000);
    agents_end(&agents);
}

static void failed_transfers_are_not_what_a_transfer_costs(void **state) {
    struct nixl_param params[] = {{"mute", "yes"}, {"fail_at", "0"}};
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin_with(&agents, NULL, params, 2);
    (void)cost_to_b(&agents, NIXL_WRITE, 64);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    (void)nixl_xfer_post(xfer, NULL);
    assert_true(nixl_xfer_wait(xfer, 5000) < 0);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(cost_to_b(&agents, NIXL_WRITE, 64).method, NIXL_COST_DECLARED);
    agents_end(&agents);
}

/* Of a request that is posted again and again the first four runs are timed, so that it pays for no clock. */
static void only_the_first_runs_of_a_request_are_timed(void **state) {
    struct side_of_test side;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_xfer *xfer;

    side_begin(&side, "A", NULL, "NOOP", NULL, 0, true);
    desc = (struct nixl_desc){(uintptr_t)side.memory, 64, 0};
    assert_status(nixl_xfer_create(side.agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer), NIXL_SUCCESS);
    for (int i = 0; i < 4; i++) {
        assert_true(xfer->is_timed);
        assert_status(nixl_xfer_post(xfer, NULL), NIXL_SUCCESS);
    }
    assert_false(xfer->is_timed);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_SUCCESS);
    assert_false(xfer->is_timed);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    side_end(&side);
}

/* What two clocks measured must be told again: 1000 ns to start and 2 bytes a ns, a block counting 4096 bytes. */
static void estimate_is_the_line_through_what_was_timed(void **state) {
    static const size_t sizes[] = {4096, 65536, 16384, 262144};
    struct side_of_test side;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_cost cost = NIXL_COST_INIT;
    struct nixl_xfer *xfer;

    side_begin(&side, "A", NULL, "NOOP", NULL, 0, true);
    for (int i = 0; i < 4; i++) {
        desc = (struct nixl_desc){(uintptr_t)side.memory, sizes[i], 0};
        assert_status(nixl_xfer_create(side.agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer), NIXL_SUCCESS);
        for (int run = 0; run < 4; run++) {
            cost_note(xfer, 5000, 5000 + 1000 + (sizes[i] + 4096) / 2);
        }
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    }
    desc = (struct nixl_desc){(uintptr_t)side.memory, 32768, 0};
    assert_status(nixl_xfer_create(side.agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_status(nixl_xfer_cost(xfer, &cost), NIXL_SUCCESS);
    assert_int_equal(cost.method, NIXL_COST_MEASURED);
    assert_in_range(cost.duration_ns, 1000 + (32768 + 4096) / 2 - 100, 1000 + (32768 + 4096) / 2 + 100);
    /* Sixteen that agree, faded: a tenth is in doubt. */
    assert_in_range(cost.margin_ns, cost.duration_ns / 20, cost.duration_ns / 5);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    side_end(&side);
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
        cmocka_unit_test(cost_of_what_never_moved_is_declared_by_the_backends_kind),
        cmocka_unit_test(declared_costs_grow_with_the_rank_of_the_backend),
        cmocka_unit_test(cost_of_a_backend_that_cannot_tell_is_that_of_what_it_moved),
        cmocka_unit_test(failed_transfers_are_not_what_a_transfer_costs),
        cmocka_unit_test(only_the_first_runs_of_a_request_are_timed),
        cmocka_unit_test(estimate_is_the_line_through_what_was_timed),
        cmocka_unit_test(state_is_told_without_progress),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
