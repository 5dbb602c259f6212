/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixl/backend.h - the plugin interface of NIXL.
 *
 * A backend moves bytes for an agent. It is one `static const struct nixl_backend_ops` with designated
 * initializers, one table of options, and one exported function, nixl_backend_v1(), in a shared object named
 * libplugin_<NAME>.so. It uses no symbol of libnixl, of nixl.h the types and numbers alone (not even
 * nixl_status_string()): whatever it wants of the agent (errors, log, configuration, completion,
 * notifications) it asks of the `struct nixl_host` it gets at open. Plain C11, valid C++17.
 * docs/writing-a-backend.md has an example.
 *
 * Life of an instance
 *   open -> region_open, peer_open, key_open ... -> request_open -> post -> complete -> post ...
 *        -> request_close -> key_close, peer_close, region_close -> close
 *   The agent closes everything it opened, inner things first: no request of a peer or region is open when
 *   the peer, its keys or the region are closed; nothing is open at close.
 *
 * Who calls, under which lock
 *   Control operations (open, close, region_*, key_*, peer_open, peer_close, conn_info, note, view_*, query)
 *   of one instance are never called at the same time as one another: the agent holds the instance's control
 *   lock. They may take long: no lock of the agent's tables is held, and transfers go on meanwhile.
 *   Data operations (post, cancel, progress, notify, transport, cost, peer_state, peer_connect) may be called
 *   at any time between open and close, from any thread, several at once, also for one peer, also while a
 *   control operation runs. request_open, post, cancel and request_close of one request are never called at
 *   the same time as one another, but complete() for it may happen at any moment after post was entered.
 *   A backend guards its own state. No lock of the agent that `host` functions could need is ever held by the
 *   caller, and no `host` function calls back into the backend: they may be called with the backend's own
 *   locks held.
 *
 * Errors
 *   The function that finds a fault says it, once: `return host->fail(host->ctx, NIXL_ERR_..., "...")`. It
 *   needs not name the agent's call or the backend: the agent adds them. Never abort, exit, print, or assert
 *   on what a user, a peer, a file or a server sent. Secrets never go into a text.
 */
#ifndef NIXL_BACKEND_H
#define NIXL_BACKEND_H

#include <nixl/nixl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with an incompatible change. Compatible ones add members at a struct's end: see the `size`
 * members. */
#define NIXL_BACKEND_ABI 1u

/* ---- Options: one table is all there is to them ------------------------------------------------------- */

enum nixl_option_kind {
    NIXL_OPTION_BOOL = 0,   /* bool;     y yes on 1 true enable / n no off 0 false disable */
    NIXL_OPTION_INT = 1,    /* int64_t;  decimal */
    NIXL_OPTION_UINT = 2,   /* uint64_t; decimal or 0x */
    NIXL_OPTION_SIZE = 3,   /* uint64_t bytes; with k, M, G (powers of 1024) */
    NIXL_OPTION_STRING = 4, /* const char *; never NULL, lives until close */
    NIXL_OPTION_ENUM = 5    /* int; place of the word in `choices` */
};

/* One option. The agent parses and checks the value a user gave (else the environment variable `env`, else
 * the default), stores it at `offset` of the backend's options struct as the C type above, and refuses
 * unknown names, malformed values and values out of range in words. Values of -1 etc. are refused for
 * unsigned kinds. */
struct nixl_option {
    const char *name;
    enum nixl_option_kind kind;
    size_t offset;             /* offsetof() in the struct of options_bytes bytes */
    const char *default_value; /* as text; never NULL */
    int64_t min;               /* INT: the range. UINT, SIZE: 0 to max (min if above 0). Both 0: any */
    uint64_t max;
    const char *choices; /* ENUM: "none|peer" */
    const char *alias;   /* another accepted name, or NULL */
    const char *env;     /* environment or configuration key asked when no parameter is given, or NULL */
    const char *help;    /* one line: what it does, its unit */
    bool secret;         /* the value is never printed */
};

/* ---- Requests ----------------------------------------------------------------------------------------- */

