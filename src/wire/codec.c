/* SPDX-License-Identifier: Apache-2.0 */
/* Tagged fields: see codec.h. */
#include "wire/codec.h"

bool wire_view_is(struct bytes_view view, const char *text) {
    return bytes_view_equal(view, bytes_view(text, strlen(text)));
}

uint8_t *wire_put_field(uint8_t *at, const char *tag, size_t tag_len, const void *data, size_t len) {
    wire_put_bytes(at, tag, tag_len);
    at += tag_len;
    wire_put_u64(at, len);
    at += sizeof(uint64_t);
    wire_put_bytes(at, data, len);
    at += len;
    *at = WIRE_SEPARATOR;
    return at + 1;
}

bool wire_append_field(struct bytes *out, const char *tag, size_t tag_len, const void *data, size_t len) {
    size_t size;

    if (!size_add(tag_len + WIRE_FIELD_EXTRA, len, &size) || !bytes_reserve(out, size)) {
        return false;
    }
    wire_put_field(out->data + out->len, tag, tag_len, data, len);
    out->len += size;
    return true;
}

bool wire_append_u64_field(struct bytes *out, const char *tag, size_t tag_len, uint64_t value) {
    uint8_t number[sizeof value];

    wire_put_u64(number, value);
    return wire_append_field(out, tag, tag_len, number, sizeof number);
}

bool wire_refuse(const struct wire_reader *reader, const char *what) {
    if (reader->error != NULL) {
        *reader->error = (struct wire_error){.what = what, .offset = reader->at};
    }
    return false;
}

bool wire_read_prefix(struct wire_reader *reader) {
    if (wire_left(reader) < WIRE_PREFIX_LEN ||
        memcmp(reader->data + reader->at, WIRE_PREFIX, WIRE_PREFIX_LEN) != 0) {
        return wire_refuse(reader, "it does not begin with \"" WIRE_PREFIX "\"");
    }
    reader->at += WIRE_PREFIX_LEN;
    return true;
}

bool wire_read_field(struct wire_reader *reader, const char *tag, size_t tag_len, const char *what,
                     struct bytes_view *payload) {
    const uint8_t *at = reader->data + reader->at;
    size_t left = wire_left(reader);
    uint64_t len;

    if (left < tag_len || (tag_len != 0 && memcmp(at, tag, tag_len) != 0)) {
        return wire_refuse(reader, what);
    }
    left -= tag_len;
    if (left < WIRE_FIELD_EXTRA) {
        return wire_refuse(reader, "it ends inside a field");
    }
    left -= WIRE_FIELD_EXTRA;
    len = wire_get_u64(at + tag_len);
#ifndef BREAK_10
    if (len > left) {
#else
    if (reader->at + tag_len + WIRE_FIELD_EXTRA + len > reader->len) {
#endif
        return wire_refuse(reader, "a field is longer than the bytes that are left");
    }
    *payload = bytes_view(at + tag_len + sizeof(uint64_t), (size_t)len);
    reader->at += tag_len + WIRE_FIELD_EXTRA + (size_t)len;
    return true;
}

bool wire_read_text(struct wire_reader *reader, const char *tag, size_t tag_len, const char *what,
                    struct bytes_view *payload) {
    struct wire_reader start = *reader;

    if (!wire_read_field(reader, tag, tag_len, what, payload)) {
        return false;
    }
    return payload->len != 0 || wire_refuse(&start, what);
}

bool wire_read_count(struct wire_reader *reader, const char *tag, size_t tag_len, const char *what,
                     uint64_t *count) {
    struct wire_reader start = *reader;
    struct bytes_view payload;

    if (!wire_read_field(reader, tag, tag_len, what, &payload)) {
        return false;
    }
    if (payload.len != sizeof *count) {
        return wire_refuse(&start, what);
    }
    *count = wire_get_u64(payload.data);
    return true;
}
