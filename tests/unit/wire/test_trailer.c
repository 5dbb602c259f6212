/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trailer: its bytes, what a reader sees in it, and that no damaged blob is taken for a whole one.
 * Trailers are put together by hand here, with a checksum of their own, so that everything behind the
 * checksum is reached too.
 */
#include "support.h"

static struct wire_blob blob;
static struct bytes scratch;

/* RFC 3720: polynomial 0x1EDC6F41, reflected, inverted at both ends. */
static uint32_t crc_bit_by_bit(const uint8_t *data, size_t len) {
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < len * 8; i++) {
        uint32_t bit = (crc ^ (uint32_t)(data[i / 8] >> i % 8)) & 1;

        crc = (crc >> 1) ^ (bit != 0 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void add_digits(struct bytes *out, const void *data, size_t len) {
    char digits[3];

    for (size_t i = 0; i < len; i++) {
        snprintf(digits, sizeof digits, "%02x", ((const uint8_t *)data)[i]);
        add_text(out, digits);
    }
}

static void add_item(struct bytes *items, unsigned id, const void *payload, size_t len) {
    add_le(items, id, 2);
    add_le(items, len, 4);
    add_raw(items, payload, len);
}

static void add_head(struct bytes *items, unsigned version, unsigned kind, uint64_t generation,
                     uint64_t base) {
    struct bytes head = {0};

    add_le(&head, version, 1);
    add_le(&head, kind, 1);
    add_le(&head, 0, 2);
    add_le(&head, 0x1122334455667788, 8);
    add_le(&head, 0x99aabbccddeeff00, 8);
    add_le(&head, generation, 8);
    add_le(&head, base, 8);
    add_item(items, 1, head.data, head.len);
    bytes_free(&head);
}

/* The field around these digits, with the right checksum. */
static void add_trailer_digits(struct bytes *out, const char *digits, size_t len) {
    struct bytes crc = {0};

    add_text(out, "nixlTrailer");
    add_le(out, len + 8 + 16, 8);
    add_raw(out, digits, len);
    add_le(&crc, crc_bit_by_bit(out->data, out->len), 4);
    add_digits(out, crc.data, 4);
    add_text(out, "6e69786c456e6421|");
    bytes_free(&crc);
}

static void add_trailer(struct bytes *out, const struct bytes *items) {
    struct bytes digits = {0};

    add_digits(&digits, items->data, items->len);
    add_trailer_digits(out, (const char *)digits.data, digits.len);
    bytes_free(&digits);
}

static void add_empty_blob(struct bytes *out) {
    add_blob_head(out, "B", 0);
    add_sections_head(out, 0);
}

/* A blob with nothing but these items, opened. */
static nixl_status_t open_items(const struct bytes *items, const char **what) {
    struct bytes in = {0};
    nixl_status_t status;

    add_empty_blob(&in);
    add_trailer(&in, items);
    status = open_copy(in.data, in.len, what);
    bytes_free(&in);
    return status;
}

static void assert_items_refused(struct bytes *items, const char *reason) {
    const char *what;

    assert_int_equal(open_items(items, &what), NIXL_ERR_MISMATCH);
    if (strstr(what, reason) == NULL) {
        fail_msg("refused for \"%s\", not for \"%s\"", what, reason);
    }
    bytes_free(items);
}

/* "123456789" has the checksum that every description of CRC-32C gives. */
static void the_checksum_of_these_tests_is_crc32c(void **state) {
    assert_int_equal(crc_bit_by_bit((const uint8_t *)"123456789", 9), 0xe3069283);
}

static void a_trailer_has_the_documented_bytes(void **state) {
    struct bytes items = {0};
    struct bytes removed = {0};
    struct bytes want = {0};
    struct bytes got = {0};

    write_sample(&want, false);
    add_head(&items, 1, 2, 7, 5);
    add_item(&items, 2, "\3UCX1.22.0", 10);
    add_text(&removed, "\3UCX");
    add_le(&removed, 0, 4);
    add_le(&removed, 0x5000, 8), add_le(&removed, 0x10, 8), add_le(&removed, 0, 8);
    add_le(&removed, 0x6000, 8), add_le(&removed, 0x20, 8), add_le(&removed, 0, 8);
    add_item(&items, 3, removed.data, removed.len);
    bytes_clear(&removed);
    add_text(&removed, "\3UCX");
    add_le(&removed, 1, 4);
    add_le(&removed, 0x7000, 8), add_le(&removed, 0x30, 8), add_le(&removed, 2, 8);
    add_item(&items, 3, removed.data, removed.len);
    add_item(&items, 2, "\4MOCK", 5);
    add_trailer(&want, &items);
    write_sample(&got, true);
    assert_same_bytes(&got, &want);
    bytes_free(&got);
    bytes_free(&want);
    bytes_free(&removed);
    bytes_free(&items);
}

static void everything_written_is_read_back(void **state) {
    struct wire_cursor cursor = {0};
    struct wire_removed gone;
    struct bytes in = {0};
    struct wire_note note;

    write_sample(&in, true);
    assert_int_equal(wire_blob_open(in.data, in.len, &scratch, &blob, NULL), NIXL_SUCCESS);
    assert_view(blob.agent, "agent-one");
    assert_int_equal(blob.conn_count, 2);
    assert_view(blob.conns[1].type, "MOCK");
    assert_view(blob.conns[1].bytes, "m");
    assert_int_equal(blob.section_count, 3);
    assert_view(blob.sections[2].type, "MOCK");
    assert_int_equal(blob.sections[1].list.mem, VRAM_SEG);
    assert_int_equal(blob.sections[0].list.count, 2);
    assert_int_equal(blob.sections[2].list.count, 0);
    assert_true(blob.has_trailer);
    assert_int_equal(blob.trailer.kind, WIRE_BLOB_UPDATE);
    assert_int_equal(blob.trailer.incarnation.boot_ns, 0x1122334455667788);
    assert_int_equal(blob.trailer.incarnation.random, 0x99aabbccddeeff00);
    assert_int_equal(blob.trailer.generation, 7);
    assert_int_equal(blob.trailer.base_generation, 5);
    assert_int_equal(blob.mac_algorithm, WIRE_MAC_NONE);
    assert_int_equal(blob.auth_range.len, 0);

    assert_true(wire_blob_next_note(&blob, &cursor, &note));
    assert_view(note.type, "UCX");
    assert_view(note.bytes, "1.22.0");
    assert_true(wire_blob_next_note(&blob, &cursor, &note));
    assert_view(note.type, "MOCK");
    assert_int_equal(note.bytes.len, 0);
    assert_false(wire_blob_next_note(&blob, &cursor, &note));

    cursor = (struct wire_cursor){0};
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(wire_blob_next_removed(&blob, &cursor, &gone));
        assert_view(gone.type, "UCX");
        assert_int_equal(gone.mem, i == 2 ? VRAM_SEG : DRAM_SEG);
        assert_int_equal(gone.desc.addr, 0x5000 + i * 0x1000);
        assert_int_equal(gone.desc.len, 0x10 + i * 0x10);
        assert_int_equal(gone.desc.dev, i == 2 ? 2 : 0);
    }
    assert_false(wire_blob_next_removed(&blob, &cursor, &gone));
    assert_false(wire_blob_next_removed(&blob, &cursor, &gone));
    bytes_free(&in);
}

/* The seed `update` of tests/fuzz is written by make_wire_seeds.py, a second implementation of the format. */
static void a_blob_of_a_second_implementation_is_read(void **state) {
    struct wire_cursor cursor = {0};
    struct wire_removed gone;
    struct wire_note note;
    uint8_t data[4096];
    char path[4096];
    size_t len;
    FILE *in;

    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/wire_blob/update", getenv("NIXL_TEST_SOURCE"));
    in = fopen(path, "rb");
    assert_non_null(in);
    len = fread(data, 1, sizeof data, in);
    fclose(in);
    assert_int_equal(wire_blob_open(data, len, &scratch, &blob, NULL), NIXL_SUCCESS);
    assert_view(blob.agent, "agent-one");
    assert_int_equal(blob.section_count, 3);
    assert_int_equal(blob.trailer.kind, WIRE_BLOB_UPDATE);
    assert_int_equal(blob.trailer.incarnation.boot_ns, 0x1122334455667788);
    assert_int_equal(blob.trailer.incarnation.random, 42);
    assert_int_equal(blob.trailer.generation, 7);
    assert_int_equal(blob.trailer.base_generation, 5);
    assert_int_equal(blob.mac_algorithm, WIRE_MAC_HMAC_SHA256);
    assert_int_equal(blob.mac.data[31], 31);
    assert_true(wire_blob_next_note(&blob, &cursor, &note));
    assert_view(note.bytes, "1.22.0");
    cursor = (struct wire_cursor){0};
    for (size_t i = 0; i < 2; i++) {
        assert_true(wire_blob_next_removed(&blob, &cursor, &gone));
        assert_int_equal(gone.desc.len, 2);
    }
    assert_false(wire_blob_next_removed(&blob, &cursor, &gone));
}

static void a_blob_without_trailer_has_neither_notes_nor_removals(void **state) {
    struct wire_cursor cursor = {0};
    struct wire_removed gone;
    struct wire_note note;
    struct bytes in = {0};

    write_sample(&in, true);
    assert_int_equal(wire_blob_open(in.data, in.len, &scratch, &blob, NULL), NIXL_SUCCESS);
    bytes_clear(&in);
    add_empty_blob(&in);
    assert_int_equal(wire_blob_open(in.data, in.len, &scratch, &blob, NULL), NIXL_SUCCESS);
    assert_false(blob.has_trailer);
    assert_int_equal(blob.trailer.generation, 0);
    assert_false(wire_blob_next_note(&blob, &cursor, &note));
    assert_false(wire_blob_next_removed(&blob, &cursor, &gone));
    bytes_free(&in);
}

static void every_truncation_is_refused_but_the_one_that_leaves_a_reference_blob(void **state) {
    struct bytes bare = {0};
    struct bytes in = {0};

    write_sample(&bare, false);
    write_sample(&in, true);
    for (size_t len = 0; len < in.len; len++) {
        if (open_copy(in.data, len, NULL) != (len == bare.len ? NIXL_SUCCESS : NIXL_ERR_MISMATCH)) {
            fail_msg("cut after %zu of %zu bytes", len, in.len);
        }
    }
    bytes_free(&bare);
    bytes_free(&in);
}

static void a_trailer_cut_and_filled_up_with_zeros_is_refused_too(void **state) {
    struct bytes bare = {0};
    struct bytes in = {0};
    uint8_t *padded;

    write_sample(&bare, false);
    write_sample(&in, true);
    padded = calloc(1, in.len);
    for (size_t len = bare.len + 1; len < in.len; len++) {
        memcpy(padded, in.data, len);
        if (open_copy(padded, in.len, NULL) != NIXL_ERR_MISMATCH) {
            fail_msg("zeros after %zu of %zu bytes", len, in.len);
        }
    }
    free(padded);
    bytes_free(&bare);
    bytes_free(&in);
}

static void every_flipped_bit_is_refused(void **state) {
    struct bytes in = {0};

    write_sample(&in, true);
    for (size_t bit = 0; bit < in.len * 8; bit++) {
        in.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (open_copy(in.data, in.len, NULL) != NIXL_ERR_MISMATCH) {
            fail_msg("bit %zu of byte %zu of %zu", bit % 8, bit / 8, in.len);
        }
        in.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(open_copy(in.data, in.len, NULL), NIXL_SUCCESS);
    bytes_free(&in);
}

/* The last row's length, damaged, may end anywhere in the trailer: what is left has no tag any more. */
static void a_damaged_length_that_swallows_the_trailer_is_refused(void **state) {
    struct bytes items = {0};
    struct bytes in = {0};
    size_t len_at;

    add_blob_head(&in, "B", 0);
    add_sections_head(&in, 1);
    add_section_head(&in, "UCX", DRAM_SEG, 1);
    len_at = in.len;
    add_row(&in, 1, 2, 3, NULL, 0);
    add_head(&items, 1, 0, 1, 0);
    add_trailer(&in, &items);
    for (size_t len = 25; len_at + 8 + len < in.len; len++) {
        in.data[len_at] = (uint8_t)len;
        in.data[len_at + 1] = (uint8_t)(len >> 8);
        assert_int_equal(open_copy(in.data, in.len, NULL), NIXL_ERR_MISMATCH);
    }
    bytes_free(&items);
    bytes_free(&in);
}

static void padding_with_zeros_is_taken(void **state) {
    static const uint8_t zeros[4096] = {0};
    struct bytes in = {0};

    write_sample(&in, true);
    add_raw(&in, zeros, sizeof zeros);
    assert_int_equal(wire_blob_open(in.data, in.len, &scratch, &blob, NULL), NIXL_SUCCESS);
    assert_true(blob.has_trailer);
    bytes_clear(&in);
    write_sample(&in, false);
    add_raw(&in, zeros, sizeof zeros);
    assert_int_equal(wire_blob_open(in.data, in.len, &scratch, &blob, NULL), NIXL_SUCCESS);
    assert_false(blob.has_trailer);
    bytes_free(&in);
}

static void other_bytes_behind_a_trailer_are_refused(void **state) {
    static const char *const tails[] = {"x", "|", "\n", "nixlTrailer", "0"};

    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        struct bytes in = {0};

        write_sample(&in, true);
        add_text(&in, tails[i]);
        assert_refused(&in, "does not end where it should");
        bytes_free(&in);
    }
}

static void what_looks_like_a_damaged_trailer_is_refused(void **state) {
    static const char *const tails[] = {"n",
                                        "nixl",
                                        "nixlTraile",
                                        "nixlTrailer",
                                        "?nixlTrailer",
                                        "junk nixlTrailer junk",
                                        "6e69786c456e6421|",
                                        "nixlTrailes 6e69786c456e6421|"};

    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        struct bytes in = {0};

        add_empty_blob(&in);
        add_text(&in, tails[i]);
        assert_int_equal(open_copy(in.data, in.len, NULL), NIXL_ERR_MISMATCH);
        bytes_free(&in);
    }
}

