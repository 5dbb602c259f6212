/* SPDX-License-Identifier: Apache-2.0 */
/* One connection to a TCPStore; see tcpstore_client.h. */
#include "exchange/tcpstore_client.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC 0x3C85F7CEu
#define VALUE_MOST (UINT64_C(1) << 30)
#define READ_STEP (size_t)(64 * 1024)

enum operation {
    VALIDATE = 0,
    SET = 1,
    GET = 3,
    CHECK = 5,
    DELETE_KEY = 8,
    PING = 13
};

static nixl_status_t broke(struct tcpstore_client *client, int err, const char *doing) {
    tcpstore_disconnect(client);
    if (err == 0) {
        return fail(NIXL_ERR_REMOTE_DISCONNECT, "TCPStore at %s:%u: %s: it closed the connection",
                    client->host, client->port, doing);
    }
    return fail_errno(NIXL_ERR_REMOTE_DISCONNECT, err, "TCPStore at %s:%u: %s", client->host, client->port,
                      doing);
}

/* ---- bytes ---- */

/* 0, or ETIMEDOUT, or what poll says. */
static int wait_for(const struct tcpstore_client *client, short events, uint64_t deadline_ns) {
    for (;;) {
        const uint64_t stop_ns = __atomic_load_n(&client->stop_ns, __ATOMIC_ACQUIRE);
        const uint64_t now = clock_now_ns();
        const uint64_t until = stop_ns != 0 && stop_ns < deadline_ns ? stop_ns : deadline_ns;
        struct pollfd one = {.fd = client->fd, .events = events};
        uint64_t ms;
        int rc;

        if (now >= until) {
            return ETIMEDOUT;
        }
        /* In steps, for the agent may end meanwhile. */
        ms = (until - now) / NS_PER_MS + 1;
        rc = poll(&one, 1, ms < 100 ? (int)ms : 100);
        if (rc > 0) {
            return 0;
        }
        if (rc < 0 && errno != EINTR) {
            return errno;
        }
    }
}

static uint64_t op_deadline(const struct tcpstore_client *client) {
    return clock_deadline_ms(clock_now_ns(), client->op_timeout_ms);
}

static nixl_status_t send_all(struct tcpstore_client *client, const struct bytes *data,
                              uint64_t deadline_ns) {
    for (size_t at = 0; at < data->len;) {
        ssize_t rc = send(client->fd, data->data + at, data->len - at, MSG_NOSIGNAL);
        int err = errno;

        if (rc >= 0) {
            at += (size_t)rc;
            continue;
        }
        if (err == EAGAIN || err == EINTR) {
            err = wait_for(client, POLLOUT, deadline_ns);
        }
        if (err != 0) {
            return broke(client, err, "sending");
        }
    }
    return NIXL_SUCCESS;
}

static nixl_status_t receive_all(struct tcpstore_client *client, void *to, size_t len, uint64_t deadline_ns) {
    for (size_t at = 0; at < len;) {
        ssize_t rc = recv(client->fd, (uint8_t *)to + at, len - at, 0);
        int err = errno;

        if (rc > 0) {
            at += (size_t)rc;
            continue;
        }
        if (rc == 0) {
            return broke(client, 0, "receiving");
        }
        if (err == EAGAIN || err == EINTR) {
            err = wait_for(client, POLLIN, deadline_ns);
        }
        if (err != 0) {
            return broke(client, err, "receiving");
        }
    }
    return NIXL_SUCCESS;
}

static bool string_append(struct bytes *out, const void *data, size_t len) {
    uint64_t size = len;

    return bytes_append(out, &size, sizeof size) && bytes_append(out, data, len);
}

/* Sends a request that was made, receives the fixed part of its answer, and frees the request. */
static nixl_status_t ask(struct tcpstore_client *client, struct bytes *request, bool is_made, void *answer,
                         size_t len) {
    uint64_t deadline_ns = op_deadline(client);
    nixl_status_t status = is_made ? tcpstore_connect(client) : fail_memory("a request to TCPStore", 0);

    if (status == NIXL_SUCCESS) {
        status = send_all(client, request, deadline_ns);
    }
    if (status == NIXL_SUCCESS && len != 0) {
        status = receive_all(client, answer, len, deadline_ns);
    }
    bytes_free(request);
    return status;
}

/* ---- the connection ---- */

void tcpstore_disconnect(struct tcpstore_client *client) {
    if (client->fd >= 0) {
        close(client->fd);
    }
    client->fd = -1;
}

static int connect_to(struct tcpstore_client *client, const struct addrinfo *address, uint64_t deadline_ns) {
    int on = 1;
    int err = 0;
    socklen_t len = sizeof err;

    client->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (client->fd < 0) {
        return errno;
    }
    (void)setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(client->fd, address->ai_addr, address->ai_addrlen) != 0) {
        err = errno == EINPROGRESS ? wait_for(client, POLLOUT, deadline_ns) : errno;
        if (err == 0 && getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0) {
            err = errno;
        }
    }
    if (err != 0) {
        tcpstore_disconnect(client);
    }
    return err;
}

