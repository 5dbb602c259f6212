/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peers that are fetched from etcd and then watched: a put of what was fetched is loaded, the deletion of a peer's
 * announce key forgets the peer. One stream carries all watches; it is opened anew when one is added. Used by the etcd
 * carrier's thread only.
 */
#ifndef EXCHANGE_ETCD_WATCH_H
#define EXCHANGE_ETCD_WATCH_H

#include "exchange/etcd_http.h"
#include "exchange/internal.h"

struct etcd_watch;

struct etcd_watches {
    struct exchange *exchange;
    struct etcd_http *http;
    CURLM *multi;
    char *name_space;
    struct etcd_watch *first;
    struct etcd_stream stream; /* easy NULL: none */
    bool is_stale;             /* the stream does not carry all watches */
    uint64_t retry_ns, backoff_ms;
};

/* <namespace>/<agent>/<label>; NULL without memory. */
char *etcd_key(const char *name_space, const char *agent, const char *label);

void etcd_watches_open(struct etcd_watches *watches, struct exchange *exchange, struct etcd_http *http,
                       CURLM *multi);
/* Cancels its jobs. */
void etcd_watches_close(struct etcd_watches *watches);
/* Takes the job's reference. */
void etcd_watch_fetch(struct etcd_watches *watches, struct job *job, const char *label);
/* Asks etcd for what is not known yet. REMOTE_DISCONNECT when it cannot be reached. */
nixl_status_t etcd_watch_get(struct etcd_watches *watches);
/* Ends fetches that are too late; returns the next deadline. `down`: why etcd is not reached, or NULL. */
uint64_t etcd_watch_late(struct etcd_watches *watches, uint64_t now_ns, const char *down);
/* Opens the stream anew if that is due; returns when to look again. */
uint64_t etcd_watch_stream(struct etcd_watches *watches, bool is_down, uint64_t now_ns);
/* Takes what the stream has brought. */
void etcd_watch_read(struct etcd_watches *watches);

#endif
