/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table from names (any bytes, with a length) to pointers, in the order of insertion. The table copies the
 * keys and never touches the values. Seeded per process, so that names chosen by a peer cannot be made to
 * collide. Not for the hot path, and not locked: the owner guards it. A zeroed struct is an empty table.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_entry;

struct hash {
    struct hash_entry *entries;
};

/* Visits one entry; false stops the walk. It may remove the entry that it was given, and no other. */
typedef bool (*hash_visit_fn)(const char *key, size_t len, void *value, void *ctx);

/* NULL when the key is not there (or its value is NULL: use hash_has to tell). */
void *hash_get(const struct hash *table, const char *key, size_t len);
bool hash_has(const struct hash *table, const char *key, size_t len);

/* Adds or replaces; `*old` (may be NULL) gets the value replaced, else NULL. False without memory: nothing
 * changed. */
bool hash_put(struct hash *table, const char *key, size_t len, void *value, void **old);

/* Removes and returns the value; NULL when it was not there. */
void *hash_remove(struct hash *table, const char *key, size_t len);

size_t hash_count(const struct hash *table);
void hash_each(const struct hash *table, hash_visit_fn visit, void *ctx);

/* Empties the table; `free_value` (may be NULL) is called for each value that is not NULL. */
void hash_clear(struct hash *table, void (*free_value)(void *value));

/* The seeded 64-bit hash that the tables use. Differs from process to process: never store or send it. */
uint64_t hash_bytes(const void *data, size_t len);

#endif
