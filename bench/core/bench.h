/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-core measures what single calls of the library cost, with a backend that moves nothing. A row is one
 * call or a pair of calls in one sync mode; rows.c holds them, main.c runs, prints and writes them.
 */
#ifndef BENCH_CORE_H
#define BENCH_CORE_H

#include <nixl/nixl.h>

#include <stdbool.h>
#include <stdint.h>

#define MODES 3 /* enum nixl_sync: none, strict, rw */

/* What a row works on, made once a mode. */
struct setting;

struct row {
    const char *name;
    const char *unit;        /* "ns", "ns/desc", "us", ... of what `sample` returns */
    double reference[MODES]; /* NIXL 1.4.0 in the same unit on a machine of the same kind; 0: not measured */
    /* One sample; below 0: failed, nixl_error() says how. */
    double (*sample)(struct setting *setting);
    const char *what; /* one line for documentation */
};

extern const struct row rows[];
extern const size_t row_count;

/* NULL: failed, nixl_error() says how. */
struct setting *setting_make(enum nixl_sync sync);
void setting_free(struct setting *setting);

static inline uint64_t bench_now_ns(void);

#include <time.h>

static inline uint64_t bench_now_ns(void) {
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
