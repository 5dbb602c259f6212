/* SPDX-License-Identifier: Apache-2.0 */
/* Writing metadata blobs: bytes put together by hand, order of calls, memory that runs out. */
#include "support.h"

/* realloc() fails at call `failing_realloc` from now on; 0: never. */
static unsigned failing_realloc;

void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);

void *__wrap_realloc(void *block, size_t size) {
    if (failing_realloc != 0 && --failing_realloc == 0) {
        return NULL;
    }
    return __real_realloc(block, size);
}

static struct wire_blob_writer writer;

static const struct wire_trailer update = {.kind = WIRE_BLOB_UPDATE, .generation = 2, .base_generation = 1};

static void the_example_of_123_bytes_is_written(void **state) {
    struct bytes want = {0};
    struct bytes out = {0};

    add_blob_head(&want, "B", 1);
    add_text_field(&want, "t", "FAKE");
    add_text_field(&want, "c", "CONN");
    add_sections_head(&want, 0);
    assert_int_equal(want.len, 123);
    wire_blob_begin(&writer, &out, "B", 1);
    wire_blob_conn(&writer, "FAKE", "CONN", 4);
    assert_int_equal(wire_blob_end(&writer), NIXL_SUCCESS);
    assert_same_bytes(&out, &want);
    bytes_free(&out);
    bytes_free(&want);
}

static void the_references_blobs_are_written_byte_for_byte(void **state) {
    static const char *const names[] = {"full_metadata", "partial_with_conn", "partial_without_conn"};
    json_t *root = load_vectors("reference-1.4.0.json");

    for (size_t i = 0; i < 3; i++) {
        struct bytes want = json_bytes(json_object_get(root, names[i]));
        struct bytes out = {0};
        struct wire_list_iter iter;
        struct wire_desc desc;
        static struct wire_blob blob;

        assert_int_equal(wire_blob_open(want.data, want.len, &out, &blob, NULL), NIXL_SUCCESS);
        wire_blob_begin(&writer, &out, "vec-agent", 9);
        if (blob.conn_count != 0) {
            wire_blob_conn(&writer, "UCX", blob.conns[0].bytes.data, blob.conns[0].bytes.len);
        }
        wire_blob_section(&writer, "UCX", DRAM_SEG, 3, 11);
        wire_list_begin(&blob.sections[0].list, &iter);
        while (wire_list_next(&iter, &desc)) {
            wire_blob_desc(&writer, desc.addr, desc.len, desc.dev, desc.meta.data, desc.meta.len);
        }
        assert_int_equal(wire_blob_end(&writer), NIXL_SUCCESS);
        assert_same_bytes(&out, &want);
        bytes_free(&out);
        bytes_free(&want);
    }
    json_decref(root);
}

static void sections_are_written_one_after_the_other(void **state) {
    struct bytes want = {0};
    struct bytes out = {0};

    add_text(&want, "kept");
    add_blob_head(&want, "agent-one", 2);
    add_text_field(&want, "t", "UCX");
    add_text_field(&want, "c", "ucx address");
    add_text_field(&want, "t", "MOCK");
    add_text_field(&want, "c", "m");
    add_sections_head(&want, 3);
    add_section_head(&want, "UCX", 0, 2);
    add_row(&want, 0x1000, 0x100, 0, "key1", 4);
    add_row(&want, 0x3000, 0x200, 1, "k2", 2);
    add_section_head(&want, "UCX", 1, 1);
    add_row(&want, UINT64_MAX, 1, 3, NULL, 0);
    add_section_head(&want, "MOCK", 0, 0);
    add_text(&out, "kept");
    write_sample(&out, false);
    assert_same_bytes(&out, &want);
    bytes_free(&out);
    bytes_free(&want);
}

