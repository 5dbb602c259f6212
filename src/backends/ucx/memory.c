/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions and remote keys. A region's key is what ucp_rkey_pack() gives, nothing else: the reference's peers read it too. A
 * remote key is unpacked at the first request that uses it, when there is an endpoint.
 */
#include "ucx.h"

#include "base/array.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* No key of a known UCX comes near this; bytes beyond it are somebody's mistake. */
#define KEY_MAX 65536u
/* Ends the list that a key ends with, where its own end is missing. */
#define KEY_END 0xff
#define KEY_END_LEN 16

void *ucx_padded_copy(const void *bytes, size_t len) {
    size_t size;
    char *copy;

    if (!size_add(len, UCX_PAD, &size)) {
        return NULL;
    }
    copy = calloc(1, size);
    if (copy != NULL && len != 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

/* ---- regions ---- */

struct bounds {
    uint64_t addr, len;
};

static const char *bounds_key(const struct bounds *bounds) {
    return (const char *)bounds;
}

static bool regions_add(struct ucx_instance *self, struct ucx_region *region) {
    struct bounds bounds = {region->addr, region->len};
    void *old = NULL;
    bool ok;

    lock_take(&self->regions_lock);
    region->twin = hash_get(&self->regions, bounds_key(&bounds), sizeof bounds);
    ok = hash_put(&self->regions, bounds_key(&bounds), sizeof bounds, region, &old);
    if (ok && region->twin == NULL) {
        ucx_door_open(self, region->addr, region->len);
    }
    lock_drop(&self->regions_lock);
    return ok;
}

static void regions_remove(struct ucx_instance *self, struct ucx_region *region) {
    struct bounds bounds = {region->addr, region->len};
    struct ucx_region *first;

    lock_take(&self->regions_lock);
    first = hash_get(&self->regions, bounds_key(&bounds), sizeof bounds);
    if (first == region) {
        if (region->twin == NULL) {
            ucx_door_close(self, region->addr, region->len);
            (void)hash_remove(&self->regions, bounds_key(&bounds), sizeof bounds);
        } else {
            /* The entry is there, so replacing its value takes no memory. */
            (void)hash_put(&self->regions, bounds_key(&bounds), sizeof bounds, region->twin, NULL);
        }
    } else {
        for (; first != NULL; first = first->twin) {
            if (first->twin == region) {
                first->twin = region->twin;
                break;
            }
        }
    }
    lock_drop(&self->regions_lock);
}

struct ucx_region *ucx_region_find(struct ucx_instance *owner, uint64_t addr, uint64_t len) {
    struct bounds bounds = {addr, len};
    struct ucx_region *region;

    lock_take(&owner->regions_lock);
    region = hash_get(&owner->regions, bounds_key(&bounds), sizeof bounds);
    if (region != NULL) {
        __atomic_fetch_add(&region->references, 1, __ATOMIC_RELAXED);
    }
    lock_drop(&owner->regions_lock);
    return region;
}

void ucx_region_release(struct ucx_region *region) {
    if (__atomic_sub_fetch(&region->references, 1, __ATOMIC_ACQ_REL) == 0) {
        free(region);
    }
}

bool ucx_region_enter(struct ucx_region *region) {
    /* Sequential order pairs with ucx_region_close(): either it sees the user, or the user sees that it is closed. */
    __atomic_fetch_add(&region->users, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&region->is_open, __ATOMIC_SEQ_CST)) {
        return true;
    }
    ucx_region_leave(region);
    return false;
}

void ucx_region_leave(struct ucx_region *region) {
    __atomic_fetch_sub(&region->users, 1, __ATOMIC_RELEASE);
}

/* Memory of another kind than it is said to be would be read or written by the wrong engine. */
static nixl_status_t check_kind(struct ucx_instance *self, ucp_mem_h memh, uint64_t addr) {
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE};
    const struct nixl_host *host = self->host;

    if (self->ucx->mem_query(memh, &attr) != UCS_OK) {
        return NIXL_SUCCESS;
    }
    if (attr.mem_type != UCS_MEMORY_TYPE_HOST) {
        return host->fail(
            host->ctx, NIXL_ERR_INVALID_PARAM,
            "address 0x%" PRIx64 " is device memory, not host memory: it cannot be registered as DRAM", addr);
    }
    return NIXL_SUCCESS;
}

static nixl_status_t region_map(struct ucx_instance *self, struct ucx_region *region) {
    const struct nixl_host *host = self->host;
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = (void *)(uintptr_t)region->addr,
        .length = region->len,
    };
    char words[512];
    nixl_status_t result = NIXL_SUCCESS;
    ucs_status_t status;

    ucx_inside_enter(host);
    status = self->ucx->mem_map(self->context, &params, &region->memh);
    if (status != UCS_OK) {
        region->memh = NULL;
        result = host->fail(host->ctx, NIXL_ERR_BACKEND,
                            "%" PRIu64 " bytes at 0x%" PRIx64 " cannot be registered: %s", region->len,
                            region->addr, ucx_words(self->library, status, words, sizeof words));
    }
    if (result == NIXL_SUCCESS) {
        result = check_kind(self, region->memh, region->addr);
    }
    if (result == NIXL_SUCCESS) {
        status = self->ucx->rkey_pack(self->context, region->memh, &region->key, &region->key_len);
        if (status != UCS_OK) {
            region->key = NULL;
            result = host->fail(host->ctx, NIXL_ERR_BACKEND, "no key can be made for 0x%" PRIx64 ": %s",
                                region->addr, ucx_words(self->library, status, words, sizeof words));
        }
    }
    ucx_inside_leave();
    return result;
}

