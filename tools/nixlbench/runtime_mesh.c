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

#define CONNECT_MS 1000 /* for a peer to be reached and to answer, or for a guest to say who it is */
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

/* A socket on its way to an address; -1 without. */
static int connect_begin(const char *address, uint16_t port) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    bool is_v4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
    const struct sockaddr *at = is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    int fd;

    if (!is_v4 && inet_pton(AF_INET6, address, &v6.sin6_addr) != 1) {
        return -1;
    }
    fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, at, is_v4 ? sizeof v4 : sizeof v6) != 0 && errno != EINPROGRESS) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool is_connected(int fd) {
    socklen_t len = sizeof(int);
    int error = 0;

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0;
}

/* The hello's own words come back within CONNECT_MS. */
static bool is_right_one(int fd, const struct hello *hello) {
    uint64_t deadline_ns = clock_now_ns() + CONNECT_MS * NS_PER_MS;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct hello answer;

    if (send(fd, hello, sizeof *hello, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof *hello) {
        return false;
    }
    while (clock_now_ns() < deadline_ns && !stop_requested()) {
        if (poll(&p, 1, 50) > 0) {
            return recv(fd, &answer, sizeof answer, MSG_DONTWAIT) == sizeof answer &&
                   memcmp(&answer, hello, sizeof answer) == 0;
        }
    }
    return false;
}

/*
 * The first of those that connects and is the right one, or -1; the others are still open, or -1. One is greeted at a time:
 * several may lead to the same process, which keeps the connection that was greeted last.
 */
static int greet(struct pollfd *calls, nfds_t count, const struct hello *hello) {
    uint64_t deadline_ns = clock_now_ns() + CONNECT_MS * NS_PER_MS;
    nfds_t left = count;

    while (left != 0 && clock_now_ns() < deadline_ns && !stop_requested()) {
        if (poll(calls, count, 50) <= 0) {
            continue;
        }
        for (nfds_t i = 0; i < count; i++) {
            if (calls[i].fd < 0 || calls[i].revents == 0) {
                continue;
            }
            if (is_connected(calls[i].fd) && is_right_one(calls[i].fd, hello)) {
                return calls[i].fd;
            }
            close(calls[i].fd);
            calls[i].fd = -1;
            left--;
        }
    }
    return -1;
}

/* Calls the process of rank `to` at all its addresses at once, because those that lead nowhere take their time. */
bool mesh_call(struct runtime *runtime, unsigned to, const char *self) {
    struct hello hello = {.from = runtime->rank, .size = runtime->size};
    struct pollfd calls[ADDRESSES_MOST];
    char shown[400];
    nfds_t count = 0;
    unsigned port;
    int used = 0, won;

    if (sscanf(self, "%16" SCNx64 " %5u%n", &hello.nonce, &port, &used) != 2 || port == 0 ||
        port > UINT16_MAX) {
        return runtime_fail(runtime, "process %u wrote an address that cannot be read into etcd", to);
    }
    for (struct text rest = {self + used, strcspn(self + used, "\n")}, piece;
         count < ADDRESSES_MOST && text_split(&rest, ' ', &piece);) {
        char address[INET6_ADDRSTRLEN];

        snprintf(address, sizeof address, "%.*s", (int)piece.len, piece.at);
        calls[count] = (struct pollfd){.fd = connect_begin(address, (uint16_t)port), .events = POLLOUT};
        count += calls[count].fd >= 0;
    }
    won = greet(calls, count, &hello);
    for (nfds_t i = 0; i < count; i++) {
        if (calls[i].fd >= 0 && calls[i].fd != won) {
            close(calls[i].fd);
        }
    }
    if (won >= 0) {
        runtime_tune(won);
        runtime->channels[to].fd = won;
        return true;
    }
    return runtime_fail(runtime, "process %u cannot be reached at any of its addresses: %s, port %u", to,
                        text_quote(shown, sizeof shown, self + used, strcspn(self + used, "\n")), port);
}

/* True when the guest has been dealt with: it is one of the run's, or none, or has said nothing for too long. */
static bool guest_heard(struct runtime *runtime, const struct mesh_guest *guest, uint64_t nonce) {
    struct hello hello;
    ssize_t n = recv(guest->fd, &hello, sizeof hello, MSG_DONTWAIT | MSG_PEEK);

    if ((n > 0 && n < (ssize_t)sizeof hello) || (n < 0 && (errno == EAGAIN || errno == EINTR))) {
        if (clock_now_ns() - guest->since_ns < CONNECT_MS * NS_PER_MS) {
            return false;
        }
    } else if (n == (ssize_t)sizeof hello && hello.nonce == nonce && hello.size == runtime->size &&
               hello.from > runtime->rank && hello.from < runtime->size &&
               recv(guest->fd, &hello, sizeof hello, MSG_DONTWAIT) == n &&
               send(guest->fd, &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT) == n) {
        /* Who calls again has given up an earlier call that was not answered in time. */
        if (runtime->channels[hello.from].fd >= 0) {
            close(runtime->channels[hello.from].fd);
        }
        runtime_tune(guest->fd);
        runtime->channels[hello.from].fd = guest->fd;
        return true;
    }
    close(guest->fd);
    return true;
}

/* A place for one more: a free one, or that of who has been silent longest. */
static struct mesh_guest *guest_place(struct mesh_guest *guests) {
    struct mesh_guest *oldest = &guests[0];

    for (size_t i = 0; i < MESH_GUESTS; i++) {
        if (guests[i].since_ns < oldest->since_ns) {
            oldest = &guests[i];
        }
    }
    if (oldest->since_ns != 0) {
        close(oldest->fd);
    }
    return oldest;
}

void mesh_answer(struct runtime *runtime, int listener, uint64_t nonce) {
    struct mesh_guest *guests = runtime->meeting->guests;

    for (unsigned accepted = 0; accepted < MESH_GUESTS; accepted++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        struct mesh_guest *guest;

        if (fd < 0) {
            break;
        }
        guest = guest_place(guests);
        *guest = (struct mesh_guest){fd, clock_now_ns()};
        if (guest_heard(runtime, guest, nonce)) {
            guest->since_ns = 0;
        }
    }
    for (size_t i = 0; i < MESH_GUESTS; i++) {
        if (guests[i].since_ns != 0 && guest_heard(runtime, &guests[i], nonce)) {
            guests[i].since_ns = 0;
        }
    }
}

void mesh_close(struct runtime *runtime) {
    struct mesh_guest *guests = runtime->meeting->guests;

    for (size_t i = 0; i < MESH_GUESTS; i++) {
        if (guests[i].since_ns != 0) {
            close(guests[i].fd);
            guests[i].since_ns = 0;
        }
    }
}
