/* SPDX-License-Identifier: Apache-2.0 */
/* Reading metadata blobs: what the reference wrote, and what nobody should have written. */
#include "support.h"

static struct wire_blob blob;

/* nixlSerDes| Agent:"B" Conns:1 t:"FAKE" c:"CONN" "":"MemSection" nixlSecElms:0, 123 bytes. */
static const char example[] = "nixlSerDes|"
                              "Agent\1\0\0\0\0\0\0\0B|"
                              "Conns\10\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0|"
                              "t\4\0\0\0\0\0\0\0FAKE|"
                              "c\4\0\0\0\0\0\0\0CONN|"
                              "\12\0\0\0\0\0\0\0MemSection|"
                              "nixlSecElms\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0|";

static void the_example_of_123_bytes_is_read(void **state) {
    struct bytes scratch = {0};

    assert_int_equal(sizeof example - 1, 123);
    assert_int_equal(wire_blob_open(example, 123, &scratch, &blob, NULL), NIXL_SUCCESS);
    assert_view(blob.agent, "B");
    assert_int_equal(blob.conn_count, 1);
    assert_view(blob.conns[0].type, "FAKE");
    assert_view(blob.conns[0].bytes, "CONN");
    assert_int_equal(blob.section_count, 0);
    assert_false(blob.has_trailer);
    assert_null(scratch.data);
}

/* One section of DRAM with these regions of the vectors; keys and connections are opaque, and equal in all
 * three blobs. */
static void check_reference_blob(const char *name, size_t conns, const size_t *regions, size_t count) {
    json_t *root = load_vectors("reference-1.4.0.json");
    struct bytes in = json_bytes(json_object_get(root, name));
    uint8_t *copy = exact_copy(in.data, in.len);
    static const uint8_t key[11] = {1, 0, 0, 0, 0,   0,
                                    0, 0, 0, 0, 0xff}; /* the end of every row in the file */
    struct bytes scratch = {0};
    struct wire_list_iter iter;
    struct wire_desc desc;

    assert_int_equal(wire_blob_open(copy, in.len, &scratch, &blob, NULL), NIXL_SUCCESS);
    assert_view(blob.agent, json_string_value(json_object_get(root, "agent")));
    assert_int_equal(blob.conn_count, conns);
    for (size_t i = 0; i < conns; i++) {
        assert_view(blob.conns[i].type, "UCX");
        assert_int_equal(blob.conns[i].bytes.len, 106); /* 6a, before 20fa1399… */
        assert_int_equal(blob.conns[i].bytes.data[0], 0x20);
    }
    assert_int_equal(blob.section_count, 1);
    assert_view(blob.sections[0].type, "UCX");
    assert_int_equal(blob.sections[0].list.mem, DRAM_SEG);
    assert_true(blob.sections[0].list.has_meta);
    assert_int_equal(blob.sections[0].list.count, count);
    wire_list_begin(&blob.sections[0].list, &iter);
    for (size_t i = 0; i < count; i++) {
        const json_t *region = json_array_get(json_object_get(root, "regions"), regions[i]);

        assert_true(wire_list_next(&iter, &desc));
        assert_int_equal(desc.addr, json_u64(json_object_get(region, "addr")));
        assert_int_equal(desc.len, json_u64(json_object_get(region, "len")));
        assert_int_equal(desc.dev, json_u64(json_object_get(region, "dev")));
        assert_int_equal(desc.meta.len, sizeof key);
        assert_memory_equal(desc.meta.data, key, sizeof key);
    }
    assert_false(wire_list_next(&iter, &desc));
    assert_false(blob.has_trailer);
    free(copy);
    bytes_free(&in);
    json_decref(root);
}

static void the_references_full_blob_is_read(void **state) {
    check_reference_blob("full_metadata", 1, (const size_t[]){0, 1, 2}, 3);
}

static void the_references_partial_blobs_are_read(void **state) {
    check_reference_blob("partial_with_conn", 1, (const size_t[]){1}, 1);
    check_reference_blob("partial_without_conn", 0, (const size_t[]){1}, 1);
}