/* `count` blocks: the i-th is len bytes (also 0) at local + i * local_stride and at remote + i *
 * remote_stride. A single block is a run of one. Addresses mean what descriptors of their kind mean
 * (nixl_mem_t). Each block lies in the region of its key; where that one was registered with len 0 "to the
 * end", the backend itself looks where the end is. */
struct nixl_run {
    uint64_t local, remote, len;
    uint64_t local_stride, remote_stride;
    void *local_key;      /* region_open()'s handle of the local region */
    void *remote_key;     /* key_open()'s handle; for this agent's own region, memory or storage, what
                           * key_self() gave, without that operation the region's handle */
    uint32_t count;       /* at least 1 */
    uint32_t first_index; /* the user's index of block 0; of the i-th: first_index + i (for errors) */
};

enum nixl_request_flags {
    NIXL_REQUEST_KEEP_LISTS = 1u << 0,    /* no merging, no reordering of blocks */
    NIXL_REQUEST_NOTIFY_FAILURE = 1u << 1 /* tell the target, if it lives, when this request fails */
};

/* A transfer as the backend sees it. The agent owns it; the backend reads it, and writes *state and
 * done_bytes. Between request_open and request_close all but the notif members stays the same. */
struct nixl_request {
    size_t size; /* of this struct, as the agent knows it */
    nixl_xfer_op_t op;
    nixl_mem_t local_mem, remote_mem; /* any pair of the instance's kinds: request_open refuses others */
    uint32_t flags;
    void *peer; /* peer_open()'s handle; NULL: this agent itself (loopback or storage) */
    const struct nixl_run *runs;
    size_t run_count;
    uint64_t block_count; /* sum of the runs' counts */
    uint64_t total_bytes; /* never overflows */
    /* Notification to send once the data is in place, set anew for each post. has_notif false: none. For
     * loopback the agent delivers it itself and has_notif is false here. */
    const void *notif;
    size_t notif_len;
    bool has_notif;
    /* The user's bytes for the backend (options->custom). */
    const void *custom;
    size_t custom_len;
    /* request_bytes for the backend, 16-byte aligned. Zeroed before request_open, then left alone: a second
     * post finds what the first one left. */
    void *state;
    /* Bytes completed in this run. The backend adds (relaxed, with __atomic builtins) whenever an operation
     * completes: deadlines see by it whether anything moves. The agent zeroes it before post. */
    uint64_t done_bytes;
};

/* Why a request ended without success. The agent copies it. */
struct nixl_failure {
    size_t size;
    nixl_status_t status; /* negative */
    int os_error;         /* errno, or 0 */
    size_t run;           /* the first run that failed, or NIXL_NO_INDEX */
    uint64_t block;       /* block within that run */
    uint64_t bytes_done;
    const char *text; /* the cause in words */
};

#define NIXL_FAILURE_INIT                                                                                    \
    { sizeof(struct nixl_failure), NIXL_ERR_BACKEND, 0, NIXL_NO_INDEX, 0, 0, NULL }

enum nixl_cancel {
    NIXL_CANCEL_GENTLE = 0, /* the user, or a release: stop issuing; what is under way may finish */
    /* A deadline, or the peer was removed: end it now, also by tearing down the connection to its peer (which
     * fails everything else to that peer). */
    NIXL_CANCEL_FORCE = 1
};

/* ---- What the agent offers: struct nixl_host ---------------------------------------------------------- */

enum nixl_log_level {
    NIXL_LOG_TRACE = 0,
    NIXL_LOG_DEBUG = 1,
    NIXL_LOG_INFO = 2,
    NIXL_LOG_WARN = 3,
    NIXL_LOG_ERROR = 4,
    NIXL_LOG_FATAL = 5
};

/* The agent's side, valid from open until close returns. Every function may be called from any thread, with
 * any lock of the backend held, and never calls the backend. Pass `ctx` first. */
struct nixl_host {
    uint32_t abi;
    size_t size;
    void *ctx;
    const char *agent;    /* the agent's name */
    bool progress_thread; /* the agent has a progress thread */
    bool telemetry;       /* times are being kept */
    enum nixl_sync sync;
    uint64_t stall_timeout_ms; /* the agent's default */

