/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and keys as UCX packs them, damaged: what is not whole is seen, and nobody reads beyond it. ASan is the judge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/ucx/ucx.h"

/* Of the reference's recorded metadata (tests/vectors), UCX 1.21 over tcp: self, two devices, and an empty one that says the version. */
static const uint8_t address[] = {
    0x20, 0xfa, 0x13, 0x99, 0xb2, 0xac, 0x93, 0x7d, 0x07, 0x00, 0x00, 0x63, 0x75, 0x77, 0xcc, 0x2b,
    0x32, 0x00, 0x40, 0x97, 0x50, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4f, 0x03, 0xc0, 0x88, 0x1a, 0x95,
    0x43, 0xb4, 0x0c, 0x19, 0xde, 0xca, 0x01, 0x06, 0x00, 0x02, 0xc0, 0x00, 0x02, 0x02, 0xcf, 0x19,
    0x17, 0xb7, 0x51, 0x38, 0x97, 0x63, 0x34, 0x4b, 0xd7, 0xe0, 0x37, 0x37, 0x00, 0x13, 0x23, 0x00,
    0x82, 0xe5, 0xf5, 0x01, 0x0e, 0x01, 0x02, 0xfc, 0xae, 0x44, 0xce, 0x99, 0x8a, 0x29, 0xb6, 0xf9,
    0xff, 0xff, 0xef, 0xcf, 0x19, 0x17, 0xb7, 0x51, 0x38, 0x53, 0x9e, 0x3e, 0x4b, 0xd7, 0xe0, 0x37,
    0x37, 0x01, 0x13, 0x23, 0x00, 0x82, 0x93, 0x3b, 0x86, 0x80,
};

/* The map of one domain (8 bytes), host memory, a key of no bytes, no device. */
static const uint8_t key[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff};

/* In a block of its own size. */
static bool is_whole(bool (*check)(const void *, size_t), const uint8_t *bytes, size_t len) {
    uint8_t *copy = malloc(len != 0 ? len : 1);
    bool result;

    memcpy(copy, bytes, len);
    result = check(copy, len);
    free(copy);
    return result;
}

static void a_recorded_address_and_key_are_whole(void **state) {
    (void)state;
    assert_int_equal(sizeof address, 106);
    assert_true(is_whole(ucx_address_is_whole, address, sizeof address));
    assert_true(is_whole(ucx_key_is_whole, key, sizeof key));
}

static void an_address_that_is_shorter_or_longer_is_not_whole(void **state) {
    uint8_t longer[sizeof address + 1] = {0};

    (void)state;
    for (size_t len = 0; len < sizeof address; len++) {
        assert_false(is_whole(ucx_address_is_whole, address, len));
    }
    memcpy(longer, address, sizeof address);
    assert_false(is_whole(ucx_address_is_whole, longer, sizeof longer));
}

/* UCX ends the process at these. */
static void an_address_of_an_unknown_version_is_not_whole(void **state) {
    uint8_t copy[sizeof address];

    (void)state;
    memcpy(copy, address, sizeof address);
    for (unsigned version = 2; version < 16; version++) {
        copy[0] = (uint8_t)(0x20 | version);
        assert_false(is_whole(ucx_address_is_whole, copy, sizeof copy));
    }
}

/* Byte 64 says that two bytes of port follow; UCX follows a pointer to nothing when it says that none do. */
static void an_address_whose_lengths_lie_is_not_whole(void **state) {
    static const struct {
        size_t at;
        uint8_t value;
    } lies[] = {{64, 0x80}, {64, 0x83}, {64, 0xc2},  {29, 0x89},
                {10, 0x01}, {39, 0x07}, {105, 0x00}, {105, 0x81}};
    uint8_t copy[sizeof address];

    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        memcpy(copy, address, sizeof address);
        assert_int_not_equal(copy[lies[i].at], lies[i].value);
        copy[lies[i].at] = lies[i].value;
        assert_false(is_whole(ucx_address_is_whole, copy, sizeof copy));
    }
}

/* Header, flags "identity", identity; a device with an extended domain index and length, paths and system device; a transport
 * of 8 bytes of attributes with one connection; the last device empty. By hand, from UCX's description of version 1 (its "v2"). */
static void an_address_of_the_second_version_is_whole(void **state) {
    uint8_t bytes[128] = {0x61, 0x02};
    size_t len = 2 + 8;

    (void)state;
    bytes[len++] = 0x7f; /* the domain's index follows */
    bytes[len++] = 200;
    bytes[len++] = 0x7f; /* the length follows; paths and system device too */
    bytes[len++] = 33;
    len += 2 + 33;
    len += 2 + 8;        /* the name's sum, the attributes */
    bytes[len++] = 0xc4; /* last, connections, 4 bytes */
    len += 4;
    bytes[len++] = 3; /* a connection of 3 bytes, its lane the last */
    len += 3;
    bytes[len++] = 0x80;
    bytes[len++] = 0x86; /* an empty device, and the last */
    bytes[len++] = 0x80;
    assert_true(is_whole(ucx_address_is_whole, bytes, len));
    for (size_t shorter = 0; shorter < len; shorter++) {
        assert_false(is_whole(ucx_address_is_whole, bytes, shorter));
    }
}

static void a_key_whose_lengths_lie_is_not_whole(void **state) {
    uint8_t copy[sizeof key];

    (void)state;
    for (size_t len = 0; len < sizeof key - 1; len++) {
        assert_false(is_whole(ucx_key_is_whole, key, len));
    }
    /* Another domain, whose length is then the byte 0xff; memory of an unknown kind; a key longer than what is left. */
    for (size_t bit = 1; bit < 64; bit++) {
        memcpy(copy, key, sizeof key);
        copy[bit / 8] |= (uint8_t)(1u << bit % 8);
        assert_false(is_whole(ucx_key_is_whole, copy, sizeof copy));
    }
    memcpy(copy, key, sizeof key);
    copy[8] = 10;
    assert_false(is_whole(ucx_key_is_whole, copy, sizeof copy));
    copy[8] = 0;
    copy[9] = 2;
    assert_false(is_whole(ucx_key_is_whole, copy, sizeof copy));
}

#define TEST(f)                                                                                              \
    { #f, f, NULL, NULL, NULL }

int main(void) {
    static const struct CMUnitTest tests[] = {
        TEST(a_recorded_address_and_key_are_whole),
        TEST(an_address_that_is_shorter_or_longer_is_not_whole),
        TEST(an_address_of_an_unknown_version_is_not_whole),
        TEST(an_address_whose_lengths_lie_is_not_whole),
        TEST(an_address_of_the_second_version_is_whole),
        TEST(a_key_whose_lengths_lie_is_not_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