static void the_blob_inside_the_references_load_command_is_read(void **state) {
    json_t *root = load_vectors("reference-1.4.0-more.json");
    struct bytes frame = json_bytes(json_array_get(json_object_get(root, "p2p_frames"), 0));
    size_t head = 8 + strlen("NIXLCOMM:LOAD");
    struct bytes scratch = {0};

    assert_int_equal(frame.len, 8 + 0x199);
    assert_int_equal(wire_blob_open(frame.data + head, frame.len - head, &scratch, &blob, NULL),
                     NIXL_SUCCESS);
    assert_view(blob.agent, "vec-agent");
    assert_int_equal(blob.section_count, 1);
    assert_int_equal(blob.sections[0].list.count, 2);
    bytes_free(&frame);
    json_decref(root);
}

static void bytes_behind_the_references_sections_are_ignored(void **state) {
    static const char *const tails[] = {"x", "garbage", "|nixl", "Trailer", "\n", "NIXLTRAILER"};

    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        struct bytes in = {0};

        add_raw(&in, example, 123);
        add_text(&in, tails[i]);
        assert_int_equal(open_copy(in.data, in.len, NULL), NIXL_SUCCESS);
        bytes_free(&in);
    }
}

static void every_truncation_of_a_reference_blob_is_refused(void **state) {
    json_t *root = load_vectors("reference-1.4.0.json");
    struct bytes in = json_bytes(json_object_get(root, "full_metadata"));

    for (size_t len = 0; len < in.len; len++) {
        assert_int_equal(open_copy(in.data, len, NULL), NIXL_ERR_MISMATCH);
    }
    bytes_free(&in);
    json_decref(root);
}

/* Without a checksum damage may go unseen, but it must not lead outside the bytes. ASan is the judge. */
static void no_flipped_bit_of_a_reference_blob_leads_outside(void **state) {
    json_t *root = load_vectors("reference-1.4.0.json");
    struct bytes in = json_bytes(json_object_get(root, "full_metadata"));
    struct bytes scratch = {0};
    size_t taken = 0;

    for (size_t bit = 0; bit < in.len * 8; bit++) {
        uint8_t *copy = exact_copy(in.data, in.len);

        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (wire_blob_open(copy, in.len, &scratch, &blob, NULL) == NIXL_SUCCESS) {
            taken++;
            for (size_t i = 0; i < blob.section_count; i++) {
                struct wire_list_iter iter;
                struct wire_desc desc;

                wire_list_begin(&blob.sections[i].list, &iter);
                while (wire_list_next(&iter, &desc)) {
                    assert_true(desc.meta.data + desc.meta.len < copy + in.len);
                }
            }
        }
        free(copy);
    }
    assert_in_range(taken, 1, in.len * 8 - 1);
    bytes_free(&scratch);
    bytes_free(&in);
    json_decref(root);
}

static void a_blob_without_its_first_fields_is_refused(void **state) {
    struct bytes in = {0};

    assert_refused(&in, "does not begin with");
    add_text(&in, "nixlSerDes:");
    assert_refused(&in, "does not begin with");
    bytes_clear(&in);
    add_text(&in, "nixlSerDes|");
    assert_refused(&in, "agent's name is missing");
    add_text_field(&in, "agent", "B");
    assert_refused(&in, "agent's name is missing");
    bytes_clear(&in);
    add_text(&in, "nixlSerDes|");
    add_text_field(&in, "Agent", "B");
    assert_refused(&in, "number of connections is missing");
    add_kind_field(&in, 0);
    assert_refused(&in, "number of connections is missing");
    bytes_clear(&in);
    add_blob_head(&in, "B", 0);
    assert_refused(&in, "ends inside a field");
    add_text_field(&in, "", "MemSections");
    assert_refused(&in, "sections are missing");
    bytes_clear(&in);
    add_blob_head(&in, "B", 0);
    add_text_field(&in, "", "MemSection");
    assert_refused(&in, "number of sections is missing");
    bytes_free(&in);
}