static void no_note_brings_a_command_into_the_blob(void **state) {
    static const struct wire_trailer trailer = {.kind = WIRE_BLOB_FULL};
    struct wire_blob_writer writer;
    struct bytes out = {0};

    wire_blob_begin(&writer, &out, "B", 1);
    wire_blob_trailer(&writer, &trailer);
    wire_blob_note(&writer, "UCX", "NIXLCOMM:INVLB", 14);
    assert_int_equal(wire_blob_end(&writer), NIXL_SUCCESS);
    assert_null(memmem(out.data, out.len, "NIXLCOMM:", 9));
    bytes_free(&out);
}

static void items_and_head_fields_of_later_versions_are_skipped(void **state) {
    struct wire_cursor cursor = {0};
    struct bytes items = {0};
    struct bytes in = {0};
    struct wire_note note;

    add_head(&items, 1, 1, 9, 0);
    items.data[2] += 4; /* four bytes more in the head */
    add_text(&items, "more");
    add_item(&items, 5, "unknown", 7);
    add_item(&items, 0xffff, NULL, 0);
    add_item(&items, 2, "\1Xnote", 6);
    add_empty_blob(&in);
    add_trailer(&in, &items);
    assert_int_equal(wire_blob_open(in.data, in.len, &scratch, &blob, NULL), NIXL_SUCCESS);
    assert_int_equal(blob.trailer.kind, WIRE_BLOB_PARTIAL);
    assert_int_equal(blob.trailer.generation, 9);
    assert_true(wire_blob_next_note(&blob, &cursor, &note));
    assert_view(note.type, "X");
    assert_view(note.bytes, "note");
    assert_false(wire_blob_next_note(&blob, &cursor, &note));
    bytes_free(&items);
    bytes_free(&in);
}

