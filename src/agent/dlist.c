/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepared lists: a list resolved to regions once, for many requests. Kept as runs of equal blocks a step
 * apart when those average 8 blocks or more, else flat. Regions are remembered by id, so that one that went
 * away is noticed. The search needs the agent's tables; what was prepared is the list's own.
 */
#include "internal.h"

#include <inttypes.h>
#include <stdlib.h>

#define FORMS_TRANSFER ((1u << NIXL_FORM_PLAIN) | (1u << NIXL_FORM_STRIDED))
#define RUN_BLOCKS 8 /* shorter runs on average are not worth a search per index */

/* A view in the making. `open` is the run that the next block may continue. */
struct draft {
    struct region_walk walk; /* set, kind, backends wanted; the region of the last block */
    const unsigned char *items;
    size_t step;
    size_t blocks;   /* of the whole list */
    uint32_t common; /* backends that all regions so far have */

    struct dlist_run open;
    uint64_t limit; /* last address at which a block of its length fits into its region */
    uint64_t dev;

    struct dlist_run *runs;
    size_t run_count, run_cap;
    struct dlist_entry *entries; /* not NULL: flat */
    size_t entry_count;
    uint64_t bytes;
    bool overflows; /* bytes do not fit */
};

enum draft_result {
    DRAFT_OK,
    DRAFT_UNCOVERED,
    DRAFT_TOO_LONG, /* the lengths sum up to more than 2^64 */
    DRAFT_NO_MEMORY
};

static void entries_of_run(struct draft *draft, const struct dlist_run *run) {
    bool dense = run->stride == run->len;

    for (uint64_t i = 0; i < run->count; i++) {
        draft->entries[draft->entry_count++] = (struct dlist_entry){
            .addr = run->addr + i * run->stride,
            .len = run->len,
            .slot = run->region.slot | (i != 0 && dense ? DLIST_JOINS : 0),
            .generation = run->region.generation,
        };
    }
}

/* Runs have turned out to be short: what there is becomes entries, and so does the rest. */
static bool draft_flatten(struct draft *draft) {
    draft->entries = array_alloc(draft->blocks, sizeof *draft->entries);
    if (draft->entries == NULL) {
        return false;
    }
    for (size_t i = 0; i < draft->run_count; i++) {
        entries_of_run(draft, &draft->runs[i]);
    }
    free(draft->runs);
    draft->runs = NULL;
    return true;
}

/* Ends the open run, if there is one. */
static bool draft_close_run(struct draft *draft) {
    uint64_t bytes;

    if (draft->open.count == 0) {
        return true;
    }
    if (__builtin_mul_overflow(draft->open.len, draft->open.count, &bytes) ||
        __builtin_add_overflow(draft->bytes, bytes, &draft->bytes)) {
        draft->overflows = true;
    }
    if (draft->entries == NULL && draft->run_count >= draft->blocks / RUN_BLOCKS && !draft_flatten(draft)) {
        return false;
    }
    if (draft->entries != NULL) {
        entries_of_run(draft, &draft->open);
    } else {
        if (!array_reserve(&draft->runs, &draft->run_cap, draft->run_count + 1, sizeof *draft->runs)) {
            return false;
        }
        draft->runs[draft->run_count++] = draft->open;
    }
    draft->open.count = 0;
    return true;
}

static void draft_open_run(struct draft *draft, const struct region *region, const struct nixl_desc *desc) {
    uint64_t end = region->addr + region->len;

    draft->open = (struct dlist_run){
        .addr = desc->addr,
        .len = desc->len,
        .first = draft->open.first,
        .count = 1,
        .region = region->id,
    };
    if (end < region->addr) {
        end = UINT64_MAX;
    }
    draft->limit = end - desc->len;
    draft->dev = desc->dev;
    draft->common &= region->backends;
}

/* Whether `desc` is where the step of the open run leads. A wrapped address is beyond the limit. */
static inline bool draft_continues(const struct draft *draft, const struct nixl_desc *desc, uint64_t next) {
    const struct dlist_run *open = &draft->open;

    return ((desc->addr ^ next) | (desc->len ^ open->len) | (desc->dev ^ draft->dev)) == 0 &&
           next - open->addr <= draft->limit - open->addr;
}

