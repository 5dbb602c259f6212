/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing an agent's metadata blob, straight onto the caller's buffer. Counts and lengths are written as
 * zeros and filled in when what they count is complete. The first failure sticks: later calls do nothing,
 * wire_blob_end() reports it. Reading is in agent_blob.c.
 */
#include "wire/codec.h"
#include "wire/trailer.h"

#include "base/text.h"

/* Where the writer is. The order is that of the blob. */
enum {
    IN_CONNS,
    IN_SECTIONS, /* between the header and the trailer; a section is open when row_count_at is set */
    IN_TRAILER,
    BEHIND_MAC,
    ENDED,
};

static void fail(struct wire_blob_writer *writer, nixl_status_t status, const char *what) {
    if (writer->status == NIXL_SUCCESS) {
        writer->status = status;
        writer->what = what;
    }
}

static void no_memory(struct wire_blob_writer *writer) {
    fail(writer, NIXL_ERR_UNKNOWN, "there is no memory to write the metadata");
}

/* True when the writer still works and is where a call needs it. */
static bool is_ready(struct wire_blob_writer *writer, bool in_place) {
    if (writer->status != NIXL_SUCCESS) {
        return false;
    }
    if (!in_place) {
        fail(writer, NIXL_ERR_INVALID_PARAM, "the parts of the metadata came out of order");
    }
    return in_place;
}

static bool is_type(struct wire_blob_writer *writer, const char *type) {
    size_t len = type != NULL ? strnlen(type, sizeof writer->removed_type) : 0;

    if (len == 0 || len == sizeof writer->removed_type) {
        fail(writer, NIXL_ERR_INVALID_PARAM, "a backend's type must have 1 to 255 characters");
        return false;
    }
    return true;
}

static void put_field(struct wire_blob_writer *writer, const char *tag, size_t tag_len, const void *data,
                      size_t len) {
    if (writer->status == NIXL_SUCCESS && !wire_append_field(writer->out, tag, tag_len, data, len)) {
        no_memory(writer);
    }
}

/* A count that is filled in later: returns where it stands. */
static size_t put_count(struct wire_blob_writer *writer, const char *tag, size_t tag_len) {
    size_t at = writer->out->len + tag_len + sizeof(uint64_t);

    put_field(writer, tag, tag_len, &(uint64_t){0}, sizeof(uint64_t));
    return at;
}

static void fill_count(struct wire_blob_writer *writer, size_t at, size_t count) {
    wire_put_u64(writer->out->data + at, count);
}

void wire_blob_begin(struct wire_blob_writer *writer, struct bytes *out, const char *name, size_t name_len) {
    *writer = (struct wire_blob_writer){.out = out, .start = out->len, .state = IN_CONNS};
    if (name_len == 0 || memchr(name, 0, name_len) != NULL) {
        fail(writer, NIXL_ERR_INVALID_PARAM, "an agent's name must not be empty or contain a NUL byte");
        return;
    }
    if (!bytes_append(out, WIRE_PREFIX, WIRE_PREFIX_LEN)) {
        no_memory(writer);
        return;
    }
    put_field(writer, WIRE_TAG("Agent"), name, name_len);
    writer->conn_count_at = put_count(writer, WIRE_TAG("Conns"));
}

void wire_blob_conn(struct wire_blob_writer *writer, const char *type, const void *conn, size_t conn_len) {
    if (!is_ready(writer, writer->state == IN_CONNS) || !is_type(writer, type)) {
        return;
    }
    if (conn_len == 0 || writer->conns == WIRE_BLOB_CONNS) {
        fail(writer, NIXL_ERR_INVALID_PARAM,
             conn_len == 0 ? "a backend's connection bytes are empty" : "there are too many connections");
        return;
    }
    put_field(writer, WIRE_TAG("t"), type, strlen(type));
    put_field(writer, WIRE_TAG("c"), conn, conn_len);
    writer->conns++;
}

