/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes <-> structs: metadata blobs, serialized descriptor lists, notifications. All that src/wire offers to
 * its neighbours. Pure functions: no I/O, no locks, no globals, no log; memory is only what the caller hands
 * in (`struct bytes`, plain buffers). Decoders copy nothing: what they return are views into the caller's
 * bytes, valid as long as those are. Any alignment is fine. Every number on the wire is little-endian.
 * Thread-safe as far as two threads do not share one writer, reader or `struct bytes`.
 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nixl/nixl.h>

#include "base/bytes.h"

/* Why a decoder refused: a phrase without a capital or a full stop ("the agent's name is missing"), a
 * constant string, and the offset in the input at which that was seen. Every decoder accepts NULL for it; it
 * is written only on failure. */
struct wire_error {
    const char *what;
    size_t offset;
};

/* A descriptor with the bytes that belong to it: a backend's public data (in metadata) or the user's meta
 * info. */
struct wire_desc {
    uint64_t addr, len, dev;
    struct bytes_view meta; /* {NULL or anything, 0} when there is none */
};

/* True when the view holds exactly the characters of `text`. */
bool wire_view_is(struct bytes_view view, const char *text);

/* ------------------------------------------------------------ descriptor lists
 *
 * Two forms: plain ("nixlBDList": rows of 24 bytes, addr, len, dev) and with metadata ("nixlSDList": each row
 * followed by a blob). Standing alone, after the prefix "nixlSerDes|", they are the state of a pickled Python
 * list.
 */

/* A decoded list: where its rows are. Filled by wire_list_decode() and, for sections, by wire_blob_open(),
 * which have checked every row: iteration cannot fail. Read `mem`, `has_meta` and `count`; `rows` is for the
 * functions below. */
struct wire_list {
    nixl_mem_t mem;
    bool has_meta;
    size_t count;
    struct bytes_view rows;
};

struct wire_list_iter {
    const uint8_t *at;
    size_t left;
    bool has_meta;
};

/*
 * Checks a serialized list whole and finds its rows. Bytes after the list are ignored, as the reference does.
 * Returns NIXL_SUCCESS, or NIXL_ERR_MISMATCH (damaged, truncated, a memory kind that does not exist); `list`
 * is then untouched.
 */
nixl_status_t wire_list_decode(const void *data, size_t len, struct wire_list *list,
                               struct wire_error *error);

/* Walks a list: `iter` starts at the first row; next() returns false at the end. Plain lists give an empty
 * `meta`. */
void wire_list_begin(const struct wire_list *list, struct wire_list_iter *iter);
bool wire_list_next(struct wire_list_iter *iter, struct wire_desc *desc);

/* Copies addr, len and dev of all rows to `descs`, which has room for list->count. */
void wire_list_copy(const struct wire_list *list, struct nixl_desc *descs);

/*
 * Appends a whole serialized plain list to `out`: `count` descriptors, `stride` bytes apart, each beginning
 * with the 24 bytes of a struct nixl_desc (stride ≥ 24; any alignment). `descs` may be NULL when count is 0.
 * Returns NIXL_SUCCESS, NIXL_ERR_INVALID_PARAM (memory kind, stride, a size that overflows), NIXL_ERR_UNKNOWN
 * (out of memory); on failure `out` is as it was.
 */
nixl_status_t wire_list_encode_plain(struct bytes *out, nixl_mem_t mem, const void *descs, size_t stride,
                                     size_t count);

/* The same for a list with metadata: each item begins with a struct nixl_meta_desc. */
nixl_status_t wire_list_encode_meta(struct bytes *out, nixl_mem_t mem, const void *descs, size_t stride,
                                    size_t count);

/* ------------------------------------------------------------ agent blobs: the trailer
 *
 * The reference's decoder ignores what follows the last section of a blob. There stands one more tagged
 * field, "nixlTrailer", the last of the blob. Its payload is lower-case hexadecimal, so it can contain no
 * command of the metadata exchange ("NIXLCOMM:"):
 *
 *     hex( item*  crc32c:u32  "nixlEnd!" )       item := id:u16 len:u32 payload[len]
 *
 *     1 head     first and once: version:u8 = 1, kind:u8, zero:u16, boot_ns:u64, random:u64,
 *                generation:u64, base_generation:u64
 *     2 note     type_len:u8 type bytes: what a backend says of itself (UCX: its library's version)
 *     3 removed  type_len:u8 type mem:u32, then rows of 24 bytes: regions of a section that are gone
 *     4 mac      last and at most once: algorithm:u8 bytes
 *
 * Items with other ids are skipped, and so is what follows the known part of the head: later versions may
 * add both. The version changes only when an old reader would go wrong. crc32c covers every byte of the blob
 * before its own digits, the mac every byte before the digits of the mac's bytes. Type names are not empty.
 *
 * Is there a trailer? A blob claims one when, after the last section, the trailer's tag follows, or a
 * beginning of it cut short by the end of the blob, or when the tag stands anywhere later, or when the blob
 * ends (NUL padding aside) in the digits of the end mark. A blob that claims one must have one that is right
 * in every byte and ends the blob (NUL padding aside), else it is refused with NIXL_ERR_MISMATCH. So one cut
 * or one flipped bit anywhere is always noticed, with one exception: a blob cut exactly where its trailer
 * begins looks like the reference's. It is whole but for the trailer and only adds; who must not take such a
 * blob sets a key and demands the mac. A blob that claims none is a blob of the reference: what follows its
 * last section is ignored.
 */
