/* SPDX-License-Identifier: Apache-2.0 */
/* Targets are told of transfers that fail, if the sender asked for it: when, what, and when nobody can be told. */
#include "front.h"

static struct nixl_options told(const char *notif) {
    struct nixl_options options = NIXL_OPTIONS_INIT;

    options.notify_failure = true;
    options.has_notif = notif != NULL;
    options.notif = notif;
    options.notif_len = notif != NULL ? strlen(notif) : 0;
    return options;
}

/* What has arrived at `to`, after progress at `from`; `last` is the last one. */
static size_t arrived(struct nixl_agent *from, struct nixl_agent *to, char *last, size_t size) {
    size_t count = 0;

    last[0] = '\0';
    for (int i = 0; i < 50; i++) {
        (void)nixl_agent_progress(from);
        count += notifs_of(to, last, size);
    }
    return count;
}

static void target_learns_the_status_and_the_notification_that_will_not_come(void **state) {
    struct nixl_options options = told("block 9 is here");
    struct agents agents;
    struct nixl_xfer *xfer;
    char last[200];

    agents_begin(&agents, "fail_at", "0");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, &options);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_ERR_BACKEND);
    assert_int_equal(arrived(agents.a.agent, agents.b.agent, last, sizeof last), 1);
    assert_string_equal(last, "NIXL_FAILED NIXL_ERR_BACKEND\nblock 9 is here");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void post_that_fails_at_once_tells_too(void **state) {
    struct nixl_options options = told(NULL);
    struct agents agents;
    struct nixl_xfer *xfer;
    char last[200];

    agents_begin(&agents, "fail_post", "1");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, &options);
    assert_true(nixl_xfer_post(xfer, NULL) < 0);
    assert_int_equal(arrived(agents.a.agent, agents.b.agent, last, sizeof last), 1);
    assert_string_equal(last, "NIXL_FAILED NIXL_ERR_BACKEND\n");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void canceled_transfer_tells_its_target(void **state) {
    struct nixl_options options = told("x");
    struct agents agents;
    struct nixl_xfer *xfer;
    char last[200];

    agents_begin(&agents, "hold", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, &options);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_true(nixl_xfer_cancel(xfer) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_ERR_CANCELED);
    assert_int_equal(arrived(agents.a.agent, agents.b.agent, last, sizeof last), 1);
    assert_string_equal(last, "NIXL_FAILED NIXL_ERR_CANCELED\nx");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void several_failures_are_told_in_the_order_in_which_they_happened(void **state) {
    struct agents agents;
    struct nixl_xfer *xfers[3];
    struct nixl_notifs *notifs = NULL;

    agents_begin(&agents, "fail_post", "1");
    for (int i = 0; i < 3; i++) {
        const char text[] = {(char)('0' + i), '\0'};
        struct nixl_options options = told(text);

        xfers[i] = request_of(&agents, NIXL_WRITE, 0, 64, &options);
    }
    for (int i = 0; i < 3; i++) {
        char nth[16];

        (void)snprintf(nth, sizeof nth, "%d", i + 1);
        assert_true(the_mock()->set("A", "fail_post", nth));
        assert_true(nixl_xfer_post(xfers[i], NULL) < 0);
        assert_status(nixl_xfer_release(xfers[i]), NIXL_SUCCESS);
    }
    for (int i = 0; i < 50; i++) {
        (void)nixl_agent_progress(agents.a.agent);
        (void)nixl_agent_progress(agents.b.agent);
    }
    assert_status(nixl_notif_take(agents.b.agent, NULL, &notifs), NIXL_SUCCESS);
    assert_non_null(notifs);
    assert_int_equal(notifs->count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(((const char *)notifs->items[i].msg)[notifs->items[i].len - 1], '0' + (int)i);
    }
    nixl_notifs_release(notifs);
    agents_end(&agents);
}

static void agent_that_is_its_own_target_is_told(void **state) {
    struct nixl_options options = told("mine");
    struct side_of_test side;
    struct nixl_param param = {"fail_at", "0"};
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_xfer *xfer;
    char last[200];

    side_begin(&side, "A", NULL, "MOCK", &param, 1, true);
    desc = (struct nixl_desc){(uintptr_t)side.memory, 64, 0};
    assert_status(nixl_xfer_create(side.agent, NIXL_WRITE, &list, &list, "A", &options, &xfer), NIXL_SUCCESS);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_ERR_BACKEND);
    assert_int_equal(arrived(side.agent, side.agent, last, sizeof last), 1);
    assert_string_equal(last, "NIXL_FAILED NIXL_ERR_BACKEND\nmine");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    side_end(&side);
}

static void peer_that_was_removed_is_told_nothing(void **state) {
    struct nixl_options options = told("x");
    struct agents agents;
    struct nixl_xfer *xfer;
    char last[200];

    agents_begin(&agents, "hold", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, &options);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_status(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_ERR_NOT_FOUND);
    assert_int_equal(arrived(agents.a.agent, agents.b.agent, last, sizeof last), 0);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

/* The failure of the transfer stays what it was, and the call in which it is told does not fail. */
static void notice_that_cannot_be_sent_is_nobodys_failure(void **state) {
    struct nixl_options options = told("x");
    struct agents agents;
    struct nixl_xfer *xfer;
    char last[200];

    agents_begin(&agents, "fail_post", "1");
    assert_true(the_mock()->set("A", "fail_notify", "1"));
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, &options);
    assert_true(nixl_xfer_post(xfer, NULL) < 0);
    error_set("what was said before");
    assert_int_equal(arrived(agents.a.agent, agents.b.agent, last, sizeof last), 0);
    assert_words(nixl_error(), "what was said before");
    assert_words(nixl_xfer_error(xfer), "NIXL_ERR_BACKEND");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void backend_without_notifications_tells_nothing(void **state) {
    static const char *const caps = "LOCAL";
    struct nixl_param params[] = {{"caps", caps}, {"fail_post", "1"}};
    struct nixl_options options = told(NULL);
    struct side_of_test side;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_xfer *xfer;

    side_begin(&side, "A", NULL, "MOCK", params, 2, true);
    desc = (struct nixl_desc){(uintptr_t)side.memory, 64, 0};
    assert_status(nixl_xfer_create(side.agent, NIXL_WRITE, &list, &list, "A", &options, &xfer), NIXL_SUCCESS);
    assert_true(nixl_xfer_post(xfer, NULL) < 0);
    assert_null(side.agent->notices.head);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    side_end(&side);
}

/* Notices that nobody sent before the end of the agent go with it. */
static void agent_ends_with_notices_unsent(void **state) {
    struct nixl_options options = told("x");
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, "fail_post", "1");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, &options);
    assert_true(nixl_xfer_post(xfer, NULL) < 0);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
    assert_nothing_open();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(target_learns_the_status_and_the_notification_that_will_not_come),
        TEST(post_that_fails_at_once_tells_too),
        TEST(canceled_transfer_tells_its_target),
        TEST(several_failures_are_told_in_the_order_in_which_they_happened),
        TEST(agent_that_is_its_own_target_is_told),
        TEST(peer_that_was_removed_is_told_nothing),
        TEST(notice_that_cannot_be_sent_is_nobodys_failure),
        TEST(backend_without_notifications_tells_nothing),
        TEST(agent_ends_with_notices_unsent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