/* Leaves the connections, if the writer is still there, and closes the open section. */
static void finish_section(struct wire_blob_writer *writer) {
    if (writer->state == IN_CONNS) {
        fill_count(writer, writer->conn_count_at, writer->conns);
        put_field(writer, NULL, 0, WIRE_TAG("MemSection"));
        writer->section_count_at = put_count(writer, WIRE_TAG("nixlSecElms"));
        writer->state = IN_SECTIONS;
    } else if (writer->row_count_at != 0) {
        fill_count(writer, writer->row_count_at, writer->rows);
        writer->row_count_at = 0;
    }
}

void wire_blob_section(struct wire_blob_writer *writer, const char *type, nixl_mem_t mem, size_t expected,
                       size_t meta_len) {
    uint8_t kind[sizeof(uint32_t)];
    size_t room;

    if (!is_ready(writer, writer->state <= IN_SECTIONS) || !is_type(writer, type)) {
        return;
    }
    if (!wire_mem_is_kind((uint32_t)mem) || writer->sections == WIRE_BLOB_SECTIONS) {
        fail(writer, NIXL_ERR_INVALID_PARAM,
             writer->sections == WIRE_BLOB_SECTIONS ? "there are too many sections"
                                                    : "a section's memory kind does not exist");
        return;
    }
    finish_section(writer);
    put_field(writer, WIRE_TAG("bknd"), type, strlen(type));
    put_field(writer, WIRE_TAG("nixlDList"), WIRE_TAG("nixlSDList"));
    wire_put_u32(kind, (uint32_t)mem);
    put_field(writer, WIRE_TAG("t"), kind, sizeof kind);
    writer->row_count_at = put_count(writer, WIRE_TAG("n"));
    writer->rows = 0;
    writer->sections++;
    if (size_add(meta_len, WIRE_META_ROW, &room) && size_mul(room, expected, &room) &&
        writer->status == NIXL_SUCCESS && !bytes_reserve(writer->out, room)) {
        no_memory(writer);
    }
}

size_t wire_row_size(size_t meta_len) {
    return WIRE_META_ROW + meta_len;
}

nixl_status_t wire_row_append(struct bytes *out, uint64_t addr, uint64_t len, uint64_t dev, const void *meta,
                              size_t meta_len) {
    if (meta_len > SIZE_MAX - WIRE_META_ROW ||
        (out->cap - out->len < WIRE_META_ROW + meta_len && !bytes_reserve(out, WIRE_META_ROW + meta_len))) {
        return NIXL_ERR_UNKNOWN;
    }
    out->len += wire_row_put(out->data + out->len, addr, len, dev, meta, meta_len);
    return NIXL_SUCCESS;
}

void wire_blob_desc(struct wire_blob_writer *writer, uint64_t addr, uint64_t len, uint64_t dev,
                    const void *meta, size_t meta_len) {
    if (!is_ready(writer, writer->row_count_at != 0)) {
        return;
    }
    if (wire_row_append(writer->out, addr, len, dev, meta, meta_len) != NIXL_SUCCESS) {
        no_memory(writer);
        return;
    }
    writer->rows++;
}

void wire_blob_rows(struct wire_blob_writer *writer, const void *rows, size_t rows_len, size_t count) {
    if (!is_ready(writer, writer->row_count_at != 0)) {
        return;
    }
    if (!bytes_append(writer->out, rows, rows_len)) {
        no_memory(writer);
        return;
    }
    writer->rows += count;
}

/* ---- the trailer: digits only */

static void put_digits(struct wire_blob_writer *writer, const void *data, size_t len) {
    struct bytes *out = writer->out;
    size_t digits;

    /* One more for the NUL that text_hex_encode() writes behind the digits. */
    if (writer->status == NIXL_SUCCESS &&
        (!size_mul(len, 2, &digits) || digits == SIZE_MAX - 1 || !bytes_reserve(out, digits + 1))) {
        no_memory(writer);
    }
    if (writer->status == NIXL_SUCCESS) {
        text_hex_encode((char *)out->data + out->len, data, len);
        out->len += 2 * len;
    }
}

static void put_item(struct wire_blob_writer *writer, enum trailer_item id, size_t len) {
    uint8_t head[TRAILER_ITEM];

    if (len > UINT32_MAX) {
        fail(writer, NIXL_ERR_INVALID_PARAM, "a note is too long");
        return;
    }
    wire_put_u16(head, (uint16_t)id);
    wire_put_u32(head + 2, (uint32_t)len);
    put_digits(writer, head, sizeof head);
}

