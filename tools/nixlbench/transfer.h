/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measured loop. A lane is one thread's work in one case: `depth` slots, each a set of requests (one a peer) that
 * are posted together, again and again. Times are kept per iteration: prep (making the requests, when they are made),
 * post (inside the post calls) and tx (from the return of post until all are done).
 */
#ifndef NIXLBENCH_TRANSFER_H
#define NIXLBENCH_TRANSFER_H

#include "stats.h"

#include "base/thread.h"

#include <nixl/nixl.h>

/* The requests of one lane with one peer: local[i] with remote[i]; slot s has the s-th piece of them. */
struct lane_part {
    struct nixl_desc *local, *remote;
    size_t count; /* a multiple of the depth */
    nixl_mem_t remote_mem;
    const char *peer; /* the agent's own name: storage */
};

struct lane_slot {
    struct nixl_xfer **xfers; /* one a part, NULL when not made */
    struct nixl_dlist **local_lists, **remote_lists;
    unsigned pending;   /* requests not done yet */
    uint64_t posted_ns; /* when post returned */
    bool in_flight, is_registered;
};

struct lane {
    /* Set by the owner. */
    struct nixl_agent *agent;
    struct nixl_backend *backend;
    nixl_xfer_op_t op;
    unsigned depth;
    struct lane_part *parts;
    size_t part_count;
    bool recreate, reregister, prepared;
    bool yields; /* more threads spin than there are processors: let the others run between two looks */
    bool notify; /* each request tells its target when it is done */
    uint64_t iterations;
    uint64_t *progress; /* counts iterations done; shared by all lanes */
    uint32_t *go;       /* lanes_run(): begin together, end together */
    /* Written by the run. */
    struct samples prep, post, tx;
    uint64_t done, start_ns, end_ns;
    bool is_measured;  /* keep samples */
    bool is_cut_short; /* interrupted before all iterations were done */
    char transport[128];
    char error[768]; /* "" when all went well */
    struct lane_slot *slots;
    struct thread thread;
};

/* What each request says to its target when it is done. */
#define LANE_NOTIFICATION "0xBEEF"

/* Room for slots and samples. False without memory. */
bool lane_prepare(struct lane *lane);
/* Runs all lanes, each but a single one in a thread of its own. False when one has an error. */
bool lanes_run(struct lane *lanes, size_t count, uint64_t iterations, bool is_measured);
void lane_free(struct lane *lane);

#endif
