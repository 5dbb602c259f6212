/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What making requests has in common: build.c writes one, make.c feeds it from prepared lists and indices,
 * create.c from two lists.
 */
#ifndef AGENT_BUILD_H
#define AGENT_BUILD_H

#include "internal.h"

#define BUILD_FEW_RUNS 32 /* requests up to here take exactly what they need */

/*
 * A request being made. Runs are collected on the stack first; when they become many, in the block of the
 * final request. Behind the head stand the backend's state, the custom bytes, the runs, the regions held.
 */
struct build {
    struct nixl_agent *agent;
    struct nixl_backend *backend;
    struct peer *peer; /* NULL: the remote side is this agent's */
    size_t blocks;     /* how many there can be at most */

    void *block;            /* heap block of the request; NULL while the runs fit on the stack */
    struct nixl_xfer *xfer; /* in it */
    struct nixl_run *runs;
    struct region_id *local_regions;  /* loopback: of both sides */
    struct region_id *remote_regions; /* a peer's */
    size_t run_count, run_cap, local_count, remote_count;
    uint64_t block_count;

    /* What the next block must match to share the last run. */
    struct region *local_region, *remote_region;
    void *local_key, *remote_key;
    uint64_t next_local, next_remote;
    bool can_extend;

    size_t custom_len;
    struct nixl_run few_runs[BUILD_FEW_RUNS];
    struct region_id few_local[2 * BUILD_FEW_RUNS];
    struct region_id few_remote[BUILD_FEW_RUNS];
};

/* A pair of blocks, or what several pairs became. */
struct pair {
    uint64_t local, remote, len;
    struct region *local_region, *remote_region;
    uint32_t index; /* of the first */
    uint32_t count; /* pairs merged */
};

/* What a request is apart from its runs. */
struct recipe {
    nixl_xfer_op_t op;
    nixl_mem_t local_mem, remote_mem;
    const struct nixl_options *options; /* full */
    uint64_t total_bytes;
};

/* Begins with one backend, for at most `blocks` blocks. Tables held until build_finish or build_drop. */
void build_begin(struct build *build, struct nixl_agent *agent, struct nixl_backend *backend,
                 struct peer *peer, size_t blocks, size_t custom_len);
/* Gives back what the build holds. */
void build_drop(struct build *build);
/* Room for more runs; false without memory. */
bool build_grow(struct build *build);
/* Remembers the regions of the last run and their keys. */
void build_use_local(struct build *build, struct region *region);
void build_use_remote(struct build *build, struct region *region);
/* Writes the request's head: its runs are complete. NULL without memory: then build_drop(). */
struct nixl_xfer *build_finish(struct build *build, const struct recipe *recipe);

/* Options that cannot be right, whatever the backend. */
nixl_status_t build_check_options(nixl_xfer_op_t op, const struct nixl_options *options);
/* Whether that backend can carry the notification asked for. */
nixl_status_t build_check_notif(const struct nixl_backend *backend, const struct nixl_options *options);
/* Backends that reach the remote side at all. Tables held. */
uint32_t build_reachers(struct nixl_agent *agent, const struct peer *peer);
/* Lets the backend prepare the request, and frees it when it will not. No lock held. */
nixl_status_t build_offer(struct nixl_xfer *xfer);

/*
 * Adds a pair. Single pairs of one length whose addresses do not go backwards share a run when the steps
 * agree: block i of a run stays descriptor first_index + i.
 */
static inline bool build_pair(struct build *build, const struct pair *pair) {
    struct nixl_run *run;

    build->block_count++;
    if (build->can_extend && pair->count == 1 && pair->local_region == build->local_region &&
        pair->remote_region == build->remote_region) {
        run = &build->runs[build->run_count - 1];
        if (pair->len == run->len) {
            if (run->count == 1) {
                if (pair->local >= run->local && pair->remote >= run->remote) {
                    run->local_stride = pair->local - run->local;
                    run->remote_stride = pair->remote - run->remote;
                    run->count = 2;
                    build->next_local = pair->local + run->local_stride;
                    build->next_remote = pair->remote + run->remote_stride;
                    return true;
                }
            } else if (pair->local == build->next_local && pair->remote == build->next_remote &&
                       pair->local >= run->local && pair->remote >= run->remote) {
                run->count++;
                build->next_local += run->local_stride;
                build->next_remote += run->remote_stride;
                return true;
            }
        }
    }
    if (build->run_count == build->run_cap && !build_grow(build)) {
        return false;
    }
    if (pair->local_region != build->local_region) {
        build_use_local(build, pair->local_region);
    }
    if (pair->remote_region != build->remote_region) {
        build_use_remote(build, pair->remote_region);
    }
    run = &build->runs[build->run_count++];
    run->local = pair->local;
    run->remote = pair->remote;
    run->len = pair->len;
    run->local_stride = 0;
    run->remote_stride = 0;
    run->local_key = build->local_key;
    run->remote_key = build->remote_key;
    run->count = 1;
    run->first_index = pair->index;
    build->can_extend = pair->count == 1;
    return true;
}

#endif
