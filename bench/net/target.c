/* SPDX-License-Identifier: Apache-2.0 */
/* Both agents of bench-net: opening, finding each other, and what the target does when told. */
#include "net.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

uint64_t now_ns(void) {
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void stop_with(const char *what) {
    (void)fprintf(stderr, "bench-net: %s: %s\n", what, agent_error());
    exit(1);
}

static void put(int fd, const void *data, size_t len) {
    for (const char *at = data; len > 0;) {
        ssize_t n = write(fd, at, len);

        if (n <= 0) {
            stop_with("the other process ended");
        }
        at += n;
        len -= (size_t)n;
    }
}

static bool get(int fd, void *data, size_t len) {
    for (char *at = data; len > 0;) {
        ssize_t n = read(fd, at, len);

        if (n <= 0) {
            return false;
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static void exchange(struct side *side) {
    uint64_t at = (uintptr_t)side->at, size;
    size_t len = 0;
    void *blob = agent_blob(side->agent, &len);

    size = len;
    put(side->fd, &at, sizeof at);
    put(side->fd, &size, sizeof size);
    put(side->fd, blob, len);
    free(blob);
    if (!get(side->fd, &side->peer_at, sizeof side->peer_at) || !get(side->fd, &size, sizeof size) ||
        (blob = malloc(size)) == NULL || !get(side->fd, blob, size)) {
        stop_with("the other process's metadata");
    }
    agent_load(side->agent, blob, size);
    free(blob);
}

void side_open(struct side *side, const char *name, const char *peer, size_t len) {
    side->agent = agent_open(name, side->has_thread);
    side->len = len;
    side->at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (side->at == MAP_FAILED) {
        stop_with("memory");
    }
    /* Every page is there before anything is measured. */
    memset(side->at, 1, len);
    agent_register(side->agent, side->at, len);
    (void)snprintf(side->peer, sizeof side->peer, "%s", peer);
    exchange(side);
}

void side_close(struct side *side) {
    agent_close(side->agent);
    (void)munmap(side->at, side->len);
}

void target_start(struct side *side) {
    char fd[16], size[32], self[4096];
    char *const argv[] = {self, "--target", fd, side->has_thread ? "1" : "0", size, NULL};
    ssize_t got = readlink("/proc/self/exe", self, sizeof self - 1);
    int pair[2];

    if (got <= 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        stop_with("the second process");
    }
    self[got] = '\0';
    (void)snprintf(fd, sizeof fd, "%d", pair[1]);
    (void)snprintf(size, sizeof size, "%zu", MEMORY);
    side->child = fork();
    if (side->child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(pair[0]);
        (void)execve(self, argv, environ);
        _exit(127);
    }
    (void)close(pair[1]);
    side->fd = pair[0];
}

void target_order(struct side *side, enum command command, uint32_t count, uint64_t len) {
    struct order order = {command, count, len};

    put(side->fd, &order, sizeof order);
    if (command == COMMAND_STOP) {
        (void)waitpid(side->child, NULL, 0);
        (void)close(side->fd);
    }
}

void notif_await(struct side *side) {
    size_t count;

    do {
        count = agent_notified(side->agent);
    } while (count == 0);
    if (count > 1) {
        stop_with("more notifications than were sent");
    }
}

struct xfer *xfer_of(struct side *side, bool is_write, uint64_t block, size_t count, uint64_t stride,
                     bool notif) {
    struct block *blocks = calloc(count, sizeof *blocks);
    uint64_t slots = side->len / stride;
    struct xfer *xfer;

    if (blocks == NULL) {
        stop_with("memory");
    }
    /* Scattered, but each block once: a step that has no factor in common with the power of two of slots. */
    for (size_t i = 0; i < count; i++) {
        blocks[i].local = (uintptr_t)side->at + i * 7919 % slots * stride;
        blocks[i].remote = side->peer_at + i * 4391 % slots * stride;
    }
    xfer = agent_xfer(side->agent, side->peer, is_write, blocks, count, block, notif);
    free(blocks);
    return xfer;
}

void xfer_run(struct side *side, struct xfer *xfer, uint64_t *posted_ns) {
    uint64_t start = now_ns();
    bool is_under_way = agent_post(side->agent, xfer);

    *posted_ns = now_ns() - start;
    while (is_under_way) {
        is_under_way = agent_poll(side->agent, xfer);
    }
}

static void echo(struct side *side, const struct order *order) {
    struct xfer *xfer = NULL;
    uint64_t posted;

    if (order->command == COMMAND_ECHO_WRITE) {
        xfer = xfer_of(side, true, order->len, 1, order->len, true);
    }
    for (uint32_t i = 0; i < order->count; i++) {
        notif_await(side);
        if (xfer != NULL) {
            xfer_run(side, xfer, &posted);
        } else {
            agent_notify(side->agent, side->peer);
        }
    }
    if (xfer != NULL) {
        agent_xfer_free(side->agent, xfer);
    }
}

/* With a progress thread the target sleeps; without one it makes progress all the time, as a server without one must. */
static bool await_order(struct side *side, struct order *order) {
    struct pollfd entry = {.fd = side->fd, .events = POLLIN};

    for (unsigned i = 0;; i++) {
        int ready = 0;

        if (!side->has_thread) {
            agent_progress(side->agent);
        }
        if (side->has_thread || i % 64 == 0) {
            ready = poll(&entry, 1, side->has_thread ? -1 : 0);
        }
        if (ready > 0) {
            return get(side->fd, order, sizeof *order);
        }
    }
}

void target_run(int fd, bool has_thread, size_t len) {
    struct side side = {.fd = fd, .has_thread = has_thread};
    struct order order;

    side_open(&side, "target", "initiator", len);
    while (await_order(&side, &order) && order.command != COMMAND_STOP) {
        echo(&side, &order);
    }
    side_close(&side);
}