static void a_count_of_four_bytes_is_refused(void **state) {
    struct bytes in = {0};

    add_text(&in, "nixlSerDes|");
    add_text_field(&in, "Agent", "B");
    add_text_field(&in, "Conns", "1234");
    assert_refused(&in, "number of connections");
    bytes_free(&in);
}

static void an_agent_name_that_is_empty_or_has_a_nul_is_refused(void **state) {
    struct bytes in = {0};

    add_text(&in, "nixlSerDes|");
    add_field(&in, "Agent", "", 0);
    add_count_field(&in, "Conns", 0);
    add_sections_head(&in, 0);
    assert_refused(&in, "agent's name is missing");
    bytes_clear(&in);
    add_text(&in, "nixlSerDes|");
    add_field(&in, "Agent", "a\0b", 3);
    add_count_field(&in, "Conns", 0);
    add_sections_head(&in, 0);
    assert_refused(&in, "NUL");
    bytes_free(&in);
}

static void a_connection_without_type_or_bytes_is_refused(void **state) {
    static const char *const fields[][2] = {{"", "CONN"}, {"FAKE", ""}};

    for (size_t i = 0; i < 2; i++) {
        struct bytes in = {0};

        add_blob_head(&in, "B", 1);
        add_text_field(&in, "t", fields[i][0]);
        add_text_field(&in, "c", fields[i][1]);
        add_sections_head(&in, 0);
        assert_refused(&in, i == 0 ? "connection's backend" : "connection's bytes");
        bytes_free(&in);
    }
}

static void two_connections_for_one_backend_are_refused(void **state) {
    struct bytes in = {0};

    add_blob_head(&in, "B", 3);
    for (size_t i = 0; i < 3; i++) {
        add_text_field(&in, "t", i == 1 ? "UCXY" : "UCX");
        add_text_field(&in, "c", "CONN");
    }
    add_sections_head(&in, 0);
    assert_refused(&in, "two connections for one backend");
    bytes_free(&in);
}

static void repeated_sections_are_refused(void **state) {
    struct bytes in = {0};

    add_blob_head(&in, "B", 0);
    add_sections_head(&in, 4);
    add_section_head(&in, "UCX", DRAM_SEG, 0);
    add_section_head(&in, "UCX", VRAM_SEG, 0);
    add_section_head(&in, "UC", DRAM_SEG, 0);
    add_section_head(&in, "UCX", DRAM_SEG, 1);
    add_row(&in, 1, 2, 3, "key", 3);
    assert_refused(&in, "two sections for one backend");
    bytes_free(&in);
}

static void a_section_that_is_not_whole_is_refused(void **state) {
    static const char filler[100] = {0};
    struct bytes in = {0};

    add_blob_head(&in, "B", 0);
    add_sections_head(&in, 1);
    add_text_field(&in, "bknd", "");
    add_raw(&in, filler, sizeof filler);
    assert_refused(&in, "section's backend is missing");
    bytes_clear(&in);
    add_blob_head(&in, "B", 0);
    add_sections_head(&in, 1);
    add_text_field(&in, "bknd", "UCX");
    add_text_field(&in, "nixlDList", "nixlBDList");
    add_kind_field(&in, 0);
    add_count_field(&in, "n", 0);
    assert_refused(&in, "no metadata");
    bytes_clear(&in);
    add_blob_head(&in, "B", 0);
    add_sections_head(&in, 1);
    add_section_head(&in, "UCX", 5, 0);
    assert_refused(&in, "kind does not exist");
    bytes_free(&in);
}

static void huge_counts_are_refused_before_anything_is_read(void **state) {
    static const uint64_t counts[] = {2, 1000000, UINT64_MAX, UINT64_MAX / 20, (uint64_t)1 << 63};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct bytes in = {0};

        add_blob_head(&in, "B", counts[i]);
        add_text(&in, "0123456789012345678901234567890123456789");
        assert_refused(&in, "more connections than");
        bytes_clear(&in);
        add_blob_head(&in, "B", 0);
        add_sections_head(&in, counts[i]);
        add_section_head(&in, "UCX", DRAM_SEG, 0);
        assert_refused(&in, "more sections than");
        bytes_clear(&in);
        add_blob_head(&in, "B", 0);
        add_sections_head(&in, 1);
        add_section_head(&in, "UCX", DRAM_SEG, counts[i]);
        add_row(&in, 1, 2, 3, "key", 3);
        assert_refused(&in, "more descriptors than");
        bytes_free(&in);
    }
}

