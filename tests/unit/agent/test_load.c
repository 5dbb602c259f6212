/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading blobs: what adds, removes, replaces, is refused as stale; that what is refused changes nothing,
 * whatever bytes it is made of; forgetting a peer.
 */
#include "front.h"

/* "A" with MOCK and "B" with MOCK and some blocks of a page each, unacquainted. */
#define BLOCKS 8u
#define BLOCK 4096u

struct pair {
    struct side_of_test a, b;
};

static unsigned char *block(const struct pair *pair, unsigned i) {
    return pair->b.memory + (size_t)i * BLOCK;
}

static struct nixl_desc desc_of(const struct pair *pair, unsigned i) {
    return (struct nixl_desc){(uintptr_t)block(pair, i), BLOCK, 0};
}

static void pair_begin(struct pair *pair, unsigned blocks) {
    side_begin(&pair->a, "A", NULL, "MOCK", NULL, 0, false);
    side_begin(&pair->b, "B", NULL, "MOCK", NULL, 0, false);
    for (unsigned i = 0; i < blocks; i++) {
        register_block(pair->b.agent, block(pair, i), BLOCK);
    }
}

static void pair_end(struct pair *pair) {
    side_end(&pair->a);
    side_end(&pair->b);
    assert_nothing_open();
}

/* Which blocks of "B" are known to "A", a bit each. */
static unsigned known(const struct pair *pair) {
    unsigned bits = 0;

    for (unsigned i = 0; i < BLOCKS; i++) {
        bits |= knows(pair->a.agent, "B", block(pair, i), BLOCK) ? 1u << i : 0;
    }
    return bits;
}

static nixl_status_t write_block(const struct pair *pair, unsigned i, struct nixl_xfer **xfer) {
    struct nixl_desc local = {(uintptr_t)pair->a.memory, BLOCK, 0};
    struct nixl_desc remote = desc_of(pair, i);
    struct nixl_list l = NIXL_LIST(DRAM_SEG, &local, 1);
    struct nixl_list r = NIXL_LIST(DRAM_SEG, &remote, 1);

    return nixl_xfer_create(pair->a.agent, NIXL_WRITE, &l, &r, "B", NULL, xfer);
}

/* A whole write works. */
static void assert_reaches(struct pair *pair, unsigned i) {
    struct nixl_xfer *xfer;

    memset(pair->a.memory, (int)(0x40 + i), BLOCK);
    assert_status(write_block(pair, i, &xfer), NIXL_SUCCESS);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_memory_equal(block(pair, i), pair->a.memory, BLOCK);
}

/* ---- the plain way ---- */

static void a_peer_is_known_by_name_after_its_blob(void **state) {
    struct pair pair;
    struct blob blob;
    char *name;

    pair_begin(&pair, 2);
    blob = blob_of(pair.b.agent);
    assert_status(nixl_metadata_load(pair.a.agent, blob.data, blob.len, &name), NIXL_SUCCESS);
    assert_string_equal(name, "B");
    nixl_free(name);
    free(blob.data);
    assert_int_equal(known(&pair), 0x3);
    register_block(pair.a.agent, pair.a.memory, BLOCK);
    assert_reaches(&pair, 1);
    pair_end(&pair);
}

static void the_same_blob_again_opens_nothing(void **state) {
    struct pair pair;
    struct blob blob;
    struct blob plain;

    pair_begin(&pair, 3);
    blob = blob_of(pair.b.agent);
    plain = blob_plain(pair.b.agent, NULL);
    assert_status(load_blob_into(pair.a.agent, blob), NIXL_SUCCESS);
    assert_status(load_blob_into(pair.a.agent, blob), NIXL_SUCCESS);
    assert_status(load_blob_into(pair.a.agent, plain), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "peer_opens"), 1);
    assert_int_equal(the_mock()->count("A", "key_opens"), 3);
    free(blob.data);
    free(plain.data);
    pair_end(&pair);
}

