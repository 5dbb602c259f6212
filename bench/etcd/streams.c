/* SPDX-License-Identifier: Apache-2.0 */
#include "streams.h"

#include "exchange/etcd_reply.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_S 20

static int stream_open(uint16_t port, size_t number, int is_watch) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval patience = {PATIENCE_S, 0};
    struct bytes body = {0};
    char key[64], end[64], head[256], answer[2048];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int len;
    int good;

    snprintf(key, sizeof key, "agent-%zu/", number);
    snprintf(end, sizeof end, "agent-%zu0", number);
    good = bytes_append_text(&body, is_watch ? "{\"create_request\":{\"key\":\"" : "{\"key\":\"") &&
           base64_append(&body, key, strlen(key)) && bytes_append_text(&body, "\",\"range_end\":\"") &&
           base64_append(&body, end, strlen(end)) && bytes_append_text(&body, is_watch ? "\"}}" : "\"}");
    len = snprintf(
        head, sizeof head,
        "POST %s HTTP/1.1\r\nHost: etcd\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
        is_watch ? "/v3/watch" : "/v3/kv/range", body.len);
    good = good && fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
           connect(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
           send(fd, head, (size_t)len, MSG_NOSIGNAL) == len &&
           send(fd, body.data, body.len, MSG_NOSIGNAL) == (ssize_t)body.len &&
           recv(fd, answer, sizeof answer, 0) > 12 && memcmp(answer + 8, " 200", 4) == 0;
    bytes_free(&body);
    if (!good && fd >= 0) {
        close(fd);
    }
    return good ? fd : -1;
}

size_t streams_open(uint16_t port, size_t count, int is_watch, int **fds) {
    size_t open = 0;

    *fds = calloc(count, sizeof **fds);
    while (*fds != NULL && open < count) {
        (*fds)[open] = stream_open(port, open, is_watch);
        if ((*fds)[open] < 0) {
            break;
        }
        open++;
    }
    return open;
}

void streams_close(int *fds, size_t count) {
    for (size_t i = 0; i < count; i++) {
        close(fds[i]);
    }
    free(fds);
}
