/* SPDX-License-Identifier: Apache-2.0 */
/* Prepared lists: whose memory, which regions, runs or flat, one resolution or several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agents.h"

#define BASE 0x100000u /* NOOP and the index take any address */

static struct nixl_agent *agent_with(const char *type) {
    struct nixl_agent *agent;
    struct nixl_backend *backend;

    assert_status(nixl_agent_create("A", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, type, NULL, 0, &backend), NIXL_SUCCESS);
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

static struct nixl_dlist *prepared(struct nixl_agent *agent, const struct nixl_desc *descs, size_t count) {
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, count);
    struct nixl_dlist *dlist = NULL;

    assert_status(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_SUCCESS);
    assert_int_equal(nixl_dlist_count(dlist), count);
    return dlist;
}

/* addr and len of block i, and whether it joins its predecessor, whichever way the list is kept. */
static struct dlist_entry block_of(const struct nixl_dlist *dlist, size_t i) {
    const struct dlist_view *view = &dlist->views[0];

    if (view->is_flat) {
        return view->entries[i];
    }
    for (size_t r = 0; r < view->run_count; r++) {
        const struct dlist_run *run = &view->runs[r];

        if (i >= run->first && i - run->first < run->count) {
            bool joins = i != run->first && run->stride == run->len;

            return (struct dlist_entry){run->addr + (i - run->first) * run->stride, run->len,
                                        run->region.slot | (joins ? DLIST_JOINS : 0), run->region.generation};
        }
    }
    return (struct dlist_entry){0};
}

static void check_blocks(const struct nixl_dlist *dlist, const struct nixl_desc *descs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct dlist_entry entry = block_of(dlist, i);

        assert_int_equal(entry.addr, descs[i].addr);
        assert_int_equal(entry.len, descs[i].len);
    }
}

static void equal_steps_are_kept_as_one_run(void **state) {
    struct nixl_agent *agent = agent_with("NOOP");
    static struct nixl_desc descs[1000];
    struct nixl_dlist *dlist;

    register_at(agent, BASE, 1 << 20, NULL);
    for (uint64_t i = 0; i < 1000; i++) {
        descs[i] = (struct nixl_desc){BASE + i * 512, 256, 0};
    }
    dlist = prepared(agent, descs, 1000);
    assert_int_equal(dlist->view_count, 1);
    assert_false(dlist->views[0].is_flat);
    assert_int_equal(dlist->views[0].run_count, 1);
    assert_int_equal(dlist->bytes, 256000);
    check_blocks(dlist, descs, 1000);
    nixl_dlist_release(dlist);
    nixl_agent_destroy(agent);
}

static void scattered_blocks_are_kept_flat(void **state) {
    struct nixl_agent *agent = agent_with("NOOP");
    static struct nixl_desc descs[1000];
    struct nixl_dlist *dlist;

    register_at(agent, BASE, 1 << 20, NULL);
    for (uint64_t i = 0; i < 1000; i++) {
        descs[i] = (struct nixl_desc){BASE + i * 7919 % 1000 * 1000, 256, 0};
    }
    dlist = prepared(agent, descs, 1000);
    assert_true(dlist->views[0].is_flat);
    check_blocks(dlist, descs, 1000);
    nixl_dlist_release(dlist);
    nixl_agent_destroy(agent);
}

/* Runs of 8 on average are runs; below that the list is flat, also when that shows late. */
static void average_of_eight_decides(void **state) {
    struct nixl_agent *agent = agent_with("NOOP");
    static struct nixl_desc descs[800];
    struct nixl_dlist *dlist;

    register_at(agent, BASE, 1 << 24, NULL);
    for (uint64_t i = 0; i < 800; i++) {
        /* Each eighth block begins further on. */
        descs[i] = (struct nixl_desc){BASE + i / 8 * 5000 + i % 8 * 100, 100, 0};
    }
    dlist = prepared(agent, descs, 800);
    assert_false(dlist->views[0].is_flat);
    assert_int_equal(dlist->views[0].run_count, 100);
    check_blocks(dlist, descs, 800);
    nixl_dlist_release(dlist);
    descs[799].addr += 7;
    dlist = prepared(agent, descs, 800);
    assert_true(dlist->views[0].is_flat);
    check_blocks(dlist, descs, 800);
    nixl_dlist_release(dlist);
    nixl_agent_destroy(agent);
}

