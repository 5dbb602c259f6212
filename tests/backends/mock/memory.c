/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions, keys and what stands for storage: for each kind and device one file of zeros in memory, 64 MiB
 * long, that lives as long as the process. Regions of all instances stand in one table, so that a key finds
 * its region or finds out that it has gone.
 */
#include "mock_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STORE_BYTES (UINT64_C(64) << 20)
#define KEY_MAGIC UINT32_C(0x6b636f6d)
#define KEY_BYTES 24 /* magic, zero, region id, length of the whole key */

struct store {
    struct store *next;
    nixl_mem_t mem;
    uint64_t dev;
    unsigned char *bytes;
};

static struct mock_region **table;
static size_t table_cap, table_count;
static struct store *stores;

struct mock_region *mock_region_by_id(uint64_t id) {
    return id < table_count ? table[id] : NULL;
}

static struct store *store_get(nixl_mem_t mem, uint64_t dev) {
    struct store *store;

    for (store = stores; store != NULL; store = store->next) {
        if (store->mem == mem && store->dev == dev) {
            return store;
        }
    }
    store = calloc(1, sizeof *store);
    if (store == NULL) {
        return NULL;
    }
    store->bytes =
        mmap(NULL, STORE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (store->bytes == MAP_FAILED) {
        free(store);
        return NULL;
    }
    store->mem = mem;
    store->dev = dev;
    store->next = stores;
    stores = store;
    return store;
}

unsigned char *mock_place(const struct mock_region *region, uint64_t addr, uint64_t len) {
    uint64_t at = addr - region->addr;
    struct store *store;

    if (addr < region->addr || at > region->len || region->len - at < len) {
        return NULL;
    }
    if (region->mem == DRAM_SEG || region->mem == VRAM_SEG) {
        return (unsigned char *)(uintptr_t)addr;
    }
    store = store_get(region->mem, region->dev);
    return store != NULL && addr <= STORE_BYTES && STORE_BYTES - addr >= len ? store->bytes + addr : NULL;
}

static bool table_add(struct mock_region *region) {
    if (table_count == table_cap) {
        size_t cap = table_cap != 0 ? table_cap * 2 : 64;
        struct mock_region **grown = realloc(table, cap * sizeof *grown);

        if (grown == NULL) {
            return false;
        }
        table = grown;
        table_cap = cap;
    }
    region->id = table_count;
    table[table_count++] = region;
    return true;
}

static size_t key_size(const struct mock *mock) {
    return mock->options.key_bytes < KEY_BYTES ? KEY_BYTES : mock->options.key_bytes;
}

static void key_write(const struct mock *mock, struct mock_region *region) {
    const uint32_t magic = KEY_MAGIC;
    const uint64_t size = key_size(mock);

    memset(region->key, 0xa5, sizeof region->key);
    memset(region->key, 0, 8);
    memcpy(region->key, &magic, 4);
    memcpy(region->key + 8, &region->id, 8);
    memcpy(region->key + 16, &size, 8);
}

nixl_status_t mock_region_open(void *self, nixl_mem_t mem, const struct nixl_meta_desc *desc, void **region) {
    struct mock *mock = self;
    struct mock_region *made = calloc(1, sizeof *made);
    nixl_status_t status = NIXL_SUCCESS;

    if (made == NULL) {
        return mock->host->fail(mock->host->ctx, NIXL_ERR_BACKEND, "out of memory");
    }
    made->owner = mock;
    made->mem = mem;
    made->addr = desc->addr;
    made->len = desc->len;
    made->dev = desc->dev;
    if (desc->len == 0 && mem != DRAM_SEG && mem != VRAM_SEG) {
        made->len = UINT64_MAX - desc->addr; /* to the end, whatever it is */
    }
    pthread_mutex_lock(&mock_lock);
    mock->counts.region_opens++;
    if (mock->options.fail_region != 0 && (uint64_t)mock->counts.region_opens == mock->options.fail_region) {
        status = mock->host->fail(mock->host->ctx, NIXL_ERR_BACKEND, "%s", mock->fail_text);
    } else if (!table_add(made)) {
        status = mock->host->fail(mock->host->ctx, NIXL_ERR_BACKEND, "out of memory");
    } else {
        key_write(mock, made);
        mock->counts.regions++;
    }
    pthread_mutex_unlock(&mock_lock);
    if (status != NIXL_SUCCESS) {
        free(made);
        return status;
    }
    *region = made;
    return NIXL_SUCCESS;
}

void mock_region_close(void *self, void *region) {
    struct mock *mock = self;
    struct mock_region *gone = region;

    pthread_mutex_lock(&mock_lock);
    table[gone->id] = NULL;
    mock->counts.regions--;
    pthread_mutex_unlock(&mock_lock);
    free(gone);
}

nixl_status_t mock_region_key(void *self, void *region, const void **key, size_t *len) {
    *key = ((struct mock_region *)region)->key;
    *len = key_size(self);
    return NIXL_SUCCESS;
}

/* A name that begins with "have" is there; what follows it is its length. "broken" cannot be asked. */
nixl_status_t mock_query(void *self, nixl_mem_t mem, const struct nixl_meta_desc *descs, size_t count,
                         const struct nixl_query_sink *sink) {
    const struct mock *mock = self;
    nixl_status_t status = NIXL_SUCCESS;

    (void)mem;
    for (size_t i = 0; i < count && status == NIXL_SUCCESS; i++) {
        char name[64];
        size_t len = descs[i].meta_len < sizeof name - 1 ? descs[i].meta_len : sizeof name - 1;

        memcpy(name, descs[i].meta != NULL ? descs[i].meta : "", descs[i].meta != NULL ? len : 0);
        name[descs[i].meta != NULL ? len : 0] = '\0';
        if (strcmp(name, "broken") == 0) {
            return mock->host->fail(mock->host->ctx, NIXL_ERR_BACKEND, "block %zu cannot be asked for", i);
        }
        if (strncmp(name, "have", 4) == 0) {
            status = sink->found(sink->ctx, i, "size", name + 4);
            if (status == NIXL_SUCCESS) {
                status = sink->found(sink->ctx, i, "mode", "33188");
            }
        }
    }
    return status;
}

nixl_status_t mock_key_open(void *self, void *peer, nixl_mem_t mem, const struct nixl_desc *desc,
                            const void *bytes, size_t len, void **key) {
    struct mock *mock = self;
    struct mock_key *made;
    uint32_t magic;
    uint64_t size;
    bool fails;

    (void)peer;
    (void)mem;
    (void)desc;
    if (len < KEY_BYTES) {
        return mock->host->fail(mock->host->ctx, NIXL_ERR_MISMATCH, "a key of %zu bytes is cut short", len);
    }
    memcpy(&magic, bytes, 4);
    memcpy(&size, (const unsigned char *)bytes + 16, 8);
    if (magic != KEY_MAGIC || size != len) {
        return mock->host->fail(mock->host->ctx, NIXL_ERR_MISMATCH, "the key's bytes are damaged");
    }
    made = malloc(sizeof *made);
    if (made == NULL) {
        return mock->host->fail(mock->host->ctx, NIXL_ERR_BACKEND, "out of memory");
    }
    memcpy(&made->region, (const unsigned char *)bytes + 8, 8);
    pthread_mutex_lock(&mock_lock);
    mock->counts.key_opens++;
    fails = mock->options.fail_key != 0 && (uint64_t)mock->counts.key_opens == mock->options.fail_key;
    mock->counts.keys += !fails;
    pthread_mutex_unlock(&mock_lock);
    if (fails) {
        free(made);
        return mock->host->fail(mock->host->ctx, NIXL_ERR_BACKEND, "%s", mock->fail_text);
    }
    *key = made;
    return NIXL_SUCCESS;
}

void mock_key_close(void *self, void *peer, void *key) {
    struct mock *mock = self;

    (void)peer;
    pthread_mutex_lock(&mock_lock);
    mock->counts.keys--;
    pthread_mutex_unlock(&mock_lock);
    free(key);
}

/* A view is an array of pointers, NULL for an empty slot and at the end. */
nixl_status_t mock_view_open(void *self, nixl_mem_t mem, bool remote, const struct nixl_desc *descs,
                             void *const *keys, void *const *peers, size_t count, void **view) {
    struct mock *mock = self;
    unsigned char **made = calloc(count + 1, sizeof *made);

    (void)mem;
    if (made == NULL) {
        return mock->host->fail(mock->host->ctx, NIXL_ERR_BACKEND, "out of memory");
    }
    pthread_mutex_lock(&mock_lock);
    for (size_t i = 0; i < count; i++) {
        const struct mock_key *key = keys[i];
        struct mock_region *region = keys[i] == NULL ? NULL
                                     : remote        ? mock_region_by_id(key->region)
                                                     : keys[i];

        made[i] = region != NULL ? mock_place(region, descs[i].addr, descs[i].len) : NULL;
        if ((keys[i] != NULL && made[i] == NULL) || (remote && (keys[i] == NULL) != (peers[i] == NULL))) {
            pthread_mutex_unlock(&mock_lock);
            free(made);
            return mock->host->fail(mock->host->ctx, NIXL_ERR_NOT_FOUND, "block %zu is not there any more",
                                    i);
        }
    }
    mock->counts.views++;
    pthread_mutex_unlock(&mock_lock);
    *view = made;
    return NIXL_SUCCESS;
}

void mock_view_close(void *self, void *view) {
    struct mock *mock = self;

    pthread_mutex_lock(&mock_lock);
    mock->counts.views--;
    pthread_mutex_unlock(&mock_lock);
    free(view);
}

/* The process ends, or the plugin is unloaded. Who still has an instance then keeps what it stands on. */
static void __attribute__((destructor)) memory_free(void) {
    pthread_mutex_lock(&mock_lock);
    if (mock_instances != NULL) {
        pthread_mutex_unlock(&mock_lock);
        return;
    }
    while (stores != NULL) {
        struct store *next = stores->next;

        munmap(stores->bytes, STORE_BYTES);
        free(stores);
        stores = next;
    }
    free(table);
    table = NULL;
    table_cap = table_count = 0;
    pthread_mutex_unlock(&mock_lock);
}
