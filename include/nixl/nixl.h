/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixl/nixl.h - the application interface of NIXL.
 *
 * An agent registers memory, tells other agents where it is (metadata), and starts asynchronous one-sided
 * reads and writes between its own memory and another agent's, or its own storage. Plain C11, valid C++17.
 *
 * Conventions
 *  - Every function that can fail returns nixl_status_t; outputs come last. Output handles and pointers are
 *    set to NULL first and written only on success.
 *  - After a failure nixl_error() gives this thread the reason in words: the call, the index, the address,
 *    the backend and the cause. An asynchronous failure is told by nixl_xfer_error() and nixl_peer_error().
 *  - Structs passed singly begin with `size`: initialize them with the NIXL_..._INIT macro and set what you
 *    need. Arrays of items carry an item size, so both can grow without breaking a compiled program.
 *  - Results given as a pointer to a struct are one heap block: release it with nixl_free().
 *  - Strings are NUL-terminated and at most NIXL_NAME_MAX bytes for names. Lengths are bytes, times carry
 *    their unit in the name.
 *
 * Threads
 *  Every function may be called from any thread, in every sync mode, also on one handle at once, unless its
 *  comment says otherwise. The modes differ in what may run in parallel (enum nixl_sync). A handle must not
 *  be used after it was released. No callback is ever made into the application.
 *
 * fork
 *  After fork() the parent goes on. In the child an inherited agent answers NIXL_ERR_NOT_ALLOWED with words.
 */
#ifndef NIXL_NIXL_H
#define NIXL_NIXL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NIXL_API __attribute__((visibility("default")))
#define NIXL_PRINTF(fmt_index, first_arg) __attribute__((format(printf, fmt_index, first_arg)))
#else
#define NIXL_API
#define NIXL_PRINTF(fmt_index, first_arg)
#endif

#define NIXL_VERSION_MAJOR 0
#define NIXL_VERSION_MINOR 1
#define NIXL_VERSION_PATCH 0

/* The TCP port that metadata listeners use when none is named. */
#define NIXL_DEFAULT_PORT 8888
/* Longest agent, backend or option name in bytes, without the terminator. */
#define NIXL_NAME_MAX 1023
/* Longest notification in bytes that every backend must carry. */
#define NIXL_NOTIF_MAX (64u * 1024u * 1024u)
/* "No limit" for a time in nixl_options and nixl_agent_config; 0 means "the default". */
#define NIXL_NO_TIMEOUT UINT64_MAX
/* "No descriptor" as an index. */
#define NIXL_NO_INDEX SIZE_MAX

/* ---- Kinds, values as the reference's ----------------------------------------------------------------- */

/* What a descriptor's three numbers mean:
 *   DRAM_SEG  addr: host address             dev: 0
 *   VRAM_SEG  addr: device address           dev: GPU index
 *   BLK_SEG   addr: byte offset              dev: volume id
 *   OBJ_SEG   addr: byte offset              dev: key id           metadata: the object's key
 *   FILE_SEG  addr: byte offset              dev: open descriptor  metadata: path or "mode:path"
 * For BLK, OBJ and FILE a registered len of 0 means "to the end, whatever it is". Files: docs/files.md. */
typedef enum {
    DRAM_SEG = 0,
    VRAM_SEG = 1,
    BLK_SEG = 2,
    OBJ_SEG = 3,
    FILE_SEG = 4
} nixl_mem_t;

#define NIXL_MEM_KINDS 5
/* A set of memory kinds: bit 1 << kind. */
#define NIXL_MEM_BIT(kind) (1u << (unsigned)(kind))

typedef enum {
    NIXL_READ = 0, /* remote (or storage) into local */
    NIXL_WRITE = 1 /* local into remote (or storage) */
} nixl_xfer_op_t;

typedef enum {
    NIXL_IN_PROG = 1,
    NIXL_SUCCESS = 0,
    NIXL_ERR_NOT_POSTED = -1,
    NIXL_ERR_INVALID_PARAM = -2,
    NIXL_ERR_BACKEND = -3,
    NIXL_ERR_NOT_FOUND = -4,
    NIXL_ERR_MISMATCH = -5,
    NIXL_ERR_NOT_ALLOWED = -6,
    NIXL_ERR_REPOST_ACTIVE = -7,
    NIXL_ERR_UNKNOWN = -8,
    NIXL_ERR_NOT_SUPPORTED = -9,
    NIXL_ERR_REMOTE_DISCONNECT = -10,
    NIXL_ERR_CANCELED = -11,
    NIXL_ERR_NO_TELEMETRY = -12
} nixl_status_t;

/* How calls of several threads on one agent run. All modes are memory-safe.
 *   NONE    no order is promised; tables are guarded by one cheap lock, transfers run in parallel
 *   STRICT  one call at a time on one agent
 *   RW      calls that only search run together, calls that change tables run alone */
enum nixl_sync {
    NIXL_SYNC_NONE = 0,
    NIXL_SYNC_STRICT = 1,
    NIXL_SYNC_RW = 2
};

