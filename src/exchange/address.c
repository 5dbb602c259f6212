/* SPDX-License-Identifier: Apache-2.0 */
/* Names and numbers of hosts as socket addresses, and listening sockets. IPv4 and IPv6. */
#include "exchange/internal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BACKLOG 128

/* "[::1]" is ::1. */
static nixl_status_t host_plain(const char *host, char *plain, size_t size) {
    size_t len = strlen(host);

    if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
    }
    if (len == 0 || len >= size) {
        return fail(NIXL_ERR_INVALID_PARAM, "the address is %s",
                    len == 0 ? "empty" : "longer than a host name may be");
    }
    memcpy(plain, host, len);
    plain[len] = '\0';
    return NIXL_SUCCESS;
}

nixl_status_t address_resolve(const char *host, uint16_t port, struct job *job) {
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char plain[NI_MAXHOST];
    char service[8];
    nixl_status_t status = host_plain(host, plain, sizeof plain);
    int rc;

    if (status != NIXL_SUCCESS) {
        return status;
    }
    snprintf(service, sizeof service, "%d", port != 0 ? port : NIXL_DEFAULT_PORT);
    rc = getaddrinfo(plain, service, &hints, &found);
    if (rc == EAI_NONAME) {
        hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
        rc = getaddrinfo(plain, service, &hints, &found);
    }
    if (rc != 0) {
        return fail(NIXL_ERR_NOT_FOUND, "host \"%.200s\" is not known: %s", plain,
                    rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    }
    job->address_count = 0;
    for (struct addrinfo *one = found; one != NULL && job->address_count < JOB_ADDRESSES;
         one = one->ai_next) {
        memcpy(&job->addresses[job->address_count], one->ai_addr, one->ai_addrlen);
        job->address_lens[job->address_count++] = one->ai_addrlen;
    }
    freeaddrinfo(found);
    return NIXL_SUCCESS;
}

const char *address_text(char *buf, size_t size, const struct sockaddr_storage *address, socklen_t len) {
    char host[NI_MAXHOST];
    char service[NI_MAXSERV];

    if (getnameinfo((const struct sockaddr *)address, len, host, sizeof host, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(buf, size, "an unknown address");
    } else {
        snprintf(buf, size, address->ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, service);
    }
    return buf;
}

bool address_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b, bool with_port) {
    if (a->ss_family != b->ss_family) {
        return false;
    }
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *x = (const struct sockaddr_in *)a;
        const struct sockaddr_in *y = (const struct sockaddr_in *)b;

        return x->sin_addr.s_addr == y->sin_addr.s_addr && (!with_port || x->sin_port == y->sin_port);
    }
    if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *x = (const struct sockaddr_in6 *)a;
        const struct sockaddr_in6 *y = (const struct sockaddr_in6 *)b;

        return memcmp(&x->sin6_addr, &y->sin6_addr, sizeof x->sin6_addr) == 0 &&
               x->sin6_scope_id == y->sin6_scope_id && (!with_port || x->sin6_port == y->sin6_port);
    }
    return false;
}

void address_unmap(struct sockaddr_storage *address, socklen_t *len) {
    struct sockaddr_in6 six;
    struct sockaddr_in four = {.sin_family = AF_INET};

    memcpy(&six, address, sizeof six);
    if (six.sin6_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
        return;
    }
    four.sin_port = six.sin6_port;
    memcpy(&four.sin_addr, six.sin6_addr.s6_addr + 12, 4);
    memset(address, 0, sizeof *address);
    memcpy(address, &four, sizeof four);
    *len = sizeof four;
}

/* Binds and listens; -1 with errno. */
static int listen_on(const struct sockaddr *address, socklen_t len, int family) {
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    int off = 0;
    int err;

    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (bind(fd, address, len) == 0 && listen(fd, BACKLOG) == 0) {
        return fd;
    }
    err = errno;
    close(fd);
    errno = err;
    return -1;
}

static uint16_t port_of(int fd) {
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof bound;

    if (getsockname(fd, (struct sockaddr *)&bound, &len) != 0) {
        return 0;
    }
    return ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                             : ((struct sockaddr_in *)&bound)->sin_port);
}

/* All addresses of both families by one socket, or of IPv4 where there is no IPv6. */
static int listen_all(uint16_t port) {
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT, .sin6_port = htons(port)};
    struct sockaddr_in four = {
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_ANY)}, .sin_port = htons(port)};
    int fd = listen_on((const struct sockaddr *)&six, sizeof six, AF_INET6);

    if (fd < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
        fd = listen_on((const struct sockaddr *)&four, sizeof four, AF_INET);
    }
    return fd;
}

nixl_status_t address_listen(const char *host, uint16_t port, int *fd, uint16_t *bound) {
    if (host == NULL || host[0] == '\0') {
        *fd = listen_all(port);
    } else {
        struct addrinfo hints = {
            .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
        struct addrinfo *found = NULL;
        char service[8];
        char plain[NI_MAXHOST];
        nixl_status_t status = host_plain(host, plain, sizeof plain);
        int rc;

        if (status != NIXL_SUCCESS) {
            error_prefix("listen for metadata");
            return status;
        }
        snprintf(service, sizeof service, "%u", port);
        rc = getaddrinfo(plain, service, &hints, &found);
        if (rc != 0) {
            return fail(NIXL_ERR_INVALID_PARAM, "listen for metadata: address \"%.200s\": %s", plain,
                        rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
        }
        *fd = listen_on(found->ai_addr, found->ai_addrlen, found->ai_family);
        freeaddrinfo(found);
    }
    if (*fd < 0) {
        int err = errno;

        return fail_errno(NIXL_ERR_BACKEND, err, "listen for metadata on %s port %u%s",
                          host != NULL && host[0] != '\0' ? host : "all addresses,", port,
                          err == EADDRINUSE ? " (another program has it; port 0 takes a free one)" : "");
    }
    *bound = port_of(*fd);
    return NIXL_SUCCESS;
}
