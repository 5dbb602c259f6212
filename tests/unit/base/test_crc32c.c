/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C against RFC 3720 appendix B.4 and the catalogue's check value; the methods against each other. */
#include "support.h"

#include "base/crc32c.h"

static void vectors_of_rfc_3720(void **state) {
    uint8_t data[32];
    static const uint8_t read_pdu[48] = {
        0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18,
        0x28, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};

    memset(data, 0, sizeof data);
    assert_int_equal(crc32c(0, data, 32), 0x8a9136aa);
    assert_int_equal(crc32c_table(0, data, 32), 0x8a9136aa);
    memset(data, 0xff, sizeof data);
    assert_int_equal(crc32c(0, data, 32), 0x62a8ab43);
    assert_int_equal(crc32c_table(0, data, 32), 0x62a8ab43);
    for (size_t i = 0; i < 32; i++) {
        data[i] = (uint8_t)i;
    }
    assert_int_equal(crc32c(0, data, 32), 0x46dd794e);
    assert_int_equal(crc32c_table(0, data, 32), 0x46dd794e);
    for (size_t i = 0; i < 32; i++) {
        data[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(crc32c(0, data, 32), 0x113fdb5c);
    assert_int_equal(crc32c_table(0, data, 32), 0x113fdb5c);
    assert_int_equal(crc32c(0, read_pdu, 48), 0xd9963a56);
    assert_int_equal(crc32c_table(0, read_pdu, 48), 0xd9963a56);
}

static void the_check_value_and_nothing(void **state) {
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_table(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, NULL, 0), 0);
    assert_int_equal(crc32c(0x1234, NULL, 0), 0x1234);
}

static void every_length_and_offset_agrees_in_pieces_and_whole(void **state) {
    uint8_t data[600];
    uint32_t x = 1;

    for (size_t i = 0; i < sizeof data; i++) {
        x = x * 1664525 + 1013904223;
        data[i] = (uint8_t)(x >> 24);
    }
    for (size_t at = 0; at < 9; at++) {
        for (size_t len = 0; len < 500; len++) {
            uint32_t whole = crc32c(0, data + at, len);
            size_t cut = len / 3;

            assert_int_equal(whole, crc32c_table(0, data + at, len));
            assert_int_equal(whole, crc32c(crc32c(0, data + at, cut), data + at + cut, len - cut));
        }
    }
}

static void two_checksums_combine(void **state) {
    static uint8_t data[100000];
    static const size_t cuts[] = {0, 1, 7, 8, 1000, 65536, 99999, 100000};

    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)(i * 31 + (i >> 8));
    }
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        uint32_t a = crc32c(0, data, cuts[i]);
        uint32_t b = crc32c(0, data + cuts[i], sizeof data - cuts[i]);

        assert_int_equal(crc32c_combine(a, b, sizeof data - cuts[i]), crc32c(0, data, sizeof data));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(vectors_of_rfc_3720),
        TEST(the_check_value_and_nothing),
        TEST(every_length_and_offset_agrees_in_pieces_and_whole),
        TEST(two_checksums_combine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
