/* SPDX-License-Identifier: Apache-2.0 */
/* Serialized descriptor lists: the reference's vectors byte for byte, and lists that lie. */
#include "support.h"

static nixl_status_t decode_copy(const struct bytes *in, struct wire_list *list, const char **what) {
    uint8_t *copy = exact_copy(in->data, in->len);
    struct wire_error error = {0};
    nixl_status_t status = wire_list_decode(copy, in->len, list, &error);

    *what = status != NIXL_SUCCESS ? error.what : "";
    assert_true(error.offset <= in->len);
    free(copy);
    return status;
}

static void assert_list_refused(const struct bytes *in, const char *reason) {
    struct wire_list list = {.count = 77};
    const char *what;

    assert_int_equal(decode_copy(in, &list, &what), NIXL_ERR_MISMATCH);
    assert_int_equal(list.count, 77);
    if (strstr(what, reason) == NULL) {
        fail_msg("refused for \"%s\", not for \"%s\"", what, reason);
    }
}

static void start_list(struct bytes *out, const char *form, uint32_t kind, uint64_t count) {
    add_text(out, "nixlSerDes|");
    add_text_field(out, "nixlDList", form);
    add_kind_field(out, kind);
    add_count_field(out, "n", count);
}

/* Decodes the vector and compares it with what stands beside it, then encodes that and compares the bytes. */
static void check_vector(const json_t *vector, bool has_meta) {
    nixl_mem_t mem = (nixl_mem_t)json_integer_value(json_object_get(vector, "mem"));
    const json_t *descs = json_object_get(vector, "descs");
    struct bytes want = json_bytes(json_object_get(vector, "bytes"));
    size_t count = json_array_size(descs);
    struct nixl_meta_desc items[8];
    struct bytes got = {0};
    struct wire_list list;
    struct wire_list_iter iter;
    struct wire_desc desc;

    assert_int_equal(wire_list_decode(want.data, want.len, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(list.mem, mem);
    assert_int_equal(list.has_meta, has_meta);
    assert_int_equal(list.count, count);
    wire_list_begin(&list, &iter);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(descs, i);
        const char *meta = has_meta ? json_string_value(json_array_get(row, 3)) : "";

        assert_true(wire_list_next(&iter, &desc));
        assert_int_equal(desc.addr, json_u64(json_array_get(row, 0)));
        assert_int_equal(desc.len, json_u64(json_array_get(row, 1)));
        assert_int_equal(desc.dev, json_u64(json_array_get(row, 2)));
        assert_view(desc.meta, meta);
        items[i] = (struct nixl_meta_desc){
            .addr = desc.addr, .len = desc.len, .dev = desc.dev, .meta = meta, .meta_len = strlen(meta)};
    }
    assert_false(wire_list_next(&iter, &desc));
    if (has_meta) {
        assert_int_equal(wire_list_encode_meta(&got, mem, items, sizeof items[0], count), NIXL_SUCCESS);
    } else {
        assert_int_equal(wire_list_encode_plain(&got, mem, items, sizeof items[0], count), NIXL_SUCCESS);
    }
    assert_same_bytes(&got, &want);
    bytes_free(&got);
    bytes_free(&want);
}

static void the_references_plain_lists_come_back_byte_for_byte(void **state) {
    json_t *root = load_vectors("reference-1.4.0.json");

    check_vector(json_object_get(root, "xfer_list"), false);
    check_vector(json_object_get(root, "xfer_list_empty"), false);
    json_decref(root);
}

static void the_references_lists_with_metadata_come_back_byte_for_byte(void **state) {
    json_t *root = load_vectors("reference-1.4.0.json");

    check_vector(json_object_get(root, "reg_list"), true);
    check_vector(json_object_get(root, "reg_list_obj"), true);
    json_decref(root);
}

static void the_state_of_a_pickled_python_list_is_read(void **state) {
    json_t *root = load_vectors("reference-1.4.0-more.json");
    struct bytes pickle = json_bytes(json_object_get(json_object_get(root, "pickle_xfer_list"), "bytes"));
    const uint8_t *at = memmem(pickle.data, pickle.len, "nixlSerDes|", 11);
    struct nixl_desc desc;
    struct wire_list list;

    assert_non_null(at);
    /* 104 bytes of text in the pickle; what follows them belongs to the pickle. */
    assert_int_equal(wire_list_decode(at, 104, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(list.mem, DRAM_SEG);
    assert_int_equal(list.count, 1);
    wire_list_copy(&list, &desc);
    assert_int_equal(desc.addr, 4096);
    assert_int_equal(desc.len, 16);
    assert_int_equal(desc.dev, 0);
    bytes_free(&pickle);
    json_decref(root);
}

static void lists_of_every_kind_and_stride_round_trip(void **state) {
    struct wide {
        struct nixl_desc desc;
        char other[13];
    } __attribute__((packed)) items[5];
    struct nixl_desc back[5];

    for (unsigned i = 0; i < 5; i++) {
        items[i].desc = (struct nixl_desc){.addr = i * 1000 + 1, .len = i, .dev = UINT64_MAX - i};
    }
    for (unsigned kind = 0; kind < NIXL_MEM_KINDS; kind++) {
        struct bytes out = {0};
        struct wire_list list;

        assert_int_equal(wire_list_encode_plain(&out, (nixl_mem_t)kind, items, sizeof items[0], 5),
                         NIXL_SUCCESS);
        assert_int_equal(wire_list_decode(out.data, out.len, &list, NULL), NIXL_SUCCESS);
        assert_int_equal(list.mem, kind);
        assert_int_equal(list.count, 5);
        wire_list_copy(&list, back);
        for (unsigned i = 0; i < 5; i++) {
            assert_int_equal(back[i].addr, i * 1000 + 1);
            assert_int_equal(back[i].len, i);
            assert_int_equal(back[i].dev, UINT64_MAX - i);
        }
        bytes_free(&out);
    }
}

static void an_encoded_list_is_added_behind_what_is_there(void **state) {
    static const struct nixl_desc desc = {1, 2, 3};
    struct bytes out = {0};
    struct wire_list list;

    add_text(&out, "before");
    assert_int_equal(wire_list_encode_plain(&out, DRAM_SEG, &desc, sizeof desc, 1), NIXL_SUCCESS);
    assert_memory_equal(out.data, "before", 6);
    assert_int_equal(wire_list_decode(out.data + 6, out.len - 6, &list, NULL), NIXL_SUCCESS);
    bytes_free(&out);
}

static void wrong_arguments_are_refused_and_leave_the_buffer(void **state) {
    struct nixl_meta_desc item = {.meta = NULL, .meta_len = 4};
    struct bytes out = {0};

    add_text(&out, "kept");
    assert_int_equal(wire_list_encode_plain(&out, (nixl_mem_t)5, NULL, 24, 0), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(wire_list_encode_plain(&out, (nixl_mem_t)-1, NULL, 24, 0), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(wire_list_encode_plain(&out, DRAM_SEG, &item, 23, 1), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(wire_list_encode_plain(&out, DRAM_SEG, &item, 24, SIZE_MAX / 24 + 1),
                     NIXL_ERR_INVALID_PARAM);
    assert_int_equal(wire_list_encode_plain(&out, DRAM_SEG, &item, 24, SIZE_MAX / 24),
                     NIXL_ERR_INVALID_PARAM);
    assert_int_equal(wire_list_encode_plain(&out, DRAM_SEG, &item, 24, SIZE_MAX / 48), NIXL_ERR_UNKNOWN);
    assert_int_equal(wire_list_encode_meta(&out, (nixl_mem_t)5, &item, sizeof item, 0),
                     NIXL_ERR_INVALID_PARAM);
    assert_int_equal(wire_list_encode_meta(&out, DRAM_SEG, &item, sizeof item - 1, 1),
                     NIXL_ERR_INVALID_PARAM);
    assert_int_equal(wire_list_encode_meta(&out, DRAM_SEG, &item, sizeof item, SIZE_MAX / 33 + 1),
                     NIXL_ERR_INVALID_PARAM);
    assert_int_equal(wire_list_encode_meta(&out, DRAM_SEG, &item, sizeof item, 1), NIXL_ERR_INVALID_PARAM);
    item.meta = "";
    item.meta_len = SIZE_MAX - 10;
    assert_int_equal(wire_list_encode_meta(&out, DRAM_SEG, &item, sizeof item, 1), NIXL_ERR_INVALID_PARAM);
    item.meta_len = SIZE_MAX / 2;
    assert_int_equal(wire_list_encode_meta(&out, DRAM_SEG, &item, sizeof item, 1), NIXL_ERR_UNKNOWN);
    assert_int_equal(out.len, 4);
    assert_memory_equal(out.data, "kept", 4);
    bytes_free(&out);
}

static void every_truncation_is_refused(void **state) {
    static const struct nixl_meta_desc items[2] = {{1, 2, 3, "meta", 4}, {4, 5, 6, NULL, 0}};
    struct bytes lists[2] = {{0}};

    assert_int_equal(wire_list_encode_plain(&lists[0], DRAM_SEG, items, sizeof items[0], 2), NIXL_SUCCESS);
    assert_int_equal(wire_list_encode_meta(&lists[1], FILE_SEG, items, sizeof items[0], 2), NIXL_SUCCESS);
    for (size_t i = 0; i < 2; i++) {
        size_t whole = lists[i].len;

        for (lists[i].len = 0; lists[i].len < whole; lists[i].len++) {
            assert_list_refused(&lists[i], "");
        }
        bytes_free(&lists[i]);
    }
}

/* Damage may leave a valid list (an address changed) but never one that reads outside: ASan is the judge. */
static void no_flipped_bit_makes_a_list_read_outside(void **state) {
    static const struct nixl_meta_desc items[2] = {{1, 2, 3, "meta", 4}, {4, 5, 6, NULL, 0}};
    struct bytes lists[2] = {{0}};

    assert_int_equal(wire_list_encode_plain(&lists[0], DRAM_SEG, items, sizeof items[0], 2), NIXL_SUCCESS);
    assert_int_equal(wire_list_encode_meta(&lists[1], FILE_SEG, items, sizeof items[0], 2), NIXL_SUCCESS);
    for (size_t i = 0; i < 2; i++) {
        for (size_t bit = 0; bit < lists[i].len * 8; bit++) {
            uint8_t *copy = exact_copy(lists[i].data, lists[i].len);
            struct wire_list list;

            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (wire_list_decode(copy, lists[i].len, &list, NULL) == NIXL_SUCCESS) {
                struct wire_list_iter iter;
                struct wire_desc desc;
                size_t rows = 0;

                wire_list_begin(&list, &iter);
                while (wire_list_next(&iter, &desc)) {
                    assert_true(desc.meta.data + desc.meta.len <= copy + lists[i].len);
                    rows++;
                }
                assert_int_equal(rows, list.count);
                assert_in_range(rows, 0, 2);
            }
            free(copy);
        }
        bytes_free(&lists[i]);
    }
}

static void a_count_beyond_the_bytes_is_refused_at_once(void **state) {
    /* 2^64 / 24 * 24 and 2^64 / 33 * 33 wrap around to small numbers. */
    static const uint64_t counts[] = {2, 1000000, UINT64_MAX, UINT64_MAX / 24 + 1, UINT64_MAX / 33 + 1};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct bytes in = {0};

        start_list(&in, "nixlBDList", 0, counts[i]);
        add_field(&in, "", "123456789012345678901234", 24);
        assert_list_refused(&in, "more descriptors than");
        bytes_clear(&in);
        start_list(&in, "nixlSDList", 0, counts[i]);
        add_row(&in, 1, 2, 3, "x", 1);
        assert_list_refused(&in, "more descriptors than");
        bytes_free(&in);
    }
}

static void a_plain_body_of_another_size_is_refused(void **state) {
    static const char body[49] = {0};
    static const size_t sizes[] = {0, 23, 25, 24, 49};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct bytes in = {0};

        start_list(&in, "nixlBDList", 0, 2);
        add_field(&in, "", body, sizes[i]);
        add_raw(&in, body, sizeof body);
        assert_list_refused(&in, "do not fit its count");
        bytes_free(&in);
    }
}

static void a_row_shorter_than_its_numbers_or_longer_than_the_bytes_is_refused(void **state) {
    struct bytes in = {0};

    start_list(&in, "nixlSDList", 0, 1);
    add_field(&in, "", "12345678901234567890123", 23);
    add_text(&in, "more");
    assert_list_refused(&in, "shorter than its 24 bytes");
    bytes_clear(&in);
    start_list(&in, "nixlSDList", 0, 1);
    add_le(&in, UINT64_MAX, 8);
    add_text(&in, "1234567890123456789012345");
    assert_list_refused(&in, "longer than the bytes");
    bytes_clear(&in);
    start_list(&in, "nixlSDList", 0, 2);
    add_row(&in, 1, 2, 3, "a blob that uses up the bytes of the next", 41);
    add_text(&in, "end");
    assert_list_refused(&in, "ends inside a list");
    bytes_free(&in);
}

static void a_memory_kind_that_does_not_exist_is_refused(void **state) {
    static const uint32_t kinds[] = {5, 6, 255, 256, UINT32_MAX};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct bytes in = {0};

        start_list(&in, "nixlBDList", kinds[i], 0);
        assert_list_refused(&in, "kind does not exist");
        bytes_free(&in);
    }
}

/* The reference writes the kind with 4 bytes and every other number with 8. */
static void a_memory_kind_of_eight_bytes_is_refused(void **state) {
    struct bytes in = {0};

    add_text(&in, "nixlSerDes|");
    add_text_field(&in, "nixlDList", "nixlBDList");
    add_count_field(&in, "t", 0);
    add_count_field(&in, "n", 0);
    assert_list_refused(&in, "kind does not exist");
    bytes_free(&in);
}

static void a_list_of_another_form_or_without_its_fields_is_refused(void **state) {
    struct bytes in = {0};

    add_text(&in, "nixlSerDes|");
    assert_list_refused(&in, "a descriptor list is missing");
    bytes_clear(&in);
    start_list(&in, "nixlXDList", 0, 0);
    assert_list_refused(&in, "unknown form");
    bytes_clear(&in);
    add_text(&in, "nixlSerDes|");
    add_text_field(&in, "nixlDList", "nixlSDList");
    add_count_field(&in, "n", 0);
    assert_list_refused(&in, "kind is missing");
    bytes_clear(&in);
    add_text(&in, "nixlSerDes|");
    add_text_field(&in, "nixlDList", "nixlSDList");
    add_kind_field(&in, 0);
    add_kind_field(&in, 0);
    assert_list_refused(&in, "count is missing");
    bytes_clear(&in);
    add_text(&in, "nixlSerDos|");
    assert_list_refused(&in, "does not begin with");
    bytes_free(&in);
}

static void bytes_behind_a_list_are_ignored(void **state) {
    struct bytes in = {0};
    struct wire_list list;

    start_list(&in, "nixlBDList", 2, 0);
    add_text(&in, "garbage");
    assert_int_equal(wire_list_decode(in.data, in.len, &list, NULL), NIXL_SUCCESS);
    assert_int_equal(list.mem, BLK_SEG);
    assert_int_equal(list.count, 0);
    bytes_free(&in);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_references_plain_lists_come_back_byte_for_byte),
        cmocka_unit_test(the_references_lists_with_metadata_come_back_byte_for_byte),
        cmocka_unit_test(the_state_of_a_pickled_python_list_is_read),
        cmocka_unit_test(lists_of_every_kind_and_stride_round_trip),
        cmocka_unit_test(an_encoded_list_is_added_behind_what_is_there),
        cmocka_unit_test(wrong_arguments_are_refused_and_leave_the_buffer),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(no_flipped_bit_makes_a_list_read_outside),
        cmocka_unit_test(a_count_beyond_the_bytes_is_refused_at_once),
        cmocka_unit_test(a_plain_body_of_another_size_is_refused),
        cmocka_unit_test(a_row_shorter_than_its_numbers_or_longer_than_the_bytes_is_refused),
        cmocka_unit_test(a_memory_kind_that_does_not_exist_is_refused),
        cmocka_unit_test(a_memory_kind_of_eight_bytes_is_refused),
        cmocka_unit_test(a_list_of_another_form_or_without_its_fields_is_refused),
        cmocka_unit_test(bytes_behind_a_list_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