/* What a backend can do (nixl_backend_caps()). */
enum nixl_cap {
    NIXL_CAP_REMOTE = 1u << 0, /* reaches other agents */
    NIXL_CAP_LOCAL = 1u << 1,  /* transfers within this agent: loopback, or memory to storage */
    NIXL_CAP_NOTIF = 1u << 2   /* carries notifications */
};

struct nixl_agent;   /* an agent */
struct nixl_backend; /* one backend of one agent; lives as long as its agent */
struct nixl_dlist;   /* a prepared descriptor list */
struct nixl_xfer;    /* a transfer request */

/* ---- Descriptors -------------------------------------------------------------------------------------- */

/* A block. 24 bytes, frozen: also the wire's row and a row of an N x 3 uint64 array. */
struct nixl_desc {
    uint64_t addr, len, dev;
};

/* `count` blocks of `len` bytes, the next one `stride` bytes after the last one's start. Stands for `count`
 * descriptors wherever indices are counted. */
struct nixl_strided_desc {
    uint64_t addr, len, dev, stride, count;
};

/* A block with metadata bytes for the backend (registration of files and objects). */
struct nixl_meta_desc {
    uint64_t addr, len, dev;
    const void *meta;
    size_t meta_len;
};

/* A block of a named agent; agent NULL is an empty slot (memory views). */
struct nixl_remote_desc {
    uint64_t addr, len, dev;
    const char *agent;
};

enum nixl_form {
    NIXL_FORM_PLAIN = 0,   /* items are struct nixl_desc */
    NIXL_FORM_STRIDED = 1, /* items are struct nixl_strided_desc */
    NIXL_FORM_META = 2,    /* items are struct nixl_meta_desc */
    NIXL_FORM_REMOTE = 3   /* items are struct nixl_remote_desc */
};

/* A list of descriptors of one memory kind. The items stay the caller's and are read during the call only. */
struct nixl_list {
    size_t size; /* sizeof(struct nixl_list) */
    nixl_mem_t mem;
    uint32_t form; /* enum nixl_form */
    const void *items;
    size_t item_bytes; /* distance between items in bytes; 0: the natural size of `form` */
    size_t count;      /* items, not blocks */
};

#define NIXL_LIST_INIT                                                                                       \
    { sizeof(struct nixl_list), DRAM_SEG, 0, NULL, 0, 0 }
/* A list of `n` struct nixl_desc at `array`. */
#define NIXL_LIST(kind, array, n)                                                                            \
    { sizeof(struct nixl_list), (kind), NIXL_FORM_PLAIN, (array), 0, (n) }
#define NIXL_LIST_STRIDED(kind, array, n)                                                                    \
    { sizeof(struct nixl_list), (kind), NIXL_FORM_STRIDED, (array), 0, (n) }
#define NIXL_LIST_META(kind, array, n)                                                                       \
    { sizeof(struct nixl_list), (kind), NIXL_FORM_META, (array), 0, (n) }

/* ---- Options and results ------------------------------------------------------------------------------ */

/* Optional arguments. Each call reads the members its comment names and ignores the others. */
struct nixl_options {
    size_t size; /* sizeof(struct nixl_options) */
    /* Backends to use, preferred first. None: the agent chooses. */
    struct nixl_backend *const *backends;
    size_t backend_count;
    /* Notification that the other side gets after the data (make, create, post). Any bytes, also none. */
    const void *notif;
    size_t notif_len;
    bool has_notif;
    bool keep_lists;     /* no merging of descriptors (make) */
    bool include_conn;   /* connection information in a partial blob */
    bool notify_failure; /* tell a target that is alive when this transfer fails (make, create) */
    /* Metadata exchange: a peer's address (empty or NULL: by name), its port, the label of a partial blob. */
    const char *ip_addr;
    uint16_t port;
    const char *label;
    /* Bytes for the backend, passed on untouched (make, create). They are copied. */
    const void *custom;
    size_t custom_len;
    /* Deadline of the whole transfer, and how long it may make no progress while its peer is silent (make,
     * create; the post uses them). 0: the agent's, NIXL_NO_TIMEOUT: none. */
    uint64_t timeout_ms;
    uint64_t stall_timeout_ms;
    uint64_t wait_ms; /* metadata exchange and connect: wait that long for the result; 0: do not wait */
};

#define NIXL_OPTIONS_INIT                                                                                    \
    {                                                                                                        \
        sizeof(struct nixl_options), NULL, 0, NULL, 0, false, false, false, false, NULL, NIXL_DEFAULT_PORT,  \
            NULL, NULL, 0, 0, 0, 0                                                                           \
    }

struct nixl_agent_config {
    size_t size; /* sizeof(struct nixl_agent_config) */
    /* A thread makes progress and keeps deadlines; else polls, waits, posts and notification calls do. */
    bool progress_thread;
    bool listen_thread;     /* listen for metadata of peers */
    bool capture_telemetry; /* keep times of each transfer (nixl_xfer_stats()) */
    enum nixl_sync sync;
    uint16_t listen_port;       /* 0: the system chooses (nixl_agent_listen_port()) */
    const char *listen_address; /* NULL: all addresses */
    uint64_t progress_delay_us; /* accepted for compatibility: the thread sleeps on events, not on time */
    uint64_t listen_delay_us;   /* likewise */
    uint64_t etcd_watch_timeout_us;
    uint64_t xfer_timeout_ms;  /* 0: NIXL_XFER_TIMEOUT_MS or none */
    uint64_t stall_timeout_ms; /* 0: NIXL_STALL_TIMEOUT_MS or 30,000 */
};