static void rows_kept_serialized_are_taken_as_they_are(void **state) {
    struct bytes rows = {0};
    struct bytes want = {0};
    struct bytes out = {0};

    add_row(&want, 5, 6, 7, "key", 3);
    add_row(&want, 8, 9, 10, NULL, 0);
    assert_int_equal(wire_row_append(&rows, 5, 6, 7, "key", 3), NIXL_SUCCESS);
    assert_int_equal(rows.len, wire_row_size(3));
    assert_int_equal(wire_row_append(&rows, 8, 9, 10, NULL, 0), NIXL_SUCCESS);
    assert_same_bytes(&rows, &want);
    bytes_clear(&want);
    add_blob_head(&want, "B", 0);
    add_sections_head(&want, 1);
    add_section_head(&want, "UCX", 4, 3);
    add_row(&want, 1, 2, 3, "k", 1);
    add_raw(&want, rows.data, rows.len);
    wire_blob_begin(&writer, &out, "B", 1);
    wire_blob_section(&writer, "UCX", FILE_SEG, 0, 0);
    wire_blob_desc(&writer, 1, 2, 3, "k", 1);
    wire_blob_rows(&writer, rows.data, rows.len, 2);
    assert_int_equal(wire_blob_end(&writer), NIXL_SUCCESS);
    assert_same_bytes(&out, &want);
    bytes_free(&out);
    bytes_free(&want);
    bytes_free(&rows);
}

/* Each of these calls is wrong at that place; a blob is begun before and ended after. */
enum wrong {
    CONN_WITHOUT_TYPE,
    CONN_WITH_NULL_TYPE,
    CONN_WITH_LONG_TYPE,
    CONN_WITHOUT_BYTES,
    CONN_BEHIND_SECTION,
    SECTION_WITHOUT_TYPE,
    SECTION_OF_NO_KIND,
    SECTION_BEHIND_TRAILER,
    DESC_WITHOUT_SECTION,
    DESC_BEHIND_TRAILER,
    ROWS_WITHOUT_SECTION,
    TRAILER_TWICE,
    TRAILER_OF_NO_KIND,
    TRAILER_WITH_LATE_BASE,
    NOTE_WITHOUT_TRAILER,
    NOTE_WITHOUT_TYPE,
    NOTE_BEHIND_MAC,
    NOTE_TOO_LONG,
    REMOVED_WITHOUT_TRAILER,
    REMOVED_IN_FULL_BLOB,
    REMOVED_OF_NO_KIND,
    REMOVED_WITHOUT_TYPE,
    MAC_WITHOUT_TRAILER,
    MAC_TWICE,
    MAC_OF_NO_ALGORITHM,
    MAC_TOO_LONG,
    MAC_EMPTY,
    MAC_OF_WRONG_LENGTH,
    WRONG_COUNT,
};

