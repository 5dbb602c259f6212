/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forgetting a peer, and asking whether enough of one is known. Both only look at tables; what has to be
 * taken down is taken down by those who hold it last.
 */
#include "agent/agent.h"
#include "agent/internal.h"

#include <string.h>

#define FORMS_CHECK ((1u << NIXL_FORM_PLAIN) | (1u << NIXL_FORM_STRIDED) | (1u << NIXL_FORM_META))

static nixl_status_t forget(struct nixl_agent *agent, const char *name) {
    struct peer *peer;

    if (strcmp(name, agent->name) == 0) {
        return fail(NIXL_ERR_INVALID_PARAM, "invalidate metadata: %s is this agent itself", name);
    }
    lock_take(&agent->loading);
    tables_change(agent);
    peer = peer_find(agent, name, strlen(name));
    if (peer != NULL) {
        peer_retire(peer);
    }
    tables_leave(agent);
    lock_drop(&agent->loading);
    if (peer == NULL) {
        return fail(NIXL_ERR_NOT_FOUND, "invalidate metadata: peer %s is not loaded", name);
    }
    xfer_fail_peer(agent, peer, "peer removed");
    peer_leave(peer);
    return NIXL_SUCCESS;
}

nixl_status_t nixl_metadata_invalidate(struct nixl_agent *agent, const char *peer) {
    nixl_status_t status = agent_enter(agent, "invalidate metadata");

    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = peer != NULL && peer[0] != '\0'
                 ? forget(agent, peer)
                 : fail(NIXL_ERR_INVALID_PARAM, "invalidate metadata: no peer is named");
    agent_leave(agent);
    return status;
}

/* Whether one backend's regions hold all blocks; *index is the first block that they do not. */
static bool covered_by(const struct region_set *set, const struct nixl_list *list, unsigned slot,
                       size_t *index, struct nixl_desc *missing) {
    struct region_hint hint = {0};
    struct list_reader reader;

    list_begin(&reader, list);
    for (*index = 0; list_next(&reader, missing); (*index)++) {
        if (region_set_cover(set, list->mem, missing, 1u << slot, &hint) == NULL) {
            return false;
        }
    }
    return true;
}

/* The tables are held. `mask`: the backends by which the owner is reached. */
static nixl_status_t cover_check(const struct region_set *set, const struct nixl_list *list, uint32_t mask,
                                 const char *owner) {
    struct nixl_desc missing = {0};
    size_t index = 0;

    for (; mask != 0; mask &= mask - 1) {
        if (covered_by(set, list, (unsigned)__builtin_ctz(mask), &index, &missing)) {
            return NIXL_SUCCESS;
        }
    }
    return region_set_explain(set, list->mem, &missing, index, owner);
}

/* What the carrier of metadata says of its last attempt, where there is one. */
static void add_last_error(struct nixl_agent *agent, const char *name) {
    const struct agent_exchange *carrier = agent_exchange_get();
    char words[512] = "";

    if (carrier != NULL && agent->exchange != NULL && carrier->last_error != NULL) {
        carrier->last_error(agent->exchange, name, words, sizeof words);
    }
    if (words[0] != '\0') {
        error_append("; the last attempt to get its metadata failed: %s", words);
    }
}

static nixl_status_t check(struct nixl_agent *agent, const char *name, const struct nixl_list *list) {
    bool is_self = strcmp(name, agent->name) == 0;
    nixl_status_t status = NIXL_SUCCESS;
    struct peer *peer;
    size_t blocks = 0;

    if (list != NULL) {
        status = list_check(list, FORMS_CHECK, true, "list", &blocks, NULL);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    tables_search(agent);
    peer = is_self ? NULL : peer_find(agent, name, strlen(name));
    if (peer == NULL && !is_self) {
        status = fail(NIXL_ERR_NOT_FOUND, "peer %s is not loaded", name);
    } else if (blocks != 0 && is_self) {
        status = cover_check(&agent->regions, list, backend_mask(agent, NIXL_CAP_LOCAL), name);
    } else if (blocks != 0) {
        status = cover_check(&peer->regions, list, peer->backends, name);
    }
    tables_leave(agent);
    if (status != NIXL_SUCCESS) {
        add_last_error(agent, name);
    }
    return status;
}

nixl_status_t nixl_metadata_check(struct nixl_agent *agent, const char *peer, const struct nixl_list *list) {
    nixl_status_t status = agent_enter(agent, "check metadata");

    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = peer != NULL && peer[0] != '\0' ? check(agent, peer, list)
                                             : fail(NIXL_ERR_INVALID_PARAM, "no peer is named");
    agent_leave(agent);
    if (status != NIXL_SUCCESS) {
        error_prefix("check metadata");
    }
    return status;
}
