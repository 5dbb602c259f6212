/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications: any bytes, one order, many and large, filtered, outliving their agent, in steady state
 * without heap. */
#include "front.h"

#include <malloc.h>
#include <pthread.h>

static struct nixl_notifs *taken(struct nixl_agent *agent) {
    struct nixl_notifs *notifs;

    assert_status(nixl_notif_take(agent, NULL, &notifs), NIXL_SUCCESS);
    return notifs;
}

static void any_bytes_arrive_whole(void **state) {
    struct agents agents;
    struct nixl_notifs *notifs;

    agents_begin(&agents, NULL, NULL);
    assert_status(nixl_notif_send(agents.a.agent, "B", "a\0b", 3, NULL), NIXL_SUCCESS);
    assert_status(nixl_notif_send(agents.a.agent, "B", NULL, 0, NULL), NIXL_SUCCESS);
    notifs = taken(agents.b.agent);
    assert_non_null(notifs);
    assert_int_equal(notifs->count, 2);
    assert_string_equal(notifs->items[0].agent, "A");
    assert_int_equal(notifs->items[0].len, 3);
    assert_memory_equal(notifs->items[0].msg, "a\0b\0", 4);
    assert_int_equal(notifs->items[1].len, 0);
    assert_memory_equal(notifs->items[1].msg, "\0", 1);
    nixl_notifs_release(notifs);
    assert_null(taken(agents.b.agent));
    nixl_notifs_release(NULL);
    agents_end(&agents);
}

static void an_agent_notifies_itself(void **state) {
    struct agents agents;
    struct nixl_notifs *notifs;

    agents_begin(&agents, NULL, NULL);
    assert_status(nixl_notif_send(agents.a.agent, "A", "me", 2, NULL), NIXL_SUCCESS);
    notifs = taken(agents.a.agent);
    assert_int_equal(notifs->count, 1);
    assert_string_equal(notifs->items[0].agent, "A");
    assert_string_equal(notifs->items[0].msg, "me");
    nixl_notifs_release(notifs);
    assert_null(taken(agents.b.agent));
    agents_end(&agents);
}

/* 3,000 numbers in messages of 0 to 4,000 bytes, taken now and then: more than one slab. */
static void thousands_arrive_once_and_in_order(void **state) {
    struct agents agents;
    static unsigned char msg[4096];
    uint32_t expected = 0;

    agents_begin(&agents, NULL, NULL);
    for (uint32_t i = 0; i < 3000; i++) {
        size_t len = 4 + i * 37 % 4000;

        memset(msg, (int)(i & 0xff), len);
        memcpy(msg, &i, 4);
        assert_status(nixl_notif_send(agents.a.agent, "B", msg, len, NULL), NIXL_SUCCESS);
        if (i % 700 == 699 || i == 2999) {
            struct nixl_notifs *notifs = taken(agents.b.agent);

            for (size_t n = 0; n < notifs->count; n++, expected++) {
                const unsigned char *got = notifs->items[n].msg;
                uint32_t number;

                memcpy(&number, got, 4);
                assert_int_equal(number, expected);
                assert_int_equal(notifs->items[n].len, 4 + expected * 37 % 4000);
                assert_true(notifs->items[n].len == 4 || got[notifs->items[n].len - 1] == (expected & 0xff));
            }
            nixl_notifs_release(notifs);
        }
    }
    assert_int_equal(expected, 3000);
    agents_end(&agents);
}

static void a_megabyte_arrives_and_more_than_the_limit_is_refused(void **state) {
    struct agents agents;
    struct nixl_notifs *notifs;
    size_t len = 1u << 20;
    unsigned char *msg = malloc(len);

    assert_non_null(msg);
    memset(msg, 0x5a, len);
    agents_begin(&agents, NULL, NULL);
    assert_status(nixl_notif_send(agents.a.agent, "B", "first", 5, NULL), NIXL_SUCCESS);
    assert_status(nixl_notif_send(agents.a.agent, "B", msg, len, NULL), NIXL_SUCCESS);
    assert_status(nixl_notif_send(agents.a.agent, "B", "last", 4, NULL), NIXL_SUCCESS);
    notifs = taken(agents.b.agent);
    assert_int_equal(notifs->count, 3);
    assert_int_equal(notifs->items[1].len, len);
    assert_memory_equal(notifs->items[1].msg, msg, len);
    assert_string_equal(notifs->items[2].msg, "last");
    nixl_notifs_release(notifs);
    assert_status(nixl_notif_send(agents.a.agent, "B", msg, (size_t)NIXL_NOTIF_MAX + 1, NULL),
                  NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_notif_send(agents.a.agent, "B", NULL, 1, NULL), NIXL_ERR_INVALID_PARAM);
    agents_end(&agents);
    free(msg);
}

