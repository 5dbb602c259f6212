/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growth of plain C arrays: a pointer, a capacity and a count that the owner keeps in its own struct.
 *
 *     struct peer **peers; size_t peer_count, peer_cap;
 *     if (!array_reserve(&t->peers, &t->peer_cap, t->peer_count + 1, sizeof *t->peers)) return NO_MEMORY;
 *     t->peers[t->peer_count++] = peer;
 *
 * Nothing here locks: whoever owns the array guards it.
 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* `a + b` and `a * b` for sizes that may come from outside; false when the result does not fit. */
static inline bool size_add(size_t a, size_t b, size_t *sum) {
    return !__builtin_add_overflow(a, b, sum);
}

static inline bool size_mul(size_t a, size_t b, size_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}

/*
 * Makes room for `need` items of `item` bytes. `items_p` is the address of the array's pointer (of any object
 * type; it is read and written as bytes, so no cast is needed and no aliasing rule is broken). Capacity grows
 * by half or more, so that pushing one at a time stays linear. On false (no memory, or the size does not fit)
 * the array is as it was.
 */
static inline bool array_reserve(void *items_p, size_t *cap, size_t need, size_t item) {
    void *items;
    size_t bytes;
    size_t want;

    if (need <= *cap) {
        return true;
    }
    want = *cap + *cap / 2;
    if (want < need) {
        want = need;
    }
    if (want < 8) {
        want = 8;
    }
    if (!size_mul(want, item, &bytes) || bytes > PTRDIFF_MAX) {
        want = need;
        if (!size_mul(want, item, &bytes) || bytes > PTRDIFF_MAX) {
            return false;
        }
    }
    memcpy(&items, items_p, sizeof items);
    items = realloc(items, bytes);
    if (items == NULL) {
        return false;
    }
    memcpy(items_p, &items, sizeof items);
    *cap = want;
    return true;
}

/* malloc(count * item) with the product checked; NULL when it does not fit or there is no memory. count 0
 * gives a block. */
static inline void *array_alloc(size_t count, size_t item) {
    size_t bytes;

    if (!size_mul(count, item, &bytes) || bytes > PTRDIFF_MAX) {
        return NULL;
    }
    return malloc(bytes != 0 ? bytes : 1);
}

/* A malloc'd copy of `count` items of `item` bytes; NULL as array_alloc. `from` may be NULL when count is 0.
 */
static inline void *array_copy(const void *from, size_t count, size_t item) {
    void *copy = array_alloc(count, item);

    if (copy != NULL && count != 0) {
        memcpy(copy, from, count * item);
    }
    return copy;
}

#endif
