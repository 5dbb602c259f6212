/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading an agent's metadata blob: the agent's name, its connections, its sections, the trailer. One pass
 * checks everything and leaves tables of views; nothing is copied and nothing can fail afterwards. Writing is
 * in agent_blob_write.c.
 */
#include "wire/codec.h"
#include "wire/trailer.h"

/* The fewest bytes a connection or a section can take. */
#define CONN_MIN                                                                                             \
    (sizeof("t"                                                                                              \
            "?"                                                                                              \
            "c"                                                                                              \
            "?") -                                                                                           \
     1 + 2 * WIRE_FIELD_EXTRA)
#define SECTION_MIN                                                                                          \
    (sizeof("bknd"                                                                                           \
            "?"                                                                                              \
            "nixlDList"                                                                                      \
            "nixlSDList"                                                                                     \
            "t"                                                                                              \
            "kind"                                                                                           \
            "n"                                                                                              \
            "12345678") -                                                                                    \
     1 + 4 * WIRE_FIELD_EXTRA)

static bool read_agent(struct wire_reader *reader, struct wire_blob *blob) {
    struct wire_reader start;

    if (!wire_read_prefix(reader)) {
        return false;
    }
    start = *reader;
    if (!wire_read_text(reader, WIRE_TAG("Agent"), "the agent's name is missing", &blob->agent)) {
        return false;
    }
    /* Names are C strings everywhere else: a NUL would let two names look like one. */
    return memchr(blob->agent.data, 0, blob->agent.len) == NULL ||
           wire_refuse(&start, "the agent's name contains a NUL byte");
}

/* Whether `count` things of at least `min` bytes can be there, and fit a table of `most`. */
static bool count_is_possible(const struct wire_reader *reader, uint64_t count, size_t min, size_t most,
                              const char *what, nixl_status_t *status) {
    if (count > wire_left(reader) / min) {
        return wire_refuse(reader, what);
    }
    if (count > most) {
        *status = NIXL_ERR_NOT_SUPPORTED;
        return wire_refuse(reader, "it has more connections or sections than this library takes");
    }
    return true;
}

static bool read_conns(struct wire_reader *reader, struct wire_blob *blob, nixl_status_t *status) {
    uint64_t count;

    blob->conn_count = 0;
    if (!wire_read_count(reader, WIRE_TAG("Conns"), "the number of connections is missing", &count) ||
        !count_is_possible(reader, count, CONN_MIN, WIRE_BLOB_CONNS,
                           "it claims more connections than there are bytes for", status)) {
        return false;
    }
    for (; blob->conn_count < count; blob->conn_count++) {
        struct wire_reader start = *reader;
        struct wire_conn *conn = &blob->conns[blob->conn_count];

        if (!wire_read_text(reader, WIRE_TAG("t"), "a connection's backend is missing", &conn->type) ||
            !wire_read_text(reader, WIRE_TAG("c"), "a connection's bytes are missing", &conn->bytes)) {
            return false;
        }
        for (size_t i = 0; i < blob->conn_count; i++) {
            if (bytes_view_equal(blob->conns[i].type, conn->type)) {
                return wire_refuse(&start, "it has two connections for one backend");
            }
        }
    }
    return true;
}

static bool read_section(struct wire_reader *reader, struct wire_blob *blob) {
    struct wire_reader start = *reader;
    struct wire_section *section = &blob->sections[blob->section_count];

    if (!wire_read_text(reader, WIRE_TAG("bknd"), "a section's backend is missing", &section->type) ||
        !wire_read_list(reader, &section->list)) {
        return false;
    }
    if (!section->list.has_meta) {
        return wire_refuse(&start, "a section's list has no metadata");
    }
    for (size_t i = 0; i < blob->section_count; i++) {
        if (blob->sections[i].list.mem == section->list.mem &&
            bytes_view_equal(blob->sections[i].type, section->type)) {
            return wire_refuse(&start, "it has two sections for one backend and memory kind");
        }
    }
    blob->section_count++;
    return true;
}

static bool read_sections(struct wire_reader *reader, struct wire_blob *blob, nixl_status_t *status) {
    struct wire_reader start = *reader;
    struct bytes_view title;
    uint64_t count;

    blob->section_count = 0;
    if (!wire_read_field(reader, NULL, 0, "the memory sections are missing", &title)) {
        return false;
    }
    if (!wire_view_is(title, "MemSection")) {
        return wire_refuse(&start, "the memory sections are missing");
    }
    if (!wire_read_count(reader, WIRE_TAG("nixlSecElms"), "the number of sections is missing", &count) ||
        !count_is_possible(reader, count, SECTION_MIN, WIRE_BLOB_SECTIONS,
                           "it claims more sections than there are bytes for", status)) {
        return false;
    }
    while (blob->section_count < count) {
        if (!read_section(reader, blob)) {
            return false;
        }
    }
    return true;
}

nixl_status_t wire_blob_open(const void *data, size_t len, struct bytes *scratch, struct wire_blob *blob,
                             struct wire_error *error) {
    struct wire_reader reader = {.data = data, .len = len, .error = error};
    nixl_status_t status = NIXL_ERR_MISMATCH;

    if (!read_agent(&reader, blob) || !read_conns(&reader, blob, &status) ||
        !read_sections(&reader, blob, &status) || !trailer_read(&reader, scratch, blob, &status)) {
        return status;
    }
    return NIXL_SUCCESS;
}