/* Two blocks join when they are neighbours in one dense run: the rule that merging follows. */
static void neighbours_join_only_within_a_dense_run(void **state) {
    struct nixl_agent *agent = agent_with("NOOP");
    /* 0, 30 make a run of step 30, so 40 begins the next one, of step 10; 60 adjoins 50 but has another
     * length; 80 adjoins in another region. */
    static const struct nixl_desc descs[] = {{BASE, 10, 0},      {BASE + 30, 10, 0}, {BASE + 40, 10, 0},
                                             {BASE + 50, 10, 0}, {BASE + 60, 20, 0}, {BASE + 80, 20, 0}};
    static const bool joins[] = {false, false, false, true, false, false};
    struct nixl_dlist *dlist;

    register_at(agent, BASE, 80, NULL);
    register_at(agent, BASE + 80, 80, NULL);
    dlist = prepared(agent, descs, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal((block_of(dlist, i).slot & DLIST_JOINS) != 0, joins[i]);
    }
    nixl_dlist_release(dlist);
    nixl_agent_destroy(agent);
}

static void strided_list_is_the_same_as_its_blocks(void **state) {
    struct nixl_agent *agent = agent_with("NOOP");
    struct nixl_strided_desc items[] = {
        {BASE, 64, 0, 128, 500}, {BASE + 7, 1, 0, 0, 3}, {BASE + 70000, 64, 0, 64, 20}};
    struct nixl_list list = NIXL_LIST_STRIDED(DRAM_SEG, items, 3);
    static struct nixl_desc descs[523];
    struct nixl_dlist *dlist;
    size_t n = 0;

    register_at(agent, BASE, 1 << 20, NULL);
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t b = 0; b < items[i].count; b++) {
            descs[n++] = (struct nixl_desc){items[i].addr + b * items[i].stride, items[i].len, 0};
        }
    }
    assert_int_equal(n, 523);
    assert_status(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_SUCCESS);
    assert_int_equal(nixl_dlist_count(dlist), 523);
    assert_int_equal(dlist->bytes, 500 * 64 + 3 + 20 * 64);
    check_blocks(dlist, descs, 523);
    nixl_dlist_release(dlist);
    nixl_agent_destroy(agent);
}

static void strided_item_over_several_regions_takes_each_block_from_its_own(void **state) {
    struct nixl_agent *agent = agent_with("NOOP");
    struct nixl_strided_desc item = {BASE + 8, 16, 0, 4096, 40};
    struct nixl_list list = NIXL_LIST_STRIDED(DRAM_SEG, &item, 1);
    struct nixl_dlist *dlist;

    for (uint64_t i = 0; i < 40; i++) {
        register_at(agent, BASE + i * 4096, 64, NULL);
    }
    assert_status(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_SUCCESS);
    for (size_t i = 0; i < 40; i++) {
        assert_int_equal(block_of(dlist, i).addr, BASE + i * 4096 + 8);
    }
    nixl_dlist_release(dlist);
    item.count = 41;
    assert_int_equal(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_error_index(), 40);
    nixl_agent_destroy(agent);
}

static void block_in_no_region_or_two_is_named(void **state) {
    struct nixl_agent *agent = agent_with("NOOP");
    struct nixl_desc descs[] = {{BASE, 100, 0}, {BASE + 950, 100, 0}, {BASE + 5000, 1, 0}};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 3);
    struct nixl_dlist *dlist = (void *)1;

    register_at(agent, BASE, 1000, NULL);
    register_at(agent, BASE + 1000, 1000, NULL);
    assert_int_equal(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_ERR_NOT_FOUND);
    assert_null(dlist);
    assert_int_equal(nixl_error_index(), 1);
    assert_words(nixl_error(),
                 "prepare: descriptor 1 (addr 0x1003b6, 100 bytes, dev 0) spans two DRAM_SEG regions");
    assert_words(nixl_error(), "[0x100000, 0x1003e8) and [0x1003e8, 0x1007d0)");
    descs[1].addr = BASE;
    assert_int_equal(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_error_index(), 2);
    assert_words(nixl_error(), "is in no DRAM_SEG region registered by this agent");
    nixl_agent_destroy(agent);
}

