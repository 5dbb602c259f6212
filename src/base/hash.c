/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of names: uthash behind functions, with a seeded hash function and without its exit() when memory
 * runs out. The seed is the only global: drawn once, by whichever thread comes first.
 */
#include "hash.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define HASH_NONFATAL_OOM 1
/* Expands in hash_put only, where `added` is a local. */
#define uthash_nonfatal_oom(entry)                                                                           \
    do {                                                                                                     \
        (void)(entry);                                                                                       \
        added = false;                                                                                       \
    } while (0)
#define HASH_FUNCTION(key, len, out) (out) = (unsigned)hash_bytes((key), (len))
#include <uthash.h>

struct hash_entry {
    void *value;
    UT_hash_handle hh;
    size_t len;
    char key[];
};

static uint64_t seed_word;

static uint64_t hash_seed(void) {
    uint64_t seed = __atomic_load_n(&seed_word, __ATOMIC_RELAXED);
    uint64_t expected = 0;

    if (seed != 0) {
        return seed;
    }
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        struct timespec now; /* early boot: the address space's layout and the clock are what is left */

        clock_gettime(CLOCK_MONOTONIC, &now);
        seed = ((uint64_t)(uintptr_t)&now << 20) ^ (uint64_t)now.tv_nsec ^ ((uint64_t)now.tv_sec << 40);
    }
    seed |= 1;
    if (!__atomic_compare_exchange_n(&seed_word, &expected, seed, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) {
        seed = expected;
    }
    return seed;
}

/* Both halves of the 128-bit product, folded: every input bit reaches every output bit. */
static uint64_t mix(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t hash_bytes(const void *data, size_t len) {
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio */
    const unsigned char *at = data;
    uint64_t seed = hash_seed();
    uint64_t h = mix(seed, odd ^ len);
    uint64_t word;

    while (len >= sizeof word) {
        memcpy(&word, at, sizeof word);
        h = mix(h ^ word, seed ^ odd);
        at += sizeof word;
        len -= sizeof word;
    }
    if (len != 0) {
        word = 0;
        memcpy(&word, at, len);
        h = mix(h ^ word, seed ^ odd);
    }
    return mix(h ^ seed, odd);
}

static struct hash_entry *entry_find(const struct hash *table, const char *key, size_t len) {
    struct hash_entry *entry = NULL;

    if (len > UINT32_MAX) {
        return NULL;
    }
    HASH_FIND(hh, table->entries, key, len, entry);
    return entry;
}

void *hash_get(const struct hash *table, const char *key, size_t len) {
    const struct hash_entry *entry = entry_find(table, key, len);

    return entry != NULL ? entry->value : NULL;
}

bool hash_has(const struct hash *table, const char *key, size_t len) {
    return entry_find(table, key, len) != NULL;
}

bool hash_put(struct hash *table, const char *key, size_t len, void *value, void **old) {
    struct hash_entry *entry = entry_find(table, key, len);
    bool added = true;

    if (old != NULL) {
        *old = NULL;
    }
    if (entry != NULL) {
        if (old != NULL) {
            *old = entry->value;
        }
        entry->value = value;
        return true;
    }
    if (len > UINT32_MAX) {
        return false;
    }
    entry = malloc(sizeof *entry + len + 1);
    if (entry == NULL) {
        return false;
    }
    memset(entry, 0, sizeof *entry);
    if (len != 0) {
        memcpy(entry->key, key, len);
    }
    entry->key[len] = '\0';
    entry->len = len;
    entry->value = value;
    HASH_ADD_KEYPTR(hh, table->entries, entry->key, len, entry);
    if (!added) {
        free(entry);
    }
    return added;
}

void *hash_remove(struct hash *table, const char *key, size_t len) {
    struct hash_entry *entry = entry_find(table, key, len);
    void *value;

    if (entry == NULL) {
        return NULL;
    }
    value = entry->value;
    HASH_DELETE(hh, table->entries, entry);
    free(entry);
    return value;
}

size_t hash_count(const struct hash *table) {
    return HASH_COUNT(table->entries);
}

void hash_each(const struct hash *table, hash_visit_fn visit, void *ctx) {
    struct hash_entry *entry = table->entries;

    while (entry != NULL) {
        struct hash_entry *next = entry->hh.next; /* the visitor may remove this one */

        if (!visit(entry->key, entry->len, entry->value, ctx)) {
            return;
        }
        entry = next;
    }
}

void hash_clear(struct hash *table, void (*free_value)(void *value)) {
    struct hash_entry *entry = table->entries;

    HASH_CLEAR(hh, table->entries);
    while (entry != NULL) {
        struct hash_entry *next = entry->hh.next;

        if (free_value != NULL && entry->value != NULL) {
            free_value(entry->value);
        }
        free(entry);
        entry = next;
    }
}
