/* SPDX-License-Identifier: Apache-2.0 */
/* A request's life: posted, polled, waited for, cancelled, released; its notifications; what stops a post. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agents.h"

#include <pthread.h>
#include <unistd.h>

static void write_and_read_move_the_bytes(void **state) {
    static const char *const ways[] = {"own", "event", "timed", "inline"};

    for (size_t i = 0; i < 4; i++) {
        struct agents agents;
        struct nixl_xfer *xfer;

        agents_begin(&agents, "progress", ways[i]);
        assert_memory_not_equal(agents.a.memory + 4096, agents.b.memory + 4096, 65536);
        xfer = request_of(&agents, NIXL_WRITE, 4096, 65536, NULL);
        assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_NOT_POSTED);
        assert_true(nixl_xfer_post(xfer, NULL) >= 0);
        assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
        assert_memory_equal(agents.a.memory + 4096, agents.b.memory + 4096, 65536);
        assert_int_equal(nixl_xfer_poll(xfer), NIXL_SUCCESS);
        assert_string_equal(nixl_xfer_error(xfer), "");
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        memset(agents.a.memory, 1, 4096);
        xfer = request_of(&agents, NIXL_READ, 0, 4096, NULL);
        assert_true(nixl_xfer_post(xfer, NULL) >= 0);
        while (nixl_xfer_poll(xfer) == NIXL_IN_PROG) {
        }
        assert_int_equal(nixl_xfer_poll(xfer), NIXL_SUCCESS);
        assert_memory_equal(agents.a.memory, agents.b.memory, 4096);
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        agents_end(&agents);
    }
}

static void finished_request_is_posted_again(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
    for (int i = 0; i < 10; i++) {
        memset(agents.a.memory, i, 4096);
        assert_true(nixl_xfer_post(xfer, NULL) >= 0);
        assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
        assert_memory_equal(agents.a.memory, agents.b.memory, 4096);
    }
    assert_int_equal(the_mock()->count("A", "posts"), 10);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void post_in_flight_is_refused_and_changes_nothing(void **state) {
    struct agents agents;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer;
    char last[16];

    agents_begin(&agents, "hold", "yes");
    options.notif = "first";
    options.notif_len = 5;
    options.has_notif = true;
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, &options);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    options.notif = "other";
    assert_int_equal(nixl_xfer_post(xfer, &options), NIXL_ERR_REPOST_ACTIVE);
    assert_words(nixl_error(), "in flight");
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_IN_PROG);
    the_mock()->set("A", "hold", "no");
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_int_equal(notifs_of(agents.b.agent, last, sizeof last), 1);
    assert_string_equal(last, "first");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

/* Options NULL keep the stored notification, options without one drop it: of four posts two notify. */
static void options_without_notification_drop_the_stored_one(void **state) {
    struct agents agents;
    struct nixl_options empty = NIXL_OPTIONS_INIT;
    struct nixl_options hi = NIXL_OPTIONS_INIT;
    const struct nixl_options *posts[4];
    struct nixl_xfer *xfer;

    hi.notif = "hi";
    hi.notif_len = 2;
    hi.has_notif = true;
    posts[0] = &hi;
    posts[1] = NULL;
    posts[2] = &empty;
    posts[3] = NULL;
    agents_begin(&agents, NULL, NULL);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    for (int i = 0; i < 4; i++) {
        assert_true(nixl_xfer_post(xfer, posts[i]) >= 0);
        assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
        assert_int_equal(notifs_of(agents.b.agent, NULL, 0), i < 2 ? 1 : 0);
    }
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void notification_given_when_made_goes_with_each_post(void **state) {
    struct agents agents;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    char bytes[] = "stays";
    char last[16] = "";
    struct nixl_xfer *xfer;

    options.notif = bytes;
    options.notif_len = 5;
    options.has_notif = true;
    agents_begin(&agents, NULL, NULL);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, &options);
    memset(bytes, 'x', 5); /* copied, not kept */
    for (int i = 0; i < 3; i++) {
        assert_true(nixl_xfer_post(xfer, NULL) >= 0);
        assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    }
    assert_int_equal(notifs_of(agents.b.agent, last, sizeof last), 3);
    assert_string_equal(last, "stays");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void loopback_notifies_the_agent_itself(void **state) {
    static const char *const ways[] = {"event", "inline"};

    for (int way = 0; way < 2; way++) {
        struct agents agents;
        struct nixl_options options = NIXL_OPTIONS_INIT;
        struct nixl_desc l;
        struct nixl_desc r;
        struct nixl_list local = NIXL_LIST(DRAM_SEG, &l, 1);
        struct nixl_list remote = NIXL_LIST(DRAM_SEG, &r, 1);
        struct nixl_xfer *xfer;
        char last[16] = "";

        agents_begin(&agents, "progress", ways[way]);
        l = (struct nixl_desc){(uintptr_t)agents.a.memory, 4096, 0};
        r = (struct nixl_desc){(uintptr_t)agents.a.memory + 65536, 4096, 0};
        options.notif = "self";
        options.notif_len = 4;
        options.has_notif = true;
        assert_status(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &local, &remote, "A", &options, &xfer),
                      NIXL_SUCCESS);
        assert_true(nixl_xfer_post(xfer, NULL) >= 0);
        assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
        assert_memory_equal(agents.a.memory, agents.a.memory + 65536, 4096);
        assert_int_equal(notifs_of(agents.a.agent, last, sizeof last), 1);
        assert_string_equal(last, "self");
        assert_int_equal(notifs_of(agents.b.agent, NULL, 0), 0);
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        agents_end(&agents);
    }
}

