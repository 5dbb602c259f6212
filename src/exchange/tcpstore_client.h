/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of PyTorch's TCPStore, as a client, one operation at a time with a time limit. Numbers are in the host's
 * order, which is little-endian wherever PyTorch runs. A failed operation closes the connection.
 */
#ifndef EXCHANGE_TCPSTORE_CLIENT_H
#define EXCHANGE_TCPSTORE_CLIENT_H

#include "base/bytes.h"

#include <nixl/nixl.h>

struct tcpstore_client {
    char *host;
    uint16_t port;
    uint64_t op_timeout_ms;
    uint64_t stop_ns; /* no operation goes on beyond it; 0: not yet known. Set by any thread */
    int fd;           /* -1: not connected */
};

/* Connects if that has not been done, and makes sure that a TCPStore answers. REMOTE_DISCONNECT with words. */
nixl_status_t tcpstore_connect(struct tcpstore_client *client);
void tcpstore_disconnect(struct tcpstore_client *client);

/* All of these fail as REMOTE_DISCONNECT with words. A set is answered by a ping behind it. */
nixl_status_t tcpstore_set(struct tcpstore_client *client, const char *key, const struct bytes *value);
nixl_status_t tcpstore_check(struct tcpstore_client *client, const char *key, bool *is_there);
/* Of a key that is there. */
nixl_status_t tcpstore_get(struct tcpstore_client *client, const char *key, struct bytes *value);
nixl_status_t tcpstore_delete(struct tcpstore_client *client, const char *key);

#endif