static void a_full_blob_also_removes(void **state) {
    struct pair pair;

    pair_begin(&pair, 4);
    introduce(pair.a.agent, pair.b.agent);
    assert_int_equal(known(&pair), 0xf);
    assert_status(deregister_block(pair.b.agent, block(&pair, 1), BLOCK), NIXL_SUCCESS);
    register_block(pair.b.agent, block(&pair, 6), BLOCK);
    introduce(pair.a.agent, pair.b.agent);
    assert_int_equal(known(&pair), 0x4d);
    assert_int_equal(the_mock()->count("A", "keys"), 4);
    assert_int_equal(the_mock()->count("A", "peer_opens"), 1);
    pair_end(&pair);
}

static void without_a_trailer_a_blob_only_adds(void **state) {
    struct pair pair;

    pair_begin(&pair, 2);
    assert_status(load_into(pair.a.agent, blob_plain(pair.b.agent, NULL)), NIXL_SUCCESS);
    assert_status(deregister_block(pair.b.agent, block(&pair, 0), BLOCK), NIXL_SUCCESS);
    register_block(pair.b.agent, block(&pair, 5), BLOCK);
    assert_status(load_into(pair.a.agent, blob_plain(pair.b.agent, NULL)), NIXL_SUCCESS);
    assert_int_equal(known(&pair), 0x23);
    pair_end(&pair);
}

static void a_new_key_of_a_known_region_replaces_it_with_a_trailer_only(void **state) {
    struct pair pair;

    pair_begin(&pair, 1);
    introduce(pair.a.agent, pair.b.agent);
    assert_status(deregister_block(pair.b.agent, block(&pair, 0), BLOCK), NIXL_SUCCESS);
    register_block(pair.b.agent, block(&pair, 0), BLOCK);
    assert_status(load_into(pair.a.agent, blob_plain(pair.b.agent, NULL)), NIXL_ERR_NOT_ALLOWED);
    assert_error("known with another key");
    assert_int_equal(known(&pair), 1);
    introduce(pair.a.agent, pair.b.agent);
    assert_int_equal(known(&pair), 1);
    assert_int_equal(the_mock()->count("A", "keys"), 1);
    register_block(pair.a.agent, pair.a.memory, BLOCK);
    assert_reaches(&pair, 0);
    pair_end(&pair);
}

static void a_block_registered_twice_is_told_once_and_survives_one_deregistration(void **state) {
    struct pair pair;

    pair_begin(&pair, 1);
    register_block(pair.b.agent, block(&pair, 0), BLOCK);
    introduce(pair.a.agent, pair.b.agent);
    assert_int_equal(the_mock()->count("A", "keys"), 1);
    assert_status(deregister_block(pair.b.agent, block(&pair, 0), BLOCK), NIXL_SUCCESS);
    introduce(pair.a.agent, pair.b.agent);
    assert_int_equal(known(&pair), 1);
    register_block(pair.a.agent, pair.a.memory, BLOCK);
    assert_reaches(&pair, 0);
    pair_end(&pair);
}

/* ---- parts ---- */

static void parts_add_in_any_order(void **state) {
    struct pair pair;
    struct nixl_desc two;
    struct blob early;
    struct blob late;

    pair_begin(&pair, 4);
    two = desc_of(&pair, 2);
    early = partial_of(pair.b.agent, &two, 1, true);
    register_block(pair.b.agent, block(&pair, 7), BLOCK);
    two = desc_of(&pair, 7);
    late = partial_of(pair.b.agent, &two, 1, true);
    assert_status(load_into(pair.a.agent, late), NIXL_SUCCESS);
    assert_status(load_into(pair.a.agent, early), NIXL_SUCCESS);
    assert_int_equal(known(&pair), 0x84);
    pair_end(&pair);
}

/* The blob of an agent without its trailer, with connections, sections and rows the other way round. */
static struct blob blob_reversed(struct nixl_agent *agent) {
    struct blob with = blob_of(agent);
    struct bytes scratch = {0};
    struct bytes out = {0};
    struct wire_blob *view = malloc(sizeof *view);
    struct wire_blob_writer writer;
    struct wire_error error;
    struct wire_desc rows[BLOCKS];
    char type[64];

