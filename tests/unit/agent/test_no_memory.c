/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call with the n-th allocation failing, for each n until the call succeeds: a status, words, nothing
 * changed, nothing left open. The program is linked with --wrap, so it is this library's own allocations that
 * fail.
 */
#include "front.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);

static long left = -1; /* allocations until one fails; below 0: none does */
static bool failed;
static bool none; /* there is no memory at all */

static bool fails(void) {
    if (none) {
        return true;
    }
    if (left < 0) {
        return false;
    }
    failed = failed || left == 0;
    return left-- == 0;
}

void *__wrap_malloc(size_t size) {
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
    return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size) {
    return fails() ? NULL : __real_aligned_alloc(align, size);
}

/* Calls with the n-th allocation failing; true when all were there. A call may also do without one. */
#define TRY(n, status, call)                                                                                 \
    (left = (n), failed = false, (status) = (call), left = -1,                                               \
     failed && (status) < 0 ? assert_true(nixl_error()[0] != '\0') : (void)0, !failed)

static void an_agent_and_its_backend_begin_or_do_not(void **state) {
    struct nixl_agent *agent = NULL;
    struct nixl_backend *backend = NULL;
    nixl_status_t status = NIXL_SUCCESS;

    for (long n = 0; !TRY(n, status, nixl_agent_create("x", NULL, &agent)); n++) {
        assert_true((status == NIXL_SUCCESS) == (agent != NULL));
        nixl_agent_destroy(agent);
    }
    assert_status(status, NIXL_SUCCESS);
    nixl_agent_destroy(agent);
    for (long n = 0;; n++) {
        bool enough;

        assert_status(nixl_agent_create("x", NULL, &agent), NIXL_SUCCESS);
        enough = TRY(n, status, nixl_backend_create(agent, "MOCK", NULL, 0, &backend));
        assert_true((status == NIXL_SUCCESS) == (backend != NULL));
        nixl_agent_destroy(agent);
        if (enough) {
            break;
        }
    }
    assert_status(status, NIXL_SUCCESS);
    assert_nothing_open();
}

static void registrations_count_whole_or_not_at_all(void **state) {
    struct side_of_test side;
    struct nixl_desc descs[20];
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 20);
    nixl_status_t status = NIXL_SUCCESS;

    side_begin(&side, "A", NULL, "MOCK", NULL, 0, false);
    for (unsigned i = 0; i < 20; i++) {
        descs[i] = (struct nixl_desc){(uintptr_t)side.memory + i * 64, 64, 0};
    }
    for (long n = 0; !TRY(n, status, nixl_mem_register(side.agent, &list, NULL)); n++) {
        assert_int_equal(the_mock()->count("A", "regions"), status == NIXL_SUCCESS ? 20 : 0);
        if (status == NIXL_SUCCESS) {
            assert_status(nixl_mem_deregister(side.agent, &list, NULL), NIXL_SUCCESS);
        }
    }
    assert_int_equal(the_mock()->count("A", "regions"), 20);
    for (long n = 0; !TRY(n, status, nixl_mem_deregister(side.agent, &list, NULL)); n++) {
        assert_int_equal(the_mock()->count("A", "regions"), status == NIXL_SUCCESS ? 0 : 20);
        if (status == NIXL_SUCCESS) {
            assert_status(nixl_mem_register(side.agent, &list, NULL), NIXL_SUCCESS);
        }
    }
    side_end(&side);
    assert_nothing_open();
}

/* What another backend keeps is a region of its own, which needs memory to be let go of. */
static void a_region_is_left_to_one_backend_of_two_whole_or_not_at_all(void **state) {
    static unsigned char block[4096];
    struct nixl_desc desc = {(uintptr_t)block, sizeof block, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_backend *backends[2];
    struct nixl_agent *agent;
    nixl_status_t status = NIXL_SUCCESS;

    assert_status(nixl_agent_create("A", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "MOCK", NULL, 0, &backends[0]), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "MOCK2", NULL, 0, &backends[1]), NIXL_SUCCESS);
    /* As many as a chunk of the index holds, so that the table has to grow for the one more. */
    for (unsigned i = 0; i < 64; i++) {
        register_block(agent, block, sizeof block);
        options.backends = backends;
        options.backend_count = 1;
        for (long n = 0; !TRY(n, status, nixl_mem_deregister(agent, &list, &options)); n++) {
            assert_int_equal(the_mock()->count("A", "regions"), status == NIXL_SUCCESS ? 0 : 1);
            if (status == NIXL_SUCCESS) {
                register_block(agent, block, sizeof block);
            }
        }
        assert_status(status, NIXL_SUCCESS);
        assert_int_equal(the_mock()->count("A", "regions"), 0);
    }
    nixl_agent_destroy(agent);
    assert_nothing_open();
}