static void a_newer_version_is_not_supported(void **state) {
    struct bytes items = {0};
    const char *what;

    add_head(&items, 2, 0, 1, 0);
    assert_int_equal(open_items(&items, &what), NIXL_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(what, "newer version"));
    bytes_clear(&items);
    add_item(&items, 1, "\xff", 1); /* its head may be anything */
    assert_int_equal(open_items(&items, &what), NIXL_ERR_NOT_SUPPORTED);
    bytes_free(&items);
}

static void a_wrong_head_is_refused(void **state) {
    struct bytes items = {0};

    assert_items_refused(&items, "does not begin with a head");
    add_item(&items, 2, "\1X", 2);
    assert_items_refused(&items, "does not begin with a head");
    add_item(&items, 1, NULL, 0);
    assert_items_refused(&items, "no version");
    add_head(&items, 0, 0, 1, 0);
    assert_items_refused(&items, "no version");
    add_head(&items, 1, 0, 1, 0);
    items.data[2] -= 1;
    items.len -= 1;
    assert_items_refused(&items, "too short");
    add_head(&items, 1, 3, 1, 0);
    assert_items_refused(&items, "unknown kind");
    add_head(&items, 1, 2, 4, 5);
    assert_items_refused(&items, "base generation");
    add_head(&items, 1, 0, 1, 0);
    add_head(&items, 1, 0, 1, 0);
    assert_items_refused(&items, "two heads");
}

