/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of bench-net share: the two agents and the rows of figures. */
#ifndef BENCH_NET_H
#define BENCH_NET_H

#include <nixl/nixl.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MEMORY ((size_t)1 << 30)
#define ECHO_BATCH 64u /* round trips that the target answers for one command */

/* One agent, its memory, and the way to the other one. */
struct side {
    struct nixl_agent *agent;
    struct nixl_backend *ucx;
    uint8_t *at;
    size_t len;
    int fd;
    bool has_thread;
    char peer[16];
    uint64_t peer_at;
    pid_t child;
};

/* What the target is told. */
enum command {
    COMMAND_STOP,
    COMMAND_ECHO,      /* answer `count` notifications by one each */
    COMMAND_ECHO_WRITE /* by a write of `len` bytes with one */
};

struct order {
    uint32_t command, count;
    uint64_t len;
};

uint64_t now_ns(void);
void stop_with(const char *what) __attribute__((noreturn));

/* target.c: opens an agent named `name` and its memory; exchanges metadata over side->fd. */
void side_open(struct side *side, const char *name, const char *peer, size_t len);
void side_close(struct side *side);
/* This program again, as the target. */
void target_start(struct side *side);
void target_order(struct side *side, enum command command, uint32_t count, uint64_t len);
void target_run(int fd, bool has_thread, size_t len);
/* Waits for a notification, busily. */
void notif_await(struct side *side);
/* A write of one block, with a notification if `notif` is set. */
struct nixl_xfer *xfer_of(struct side *side, nixl_xfer_op_t op, uint64_t block, size_t count, uint64_t stride,
                          bool notif);
/* Posts and polls to the end; *posted_ns is what the post alone took. */
void xfer_run(struct nixl_xfer *xfer, uint64_t *posted_ns);

#endif