static void queries_are_answered_whole_or_not_at_all(void **state) {
    struct nixl_meta_desc items[] = {{0, 0, 1, "have1", 5}, {0, 0, 2, "no", 2}, {0, 0, 3, "have3", 5}};
    struct nixl_list list = NIXL_LIST_META(FILE_SEG, items, 3);
    struct nixl_param param = {"mems", "DRAM,FILE"};
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_query_results *results;
    struct nixl_backend *backend;
    struct nixl_agent *agent;
    nixl_status_t status = NIXL_SUCCESS;

    assert_status(nixl_agent_create("A", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agent, "MOCK", &param, 1, &backend), NIXL_SUCCESS);
    options.backends = &backend;
    options.backend_count = 1;
    for (long n = 0; !TRY(n, status, nixl_mem_query(agent, &list, &options, &results)); n++) {
        assert_true(status < 0);
        assert_null(results);
    }
    assert_status(status, NIXL_SUCCESS);
    assert_true(results->items[0].found && !results->items[1].found && results->items[2].found);
    nixl_free(results);
    nixl_agent_destroy(agent);
}

static void blobs_are_given_whole_or_not_at_all(void **state) {
    struct agents agents;
    struct nixl_desc whole;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &whole, 1);
    struct blob blob = {NULL, 0};
    nixl_status_t status = NIXL_SUCCESS;
    uint64_t since;

    agents_begin(&agents, NULL, NULL);
    whole = (struct nixl_desc){(uintptr_t)agents.a.memory, MEMORY, 0};
    since = nixl_metadata_generation(agents.a.agent);
    register_block(agents.a.agent, agents.a.memory, 64);
    for (long n = 0; !TRY(n, status, nixl_metadata_get(agents.a.agent, &blob.data, &blob.len)); n++) {
        assert_true(status != NIXL_SUCCESS && blob.data == NULL && blob.len == 0);
    }
    assert_status(load_into(agents.b.agent, blob), NIXL_SUCCESS);
    for (long n = 0;
         !TRY(n, status, nixl_metadata_get_partial(agents.a.agent, &list, NULL, &blob.data, &blob.len));
         n++) {
        assert_true(status != NIXL_SUCCESS && blob.data == NULL && blob.len == 0);
    }
    assert_status(load_into(agents.b.agent, blob), NIXL_SUCCESS);
    for (long n = 0; !TRY(n, status, nixl_metadata_get_update(agents.a.agent, since, &blob.data, &blob.len));
         n++) {
        assert_true(status != NIXL_SUCCESS && blob.data == NULL && blob.len == 0);
    }
    assert_status(load_into(agents.b.agent, blob), NIXL_SUCCESS);
    agents_end(&agents);
}

static void a_load_without_memory_changes_nothing(void **state) {
    struct side_of_test a;
    struct side_of_test b;
    struct blob first;
    struct blob second;
    char *name = NULL;
    nixl_status_t status = NIXL_SUCCESS;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, false);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, false);
    for (unsigned i = 0; i < 10; i++) {
        register_block(b.agent, b.memory + (size_t)i * 4096, 4096);
    }
    first = blob_of(b.agent);
    for (long n = 0; !TRY(n, status, nixl_metadata_load(a.agent, first.data, first.len, &name)); n++) {
        if (status != NIXL_SUCCESS) {
            assert_null(name);
            assert_int_equal(the_mock()->count("A", "peers"), 0);
            assert_int_equal(the_mock()->count("A", "keys"), 0);
            assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
        } else {
            nixl_free(name);
            assert_status(nixl_metadata_invalidate(a.agent, "B"), NIXL_SUCCESS);
        }
    }
    assert_status(status, NIXL_SUCCESS);
    nixl_free(name);
    for (unsigned i = 5; i < 10; i++) {
        assert_status(deregister_block(b.agent, b.memory + (size_t)i * 4096, 4096), NIXL_SUCCESS);
        register_block(b.agent, b.memory + MEMORY / 2 + (size_t)i * 4096, 4096);
    }
    second = blob_of(b.agent);
    for (long n = 0; !TRY(n, status, load_blob_into(a.agent, second)); n++) {
        assert_true(status < 0);
        assert_int_equal(the_mock()->count("A", "keys"), 10);
        assert_true(knows(a.agent, "B", b.memory + 9 * 4096, 4096));
        assert_false(knows(a.agent, "B", b.memory + MEMORY / 2 + 9 * 4096, 4096));
    }
    assert_status(status, NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 10);
    assert_false(knows(a.agent, "B", b.memory + 9 * 4096, 4096));
    free(first.data);
    free(second.data);
    side_end(&a);
    side_end(&b);
    assert_nothing_open();
}