static void call_wrongly(enum wrong wrong) {
    static const struct wire_trailer full = {.kind = WIRE_BLOB_FULL, .generation = 2};
    static const struct wire_trailer no_kind = {.kind = (enum wire_blob_kind)3};
    static const struct wire_trailer late_base = {.kind = WIRE_BLOB_UPDATE, .base_generation = 1};
    static char type[257];

    memset(type, 'T', 256);
    if (wrong == CONN_BEHIND_SECTION || wrong == DESC_BEHIND_TRAILER || wrong == TRAILER_TWICE) {
        wire_blob_section(&writer, "UCX", DRAM_SEG, 0, 0);
    }
    if (wrong == SECTION_BEHIND_TRAILER || wrong == DESC_BEHIND_TRAILER || wrong == TRAILER_TWICE ||
        wrong == NOTE_WITHOUT_TYPE || wrong == NOTE_BEHIND_MAC || wrong == NOTE_TOO_LONG ||
        wrong == REMOVED_OF_NO_KIND || wrong == REMOVED_WITHOUT_TYPE || wrong >= MAC_TWICE) {
        wire_blob_trailer(&writer, &update);
    }
    if (wrong == NOTE_BEHIND_MAC || wrong == MAC_TWICE) {
        wire_blob_mac(&writer, WIRE_MAC_HMAC_SHA256, WIRE_HMAC_SHA256_LEN);
    }
    assert_int_equal(writer.status, NIXL_SUCCESS);
    switch (wrong) {
    case CONN_WITHOUT_TYPE:
        wire_blob_conn(&writer, "", "CONN", 4);
        break;
    case CONN_WITH_NULL_TYPE:
        wire_blob_conn(&writer, NULL, "CONN", 4);
        break;
    case CONN_WITH_LONG_TYPE:
        wire_blob_conn(&writer, type, "CONN", 4);
        break;
    case CONN_WITHOUT_BYTES:
        wire_blob_conn(&writer, "UCX", NULL, 0);
        break;
    case CONN_BEHIND_SECTION:
        wire_blob_conn(&writer, "UCX", "CONN", 4);
        break;
    case SECTION_WITHOUT_TYPE:
        wire_blob_section(&writer, "", DRAM_SEG, 0, 0);
        break;
    case SECTION_OF_NO_KIND:
        wire_blob_section(&writer, "UCX", (nixl_mem_t)5, 0, 0);
        break;
    case SECTION_BEHIND_TRAILER:
        wire_blob_section(&writer, "UCX", DRAM_SEG, 0, 0);
        break;
    case DESC_WITHOUT_SECTION:
    case DESC_BEHIND_TRAILER:
        wire_blob_desc(&writer, 1, 2, 3, "k", 1);
        break;
    case ROWS_WITHOUT_SECTION:
        wire_blob_rows(&writer, "", 0, 0);
        break;
    case TRAILER_TWICE:
        wire_blob_trailer(&writer, &update);
        break;
    case TRAILER_OF_NO_KIND:
        wire_blob_trailer(&writer, &no_kind);
        break;
    case TRAILER_WITH_LATE_BASE:
        wire_blob_trailer(&writer, &late_base);
        break;
    case NOTE_WITHOUT_TRAILER:
    case NOTE_BEHIND_MAC:
        wire_blob_note(&writer, "UCX", "1.22", 4);
        break;
    case NOTE_WITHOUT_TYPE:
        wire_blob_note(&writer, "", "1.22", 4);
        break;
    case NOTE_TOO_LONG:
        wire_blob_note(&writer, "UCX", "", (size_t)UINT32_MAX + 1);
        break;
    case REMOVED_WITHOUT_TRAILER:
        wire_blob_removed(&writer, "UCX", DRAM_SEG, 1, 2, 3);
        break;
    case REMOVED_IN_FULL_BLOB:
        wire_blob_trailer(&writer, &full);
        wire_blob_removed(&writer, "UCX", DRAM_SEG, 1, 2, 3);
        break;
    case REMOVED_OF_NO_KIND:
        wire_blob_removed(&writer, "UCX", (nixl_mem_t)-1, 1, 2, 3);
        break;
    case REMOVED_WITHOUT_TYPE:
        wire_blob_removed(&writer, "", DRAM_SEG, 1, 2, 3);
        break;
    case MAC_WITHOUT_TRAILER:
    case MAC_TWICE:
        wire_blob_mac(&writer, WIRE_MAC_HMAC_SHA256, WIRE_HMAC_SHA256_LEN);
        break;
    case MAC_OF_NO_ALGORITHM:
        wire_blob_mac(&writer, WIRE_MAC_NONE, 32);
        break;
    case MAC_TOO_LONG:
        wire_blob_mac(&writer, (enum wire_mac_algorithm)2, WIRE_MAC_MAX + 1);
        break;
    case MAC_EMPTY:
        wire_blob_mac(&writer, (enum wire_mac_algorithm)2, 0);
        break;
    case MAC_OF_WRONG_LENGTH:
        wire_blob_mac(&writer, WIRE_MAC_HMAC_SHA256, 20);
        break;
    case WRONG_COUNT:
        break;
    }
}

