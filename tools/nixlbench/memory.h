/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffers of one process, one a device of its role, and what they hold in a case: filling before, comparing after.
 */
#ifndef NIXLBENCH_MEMORY_H
#define NIXLBENCH_MEMORY_H

#include "plan.h"

struct bench_memory {
    const struct bench_plan *plan;
    enum bench_role role;
    unsigned process;
    unsigned first_device, device_count; /* of this process */
    uint8_t **buffers;                   /* device_count of them */
    size_t device_bytes;
};

/* False with words in `error`. */
bool memory_open(struct bench_memory *memory, const struct bench_plan *plan, unsigned process, char *error,
                 size_t size);
void memory_close(struct bench_memory *memory);

/* The blocks of a case that this process shares with `other`, in the order that both sides agree on. malloc'd; NULL
 * without memory. *count 0: they have nothing in common (and the result is not NULL). */
struct nixl_desc *memory_list(const struct bench_memory *memory, const struct bench_case *row,
                              unsigned thread, unsigned other, size_t *count);

/* The place of a pair's first block in the pattern, the same on both sides. */
uint64_t memory_position(const struct bench_plan *plan, const struct bench_case *row, unsigned thread,
                         size_t pair);

/* Fills the blocks of a case. Seed 0: with the role's constant. */
void memory_fill(const struct bench_memory *memory, const struct bench_case *row, uint64_t seed);
/* Compares them with what the other role's memory_fill() wrote. False with words in `error`. */
bool memory_check(const struct bench_memory *memory, const struct bench_case *row, uint64_t seed, char *error,
                  size_t size);

/* What this machine could give to buffers now, in bytes; 0 when not known. */
uint64_t memory_available(void);

#endif
