/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault 4: a list that names one registration twice makes the reference close it twice; a list with a block that is not
 * registered has taken loopback from the others before it is refused.
 */
#include "fault.h"

static void a_block_registered_once_and_named_twice_is_refused(void **state) {
    unsigned char *memory = calloc(1, 64);
    struct nixl_desc twice[2] = {{(uintptr_t)memory, 64, 0}, {(uintptr_t)memory, 64, 0}};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, twice, 2);
    struct agents agents;

    agents_begin(&agents, NULL, NULL);
    register_block(agents.a.agent, memory, 64);
    assert_status(nixl_mem_deregister(agents.a.agent, &list, NULL), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_error_index(), 1);
    assert_int_equal(the_mock()->count("A", "regions"), 2);
    assert_status(loopback(agents.a.agent, agents.a.memory, memory), NIXL_SUCCESS);
    assert_status(deregister_block(agents.a.agent, memory, 64), NIXL_SUCCESS);
    assert_status(deregister_block(agents.a.agent, memory, 64), NIXL_ERR_NOT_FOUND);
    agents_end(&agents);
    assert_nothing_open();
    free(memory);
}

static void a_block_registered_twice_and_named_twice_is_closed_twice(void **state) {
    unsigned char *memory = calloc(1, 64);
    struct nixl_desc twice[2] = {{(uintptr_t)memory, 64, 0}, {(uintptr_t)memory, 64, 0}};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, twice, 2);
    struct agents agents;

    agents_begin(&agents, NULL, NULL);
    assert_status(nixl_mem_register(agents.a.agent, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "regions"), 3);
    assert_status(nixl_mem_deregister(agents.a.agent, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "regions"), 1);
    agents_end(&agents);
    free(memory);
}

static void a_refused_list_takes_nothing_from_loopback(void **state) {
    unsigned char *memory = calloc(2, 64);
    struct nixl_desc blocks[2] = {{(uintptr_t)memory, 64, 0}, {(uintptr_t)memory + 64, 64, 0}};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, blocks, 2);
    struct agents agents;

    agents_begin(&agents, NULL, NULL);
    register_block(agents.a.agent, memory, 64);
    assert_status(nixl_mem_deregister(agents.a.agent, &list, NULL), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_error_index(), 1);
    assert_status(loopback(agents.a.agent, agents.a.memory, memory), NIXL_SUCCESS);
    assert_memory_equal(memory, agents.a.memory, 64);
    agents_end(&agents);
    free(memory);
}

static const struct CMUnitTest tests[] = {
    TEST(a_block_registered_once_and_named_twice_is_refused),
    TEST(a_block_registered_twice_and_named_twice_is_closed_twice),
    TEST(a_refused_list_takes_nothing_from_loopback),
};

FAULT_TESTS(tests)