static void items_that_do_not_fit_are_refused(void **state) {
    static const size_t lengths[] = {1, 5, UINT32_MAX, UINT32_MAX - 6};
    struct bytes items = {0};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        add_head(&items, 1, 0, 1, 0);
        add_le(&items, 7, 2);
        add_le(&items, lengths[i], 4);
        assert_items_refused(&items, "longer than the trailer");
    }
    for (size_t len = 1; len < 6; len++) {
        add_head(&items, 1, 0, 1, 0);
        add_raw(&items, "\7\0\0\0\0", len);
        assert_items_refused(&items, "longer than the trailer");
    }
}

static void a_malformed_note_is_refused(void **state) {
    static const char *const notes[] = {"", "\0x", "\5UCX", "\1"};
    static const size_t lengths[] = {0, 2, 4, 1};

    for (size_t i = 0; i < 4; i++) {
        struct bytes items = {0};

        add_head(&items, 1, 0, 1, 0);
        add_item(&items, 2, notes[i], lengths[i]);
        assert_items_refused(&items, "note");
    }
}

static void malformed_removals_are_refused(void **state) {
    static const struct {
        const char *payload;
        size_t len;
    } wrong[] = {
        {"", 0},              /* no type */
        {"\3UCX", 4},         /* no kind */
        {"\3UCX\0\0\0", 7},   /* a kind of three bytes */
        {"\3UCX\5\0\0\0", 8}, /* a kind that does not exist */
        {"\3UCX\0\0\0\1", 8}, /* the same, far away */
        {"\3UCX\0\0\0\0"
         "12345678901234567890123",
         31}, /* 23 bytes */
        {"\3UCX\0\0\0\0"
         "1234567890123456789012345",
         33}, /* 25 bytes */
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct bytes items = {0};

        add_head(&items, 1, 2, 1, 0);
        add_item(&items, 3, wrong[i].payload, wrong[i].len);
        assert_items_refused(&items, "removed regions");
    }
}