static void notifications_are_kept_when_they_cannot_be_handed_out(void **state) {
    struct agents agents;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_backend *theirs[2];
    struct nixl_backend *mine;
    struct nixl_notifs *notifs = NULL;
    struct nixl_names *names;
    char msg[3000] = {0};
    size_t sent = 0;
    nixl_status_t status = NIXL_SUCCESS;

    agents_begin(&agents, NULL, NULL);
    log_set_level(LOG_LEVEL_FATAL);
    for (long n = 0; n < 40; n++) {
        (void)TRY(0, status, nixl_notif_send(agents.a.agent, "A", msg, sizeof msg, NULL));
        sent += status == NIXL_SUCCESS;
        assert_status(nixl_notif_send(agents.a.agent, "A", msg, sizeof msg, NULL), NIXL_SUCCESS);
        sent++;
    }
    log_reset();
    for (long n = 0; !TRY(n, status, nixl_notif_take(agents.a.agent, NULL, &notifs)); n++) {
        assert_true(status < 0);
        assert_null(notifs);
    }
    assert_status(status, NIXL_SUCCESS);
    assert_int_equal(notifs->count, sent);
    nixl_notifs_release(notifs);
    /* Of two backends one's alone: the others stay. */
    assert_status(nixl_backend_create(agents.a.agent, "MOCK2", NULL, 0, &mine), NIXL_SUCCESS);
    assert_status(nixl_backend_create(agents.b.agent, "MOCK2", NULL, 0, &theirs[1]), NIXL_SUCCESS);
    introduce(agents.b.agent, agents.a.agent);
    introduce(agents.a.agent, agents.b.agent);
    theirs[0] = agents.b.backend;
    options.backend_count = 1;
    for (int i = 0; i < 30; i++) {
        options.backends = &theirs[i % 2];
        assert_status(nixl_notif_send(agents.b.agent, "A", msg, sizeof msg, &options), NIXL_SUCCESS);
    }
    options.backends = &mine;
    for (long n = 0; !TRY(n, status, nixl_notif_take(agents.a.agent, &options, &notifs)); n++) {
        assert_true(status < 0);
        assert_null(notifs);
    }
    assert_status(status, NIXL_SUCCESS);
    assert_int_equal(notifs->count, 15);
    nixl_notifs_release(notifs);
    assert_status(nixl_notif_take(agents.a.agent, NULL, &notifs), NIXL_SUCCESS);
    assert_int_equal(notifs->count, 15);
    nixl_notifs_release(notifs);
    for (long n = 0; !TRY(n, status, nixl_peer_list(agents.a.agent, &names)); n++) {
        assert_null(names);
    }
    nixl_free(names);
    agents_end(&agents);
}

static void lists_and_requests_are_made_whole_or_not_at_all(void **state) {
    struct agents agents;
    struct nixl_desc l[60];
    struct nixl_desc r[60];
    struct nixl_list local = NIXL_LIST(DRAM_SEG, l, 60);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, r, 60);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_dlist *here = NULL;
    struct nixl_dlist *there = NULL;
    struct nixl_xfer *xfer = NULL;
    nixl_status_t status = NIXL_SUCCESS;

    agents_begin(&agents, NULL, NULL);
    for (unsigned i = 0; i < 60; i++) { /* no common step: as many runs */
        l[i] = (struct nixl_desc){(uintptr_t)agents.a.memory + i * i * 64, 64, 0};
        r[i] = (struct nixl_desc){(uintptr_t)agents.b.memory + i * i * 64, 64, 0};
    }
    options.has_notif = true;
    options.notif = "done";
    options.notif_len = 4;
    for (long n = 0; !TRY(n, status, nixl_dlist_prepare(agents.a.agent, NULL, &local, NULL, &here)); n++) {
        assert_true(status < 0 && here == NULL);
    }
    for (long n = 0; !TRY(n, status, nixl_dlist_prepare(agents.a.agent, "B", &remote, NULL, &there)); n++) {
        assert_true(status < 0 && there == NULL);
    }
    for (long n = 0;
         !TRY(n, status,
              nixl_xfer_make(agents.a.agent, NIXL_WRITE, here, NULL, there, NULL, 60, &options, &xfer));
         n++) {
        assert_true(status < 0 && xfer == NULL);
        assert_int_equal(the_mock()->count("A", "requests"), 0);
    }
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    for (long n = 0;
         !TRY(n, status, nixl_xfer_create(agents.a.agent, NIXL_WRITE, &local, &remote, "B", &options, &xfer));
         n++) {
        assert_true(status < 0 && xfer == NULL);
        assert_int_equal(the_mock()->count("A", "requests"), 0);
    }
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    nixl_dlist_release(here);
    nixl_dlist_release(there);
    agents_end(&agents);
    assert_nothing_open();
}

