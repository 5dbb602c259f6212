/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of every form as a sequence of blocks, and what is refused in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/internal.h"

#include <string.h>

#define ALL_FORMS 0xfu

static void refused(const struct nixl_list *list, uint32_t forms, const char *words, size_t index) {
    size_t blocks;
    uint64_t bytes;

    assert_int_equal(list_check(list, forms, false, "list", &blocks, &bytes), NIXL_ERR_INVALID_PARAM);
    if (strstr(error_text(), words) == NULL) {
        print_error("no \"%s\" in \"%s\"\n", words, error_text());
    }
    assert_non_null(strstr(error_text(), words));
    assert_int_equal(error_index(), index);
}

static void plain_list_is_summed_up(void **state) {
    struct nixl_desc descs[] = {{100, 10, 0}, {200, 0, 1}, {50, 7, 2}};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 3);
    size_t blocks;
    uint64_t bytes;

    assert_int_equal(list_check(&list, ALL_FORMS, false, "list", &blocks, &bytes), NIXL_SUCCESS);
    assert_int_equal(blocks, 3);
    assert_int_equal(bytes, 17);
}

static void strided_item_counts_as_its_blocks(void **state) {
    struct nixl_strided_desc items[] = {{1000, 8, 3, 64, 3}, {5000, 4, 4, 0, 1}};
    struct nixl_list list = NIXL_LIST_STRIDED(DRAM_SEG, items, 2);
    static const uint64_t addrs[] = {1000, 1064, 1128, 5000};
    struct list_reader reader;
    struct nixl_desc desc;
    size_t blocks;
    uint64_t bytes;

    assert_int_equal(list_check(&list, ALL_FORMS, false, "list", &blocks, &bytes), NIXL_SUCCESS);
    assert_int_equal(blocks, 4);
    assert_int_equal(bytes, 28);
    list_begin(&reader, &list);
    for (int i = 0; i < 4; i++) {
        assert_true(list_next(&reader, &desc));
        assert_int_equal(desc.addr, addrs[i]);
        assert_int_equal(desc.len, i < 3 ? 8 : 4);
        assert_int_equal(desc.dev, i < 3 ? 3 : 4);
    }
    assert_false(list_next(&reader, &desc));
    assert_false(list_next(&reader, &desc));
}

static void items_may_be_further_apart_and_unaligned(void **state) {
    unsigned char memory[3 * 37 + 1];
    struct nixl_list list = NIXL_LIST(DRAM_SEG, memory + 1, 3);
    struct list_reader reader;
    struct nixl_desc desc;

    for (uint64_t i = 0; i < 3; i++) {
        desc = (struct nixl_desc){i * 1000, i + 1, i};
        memcpy(memory + 1 + i * 37, &desc, sizeof desc);
    }
    list.item_bytes = 37;
    list_begin(&reader, &list);
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(list_next(&reader, &desc));
        assert_int_equal(desc.addr, i * 1000);
        assert_int_equal(desc.len, i + 1);
    }
    assert_false(list_next(&reader, &desc));
}

static void metadata_comes_with_its_block_and_none_with_other_forms(void **state) {
    struct nixl_meta_desc items[] = {{0, 10, 1, "abc", 3}, {0, 20, 2, NULL, 0}};
    struct nixl_list list = NIXL_LIST_META(FILE_SEG, items, 2);
    struct nixl_desc plain = {7, 8, 9};
    struct nixl_list other = NIXL_LIST(FILE_SEG, &plain, 1);
    struct list_reader reader;
    struct nixl_meta_desc desc;

    list_begin(&reader, &list);
    assert_true(list_next_meta(&reader, &desc));
    assert_int_equal(desc.meta_len, 3);
    assert_memory_equal(desc.meta, "abc", 3);
    assert_true(list_next_meta(&reader, &desc));
    assert_int_equal(desc.len, 20);
    assert_int_equal(desc.meta_len, 0);
    assert_false(list_next_meta(&reader, &desc));
    list_begin(&reader, &other);
    assert_true(list_next_meta(&reader, &desc));
    assert_int_equal(desc.addr, 7);
    assert_null(desc.meta);
}

