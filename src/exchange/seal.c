/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With a key, both ends of a connection first exchange nonces (HELLO, the side that connected begins), and every frame
 * after that is one SEALED command: a mac over who sends, both nonces, a counter and the commands. So a frame can be
 * neither made up, nor replayed in another connection or place, nor sent back. docs/security.md says what this does not
 * protect.
 */
#include "exchange/mac.h"
#include "exchange/p2p.h"

#include "base/text.h"

#include <string.h>
#include <sys/random.h>

static bool seal_mac(const struct conn *conn, bool is_ours, uint64_t counter, struct bytes_view payload,
                     uint8_t mac[AUTH_MAC_LEN]) {
    return exchange_mac(conn->p2p->exchange->auth, is_ours != conn->is_accepted,
                        conn->is_accepted ? conn->nonce_theirs : conn->nonce_ours,
                        conn->is_accepted ? conn->nonce_ours : conn->nonce_theirs, counter, payload, mac);
}

bool seal_hello(struct conn *conn) {
    char hex[2 * WIRE_P2P_NONCE_LEN + 1];
    struct bytes hello = {0};
    bool done;

    if (getrandom(conn->nonce_ours, sizeof conn->nonce_ours, 0) != (ssize_t)sizeof conn->nonce_ours) {
        (void)fail(NIXL_ERR_BACKEND, "the system gives no random numbers");
        return false;
    }
    text_hex_encode(hex, conn->nonce_ours, sizeof conn->nonce_ours);
    done = wire_p2p_command_append(&hello, WIRE_P2P_HELLO, hex, sizeof hex - 1) &&
           conn_put(conn, bytes_view_of(&hello));
    bytes_free(&hello);
    return done;
}

bool seal_hello_got(struct conn *conn, struct bytes_view arg) {
    if (conn->p2p->exchange->auth == NULL) {
        (void)fail(NIXL_ERR_NOT_ALLOWED,
                   "the peer has a key and this agent has none: set NIXL_AUTH_KEY_FILE for both");
        return false;
    }
    if (conn->is_sealed || arg.len != 2 * WIRE_P2P_NONCE_LEN ||
        !text_hex_decode(conn->nonce_theirs, (const char *)arg.data, arg.len)) {
        (void)fail(NIXL_ERR_MISMATCH, "the peer's challenge is malformed or comes twice");
        return false;
    }
    if (conn->is_accepted && !seal_hello(conn)) {
        return false;
    }
    conn->is_sealed = true;
    return true;
}

bool seal_put(struct conn *conn, struct bytes_view payload, struct bytes *out) {
    uint8_t mac[AUTH_MAC_LEN];

    if (!seal_mac(conn, true, conn->sealed_out, payload, mac)) {
        (void)fail(NIXL_ERR_BACKEND, "libcrypto cannot compute a mac");
        return false;
    }
    if (!wire_p2p_command_append(out, WIRE_P2P_SEALED, mac, sizeof mac) ||
        !bytes_append(out, payload.data, payload.len)) {
        (void)fail_memory("a sealed frame", payload.len);
        return false;
    }
    conn->sealed_out++;
    return true;
}

bool seal_open(struct conn *conn, struct bytes_view arg, struct bytes_view *inner) {
    uint8_t mac[AUTH_MAC_LEN];

    if (!conn->is_sealed || arg.len < AUTH_MAC_LEN) {
        (void)fail(NIXL_ERR_NOT_ALLOWED, "the peer seals its frames, and no key is agreed on");
        return false;
    }
    *inner = bytes_view(arg.data + AUTH_MAC_LEN, arg.len - AUTH_MAC_LEN);
    if (!seal_mac(conn, false, conn->sealed_in, *inner, mac) || !auth_equal(mac, arg.data)) {
        (void)fail(NIXL_ERR_NOT_ALLOWED,
                   "the peer has another key (NIXL_AUTH_KEY_FILE), or its frame was changed");
        return false;
    }
    conn->sealed_in++;
    return true;
}
