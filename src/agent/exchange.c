/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls by which metadata travels by itself: they make the blob and hand it to the carrier that
 * src/exchange registered (agent.h). Without one they say so. No lock is held while a carrier works, so that
 * it may load what it receives.
 */
#include "agent/agent.h"
#include "agent/internal.h"

#include <stdlib.h>

/* The carrier of an agent, or NOT_SUPPORTED in words. */
static nixl_status_t carrier_find(struct nixl_agent *agent, const struct agent_exchange **carrier) {
    *carrier = agent_exchange_get();
    if (*carrier == NULL || agent->exchange == NULL) {
        return fail(
            NIXL_ERR_NOT_SUPPORTED,
            "this build has no carrier for metadata: take the blob with nixl_metadata_get(), carry it by "
            "other means and load it with nixl_metadata_load()");
    }
    return NIXL_SUCCESS;
}

/* The edge is passed and left at once: a carrier may wait for long. */
static nixl_status_t carrier_enter(struct nixl_agent *agent, const char *call,
                                   const struct agent_exchange **carrier) {
    nixl_status_t status = agent_enter(agent, call);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    agent_leave(agent);
    status = carrier_find(agent, carrier);
    if (status != NIXL_SUCCESS) {
        error_prefix("%s", call);
    }
    return status;
}

static nixl_status_t told(nixl_status_t status, const char *call) {
    if (status < 0) {
        error_prefix("%s", call);
    }
    return status;
}

nixl_status_t nixl_metadata_send(struct nixl_agent *agent, const struct nixl_options *options) {
    struct nixl_options full = options_full(options);
    const struct agent_exchange *carrier;
    void *blob;
    size_t len;
    nixl_status_t status = carrier_enter(agent, "send metadata", &carrier);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = nixl_metadata_get(agent, &blob, &len);
    if (status == NIXL_SUCCESS) {
        status = carrier->send(agent->exchange, blob, len, false, &full);
        free(blob);
    }
    return told(status, "send metadata");
}

nixl_status_t nixl_metadata_send_partial(struct nixl_agent *agent, const struct nixl_list *list,
                                         const struct nixl_options *options) {
    struct nixl_options full = options_full(options);
    const struct agent_exchange *carrier;
    void *blob;
    size_t len;
    nixl_status_t status = carrier_enter(agent, "send partial metadata", &carrier);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = nixl_metadata_get_partial(agent, list, options, &blob, &len);
    if (status == NIXL_SUCCESS) {
        status = carrier->send(agent->exchange, blob, len, true, &full);
        free(blob);
    }
    return told(status, "send partial metadata");
}

nixl_status_t nixl_metadata_fetch(struct nixl_agent *agent, const char *peer,
                                  const struct nixl_options *options) {
    struct nixl_options full = options_full(options);
    const struct agent_exchange *carrier;
    nixl_status_t status = carrier_enter(agent, "fetch metadata", &carrier);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (peer == NULL || peer[0] == '\0') {
        return fail(NIXL_ERR_INVALID_PARAM, "fetch metadata: no peer is named");
    }
    return told(carrier->fetch(agent->exchange, peer, &full), "fetch metadata");
}

nixl_status_t nixl_metadata_invalidate_local(struct nixl_agent *agent, const struct nixl_options *options) {
    struct nixl_options full = options_full(options);
    const struct agent_exchange *carrier;
    nixl_status_t status = carrier_enter(agent, "invalidate local metadata", &carrier);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    return told(carrier->invalidate(agent->exchange, &full), "invalidate local metadata");
}
