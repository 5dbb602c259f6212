/* SPDX-License-Identifier: Apache-2.0 */
/* Registration: doubles, several backends, hints, all or nothing, transfers in flight; and asking about
 * blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agents.h"

static unsigned char area[16 * 4096];

static struct nixl_backend *add_backend(struct nixl_agent *agent, const char *type, const char *option,
                                        const char *value) {
    struct nixl_param param = {option, value};
    struct nixl_backend *backend;

    assert_status(nixl_backend_create(agent, type, &param, option != NULL ? 1 : 0, &backend), NIXL_SUCCESS);
    return backend;
}

static struct nixl_agent *agent_new(void) {
    struct nixl_agent *agent;

    assert_status(nixl_agent_create("A", NULL, &agent), NIXL_SUCCESS);
    return agent;
}

static void registered_block_is_dropped_once(void **state) {
    struct nixl_agent *agent = agent_new();

    (void)add_backend(agent, "MOCK", NULL, NULL);
    register_block(agent, area, 4096);
    assert_int_equal(the_mock()->count("A", "regions"), 1);
    assert_int_equal(deregister_block(agent, area, 4095), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "deregister: descriptor 0 (addr 0x");
    assert_words(nixl_error(), "4095 bytes, dev 0) is not registered");
    assert_status(deregister_block(agent, area, 4096), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "regions"), 0);
    assert_int_equal(deregister_block(agent, area, 4096), NIXL_ERR_NOT_FOUND);
    nixl_agent_destroy(agent);
}

/* Each registration counts; a block twice in one list drops two and never one twice. */
static void doubled_registrations_are_dropped_one_by_one(void **state) {
    struct nixl_agent *agent = agent_new();
    struct nixl_desc twice[] = {{(uintptr_t)area, 4096, 0}, {(uintptr_t)area, 4096, 0}};
    struct nixl_desc thrice[] = {
        {(uintptr_t)area, 4096, 0}, {(uintptr_t)area, 4096, 0}, {(uintptr_t)area, 4096, 0}};
    struct nixl_list two = NIXL_LIST(DRAM_SEG, twice, 2);
    struct nixl_list three = NIXL_LIST(DRAM_SEG, thrice, 3);

    (void)add_backend(agent, "MOCK", NULL, NULL);
    assert_status(nixl_mem_register(agent, &two, NULL), NIXL_SUCCESS);
    register_block(agent, area, 4096);
    assert_int_equal(the_mock()->count("A", "regions"), 3);
    assert_status(nixl_mem_deregister(agent, &two, NULL), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "regions"), 1);
    assert_int_equal(nixl_mem_deregister(agent, &two, NULL), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_error_index(), 1);
    assert_int_equal(the_mock()->count("A", "regions"), 1);
    assert_status(nixl_mem_register(agent, &two, NULL), NIXL_SUCCESS);
    assert_status(nixl_mem_deregister(agent, &three, NULL), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "regions"), 0);
    nixl_agent_destroy(agent);
}

static void failing_deregistration_changes_nothing(void **state) {
    struct nixl_agent *agent = agent_new();
    struct nixl_desc descs[] = {{(uintptr_t)area, 4096, 0}, {(uintptr_t)area + 8192, 4096, 0}};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 2);
    struct nixl_dlist *dlist;
    struct nixl_list one = NIXL_LIST(DRAM_SEG, descs, 1);

    (void)add_backend(agent, "MOCK", NULL, NULL);
    register_block(agent, area, 4096);
    assert_int_equal(nixl_mem_deregister(agent, &list, NULL), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_error_index(), 1);
    /* Both as local memory and for loopback it is still there. */
    assert_status(nixl_dlist_prepare(agent, NULL, &one, NULL, &dlist), NIXL_SUCCESS);
    nixl_dlist_release(dlist);
    assert_status(nixl_dlist_prepare(agent, "A", &one, NULL, &dlist), NIXL_SUCCESS);
    nixl_dlist_release(dlist);
    assert_status(deregister_block(agent, area, 4096), NIXL_SUCCESS);
    nixl_agent_destroy(agent);
}

