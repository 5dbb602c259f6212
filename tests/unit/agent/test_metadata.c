/* SPDX-License-Identifier: Apache-2.0 */
/* What blobs say: whole, in part, and what changed since a generation; seen by the reader of blobs and by a
 * peer. */
#include "front.h"

#include "agent/changes.h"

#define BLOCK 4096u

/* A blob opened, for looking into. */
struct opened {
    struct blob blob;
    struct bytes scratch;
    struct wire_blob view;
};

static struct opened *open_blob(struct blob blob) {
    struct opened *opened = calloc(1, sizeof *opened);
    struct wire_error error;

    assert_non_null(opened);
    opened->blob = blob;
    assert_int_equal(wire_blob_open(blob.data, blob.len, &opened->scratch, &opened->view, &error),
                     NIXL_SUCCESS);
    return opened;
}

static void close_blob(struct opened *opened) {
    bytes_free(&opened->scratch);
    free(opened->blob.data);
    free(opened);
}

static size_t rows_of(const struct opened *opened) {
    size_t rows = 0;

    for (size_t i = 0; i < opened->view.section_count; i++) {
        rows += opened->view.sections[i].list.count;
    }
    return rows;
}

static void a_full_blob_has_connection_sections_and_trailer(void **state) {
    struct agents agents;
    struct opened *opened;
    struct wire_list_iter iter;
    struct wire_desc desc;
    struct wire_cursor cursor = {0};
    struct wire_note note;

    agents_begin(&agents, NULL, NULL);
    opened = open_blob(blob_of(agents.a.agent));
    assert_true(wire_view_is(opened->view.agent, "A"));
    assert_int_equal(opened->view.conn_count, 1);
    assert_true(wire_view_is(opened->view.conns[0].type, "MOCK"));
    assert_int_equal(opened->view.section_count, 1);
    assert_int_equal(opened->view.sections[0].list.mem, DRAM_SEG);
    wire_list_begin(&opened->view.sections[0].list, &iter);
    assert_true(wire_list_next(&iter, &desc));
    assert_int_equal(desc.addr, (uintptr_t)agents.a.memory);
    assert_int_equal(desc.len, MEMORY);
    assert_int_equal(desc.meta.len, 24);
    assert_true(opened->view.has_trailer);
    assert_int_equal(opened->view.trailer.kind, WIRE_BLOB_FULL);
    assert_int_equal(opened->view.trailer.generation, nixl_metadata_generation(agents.a.agent));
    assert_true(wire_blob_next_note(&opened->view, &cursor, &note));
    assert_true(wire_view_is(note.bytes, "MOCK/1"));
    close_blob(opened);
    agents_end(&agents);
}

static void rows_stand_sorted_and_once(void **state) {
    struct agents agents;
    struct opened *opened;
    struct wire_list_iter iter;
    struct wire_desc desc;
    uint64_t last = 0;

    agents_begin(&agents, NULL, NULL);
    for (unsigned i = 0; i < 50; i++) {
        register_block(agents.a.agent, agents.a.memory + (size_t)(i * 37 % 50) * BLOCK, 64);
        register_block(agents.a.agent, agents.a.memory + (size_t)(i * 37 % 50) * BLOCK, 64);
    }
    opened = open_blob(blob_of(agents.a.agent));
    assert_int_equal(rows_of(opened), 51);
    wire_list_begin(&opened->view.sections[0].list, &iter);
    while (wire_list_next(&iter, &desc)) {
        assert_true(desc.addr >= last);
        last = desc.addr;
    }
    close_blob(opened);
    agents_end(&agents);
}