    assert_non_null(view);
    assert_int_equal(wire_blob_open(with.data, with.len, &scratch, view, &error), NIXL_SUCCESS);
    assert_int_equal(view->conn_count, 2);
    assert_int_equal(view->section_count, 2);
    wire_blob_begin(&writer, &out, (const char *)view->agent.data, view->agent.len);
    for (size_t i = view->conn_count; i-- > 0;) {
        snprintf(type, sizeof type, "%.*s", (int)view->conns[i].type.len,
                 (const char *)view->conns[i].type.data);
        wire_blob_conn(&writer, type, view->conns[i].bytes.data, view->conns[i].bytes.len);
    }
    for (size_t i = view->section_count; i-- > 0;) {
        struct wire_list_iter iter;
        size_t count = 0;

        snprintf(type, sizeof type, "%.*s", (int)view->sections[i].type.len,
                 (const char *)view->sections[i].type.data);
        wire_blob_section(&writer, type, view->sections[i].list.mem, 0, 0);
        wire_list_begin(&view->sections[i].list, &iter);
        while (count < BLOCKS && wire_list_next(&iter, &rows[count])) {
            count++;
        }
        assert_int_equal(count, 4);
        while (count-- > 0) {
            wire_blob_desc(&writer, rows[count].addr, rows[count].len, rows[count].dev, rows[count].meta.data,
                           rows[count].meta.len);
        }
    }
    assert_int_equal(wire_blob_end(&writer), NIXL_SUCCESS);
    bytes_free(&scratch);
    free(view);
    free(with.data);
    return (struct blob){out.data, out.len};
}

/* Blobs of equal meaning differ in their bytes. */
static void connections_sections_and_rows_may_stand_in_any_order(void **state) {
    struct pair pair;
    struct nixl_backend *second;
    struct blob blob;
    struct blob plain;

    pair_begin(&pair, 0);
    assert_status(nixl_backend_create(pair.a.agent, "MOCK2", NULL, 0, &second), NIXL_SUCCESS);
    assert_status(nixl_backend_create(pair.b.agent, "MOCK2", NULL, 0, &second), NIXL_SUCCESS);
    for (unsigned i = 0; i < 4; i++) {
        register_block(pair.b.agent, block(&pair, i * 2), BLOCK);
    }
    blob = blob_reversed(pair.b.agent);
    plain = blob_plain(pair.b.agent, NULL);
    assert_int_equal(blob.len, plain.len);
    assert_memory_not_equal(blob.data, plain.data, blob.len);
    assert_status(load_into(pair.a.agent, blob), NIXL_SUCCESS);
    assert_int_equal(known(&pair), 0x55);
    register_block(pair.a.agent, pair.a.memory, BLOCK);
    assert_reaches(&pair, 6);
    assert_status(load_into(pair.a.agent, plain), NIXL_SUCCESS); /* says the same: nothing is opened again */
    assert_int_equal(known(&pair), 0x55);
    assert_int_equal(the_mock()->count("A", "key_opens"), 4);
    pair_end(&pair);
}

static void a_part_without_connection_needs_a_known_peer(void **state) {
    struct pair pair;
    struct nixl_desc one;
    struct blob part;

    pair_begin(&pair, 3);
    one = desc_of(&pair, 1);
    part = partial_of(pair.b.agent, &one, 1, false);
    assert_status(load_blob_into(pair.a.agent, part), NIXL_ERR_NOT_FOUND);
    assert_error("no connection");
    assert_status(load_into(pair.a.agent, partial_of(pair.b.agent, NULL, 0, false)), NIXL_SUCCESS);
    assert_int_equal(known(&pair), 0);
    assert_status(load_blob_into(pair.a.agent, part), NIXL_SUCCESS);
    assert_int_equal(known(&pair), 2);
    free(part.data);
    pair_end(&pair);
}

static void an_old_part_does_not_bring_back_what_has_gone(void **state) {
    struct pair pair;
    struct nixl_desc one;
    struct blob part;

    pair_begin(&pair, 3);
    one = desc_of(&pair, 1);
    part = partial_of(pair.b.agent, &one, 1, false);
    introduce(pair.a.agent, pair.b.agent);
    assert_status(load_blob_into(pair.a.agent, part), NIXL_SUCCESS);
    assert_status(deregister_block(pair.b.agent, block(&pair, 1), BLOCK), NIXL_SUCCESS);
    introduce(pair.a.agent, pair.b.agent);
    assert_status(load_blob_into(pair.a.agent, part), NIXL_ERR_NOT_ALLOWED);
    assert_error("stale");
    assert_int_equal(known(&pair), 5);
    free(part.data);
    pair_end(&pair);
}

