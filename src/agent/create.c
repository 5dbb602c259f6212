/* SPDX-License-Identifier: Apache-2.0 */
/* Requests from two lists: blocks are resolved to regions on the way, and stay as they are. */
#include "build.h"

#include <inttypes.h>

#define FORMS_TRANSFER ((1u << NIXL_FORM_PLAIN) | (1u << NIXL_FORM_STRIDED))

/* One side's blocks while two lists are walked. */
struct source {
    const struct region_set *set;
    const struct nixl_list *list;
    const char *owner;
    struct list_reader reader;
    struct region_hint hint;
};

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

/* The region of a block on one side; NULL when none with that backend holds it. */
static inline struct region *source_region(struct source *source, const struct nixl_desc *desc,
                                           uint32_t bit) {
    struct region *region = source->hint.last;

    if (region != NULL && region_holds(region, desc)) {
        return region;
    }
    return region_set_cover(source->set, source->list->mem, desc, bit, &source->hint);
}

enum create_result {
    CREATE_OK,
    CREATE_UNCOVERED,
    CREATE_NO_MEMORY
};

static enum create_result create_pairs(struct build *build, struct source *local, struct source *remote) {
    uint32_t bit = 1u << build->backend->slot;
    struct pair pair = {.count = 1};
    struct nixl_desc l;
    struct nixl_desc r;

    list_begin(&local->reader, local->list);
    list_begin(&remote->reader, remote->list);
    local->hint = (struct region_hint){0};
    remote->hint = (struct region_hint){0};
    for (uint32_t i = 0; list_next(&local->reader, &l) && list_next(&remote->reader, &r); i++) {
        pair.local_region = source_region(local, &l, bit);
        pair.remote_region = source_region(remote, &r, bit);
        if (pair.local_region == NULL || pair.remote_region == NULL) {
            return CREATE_UNCOVERED;
        }
        pair.local = l.addr;
        pair.remote = r.addr;
        pair.len = l.len;
        pair.index = i;
        if (!build_pair(build, &pair)) {
            return CREATE_NO_MEMORY;
        }
    }
    return CREATE_OK;
}

/* Why no backend could serve: a block that no region holds, or regions that no backend has on both sides. Tables held. */
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

/* Tries the backends in order; tables held. */
static nixl_status_t create_with(struct build *build, struct nixl_agent *agent, struct peer *peer,
                                 const struct nixl_list *local, const struct nixl_list *remote, size_t blocks,
                                 const struct nixl_options *given, uint32_t mask, struct recipe *recipe,
                                 struct nixl_xfer **xfer) {
    struct nixl_backend *order[AGENT_BACKENDS];
    struct source l = {.set = &agent->regions, .list = local};
    struct source r = {.set = peer != NULL ? &peer->regions : &agent->regions, .list = remote};
    unsigned count = select_order(agent, given, mask, order);

    for (unsigned i = 0; i < count; i++) {
        enum create_result result;
        nixl_status_t status;

        build_begin(build, agent, order[i], peer, blocks, recipe->options->custom_len);
        result = create_pairs(build, &l, &r);
        if (result == CREATE_UNCOVERED) {
            build_drop(build);
            continue;
        }
        if (result == CREATE_OK) {
            status = build_check_notif(order[i], recipe->options);
            if (status != NIXL_SUCCESS) {
                build_drop(build);
                return status;
            }
            *xfer = build_finish(build, recipe);
        }
        if (*xfer == NULL) {
            build_drop(build);
            return fail_memory("a request", blocks * sizeof(struct nixl_run));
        }
        return NIXL_SUCCESS;
    }
    return create_explain(agent, peer, local, remote, mask);
}

static nixl_status_t create_check(nixl_xfer_op_t op, const struct nixl_list *local,
                                  const struct nixl_list *remote, const struct nixl_options *options,
                                  size_t *blocks, uint64_t *bytes) {
    size_t remote_blocks;
    uint64_t remote_bytes;
    nixl_status_t status = build_check_options(op, options);

    if (status == NIXL_SUCCESS) {
        status = list_check(local, FORMS_TRANSFER, false, "local list", blocks, bytes);
    }
    if (status == NIXL_SUCCESS) {
        status = list_check(remote, FORMS_TRANSFER, false, "remote list", &remote_blocks, &remote_bytes);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (*blocks != remote_blocks) {
        return fail(NIXL_ERR_INVALID_PARAM, "%zu descriptors on the local side, %zu on the remote side",
                    *blocks, remote_blocks);
    }
    return lists_agree(local, remote);
}

static nixl_status_t create(struct nixl_agent *agent, nixl_xfer_op_t op, const struct nixl_list *local,
                            const struct nixl_list *remote, const char *name,
                            const struct nixl_options *given, struct nixl_xfer **xfer) {
    struct nixl_options options = options_full(given);
    struct recipe recipe = {.op = op, .options = &options};
    struct build build;
    uint32_t tried = 0;
    uint32_t hints;
    size_t blocks;
    nixl_status_t status = create_check(op, local, remote, &options, &blocks, &recipe.total_bytes);

    if (status == NIXL_SUCCESS) {
        status = select_hints(agent, given, &hints);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (name == NULL || name[0] == '\0') {
        return fail(NIXL_ERR_NOT_FOUND, "no peer is named; this agent itself is \"%s\"", agent->name);
    }
    recipe.local_mem = local->mem;
    recipe.remote_mem = remote->mem;
    for (;;) {
        struct nixl_xfer *made = NULL;
        struct peer *peer = NULL;
        uint32_t mask;

        tables_search(agent);
        if (strcmp(name, agent->name) != 0) {
            peer = peer_find(agent, name, strlen(name));
            if (peer == NULL) {
                tables_leave(agent);
                return fail(NIXL_ERR_NOT_FOUND, "peer \"%.64s\" is not known: its metadata is not loaded",
                            name);
            }
        }
        mask = build_reachers(agent, peer) & (hints != 0 ? hints : UINT32_MAX) & ~tried;
        if (mask != 0 || tried == 0) {
            status = create_with(&build, agent, peer, local, remote, blocks, given, mask, &recipe, &made);
        }
        tables_leave(agent);
        if (made == NULL) {
            return status;
        }
        tried |= 1u << made->backend->slot;
        status = build_offer(made);
        if (status == NIXL_SUCCESS) {
            xfer_enlist(made);
            *xfer = made;
            return status;
        }
        if (status != NIXL_ERR_NOT_SUPPORTED) {
            return status;
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