/* In a whole blob as in a part, whatever the order of registering or asking. */
static void rows_stand_by_device_then_address_then_length(void **state) {
    struct side_of_test a;
    struct nixl_desc given[5];
    static const unsigned sorted[5] = {3, 1, 4, 0, 2};

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, false);
    given[0] = (struct nixl_desc){(uintptr_t)a.memory, 64, 1};
    given[1] = (struct nixl_desc){(uintptr_t)a.memory + BLOCK, 64, 0};
    given[2] = (struct nixl_desc){(uintptr_t)a.memory, 128, 1};
    given[3] = (struct nixl_desc){(uintptr_t)a.memory, 4096, 0};
    given[4] = (struct nixl_desc){(uintptr_t)a.memory + BLOCK, 65, 0};
    for (unsigned i = 0; i < 5; i++) {
        struct nixl_list one = NIXL_LIST(DRAM_SEG, &given[i], 1);

        assert_status(nixl_mem_register(a.agent, &one, NULL), NIXL_SUCCESS);
    }
    for (int part = 0; part < 2; part++) {
        struct opened *opened =
            open_blob(part == 1 ? partial_of(a.agent, given, 5, false) : blob_of(a.agent));
        struct wire_list_iter iter;
        struct wire_desc desc;

        assert_int_equal(opened->view.section_count, 1);
        assert_int_equal(rows_of(opened), 5);
        wire_list_begin(&opened->view.sections[0].list, &iter);
        for (unsigned i = 0; i < 5; i++) {
            assert_true(wire_list_next(&iter, &desc));
            assert_int_equal(desc.dev, given[sorted[i]].dev);
            assert_int_equal(desc.addr, given[sorted[i]].addr);
            assert_int_equal(desc.len, given[sorted[i]].len);
        }
        close_blob(opened);
    }
    side_end(&a);
}

static void the_generation_grows_with_each_change_and_stands_still_otherwise(void **state) {
    struct agents agents;
    uint64_t before;
    struct blob one;
    struct blob two;

    agents_begin(&agents, NULL, NULL);
    before = nixl_metadata_generation(agents.a.agent);
    one = blob_of(agents.a.agent);
    two = blob_of(agents.a.agent);
    assert_int_equal(one.len, two.len);
    assert_memory_equal(one.data, two.data, one.len);
    assert_int_equal(nixl_metadata_generation(agents.a.agent), before);
    register_block(agents.a.agent, agents.a.memory, 64);
    assert_true(nixl_metadata_generation(agents.a.agent) > before);
    before = nixl_metadata_generation(agents.a.agent);
    assert_status(deregister_block(agents.a.agent, agents.a.memory, 64), NIXL_SUCCESS);
    assert_true(nixl_metadata_generation(agents.a.agent) > before);
    free(one.data);
    free(two.data);
    agents_end(&agents);
}

static void storage_alone_has_nothing_to_tell(void **state) {
    struct nixl_param storage[] = {{"caps", "LOCAL"}, {"mems", "DRAM,FILE"}};
    struct nixl_backend *backend;
    struct nixl_agent *agent;
    struct blob blob = {(void *)1, 1};

    assert_status(nixl_agent_create("x", NULL, &agent), NIXL_SUCCESS);
    assert_status(nixl_metadata_get(agent, &blob.data, &blob.len), NIXL_ERR_INVALID_PARAM);
    assert_null(blob.data);
    assert_int_equal(blob.len, 0);
    assert_status(nixl_backend_create(agent, "MOCK", storage, 2, &backend), NIXL_SUCCESS);
    assert_status(nixl_metadata_get(agent, &blob.data, &blob.len), NIXL_ERR_INVALID_PARAM);
    assert_error("no backend of agent x reaches others");
    assert_status(nixl_metadata_get_partial(agent, NULL, NULL, &blob.data, &blob.len), NIXL_ERR_BACKEND);
    assert_status(nixl_metadata_get_update(agent, 1, &blob.data, &blob.len), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_metadata_get(agent, NULL, &blob.len), NIXL_ERR_INVALID_PARAM);
    nixl_agent_destroy(agent);
}

