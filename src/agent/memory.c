/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration of memory, files, objects and volumes: each block becomes a region that has a handle of every
 * backend that took it. Backends are called with their control lock alone, before the regions become visible
 * and after they are gone from the tables.
 */
#include "internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FORMS_REGISTER ((1u << NIXL_FORM_PLAIN) | (1u << NIXL_FORM_STRIDED) | (1u << NIXL_FORM_META))

/* The backends of `among` (0: all) that take the kind. */
static uint32_t takers(struct nixl_agent *agent, nixl_mem_t mem, uint32_t among) {
    unsigned count = backend_count(agent);
    uint32_t mask = 0;

    for (unsigned slot = 0; slot < count; slot++) {
        if ((agent->backends[slot]->instance.mems & NIXL_MEM_BIT(mem)) != 0 &&
            (among == 0 || (among & (1u << slot)) != 0)) {
            mask |= 1u << slot;
        }
    }
    return mask;
}

/* ---- opening and closing with one backend ---- */

static void key_close(struct nixl_backend *backend, struct region_key *key) {
    backend->ops.region_close(backend->self, key->handle);
    *key = (struct region_key){0};
}

static nixl_status_t key_open(struct nixl_backend *backend, nixl_mem_t mem, const struct nixl_meta_desc *desc,
                              struct region_key *key) {
    const struct nixl_backend_ops *ops = &backend->ops;
    unsigned mark = backend_mark();
    size_t len = 0;
    nixl_status_t status = ops->region_open(backend->self, mem, desc, &key->handle);

    if (status != NIXL_SUCCESS) {
        return backend_fault(backend, mark, status, "registering");
    }
    if ((backend->instance.caps & NIXL_CAP_REMOTE) != 0) {
        status = ops->region_key(backend->self, key->handle, &key->bytes, &len);
        if (status == NIXL_SUCCESS && len > UINT32_MAX) {
            key_close(backend, key);
            return fail(NIXL_ERR_BACKEND, "backend %s is faulty: the key of a region has %zu bytes",
                        backend->ops.name, len);
        }
        key->len = (uint32_t)len;
    }
    key->self_key = key->handle;
    if (status == NIXL_SUCCESS && (backend->instance.caps & NIXL_CAP_LOCAL) != 0 && ops->key_self != NULL) {
        status = ops->key_self(backend->self, key->handle, &key->self_key);
    }
    if (status != NIXL_SUCCESS) {
        status = backend_fault(backend, mark, status, "making the key of a region");
        key_close(backend, key);
    }
    return status;
}

/* Registers all blocks with one backend, or none. */
static nixl_status_t open_all(struct nixl_backend *backend, const struct nixl_list *list,
                              struct region **regions, size_t count) {
    struct list_reader reader;
    struct nixl_meta_desc desc;
    nixl_status_t status = NIXL_SUCCESS;
    size_t done = 0;

    list_begin(&reader, list);
    lock_take(&backend->control);
    while (done < count && list_next_meta(&reader, &desc)) {
        status = key_open(backend, list->mem, &desc, region_key_of(regions[done], backend->slot));
        if (status != NIXL_SUCCESS) {
            break;
        }
        done++;
    }
    if (status != NIXL_SUCCESS) {
        status = fail_at(status, done,
                         "descriptor %zu (addr 0x%" PRIx64 ", %" PRIu64 " bytes, dev %" PRIu64 "): %s", done,
                         desc.addr, desc.len, desc.dev, error_text());
        while (done-- > 0) {
            key_close(backend, region_key_of(regions[done], backend->slot));
        }
    }
    lock_drop(&backend->control);
    return status;
}

/* Forgets the keys of backends that refused, so that keys[] holds those of `mask` only. */
static void keep_backends(struct region *region, uint32_t mask) {
    unsigned kept = 0;

    for (uint32_t rest = region->backends; rest != 0; rest &= rest - 1) {
        unsigned slot = (unsigned)__builtin_ctz(rest);

        if ((mask & (1u << slot)) != 0) {
            region->keys[kept++] = *region_key_of(region, slot);
        }
    }
    region->backends = (uint16_t)mask;
}

/* Closes all that was opened of regions that never became visible, and frees them. */
static void close_all(struct nixl_agent *agent, struct region **regions, size_t count, uint32_t mask) {
    for (; mask != 0; mask &= mask - 1) {
        unsigned slot = (unsigned)__builtin_ctz(mask);
        struct nixl_backend *backend = agent->backends[slot];

        lock_take(&backend->control);
        for (size_t i = 0; i < count; i++) {
            key_close(backend, region_key_of(regions[i], slot));
        }
        lock_drop(&backend->control);
    }
    for (size_t i = 0; i < count; i++) {
        region_free(regions[i]);
    }
}