static void notification_over_a_backend_without_them_is_refused(void **state) {
    struct nixl_param params[] = {{"caps", "LOCAL"}};
    struct side_of_test side;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer;

    side_begin(&side, "A", NULL, "MOCK", params, 1, true);
    struct nixl_desc l = {(uintptr_t)side.memory, 64, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &l, 1);

    options.notif = "no";
    options.notif_len = 2;
    options.has_notif = true;
    assert_int_equal(nixl_xfer_create(side.agent, NIXL_WRITE, &list, &list, "A", &options, &xfer),
                     NIXL_ERR_BACKEND);
    assert_words(nixl_error(), "backend MOCK carries no notifications");
    assert_null(xfer);
    assert_status(nixl_xfer_create(side.agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_post(xfer, &options), NIXL_ERR_BACKEND);
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_NOT_POSTED);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    side_end(&side);
}

static void failure_names_descriptor_backend_and_cause(void **state) {
    struct agents agents;
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    struct nixl_desc l[4];
    struct nixl_desc r[4];
    struct nixl_list local = NIXL_LIST(DRAM_SEG, l, 4);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, r, 4);
    static const size_t places[] = {0, 5000, 70000, 9000}; /* no two of one step: four runs at most */
    struct nixl_xfer *xfer;

    agents_begin(&agents, "fail_at", "1");
    the_mock()->set("A", "fail_text", "the cable is cut");
    for (int i = 0; i < 4; i++) {
        l[i] = (struct nixl_desc){(uintptr_t)agents.a.memory + places[i], (size_t)(100 + i), 0};
        r[i] = (struct nixl_desc){(uintptr_t)agents.b.memory + places[i], (size_t)(100 + i), 0};
    }
    assert_status(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &local, &remote, "B", NULL, &xfer),
                  NIXL_SUCCESS);
    assert_int_equal(xfer->request.run_count, 4);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_ERR_BACKEND);
    assert_words(nixl_xfer_error(xfer), "NIXL_ERR_BACKEND: descriptor 1 (local 0x");
    assert_words(nixl_xfer_error(xfer), "101 bytes): backend MOCK: the cable is cut");
    assert_int_equal(nixl_xfer_failure(xfer, &info), NIXL_ERR_BACKEND);
    assert_int_equal(info.status, NIXL_ERR_BACKEND);
    assert_int_equal(info.index, 1);
    assert_int_equal(info.bytes_done, 100);
    /* It can be posted again, and its words go with the failure. */
    the_mock()->set("A", "fail_at", "-1");
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_string_equal(nixl_xfer_error(xfer), "");
    assert_int_equal(nixl_xfer_failure(xfer, &info), NIXL_SUCCESS);
    assert_int_equal(info.index, NIXL_NO_INDEX);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void failing_post_ends_the_request_and_can_be_repeated(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, "fail_post", "1");
    the_mock()->set("A", "fail_text", "no queue");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_ERR_BACKEND);
    assert_words(nixl_error(), "post: backend MOCK: no queue");
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_BACKEND);
    assert_words(nixl_xfer_error(xfer), "no queue");
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void failing_poll_and_wait_say_why(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, "fail_at", "0");
    the_mock()->set("A", "fail_text", "the cable is cut");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_NOT_POSTED);
    assert_string_equal(nixl_error(), "poll: the request was not posted yet");
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_ERR_BACKEND);
    assert_words(nixl_error(), "wait: NIXL_ERR_BACKEND: descriptor 0 (local 0x");
    assert_words(nixl_error(), "backend MOCK: the cable is cut");
    assert_int_equal(nixl_error_index(), 0);
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_BACKEND);
    assert_words(nixl_error(), "poll: NIXL_ERR_BACKEND: descriptor 0 (local 0x");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void lost_peer_fails_the_request_in_words(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, "hold", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_true(the_mock()->lose_peer("A", "B", "connection reset"));
    assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_ERR_REMOTE_DISCONNECT);
    assert_words(nixl_xfer_error(xfer), "connection reset");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void cancelled_request_says_so(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, "hold", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_cancel(xfer), NIXL_SUCCESS); /* not in flight */
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_NOT_POSTED);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_true(nixl_xfer_cancel(xfer) >= 0);
    assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_ERR_CANCELED);
    assert_words(nixl_xfer_error(xfer), "NIXL_ERR_CANCELED: canceled by the program");
    /* And it can be posted again. */
    the_mock()->set("A", "hold", "no");
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void release_in_flight_cancels_and_frees(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, "hold", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "requests"), 0);
    assert_int_equal(the_mock()->count("A", "active"), 0);
    agents_end(&agents);
}

