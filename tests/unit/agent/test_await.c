/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for whatever happens first: with and without a progress thread, in each way a backend makes progress. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agents.h"

#include <pthread.h>
#include <unistd.h>

static const char *const ways[] = {"event", "own", "wait"};

static void begin(struct agents *agents, bool thread, const char *progress, const char *hold) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_param params[] = {{"progress", progress}, {"hold", hold}};

    config.progress_thread = thread;
    agents_begin_with(agents, &config, params, 2);
}

/* The first call of a thread comes back at once; what has not happened then, wakes. */
static void first_wait(struct nixl_agent *agent, uint64_t *seen) {
    *seen = 0;
    assert_int_equal(nixl_agent_wait(agent, seen, 10000), NIXL_SUCCESS);
    assert_true(*seen != 0);
}

static void *let_go(void *arg) {
    usleep(20000);
    the_mock()->set("A", "hold", "no");
    return NULL;
}

static void end_of_a_request_wakes(void **state) {
    for (int i = 0; i < 6; i++) {
        struct agents agents;
        struct nixl_xfer *xfer;
        pthread_t other;
        uint64_t seen;

        begin(&agents, i >= 3, ways[i % 3], "yes");
        xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
        first_wait(agents.a.agent, &seen);
        for (int round = 0; round < 3; round++) {
            uint64_t before = seen;

            the_mock()->set("A", "hold", "yes");
            assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
            assert_int_equal(pthread_create(&other, NULL, let_go, NULL), 0);
            assert_status(nixl_agent_wait(agents.a.agent, &seen, 10000), NIXL_SUCCESS);
            pthread_join(other, NULL);
            assert_true(seen != before);
            assert_int_equal(nixl_xfer_poll(xfer), NIXL_SUCCESS);
            assert_int_equal(nixl_agent_wait(agents.a.agent, &seen, 0), NIXL_IN_PROG);
        }
        assert_int_equal(the_mock()->count("A", "waits") > 0, i % 3 == 2);
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        agents_end(&agents);
    }
}

/* Between the look and the wait: the end is told by the next call all the same. */
static void end_before_the_wait_is_not_missed(void **state) {
    for (int i = 0; i < 6; i++) {
        struct agents agents;
        struct nixl_xfer *xfer;
        uint64_t seen;

        begin(&agents, i >= 3, ways[i % 3], "no");
        xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
        first_wait(agents.a.agent, &seen);
        assert_true(nixl_xfer_post(xfer, NULL) >= 0);
        assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
        assert_status(nixl_agent_wait(agents.a.agent, &seen, 10000), NIXL_SUCCESS);
        assert_int_equal(nixl_agent_wait(agents.a.agent, &seen, 1), NIXL_IN_PROG);
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        agents_end(&agents);
    }
}

static void a_hundred_requests_end_without_a_poll(void **state) {
    for (int i = 0; i < 6; i++) {
        struct agents agents;
        struct nixl_xfer *xfers[100];
        uint64_t seen = 0;
        int left = 100;

        begin(&agents, i >= 3, ways[i % 3], "no");
        for (size_t n = 0; n < 100; n++) {
            xfers[n] = request_of(&agents, NIXL_WRITE, n * 4096, 4096, NULL);
        }
        assert_true(nixl_xfer_post_all(xfers, 100, NULL) >= 0);
        while (left > 0) {
            assert_status(nixl_agent_wait(agents.a.agent, &seen, 10000), NIXL_SUCCESS);
            left = 0;
            for (size_t n = 0; n < 100; n++) {
                left += __atomic_load_n(&xfers[n]->state, __ATOMIC_ACQUIRE) > 0;
            }
        }
        for (size_t n = 0; n < 100; n++) {
            assert_int_equal(nixl_xfer_poll(xfers[n]), NIXL_SUCCESS);
            assert_status(nixl_xfer_release(xfers[n]), NIXL_SUCCESS);
        }
        agents_end(&agents);
    }
}

struct waiter {
    struct nixl_agent *agent;
    bool is_ready; /* atomic */
    nixl_status_t status;
};

static void *wait_for_any(void *arg) {
    struct waiter *waiter = arg;
    uint64_t seen = 0;

    (void)nixl_agent_wait(waiter->agent, &seen, 10000);
    __atomic_store_n(&waiter->is_ready, true, __ATOMIC_RELEASE);
    waiter->status = nixl_agent_wait(waiter->agent, &seen, 10000);
    return NULL;
}

static void wait_ready(struct waiter *waiters, int count) {
    for (int i = 0; i < count; i++) {
        while (!__atomic_load_n(&waiters[i].is_ready, __ATOMIC_ACQUIRE)) {
            usleep(1000);
        }
    }
    usleep(10000); /* likely asleep; right also if not */
}

