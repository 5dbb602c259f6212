/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ASIO runtime: two processes, perhaps on two machines, perhaps one of them the reference's. Whoever can listen at
 * the address is rank 0, the initiator; the other one connects. Neither waits longer than 25 seconds for the other.
 */
#include "runtime.h"
#include "stop.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEET_MS 25000

/* A listening socket, or -1 when the address is taken or is not of this machine. */
static int listen_at(const struct addrinfo *at) {
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, 1) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool accept_peer(struct runtime *runtime, int listener, const char *where) {
    uint64_t deadline_ns = clock_now_ns() + MEET_MS * NS_PER_MS;

    while (clock_now_ns() < deadline_ns && !stop_requested()) {
        struct pollfd p = {.fd = listener, .events = POLLIN};

        if (poll(&p, 1, 100) > 0) {
            int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

            if (fd >= 0) {
                runtime_tune(fd);
                runtime->channels[1].fd = fd;
                return true;
            }
        }
    }
    return runtime_fail(runtime,
                        stop_requested() ? "interrupted while waiting at %s"
                                         : "nobody connected to %s within 25 seconds",
                        where);
}

static bool connect_peer(struct runtime *runtime, const struct addrinfo *at, const char *where) {
    uint64_t deadline_ns = clock_now_ns() + MEET_MS * NS_PER_MS;
    int rc = ETIMEDOUT;

    while (clock_now_ns() < deadline_ns && !stop_requested()) {
        int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0) {
            rc = errno;
            break;
        }
        if (connect(fd, at->ai_addr, at->ai_addrlen) == 0) {
            runtime_tune(fd);
            runtime->rank = 1;
            runtime->channels[0].fd = fd;
            return true;
        }
        rc = errno;
        close(fd);
        if (rc != ECONNREFUSED && rc != EINTR && rc != ETIMEDOUT && rc != EHOSTUNREACH && rc != ENETUNREACH) {
            break;
        }
        usleep(100000);
    }
    return runtime_fail(runtime, "cannot listen at %s nor connect to it: %s", where,
                        stop_requested() ? "interrupted" : strerror(rc));
}

bool runtime_open_asio(struct runtime *runtime, const struct bench_plan *plan) {
    const struct bench_config *c = plan->config;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *at;
    char port[16], where[300];
    bool ok;
    int listener, rc;

    memset(runtime, 0, sizeof *runtime);
    runtime->kind = RUNTIME_ASIO;
    runtime->is_foreign = true;
    if (!runtime_set_size(runtime, 2)) {
        return false;
    }
    snprintf(port, sizeof port, "%u", c->asio_port);
    snprintf(where, sizeof where, "%.250s port %s", c->asio_address, port);
    rc = getaddrinfo(c->asio_address, port, &hints, &at);
    if (rc != 0) {
        return runtime_fail(runtime, "--asio_address %s: %s", c->asio_address, gai_strerror(rc));
    }
    listener = listen_at(at);
    if (listener >= 0) {
        ok = accept_peer(runtime, listener, where);
        close(listener);
    } else {
        ok = connect_peer(runtime, at, where);
    }
    freeaddrinfo(at);
    return ok;
}
