/* SPDX-License-Identifier: Apache-2.0 */
/* Memory views: local and of several peers with empty slots, what they keep alive, what is refused. MOCK's
 * views are arrays of pointers. */
#include "front.h"

static struct nixl_list remote_list(const struct nixl_remote_desc *descs, size_t count) {
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, count);

    list.form = NIXL_FORM_REMOTE;
    return list;
}

static void a_local_view_shows_the_blocks(void **state) {
    struct agents agents;
    struct nixl_desc descs[2];
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 2);
    void *view;

    agents_begin(&agents, NULL, NULL);
    descs[0] = (struct nixl_desc){(uintptr_t)agents.a.memory + 64, 32, 0};
    descs[1] = (struct nixl_desc){(uintptr_t)agents.a.memory, 16, 0};
    assert_status(nixl_view_local(agents.a.agent, &list, NULL, &view), NIXL_SUCCESS);
    assert_ptr_equal(((unsigned char **)view)[0], agents.a.memory + 64);
    assert_ptr_equal(((unsigned char **)view)[1], agents.a.memory);
    assert_status(nixl_view_release(agents.b.agent, view), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_view_release(agents.a.agent, view), NIXL_SUCCESS);
    assert_status(nixl_view_release(agents.a.agent, view), NIXL_ERR_NOT_FOUND);
    descs[1].addr = 64;
    assert_status(nixl_view_local(agents.a.agent, &list, NULL, &view), NIXL_ERR_NOT_FOUND);
    assert_error("local view: descriptor 1");
    assert_null(view);
    assert_int_equal(the_mock()->count("A", "views"), 0);
    agents_end(&agents);
}

static void one_remote_view_spans_peers_and_empty_slots(void **state) {
    struct agents agents;
    struct side_of_test c;
    struct nixl_remote_desc descs[3] = {{0, 0, 0, NULL}, {0, 0, 0, NULL}, {0, 0, 0, NULL}};
    struct nixl_list list = remote_list(descs, 3);
    void *view;

    agents_begin(&agents, NULL, NULL);
    side_begin(&c, "C", NULL, "MOCK", NULL, 0, true);
    introduce(agents.a.agent, c.agent);
    descs[0] = (struct nixl_remote_desc){(uintptr_t)agents.b.memory + 8, 8, 0, "B"};
    descs[1] = (struct nixl_remote_desc){0, 0, 0, NULL};
    descs[2] = (struct nixl_remote_desc){(uintptr_t)c.memory, 8, 0, "C"};
    assert_status(nixl_view_remote(agents.a.agent, &list, NULL, &view), NIXL_SUCCESS);
    assert_ptr_equal(((unsigned char **)view)[0], agents.b.memory + 8);
    assert_null(((unsigned char **)view)[1]);
    assert_ptr_equal(((unsigned char **)view)[2], c.memory);
    /* A forgotten peer's key lives as long as the view. */
    assert_status(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 2);
    assert_status(nixl_view_release(agents.a.agent, view), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 1);
    side_end(&c);
    agents_end(&agents);
    assert_nothing_open();
}

static void what_cannot_be_viewed_is_refused_by_index(void **state) {
    struct agents agents;
    struct nixl_remote_desc descs[2] = {{0, 0, 0, NULL}, {0, 0, 0, NULL}};
    struct nixl_list list = remote_list(descs, 2);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_backend *other;
    void *view;

    agents_begin(&agents, NULL, NULL);
    assert_status(nixl_view_remote(agents.a.agent, &list, NULL, &view), NIXL_ERR_NOT_FOUND);
    assert_error("empty slots only");
    descs[1] = (struct nixl_remote_desc){(uintptr_t)agents.b.memory, 8, 0, "nobody"};
    assert_status(nixl_view_remote(agents.a.agent, &list, NULL, &view), NIXL_ERR_NOT_FOUND);
    assert_error("descriptor 1: peer nobody is not loaded");
    assert_int_equal(nixl_error_index(), 1);
    descs[0] = (struct nixl_remote_desc){(uintptr_t)agents.b.memory, 8, 0, "B"};
    descs[1] = (struct nixl_remote_desc){(uintptr_t)agents.b.memory + MEMORY, 8, 0, "B"};
    assert_status(nixl_view_remote(agents.a.agent, &list, NULL, &view), NIXL_ERR_NOT_FOUND);
    descs[1].addr = (uintptr_t)agents.b.memory;
    assert_status(nixl_backend_create(agents.a.agent, "MOCK2", NULL, 0, &other), NIXL_SUCCESS);
    options.backends = &other;
    options.backend_count = 1;
    assert_status(nixl_view_remote(agents.a.agent, &list, &options, &view), NIXL_ERR_NOT_FOUND);
    assert_error("descriptor 0: peer B is not reached by backend MOCK2");
    assert_null(view);
    options.backends = &agents.b.backend;
    assert_status(nixl_view_remote(agents.a.agent, &list, &options, &view), NIXL_ERR_INVALID_PARAM);
    assert_null(view);
    list.form = NIXL_FORM_PLAIN;
    assert_status(nixl_view_remote(agents.a.agent, &list, NULL, &view), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_view_remote(agents.a.agent, &list, NULL, NULL), NIXL_ERR_INVALID_PARAM);
    agents_end(&agents);
    assert_nothing_open();
}

static void views_left_open_end_with_their_agent(void **state) {
    struct agents agents;
    struct nixl_remote_desc remote = {0, 0, 0, NULL};
    struct nixl_list list = remote_list(&remote, 1);
    struct nixl_desc local = {0, 0, 0};
    struct nixl_list plain = NIXL_LIST(DRAM_SEG, &local, 1);
    void *view;

    agents_begin(&agents, NULL, NULL);
    remote = (struct nixl_remote_desc){(uintptr_t)agents.b.memory, 8, 0, "B"};
    local = (struct nixl_desc){(uintptr_t)agents.a.memory, 8, 0};
    assert_status(nixl_view_remote(agents.a.agent, &list, NULL, &view), NIXL_SUCCESS);
    assert_status(nixl_view_local(agents.a.agent, &plain, NULL, &view), NIXL_SUCCESS);
    agents_end(&agents);
    assert_int_equal(the_mock()->count(NULL, "views"), 0);
    assert_nothing_open();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_local_view_shows_the_blocks),
        TEST(one_remote_view_spans_peers_and_empty_slots),
        TEST(what_cannot_be_viewed_is_refused_by_index),
        TEST(views_left_open_end_with_their_agent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
