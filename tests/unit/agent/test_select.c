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

/* ---- of equal rank: by cost ---- */

/* "A" with MOCK (starts late, fast) and MOCK2 (starts at once, slow), both over its memory: 100 us + 10 bytes a ns
 * against 1 byte a ns by their own words, so that they cost the same at some 111 kB. */
struct rivals {
    struct nixl_agent *agent;
    struct nixl_backend *late, *slow;
    unsigned char *memory;
    struct nixl_dlist *here, *there;
};

static void rivals_begin(struct rivals *r, const char *late_rank, bool slow_is_mute) {
    struct nixl_param late[] = {{"rank", late_rank}, {"delay_us", "100"}, {"cost_speed", "10"}};
    struct nixl_param slow[] = {{"rank", "30"}, {"cost_speed", "1"}, {"mute", slow_is_mute ? "yes" : "no"}};
    struct nixl_desc descs[2];
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 2);

    assert_status(nixl_agent_create("A", NULL, &r->agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(r->agent, "MOCK", late, 3, &r->late), NIXL_SUCCESS);
    assert_status(nixl_backend_create(r->agent, "MOCK2", slow, 3, &r->slow), NIXL_SUCCESS);
    r->memory = calloc(1, MEMORY);
    assert_non_null(r->memory);
    register_block(r->agent, r->memory, MEMORY);
    descs[0] = (struct nixl_desc){(uintptr_t)r->memory, 1000, 0};
    descs[1] = (struct nixl_desc){(uintptr_t)r->memory, 400000, 0};
    assert_status(nixl_dlist_prepare(r->agent, NULL, &list, NULL, &r->here), NIXL_SUCCESS);
    assert_status(nixl_dlist_prepare(r->agent, "A", &list, NULL, &r->there), NIXL_SUCCESS);
}

static void rivals_end(struct rivals *r) {
    nixl_dlist_release(r->here);
    nixl_dlist_release(r->there);
    nixl_agent_destroy(r->agent);
    free(r->memory);
}

static struct nixl_backend *chosen(struct rivals *r, bool by_make, int32_t index,
                                   const struct nixl_options *options) {
    struct nixl_desc desc = {(uintptr_t)r->memory, index == 0 ? 1000 : 400000, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_backend *backend;
    struct nixl_xfer *xfer;

    if (by_make) {
        assert_status(
            nixl_xfer_make(r->agent, NIXL_WRITE, r->here, &index, r->there, &index, 1, options, &xfer),
            NIXL_SUCCESS);
    } else {
        assert_status(nixl_xfer_create(r->agent, NIXL_WRITE, &list, &list, "A", options, &xfer),
                      NIXL_SUCCESS);
    }
    backend = nixl_xfer_backend(xfer);
    /* It is whole: the one not chosen left nothing behind. */
    assert_int_equal(the_mock()->count("A", "requests"), backend == r->late ? 1 : 0);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 10000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "requests"), 0);
    return backend;
}

static void of_equal_ranks_the_cheaper_for_the_request_serves(void **state) {
    struct rivals r;

    rivals_begin(&r, "30", false);
    for (int by_make = 0; by_make < 2; by_make++) {
        assert_ptr_equal(chosen(&r, by_make != 0, 0, NULL), r.slow);
        assert_ptr_equal(chosen(&r, by_make != 0, 1, NULL), r.late);
        /* Again and again. */
        assert_ptr_equal(chosen(&r, by_make != 0, 0, NULL), r.slow);
    }
    rivals_end(&r);
}

static void rank_counts_before_cost(void **state) {
    struct rivals r;

    rivals_begin(&r, "29", false);
    for (int by_make = 0; by_make < 2; by_make++) {
        assert_ptr_equal(chosen(&r, by_make != 0, 0, NULL), r.late);
        assert_ptr_equal(chosen(&r, by_make != 0, 1, NULL), r.late);
    }
    rivals_end(&r);
}

static void where_one_cannot_tell_the_first_created_serves(void **state) {
    struct rivals r;

    rivals_begin(&r, "30", true);
    for (int by_make = 0; by_make < 2; by_make++) {
        assert_ptr_equal(chosen(&r, by_make != 0, 0, NULL), r.late);
    }
    /* The other way round too. */
    the_mock()->set("A", "mute", "yes");
    assert_ptr_equal(chosen(&r, true, 0, NULL), r.late);
    rivals_end(&r);
}

static void what_the_caller_names_counts_before_cost(void **state) {
    struct rivals r;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_backend *hints[2];

    rivals_begin(&r, "30", false);
    hints[0] = r.late;
    hints[1] = r.slow;
    options.backends = hints;
    options.backend_count = 2;
    for (int by_make = 0; by_make < 2; by_make++) {
        assert_ptr_equal(chosen(&r, by_make != 0, 0, &options), r.late);
    }
    rivals_end(&r);
}

static void rival_that_refuses_the_request_leaves_it_to_the_other(void **state) {
    struct rivals r;

    rivals_begin(&r, "30", false);
    the_mock()->set("A", "reject", "yes");
    for (int by_make = 0; by_make < 2; by_make++) {
        assert_ptr_equal(chosen(&r, by_make != 0, 1, NULL), r.slow);
    }
    rivals_end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cheaper_backends_come_first),
        cmocka_unit_test(of_equals_the_first_created_comes_first),
        cmocka_unit_test(hints_come_first_in_their_order_and_once),
        cmocka_unit_test(handle_that_is_not_the_agents_is_not_looked_into),
        cmocka_unit_test(members_beyond_the_callers_struct_are_the_defaults),
        cmocka_unit_test(suggestion_names_plugins_that_would_do),
        cmocka_unit_test(of_equal_ranks_the_cheaper_for_the_request_serves),
        cmocka_unit_test(rank_counts_before_cost),
        cmocka_unit_test(where_one_cannot_tell_the_first_created_serves),
        cmocka_unit_test(what_the_caller_names_counts_before_cost),
        cmocka_unit_test(rival_that_refuses_the_request_leaves_it_to_the_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