/* A block that does not continue a run of two or more. */
static inline enum draft_result draft_block(struct draft *draft, const struct nixl_desc *desc, size_t index) {
    struct dlist_run *open = &draft->open;
    struct region *region;
    uint64_t first;

    /* One branch for all, which a scattered list does not take. */
    if ((open->count == 1) & (desc->len == open->len) & (desc->dev == draft->dev) &
        (desc->addr > open->addr) & (desc->addr <= draft->limit)) {
        open->stride = desc->addr - open->addr;
        open->count = 2;
        return DRAFT_OK;
    }
    region = draft->walk.hint.last;
    if (region == NULL || !region_holds(region, desc)) {
        region = draft->items != NULL
                     ? region_walk_find(&draft->walk, desc, draft->items, draft->step, index, draft->blocks)
                     : region_set_cover(draft->walk.set, draft->walk.mem, desc, draft->walk.want,
                                        &draft->walk.hint);
        if (region == NULL) {
            return DRAFT_UNCOVERED;
        }
    }
    first = open->first + open->count;
    if (!draft_close_run(draft)) {
        return DRAFT_NO_MEMORY;
    }
    open->first = first;
    draft_open_run(draft, region, desc);
    return DRAFT_OK;
}

static enum draft_result draft_plain(struct draft *draft, const struct nixl_list *list, size_t *bad) {
    struct dlist_run *open = &draft->open;
    size_t count = list->count;
    size_t step = list_item_bytes(list);
    struct nixl_desc desc;

    draft->items = list->items;
    draft->step = step;
    for (size_t i = 0; i < count;) {
        const unsigned char *at = draft->items + i * step;
        enum draft_result result;

        memcpy(&desc, at, sizeof desc);
        result = draft_block(draft, &desc, i);
        if (result != DRAFT_OK) {
            *bad = i;
            return result;
        }
        i++;
        if (open->count > 1) {
            uint64_t next = open->addr + open->count * open->stride;
            uint64_t stride = open->stride;
            size_t begin = i;

            for (at += step; i < count; i++, at += step, next += stride) {
                memcpy(&desc, at, sizeof desc);
                if (!draft_continues(draft, &desc, next)) {
                    break;
                }
            }
            open->count += i - begin;
        }
    }
    return DRAFT_OK;
}

/* A strided item within one region is a run already. */
static bool draft_item(struct draft *draft, const struct nixl_strided_desc *item) {
    uint64_t extent = (item->count - 1) * item->stride + item->len;
    struct nixl_desc whole = {item->addr, extent, item->dev};
    struct nixl_desc desc = {item->addr, item->len, item->dev};
    struct region *region =
        region_set_cover(draft->walk.set, draft->walk.mem, &whole, draft->walk.want, &draft->walk.hint);
    uint64_t first = draft->open.first + draft->open.count;

    if (region == NULL || item->count < 2 || item->stride == 0 || !draft_close_run(draft)) {
        return false;
    }
    draft->open.first = first;
    draft_open_run(draft, region, &desc);
    draft->open.stride = item->stride;
    draft->open.count = item->count;
    return true;
}

static enum draft_result draft_strided(struct draft *draft, const struct nixl_list *list, size_t *bad) {
    const unsigned char *at = list->items;
    size_t step = list_item_bytes(list);
    struct dlist_run *open = &draft->open;
    struct nixl_strided_desc item;
    size_t index = 0;

    for (size_t i = 0; i < list->count; i++, at += step) {
        memcpy(&item, at, sizeof item);
        if (draft_item(draft, &item)) {
            index += item.count;
            continue;
        }
        for (uint64_t b = 0; b < item.count; b++, index++) {
            struct nixl_desc desc = {item.addr + b * item.stride, item.len, item.dev};
            enum draft_result result = DRAFT_OK;

            if (open->count > 1 && draft_continues(draft, &desc, open->addr + open->count * open->stride)) {
                open->count++;
            } else {
                result = draft_block(draft, &desc, index);
            }
            if (result != DRAFT_OK) {
                *bad = index;
                return result;
            }
        }
    }
    return DRAFT_OK;
}

/* Resolves the list with regions that have all of `want`. On success *view is filled; its memory is the
 * caller's. */
