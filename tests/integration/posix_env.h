/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of file transfers share: an agent with a POSIX backend, and places that misbehave (a small
 * tmpfs, a loop device whose file is cut short, a FUSE file system of our own). Places need root; they live
 * in a mount namespace of their own and end with the process.
 */
#ifndef TESTS_POSIX_ENV_H
#define TESTS_POSIX_ENV_H

#include <nixl/nixl.h>

struct node {
    struct nixl_agent *agent;
    struct nixl_backend *posix;
};

/* Makes an agent "files" with POSIX; `queue` is "use_uring", "use_aio", "use_posix_aio" or NULL. The status
 * of the backend's creation; the agent is there in any case. */
nixl_status_t node_open(struct node *n, const char *queue, bool progress_thread);
void node_close(struct node *n);

nixl_status_t node_register(struct node *n, nixl_mem_t mem, uint64_t addr, uint64_t len, uint64_t dev,
                            const char *meta);
nixl_status_t node_deregister(struct node *n, nixl_mem_t mem, uint64_t addr, uint64_t len, uint64_t dev);
/* A transfer between one block of memory and one of a file. */
nixl_status_t node_xfer(struct node *n, nixl_xfer_op_t op, const void *buf, uint64_t len, uint64_t dev,
                        uint64_t offset, struct nixl_xfer **xfer);
/* Posts and waits, at most 30 s. */
nixl_status_t node_run(struct nixl_xfer *xfer);

/* Bytes that tell their place. */
void pattern(void *buf, uint64_t len, uint64_t seed);

/* NULL, or why there can be no places here. Enters the mount namespace. */
const char *place_none(void);
/* An empty tmpfs of that many bytes at a new folder. */
const char *place_tmpfs(size_t bytes, char dir[64]);
/* A loop device over a new file of that many bytes: `device` is its path, `backing` the file's descriptor. */
const char *place_loop(size_t bytes, char device[64], int *backing);
void place_loop_end(const char *device, int backing);

/*
 * A file system of one folder at `dir`, all files direct (every read and write reaches the server):
 *   good   1 MiB that can be read and written
 *   short  the same, at most 1,000 bytes at a time
 *   eio    the same; everything that touches bytes from 65,536 on fails with EIO
 *   hang   reads and writes are not answered until they are interrupted
 * All four share the bytes that `bytes` points to (1 MiB, shared with the server's process).
 */
const char *place_fuse(char dir[64], unsigned char **bytes);
void place_fuse_end(void);

#endif