#define NIXL_AGENT_CONFIG_INIT                                                                               \
    {                                                                                                        \
        sizeof(struct nixl_agent_config), false, false, false, NIXL_SYNC_NONE, NIXL_DEFAULT_PORT, NULL, 0,   \
            100000, 5000000, 0, 0                                                                            \
    }

struct nixl_param {
    const char *key, *value;
};

struct nixl_params {
    size_t count;
    const struct nixl_param *items;
};

struct nixl_names {
    size_t count;
    const char *const *items;
};

/* One option of a backend, as its plugin declares it. */
struct nixl_option_info {
    const char *name;
    const char *kind;          /* "bool", "int", "uint", "size", "string", "enum" */
    const char *default_value; /* as text, "" for an empty string */
    const char *choices;       /* "a|b|c" for an enum, else NULL */
    const char *alias;         /* another accepted name, or NULL */
    const char *help;          /* one line */
    int64_t min;               /* numbers only */
    uint64_t max;
};

struct nixl_plugin_info {
    const char *name, *version, *summary;
    const char *path; /* its file, or "(static)" */
    uint32_t mems;    /* NIXL_MEM_BIT() set */
    uint32_t caps;    /* enum nixl_cap set */
    size_t option_count;
    size_t option_bytes; /* distance between options */
    const struct nixl_option_info *options;
};

/* The answer for one descriptor of nixl_mem_query(). */
struct nixl_query_result {
    bool found;
    struct nixl_params params; /* files: size, mode, mtime as decimal numbers */
};

struct nixl_query_results {
    size_t count;
    const struct nixl_query_result *items;
};

/* Times of the last finished run of a request. */
struct nixl_xfer_times {
    size_t size;
    uint64_t start_ns;    /* CLOCK_MONOTONIC at post */
    uint64_t post_ns;     /* inside post, at least 1 */
    uint64_t xfer_ns;     /* from post until the transfer was done, at least post_ns */
    uint64_t total_bytes; /* bytes moved */
    uint64_t desc_count;  /* descriptors after merging */
};

#define NIXL_XFER_TIMES_INIT                                                                                 \
    { sizeof(struct nixl_xfer_times), 0, 0, 0, 0, 0 }

/* Why and where a request failed. */
struct nixl_failure_info {
    size_t size;
    nixl_status_t status;
    int os_error;        /* errno of the cause, or 0 */
    size_t index;        /* the first descriptor that failed, or NIXL_NO_INDEX */
    uint64_t bytes_done; /* bytes known to have been moved */
};

#define NIXL_FAILURE_INFO_INIT                                                                               \
    { sizeof(struct nixl_failure_info), NIXL_SUCCESS, 0, NIXL_NO_INDEX, 0 }

enum nixl_cost_method {
    NIXL_COST_ANALYTICAL_BACKEND = 0, /* computed by the backend from what it knows of the path */
    NIXL_COST_MEASURED = 1,           /* from transfers or copies that were timed */
    NIXL_COST_DECLARED = 2            /* by the kind of backend alone: nothing of this way was timed yet */
};

struct nixl_cost {
    size_t size;
    enum nixl_cost_method method;
    uint64_t duration_ns;
    uint64_t margin_ns; /* the error to expect, either way */
};

#define NIXL_COST_INIT                                                                                       \
    { sizeof(struct nixl_cost), NIXL_COST_ANALYTICAL_BACKEND, 0, 0 }

/* A received notification. */
struct nixl_notif {
    const char *agent; /* the sender */
    const void *msg;   /* a NUL follows, not counted */
    size_t len;
};

/* Notifications, in the order of their arrival; those of one sender in the order of its sending. */
struct nixl_notifs {
    size_t count;
    const struct nixl_notif *items;
};

/* ---- Words -------------------------------------------------------------------------------------------- */

/* This library's version, "major.minor.patch". Never NULL. Threads: any. */
NIXL_API const char *nixl_version(void);

/* "NIXL_SUCCESS", "NIXL_ERR_NOT_FOUND", ...; "BAD_STATUS" for other numbers. Never NULL. Threads: any. */
NIXL_API const char *nixl_status_string(nixl_status_t status);
/* "DRAM_SEG", ...; "BAD_SEG" for other numbers. Never NULL. Threads: any. */
NIXL_API const char *nixl_mem_string(nixl_mem_t mem);
/* "READ" or "WRITE"; "BAD_OP" for other numbers. Never NULL. Threads: any. */
NIXL_API const char *nixl_op_string(nixl_xfer_op_t op);

/* Why this thread's last failing call failed, in words; "" when none failed yet. A call that succeeds leaves
 * it as it was. The text is valid until this thread's next call. Threads: each has its own. */
