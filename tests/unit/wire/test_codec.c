/* SPDX-License-Identifier: Apache-2.0 */
/* Tagged fields: what is written, what is accepted, what is refused and where. */
#include "support.h"

#include "wire/codec.h"

static struct wire_error error;

static struct wire_reader reader_of(const void *data, size_t len) {
    error = (struct wire_error){0};
    return (struct wire_reader){.data = data, .len = len, .error = &error};
}

static void a_field_is_tag_length_payload_and_bar(void **state) {
    static const char want[] = "ab\3\0\0\0\0\0\0\0xyz|";
    struct bytes out = {0};

    assert_true(wire_append_field(&out, "ab", 2, "xyz", 3));
    assert_int_equal(out.len, sizeof want - 1);
    assert_memory_equal(out.data, want, out.len);
    bytes_free(&out);
}

static void a_count_is_eight_little_endian_bytes(void **state) {
    static const char want[] = "n\10\0\0\0\0\0\0\0\10\7\6\5\4\3\2\1|";
    struct bytes out = {0};

    assert_true(wire_append_u64_field(&out, "n", 1, 0x0102030405060708));
    assert_int_equal(out.len, sizeof want - 1);
    assert_memory_equal(out.data, want, out.len);
    bytes_free(&out);
}

static void a_field_that_cannot_fit_in_memory_is_not_written(void **state) {
    struct bytes out = {0};

    assert_false(wire_append_field(&out, "ab", 2, "x", SIZE_MAX - 5));
    assert_false(wire_append_field(&out, "ab", 2, "x", SIZE_MAX / 2));
    assert_int_equal(out.len, 0);
    bytes_free(&out);
}

static void numbers_are_read_and_written_at_any_alignment(void **state) {
    uint8_t buffer[32] = {0};

    for (size_t i = 0; i < 8; i++) {
        wire_put_u16(buffer + i, 0x1234);
        assert_int_equal(buffer[i], 0x34);
        assert_int_equal(buffer[i + 1], 0x12);
        assert_int_equal(wire_get_u16(buffer + i), 0x1234);
        wire_put_u32(buffer + i, 0x12345678);
        assert_int_equal(buffer[i], 0x78);
        assert_int_equal(wire_get_u32(buffer + i), 0x12345678);
        wire_put_u64(buffer + i, 0x1122334455667788);
        assert_int_equal(buffer[i], 0x88);
        assert_int_equal(buffer[i + 7], 0x11);
        assert_int_equal(wire_get_u64(buffer + i), 0x1122334455667788);
    }
}

static void the_prefix_must_be_whole_and_right(void **state) {
    struct wire_reader reader = reader_of("nixlSerDes", 10);

    assert_false(wire_read_prefix(&reader));
    assert_non_null(strstr(error.what, "nixlSerDes|"));
    reader = reader_of("nixlSerDes/", 11);
    assert_false(wire_read_prefix(&reader));
    reader = reader_of(NULL, 0);
    assert_false(wire_read_prefix(&reader));
    reader = reader_of("nixlSerDes|", 11);
    assert_true(wire_read_prefix(&reader));
    assert_int_equal(wire_left(&reader), 0);
}

static void fields_are_read_in_their_order_only(void **state) {
    struct bytes in = {0};
    struct bytes_view payload;
    struct wire_reader reader;

    add_text_field(&in, "t", "UCX");
    add_text_field(&in, "c", "");
    reader = reader_of(in.data, in.len);
    assert_false(wire_read_field(&reader, "c", 1, "no c", &payload));
    assert_string_equal(error.what, "no c");
    assert_int_equal(error.offset, 0);
    assert_true(wire_read_field(&reader, "t", 1, "no t", &payload));
    assert_view(payload, "UCX");
    assert_true(wire_read_field(&reader, "c", 1, "no c", &payload));
    assert_int_equal(payload.len, 0);
    assert_false(wire_read_field(&reader, "d", 1, "no d", &payload));
    assert_int_equal(error.offset, in.len);
    bytes_free(&in);
}

static void the_closing_byte_may_be_any_but_must_be_there(void **state) {
    static const char other[] = "t\1\0\0\0\0\0\0\0xZ";
    struct bytes_view payload;
    struct wire_reader reader = reader_of(other, sizeof other - 1);

    assert_true(wire_read_field(&reader, "t", 1, "no t", &payload));
    assert_view(payload, "x");
    reader = reader_of(other, sizeof other - 2);
    assert_false(wire_read_field(&reader, "t", 1, "no t", &payload));
    assert_non_null(strstr(error.what, "longer than the bytes"));
    reader = reader_of(other, 5);
    assert_false(wire_read_field(&reader, "t", 1, "no t", &payload));
    assert_non_null(strstr(error.what, "ends inside a field"));
}

static void a_length_that_wraps_around_is_refused(void **state) {
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 9, UINT64_MAX - 10, INT64_MAX, 2};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct bytes in = {0};
        struct bytes_view payload;
        struct wire_reader reader;

        add_text(&in, "t");
        add_le(&in, lengths[i], 8);
        add_text(&in, "x|");
        reader = reader_of(in.data, in.len);
        assert_false(wire_read_field(&reader, "t", 1, "no t", &payload));
        assert_int_equal(reader.at, 0);
        bytes_free(&in);
    }
}

static void an_empty_text_and_a_count_of_another_size_are_refused_where_they_begin(void **state) {
    struct bytes in = {0};
    struct bytes_view payload;
    struct wire_reader reader;
    uint64_t count;

    add_text_field(&in, "t", "");
    reader = reader_of(in.data, in.len);
    assert_false(wire_read_text(&reader, "t", 1, "t is empty", &payload));
    assert_string_equal(error.what, "t is empty");
    assert_int_equal(error.offset, 0);
    bytes_clear(&in);
    add_text_field(&in, "n", "1234567");
    reader = reader_of(in.data, in.len);
    assert_false(wire_read_count(&reader, "n", 1, "n is odd", &count));
    assert_string_equal(error.what, "n is odd");
    assert_int_equal(error.offset, 0);
    bytes_free(&in);
}

static void a_reader_without_an_error_to_fill_only_refuses(void **state) {
    struct wire_reader reader = {.data = (const uint8_t *)"x", .len = 1};

    assert_false(wire_read_prefix(&reader));
}

static void a_view_is_compared_with_all_of_its_bytes(void **state) {
    assert_true(wire_view_is(bytes_view("UCXY", 3), "UCX"));
    assert_false(wire_view_is(bytes_view("UCXY", 4), "UCX"));
    assert_false(wire_view_is(bytes_view("UCX", 3), "UCXY"));
    assert_false(wire_view_is(bytes_view("UCX\0", 4), "UCX"));
    assert_true(wire_view_is(bytes_view(NULL, 0), ""));
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_is_tag_length_payload_and_bar),
        cmocka_unit_test(a_count_is_eight_little_endian_bytes),
        cmocka_unit_test(a_field_that_cannot_fit_in_memory_is_not_written),
        cmocka_unit_test(numbers_are_read_and_written_at_any_alignment),
        cmocka_unit_test(the_prefix_must_be_whole_and_right),
        cmocka_unit_test(fields_are_read_in_their_order_only),
        cmocka_unit_test(the_closing_byte_may_be_any_but_must_be_there),
        cmocka_unit_test(a_length_that_wraps_around_is_refused),
        cmocka_unit_test(an_empty_text_and_a_count_of_another_size_are_refused_where_they_begin),
        cmocka_unit_test(a_reader_without_an_error_to_fill_only_refuses),
        cmocka_unit_test(a_view_is_compared_with_all_of_its_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
