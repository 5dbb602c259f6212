/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of src/exchange share: the jobs that calls hand to a carrier's thread, and one agent's exchange.
 * Private to this folder. Of the agent it uses nixl_agent_name(), nixl_metadata_get(), nixl_metadata_load() and
 * nixl_metadata_invalidate(), and nothing else.
 */
#ifndef EXCHANGE_INTERNAL_H
#define EXCHANGE_INTERNAL_H

#include "agent/agent.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/auth.h"

#include <sys/socket.h>

#define WORDS_SIZE 512  /* a failure's text */
#define JOB_ADDRESSES 4 /* of one host name that are tried */
#define FETCH_DEFAULT_MS 5000

struct exchange;

enum job_kind {
    JOB_SEND,
    JOB_FETCH,
    JOB_INVALIDATE
};

/* One send, fetch or invalidation on its way. Held by the carrier, and by the caller while it waits; the last one frees
 * it. Only the carrier's thread writes to it before it is done. */
struct job {
    struct job *next;
    uint32_t refs;
    uint32_t is_done; /* a futex */
    enum job_kind kind;
    nixl_status_t status;   /* the result */
    char words[WORDS_SIZE]; /* why it failed; also of the last try while it goes on */
    bool is_waited;
    bool is_tried_again; /* it goes on after a failure until the deadline */
    uint64_t deadline_ns;
    uint64_t retry_ns;
    uint64_t backoff_ms;
    char *peer;           /* whose metadata is fetched */
    char *label;          /* the store's name for what is sent or fetched */
    struct bytes payload; /* sockets: the frame without its size; stores: the blob */

    /* Sockets. */
    struct sockaddr_storage addresses[JOB_ADDRESSES];
    socklen_t address_lens[JOB_ADDRESSES];
    unsigned address_count, address_next;
    uint64_t end_offset; /* where its bytes end in what its connection sends */
    bool wants_reply;
    bool is_again; /* its kept connection broke once already */
    unsigned told; /* how many connected peers have got it otherwise */
    /* Stores. */
    uint64_t started_ns;
    unsigned phase;
};

/* What a store of metadata by name offers (etcd, TCPStore). submit takes one reference to the job. */
struct store_ops {
    void (*submit)(void *store, struct job *job);
    void (*close)(void *store);
};

struct exchange {
    struct nixl_agent *agent;
    struct nixl_agent_config config;
    struct auth *auth;                 /* NULL: no key is set */
    struct lock lock;                  /* guards what follows */
    struct p2p *p2p;                   /* NULL until it is needed */
    void *store;                       /* likewise */
    const struct store_ops *store_ops; /* NULL: no store is named */
    nixl_status_t (*store_open)(struct exchange *exchange, void **store);
    struct lock failures_lock;
    struct hash failures; /* peer -> the words of the last failure */
};

/* ---- jobs (job.c) ---- */

/* NULL without memory. The deadline counts from now; wait_ms 0: the job is not waited for. */
struct job *job_new(enum job_kind kind, const char *peer, const struct nixl_options *options,
                    uint64_t default_ms);
void job_ref(struct job *job);
void job_unref(struct job *job);
/* Ends it with this thread's error text (status < 0) or well, tells who waits, and drops the carrier's reference. */
void job_finish(struct exchange *exchange, struct job *job, nixl_status_t status);
/* Waits for the end. The words of a failure become this thread's error text. */
nixl_status_t job_wait(struct job *job, uint64_t wait_ms);
/* When to try again after a failure, in job->retry_ns; false when the deadline comes before. */
bool job_retry_at(struct job *job, uint64_t now_ns, uint64_t first_ms, uint64_t most_ms);

/* ---- the agent's exchange (exchange.c) ---- */

/* Loads a blob that answers a fetch: it must be of the agent that was asked for (NULL: of any). On failure the error
 * text says why, and it is kept for nixl_metadata_check(). */
nixl_status_t exchange_load(struct exchange *exchange, const char *expected, const void *blob, size_t len);
/* Keeps the error text as the last failure to get a peer's metadata; NULL forgets it. */
void exchange_failed(struct exchange *exchange, const char *peer, const char *words);
/* The agent's name in a blob, a malloc'd copy; NULL when it is none. */
char *exchange_blob_name(const void *blob, size_t len);

/* ---- sockets (p2p.c) ---- */

/* With config->listen_thread it listens. Fails in words. */
nixl_status_t p2p_open(struct exchange *exchange, bool listen, struct p2p **p2p);
uint16_t p2p_port(const struct p2p *p2p);
/* Takes one reference to the job, whose addresses and payload are set. */
void p2p_submit(struct p2p *p2p, struct job *job);
/* Sends what is queued, for a second at most, and ends. */
void p2p_close(struct p2p *p2p);

/* ---- addresses (address.c) ---- */

/* Fills the job's addresses from a name or number; may ask a name server. */
nixl_status_t address_resolve(const char *host, uint16_t port, struct job *job);
/* "1.2.3.4:80" or "[::1]:80"; returns buf (72 bytes are enough). */
const char *address_text(char *buf, size_t size, const struct sockaddr_storage *address, socklen_t len);
bool address_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b, bool with_port);
/* An IPv4 address that came in over an IPv6 socket becomes what it is. */
void address_unmap(struct sockaddr_storage *address, socklen_t *len);
/* A listening socket and its port. `host` NULL: all addresses. */
nixl_status_t address_listen(const char *host, uint16_t port, int *fd, uint16_t *bound);

#endif