NIXL_API const char *nixl_error(void);
/* The descriptor that this thread's last failing call blamed, or NIXL_NO_INDEX. Threads: each has its own. */
NIXL_API size_t nixl_error_index(void);

/* Releases a result block that a call returned; NULL is allowed. Plain free() does the same. Threads: any,
 * once a block. */
NIXL_API void nixl_free(void *block);

/* ---- Plugins ------------------------------------------------------------------------------------------ */

/* The names of all backend plugins that can be asked for: built-in ones and files libplugin_<NAME>.so in
 * NIXL_PLUGIN_DIR (default: "plugins" beside libnixl), sorted. Files are found, not opened. Agents are not
 * needed. Release with nixl_free(). Fails: INVALID_PARAM, BACKEND (no memory). Threads: any. */
NIXL_API nixl_status_t nixl_plugin_list(struct nixl_names **names);

/* Opens a plugin and describes it and its options. Release with nixl_free().
 * Fails: NOT_FOUND (no such plugin: the text lists the folder and what is there), BACKEND (it cannot be
 * opened: the text carries the loader's reason), MISMATCH (made for the reference or another version).
 * Threads: any. */
NIXL_API nixl_status_t nixl_plugin_describe(const char *name, struct nixl_plugin_info **info);

/* ---- Agents ------------------------------------------------------------------------------------------- */

/* Makes an agent. `name` (1 to NIXL_NAME_MAX bytes) must be unique among agents that talk to each other.
 * `config` NULL: the defaults. Starts what the configuration asks for, opens no plugin.
 * Fails: INVALID_PARAM (name, config, a malformed environment variable or configuration file), BACKEND
 * (thread, memory, the listener's port is taken). Threads: any. */
NIXL_API nixl_status_t nixl_agent_create(const char *name, const struct nixl_agent_config *config,
                                         struct nixl_agent **agent);

/* Ends an agent: cancels what is in flight and waits until nothing touches this process's memory, joins its
 * threads, deregisters what is left (also memory that is no longer mapped), closes its backends. Requests and
 * lists of the agent may still be released afterwards; their other calls fail with NOT_FOUND. NULL is
 * allowed.
 * Threads: no other call on this agent may run or begin. */
NIXL_API void nixl_agent_destroy(struct nixl_agent *agent);

/* The agent's name; lives as long as the agent. Threads: any. */
NIXL_API const char *nixl_agent_name(const struct nixl_agent *agent);

/* The port on which the agent listens for metadata, 0 when it does not. Threads: any. */
NIXL_API uint16_t nixl_agent_listen_port(const struct nixl_agent *agent);

/* Makes progress once on all backends that need it and keeps deadlines: what a program without a progress
 * thread calls while it waits for others. Returns SUCCESS when something happened, IN_PROG when nothing did.
 * Fails: NOT_ALLOWED (after fork). Threads: any; of several at once one makes progress. */
NIXL_API nixl_status_t nixl_agent_progress(struct nixl_agent *agent);

/* A descriptor that becomes readable when a transfer of this agent ends or a notification arrives after
 * nixl_agent_arm(): for epoll, asyncio, libuv. It stays the agent's: never read or close it. -1 on failure
 * (nixl_error()). Without a progress thread the program must still call nixl_agent_progress(); the descriptor
 * then also becomes readable when there is progress to be made. Threads: any. */
NIXL_API int nixl_agent_fd(struct nixl_agent *agent);

/* Arms the descriptor for the next event. IN_PROG: armed, go and sleep. SUCCESS: something happened since the
 * last arm, so look (poll, take notifications) and arm again. Fails: NOT_ALLOWED (after fork), BACKEND.
 * Threads: any, but one waiter an agent: two waiters take each other's events. */
NIXL_API nixl_status_t nixl_agent_arm(struct nixl_agent *agent);

/* Sleeps until a transfer of this agent has ended or a notification has arrived, at most timeout_ms (NIXL_NO_TIMEOUT:
 * until then): what a program with many transfers in flight calls after it has looked at them all
 * (nixl_xfer_poll(), nixl_notif_take()). Makes progress meanwhile, in the way that is cheapest for the backends;
 * with a progress thread too. *seen is the caller's memory of what it has been told: 0 before its first call,
 * which returns at once, and left alone afterwards. With one `seen` for each thread none misses an event.
 * Returns SUCCESS when something has happened since the call that wrote *seen: look, and call again. IN_PROG
 * when the time is over. Fails: INVALID_PARAM (NULL), NOT_ALLOWED (after fork). Threads: any number, each with
 * its own *seen; every event wakes all of them. */
NIXL_API nixl_status_t nixl_agent_wait(struct nixl_agent *agent, uint64_t *seen, uint64_t timeout_ms);

/* ---- Backends ----------------------------------------------------------------------------------------- */

/* Opens backend `type` in the agent. Parameters are checked against the plugin's option table: an unknown or
 * malformed one is refused by name. One backend of a type an agent.
 * Fails: INVALID_PARAM (parameter; the type is there already), NOT_FOUND (no such plugin), NOT_ALLOWED (GDS
 * beside GDS_MT; after fork), MISMATCH (plugin of another version), BACKEND (what the backend says). Threads:
 * any. */