    /* Sets this thread's error text and returns `status`. */
    nixl_status_t (*fail)(void *ctx, nixl_status_t status, const char *format, ...) NIXL_PRINTF(3, 4);
    /* A line of log. A plain start must print nothing: what is merely missing is DEBUG. */
    void (*log)(void *ctx, enum nixl_log_level level, const char *format, ...) NIXL_PRINTF(3, 4);
    /* Whether a line of that level would be written: ask before costly preparation. */
    bool (*log_wants)(void *ctx, enum nixl_log_level level);
    /* Environment variable or configuration-file key, NULL when unset. Valid until close. */
    const char *(*config)(void *ctx, const char *key);

    /* Ends a posted request, exactly once a post that returned IN_PROG: failure NULL is success (all bytes in
     * place at the target, or here; the notification handed to the transport, after the data). After this
     * call the request may be closed or posted again by another thread at any moment: touch it no more. A
     * request that was told to cancel ends with CANCELED (the agent supplies the words), or with success if
     * it was faster. */
    void (*complete)(void *ctx, struct nixl_request *request, const struct nixl_failure *failure);
    /* A notification has arrived; bytes are copied. `sender` needs no terminator. Order of calls is order of
     * delivery. */
    void (*notified)(void *ctx, const char *sender, size_t sender_len, const void *msg, size_t len);
    /* A peer's connection failed (token: as given to peer_open). The backend also ends that peer's requests
     * itself. */
    void (*peer_failed)(void *ctx, void *token, nixl_status_t status, const char *text);
    /* There is progress to be made: wakes whoever makes it, if it sleeps. For backends with a lock-free
     * hand-over. */
    void (*wake)(void *ctx);
};

/* What open() may narrow or add; filled from the ops table before the call. */
struct nixl_instance {
    size_t size;
    uint32_t mems;      /* memory kinds that really work here (NIXL_MEM_BIT() set) */
    uint32_t caps;      /* enum nixl_cap set */
    uint32_t rank;      /* declared cost: the lower is preferred among backends that can serve */
    int event_fd;       /* progress by events: readable when there is something to do, once armed. -1: none */
    uint32_t period_us; /* progress by time: at least that often even without events. 0: by events alone */
    /* event_fd -1 and period_us 0: the backend has threads of its own (or finishes inside post); progress may
     * be NULL. */
};

/* Suggested ranks. */
enum nixl_rank {
    NIXL_RANK_MEMORY = 10,
    NIXL_RANK_RDMA = 50,
    NIXL_RANK_NETWORK = 100,
    NIXL_RANK_STORAGE = 200
};

/* Collects what query() finds. */
struct nixl_query_sink {
    void *ctx;
    /* Block `index` exists and has this property. An index never named is "not found". Strings are copied.
     * A failure is for query to return. */
    nixl_status_t (*found)(void *ctx, size_t index, const char *key, const char *value);
};

/* ---- The operations ----------------------------------------------------------------------------------- */

/* An operation may be NULL where its comment says so or names a capability that the backend does not have;
 * progress and arm where struct nixl_instance asks for none. */
struct nixl_backend_ops {
    uint32_t abi;     /* NIXL_BACKEND_ABI */
    size_t size;      /* sizeof(struct nixl_backend_ops): the agent reads no further; the rest is NULL */
    const char *name; /* as in the file's name */
    const char *version;
    const char *summary;  /* one line */
    uint32_t mems;        /* NIXL_MEM_BIT() set that may work */
    uint32_t caps;        /* enum nixl_cap set. REMOTE needs NOTIF and the conn, peer and key operations */
    uint32_t rank;        /* enum nixl_rank or between */
    uint32_t reserved;    /* 0 */
    size_t options_bytes; /* size of the struct that the options table fills */
    const struct nixl_option *options;
    size_t option_count;
    size_t request_bytes; /* size of a request's `state` */