static void release_that_cannot_end_it_keeps_the_handle(void **state) {
    struct agents agents;
    struct in_time in_time = {.least_ms = 95, .most_ms = 400};
    struct nixl_xfer *xfer;

    agents_begin(&agents, "hold", "yes");
    the_mock()->set("A", "stubborn", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    while (in_time_again(&in_time)) {
        uint64_t begin = clock_now_ns();

        assert_int_equal(nixl_xfer_release(xfer), NIXL_ERR_REPOST_ACTIVE);
        in_time_note(&in_time, begin);
        assert_words(nixl_error(), "release it again");
    }
    in_time_check(&in_time);
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_IN_PROG);
    the_mock()->set("A", "hold", "no");
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void post_after_the_peer_was_removed_or_loaded_anew_is_refused(void **state) {
    struct agents agents;
    struct nixl_xfer *done;
    struct nixl_xfer *fresh;

    agents_begin(&agents, NULL, NULL);
    done = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    fresh = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_true(nixl_xfer_post(done, NULL) >= 0);
    assert_status(nixl_xfer_wait(done, 5000), NIXL_SUCCESS);
    assert_status(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_post(fresh, NULL), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "\"B\" was removed or replaced");
    assert_int_equal(nixl_xfer_poll(fresh), NIXL_ERR_NOT_POSTED);
    introduce(agents.a.agent, agents.b.agent);
    assert_int_equal(nixl_xfer_post(done, NULL), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_xfer_poll(done), NIXL_SUCCESS); /* what it was */
    assert_status(nixl_xfer_release(done), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(fresh), NIXL_SUCCESS);
    done = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_true(nixl_xfer_post(done, NULL) >= 0);
    assert_status(nixl_xfer_wait(done, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(done), NIXL_SUCCESS);
    agents_end(&agents);
}

static void peer_removed_in_flight_ends_its_requests_in_words(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, "hold", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_status(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_xfer_error(xfer), "removed");
    assert_int_equal(the_mock()->count("A", "forced"), 1);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "peers"), 0);
    agents_end(&agents);
}

static void post_after_a_local_region_is_gone_is_refused(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;
    struct nixl_xfer *other;
    static unsigned char more[4096];

    agents_begin(&agents, NULL, NULL);
    register_block(agents.a.agent, more, sizeof more);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    other = request_of(&agents, NIXL_WRITE, 64, 64, NULL);
    /* Another region goes: requests look again and go on. */
    assert_status(deregister_block(agents.a.agent, more, sizeof more), NIXL_SUCCESS);
    assert_true(nixl_xfer_post(other, NULL) >= 0);
    assert_status(nixl_xfer_wait(other, 5000), NIXL_SUCCESS);
    assert_status(deregister_block(agents.a.agent, agents.a.memory, MEMORY), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "local region of the request is no longer registered");
    /* The same block again is another registration. */
    register_block(agents.a.agent, agents.a.memory, MEMORY);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(other), NIXL_SUCCESS);
    agents_end(&agents);
}

