/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands in a frame of the socket exchange. The one difficulty is where a blob ends when commands follow it:
 * its bytes may contain the command word by chance, so its structure is followed, not its letters.
 */
#include "wire/p2p.h"

#include "wire/codec.h"
#include "wire/trailer.h"

#define WORD_LEN (sizeof(WIRE_P2P_WORD) - 1)
#define LETTERS 4

static const char letters_of[WIRE_P2P_UNKNOWN][LETTERS + 1] = {
    [WIRE_P2P_LOAD] = "LOAD",  [WIRE_P2P_SEND] = "SEND",   [WIRE_P2P_INVALIDATE] = "INVL",
    [WIRE_P2P_HELLO] = "HELO", [WIRE_P2P_SEALED] = "SEAL",
};

uint64_t wire_p2p_size(const uint8_t at[WIRE_P2P_SIZE_LEN]) {
    return wire_get_u64(at);
}

void wire_p2p_size_put(uint8_t at[WIRE_P2P_SIZE_LEN], uint64_t size) {
    wire_put_u64(at, size);
}

bool wire_p2p_command_append(struct bytes *out, enum wire_p2p_command command, const void *arg,
                             size_t arg_len) {
    size_t more;

    if ((unsigned)command >= WIRE_P2P_UNKNOWN || !size_add(arg_len, WIRE_P2P_COMMAND_LEN, &more) ||
        !bytes_reserve(out, more)) {
        return false;
    }
    bytes_append(out, WIRE_P2P_WORD, WORD_LEN);
    bytes_append(out, letters_of[command], LETTERS);
    bytes_append(out, arg, arg_len);
    return true;
}

static bool begins_with_word(const uint8_t *at, size_t len) {
    return len >= WIRE_P2P_COMMAND_LEN && memcmp(at, WIRE_P2P_WORD, WORD_LEN) == 0;
}

static enum wire_p2p_command command_at(const uint8_t *at) {
    for (unsigned i = 0; i < WIRE_P2P_UNKNOWN; i++) {
        if (memcmp(at + WORD_LEN, letters_of[i], LETTERS) == 0) {
            return (enum wire_p2p_command)i;
        }
    }
    return WIRE_P2P_UNKNOWN;
}

/* Where the first known command begins at or after `from`; view.len when there is none. */
static size_t find_command(struct bytes_view view, size_t from) {
    while (from < view.len) {
        const uint8_t *hit = memmem(view.data + from, view.len - from, WIRE_P2P_WORD, WORD_LEN);

        if (hit == NULL) {
            break;
        }
        from = (size_t)(hit - view.data);
        if (begins_with_word(hit, view.len - from) && command_at(hit) != WIRE_P2P_UNKNOWN) {
            return from;
        }
        from++;
    }
    return view.len;
}

static bool walk_conns(struct wire_reader *reader) {
    struct bytes_view skipped;
    uint64_t count;

    if (!wire_read_count(reader, WIRE_TAG("Conns"), "", &count)) {
        return false;
    }
    /* Each needs bytes, so a count that lies ends at the first one that is not there. */
    for (; count != 0; count--) {
        if (!wire_read_text(reader, WIRE_TAG("t"), "", &skipped) ||
            !wire_read_text(reader, WIRE_TAG("c"), "", &skipped)) {
            return false;
        }
    }
    return true;
}

static bool walk_sections(struct wire_reader *reader) {
    struct bytes_view skipped;
    struct wire_list list;
    uint64_t count;

    if (!wire_read_field(reader, NULL, 0, "", &skipped) || !wire_view_is(skipped, "MemSection") ||
        !wire_read_count(reader, WIRE_TAG("nixlSecElms"), "", &count)) {
        return false;
    }
    for (; count != 0; count--) {
        if (!wire_read_text(reader, WIRE_TAG("bknd"), "", &skipped) || !wire_read_list(reader, &list)) {
            return false;
        }
    }
    return true;
}

/* How many bytes the blob's structure takes; 0 when there is no whole one. A trailer is hexadecimal and holds no
 * command, so it need not be walked. */
static size_t blob_extent(struct bytes_view view) {
    struct wire_reader reader = {.data = view.data, .len = view.len};
    struct bytes_view name;

    if (!wire_read_prefix(&reader) || !wire_read_text(&reader, WIRE_TAG("Agent"), "", &name) ||
        !walk_conns(&reader) || !walk_sections(&reader)) {
        return 0;
    }
    return reader.at;
}

bool wire_p2p_next(struct bytes_view *rest, struct wire_p2p_item *item) {
    struct bytes_view arg;
    size_t end;

    if (rest->len == 0 || !begins_with_word(rest->data, rest->len)) {
        return false;
    }
    item->command = command_at(rest->data);
    arg = bytes_view(rest->data + WIRE_P2P_COMMAND_LEN, rest->len - WIRE_P2P_COMMAND_LEN);
    if (item->command == WIRE_P2P_SEALED) {
        end = arg.len;
    } else {
        end = find_command(arg, item->command == WIRE_P2P_LOAD ? blob_extent(arg) : 0);
    }
    item->arg = bytes_view(arg.data, end);
    *rest = bytes_view(arg.data + end, arg.len - end);
    return true;
}
