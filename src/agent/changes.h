/* SPDX-License-Identifier: Apache-2.0 */
/* The log of changes as update blobs are made of it (metadata.c). */
#ifndef AGENT_CHANGES_H
#define AGENT_CHANGES_H

#include "agent/internal.h"

struct change {
    uint64_t generation; /* the one that began with it */
    struct nixl_desc desc;
    uint32_t backends; /* those that reach others */
    uint8_t mem;
    bool was_removal;
};

/* Copies the changes that came after generation `since` to `out` (NULL: only counts), oldest first. `since`
 * must not be below changes.oldest. Tables held. */
size_t changes_since(const struct nixl_agent *agent, uint64_t since, struct change *out);

#endif