static void waiting_ends_when_its_time_is_over(void **state) {
    struct agents agents;
    struct in_time in_time = {.least_ms = 50, .most_ms = 250};
    struct nixl_xfer *xfer;

    agents_begin(&agents, "hold", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_wait(xfer, 1000), NIXL_ERR_NOT_POSTED);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    while (in_time_again(&in_time)) {
        uint64_t begin = clock_now_ns();

        assert_int_equal(nixl_xfer_wait(xfer, 50), NIXL_IN_PROG);
        in_time_note(&in_time, begin);
    }
    in_time_check(&in_time);
    assert_int_equal(nixl_xfer_wait(xfer, 0), NIXL_IN_PROG);
    the_mock()->set("A", "hold", "no");
    assert_status(nixl_xfer_wait(xfer, NIXL_NO_TIMEOUT), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void deadline_cancels_with_words(void **state) {
    for (int thread = 0; thread < 2; thread++) {
        struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
        struct nixl_options options = NIXL_OPTIONS_INIT;
        struct nixl_param param = {"hold", "yes"};
        struct in_time waited = {.least_ms = 90, .most_ms = 200};
        struct in_time polled = {.least_ms = 90, .most_ms = 200};
        struct agents agents;
        struct nixl_xfer *xfer;

        config.progress_thread = thread == 1;
        agents_begin_with(&agents, &config, &param, 1);
        the_mock()->set("A", "stubborn", "yes");
        options.timeout_ms = 100;
        xfer = request_of(&agents, NIXL_WRITE, 0, 64, &options);
        while (in_time_again(&waited)) {
            uint64_t begin = clock_now_ns();

            assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
            assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_ERR_CANCELED);
            in_time_note(&waited, begin);
            assert_words(nixl_xfer_error(xfer), "its deadline of 100 ms passed");
        }
        in_time_check(&waited);
        /* Again: each post has its own time. */
        while (in_time_again(&polled)) {
            uint64_t begin = clock_now_ns();

            assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
            while (nixl_xfer_poll(xfer) == NIXL_IN_PROG) {
                usleep(1000);
            }
            in_time_note(&polled, begin);
            assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_CANCELED);
        }
        in_time_check(&polled);
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        agents_end(&agents);
    }
}

static void stall_cancels_only_while_nothing_moves(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_param params[] = {{"hold", "yes"}, {"progress", "timed"}};
    struct in_time in_time = {.least_ms = 130, .most_ms = 300};
    struct agents agents;
    struct nixl_xfer *xfer;

    config.progress_thread = true;
    config.stall_timeout_ms = 150;
    agents_begin_with(&agents, &config, params, 2);
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
    while (in_time_again(&in_time)) {
        uint64_t begin = clock_now_ns();

        assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
        assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_ERR_CANCELED);
        in_time_note(&in_time, begin);
        assert_words(nixl_xfer_error(xfer), "stalled: nothing moved for 150 ms and peer \"B\" was silent");
    }
    in_time_check(&in_time);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    /* Slow is not stalled: at a byte a round this takes longer than the limit. */
    the_mock()->set("A", "chunk", "1");
    the_mock()->set("A", "hold", "no");
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    while (nixl_xfer_wait(xfer, 10) == NIXL_IN_PROG) {
    }
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    /* And the request's own limit counts before the agent's. */
    the_mock()->set("A", "hold", "yes");
    options.stall_timeout_ms = NIXL_NO_TIMEOUT;
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, &options);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_int_equal(nixl_xfer_wait(xfer, 400), NIXL_IN_PROG);
    the_mock()->set("A", "hold", "no");
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void stall_is_not_told_while_the_peer_is_heard(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_param params[] = {{"hold", "yes"}, {"progress", "timed"}};
    struct agents agents;
    struct nixl_xfer *xfer;
    struct nixl_notifs *notifs;
    uint64_t heard;

    config.progress_thread = true;
    config.stall_timeout_ms = 400;
    agents_begin_with(&agents, &config, params, 2);
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    heard = clock_now_ns();
    for (int i = 0; i < 40; i++) {
        uint64_t before = heard;

        assert_status(nixl_notif_send(agents.b.agent, "A", "here", 4, NULL), NIXL_SUCCESS);
        heard = clock_now_ns();
        if (nixl_xfer_wait(xfer, 20) != NIXL_IN_PROG) {
            /* Only where this thread could not run for so long that the peer was silent indeed. */
            assert_true(clock_now_ns() - before >= 390 * NS_PER_MS);
            assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
            i = 0;
        }
    }
    /* Its own agent's and a stranger's words are no sign of it. */
    heard = clock_now_ns();
    while (clock_now_ns() - heard < 200 * NS_PER_MS) {
        assert_status(nixl_notif_send(agents.a.agent, "A", "alone", 5, NULL), NIXL_SUCCESS);
        (void)nixl_xfer_wait(xfer, 10);
    }
    assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_ERR_CANCELED);
    assert_in_range((clock_now_ns() - heard) / NS_PER_MS, 300, 2000);
    assert_words(nixl_xfer_error(xfer), "peer \"B\" was silent");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    /* One that was forgotten may still send. */
    assert_status(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    assert_status(nixl_notif_send(agents.b.agent, "A", "left", 4, NULL), NIXL_SUCCESS);
    assert_status(nixl_notif_take(agents.a.agent, NULL, &notifs), NIXL_SUCCESS);
    nixl_notifs_release(notifs);
    agents_end(&agents);
}

