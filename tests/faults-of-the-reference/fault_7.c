/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault 7: metadata that fails half way leaves the reference's backends connected to a peer that nobody knows; and what a
 * peer no longer has stays known, however often it is loaded again.
 */
#include "fault.h"

static void metadata_that_fails_half_way_leaves_nothing_open(void **state) {
    struct nixl_param fail_key = {"fail_key", "2"};
    unsigned char *more = calloc(1, 64);
    struct side_of_test a, b;

    side_begin(&a, "A", NULL, "MOCK", &fail_key, 1, true);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    register_block(b.agent, more, 64);
    assert_true(load_into(a.agent, blob_of(b.agent)) < 0);
    assert_error("told to fail");
    assert_int_equal(the_mock()->count("A", "peers"), 0);
    assert_int_equal(the_mock()->count("A", "keys"), 0);
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);

    assert_status(load_into(a.agent, blob_of(b.agent)), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "peers"), 1);
    assert_int_equal(the_mock()->count("A", "keys"), 2);
    side_end(&a);
    side_end(&b);
    free(more);
}

static void what_a_peer_no_longer_has_is_gone_after_a_reload(void **state) {
    unsigned char *more = calloc(1, 64);
    struct agents agents;

    agents_begin(&agents, NULL, NULL);
    register_block(agents.b.agent, more, 64);
    introduce(agents.a.agent, agents.b.agent);
    assert_true(knows(agents.a.agent, "B", more, 64));
    assert_status(deregister_block(agents.b.agent, more, 64), NIXL_SUCCESS);
    introduce(agents.a.agent, agents.b.agent);
    assert_false(knows(agents.a.agent, "B", more, 64));
    assert_true(knows(agents.a.agent, "B", agents.b.memory, MEMORY));
    agents_end(&agents);
    free(more);
}

static const struct CMUnitTest tests[] = {
    TEST(metadata_that_fails_half_way_leaves_nothing_open),
    TEST(what_a_peer_no_longer_has_is_gone_after_a_reload),
};

FAULT_TESTS(tests)