static void what_was_taken_outlives_its_agent(void **state) {
    struct agents agents;
    struct nixl_notifs *one;
    struct nixl_notifs *many;
    char msg[2000];

    memset(msg, 'm', sizeof msg);
    agents_begin(&agents, NULL, NULL);
    assert_status(nixl_notif_send(agents.a.agent, "B", "kept", 4, NULL), NIXL_SUCCESS);
    one = taken(agents.b.agent);
    for (int i = 0; i < 100; i++) {
        assert_status(nixl_notif_send(agents.a.agent, "B", msg, sizeof msg, NULL), NIXL_SUCCESS);
    }
    many = taken(agents.b.agent);
    agents_end(&agents);
    assert_string_equal(one->items[0].msg, "kept");
    assert_int_equal(many->count, 100);
    assert_memory_equal(many->items[99].msg, msg, sizeof msg);
    nixl_notifs_release(many);
    nixl_notifs_release(one);
}

static void unknown_peers_and_agents_without_notifications_are_refused(void **state) {
    struct nixl_param local = {"caps", "LOCAL"};
    struct nixl_notifs *notifs = (struct nixl_notifs *)1;
    struct nixl_backend *backend;
    struct nixl_agent *agent;

    assert_status(nixl_agent_create("x", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_notif_take(agent, NULL, &notifs), NIXL_ERR_BACKEND);
    assert_null(notifs);
    assert_status(nixl_backend_create(agent, "MOCK", &local, 1, &backend), NIXL_SUCCESS);
    assert_status(nixl_notif_take(agent, NULL, &notifs), NIXL_ERR_BACKEND);
    assert_error("carries notifications");
    assert_status(nixl_notif_send(agent, "x", "m", 1, NULL), NIXL_ERR_BACKEND);
    assert_status(nixl_notif_send(agent, "y", "m", 1, NULL), NIXL_ERR_NOT_FOUND);
    assert_error("peer y is not loaded");
    assert_status(nixl_notif_send(agent, "", "m", 1, NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_notif_send(agent, NULL, "m", 1, NULL), NIXL_ERR_INVALID_PARAM);
    nixl_agent_destroy(agent);
}

static void one_backend_that_carries_notifications_suffices_to_take_them(void **state) {
    const struct nixl_param none = {"caps", "LOCAL"};
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_backend *dumb;
    struct nixl_backend *both[2];
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_notifs *notifs = (void *)1;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, false);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, false);
    assert_status(nixl_backend_create(b.agent, "MOCK2", &none, 1, &dumb), NIXL_SUCCESS);
    introduce(a.agent, b.agent);
    options.backends = &dumb;
    options.backend_count = 1;
    assert_status(nixl_notif_take(b.agent, &options, &notifs), NIXL_ERR_BACKEND);
    assert_null(notifs);
    both[0] = dumb;
    both[1] = b.backend;
    options.backends = both;
    options.backend_count = 2;
    for (int hinted = 0; hinted < 2; hinted++) {
        assert_status(nixl_notif_send(a.agent, "B", "still", 5, NULL), NIXL_SUCCESS);
        assert_status(nixl_notif_take(b.agent, hinted == 1 ? &options : NULL, &notifs), NIXL_SUCCESS);
        assert_non_null(notifs);
        assert_int_equal(notifs->count, 1);
        assert_string_equal(notifs->items[0].msg, "still");
        nixl_notifs_release(notifs);
    }
    side_end(&a);
    side_end(&b);
}

static void hints_take_only_what_their_backend_delivered(void **state) {
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_backend *a2;
    struct nixl_backend *b2;
    struct nixl_options by_first = NIXL_OPTIONS_INIT;
    struct nixl_options by_second = NIXL_OPTIONS_INIT;
    struct nixl_notifs *notifs;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, false);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, false);
    assert_status(nixl_backend_create(a.agent, "MOCK2", NULL, 0, &a2), NIXL_SUCCESS);
    assert_status(nixl_backend_create(b.agent, "MOCK2", NULL, 0, &b2), NIXL_SUCCESS);
    introduce(a.agent, b.agent);
    by_first.backends = &a.backend;
    by_first.backend_count = 1;
    by_second.backends = &a2;
    by_second.backend_count = 1;
    assert_status(nixl_notif_send(a.agent, "B", "one", 3, &by_first), NIXL_SUCCESS);
    assert_status(nixl_notif_send(a.agent, "B", "two", 3, &by_second), NIXL_SUCCESS);
    assert_status(nixl_notif_send(a.agent, "B", "three", 5, &by_first), NIXL_SUCCESS);
    by_second.backends = &b2;
    assert_status(nixl_notif_take(b.agent, &by_second, &notifs), NIXL_SUCCESS);
    assert_int_equal(notifs->count, 1);
    assert_string_equal(notifs->items[0].msg, "two");
    nixl_notifs_release(notifs);
    assert_status(nixl_notif_take(b.agent, &by_second, &notifs), NIXL_SUCCESS);
    assert_null(notifs);
    notifs = taken(b.agent);
    assert_int_equal(notifs->count, 2);
    assert_string_equal(notifs->items[0].msg, "one");
    assert_string_equal(notifs->items[1].msg, "three");
    nixl_notifs_release(notifs);
    side_end(&a);
    side_end(&b);
}

