/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of bench-net share: the rows (main.c), the two processes (target.c), and the library that is measured. There are
 * two of those behind one interface: agent.c is <nixl/nixl.h>, agent_capi.c the C interface that the reference has too, so that
 * the same program with the same clock measures both.
 */
#ifndef BENCH_NET_H
#define BENCH_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MEMORY ((size_t)1 << 30)
#define ECHO_BATCH 64u /* round trips that the target answers for one command */

struct agent;
struct xfer;

/* One agent, its memory, and the way to the other one. */
struct side {
    struct agent *agent;
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

struct block {
    uint64_t local, remote;
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
/* A request for `count` scattered blocks, `stride` apart at least, with a notification if `notif` is set. */
struct xfer *xfer_of(struct side *side, bool is_write, uint64_t block, size_t count, uint64_t stride,
                     bool notif);
/* Posts and polls to the end; *posted_ns is what the post alone took. */
void xfer_run(struct side *side, struct xfer *xfer, uint64_t *posted_ns);

/* The library; each ends the program when it fails. */
struct agent *agent_open(const char *name, bool has_thread);
void agent_close(struct agent *agent);
void agent_register(struct agent *agent, void *at, size_t len);
/* *len bytes, to be freed. */
void *agent_blob(struct agent *agent, size_t *len);
void agent_load(struct agent *agent, const void *blob, size_t len);
struct xfer *agent_xfer(struct agent *agent, const char *peer, bool is_write, const struct block *blocks,
                        size_t count, uint64_t len, bool notif);
void agent_xfer_free(struct agent *agent, struct xfer *xfer);
/* True while the transfer is under way. */
bool agent_post(struct agent *agent, struct xfer *xfer);
bool agent_poll(struct agent *agent, struct xfer *xfer);
void agent_notify(struct agent *agent, const char *peer);
/* How many have arrived since the last call. */
size_t agent_notified(struct agent *agent);
void agent_progress(struct agent *agent);
/* What carries a transfer, in words; "" when that cannot be asked. */
const char *agent_backend(struct agent *agent);
const char *agent_transport(struct agent *agent, struct xfer *xfer);
/* Why the last call failed, in words. */
const char *agent_error(void);

#endif