static void request_outlives_its_agent_and_says_so(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;
    struct nixl_xfer *active;

    agents_begin(&agents, "hold", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    active = request_of(&agents, NIXL_WRITE, 64, 64, NULL);
    assert_int_equal(nixl_xfer_post(active, NULL), NIXL_IN_PROG);
    agents_end(&agents);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "agent was destroyed");
    assert_int_equal(nixl_xfer_poll(active), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_xfer_wait(active, 10), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_xfer_error(active), "the end of its agent");
    assert_null(nixl_xfer_backend(xfer));
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(active), NIXL_SUCCESS);
}

/* What a forked child finds, without the fork. */
static void handles_of_another_process_are_refused(void **state) {
    struct agents agents;
    struct nixl_cost cost = NIXL_COST_INIT;
    struct nixl_xfer *xfer;
    struct nixl_dlist *dlist;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    agents_begin(&agents, NULL, NULL);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    desc = (struct nixl_desc){(uintptr_t)agents.a.memory, 64, 0};
    assert_status(nixl_dlist_prepare(agents.a.agent, NULL, &list, NULL, &dlist), NIXL_SUCCESS);
    agents.a.agent->fork_generation--;
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_ERR_NOT_ALLOWED);
    assert_words(nixl_error(), "was made before fork()");
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_NOT_ALLOWED);
    assert_int_equal(nixl_xfer_wait(xfer, 1), NIXL_ERR_NOT_ALLOWED);
    assert_int_equal(nixl_xfer_cancel(xfer), NIXL_ERR_NOT_ALLOWED);
    assert_int_equal(nixl_xfer_cost(xfer, &cost), NIXL_ERR_NOT_ALLOWED);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_ERR_NOT_ALLOWED);
    assert_string_equal(nixl_xfer_transport(xfer), "MOCK");
    nixl_dlist_release(dlist);
    assert_words(nixl_error(), "was made before fork()");
    agents.a.agent->fork_generation++;
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    nixl_dlist_release(dlist);
    agents_end(&agents);
}

