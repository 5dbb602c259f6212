/* SPDX-License-Identifier: Apache-2.0 */
/* Percentiles and bandwidth, against arithmetic done by hand. */
#include "support.h"

#include "stats.h"

static void percentiles_come_from_all_samples(void **state) {
    struct samples samples = {0};
    struct summary s;

    /* 1000 samples of 1 to 1000 us, in a shuffled order: 7 is prime to 1000. */
    assert_true(samples_reserve(&samples, 1000));
    for (uint64_t i = 0; i < 1000; i++) {
        samples_add(&samples, (i * 7 % 1000 + 1) * 1000);
    }
    samples_summarize(&samples, &s);
    assert_int_equal(s.count, 1000);
    assert_true(s.min_us == 1);
    assert_true(s.p50_us == 501); /* place 500 of 0..999 */
    assert_true(s.p90_us == 901);
    assert_true(s.p99_us == 991);
    assert_true(s.p999_us == 1000);
    assert_true(s.max_us == 1000);
    assert_true(s.avg_us > 500.4999 && s.avg_us < 500.5001);
    samples_free(&samples);
}

static void the_one_slow_sample_among_a_hundred_is_the_99th_percentile(void **state) {
    struct samples samples = {0};
    struct summary s;

    assert_true(samples_reserve(&samples, 100));
    samples_add(&samples, 9000000);
    for (int i = 1; i < 100; i++) {
        samples_add(&samples, 2000);
    }
    samples_summarize(&samples, &s);
    assert_true(s.p50_us == 2);
    assert_true(s.p99_us == 9000); /* place 99 of 0..99 */
    assert_true(s.max_us == 9000);
    samples_free(&samples);
}

static void one_sample_is_all_percentiles(void **state) {
    struct samples samples = {0};
    struct summary s;

    assert_true(samples_reserve(&samples, 1));
    samples_add(&samples, 1500);
    samples_summarize(&samples, &s);
    assert_true(s.avg_us == 1.5 && s.min_us == 1.5 && s.p50_us == 1.5 && s.p99_us == 1.5 &&
                s.p999_us == 1.5 && s.max_us == 1.5);
    samples_free(&samples);
}

static void samples_beyond_the_room_are_kept_too(void **state) {
    struct samples samples = {0};
    struct summary s;

    assert_true(samples_reserve(&samples, 4));
    for (uint64_t i = 1; i <= 5000; i++) {
        assert_true(samples_add(&samples, i * 1000));
    }
    samples_summarize(&samples, &s);
    assert_int_equal(s.count, 5000);
    assert_true(s.min_us == 1 && s.max_us == 5000);
    samples_free(&samples);
}

static void no_samples_give_zeros(void **state) {
    struct samples samples = {0};
    struct summary s;

    samples_summarize(&samples, &s);
    assert_int_equal(s.count, 0);
    assert_true(s.avg_us == 0 && s.p99_us == 0 && s.max_us == 0);
}

static void sets_of_several_threads_are_joined(void **state) {
    static const uint64_t a[] = {3000, 1000};
    static const uint64_t b[] = {2000};
    struct samples samples = {0};
    struct summary s;

    assert_true(samples_append(&samples, a, 2));
    assert_true(samples_append(&samples, b, 1));
    assert_true(samples_append(&samples, NULL, 0));
    samples_summarize(&samples, &s);
    assert_int_equal(s.count, 3);
    assert_true(s.p50_us == 2 && s.avg_us == 2);
    samples_free(&samples);
}

static void bandwidth_is_bytes_over_wall_time(void **state) {
    assert_true(bandwidth_gb(1000000000, 1000000000) == 1.0);
    assert_true(bandwidth_gb(UINT64_C(64) << 20, 4194304) == 16.0);
    assert_true(bandwidth_gb(5, 0) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_come_from_all_samples),
        cmocka_unit_test(the_one_slow_sample_among_a_hundred_is_the_99th_percentile),
        cmocka_unit_test(one_sample_is_all_percentiles),
        cmocka_unit_test(samples_beyond_the_room_are_kept_too),
        cmocka_unit_test(no_samples_give_zeros),
        cmocka_unit_test(sets_of_several_threads_are_joined),
        cmocka_unit_test(bandwidth_is_bytes_over_wall_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
