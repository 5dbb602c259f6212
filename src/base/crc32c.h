/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli, RFC 3720 appendix B.4), by instruction where the processor has one. Pure. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of `len` bytes. `crc` is 0 to begin, or the result so far: crc32c(crc32c(0, a), b) ==
 * crc32c(0, ab). */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/*
 * The checksum of A followed by B from those of each and B's length, in time log(len_b): what a buffer that
 * is patched in one place needs.
 */
uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, size_t len_b);

/* The table method, always available; for comparison. */
uint32_t crc32c_table(uint32_t crc, const void *data, size_t len);

#endif