/* Nobody at the target makes progress but who waits. */
static void notification_wakes_every_waiter(void **state) {
    for (int i = 0; i < 6; i++) {
        struct nixl_options options = NIXL_OPTIONS_INIT;
        struct agents agents;
        struct waiter waiters[3];
        pthread_t threads[3];
        struct nixl_xfer *xfer;

        begin(&agents, i >= 3, ways[i % 3], "no");
        options.notif = "x";
        options.notif_len = 1;
        options.has_notif = true;
        xfer = request_of(&agents, NIXL_WRITE, 0, 64, &options);
        for (int n = 0; n < 3; n++) {
            waiters[n] = (struct waiter){.agent = agents.b.agent};
            assert_int_equal(pthread_create(&threads[n], NULL, wait_for_any, &waiters[n]), 0);
        }
        wait_ready(waiters, 3);
        assert_true(nixl_xfer_post(xfer, NULL) >= 0);
        assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
        for (int n = 0; n < 3; n++) {
            pthread_join(threads[n], NULL);
            assert_int_equal(waiters[n].status, NIXL_SUCCESS);
        }
        assert_int_equal(notifs_of(agents.b.agent, NULL, 0), 1);
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        agents_end(&agents);
    }
}

/* Another thread fetches the result while this one sleeps on the backend's events. */
static void cancel_by_another_thread_wakes(void **state) {
    for (int i = 0; i < 6; i++) {
        struct agents agents;
        struct waiter waiter;
        struct nixl_xfer *xfer;
        pthread_t other;

        begin(&agents, i >= 3, ways[i % 3], "yes");
        xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
        assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
        waiter = (struct waiter){.agent = agents.a.agent};
        assert_int_equal(pthread_create(&other, NULL, wait_for_any, &waiter), 0);
        wait_ready(&waiter, 1);
        (void)nixl_xfer_cancel(xfer);
        assert_int_equal(nixl_xfer_wait(xfer, 5000), NIXL_ERR_CANCELED);
        pthread_join(other, NULL);
        assert_int_equal(waiter.status, NIXL_SUCCESS);
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        agents_end(&agents);
    }
}

static void deadline_of_a_request_wakes(void **state) {
    for (int i = 0; i < 6; i++) {
        struct nixl_options options = NIXL_OPTIONS_INIT;
        struct agents agents;
        struct nixl_xfer *xfer;
        uint64_t seen;

        begin(&agents, i >= 3, ways[i % 3], "yes");
        options.timeout_ms = 30;
        xfer = request_of(&agents, NIXL_WRITE, 0, 64, &options);
        first_wait(agents.a.agent, &seen);
        assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
        assert_status(nixl_agent_wait(agents.a.agent, &seen, 10000), NIXL_SUCCESS);
        assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_CANCELED);
        assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
        agents_end(&agents);
    }
}

static void time_ends_a_wait_for_nothing(void **state) {
    struct in_time in_time = {.least_ms = 30, .most_ms = 100};
    struct agents agents;
    uint64_t seen;

    begin(&agents, false, "wait", "no");
    first_wait(agents.a.agent, &seen);
    while (in_time_again(&in_time)) {
        uint64_t before = seen;
        uint64_t start = clock_now_ns();

        assert_int_equal(nixl_agent_wait(agents.a.agent, &seen, 30), NIXL_IN_PROG);
        assert_true(seen == before);
        in_time_note(&in_time, start);
    }
    in_time_check(&in_time);
    agents_end(&agents);
}

static void agent_without_backends_can_be_waited_for(void **state) {
    struct nixl_agent *agent;
    uint64_t seen;

    assert_status(nixl_agent_create("lonely", NULL, &agent), NIXL_SUCCESS);
    first_wait(agent, &seen);
    assert_int_equal(nixl_agent_wait(agent, &seen, 5), NIXL_IN_PROG);
    nixl_agent_destroy(agent);
}

static void missing_arguments_are_refused(void **state) {
    struct nixl_agent *agent;
    uint64_t seen = 0;

    assert_int_equal(nixl_agent_wait(NULL, &seen, 0), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_agent_create("A", NULL, &agent), NIXL_SUCCESS);
    assert_int_equal(nixl_agent_wait(agent, NULL, 0), NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "seen is NULL");
    nixl_agent_destroy(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(end_of_a_request_wakes),
        cmocka_unit_test(end_before_the_wait_is_not_missed),
        cmocka_unit_test(a_hundred_requests_end_without_a_poll),
        cmocka_unit_test(notification_wakes_every_waiter),
        cmocka_unit_test(cancel_by_another_thread_wakes),
        cmocka_unit_test(deadline_of_a_request_wakes),
        cmocka_unit_test(time_ends_a_wait_for_nothing),
        cmocka_unit_test(agent_without_backends_can_be_waited_for),
        cmocka_unit_test(missing_arguments_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
