/* SPDX-License-Identifier: Apache-2.0 */
#include "stats.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

bool samples_reserve(struct samples *samples, size_t count) {
    return array_reserve(&samples->ns, &samples->cap, count, sizeof *samples->ns);
}

bool samples_append(struct samples *to, const uint64_t *ns, size_t count) {
    if (!samples_reserve(to, to->count + count)) {
        return false;
    }
    if (count != 0) {
        memcpy(to->ns + to->count, ns, count * sizeof *ns);
    }
    to->count += count;
    return true;
}

void samples_clear(struct samples *samples) {
    samples->count = 0;
}

void samples_free(struct samples *samples) {
    free(samples->ns);
    memset(samples, 0, sizeof *samples);
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* `per_mille` in thousandths, in whole numbers: 0.99 * 100 is not 99 in binary fractions. */
static double percentile_us(const struct samples *sorted, uint64_t per_mille) {
    uint64_t place = (uint64_t)sorted->count * per_mille / 1000;

    if (place > sorted->count - 1) {
        place = sorted->count - 1;
    }
    return (double)sorted->ns[place] / 1e3;
}

void samples_summarize(struct samples *samples, struct summary *summary) {
    double sum = 0;

    memset(summary, 0, sizeof *summary);
    if (samples->count == 0) {
        return;
    }
    qsort(samples->ns, samples->count, sizeof *samples->ns, by_value);
    for (size_t i = 0; i < samples->count; i++) {
        sum += (double)samples->ns[i];
    }
    summary->count = samples->count;
    summary->avg_us = sum / (double)samples->count / 1e3;
    summary->min_us = (double)samples->ns[0] / 1e3;
    summary->p50_us = percentile_us(samples, 500);
    summary->p90_us = percentile_us(samples, 900);
    summary->p99_us = percentile_us(samples, 990);
    summary->p999_us = percentile_us(samples, 999);
    summary->max_us = (double)samples->ns[samples->count - 1] / 1e3;
}

double bandwidth_gb(uint64_t bytes, uint64_t ns) {
    return ns != 0 ? (double)bytes / (double)ns : 0; /* bytes per ns are GB per s */
}
