/* SPDX-License-Identifier: Apache-2.0 */
/* Both agents of bench-net: opening, finding each other, and what the target does when told. */
#include "net.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
    (void)fprintf(stderr, "bench-net: %s: %s\n", what, nixl_error());
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
    void *blob = NULL;
    size_t len = 0;

    if (nixl_metadata_get(side->agent, &blob, &len) != NIXL_SUCCESS) {
        stop_with("metadata");
    }
    size = len;
    put(side->fd, &at, sizeof at);
    put(side->fd, &size, sizeof size);
    put(side->fd, blob, len);
    nixl_free(blob);
    if (!get(side->fd, &side->peer_at, sizeof side->peer_at) || !get(side->fd, &size, sizeof size) ||
        (blob = malloc(size)) == NULL || !get(side->fd, blob, size)) {
        stop_with("the other process's metadata");
    }
    if (nixl_metadata_load(side->agent, blob, size, NULL) != NIXL_SUCCESS) {
        stop_with("loading metadata");
    }
    free(blob);
}

void side_open(struct side *side, const char *name, const char *peer, size_t len) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_desc desc;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    config.progress_thread = side->has_thread;
    if (nixl_agent_create(name, &config, &side->agent) != NIXL_SUCCESS ||
        nixl_backend_create(side->agent, "UCX", NULL, 0, &side->ucx) != NIXL_SUCCESS) {
        stop_with("the agent");
    }
    side->len = len;
    side->at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (side->at == MAP_FAILED) {
        stop_with("memory");
    }
    /* Every page is there before anything is measured. */
    memset(side->at, 1, len);
    desc = (struct nixl_desc){(uintptr_t)side->at, len, 0};
    if (nixl_mem_register(side->agent, &list, NULL) != NIXL_SUCCESS) {
        stop_with("registering");
    }
    (void)snprintf(side->peer, sizeof side->peer, "%s", peer);
    exchange(side);
}

void side_close(struct side *side) {
    (void)nixl_agent_destroy(side->agent);
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
    struct nixl_notifs *notifs = NULL;

    for (;;) {
        size_t count;

        if (nixl_notif_take(side->agent, NULL, &notifs) != NIXL_SUCCESS) {
            stop_with("taking notifications");
        }
        count = notifs != NULL ? notifs->count : 0;
        nixl_notifs_release(notifs);
        if (count > 1) {
            stop_with("more notifications than were sent");
        }
        if (count == 1) {
            return;
        }
    }
}

struct nixl_xfer *xfer_of(struct side *side, nixl_xfer_op_t op, uint64_t block, size_t count, uint64_t stride,
                          bool notif) {
    struct nixl_desc *ours = calloc(count, sizeof *ours), *theirs = calloc(count, sizeof *theirs);
    struct nixl_list here = NIXL_LIST(DRAM_SEG, ours, count), there = NIXL_LIST(DRAM_SEG, theirs, count);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer = NULL;
    uint64_t slots = side->len / stride;

    if (ours == NULL || theirs == NULL) {
        stop_with("memory");
    }
    /* Scattered, but each block once: a step that has no factor in common with the power of two of slots. */
    for (size_t i = 0; i < count; i++) {
        ours[i] = (struct nixl_desc){(uintptr_t)side->at + i * 7919 % slots * stride, block, 0};
        theirs[i] = (struct nixl_desc){side->peer_at + i * 4391 % slots * stride, block, 0};
    }
    options.has_notif = notif;
    options.notif = "bench";
    options.notif_len = notif ? 5 : 0;
    if (nixl_xfer_create(side->agent, op, &here, &there, side->peer, &options, &xfer) != NIXL_SUCCESS) {
        stop_with("making a request");
    }
    free(ours);
    free(theirs);
    return xfer;
}

void xfer_run(struct nixl_xfer *xfer, uint64_t *posted_ns) {
    uint64_t start = now_ns();
    nixl_status_t status = nixl_xfer_post(xfer, NULL);

    *posted_ns = now_ns() - start;
    while (status == NIXL_IN_PROG) {
        status = nixl_xfer_poll(xfer);
    }
    if (status != NIXL_SUCCESS) {
        stop_with("a transfer");
    }
}

static void echo(struct side *side, const struct order *order) {
    struct nixl_xfer *xfer = NULL;
    uint64_t posted;

    if (order->command == COMMAND_ECHO_WRITE) {
        xfer = xfer_of(side, NIXL_WRITE, order->len, 1, order->len, true);
    }
    for (uint32_t i = 0; i < order->count; i++) {
        notif_await(side);
        if (xfer != NULL) {
            xfer_run(xfer, &posted);
        } else if (nixl_notif_send(side->agent, side->peer, "bench", 5, NULL) != NIXL_SUCCESS) {
            stop_with("a notification");
        }
    }
    if (xfer != NULL) {
        (void)nixl_xfer_release(xfer);
    }
}

/* With a progress thread the target sleeps; without one it makes progress all the time, as a server without one must. */
static bool await_order(struct side *side, struct order *order) {
    struct pollfd entry = {.fd = side->fd, .events = POLLIN};

    for (unsigned i = 0;; i++) {
        int ready = 0;

        if (!side->has_thread) {
            (void)nixl_agent_progress(side->agent);
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
