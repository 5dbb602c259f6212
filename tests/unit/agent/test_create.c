/* SPDX-License-Identifier: Apache-2.0 */
/* Requests from two lists: what is told before what, which backend serves, and that descriptors stay as they
 * are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agents.h"

#define BASE 0x100000u

static struct nixl_agent *agent_new(const char *type, const struct nixl_param *param,
                                    struct nixl_backend **backend) {
    struct nixl_agent *agent;

    assert_status(nixl_agent_create("A", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, type, param, param != NULL ? 1 : 0, backend), NIXL_SUCCESS);
    return agent;
}

static void register_at(struct nixl_agent *agent, uint64_t addr, uint64_t len, struct nixl_backend *backend) {
    struct nixl_desc desc = {addr, len, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_options options = NIXL_OPTIONS_INIT;

    options.backends = &backend;
    options.backend_count = backend != NULL ? 1 : 0;
    assert_status(nixl_mem_register(agent, &list, &options), NIXL_SUCCESS);
}

static void adjoining_descriptors_are_not_merged(void **state) {
    struct nixl_backend *backend;
    struct nixl_agent *agent = agent_new("NOOP", NULL, &backend);
    struct nixl_desc descs[] = {{BASE, 64, 0}, {BASE + 64, 64, 0}};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 2);
    struct nixl_xfer *xfer;

    register_at(agent, BASE, 4096, NULL);
    assert_status(nixl_xfer_create(agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_int_equal(xfer->request.block_count, 2);
    assert_int_equal(xfer->request.total_bytes, 128);
    assert_int_equal(xfer->request.runs[0].len, 64);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    nixl_agent_destroy(agent);
}

static void blocks_of_one_step_share_a_run_and_others_do_not(void **state) {
    struct nixl_backend *backend;
    struct nixl_agent *agent = agent_new("NOOP", NULL, &backend);
    /* 0 to 3 of one step; 4 goes back; 5 of another length; 6 and 7 to one place. */
    struct nixl_desc l[] = {{BASE, 8, 0},       {BASE + 100, 8, 0}, {BASE + 200, 8, 0}, {BASE + 300, 8, 0},
                            {BASE + 250, 8, 0}, {BASE + 400, 9, 0}, {BASE + 500, 8, 0}, {BASE + 600, 8, 0}};
    struct nixl_desc r[] = {{BASE + 1000, 8, 0}, {BASE + 1008, 8, 0}, {BASE + 1016, 8, 0},
                            {BASE + 1024, 8, 0}, {BASE + 1100, 8, 0}, {BASE + 1200, 9, 0},
                            {BASE + 1300, 8, 0}, {BASE + 1300, 8, 0}};
    struct nixl_list local = NIXL_LIST(DRAM_SEG, l, 8);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, r, 8);
    static const uint32_t counts[] = {4, 1, 1, 2};
    static const uint32_t firsts[] = {0, 4, 5, 6};
    struct nixl_xfer *xfer;

    register_at(agent, BASE, 4096, NULL);
    assert_status(nixl_xfer_create(agent, NIXL_WRITE, &local, &remote, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_int_equal(xfer->request.run_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(xfer->request.runs[i].count, counts[i]);
        assert_int_equal(xfer->request.runs[i].first_index, firsts[i]);
    }
    assert_int_equal(xfer->request.runs[0].local_stride, 100);
    assert_int_equal(xfer->request.runs[0].remote_stride, 8);
    assert_int_equal(xfer->request.runs[3].remote_stride, 0);
    assert_int_equal(xfer->request.block_count, 8);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    nixl_agent_destroy(agent);
}

static void strided_and_plain_lists_pair_block_by_block(void **state) {
    struct agents agents;
    struct nixl_strided_desc item = {0, 100, 0, 1000, 7};
    struct nixl_desc blocks[7];
    struct nixl_list local = NIXL_LIST_STRIDED(DRAM_SEG, &item, 1);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, blocks, 7);
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    item.addr = (uintptr_t)agents.a.memory;
    for (size_t i = 0; i < 7; i++) {
        blocks[i] = (struct nixl_desc){(uintptr_t)agents.b.memory + (6 - i) * 200, 100, 0};
    }
    assert_status(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &local, &remote, "B", NULL, &xfer),
                  NIXL_SUCCESS);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    for (size_t i = 0; i < 7; i++) {
        assert_memory_equal(agents.a.memory + i * 1000, agents.b.memory + (6 - i) * 200, 100);
    }
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void scattered_blocks_over_many_regions_reach_their_places(void **state) {
    enum {
        N = 200,
        CELL = 256,
        STEP = 4096
    };
    struct agents agents;
    static struct nixl_desc l[N];
    static struct nixl_desc r[N];
    struct nixl_list local = NIXL_LIST(DRAM_SEG, l, N);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, r, N);
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    assert_status(deregister_block(agents.a.agent, agents.a.memory, MEMORY), NIXL_SUCCESS);
    assert_status(deregister_block(agents.b.agent, agents.b.memory, MEMORY), NIXL_SUCCESS);
    for (size_t i = 0; i < N; i++) {
        register_block(agents.a.agent, agents.a.memory + i * STEP, CELL);
        register_block(agents.b.agent, agents.b.memory + i * STEP, CELL);
        l[i] = (struct nixl_desc){(uintptr_t)agents.a.memory + i * 79 % N * STEP, CELL, 0};
        r[i] = (struct nixl_desc){(uintptr_t)agents.b.memory + i * 37 % N * STEP, CELL, 0};
    }
    introduce(agents.a.agent, agents.b.agent);
    assert_status(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &local, &remote, "B", NULL, &xfer),
                  NIXL_SUCCESS);
    assert_int_equal(xfer->request.block_count, N);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    for (size_t i = 0; i < N; i++) {
        assert_memory_equal((void *)(uintptr_t)l[i].addr, (void *)(uintptr_t)r[i].addr, CELL);
    }
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    r[150].addr += 1;
    assert_int_equal(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &local, &remote, "B", NULL, &xfer),
                     NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_error_index(), 150);
    agents_end(&agents);
}

