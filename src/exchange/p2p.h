/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the socket carrier share. One thread owns everything here but the inbox: it waits in epoll for the
 * listener, for all connections in both directions, and for jobs. So there are no locks around connections, and
 * none of them can hold up another. Limits keep peers in bounds that send much, slowly, nothing or nonsense.
 */
#ifndef EXCHANGE_P2P_H
#define EXCHANGE_P2P_H

#include "exchange/internal.h"
#include "wire/p2p.h"

#define CONN_ACCEPTED_MOST 256 /* the one idle longest makes room for a new one */
#define CONN_KEPT_MOST 256     /* connections of our own that stay open for later */
#define CONNECT_MS 1000
#define FRAME_MS 5000                      /* for a frame to come in or go out, and … */
#define FRAME_BYTES_PER_MS 1024            /* … a millisecond more for each of these */
#define HELD_MOST (UINT64_C(1) << 30)      /* bytes of unfinished frames of all accepted connections */
#define READ_AT_ONCE (size_t)(1024 * 1024) /* then others have their turn */
#define RETRY_FIRST_MS 20
#define RETRY_MOST_MS 500

struct p2p;

enum conn_state {
    CONN_CONNECTING,
    CONN_HELLO,
    CONN_READY
};

struct conn {
    struct conn *next, *previous;
    struct p2p *p2p;
    int fd;
    uint32_t events; /* what epoll watches */
    enum conn_state state;
    bool is_accepted;
    bool has_asked; /* the peer knows us by this connection */
    bool is_reused; /* it has carried a job before */
    bool is_bad;    /* to be closed when its event has been handled */
    bool is_gone;   /* the peer has closed it */
    struct sockaddr_storage address;
    socklen_t address_len;
    struct bytes in;    /* the size, then the frame as far as it is there */
    uint64_t frame_len; /* of the frame that comes in; 0: its size is not complete */
    struct bytes out;
    size_t out_at;                            /* of `out`, what has gone */
    uint64_t queued, sent;                    /* bytes ever */
    uint64_t in_deadline_ns, out_deadline_ns; /* CLOCK_NEVER: none */
    uint64_t used_ns;
    struct job *jobs, **jobs_end; /* in the order of their frames */
    /* With a key. */
    uint8_t nonce_ours[WIRE_P2P_NONCE_LEN], nonce_theirs[WIRE_P2P_NONCE_LEN];
    bool is_sealed;
    uint64_t sealed_in, sealed_out;
};

struct p2p {
    struct exchange *exchange;
    struct thread thread;
    int epoll, wake, listener;
    bool listener_is_paused;
    uint64_t listener_resume_ns;
    uint16_t port;
    struct lock lock; /* guards inbox and is_stopping */
    struct job *inbox, **inbox_end;
    bool is_stopping;
    struct conn *conns;
    unsigned accepted, kept;
    uint64_t held; /* bytes in unfinished frames of accepted connections */
    struct job *retries;
    uint64_t warned_ns; /* when a peer's fault was last written as a warning */
    unsigned warnings;
};

/* ---- connections (conn.c) ---- */

struct conn *conn_new(struct p2p *p2p, int fd, const struct sockaddr_storage *address, socklen_t len,
                      bool is_accepted);
/* A connection to that address, new or kept; NULL with words. */
struct conn *conn_to(struct p2p *p2p, const struct sockaddr_storage *address, socklen_t len);
/* Ends it. Its jobs go to p2p_job_failed() with this thread's error text. */
void conn_close(struct conn *conn);
/* Appends a job: its frame goes out when the connection is ready. False with words. */
bool conn_attach(struct conn *conn, struct job *job);
/* Queues a frame of these commands. False with words. */
bool conn_put(struct conn *conn, struct bytes_view payload);
void conn_event(struct conn *conn, uint32_t events);
/* Closes what is late. Returns the next time to look. */
uint64_t conn_late(struct conn *conn, uint64_t now_ns);
/* Says what a peer did wrong: a warning, or with many of them a line for debugging. */
void conn_blame(const struct conn *conn);

/* ---- handshake and seals (seal.c), with a key only ---- */

bool seal_hello(struct conn *conn);
bool seal_hello_got(struct conn *conn, struct bytes_view arg);
/* Appends the sealed form of a payload. */
bool seal_put(struct conn *conn, struct bytes_view payload, struct bytes *out);
/* Checks a sealed item and gives what is in it. */
bool seal_open(struct conn *conn, struct bytes_view arg, struct bytes_view *inner);

/* ---- jobs (p2p.c) ---- */

/* A try has failed for the reason in the error text. */
void p2p_job_failed(struct p2p *p2p, struct job *job, enum conn_state state, bool was_reused);
/* A command that is no answer. */
void p2p_command(struct conn *conn, const struct wire_p2p_item *item);

#endif
