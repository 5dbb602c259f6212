/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests from prepared lists and indices: the choice of the backend, and neighbours that adjoin on both
 * sides merged into one block.
 */
#include "build.h"

#include <inttypes.h>
#include <stdio.h>

/* One side of the pairs while indices are walked. */
struct side {
    const struct nixl_dlist *list;
    const struct dlist_view *view;
    const struct region_set *set;
    const int32_t *indices; /* NULL: 0, 1, 2, … */
    const char *name;
    /* Compact lists: the run of the last index. */
    const struct dlist_run *run;
    /* The region of the last block. */
    uint32_t slot, generation;
    struct region *region;
};

struct side_block {
    uint64_t addr, len;
    struct region *region;
    uint32_t index;
    bool joins; /* adjoins the block of index - 1 */
};

static const struct dlist_view *view_of(const struct nixl_dlist *list, uint32_t bit) {
    for (unsigned i = 0; i < list->view_count; i++) {
        if ((list->views[i].backends & bit) != 0) {
            return &list->views[i];
        }
    }
    return NULL;
}

static uint32_t view_backends(const struct nixl_dlist *list) {
    uint32_t mask = 0;

    for (unsigned i = 0; i < list->view_count; i++) {
        mask |= list->views[i].backends;
    }
    return mask;
}

/* The run that holds an index that is in range. */
static const struct dlist_run *run_find(const struct dlist_view *view, uint32_t index) {
    size_t base = 0;
    size_t left = view->run_count;

    while (left > 1) {
        size_t half = left / 2;

        base = __builtin_expect_with_probability(view->runs[base + half].first <= index, 1, 0.5) ? base + half
                                                                                                 : base;
        left -= half;
    }
    return &view->runs[base];
}

/* The i-th block of a side cannot be used. */
static nixl_status_t side_fail(const struct side *side, size_t i, const struct side_block *block) {
    if (block->index >= side->list->count) {
        return fail_at(NIXL_ERR_INVALID_PARAM, i,
                       "%s index %" PRId32 " at place %zu is out of range: the list has %zu descriptors",
                       side->name, (int32_t)block->index, i, side->list->count);
    }
    return fail_at(NIXL_ERR_NOT_FOUND, i,
                   "descriptor %zu (%s index %" PRIu32 ", addr 0x%" PRIx64 ", %" PRIu64
                   " bytes): its region is gone since the list was prepared",
                   i, side->name, block->index, block->addr, block->len);
}

/* Reads the i-th block of a side; false: side_fail() says why not. */
static inline bool side_read(struct side *side, size_t i, struct side_block *block) {
    const struct dlist_view *view = side->view;
    uint32_t index = side->indices != NULL ? (uint32_t)side->indices[i] : (uint32_t)i;
    uint32_t slot;
    uint32_t generation;

    block->index = index;
    if (__builtin_expect(index >= side->list->count, 0)) {
        return false;
    }
    if (view->is_flat) {
        const struct dlist_entry *entry = &view->entries[index];

        block->addr = entry->addr;
        block->len = entry->len;
        block->joins = (entry->slot & DLIST_JOINS) != 0;
        slot = entry->slot & ~DLIST_JOINS;
        generation = entry->generation;
    } else {
        const struct dlist_run *run = side->run;

        if (run == NULL || index - run->first >= run->count) {
            run = run_find(view, index);
            side->run = run;
        }
        block->addr = run->addr + (index - run->first) * run->stride;
        block->len = run->len;
        block->joins = index != run->first && run->stride == run->len;
        slot = run->region.slot;
        generation = run->region.generation;
    }
    if (__builtin_expect(slot != side->slot || generation != side->generation || side->region == NULL, 0)) {
        side->region = region_set_get(side->set, (struct region_id){slot, generation});
        side->slot = slot;
        side->generation = generation;
    }
    block->region = side->region;
    return side->region != NULL;
}