    /* Control. Opens an instance for an agent. `options` is the filled struct (options_bytes), valid until
     * close. Here, not before, libraries are looked for: what is missing is said with how to get it. Writes
     * *self on success only. Fails: INVALID_PARAM, NOT_SUPPORTED, BACKEND. */
    nixl_status_t (*open)(const struct nixl_host *host, const void *options, struct nixl_instance *instance,
                          void **self);
    /* Control. Nothing is open any more. Joins the backend's threads; after it no host function is called. */
    void (*close)(void *self);
    /* Any time. One line for people: library, version, file, choices made. Valid until close. May be NULL. */
    const char *(*describe)(void *self);

    /* Control. Registers a block, or opens what its metadata names (meta_len bytes without a terminator; none
     * when the program gave none). Each call is one registration, also of the same block again. The kind is
     * one of instance->mems. The handle is the backend's own affair, also NULL or the same for all. Fails:
     * INVALID_PARAM, NOT_FOUND, NOT_SUPPORTED, BACKEND. */
    nixl_status_t (*region_open)(void *self, nixl_mem_t mem, const struct nixl_meta_desc *desc,
                                 void **region);
    /* Control. Must cope with memory that is no longer mapped. */
    void (*region_close)(void *self, void *region);
    /* Control; REMOTE only. The bytes by which others reach the region; they stay the region's. */
    nixl_status_t (*region_key)(void *self, void *region, const void **key, size_t *len);
    /* Control; LOCAL only, may be NULL (the region's handle serves). The remote_key for loopback; lives as
     * the region. */
    nixl_status_t (*key_self)(void *self, void *region, void **key);
    /* Control, may be NULL (NOT_SUPPORTED). Asks for blocks that need not be registered. What is missing is
     * not a failure, what cannot be asked is: name the index. */
    nixl_status_t (*query)(void *self, nixl_mem_t mem, const struct nixl_meta_desc *descs, size_t count,
                           const struct nixl_query_sink *sink);

    /* Control; REMOTE only. The bytes by which others reach this instance; they stay the instance's. */
    nixl_status_t (*conn_info)(void *self, const void **conn, size_t *len);
    /* Control; may be NULL. A short text or bytes (at most 255) that travel beside conn and are given to the
     * other side's peer_open: what it must know before it lets its library read our bytes. */
    nixl_status_t (*note)(void *self, const void **note, size_t *len);
    /* Control; REMOTE only. Learns a peer from its conn bytes. note NULL: the peer sent none (the reference).
     * `conn` comes from another machine: checked by length and checksum when a note is there, by nothing when
     * not. `token` is for peer_failed. Does not wait for the network. The same name may be open more than
     * once (a restarted peer beside its former self).
     * Fails: MISMATCH (version, in words), INVALID_PARAM, BACKEND. */
    nixl_status_t (*peer_open)(void *self, const char *name, void *token, const void *conn, size_t conn_len,
                               const void *note, size_t note_len, void **peer);
    /* Control. Forgets a peer. Does not wait for it: it may be dead or stopped. */
    void (*peer_close)(void *self, void *peer);
    /* Data; may be NULL. Starts connecting. SUCCESS: connected, IN_PROG: under way (ask peer_state). */
    nixl_status_t (*peer_connect)(void *self, void *peer);
    /* Data; may be NULL (SUCCESS). SUCCESS: usable, IN_PROG: connecting, REMOTE_DISCONNECT: failed for
     * good. */
    nixl_status_t (*peer_state)(void *self, void *peer);
    /* Data; may be NULL. Writes what carries bytes to a peer (NULL: to this agent) for that kind of memory:
     * "rc_mlx5", "cma". */
    nixl_status_t (*peer_transport)(void *self, void *peer, nixl_mem_t mem, char *text, size_t size);
    /* Control; REMOTE only. Makes a key of a peer's region from its bytes (checked as conn is). */
    nixl_status_t (*key_open)(void *self, void *peer, nixl_mem_t mem, const struct nixl_desc *desc,
                              const void *bytes, size_t len, void **key);
    void (*key_close)(void *self, void *peer, void *key);

