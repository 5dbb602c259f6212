/* SPDX-License-Identifier: Apache-2.0 */
/* Requests from two lists: blocks are resolved to regions on the way, and stay as they are. */
#include "build.h"

#include <inttypes.h>
#include <stdio.h>

#define FORMS_TRANSFER ((1u << NIXL_FORM_PLAIN) | (1u << NIXL_FORM_STRIDED))

static nixl_status_t lengths_differ(size_t index, const struct nixl_desc *local,
                                    const struct nixl_desc *remote) {
    return fail_at(NIXL_ERR_INVALID_PARAM, index,
                   "descriptor %zu: %" PRIu64 " bytes on the local side (addr 0x%" PRIx64 "), %" PRIu64
                   " on the remote side (addr 0x%" PRIx64 ")",
                   index, local->len, local->addr, remote->len, remote->addr);
}

/* The lists' lengths, block by block; told before a peer is looked up. */
static nixl_status_t lists_agree(const struct nixl_list *local, const struct nixl_list *remote) {
    struct list_reader l;
    struct list_reader r;
    struct nixl_desc a;
    struct nixl_desc b;

    list_begin(&l, local);
    list_begin(&r, remote);
    for (size_t i = 0; list_next(&l, &a) && list_next(&r, &b); i++) {
        if (a.len != b.len) {
            return lengths_differ(i, &a, &b);
        }
    }
    return NIXL_SUCCESS;
}

enum create_result {
    CREATE_OK,
    CREATE_UNCOVERED,
    CREATE_INVALID, /* create_check() says why */
    CREATE_NO_MEMORY
};

/* One plain list while it is walked. */
struct source {
    struct region_walk walk;
    const unsigned char *items;
    size_t step, count;
};

static void source_begin(struct source *source, const struct region_set *set, const struct nixl_list *list,
                         uint32_t bit) {
    source->walk.set = set;
    source->walk.mem = list->mem;
    source->walk.want = bit;
    source->walk.hint = (struct region_hint){0};
    source->walk.next_miss = 0;
    source->walk.misses = 0;
    source->walk.ahead_first = 0;
    source->walk.ahead_count = 0;
    source->items = list->items;
    source->step = list_item_bytes(list);
    source->count = list->count;
}

/* The region of a block; NULL when none with that backend holds it. */
static inline struct region *source_region(struct source *source, const struct nixl_desc *desc,
                                           size_t index) {
    struct region *region = source->walk.hint.last;

    if (region != NULL && region_holds(region, desc)) {
        return region;
    }
    return region_walk_find(&source->walk, desc, source->items, source->step, index, source->count);
}

/* Two plain lists of equal count. */
static enum create_result create_plain(struct build *build, struct source *local, struct source *remote,
                                       uint64_t *total) {
    size_t count = local->count;
    uint64_t bytes = 0;
    uint64_t carry = 0;
    struct nixl_desc l;
    struct nixl_desc r;

    for (size_t i = 0; i < count; i++) {
        struct pair pair;

        memcpy(&l, local->items + i * local->step, sizeof l);
        memcpy(&r, remote->items + i * remote->step, sizeof r);
        if (l.len != r.len) {
            return CREATE_INVALID;
        }
        bytes += l.len;
        carry |= (uint64_t)(bytes < l.len);
        pair = (struct pair){
            .local = l.addr,
            .remote = r.addr,
            .len = l.len,
            .local_region = source_region(local, &l, i),
            .remote_region = source_region(remote, &r, i),
            .index = (uint32_t)i,
            .count = 1,
        };
        if (pair.local_region == NULL || pair.remote_region == NULL) {
            return CREATE_UNCOVERED;
        }
        if (!build_pair(build, &pair)) {
            return CREATE_NO_MEMORY;
        }
    }
    *total = bytes;
    return carry == 0 ? CREATE_OK : CREATE_INVALID;
}

/* Lists of any form, checked already. */
static enum create_result create_any(struct build *build, const struct region_set *sets[2],
                                     const struct nixl_list *local, const struct nixl_list *remote) {
    uint32_t bit = 1u << build->backend->slot;
    struct region_hint hint_local = {0};
    struct region_hint hint_remote = {0};
    struct list_reader at_local;
    struct list_reader at_remote;
    struct nixl_desc l;
    struct nixl_desc r;

    list_begin(&at_local, local);
    list_begin(&at_remote, remote);
    for (uint32_t i = 0; list_next(&at_local, &l) && list_next(&at_remote, &r); i++) {
        struct pair pair = {
            .local = l.addr,
            .remote = r.addr,
            .len = l.len,
            .local_region = region_set_cover(sets[0], local->mem, &l, bit, &hint_local),
            .remote_region = region_set_cover(sets[1], remote->mem, &r, bit, &hint_remote),
            .index = i,
            .count = 1,
        };

        if (pair.local_region == NULL || pair.remote_region == NULL) {
            return CREATE_UNCOVERED;
        }
        if (!build_pair(build, &pair)) {
            return CREATE_NO_MEMORY;
        }
    }
    return CREATE_OK;
}