static void strided_item_out_of_its_region_is_named(void **state) {
    struct nixl_backend *backend;
    struct nixl_agent *agent = agent_new("NOOP", NULL, &backend);
    struct nixl_strided_desc item = {BASE, 64, 0, 1000, 5};
    struct nixl_list list = NIXL_LIST_STRIDED(DRAM_SEG, &item, 1);
    struct nixl_xfer *xfer;

    register_at(agent, BASE, 4096, NULL);
    assert_int_equal(nixl_xfer_create(agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    item.stride = 1010;
    assert_int_equal(nixl_xfer_create(agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_error_index(), 4);
    assert_int_equal(nixl_xfer_create(agent, NIXL_WRITE, &list, &list, "A", NULL, NULL),
                     NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_xfer_create(NULL, NIXL_WRITE, &list, &list, "A", NULL, &xfer),
                     NIXL_ERR_INVALID_PARAM);
    nixl_agent_destroy(agent);
}

static void refusal_of_the_last_backend_is_the_reason(void **state) {
    struct agents agents;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_xfer *xfer;

    agents_begin(&agents, "reject", "yes");
    desc = (struct nixl_desc){(uintptr_t)agents.a.memory, 64, 0};
    assert_int_equal(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer),
                     NIXL_ERR_NOT_SUPPORTED);
    assert_words(nixl_error(), "create: backend MOCK: such a request is not for this backend");
    assert_int_equal(the_mock()->count("A", "requests"), 0);
    agents_end(&agents);
}

static void what_the_lists_alone_show_is_told_before_the_peer_is_looked_up(void **state) {
    struct nixl_backend *backend;
    struct nixl_agent *agent = agent_new("NOOP", NULL, &backend);
    struct nixl_desc two[] = {{BASE, 64, 0}, {BASE + 64, 64, 0}};
    struct nixl_desc other[] = {{BASE, 64, 0}, {BASE + 64, 65, 0}};
    struct nixl_list a = NIXL_LIST(DRAM_SEG, two, 2);
    struct nixl_list b = NIXL_LIST(DRAM_SEG, two, 1);
    struct nixl_list c = NIXL_LIST(DRAM_SEG, other, 2);
    struct nixl_list empty = NIXL_LIST(DRAM_SEG, NULL, 0);
    struct nixl_xfer *xfer = (void *)1;

    register_at(agent, BASE, 4096, NULL);
    assert_int_equal(nixl_xfer_create(agent, NIXL_WRITE, &a, &b, "nobody", NULL, &xfer),
                     NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "2 descriptors on the local side, 1 on the remote side");
    assert_null(xfer);
    assert_int_equal(nixl_xfer_create(agent, NIXL_WRITE, &a, &c, "nobody", NULL, &xfer),
                     NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "create: descriptor 1: 64 bytes on the local side");
    assert_int_equal(nixl_error_index(), 1);
    assert_int_equal(nixl_xfer_create(agent, NIXL_WRITE, &empty, &empty, "nobody", NULL, &xfer),
                     NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_xfer_create(agent, NIXL_WRITE, &a, &a, "nobody", NULL, &xfer), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "peer \"nobody\" is not known");
    nixl_agent_destroy(agent);
}

/* "" is this agent when a list is prepared, and nobody here. */
static void no_name_is_no_peer(void **state) {
    struct nixl_backend *backend;
    struct nixl_agent *agent = agent_new("NOOP", NULL, &backend);
    struct nixl_desc desc = {BASE, 64, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_xfer *xfer = (void *)1;

    register_at(agent, BASE, 4096, NULL);
    assert_int_equal(nixl_xfer_create(agent, NIXL_WRITE, &list, &list, "", NULL, &xfer), NIXL_ERR_NOT_FOUND);
    assert_null(xfer);
    assert_int_equal(nixl_xfer_create(agent, NIXL_WRITE, &list, &list, NULL, NULL, &xfer),
                     NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "no peer is named");
    nixl_agent_destroy(agent);
}

static void uncovered_block_is_named_with_its_side(void **state) {
    struct agents agents;
    struct nixl_desc l[2];
    struct nixl_desc r[2];
    struct nixl_list local = NIXL_LIST(DRAM_SEG, l, 2);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, r, 2);
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    for (size_t i = 0; i < 2; i++) {
        l[i] = (struct nixl_desc){(uintptr_t)agents.a.memory, 64, 0};
        r[i] = (struct nixl_desc){(uintptr_t)agents.b.memory, 64, 0};
    }
    r[1].addr += MEMORY - 1;
    assert_int_equal(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &local, &remote, "B", NULL, &xfer),
                     NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "create: remote side: descriptor 1 (addr 0x");
    assert_words(nixl_error(), "runs past the end");
    assert_int_equal(nixl_error_index(), 1);
    l[0].addr -= 1;
    assert_int_equal(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &local, &remote, "B", NULL, &xfer),
                     NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "local side: descriptor 0 (addr 0x");
    agents_end(&agents);
}