static void put_type(struct wire_blob_writer *writer, const char *type, size_t len) {
    put_digits(writer, &(uint8_t){(uint8_t)len}, 1);
    put_digits(writer, type, len);
}

/* Fills in the length of the removed item that is open, if one is. */
static void finish_removed(struct wire_blob_writer *writer) {
    uint8_t len[sizeof(uint32_t)];
    char digits[2 * sizeof len + 1];

    if (writer->removed_len_at != 0) {
        wire_put_u32(len, (uint32_t)(1 + strlen(writer->removed_type) + sizeof(uint32_t) +
                                     writer->removed_rows * WIRE_ROW));
        text_hex_encode(digits, len, sizeof len);
        memcpy(writer->out->data + writer->removed_len_at, digits, 2 * sizeof len);
        writer->removed_len_at = 0;
    }
}

void wire_blob_trailer(struct wire_blob_writer *writer, const struct wire_trailer *trailer) {
    uint8_t head[TRAILER_HEAD_LEN] = {TRAILER_VERSION, (uint8_t)trailer->kind};

    if (!is_ready(writer, writer->state <= IN_SECTIONS)) {
        return;
    }
    if ((unsigned)trailer->kind > WIRE_BLOB_UPDATE || trailer->base_generation > trailer->generation) {
        fail(writer, NIXL_ERR_INVALID_PARAM, "a trailer's kind or its generations are wrong");
        return;
    }
    if (writer->state == IN_CONNS) {
        finish_section(writer);
    }
    finish_section(writer);
    writer->state = IN_TRAILER;
    writer->kind = trailer->kind;
    writer->trailer_len_at = writer->out->len + TRAILER_TAG_LEN;
    if (writer->status == NIXL_SUCCESS && (!bytes_append(writer->out, TRAILER_TAG, TRAILER_TAG_LEN) ||
                                           !bytes_append(writer->out, &(uint64_t){0}, sizeof(uint64_t)))) {
        no_memory(writer);
    }
    wire_put_u64(head + 4, trailer->incarnation.boot_ns);
    wire_put_u64(head + 12, trailer->incarnation.random);
    wire_put_u64(head + 20, trailer->generation);
    wire_put_u64(head + 28, trailer->base_generation);
    put_item(writer, TRAILER_HEAD, sizeof head);
    put_digits(writer, head, sizeof head);
}

void wire_blob_note(struct wire_blob_writer *writer, const char *type, const void *note, size_t note_len) {
    size_t type_len;

    if (!is_ready(writer, writer->state == IN_TRAILER) || !is_type(writer, type)) {
        return;
    }
    type_len = strlen(type);
    finish_removed(writer);
    put_item(writer, TRAILER_NOTE, note_len <= UINT32_MAX ? 1 + type_len + note_len : SIZE_MAX);
    put_type(writer, type, type_len);
    put_digits(writer, note, note_len);
}

static void open_removed(struct wire_blob_writer *writer, const char *type, size_t type_len, nixl_mem_t mem) {
    uint8_t kind[sizeof(uint32_t)];

    finish_removed(writer);
    put_item(writer, TRAILER_REMOVED, 0);
    writer->removed_len_at = writer->out->len - 2 * sizeof(uint32_t);
    writer->removed_rows = 0;
    writer->removed_mem = mem;
    memcpy(writer->removed_type, type, type_len + 1);
    put_type(writer, type, type_len);
    wire_put_u32(kind, (uint32_t)mem);
    put_digits(writer, kind, sizeof kind);
}

