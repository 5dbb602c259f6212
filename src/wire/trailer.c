/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a blob's trailer: is there one, is it whole, what does it say. The rules stand in wire.h. */
#include "wire/trailer.h"

#include "base/crc32c.h"
#include "base/text.h"

void trailer_crc_digits(char digits[TRAILER_CRC_LEN + 1], const void *data, size_t len) {
    uint8_t crc[sizeof(uint32_t)];

    wire_put_u32(crc, crc32c(0, data, len));
    text_hex_encode(digits, crc, sizeof crc);
}

static size_t len_without_padding(const uint8_t *data, size_t len) {
    while (len != 0 && data[len - 1] == 0) {
        len--;
    }
    return len;
}

/* Looks at the bytes behind the last section, then at the end of the whole blob: a damaged length may have
 * swallowed the former. */
static bool claims_trailer(const struct wire_reader *reader) {
    const uint8_t *tail = reader->data + reader->at;
    size_t tail_len = len_without_padding(tail, wire_left(reader));
    size_t len = len_without_padding(reader->data, reader->len);
    size_t start = tail_len < TRAILER_TAG_LEN ? tail_len : TRAILER_TAG_LEN;

    if (start != 0 && memcmp(tail, TRAILER_TAG, start) == 0) {
        return true;
    }
    if (memmem(tail, tail_len, WIRE_TAG(TRAILER_TAG)) != NULL) {
        return true;
    }
    return len > TRAILER_END_LEN && reader->data[len - 1] == WIRE_SEPARATOR &&
           memcmp(reader->data + len - 1 - TRAILER_END_LEN, TRAILER_END, TRAILER_END_LEN) == 0;
}

/* The trailer's field from tag to closing byte, with nothing but padding behind; gives the digits of its
 * items, crc checked. */
static bool read_digits(struct wire_reader *reader, struct bytes_view *digits) {
    struct wire_reader start = *reader;
    struct bytes_view payload;
    char crc[TRAILER_CRC_LEN + 1];
    const char *end;

    if (!wire_read_field(reader, WIRE_TAG(TRAILER_TAG), "its trailer is damaged", &payload)) {
        return false;
    }
    if (reader->data[reader->at - 1] != WIRE_SEPARATOR ||
        len_without_padding(reader->data + reader->at, wire_left(reader)) != 0) {
        return wire_refuse(reader, "its trailer does not end where it should");
    }
    if (payload.len % 2 != 0 || payload.len < TRAILER_CRC_LEN + TRAILER_END_LEN) {
        return wire_refuse(&start, "its trailer has an impossible length");
    }
    *digits = bytes_view(payload.data, payload.len - TRAILER_CRC_LEN - TRAILER_END_LEN);
    end = (const char *)digits->data + digits->len;
    if (memcmp(end + TRAILER_CRC_LEN, TRAILER_END, TRAILER_END_LEN) != 0) {
        return wire_refuse(&start, "its trailer lacks the end mark");
    }
    trailer_crc_digits(crc, reader->data, (size_t)(digits->data - reader->data) + digits->len);
#ifndef BREAK_10
    if (memcmp(end, crc, TRAILER_CRC_LEN) != 0) {
        return wire_refuse(&start, "its checksum is wrong: bytes were damaged on the way");
    }
#endif
    return true;
}

/* A type name at the start of an item's payload: its bytes, and what follows. */
static bool split_type(struct bytes_view payload, struct bytes_view *type, struct bytes_view *rest) {
    size_t len;

    if (payload.len == 0) {
        return false;
    }
    len = payload.data[0];
    if (len == 0 || len > payload.len - 1) {
        return false;
    }
    *type = bytes_view(payload.data + 1, len);
    *rest = bytes_view(payload.data + 1 + len, payload.len - 1 - len);
    return true;
}

/* The item at `*at`, and `*at` moved behind it. The items were checked, or are being checked: false when it
 * does not fit. */
static bool next_item(struct bytes_view items, size_t *at, unsigned *id, struct bytes_view *payload) {
    size_t left = items.len - *at;
    uint32_t len;

    if (left < TRAILER_ITEM) {
        return false;
    }
    len = wire_get_u32(items.data + *at + 2);
    if (len > left - TRAILER_ITEM) {
        return false;
    }
    *id = wire_get_u16(items.data + *at);
    *payload = bytes_view(items.data + *at + TRAILER_ITEM, len);
    *at += TRAILER_ITEM + (size_t)len;
    return true;
}

/* NULL, or what is wrong with the head. */
static const char *take_head(struct bytes_view head, struct wire_trailer *trailer, nixl_status_t *status) {
    const uint8_t *at = head.data;

    if (head.len == 0 || at[0] == 0) {
        return "its trailer has no version";
    }
    if (at[0] != TRAILER_VERSION) {
        *status = NIXL_ERR_NOT_SUPPORTED;
        return "its trailer is of a newer version than this library reads";
    }
    if (head.len < TRAILER_HEAD_LEN) {
        return "its trailer's head is too short";
    }
    if (at[1] > WIRE_BLOB_UPDATE) {
        return "its trailer names an unknown kind of blob";
    }
    trailer->kind = (enum wire_blob_kind)at[1];
    trailer->incarnation.boot_ns = wire_get_u64(at + 4);
    trailer->incarnation.random = wire_get_u64(at + 12);
    trailer->generation = wire_get_u64(at + 20);
    trailer->base_generation = wire_get_u64(at + 28);
    if (trailer->base_generation > trailer->generation) {
        return "its trailer's base generation is after its generation";
    }
    return NULL;
}