NIXL_API nixl_status_t nixl_backend_create(struct nixl_agent *agent, const char *type,
                                           const struct nixl_param *params, size_t param_count,
                                           struct nixl_backend **backend);

/* The agent's backend of that type, NULL when there is none. Threads: any. */
NIXL_API struct nixl_backend *nixl_backend_find(struct nixl_agent *agent, const char *type);
/* The agent's backends in the order of creation: writes up to `max` handles, returns how many there are.
 * Threads: any. */
NIXL_API size_t nixl_backend_list(struct nixl_agent *agent, struct nixl_backend **backends, size_t max);

/* Type name, capabilities (enum nixl_cap set), memory kinds (NIXL_MEM_BIT() set); live as long as the agent.
 * Threads: any. */
NIXL_API const char *nixl_backend_type(const struct nixl_backend *backend);
NIXL_API uint32_t nixl_backend_caps(const struct nixl_backend *backend);
NIXL_API uint32_t nixl_backend_mems(const struct nixl_backend *backend);
/* What the backend found and chose, in a line: library, version, file, queue, transports. Never NULL; valid
 * until the agent is destroyed. Threads: any. */
NIXL_API const char *nixl_backend_description(const struct nixl_backend *backend);
/* All options with the values in force. Release with nixl_free(). Fails: INVALID_PARAM, BACKEND (no memory).
 * Threads: any. */
NIXL_API nixl_status_t nixl_backend_params(const struct nixl_backend *backend, struct nixl_params **params);

/* ---- Memory ------------------------------------------------------------------------------------------- */

/* Registers each block with the backends of options->backends (all of them must take the kind), else with
 * every backend of the agent that takes the kind. With each backend all blocks or none; success when one
 * backend at least took them. Regions may repeat, nest, overlap and adjoin: each registration counts, and is
 * dropped by one deregistration.
 * Forms: plain, strided, with metadata. Reads options: backends.
 * Fails: INVALID_PARAM (list malformed, a block wraps around the address space, empty list), NOT_FOUND (no
 * backend of this agent takes the kind: the text names plugins that would), BACKEND (each backend's reason),
 * NOT_ALLOWED (after fork). Threads: any. */
NIXL_API nixl_status_t nixl_mem_register(struct nixl_agent *agent, const struct nixl_list *list,
                                         const struct nixl_options *options);

/* Drops registrations: each block must equal a registered one in addr, len and dev; a block that stands n
 * times in the list drops n registrations. All or nothing. Without hints from all backends that hold it.
 * Reads options: backends.
 * Fails: NOT_FOUND (index and block of the first that is not registered; nothing changed), NOT_ALLOWED (a
 * transfer in flight uses a region: cancel it or wait; nothing changed), INVALID_PARAM, BACKEND. Threads:
 * any. */
NIXL_API nixl_status_t nixl_mem_deregister(struct nixl_agent *agent, const struct nixl_list *list,
                                           const struct nixl_options *options);

/* Asks a storage backend what it knows of each block (is the file or object there, how long).
 * options->backends must name exactly one. What is missing is "not found" in its result, no failure. Release
 * with nixl_free().
 * Fails: INVALID_PARAM, NOT_SUPPORTED (the backend cannot be asked), BACKEND (unreadable; index in the text).
 * May block for as long as the storage does; no lock is held. Threads: any. */
NIXL_API nixl_status_t nixl_mem_query(struct nixl_agent *agent, const struct nixl_list *list,
                                      const struct nixl_options *options,
                                      struct nixl_query_results **results);

/* ---- Peers -------------------------------------------------------------------------------------------- */

/* Connects to a loaded peer ahead of the first transfer, on all common backends or those of
 * options->backends; waits up to options->wait_ms. SUCCESS: connected; IN_PROG: under way.
 * Fails: NOT_FOUND (unknown peer, or this agent itself), BACKEND (no common backend), REMOTE_DISCONNECT,
 * NOT_ALLOWED.
 * Threads: any. */
NIXL_API nixl_status_t nixl_peer_connect(struct nixl_agent *agent, const char *peer,
                                         const struct nixl_options *options);

/* What is known of a peer: SUCCESS (loaded, no failure seen), IN_PROG (connecting), REMOTE_DISCONNECT (its
 * connection failed: nixl_peer_error() says how), NOT_FOUND (not loaded). Threads: any. */
NIXL_API nixl_status_t nixl_peer_state(struct nixl_agent *agent, const char *peer);

/* The last failure of a peer in words, "" when there was none. Copied into storage of this thread: valid
 * until its next call. Threads: any. */
NIXL_API const char *nixl_peer_error(struct nixl_agent *agent, const char *peer);

/* How bytes reach a peer by a backend (NULL: the first in common), as in nixl_xfer_transport(). Valid until
 * this thread's next call; "" when not known. Threads: any. */
NIXL_API const char *nixl_peer_transport(struct nixl_agent *agent, const char *peer,
                                         struct nixl_backend *backend);

/* The names of all loaded peers, sorted. Release with nixl_free(). Fails: INVALID_PARAM, BACKEND (no memory).
 * Threads: any. */