/* Walks the pairs. */
static nixl_status_t make_pairs(struct build *build, struct side *local, struct side *remote, size_t count,
                                bool merges, uint64_t *total) {
    struct pair open = {.count = 0};
    struct side_block l = {0};
    struct side_block r = {0};
    uint32_t next_local = 0;
    uint32_t next_remote = 0;
    uint64_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        if (__builtin_expect(!side_read(local, i, &l), 0)) {
            return side_fail(local, i, &l);
        }
        if (__builtin_expect(!side_read(remote, i, &r), 0)) {
            return side_fail(remote, i, &r);
        }
        if (__builtin_expect(l.len != r.len, 0)) {
            return fail_at(NIXL_ERR_INVALID_PARAM, i,
                           "descriptor %zu: %" PRIu64 " bytes on the local side (index %" PRIu32 "), %" PRIu64
                           " on the remote side (index %" PRIu32 ")",
                           i, l.len, l.index, r.len, r.index);
        }
        if (__builtin_add_overflow(bytes, l.len, &bytes)) {
            return fail_at(NIXL_ERR_INVALID_PARAM, i, "the lengths sum up to more than 2^64 bytes");
        }
        if (merges && open.count != 0 && l.joins && r.joins && l.index == next_local &&
            r.index == next_remote) {
            open.len += l.len;
            open.count++;
        } else {
            if (open.count != 0 && !build_pair(build, &open)) {
                return fail_memory("a request", build->blocks * sizeof(struct nixl_run));
            }
            open = (struct pair){l.addr, r.addr, l.len, l.region, r.region, (uint32_t)i, 1};
        }
        next_local = l.index + 1;
        next_remote = r.index + 1;
    }
    if (!build_pair(build, &open)) {
        return fail_memory("a request", build->blocks * sizeof(struct nixl_run));
    }
    *total = bytes;
    return NIXL_SUCCESS;
}

static nixl_status_t make_check(struct nixl_agent *agent, const struct nixl_dlist *local,
                                const struct nixl_dlist *remote, size_t count) {
    if (local == NULL || remote == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "the %s list is NULL", local == NULL ? "local" : "remote");
    }
    if (local->agent != agent || remote->agent != agent) {
        return fail(NIXL_ERR_INVALID_PARAM, "the %s list was not prepared by this agent",
                    local->agent != agent ? "local" : "remote");
    }
    if (!local->is_local) {
        return fail(NIXL_ERR_INVALID_PARAM,
                    "the local list was prepared with an owner: it is a remote side (swapped?)");
    }
    if (remote->is_local) {
        return fail(NIXL_ERR_INVALID_PARAM,
                    "the remote list was prepared without an owner: it is a local side (swapped?)");
    }
    if (count == 0) {
        return fail(NIXL_ERR_INVALID_PARAM, "no indices");
    }
    if (count > INT32_MAX) {
        return fail(NIXL_ERR_INVALID_PARAM, "%zu indices, more than %d", count, INT32_MAX);
    }
    return NIXL_SUCCESS;
}

static nixl_status_t fail_common(struct nixl_agent *agent, uint32_t local, uint32_t remote, uint32_t hints) {
    char names[256] = "";
    size_t used = 0;

    for (uint32_t rest = local | remote; rest != 0; rest &= rest - 1) {
        unsigned slot = (unsigned)__builtin_ctz(rest);

        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s (%s)", used != 0 ? ", " : "",
                                 agent->backends[slot]->ops.name,
                                 (local & remote & (1u << slot)) != 0 ? "both"
                                 : (local & (1u << slot)) != 0        ? "local"
                                                                      : "remote");
        if (used >= sizeof names) {
            break;
        }
    }
    return fail(NIXL_ERR_INVALID_PARAM, "the lists have no backend in common%s: %s",
                hints != 0 ? " among those of the options" : "", names);
}

/* Builds with one backend. Tables held. */
static nixl_status_t make_with(struct build *build, struct nixl_agent *agent, struct nixl_backend *backend,
                               const struct nixl_dlist *local, const int32_t *local_indices,
                               const struct nixl_dlist *remote, const int32_t *remote_indices, size_t count,
                               struct recipe *recipe, struct nixl_xfer **xfer) {
    uint32_t bit = 1u << backend->slot;
    struct side l = {
        .list = local,
        .view = view_of(local, bit),
        .set = &agent->regions,
        .indices = local_indices,
        .name = "local",
    };
    struct side r = {
        .list = remote,
        .view = view_of(remote, bit),
        .set = remote->peer != NULL ? &remote->peer->regions : &agent->regions,
        .indices = remote_indices,
        .name = "remote",
    };
    nixl_status_t status;

    build_begin(build, agent, backend, remote->peer, count, recipe->options->custom_len);
    status = make_pairs(build, &l, &r, count, !recipe->options->keep_lists, &recipe->total_bytes);
    if (status == NIXL_SUCCESS) {
        *xfer = build_finish(build, recipe);
        if (*xfer == NULL) {
            status = fail_memory("a request", build->run_count * sizeof(struct nixl_run));
        }
    }
    if (status != NIXL_SUCCESS) {
        build_drop(build);
    }
    return status;
}

