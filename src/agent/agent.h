/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What src/agent offers its neighbours in libnixl beside nixl.h: the place for src/exchange to hang on. An exchange
 * uses nixl_metadata_get(), nixl_metadata_load(), nixl_metadata_invalidate() and nixl_agent_name(), and nothing else of an
 * agent.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <nixl/nixl.h>

/* The carriers of metadata between machines. Set once by src/exchange before the first agent is made; without them the exchange calls
 * answer NOT_SUPPORTED. `state` is what open gave. All may be called from any thread; close joins what open started. */
struct agent_exchange {
    nixl_status_t (*open)(struct nixl_agent *agent, const struct nixl_agent_config *config, void **state);
    void (*close)(void *state);
    uint16_t (*listen_port)(void *state);
    nixl_status_t (*send)(void *state, const void *blob, size_t len, bool is_partial,
                          const struct nixl_options *options);
    nixl_status_t (*fetch)(void *state, const char *peer, const struct nixl_options *options);
    nixl_status_t (*invalidate)(void *state, const struct nixl_options *options);
    /* The last failure to get that peer's metadata, "" for none. */
    void (*last_error)(void *state, const char *peer, char *text, size_t size);
};

void agent_exchange_set(const struct agent_exchange *carrier);

#endif
