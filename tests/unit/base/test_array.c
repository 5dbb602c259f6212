/* SPDX-License-Identifier: Apache-2.0 */
/* Growth of arrays and byte buffers. */
#include "support.h"

#include "base/array.h"
#include "base/bytes.h"

static void array_grows_and_keeps_its_items(void **state) {
    uint32_t *items = NULL;
    size_t cap = 0;

    for (uint32_t i = 0; i < 10000; i++) {
        assert_true(array_reserve(&items, &cap, i + 1, sizeof *items));
        assert_true(cap > i);
        items[i] = i * 7;
    }
    for (uint32_t i = 0; i < 10000; i++) {
        assert_int_equal(items[i], i * 7);
    }
    free(items);
}

static void array_growth_is_geometric(void **state) {
    char *items = NULL;
    size_t cap = 0;
    size_t grown = 0;

    for (size_t i = 0; i < 100000; i++) {
        size_t before = cap;

        assert_true(array_reserve(&items, &cap, i + 1, 1));
        grown += before != cap ? 1 : 0;
    }
    assert_true(grown < 30); /* log 100000/8 to base 1.5 is 23.3 */
    free(items);
}

static void array_that_cannot_fit_is_left_as_it_was(void **state) {
    uint64_t *items = NULL;
    size_t cap = 0;
    uint64_t *before;

    assert_true(array_reserve(&items, &cap, 3, sizeof *items));
    before = items;
    items[2] = 42;
    assert_false(array_reserve(&items, &cap, SIZE_MAX / 8 + 1, sizeof *items));  /* product overflows */
    assert_false(array_reserve(&items, &cap, SIZE_MAX / 16 + 1, sizeof *items)); /* over PTRDIFF_MAX */
    assert_ptr_equal(items, before);
    assert_int_equal(cap, 8);
    assert_int_equal(items[2], 42);
    free(items);
}

static void sizes_that_overflow_are_told(void **state) {
    size_t out = 5;

    assert_false(size_add(SIZE_MAX, 1, &out));
    assert_true(size_add(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_false(size_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_true(size_mul(6, 7, &out));
    assert_int_equal(out, 42);
    assert_null(array_alloc(SIZE_MAX / 4, 8));
}

static void array_copy_of_nothing_is_a_block(void **state) {
    void *copy = array_copy(NULL, 0, 8);

    assert_non_null(copy);
    free(copy);
}

static void bytes_append_in_order(void **state) {
    struct bytes b = {0};
    uint8_t *hole;

    assert_true(bytes_append(&b, NULL, 0));
    assert_true(bytes_append_text(&b, "ab"));
    assert_true(bytes_append_byte(&b, 'c'));
    hole = bytes_extend(&b, 3);
    assert_non_null(hole);
    hole[1] = 'x';
    assert_true(bytes_append(&b, "d", 1));
    assert_int_equal(b.len, 7);
    assert_memory_equal(b.data, "abc\0x\0d", 7);
    assert_true(bytes_view_equal(bytes_view_of(&b), bytes_view("abc\0x\0d", 7)));
    assert_false(bytes_view_equal(bytes_view_of(&b), bytes_view("abc", 3)));
    bytes_clear(&b);
    assert_int_equal(b.len, 0);
    assert_true(bytes_view_equal(bytes_view_of(&b), bytes_view(NULL, 0)));
    bytes_free(&b);
    assert_null(b.data);
}

static void bytes_extend_clears_what_was_there_before(void **state) {
    struct bytes b = {0};
    uint8_t *hole;

    assert_true(bytes_append(&b, "\xff\xff\xff\xff", 4));
    bytes_clear(&b);
    hole = bytes_extend(&b, 4);
    assert_memory_equal(hole, "\0\0\0\0", 4);
    bytes_free(&b);
}

static void bytes_refuse_a_length_that_does_not_fit(void **state) {
    struct bytes b = {0};

    assert_true(bytes_append(&b, "abc", 3));
    assert_false(bytes_reserve(&b, SIZE_MAX - 1));
    assert_false(bytes_reserve(&b, SIZE_MAX / 2 + 1));
    assert_int_equal(b.len, 3);
    assert_memory_equal(b.data, "abc", 3);
    bytes_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(array_grows_and_keeps_its_items),           TEST(array_growth_is_geometric),
        TEST(array_that_cannot_fit_is_left_as_it_was),   TEST(sizes_that_overflow_are_told),
        TEST(array_copy_of_nothing_is_a_block),          TEST(bytes_append_in_order),
        TEST(bytes_extend_clears_what_was_there_before), TEST(bytes_refuse_a_length_that_does_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