static void agent_that_ends_uses_force_on_what_does_not_let_go(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;
    uint64_t begin;

    agents_begin(&agents, "hold", "yes");
    the_mock()->set("A", "stubborn", "yes");
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    begin = clock_now_ns();
    agents_end(&agents);
    assert_in_range((clock_now_ns() - begin) / NS_PER_MS, 95, 2000);
    assert_int_equal(nixl_xfer_cancel(xfer), NIXL_SUCCESS);
    assert_words(nixl_xfer_error(xfer), "the end of its agent");
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

static void malformed_notifications_are_refused_and_change_nothing(void **state) {
    struct agents agents;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    options.has_notif = true;
    options.notif_len = 4;
    assert_int_equal(nixl_xfer_post(xfer, &options), NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "4 bytes at NULL");
    options.notif = "x";
    options.notif_len = (size_t)NIXL_NOTIF_MAX + 1;
    assert_int_equal(nixl_xfer_post(xfer, &options), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_NOT_POSTED);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_int_equal(notifs_of(agents.b.agent, NULL, 0), 0);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void nulls_are_refused(void **state) {
    assert_int_equal(nixl_xfer_post(NULL, NULL), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_xfer_poll(NULL), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_xfer_wait(NULL, 0), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_xfer_cancel(NULL), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_xfer_release(NULL), NIXL_SUCCESS);
    assert_string_equal(nixl_xfer_error(NULL), "");
    assert_string_equal(nixl_xfer_transport(NULL), "");
    assert_null(nixl_xfer_backend(NULL));
}

/* ---- several threads on one request ---- */

struct hammer {
    struct nixl_xfer *xfer;
    int posts, refused;
    bool stop;
};

static void *hammer_post(void *arg) {
    struct hammer *hammer = arg;

    for (int i = 0; i < 2000; i++) {
        nixl_status_t status = nixl_xfer_post(hammer->xfer, NULL);

        if (status == NIXL_ERR_REPOST_ACTIVE) {
            __atomic_add_fetch(&hammer->refused, 1, __ATOMIC_RELAXED);
        } else {
            assert_true(status >= 0);
            __atomic_add_fetch(&hammer->posts, 1, __ATOMIC_RELAXED);
        }
        (void)nixl_xfer_poll(hammer->xfer);
    }
    return NULL;
}

static void *hammer_cancel(void *arg) {
    struct hammer *hammer = arg;

    while (!__atomic_load_n(&hammer->stop, __ATOMIC_RELAXED)) {
        (void)nixl_xfer_cancel(hammer->xfer);
        (void)nixl_xfer_wait(hammer->xfer, 1);
    }
    return NULL;
}

static void threads_share_one_request(void **state) {
    static const char *const ways[] = {"own", "event", "inline"};

    for (int way = 0; way < 3; way++) {
        for (int sync = 0; sync < 3; sync++) {
            struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
            struct nixl_param param = {"progress", ways[way]};
            struct agents agents;
            struct hammer hammer = {0};
            pthread_t threads[3];

            config.sync = (enum nixl_sync)sync;
            config.progress_thread = way == 1;
            agents_begin_with(&agents, &config, &param, 1);
            hammer.xfer = request_of(&agents, NIXL_WRITE, 0, 256, NULL);
            assert_int_equal(pthread_create(&threads[0], NULL, hammer_post, &hammer), 0);
            assert_int_equal(pthread_create(&threads[1], NULL, hammer_post, &hammer), 0);
            assert_int_equal(pthread_create(&threads[2], NULL, hammer_cancel, &hammer), 0);
            pthread_join(threads[0], NULL);
            pthread_join(threads[1], NULL);
            __atomic_store_n(&hammer.stop, true, __ATOMIC_RELAXED);
            pthread_join(threads[2], NULL);
            assert_true(nixl_xfer_wait(hammer.xfer, 5000) <= 0);
            assert_int_equal(hammer.posts + hammer.refused, 4000);
            assert_int_equal(the_mock()->count("A", "posts"), hammer.posts);
            assert_status(nixl_xfer_release(hammer.xfer), NIXL_SUCCESS);
            agents_end(&agents);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_and_read_move_the_bytes),
        cmocka_unit_test(finished_request_is_posted_again),
        cmocka_unit_test(post_in_flight_is_refused_and_changes_nothing),
        cmocka_unit_test(options_without_notification_drop_the_stored_one),
        cmocka_unit_test(notification_given_when_made_goes_with_each_post),
        cmocka_unit_test(loopback_notifies_the_agent_itself),
        cmocka_unit_test(notification_over_a_backend_without_them_is_refused),
        cmocka_unit_test(failure_names_descriptor_backend_and_cause),
        cmocka_unit_test(failing_post_ends_the_request_and_can_be_repeated),
        cmocka_unit_test(failing_poll_and_wait_say_why),
        cmocka_unit_test(lost_peer_fails_the_request_in_words),
        cmocka_unit_test(cancelled_request_says_so),
        cmocka_unit_test(release_in_flight_cancels_and_frees),
        cmocka_unit_test(release_that_cannot_end_it_keeps_the_handle),
        cmocka_unit_test(post_after_the_peer_was_removed_or_loaded_anew_is_refused),
        cmocka_unit_test(peer_removed_in_flight_ends_its_requests_in_words),
        cmocka_unit_test(post_after_a_local_region_is_gone_is_refused),
        cmocka_unit_test(waiting_ends_when_its_time_is_over),
        cmocka_unit_test(deadline_cancels_with_words),
        cmocka_unit_test(stall_cancels_only_while_nothing_moves),
        cmocka_unit_test(stall_is_not_told_while_the_peer_is_heard),
        cmocka_unit_test(request_outlives_its_agent_and_says_so),
        cmocka_unit_test(handles_of_another_process_are_refused),
        cmocka_unit_test(agent_that_ends_uses_force_on_what_does_not_let_go),
        cmocka_unit_test(malformed_notifications_are_refused_and_change_nothing),
        cmocka_unit_test(nulls_are_refused),
        cmocka_unit_test(threads_share_one_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