static void a_blob_that_is_no_update_removes_nothing(void **state) {
    for (unsigned kind = 0; kind < 2; kind++) {
        struct bytes items = {0};

        add_head(&items, 1, kind, 1, 0);
        add_item(&items, 3, "\3UCX\0\0\0\0", 8);
        assert_items_refused(&items, "no update");
    }
}

static void an_empty_list_of_removals_is_passed_over(void **state) {
    struct wire_cursor cursor = {0};
    struct wire_removed gone;
    struct bytes items = {0};
    struct bytes in = {0};

    add_head(&items, 1, 2, 1, 0);
    add_item(&items, 3, "\3UCX\0\0\0\0", 8);
    add_item(&items, 3,
             "\1M\4\0\0\0"
             "AAAAAAAABBBBBBBBCCCCCCCC",
             30);
    add_empty_blob(&in);
    add_trailer(&in, &items);
    assert_int_equal(wire_blob_open(in.data, in.len, &scratch, &blob, NULL), NIXL_SUCCESS);
    assert_true(wire_blob_next_removed(&blob, &cursor, &gone));
    assert_view(gone.type, "M");
    assert_int_equal(gone.mem, FILE_SEG);
    assert_int_equal(gone.desc.len, 0x4242424242424242);
    assert_false(wire_blob_next_removed(&blob, &cursor, &gone));
    bytes_free(&items);
    bytes_free(&in);
}