    /* Prepares a request: limits, lists, opening paths. May be NULL. Called with no lock held, by the thread
     * that makes the request.
     * Fails: INVALID_PARAM, NOT_SUPPORTED (this backend cannot move such a request: the agent tries the next
     * one), BACKEND. */
    nixl_status_t (*request_open)(void *self, struct nixl_request *request);
    /* Ends it; it is not in flight. May be NULL. */
    void (*request_close)(void *self, struct nixl_request *request);
    /* Data. Starts a request, also again. Takes microseconds whatever the size: issues a bounded part and the
     * rest from completions. SUCCESS: all done, complete() will not be called. IN_PROG: complete() will be
     * called, perhaps before this returns. A failure: nothing is in flight, complete() will not be called.
     * Where a block is to blame, fail by complete(), which can name it, and return IN_PROG. */
    nixl_status_t (*post)(void *self, struct nixl_request *request);
    /* Data. Asks a posted request to end early; complete() is still what ends it, when no operation touches
     * local memory any more. Returns at once.
     * May be called for a request that is completing at this moment, and again with more force. */
    void (*cancel)(void *self, struct nixl_request *request, enum nixl_cancel how);
    /* Data; may be NULL, and may fail with NOT_SUPPORTED: then the agent times transfers and tells by those.
     * Fills duration_ns, margin_ns and method. Also asked when a request is made and several backends of one
     * rank could carry it, so the answer for the same request should stay the same. */
    nixl_status_t (*cost)(void *self, const struct nixl_request *request, struct nixl_cost *cost);
    /* Data; may be NULL. As peer_transport, for a request. */
    nixl_status_t (*transport)(void *self, const struct nixl_request *request, char *text, size_t size);

    /* Data; NOTIF only. Sends a notification; the bytes are the backend's to copy. In order with those of
     * this agent's requests to the peer (the order in which they completed). IN_PROG is not a failure: the
     * backend has taken it. */
    nixl_status_t (*notify)(void *self, void *peer, const void *msg, size_t len);

    /* Data. Makes progress without waiting: completes requests, delivers notifications. Returns how many
     * events it handled; after 0 the agent may sleep until event_fd, period_us or wake(). Several threads may
     * call it at once: who finds another one inside returns 0 at once. */
    unsigned (*progress)(void *self);
    /* Called by one thread at a time. Arms event_fd. SUCCESS: armed, sleep on it. IN_PROG: something is
     * waiting, call progress() first. */
    nixl_status_t (*arm)(void *self);

    /* Control; may be NULL. Memory views: `blocks` have their region or key handles; key NULL is an empty
     * slot. */
    nixl_status_t (*view_open)(void *self, nixl_mem_t mem, bool remote, const struct nixl_desc *descs,
                               void *const *keys, void *const *peers, size_t count, void **view);
    void (*view_close)(void *self, void *view);

    /* Called by one thread at a time, beside arm and progress of others; may be NULL. Sleeps in the way that is
     * cheapest for this backend, instead of arm and a sleep on event_fd, until progress() would find something,
     * `fd` becomes readable, or clock CLOCK_MONOTONIC reaches `until_ns`
     * (UINT64_MAX: never): whichever is first; it may also return for nothing. Does not do the work itself: what
     * ends a request is the progress() that follows. Meanwhile progress() of other threads may leave the
     * results to the sleeper. SUCCESS; IN_PROG: `fd` is readable. NOT_SUPPORTED: not here; the agent arms and
     * sleeps on event_fd. For instances with an event_fd. */
    nixl_status_t (*wait)(void *self, int fd, uint64_t until_ns);

    /* Data; may be NULL. With `begins` several posts follow from this thread, without it they have been made: between the
     * two the backend may keep what is posted, to hand it over at once. Comes in pairs, microseconds apart, also of several
     * threads at once; a begin binds nobody else's posts for longer than until its own end. */
    void (*batch)(void *self, bool begins);
};

/* The one function that a plugin exports. Called once when the file is opened; returns a table that lives as
 * long as the file. */
#define NIXL_BACKEND_ENTRY "nixl_backend_v1"
NIXL_API const struct nixl_backend_ops *nixl_backend_v1(void);

#ifdef __cplusplus
}
#endif
#endif
