/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the ETCD runtime share. Processes of this program meet by etcd and then talk over TCP
 * (runtime_etcd.c, runtime_mesh.c); beside an end of the reference all messages go through etcd's keys (etcd_keys.c).
 */
#ifndef NIXLBENCH_RUNTIME_ETCD_H
#define NIXLBENCH_RUNTIME_ETCD_H

#include "runtime.h"

#include "exchange/etcd_kv.h"

#define ETCD_KEY_SIZE 512

struct etcd_meeting {
    struct etcd_http http;
    char prefix[ETCD_KEY_SIZE / 2]; /* "xferbench/<group>/" */
    int64_t lease;                  /* what this process writes hangs on it */
    uint64_t kept_ns;               /* when the lease was last renewed */
    uint64_t lease_s;
    uint64_t patience_ms; /* how long to wait for others */
    bool is_meeting;      /* this run's keys are still there */
};

/* Renews the lease when it is time; a lost one is replaced. False with words in runtime->error. */
bool etcd_meeting_keep(struct runtime *runtime);
/* False, with etcd's words in runtime->error, when `status` is a failure. */
bool etcd_meeting_ok(struct runtime *runtime, nixl_status_t status);
/* Waits a little before the next look, longer each time, and makes progress. False: `since_ns` is too long ago, or
 * interrupted; with words: "waiting for " and what the arguments say. */
bool etcd_meeting_wait(struct runtime *runtime, uint64_t since_ns, unsigned *round, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* A socket that listens at all addresses and does not block; -1 without. */
int mesh_listen(uint16_t *port);
/* "<nonce> <port> <address> <address> ...", for others to call: the addresses of interfaces that are up, loopback's last. */
void mesh_describe(char *text, size_t size, uint64_t nonce, uint16_t port);
/* Calls rank `to`, which described itself so (up to a line's end), at one address after another, a second for each. */
bool mesh_call(struct runtime *runtime, unsigned to, const char *self);
/* Takes the calls of higher ranks that have come, without waiting for more. */
void mesh_answer(struct runtime *runtime, int listener, uint64_t nonce);

/* Messages and barriers through keys, as the reference's benchmark does it. */
extern const struct runtime_keys etcd_keys;

#endif
