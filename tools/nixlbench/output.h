/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where results go: a table or CSV rows on standard output as they come, or one JSON document at the end; and a
 * page with plots beside any of them. One writer, one thread.
 */
#ifndef NIXLBENCH_OUTPUT_H
#define NIXLBENCH_OUTPUT_H

#include "plan.h"
#include "stats.h"

struct bench_result {
    struct bench_case row;
    uint64_t requests; /* done, over all threads and initiators */
    uint64_t bytes;    /* moved by them */
    uint64_t wall_ns;  /* from the first start to the last end, over all initiators */
    double bandwidth;  /* GB/s: bytes over wall time; with several initiators that of the first one */
    double aggregate;  /* GB/s of all together */
    double latency_us; /* wall time of a thread over its iterations and blocks */
    struct summary prep, post, tx;
    char transport[128];
    bool is_checked; /* every byte compared, and right */
    bool is_partial; /* interrupted: fewer requests than asked */
};

/* What the run found out before the first row. */
struct bench_facts {
    char backend_description[512];
    char transport[128]; /* "" when not known */
};

struct output;

struct output *output_open(const struct bench_plan *plan, const struct bench_options *options);
/* Header: configuration and facts. */
void output_begin(struct output *output, const struct bench_facts *facts);
/* One row. False without memory. */
bool output_row(struct output *output, const struct bench_result *result);
/* The end: `error` NULL when all went well. False when a file could not be written (said on standard error). */
bool output_end(struct output *output, bool interrupted, const char *error);
void output_close(struct output *output);

/* The parts, each with a file of its own. */
void text_begin(const struct bench_plan *plan, const struct bench_options *options,
                const struct bench_facts *facts);
void text_columns(const struct bench_plan *plan, nixl_xfer_op_t op);
void text_row(const struct bench_plan *plan, const struct bench_result *result);
void csv_begin(void);
void csv_row(const struct bench_result *result);
bool json_write(const struct bench_plan *plan, const struct bench_options *options,
                const struct bench_facts *facts, const struct bench_result *results, size_t count,
                bool interrupted, const char *error);
/* 0 or an errno value. */
int report_write(const char *path, const struct bench_plan *plan, const struct bench_options *options,
                 const struct bench_facts *facts, const struct bench_result *results, size_t count);

#endif
