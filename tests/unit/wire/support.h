/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of src/wire share: the reference's vectors (tests/vectors), bytes put together by hand, and
 * a blob with everything in it.
 */
#ifndef TESTS_UNIT_WIRE_SUPPORT_H
#define TESTS_UNIT_WIRE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/bytes.h"
#include "base/text.h"
#include "wire/wire.h"

/* Puts quotes around integers of 19 digits and more: jansson's integers end at 2^63 - 1, the vectors' at 2^64
 * - 1. */
static inline void quote_big_integers(struct bytes *out, const char *text) {
    bool in_string = false;

    while (*text != 0) {
        size_t digits = in_string ? 0 : strspn(text, "0123456789");
        const char *quote = digits >= 19 ? "\"" : "";

        in_string ^= *text == '"';
        assert_true(bytes_append_text(out, quote));
        assert_true(bytes_append(out, text, digits != 0 ? digits : 1));
        assert_true(bytes_append_text(out, quote));
        text += digits != 0 ? digits : 1;
    }
}

static inline json_t *load_vectors(const char *file) {
    struct bytes quoted = {0};
    char text[16384] = "";
    char path[4096];
    json_error_t error;
    json_t *root;
    FILE *in;

    snprintf(path, sizeof path, "%s/tests/vectors/%s", getenv("NIXL_TEST_SOURCE"), file);
    in = fopen(path, "r");
    assert_non_null(in);
    assert_in_range(fread(text, 1, sizeof text - 1, in), 1, sizeof text - 2);
    fclose(in);
    quote_big_integers(&quoted, text);
    root = json_loadb((const char *)quoted.data, quoted.len, 0, &error);
    if (root == NULL) {
        fail_msg("%s: %s", path, error.text);
    }
    bytes_free(&quoted);
    return root;
}

static inline uint64_t json_u64(const json_t *value) {
    uint64_t number = 0;

    if (json_is_integer(value)) {
        return (uint64_t)json_integer_value(value);
    }
    assert_true(json_is_string(value));
    assert_int_equal(text_parse_uint(text_of(json_string_value(value)), &number), TEXT_OK);
    return number;
}

static inline struct bytes from_hex(const char *hex) {
    struct bytes out = {0};
    size_t len = strlen(hex);

    assert_true(bytes_reserve(&out, len / 2 + 1));
    assert_true(text_hex_decode(out.data, hex, len));
    out.len = len / 2;
    return out;
}

static inline struct bytes json_bytes(const json_t *value) {
    assert_true(json_is_string(value));
    return from_hex(json_string_value(value));
}

/* Fields by hand, independent of the code under test. */
static inline void add_raw(struct bytes *out, const void *data, size_t len) {
    assert_true(bytes_append(out, data, len));
}

static inline void add_text(struct bytes *out, const char *text) {
    add_raw(out, text, strlen(text));
}

static inline void add_le(struct bytes *out, uint64_t value, size_t len) {
    for (size_t i = 0; i < len; i++) {
        assert_true(bytes_append_byte(out, (uint8_t)(value >> 8 * i)));
    }
}

static inline void add_field(struct bytes *out, const char *tag, const void *data, size_t len) {
    add_text(out, tag);
    add_le(out, len, 8);
    add_raw(out, data, len);
    add_text(out, "|");
}

static inline void add_text_field(struct bytes *out, const char *tag, const char *text) {
    add_field(out, tag, text, strlen(text));
}

static inline void add_count_field(struct bytes *out, const char *tag, uint64_t count) {
    struct bytes number = {0};

    add_le(&number, count, 8);
    add_field(out, tag, number.data, number.len);
    bytes_free(&number);
}

static inline void add_kind_field(struct bytes *out, uint32_t kind) {
    struct bytes number = {0};

    add_le(&number, kind, 4);
    add_field(out, "t", number.data, number.len);
    bytes_free(&number);
}

static inline void add_row(struct bytes *out, uint64_t addr, uint64_t len, uint64_t dev, const void *meta,
                           size_t meta_len) {
    add_le(out, 24 + meta_len, 8);
    add_le(out, addr, 8);
    add_le(out, len, 8);
    add_le(out, dev, 8);
    add_raw(out, meta, meta_len);
    add_text(out, "|");
}

