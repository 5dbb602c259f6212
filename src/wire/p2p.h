/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the metadata exchange over sockets: a little-endian u64 size, then that many bytes, which hold one command
 * or several, each "NIXLCOMM:", four letters and an argument that ends where the next command begins or the frame
 * ends. Pure functions, as all of src/wire: items are views into the caller's bytes.
 */
#ifndef WIRE_P2P_H
#define WIRE_P2P_H

#include "wire/wire.h"

#define WIRE_P2P_WORD "NIXLCOMM:"
#define WIRE_P2P_SIZE_LEN 8     /* bytes of the size before a frame */
#define WIRE_P2P_COMMAND_LEN 13 /* the word and four letters: no frame is shorter */
#define WIRE_P2P_FRAME_MAX                                                                                   \
    (UINT64_C(1024) * 1024 * 1024) /* bytes of the longest frame, as the reference has it */
#define WIRE_P2P_NONCE_LEN 32

enum wire_p2p_command {
    WIRE_P2P_LOAD,       /* argument: a blob. "Learn this." */
    WIRE_P2P_SEND,       /* no argument. "Answer with your blob, in a LOAD." */
    WIRE_P2P_INVALIDATE, /* argument: an agent's name. "Forget it." */
    WIRE_P2P_HELLO,      /* argument: a nonce in hexadecimal. Beyond the reference, see docs/security.md */
    WIRE_P2P_SEALED,     /* argument: a mac, then commands; always the last item. Beyond the reference */
    WIRE_P2P_UNKNOWN,
};

struct wire_p2p_item {
    enum wire_p2p_command command;
    struct bytes_view arg;
};

/* The size that stands before a frame. */
uint64_t wire_p2p_size(const uint8_t at[WIRE_P2P_SIZE_LEN]);
void wire_p2p_size_put(uint8_t at[WIRE_P2P_SIZE_LEN], uint64_t size);

/* Appends a command without the size; false without memory or for UNKNOWN, `out` as it was. */
bool wire_p2p_command_append(struct bytes *out, enum wire_p2p_command command, const void *arg,
                             size_t arg_len);

/*
 * Takes the next command off `rest` (a frame without its size, at first). False when `rest` is empty, or when it does
 * not begin with a command: then it is left as it is. A LOAD's blob ends where its structure says, so bytes in it that
 * look like a command are none; an argument that is no whole blob ends at the next known command.
 */
bool wire_p2p_next(struct bytes_view *rest, struct wire_p2p_item *item);

#endif