/* ---- lives ---- */

static void an_older_blob_is_refused_as_stale(void **state) {
    struct pair pair;
    struct blob old;

    pair_begin(&pair, 1);
    old = blob_of(pair.b.agent);
    register_block(pair.b.agent, block(&pair, 1), BLOCK);
    introduce(pair.a.agent, pair.b.agent);
    assert_status(load_into(pair.a.agent, old), NIXL_ERR_NOT_ALLOWED);
    assert_error("load metadata of B: the blob is stale");
    assert_int_equal(known(&pair), 3);
    pair_end(&pair);
}

static void a_newer_life_replaces_the_peer_by_itself(void **state) {
    struct pair pair;
    struct nixl_xfer *before;
    struct blob old;

    pair_begin(&pair, 2);
    register_block(pair.a.agent, pair.a.memory, BLOCK);
    old = blob_of(pair.b.agent);
    assert_status(load_blob_into(pair.a.agent, old), NIXL_SUCCESS);
    assert_status(write_block(&pair, 0, &before), NIXL_SUCCESS);
    nixl_agent_destroy(pair.b.agent);
    assert_status(nixl_agent_create("B", NULL, &pair.b.agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(pair.b.agent, "MOCK", NULL, 0, &pair.b.backend), NIXL_SUCCESS);
    register_block(pair.b.agent, block(&pair, 3), BLOCK);
    introduce(pair.a.agent, pair.b.agent);
    assert_int_equal(known(&pair), 8);
    assert_reaches(&pair, 3);
    assert_status(nixl_xfer_post(before, NULL), NIXL_ERR_NOT_FOUND);
    /* The former life's blob comes late. */
    assert_status(load_into(pair.a.agent, old), NIXL_ERR_NOT_ALLOWED);
    assert_error("earlier life");
    assert_int_equal(known(&pair), 8);
    assert_status(nixl_xfer_release(before), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "peers"), 1);
    pair_end(&pair);
}

static void a_newer_life_needs_a_connection(void **state) {
    struct pair pair;
    struct nixl_agent *again;
    struct nixl_backend *backend;
    struct nixl_desc one;

    pair_begin(&pair, 1);
    introduce(pair.a.agent, pair.b.agent);
    assert_status(nixl_agent_create("B", NULL, &again), NIXL_SUCCESS);
    assert_status(nixl_backend_create(again, "MOCK", NULL, 0, &backend), NIXL_SUCCESS);
    register_block(again, block(&pair, 0), BLOCK);
    one = desc_of(&pair, 0);
    assert_status(load_into(pair.a.agent, partial_of(again, &one, 1, false)), NIXL_ERR_NOT_FOUND);
    assert_error("newer life");
    assert_int_equal(known(&pair), 1);
    nixl_agent_destroy(again);
    pair_end(&pair);
}

/* As with two agents of the reference under one name. */
static void another_connection_without_trailer_is_refused_while_the_peer_is_alive(void **state) {
    struct pair pair;
    struct nixl_agent *again;
    struct nixl_backend *backend;
    struct blob blob;

    pair_begin(&pair, 1);
    assert_status(load_into(pair.a.agent, blob_plain(pair.b.agent, NULL)), NIXL_SUCCESS);
    assert_status(nixl_agent_create("B", NULL, &again), NIXL_SUCCESS);
    assert_status(nixl_backend_create(again, "MOCK", NULL, 0, &backend), NIXL_SUCCESS);
    register_block(again, block(&pair, 2), BLOCK);
    blob = blob_plain(again, NULL);
    assert_status(load_blob_into(pair.a.agent, blob), NIXL_ERR_NOT_ALLOWED);
    assert_error("another connection");
    assert_int_equal(known(&pair), 1);
    assert_true(the_mock()->lose_peer("A", "B", "cable cut"));
    assert_status(load_into(pair.a.agent, blob), NIXL_SUCCESS);
    assert_int_equal(known(&pair), 4);
    assert_status(nixl_peer_state(pair.a.agent, "B"), NIXL_SUCCESS);
    nixl_agent_destroy(again);
    pair_end(&pair);
}

