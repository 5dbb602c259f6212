/* SPDX-License-Identifier: Apache-2.0 */
/* Many connections to one etcd, as many agents hold them: plain sockets, so that the program itself needs little. */
#ifndef BENCH_ETCD_STREAMS_H
#define BENCH_ETCD_STREAMS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Opens up to `count` connections; each asks for a watch of the prefix "agent-<i>/" when `is_watch`, else it makes one
 * small call and stays open. Returns how many are open and answered; *fds gets their sockets (free() and close() them).
 */
size_t streams_open(uint16_t port, size_t count, int is_watch, int **fds);
void streams_close(int *fds, size_t count);

#endif
