/* SPDX-License-Identifier: Apache-2.0 */
/* The trailer's bytes, as wire.h describes them: what its writer and its reader share. Private to src/wire.
 */
#ifndef WIRE_TRAILER_H
#define WIRE_TRAILER_H

#include "wire/codec.h"

#define TRAILER_TAG "nixlTrailer"
#define TRAILER_TAG_LEN (sizeof(TRAILER_TAG) - 1)
#define TRAILER_VERSION 1
#define TRAILER_END "6e69786c456e6421" /* the digits of "nixlEnd!" */
#define TRAILER_END_LEN (sizeof(TRAILER_END) - 1)
#define TRAILER_CRC_LEN 8 /* digits */
#define TRAILER_ITEM 6    /* bytes of an item's id and length */
#define TRAILER_HEAD_LEN 36

enum trailer_item {
    TRAILER_HEAD = 1,
    TRAILER_NOTE = 2,
    TRAILER_REMOVED = 3,
    TRAILER_MAC = 4,
};

/* The crc's digits for the `len` bytes before them. */
void trailer_crc_digits(char digits[TRAILER_CRC_LEN + 1], const void *data, size_t len);

/*
 * Looks behind the last section, where the reader stands: reads and checks the trailer when the blob claims
 * one and fills the blob's fields for it (zero without one). False with `status` on a damaged trailer, a
 * newer one, or out of memory.
 */
bool trailer_read(struct wire_reader *reader, struct bytes *scratch, struct wire_blob *blob,
                  nixl_status_t *status);

#endif