enum wire_blob_kind {
    WIRE_BLOB_FULL = 0,    /* everything: what is not in it is gone */
    WIRE_BLOB_PARTIAL = 1, /* some regions: only adds */
    WIRE_BLOB_UPDATE = 2,  /* what changed since base_generation: removals first, then what is in sections */
};

/* The life of an agent: equal for all blobs of one agent object. `boot_ns` orders lives of one name, `random`
 * tells them apart. */
struct wire_incarnation {
    uint64_t boot_ns;
    uint64_t random;
};

enum wire_mac_algorithm {
    WIRE_MAC_NONE = 0,
    WIRE_MAC_HMAC_SHA256 = 1,
};

#define WIRE_HMAC_SHA256_LEN 32 /* bytes; the reader refuses another length */
#define WIRE_MAC_MAX 64         /* bytes of the longest mac a writer takes */

struct wire_trailer {
    enum wire_blob_kind kind;
    struct wire_incarnation incarnation;
    uint64_t generation;
    uint64_t base_generation; /* only with kind update; ≤ generation */
};

/* ------------------------------------------------------------ agent blobs: writing
 *
 * In this order, straight onto `out`, with no copy in between:
 *
 *     wire_blob_begin
 *     wire_blob_conn*                         each remote-capable backend, or none
 *     { wire_blob_section  wire_blob_desc* }* each (backend, memory kind)
 *     [ wire_blob_trailer  wire_blob_note*  wire_blob_removed*  [wire_blob_mac] ]
 *     wire_blob_end
 *     [ wire_blob_auth_range  wire_blob_seal ] with a mac only
 *
 * The reference writes a section's rows sorted by (dev, addr, len); readers of this library do not need that.
 * The calls between begin and end return nothing: the first failure (out of memory, a call out of order, an
 * empty or over-long backend type) makes the rest do nothing, and wire_blob_end() returns it and leaves `out`
 * as it was before begin. An update blob is an ordinary blob to the reference: added regions stand in
 * sections, removals only in the trailer.
 */
struct wire_blob_writer {
    struct bytes *out;
    size_t start; /* where the blob begins in out */
    /* Offsets in out of counts and lengths that are filled in when what they count is complete. */
    size_t conn_count_at, section_count_at, row_count_at, trailer_len_at, removed_len_at;
    size_t conns, sections, rows, removed_rows;
    size_t mac_at, mac_len; /* the digits of the mac; its length in bytes */
    unsigned state;
    nixl_status_t status;
    const char *what; /* the first failure, in words */
    enum wire_blob_kind kind;
    nixl_mem_t removed_mem;
    char removed_type[256]; /* of the removed item that is open */
};

/* Starts a blob of the agent `name` (not empty, no NUL byte) at the end of `out`. */
void wire_blob_begin(struct wire_blob_writer *writer, struct bytes *out, const char *name, size_t name_len);

/* Adds the connection bytes (not empty) of backend `type`, at most once a type. */
void wire_blob_conn(struct wire_blob_writer *writer, const char *type, const void *conn, size_t conn_len);

/* Opens a section. `expected` rows with about `meta_len` bytes of public data each are coming: a hint that
 * saves growing `out`; 0 is fine. */
void wire_blob_section(struct wire_blob_writer *writer, const char *type, nixl_mem_t mem, size_t expected,
                       size_t meta_len);

/* Adds a region with its public data to the open section. */
void wire_blob_desc(struct wire_blob_writer *writer, uint64_t addr, uint64_t len, uint64_t dev,
                    const void *meta, size_t meta_len);

/* Adds `count` rows that wire_row_append() made earlier, for blobs kept serialized. */
void wire_blob_rows(struct wire_blob_writer *writer, const void *rows, size_t rows_len, size_t count);

/* Appends one row of a section to `out`: wire_row_size(meta_len) bytes. Returns NIXL_SUCCESS or
 * NIXL_ERR_UNKNOWN (out of memory). */
size_t wire_row_size(size_t meta_len);
nixl_status_t wire_row_append(struct bytes *out, uint64_t addr, uint64_t len, uint64_t dev, const void *meta,
                              size_t meta_len);

/* Opens the trailer. Without this call the blob has none and is byte for byte what the reference could have
 * written. */
void wire_blob_trailer(struct wire_blob_writer *writer, const struct wire_trailer *trailer);

/* A backend's note; `type` of at most 255 bytes. */
void wire_blob_note(struct wire_blob_writer *writer, const char *type, const void *note, size_t note_len);

