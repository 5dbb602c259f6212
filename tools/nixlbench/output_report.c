/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTML page with the figures as plots: bandwidth over block size, a line for each operation and batch; latency
 * percentiles over block size, a plot for each. Inline SVG, no script, no external file.
 */
#include "output.h"
#include "svg.h"

#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put_escaped(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            if ((unsigned char)*text >= 0x20 || *text == '\t') {
                fputc(*text, out);
            }
        }
    }
}

static bool same_series(const struct bench_result *a, const struct bench_result *b) {
    return a->row.op == b->row.op && a->row.batch == b->row.batch;
}

/* True for the first result of its operation and batch. */
static bool begins_series(const struct bench_result *results, size_t i) {
    for (size_t k = 0; k < i; k++) {
        if (same_series(&results[k], &results[i])) {
            return false;
        }
    }
    return true;
}

static void series_name(const struct bench_result *r, char *name, size_t size) {
    if (r->row.batch == 1) {
        snprintf(name, size, "%s", nixl_op_string(r->row.op));
    } else {
        snprintf(name, size, "%s, batch %" PRIu64, nixl_op_string(r->row.op), r->row.batch);
    }
}

enum figure {
    FIGURE_BANDWIDTH,
    FIGURE_POST_P50,
    FIGURE_POST_P99,
    FIGURE_P50,
    FIGURE_P99,
    FIGURE_P999
};

static double figure_of(const struct bench_result *r, enum figure figure) {
    switch (figure) {
    case FIGURE_BANDWIDTH:
        return r->aggregate;
    case FIGURE_POST_P50:
        return r->post.p50_us;
    case FIGURE_POST_P99:
        return r->post.p99_us;
    case FIGURE_P50:
        return r->tx.p50_us;
    case FIGURE_P99:
        return r->tx.p99_us;
    default:
        return r->tx.p999_us;
    }
}

/* Adds the series that `first` begins. */
static void add_line(struct svg_plot *plot, const struct bench_result *results, size_t count, size_t first,
                     enum figure figure, const char *name) {
    struct svg_line *line = svg_plot_line(plot, name);

    for (size_t i = first; line != NULL && i < count; i++) {
        if (same_series(&results[i], &results[first])) {
            svg_line_point(line, (double)results[i].row.block, figure_of(&results[i], figure));
        }
    }
}

static void plots(FILE *out, const struct bench_result *results, size_t count) {
    struct svg_plot plot;
    char name[64];
    char title[160];

    svg_plot_begin(&plot, "Bandwidth, GB/s", false);
    for (size_t i = 0; i < count; i++) {
        if (begins_series(results, i)) {
            series_name(&results[i], name, sizeof name);
            add_line(&plot, results, count, i, FIGURE_BANDWIDTH, name);
        }
    }
    svg_plot_write(&plot, out);
    for (size_t i = 0; i < count; i++) {
        if (!begins_series(results, i)) {
            continue;
        }
        series_name(&results[i], name, sizeof name);
        snprintf(title, sizeof title, "%s: inside the post call, and after it until done, \xc2\xb5s", name);
        svg_plot_begin(&plot, title, true);
        add_line(&plot, results, count, i, FIGURE_POST_P50, "in post p50");
        add_line(&plot, results, count, i, FIGURE_POST_P99, "in post p99");
        add_line(&plot, results, count, i, FIGURE_P50, "after p50");
        add_line(&plot, results, count, i, FIGURE_P99, "after p99");
        add_line(&plot, results, count, i, FIGURE_P999, "after p99.9");
        svg_plot_write(&plot, out);
    }
}

