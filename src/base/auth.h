/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared key of NIXL_AUTH_KEY_FILE and what is computed with it: HMAC-SHA-256, by libcrypto, which is opened when a
 * key is set and not before. Thread-safe: a key does not change after it was read.
 */
#ifndef BASE_AUTH_H
#define BASE_AUTH_H

#include <nixl/nixl.h>

#include <stddef.h>
#include <stdint.h>

#define AUTH_MAC_LEN 32

struct auth;

/* *auth is NULL when no key file is named. Fails in words: the file, its permissions, its length, libcrypto. */
nixl_status_t auth_open(struct auth **auth);
void auth_close(struct auth *auth);

struct auth_piece {
    const void *data;
    size_t len;
};

/* The mac of the pieces one after the other; false when libcrypto fails. */
bool auth_mac(const struct auth *auth, const struct auth_piece *pieces, size_t count,
              uint8_t mac[AUTH_MAC_LEN]);
/* Compares in constant time. */
bool auth_equal(const uint8_t *a, const uint8_t *b);

#endif
