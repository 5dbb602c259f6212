/* SPDX-License-Identifier: Apache-2.0 */
/* An etcd of the test's own on loopback, which ends with the test. */
#ifndef TESTS_UNIT_EXCHANGE_ETCD_SERVER_H
#define TESTS_UNIT_EXCHANGE_ETCD_SERVER_H

#include "sockets.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/prctl.h>

struct etcd_server {
    pid_t pid;
    uint16_t port, peer_port;
    char folder[64];
};

static inline uint16_t port_free(void) {
    uint16_t port;

    close(plain_listen(&port));
    return port;
}

static inline bool etcd_answers(const struct etcd_server *server) {
    char request[] = "GET /health HTTP/1.0\r\n\r\n";
    char answer[512] = "";
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(server->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0;

    for (size_t at = 0; good && at < sizeof answer - 1;) {
        ssize_t rc = recv(fd, answer + at, sizeof answer - 1 - at, 0);

        if (rc <= 0) {
            break;
        }
        at += (size_t)rc;
    }
    close(fd);
    return strstr(answer, "true") != NULL;
}

/* Starts it, again with what it had, on the same ports. */
static inline bool etcd_server_run(struct etcd_server *server) {
    char client[64];
    char peer[64];
    char cluster[80];
    char data[80];

    snprintf(client, sizeof client, "http://127.0.0.1:%u", server->port);
    snprintf(peer, sizeof peer, "http://127.0.0.1:%u", server->peer_port);
    snprintf(cluster, sizeof cluster, "default=%s", peer);
    snprintf(data, sizeof data, "%s/data", server->folder);
    server->pid = fork();
    if (server->pid == 0) {
        int null = open("/dev/null", O_RDWR);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(null, 1);
        dup2(null, 2);
        execlp("etcd", "etcd", "--data-dir", data, "--listen-client-urls", client, "--advertise-client-urls",
               client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
               cluster, "--unsafe-no-fsync", (char *)NULL);
        _exit(127);
    }
    for (unsigned i = 0; i < 300; i++) {
        int how;

        if (waitpid(server->pid, &how, WNOHANG) == server->pid) {
            server->pid = 0;
            return false;
        }
        if (etcd_answers(server)) {
            return true;
        }
        usleep(50000);
    }
    return false;
}

static inline bool etcd_server_start(struct etcd_server *server) {
    snprintf(server->folder, sizeof server->folder, "/tmp/nixl-test-etcd-XXXXXX");
    if (mkdtemp(server->folder) == NULL) {
        return false;
    }
    server->port = port_free();
    server->peer_port = port_free();
    return etcd_server_run(server);
}

static inline void etcd_server_kill(struct etcd_server *server) {
    if (server->pid > 0) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
        server->pid = 0;
    }
}

static inline int unlink_one(const char *path, const struct stat *about, int kind, struct FTW *walk) {
    return remove(path);
}

static inline void etcd_server_end(struct etcd_server *server) {
    etcd_server_kill(server);
    if (server->folder[0] != '\0') {
        nftw(server->folder, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

/* POSTs JSON to a path of the gateway, by hand; the answer's body is put into `answer`. */
static inline void etcd_post(const struct etcd_server *server, const char *path, const char *body,
                             char *answer, size_t size) {
    char request[4096];
    int fd = plain_connect(server->port);
    size_t at = 0;
    char *begin;

    snprintf(request, sizeof request, "POST %s HTTP/1.0\r\nContent-Length: %zu\r\n\r\n%s", path, strlen(body),
             body);
    assert_true(send(fd, request, strlen(request), MSG_NOSIGNAL) > 0);
    memset(answer, 0, size);
    while (at < size - 1) {
        ssize_t rc = recv(fd, answer + at, size - 1 - at, 0);

        if (rc <= 0) {
            break;
        }
        at += (size_t)rc;
    }
    close(fd);
    begin = strstr(answer, "\r\n\r\n");
    if (begin != NULL) {
        memmove(answer, begin + 4, strlen(begin + 4) + 1);
    }
}

#endif