static void regions_of_storage_backends_are_not_told(void **state) {
    struct nixl_param storage[] = {{"caps", "LOCAL"}, {"mems", "FILE"}};
    struct side_of_test side;
    struct nixl_backend *backend;
    struct nixl_desc file = {0, 0, 3};
    struct nixl_list list = NIXL_LIST(FILE_SEG, &file, 1);
    struct opened *opened;
    uint64_t before;

    side_begin(&side, "A", NULL, "MOCK", NULL, 0, true);
    assert_status(nixl_backend_create(side.agent, "MOCK2", storage, 2, &backend), NIXL_SUCCESS);
    before = nixl_metadata_generation(side.agent);
    assert_status(nixl_mem_register(side.agent, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(nixl_metadata_generation(side.agent), before);
    opened = open_blob(blob_of(side.agent));
    assert_int_equal(opened->view.conn_count, 1);
    assert_int_equal(rows_of(opened), 1);
    close_blob(opened);
    side_end(&side);
}

/* ---- parts ---- */

static void a_part_has_the_blocks_asked_for_and_connections_on_demand(void **state) {
    struct agents agents;
    struct nixl_desc desc;
    struct opened *opened;

    agents_begin(&agents, NULL, NULL);
    register_block(agents.a.agent, agents.a.memory, 64);
    desc = (struct nixl_desc){(uintptr_t)agents.a.memory, 64, 0};
    opened = open_blob(partial_of(agents.a.agent, &desc, 1, false));
    assert_int_equal(opened->view.conn_count, 0);
    assert_int_equal(rows_of(opened), 1);
    assert_int_equal(opened->view.trailer.kind, WIRE_BLOB_PARTIAL);
    close_blob(opened);
    opened = open_blob(partial_of(agents.a.agent, &desc, 1, true));
    assert_int_equal(opened->view.conn_count, 1);
    close_blob(opened);
    opened = open_blob(partial_of(agents.a.agent, NULL, 0, false));
    assert_int_equal(opened->view.conn_count, 1);
    assert_int_equal(rows_of(opened), 0);
    close_blob(opened);
    agents_end(&agents);
}

static void a_block_that_is_not_registered_as_it_stands_is_named(void **state) {
    struct agents agents;
    struct nixl_desc descs[2];
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 2);
    struct blob blob;

    agents_begin(&agents, NULL, NULL);
    descs[0] = (struct nixl_desc){(uintptr_t)agents.a.memory, MEMORY, 0};
    descs[1] = (struct nixl_desc){(uintptr_t)agents.a.memory, MEMORY - 1, 0};
    assert_status(nixl_metadata_get_partial(agents.a.agent, &list, NULL, &blob.data, &blob.len),
                  NIXL_ERR_NOT_FOUND);
    assert_int_equal(nixl_error_index(), 1);
    assert_error("get partial metadata: descriptor 1");
    assert_null(blob.data);
    descs[1] = descs[0];
    assert_status(nixl_metadata_get_partial(agents.a.agent, &list, NULL, &blob.data, &blob.len),
                  NIXL_SUCCESS);
    free(blob.data);
    agents_end(&agents);
}

static void hints_limit_a_part_to_their_backends(void **state) {
    struct agents agents;
    struct nixl_backend *second;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct opened *opened;
    struct blob blob;

    agents_begin(&agents, NULL, NULL);
    assert_status(nixl_backend_create(agents.a.agent, "MOCK2", NULL, 0, &second), NIXL_SUCCESS);
    register_block(agents.a.agent, agents.a.memory, 64);
    desc = (struct nixl_desc){(uintptr_t)agents.a.memory, 64, 0};
    options.include_conn = true;
    assert_status(nixl_metadata_get_partial(agents.a.agent, &list, &options, &blob.data, &blob.len),
                  NIXL_SUCCESS);
    opened = open_blob(blob);
    assert_int_equal(opened->view.conn_count, 2);
    assert_int_equal(rows_of(opened), 2);
    close_blob(opened);
    options.backends = &second;
    options.backend_count = 1;
    assert_status(nixl_metadata_get_partial(agents.a.agent, &list, &options, &blob.data, &blob.len),
                  NIXL_SUCCESS);
    opened = open_blob(blob);
    assert_int_equal(opened->view.conn_count, 1);
    assert_true(wire_view_is(opened->view.conns[0].type, "MOCK2"));
    assert_int_equal(rows_of(opened), 1);
    close_blob(opened);
    agents_end(&agents);
}

/* ---- updates ---- */

static void an_update_has_what_changed_and_no_more(void **state) {
    struct agents agents;
    struct opened *opened;
    struct wire_cursor cursor = {0};
    struct wire_removed removed;
    uint64_t since;

    agents_begin(&agents, NULL, NULL);
    register_block(agents.a.agent, agents.a.memory, 64);
    since = nixl_metadata_generation(agents.a.agent);
    register_block(agents.a.agent, agents.a.memory + BLOCK, 64);
    register_block(agents.a.agent, agents.a.memory + 2 * BLOCK, 64);
    assert_status(deregister_block(agents.a.agent, agents.a.memory, 64), NIXL_SUCCESS);
    assert_status(deregister_block(agents.a.agent, agents.a.memory + 2 * BLOCK, 64), NIXL_SUCCESS);
    opened = open_blob(update_of(agents.a.agent, since));
    assert_int_equal(opened->view.trailer.kind, WIRE_BLOB_UPDATE);
    assert_int_equal(opened->view.trailer.base_generation, since);
    assert_int_equal(opened->view.conn_count, 0);
    assert_int_equal(rows_of(opened), 1);
    assert_true(wire_blob_next_removed(&opened->view, &cursor, &removed));
    assert_int_equal(removed.desc.addr, (uintptr_t)agents.a.memory);
    assert_true(wire_blob_next_removed(&opened->view, &cursor, &removed));
    assert_false(wire_blob_next_removed(&opened->view, &cursor, &removed));
    close_blob(opened);
    agents_end(&agents);
}

static void updates_add_and_remove_while_transfers_elsewhere_go_on(void **state) {
    struct agents agents;
    struct nixl_xfer *flying;
    struct nixl_xfer *gone;
    uint64_t since;

    agents_begin(&agents, NULL, NULL);
    register_block(agents.b.agent, agents.b.memory + MEMORY / 2, 64);
    introduce(agents.a.agent, agents.b.agent);
    assert_true(the_mock()->set("A", "hold", "yes"));
    flying = request_of(&agents, NIXL_WRITE, 0, BLOCK, NULL);
    assert_status(nixl_xfer_post(flying, NULL), NIXL_IN_PROG);
    since = nixl_metadata_generation(agents.b.agent);
    register_block(agents.b.agent, agents.b.memory + BLOCK, 64);
    assert_status(deregister_block(agents.b.agent, agents.b.memory + MEMORY / 2, 64), NIXL_SUCCESS);
    assert_status(load_into(agents.a.agent, update_of(agents.b.agent, since)), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 2);
    assert_status(nixl_xfer_poll(flying), NIXL_IN_PROG);
    assert_true(the_mock()->set("A", "hold", "no"));
    assert_status(nixl_xfer_wait(flying, 5000), NIXL_SUCCESS);
    /* A request on what has gone fails in words, one on what stayed goes on. */
    gone = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    since = nixl_metadata_generation(agents.b.agent);
    assert_status(deregister_block(agents.b.agent, agents.b.memory, MEMORY), NIXL_SUCCESS);
    assert_status(load_into(agents.a.agent, update_of(agents.b.agent, since)), NIXL_SUCCESS);
    assert_status(nixl_xfer_post(gone, NULL), NIXL_ERR_NOT_FOUND);
    assert_true(nixl_error()[0] != '\0');
    assert_status(nixl_xfer_release(gone), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(flying), NIXL_SUCCESS);
    agents_end(&agents);
    assert_nothing_open();
}

static void repeated_lost_and_old_updates_are_told_apart(void **state) {
    struct agents agents;
    struct blob first;
    struct blob second;
    struct blob both;
    uint64_t g0;
    uint64_t g1;

    agents_begin(&agents, NULL, NULL);
    g0 = nixl_metadata_generation(agents.b.agent);
    register_block(agents.b.agent, agents.b.memory, 64);
    g1 = nixl_metadata_generation(agents.b.agent);
    first = update_of(agents.b.agent, g0);
    register_block(agents.b.agent, agents.b.memory + BLOCK, 64);
    second = update_of(agents.b.agent, g1);
    both = update_of(agents.b.agent, g0);
    /* The second without the first. */
    assert_status(load_blob_into(agents.a.agent, second), NIXL_ERR_NOT_FOUND);
    assert_error("load a full blob");
    assert_status(load_blob_into(agents.a.agent, first), NIXL_SUCCESS);
    assert_status(load_blob_into(agents.a.agent, first), NIXL_SUCCESS);
    assert_status(load_blob_into(agents.a.agent, both), NIXL_SUCCESS);
    assert_status(load_blob_into(agents.a.agent, second), NIXL_SUCCESS);
    assert_status(load_blob_into(agents.a.agent, first), NIXL_ERR_NOT_ALLOWED);
    assert_error("stale");
    assert_int_equal(the_mock()->count("A", "keys"), 3);
    free(first.data);
    free(second.data);
    free(both.data);
    agents_end(&agents);
}

static void an_update_of_an_unknown_peer_is_refused(void **state) {
    struct side_of_test a;
    struct side_of_test b;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, false);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    assert_status(load_into(a.agent, update_of(b.agent, nixl_metadata_generation(b.agent))),
                  NIXL_ERR_NOT_FOUND);
    assert_status(load_into(a.agent, partial_of(b.agent, NULL, 0, true)), NIXL_SUCCESS);
    /* Known in part only: what the update builds on is not there. */
    assert_status(load_into(a.agent, update_of(b.agent, nixl_metadata_generation(b.agent))),
                  NIXL_ERR_NOT_FOUND);
    side_end(&a);
    side_end(&b);
}

