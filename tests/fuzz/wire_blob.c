/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata blobs: what is accepted is walked, written again and read back equal. An input that ends like a
 * trailer is tried a second time with the right checksum put in, which no mutation would find.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct wire_blob blob, again;

static const char end[] = "6e69786c456e6421|";
#define END_LEN (sizeof end - 1)

static bool ends_like_a_trailer(const uint8_t *data, size_t size) {
    return size >= END_LEN && memcmp(data + size - END_LEN, end, END_LEN) == 0;
}

/* A type as the C string that the writer takes; false when it is none. */
static bool to_text(struct bytes_view view, char text[256]) {
    if (view.len > 255 || memchr(view.data, 0, view.len) != NULL) {
        return false;
    }
    memcpy(text, view.data, view.len);
    text[view.len] = 0;
    return true;
}

static bool write_sections(struct wire_blob_writer *writer) {
    struct wire_list_iter iter;
    struct wire_desc desc;
    char type[256];

    for (size_t i = 0; i < blob.conn_count; i++) {
        if (!to_text(blob.conns[i].type, type)) {
            return false;
        }
        wire_blob_conn(writer, type, blob.conns[i].bytes.data, blob.conns[i].bytes.len);
    }
    for (size_t i = 0; i < blob.section_count; i++) {
        const struct wire_list *list = &blob.sections[i].list;
        size_t rows = 0;

        if (!to_text(blob.sections[i].type, type)) {
            return false;
        }
        wire_blob_section(writer, type, list->mem, list->count, 0);
        for (wire_list_begin(list, &iter); wire_list_next(&iter, &desc); rows++) {
            wire_blob_desc(writer, desc.addr, desc.len, desc.dev, desc.meta.data, desc.meta.len);
        }
        assert(rows == list->count);
    }
    return true;
}

static bool write_trailer(struct wire_blob_writer *writer) {
    struct wire_cursor cursor = {0};
    struct wire_removed removed;
    struct wire_note note;
    char type[256];

    wire_blob_trailer(writer, &blob.trailer);
    while (wire_blob_next_note(&blob, &cursor, &note)) {
        if (!to_text(note.type, type)) {
            return false;
        }
        wire_blob_note(writer, type, note.bytes.data, note.bytes.len);
    }
    cursor = (struct wire_cursor){0};
    while (wire_blob_next_removed(&blob, &cursor, &removed)) {
        if (!to_text(removed.type, type)) {
            return false;
        }
        wire_blob_removed(writer, type, removed.mem, removed.desc.addr, removed.desc.len, removed.desc.dev);
    }
    if (blob.mac_algorithm != WIRE_MAC_NONE && blob.mac.len <= WIRE_MAC_MAX) {
        wire_blob_mac(writer, (enum wire_mac_algorithm)blob.mac_algorithm, blob.mac.len);
    }
    return true;
}

static void assert_same_trailer(void) {
    struct wire_cursor at_a = {0}, at_b = {0};
    struct wire_removed x, y;
    struct wire_note m, n;

    assert(again.has_trailer);
    assert(memcmp(&blob.trailer.incarnation, &again.trailer.incarnation, sizeof blob.trailer.incarnation) ==
           0);
    assert(blob.trailer.kind == again.trailer.kind && blob.trailer.generation == again.trailer.generation &&
           blob.trailer.base_generation == again.trailer.base_generation);
    while (wire_blob_next_note(&blob, &at_a, &m)) {
        assert(wire_blob_next_note(&again, &at_b, &n));
        assert(bytes_view_equal(m.type, n.type) && bytes_view_equal(m.bytes, n.bytes));
    }
    assert(!wire_blob_next_note(&again, &at_b, &n));
    at_a = at_b = (struct wire_cursor){0};
    while (wire_blob_next_removed(&blob, &at_a, &x)) {
        assert(wire_blob_next_removed(&again, &at_b, &y));
        assert(bytes_view_equal(x.type, y.type) && x.mem == y.mem && x.desc.addr == y.desc.addr &&
               x.desc.len == y.desc.len && x.desc.dev == y.desc.dev);
    }
    assert(!wire_blob_next_removed(&again, &at_b, &y));
}

