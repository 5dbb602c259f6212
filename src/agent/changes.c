/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changed in this agent's metadata, for update blobs: a ring of the latest additions and removals of
 * regions. One that asks for more than the ring remembers gets a full blob. Guarded by agent->tables.
 */
#include "agent/changes.h"

#include <stdlib.h>

/* As many changes as an update can be made of; beyond that a full blob is hardly longer. 64 bytes each: 1
 * MiB. */
#define CHANGES_MAX ((size_t)16384)

void changes_cut(struct nixl_agent *agent) {
    struct change_log *log = &agent->changes;

    agent->generation++;
    log->count = 0;
    log->head = 0;
    log->oldest = agent->generation;
}

/* Room for one more; the oldest gives way when the ring is as large as it gets. */
static struct change *change_slot(struct change_log *log) {
    struct change *slot;

    if (log->count == log->cap && log->cap < CHANGES_MAX) {
        size_t cap = log->cap != 0 ? log->cap * 2 : 64;
        struct change *grown = array_alloc(cap, sizeof *grown);

        if (grown != NULL) {
            for (size_t i = 0; i < log->count; i++) {
                grown[i] = log->items[(log->head + i) % log->cap];
            }
            free(log->items);
            log->items = grown;
            log->cap = cap;
            log->head = 0;
        }
    }
    if (log->cap == 0) {
        return NULL;
    }
    if (log->count == log->cap) {
        log->oldest = log->items[log->head].generation;
        log->head = (log->head + 1) % log->cap;
        log->count--;
    }
    slot = &log->items[(log->head + log->count) % log->cap];
    log->count++;
    return slot;
}

void changes_note(struct nixl_agent *agent, const struct region *region, bool added) {
    uint32_t backends = region->backends & backend_mask(agent, NIXL_CAP_REMOTE);
    struct change *change;

    if (backends == 0) {
        return; /* others never hear of it */
    }
    change = change_slot(&agent->changes);
    if (change == NULL) {
        changes_cut(agent); /* no memory: updates begin here */
        return;
    }
    agent->generation++;
    *change = (struct change){
        .generation = agent->generation,
        .desc = {region->addr, region->len, region->dev},
        .backends = backends,
        .mem = region->mem,
        .was_removal = !added,
    };
}

size_t changes_since(const struct nixl_agent *agent, uint64_t since, struct change *out) {
    const struct change_log *log = &agent->changes;
    size_t first = log->count;

    while (first > 0 && log->items[(log->head + first - 1) % log->cap].generation > since) {
        first--;
    }
    for (size_t i = first; i < log->count && out != NULL; i++) {
        out[i - first] = log->items[(log->head + i) % log->cap];
    }
    return log->count - first;
}

void changes_destroy(struct nixl_agent *agent) {
    free(agent->changes.items);
    agent->changes = (struct change_log){0};
}
