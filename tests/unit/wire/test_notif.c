/* SPDX-License-Identifier: Apache-2.0 */
/* Notification messages: the reference's bytes, any message, hostile input. */
#include "support.h"

static void a_notification_has_the_references_bytes(void **state) {
    static const char want[] = "nixlSerDes|"
                               "name\1\0\0\0\0\0\0\0A|"
                               "msg\2\0\0\0\0\0\0\0hi|";
    uint8_t got[64];

    assert_int_equal(wire_notif_size(1, 2), sizeof want - 1);
    assert_int_equal(wire_notif_encode(got, "A", 1, "hi", 2), sizeof want - 1);
    assert_memory_equal(got, want, sizeof want - 1);
}

static void any_message_comes_back(void **state) {
    static const size_t lengths[] = {0, 1, 9, 255, 65536, 1 << 20};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        size_t size = wire_notif_size(6, lengths[i]);
        uint8_t *msg = malloc(lengths[i] + 1);
        uint8_t *buffer = malloc(size);
        struct wire_notif notif;

        for (size_t b = 0; b < lengths[i]; b++) {
            msg[b] = (uint8_t)(b * 7);
        }
        assert_int_equal(wire_notif_encode(buffer, "sender", 6, msg, lengths[i]), size);
        assert_int_equal(wire_notif_decode(buffer, size, &notif, NULL), NIXL_SUCCESS);
        assert_view(notif.name, "sender");
        assert_int_equal(notif.msg.len, lengths[i]);
        assert_memory_equal(notif.msg.data, msg, lengths[i]);
        free(buffer);
        free(msg);
    }
}

static void a_missing_message_pointer_is_an_empty_message(void **state) {
    uint8_t buffer[64];
    struct wire_notif notif;
    size_t size = wire_notif_encode(buffer, "a", 1, NULL, 0);

    assert_int_equal(wire_notif_decode(buffer, size, &notif, NULL), NIXL_SUCCESS);
    assert_int_equal(notif.msg.len, 0);
}

static void wrong_lengths_give_no_size_and_write_nothing(void **state) {
    uint8_t buffer[4] = {1, 2, 3, 4};
    static const uint8_t same[4] = {1, 2, 3, 4};

    assert_int_equal(wire_notif_size(0, 5), 0);
    assert_int_equal(wire_notif_size(SIZE_MAX, 1), 0);
    assert_int_equal(wire_notif_size(1, SIZE_MAX - 20), 0);
    assert_int_equal(wire_notif_encode(buffer, "", 0, "x", 1), 0);
    assert_int_equal(wire_notif_encode(buffer, "a", 1, "x", SIZE_MAX), 0);
    assert_memory_equal(buffer, same, 4);
}

static void every_truncation_is_refused(void **state) {
    uint8_t buffer[64];
    size_t size = wire_notif_encode(buffer, "agent", 5, "message", 7);

    for (size_t len = 0; len < size; len++) {
        uint8_t *cut = exact_copy(buffer, len);
        struct wire_error error = {0};
        struct wire_notif notif;

        assert_int_equal(wire_notif_decode(cut, len, &notif, &error), NIXL_ERR_MISMATCH);
        assert_non_null(error.what);
        assert_true(error.offset <= len);
        free(cut);
    }
}

static void bytes_behind_the_message_are_ignored(void **state) {
    uint8_t buffer[64] = {0};
    struct wire_notif notif;
    size_t size = wire_notif_encode(buffer, "agent", 5, "message", 7);

    assert_int_equal(wire_notif_decode(buffer, size + 3, &notif, NULL), NIXL_SUCCESS);
    assert_view(notif.msg, "message");
}

static void refuse(const char *name, size_t name_len, const char *second_tag, const char *reason) {
    struct wire_notif notif = {.msg = {NULL, 77}};
    struct wire_error error = {0};
    struct bytes in = {0};

    add_text(&in, "nixlSerDes|");
    add_field(&in, "name", name, name_len);
    add_text_field(&in, second_tag, "m");
    assert_int_equal(wire_notif_decode(in.data, in.len, &notif, &error), NIXL_ERR_MISMATCH);
    assert_non_null(strstr(error.what, reason));
    assert_int_equal(notif.msg.len, 77);
    bytes_free(&in);
}

static void a_sender_without_a_proper_name_is_refused(void **state) {
    refuse("", 0, "msg", "name is missing");
    refuse("a\0b", 3, "msg", "NUL");
}

static void a_message_under_another_tag_is_refused(void **state) {
    refuse("a", 1, "mgs", "message is missing");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_notification_has_the_references_bytes),
        cmocka_unit_test(any_message_comes_back),
        cmocka_unit_test(a_missing_message_pointer_is_an_empty_message),
        cmocka_unit_test(wrong_lengths_give_no_size_and_write_nothing),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(bytes_behind_the_message_are_ignored),
        cmocka_unit_test(a_sender_without_a_proper_name_is_refused),
        cmocka_unit_test(a_message_under_another_tag_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