/* ---- register ---- */

static bool regions_make(const struct nixl_list *list, uint32_t mask, struct region **regions, size_t count) {
    struct list_reader reader;
    struct nixl_desc desc;
    size_t made = 0;

    list_begin(&reader, list);
    while (made < count && list_next(&reader, &desc)) {
        regions[made] = region_new(list->mem, &desc, mask);
        if (regions[made] == NULL) {
            while (made-- > 0) {
                region_free(regions[made]);
            }
            return false;
        }
        made++;
    }
    return true;
}

/* Opens the regions with each backend of `mask`; *taken gets those that took them. The text tells all
 * refusals. */
static void offer(struct nixl_agent *agent, const struct nixl_list *list, uint32_t mask,
                  struct region **regions, size_t count, uint32_t *taken) {
    char reasons[ERROR_TEXT_SIZE] = "";
    size_t used = 0;
    size_t index = NIXL_NO_INDEX;

    *taken = 0;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        struct nixl_backend *backend = agent->backends[__builtin_ctz(rest)];

        if (open_all(backend, list, regions, count) == NIXL_SUCCESS) {
            *taken |= 1u << backend->slot;
            continue;
        }
        if (index == NIXL_NO_INDEX) {
            index = error_index();
        }
        if (used < sizeof reasons) {
            int n =
                snprintf(reasons + used, sizeof reasons - used, "%s%s", used != 0 ? "; " : "", error_text());

            used += n > 0 ? (size_t)n : 0;
        }
        log_debug("registration: %s", error_text());
    }
    if (*taken == 0) {
        (void)fail_at(NIXL_ERR_BACKEND, index, "%s", reasons);
    }
}

static nixl_status_t publish(struct nixl_agent *agent, nixl_mem_t mem, struct region **regions,
                             size_t count) {
    tables_change(agent);
    if (!region_set_reserve(&agent->regions, mem, count)) {
        tables_leave(agent);
        return fail_memory("the table of regions", count * sizeof(struct region_slot));
    }
    region_set_add(&agent->regions, mem, regions, count);
    for (size_t i = 0; i < count; i++) {
        changes_note(agent, regions[i], true);
    }
    tables_leave(agent);
    return NIXL_SUCCESS;
}

