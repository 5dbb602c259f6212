/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/mac.h"

#include <endian.h>

static const char title[] = "nixl p2p 1";

bool exchange_mac(const struct auth *auth, bool by_connector, const uint8_t connector[WIRE_P2P_NONCE_LEN],
                  const uint8_t listener[WIRE_P2P_NONCE_LEN], uint64_t counter, struct bytes_view payload,
                  uint8_t mac[AUTH_MAC_LEN]) {
    const char side = by_connector ? 'c' : 's';
    const uint64_t wire_counter = htole64(counter);
    const struct auth_piece pieces[] = {
        {title, sizeof title},
        {&side, 1},
        {connector, WIRE_P2P_NONCE_LEN},
        {listener, WIRE_P2P_NONCE_LEN},
        {&wire_counter, sizeof wire_counter},
        {payload.data, payload.len},
    };

    return auth_mac(auth, pieces, sizeof pieces / sizeof pieces[0], mac);
}