static inline void add_blob_head(struct bytes *out, const char *agent, uint64_t conns) {
    add_text(out, "nixlSerDes|");
    add_text_field(out, "Agent", agent);
    add_count_field(out, "Conns", conns);
}

static inline void add_sections_head(struct bytes *out, uint64_t sections) {
    add_text_field(out, "", "MemSection");
    add_count_field(out, "nixlSecElms", sections);
}

static inline void add_section_head(struct bytes *out, const char *type, uint32_t kind, uint64_t count) {
    add_text_field(out, "bknd", type);
    add_text_field(out, "nixlDList", "nixlSDList");
    add_kind_field(out, kind);
    add_count_field(out, "n", count);
}

/* A copy of exactly its size on the heap, so that a sanitizer sees a read behind it. */
static inline uint8_t *exact_copy(const void *data, size_t len) {
    uint8_t *copy = malloc(len != 0 ? len : 1);

    assert_non_null(copy);
    if (len != 0) {
        memcpy(copy, data, len);
    }
    return copy;
}

static inline void assert_view(struct bytes_view view, const char *text) {
    assert_int_equal(view.len, strlen(text));
    assert_memory_equal(view.data, text, view.len);
}

static inline void assert_same_bytes(const struct bytes *got, const struct bytes *want) {
    assert_int_equal(got->len, want->len);
    assert_memory_equal(got->data, want->data, want->len);
}

/* What wire_blob_open() says of a copy of these bytes; `what` gets the reason when it refuses. */
static inline nixl_status_t open_copy(const void *data, size_t len, const char **what) {
    static struct wire_blob blob;
    uint8_t *copy = exact_copy(data, len);
    struct wire_error error = {0};
    struct bytes scratch = {0};
    nixl_status_t status = wire_blob_open(copy, len, &scratch, &blob, &error);

    if (status != NIXL_SUCCESS) {
        assert_non_null(error.what);
        assert_true(error.offset <= len);
    }
    if (what != NULL) {
        *what = status != NIXL_SUCCESS ? error.what : "";
    }
    bytes_free(&scratch);
    free(copy);
    return status;
}

static inline void assert_refused(const struct bytes *blob, const char *reason) {
    const char *what = NULL;

    assert_int_equal(open_copy(blob->data, blob->len, &what), NIXL_ERR_MISMATCH);
    if (strstr(what, reason) == NULL) {
        fail_msg("refused for \"%s\", not for \"%s\"", what, reason);
    }
}

/* Two connections, three sections, and with `trailer` an update's trailer with two notes and removals of two
 * sections. */
static inline void write_sample(struct bytes *out, bool trailer) {
    static const struct wire_trailer fields = {
        .kind = WIRE_BLOB_UPDATE,
        .incarnation = {.boot_ns = 0x1122334455667788, .random = 0x99aabbccddeeff00},
        .generation = 7,
        .base_generation = 5,
    };
    struct wire_blob_writer writer;

    wire_blob_begin(&writer, out, "agent-one", 9);
    wire_blob_conn(&writer, "UCX", "ucx address", 11);
    wire_blob_conn(&writer, "MOCK", "m", 1);
    wire_blob_section(&writer, "UCX", DRAM_SEG, 2, 4);
    wire_blob_desc(&writer, 0x1000, 0x100, 0, "key1", 4);
    wire_blob_desc(&writer, 0x3000, 0x200, 1, "k2", 2);
    wire_blob_section(&writer, "UCX", VRAM_SEG, 0, 0);
    wire_blob_desc(&writer, UINT64_MAX, 1, 3, NULL, 0);
    wire_blob_section(&writer, "MOCK", DRAM_SEG, 0, 0);
    if (trailer) {
        wire_blob_trailer(&writer, &fields);
        wire_blob_note(&writer, "UCX", "1.22.0", 6);
        wire_blob_removed(&writer, "UCX", DRAM_SEG, 0x5000, 0x10, 0);
        wire_blob_removed(&writer, "UCX", DRAM_SEG, 0x6000, 0x20, 0);
        wire_blob_removed(&writer, "UCX", VRAM_SEG, 0x7000, 0x30, 2);
        wire_blob_note(&writer, "MOCK", NULL, 0);
    }
    assert_int_equal(wire_blob_end(&writer), NIXL_SUCCESS);
}

#endif
