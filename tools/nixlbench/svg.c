/* SPDX-License-Identifier: Apache-2.0 */
#include "svg.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define WIDTH 560.0
#define HEIGHT 320.0
#define LEFT 58.0
#define RIGHT 26.0 /* half of the last label */
#define TOP 44.0
#define BOTTOM 64.0
#define LEGEND_ROW 16.0

/* Told apart also by those who see few colours (Okabe and Ito 2008), each with a dash of its own after six. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

struct frame_of {
    double x0, x1, y0, y1; /* of the data, logarithms where the axis is */
    bool is_log;
};

void svg_plot_begin(struct svg_plot *plot, const char *title, bool is_log) {
    memset(plot, 0, sizeof *plot);
    snprintf(plot->title, sizeof plot->title, "%s", title);
    plot->is_log = is_log;
}

struct svg_line *svg_plot_line(struct svg_plot *plot, const char *name) {
    struct svg_line *line;

    if (plot->count == SVG_MAX_LINES) {
        return NULL;
    }
    line = &plot->lines[plot->count++];
    snprintf(line->name, sizeof line->name, "%s", name);
    return line;
}

void svg_line_point(struct svg_line *line, double x, double y) {
    if (line->count < SVG_MAX_POINTS && x > 0 && y > 0) {
        line->x[line->count] = x;
        line->y[line->count++] = y;
    }
}

double svg_step(double range, int parts) {
    double raw = range / parts;
    double power = pow(10, floor(log10(raw)));
    double rest = raw / power;

    return (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10) * power;
}

static double to_x(const struct frame_of *f, double x) {
    return LEFT + (log2(x) - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT);
}

static double to_y(const struct frame_of *f, double y) {
    double v = f->is_log ? log10(y) : y;

    return HEIGHT - BOTTOM - (v - f->y0) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM);
}

static struct frame_of frame_data(const struct svg_plot *plot) {
    struct frame_of f = {INFINITY, -INFINITY, plot->is_log ? INFINITY : 0, plot->is_log ? -INFINITY : 0,
                         plot->is_log};

    for (size_t i = 0; i < plot->count; i++) {
        for (size_t k = 0; k < plot->lines[i].count; k++) {
            double x = log2(plot->lines[i].x[k]);
            double y = plot->is_log ? log10(plot->lines[i].y[k]) : plot->lines[i].y[k];

            f.x0 = fmin(f.x0, x);
            f.x1 = fmax(f.x1, x);
            f.y0 = fmin(f.y0, y);
            f.y1 = fmax(f.y1, y);
        }
    }
    if (!isfinite(f.x0)) {
        f.x0 = 0;
        f.x1 = 1;
    }
    if (f.x1 - f.x0 < 1) {
        f.x0 -= 0.5;
        f.x1 += 0.5;
    }
    if (plot->is_log) {
        f.y0 = isfinite(f.y0) ? floor(f.y0) : 0;
        f.y1 = isfinite(f.y1) ? ceil(f.y1) : 1;
        if (f.y1 - f.y0 < 1) {
            f.y1 = f.y0 + 1;
        }
    } else {
        double step = svg_step(f.y1 > 0 ? f.y1 : 1, 5);

        f.y1 = ceil(f.y1 / step) * step;
        if (f.y1 <= 0) {
            f.y1 = 1;
        }
    }
    return f;
}

static void y_axis(const struct frame_of *f, FILE *out) {
    double step = f->is_log ? 1 : svg_step(f->y1, 5);

    for (double v = f->y0; v <= f->y1 + step / 1e6; v += step) {
        double value = f->is_log ? pow(10, v) : v;
        double y = to_y(f, value);
        char label[32];

        snprintf(label, sizeof label, value >= 1e5 ? "%.0f" : "%g", value);
        fprintf(out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#eaeef2\"/>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                LEFT, y, WIDTH - RIGHT, y, LEFT - 8, y + 4, label);
    }
}

static void x_axis(const struct frame_of *f, FILE *out) {
    int span = (int)floor(f->x1) - (int)ceil(f->x0);
    int every = span / 7 + 1;

    for (int k = (int)ceil(f->x0); k <= (int)floor(f->x1); k++) {
        double x = to_x(f, exp2(k));
        char size[32];

        if ((k - (int)ceil(f->x0)) % every != 0) {
            continue;
        }
        text_size(size, sizeof size, k >= 0 ? UINT64_C(1) << k : 0);
        fprintf(out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#8c959f\"/>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
                x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 4, x, HEIGHT - BOTTOM + 18, size);
    }
    fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#8c959f\"/>\n", LEFT,
            HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM);
}

static void draw_line(const struct frame_of *f, const struct svg_line *line, size_t index, FILE *out) {
    const char *colour = colours[index % (sizeof colours / sizeof colours[0])];
    const char *dash = index >= sizeof colours / sizeof colours[0] ? " stroke-dasharray=\"5 3\"" : "";

    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", colour, dash);
    for (size_t k = 0; k < line->count; k++) {
        fprintf(out, "%.1f,%.1f ", to_x(f, line->x[k]), to_y(f, line->y[k]));
    }
    fputs("\"/>\n", out);
    for (size_t k = 0; k < line->count; k++) {
        fprintf(
            out,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s: %.0f B, %.6g</title></circle>\n",
            to_x(f, line->x[k]), to_y(f, line->y[k]), colour, line->name, line->x[k], line->y[k]);
    }
}

/* Below the axis, in rows; names take about 7 units a letter. Returns the height of the rows after the first; `out` NULL:
 * that alone. */
static double legend(const struct svg_plot *plot, FILE *out) {
    double x = LEFT;
    double y = HEIGHT - 22;

    for (size_t i = 0; i < plot->count; i++) {
        double width = 38 + 7 * (double)strlen(plot->lines[i].name);

        if (x + width > WIDTH - RIGHT && x > LEFT) {
            x = LEFT;
            y += LEGEND_ROW;
        }
        if (out == NULL) {
            x += width;
            continue;
        }
        fprintf(out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"3\"%s/>"
                "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                x, y - 4, x + 18, y - 4, colours[i % (sizeof colours / sizeof colours[0])],
                i >= sizeof colours / sizeof colours[0] ? " stroke-dasharray=\"5 3\"" : "", x + 24, y,
                plot->lines[i].name);
        x += width;
    }
    return y - (HEIGHT - 22);
}

void svg_plot_write(const struct svg_plot *plot, FILE *out) {
    struct frame_of f = frame_data(plot);

    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\" "
        "font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"#57606a\">\n"
        "<text x=\"%.0f\" y=\"24\" font-size=\"14\" font-weight=\"600\" fill=\"#1b1f24\">%s</text>\n",
        WIDTH, HEIGHT + legend(plot, NULL), plot->title, LEFT - 42, plot->title);
    y_axis(&f, out);
    x_axis(&f, out);
    for (size_t i = 0; i < plot->count; i++) {
        draw_line(&f, &plot->lines[i], i, out);
    }
    legend(plot, out);
    fputs("</svg>\n", out);
}
