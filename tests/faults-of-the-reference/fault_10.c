/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault 10: the reference's blobs have the byte order of the machine and neither version nor checksum, and its decoder
 * adds lengths that come from outside without a look at whether the sum fits.
 */
#include "fault.h"

/* Agent:name is the first field: 11 bytes of prefix, 5 of tag, then its length. */
#define NAME_LENGTH_AT 16

static void every_flipped_bit_of_a_blob_is_noticed(void **state) {
    struct side_of_test a, b;
    struct blob blob;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    blob = blob_of(b.agent);
    for (size_t bit = 0; bit < blob.len * 8; bit++) {
        unsigned char *byte = (unsigned char *)blob.data + bit / 8;

        *byte = (unsigned char)(*byte ^ 1u << bit % 8);
        assert_true(load_blob_into(a.agent, blob) < 0);
        assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
        *byte = (unsigned char)(*byte ^ 1u << bit % 8);
    }
    assert_status(load_blob_into(a.agent, blob), NIXL_SUCCESS);
    free(blob.data);
    side_end(&a);
    side_end(&b);
}

static void a_length_near_the_largest_number_is_refused(void **state) {
    struct side_of_test a, b;
    struct blob blob;

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    /* Also without a checksum, as blobs of the reference are. */
    for (unsigned plain = 0; plain < 2; plain++) {
        blob = plain != 0 ? blob_plain(b.agent, NULL) : blob_of(b.agent);
        for (uint64_t less = 0; less < 64; less++) {
            uint64_t len = UINT64_MAX - less;

            for (unsigned i = 0; i < 8; i++) {
                ((unsigned char *)blob.data)[NAME_LENGTH_AT + i] = (unsigned char)(len >> 8 * i);
            }
            assert_status(load_blob_into(a.agent, blob), NIXL_ERR_MISMATCH);
            assert_error("a field is longer than the bytes that are left");
        }
        free(blob.data);
    }
    side_end(&a);
    side_end(&b);
}

static void numbers_are_written_with_the_lowest_byte_first(void **state) {
    static const char begin[] =
        "nixlSerDes|Agent\1\0\0\0\0\0\0\0B|Conns\10\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0|t\4\0\0\0\0\0\0\0MOCK|c";
    struct side_of_test b;
    struct blob blob;

    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    blob = blob_of(b.agent);
    assert_true(blob.len > sizeof begin);
    assert_memory_equal(blob.data, begin, sizeof begin - 1);
    free(blob.data);
    side_end(&b);
}

static const struct CMUnitTest tests[] = {
    TEST(every_flipped_bit_of_a_blob_is_noticed),
    TEST(a_length_near_the_largest_number_is_refused),
    TEST(numbers_are_written_with_the_lowest_byte_first),
};

FAULT_TESTS(tests)