static void a_failed_peer_is_connected_anew_by_the_blob_it_had(void **state) {
    struct pair pair;

    pair_begin(&pair, 2);
    register_block(pair.a.agent, pair.a.memory, BLOCK);
    introduce(pair.a.agent, pair.b.agent);
    assert_true(the_mock()->lose_peer("A", "B", "cable cut"));
    assert_status(nixl_peer_state(pair.a.agent, "B"), NIXL_ERR_REMOTE_DISCONNECT);
    introduce(pair.a.agent, pair.b.agent);
    assert_status(nixl_peer_state(pair.a.agent, "B"), NIXL_SUCCESS);
    assert_string_equal(nixl_peer_error(pair.a.agent, "B"), "");
    assert_reaches(&pair, 1);
    pair_end(&pair);
}

/* ---- refusals ---- */

static void ones_own_blob_is_refused(void **state) {
    struct pair pair;

    pair_begin(&pair, 1);
    assert_status(load_into(pair.b.agent, blob_of(pair.b.agent)), NIXL_ERR_INVALID_PARAM);
    assert_error("own");
    pair_end(&pair);
}

static void agents_without_a_common_backend_are_told_what_each_has(void **state) {
    struct side_of_test a;
    struct side_of_test b;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, false);
    side_begin(&b, "B", NULL, "MOCK2", NULL, 0, true);
    assert_status(load_into(a.agent, blob_of(b.agent)), NIXL_ERR_BACKEND);
    assert_error("the peer is reached by \"MOCK2\", agent A has MOCK");
    side_end(&a);
    side_end(&b);
}

static void sections_of_backends_that_are_not_here_are_passed_over(void **state) {
    struct pair pair;
    struct nixl_backend *second;

    pair_begin(&pair, 0);
    assert_status(nixl_backend_create(pair.b.agent, "MOCK2", NULL, 0, &second), NIXL_SUCCESS);
    register_block(pair.b.agent, block(&pair, 0), BLOCK);
    introduce(pair.a.agent, pair.b.agent);
    assert_int_equal(known(&pair), 1);
    assert_int_equal(the_mock()->count("A", "keys"), 1);
    pair_end(&pair);
}

static void a_backend_that_comes_later_is_used_after_the_next_load(void **state) {
    struct pair pair;
    struct nixl_backend *ours;
    struct nixl_backend *theirs;
    struct nixl_options only = NIXL_OPTIONS_INIT;

    pair_begin(&pair, 0);
    assert_status(nixl_backend_create(pair.b.agent, "MOCK2", NULL, 0, &theirs), NIXL_SUCCESS);
    register_block(pair.b.agent, block(&pair, 0), BLOCK);
    introduce(pair.a.agent, pair.b.agent);
    assert_status(nixl_backend_create(pair.a.agent, "MOCK2", NULL, 0, &ours), NIXL_SUCCESS);
    only.backends = &ours;
    only.backend_count = 1;
    assert_status(nixl_peer_connect(pair.a.agent, "B", &only), NIXL_ERR_BACKEND);
    introduce(pair.a.agent, pair.b.agent);
    assert_status(nixl_peer_connect(pair.a.agent, "B", &only), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "peer_opens"), 1);
    pair_end(&pair);
}

static void a_peer_of_another_version_is_refused_before_its_bytes_are_used(void **state) {
    struct nixl_param note = {"note", "MOCK/2"};
    struct side_of_test a;
    struct side_of_test b;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, false);
    side_begin(&b, "B", NULL, "MOCK", &note, 1, true);
    assert_status(load_into(a.agent, blob_of(b.agent)), NIXL_ERR_MISMATCH);
    assert_error("backend MOCK: B speaks MOCK/2, this side MOCK/1");
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    assert_int_equal(the_mock()->count("A", "keys"), 0);
    side_end(&a);
    side_end(&b);
}