static nixl_status_t make(struct nixl_agent *agent, nixl_xfer_op_t op, const struct nixl_dlist *local,
                          const int32_t *local_indices, const struct nixl_dlist *remote,
                          const int32_t *remote_indices, size_t count, const struct nixl_options *given,
                          struct nixl_xfer **xfer) {
    struct nixl_options storage;
    const struct nixl_options *options = options_view(given, &storage);
    struct nixl_backend *order[AGENT_BACKENDS];
    struct build build;
    struct recipe recipe = {.op = op, .options = options};
    struct nixl_xfer *best = NULL;
    uint32_t tried = 0;
    uint32_t among = UINT32_MAX; /* once there is one: those that may be cheaper */
    uint32_t hints;
    nixl_status_t status = make_check(agent, local, remote, count);

    if (status == NIXL_SUCCESS) {
        status = build_check_options(op, options);
    }
    if (status == NIXL_SUCCESS) {
        status = select_hints(agent, given, &hints);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    recipe.local_mem = local->mem;
    recipe.remote_mem = remote->mem;
    for (;;) {
        struct nixl_xfer *made = NULL;
        uint32_t mask = 0;

        tables_search(agent);
#ifndef BREAK_1
        if (remote->peer != NULL && __atomic_load_n(&remote->peer->is_gone, __ATOMIC_RELAXED)) {
            status =
                fail(NIXL_ERR_NOT_FOUND, "peer \"%.64s\" was removed or replaced since the list was prepared",
                     remote->peer->name);
        } else
#endif
        {
            mask = view_backends(local) & view_backends(remote) & build_reachers(agent, remote->peer);
            mask &= (hints != 0 ? hints : UINT32_MAX) & among & ~tried;
            if (mask == 0) {
                /* The last one that refused has said why. */
                if (tried == 0) {
                    status = fail_common(agent, view_backends(local), view_backends(remote), hints);
                }
            } else {
                (void)select_order(agent, given, mask, order);
                status = build_check_notif(order[0], options);
                if (status == NIXL_SUCCESS) {
                    status = make_with(&build, agent, order[0], local, local_indices, remote, remote_indices,
                                       count, &recipe, &made);
                }
            }
        }
        tables_leave(agent);
        if (made != NULL) {
            status = build_offer(made);
            if (__builtin_expect(status == NIXL_SUCCESS && best == NULL && (mask & (mask - 1)) == 0, 1)) {
                *xfer = made; /* nobody else could */
                return status;
            }
            tried |= 1u << order[0]->slot;
        }
        if (made != NULL && status == NIXL_SUCCESS) {
            if (best == NULL) {
                best = made;
                among = select_rivals(agent, options, mask, order[0]);
            } else {
                best = select_cheaper(best, made);
            }
        } else if (best == NULL && (made == NULL || status != NIXL_ERR_NOT_SUPPORTED)) {
            return status;
        }
        if (best != NULL && (made == NULL || (among & ~tried) == 0)) {
            *xfer = best;
            return NIXL_SUCCESS;
        }
    }
}

nixl_status_t nixl_xfer_make(struct nixl_agent *agent, nixl_xfer_op_t op, const struct nixl_dlist *local,
                             const int32_t *local_indices, const struct nixl_dlist *remote,
                             const int32_t *remote_indices, size_t count, const struct nixl_options *options,
                             struct nixl_xfer **xfer) {
    nixl_status_t status;

    if (xfer == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "make: xfer is NULL");
    }
    *xfer = NULL;
    status = agent_enter(agent, "make");
    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = make(agent, op, local, local_indices, remote, remote_indices, count, options, xfer);
    agent_leave(agent);
    if (status != NIXL_SUCCESS) {
        error_prefix("make");
    }
    return status;
}