NIXL_API nixl_status_t nixl_peer_list(struct nixl_agent *agent, struct nixl_names **names);

/* ---- Transfers ---------------------------------------------------------------------------------------- */

/* Resolves a list once for many requests. `owner` NULL or "": this agent's registered memory, the local side
 * of requests. This agent's own name: its memory as a remote side (loopback, storage). Else a loaded peer's
 * memory. Each block must lie in one registered region; a later deregistration or peer replacement is noticed
 * when a request is made. Forms: plain, strided. Reads options: backends. Release with nixl_dlist_release().
 * Fails: NOT_FOUND (owner unknown; the index, address and length of the first block that is in no region, or
 * the two regions it spans), INVALID_PARAM (empty or malformed list). Threads: any. */
NIXL_API nixl_status_t nixl_dlist_prepare(struct nixl_agent *agent, const char *owner,
                                          const struct nixl_list *list, const struct nixl_options *options,
                                          struct nixl_dlist **dlist);
/* Descriptors in a prepared list, strided ones counted singly. Threads: any. */
NIXL_API size_t nixl_dlist_count(const struct nixl_dlist *dlist);
/* Releases a prepared list; requests made from it live on. NULL is allowed. Threads: no other call may use
 * it. */
NIXL_API void nixl_dlist_release(struct nixl_dlist *dlist);

/* Makes a request from prepared lists: the i-th pair is local_indices[i], remote_indices[i]; lengths must
 * agree. NULL indices: 0 to count - 1. Ascending neighbours that adjoin on both sides become one descriptor
 * unless options->keep_lists. The backend is the first of options->backends that can serve, else the
 * cheapest. Nothing moves until nixl_xfer_post(). Reads options: backends, notif, keep_lists, notify_failure,
 * custom, timeouts.
 * Fails: INVALID_PARAM (handles, sides swapped, count 0, an index out of range, lengths differ, no common
 * backend), NOT_FOUND (peer or a region gone since the list was prepared), BACKEND (notification asked of
 * a backend that has none; no memory). Threads: any. */
NIXL_API nixl_status_t nixl_xfer_make(struct nixl_agent *agent, nixl_xfer_op_t op,
                                      const struct nixl_dlist *local, const int32_t *local_indices,
                                      const struct nixl_dlist *remote, const int32_t *remote_indices,
                                      size_t count, const struct nixl_options *options,
                                      struct nixl_xfer **xfer);

/* Makes a request from two lists of equal count and lengths, block by block. `peer` is a loaded peer, or this
 * agent's own name. Descriptors are not merged. Forms: plain, strided. Reads options as nixl_xfer_make().
 * Fails: INVALID_PARAM (counts or lengths differ, malformed list; told before the peer is looked up),
 * NOT_FOUND (peer unknown; a block in no region or in two, index in the text; no backend can serve both
 * sides: the text names plugins that would), BACKEND. Threads: any. */
NIXL_API nixl_status_t nixl_xfer_create(struct nixl_agent *agent, nixl_xfer_op_t op,
                                        const struct nixl_list *local, const struct nixl_list *remote,
                                        const char *peer, const struct nixl_options *options,
                                        struct nixl_xfer **xfer);

/* Starts a request, again if it ended. Returns in microseconds whatever the list's length. options NULL: the
 * stored notification is sent again; options with has_notif: that one is stored and sent; options without
 * has_notif: the stored one is dropped. Reads options: notif.
 * Returns SUCCESS (done already) or IN_PROG. Fails: REPOST_ACTIVE (in flight; nothing changed), NOT_FOUND
 * (the peer was removed or replaced, a region was deregistered since the request was made),
 * REMOTE_DISCONNECT, BACKEND, INVALID_PARAM, NOT_ALLOWED (after fork). A post that is refused before it
 * began (NOT_FOUND, INVALID_PARAM, no notifications with this backend) leaves the state as it was; one that
 * fails in the backend ends the request as failed. Either way it can be posted again.
 * Threads: any; of two posts of one request at once one gets REPOST_ACTIVE. */
NIXL_API nixl_status_t nixl_xfer_post(struct nixl_xfer *xfer, const struct nixl_options *options);

/* Starts `count` requests in their order, each as nixl_xfer_post() with options NULL does, and lets backends hand
 * them over together: to files that takes less processor time than one after another. They may be of different
 * agents; a failure does not keep the others from being posted. statuses (count of them, or NULL) gets what each
 * post returned. Returns SUCCESS (all done already) or IN_PROG, or what the last one that failed returned, whose
 * words nixl_error() has. Fails besides: INVALID_PARAM (NULL with a count). Threads: any. */
NIXL_API nixl_status_t nixl_xfer_post_all(struct nixl_xfer *const *xfers, size_t count,
                                          nixl_status_t *statuses);

/* The state of a request: NOT_POSTED, IN_PROG, SUCCESS (all bytes are in place: a write is visible at the
 * target, a read is here), or how it failed: nixl_xfer_error() has the words. Makes progress while in flight.
 * Fails besides: INVALID_PARAM (NULL). Threads: any. */
