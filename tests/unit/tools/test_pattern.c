/* SPDX-License-Identifier: Apache-2.0 */
/* The pattern that a consistency check compares: what it must show. */
#include "support.h"

#include "pattern.h"

#define LEN 4099

static void without_a_seed_every_byte_is_the_base(void **state) {
    uint8_t data[100];

    pattern_fill(data, sizeof data, 12345, 0, PATTERN_INITIATOR);
    for (size_t i = 0; i < sizeof data; i++) {
        assert_int_equal(data[i], 0xbb);
    }
    pattern_fill(data, sizeof data, 0, 0, PATTERN_TARGET);
    assert_int_equal(data[99], 0xaa);
    assert_int_equal(pattern_check(data, sizeof data, 7, 0, PATTERN_TARGET), sizeof data);
    data[98] = 0;
    assert_int_equal(pattern_check(data, sizeof data, 7, 0, PATTERN_TARGET), 98);
}

static void a_place_has_its_byte_however_the_range_is_cut(void **state) {
    static uint8_t data[LEN];

    for (uint64_t start = 0; start < 20; start++) {
        for (size_t len = 0; len < 40; len++) {
            memset(data, 0, sizeof data);
            pattern_fill(data + 8, len, start, 99, PATTERN_INITIATOR);
            assert_int_equal(data[7], 0);
            assert_int_equal(data[8 + len], 0);
            for (size_t i = 0; i < len; i++) {
                assert_int_equal(data[8 + i], pattern_byte(start + i, 99, PATTERN_INITIATOR));
            }
            assert_int_equal(pattern_check(data + 8, len, start, 99, PATTERN_INITIATOR), len);
        }
    }
}

static void one_wrong_bit_anywhere_is_found_at_its_place(void **state) {
    static uint8_t data[LEN];

    pattern_fill(data, LEN, 3, 5, PATTERN_TARGET);
    for (size_t i = 0; i < LEN; i++) {
        data[i] ^= (uint8_t)(1u << i % 8);
        assert_int_equal(pattern_check(data, LEN, 3, 5, PATTERN_TARGET), i);
        data[i] ^= (uint8_t)(1u << i % 8);
    }
    assert_int_equal(pattern_check(data, LEN, 3, 5, PATTERN_TARGET), LEN);
}

static void a_block_in_the_wrong_place_or_of_an_earlier_run_shows(void **state) {
    static uint8_t data[LEN];

    for (uint64_t shift = 1; shift < 5000; shift++) {
        pattern_fill(data, 64, 1000 + shift, 5, PATTERN_INITIATOR);
        assert_true(pattern_check(data, 64, 1000, 5, PATTERN_INITIATOR) < 64);
    }
    for (uint64_t seed = 6; seed < 200; seed++) {
        pattern_fill(data, 64, 1000, seed, PATTERN_INITIATOR);
        assert_true(pattern_check(data, 64, 1000, 5, PATTERN_INITIATOR) < 64);
    }
    pattern_fill(data, 64, 1000, 5, PATTERN_TARGET);
    assert_int_equal(pattern_check(data, 64, 1000, 5, PATTERN_INITIATOR), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_seed_every_byte_is_the_base),
        cmocka_unit_test(a_place_has_its_byte_however_the_range_is_cut),
        cmocka_unit_test(one_wrong_bit_anywhere_is_found_at_its_place),
        cmocka_unit_test(a_block_in_the_wrong_place_or_of_an_earlier_run_shows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
