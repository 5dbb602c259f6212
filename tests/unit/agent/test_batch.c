/* SPDX-License-Identifier: Apache-2.0 */
/* Several requests posted in one call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agents.h"

#define REQUESTS 20

static void every_request_is_posted_between_one_begin_and_one_end(void **state) {
    struct nixl_xfer *xfers[REQUESTS];
    nixl_status_t statuses[REQUESTS];
    struct agents agents;
    long batches;

    agents_begin(&agents, "progress", "event");
    for (size_t i = 0; i < REQUESTS; i++) {
        xfers[i] = request_of(&agents, NIXL_WRITE, i * 4096, 4096, NULL);
    }
    batches = the_mock()->count("A", "batches");
    assert_int_equal(nixl_xfer_post_all(xfers, REQUESTS, statuses), NIXL_IN_PROG);
    assert_int_equal(the_mock()->count("A", "posts"), REQUESTS);
    assert_int_equal(the_mock()->count("A", "batches"), batches + 1);
    assert_int_equal(the_mock()->count("A", "open_batches"), 0);
    for (size_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(statuses[i], NIXL_IN_PROG);
        assert_status(nixl_xfer_wait(xfers[i], 5000), NIXL_SUCCESS);
        assert_status(nixl_xfer_release(xfers[i]), NIXL_SUCCESS);
    }
    assert_memory_equal(agents.a.memory, agents.b.memory, REQUESTS * 4096);
    agents_end(&agents);
}

/* A NULL in the middle and one that is in flight already: both are told, the others are under way. */
static void failure_of_one_keeps_no_other_from_being_posted(void **state) {
    struct nixl_xfer *xfers[4];
    nixl_status_t statuses[4];
    struct agents agents;

    agents_begin(&agents, "hold", "yes");
    xfers[0] = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
    xfers[1] = NULL;
    xfers[2] = xfers[0];
    xfers[3] = request_of(&agents, NIXL_WRITE, 4096, 4096, NULL);
    assert_int_equal(nixl_xfer_post_all(xfers, 4, statuses), NIXL_ERR_REPOST_ACTIVE);
    assert_words(nixl_error(), "in flight");
    assert_int_equal(statuses[0], NIXL_IN_PROG);
    assert_int_equal(statuses[1], NIXL_ERR_INVALID_PARAM);
    assert_int_equal(statuses[2], NIXL_ERR_REPOST_ACTIVE);
    assert_int_equal(statuses[3], NIXL_IN_PROG);
    assert_int_equal(the_mock()->count("A", "open_batches"), 0);
    the_mock()->set("A", "hold", "no");
    assert_status(nixl_xfer_wait(xfers[0], 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_wait(xfers[3], 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfers[0]), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfers[3]), NIXL_SUCCESS);
    agents_end(&agents);
}

static void nothing_and_null_are_told_apart(void **state) {
    assert_int_equal(nixl_xfer_post_all(NULL, 0, NULL), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_post_all(NULL, 3, NULL), NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "3 requests at NULL");
}

/* What is left of requests whose agent is gone says so. */
static void orphans_are_refused(void **state) {
    struct nixl_xfer *xfers[2];
    struct agents agents;

    agents_begin(&agents, NULL, NULL);
    xfers[0] = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    xfers[1] = request_of(&agents, NIXL_WRITE, 64, 64, NULL);
    agents_end(&agents);
    assert_int_equal(nixl_xfer_post_all(xfers, 2, NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_xfer_release(xfers[0]), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfers[1]), NIXL_SUCCESS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_is_posted_between_one_begin_and_one_end),
        cmocka_unit_test(failure_of_one_keeps_no_other_from_being_posted),
        cmocka_unit_test(nothing_and_null_are_told_apart),
        cmocka_unit_test(orphans_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
