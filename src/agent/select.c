/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which backend serves: the caller's hints in their order, else the cheapest by declared rank, of equals the
 * cheapest for this request by their own word, else the first created. The same agent with the same calls
 * always chooses the same.
 */
#include "internal.h"

const struct nixl_options options_default = NIXL_OPTIONS_INIT;

struct nixl_options options_full(const struct nixl_options *options) {
    struct nixl_options full = NIXL_OPTIONS_INIT;

    if (options != NULL) {
        memcpy(&full, options, options->size < sizeof full ? options->size : sizeof full);
        full.size = sizeof full;
    }
    return full;
}

nixl_status_t select_hints(struct nixl_agent *agent, const struct nixl_options *options, uint32_t *mask) {
    struct nixl_options storage;
    const struct nixl_options *full = options_view(options, &storage);
    unsigned count = backend_count(agent);
    uint32_t hints = 0;

    if (full->backend_count != 0 && full->backends == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "options: %zu backends at NULL", full->backend_count);
    }
    for (size_t i = 0; i < full->backend_count; i++) {
        unsigned slot = 0;

        /* By address only: a handle of another agent, or one that is gone, must not be looked into. */
        while (slot < count && agent->backends[slot] != full->backends[i]) {
            slot++;
        }
        if (slot == count) {
            return fail(NIXL_ERR_INVALID_PARAM, "options: backend %zu is %s", i,
                        full->backends[i] == NULL ? "NULL" : "not one of this agent's");
        }
        hints |= 1u << slot;
    }
    *mask = hints;
    return NIXL_SUCCESS;
}

/* Cheaper first; of equals the one created first. */
static bool stands_before(const struct nixl_backend *a, const struct nixl_backend *b) {
#ifdef BREAK_6 /* as in a set of pointers */
    return (uintptr_t)a < (uintptr_t)b;
#endif
    if (a->instance.rank != b->instance.rank) {
        return a->instance.rank < b->instance.rank;
    }
    return a->slot < b->slot;
}

unsigned select_order(struct nixl_agent *agent, const struct nixl_options *options, uint32_t mask,
                      struct nixl_backend *order[AGENT_BACKENDS]) {
    struct nixl_options storage;
    const struct nixl_options *full = options_view(options, &storage);
    unsigned count = 0;

#ifdef BREAK_6
    full = &options_default; /* in a set, hints have no order */
#endif
    for (size_t i = 0; i < full->backend_count; i++) {
        struct nixl_backend *backend = full->backends[i];

        if ((mask & (1u << backend->slot)) != 0) {
            mask &= ~(1u << backend->slot);
            order[count++] = backend;
        }
    }
    for (unsigned hinted = count; mask != 0; mask &= mask - 1) {
        struct nixl_backend *backend = agent->backends[__builtin_ctz(mask)];
        unsigned at = count++;

        while (at > hinted && stands_before(backend, order[at - 1])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = backend;
    }
    return count;
}

uint32_t select_rivals(const struct nixl_agent *agent, const struct nixl_options *options, uint32_t mask,
                       const struct nixl_backend *chosen) {
    uint32_t rivals = 0;

    if (options->backend_count != 0 || chosen->ops.cost == NULL) {
        return 0;
    }
    for (mask &= ~(1u << chosen->slot); mask != 0; mask &= mask - 1) {
        const struct nixl_backend *backend = agent->backends[__builtin_ctz(mask)];

        if (backend->instance.rank == chosen->instance.rank && backend->ops.cost != NULL &&
            (!options->has_notif || (backend->instance.caps & NIXL_CAP_NOTIF) != 0)) {
            rivals |= 1u << backend->slot;
        }
    }
    return rivals;
}

/* What the backend itself says; UINT64_MAX when it cannot tell. */
static uint64_t cost_of(const struct nixl_xfer *xfer) {
    struct nixl_cost cost = NIXL_COST_INIT;

    return xfer->backend->ops.cost(xfer->backend->self, &xfer->request, &cost) == NIXL_SUCCESS
               ? cost.duration_ns
               : UINT64_MAX;
}

struct nixl_xfer *select_cheaper(struct nixl_xfer *first, struct nixl_xfer *second) {
    uint64_t costs[2];
    struct nixl_xfer *loser = second;

    costs[0] = cost_of(first);
    costs[1] = cost_of(second);
    if (costs[0] != UINT64_MAX && costs[1] < costs[0]) {
        loser = first;
    }
    (void)nixl_xfer_release(loser); /* never posted: it cannot fail */
    return loser == second ? first : second;
}

void select_suggest(struct nixl_agent *agent, nixl_mem_t local, nixl_mem_t remote, bool remote_peer) {
    char names[256];

    (void)agent;
    if (plugin_suggest(local, remote, remote_peer, names, sizeof names) != 0) {
        error_append("; plugins that would: %s (nixl_backend_create())", names);
    }
}
