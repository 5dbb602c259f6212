/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From flags to what is run: checks that the flags fit together, makes the adjustments that users of the
 * reference's benchmark know, picks the runtime and lays out the buffers. Pure: no I/O. Everything that it changed is
 * told in a note.
 */
#ifndef NIXLBENCH_PLAN_H
#define NIXLBENCH_PLAN_H

#include "config.h"

#include <nixl/nixl.h>

#define LARGE_BLOCK (UINT64_C(1) << 20) /* blocks above it get fewer iterations */
#define HUGEPAGE_SIZE (UINT64_C(2) << 20)
#define LOCAL_MAX_PROCESSES 16
#define ETCD_MAX_PROCESSES 1024

enum bench_runtime {
    RUNTIME_LOCAL, /* starts its peers itself */
    RUNTIME_ASIO,  /* two processes that meet at an address */
    RUNTIME_ETCD,  /* several that meet by a name in etcd */
    RUNTIME_ALONE  /* storage: no peer */
};

enum bench_role {
    ROLE_INITIATOR = 0,
    ROLE_TARGET = 1
};

enum random_mode {
    RANDOM_NONE,
    RANDOM_BLOCKS,
    RANDOM_BYTES
};

/* One row of the table. */
struct bench_case {
    nixl_xfer_op_t op;
    uint64_t block, batch;
    uint64_t warmup, iterations; /* in each thread */
    unsigned depth;              /* requests in flight: no more than iterations */
};

/* One pair of devices within one thread's part: where its blocks begin in the two devices' buffers. */
struct bench_pair {
    unsigned initiator_dev, target_dev;
    uint64_t initiator_offset, target_offset;
};

struct bench_plan {
    const struct bench_config *config;
    enum bench_runtime runtime;
    bool is_storage;
    bool is_multi;       /* mode MG: two processes with all devices */
    unsigned processes;  /* of the whole run */
    unsigned devices[2]; /* by role */
    unsigned slices[2]; /* pieces of a device's buffer, one for each device of the other side it works with */
    unsigned threads, depth;
    uint64_t iterations, warmup; /* adjusted, over all threads */
    bool recreate;
    enum random_mode random;
    uint64_t buffer_size; /* of a process, over its devices: total_buffer_size, or what is needed */
    uint64_t needed_size; /* what the largest case uses of it */
    struct bench_case *cases;
    size_t case_count;
    char **notes; /* lines for people */
    size_t note_count;
};

/*
 * False with words in `error`. `memory_bytes` is what this machine has to spare (0: not known).
 * `options` must outlive the plan.
 */
bool plan_make(const struct bench_options *options, uint64_t memory_bytes, struct bench_plan *plan,
               char *error, size_t error_size);
void plan_free(struct bench_plan *plan);

bool plan_is_storage(const char *backend);
const char *plan_runtime_name(enum bench_runtime runtime);

/* The pairs of devices, the initiators ascending and within them the targets. */
size_t plan_pair_count(const struct bench_plan *plan);
struct bench_pair plan_pair(const struct bench_plan *plan, unsigned thread, size_t index);

/* Bytes of one device's buffer. */
uint64_t plan_device_bytes(const struct bench_plan *plan, enum bench_role role);

/* Which process has a device, and what a process is. */
unsigned plan_device_process(const struct bench_plan *plan, enum bench_role role, unsigned device);
enum bench_role plan_process_role(const struct bench_plan *plan, unsigned process);

#endif
