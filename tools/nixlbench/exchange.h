/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the processes of a run tell each other in a case, as structs. Descriptor lists travel in the form that the
 * reference has; the rest is between processes of this program on one machine, so plain memory will do.
 */
#ifndef NIXLBENCH_EXCHANGE_H
#define NIXLBENCH_EXCHANGE_H

#include "session.h"

/* An initiator to each of its targets, after a phase. */
struct phase_message {
    uint64_t notifications; /* that it has sent in the phase */
    uint64_t is_exact;      /* 0: interrupted, some may be missing */
};

bool exchange_send_list(struct session *session, unsigned to, const struct nixl_desc *descs, size_t count);
/* malloc'd into *descs. */
bool exchange_recv_list(struct session *session, unsigned from, struct nixl_desc **descs, size_t *count);
/* A struct of fixed size. */
bool exchange_recv_struct(struct session *session, unsigned from, void *data, size_t len);

#endif
