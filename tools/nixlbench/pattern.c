/* SPDX-License-Identifier: Apache-2.0 */
#include "pattern.h"

#include <string.h>

/* Eight places at once: distinct for distinct words of one seed (odd factor, then an invertible shift). */
static uint64_t word_at(uint64_t index, uint64_t seed) {
    uint64_t x = (index + seed * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);

    return x ^ x >> 32;
}

static uint64_t base_word(uint8_t base) {
    return UINT64_C(0x0101010101010101) * base;
}

uint8_t pattern_byte(uint64_t position, uint64_t seed, uint8_t base) {
    unsigned shift = (unsigned)(position % 8) * 8;

    if (seed == 0) {
        return base;
    }
    return (uint8_t)((word_at(position / 8, seed) >> shift & 0xff) ^ base);
}

void pattern_fill(void *data, size_t len, uint64_t position, uint64_t seed, uint8_t base) {
    uint8_t *at = data;
    uint64_t fill = base_word(base);

    if (seed == 0) {
        memset(data, base, len);
        return;
    }
    for (; len != 0 && position % 8 != 0; len--) {
        *at++ = pattern_byte(position++, seed, base);
    }
    for (; len >= 8; len -= 8, at += 8, position += 8) {
        uint64_t word = word_at(position / 8, seed) ^ fill;

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        memcpy(at, &word, 8);
    }
    for (; len != 0; len--) {
        *at++ = pattern_byte(position++, seed, base);
    }
}

static size_t check_bytes(const uint8_t *at, size_t from, size_t to, uint64_t position, uint64_t seed,
                          uint8_t base) {
    for (size_t i = from; i < to; i++) {
        if (at[i] != pattern_byte(position + i, seed, base)) {
            return i;
        }
    }
    return to;
}

size_t pattern_check(const void *data, size_t len, uint64_t position, uint64_t seed, uint8_t base) {
    const uint8_t *at = data;
    uint64_t fill = base_word(base);
    size_t head = (size_t)((8 - position % 8) % 8);
    size_t i;

    head = head < len ? head : len;
    i = check_bytes(at, 0, head, position, seed, base);
    if (i < head) {
        return i;
    }
    for (; len - i >= 8; i += 8) {
        uint64_t want = fill ^ (seed != 0 ? word_at((position + i) / 8, seed) : 0);
        uint64_t word;

        memcpy(&word, at + i, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        if (word != want) {
            return check_bytes(at, i, i + 8, position, seed, base);
        }
    }
    return check_bytes(at, i, len, position, seed, base);
}