/* The n-th key or the peer fails: nothing stays open, the next load works. */
static void a_load_that_fails_half_way_changes_nothing(void **state) {
    struct pair pair;

    pair_begin(&pair, 4);
    assert_true(the_mock()->set("A", "fail_key", "3"));
    assert_true(the_mock()->set("A", "fail_text", "no more keys"));
    assert_status(load_into(pair.a.agent, blob_of(pair.b.agent)), NIXL_ERR_BACKEND);
    assert_error("backend MOCK: no more keys");
    assert_status(nixl_peer_state(pair.a.agent, "B"), NIXL_ERR_NOT_FOUND);
    assert_int_equal(the_mock()->count("A", "keys"), 0);
    assert_int_equal(the_mock()->count("A", "peers"), 0);
    assert_true(the_mock()->set("A", "fail_peer", "2"));
    assert_status(load_into(pair.a.agent, blob_of(pair.b.agent)), NIXL_ERR_BACKEND);
    assert_int_equal(the_mock()->count("A", "peers"), 0);
    introduce(pair.a.agent, pair.b.agent);
    assert_int_equal(known(&pair), 0xf);
    /* The same on top of a peer that is known. */
    assert_status(deregister_block(pair.b.agent, block(&pair, 0), BLOCK), NIXL_SUCCESS);
    register_block(pair.b.agent, block(&pair, 5), BLOCK);
    register_block(pair.b.agent, block(&pair, 6), BLOCK);
    assert_true(the_mock()->set("A", "fail_key", "9"));
    assert_status(load_into(pair.a.agent, blob_of(pair.b.agent)), NIXL_ERR_BACKEND);
    assert_int_equal(known(&pair), 0xf);
    assert_int_equal(the_mock()->count("A", "keys"), 4);
    introduce(pair.a.agent, pair.b.agent);
    assert_int_equal(known(&pair), 0x6e);
    pair_end(&pair);
}

/* Every cut and every flipped bit is refused, or loads something whole; a known peer stays as it was when
 * refused. */
static void damaged_bytes_give_a_status_and_change_nothing(void **state) {
    struct pair pair;
    struct blob blob;
    unsigned char *copy;
    unsigned refused = 0;

    pair_begin(&pair, 2);
    introduce(pair.a.agent, pair.b.agent);
    register_block(pair.b.agent, block(&pair, 4), BLOCK);
    blob = blob_of(pair.b.agent);
    copy = malloc(blob.len);
    assert_non_null(copy);
    for (size_t len = 0; len < blob.len; len++) {
        nixl_status_t status;

        memcpy(copy, blob.data, len);
        status = nixl_metadata_load(pair.a.agent, copy, len, NULL);
        if (status != NIXL_SUCCESS) {
            assert_true(status < 0);
            assert_true(nixl_error()[0] != '\0');
            refused++;
            assert_int_equal(known(&pair) & 3u, 3);
        } else {
            /* Cut exactly where the trailer begins: the reference's form. It adds. */
            assert_int_equal(known(&pair), 0x13);
            assert_status(nixl_metadata_invalidate(pair.a.agent, "B"), NIXL_SUCCESS);
            assert_status(load_blob_into(pair.a.agent, blob), NIXL_SUCCESS);
        }
    }
    assert_true(refused >= blob.len - 1);
    for (size_t bit = 0; bit < blob.len * 8; bit++) {
        memcpy(copy, blob.data, blob.len);
        copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_true(nixl_metadata_load(pair.a.agent, copy, blob.len, NULL) < 0);
    }
    assert_int_equal(known(&pair), 0x13);
    free(copy);
    free(blob.data);
    pair_end(&pair);
}

/* Without a checksum more passes the reader: whatever it is, it gives a status and leaves no handle behind.
 */
static void damaged_bytes_of_the_reference_never_hurt(void **state) {
    struct pair pair;
    struct blob blob;
    unsigned char *copy;

    pair_begin(&pair, 3);
    blob = blob_plain(pair.b.agent, NULL);
    copy = malloc(blob.len);
    assert_non_null(copy);
    for (size_t bit = 0; bit < blob.len * 8; bit++) {
        nixl_status_t status;
        char *name;

        memcpy(copy, blob.data, blob.len);
        copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
        status = nixl_metadata_load(pair.a.agent, copy, blob.len, &name);
        assert_true(status <= 0);
        assert_true((status == NIXL_SUCCESS) == (name != NULL));
        if (name != NULL) {
            assert_status(nixl_metadata_invalidate(pair.a.agent, name), NIXL_SUCCESS);
        }
        nixl_free(name);
        assert_int_equal(the_mock()->count("A", "peers"), 0);
        assert_int_equal(the_mock()->count("A", "keys"), 0);
    }
    free(copy);
    free(blob.data);
    pair_end(&pair);
}

