/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include "base/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct output {
    const struct bench_plan *plan;
    const struct bench_options *options;
    struct bench_facts facts;
    struct bench_result *results;
    size_t count, cap;
    bool is_json, is_csv, has_begun, is_lost;
};

struct output *output_open(const struct bench_plan *plan, const struct bench_options *options) {
    struct output *output = calloc(1, sizeof *output);

    if (output != NULL) {
        output->plan = plan;
        output->options = options;
        output->is_json = strcmp(options->config.output, "json") == 0;
        output->is_csv = strcmp(options->config.output, "csv") == 0;
    }
    return output;
}

/* Said once: a disk that is full, a reader that is gone. */
static void check_stdout(struct output *output) {
    if ((fflush(stdout) != 0 || ferror(stdout)) && !output->is_lost) {
        output->is_lost = true;
        fprintf(stderr, "nixlbench: standard output: %s\n",
                errno != 0 ? strerror(errno) : "cannot be written");
    }
}

void output_begin(struct output *output, const struct bench_facts *facts) {
    output->facts = *facts;
    output->has_begun = true;
    if (output->is_csv) {
        csv_begin();
    } else if (!output->is_json) {
        text_begin(output->plan, output->options, facts);
    }
    check_stdout(output);
}

bool output_row(struct output *output, const struct bench_result *result) {
    if (!array_reserve(&output->results, &output->cap, output->count + 1, sizeof *output->results)) {
        return false;
    }
    if (output->is_csv) {
        csv_row(result);
    } else if (!output->is_json) {
        if (output->count == 0 || output->results[output->count - 1].row.op != result->row.op) {
            text_columns(output->plan, result->row.op);
        }
        text_row(output->plan, result);
    }
    check_stdout(output);
    output->results[output->count++] = *result;
    return true;
}

bool output_end(struct output *output, bool interrupted, const char *error) {
    const char *path = output->options->config.report;
    bool ok = true;
    int rc;

    if (output->is_json) {
        ok = json_write(output->plan, output->options, &output->facts, output->results, output->count,
                        interrupted, error);
    } else if (!output->is_csv && output->has_begun && interrupted) {
        printf("Interrupted: the rows above are what was measured.\n");
    }
    check_stdout(output);
    ok = ok && !output->is_lost;
    if (path[0] != '\0' && output->count != 0) {
        rc =
            report_write(path, output->plan, output->options, &output->facts, output->results, output->count);
        if (rc != 0) {
            fprintf(stderr, "nixlbench: --report %s: %s\n", path, strerror(rc));
            ok = false;
        }
    }
    return ok;
}

void output_close(struct output *output) {
    if (output != NULL) {
        free(output->results);
        free(output);
    }
}