static bool removed_is_right(struct bytes_view payload) {
    struct bytes_view type;
    struct bytes_view rest;

    return split_type(payload, &type, &rest) && rest.len >= sizeof(uint32_t) &&
           wire_mem_is_kind(wire_get_u32(rest.data)) && (rest.len - sizeof(uint32_t)) % WIRE_ROW == 0;
}

static const char *take_item(unsigned id, struct bytes_view payload, struct wire_blob *blob) {
    struct bytes_view type;
    struct bytes_view rest;

    switch (id) {
    case TRAILER_HEAD:
        return "its trailer has two heads";
    case TRAILER_NOTE:
        return split_type(payload, &type, &rest) ? NULL : "a note in its trailer is malformed";
    case TRAILER_REMOVED:
        if (blob->trailer.kind != WIRE_BLOB_UPDATE) {
            return "its trailer removes regions but it is no update";
        }
        return removed_is_right(payload) ? NULL : "a list of removed regions in its trailer is malformed";
    case TRAILER_MAC:
        if (payload.len < 2 || payload.data[0] == WIRE_MAC_NONE ||
            (payload.data[0] == WIRE_MAC_HMAC_SHA256 && payload.len != 1 + WIRE_HMAC_SHA256_LEN)) {
            return "its authentication code is malformed";
        }
        blob->mac_algorithm = payload.data[0];
        blob->mac = bytes_view(payload.data + 1, payload.len - 1);
        return NULL;
    default:
        return NULL; /* of a later version */
    }
}

/* All items; NULL, or what is wrong. */
static const char *take_items(struct wire_blob *blob, nixl_status_t *status) {
    struct bytes_view payload;
    const char *what;
    size_t at = 0;
    unsigned id;

    if (!next_item(blob->items, &at, &id, &payload) || id != TRAILER_HEAD) {
        return "its trailer does not begin with a head";
    }
    what = take_head(payload, &blob->trailer, status);
    while (what == NULL && at < blob->items.len) {
        if (blob->mac_algorithm != WIRE_MAC_NONE) {
            return "its trailer goes on behind the authentication code";
        }
        if (!next_item(blob->items, &at, &id, &payload)) {
            return "an item of its trailer is longer than the trailer";
        }
        what = take_item(id, payload, blob);
    }
    return what;
}

bool trailer_read(struct wire_reader *reader, struct bytes *scratch, struct wire_blob *blob,
                  nixl_status_t *status) {
    struct wire_reader start = *reader;
    struct bytes_view digits = {0};
    const char *what;

    blob->has_trailer = false;
    blob->trailer = (struct wire_trailer){0};
    blob->mac_algorithm = WIRE_MAC_NONE;
    blob->mac = blob->auth_range = blob->items = (struct bytes_view){0};
    if (!claims_trailer(reader)) {
        return true;
    }
    *status = NIXL_ERR_MISMATCH;
    if (!read_digits(reader, &digits)) {
        return false;
    }
    bytes_clear(scratch);
    if (!bytes_reserve(scratch, digits.len / 2 + 1)) {
        *status = NIXL_ERR_UNKNOWN;
        return wire_refuse(&start, "there is no memory to decode its trailer");
    }
    if (!text_hex_decode(scratch->data, (const char *)digits.data, digits.len)) {
        return wire_refuse(&start, "its trailer is not hexadecimal");
    }
    scratch->len = digits.len / 2;
    blob->items = bytes_view_of(scratch);
    what = take_items(blob, status);
    if (what != NULL) {
        return wire_refuse(&start, what);
    }
    if (blob->mac_algorithm != WIRE_MAC_NONE) {
        blob->auth_range =
            bytes_view(reader->data, (size_t)(digits.data - reader->data) + digits.len - 2 * blob->mac.len);
    }
    blob->has_trailer = true;
    return true;
}

bool wire_blob_next_note(const struct wire_blob *blob, struct wire_cursor *cursor, struct wire_note *note) {
    struct bytes_view payload;
    unsigned id;

    while (next_item(blob->items, &cursor->item, &id, &payload)) {
        if (id == TRAILER_NOTE && split_type(payload, &note->type, &note->bytes)) {
            return true;
        }
    }
    return false;
}

bool wire_blob_next_removed(const struct wire_blob *blob, struct wire_cursor *cursor,
                            struct wire_removed *removed) {
    struct bytes_view payload;
    struct bytes_view rest;
    size_t at = cursor->item;
    unsigned id;

    while (next_item(blob->items, &at, &id, &payload)) {
        if (id == TRAILER_REMOVED && split_type(payload, &removed->type, &rest)) {
            size_t rows = (rest.len - sizeof(uint32_t)) / WIRE_ROW;

            if (cursor->row < rows) {
                const uint8_t *row = rest.data + sizeof(uint32_t) + cursor->row * WIRE_ROW;

                removed->mem = (nixl_mem_t)wire_get_u32(rest.data);
                removed->desc.addr = wire_get_u64(row);
                removed->desc.len = wire_get_u64(row + 8);
                removed->desc.dev = wire_get_u64(row + 16);
                cursor->row++;
                return true;
            }
        }
        *cursor = (struct wire_cursor){.item = at};
    }
    return false;
}