NIXL_API nixl_status_t nixl_xfer_poll(struct nixl_xfer *xfer);

/* Waits until a request ends, at most timeout_ms (NIXL_NO_TIMEOUT: until it ends). Returns as
 * nixl_xfer_poll(); IN_PROG when the time is over. Threads: any. */
NIXL_API nixl_status_t nixl_xfer_wait(struct nixl_xfer *xfer, uint64_t timeout_ms);

/* Asks a request in flight to end: nothing more is issued; it ends as CANCELED, or as SUCCESS if it was
 * faster, when nothing touches local memory any more. SUCCESS: it has ended (or was not in flight); IN_PROG:
 * it will.
 * Threads: any. */
NIXL_API nixl_status_t nixl_xfer_cancel(struct nixl_xfer *xfer);

/* Releases a request. One in flight is cancelled first and waited for briefly (100 ms). When it returns
 * SUCCESS nothing reads or writes this process's memory for it; bytes of a WRITE already sent may still land
 * at the target (docs/failures.md). NULL is allowed.
 * Fails: REPOST_ACTIVE (it has not ended yet: the handle stays valid, call again). Threads: no other call may
 * use it. */
NIXL_API nixl_status_t nixl_xfer_release(struct nixl_xfer *xfer);

/* Why a request failed, in words: the status, the first descriptor that failed and the cause. "" when it did
 * not fail. Valid until the request is posted again or released. Threads: any, while nobody reposts or
 * releases it. */
NIXL_API const char *nixl_xfer_error(const struct nixl_xfer *xfer);
/* The same as numbers; `info` is initialized with NIXL_FAILURE_INFO_INIT. Returns the request's state as
 * nixl_xfer_poll() without making progress. Threads: as nixl_xfer_error(). */
NIXL_API nixl_status_t nixl_xfer_failure(const struct nixl_xfer *xfer, struct nixl_failure_info *info);

/* Times of the last run; `times` is initialized with NIXL_XFER_TIMES_INIT. Needs capture_telemetry or
 * NIXL_TELEMETRY_ENABLE. Fails: NO_TELEMETRY (off; of a request that succeeded total_bytes and desc_count are
 * written all the same); while the request has not succeeded, its state.
 * Threads: any. */
NIXL_API nixl_status_t nixl_xfer_stats(const struct nixl_xfer *xfer, struct nixl_xfer_times *times);

/* The backend that serves a request. NULL only for NULL or after its agent's end. Threads: any. */
NIXL_API struct nixl_backend *nixl_xfer_backend(const struct nixl_xfer *xfer);

/* What carries a request's bytes: "UCX rc_mlx5", "UCX cma", "UCX memcpy", "POSIX io_uring"; the backend's
 * name alone where it cannot know yet. Valid until this thread's next call. Threads: any. */
NIXL_API const char *nixl_xfer_transport(const struct nixl_xfer *xfer);

/* What a run of the request would take; `cost` is initialized with NIXL_COST_INIT. A backend that cannot tell
 * has the first runs of its requests timed, and the estimate is made of those (docs/choice.md). Within this
 * process and to others of this host the copying is measured once, at the first question, which takes up to
 * 5 ms then. Fails: NOT_FOUND (peer gone), what the backend says of a connection that cannot be made.
 * Threads: any. */
NIXL_API nixl_status_t nixl_xfer_cost(const struct nixl_xfer *xfer, struct nixl_cost *cost);

/* ---- Notifications ------------------------------------------------------------------------------------ */

/* Sends a notification of any bytes to a loaded peer, or to this agent itself, apart from any transfer.
 * Notifications to one peer arrive once and in the order of sending. Reads options: backends.
 * Fails: NOT_FOUND (peer unknown), BACKEND (no common backend carries notifications), REMOTE_DISCONNECT,
 * INVALID_PARAM (longer than NIXL_NOTIF_MAX). Threads: any. */
NIXL_API nixl_status_t nixl_notif_send(struct nixl_agent *agent, const char *peer, const void *msg,
                                       size_t len, const struct nixl_options *options);

/* Takes all notifications that have arrived; *notifs is NULL when there are none. Makes progress. Release
 * with nixl_notifs_release(). Reads options: backends (only theirs). Fails: BACKEND (no backend carries
 * notifications), NOT_ALLOWED (after fork). Threads: any; each notification goes to one caller. */
NIXL_API nixl_status_t nixl_notif_take(struct nixl_agent *agent, const struct nixl_options *options,
                                       struct nixl_notifs **notifs);
/* Releases taken notifications; NULL is allowed. They may outlive their agent. Threads: any, once. */
NIXL_API void nixl_notifs_release(struct nixl_notifs *notifs);

/* ---- Metadata ----------------------------------------------------------------------------------------- */

/* All that others need to reach this agent's registered memory: connections and regions of every backend that
 * reaches others. Release *blob with nixl_free(). Fails: INVALID_PARAM (no such backend), BACKEND. Threads:
 * any. */
NIXL_API nixl_status_t nixl_metadata_get(struct nixl_agent *agent, void **blob, size_t *len);