static void a_block_registered_anew_travels_with_its_new_key(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;
    uint64_t since;

    agents_begin(&agents, NULL, NULL);
    since = nixl_metadata_generation(agents.b.agent);
    assert_status(deregister_block(agents.b.agent, agents.b.memory, MEMORY), NIXL_SUCCESS);
    register_block(agents.b.agent, agents.b.memory, MEMORY);
    assert_status(load_into(agents.a.agent, update_of(agents.b.agent, since)), NIXL_SUCCESS);
    xfer = request_of(&agents, NIXL_WRITE, 100, 500, NULL);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_memory_equal(agents.a.memory + 100, agents.b.memory + 100, 500);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "keys"), 1);
    agents_end(&agents);
}

static void what_is_too_long_ago_gives_a_full_blob_and_the_future_nothing(void **state) {
    struct agents agents;
    struct nixl_backend *second;
    struct opened *opened;
    uint64_t since;
    struct blob blob;

    agents_begin(&agents, NULL, NULL);
    since = nixl_metadata_generation(agents.b.agent);
    assert_status(nixl_metadata_get_update(agents.b.agent, since + 1, &blob.data, &blob.len),
                  NIXL_ERR_NOT_FOUND);
    assert_error("yet to come");
    assert_null(blob.data);
    opened = open_blob(update_of(agents.b.agent, 0));
    assert_int_equal(opened->view.trailer.kind, WIRE_BLOB_FULL);
    close_blob(opened);
    /* A new backend is a new connection: updates carry none. */
    assert_status(nixl_backend_create(agents.b.agent, "MOCK2", NULL, 0, &second), NIXL_SUCCESS);
    opened = open_blob(update_of(agents.b.agent, since));
    assert_int_equal(opened->view.trailer.kind, WIRE_BLOB_FULL);
    close_blob(opened);
    agents_end(&agents);
}

