/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP connections between any two processes of a run that have met somewhere else: each says where it listens, and those
 * of higher rank call those of lower rank. A call names the nonce of the one it wants, and is answered in its own words;
 * so nobody is taken for somebody else who had the same port before.
 */
#include "runtime_etcd.h"
#include "stop.h"

#include "base/clock.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MS 1000 /* for one address of a peer */
#define ADDRESSES_MOST 16

int mesh_listen(uint16_t *port) {
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    struct sockaddr_in any4 = {.sin_family = AF_INET};
    struct sockaddr *at = (struct sockaddr *)&any;
    socklen_t len = sizeof any;
    int off = 0;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        at = (struct sockaddr *)&any4;
        len = sizeof any4;
    } else {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (fd < 0 || bind(fd, at, len) != 0 || listen(fd, 64) != 0 || getsockname(fd, at, &len) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    *port = ntohs(at->sa_family == AF_INET6 ? any.sin6_port : any4.sin_port);
    return fd;
}

/* "<nonce> <port> <address> <address> ...": those of this machine's interfaces that are up, loopback's last, because only
 * a process of the same machine reaches it there. */
void mesh_describe(char *text, size_t size, uint64_t nonce, uint16_t port) {
    struct ifaddrs *all = NULL;
    size_t len = 0;
    unsigned count = 0;

    text_append(text, size, &len, "%016" PRIx64 " %u", nonce, port);
    if (getifaddrs(&all) != 0) {
        all = NULL;
    }
    for (int loopback = 0; loopback < 2; loopback++) {
        for (struct ifaddrs *one = all; one != NULL && count < ADDRESSES_MOST; one = one->ifa_next) {
            int family = one->ifa_addr != NULL ? one->ifa_addr->sa_family : AF_UNSPEC;
            char address[INET6_ADDRSTRLEN];
            const void *raw = family == AF_INET
                                  ? (void *)&((struct sockaddr_in *)(void *)one->ifa_addr)->sin_addr
                                  : (void *)&((struct sockaddr_in6 *)(void *)one->ifa_addr)->sin6_addr;

            if ((family != AF_INET && family != AF_INET6) || (one->ifa_flags & IFF_UP) == 0 ||
                ((one->ifa_flags & IFF_LOOPBACK) != 0) != (loopback != 0) ||
                (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)raw))) {
                continue;
            }
            if (inet_ntop(family, raw, address, sizeof address) != NULL) {
                text_append(text, size, &len, " %s", address);
                count++;
            }
        }
    }
    freeifaddrs(all);
}

struct hello {
    uint64_t nonce; /* of the one that is called */
    uint32_t from;
    uint32_t size;
};

/* All of it within CONNECT_MS. */
static bool all_bytes(int fd, void *data, size_t len, bool is_send) {
    uint64_t deadline_ns = clock_now_ns() + CONNECT_MS * NS_PER_MS;
    char *at = data;

    while (len != 0) {
        struct pollfd p = {.fd = fd, .events = is_send ? POLLOUT : POLLIN};
        ssize_t n;

        if (clock_now_ns() > deadline_ns || stop_requested()) {
            return false;
        }
        if (poll(&p, 1, 100) <= 0) {
            continue;
        }
        n = is_send ? send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, len, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            return false;
        }
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return true;
}

static int connect_to(const char *address, uint16_t port) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    bool is_v4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
    const struct sockaddr *at = is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    struct pollfd p = {.events = POLLOUT};
    socklen_t len = sizeof(int);
    int error = 0;

    if (!is_v4 && inet_pton(AF_INET6, address, &v6.sin6_addr) != 1) {
        return -1;
    }
    p.fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p.fd < 0) {
        return -1;
    }
    if ((connect(p.fd, at, is_v4 ? sizeof v4 : sizeof v6) != 0 && errno != EINPROGRESS) ||
        poll(&p, 1, CONNECT_MS) != 1 || getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 ||
        error != 0) {
        close(p.fd);
        return -1;
    }
    return p.fd;
}

/* Calls the process of rank `to` at one address after another; the right one answers with the hello's own words. */
bool mesh_call(struct runtime *runtime, unsigned to, const char *self) {
    struct hello hello = {.from = runtime->rank, .size = runtime->size}, answer;
    unsigned port;
    int used;

    if (sscanf(self, "%16" SCNx64 " %u%n", &hello.nonce, &port, &used) != 2) {
        return runtime_fail(runtime, "process %u wrote an address that cannot be read into etcd", to);
    }
    for (struct text rest = {self + used, strcspn(self + used, "\n")}, piece;
         text_split(&rest, ' ', &piece);) {
        char address[INET6_ADDRSTRLEN];
        int fd;

        snprintf(address, sizeof address, "%.*s", (int)piece.len, piece.at);
        fd = piece.len != 0 ? connect_to(address, (uint16_t)port) : -1;
        if (fd >= 0 && all_bytes(fd, &hello, sizeof hello, true) &&
            all_bytes(fd, &answer, sizeof answer, false) && memcmp(&answer, &hello, sizeof hello) == 0) {
            runtime_tune(fd);
            runtime->channels[to].fd = fd;
            return true;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    return runtime_fail(runtime, "process %u cannot be reached at any of its addresses:%.*s, port %u", to,
                        (int)strcspn(self + used, "\n"), self + used, port);
}

/* Takes the calls of higher ranks that have come. A stranger holds up the others for CONNECT_MS at most. */
void mesh_answer(struct runtime *runtime, int listener, uint64_t nonce) {
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct hello hello;

        if (all_bytes(fd, &hello, sizeof hello, false) && hello.nonce == nonce &&
            hello.size == runtime->size && hello.from > runtime->rank && hello.from < runtime->size &&
            all_bytes(fd, &hello, sizeof hello, true)) {
            /* Who calls again has given up an earlier call that was not answered in time. */
            if (runtime->channels[hello.from].fd >= 0) {
                close(runtime->channels[hello.from].fd);
            }
            runtime_tune(fd);
            runtime->channels[hello.from].fd = fd;
        } else {
            close(fd);
        }
    }
}