static void each_block_of_a_scattered_list_has_its_own_region(void **state) {
    enum {
        N = 500
    };
    struct nixl_agent *agent = agent_with("NOOP");
    static struct nixl_desc descs[N];
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, N);
    struct nixl_dlist *dlist;

    for (uint64_t i = 0; i < N; i++) {
        register_at(agent, BASE + i * 4096, 256, NULL);
        descs[i] = (struct nixl_desc){BASE + i * 7919 % N * 4096 + 16, 64, 0};
    }
    dlist = prepared(agent, descs, N);
    check_blocks(dlist, descs, N);
    for (size_t i = 0; i < N; i++) {
        struct dlist_entry entry = block_of(dlist, i);
        struct region_id id = {entry.slot & ~DLIST_JOINS, entry.generation};

        assert_true(region_holds(region_set_get(&agent->regions, id), &descs[i]));
    }
    nixl_dlist_release(dlist);
    descs[333].addr += 256;
    assert_int_equal(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_error_index(), 333);
    nixl_agent_destroy(agent);
}

static void malformed_blocks_are_told_from_unregistered_ones(void **state) {
    struct nixl_agent *agent = agent_with("NOOP");
    struct nixl_desc descs[] = {{BASE, 10, 0}, {UINT64_MAX - 5, 10, 0}};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 2);
    struct nixl_desc files[] = {{0, UINT64_MAX / 2, 1}, {0, UINT64_MAX / 2, 1}, {0, 2, 1}};
    struct nixl_desc whole = {0, 0, 1};
    struct nixl_list known = NIXL_LIST(FILE_SEG, &whole, 1);
    struct nixl_list sum = NIXL_LIST(FILE_SEG, files, 3);
    struct nixl_dlist *dlist;

    register_at(agent, BASE, 1000, NULL);
    assert_int_equal(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "descriptor 1 (addr 0xfffffffffffffffa, 10 bytes, dev 0) wraps around");
    assert_status(nixl_mem_register(agent, &known, NULL), NIXL_SUCCESS);
    assert_int_equal(nixl_dlist_prepare(agent, "A", &sum, NULL, &dlist), NIXL_ERR_INVALID_PARAM);
    assert_words(nixl_error(), "more than 2^64 bytes");
    nixl_agent_destroy(agent);
}

static void hint_that_cannot_reach_the_owner_is_refused(void **state) {
    struct nixl_param remote_only = {"caps", "REMOTE,NOTIF"};
    struct nixl_agent *agent;
    struct nixl_backend *backend;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_desc desc = {BASE, 8, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_dlist *dlist;

    assert_status(nixl_agent_create("A", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "MOCK", &remote_only, 1, &backend), NIXL_SUCCESS);
    register_at(agent, BASE, 1000, NULL);
    options.backends = &backend;
    options.backend_count = 1;
    assert_int_equal(nixl_dlist_prepare(agent, "A", &list, &options, &dlist), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "none of the hints can");
    assert_int_equal(nixl_dlist_prepare(agent, "A", &list, NULL, &dlist), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "the agent has none that can");
    assert_status(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_SUCCESS);
    nixl_dlist_release(dlist);
    nixl_agent_destroy(agent);
}

static void owner_chooses_whose_memory(void **state) {
    struct agents agents;
    struct nixl_desc mine;
    struct nixl_desc theirs;
    struct nixl_list local = NIXL_LIST(DRAM_SEG, &mine, 1);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, &theirs, 1);
    struct nixl_dlist *dlist;

    agents_begin(&agents, NULL, NULL);
    mine = (struct nixl_desc){(uintptr_t)agents.a.memory, 64, 0};
    theirs = (struct nixl_desc){(uintptr_t)agents.b.memory, 64, 0};
    assert_status(nixl_dlist_prepare(agents.a.agent, "", &local, NULL, &dlist), NIXL_SUCCESS);
    assert_true(dlist->is_local);
    nixl_dlist_release(dlist);
    assert_status(nixl_dlist_prepare(agents.a.agent, "A", &local, NULL, &dlist), NIXL_SUCCESS);
    assert_false(dlist->is_local);
    assert_null(dlist->peer);
    nixl_dlist_release(dlist);
    assert_status(nixl_dlist_prepare(agents.a.agent, "B", &remote, NULL, &dlist), NIXL_SUCCESS);
    assert_non_null(dlist->peer);
    nixl_dlist_release(dlist);
    assert_int_equal(nixl_dlist_prepare(agents.a.agent, "B", &local, NULL, &dlist), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "registered by the peer");
    assert_int_equal(nixl_dlist_prepare(agents.a.agent, NULL, &remote, NULL, &dlist), NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_dlist_prepare(agents.a.agent, "C", &remote, NULL, &dlist), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "peer \"C\" is not known");
    assert_int_equal(nixl_dlist_prepare(agents.a.agent, "NULL_AGENT", &remote, NULL, &dlist),
                     NIXL_ERR_NOT_FOUND);
    agents_end(&agents);
}