static void digits_that_are_none_are_refused(void **state) {
    struct bytes in = {0};

    add_empty_blob(&in);
    add_trailer_digits(&in, "0g", 2);
    assert_refused(&in, "not hexadecimal");
    bytes_clear(&in);
    add_empty_blob(&in);
    add_trailer_digits(&in, "012", 3);
    assert_refused(&in, "impossible length");
    bytes_clear(&in);
    add_empty_blob(&in);
    add_text_field(&in, "nixlTrailer", "1234566e69786c456e6421");
    assert_refused(&in, "impossible length");
    bytes_clear(&in);
    add_empty_blob(&in);
    add_text_field(&in, "nixlTrailer", "12345678ffffffffffffffff");
    assert_refused(&in, "end mark");
    bytes_clear(&in);
    add_empty_blob(&in);
    add_text_field(&in, "nixlTrailer", "123456786e69786c456e6421");
    assert_refused(&in, "checksum");
    bytes_free(&in);
}

static void write_with_mac(struct bytes *out, struct wire_blob_writer *writer, size_t name_len) {
    static const struct wire_trailer full = {.kind = WIRE_BLOB_FULL, .generation = 3};

    wire_blob_begin(writer, out, "agent", name_len);
    wire_blob_trailer(writer, &full);
    wire_blob_note(writer, "UCX", "1.22.0", 6);
    wire_blob_mac(writer, WIRE_MAC_HMAC_SHA256, WIRE_HMAC_SHA256_LEN);
    assert_int_equal(wire_blob_end(writer), NIXL_SUCCESS);
}

static void a_mac_covers_everything_before_its_own_digits(void **state) {
    struct wire_blob_writer writer;
    struct bytes_view range;
    struct bytes out = {0};
    uint8_t mac[32];

    add_text(&out, "kept");
    write_with_mac(&out, &writer, 5);
    range = wire_blob_auth_range(&writer);
    /* Behind the range: 64 digits of the mac, 8 of the crc, 16 of the end mark, the bar. */
    assert_ptr_equal(range.data, out.data + 4);
    assert_int_equal(range.len, out.len - 4 - 64 - 8 - 16 - 1);
    assert_memory_equal(range.data + range.len - 14, "04002100000001",
                        14); /* item 4, 33 bytes, algorithm 1 */
    assert_int_equal(open_copy(out.data + 4, out.len - 4, NULL), NIXL_ERR_MISMATCH); /* not sealed */
    for (unsigned i = 0; i < 32; i++) {
        mac[i] = (uint8_t)(200 + i);
    }
    wire_blob_seal(&writer, mac);
    assert_int_equal(wire_blob_open(out.data + 4, out.len - 4, &scratch, &blob, NULL), NIXL_SUCCESS);
    assert_int_equal(blob.mac_algorithm, WIRE_MAC_HMAC_SHA256);
    assert_int_equal(blob.mac.len, 32);
    assert_memory_equal(blob.mac.data, mac, 32);
    assert_ptr_equal(blob.auth_range.data, range.data);
    assert_int_equal(blob.auth_range.len, range.len);
    bytes_free(&out);
}

static void every_flipped_bit_of_a_blob_with_a_mac_is_refused(void **state) {
    struct wire_blob_writer writer;
    struct bytes out = {0};

    write_with_mac(&out, &writer, 4);
    wire_blob_seal(&writer, "0123456789abcdef0123456789abcdef");
    assert_int_equal(open_copy(out.data, out.len, NULL), NIXL_SUCCESS);
    for (size_t bit = 0; bit < out.len * 8; bit++) {
        out.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(open_copy(out.data, out.len, NULL), NIXL_ERR_MISMATCH);
        out.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    bytes_free(&out);
}

static void a_malformed_mac_is_refused(void **state) {
    static const struct {
        const char *payload;
        size_t len;
    } wrong[] = {{"", 0}, {"\1", 1}, {"\2", 1}, {"\0x", 2}, {"\1short", 6}};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct bytes items = {0};

        add_head(&items, 1, 0, 1, 0);
        add_item(&items, 4, wrong[i].payload, wrong[i].len);
        assert_items_refused(&items, "authentication code is malformed");
    }
}

static void nothing_may_follow_a_mac(void **state) {
    struct bytes items = {0};

    add_head(&items, 1, 0, 1, 0);
    add_item(&items, 4, "\2x", 2);
    add_item(&items, 9, NULL, 0);
    assert_items_refused(&items, "behind the authentication code");
}