static void more_connections_or_sections_than_the_tables_hold_are_not_supported(void **state) {
    struct bytes in = {0};
    const char *what;
    char type[16];

    for (unsigned n = WIRE_BLOB_CONNS; n <= WIRE_BLOB_CONNS + 1; n++) {
        bytes_clear(&in);
        add_blob_head(&in, "B", n);
        for (unsigned i = 0; i < n; i++) {
            snprintf(type, sizeof type, "T%u", i);
            add_text_field(&in, "t", type);
            add_text_field(&in, "c", "CONN");
        }
        add_sections_head(&in, 0);
        assert_int_equal(open_copy(in.data, in.len, &what),
                         n == WIRE_BLOB_CONNS ? NIXL_SUCCESS : NIXL_ERR_NOT_SUPPORTED);
    }
    assert_non_null(strstr(what, "more connections or sections"));
    for (unsigned n = WIRE_BLOB_SECTIONS; n <= WIRE_BLOB_SECTIONS + 1; n++) {
        bytes_clear(&in);
        add_blob_head(&in, "B", 0);
        add_sections_head(&in, n);
        for (unsigned i = 0; i < n; i++) {
            snprintf(type, sizeof type, "T%u", i);
            add_section_head(&in, type, i % NIXL_MEM_KINDS, 0);
        }
        assert_int_equal(open_copy(in.data, in.len, NULL),
                         n == WIRE_BLOB_SECTIONS ? NIXL_SUCCESS : NIXL_ERR_NOT_SUPPORTED);
    }
    bytes_free(&in);
}

static void a_blob_may_lie_at_any_address(void **state) {
    struct bytes in = {0};
    struct bytes scratch = {0};
    uint8_t *room;

    write_sample(&in, true);
    room = malloc(in.len + 8);
    for (size_t shift = 0; shift < 8; shift++) {
        struct wire_list_iter iter;
        struct wire_desc desc;

        memcpy(room + shift, in.data, in.len);
        assert_int_equal(wire_blob_open(room + shift, in.len, &scratch, &blob, NULL), NIXL_SUCCESS);
        wire_list_begin(&blob.sections[0].list, &iter);
        assert_true(wire_list_next(&iter, &desc));
        assert_true(wire_list_next(&iter, &desc));
        assert_int_equal(desc.addr, 0x3000);
        assert_view(desc.meta, "k2");
    }
    free(room);
    bytes_free(&scratch);
    bytes_free(&in);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_123_bytes_is_read),
        cmocka_unit_test(the_references_full_blob_is_read),
        cmocka_unit_test(the_references_partial_blobs_are_read),
        cmocka_unit_test(the_blob_inside_the_references_load_command_is_read),
        cmocka_unit_test(bytes_behind_the_references_sections_are_ignored),
        cmocka_unit_test(every_truncation_of_a_reference_blob_is_refused),
        cmocka_unit_test(no_flipped_bit_of_a_reference_blob_leads_outside),
        cmocka_unit_test(a_blob_without_its_first_fields_is_refused),
        cmocka_unit_test(a_count_of_four_bytes_is_refused),
        cmocka_unit_test(an_agent_name_that_is_empty_or_has_a_nul_is_refused),
        cmocka_unit_test(a_connection_without_type_or_bytes_is_refused),
        cmocka_unit_test(two_connections_for_one_backend_are_refused),
        cmocka_unit_test(repeated_sections_are_refused),
        cmocka_unit_test(a_section_that_is_not_whole_is_refused),
        cmocka_unit_test(huge_counts_are_refused_before_anything_is_read),
        cmocka_unit_test(more_connections_or_sections_than_the_tables_hold_are_not_supported),
        cmocka_unit_test(a_blob_may_lie_at_any_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
