/* SPDX-License-Identifier: Apache-2.0 */
/* Plots: round steps, points in their places, nothing that is not a number. */
#include "support.h"

#include "svg.h"

static char *drawn;

static void draw(const struct svg_plot *plot) {
    size_t len;
    FILE *out;

    free(drawn);
    drawn = NULL;
    out = open_memstream(&drawn, &len);
    svg_plot_write(plot, out);
    fclose(out);
    assert_null(strstr(drawn, "nan"));
    assert_null(strstr(drawn, "inf"));
}

static void steps_are_one_two_or_five_times_a_power_of_ten(void **state) {
    assert_true(svg_step(10, 5) == 2);
    assert_true(svg_step(9.7, 5) == 2);
    assert_true(svg_step(23, 5) == 5);
    assert_true(svg_step(48, 5) == 10);
    assert_true(svg_step(0.4, 5) > 0.0999 && svg_step(0.4, 5) < 0.1001);
}

static void the_ends_of_a_line_lie_on_the_edges(void **state) {
    struct svg_plot plot;
    struct svg_line *line;

    svg_plot_begin(&plot, "t", false);
    line = svg_plot_line(&plot, "a");
    svg_line_point(line, 1024, 10);
    svg_line_point(line, 4096, 5);
    draw(&plot);
    /* 560 x 320 with margins 58, 26, 44, 64: x from 58 to 534, y from 256 (0) to 44 (10). */
    assert_non_null(strstr(drawn, "points=\"58.0,44.0 534.0,150.0 \""));
    free(drawn);
    drawn = NULL;
}

static void empty_and_single_point_plots_are_drawn(void **state) {
    struct svg_plot plot;

    svg_plot_begin(&plot, "t", true);
    draw(&plot);
    svg_line_point(svg_plot_line(&plot, "a"), 4096, 3);
    draw(&plot);
    svg_plot_begin(&plot, "t", false);
    draw(&plot);
    svg_line_point(svg_plot_line(&plot, "a"), 4096, 0); /* left out */
    draw(&plot);
    free(drawn);
    drawn = NULL;
}

static void lines_beyond_the_limit_are_left_out(void **state) {
    struct svg_plot plot;

    svg_plot_begin(&plot, "t", false);
    for (int i = 0; i < SVG_MAX_LINES; i++) {
        struct svg_line *line = svg_plot_line(&plot, "WRITE, batch 16");

        assert_non_null(line);
        for (int k = 0; k < SVG_MAX_POINTS + 5; k++) {
            svg_line_point(line, k + 1, 1);
        }
        assert_int_equal(line->count, SVG_MAX_POINTS);
    }
    assert_null(svg_plot_line(&plot, "one more"));
    draw(&plot);
    assert_non_null(strstr(drawn, "viewBox=\"0 0 560 368\"")); /* three more rows of the legend */
    free(drawn);
    drawn = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_one_two_or_five_times_a_power_of_ten),
        cmocka_unit_test(the_ends_of_a_line_lie_on_the_edges),
        cmocka_unit_test(empty_and_single_point_plots_are_drawn),
        cmocka_unit_test(lines_beyond_the_limit_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