static void a_failing_backend_gives_its_words(void **state) {
    struct agents agents;

    agents_begin(&agents, NULL, NULL);
    assert_true(the_mock()->set("A", "fail_notify", "1"));
    assert_true(the_mock()->set("A", "fail_text", "the wire is cut"));
    assert_status(nixl_notif_send(agents.a.agent, "B", "x", 1, NULL), NIXL_ERR_BACKEND);
    assert_error("notify: backend MOCK: the wire is cut");
    agents_end(&agents);
}

static void a_dead_peer_is_told_and_remembered(void **state) {
    struct agents agents;

    agents_begin(&agents, NULL, NULL);
    assert_true(the_mock()->kill("B"));
    assert_status(nixl_notif_send(agents.a.agent, "B", "x", 1, NULL), NIXL_ERR_REMOTE_DISCONNECT);
    assert_status(nixl_peer_state(agents.a.agent, "B"), NIXL_ERR_REMOTE_DISCONNECT);
    assert_words(nixl_peer_error(agents.a.agent, "B"), "not there any more");
    agents_end(&agents);
}

static void senders_without_a_name_are_dropped(void **state) {
    struct agents agents;
    struct nixl_host *host;

    agents_begin(&agents, NULL, NULL);
    log_set_level(LOG_LEVEL_FATAL);
    host = &agents.a.backend->host;
    host->notified(host->ctx, "", 0, "x", 1);
    host->notified(host->ctx, "a\0b", 3, "x", 1);
    assert_null(taken(agents.a.agent));
    log_reset();
    host->notified(host->ctx, "stranger", 8, "x", 1);
    assert_int_equal(notifs_of(agents.a.agent, NULL, 0), 1);
    agents_end(&agents);
}

/* Heap in use must not move while notifications go round. */
static void steady_traffic_takes_no_heap(void **state) {
    struct agents agents;
    struct mallinfo2 before;
    struct mallinfo2 after;

    agents_begin(&agents, NULL, NULL);
    for (int round = 0; round < 2000; round++) {
        struct nixl_notifs *notifs;

        if (round == 1000) {
            before = mallinfo2();
        }
        for (int i = 0; i < 4; i++) {
            assert_int_equal(
                nixl_notif_send(agents.a.agent, "B", "0123456789abcdef0123456789abcdef!", 33, NULL), 0);
        }
        assert_int_equal(nixl_notif_take(agents.b.agent, NULL, &notifs), 0);
        assert_int_equal(notifs->count, 4);
        nixl_notifs_release(notifs);
    }
    after = mallinfo2();
    assert_int_equal(before.uordblks, after.uordblks);
    agents_end(&agents);
}

#define SENDERS 4
#define EACH 500

static void *send_many(void *arg) {
    struct nixl_agent *agent = arg;

    for (uint32_t i = 0; i < EACH; i++) {
        assert_int_equal(nixl_notif_send(agent, "R", &i, sizeof i, NULL), NIXL_SUCCESS);
    }
    return NULL;
}

/* Four agents send at once while their target takes. */
static void each_senders_order_is_kept_among_many(void **state) {
    struct side_of_test receiver;
    struct side_of_test senders[SENDERS];
    pthread_t threads[SENDERS];
    uint32_t next[SENDERS] = {0};
    size_t total = 0;

    side_begin(&receiver, "R", NULL, "MOCK", NULL, 0, false);
    for (int i = 0; i < SENDERS; i++) {
        char name[2] = {(char)('0' + i), '\0'};

        side_begin(&senders[i], name, NULL, "MOCK", NULL, 0, false);
        introduce(senders[i].agent, receiver.agent);
    }
    for (int i = 0; i < SENDERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, send_many, senders[i].agent), 0);
    }
    while (total < SENDERS * EACH) {
        struct nixl_notifs *notifs = taken(receiver.agent);

        for (size_t n = 0; notifs != NULL && n < notifs->count; n++, total++) {
            int from = notifs->items[n].agent[0] - '0';
            uint32_t number;

            memcpy(&number, notifs->items[n].msg, sizeof number);
            assert_int_equal(number, next[from]++);
        }
        nixl_notifs_release(notifs);
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
        side_end(&senders[i]);
    }
    side_end(&receiver);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(any_bytes_arrive_whole),
        TEST(an_agent_notifies_itself),
        TEST(thousands_arrive_once_and_in_order),
        TEST(a_megabyte_arrives_and_more_than_the_limit_is_refused),
        TEST(what_was_taken_outlives_its_agent),
        TEST(unknown_peers_and_agents_without_notifications_are_refused),
        TEST(one_backend_that_carries_notifications_suffices_to_take_them),
        TEST(hints_take_only_what_their_backend_delivered),
        TEST(a_failing_backend_gives_its_words),
        TEST(a_dead_peer_is_told_and_remembered),
        TEST(senders_without_a_name_are_dropped),
        TEST(steady_traffic_takes_no_heap),
        TEST(each_senders_order_is_kept_among_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