static void a_wrong_call_is_reported_at_the_end_and_leaves_the_buffer(void **state) {
    for (unsigned wrong = 0; wrong < WRONG_COUNT; wrong++) {
        struct bytes out = {0};

        add_text(&out, "kept");
        wire_blob_begin(&writer, &out, "B", 1);
        call_wrongly((enum wrong)wrong);
        if (writer.status != NIXL_ERR_INVALID_PARAM || writer.what == NULL) {
            fail_msg("wrong call %u was taken", wrong);
        }
        /* What follows does nothing. */
        wire_blob_conn(&writer, "UCX", "CONN", 4);
        wire_blob_section(&writer, "UCX", DRAM_SEG, 0, 0);
        wire_blob_desc(&writer, 1, 2, 3, "k", 1);
        wire_blob_rows(&writer, "r", 1, 1);
        wire_blob_trailer(&writer, &update);
        wire_blob_note(&writer, "UCX", "1.22", 4);
        wire_blob_removed(&writer, "UCX", DRAM_SEG, 1, 2, 3);
        wire_blob_mac(&writer, WIRE_MAC_HMAC_SHA256, WIRE_HMAC_SHA256_LEN);
        assert_int_equal(wire_blob_end(&writer), NIXL_ERR_INVALID_PARAM);
        assert_int_equal(wire_blob_end(&writer), NIXL_ERR_INVALID_PARAM);
        assert_int_equal(out.len, 4);
        assert_memory_equal(out.data, "kept", 4);
        bytes_free(&out);
    }
}

static void a_name_that_is_empty_or_has_a_nul_is_refused(void **state) {
    struct bytes out = {0};

    wire_blob_begin(&writer, &out, "", 0);
    assert_int_equal(wire_blob_end(&writer), NIXL_ERR_INVALID_PARAM);
    wire_blob_begin(&writer, &out, "a\0b", 3);
    assert_int_equal(wire_blob_end(&writer), NIXL_ERR_INVALID_PARAM);
    assert_non_null(strstr(writer.what, "NUL"));
    assert_int_equal(out.len, 0);
    bytes_free(&out);
}