/* Ten thousand changes, each told: what is kept stays bounded and the peer right. */
static void ten_thousand_updates_stay_flat(void **state) {
    struct agents agents;
    uint64_t since;
    size_t longest = 0;

    agents_begin(&agents, NULL, NULL);
    since = nixl_metadata_generation(agents.b.agent);
    for (unsigned i = 0; i < 10000; i++) {
        struct blob update;
        size_t len;

        register_block(agents.b.agent, agents.b.memory + (size_t)(i % 64) * 64, 64);
        if (i >= 8) {
            assert_status(deregister_block(agents.b.agent, agents.b.memory + (size_t)((i - 8) % 64) * 64, 64),
                          NIXL_SUCCESS);
        }
        update = update_of(agents.b.agent, since);
        len = update.len;
        assert_int_equal(load_into(agents.a.agent, update), NIXL_SUCCESS);
        since = nixl_metadata_generation(agents.b.agent);
        longest = len > longest ? len : longest;
    }
    assert_int_equal(the_mock()->count("A", "keys"), 9);
    assert_true(longest < 1000);
    assert_true(agents.b.agent->changes.count <= 16384);
    /* From before what is remembered: a full blob, and from within, the net of it. */
    {
        struct opened *opened = open_blob(update_of(agents.b.agent, since - 10000));

        assert_int_equal(opened->view.trailer.kind, WIRE_BLOB_UPDATE);
        assert_int_equal(rows_of(opened), 8);
        close_blob(opened);
        opened = open_blob(update_of(agents.b.agent, since - 19000));
        assert_int_equal(opened->view.trailer.kind, WIRE_BLOB_FULL);
        close_blob(opened);
    }
    agents_end(&agents);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_full_blob_has_connection_sections_and_trailer),
        TEST(rows_stand_sorted_and_once),
        TEST(rows_stand_by_device_then_address_then_length),
        TEST(the_generation_grows_with_each_change_and_stands_still_otherwise),
        TEST(storage_alone_has_nothing_to_tell),
        TEST(regions_of_storage_backends_are_not_told),
        TEST(a_part_has_the_blocks_asked_for_and_connections_on_demand),
        TEST(a_block_that_is_not_registered_as_it_stands_is_named),
        TEST(hints_limit_a_part_to_their_backends),
        TEST(an_update_has_what_changed_and_no_more),
        TEST(updates_add_and_remove_while_transfers_elsewhere_go_on),
        TEST(repeated_lost_and_old_updates_are_told_apart),
        TEST(an_update_of_an_unknown_peer_is_refused),
        TEST(a_block_registered_anew_travels_with_its_new_key),
        TEST(what_is_too_long_ago_gives_a_full_blob_and_the_future_nothing),
        TEST(ten_thousand_updates_stay_flat),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
