/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka, two agents with MOCK as in the tests of src/agent, listeners, and plain sockets that speak frames. */
#ifndef TESTS_UNIT_EXCHANGE_SOCKETS_H
#define TESTS_UNIT_EXCHANGE_SOCKETS_H

#include "unit/agent/front.h"

#include "exchange/exchange.h"
#include "wire/p2p.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

/* An agent that listens on any port of 127.0.0.1, with MOCK and memory. */
static inline void listener_begin(struct side_of_test *side, const char *name) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;

    config.listen_thread = true;
    config.listen_port = 0;
    config.listen_address = "127.0.0.1";
    side_begin(side, name, &config, "MOCK", NULL, 0, true);
    assert_true(nixl_agent_listen_port(side->agent) != 0);
}

static inline struct nixl_options to_port(uint16_t port, uint64_t wait_ms) {
    struct nixl_options options = NIXL_OPTIONS_INIT;

    options.ip_addr = "127.0.0.1";
    options.port = port;
    options.wait_ms = wait_ms;
    return options;
}

static inline struct nixl_options to_side(const struct side_of_test *side, uint64_t wait_ms) {
    return to_port(nixl_agent_listen_port(side->agent), wait_ms);
}

/* Whether a peer becomes known, or unknown, within 3 s. */
static inline bool becomes(struct nixl_agent *agent, const char *peer, bool is_known) {
    for (unsigned i = 0; i < 1500; i++) {
        if ((nixl_metadata_check(agent, peer, NULL) == NIXL_SUCCESS) == is_known) {
            return true;
        }
        usleep(2000);
    }
    return false;
}

static inline int plain_connect(uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* A listening socket that belongs to no agent. */
static inline int plain_listen(uint16_t *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static inline void plain_send(int fd, const void *payload, size_t len) {
    uint8_t size[WIRE_P2P_SIZE_LEN];

    wire_p2p_size_put(size, len);
    assert_int_equal(send(fd, size, sizeof size, MSG_NOSIGNAL), sizeof size);
    assert_int_equal(send(fd, payload, len, MSG_NOSIGNAL), len);
}

/* The bytes of a frame; false when the connection ends or nothing comes for 3 s. */
static inline bool plain_receive(int fd, struct bytes *frame) {
    uint64_t need = WIRE_P2P_SIZE_LEN;

    bytes_clear(frame);
    while (frame->len < need) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        uint8_t byte[4096];
        size_t most = need - frame->len < sizeof byte ? (size_t)(need - frame->len) : sizeof byte;
        ssize_t rc = poll(&poll_fd, 1, 3000) == 1 ? recv(fd, byte, most, 0) : -1;

        if (rc <= 0) {
            return false;
        }
        assert_true(bytes_append(frame, byte, (size_t)rc));
        if (frame->len == WIRE_P2P_SIZE_LEN) {
            need += wire_p2p_size(frame->data);
        }
    }
    memmove(frame->data, frame->data + WIRE_P2P_SIZE_LEN, frame->len - WIRE_P2P_SIZE_LEN);
    frame->len -= WIRE_P2P_SIZE_LEN;
    return true;
}

static inline bool plain_is_closed(int fd, int timeout_ms) {
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    char byte;

    return poll(&poll_fd, 1, timeout_ms) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

static inline int exchange_group(void **state) {
    exchange_install();
    return 0;
}

#endif
