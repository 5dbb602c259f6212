/* SPDX-License-Identifier: Apache-2.0 */
/* The table for people, its columns those of the reference's, and CSV with every figure. */
#include "output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE_WIDTH 160
#define MAX_BANDWIDTH_GB 50.0 /* a network of 400 Gbit/s, which "Network Util" is a share of */

static void line_of(char c) {
    for (int i = 0; i < LINE_WIDTH; i++) {
        putchar(c);
    }
    putchar('\n');
}

static void setting(const char *what, const char *value) {
    printf("%-60s: %s\n", what, value);
}

/* Aggregate and utilization make sense where there are several pairs. */
static bool has_aggregate(const struct bench_plan *plan) {
    return plan->processes > 2;
}

void text_begin(const struct bench_plan *plan, const struct bench_options *options,
                const struct bench_facts *facts) {
    char number[64];
    char words[160];

    for (size_t i = 0; i < plan->note_count; i++) {
        printf("%s\n", plan->notes[i]);
    }
    line_of('*');
    printf("NIXLBench Configuration\n");
    line_of('*');
    setting("NIXL version", nixl_version());
    if (plan->runtime == RUNTIME_LOCAL) {
        snprintf(number, sizeof number, "LOCAL (%u processes on this machine)", plan->processes);
    } else if (plan->runtime == RUNTIME_ASIO) {
        snprintf(number, sizeof number, "ASIO (%s port %u)", options->config.asio_address,
                 options->config.asio_port);
    } else if (plan->runtime == RUNTIME_ETCD) {
        snprintf(number, sizeof number, "ETCD (%u processes, group %.20s)", plan->processes,
                 options->config.benchmark_group);
    } else {
        snprintf(number, sizeof number, "none (storage: one process)");
    }
    setting("Runtime (--runtime_type)", number);
    for (size_t i = 0; i < BENCH_REFERENCE_FLAGS; i++) {
        const struct flag *flag = &bench_flags[i];
        const char *value = flag_show(&options->config, flag, number, sizeof number);

        if (flag->backend != NULL && strcmp(flag->backend, options->config.backend) != 0 &&
            !(strcmp(flag->backend, "storage") == 0 && plan->is_storage)) {
            continue;
        }
        if (strcmp(flag->name, "runtime_type") == 0 || strcmp(flag->name, "etcd_endpoints") == 0 ||
            strncmp(flag->name, "asio", 4) == 0) {
            continue;
        }
        if (strcmp(flag->name, "total_buffer_size") == 0) {
            snprintf(number, sizeof number, "%" PRIu64, plan->buffer_size);
            value = number;
        } else if (strcmp(flag->name, "num_iter") == 0) {
            snprintf(number, sizeof number, "%" PRIu64, plan->iterations);
            value = number;
        } else if (strcmp(flag->name, "warmup_iter") == 0) {
            snprintf(number, sizeof number, "%" PRIu64, plan->warmup);
            value = number;
        } else if (strcmp(flag->name, "recreate_xfer") == 0) {
            value = plan->recreate ? "1" : "0";
        }
        snprintf(words, sizeof words, "%s (--%s)", flag->name, flag->name);
        setting(words, value);
    }
    setting("Backend says", facts->backend_description);
    if (facts->transport[0] != '\0') {
        setting("Transport", facts->transport);
    }
    line_of('-');
    printf("\n");
}

void text_columns(const struct bench_plan *plan, nixl_xfer_op_t op) {
    if (strcmp(plan->config->op_type, "both") == 0) {
        printf("%s\n", nixl_op_string(op));
    }
    printf("%-20s%-15s%-15s", "Block Size (B)", "Batch Size", "B/W (GB/Sec)");
    if (has_aggregate(plan)) {
        printf("%-25s%-20s", "Aggregate B/W (GB/Sec)", "Network Util (%)");
    }
    printf("%-15s%-15s%-15s%-15s%-15s%-15s%-15s\n", "Avg Lat. (us)", "Avg Prep (us)", "P99 Prep (us)",
           "Avg Post (us)", "P99 Post (us)", "Avg Tx (us)", "P99 Tx (us)");
    line_of('-');
}

void text_row(const struct bench_plan *plan, const struct bench_result *r) {
    printf("%-20" PRIu64 "%-15" PRIu64 "%-15.6f", r->row.block, r->row.batch, r->bandwidth);
    if (has_aggregate(plan)) {
        double pairs = plan->processes / 2;

        printf("%-25.6f%-20.6f", r->aggregate, r->aggregate / (pairs * MAX_BANDWIDTH_GB) * 100);
    }
    printf("%-15.1f%-15.1f%-15.1f%-15.1f%-15.1f%-15.1f%-15.1f\n", r->latency_us, r->prep.avg_us,
           r->prep.p99_us, r->post.avg_us, r->post.p99_us, r->tx.avg_us, r->tx.p99_us);
}

static void csv_summary_names(const char *what) {
    printf(",%s_avg_us,%s_min_us,%s_p50_us,%s_p90_us,%s_p99_us,%s_p999_us,%s_max_us", what, what, what, what,
           what, what, what);
}

static void csv_summary(const struct summary *s) {
    printf(",%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f", s->avg_us, s->min_us, s->p50_us, s->p90_us, s->p99_us,
           s->p999_us, s->max_us);
}

void csv_begin(void) {
    printf("op,block_size,batch_size,requests,bytes,seconds,bandwidth_gb_s,aggregate_gb_s,latency_us");
    csv_summary_names("prep");
    csv_summary_names("post");
    csv_summary_names("tx");
    printf(",transport,checked,partial\n");
}

void csv_row(const struct bench_result *r) {
    printf("%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.9f,%.6f,%.6f,%.3f",
           nixl_op_string(r->row.op), r->row.block, r->row.batch, r->requests, r->bytes,
           (double)r->wall_ns / 1e9, r->bandwidth, r->aggregate, r->latency_us);
    csv_summary(&r->prep);
    csv_summary(&r->post);
    csv_summary(&r->tx);
    printf(",%s,%d,%d\n", r->transport, r->is_checked, r->is_partial);
}