static void assert_same_blob(void) {
    assert(bytes_view_equal(blob.agent, again.agent));
    assert(blob.conn_count == again.conn_count && blob.section_count == again.section_count);
    for (size_t i = 0; i < blob.conn_count; i++) {
        assert(bytes_view_equal(blob.conns[i].type, again.conns[i].type));
        assert(bytes_view_equal(blob.conns[i].bytes, again.conns[i].bytes));
    }
    for (size_t i = 0; i < blob.section_count; i++) {
        const struct wire_list *a = &blob.sections[i].list, *b = &again.sections[i].list;
        struct wire_list_iter at_a, at_b;
        struct wire_desc x, y;

        assert(bytes_view_equal(blob.sections[i].type, again.sections[i].type));
        assert(a->mem == b->mem && a->count == b->count);
        wire_list_begin(a, &at_a);
        wire_list_begin(b, &at_b);
        while (wire_list_next(&at_a, &x)) {
            assert(wire_list_next(&at_b, &y));
            assert(x.addr == y.addr && x.len == y.len && x.dev == y.dev && bytes_view_equal(x.meta, y.meta));
        }
    }
}

static void try_blob(const uint8_t *data, size_t size) {
    struct bytes scratch = {0}, scratch_again = {0}, out = {0};
    struct wire_blob_writer writer;
    struct wire_error error = {0};

    if (wire_blob_open(data, size, &scratch, &blob, &error) != NIXL_SUCCESS) {
        assert(error.what != NULL && error.offset <= size);
    } else {
        wire_blob_begin(&writer, &out, (const char *)blob.agent.data, blob.agent.len);
        if (write_sections(&writer) && (!blob.has_trailer || write_trailer(&writer))) {
            assert(wire_blob_end(&writer) == NIXL_SUCCESS);
            if (writer.mac_len != 0) {
                assert(wire_blob_auth_range(&writer).len < out.len);
                wire_blob_seal(&writer, blob.mac.data);
            }
            if (!blob.has_trailer && ends_like_a_trailer(out.data, out.len)) {
                /* The last region's bytes end in the end mark: refused, since it could be a trailer's. */
                assert(wire_blob_open(out.data, out.len, &scratch_again, &again, NULL) == NIXL_ERR_MISMATCH);
                goto done;
            }
            assert(wire_blob_open(out.data, out.len, &scratch_again, &again, NULL) == NIXL_SUCCESS);
            assert_same_blob();
            assert(blob.has_trailer == again.has_trailer);
            if (blob.has_trailer) {
                assert_same_trailer();
                assert(writer.mac_len == 0 || bytes_view_equal(blob.mac, again.mac));
            }
        }
    }
done:
    bytes_free(&out);
    bytes_free(&scratch);
    bytes_free(&scratch_again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t len = size;

    try_blob(data, size);
    while (len != 0 && data[len - 1] == 0) {
        len--;
    }
    if (len >= END_LEN + 8 && ends_like_a_trailer(data, len)) {
        uint8_t *sealed = malloc(size);
        size_t crc_at = len - END_LEN - 8;
        uint32_t crc = crc32c(0, data, crc_at);
        uint8_t bytes[4] = {(uint8_t)crc, (uint8_t)(crc >> 8), (uint8_t)(crc >> 16), (uint8_t)(crc >> 24)};
        char digits[9];

        assert(sealed != NULL);
        memcpy(sealed, data, size);
        text_hex_encode(digits, bytes, sizeof bytes);
        memcpy(sealed + crc_at, digits, 8);
        try_blob(sealed, size);
        free(sealed);
    }
    return 0;
}
