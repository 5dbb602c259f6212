/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which backends are tried, and options of callers with shorter structs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agents.h"

/* MOCK of rank 30, MOCK2 of rank 10, NOOP of its own. */
static struct nixl_agent *three(struct nixl_backend *backends[3], const char *first, const char *second) {
    struct nixl_param ranks[] = {{"rank", first}, {"rank", second}};
    struct nixl_agent *agent;

    assert_status(nixl_agent_create("A", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "MOCK", &ranks[0], 1, &backends[0]), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "MOCK2", &ranks[1], 1, &backends[1]), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "NOOP", NULL, 0, &backends[2]), NIXL_SUCCESS);
    backends[2]->instance.rank = 20;
    return agent;
}

static void cheaper_backends_come_first(void **state) {
    struct nixl_backend *b[3];
    struct nixl_backend *order[AGENT_BACKENDS];
    struct nixl_agent *agent = three(b, "30", "10");

    assert_int_equal(select_order(agent, NULL, 7, order), 3);
    assert_ptr_equal(order[0], b[1]);
    assert_ptr_equal(order[1], b[2]);
    assert_ptr_equal(order[2], b[0]);
    assert_int_equal(select_order(agent, NULL, 5, order), 2);
    assert_ptr_equal(order[0], b[2]);
    assert_ptr_equal(order[1], b[0]);
    assert_int_equal(select_order(agent, NULL, 0, order), 0);
    nixl_agent_destroy(agent);
}

static void of_equals_the_first_created_comes_first(void **state) {
    struct nixl_backend *b[3];
    struct nixl_backend *order[AGENT_BACKENDS];
    struct nixl_agent *agent = three(b, "20", "20");

    assert_int_equal(select_order(agent, NULL, 7, order), 3);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(order[i], b[i]);
    }
    nixl_agent_destroy(agent);
}

static void hints_come_first_in_their_order_and_once(void **state) {
    struct nixl_backend *b[3];
    struct nixl_backend *order[AGENT_BACKENDS];
    struct nixl_agent *agent = three(b, "30", "10");
    struct nixl_backend *hints[] = {b[0], b[2], b[0]};
    struct nixl_options options = NIXL_OPTIONS_INIT;
    uint32_t mask;

    options.backends = hints;
    options.backend_count = 3;
    assert_status(select_hints(agent, &options, &mask), NIXL_SUCCESS);
    assert_int_equal(mask, 5);
    assert_int_equal(select_order(agent, &options, 7, order), 3);
    assert_ptr_equal(order[0], b[0]);
    assert_ptr_equal(order[1], b[2]);
    assert_ptr_equal(order[2], b[1]);
    assert_int_equal(select_order(agent, &options, mask & 4, order), 1);
    assert_ptr_equal(order[0], b[2]);
    nixl_agent_destroy(agent);
}

static void handle_that_is_not_the_agents_is_not_looked_into(void **state) {
    struct nixl_backend *b[3];
    struct nixl_agent *agent = three(b, "30", "10");
    struct nixl_backend *hints[] = {b[0], (struct nixl_backend *)(uintptr_t)0x10};
    struct nixl_options options = NIXL_OPTIONS_INIT;
    uint32_t mask;

    options.backends = hints;
    options.backend_count = 2;
    assert_int_equal(select_hints(agent, &options, &mask), NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "backend 1 is not one of this agent's");
    hints[1] = NULL;
    assert_int_equal(select_hints(agent, &options, &mask), NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "backend 1 is NULL");
    options.backends = NULL;
    assert_int_equal(select_hints(agent, &options, &mask), NIXL_ERR_INVALID_PARAM);
    assert_status(select_hints(agent, NULL, &mask), NIXL_SUCCESS);
    assert_int_equal(mask, 0);
    nixl_agent_destroy(agent);
}

/* A program compiled against an older header gives a shorter struct. */
static void members_beyond_the_callers_struct_are_the_defaults(void **state) {
    struct nixl_options given = NIXL_OPTIONS_INIT;
    struct nixl_options full;

    given.keep_lists = true;
    given.port = 77;
    given.timeout_ms = 5;
    given.size = offsetof(struct nixl_options, port);
    full = options_full(&given);
    assert_true(full.keep_lists);
    assert_int_equal(full.port, NIXL_DEFAULT_PORT);
    assert_int_equal(full.timeout_ms, 0);
    assert_int_equal(full.size, sizeof full);
    given.size = sizeof given + 64;
    full = options_full(&given);
    assert_int_equal(full.timeout_ms, 5);
    full = options_full(NULL);
    assert_int_equal(full.port, NIXL_DEFAULT_PORT);
    assert_false(full.has_notif);
}

static void suggestion_names_plugins_that_would_do(void **state) {
    struct nixl_agent *agent;

    assert_status(nixl_agent_create("A", NULL, &agent), NIXL_SUCCESS);
    error_set("nothing fits");
    select_suggest(agent, DRAM_SEG, DRAM_SEG, true);
    assert_words(nixl_error(), "nothing fits; plugins that would: ");
    assert_words(nixl_error(), "MOCK");
    nixl_agent_destroy(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cheaper_backends_come_first),
        cmocka_unit_test(of_equals_the_first_created_comes_first),
        cmocka_unit_test(hints_come_first_in_their_order_and_once),
        cmocka_unit_test(handle_that_is_not_the_agents_is_not_looked_into),
        cmocka_unit_test(members_beyond_the_callers_struct_are_the_defaults),
        cmocka_unit_test(suggestion_names_plugins_that_would_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