/* The same for some registered blocks (exactly as registered). With options->include_conn, or an empty list,
 * also the connections. list NULL: an empty list. Reads options: backends, include_conn.
 * Fails: NOT_FOUND (a block is not registered; index in the text), BACKEND (no backend reaches others),
 * INVALID_PARAM.
 * Threads: any. */
NIXL_API nixl_status_t nixl_metadata_get_partial(struct nixl_agent *agent, const struct nixl_list *list,
                                                 const struct nixl_options *options, void **blob,
                                                 size_t *len);

/* The agent's generation: grows whenever its blob would change. Threads: any. */
NIXL_API uint64_t nixl_metadata_generation(struct nixl_agent *agent);

/* Only what changed since a generation that nixl_metadata_generation() gave: added and removed regions. When
 * that is too long ago to tell, a full blob. Release *blob with nixl_free(). Fails: as nixl_metadata_get();
 * NOT_FOUND (a generation of the future). Threads: any. */
NIXL_API nixl_status_t nixl_metadata_get_update(struct nixl_agent *agent, uint64_t since, void **blob,
                                                size_t *len);

/* Learns a peer from its blob (full, partial or update). *peer, if peer is not NULL, gets the name it carries
 * (nixl_free()). Loading again adds; a full blob or an update of this library also removes what is gone. A
 * newer incarnation of a known name replaces the old peer. A blob that fails changes nothing.
 * Fails: MISMATCH (malformed, damaged; a backend of a version that cannot be spoken with), INVALID_PARAM
 * (this agent's own blob), NOT_ALLOWED (another connection of a peer that is alive; older than what is
 * known), NOT_FOUND (an update whose base is not known; no regions and nothing usable), BACKEND (no backend
 * in common; what a backend says).
 * Threads: any. */
NIXL_API nixl_status_t nixl_metadata_load(struct nixl_agent *agent, const void *blob, size_t len,
                                          char **peer);

/* Forgets a peer: requests to it in flight end as NOT_FOUND "peer removed", later posts too. Fails:
 * NOT_FOUND, INVALID_PARAM (this agent itself). Threads: any. */
NIXL_API nixl_status_t nixl_metadata_invalidate(struct nixl_agent *agent, const char *peer);

/* SUCCESS when the peer is loaded and every block of the list (NULL: none asked) lies in regions known of it
 * by one backend, else NOT_FOUND with words, which name the last failure to get it where one is known.
 * Threads: any. */
NIXL_API nixl_status_t nixl_metadata_check(struct nixl_agent *agent, const char *peer,
                                           const struct nixl_list *list);

/* Metadata that travels by itself: to options->ip_addr and port, else by name through the store that the
 * environment names (NIXL_ETCD_ENDPOINTS or NIXL_TCPSTORE_ENDPOINT). SUCCESS means that the blob was made and
 * handed to the carrier; with options->wait_ms that it arrived. Reads options: ip_addr, port, label, wait_ms;
 * partial: also backends, include_conn.
 * Fails: INVALID_PARAM, NOT_FOUND, NOT_SUPPORTED (this build has no carrier for it), BACKEND, CANCELED
 * (wait_ms over).
 * Threads: any. */
NIXL_API nixl_status_t nixl_metadata_send(struct nixl_agent *agent, const struct nixl_options *options);
NIXL_API nixl_status_t nixl_metadata_send_partial(struct nixl_agent *agent, const struct nixl_list *list,
                                                  const struct nixl_options *options);
/* Asks for a peer's metadata and loads it when it comes; nixl_metadata_check() tells. Reads options: ip_addr,
 * port, label, wait_ms. Fails as nixl_metadata_send(). Threads: any. */
NIXL_API nixl_status_t nixl_metadata_fetch(struct nixl_agent *agent, const char *peer,
                                           const struct nixl_options *options);
/* Tells a peer (ip_addr, port) or the store that this agent's metadata is void. Reads options: ip_addr, port,
 * wait_ms.
 * Fails as nixl_metadata_send(). Threads: any. */
NIXL_API nixl_status_t nixl_metadata_invalidate_local(struct nixl_agent *agent,
                                                      const struct nixl_options *options);

/* ---- Memory views: the vendor's own handle for transfers started on a device -------------------------- */

/* A view of registered local blocks, or of blocks of peers (form NIXL_FORM_REMOTE; an agent of NULL is an
 * empty slot), as the backend's own pointer. Release with nixl_view_release().
 * Fails: NOT_SUPPORTED (no backend offers views), NOT_FOUND (block or peer; only empty slots), INVALID_PARAM,
 * BACKEND.
 * Threads: any. */
NIXL_API nixl_status_t nixl_view_local(struct nixl_agent *agent, const struct nixl_list *list,
                                       const struct nixl_options *options, void **view);
NIXL_API nixl_status_t nixl_view_remote(struct nixl_agent *agent, const struct nixl_list *list,
                                        const struct nixl_options *options, void **view);
/* Releases a view. Fails: NOT_FOUND (not a view of this agent). Threads: any, once. */
NIXL_API nixl_status_t nixl_view_release(struct nixl_agent *agent, void *view);

#ifdef __cplusplus
}
#endif
#endif
