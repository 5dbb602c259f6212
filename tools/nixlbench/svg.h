/* SPDX-License-Identifier: Apache-2.0 */
/* A line plot as SVG: sizes on a logarithmic x axis, figures on a linear or logarithmic y axis. */
#ifndef NIXLBENCH_SVG_H
#define NIXLBENCH_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define SVG_MAX_LINES 12
#define SVG_MAX_POINTS 64

struct svg_line {
    char name[64];
    double x[SVG_MAX_POINTS], y[SVG_MAX_POINTS];
    size_t count;
};

struct svg_plot {
    char title[128];
    bool is_log;
    struct svg_line lines[SVG_MAX_LINES];
    size_t count;
};

void svg_plot_begin(struct svg_plot *plot, const char *title, bool is_log);
/* NULL when there are too many lines to tell apart. */
struct svg_line *svg_plot_line(struct svg_plot *plot, const char *name);
/* Points beyond SVG_MAX_POINTS, and those that are not positive on a logarithmic axis, are left out. */
void svg_line_point(struct svg_line *line, double x, double y);
void svg_plot_write(const struct svg_plot *plot, FILE *out);

/* The step of round numbers (1, 2 or 5 times a power of ten) that cuts `range` into about `parts`. */
double svg_step(double range, int parts);

#endif