static void strided_registration_registers_each_block(void **state) {
    struct nixl_agent *agent = agent_new();
    struct nixl_strided_desc item = {(uintptr_t)area, 100, 0, 4096, 5};
    struct nixl_list list = NIXL_LIST_STRIDED(DRAM_SEG, &item, 1);

    (void)add_backend(agent, "MOCK", NULL, NULL);
    assert_status(nixl_mem_register(agent, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "regions"), 5);
    assert_status(deregister_block(agent, area + 4 * 4096, 100), NIXL_SUCCESS);
    assert_int_equal(nixl_mem_deregister(agent, &list, NULL), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_error_index(), 4);
    assert_int_equal(the_mock()->count("A", "regions"), 4);
    nixl_agent_destroy(agent);
}

static void kind_that_no_backend_takes_is_refused_with_a_hint(void **state) {
    struct nixl_agent *agent = agent_new();
    struct nixl_desc desc = {0, 4096, 1};
    struct nixl_list list = NIXL_LIST(FILE_SEG, &desc, 1);
    struct nixl_backend *backend = add_backend(agent, "MOCK", "mems", "DRAM");
    struct nixl_options options = NIXL_OPTIONS_INIT;

    assert_int_equal(nixl_mem_register(agent, &list, NULL), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "no backend of agent A takes FILE_SEG");
    assert_words(nixl_error(), "MOCK");
    options.backends = &backend;
    options.backend_count = 1;
    assert_int_equal(nixl_mem_register(agent, &list, &options), NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "backend MOCK does not take FILE_SEG");
    nixl_agent_destroy(agent);
}

static void empty_and_malformed_lists_are_refused(void **state) {
    struct nixl_agent *agent = agent_new();
    struct nixl_list empty = NIXL_LIST(DRAM_SEG, NULL, 0);
    struct nixl_desc wraps = {UINT64_MAX - 10, 4096, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &wraps, 1);

    (void)add_backend(agent, "MOCK", NULL, NULL);
    assert_int_equal(nixl_mem_register(agent, &empty, NULL), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_mem_register(agent, NULL, NULL), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_mem_register(agent, &list, NULL), NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "wraps around");
    assert_int_equal(nixl_mem_register(NULL, &list, NULL), NIXL_ERR_INVALID_PARAM);
    nixl_agent_destroy(agent);
}

static void backend_that_refuses_a_block_keeps_none_of_the_list(void **state) {
    struct nixl_agent *agent = agent_new();
    struct nixl_strided_desc item = {(uintptr_t)area, 100, 0, 4096, 5};
    struct nixl_list list = NIXL_LIST_STRIDED(DRAM_SEG, &item, 1);

    (void)add_backend(agent, "MOCK", "fail_region", "3");
    the_mock()->set("A", "fail_text", "too much is pinned");
    assert_int_equal(nixl_mem_register(agent, &list, NULL), NIXL_ERR_BACKEND);
    assert_words(nixl_error(), "register: descriptor 2 (addr 0x");
    assert_words(nixl_error(), "backend MOCK: too much is pinned");
    assert_int_equal(nixl_error_index(), 2);
    assert_int_equal(the_mock()->count("A", "regions"), 0);
    assert_int_equal(nixl_mem_deregister(agent, &list, NULL), NIXL_ERR_NOT_FOUND);
    nixl_agent_destroy(agent);
}

