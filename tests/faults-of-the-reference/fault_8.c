/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault 8: in the reference a partial blob without a connection makes a peer that no backend reaches, and asking about it
 * leaves an entry behind that changes what later calls answer.
 */
#include "fault.h"

static void assert_nobody_known(struct nixl_agent *agent) {
    struct nixl_names *names;

    assert_status(nixl_peer_list(agent, &names), NIXL_SUCCESS);
    assert_int_equal(names->count, 0);
    nixl_free(names);
    assert_status(nixl_peer_connect(agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_metadata_invalidate(agent, "B"), NIXL_ERR_NOT_FOUND);
}

static void a_blob_without_a_connection_makes_no_peer(void **state) {
    struct side_of_test a, b;
    struct nixl_desc block;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    block = (struct nixl_desc){(uintptr_t)b.memory, MEMORY, 0};
    assert_status(load_into(a.agent, partial_of(b.agent, &block, 1, false)), NIXL_ERR_NOT_FOUND);
    assert_error("has no connection");
    assert_nobody_known(a.agent);
    assert_status(load_into(a.agent, partial_of(b.agent, &block, 1, true)), NIXL_SUCCESS);
    assert_true(knows(a.agent, "B", b.memory, MEMORY));
    side_end(&a);
    side_end(&b);
}

static void asking_about_a_stranger_leaves_nothing_behind(void **state) {
    struct side_of_test a;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    assert_false(knows(a.agent, "B", a.memory, 64));
    assert_nobody_known(a.agent);
    side_end(&a);
}

static const struct CMUnitTest tests[] = {
    TEST(a_blob_without_a_connection_makes_no_peer),
    TEST(asking_about_a_stranger_leaves_nothing_behind),
};

FAULT_TESTS(tests)
