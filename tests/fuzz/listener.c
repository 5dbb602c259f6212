/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a stranger to the listener of a living agent, over a socket of loopback. The first byte of an input says how the
 * rest goes out: as it is, or as the payload of a well-formed frame (odd), in one piece or in two (bit 1). After every
 * input the agent must still answer a well-behaved peer within a second, and its own region must still be there.
 */
#include "exchange/exchange.h"
#include "wire/p2p.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define INPUTS_AN_AGENT 2000 /* then a new one: a stranger's peers stay known to the old one */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct nixl_agent *agent;
static char memory[4096];

static void agent_begin(void) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_desc desc = {(uint64_t)(uintptr_t)memory, sizeof memory, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_backend *backend;
    nixl_status_t status;

    config.listen_thread = true;
    config.listen_port = 0;
    config.listen_address = "127.0.0.1";
    status = nixl_agent_create("listener", &config, &agent);
    assert(status == NIXL_SUCCESS);
    status = nixl_backend_create(agent, "MOCK", NULL, 0, &backend);
    assert(status == NIXL_SUCCESS);
    status = nixl_mem_register(agent, &list, NULL);
    assert(status == NIXL_SUCCESS);
}

/* Each thousand of connections comes from an address of its own, or ports in TIME_WAIT would run out. */
static int join_listener(void) {
    static uint32_t count;
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {htonl(0x7f010000u + count++ / 1000)}};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(nixl_agent_listen_port(agent)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval patience = {1, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = fd;

    if (rc >= 0) {
        rc = bind(fd, (struct sockaddr *)&from, sizeof from);
    }
    if (rc == 0) {
        rc = setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    }
    if (rc == 0) {
        rc = connect(fd, (struct sockaddr *)&to, sizeof to);
    }
    assert(rc == 0);
    return fd;
}

/* What the stranger sends; the listener may close at any time, so failures to send are no findings. */
static void put(int fd, const void *data, size_t len) {
    ssize_t sent = len != 0 ? send(fd, data, len, MSG_NOSIGNAL) : 0;

    (void)sent;
}

static void put_frame_head(int fd, size_t len) {
    uint8_t size[WIRE_P2P_SIZE_LEN];

    wire_p2p_size_put(size, len);
    put(fd, size, sizeof size);
}

/* Reads until the listener has closed. */
static void drain(int fd) {
    char answer[4096];

    shutdown(fd, SHUT_WR);
    while (recv(fd, answer, sizeof answer, 0) > 0) {
    }
    close(fd);
}

static void must_answer(void) {
    static const char ask[] = "NIXLCOMM:SEND", load[] = "NIXLCOMM:LOADnixlSerDes|";
    char answer[WIRE_P2P_SIZE_LEN + sizeof load - 1];
    int fd = join_listener();
    ssize_t got;

    put_frame_head(fd, sizeof ask - 1);
    put(fd, ask, sizeof ask - 1);
    got = recv(fd, answer, sizeof answer, MSG_WAITALL);
    assert(got == (ssize_t)sizeof answer && memcmp(answer + WIRE_P2P_SIZE_LEN, load, sizeof load - 1) == 0);
    drain(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static unsigned inputs;
    size_t half;
    int fd;

    if (agent == NULL) {
        setenv("NIXL_PLUGIN_DIR", FUZZ_PLUGIN_DIR, 1);
        log_set_level(LOG_LEVEL_FATAL);
        exchange_install();
    }
    if (inputs++ % INPUTS_AN_AGENT == 0) {
        nixl_agent_destroy(agent);
        agent_begin();
    }
    if (size == 0) {
        return 0;
    }
    fd = join_listener();
    half = (data[0] & 2) != 0 ? (size - 1) / 2 : 0;
    if ((data[0] & 1) != 0) {
        put_frame_head(fd, size - 1);
    }
    put(fd, data + 1, half);
    put(fd, data + 1 + half, size - 1 - half);
    drain(fd);
    must_answer();
    return 0;
}
