/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of single operations and what they come to. Every sample is kept: percentiles are those of all samples,
 * not of a sketch. One owner at a time; threads keep a set each and merge at the end.
 */
#ifndef NIXLBENCH_STATS_H
#define NIXLBENCH_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct samples {
    uint64_t *ns;
    size_t count, cap;
};

/* Room for `count` samples in all, so that adding them takes no memory while time is measured. */
bool samples_reserve(struct samples *samples, size_t count);

/* Adds one. False without memory. */
static inline bool samples_add(struct samples *samples, uint64_t ns) {
    if (__builtin_expect(samples->count == samples->cap, 0) &&
        !samples_reserve(samples, samples->count + 1)) {
        return false;
    }
    samples->ns[samples->count++] = ns;
    return true;
}

bool samples_append(struct samples *to, const uint64_t *ns, size_t count);
void samples_clear(struct samples *samples);
void samples_free(struct samples *samples);

struct summary {
    size_t count;
    double avg_us, min_us, p50_us, p90_us, p99_us, p999_us, max_us; /* 0 when there are no samples */
};

/* Sorts the samples. The q-th percentile of n samples is the one at place min(n * q, n - 1) of the sorted ones. */
void samples_summarize(struct samples *samples, struct summary *summary);

/* GB/s of 10^9 bytes; 0 when no time has passed. */
double bandwidth_gb(uint64_t bytes, uint64_t ns);

#endif
