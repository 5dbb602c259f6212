/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files about requests share: xfer.c (post to release), ending.c (completion, cancel, deadlines),
 * report.c (what is known of one).
 */
#ifndef AGENT_XFER_H
#define AGENT_XFER_H

#include "internal.h"

static inline int32_t xfer_state(const struct nixl_xfer *xfer) {
#ifdef BREAK_11
    return xfer->state;
#endif
    return __atomic_load_n(&xfer->state, __ATOMIC_ACQUIRE);
}

static inline bool xfer_is_active(int32_t state) {
    return state > 0;
}

/* The state as the outside sees it. */
static inline nixl_status_t xfer_status_of(int32_t state) {
    return xfer_is_active(state) ? NIXL_IN_PROG : (nixl_status_t)state;
}

static inline bool xfer_is_inherited(const struct nixl_agent *agent) {
    return __builtin_expect(agent->fork_generation != fork_generation(), 0);
}

/* Refusals in words. */
nixl_status_t xfer_fail_inherited(const char *call, const struct nixl_agent *agent);
nixl_status_t xfer_fail_orphan(const char *call);

/* A post failed: this thread's error text becomes the request's. */
void xfer_failure_of_post(struct nixl_xfer *xfer, nixl_status_t status);
/* Whether posts send the stored notification. */
void xfer_notif_set(struct nixl_xfer *xfer, bool sends);
/* Delivers the notification of a request to this agent itself. */
void xfer_notify_self(struct nixl_xfer *xfer);
/*
 * Tells the backend to end the run that is in flight, with words for why. Asked again with more force it
 * passes that on; the first words stay. The request must not go away meanwhile.
 */
void xfer_cancel_with(struct nixl_xfer *xfer, enum nixl_cancel how, nixl_status_t status, const char *words);
/* Looks at one request's deadlines and cancels it when one has passed. Returns when to look again. It must
 * not go away meanwhile. */
uint64_t xfer_deadline_look(struct nixl_xfer *xfer, uint64_t now_ns);

#endif