static enum draft_result view_make(const struct region_set *set, const struct nixl_list *list, size_t blocks,
                                   uint32_t want, struct dlist_view *view, uint64_t *bytes, size_t *bad) {
    struct draft draft = {
        .walk = {.set = set, .mem = list->mem, .want = want},
        .blocks = blocks,
        .common = UINT32_MAX,
    };
    enum draft_result result =
        list->form == NIXL_FORM_STRIDED ? draft_strided(&draft, list, bad) : draft_plain(&draft, list, bad);

    if (result == DRAFT_OK && !draft_close_run(&draft)) {
        result = DRAFT_NO_MEMORY;
    }
    if (result == DRAFT_OK && draft.overflows) {
        result = DRAFT_TOO_LONG;
    }
    if (result != DRAFT_OK) {
        free(draft.runs);
        free(draft.entries);
        return result;
    }
    *bytes = draft.bytes;
    *view = (struct dlist_view){
        .backends = draft.common,
        .is_flat = draft.entries != NULL,
        .run_count = draft.run_count,
        .entries = draft.entries,
        .runs = draft.runs,
    };
    return DRAFT_OK;
}

static void view_free(struct dlist_view *view) {
    free(view->entries);
    free(view->runs);
}

/* The block at an index, for words. */
static struct nixl_desc block_at(const struct nixl_list *list, size_t index) {
    struct list_reader reader;
    struct nixl_desc desc = {0, 0, 0};

    list_begin(&reader, list);
    for (size_t i = 0; i <= index && list_next(&reader, &desc); i++) {
    }
    return desc;
}

/*
 * All resolutions for the backends of `candidates`: one that takes whatever region holds a block, and, for
 * backends that do not have all of those regions, one each that asks for theirs.
 */
static nixl_status_t views_make(const struct region_set *set, const struct nixl_list *list, size_t blocks,
                                uint32_t candidates, const char *owner, struct dlist_view *views,
                                unsigned *count, uint64_t *bytes) {
    uint32_t left;
    size_t bad = 0;
    unsigned made = 0;
    enum draft_result result = view_make(set, list, blocks, 0, &views[0], bytes, &bad);

    *count = 0;
    if (result == DRAFT_NO_MEMORY) {
        return fail_memory("a prepared list", blocks * sizeof(struct dlist_entry));
    }
    if (result != DRAFT_OK) {
        struct nixl_desc desc = block_at(list, bad);
        nixl_status_t status = list_check(list, FORMS_TRANSFER, false, "list", &blocks, bytes);

        /* A list that was looked at quickly may be malformed, which is the better reason. */
        return status != NIXL_SUCCESS ? status : region_set_explain(set, list->mem, &desc, bad, owner);
    }
    views[0].backends &= candidates;
    left = candidates & ~views[0].backends;
    if (views[0].backends != 0) {
        made = 1;
    } else {
        view_free(&views[0]);
    }
    while (left != 0) {
        uint32_t bit = left & (0 - left);

        result = view_make(set, list, blocks, bit, &views[made], bytes, &bad);
        left &= ~bit;
        if (result == DRAFT_OK) {
            views[made].backends &= left | bit;
            left &= ~views[made].backends;
            made++;
        } else if (result == DRAFT_NO_MEMORY) {
            while (made-- > 0) {
                view_free(&views[made]);
            }
            return fail_memory("a prepared list", blocks * sizeof(struct dlist_entry));
        }
    }
    if (made == 0) {
        struct nixl_desc desc = block_at(list, bad);

        return fail_at(NIXL_ERR_NOT_FOUND, bad,
                       "no backend has all of the blocks; the last that was tried lacks descriptor %zu (addr "
                       "0x%" PRIx64 ", %" PRIu64 " bytes, dev %" PRIu64 ") of %s",
                       bad, desc.addr, desc.len, desc.dev, owner);
    }
    *count = made;
    return NIXL_SUCCESS;
}

/* Tables held. */
static void dlist_enlist(struct nixl_dlist *dlist) {
    struct nixl_agent *agent = dlist->agent;

    xfers_take_within(agent);
    dlist->next = agent->dlists;
    if (dlist->next != NULL) {
        dlist->next->prev = dlist;
    }
    agent->dlists = dlist;
    xfers_drop_within(agent);
}