/* Regions registered with one backend each: the list has a resolution for a backend only if that one has
 * every block. */
static void backends_get_a_resolution_each_where_their_regions_differ(void **state) {
    struct nixl_agent *agent = agent_with("MOCK");
    struct nixl_backend *first = nixl_backend_find(agent, "MOCK");
    struct nixl_backend *second;
    struct nixl_desc descs[2];
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 2);
    struct nixl_dlist *dlist;

    assert_status(nixl_backend_create(agent, "MOCK2", NULL, 0, &second), NIXL_SUCCESS);
    register_at(agent, BASE, 1000, first);
    register_at(agent, BASE, 2000, second);
    register_at(agent, BASE + 1500, 500, first);
    descs[0] = (struct nixl_desc){BASE + 100, 10, 0};
    descs[1] = (struct nixl_desc){BASE + 1600, 10, 0};
    assert_status(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_SUCCESS);
    assert_int_equal(dlist->view_count, 2);
    assert_int_equal(dlist->views[0].backends | dlist->views[1].backends, 3);
    assert_int_equal(dlist->views[0].backends & dlist->views[1].backends, 0);
    nixl_dlist_release(dlist);
    /* A block that the second backend alone has. */
    descs[1] = (struct nixl_desc){BASE + 1200, 10, 0};
    assert_status(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_SUCCESS);
    assert_int_equal(dlist->view_count, 1);
    assert_int_equal(dlist->views[0].backends, 2);
    nixl_dlist_release(dlist);
    /* And one more that only the first has: now nobody has all. */
    register_at(agent, BASE + 5000, 100, first);
    descs[0] = (struct nixl_desc){BASE + 5000, 10, 0};
    assert_int_equal(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_error(), "no backend has all of the blocks");
    nixl_agent_destroy(agent);
}

static void malformed_calls_are_refused_and_leave_no_handle(void **state) {
    struct nixl_agent *agent = agent_with("NOOP");
    struct nixl_desc desc = {BASE, 1, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 0);
    struct nixl_list meta = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_dlist *dlist = (void *)1;

    assert_int_equal(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist), NIXL_ERR_INVALID_PARAM);
    assert_null(dlist);
    dlist = (void *)1;
    meta.form = NIXL_FORM_META;
    assert_int_equal(nixl_dlist_prepare(agent, NULL, &meta, NULL, &dlist), NIXL_ERR_INVALID_PARAM);
    assert_null(dlist);
    assert_int_equal(nixl_dlist_prepare(agent, NULL, &list, NULL, NULL), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_dlist_prepare(NULL, NULL, &list, NULL, &dlist), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(nixl_dlist_count(NULL), 0);
    nixl_dlist_release(NULL);
    nixl_agent_destroy(agent);
}

static void list_outlives_its_agent(void **state) {
    struct nixl_agent *agent = agent_with("NOOP");
    struct nixl_desc desc = {BASE, 1, 0};
    struct nixl_dlist *dlist;

    register_at(agent, BASE, 100, NULL);
    dlist = prepared(agent, &desc, 1);
    nixl_agent_destroy(agent);
    assert_int_equal(nixl_dlist_count(dlist), 1);
    nixl_dlist_release(dlist);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_steps_are_kept_as_one_run),
        cmocka_unit_test(scattered_blocks_are_kept_flat),
        cmocka_unit_test(average_of_eight_decides),
        cmocka_unit_test(neighbours_join_only_within_a_dense_run),
        cmocka_unit_test(strided_list_is_the_same_as_its_blocks),
        cmocka_unit_test(strided_item_over_several_regions_takes_each_block_from_its_own),
        cmocka_unit_test(block_in_no_region_or_two_is_named),
        cmocka_unit_test(each_block_of_a_scattered_list_has_its_own_region),
        cmocka_unit_test(malformed_blocks_are_told_from_unregistered_ones),
        cmocka_unit_test(hint_that_cannot_reach_the_owner_is_refused),
        cmocka_unit_test(owner_chooses_whose_memory),
        cmocka_unit_test(backends_get_a_resolution_each_where_their_regions_differ),
        cmocka_unit_test(malformed_calls_are_refused_and_leave_no_handle),
        cmocka_unit_test(list_outlives_its_agent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