/* One backend of two that takes the block is enough, and only that one has it. */
static void one_backend_of_two_suffices(void **state) {
    struct nixl_agent *agent = agent_new();
    struct nixl_backend *first = add_backend(agent, "MOCK", "fail_region", "1");
    struct nixl_backend *second = add_backend(agent, "MOCK2", NULL, NULL);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_desc desc = {(uintptr_t)area, 4096, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_dlist *dlist;

    assert_status(nixl_mem_register(agent, &list, NULL), NIXL_SUCCESS);
    options.backend_count = 1;
    options.backends = &first;
    assert_int_equal(nixl_dlist_prepare(agent, NULL, &list, &options, &dlist), NIXL_ERR_NOT_FOUND);
    assert_null(dlist);
    options.backends = &second;
    assert_status(nixl_dlist_prepare(agent, NULL, &list, &options, &dlist), NIXL_SUCCESS);
    nixl_dlist_release(dlist);
    assert_status(nixl_mem_deregister(agent, &list, NULL), NIXL_SUCCESS);
    nixl_agent_destroy(agent);
}

static void hinted_deregistration_leaves_the_other_backend_its_region(void **state) {
    struct nixl_agent *agent = agent_new();
    struct nixl_backend *first = add_backend(agent, "MOCK", NULL, NULL);
    struct nixl_backend *second = add_backend(agent, "MOCK2", NULL, NULL);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_desc desc = {(uintptr_t)area, 4096, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_dlist *dlist;

    assert_status(nixl_mem_register(agent, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "regions"), 1);
    options.backend_count = 1;
    options.backends = &first;
    assert_status(nixl_mem_deregister(agent, &list, &options), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "regions"), 0);
    assert_int_equal(nixl_mem_deregister(agent, &list, &options), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "is not registered with backend MOCK");
    options.backends = &second;
    assert_status(nixl_dlist_prepare(agent, NULL, &list, &options, &dlist), NIXL_SUCCESS);
    nixl_dlist_release(dlist);
    assert_status(nixl_mem_deregister(agent, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(nixl_mem_deregister(agent, &list, NULL), NIXL_ERR_NOT_FOUND);
    nixl_agent_destroy(agent);
}

/* Registering succeeds with any backend; dropping with named ones needs all of them. */
static void one_named_backend_without_the_block_fails_the_deregistration(void **state) {
    struct nixl_agent *agent = agent_new();
    struct nixl_backend *both[2] = {add_backend(agent, "MOCK", "fail_region", "1"),
                                    add_backend(agent, "MOCK2", NULL, NULL)};
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_desc desc = {(uintptr_t)area, 4096, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_dlist *dlist;

    options.backends = both;
    options.backend_count = 2;
    assert_status(nixl_mem_register(agent, &list, &options), NIXL_SUCCESS);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(nixl_mem_deregister(agent, &list, &options), NIXL_ERR_NOT_FOUND);
        assert_words(nixl_error(), "is not registered with backend MOCK");
        assert_status(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_SUCCESS);
        nixl_dlist_release(dlist);
        both[0] = both[1];
        both[1] = nixl_backend_find(agent, "MOCK"); /* the other order */
    }
    assert_status(nixl_mem_deregister(agent, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(nixl_mem_deregister(agent, &list, NULL), NIXL_ERR_NOT_FOUND);
    nixl_agent_destroy(agent);
}

static void separate_registrations_with_two_backends_go_together(void **state) {
    struct nixl_agent *agent = agent_new();
    struct nixl_backend *backends[2] = {add_backend(agent, "MOCK", NULL, NULL),
                                        add_backend(agent, "MOCK2", NULL, NULL)};
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_desc desc = {(uintptr_t)area, 4096, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    options.backend_count = 1;
    for (int i = 0; i < 2; i++) {
        options.backends = &backends[i];
        assert_status(nixl_mem_register(agent, &list, &options), NIXL_SUCCESS);
    }
    assert_status(nixl_mem_deregister(agent, &list, NULL), NIXL_SUCCESS);
    for (int i = 0; i < 2; i++) {
        options.backends = &backends[i];
        assert_int_equal(nixl_mem_deregister(agent, &list, &options), NIXL_ERR_NOT_FOUND);
    }
    nixl_agent_destroy(agent);
}

static void backend_of_another_agent_is_refused(void **state) {
    struct agents agents;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_desc desc = {(uintptr_t)area, 4096, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    agents_begin(&agents, NULL, NULL);
    options.backend_count = 1;
    options.backends = &agents.b.backend;
    assert_int_equal(nixl_mem_register(agents.a.agent, &list, &options), NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "not one of this agent's");
    agents_end(&agents);
}

static void region_in_flight_is_not_deregistered(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, "hold", "yes");
    register_block(agents.a.agent, area, sizeof area);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_int_equal(deregister_block(agents.a.agent, agents.a.memory, MEMORY), NIXL_ERR_NOT_ALLOWED);
    assert_words(nixl_error(), "in flight");
    /* One that it does not use may go. */
    assert_status(deregister_block(agents.a.agent, area, sizeof area), NIXL_SUCCESS);
    the_mock()->set("A", "hold", "no");
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(deregister_block(agents.a.agent, agents.a.memory, MEMORY), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

/* Both ends of a loopback transfer are this agent's regions. */
static void target_of_a_loopback_in_flight_is_not_deregistered(void **state) {
    struct agents agents;
    struct nixl_desc l;
    struct nixl_desc r = {(uintptr_t)area, 64, 0};
    struct nixl_list local = NIXL_LIST(DRAM_SEG, &l, 1);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, &r, 1);
    struct nixl_xfer *xfer;

    agents_begin(&agents, "hold", "yes");
    register_block(agents.a.agent, area, sizeof area);
    l = (struct nixl_desc){(uintptr_t)agents.a.memory, 64, 0};
    assert_status(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &local, &remote, "A", NULL, &xfer),
                  NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_int_equal(deregister_block(agents.a.agent, area, sizeof area), NIXL_ERR_NOT_ALLOWED);
    the_mock()->set("A", "hold", "no");
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(deregister_block(agents.a.agent, area, sizeof area), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void files_to_their_end_are_registered_and_dropped_with_length_zero(void **state) {
    struct nixl_agent *agent = agent_new();
    struct nixl_meta_desc item = {0, 0, 3, "a-file", 6};
    struct nixl_list list = NIXL_LIST_META(FILE_SEG, &item, 1);
    struct nixl_desc far = {1 << 20, 4096, 3};
    struct nixl_list part = NIXL_LIST(FILE_SEG, &far, 1);
    struct nixl_dlist *dlist;

    (void)add_backend(agent, "MOCK", "mems", "DRAM,FILE");
    assert_status(nixl_mem_register(agent, &list, NULL), NIXL_SUCCESS);
    assert_status(nixl_dlist_prepare(agent, "A", &part, NULL, &dlist), NIXL_SUCCESS);
    nixl_dlist_release(dlist);
    assert_status(nixl_mem_deregister(agent, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "regions"), 0);
    nixl_agent_destroy(agent);
}

static void storage_to_its_end_is_dropped_by_length_zero_alone(void **state) {
    static const nixl_mem_t kinds[] = {BLK_SEG, OBJ_SEG, FILE_SEG};

    for (int i = 0; i < 3; i++) {
        struct nixl_agent *agent = agent_new();
        struct nixl_meta_desc item = {4096, 0, 7, "name", 4};
        struct nixl_list list = NIXL_LIST_META(kinds[i], &item, 1);
        struct nixl_desc block = {4096, 0, 7};
        struct nixl_list exact = NIXL_LIST(kinds[i], &block, 1);
        struct nixl_dlist *dlist;

        (void)add_backend(agent, "MOCK", "mems", "DRAM,BLK,OBJ,FILE");
        assert_status(nixl_mem_register(agent, &list, NULL), NIXL_SUCCESS);
        block = (struct nixl_desc){UINT64_C(1) << 40, 1u << 20, 7};
        assert_status(nixl_dlist_prepare(agent, NULL, &exact, NULL, &dlist), NIXL_SUCCESS);
        nixl_dlist_release(dlist);
        block = (struct nixl_desc){4095, 1, 7};
        assert_int_equal(nixl_dlist_prepare(agent, NULL, &exact, NULL, &dlist), NIXL_ERR_NOT_FOUND);
        block = (struct nixl_desc){4096, 1, 7};
        assert_int_equal(nixl_mem_deregister(agent, &exact, NULL), NIXL_ERR_NOT_FOUND);
        block.len = UINT64_MAX - 4096;
        assert_int_equal(nixl_mem_deregister(agent, &exact, NULL), NIXL_ERR_NOT_FOUND);
        assert_int_equal(the_mock()->count("A", "regions"), 1);
        block.len = 0;
        assert_status(nixl_mem_deregister(agent, &exact, NULL), NIXL_SUCCESS);
        assert_int_equal(the_mock()->count("A", "regions"), 0);
        nixl_agent_destroy(agent);
    }
}

static void what_is_left_is_deregistered_with_the_agent(void **state) {
    struct nixl_agent *agent = agent_new();
    unsigned char *gone = malloc(4096);

    (void)add_backend(agent, "MOCK", NULL, NULL);
    register_block(agent, gone, 4096);
    free(gone);
    nixl_agent_destroy(agent);
    assert_int_equal(the_mock()->count(NULL, "regions"), 0);
}

static void query_needs_one_backend_that_can_be_asked(void **state) {
    struct nixl_agent *agent = agent_new();
    struct nixl_backend *backends[2] = {add_backend(agent, "MOCK", "mems", "DRAM,FILE"),
                                        add_backend(agent, "NOOP", NULL, NULL)};
    struct nixl_desc desc = {0, 0, 1};
    struct nixl_list list = NIXL_LIST(FILE_SEG, &desc, 1);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_query_results *results = (void *)1;

    assert_int_equal(nixl_mem_query(agent, &list, NULL, &results), NIXL_ERR_INVALID_PARAM);
    assert_null(results);
    assert_words(nixl_error(), "exactly one backend, not 0");
    options.backends = backends;
    options.backend_count = 2;
    assert_int_equal(nixl_mem_query(agent, &list, &options, &results), NIXL_ERR_INVALID_PARAM);
    options.backends = &backends[1];
    options.backend_count = 1;
    assert_int_equal(nixl_mem_query(agent, &list, &options, &results), NIXL_ERR_NOT_SUPPORTED);
    assert_words(nixl_error(), "backend NOOP cannot be asked");
    assert_int_equal(nixl_mem_query(agent, &list, &options, NULL), NIXL_ERR_INVALID_PARAM);
    options.backends = &backends[0];
    list.mem = OBJ_SEG;
    assert_int_equal(nixl_mem_query(agent, &list, &options, &results), NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "query: backend MOCK does not take OBJ_SEG");
    list.mem = FILE_SEG;
    list.size = 1;
    assert_int_equal(nixl_mem_query(agent, &list, &options, &results), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_mem_deregister(agent, &list, NULL), NIXL_ERR_INVALID_PARAM);
    nixl_agent_destroy(agent);
}

static const char *param_of(const struct nixl_params *params, const char *key) {
    for (size_t i = 0; i < params->count; i++) {
        if (strcmp(params->items[i].key, key) == 0) {
            return params->items[i].value;
        }
    }
    return NULL;
}

static void query_tells_of_each_block_whether_it_is_there(void **state) {
    struct nixl_agent *agent = agent_new();
    struct nixl_backend *backend = add_backend(agent, "MOCK", "mems", "DRAM,FILE");
    struct nixl_meta_desc items[] = {
        {0, 0, 1, "no", 2}, {0, 0, 2, "have4096", 8}, {0, 0, 3, NULL, 0}, {0, 0, 4, "have7", 5}};
    struct nixl_list list = NIXL_LIST_META(FILE_SEG, items, 4);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_query_results *results;

    options.backends = &backend;
    options.backend_count = 1;
    assert_status(nixl_mem_query(agent, &list, &options, &results), NIXL_SUCCESS);
    assert_int_equal(results->count, 4);
    assert_false(results->items[0].found);
    assert_int_equal(results->items[0].params.count, 0);
    assert_true(results->items[1].found);
    assert_int_equal(results->items[1].params.count, 2);
    assert_string_equal(param_of(&results->items[1].params, "size"), "4096");
    assert_string_equal(param_of(&results->items[1].params, "mode"), "33188");
    assert_false(results->items[2].found);
    assert_true(results->items[3].found);
    assert_string_equal(param_of(&results->items[3].params, "size"), "7");
    nixl_free(results);
    items[2].meta = "broken";
    items[2].meta_len = 6;
    assert_int_equal(nixl_mem_query(agent, &list, &options, &results), NIXL_ERR_BACKEND);
    assert_null(results);
    assert_words(nixl_error(), "query: backend MOCK: block 2 cannot be asked for");
    list.count = 0;
    assert_status(nixl_mem_query(agent, &list, &options, &results), NIXL_SUCCESS);
    assert_int_equal(results->count, 0);
    nixl_free(results);
    nixl_agent_destroy(agent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registered_block_is_dropped_once),
        cmocka_unit_test(doubled_registrations_are_dropped_one_by_one),
        cmocka_unit_test(failing_deregistration_changes_nothing),
        cmocka_unit_test(strided_registration_registers_each_block),
        cmocka_unit_test(kind_that_no_backend_takes_is_refused_with_a_hint),
        cmocka_unit_test(empty_and_malformed_lists_are_refused),
        cmocka_unit_test(backend_that_refuses_a_block_keeps_none_of_the_list),
        cmocka_unit_test(one_backend_of_two_suffices),
        cmocka_unit_test(hinted_deregistration_leaves_the_other_backend_its_region),
        cmocka_unit_test(one_named_backend_without_the_block_fails_the_deregistration),
        cmocka_unit_test(separate_registrations_with_two_backends_go_together),
        cmocka_unit_test(backend_of_another_agent_is_refused),
        cmocka_unit_test(region_in_flight_is_not_deregistered),
        cmocka_unit_test(target_of_a_loopback_in_flight_is_not_deregistered),
        cmocka_unit_test(files_to_their_end_are_registered_and_dropped_with_length_zero),
        cmocka_unit_test(storage_to_its_end_is_dropped_by_length_zero_alone),
        cmocka_unit_test(what_is_left_is_deregistered_with_the_agent),
        cmocka_unit_test(query_needs_one_backend_that_can_be_asked),
        cmocka_unit_test(query_tells_of_each_block_whether_it_is_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
