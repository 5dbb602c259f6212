/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault 5: whether a region holds a block. The reference adds where it may overflow, knows storage "to the end" from
 * address 0 only, and loses a large region under small ones that are nested in it.
 */
#include "fault.h"

static struct nixl_agent *agent_with_noop(void) {
    struct nixl_agent *agent;
    struct nixl_backend *backend;

    assert_status(nixl_agent_create("A", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "NOOP", NULL, 0, &backend), NIXL_SUCCESS);
    return agent;
}

static void register_at(struct nixl_agent *agent, nixl_mem_t mem, uint64_t addr, uint64_t len) {
    struct nixl_desc desc = {addr, len, 0};
    struct nixl_list list = NIXL_LIST(mem, &desc, 1);

    assert_status(nixl_mem_register(agent, &list, NULL), NIXL_SUCCESS);
}

static nixl_status_t prepare_at(struct nixl_agent *agent, nixl_mem_t mem, const struct nixl_desc *descs,
                                size_t count) {
    struct nixl_list list = NIXL_LIST(mem, descs, count);
    struct nixl_dlist *dlist;
    nixl_status_t status = nixl_dlist_prepare(agent, "", &list, NULL, &dlist);

    nixl_dlist_release(dlist);
    return status;
}

static void a_block_that_wraps_around_is_in_no_region(void **state) {
    struct nixl_agent *agent = agent_with_noop();
    struct nixl_desc wraps = {0x10010, UINT64_MAX - 8, 0}; /* its end, 2^64 taken off, is 0x10007 */
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &wraps, 1);
    struct nixl_xfer *xfer;

    register_at(agent, DRAM_SEG, 0x10000, 0x1000);
    assert_true(prepare_at(agent, DRAM_SEG, &wraps, 1) < 0);
    assert_true(nixl_xfer_create(agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer) < 0);
    assert_null(xfer);
    assert_true(nixl_metadata_check(agent, "A", &list) < 0);
    nixl_agent_destroy(agent);
}

static void a_file_registered_to_its_end_has_one_from_every_address(void **state) {
    struct nixl_agent *agent = agent_with_noop();
    struct nixl_desc within = {1u << 20, 1u << 30, 0};
    struct nixl_desc before = {4095, 1, 0};

    register_at(agent, FILE_SEG, 4096, 0);
    assert_status(prepare_at(agent, FILE_SEG, &within, 1), NIXL_SUCCESS);
    assert_status(prepare_at(agent, FILE_SEG, &before, 1), NIXL_ERR_NOT_FOUND);
    nixl_agent_destroy(agent);
}

static void a_region_is_found_under_those_nested_in_it(void **state) {
    struct nixl_agent *agent = agent_with_noop();
    const struct nixl_desc behind = {0x17000, 16, 0};
    const struct nixl_desc lists[][2] = {
        {{0x11000, 16, 0}, {0x17000, 16, 0}},
        {{0x17000, 16, 0}, {0x11000, 16, 0}},
        {{0x15000, 16, 0}, {0x17000, 16, 0}},
    };

    register_at(agent, DRAM_SEG, 0x10000, 0x10000);
    register_at(agent, DRAM_SEG, 0x15000, 0x1000);
    assert_status(prepare_at(agent, DRAM_SEG, &behind, 1), NIXL_SUCCESS);
    for (size_t i = 0; i < 3; i++) {
        assert_status(prepare_at(agent, DRAM_SEG, lists[i], 2), NIXL_SUCCESS);
    }
    nixl_agent_destroy(agent);
}

static const struct CMUnitTest tests[] = {
    TEST(a_block_that_wraps_around_is_in_no_region),
    TEST(a_file_registered_to_its_end_has_one_from_every_address),
    TEST(a_region_is_found_under_those_nested_in_it),
};

FAULT_TESTS(tests)