static void table(FILE *out, const struct bench_result *results, size_t count) {
    fputs("<h2>Figures</h2>\n<div "
          "class=\"scroll\"><table>\n<tr><th>op<th>block<th>batch<th>requests<th>GB/s<th>latency "
          "\xc2\xb5s<th>prep p50<th>post p50<th>post p99<th>tx p50<th>tx p90<th>tx p99<th>tx p99.9<th>tx "
          "max<th>"
          "transport<th>checked</tr>\n",
          out);
    for (size_t i = 0; i < count; i++) {
        const struct bench_result *r = &results[i];
        char size[32];

        fprintf(out,
                "<tr><td>%s<td>%s<td>%" PRIu64 "<td>%" PRIu64
                "<td>%.3f<td>%.2f<td>%.2f<td>%.2f<td>%.2f<td>%.2f<td>%.2f"
                "<td>%.2f<td>%.2f<td>%.2f<td>",
                nixl_op_string(r->row.op), text_size(size, sizeof size, r->row.block), r->row.batch,
                r->requests, r->aggregate, r->latency_us, r->prep.p50_us, r->post.p50_us, r->post.p99_us,
                r->tx.p50_us, r->tx.p90_us, r->tx.p99_us, r->tx.p999_us, r->tx.max_us);
        put_escaped(out, r->transport);
        fprintf(out, "<td>%s%s</tr>\n", r->is_checked ? "every byte" : "no",
                r->is_partial ? ", interrupted" : "");
    }
    fputs("</table></div>\n", out);
}

static void settings(FILE *out, const struct bench_plan *plan, const struct bench_options *options,
                     const struct bench_facts *facts) {
    fputs("<h2>Settings</h2>\n<table class=\"settings\">\n", out);
    fprintf(out, "<tr><td>runtime<td>%s, %u process(es)</tr>\n", plan_runtime_name(plan->runtime),
            plan->processes);
    fputs("<tr><td>backend says<td>", out);
    put_escaped(out, facts->backend_description);
    fputs("</tr>\n", out);
    for (size_t i = 0; i < BENCH_REFERENCE_FLAGS; i++) {
        char number[32];

        if (options->sources[i] != FLAG_FROM_DEFAULT) {
            fprintf(out, "<tr><td>%s<td>", bench_flags[i].name);
            put_escaped(out, flag_show(&options->config, &bench_flags[i], number, sizeof number));
            fputs("</tr>\n", out);
        }
    }
    for (size_t i = 0; i < plan->note_count; i++) {
        fputs("<tr><td>note<td>", out);
        put_escaped(out, plan->notes[i]);
        fputs("</tr>\n", out);
    }
    fputs("</table>\n", out);
}

int report_write(const char *path, const struct bench_plan *plan, const struct bench_options *options,
                 const struct bench_facts *facts, const struct bench_result *results, size_t count) {
    FILE *out = fopen(path, "we");
    char host[128] = "";
    int rc = 0;

    if (out == NULL) {
        return errno;
    }
    gethostname(host, sizeof host - 1);
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>nixlbench ", out);
    put_escaped(out, options->config.backend);
    fputs(
        "</title>\n<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
        "body{font:15px/1.5 system-ui,sans-serif;color:#1b1f24;background:#fff;margin:24px "
        "auto;max-width:1280px;padding:0 16px}\n"
        "h1{font-size:22px;margin:0}h2{font-size:16px;margin:28px 0 8px}p{color:#57606a;margin:4px 0 16px}\n"
        ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(480px,1fr));gap:16px}\n"
        ".plots svg{width:100%;height:auto;border:1px solid #d8dee4;border-radius:6px}\n"
        ".scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:"
        "13px}\n"
        "th,td{text-align:right;padding:3px 9px;border-bottom:1px solid #eaeef2;white-space:nowrap}\n"
        "th{color:#57606a;font-weight:600}td:first-child,th:first-child,.settings td{text-align:left}\n"
        ".settings td{white-space:normal}\n</style>\n</head>\n<body>\n<h1>nixlbench: ",
        out);
    put_escaped(out, options->config.backend);
    fprintf(out, "</h1>\n<p>NIXL %s", nixl_version());
    if (host[0] != '\0') {
        fputs(" on ", out);
        put_escaped(out, host);
    }
    if (facts->transport[0] != '\0') {
        fputs(", transport ", out);
        put_escaped(out, facts->transport);
    }
    fputs("</p>\n<div class=\"plots\">\n", out);
    plots(out, results, count);
    fputs("</div>\n", out);
    table(out, results, count);
    settings(out, plan, options, facts);
    fputs("</body>\n</html>\n", out);
    if (ferror(out)) {
        rc = EIO;
    }
    if (fclose(out) != 0) {
        rc = errno;
    }
    return rc;
}
