/* SPDX-License-Identifier: Apache-2.0 */
/* The place for carriers of metadata: what is handed to one, and that it may call the library while it works.
 * The carrier here keeps what it is given in this process. */
#include "front.h"

#include "agent/agent.h"

static struct {
    nixl_status_t answer;
    struct blob sent;
    bool is_partial;
    char label[32], ip[32], fetched[32];
    unsigned opened, closed, invalidated;
} carrier;

static nixl_status_t on_open(struct nixl_agent *agent, const struct nixl_agent_config *config, void **state) {
    if (carrier.answer != NIXL_SUCCESS) {
        return fail(carrier.answer, "port %u is taken", config->listen_port);
    }
    carrier.opened++;
    *state = agent;
    return NIXL_SUCCESS;
}

static void on_close(void *state) {
    carrier.closed++;
}

static uint16_t on_port(void *state) {
    return 4711;
}

static nixl_status_t on_send(void *state, const void *blob, size_t len, bool is_partial,
                             const struct nixl_options *options) {
    free(carrier.sent.data);
    carrier.sent.data = malloc(len);
    assert_non_null(carrier.sent.data);
    memcpy(carrier.sent.data, blob, len);
    carrier.sent.len = len;
    carrier.is_partial = is_partial;
    snprintf(carrier.label, sizeof carrier.label, "%s", options->label != NULL ? options->label : "");
    snprintf(carrier.ip, sizeof carrier.ip, "%s", options->ip_addr != NULL ? options->ip_addr : "");
    /* It may call back: no lock is held, in no mode. */
    assert_true(nixl_metadata_generation(state) > 0);
    return carrier.answer != NIXL_SUCCESS ? fail(carrier.answer, "no route") : NIXL_SUCCESS;
}

static nixl_status_t on_fetch(void *state, const char *peer, const struct nixl_options *options) {
    snprintf(carrier.fetched, sizeof carrier.fetched, "%s", peer);
    return nixl_metadata_load(state, carrier.sent.data, carrier.sent.len, NULL);
}

static nixl_status_t on_invalidate(void *state, const struct nixl_options *options) {
    carrier.invalidated++;
    return NIXL_SUCCESS;
}

static void on_last_error(void *state, const char *peer, char *text, size_t size) {
    snprintf(text, size, "connection to %s refused", peer);
}

static const struct agent_exchange exchange = {
    .open = on_open,
    .close = on_close,
    .listen_port = on_port,
    .send = on_send,
    .fetch = on_fetch,
    .invalidate = on_invalidate,
    .last_error = on_last_error,
};

static int carrier_set(void **state) {
    memset(&carrier, 0, sizeof carrier);
    agent_exchange_set(&exchange);
    return 0;
}

static int carrier_unset(void **state) {
    free(carrier.sent.data);
    agent_exchange_set(NULL);
    return 0;
}

static void blobs_go_out_and_come_in_by_a_carrier(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    char *name;

    config.sync = NIXL_SYNC_STRICT;
    config.listen_thread = true;
    side_begin(&a, "A", &config, "MOCK", NULL, 0, true);
    side_begin(&b, "B", &config, "MOCK", NULL, 0, true);
    assert_int_equal(carrier.opened, 2);
    assert_int_equal(nixl_agent_listen_port(a.agent), 4711);
    options.ip_addr = "127.0.0.1";
    options.label = "kv";
    assert_status(nixl_metadata_send(b.agent, &options), NIXL_SUCCESS);
    assert_false(carrier.is_partial);
    assert_string_equal(carrier.ip, "127.0.0.1");
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    assert_error("the last attempt to get its metadata failed: connection to B refused");
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
    assert_string_equal(carrier.fetched, "B");
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_SUCCESS);
    desc = (struct nixl_desc){(uintptr_t)b.memory, MEMORY, 0};
    assert_status(nixl_metadata_send_partial(b.agent, &list, &options), NIXL_SUCCESS);
    assert_true(carrier.is_partial);
    assert_string_equal(carrier.label, "kv");
    assert_status(nixl_metadata_load(a.agent, carrier.sent.data, carrier.sent.len, &name), NIXL_SUCCESS);
    nixl_free(name);
    assert_status(nixl_metadata_invalidate_local(b.agent, NULL), NIXL_SUCCESS);
    assert_int_equal(carrier.invalidated, 1);
    side_end(&a);
    side_end(&b);
    assert_int_equal(carrier.closed, 2);
}

static void what_cannot_be_made_is_not_sent(void **state) {
    struct nixl_agent *agent;
    struct side_of_test a;
    struct nixl_desc desc = {4096, 64, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    assert_status(nixl_agent_create("x", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_metadata_send(agent, NULL), NIXL_ERR_INVALID_PARAM);
    assert_null(carrier.sent.data);
    assert_status(nixl_metadata_fetch(agent, "", NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_metadata_fetch(agent, NULL, NULL), NIXL_ERR_INVALID_PARAM);
    nixl_agent_destroy(agent);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_metadata_send_partial(a.agent, &list, NULL), NIXL_ERR_NOT_FOUND);
    assert_null(carrier.sent.data);
    carrier.answer = NIXL_ERR_BACKEND;
    assert_status(nixl_metadata_send(a.agent, NULL), NIXL_ERR_BACKEND);
    assert_error("send metadata: no route");
    carrier.answer = NIXL_SUCCESS;
    side_end(&a);
}

static void a_carrier_that_cannot_begin_fails_the_agent(void **state) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_agent *agent;

    config.progress_thread = true;
    carrier.answer = NIXL_ERR_BACKEND;
    assert_status(nixl_agent_create("x", &config, &agent), NIXL_ERR_BACKEND);
    assert_error("port 8888 is taken");
    assert_null(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blobs_go_out_and_come_in_by_a_carrier, carrier_set, carrier_unset),
        cmocka_unit_test_setup_teardown(what_cannot_be_made_is_not_sent, carrier_set, carrier_unset),
        cmocka_unit_test_setup_teardown(a_carrier_that_cannot_begin_fails_the_agent, carrier_set,
                                        carrier_unset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