static void a_region_that_wraps_around_is_refused(void **state) {
    struct pair pair;
    struct bytes out = {0};
    struct wire_blob_writer writer;
    const void *conn;

    pair_begin(&pair, 0);
    conn = pair.b.backend->conn;
    wire_blob_begin(&writer, &out, "B", 1);
    wire_blob_conn(&writer, "MOCK", conn, pair.b.backend->conn_len);
    wire_blob_section(&writer, "MOCK", DRAM_SEG, 0, 0);
    wire_blob_desc(&writer, UINT64_MAX - 10, 11, 0, "key", 3);
    assert_int_equal(wire_blob_end(&writer), NIXL_SUCCESS);
    assert_status(load_into(pair.a.agent, (struct blob){out.data, out.len}), NIXL_ERR_MISMATCH);
    assert_error("wraps around");
    pair_end(&pair);
}

static void arguments_are_checked(void **state) {
    struct pair pair;
    char *name = (char *)1;

    pair_begin(&pair, 0);
    assert_status(nixl_metadata_load(pair.a.agent, NULL, 5, &name), NIXL_ERR_INVALID_PARAM);
    assert_null(name);
    assert_status(nixl_metadata_load(pair.a.agent, "", 0, &name), NIXL_ERR_MISMATCH);
    assert_error("damaged");
    assert_status(nixl_metadata_invalidate(pair.a.agent, ""), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_metadata_invalidate(pair.a.agent, NULL), NIXL_ERR_INVALID_PARAM);
    assert_status(nixl_metadata_check(pair.a.agent, NULL, NULL), NIXL_ERR_INVALID_PARAM);
    pair_end(&pair);
}

/* ---- forgetting ---- */

