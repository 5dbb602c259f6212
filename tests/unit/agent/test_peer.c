/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of peers: their state, their failures in words, connecting ahead, names, and their two
 * counts. */
#include "front.h"

static void connecting_ahead_is_begun_waited_for_and_told(void **state) {
    struct agents agents;
    struct nixl_options options = NIXL_OPTIONS_INIT;

    agents_begin(&agents, "connect_us", "20000");
    assert_status(nixl_peer_state(agents.a.agent, "B"), NIXL_SUCCESS);
    assert_status(nixl_peer_connect(agents.a.agent, "B", NULL), NIXL_IN_PROG);
    assert_status(nixl_peer_state(agents.a.agent, "B"), NIXL_IN_PROG);
    options.wait_ms = 5000;
    assert_status(nixl_peer_connect(agents.a.agent, "B", &options), NIXL_SUCCESS);
    assert_status(nixl_peer_state(agents.a.agent, "B"), NIXL_SUCCESS);
    agents_end(&agents);
}

static void waiting_for_a_connection_ends_in_time(void **state) {
    struct agents agents;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    uint64_t start;

    agents_begin(&agents, "connect_us", "60000000");
    options.wait_ms = 30;
    start = clock_now_ns();
    assert_status(nixl_peer_connect(agents.a.agent, "B", &options), NIXL_IN_PROG);
    assert_true(clock_now_ns() - start >= 29 * NS_PER_MS);
    assert_true(clock_now_ns() - start < 5 * NS_PER_S);
    agents_end(&agents);
}