static nixl_status_t prepare(struct nixl_agent *agent, const char *owner, const struct nixl_list *list,
                             const struct nixl_options *options, struct nixl_dlist **dlist) {
    struct dlist_view views[AGENT_BACKENDS];
    bool is_local = owner == NULL || owner[0] == '\0';
    struct peer *peer = NULL;
    struct nixl_dlist *made;
    uint32_t candidates;
    uint32_t hints;
    unsigned view_count = 0;
    size_t blocks = 0;
    uint64_t bytes = 0;
    nixl_status_t status = list_check_head(list, FORMS_TRANSFER, false, "list");

    if (status == NIXL_SUCCESS) {
        blocks = list->count;
        if (!list_is_quick(list)) {
            status = list_check(list, FORMS_TRANSFER, false, "list", &blocks, &bytes);
        }
    }
    if (status == NIXL_SUCCESS) {
        status = select_hints(agent, options, &hints);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    tables_search(agent);
    if (is_local) {
        candidates = backend_mask(agent, 0);
    } else if (strcmp(owner, agent->name) == 0) {
        candidates = backend_mask(agent, NIXL_CAP_LOCAL);
    } else {
        peer = peer_find(agent, owner, strlen(owner));
        if (peer == NULL) {
            tables_leave(agent);
            return fail(NIXL_ERR_NOT_FOUND, "peer \"%.64s\" is not known: its metadata is not loaded", owner);
        }
        candidates = backend_mask(agent, NIXL_CAP_REMOTE);
    }
    if (hints != 0) {
        candidates &= hints;
    }
    if (candidates == 0) {
        status = fail(NIXL_ERR_NOT_FOUND, "no backend can serve it: %s",
                      hints != 0 ? "none of the hints can" : "the agent has none that can");
    } else {
        status = views_make(peer != NULL ? &peer->regions : &agent->regions, list, blocks, candidates,
                            peer != NULL ? "the peer" : "this agent", views, &view_count, &bytes);
    }
    made = NULL;
    if (status == NIXL_SUCCESS) {
        made = malloc(sizeof *made + view_count * sizeof made->views[0]);
        if (made == NULL) {
            status = fail_memory("a prepared list", sizeof *made);
        } else if (peer != NULL) {
            peer_ref(peer);
        }
    }
    if (made != NULL) {
        *made = (struct nixl_dlist){
            .agent = agent,
            .peer = peer,
            .is_local = is_local,
            .mem = list->mem,
            .count = blocks,
            .bytes = bytes,
            .view_count = view_count,
        };
        memcpy(made->views, views, view_count * sizeof views[0]);
        dlist_enlist(made);
    }
    tables_leave(agent);
    if (made == NULL) {
        while (view_count-- > 0) {
            view_free(&views[view_count]);
        }
        return status;
    }
    *dlist = made;
    return NIXL_SUCCESS;
}

nixl_status_t nixl_dlist_prepare(struct nixl_agent *agent, const char *owner, const struct nixl_list *list,
                                 const struct nixl_options *options, struct nixl_dlist **dlist) {
    nixl_status_t status;

    if (dlist == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "prepare: dlist is NULL");
    }
    *dlist = NULL;
    status = agent_enter(agent, "prepare");
    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = prepare(agent, owner, list, options, dlist);
    agent_leave(agent);
    if (status != NIXL_SUCCESS) {
        error_prefix("prepare");
    }
    return status;
}

size_t nixl_dlist_count(const struct nixl_dlist *dlist) {
    return dlist != NULL ? dlist->count : 0;
}

void dlist_orphan(struct nixl_dlist *dlist) {
    struct nixl_agent *agent = dlist->agent;

    xfers_take(agent);
    if (dlist->prev != NULL) {
        dlist->prev->next = dlist->next;
    } else {
        agent->dlists = dlist->next;
    }
    if (dlist->next != NULL) {
        dlist->next->prev = dlist->prev;
    }
    xfers_drop(agent);
    if (dlist->peer != NULL) {
        peer_unref(dlist->peer);
        dlist->peer = NULL;
    }
    dlist->agent = NULL;
}

void nixl_dlist_release(struct nixl_dlist *dlist) {
    if (dlist == NULL) {
        return;
    }
    if (dlist->agent != NULL) {
        if (dlist->agent->fork_generation != fork_generation()) {
            (void)fail(NIXL_ERR_NOT_ALLOWED,
                       "dlist release: the list was made before fork() and is the parent's");
            return;
        }
        dlist_orphan(dlist);
    }
    for (unsigned i = 0; i < dlist->view_count; i++) {
        view_free(&dlist->views[i]);
    }
    free(dlist);
}
