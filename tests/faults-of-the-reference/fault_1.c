/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault 1: prepared lists that outlive what they were prepared for. The reference keeps pointers in them and hands freed
 * metadata to the backend after a peer was forgotten and loaded again, or a region deregistered.
 */
#include "fault.h"

static void a_list_of_a_peer_that_was_loaded_anew_is_refused(void **state) {
    struct agents agents;
    struct nixl_dlist *local, *remote;
    struct nixl_xfer *older, *xfer;

    agents_begin(&agents, NULL, NULL);
    local = prepare_block(agents.a.agent, "", agents.a.memory, 64);
    remote = prepare_block(agents.a.agent, "B", agents.b.memory, 64);
    /* A request of the time before keeps what the backend has of the old peer open. */
    older = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_status(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    introduce(agents.a.agent, agents.b.agent);

    assert_status(nixl_xfer_make(agents.a.agent, NIXL_WRITE, local, NULL, remote, NULL, 1, NULL, &xfer),
                  NIXL_ERR_NOT_FOUND);
    assert_null(xfer);
    assert_error("\"B\" was removed or replaced since the list was prepared");
    assert_status(nixl_xfer_post(older, NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_xfer_release(older), NIXL_SUCCESS);
    nixl_dlist_release(remote);

    /* Prepared anew it works. */
    remote = prepare_block(agents.a.agent, "B", agents.b.memory, 64);
    assert_status(nixl_xfer_make(agents.a.agent, NIXL_WRITE, local, NULL, remote, NULL, 1, NULL, &xfer),
                  NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    nixl_dlist_release(remote);
    nixl_dlist_release(local);
    agents_end(&agents);
}

static void a_list_of_a_deregistered_block_is_refused_though_another_took_its_place(void **state) {
    unsigned char *first = calloc(1, 64);
    unsigned char *second = calloc(1, 64);
    struct agents agents;
    struct nixl_dlist *local, *remote;
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    register_block(agents.a.agent, first, 64);
    local = prepare_block(agents.a.agent, "", first, 64);
    remote = prepare_block(agents.a.agent, "B", agents.b.memory, 64);
    assert_status(deregister_block(agents.a.agent, first, 64), NIXL_SUCCESS);
    register_block(agents.a.agent, second, 64);

    assert_status(nixl_xfer_make(agents.a.agent, NIXL_WRITE, local, NULL, remote, NULL, 1, NULL, &xfer),
                  NIXL_ERR_NOT_FOUND);
    assert_null(xfer);
    assert_error("its region is gone since the list was prepared");
    assert_int_equal(nixl_error_index(), 0);
    nixl_dlist_release(remote);
    nixl_dlist_release(local);
    agents_end(&agents);
    free(first);
    free(second);
}

static void a_list_of_a_region_that_an_update_removed_is_refused(void **state) {
    unsigned char *more = calloc(2, 64);
    struct agents agents;
    struct nixl_dlist *local, *remote;
    struct nixl_xfer *xfer;
    uint64_t generation;

    agents_begin(&agents, NULL, NULL);
    register_block(agents.b.agent, more, 64);
    introduce(agents.a.agent, agents.b.agent);
    local = prepare_block(agents.a.agent, "", agents.a.memory, 64);
    remote = prepare_block(agents.a.agent, "B", more, 64);
    generation = nixl_metadata_generation(agents.b.agent);
    assert_status(deregister_block(agents.b.agent, more, 64), NIXL_SUCCESS);
    register_block(agents.b.agent, more + 64, 64);
    assert_status(load_into(agents.a.agent, update_of(agents.b.agent, generation)), NIXL_SUCCESS);

    assert_status(nixl_xfer_make(agents.a.agent, NIXL_WRITE, local, NULL, remote, NULL, 1, NULL, &xfer),
                  NIXL_ERR_NOT_FOUND);
    assert_null(xfer);
    nixl_dlist_release(remote);
    nixl_dlist_release(local);
    agents_end(&agents);
    free(more);
}

static const struct CMUnitTest tests[] = {
    TEST(a_list_of_a_peer_that_was_loaded_anew_is_refused),
    TEST(a_list_of_a_deregistered_block_is_refused_though_another_took_its_place),
    TEST(a_list_of_a_region_that_an_update_removed_is_refused),
};

FAULT_TESTS(tests)
