/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C, reflected, polynomial 0x1EDC6F41 (0x82F63B78 reflected), start and end inverted: RFC 3720 §12.1.
 * The crc32 instruction of x86 (SSE4.2) and of ARM computes exactly this; else eight bytes a step from
 * tables.
 */
#include "crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

#define POLYNOMIAL UINT32_C(0x82F63B78)

static uint32_t tables[8][256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void tables_fill(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;

        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        }
        tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (size_t t = 1; t < 8; t++) {
            tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xff];
        }
    }
}

uint32_t crc32c_table(uint32_t crc, const void *data, size_t len) {
    const unsigned char *at = data;

    pthread_once(&tables_once, tables_fill);
    crc = ~crc;
    for (; len >= 8; at += 8, len -= 8) {
        uint32_t low =
            crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);

        crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^ tables[5][low >> 16 & 0xff] ^
              tables[4][low >> 24] ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^
              tables[0][at[7]];
    }
    for (; len != 0; at++, len--) {
        crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 0xff];
    }
    return ~crc;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *data, size_t len) {
    const unsigned char *at = data;
    uint64_t wide = ~crc & UINT32_MAX;
    uint32_t narrow;

    for (; len >= 8; at += 8, len -= 8) {
        uint64_t word;

        memcpy(&word, at, sizeof word);
        wide = _mm_crc32_u64(wide, word);
    }
    narrow = (uint32_t)wide;
    for (; len != 0; at++, len--) {
        narrow = _mm_crc32_u8(narrow, *at);
    }
    return ~narrow;
}

/* Asked by hand and once: __builtin_cpu_supports() needs a symbol of libgcc that other compilers' runtimes lack, and
 * the instruction behind it takes microseconds in a virtual machine. */
static bool has_sse42(void) {
    static int known; /* 0: not asked yet, 1: yes, -1: no; every thread finds the same */
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (answer == 0) {
        unsigned eax, ebx, ecx, edx;

        answer = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_SSE4_2) != 0 ? 1 : -1;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer > 0;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len) {
    return has_sse42() ? crc32c_sse42(crc, data, len) : crc32c_table(crc, data, len);
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

uint32_t crc32c(uint32_t crc, const void *data, size_t len) {
    const unsigned char *at = data;

    crc = ~crc;
    for (; len >= 8; at += 8, len -= 8) {
        uint64_t word;

        memcpy(&word, at, sizeof word);
        crc = __crc32cd(crc, word);
    }
    for (; len != 0; at++, len--) {
        crc = __crc32cb(crc, *at);
    }
    return ~crc;
}

#else

uint32_t crc32c(uint32_t crc, const void *data, size_t len) {
    return crc32c_table(crc, data, len);
}

#endif

/* a * b modulo the polynomial; bit 31 is the coefficient of x^0, as everywhere in a reflected checksum. */
static uint32_t poly_mul(uint32_t a, uint32_t b) {
    uint32_t product = 0;

    for (uint32_t bit = UINT32_C(1) << 31; bit != 0; bit >>= 1) {
        if ((a & bit) != 0) {
            product ^= b;
        }
        b = (b >> 1) ^ ((b & 1) != 0 ? POLYNOMIAL : 0);
    }
    return product;
}

uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, size_t len_b) {
    uint32_t shift = UINT32_C(1) << 31; /* x^0 */
    uint32_t power = UINT32_C(1) << 23; /* x^8: one byte */

    /* Appending len_b bytes multiplies by x^(8 len_b); the inversions at both ends cancel out. */
    for (; len_b != 0; len_b >>= 1) {
        if ((len_b & 1) != 0) {
            shift = poly_mul(power, shift);
        }
        power = poly_mul(power, power);
    }
    return poly_mul(shift, crc_a) ^ crc_b;
}
