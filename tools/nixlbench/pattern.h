/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What buffers are filled with and compared to. Without a seed every byte is the base (0xbb at an initiator, 0xaa
 * at a target), as in the reference. With one, it is the base XOR a value that depends on the seed and on the
 * place, so a block that landed in the wrong place, or stayed from an earlier run, shows.
 */
#ifndef NIXLBENCH_PATTERN_H
#define NIXLBENCH_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#define PATTERN_INITIATOR 0xbb
#define PATTERN_TARGET 0xaa

/* Writes the bytes of places position to position + len - 1. Seed 0: all `base`. */
void pattern_fill(void *data, size_t len, uint64_t position, uint64_t seed, uint8_t base);

/* The index of the first byte that is not as pattern_fill() writes it; len when all are. */
size_t pattern_check(const void *data, size_t len, uint64_t position, uint64_t seed, uint8_t base);

/* The byte at one place. */
uint8_t pattern_byte(uint64_t position, uint64_t seed, uint8_t base);

#endif