static nixl_status_t register_blocks(struct nixl_agent *agent, const struct nixl_list *list,
                                     const struct nixl_options *options) {
    struct region *few[8];
    struct region **regions = few;
    uint32_t hints;
    uint32_t mask;
    uint32_t taken;
    size_t count;
    nixl_status_t status = list_check(list, FORMS_REGISTER, false, "list", &count, NULL);

    if (status == NIXL_SUCCESS) {
        status = select_hints(agent, options, &hints);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    mask = takers(agent, list->mem, hints);
    if (hints != 0 && mask != hints) {
        return fail(NIXL_ERR_INVALID_PARAM, "backend %s does not take %s",
                    agent->backends[__builtin_ctz(hints & ~mask)]->ops.name, nixl_mem_string(list->mem));
    }
    if (mask == 0) {
        status = fail(NIXL_ERR_NOT_FOUND, "no backend of agent %s takes %s", agent->name,
                      nixl_mem_string(list->mem));
        select_suggest(agent, list->mem, list->mem, false);
        return status;
    }
    if (count > sizeof few / sizeof few[0]) {
        regions = array_alloc(count, sizeof(struct region *));
    }
    if (regions == NULL || !regions_make(list, mask, regions, count)) {
        if (regions != few) {
            free(regions);
        }
        return fail_memory("regions", count * sizeof(struct region));
    }
    offer(agent, list, mask, regions, count, &taken);
    for (size_t i = 0; i < count && taken != mask; i++) {
        keep_backends(regions[i], taken);
    }
    status = taken != 0 ? publish(agent, list->mem, regions, count) : NIXL_ERR_BACKEND;
    if (status != NIXL_SUCCESS) {
        close_all(agent, regions, count, taken);
    }
    if (regions != few) {
        free(regions);
    }
    return status;
}

nixl_status_t nixl_mem_register(struct nixl_agent *agent, const struct nixl_list *list,
                                const struct nixl_options *options) {
    nixl_status_t status = agent_enter(agent, "register");

    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = register_blocks(agent, list, options);
    agent_leave(agent);
    if (status != NIXL_SUCCESS) {
        error_prefix("register");
    }
    return status;
}

/* ---- deregister ---- */

/* One registration to drop: with all backends of the region, or with some of them. */
struct drop {
    struct region *region;
    struct region *rest; /* what takes its place when other backends keep it */
    uint16_t backends;
};

struct drops {
    struct drop *items;
    size_t cap, count;
    struct drop few[8];
};

static bool drops_push(struct drops *drops, struct region *region, uint32_t backends) {
    if (drops->items == drops->few) {
        if (drops->count == sizeof drops->few / sizeof drops->few[0]) {
            struct drop *items = array_alloc(drops->count * 2, sizeof *items);

            if (items == NULL) {
                return false;
            }
            memcpy(items, drops->few, sizeof drops->few);
            drops->items = items;
            drops->cap = drops->count * 2;
        }
    } else if (!array_reserve(&drops->items, &drops->cap, drops->count + 1, sizeof *drops->items)) {
        return false;
    }
    drops->items[drops->count++] = (struct drop){.region = region, .backends = (uint16_t)backends};
    return true;
}

/* The part of a region that other backends keep: same block, their keys. */
static struct region *region_rest(const struct region *region, uint32_t dropped) {
    struct nixl_desc desc = {region->addr, region->len, region->dev};
    uint32_t kept = region->backends & ~dropped;
    struct region *rest = region_new((nixl_mem_t)region->mem, &desc, kept);

    for (uint32_t left = kept; rest != NULL && left != 0; left &= left - 1) {
        unsigned slot = (unsigned)__builtin_ctz(left);

        *region_key_of(rest, slot) = *region_key_of((struct region *)region, slot);
    }
    return rest;
}

/* Finds and marks what the list names. Tables write-held. */
static nixl_status_t drops_find(struct nixl_agent *agent, const struct nixl_list *list, uint32_t hints,
                                struct drops *drops) {
    uint32_t all = takers(agent, list->mem, 0);
    struct list_reader reader;
    struct nixl_desc desc;

    list_begin(&reader, list);
    for (size_t i = 0; list_next(&reader, &desc); i++) {
        uint32_t want = hints != 0 ? hints : all;
        bool found = false;

        while (want != 0) {
            struct region *region = region_set_exact(&agent->regions, list->mem, &desc, want);

            if (region == NULL) {
                break;
            }
            if (!drops_push(drops, region, region->backends & want)) {
                return fail_memory("a list of regions", drops->count * sizeof *drops->items);
            }
#ifndef BREAK_4
            region->mark = 1;
#endif
            want &= ~(uint32_t)region->backends;
            found = true;
        }
        if (!found || (hints != 0 && want != 0)) {
            return fail_at(NIXL_ERR_NOT_FOUND, i,
                           "descriptor %zu (addr 0x%" PRIx64 ", %" PRIu64 " bytes, dev %" PRIu64
                           ") is not registered%s%s",
                           i, desc.addr, desc.len, desc.dev, hints != 0 ? " with backend " : "",
                           hints != 0 ? agent->backends[__builtin_ctz(want)]->ops.name : "");
        }
    }
    return NIXL_SUCCESS;
}

/* Regions that stay with other backends need a successor each. Tables write-held. */
static nixl_status_t drops_prepare(struct nixl_agent *agent, nixl_mem_t mem, struct drops *drops) {
    size_t successors = 0;

    for (size_t i = 0; i < drops->count; i++) {
        struct drop *drop = &drops->items[i];

        if (drop->backends == drop->region->backends) {
            continue;
        }
        drop->rest = region_rest(drop->region, drop->backends);
        if (drop->rest == NULL) {
            return fail_memory("a region", sizeof *drop->rest);
        }
        successors++;
    }
    if (successors != 0 && !region_set_reserve(&agent->regions, mem, successors)) {
        return fail_memory("the table of regions", successors * sizeof(struct region_slot));
    }
    /* A post sets its state, then reads local_changes; we do the reverse: one of us sees the other. */
    __atomic_add_fetch(&agent->local_changes, 1, __ATOMIC_SEQ_CST);
    if (xfer_any_active_uses_marked(agent)) {
        return fail(NIXL_ERR_NOT_ALLOWED,
                    "a transfer in flight uses one of the regions: wait for it or cancel it first");
    }
    return NIXL_SUCCESS;
}

static void drops_apply(struct nixl_agent *agent, nixl_mem_t mem, struct drops *drops) {
    for (size_t i = 0; i < drops->count; i++) {
        struct drop *drop = &drops->items[i];

        region_set_remove(&agent->regions, drop->region);
        changes_note(agent, drop->region, false);
        if (drop->rest != NULL) {
            region_set_add(&agent->regions, mem, &drop->rest, 1);
            changes_note(agent, drop->rest, true);
        }
    }
}

static void drops_undo(struct drops *drops) {
    for (size_t i = 0; i < drops->count; i++) {
        drops->items[i].region->mark = 0;
        free(drops->items[i].rest);
    }
}

/* Closes handles and gives the table's references back. No lock held. */
static void drops_close(struct nixl_agent *agent, struct drops *drops) {
    uint32_t all = 0;

    for (size_t i = 0; i < drops->count; i++) {
        all |= drops->items[i].backends;
    }
    for (; all != 0; all &= all - 1) {
        unsigned slot = (unsigned)__builtin_ctz(all);
        struct nixl_backend *backend = agent->backends[slot];

        lock_take(&backend->control);
        for (size_t i = 0; i < drops->count; i++) {
            struct drop *drop = &drops->items[i];

            if ((drop->backends & (1u << slot)) != 0) {
                backend->ops.region_close(backend->self, region_key_of(drop->region, slot)->handle);
            }
        }
        lock_drop(&backend->control);
    }
    for (size_t i = 0; i < drops->count; i++) {
        if (region_unref(drops->items[i].region)) {
            region_free(drops->items[i].region);
        }
    }
}

static nixl_status_t deregister_blocks(struct nixl_agent *agent, const struct nixl_list *list,
                                       const struct nixl_options *options) {
    struct drops drops = {.items = drops.few};
    uint32_t hints;
    size_t count;
    nixl_status_t status = list_check(list, FORMS_REGISTER, false, "list", &count, NULL);

    if (status == NIXL_SUCCESS) {
        status = select_hints(agent, options, &hints);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    tables_change(agent);
    status = drops_find(agent, list, hints, &drops);
    if (status == NIXL_SUCCESS) {
        status = drops_prepare(agent, list->mem, &drops);
    }
    if (status == NIXL_SUCCESS) {
        drops_apply(agent, list->mem, &drops);
    } else {
        drops_undo(&drops);
    }
    tables_leave(agent);
    if (status == NIXL_SUCCESS) {
        drops_close(agent, &drops);
    }
    if (drops.items != drops.few) {
        free(drops.items);
    }
    return status;
}

nixl_status_t nixl_mem_deregister(struct nixl_agent *agent, const struct nixl_list *list,
                                  const struct nixl_options *options) {
    nixl_status_t status = agent_enter(agent, "deregister");

    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = deregister_blocks(agent, list, options);
    agent_leave(agent);
    if (status != NIXL_SUCCESS) {
        error_prefix("deregister");
    }
    return status;
}

/* ---- query ---- */

struct finding {
    size_t index;
    char *key, *value;
};

struct findings {
    struct finding *items;
    size_t cap, count;
    size_t blocks;
    size_t text_bytes;
};

static nixl_status_t query_found(void *ctx, size_t index, const char *key, const char *value) {
    struct findings *found = ctx;
    struct finding *item;

    if (index >= found->blocks || key == NULL || value == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "a finding for descriptor %zu of %zu", index, found->blocks);
    }
    if (!array_reserve(&found->items, &found->cap, found->count + 1, sizeof *found->items)) {
        return fail_memory("query results", sizeof *found->items);
    }
    item = &found->items[found->count];
    item->index = index;
    item->key = strdup(key);
    item->value = strdup(value);
    if (item->key == NULL || item->value == NULL) {
        free(item->key);
        free(item->value);
        return fail_memory("query results", 0);
    }
    found->text_bytes += strlen(key) + strlen(value) + 2;
    found->count++;
    return NIXL_SUCCESS;
}

static char *text_place(char **at, const char *text) {
    char *place = *at;
    size_t size = strlen(text) + 1;

    memcpy(place, text, size);
    *at += size;
    return place;
}

/* One block: head, one result a block, the parameters grouped by block, the texts. */
static nixl_status_t results_pack(const struct findings *found, struct nixl_query_results **results) {
    size_t bytes = sizeof **results + found->blocks * sizeof(struct nixl_query_result) +
                   found->count * sizeof(struct nixl_param) + found->text_bytes;
    struct nixl_query_results *head = malloc(bytes);
    struct nixl_query_result *blocks;
    struct nixl_param *params;
    char *texts;

    if (head == NULL) {
        return fail_memory("query results", bytes);
    }
    blocks = (struct nixl_query_result *)(head + 1);
    params = (struct nixl_param *)(blocks + found->blocks);
    texts = (char *)(params + found->count);
    memset(blocks, 0, found->blocks * sizeof *blocks);
    for (size_t i = 0; i < found->count; i++) {
        blocks[found->items[i].index].params.count++;
    }
    for (size_t b = 0; b < found->blocks; b++) {
        blocks[b].found = blocks[b].params.count != 0;
        blocks[b].params.items = params;
        params += blocks[b].params.count;
        blocks[b].params.count = 0;
    }
    for (size_t i = 0; i < found->count; i++) {
        struct nixl_params *of = &blocks[found->items[i].index].params;
        struct nixl_param *param = (struct nixl_param *)(uintptr_t)&of->items[of->count++];

        param->key = text_place(&texts, found->items[i].key);
        param->value = text_place(&texts, found->items[i].value);
    }
    *head = (struct nixl_query_results){.count = found->blocks, .items = blocks};
    *results = head;
    return NIXL_SUCCESS;
}

static nixl_status_t query_ask(struct nixl_backend *backend, const struct nixl_list *list, size_t count,
                               struct findings *found) {
    struct nixl_query_sink sink = {.ctx = found, .found = query_found};
    struct nixl_meta_desc *descs = array_alloc(count, sizeof *descs);
    struct list_reader reader;
    unsigned mark = backend_mark();
    nixl_status_t status;

    if (descs == NULL) {
        return fail_memory("descriptors", count * sizeof *descs);
    }
    list_begin(&reader, list);
    for (size_t i = 0; i < count && list_next_meta(&reader, &descs[i]); i++) {
    }
    lock_take(&backend->control);
    status = backend->ops.query(backend->self, list->mem, descs, count, &sink);
    lock_drop(&backend->control);
    free(descs);
    return status == NIXL_SUCCESS ? status : backend_fault(backend, mark, status, "asking");
}

static nixl_status_t query_blocks(struct nixl_agent *agent, const struct nixl_list *list,
                                  const struct nixl_options *options, struct nixl_query_results **results) {
    struct findings found = {0};
    struct nixl_backend *backend;
    uint32_t hints;
    size_t count;
    nixl_status_t status = list_check(list, FORMS_REGISTER, true, "list", &count, NULL);

    if (status == NIXL_SUCCESS) {
        status = select_hints(agent, options, &hints);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (__builtin_popcount(hints) != 1) {
        return fail(NIXL_ERR_INVALID_PARAM, "options->backends must name exactly one backend, not %d",
                    __builtin_popcount(hints));
    }
    backend = agent->backends[__builtin_ctz(hints)];
    if (backend->ops.query == NULL) {
        return fail(NIXL_ERR_NOT_SUPPORTED, "backend %s cannot be asked about blocks", backend->ops.name);
    }
    if ((backend->instance.mems & NIXL_MEM_BIT(list->mem)) == 0) {
        return fail(NIXL_ERR_INVALID_PARAM, "backend %s does not take %s", backend->ops.name,
                    nixl_mem_string(list->mem));
    }
    found.blocks = count;
    status = count != 0 ? query_ask(backend, list, count, &found) : NIXL_SUCCESS;
    if (status == NIXL_SUCCESS) {
        status = results_pack(&found, results);
    }
    for (size_t i = 0; i < found.count; i++) {
        free(found.items[i].key);
        free(found.items[i].value);
    }
    free(found.items);
    return status;
}

nixl_status_t nixl_mem_query(struct nixl_agent *agent, const struct nixl_list *list,
                             const struct nixl_options *options, struct nixl_query_results **results) {
    nixl_status_t status;

    if (results == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "query: results is NULL");
    }
    *results = NULL;
    status = agent_enter(agent, "query");
    if (status != NIXL_SUCCESS) {
        return status;
    }
    /* May block for as long as the storage does, so not under the lock of STRICT. */
    agent_leave(agent);
    status = query_blocks(agent, list, options, results);
    if (status != NIXL_SUCCESS) {
        error_prefix("query");
    }
    return status;
}
