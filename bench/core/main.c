/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs every row in every sync mode, 15 samples each, prints medians and writes them as JSON. Samples of a
 * row are taken one after the other; a machine that is busy with something else shows in the spread. Exits 1
 * when a row has no value.
 *
 *     bench-core [--json FILE] [--samples N] [--row TEXT] [--mode none|strict|rw]
 */
#include "bench.h"

#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAMPLES_MAX 1001

static const char *const mode_names[MODES] = {"none", "strict", "rw"};

struct result {
    bool ok;
    double median, low, high;
};

struct settings {
    const char *json, *row, *mode;
    int samples;
};

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static bool is_size(const struct row *row) {
    return strcmp(row->unit, "bytes") == 0;
}

static struct result row_run(const struct row *row, struct setting *setting, int samples) {
    static double values[SAMPLES_MAX];
    struct result result = {0};

    /* The first is for caches, page tables and branch predictors. */
    if (is_size(row)) {
        samples = 1;
    } else if (row->sample(setting) < 0) {
        return result;
    }
    for (int i = 0; i < samples; i++) {
        values[i] = row->sample(setting);
        if (values[i] < 0) {
            return result;
        }
    }
    qsort(values, (size_t)samples, sizeof values[0], ascending);
    result.ok = true;
    result.median = values[samples / 2];
    result.low = values[samples / 10];
    result.high = values[samples - 1 - samples / 10];
    return result;
}

static void json_begin(FILE *json, int samples) {
    char host[256] = "";
    char line[512];
    FILE *info = fopen("/proc/cpuinfo", "r");

    while (info != NULL && fgets(line, sizeof line, info) != NULL) {
        char *value = strchr(line, ':');

        if (value != NULL && strncmp(line, "model name", 10) == 0) {
            snprintf(host, sizeof host, "%.200s", value + 2);
            host[strcspn(host, "\n\"\\")] = '\0';
            break;
        }
    }
    if (info != NULL) {
        fclose(info);
    }
    fprintf(json,
            "{\"nixl\": \"%s\", \"processor\": \"%s\", \"processors\": %ld, \"samples\": %d, \"rows\": [",
            nixl_version(), host, sysconf(_SC_NPROCESSORS_ONLN), samples);
}

static void json_row(FILE *json, const struct row *row, int mode, const struct result *result, bool first) {
    fprintf(json, "%s\n  {\"name\": \"%s\", \"mode\": \"%s\", \"unit\": \"%s\", \"what\": \"%s\"",
            first ? "" : ",", row->name, mode_names[mode], row->unit, row->what);
    if (result->ok) {
        fprintf(json, ", \"median\": %.4g, \"p10\": %.4g, \"p90\": %.4g", result->median, result->low,
                result->high);
    }
    if (row->reference[mode] > 0) {
        fprintf(json, ", \"reference\": %.4g", row->reference[mode]);
    }
    fputs("}", json);
}

static void line_print(const struct row *row, int mode, const struct result *result) {
    char reference[32] = "-";

    if (row->reference[mode] > 0) {
        snprintf(reference, sizeof reference, "%.4g", row->reference[mode]);
    }
    if (result->ok) {
        printf("%-36s %-6s %10.4g  %10.4g  %10.4g  %10s  %s\n", row->name, mode_names[mode], result->median,
               result->low, result->high, reference, row->unit);
    } else {
        printf("%-36s %-6s no value: %s\n", row->name, mode_names[mode], nixl_error());
    }
    fflush(stdout);
}

/* Returns how many rows have no value. */
static int mode_run(int mode, const struct settings *settings, FILE *json, bool *first) {
    struct setting *setting = setting_make((enum nixl_sync)mode);
    int missing = 0;

    if (setting == NULL) {
        fprintf(stderr, "bench-core: the setting for mode %s cannot be made: %s\n", mode_names[mode],
                nixl_error());
        return 1;
    }
    for (size_t i = 0; i < row_count; i++) {
        struct result result;

        if ((settings->row != NULL && strstr(rows[i].name, settings->row) == NULL) ||
            (is_size(&rows[i]) && mode != 0)) {
            continue;
        }
        result = row_run(&rows[i], setting, settings->samples);
        line_print(&rows[i], mode, &result);
        if (json != NULL) {
            json_row(json, &rows[i], mode, &result, *first);
            *first = false;
        }
        missing += !result.ok;
    }
    setting_free(setting);
    return missing;
}

static bool arguments_read(int argc, char **argv, struct settings *settings) {
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (value == NULL) {
            return false;
        }
        if (strcmp(argv[i], "--json") == 0) {
            settings->json = value;
        } else if (strcmp(argv[i], "--row") == 0) {
            settings->row = value;
        } else if (strcmp(argv[i], "--mode") == 0) {
            settings->mode = value;
        } else if (strcmp(argv[i], "--samples") == 0) {
            settings->samples = atoi(value);
        } else {
            return false;
        }
    }
    return settings->samples > 0 && settings->samples <= SAMPLES_MAX;
}

/* The no-op backend lies beside this program in the build tree. */
static void plugin_dir_set(void) {
    char path[PATH_MAX];
    char dir[PATH_MAX + 32];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);

    if (len > 0) {
        path[len] = '\0';
        snprintf(dir, sizeof dir, "%s/../tests/plugins", dirname(path));
        setenv("NIXL_PLUGIN_DIR", dir, 0);
    }
}

int main(int argc, char **argv) {
    struct settings settings = {.samples = 15};
    FILE *json = NULL;
    bool first = true;
    int missing = 0;

    if (!arguments_read(argc, argv, &settings)) {
        fprintf(stderr, "usage: %s [--json FILE] [--samples N] [--row TEXT] [--mode none|strict|rw]\n",
                argv[0]);
        return 2;
    }
    plugin_dir_set();
    if (settings.json != NULL) {
        json = fopen(settings.json, "w");
        if (json == NULL) {
            perror(settings.json);
            return 2;
        }
        json_begin(json, settings.samples);
    }
    printf("%-36s %-6s %10s  %10s  %10s  %10s  %s\n", "row", "mode", "median", "p10", "p90", "reference",
           "unit");
    for (int mode = 0; mode < MODES; mode++) {
        if (settings.mode == NULL || strcmp(settings.mode, mode_names[mode]) == 0) {
            missing += mode_run(mode, &settings, json, &first);
        }
    }
    if (json != NULL) {
        fputs("\n]}\n", json);
        if (fclose(json) != 0) {
            perror(settings.json);
            missing++;
        }
    }
    if (missing != 0) {
        fprintf(stderr, "bench-core: %d rows have no value\n", missing);
    }
    return missing != 0;
}