/* The cheaper backend lacks a region: the other one serves; a hint for the cheaper is refused. */
static void backend_that_has_all_regions_serves(void **state) {
    struct nixl_backend *first;
    struct nixl_backend *second;
    struct nixl_agent *agent = agent_new("MOCK", NULL, &first);
    struct nixl_desc descs[] = {{BASE, 64, 0}, {BASE + 8192, 64, 0}};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 2);
    struct nixl_list one = NIXL_LIST(DRAM_SEG, descs, 1);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer;

    assert_status(nixl_backend_create(agent, "MOCK2", NULL, 0, &second), NIXL_SUCCESS);
    register_at(agent, BASE, 4096, NULL);
    register_at(agent, BASE + 8192, 4096, second);
    assert_status(nixl_xfer_create(agent, NIXL_WRITE, &one, &one, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_ptr_equal(nixl_xfer_backend(xfer), first);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_status(nixl_xfer_create(agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_ptr_equal(nixl_xfer_backend(xfer), second);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    options.backends = &first;
    options.backend_count = 1;
    assert_int_equal(nixl_xfer_create(agent, NIXL_WRITE, &list, &list, "A", &options, &xfer),
                     NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "no backend has the blocks of both sides");
    the_mock()->set("A", "reject", "yes");
    assert_status(nixl_xfer_create(agent, NIXL_WRITE, &one, &one, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_ptr_equal(nixl_xfer_backend(xfer), second);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    nixl_agent_destroy(agent);
}

static void memory_and_file_go_together(void **state) {
    struct nixl_param param = {"mems", "DRAM,FILE"};
    struct nixl_backend *backend;
    struct nixl_agent *agent = agent_new("MOCK", &param, &backend);
    static unsigned char out[4096];
    static unsigned char in[4096];
    struct nixl_desc file = {0, 0, 55};
    struct nixl_list files = NIXL_LIST(FILE_SEG, &file, 1);
    struct nixl_desc l = {(uintptr_t)out, sizeof out, 0};
    struct nixl_desc r = {12345, sizeof out, 55};
    struct nixl_list local = NIXL_LIST(DRAM_SEG, &l, 1);
    struct nixl_list remote = NIXL_LIST(FILE_SEG, &r, 1);
    struct nixl_xfer *xfer;

    for (size_t i = 0; i < sizeof out; i++) {
        out[i] = (unsigned char)(i * 13);
    }
    register_block(agent, out, sizeof out);
    register_block(agent, in, sizeof in);
    assert_status(nixl_mem_register(agent, &files, NULL), NIXL_SUCCESS);
    assert_status(nixl_xfer_create(agent, NIXL_WRITE, &local, &remote, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    l.addr = (uintptr_t)in;
    assert_status(nixl_xfer_create(agent, NIXL_READ, &local, &remote, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_memory_equal(in, out, sizeof out);
    nixl_agent_destroy(agent);
}

static void blocks_of_no_bytes_are_allowed(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    xfer = request_of(&agents, NIXL_WRITE, 0, 0, NULL);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static void malformed_options_are_refused(void **state) {
    struct agents agents;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    desc = (struct nixl_desc){(uintptr_t)agents.a.memory, 64, 0};
    options.has_notif = true;
    options.notif_len = 5;
    assert_int_equal(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &list, &list, "A", &options, &xfer),
                     NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "notification of 5 bytes at NULL");
    options.notif = "x";
    options.notif_len = (size_t)NIXL_NOTIF_MAX + 1;
    assert_int_equal(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &list, &list, "A", &options, &xfer),
                     NIXL_ERR_INVALID_PARAM);
    options = (struct nixl_options)NIXL_OPTIONS_INIT;
    options.custom_len = 3;
    assert_int_equal(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &list, &list, "A", &options, &xfer),
                     NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "3 custom bytes at NULL");
    options.custom = "x";
    options.custom_len = (size_t)UINT32_MAX + 1;
    assert_int_equal(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &list, &list, "A", &options, &xfer),
                     NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "4294967296 custom bytes are too many");
    options = (struct nixl_options)NIXL_OPTIONS_INIT;
    options.backend_count = 1;
    assert_int_equal(nixl_xfer_create(agents.a.agent, NIXL_WRITE, &list, &list, "A", &options, &xfer),
                     NIXL_ERR_INVALID_PARAM);
    agents_end(&agents);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adjoining_descriptors_are_not_merged),
        cmocka_unit_test(blocks_of_one_step_share_a_run_and_others_do_not),
        cmocka_unit_test(strided_and_plain_lists_pair_block_by_block),
        cmocka_unit_test(scattered_blocks_over_many_regions_reach_their_places),
        cmocka_unit_test(strided_item_out_of_its_region_is_named),
        cmocka_unit_test(refusal_of_the_last_backend_is_the_reason),
        cmocka_unit_test(what_the_lists_alone_show_is_told_before_the_peer_is_looked_up),
        cmocka_unit_test(no_name_is_no_peer),
        cmocka_unit_test(uncovered_block_is_named_with_its_side),
        cmocka_unit_test(backend_that_has_all_regions_serves),
        cmocka_unit_test(memory_and_file_go_together),
        cmocka_unit_test(blocks_of_no_bytes_are_allowed),
        cmocka_unit_test(malformed_options_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
