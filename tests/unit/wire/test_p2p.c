/* SPDX-License-Identifier: Apache-2.0 */
/* The commands in a frame, by the reference's own frames and by arithmetic on bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/p2p.h"

#include "base/text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static struct bytes_view text_view(const char *text) {
    return bytes_view(text, strlen(text));
}

static void assert_item(struct bytes_view *rest, enum wire_p2p_command command, struct bytes_view arg) {
    struct wire_p2p_item item;

    assert_true(wire_p2p_next(rest, &item));
    assert_int_equal(item.command, command);
    assert_int_equal(item.arg.len, arg.len);
    assert_memory_equal(item.arg.data, arg.data, arg.len);
}

/* A blob of agent "B" with one connection of these bytes and no section. */
static void blob_make(struct bytes *out, const char *conn) {
    struct wire_blob_writer writer;

    wire_blob_begin(&writer, out, "B", 1);
    wire_blob_conn(&writer, "FAKE", conn, strlen(conn));
    assert_int_equal(wire_blob_end(&writer), NIXL_SUCCESS);
}

static void frames_of_the_reference_are_read(void **state) {
    char path[4096];
    json_t *root;
    json_t *frames;
    const enum wire_p2p_command expected[] = {WIRE_P2P_LOAD, WIRE_P2P_SEND, WIRE_P2P_INVALIDATE};

    snprintf(path, sizeof path, "%s/tests/vectors/reference-1.4.0-more.json", getenv("NIXL_TEST_SOURCE"));
    root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    frames = json_object_get(root, "p2p_frames");
    assert_int_equal(json_array_size(frames), 3);
    for (size_t i = 0; i < 3; i++) {
        const char *hex = json_string_value(json_array_get(frames, i));
        size_t len = strlen(hex) / 2;
        uint8_t *frame = malloc(len);
        struct bytes_view rest;
        struct wire_p2p_item item;
        struct bytes again = {0};

        assert_non_null(frame);
        assert_true(text_hex_decode(frame, hex, 2 * len));
        assert_int_equal(wire_p2p_size(frame), len - WIRE_P2P_SIZE_LEN);
        rest = bytes_view(frame + WIRE_P2P_SIZE_LEN, len - WIRE_P2P_SIZE_LEN);
        assert_true(wire_p2p_next(&rest, &item));
        assert_int_equal(item.command, expected[i]);
        assert_int_equal(rest.len, 0);
        assert_true(wire_p2p_command_append(&again, item.command, item.arg.data, item.arg.len));
        assert_int_equal(again.len, len - WIRE_P2P_SIZE_LEN);
        assert_memory_equal(again.data, frame + WIRE_P2P_SIZE_LEN, again.len);
        if (i == 2) {
            assert_int_equal(item.arg.len, 9);
            assert_memory_equal(item.arg.data, "vec-agent", 9);
        }
        bytes_free(&again);
        free(frame);
    }
    json_decref(root);
}

static void several_commands_in_one_frame_are_taken_one_by_one(void **state) {
    struct bytes_view rest = text_view("NIXLCOMM:SENDNIXLCOMM:INVLpeer oneNIXLCOMM:SEND");

    assert_item(&rest, WIRE_P2P_SEND, text_view(""));
    assert_item(&rest, WIRE_P2P_INVALIDATE, text_view("peer one"));
    assert_item(&rest, WIRE_P2P_SEND, text_view(""));
    assert_int_equal(rest.len, 0);
}

static void the_command_word_inside_a_blob_is_no_command(void **state) {
    struct bytes blob = {0};
    struct bytes frame = {0};
    struct bytes_view rest;

    blob_make(&blob, "xNIXLCOMM:INVLvictimNIXLCOMM:SEND");
    assert_true(wire_p2p_command_append(&frame, WIRE_P2P_LOAD, blob.data, blob.len));
    assert_true(wire_p2p_command_append(&frame, WIRE_P2P_INVALIDATE, "C", 1));
    rest = bytes_view_of(&frame);
    assert_item(&rest, WIRE_P2P_LOAD, bytes_view_of(&blob));
    assert_item(&rest, WIRE_P2P_INVALIDATE, text_view("C"));
    assert_int_equal(rest.len, 0);
    bytes_free(&blob);
    bytes_free(&frame);
}

static void a_broken_blob_ends_at_the_next_command(void **state) {
    struct bytes_view rest = text_view("NIXLCOMM:LOADnixlSerDes|AgentNIXLCOMM:SEND");

    assert_item(&rest, WIRE_P2P_LOAD, text_view("nixlSerDes|Agent"));
    assert_item(&rest, WIRE_P2P_SEND, text_view(""));
    rest = text_view("NIXLCOMM:LOAD");
    assert_item(&rest, WIRE_P2P_LOAD, text_view(""));
}

