/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two agents in two processes, for tests of the whole library over UCX: this process's agent, and a node: this program again,
 * by exec, with an agent that does what it is told over a socket.
 */
#ifndef UCX_NODE_H
#define UCX_NODE_H

#include <nixl/nixl.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* This process's side. */
struct local {
    struct nixl_agent *agent;
    struct nixl_backend *ucx;
    uint8_t *at;
    size_t len;
};

struct node {
    pid_t pid;
    int fd;
    char name[64];
    char error[1024];
    uint64_t addr;
    size_t len;
};

struct node_setting {
    const char *tls; /* UCX_TLS, "" for none */
    bool progress_thread;
};

/* Call first in main(): does not return in a node. The argument "ucx122" chooses UCX 1.22, or skips the program. */
void node_main(int argc, char **argv);

/* An agent with UCX and `len` bytes registered; false: see nixl_error(). */
bool local_open(struct local *l, const char *name, const struct node_setting *setting, size_t len);
/* The same with parameters of the backend. */
bool local_open_with(struct local *l, const char *name, const struct node_setting *setting, size_t len,
                     const struct nixl_param *params, size_t count);
void local_close(struct local *l);

/* When not NULL, called in the new process before it becomes a node, e.g. to enter a namespace; false ends it. */
extern bool (*node_before_exec)(void);

/* Starts a node named `name` with `len` bytes; `environment` as "NAME=value" or "NAME" (removed), ..., NULL, or NULL. */
bool node_start(struct node *n, const char *name, const struct node_setting *setting, size_t len,
                const char *const *environment);
void node_stop(struct node *n);
void node_kill(struct node *n);
/* Its blob, loaded here; ours, loaded there. */
nixl_status_t node_load(struct node *n, struct local *l);
/* Its blob alone (free()). */
void *node_blob(struct node *n, size_t *len);
nixl_status_t node_learn(struct node *n, struct local *l);
/* It deregisters its memory, which stays mapped. */
bool node_deregister(struct node *n);
void node_fill(struct node *n, size_t offset, size_t len, uint64_t seed);
bool node_check(struct node *n, size_t offset, size_t len, uint64_t seed);
nixl_status_t node_notify(struct node *n, const char *peer, const char *text, unsigned count);
/* Waits until it has `expected` notifications; how many it has. */
size_t node_received(struct node *n, size_t expected, unsigned timeout_ms);

/* The last of its notifications. */
void node_last(struct node *n, char *text, size_t size);
/* Of its notifications "check OFFSET LEN SEED", how many came before such data was there. */
size_t node_bad(struct node *n);

void pattern_fill(void *at, size_t len, uint64_t seed);
bool pattern_check(const void *at, size_t len, uint64_t seed);

/* Moves blocks[i] of ours to or from peer_blocks[i]; polls or waits until the end, at most 30 s. */
nixl_status_t move(struct local *l, struct node *n, nixl_xfer_op_t op, const struct nixl_desc *blocks,
                   const struct nixl_desc *peer_blocks, size_t count, const char *notif);

#endif