/* Is it one, and does it listen? */
static nixl_status_t greet(struct tcpstore_client *client, uint64_t deadline_ns) {
    struct bytes request = {0};
    const uint32_t magic = MAGIC;
    const uint32_t nonce = (uint32_t)getpid() ^ (uint32_t)clock_now_ns();
    uint32_t echo = 0;
    nixl_status_t status;

    if (!bytes_append_byte(&request, VALIDATE) || !bytes_append(&request, &magic, sizeof magic) ||
        !bytes_append_byte(&request, PING) || !bytes_append(&request, &nonce, sizeof nonce)) {
        bytes_free(&request);
        tcpstore_disconnect(client);
        return fail_memory("a request to TCPStore", 0);
    }
    status = send_all(client, &request, deadline_ns);
    if (status == NIXL_SUCCESS) {
        status = receive_all(client, &echo, sizeof echo, deadline_ns);
    }
    bytes_free(&request);
    if (status == NIXL_SUCCESS && echo != nonce) {
        status = broke(client, EPROTO, "its first answer is wrong, this is no TCPStore");
    }
    return status;
}

nixl_status_t tcpstore_connect(struct tcpstore_client *client) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    uint64_t deadline_ns = op_deadline(client);
    char service[8];
    int err = EHOSTUNREACH;
    int rc;

    if (client->fd >= 0) {
        return NIXL_SUCCESS;
    }
    snprintf(service, sizeof service, "%u", client->port);
    rc = getaddrinfo(client->host, service, &hints, &found);
    if (rc != 0) {
        return fail(NIXL_ERR_REMOTE_DISCONNECT, "TCPStore at %s:%u: %s", client->host, client->port,
                    rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    }
    for (const struct addrinfo *one = found; one != NULL && client->fd < 0; one = one->ai_next) {
        err = connect_to(client, one, deadline_ns);
    }
    freeaddrinfo(found);
    return client->fd >= 0 ? greet(client, deadline_ns) : broke(client, err, "connecting");
}

/* ---- operations ---- */

nixl_status_t tcpstore_set(struct tcpstore_client *client, const char *key, const struct bytes *value) {
    struct bytes request = {0};
    const uint32_t nonce = (uint32_t)clock_now_ns();
    uint32_t echo = 0;
    bool is_made = bytes_append_byte(&request, SET) && string_append(&request, key, strlen(key)) &&
                   string_append(&request, value->data, value->len) && bytes_append_byte(&request, PING) &&
                   bytes_append(&request, &nonce, sizeof nonce);
    nixl_status_t status = ask(client, &request, is_made, &echo, sizeof echo);

    return status == NIXL_SUCCESS && echo != nonce ? broke(client, EPROTO, "a wrong answer to a ping")
                                                   : status;
}

nixl_status_t tcpstore_check(struct tcpstore_client *client, const char *key, bool *is_there) {
    struct bytes request = {0};
    const uint64_t one = 1;
    uint8_t answer = 1;
    bool is_made = bytes_append_byte(&request, CHECK) && bytes_append(&request, &one, sizeof one) &&
                   string_append(&request, key, strlen(key));
    nixl_status_t status = ask(client, &request, is_made, &answer, sizeof answer);

    if (status == NIXL_SUCCESS && answer > 1) {
        status = broke(client, EPROTO, "a wrong answer to a check");
    }
    *is_there = status == NIXL_SUCCESS && answer == 0;
    return status;
}

nixl_status_t tcpstore_get(struct tcpstore_client *client, const char *key, struct bytes *value) {
    struct bytes request = {0};
    uint64_t len = 0;
    bool is_made = bytes_append_byte(&request, GET) && string_append(&request, key, strlen(key));
    nixl_status_t status = ask(client, &request, is_made, &len, sizeof len);

    bytes_clear(value);
    if (status == NIXL_SUCCESS && len > VALUE_MOST) {
        return broke(client, EMSGSIZE, "a value is announced that is longer than a gibibyte");
    }
    /* Memory comes with the bytes, not with their announcement. */
    while (status == NIXL_SUCCESS && value->len < len) {
        size_t step = len - value->len < READ_STEP ? (size_t)(len - value->len) : READ_STEP;
        uint8_t *at = bytes_extend(value, step);

        status = at != NULL ? receive_all(client, at, step, op_deadline(client))
                            : broke(client, ENOMEM, "a value is too long");
    }
    return status;
}

nixl_status_t tcpstore_delete(struct tcpstore_client *client, const char *key) {
    struct bytes request = {0};
    int64_t count = 0;
    bool is_made = bytes_append_byte(&request, DELETE_KEY) && string_append(&request, key, strlen(key));

    return ask(client, &request, is_made, &count, sizeof count);
}