static void malformed_heads_are_refused_in_words(void **state) {
    struct nixl_desc desc = {0, 1, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    refused(NULL, ALL_FORMS, "NULL", NIXL_NO_INDEX);
    list.size = 8;
    refused(&list, ALL_FORMS, "size is 8", NIXL_NO_INDEX);
    list = (struct nixl_list)NIXL_LIST((nixl_mem_t)5, &desc, 1);
    refused(&list, ALL_FORMS, "5 is no memory kind", NIXL_NO_INDEX);
    list = (struct nixl_list)NIXL_LIST(DRAM_SEG, &desc, 1);
    list.form = 4;
    refused(&list, ALL_FORMS, "4 is no form", NIXL_NO_INDEX);
    list.form = NIXL_FORM_META;
    refused(&list, 1u << NIXL_FORM_PLAIN, "with metadata", NIXL_NO_INDEX);
    list = (struct nixl_list)NIXL_LIST(DRAM_SEG, NULL, 1);
    refused(&list, ALL_FORMS, "1 descriptors at NULL", NIXL_NO_INDEX);
    list = (struct nixl_list)NIXL_LIST(DRAM_SEG, &desc, 1);
    list.item_bytes = 23;
    refused(&list, ALL_FORMS, "items of 23 bytes", NIXL_NO_INDEX);
    list = (struct nixl_list)NIXL_LIST(DRAM_SEG, &desc, 0);
    refused(&list, ALL_FORMS, "no descriptors", NIXL_NO_INDEX);
    list.count = (size_t)INT32_MAX + 1;
    refused(&list, ALL_FORMS, "more than 2147483647", NIXL_NO_INDEX);
}

static void empty_list_passes_where_it_may_be_empty(void **state) {
    struct nixl_list list = NIXL_LIST(DRAM_SEG, NULL, 0);
    size_t blocks = 9;
    uint64_t bytes = 9;

    assert_int_equal(list_check(&list, ALL_FORMS, true, "list", &blocks, &bytes), NIXL_SUCCESS);
    assert_int_equal(blocks, 0);
    assert_int_equal(bytes, 0);
}

static void block_that_wraps_around_is_refused_by_index(void **state) {
    struct nixl_desc descs[] = {{100, 10, 0}, {UINT64_MAX - 9, 10, 0}, {UINT64_MAX - 9, 9, 0}};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 2);
    struct nixl_strided_desc strided = {UINT64_MAX / 2, 8, 0, UINT64_MAX / 4, 4};
    struct nixl_list other = NIXL_LIST_STRIDED(DRAM_SEG, &strided, 1);
    size_t blocks;
    uint64_t bytes;

    refused(&list, ALL_FORMS, "descriptor 1 (addr 0xfffffffffffffff6, 10 bytes, dev 0) wraps around", 1);
    descs[1] = descs[2];
    assert_int_equal(list_check(&list, ALL_FORMS, false, "list", &blocks, &bytes), NIXL_SUCCESS);
    refused(&other, ALL_FORMS, "beyond the end of the address space", 0);
    strided = (struct nixl_strided_desc){0, 8, 0, UINT64_MAX, 3};
    refused(&other, ALL_FORMS, "beyond the end of the address space", 0);
}

static void storage_to_its_end_does_not_count_as_wrapping(void **state) {
    struct nixl_desc desc = {4096, UINT64_MAX, 0};
    struct nixl_list list = NIXL_LIST(FILE_SEG, &desc, 1);
    size_t blocks;

    assert_int_equal(list_check(&list, ALL_FORMS, false, "list", &blocks, NULL), NIXL_SUCCESS);
    list.mem = DRAM_SEG;
    refused(&list, ALL_FORMS, "wraps around", 0);
}

static void strided_item_of_no_blocks_or_of_too_many_is_refused(void **state) {
    struct nixl_strided_desc items[] = {{0, 1, 0, 1, 1}, {0, 1, 0, 1, 0}};
    struct nixl_list list = NIXL_LIST_STRIDED(DRAM_SEG, items, 2);

    refused(&list, ALL_FORMS, "repeats 0 times", 1);
    items[1].count = INT32_MAX;
    refused(&list, ALL_FORMS, "more than 2147483647 blocks", 1);
}

static void lengths_that_sum_up_beyond_64_bits_are_refused(void **state) {
    struct nixl_desc descs[] = {{0, UINT64_MAX - 1, 0}, {0, UINT64_MAX - 1, 0}};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, 2);

    refused(&list, ALL_FORMS, "more than 2^64 bytes", NIXL_NO_INDEX);
}

static void metadata_length_without_metadata_is_refused(void **state) {
    struct nixl_meta_desc items[] = {{0, 10, 1, "a", 1}, {0, 10, 1, NULL, 5}};
    struct nixl_list list = NIXL_LIST_META(FILE_SEG, items, 2);

    refused(&list, ALL_FORMS, "metadata length without metadata", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_list_is_summed_up),
        cmocka_unit_test(strided_item_counts_as_its_blocks),
        cmocka_unit_test(items_may_be_further_apart_and_unaligned),
        cmocka_unit_test(metadata_comes_with_its_block_and_none_with_other_forms),
        cmocka_unit_test(malformed_heads_are_refused_in_words),
        cmocka_unit_test(empty_list_passes_where_it_may_be_empty),
        cmocka_unit_test(block_that_wraps_around_is_refused_by_index),
        cmocka_unit_test(storage_to_its_end_does_not_count_as_wrapping),
        cmocka_unit_test(strided_item_of_no_blocks_or_of_too_many_is_refused),
        cmocka_unit_test(lengths_that_sum_up_beyond_64_bits_are_refused),
        cmocka_unit_test(metadata_length_without_metadata_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