static void only_peers_are_connected_to(void **state) {
    struct agents agents;

    agents_begin(&agents, NULL, NULL);
    assert_status(nixl_peer_connect(agents.a.agent, "A", NULL), NIXL_ERR_NOT_FOUND);
    assert_error("this agent itself");
    assert_status(nixl_peer_connect(agents.a.agent, "C", NULL), NIXL_ERR_NOT_FOUND);
    assert_error("peer connect: peer C is not loaded");
    assert_status(nixl_peer_connect(agents.a.agent, "", NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_peer_connect(agents.a.agent, NULL, NULL), NIXL_ERR_INVALID_PARAM);
    agents_end(&agents);
}

static void a_lost_peer_is_told_in_the_backends_words(void **state) {
    struct agents agents;

    agents_begin(&agents, NULL, NULL);
    assert_string_equal(nixl_peer_error(agents.a.agent, "B"), "");
    assert_true(the_mock()->lose_peer("A", "B", "keepalive timed out"));
    assert_status(nixl_peer_state(agents.a.agent, "B"), NIXL_ERR_REMOTE_DISCONNECT);
    assert_error("keepalive timed out");
    assert_words(nixl_peer_error(agents.a.agent, "B"),
                 "peer B, backend MOCK: keepalive timed out (NIXL_ERR_REMOTE_DISCONNECT)");
    assert_status(nixl_peer_connect(agents.a.agent, "B", NULL), NIXL_ERR_REMOTE_DISCONNECT);
    assert_status(nixl_peer_state(agents.a.agent, "C"), NIXL_ERR_NOT_FOUND);
    assert_string_equal(nixl_peer_error(agents.a.agent, "C"), "");
    agents_end(&agents);
}

static void a_peer_that_died_unnoticed_is_noticed_when_asked_for(void **state) {
    struct agents agents;

    agents_begin(&agents, NULL, NULL);
    assert_true(the_mock()->kill("B"));
    assert_status(nixl_peer_state(agents.a.agent, "B"), NIXL_ERR_REMOTE_DISCONNECT);
    assert_words(nixl_peer_error(agents.a.agent, "B"), "not there any more");
    agents_end(&agents);
}

static void what_carries_bytes_is_told(void **state) {
    struct agents agents;
    struct nixl_backend *noop;

    agents_begin(&agents, NULL, NULL);
    assert_string_equal(nixl_peer_transport(agents.a.agent, "B", NULL), "MOCK memcpy");
    assert_string_equal(nixl_peer_transport(agents.a.agent, "B", agents.a.backend), "MOCK memcpy");
    assert_status(nixl_backend_create(agents.a.agent, "NOOP", NULL, 0, &noop), NIXL_SUCCESS);
    assert_string_equal(nixl_peer_transport(agents.a.agent, "B", noop), "");
    assert_string_equal(nixl_peer_transport(agents.a.agent, "B", agents.b.backend), "");
    assert_string_equal(nixl_peer_transport(agents.a.agent, "C", NULL), "");
    agents_end(&agents);
}

static void peers_are_listed_by_name(void **state) {
    static const char *const names[] = {"zeta", "B", "alpha"};
    struct side_of_test side;
    struct side_of_test others[3];
    struct nixl_names *list;

    side_begin(&side, "A", NULL, "MOCK", NULL, 0, false);
    assert_status(nixl_peer_list(side.agent, &list), NIXL_SUCCESS);
    assert_int_equal(list->count, 0);
    nixl_free(list);
    for (int i = 0; i < 3; i++) {
        side_begin(&others[i], names[i], NULL, "MOCK", NULL, 0, false);
        introduce(side.agent, others[i].agent);
    }
    assert_status(nixl_peer_list(side.agent, &list), NIXL_SUCCESS);
    assert_int_equal(list->count, 3);
    assert_string_equal(list->items[0], "B");
    assert_string_equal(list->items[1], "alpha");
    assert_string_equal(list->items[2], "zeta");
    nixl_free(list);
    assert_status(nixl_peer_list(side.agent, NULL), NIXL_ERR_INVALID_PARAM);
    for (int i = 0; i < 3; i++) {
        side_end(&others[i]);
    }
    side_end(&side);
}

/* A prepared list outlives its peer, and finds out. */
static void a_prepared_list_of_a_forgotten_peer_is_refused(void **state) {
    struct agents agents;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_dlist *local;
    struct nixl_dlist *remote;
    struct nixl_xfer *xfer = (struct nixl_xfer *)1;

    agents_begin(&agents, NULL, NULL);
    desc = (struct nixl_desc){(uintptr_t)agents.a.memory, 64, 0};
    assert_status(nixl_dlist_prepare(agents.a.agent, "", &list, NULL, &local), NIXL_SUCCESS);
    desc.addr = (uintptr_t)agents.b.memory;
    assert_status(nixl_dlist_prepare(agents.a.agent, "B", &list, NULL, &remote), NIXL_SUCCESS);
    assert_status(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 0);
    introduce(agents.a.agent, agents.b.agent);
    assert_status(nixl_xfer_make(agents.a.agent, NIXL_WRITE, local, NULL, remote, NULL, 1, NULL, &xfer),
                  NIXL_ERR_NOT_FOUND);
    assert_null(xfer);
    nixl_dlist_release(remote);
    nixl_dlist_release(local);
    agents_end(&agents);
    assert_nothing_open();
}

static void a_thousand_peers_come_and_go(void **state) {
    struct side_of_test side;
    struct nixl_names *list;
    struct blob plain;
    char name[32];

    side_begin(&side, "A", NULL, "NOOP", NULL, 0, true);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "peer-%d", i);
        plain = blob_plain(side.agent, name);
        assert_int_equal(load_into(side.agent, plain), NIXL_SUCCESS);
    }
    assert_status(nixl_peer_list(side.agent, &list), NIXL_SUCCESS);
    assert_int_equal(list->count, 1000);
    nixl_free(list);
    for (int i = 0; i < 1000; i += 2) {
        snprintf(name, sizeof name, "peer-%d", i);
        assert_int_equal(nixl_metadata_invalidate(side.agent, name), NIXL_SUCCESS);
    }
    assert_status(nixl_metadata_check(side.agent, "peer-0", NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_metadata_check(side.agent, "peer-999", NULL), NIXL_SUCCESS);
    side_end(&side);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(connecting_ahead_is_begun_waited_for_and_told),
        TEST(waiting_for_a_connection_ends_in_time),
        TEST(only_peers_are_connected_to),
        TEST(a_lost_peer_is_told_in_the_backends_words),
        TEST(a_peer_that_died_unnoticed_is_noticed_when_asked_for),
        TEST(what_carries_bytes_is_told),
        TEST(peers_are_listed_by_name),
        TEST(a_prepared_list_of_a_forgotten_peer_is_refused),
        TEST(a_thousand_peers_come_and_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