static void a_second_end_changes_nothing(void **state) {
    struct bytes out = {0};

    wire_blob_begin(&writer, &out, "B", 1);
    assert_int_equal(wire_blob_end(&writer), NIXL_SUCCESS);
    assert_int_equal(out.len, 123 - (9 + 1 + 4) * 2);
    assert_int_equal(wire_blob_end(&writer), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(out.len, 123 - (9 + 1 + 4) * 2);
    bytes_free(&out);
}

static void more_connections_or_sections_than_a_reader_takes_are_refused(void **state) {
    struct bytes out = {0};
    char type[16];

    wire_blob_begin(&writer, &out, "B", 1);
    for (unsigned i = 0; i <= WIRE_BLOB_CONNS; i++) {
        assert_int_equal(writer.status, NIXL_SUCCESS);
        snprintf(type, sizeof type, "T%u", i);
        wire_blob_conn(&writer, type, "CONN", 4);
    }
    assert_int_equal(wire_blob_end(&writer), NIXL_ERR_INVALID_PARAM);
    wire_blob_begin(&writer, &out, "B", 1);
    for (unsigned i = 0; i <= WIRE_BLOB_SECTIONS; i++) {
        assert_int_equal(writer.status, NIXL_SUCCESS);
        snprintf(type, sizeof type, "T%u", i);
        wire_blob_section(&writer, type, DRAM_SEG, 0, 0);
    }
    assert_int_equal(wire_blob_end(&writer), NIXL_ERR_INVALID_PARAM);
    bytes_free(&out);
}

static void a_size_that_no_memory_has_is_reported(void **state) {
    struct bytes out = {0};

    wire_blob_begin(&writer, &out, "B", 1);
    wire_blob_section(&writer, "UCX", DRAM_SEG, SIZE_MAX / 64, 30);
    assert_int_equal(wire_blob_end(&writer), NIXL_ERR_UNKNOWN);
    wire_blob_begin(&writer, &out, "B", 1);
    wire_blob_section(&writer, "UCX", DRAM_SEG, 0, 0);
    wire_blob_desc(&writer, 1, 2, 3, "k", SIZE_MAX - 20);
    assert_int_equal(wire_blob_end(&writer), NIXL_ERR_UNKNOWN);
    wire_blob_begin(&writer, &out, "B", 1);
    wire_blob_section(&writer, "UCX", DRAM_SEG, 0, 0);
    wire_blob_rows(&writer, "k", SIZE_MAX - 20, 1);
    assert_int_equal(wire_blob_end(&writer), NIXL_ERR_UNKNOWN);
    assert_int_equal(out.len, 0);
    bytes_free(&out);
}

/* A blob with a mac, so that every call that can want memory is in it. */
static nixl_status_t write_all(struct bytes *out) {
    wire_blob_begin(&writer, out, "agent", 5);
    wire_blob_conn(&writer, "UCX", "connection", 10);
    wire_blob_section(&writer, "UCX", DRAM_SEG, 1, 3);
    wire_blob_desc(&writer, 1, 2, 3, "key", 3);
    wire_blob_trailer(&writer, &update);
    wire_blob_removed(&writer, "UCX", DRAM_SEG, 1, 2, 3);
    wire_blob_note(&writer, "UCX", "1.22", 4);
    wire_blob_mac(&writer, WIRE_MAC_HMAC_SHA256, WIRE_HMAC_SHA256_LEN);
    return wire_blob_end(&writer);
}

static void memory_that_runs_out_anywhere_is_reported_and_leaves_the_buffer(void **state) {
    struct bytes whole = {0};

    assert_int_equal(write_all(&whole), NIXL_SUCCESS);
    /* A buffer that is full after k bytes: the first call that needs more of it fails. */
    for (size_t room = 0; room < whole.len; room++) {
        struct bytes out = {0};

        assert_true(bytes_reserve(&out, whole.len));
        out.cap = room;
        failing_realloc = 1;
        assert_int_equal(write_all(&out), NIXL_ERR_UNKNOWN);
        assert_int_equal(failing_realloc, 0);
        assert_non_null(strstr(writer.what, "memory"));
        assert_int_equal(out.len, 0);
        bytes_free(&out);
    }
    failing_realloc = 0;
    bytes_free(&whole);
}

static void memory_that_runs_out_while_reading_a_trailer_is_reported(void **state) {
    static struct wire_blob blob;
    struct wire_error error;
    struct bytes scratch = {0};
    struct bytes out = {0};

    write_sample(&out, true);
    failing_realloc = 1;
    assert_int_equal(wire_blob_open(out.data, out.len, &scratch, &blob, &error), NIXL_ERR_UNKNOWN);
    assert_non_null(strstr(error.what, "memory"));
    assert_int_equal(wire_blob_open(out.data, out.len, &scratch, &blob, &error), NIXL_SUCCESS);
    bytes_free(&scratch);
    bytes_free(&out);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_123_bytes_is_written),
        cmocka_unit_test(the_references_blobs_are_written_byte_for_byte),
        cmocka_unit_test(sections_are_written_one_after_the_other),
        cmocka_unit_test(rows_kept_serialized_are_taken_as_they_are),
        cmocka_unit_test(a_wrong_call_is_reported_at_the_end_and_leaves_the_buffer),
        cmocka_unit_test(a_name_that_is_empty_or_has_a_nul_is_refused),
        cmocka_unit_test(a_second_end_changes_nothing),
        cmocka_unit_test(more_connections_or_sections_than_a_reader_takes_are_refused),
        cmocka_unit_test(a_size_that_no_memory_has_is_reported),
        cmocka_unit_test(memory_that_runs_out_anywhere_is_reported_and_leaves_the_buffer),
        cmocka_unit_test(memory_that_runs_out_while_reading_a_trailer_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
