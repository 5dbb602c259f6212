/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange's frames by plain sockets that wait, until one deadline for everything. docs/metadata.md has the frames. */
#include "ask.h"

#include "base/auth.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "exchange/mac.h"
#include "wire/p2p.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

struct talk {
    const char *where;
    int fd;
    uint64_t deadline_ns;
    struct auth *auth; /* NULL: no key */
    uint8_t nonce_ours[WIRE_P2P_NONCE_LEN], nonce_theirs[WIRE_P2P_NONCE_LEN];
    uint64_t sealed_in;
};

/* ---- waiting ---- */

static nixl_status_t wait_for(struct talk *talk, short events, const char *what) {
    for (;;) {
        uint64_t now_ns = clock_now_ns();
        struct pollfd p = {.fd = talk->fd, .events = events};

        if (now_ns >= talk->deadline_ns) {
            return fail(NIXL_ERR_BACKEND, "%s: %s in the time given", talk->where, what);
        }
        if (poll(&p, 1, (int)((talk->deadline_ns - now_ns) / NS_PER_MS) + 1) > 0) {
            return NIXL_SUCCESS;
        }
    }
}

static nixl_status_t write_all(struct talk *talk, const uint8_t *at, size_t len) {
    while (len != 0) {
        nixl_status_t status = wait_for(talk, POLLOUT, "what is sent is not taken");
        ssize_t n = status == NIXL_SUCCESS ? send(talk->fd, at, len, MSG_NOSIGNAL) : -1;

        if (status != NIXL_SUCCESS) {
            return status;
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return fail_errno(NIXL_ERR_BACKEND, errno, "%s: send", talk->where);
        }
        at += n > 0 ? (size_t)n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return NIXL_SUCCESS;
}

static nixl_status_t read_all(struct talk *talk, struct bytes *in, size_t len) {
    uint8_t piece[65536];

    while (len != 0) {
        nixl_status_t status = wait_for(talk, POLLIN, "no answer (is it an agent's listener?)");
        ssize_t n =
            status == NIXL_SUCCESS ? recv(talk->fd, piece, len < sizeof piece ? len : sizeof piece, 0) : -1;

        if (status != NIXL_SUCCESS) {
            return status;
        }
        if (n == 0) {
            return fail(NIXL_ERR_BACKEND,
                        "%s closed the connection: it is no agent's listener, or it asks for another key "
                        "(NIXL_AUTH_KEY_FILE)",
                        talk->where);
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return fail_errno(NIXL_ERR_BACKEND, errno, "%s: receive", talk->where);
        }
        if (n > 0 && !bytes_append(in, piece, (size_t)n)) {
            return fail_memory("an answer", (size_t)n);
        }
        len -= n > 0 ? (size_t)n : 0;
    }
    return NIXL_SUCCESS;
}

/* ---- connecting ---- */

/* "host:1", "[::1]:1", "::1" (no port). */
static void split(const char *where, char *host, size_t host_size, char *port, size_t port_size) {
    const char *end = strrchr(where, ']'), *colon = strrchr(where, ':');

    (void)snprintf(port, port_size, "%d", NIXL_DEFAULT_PORT);
    if (where[0] == '[' && end != NULL) {
        (void)snprintf(host, host_size, "%.*s", (int)(end - where - 1), where + 1);
        if (end[1] == ':') {
            (void)snprintf(port, port_size, "%s", end + 2);
        }
        return;
    }
    if (colon != NULL && colon == strchr(where, ':')) {
        (void)snprintf(host, host_size, "%.*s", (int)(colon - where), where);
        (void)snprintf(port, port_size, "%s", colon + 1);
        return;
    }
    (void)snprintf(host, host_size, "%s", where);
}

static nixl_status_t connect_one(struct talk *talk, const struct addrinfo *to) {
    nixl_status_t status = NIXL_SUCCESS;
    int err = 0;
    socklen_t len = sizeof err;

    talk->fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (talk->fd < 0) {
        return fail_errno(NIXL_ERR_BACKEND, errno, "a socket cannot be made");
    }
    if (connect(talk->fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS) {
        err = errno;
    } else {
        status = wait_for(talk, POLLOUT, "connect: no answer");
        if (status == NIXL_SUCCESS && getsockopt(talk->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0) {
            err = errno;
        }
    }
    if (status == NIXL_SUCCESS && err != 0) {
        status = fail_errno(NIXL_ERR_BACKEND, err, "%s: connect", talk->where);
    }
    if (status != NIXL_SUCCESS) {
        (void)close(talk->fd);
        talk->fd = -1;
    }
    return status;
}

static nixl_status_t connect_any(struct talk *talk) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    nixl_status_t status = NIXL_ERR_NOT_FOUND;
    char host[256], port[32];
    int rc;

    split(talk->where, host, sizeof host, port, sizeof port);
    rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0) {
        return fail(NIXL_ERR_NOT_FOUND, "%s: %s", talk->where, gai_strerror(rc));
    }
    for (const struct addrinfo *to = found; to != NULL && status != NIXL_SUCCESS; to = to->ai_next) {
        status = connect_one(talk, to);
    }
    freeaddrinfo(found);
    return status;
}

/* ---- frames ---- */

static nixl_status_t put(struct talk *talk, const struct bytes *payload) {
    uint8_t size[WIRE_P2P_SIZE_LEN];
    nixl_status_t status;

    wire_p2p_size_put(size, payload->len);
    status = write_all(talk, size, sizeof size);
    return status == NIXL_SUCCESS ? write_all(talk, payload->data, payload->len) : status;
}

/* The payload of the next frame, into `in`. */
static nixl_status_t get(struct talk *talk, struct bytes *in) {
    nixl_status_t status;
    uint64_t size;

    bytes_clear(in);
    status = read_all(talk, in, WIRE_P2P_SIZE_LEN);
    if (status != NIXL_SUCCESS) {
        return status;
    }
    size = wire_p2p_size(in->data);
    if (size < WIRE_P2P_COMMAND_LEN || size > WIRE_P2P_FRAME_MAX) {
        return fail(NIXL_ERR_MISMATCH, "%s: what answers there is no agent's listener", talk->where);
    }
    bytes_clear(in);
    return read_all(talk, in, (size_t)size);
}

static nixl_status_t no_memory(void) {
    return fail_memory("a question", 64);
}

/* Exchanges the nonces; only with a key. */
static nixl_status_t hello(struct talk *talk, struct bytes *in) {
    char hex[2 * WIRE_P2P_NONCE_LEN + 1];
    struct wire_p2p_item item;
    struct bytes out = {0};
    struct bytes_view rest;
    nixl_status_t status;

    if (getrandom(talk->nonce_ours, sizeof talk->nonce_ours, 0) != (ssize_t)sizeof talk->nonce_ours) {
        return fail(NIXL_ERR_BACKEND, "the system gives no random numbers");
    }
    text_hex_encode(hex, talk->nonce_ours, sizeof talk->nonce_ours);
    status =
        wire_p2p_command_append(&out, WIRE_P2P_HELLO, hex, sizeof hex - 1) ? put(talk, &out) : no_memory();
    bytes_free(&out);
    if (status == NIXL_SUCCESS) {
        status = get(talk, in);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    rest = bytes_view_of(in);
    if (!wire_p2p_next(&rest, &item) || item.command != WIRE_P2P_HELLO ||
        item.arg.len != 2 * WIRE_P2P_NONCE_LEN ||
        !text_hex_decode(talk->nonce_theirs, (const char *)item.arg.data, item.arg.len)) {
        return fail(NIXL_ERR_NOT_ALLOWED, "%s has no key (NIXL_AUTH_KEY_FILE)", talk->where);
    }
    return NIXL_SUCCESS;
}

static nixl_status_t question(struct talk *talk) {
    struct bytes plain = {0}, out = {0};
    uint8_t mac[AUTH_MAC_LEN];
    bool ok = wire_p2p_command_append(&plain, WIRE_P2P_SEND, NULL, 0);
    nixl_status_t status;

    if (ok && talk->auth != NULL) {
        ok = exchange_mac(talk->auth, true, talk->nonce_ours, talk->nonce_theirs, 0, bytes_view_of(&plain),
                          mac) &&
             wire_p2p_command_append(&out, WIRE_P2P_SEALED, mac, sizeof mac) &&
             bytes_append(&out, plain.data, plain.len);
    }
    status = ok ? put(talk, talk->auth != NULL ? &out : &plain) : no_memory();
    bytes_free(&plain);
    bytes_free(&out);
    return status;
}

/* The commands in a frame, their seal looked at where there is a key. */
static nixl_status_t open_seal(struct talk *talk, struct bytes_view *frame) {
    struct bytes_view rest = *frame;
    uint8_t mac[AUTH_MAC_LEN];
    struct wire_p2p_item item;

    if (talk->auth == NULL) {
        return NIXL_SUCCESS;
    }
    if (!wire_p2p_next(&rest, &item) || item.command != WIRE_P2P_SEALED || item.arg.len < AUTH_MAC_LEN) {
        return fail(NIXL_ERR_NOT_ALLOWED, "%s answers without the key (NIXL_AUTH_KEY_FILE)", talk->where);
    }
    *frame = bytes_view(item.arg.data + AUTH_MAC_LEN, item.arg.len - AUTH_MAC_LEN);
    if (!exchange_mac(talk->auth, false, talk->nonce_ours, talk->nonce_theirs, talk->sealed_in++, *frame,
                      mac) ||
        !auth_equal(mac, item.arg.data)) {
        return fail(NIXL_ERR_NOT_ALLOWED, "%s has another key (NIXL_AUTH_KEY_FILE)", talk->where);
    }
    return NIXL_SUCCESS;
}

static nixl_status_t answer(struct talk *talk, struct bytes *in, struct bytes *blob) {
    for (;;) {
        struct wire_p2p_item item;
        struct bytes_view rest;
        nixl_status_t status = get(talk, in);

        if (status != NIXL_SUCCESS) {
            return status;
        }
        rest = bytes_view_of(in);
        status = open_seal(talk, &rest);
        if (status != NIXL_SUCCESS) {
            return status;
        }
        while (wire_p2p_next(&rest, &item)) {
            if (item.command == WIRE_P2P_HELLO && talk->auth == NULL) {
                return fail(NIXL_ERR_NOT_ALLOWED, "%s asks for a key (NIXL_AUTH_KEY_FILE)", talk->where);
            }
            if (item.command != WIRE_P2P_LOAD) {
                continue;
            }
            if (item.arg.len == 0) {
                return fail(NIXL_ERR_NOT_FOUND,
                            "%s has no metadata to give: its agent has no backend that reaches others",
                            talk->where);
            }
            return bytes_append(blob, item.arg.data, item.arg.len) ? NIXL_SUCCESS : no_memory();
        }
    }
}

nixl_status_t ask_agent(const char *where, uint64_t patience_ms, struct bytes *blob) {
    struct talk talk = {.where = where, .fd = -1};
    struct bytes in = {0};
    nixl_status_t status = auth_open(&talk.auth);

    talk.deadline_ns = clock_deadline_ms(clock_now_ns(), patience_ms);
    if (status == NIXL_SUCCESS) {
        status = connect_any(&talk);
    }
    if (status == NIXL_SUCCESS && talk.auth != NULL) {
        status = hello(&talk, &in);
    }
    if (status == NIXL_SUCCESS) {
        status = question(&talk);
    }
    if (status == NIXL_SUCCESS) {
        status = answer(&talk, &in, blob);
    }
    if (talk.fd >= 0) {
        (void)close(talk.fd);
    }
    bytes_free(&in);
    auth_close(talk.auth);
    return status;
}