/* Why no backend could serve: a block that no region holds, or regions that no backend has on both sides.
 * Tables held. */
static nixl_status_t create_explain(struct nixl_agent *agent, const struct peer *peer,
                                    const struct nixl_list *local, const struct nixl_list *remote,
                                    uint32_t candidates) {
    const struct nixl_list *lists[] = {local, remote};
    const struct region_set *sets[] = {&agent->regions, peer != NULL ? &peer->regions : &agent->regions};
    const char *owners[] = {"this agent", peer != NULL ? "the peer" : "this agent"};
    const char *sides[] = {"local", "remote"};
    nixl_status_t status;

    for (unsigned side = 0; side < 2; side++) {
        struct region_hint hint = {0};
        struct list_reader reader;
        struct nixl_desc desc;

        list_begin(&reader, lists[side]);
        for (size_t i = 0; list_next(&reader, &desc); i++) {
            if (region_set_cover(sets[side], lists[side]->mem, &desc, 0, &hint) == NULL) {
                status = region_set_explain(sets[side], lists[side]->mem, &desc, i, owners[side]);
                error_prefix("%s side", sides[side]);
                return status;
            }
        }
    }
    status = fail(NIXL_ERR_NOT_FOUND, "no backend%s has the blocks of both sides (%s here, %s %s)",
                  candidates != 0 ? "" : " of this agent that reaches it", nixl_mem_string(local->mem),
                  nixl_mem_string(remote->mem), peer != NULL ? "at the peer" : "in this agent");
    select_suggest(agent, local->mem, remote->mem, peer != NULL);
    return status;
}

/* Two lists on their way to a request. */
struct creation {
    const struct nixl_list *local, *remote;
    size_t blocks;
    bool is_checked; /* else the walk over plain lists checks, and who fails asks create_check() why */
};