/* A region that is gone. Calls for one (type, mem) one after the other share an item. */
void wire_blob_removed(struct wire_blob_writer *writer, const char *type, nixl_mem_t mem, uint64_t addr,
                       uint64_t len, uint64_t dev);

/* Leaves room for a mac of `mac_len` bytes (1..WIRE_MAC_MAX), filled by wire_blob_seal(). */
void wire_blob_mac(struct wire_blob_writer *writer, enum wire_mac_algorithm algorithm, size_t mac_len);

/*
 * Ends the blob. Returns NIXL_SUCCESS, NIXL_ERR_UNKNOWN (out of memory) or NIXL_ERR_INVALID_PARAM (a wrong
 * argument or a call out of order before); then writer->what says which, and `out` is as it was before
 * wire_blob_begin().
 */
nixl_status_t wire_blob_end(struct wire_blob_writer *writer);

/* After a successful end of a blob with a mac: the bytes to authenticate (valid until `out` changes), and the
 * place for the result, of the length given to wire_blob_mac(). Sealing computes the crc again. */
struct bytes_view wire_blob_auth_range(const struct wire_blob_writer *writer);
void wire_blob_seal(struct wire_blob_writer *writer, const void *mac);

/* ------------------------------------------------------------ agent blobs: reading */

#define WIRE_BLOB_CONNS 64     /* most backends with a connection in one blob */
#define WIRE_BLOB_SECTIONS 256 /* most (backend, memory kind) pairs in one blob */

struct wire_conn {
    struct bytes_view type;  /* backend type, not empty */
    struct bytes_view bytes; /* not empty */
};

struct wire_section {
    struct bytes_view type; /* backend type, not empty */
    struct wire_list list;  /* with metadata; may be empty */
};

/* A checked blob. */
struct wire_blob {
    struct bytes_view agent; /* not empty, no NUL byte */
    size_t conn_count;
    size_t section_count;
    bool has_trailer; /* false: a blob of the reference; the rest is then zero */
    struct wire_trailer trailer;
    /* WIRE_MAC_NONE: there is no mac. May be a value this version does not know. */
    unsigned mac_algorithm;
    struct bytes_view mac;
    struct bytes_view auth_range; /* the bytes the mac covers */
    struct bytes_view items;      /* the trailer's items, decoded, in scratch */
    struct wire_conn conns[WIRE_BLOB_CONNS];
    struct wire_section sections[WIRE_BLOB_SECTIONS];
};

struct wire_note {
    struct bytes_view type;
    struct bytes_view bytes;
};

struct wire_removed {
    struct bytes_view type;
    nixl_mem_t mem;
    struct nixl_desc desc;
};

/* A place among the trailer's items; starts as zeros. */
struct wire_cursor {
    size_t item;
    size_t row;
};

/*
 * Checks a blob whole (structure, lengths, counts against the bytes that are there, memory kinds, repeated
 * connections and sections, the trailer by the rule above) and fills `blob`; everything after that cannot
 * fail. `scratch` (an initialized `struct bytes`; its contents are replaced) holds the decoded trailer; it
 * must live as long as `blob` and be freed by the caller; untouched when there is no trailer. The mac is not
 * verified here: see mac and auth_range.
 *
 * Returns NIXL_SUCCESS; NIXL_ERR_MISMATCH with the reason in `error`; NIXL_ERR_NOT_SUPPORTED when the
 * trailer's version is newer than this reader or the blob has more connections or sections than it takes;
 * NIXL_ERR_UNKNOWN out of memory. On failure `blob` is not to be used.
 */
nixl_status_t wire_blob_open(const void *data, size_t len, struct bytes *scratch, struct wire_blob *blob,
                             struct wire_error *error);

/* Walk the trailer's notes and removed regions, each with its own cursor = {0}. False at the end, and at once
 * without a trailer. */
bool wire_blob_next_note(const struct wire_blob *blob, struct wire_cursor *cursor, struct wire_note *note);
bool wire_blob_next_removed(const struct wire_blob *blob, struct wire_cursor *cursor,
                            struct wire_removed *removed);

/* ------------------------------------------------------------ notifications
 *
 * UCX's active message 0: "nixlSerDes|" name:sender msg:bytes. The message may be empty and hold any bytes.
 */
struct wire_notif {
    struct bytes_view name; /* not empty, no NUL byte */
    struct bytes_view msg;
};

/* Size of an encoded notification, or 0 when the lengths are wrong (empty name, sum beyond SIZE_MAX). */
size_t wire_notif_size(size_t name_len, size_t msg_len);

/* Writes wire_notif_size(name_len, msg_len) bytes to `buffer` and returns how many; 0, and nothing written,
 * when that is 0. */
size_t wire_notif_encode(void *buffer, const void *name, size_t name_len, const void *msg, size_t msg_len);

/* Returns NIXL_SUCCESS or NIXL_ERR_MISMATCH; bytes after the message are ignored, as the reference does. */
nixl_status_t wire_notif_decode(const void *data, size_t len, struct wire_notif *notif,
                                struct wire_error *error);

#endif