static void region_unmap(struct ucx_instance *self, struct ucx_region *region) {
    if (region->key != NULL) {
        self->ucx->rkey_buffer_release(region->key);
        region->key = NULL;
    }
    if (region->memh != NULL) {
        (void)self->ucx->mem_unmap(self->context, region->memh);
        region->memh = NULL;
    }
}

nixl_status_t ucx_region_open(void *instance, nixl_mem_t mem, const struct nixl_meta_desc *desc, void **out) {
    struct ucx_instance *self = instance;
    const struct nixl_host *host = self->host;
    struct ucx_region *region;
    nixl_status_t result;
    uint64_t end;

    if (ucx_is_inherited(self)) {
        return ucx_fail_inherited(self);
    }
    if (mem != DRAM_SEG) {
        return host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED,
                          "GPU memory is not served yet%s: move it through host memory (DRAM)",
                          self->has_device_memory ? "" : ", and this UCX knows of none on this machine");
    }
    if (desc->len == 0 || desc->addr == 0 || __builtin_add_overflow(desc->addr, desc->len, &end)) {
        return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM,
                          "%" PRIu64 " bytes at 0x%" PRIx64 " are no memory", desc->len, desc->addr);
    }
    region = calloc(1, sizeof *region);
    if (region == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    region->self = self;
    region->addr = desc->addr;
    region->len = desc->len;
    region->mem = mem;
    region->references = 1;
    region->is_open = true;
    result = region_map(self, region);
    if (result == NIXL_SUCCESS && !regions_add(self, region)) {
        result = host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    if (result != NIXL_SUCCESS) {
        region_unmap(self, region);
        free(region);
        return result;
    }
    *out = region;
    return NIXL_SUCCESS;
}

void ucx_region_close(void *instance, void *handle) {
    struct ucx_instance *self = instance;
    struct ucx_region *region = handle;

    regions_remove(self, region);
    __atomic_store_n(&region->is_open, false, __ATOMIC_SEQ_CST);
    /* Each stay inside is one bounded copy. In a forked child nobody is left to leave. */
    while (!ucx_is_inherited(self) && __atomic_load_n(&region->users, __ATOMIC_SEQ_CST) != 0) {
        (void)sched_yield();
    }
    if (!ucx_is_inherited(self)) {
        region_unmap(self, region);
    }
    ucx_region_release(region);
}

nixl_status_t ucx_region_key(void *instance, void *handle, const void **key, size_t *len) {
    const struct ucx_region *region = handle;

    (void)instance;
    *key = region->key;
    *len = region->key_len;
    return NIXL_SUCCESS;
}

/* ---- keys ---- */

nixl_status_t ucx_key_open(void *instance, void *handle, nixl_mem_t mem, const struct nixl_desc *desc,
                           const void *bytes, size_t len, void **out) {
    struct ucx_instance *self = instance;
    const struct nixl_host *host = self->host;
    struct ucx_peer *peer = handle;
    struct ucx_key *key;

    (void)mem;
    if (ucx_is_inherited(self)) {
        return ucx_fail_inherited(self);
    }
    if (len == 0 || len > KEY_MAX) {
        return host->fail(host->ctx, NIXL_ERR_MISMATCH, "a remote key of %zu bytes is none of UCX's", len);
    }
    if (peer->is_unchecked && !ucx_key_is_whole(bytes, len)) {
        return host->fail(
            host->ctx, NIXL_ERR_MISMATCH,
            "the key of a region of agent \"%s\" is damaged, or of a UCX that is not known here", peer->name);
    }
    key = calloc(1, sizeof *key + self->worker_count * sizeof(ucp_rkey_h));
    if (key != NULL) {
        key->bytes = ucx_padded_copy(bytes, len);
    }
    if (key == NULL || key->bytes == NULL) {
        free(key);
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    if (peer->is_unchecked) {
        memset((char *)key->bytes + len, KEY_END, KEY_END_LEN);
    }
    key->peer = peer;
    key->len = len;
    key->addr = desc->addr;
    key->region_len = desc->len;
    if (peer->is_local) {
        /* None: the region is gone already, and a post will say so. */
        key->region = ucx_registry_region(peer->local_id, desc->addr, desc->len);
    }
    *out = key;
    return NIXL_SUCCESS;
}

void ucx_key_close(void *instance, void *peer, void *handle) {
    struct ucx_instance *self = instance;
    struct ucx_key *key = handle;

    (void)peer;
    for (unsigned i = 0; i < self->worker_count && !ucx_is_inherited(self); i++) {
        if (key->rkeys[i] != NULL) {
            ucx_worker_enter(&self->workers[i]);
            self->ucx->rkey_destroy(key->rkeys[i]);
            ucx_worker_leave(&self->workers[i]);
        }
    }
    if (key->region != NULL) {
        ucx_region_release(key->region);
    }
    free(key->bytes);
    free(key);
}

nixl_status_t ucx_key_unpack(struct ucx_end *end, struct ucx_key *key) {
    struct ucx_instance *self = end->worker->self;
    const struct nixl_host *host = self->host;
    nixl_status_t result = NIXL_SUCCESS;
    char words[512];
    ucp_rkey_h rkey = NULL;
    ucs_status_t status;

    if (key->rkeys[end->worker->index] != NULL) {
        return NIXL_SUCCESS;
    }
    status = self->ucx->ep_rkey_unpack(end->ep, key->bytes, &rkey);
    if (status == UCS_OK) {
        key->rkeys[end->worker->index] = rkey;
    } else {
        result = host->fail(host->ctx, NIXL_ERR_MISMATCH,
                            "the key of a region of agent \"%s\" does not fit this UCX or is damaged: %s",
                            key->peer->name, ucx_words(self->library, status, words, sizeof words));
    }
    return result;
}
