/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault 15, of a list of small ones that which this part can have: a notification is sent by the backend that the caller
 * names (in the reference's Python naming one fails).
 */
#include "fault.h"

struct two {
    struct nixl_agent *agent;
    struct nixl_backend *backends[2];
};

static void two_begin(struct two *two, const char *name) {
    static const char *const types[2] = {"MOCK", "MOCK2"};

    assert_status(nixl_agent_create(name, NULL, &two->agent), NIXL_SUCCESS);
    for (unsigned i = 0; i < 2; i++) {
        assert_status(nixl_backend_create(two->agent, types[i], NULL, 0, &two->backends[i]), NIXL_SUCCESS);
    }
}

/* How many notifications have come by one backend. */
static size_t taken(struct two *two, unsigned by) {
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_notifs *notifs;
    size_t count = 0;

    options.backends = &two->backends[by];
    options.backend_count = 1;
    for (unsigned i = 0; i < 20; i++) {
        assert_status(nixl_notif_take(two->agent, &options, &notifs), NIXL_SUCCESS);
        count += notifs != NULL ? notifs->count : 0;
        nixl_notifs_release(notifs);
    }
    return count;
}

static void a_notification_goes_by_the_backend_that_is_named(void **state) {
    struct two a, b;

    two_begin(&a, "A");
    two_begin(&b, "B");
    introduce(a.agent, b.agent);
    for (unsigned by = 0; by < 2; by++) {
        struct nixl_options options = NIXL_OPTIONS_INIT;

        options.backends = &a.backends[by];
        options.backend_count = 1;
        assert_status(nixl_notif_send(a.agent, "B", "hello", 5, &options), NIXL_SUCCESS);
        assert_int_equal(taken(&b, 1 - by), 0);
        assert_int_equal(taken(&b, by), 1);
    }
    nixl_agent_destroy(a.agent);
    nixl_agent_destroy(b.agent);
}

static const struct CMUnitTest tests[] = {
    TEST(a_notification_goes_by_the_backend_that_is_named),
};

FAULT_TESTS(tests)
