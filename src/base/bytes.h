/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growable byte buffer, and a read-only view of bytes that belong to somebody else.
 * A zeroed struct is an empty buffer. Appends that fail change nothing. No locks.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include "array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    uint8_t *data;
    size_t len;
    size_t cap;
};

struct bytes_view {
    const uint8_t *data;
    size_t len;
};

static inline struct bytes_view bytes_view(const void *data, size_t len) {
    return (struct bytes_view){.data = (const uint8_t *)data, .len = len};
}

static inline struct bytes_view bytes_view_of(const struct bytes *b) {
    return (struct bytes_view){.data = b->data, .len = b->len};
}

static inline bool bytes_view_equal(struct bytes_view a, struct bytes_view b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Room for `more` bytes beyond len; false when there is no memory or the size does not fit. */
static inline bool bytes_reserve(struct bytes *b, size_t more) {
    size_t need;

    return size_add(b->len, more, &need) && array_reserve(&b->data, &b->cap, need, 1);
}

/* `data` may be NULL when len is 0, and must not point into the buffer itself. */
static inline bool bytes_append(struct bytes *b, const void *data, size_t len) {
    if (len == 0) {
        return true;
    }
    if (!bytes_reserve(b, len)) {
        return false;
    }
    memcpy(b->data + b->len, data, len);
    b->len += len;
    return true;
}

static inline bool bytes_append_byte(struct bytes *b, uint8_t byte) {
    if (!bytes_reserve(b, 1)) {
        return false;
    }
    b->data[b->len++] = byte;
    return true;
}

static inline bool bytes_append_text(struct bytes *b, const char *text) {
    return bytes_append(b, text, strlen(text));
}

/* Adds `len` zero bytes and returns where they are, for the caller to fill; NULL on failure. */
static inline uint8_t *bytes_extend(struct bytes *b, size_t len) {
    uint8_t *at;

    if (!bytes_reserve(b, len != 0 ? len : 1)) {
        return NULL;
    }
    at = b->data + b->len;
    memset(at, 0, len);
    b->len += len;
    return at;
}

/* Forgets the contents and keeps the memory. */
static inline void bytes_clear(struct bytes *b) {
    b->len = 0;
}

static inline void bytes_free(struct bytes *b) {
    free(b->data);
    *b = (struct bytes){0};
}

#endif