static void an_unknown_command_is_told_apart_and_what_is_none_is_refused(void **state) {
    struct bytes_view rest = text_view("NIXLCOMM:WHATeverNIXLCOMM:SEND");
    struct wire_p2p_item item;

    assert_item(&rest, WIRE_P2P_UNKNOWN, text_view("ever"));
    assert_item(&rest, WIRE_P2P_SEND, text_view(""));
    rest = text_view("NIXLCOMM:SEN");
    assert_false(wire_p2p_next(&rest, &item));
    assert_int_equal(rest.len, 12);
    rest = text_view("GET / HTTP/1.1\r\n\r\n");
    assert_false(wire_p2p_next(&rest, &item));
}

/* A blob with a connection and a section, cut after each of its bytes, and another command behind. */
static void a_blob_cut_anywhere_ends_where_the_next_command_begins(void **state) {
    struct wire_blob_writer writer;
    struct bytes blob = {0};
    struct bytes frame = {0};

    wire_blob_begin(&writer, &blob, "B", 1);
    wire_blob_conn(&writer, "FAKE", "conn", 4);
    wire_blob_section(&writer, "FAKE", DRAM_SEG, 0, 0);
    wire_blob_desc(&writer, 4096, 512, 3, "key", 3);
    assert_int_equal(wire_blob_end(&writer), NIXL_SUCCESS);
    for (size_t cut = 1; cut <= blob.len; cut++) {
        struct wire_p2p_item item;
        struct bytes_view rest;

        frame.len = 0;
        assert_true(wire_p2p_command_append(&frame, WIRE_P2P_LOAD, blob.data, cut));
        assert_true(wire_p2p_command_append(&frame, WIRE_P2P_SEND, NULL, 0));
        rest = bytes_view(frame.data, frame.len);
        /* A cut within the last field's bytes cannot be told from bytes of a command's look: those are the blob's. */
        assert_true(wire_p2p_next(&rest, &item));
        assert_int_equal(item.command, WIRE_P2P_LOAD);
        if (item.arg.len != cut) {
            assert_true(cut > blob.len / 2 && cut < blob.len);
            assert_int_equal(item.arg.len, cut + WIRE_P2P_COMMAND_LEN);
        } else {
            assert_item(&rest, WIRE_P2P_SEND, bytes_view(frame.data, 0));
        }
        assert_int_equal(rest.len, 0);
    }
    bytes_free(&blob);
    bytes_free(&frame);
}

static void the_word_with_unknown_letters_does_not_end_a_broken_blob(void **state) {
    struct bytes_view rest = text_view("NIXLCOMM:LOADxxNIXLCOMM:WHATyyNIXLCOMM:SEND");

    assert_item(&rest, WIRE_P2P_LOAD, text_view("xxNIXLCOMM:WHATyy"));
    assert_item(&rest, WIRE_P2P_SEND, text_view(""));
}

static void what_is_no_command_or_too_long_is_not_appended(void **state) {
    struct bytes out = {0};

    assert_false(wire_p2p_command_append(&out, WIRE_P2P_UNKNOWN, "x", 1));
    assert_false(wire_p2p_command_append(&out, WIRE_P2P_LOAD, "x", SIZE_MAX));
    assert_int_equal(out.len, 0);
}

static void what_is_sealed_stays_whole(void **state) {
    struct bytes_view rest = text_view("NIXLCOMM:SEALmacmacNIXLCOMM:SEND");

    assert_item(&rest, WIRE_P2P_SEALED, text_view("macmacNIXLCOMM:SEND"));
    assert_int_equal(rest.len, 0);
}

static void sizes_are_little_endian(void **state) {
    const uint8_t bytes[8] = {0x0d, 0x01, 0, 0, 0, 0, 0, 0x80};
    uint8_t again[8];

    assert_int_equal(wire_p2p_size(bytes), UINT64_C(0x800000000000010d));
    wire_p2p_size_put(again, UINT64_C(0x800000000000010d));
    assert_memory_equal(again, bytes, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_the_reference_are_read),
        cmocka_unit_test(several_commands_in_one_frame_are_taken_one_by_one),
        cmocka_unit_test(the_command_word_inside_a_blob_is_no_command),
        cmocka_unit_test(a_broken_blob_ends_at_the_next_command),
        cmocka_unit_test(an_unknown_command_is_told_apart_and_what_is_none_is_refused),
        cmocka_unit_test(a_blob_cut_anywhere_ends_where_the_next_command_begins),
        cmocka_unit_test(the_word_with_unknown_letters_does_not_end_a_broken_blob),
        cmocka_unit_test(what_is_no_command_or_too_long_is_not_appended),
        cmocka_unit_test(what_is_sealed_stays_whole),
        cmocka_unit_test(sizes_are_little_endian),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