/* All that the lists alone can show. */
static nixl_status_t create_check(struct creation *creation, uint64_t *bytes) {
    size_t remote_blocks;
    uint64_t remote_bytes;
    nixl_status_t status =
        list_check(creation->local, FORMS_TRANSFER, false, "local list", &creation->blocks, bytes);

    if (status == NIXL_SUCCESS) {
        status =
            list_check(creation->remote, FORMS_TRANSFER, false, "remote list", &remote_blocks, &remote_bytes);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (creation->blocks != remote_blocks) {
        return fail(NIXL_ERR_INVALID_PARAM, "%zu descriptors on the local side, %zu on the remote side",
                    creation->blocks, remote_blocks);
    }
    return lists_agree(creation->local, creation->remote);
}

static nixl_status_t create_begin(struct creation *creation, uint64_t *bytes) {
    nixl_status_t status = list_check_head(creation->local, FORMS_TRANSFER, false, "local list");

    if (status == NIXL_SUCCESS) {
        status = list_check_head(creation->remote, FORMS_TRANSFER, false, "remote list");
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    creation->blocks = creation->local->count;
    if (list_is_quick(creation->local) && list_is_quick(creation->remote) &&
        creation->local->count == creation->remote->count) {
        return NIXL_SUCCESS;
    }
    creation->is_checked = true;
    return create_check(creation, bytes);
}

/* What is wrong with the lists themselves is told before anything else. */
static nixl_status_t create_fail(struct creation *creation, nixl_status_t status, const char *words) {
    uint64_t bytes;

    if (!creation->is_checked) {
        nixl_status_t earlier = create_check(creation, &bytes);

        if (earlier != NIXL_SUCCESS) {
            return earlier;
        }
    }
    return fail(status, "%s", words);
}

/* Builds with one backend. Tables held. */
static enum create_result create_with(struct build *build, struct nixl_agent *agent,
                                      struct nixl_backend *backend, struct peer *peer,
                                      const struct creation *creation, struct recipe *recipe) {
    const struct region_set *sets[2] = {&agent->regions, peer != NULL ? &peer->regions : &agent->regions};
    struct source l;
    struct source r;

    build_begin(build, agent, backend, peer, creation->blocks, recipe->options->custom_len);
    if (creation->is_checked) {
        return create_any(build, sets, creation->local, creation->remote);
    }
    source_begin(&l, sets[0], creation->local, 1u << backend->slot);
    source_begin(&r, sets[1], creation->remote, 1u << backend->slot);
    return create_plain(build, &l, &r, &recipe->total_bytes);
}

/* Tries the backends in order; tables held. */
static nixl_status_t create_try(struct build *build, struct nixl_agent *agent, struct peer *peer,
                                struct creation *creation, const struct nixl_options *given, uint32_t mask,
                                struct recipe *recipe, struct nixl_xfer **xfer) {
    struct nixl_backend *order[AGENT_BACKENDS];
    unsigned count = select_order(agent, given, mask, order);
    enum create_result result = CREATE_UNCOVERED;
    nixl_status_t status = NIXL_SUCCESS;

    for (unsigned i = 0; i < count && result == CREATE_UNCOVERED; i++) {
        result = create_with(build, agent, order[i], peer, creation, recipe);
        if (result == CREATE_OK) {
            status = build_check_notif(order[i], recipe->options);
        }
        if (result != CREATE_OK || status != NIXL_SUCCESS) {
            build_drop(build);
        }
    }
    if (result == CREATE_UNCOVERED || result == CREATE_INVALID) {
        status = create_fail(creation, NIXL_ERR_NOT_FOUND, "");
        return status == NIXL_ERR_NOT_FOUND
                   ? create_explain(agent, peer, creation->local, creation->remote, mask)
                   : status;
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (result == CREATE_OK) {
        *xfer = build_finish(build, recipe);
        if (*xfer != NULL) {
            return NIXL_SUCCESS;
        }
        build_drop(build);
    }
    return fail_memory("a request", creation->blocks * sizeof(struct nixl_run));
}

/* Finds the peer; NULL with SUCCESS is this agent itself. Tables held. */
static nixl_status_t create_peer(struct nixl_agent *agent, const char *name, struct creation *creation,
                                 struct peer **peer) {
    size_t len = strlen(name);
    char words[160];

    *peer = NULL;
    if (len == agent->name_len && memcmp(name, agent->name, len) == 0) {
        return NIXL_SUCCESS;
    }
    *peer = peer_find(agent, name, len);
    if (*peer != NULL) {
        return NIXL_SUCCESS;
    }
    if (name[0] == '\0') {
        (void)snprintf(words, sizeof words, "no peer is named; this agent itself is \"%.64s\"", agent->name);
    } else {
        (void)snprintf(words, sizeof words, "peer \"%.64s\" is not known: its metadata is not loaded", name);
    }
    return create_fail(creation, NIXL_ERR_NOT_FOUND, words);
}

static nixl_status_t create(struct nixl_agent *agent, nixl_xfer_op_t op, const struct nixl_list *local,
                            const struct nixl_list *remote, const char *name,
                            const struct nixl_options *given, struct nixl_xfer **xfer) {
    struct nixl_options storage;
    const struct nixl_options *options = options_view(given, &storage);
    struct creation creation = {.local = local, .remote = remote};
    struct recipe recipe = {.op = op, .options = options};
    struct build build;
    char refusal[256]; /* of the last backend that would not take the request */
    struct nixl_xfer *best = NULL;
    uint32_t tried = 0;
    uint32_t among = UINT32_MAX; /* once there is one: those that may be cheaper */
    uint32_t hints;
    nixl_status_t status = build_check_options(op, options);

    if (status == NIXL_SUCCESS) {
        status = create_begin(&creation, &recipe.total_bytes);
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
        struct peer *peer;
        uint32_t mask = 0;

        tables_search(agent);
        status = create_peer(agent, name != NULL ? name : "", &creation, &peer);
        if (status == NIXL_SUCCESS) {
            mask = build_reachers(agent, peer) & (hints != 0 ? hints : UINT32_MAX) & among & ~tried;
            status = create_try(&build, agent, peer, &creation, given, mask, &recipe, &made);
        }
        tables_leave(agent);
        if (made == NULL && best == NULL) {
            return status == NIXL_ERR_NOT_FOUND && tried != 0 ? fail(NIXL_ERR_NOT_SUPPORTED, "%s", refusal)
                                                              : status;
        }
        if (made != NULL) {
            struct nixl_backend *backend = made->backend;

            tried |= 1u << backend->slot;
            status = build_offer(made);
            if (status == NIXL_SUCCESS) {
                if (best == NULL) {
                    best = made;
                    among = (mask & (mask - 1)) != 0 ? select_rivals(agent, options, mask, backend) : 0;
                } else {
                    best = select_cheaper(best, made);
                }
            } else if (best == NULL && status != NIXL_ERR_NOT_SUPPORTED) {
                return status;
            } else {
                (void)snprintf(refusal, sizeof refusal, "%s", error_text());
            }
        }
        if (best != NULL && (made == NULL || (among & ~tried) == 0)) {
            *xfer = best;
            return NIXL_SUCCESS;
        }
    }
}

nixl_status_t nixl_xfer_create(struct nixl_agent *agent, nixl_xfer_op_t op, const struct nixl_list *local,
                               const struct nixl_list *remote, const char *peer,
                               const struct nixl_options *options, struct nixl_xfer **xfer) {
    nixl_status_t status;

    if (xfer == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "create: xfer is NULL");
    }
    *xfer = NULL;
    status = agent_enter(agent, "create");
    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = create(agent, op, local, remote, peer, options, xfer);
    agent_leave(agent);
    if (status != NIXL_SUCCESS) {
        error_prefix("create");
    }
    return status;
}
