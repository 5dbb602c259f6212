/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault 3: the reference polls on, by name, when the peer of a request in flight was forgotten, or replaced by another one
 * of the same name, and reports what the backend makes of it.
 */
#include "fault.h"

static void a_request_in_flight_ends_when_its_peer_is_forgotten(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, "hold", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_status(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    introduce(agents.a.agent, agents.b.agent); /* the name is known again; the request's peer is not */
    assert_status(nixl_xfer_wait(xfer, 2000), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_xfer_error(xfer), "peer removed");
    assert_status(nixl_xfer_poll(xfer), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void a_request_in_flight_ends_when_its_peer_starts_anew(void **state) {
    struct agents agents;
    struct side_of_test anew;
    struct nixl_xfer *xfer;

    agents_begin(&agents, "hold", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    side_begin(&anew, "B", NULL, "MOCK", NULL, 0, true);
    introduce(agents.a.agent, anew.agent);
    assert_status(nixl_xfer_wait(xfer, 2000), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_xfer_error(xfer), "peer replaced");
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    side_end(&anew);
    agents_end(&agents);
}

static const struct CMUnitTest tests[] = {
    TEST(a_request_in_flight_ends_when_its_peer_is_forgotten),
    TEST(a_request_in_flight_ends_when_its_peer_starts_anew),
};

FAULT_TESTS(tests)
