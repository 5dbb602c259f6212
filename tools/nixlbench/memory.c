/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"
#include "pattern.h"

#include "base/array.h"
#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

bool memory_open(struct bench_memory *memory, const struct bench_plan *plan, unsigned process, char *error,
                 size_t size) {
    /* Huge pages are reserved, so that a lack of them shows here and not as a signal at the first touch. */
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (plan->config->use_hugepages ? MAP_HUGETLB : MAP_NORESERVE);

    memset(memory, 0, sizeof *memory);
    memory->plan = plan;
    memory->process = process;
    memory->role = plan_process_role(plan, process);
    memory->device_bytes = (size_t)plan_device_bytes(plan, memory->role);
    memory->device_count = 0;
    for (unsigned d = 0; d < plan->devices[memory->role]; d++) {
        if (plan_device_process(plan, memory->role, d) == process) {
            if (memory->device_count++ == 0) {
                memory->first_device = d;
            }
        }
    }
    memory->buffers = calloc(memory->device_count, sizeof *memory->buffers);
    if (memory->buffers == NULL) {
        snprintf(error, size, "out of memory");
        return false;
    }
    for (unsigned d = 0; d < memory->device_count; d++) {
        void *at = mmap(NULL, memory->device_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);

        if (at == MAP_FAILED) {
            snprintf(error, size, "a buffer of %zu bytes%s: %s%s", memory->device_bytes,
                     plan->config->use_hugepages ? " of huge pages" : "", strerror(errno),
                     plan->config->use_hugepages ? " (/proc/sys/vm/nr_hugepages says how many there may be)"
                                                 : "");
            return false;
        }
        memory->buffers[d] = at;
    }
    return true;
}

void memory_close(struct bench_memory *memory) {
    for (unsigned d = 0; memory->buffers != NULL && d < memory->device_count; d++) {
        if (memory->buffers[d] != NULL) {
            munmap(memory->buffers[d], memory->device_bytes);
        }
    }
    free(memory->buffers);
    memory->buffers = NULL;
}

static uint64_t blocks_of(const struct bench_case *row) {
    return row->batch * row->depth;
}

/* Where a pair's blocks begin in this process; NULL when the pair's device is another process's. */
static uint8_t *pair_start(const struct bench_memory *memory, const struct bench_pair *pair) {
    bool initiates = memory->role == ROLE_INITIATOR;
    unsigned device = initiates ? pair->initiator_dev : pair->target_dev;
    uint64_t offset = initiates ? pair->initiator_offset : pair->target_offset;

    if (device < memory->first_device || device - memory->first_device >= memory->device_count) {
        return NULL;
    }
    return memory->buffers[device - memory->first_device] + offset;
}

struct nixl_desc *memory_list(const struct bench_memory *memory, const struct bench_case *row,
                              unsigned thread, unsigned other, size_t *count) {
    const struct bench_plan *plan = memory->plan;
    uint64_t blocks = blocks_of(row);
    size_t pairs = plan_pair_count(plan);
    struct nixl_desc *list = array_alloc(pairs * blocks, sizeof *list);

    *count = 0;
    if (list == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < pairs; i++) {
        struct bench_pair pair = plan_pair(plan, thread, i);
        uint8_t *start = pair_start(memory, &pair);
        unsigned far = memory->role == ROLE_INITIATOR
                           ? plan_device_process(plan, ROLE_TARGET, pair.target_dev)
                           : plan_device_process(plan, ROLE_INITIATOR, pair.initiator_dev);

        if (start == NULL || far != other) {
            continue;
        }
        for (uint64_t j = 0; j < blocks; j++) {
            list[(*count)++] =
                (struct nixl_desc){(uint64_t)(uintptr_t)(start + j * row->block), row->block, 0};
        }
    }
    return list;
}

uint64_t memory_position(const struct bench_plan *plan, const struct bench_case *row, unsigned thread,
                         size_t pair) {
    return (thread * plan_pair_count(plan) + pair) * blocks_of(row) * row->block;
}

void memory_fill(const struct bench_memory *memory, const struct bench_case *row, uint64_t seed) {
    const struct bench_plan *plan = memory->plan;
    uint8_t base = memory->role == ROLE_INITIATOR ? PATTERN_INITIATOR : PATTERN_TARGET;

    for (unsigned t = 0; t < plan->threads; t++) {
        for (size_t i = 0; i < plan_pair_count(plan); i++) {
            struct bench_pair pair = plan_pair(plan, t, i);
            uint8_t *start = pair_start(memory, &pair);

            if (start != NULL) {
                pattern_fill(start, (size_t)(blocks_of(row) * row->block), memory_position(plan, row, t, i),
                             seed, base);
            }
        }
    }
}

bool memory_check(const struct bench_memory *memory, const struct bench_case *row, uint64_t seed, char *error,
                  size_t size) {
    const struct bench_plan *plan = memory->plan;
    uint8_t base = memory->role == ROLE_INITIATOR ? PATTERN_TARGET : PATTERN_INITIATOR;
    size_t len = (size_t)(blocks_of(row) * row->block);

    for (unsigned t = 0; t < plan->threads; t++) {
        for (size_t i = 0; i < plan_pair_count(plan); i++) {
            struct bench_pair pair = plan_pair(plan, t, i);
            const uint8_t *start = pair_start(memory, &pair);
            uint64_t position = memory_position(plan, row, t, i);
            size_t wrong = start != NULL ? pattern_check(start, len, position, seed, base) : len;

            if (wrong < len) {
                snprintf(error, size,
                         "consistency check failed: %s of %" PRIu64 " bytes, batch %" PRIu64
                         ": block %" PRIu64 " of thread %u, byte %" PRIu64 " is 0x%02x, must be 0x%02x",
                         nixl_op_string(row->op), row->block, row->batch, (uint64_t)wrong / row->block, t,
                         (uint64_t)wrong % row->block, start[wrong],
                         pattern_byte(position + wrong, seed, base));
                return false;
            }
        }
    }
    return true;
}

uint64_t memory_available(void) {
    char *text;
    size_t len;
    unsigned long long kib = 0;
    const char *at;

    if (file_read("/proc/meminfo", 65536, &text, &len) != 0) {
        return 0;
    }
    at = strstr(text, "MemAvailable:");
    if (at != NULL && sscanf(at, "MemAvailable: %llu kB", &kib) != 1) {
        kib = 0;
    }
    free(text);
    return (uint64_t)kib * 1024;
}