static void views_are_opened_whole_or_not_at_all(void **state) {
    struct agents agents;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    void *view = NULL;
    nixl_status_t status = NIXL_SUCCESS;

    agents_begin(&agents, NULL, NULL);
    desc = (struct nixl_desc){(uintptr_t)agents.a.memory, 4096, 0};
    for (long n = 0; !TRY(n, status, nixl_view_local(agents.a.agent, &list, NULL, &view)); n++) {
        assert_true(status < 0 && view == NULL);
        assert_int_equal(the_mock()->count("A", "views"), 0);
    }
    assert_status(nixl_view_release(agents.a.agent, view), NIXL_SUCCESS);
    agents_end(&agents);
    assert_nothing_open();
}

/* The first change needs the ring of changes; without it updates begin anew. */
static void updates_are_full_blobs_where_changes_could_not_be_noted(void **state) {
    unsigned without = 0;
    bool enough = false;

    for (long n = 0; !enough; n++) {
        struct agents agents;
        struct nixl_desc desc;
        struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
        nixl_status_t status = NIXL_SUCCESS;
        uint64_t since;

        side_begin(&agents.a, "A", NULL, "MOCK", NULL, 0, false);
        side_begin(&agents.b, "B", NULL, "MOCK", NULL, 0, false);
        introduce(agents.a.agent, agents.b.agent);
        since = nixl_metadata_generation(agents.b.agent);
        desc = (struct nixl_desc){(uintptr_t)agents.b.memory, 4096, 0};
        enough = TRY(n, status, nixl_mem_register(agents.b.agent, &list, NULL));
        if (status == NIXL_SUCCESS) {
            without += agents.b.agent->changes.count == 0;
            assert_true(nixl_metadata_generation(agents.b.agent) > since);
            assert_status(load_into(agents.a.agent, update_of(agents.b.agent, since)), NIXL_SUCCESS);
            assert_true(knows(agents.a.agent, "B", agents.b.memory, 4096));
        }
        agents_end(&agents);
    }
    assert_int_equal(without, 1);
}

/* A transfer that cannot tell its target that it failed fails as it would have; one that cannot be timed is made and moves. */
static void a_notice_and_a_record_of_costs_are_done_without(void **state) {
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct agents agents;
    struct side_of_test side;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_cost cost = NIXL_COST_INIT;
    struct nixl_xfer *xfer = NULL;
    nixl_status_t status = NIXL_SUCCESS;

    agents_begin(&agents, "fail_post", "1");
    options.notify_failure = true;
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, &options);
    log_set_level(LOG_LEVEL_FATAL);
    none = true;
    status = nixl_xfer_post(xfer, NULL);
    none = false;
    log_reset();
    assert_int_equal(status, NIXL_ERR_BACKEND);
    assert_null(agents.a.agent->notices.head);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);

    side_begin(&side, "A", NULL, "NOOP", NULL, 0, true);
    desc = (struct nixl_desc){(uintptr_t)side.memory, 64, 0};
    /* The record is the second block that is taken, after the request's. */
    (void)TRY(1, status, nixl_xfer_create(side.agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer));
    assert_int_equal(status, NIXL_SUCCESS);
    assert_null(xfer->cost);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_SUCCESS);
    assert_status(nixl_xfer_cost(xfer, &cost), NIXL_SUCCESS);
    assert_int_equal(cost.method, NIXL_COST_DECLARED);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    side_end(&side);
}

/* Peers are forgotten and agents destroyed where there is no memory at all. */
static void taking_down_needs_no_memory(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    none = true;
    assert_int_equal(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    none = false;
    assert_int_equal(the_mock()->count("A", "keys"), 0);
    agents_end(&agents);
    agents_begin(&agents, "hold", "yes");
    for (long n = 0; n < 300; n++) {
        register_block(agents.a.agent, agents.a.memory + n * 64, 64);
    }
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    none = true;
    nixl_agent_destroy(agents.a.agent);
    none = false;
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    side_end(&agents.b);
    free(agents.a.memory);
    assert_nothing_open();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_agent_and_its_backend_begin_or_do_not),
        TEST(registrations_count_whole_or_not_at_all),
        TEST(a_region_is_left_to_one_backend_of_two_whole_or_not_at_all),
        TEST(queries_are_answered_whole_or_not_at_all),
        TEST(blobs_are_given_whole_or_not_at_all),
        TEST(a_load_without_memory_changes_nothing),
        TEST(notifications_are_kept_when_they_cannot_be_handed_out),
        TEST(lists_and_requests_are_made_whole_or_not_at_all),
        TEST(views_are_opened_whole_or_not_at_all),
        TEST(updates_are_full_blobs_where_changes_could_not_be_noted),
        TEST(a_notice_and_a_record_of_costs_are_done_without),
        TEST(taking_down_needs_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