void wire_blob_removed(struct wire_blob_writer *writer, const char *type, nixl_mem_t mem, uint64_t addr,
                       uint64_t len, uint64_t dev) {
    /* An item's length has 32 bits: a longer list goes on in another item. */
    static const size_t most_rows = (UINT32_MAX - 512) / WIRE_ROW;
    uint8_t row[WIRE_ROW];

    if (!is_ready(writer, writer->state == IN_TRAILER) || !is_type(writer, type)) {
        return;
    }
    if (!wire_mem_is_kind((uint32_t)mem) || writer->kind != WIRE_BLOB_UPDATE) {
        fail(writer, NIXL_ERR_INVALID_PARAM, "only an update removes regions, of a memory kind that exists");
        return;
    }
    if (writer->removed_len_at == 0 || writer->removed_mem != mem || writer->removed_rows == most_rows ||
        strcmp(writer->removed_type, type) != 0) {
        open_removed(writer, type, strlen(type), mem);
    }
    wire_put_row(row, addr, len, dev);
    put_digits(writer, row, sizeof row);
    writer->removed_rows++;
}

void wire_blob_mac(struct wire_blob_writer *writer, enum wire_mac_algorithm algorithm, size_t mac_len) {
    static const uint8_t room[WIRE_MAC_MAX];

    if (!is_ready(writer, writer->state == IN_TRAILER)) {
        return;
    }
    if (algorithm <= WIRE_MAC_NONE || (unsigned)algorithm > UINT8_MAX || mac_len == 0 ||
        mac_len > WIRE_MAC_MAX || (algorithm == WIRE_MAC_HMAC_SHA256 && mac_len != WIRE_HMAC_SHA256_LEN)) {
        fail(writer, NIXL_ERR_INVALID_PARAM, "an authentication code's algorithm or length is wrong");
        return;
    }
    finish_removed(writer);
    put_item(writer, TRAILER_MAC, 1 + mac_len);
    put_digits(writer, &(uint8_t){(uint8_t)algorithm}, 1);
    writer->mac_at = writer->out->len;
    writer->mac_len = mac_len;
    put_digits(writer, room, mac_len);
    writer->state = BEHIND_MAC;
}

/* The crc of what stands before `at`, where its digits go. */
static void fill_crc(struct wire_blob_writer *writer, size_t at) {
    uint8_t *blob = writer->out->data + writer->start;
    char digits[TRAILER_CRC_LEN + 1];

    trailer_crc_digits(digits, blob, at - writer->start);
    memcpy(writer->out->data + at, digits, TRAILER_CRC_LEN);
}

static void finish_trailer(struct wire_blob_writer *writer) {
    static const char end[] = "00000000" TRAILER_END "|";
    struct bytes *out = writer->out;
    size_t crc_at = out->len;

    if (!bytes_append(out, end, sizeof end - 1)) {
        no_memory(writer);
        return;
    }
    wire_put_u64(out->data + writer->trailer_len_at,
                 out->len - 1 - (writer->trailer_len_at + sizeof(uint64_t)));
    if (writer->mac_len == 0) {
        fill_crc(writer, crc_at); /* with a mac, sealing does it: an unsealed blob is refused everywhere */
    }
}

nixl_status_t wire_blob_end(struct wire_blob_writer *writer) {
    if (writer->state == ENDED) {
        return writer->status != NIXL_SUCCESS ? writer->status : NIXL_ERR_INVALID_PARAM;
    }
    if (writer->status == NIXL_SUCCESS) {
        if (writer->state == IN_CONNS) {
            finish_section(writer);
        }
        finish_section(writer);
        finish_removed(writer);
    }
    if (writer->status == NIXL_SUCCESS) {
        fill_count(writer, writer->section_count_at, writer->sections);
        if (writer->trailer_len_at != 0) {
            finish_trailer(writer);
        }
    }
    if (writer->status != NIXL_SUCCESS) {
        writer->out->len = writer->start;
    }
    writer->state = ENDED;
    return writer->status;
}

struct bytes_view wire_blob_auth_range(const struct wire_blob_writer *writer) {
    return bytes_view(writer->out->data + writer->start, writer->mac_at - writer->start);
}

void wire_blob_seal(struct wire_blob_writer *writer, const void *mac) {
    char digits[2 * WIRE_MAC_MAX + 1];

    text_hex_encode(digits, mac, writer->mac_len);
    memcpy(writer->out->data + writer->mac_at, digits, 2 * writer->mac_len);
    fill_crc(writer, writer->mac_at + 2 * writer->mac_len);
}
