/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tagged fields that blobs, lists and notifications are made of: a tag's bytes, a little-endian u64
 * length, the payload, '|'. Private to src/wire. A reader checks every length before it adds it, and names
 * the first fault with its offset; a field's closing byte must be there but, as in the reference, may be any
 * byte.
 */
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

#include <endian.h>
#include <string.h>

#include "wire/wire.h"

#define WIRE_PREFIX "nixlSerDes|"
#define WIRE_PREFIX_LEN (sizeof(WIRE_PREFIX) - 1)
#define WIRE_ROW 24 /* bytes of addr, len, dev */
#define WIRE_SEPARATOR '|'
/* What a field adds to its tag and payload: the length and the closing byte. */
#define WIRE_FIELD_EXTRA (sizeof(uint64_t) + 1)
/* The field of a row with metadata, without its blob. */
#define WIRE_META_ROW (WIRE_FIELD_EXTRA + WIRE_ROW)

/* A tag and its length, as two arguments. */
#define WIRE_TAG(text) (text), (sizeof(text) - 1)

static inline uint16_t wire_get_u16(const uint8_t *at) {
    uint16_t v;

    memcpy(&v, at, sizeof v);
    return le16toh(v);
}

static inline uint32_t wire_get_u32(const uint8_t *at) {
    uint32_t v;

    memcpy(&v, at, sizeof v);
    return le32toh(v);
}

static inline uint64_t wire_get_u64(const uint8_t *at) {
    uint64_t v;

    memcpy(&v, at, sizeof v);
    return le64toh(v);
}

static inline void wire_put_u16(uint8_t *at, uint16_t v) {
    v = htole16(v);
    memcpy(at, &v, sizeof v);
}

static inline void wire_put_u32(uint8_t *at, uint32_t v) {
    v = htole32(v);
    memcpy(at, &v, sizeof v);
}

static inline void wire_put_u64(uint8_t *at, uint64_t v) {
    v = htole64(v);
    memcpy(at, &v, sizeof v);
}

static inline void wire_put_row(uint8_t *at, uint64_t addr, uint64_t len, uint64_t dev) {
    wire_put_u64(at, addr);
    wire_put_u64(at + 8, len);
    wire_put_u64(at + 16, dev);
}

/* memcpy that takes NULL for nothing. */
static inline void wire_put_bytes(uint8_t *at, const void *data, size_t len) {
    if (len != 0) {
        memcpy(at, data, len);
    }
}

/* Writes a row with its metadata, wire_row_size(meta_len) bytes; returns that size. */
static inline size_t wire_row_put(uint8_t *at, uint64_t addr, uint64_t len, uint64_t dev, const void *meta,
                                  size_t meta_len) {
    wire_put_u64(at, WIRE_ROW + meta_len);
    wire_put_row(at + 8, addr, len, dev);
    wire_put_bytes(at + 8 + WIRE_ROW, meta, meta_len);
    at[8 + WIRE_ROW + meta_len] = WIRE_SEPARATOR;
    return WIRE_META_ROW + meta_len;
}

static inline bool wire_mem_is_kind(uint32_t mem) {
    return mem < NIXL_MEM_KINDS;
}

/* Writes a field at `at`, which has room for tag_len + len + WIRE_FIELD_EXTRA bytes; returns the place behind
 * it. */
uint8_t *wire_put_field(uint8_t *at, const char *tag, size_t tag_len, const void *data, size_t len);

/* Appends a field; false when there is no memory, with `out` as it was. */
bool wire_append_field(struct bytes *out, const char *tag, size_t tag_len, const void *data, size_t len);
bool wire_append_u64_field(struct bytes *out, const char *tag, size_t tag_len, uint64_t value);

struct wire_reader {
    const uint8_t *data;
    size_t len;
    size_t at;
    struct wire_error *error; /* may be NULL */
};

static inline size_t wire_left(const struct wire_reader *reader) {
    return reader->len - reader->at;
}

/* Records a fault at the reader's place and returns false, for `return wire_refuse(…)`. */
bool wire_refuse(const struct wire_reader *reader, const char *what);

/* Steps over "nixlSerDes|". */
bool wire_read_prefix(struct wire_reader *reader);

/* Reads the field with exactly this tag; `what` names the fault when it is not there. The payload may be
 * empty. */
bool wire_read_field(struct wire_reader *reader, const char *tag, size_t tag_len, const char *what,
                     struct bytes_view *payload);

/* The same for a payload that must not be empty, and for one that is a count of 8 bytes. */
bool wire_read_text(struct wire_reader *reader, const char *tag, size_t tag_len, const char *what,
                    struct bytes_view *payload);
bool wire_read_count(struct wire_reader *reader, const char *tag, size_t tag_len, const char *what,
                     uint64_t *count);

/* Reads a list (nixlDList …) and checks all of its rows. */
bool wire_read_list(struct wire_reader *reader, struct wire_list *list);

#endif