static void forgetting_ends_transfers_in_flight_in_words(void **state) {
    struct agents agents;
    struct nixl_xfer *flying;
    struct nixl_xfer *idle;

    agents_begin(&agents, "hold", "yes");
    flying = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
    idle = request_of(&agents, NIXL_WRITE, 8192, 4096, NULL);
    assert_status(nixl_xfer_post(flying, NULL), NIXL_IN_PROG);
    assert_status(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    assert_status(nixl_xfer_wait(flying, 5000), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_xfer_error(flying), "peer removed");
    assert_status(nixl_xfer_post(flying, NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_xfer_post(idle, NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_notif_send(agents.a.agent, "B", "x", 1, NULL), NIXL_ERR_NOT_FOUND);
    assert_int_equal(the_mock()->count("A", "peers"), 1); /* requests still hold it */
    assert_status(nixl_xfer_release(flying), NIXL_SUCCESS);
    assert_status(nixl_xfer_release(idle), NIXL_SUCCESS);
    assert_int_equal(the_mock()->count("A", "peers"), 0);
    assert_int_equal(the_mock()->count("A", "keys"), 0);
    agents_end(&agents);
}

static void a_finished_request_keeps_its_state_and_is_not_posted_to_a_reloaded_peer(void **state) {
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin(&agents, NULL, NULL);
    xfer = request_of(&agents, NIXL_WRITE, 0, 64, NULL);
    assert_true(nixl_xfer_post(xfer, NULL) >= 0);
    assert_status(nixl_xfer_wait(xfer, 5000), NIXL_SUCCESS);
    assert_status(nixl_metadata_invalidate(agents.a.agent, "B"), NIXL_SUCCESS);
    assert_status(nixl_xfer_poll(xfer), NIXL_SUCCESS);
    introduce(agents.a.agent, agents.b.agent);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
    assert_nothing_open();
}

static void forgetting_the_unknown_or_oneself_is_refused(void **state) {
    struct pair pair;

    pair_begin(&pair, 0);
    assert_status(nixl_metadata_invalidate(pair.a.agent, "B"), NIXL_ERR_NOT_FOUND);
    assert_error("peer B is not loaded");
    assert_status(nixl_metadata_invalidate(pair.a.agent, "A"), NIXL_ERR_INVALID_PARAM);
    pair_end(&pair);
}

/* ---- check ---- */

static void check_wants_every_block_by_one_backend(void **state) {
    struct pair pair;
    struct nixl_desc descs[2];
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 2);

    pair_begin(&pair, 2);
    assert_status(nixl_metadata_check(pair.a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    introduce(pair.a.agent, pair.b.agent);
    assert_status(nixl_metadata_check(pair.a.agent, "B", NULL), NIXL_SUCCESS);
    descs[0] = (struct nixl_desc){(uintptr_t)block(&pair, 1) + 100, 50, 0};
    descs[1] = desc_of(&pair, 0);
    assert_status(nixl_metadata_check(pair.a.agent, "B", &list), NIXL_SUCCESS);
    descs[1].addr += 1;
    assert_status(nixl_metadata_check(pair.a.agent, "B", &list), NIXL_ERR_NOT_FOUND);
    assert_error("check metadata: descriptor 1");
    assert_int_equal(nixl_error_index(), 1);
    list.count = 0;
    assert_status(nixl_metadata_check(pair.a.agent, "B", &list), NIXL_SUCCESS);
    /* The agent itself is always known; its own blocks as loopback. */
    assert_status(nixl_metadata_check(pair.b.agent, "B", NULL), NIXL_SUCCESS);
    list.count = 1;
    assert_status(nixl_metadata_check(pair.b.agent, "B", &list), NIXL_SUCCESS);
    descs[0].addr = 16;
    assert_status(nixl_metadata_check(pair.b.agent, "B", &list), NIXL_ERR_NOT_FOUND);
    pair_end(&pair);
}

/* A check, and a connection asked for afterwards, must not leave a half-known peer behind. */
static void checking_a_peer_known_by_regions_alone_changes_nothing(void **state) {
    struct pair pair;

    pair_begin(&pair, 1);
    assert_status(nixl_metadata_check(pair.a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_peer_connect(pair.a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    introduce(pair.a.agent, pair.b.agent);
    assert_status(nixl_peer_connect(pair.a.agent, "B", NULL), NIXL_SUCCESS);
    pair_end(&pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_peer_is_known_by_name_after_its_blob),
        TEST(the_same_blob_again_opens_nothing),
        TEST(a_full_blob_also_removes),
        TEST(without_a_trailer_a_blob_only_adds),
        TEST(a_new_key_of_a_known_region_replaces_it_with_a_trailer_only),
        TEST(a_block_registered_twice_is_told_once_and_survives_one_deregistration),
        TEST(parts_add_in_any_order),
        TEST(connections_sections_and_rows_may_stand_in_any_order),
        TEST(a_part_without_connection_needs_a_known_peer),
        TEST(an_old_part_does_not_bring_back_what_has_gone),
        TEST(an_older_blob_is_refused_as_stale),
        TEST(a_newer_life_replaces_the_peer_by_itself),
        TEST(a_newer_life_needs_a_connection),
        TEST(another_connection_without_trailer_is_refused_while_the_peer_is_alive),
        TEST(a_failed_peer_is_connected_anew_by_the_blob_it_had),
        TEST(ones_own_blob_is_refused),
        TEST(agents_without_a_common_backend_are_told_what_each_has),
        TEST(sections_of_backends_that_are_not_here_are_passed_over),
        TEST(a_backend_that_comes_later_is_used_after_the_next_load),
        TEST(a_peer_of_another_version_is_refused_before_its_bytes_are_used),
        TEST(a_load_that_fails_half_way_changes_nothing),
        TEST(damaged_bytes_give_a_status_and_change_nothing),
        TEST(damaged_bytes_of_the_reference_never_hurt),
        TEST(a_region_that_wraps_around_is_refused),
        TEST(arguments_are_checked),
        TEST(forgetting_ends_transfers_in_flight_in_words),
        TEST(a_finished_request_keeps_its_state_and_is_not_posted_to_a_reloaded_peer),
        TEST(forgetting_the_unknown_or_oneself_is_refused),
        TEST(check_wants_every_block_by_one_backend),
        TEST(checking_a_peer_known_by_regions_alone_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