static void a_mac_of_an_unknown_algorithm_is_shown(void **state) {
    struct bytes items = {0};
    struct bytes in = {0};

    add_head(&items, 1, 0, 1, 0);
    add_item(&items, 4, "\7abc", 4);
    add_empty_blob(&in);
    add_trailer(&in, &items);
    assert_int_equal(wire_blob_open(in.data, in.len, &scratch, &blob, NULL), NIXL_SUCCESS);
    assert_int_equal(blob.mac_algorithm, 7);
    assert_view(blob.mac, "abc");
    assert_int_equal(blob.auth_range.len, in.len - 6 - 8 - 16 - 1);
    bytes_free(&items);
    bytes_free(&in);
}

static void ten_thousand_removals_share_one_item(void **state) {
    static const struct wire_trailer update = {.kind = WIRE_BLOB_UPDATE, .generation = 1};
    struct wire_cursor cursor = {0};
    struct wire_blob_writer writer;
    struct wire_removed gone;
    struct bytes out = {0};

    wire_blob_begin(&writer, &out, "B", 1);
    wire_blob_trailer(&writer, &update);
    for (uint64_t i = 0; i < 10000; i++) {
        wire_blob_removed(&writer, "UCX", DRAM_SEG, i, i + 1, i + 2);
    }
    assert_int_equal(wire_blob_end(&writer), NIXL_SUCCESS);
    assert_int_equal(wire_blob_open(out.data, out.len, &scratch, &blob, NULL), NIXL_SUCCESS);
    assert_int_equal(blob.items.len, 6 + 36 + 6 + 4 + 4 + 10000 * 24);
    for (uint64_t i = 0; i < 10000; i++) {
        assert_true(wire_blob_next_removed(&blob, &cursor, &gone));
        assert_int_equal(gone.desc.addr, i);
        assert_int_equal(gone.desc.len, i + 1);
        assert_int_equal(gone.desc.dev, i + 2);
    }
    assert_false(wire_blob_next_removed(&blob, &cursor, &gone));
    bytes_free(&out);
}

static int free_scratch(void **state) {
    bytes_free(&scratch);
    return 0;
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checksum_of_these_tests_is_crc32c),
        cmocka_unit_test(a_trailer_has_the_documented_bytes),
        cmocka_unit_test(everything_written_is_read_back),
        cmocka_unit_test(a_blob_of_a_second_implementation_is_read),
        cmocka_unit_test(a_blob_without_trailer_has_neither_notes_nor_removals),
        cmocka_unit_test(every_truncation_is_refused_but_the_one_that_leaves_a_reference_blob),
        cmocka_unit_test(a_trailer_cut_and_filled_up_with_zeros_is_refused_too),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(a_damaged_length_that_swallows_the_trailer_is_refused),
        cmocka_unit_test(padding_with_zeros_is_taken),
        cmocka_unit_test(other_bytes_behind_a_trailer_are_refused),
        cmocka_unit_test(what_looks_like_a_damaged_trailer_is_refused),
        cmocka_unit_test(no_note_brings_a_command_into_the_blob),
        cmocka_unit_test(items_and_head_fields_of_later_versions_are_skipped),
        cmocka_unit_test(a_newer_version_is_not_supported),
        cmocka_unit_test(a_wrong_head_is_refused),
        cmocka_unit_test(items_that_do_not_fit_are_refused),
        cmocka_unit_test(a_malformed_note_is_refused),
        cmocka_unit_test(malformed_removals_are_refused),
        cmocka_unit_test(a_blob_that_is_no_update_removes_nothing),
        cmocka_unit_test(an_empty_list_of_removals_is_passed_over),
        cmocka_unit_test(digits_that_are_none_are_refused),
        cmocka_unit_test(a_mac_covers_everything_before_its_own_digits),
        cmocka_unit_test(every_flipped_bit_of_a_blob_with_a_mac_is_refused),
        cmocka_unit_test(a_malformed_mac_is_refused),
        cmocka_unit_test(nothing_may_follow_a_mac),
        cmocka_unit_test(a_mac_of_an_unknown_algorithm_is_shown),
        cmocka_unit_test(ten_thousand_removals_share_one_item),
    };

    return cmocka_run_group_tests(tests, NULL, free_scratch);
}
