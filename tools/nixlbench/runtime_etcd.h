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
#define MESH_GUESTS 64

/* Who has connected and not yet said who it is. */
struct mesh_guest {
    int fd;
    uint64_t since_ns; /* 0: nobody */
};

struct etcd_meeting {
    struct etcd_http http;
    char prefix[ETCD_KEY_SIZE / 2]; /* "xferbench/<group>/" */
    int64_t lease;                  /* what this process writes hangs on it */
    uint64_t kept_ns;               /* when the lease was last renewed */
    uint64_t lease_s;
    uint64_t patience_ms; /* how long to wait for others */
    bool is_meeting;      /* this run's keys are still there */
    uint64_t away_ns;     /* since when etcd cannot be reached; 0: it can */
    bool has_answered;    /* etcd did, once: when it does not, it is worth waiting for */
    bool is_away_said;
    struct mesh_guest guests[MESH_GUESTS];
};

/* Renews the lease when it is time; a lost one is replaced. False with words in runtime->error. */
bool etcd_meeting_keep(struct runtime *runtime);
/*
 * True: this call failed because etcd cannot be reached, and is worth repeating now (a little time has passed). Etcd may
 * restart or hang for as long as others are waited for; one that never answered is not waited for.
 */
bool etcd_meeting_again(struct runtime *runtime, nixl_status_t status);
/* A call that may be repeated; as etcd_meeting_ok() of it. */
#define ETCD_TRY(runtime, call)                                                                              \
    ({                                                                                                       \
        nixl_status_t etcd_try_status;                                                                       \
                                                                                                             \
        do {                                                                                                 \
            etcd_try_status = (call);                                                                        \
        } while (etcd_meeting_again(runtime, etcd_try_status));                                              \
        etcd_meeting_ok(runtime, etcd_try_status);                                                           \
    })
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
/* Calls rank `to`, which described itself so (up to a line's end), at all its addresses at once. */
bool mesh_call(struct runtime *runtime, unsigned to, const char *self);
/* Takes the calls of higher ranks that have come, without waiting for more, or for strangers who say nothing. */
void mesh_answer(struct runtime *runtime, int listener, uint64_t nonce);
/* Sends away those who have not said who they are. */
void mesh_close(struct runtime *runtime);

/* Messages and barriers through keys, as the reference's benchmark does it. */
extern const struct runtime_keys etcd_keys;

#endif
