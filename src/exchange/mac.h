/* SPDX-License-Identifier: Apache-2.0 */
/* What stands before a sealed frame's commands. Apart from seal.c, because nixl-info asks agents by itself. */
#ifndef EXCHANGE_MAC_H
#define EXCHANGE_MAC_H

#include "base/auth.h"
#include "base/bytes.h"
#include "wire/p2p.h"

/* The mac over one frame's commands: who sends them, both sides' nonces, and which frame of that side it is. False when
 * libcrypto fails. */
bool exchange_mac(const struct auth *auth, bool by_connector, const uint8_t connector[WIRE_P2P_NONCE_LEN],
                  const uint8_t listener[WIRE_P2P_NONCE_LEN], uint64_t counter, struct bytes_view payload,
                  uint8_t mac[AUTH_MAC_LEN]);

#endif
