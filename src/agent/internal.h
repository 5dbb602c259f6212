/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of src/agent share: the structs of an agent, its backends, regions, peers, prepared lists
 * and requests, and the functions one file offers the others. Nobody outside src/agent includes it.
 *
 * Locks, in the order in which they may be taken (never two of one row, never upwards):
 *   agent->strict           one call at a time (mode STRICT only), taken at the API's edge
 *   agent->loading          one metadata load, update or invalidation at a time
 *   xfer->turn              around a backend's cancel; a post of the request waits for it
 *   backend->control        around the backend's control operations; may be held for long
 *   agent->tables           regions, peers, backends: searched by many, changed by few; never held for long,
 *                           never while a backend is called
 *   agent->xfers_lock       the lists of requests and prepared lists; in the modes NONE and STRICT the
 *                           tables' lock guards them
 *   agent->inbox.lock       received notifications
 *   xfer->words_lock        failure text
 * Host functions that a backend may call with its own locks held (complete, notified, peer_failed, wake) take
 * the last three rows only.
 *
 * Lives
 *   A region is in its set's index until deregistered, removed or retired. Prepared lists and requests know
 *   it by id, so they notice. A local region's backend handles are closed at deregistration, which is refused
 *   while an active request uses it. The keys of a peer's region stay open while requests name it (linger.c);
 *   views hold references (refs).
 *   A peer has `users` (its place in the table, and requests): keys and connection are closed when the last
 *   goes; and `refs` (users as one, and prepared lists): the struct is freed when the last goes.
 */
#ifndef AGENT_INTERNAL_H
#define AGENT_INTERNAL_H

#include <nixl/backend.h>
#include <nixl/nixl.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "plugin/plugin.h"
#include "wire/wire.h"

#define AGENT_BACKENDS 16 /* most backends in one agent: a set of them is a bit mask */

/* ---- Backends (backend.c) ------------------------------------------------------------------------------ */

struct nixl_backend {
    struct nixl_agent *agent;
    struct plugin *plugin;
    struct nixl_backend_ops ops; /* the plugin's table, zero beyond its size */
    struct nixl_instance instance;
    struct nixl_host host; /* host.ctx is this struct */
    void *self;
    unsigned slot;        /* place in agent->backends; bit 1 << slot in masks; also the order of creation */
    uint32_t words_given; /* atomic: texts that it gave, in any thread */
    struct lock control;
    struct plugin_options options; /* parsed values, kept as long as the instance */
    bool needs_progress;           /* instance has event_fd or period, and progress */
    bool is_timed;                 /* atomic: it cannot tell what a transfer takes; new requests are timed */
    bool can_wait;                 /* atomic: its operation `wait` is there, and has not said no */
    const void *conn;              /* REMOTE: conn_info()'s bytes, asked for once */
    size_t conn_len;
    const void *note; /* note()'s bytes, or NULL */
    size_t note_len;
    struct lock config_lock; /* around config_values */
    struct config_value *config_values;
    char *words; /* the description when the plugin has none */
};

/* The agent's backend of that type, NULL for none. No lock needed: backends only come. */
struct nixl_backend *backend_find(struct nixl_agent *agent, const char *type, size_t len);
static inline unsigned backend_count(struct nixl_agent *agent);
/* Mask of the backends that have all of these capabilities (enum nixl_cap set; 0: all backends). */
static inline uint32_t backend_mask(const struct nixl_agent *agent, uint32_t caps);

/* Counts the texts that backends gave in this thread: tells a failure with words from one without. Not of the
 * initial-exec model: that would take all thread variables of the library (2 KB with the texts) out of the
 * small room that a process has for libraries loaded later, and dlopen() by Python fails: "cannot allocate
 * memory in static TLS block". */
extern _Thread_local unsigned backend_words_given;

/*
 * Around every call of an operation that can fail:
 *     unsigned mark = backend_mark();
 *     status = backend->ops.region_open(...);
 *     if (status < 0) return backend_fault(backend, mark, status, "registering");
 * The fault's text is the backend's own with "backend NAME: " before it, or made of `doing` when it gave
 * none. Returns `status`, NIXL_ERR_BACKEND if it is no failure at all.
 */
static inline unsigned backend_mark(void) {
    return backend_words_given;
}
nixl_status_t backend_fault(const struct nixl_backend *backend, unsigned mark, nixl_status_t status,
                            const char *doing);
/* Closes what is open of an agent's backends, newest first, and frees them. For destroy. */
void backend_close_all(struct nixl_agent *agent);

/* ---- Regions (regions.c) ------------------------------------------------------------------------------- */

/* What one backend has of a region. */
struct region_key {
    void *handle;      /* local: region_open()'s handle. remote: key_open()'s key */
    void *self_key;    /* local: the remote_key for loopback. remote: unused */
    const void *bytes; /* local: what region_key() publishes. remote: unused */
    uint32_t len;
    uint32_t digest; /* remote: crc32c of the published bytes, with len tells whether a reload is the same */
};

/* A place in a set that survives reuse: a prepared list keeps ids and finds out whether they still hold. */
struct region_id {
    uint32_t slot, generation;
};

struct region {
    uint64_t addr, len, dev; /* as registered; len UINT64_MAX for "unbounded" storage */
    uint32_t refs;           /* atomic: its place in the set or among the lingering, and views */
    bool is_dead;            /* atomic: no longer in its set */
    uint8_t mem;
    uint8_t mark;      /* scratch of one load (agent->loading) or one deregistration (tables, write) */
    bool leaves;       /* it is leaving its set (linger_note) */
    uint16_t backends; /* mask of the backends in keys[], fixed at creation */
    struct region_id id;
    struct region_key keys[]; /* one for each bit of `backends`, lowest first */
};

static inline struct region_key *region_key_of(struct region *region, unsigned slot) {
    uint32_t below = (uint32_t)region->backends & ((1u << slot) - 1u);

    return below == 0 ? region->keys : &region->keys[__builtin_popcount(below)];
}

/* Regions of one kind sorted by (dev, addr, len), in chunks with their furthest ends. */
struct region_index;

/* All regions of one owner. Guarded by agent->tables. */
struct region_set {
    struct region_index *kinds[NIXL_MEM_KINDS];
    struct region_slot *slots;
    size_t slot_cap, slot_count;
    uint32_t free_slot; /* head of the free list, UINT32_MAX for none */
    size_t count;
};

struct region_slot {
    struct region *region; /* NULL: free */
    uint32_t generation;   /* grows when a region leaves */
    uint32_t next_free;
};

/* A remembered hit; start with zeros. Valid while the tables stay locked. */
struct region_hint {
    struct region *last;
    const struct region_chunk *chunk; /* where it stands: its neighbour is tried before a search */
    uint32_t at;
};

/* Whether a block lies in a region. No branches within: in a scattered list none of them could be
 * foretold. */
static inline bool region_holds(const struct region *region, const struct nixl_desc *desc) {
#ifndef BREAK_5
    uint64_t offset = desc->addr - region->addr;

    return (desc->dev == region->dev) & (desc->addr >= region->addr) & (offset <= region->len) &
           (desc->len <= region->len - offset);
#else
    return desc->dev == region->dev && desc->addr >= region->addr &&
           desc->addr + desc->len <= region->addr + region->len;
#endif
}

struct region *region_new(nixl_mem_t mem, const struct nixl_desc *desc,
                          uint32_t backends); /* refs 1, in no set */
static inline void region_ref(struct region *region) {
    __atomic_fetch_add(&region->refs, 1, __ATOMIC_RELAXED);
}
/* True when that was the last reference: the caller closes keys (remote) and frees. */
static inline bool region_unref(struct region *region) {
    return __atomic_sub_fetch(&region->refs, 1, __ATOMIC_ACQ_REL) == 0;
}
void region_free(struct region *region);

void region_set_init(struct region_set *set);
void region_set_destroy(struct region_set *set); /* frees the tables; regions are the caller's */
/* Makes room for `more` regions of that kind so that region_set_add cannot fail. False without memory. */
bool region_set_reserve(struct region_set *set, nixl_mem_t mem, size_t more);
/* Adds n regions (n log n, whatever their order); takes over one reference of each; sets their ids. */
void region_set_add(struct region_set *set, nixl_mem_t mem, struct region **regions, size_t n);
/* Takes a region out: sets is_dead, invalidates its id. Its reference goes to the caller. */
void region_set_remove(struct region_set *set, struct region *region);
/* The region of an id, NULL when it is gone. O(1). */
static inline struct region *region_set_get(const struct region_set *set, struct region_id id) {
    if (id.slot < set->slot_count
#ifndef BREAK_1
        && set->slots[id.slot].generation == id.generation
#endif
    ) {
        return set->slots[id.slot].region;
    }
    return NULL;
}
/* A region that holds the whole block and has all of the backends in `want` (0: any). NULL: none. Zero-length
 * blocks need addr within [start, end]. Unbounded regions hold everything from their addr on. */
struct region *region_set_cover(const struct region_set *set, nixl_mem_t mem, const struct nixl_desc *desc,
                                uint32_t want, struct region_hint *hint);
/*
 * The regions of a plain list's blocks, one after the other. When many blocks in a row lie each in another
 * region and those are not in order, several are looked up at once. Begin with set, mem and want, the rest
 * zeros. Valid while the tables stay locked.
 */
#define REGION_AHEAD 16
#define REGION_AHEAD_AFTER 4
struct region_walk {
    const struct region_set *set;
    nixl_mem_t mem;
    uint32_t want; /* backends that each region must have */
    struct region_hint hint;
    size_t next_miss; /* index at which the next block would be another miss in a row */
    unsigned misses;
    size_t ahead_first, ahead_count; /* blocks that are looked up already */
    struct region *ahead[REGION_AHEAD];
};

/* The region of block `index` of `count`, `step` bytes apart from `items` on; it does not lie in
 * hint.last. */
struct region *region_walk_find(struct region_walk *walk, const struct nixl_desc *desc,
                                const unsigned char *items, size_t step, size_t index, size_t count);

/* A region equal in addr, len (0 as unbounded for storage kinds) and dev with mark 0 that has some of `want`
 * (0: any). */
struct region *region_set_exact(const struct region_set *set, nixl_mem_t mem, const struct nixl_desc *desc,
                                uint32_t want);
/* Says why a block is not covered: in no region, or in which two it spans. Sets the error text, returns
 * NOT_FOUND. */
nixl_status_t region_set_explain(const struct region_set *set, nixl_mem_t mem, const struct nixl_desc *desc,
                                 size_t index, const char *owner);
/* Visits all regions of a kind in order (dev, addr, len); false ends the walk. */
typedef bool (*region_visit_fn)(struct region *region, void *ctx);
void region_set_each(const struct region_set *set, nixl_mem_t mem, region_visit_fn visit, void *ctx);
size_t region_set_count(const struct region_set *set, nixl_mem_t mem);

/* ---- Peers (peer.c) ------------------------------------------------------------------------------------ */

struct peer {
    struct nixl_agent *agent;
    uint32_t users;    /* atomic; see above */
    uint32_t refs;     /* atomic; see above */
    bool is_gone;      /* atomic: removed or replaced; a request posts no more */
    bool is_failed;    /* atomic: a backend reported the connection's failure */
    uint64_t changes;  /* atomic: grows when regions are removed; a request compares and looks again */
    uint64_t heard_ns; /* atomic: when something last arrived from it (coarse clock), for stalls */
    uint32_t backends; /* mask of backends with a handle below; grows only, tables */
    void *handles[AGENT_BACKENDS];
    struct nixl_backend *notifier;      /* carries notifications to it, NULL for none; atomic */
    struct bytes conns[AGENT_BACKENDS]; /* as loaded, to compare on a reload */
    struct region_set regions;
    struct lingering *lingering; /* regions that left the set while requests name them, by id (linger.c) */
    size_t lingering_count, lingering_cap;
    struct cost_record *costs; /* a list; atomic */
    bool has_trailer;          /* guarded by agent->loading, as the next four */
    bool is_complete; /* a full blob was loaded: what is not known of complete_generation is not there */
    struct wire_incarnation incarnation;
    uint64_t generation; /* the newest seen */
    uint64_t complete_generation;
    struct lock words_lock;
    char error[512]; /* last failure, under words_lock */
    char *name;
    size_t name_len;
};

/* The backends it is reached by, also where the tables are not held. */
static inline uint32_t peer_backends(const struct peer *peer) {
    return __atomic_load_n(&peer->backends, __ATOMIC_ACQUIRE);
}
/* A peer in no table, with one user and one reference. NULL without memory. */
struct peer *peer_new(struct nixl_agent *agent, const char *name, size_t len);
/* Keeps the words of its last failure. */
void peer_words_set(struct peer *peer, const char *text);
/* A region that left its peer's set while requests named it. */
struct lingering {
    struct region_id id;
    size_t names;          /* how often requests name it; 0: it lingers no more */
    struct region *region; /* with the reference that the set had */
};

/* Room for more of them. False without memory. Tables write-held. */
bool linger_reserve(struct peer *peer, size_t more);
/* Regions are about to leave the peer's set: those that requests name linger and keep the set's reference.
 * The others are put first; returns how many. Tables write-held, room reserved. */
size_t linger_note(struct nixl_agent *agent, struct peer *peer, struct region **leaving, size_t count);

/* Finds a loaded peer; tables must be held. NULL: none. */
struct peer *peer_find(struct nixl_agent *agent, const char *name, size_t len);
/* One more user; tables held or already a user. */
static inline void peer_use(struct peer *peer) {
    __atomic_fetch_add(&peer->users, 1, __ATOMIC_RELAXED);
}
void peer_leave(struct peer *peer); /* closes keys and connections with the last; no table lock held */
void peer_ref(struct peer *peer);
void peer_unref(struct peer *peer);
/* Gives back one reference of a remote region; closes its keys with the last. No table lock held. */
void peer_region_unref(struct peer *peer, struct region *region);
/* Closes the keys of a region that nobody holds any more, and frees it. No table lock held. */
void peer_region_end(struct peer *peer, struct region *region);
/* Puts a peer into the table, in the place of the former of its name. False without memory: nothing changed.
 * Tables write-held. */
bool peer_publish(struct peer *peer);
/* Takes a peer out of the table (tables write-held by the caller), marks it gone. The table's use goes to the
 * caller, who then calls xfer_fail_peer() and peer_leave() without the lock. */
void peer_retire(struct peer *peer);
/* host->peer_failed. */
void peer_on_failure(void *ctx, void *token, nixl_status_t status, const char *text);

/* ---- Lists read (list.c): any form as a sequence of blocks --------------------------------------------- */

struct list_reader {
    const unsigned char *at; /* the next item */
    size_t left;             /* items from there on */
    size_t item_bytes;
    uint32_t form;
    struct nixl_strided_desc strided; /* what is left of the current strided item */
};

/* Checks a list whole: kind, form (one of the allowed bits 1 << form), pointers, sizes, wrap-around of addr +
 * len (DRAM, VRAM), count of blocks below 2^31, and sums it up. Words name the item. `allow_empty`: count 0
 * is fine. */
nixl_status_t list_check(const struct nixl_list *list, uint32_t forms, bool allow_empty, const char *what,
                         size_t *blocks, uint64_t *bytes);
/* The same without a look at the items. For plain lists of memory that is enough where each block is then
 * looked up: a block that wraps around is in no region. */
nixl_status_t list_check_head(const struct nixl_list *list, uint32_t forms, bool allow_empty,
                              const char *what);
/* Whether that is so. */
static inline bool list_is_quick(const struct nixl_list *list) {
    return list->form == NIXL_FORM_PLAIN && (list->mem == DRAM_SEG || list->mem == VRAM_SEG);
}
void list_begin(struct list_reader *reader, const struct nixl_list *list);
/* The next block; false at the end. */
bool list_next(struct list_reader *reader, struct nixl_desc *desc);
/* The same with the item's metadata, none for the other forms. */
bool list_next_meta(struct list_reader *reader, struct nixl_meta_desc *desc);
/* Distance between items in bytes. */
size_t list_item_bytes(const struct nixl_list *list);
/* Whether len 0 means "to the end" for registrations of that kind. */
static inline bool mem_is_storage(nixl_mem_t mem) {
    return mem == BLK_SEG || mem == OBJ_SEG || mem == FILE_SEG;
}

/* ---- Prepared lists (dlist.c) -------------------------------------------------------------------------- */

/* Set in `slot`: the block adjoins its predecessor in one dense run (equal lengths, one region, step == len).
 * Making a request merges such neighbours. Slots of regions stay below it. */
#define DLIST_JOINS UINT32_C(0x80000000)

struct dlist_entry { /* flat: one a block */
    uint64_t addr, len;
    uint32_t slot; /* of the region, and DLIST_JOINS */
    uint32_t generation;
};

struct dlist_run { /* compact: one a run of blocks with one step, one length, one region */
    uint64_t addr, len, stride;
    uint64_t first; /* index of its first block */
    uint64_t count;
    struct region_id region;
};

/* One resolution, valid for each backend of its mask: usually there is one, more when a kind's regions were
 * registered with different backends. */
struct dlist_view {
    uint32_t backends;
    bool is_flat;
    size_t run_count;
    struct dlist_entry *entries; /* is_flat: one a block, a heap block; else NULL */
    struct dlist_run *runs;      /* else these, a heap block */
};

struct nixl_dlist {
    struct nixl_agent *agent;       /* NULL after its end; under orphan rules of agent.c */
    struct nixl_dlist *prev, *next; /* agent->dlists, under xfers_lock */
    struct peer *peer;              /* NULL: this agent's memory */
    bool is_local;                  /* the local side; false with peer NULL: loopback */
    nixl_mem_t mem;
    size_t count; /* blocks */
    uint64_t bytes;
    unsigned view_count;
    struct dlist_view views[];
};

/* Takes a list out of its agent: afterwards it can only be released. */
void dlist_orphan(struct nixl_dlist *dlist);

/* ---- Requests (xfer.c, build.c) ------------------------------------------------------------------------ */

/*
 * The states of a request. All above 0 are "in progress" to the outside; only one thread at a time is in
 * POSTING, which it has entered by the one compare-and-swap of a post. While `is_posting` the backend's post
 * has not returned: nobody else calls the backend for this request. WAITED is IN_PROG with somebody asleep on
 * the word, ASLEEP with one asleep on the agent's events.
 */
#define XFER_IN_PROG 1
#define XFER_POSTING 2
#define XFER_WAITED 3 /* from here on somebody is to be woken */
#define XFER_ASLEEP 4

enum xfer_cancel_level {
    XFER_CANCEL_NONE = 0,
    XFER_CANCEL_ASKED = 1, /* NIXL_CANCEL_GENTLE was given */
    XFER_CANCEL_FORCED = 2
};

struct xfer_word {
    int32_t state;       /* atomic: nixl_status_t, or XFER_POSTING, XFER_WAITED, XFER_ASLEEP */
    uint32_t is_posting; /* atomic */
} __attribute__((aligned(8)));

struct nixl_xfer {
    /* What pollers read: a line of its own, written when it ends. A post writes both halves at once. */
    union {
        _Alignas(64) struct xfer_word word;
        struct {
            int32_t state;
            uint32_t is_posting;
        };
    };

    _Alignas(64) struct nixl_request request;
    struct nixl_agent *agent; /* NULL after its end */
    struct nixl_backend *backend;
    struct peer *peer;      /* NULL: loopback or storage */
    uint64_t local_changes; /* agent->local_changes when its regions were last seen alive */
    uint64_t peer_changes;  /* peer->changes, likewise */
    bool sends_notif;       /* the stored notification is sent with each post */
    bool is_timed;          /* by clocks around each run: telemetry, or runs_to_time */
    uint8_t runs_to_time;   /* how many more are for the record `cost` */
    uint8_t cancel_level;   /* atomic, enum xfer_cancel_level; of this run */
    /* Held while cancel is called: a post waits for it. Its holder takes nothing else but xfers_lock and
     * words_lock. */
    struct lock turn;
    uint64_t timeout_ms, stall_timeout_ms; /* in force; NIXL_NO_TIMEOUT for none */
    uint64_t deadline_ns;                  /* atomic, coarse clock; CLOCK_NEVER */
    uint64_t moved_ns, moved_bytes;        /* atomic: the last time done_bytes was seen to change (stall) */
    uint64_t start_ns, post_ns, end_ns;    /* where is_timed */
    struct cost_record *cost;              /* of its way, or NULL */

    /* Regions are known by id: that they are gone is noticed, and their handles are not used then. The keys
     * of a peer's regions must outlive the request all the same: linger.c sees to that. */
    struct region_id *local_regions; /* of this agent; for loopback of both sides */
    size_t local_count;
    struct region_id *remote_regions; /* of the peer */
    size_t remote_count;
    bool names_lingering; /* some of them have left: under the lock of the list */

    struct bytes notif;            /* grows and is kept */
    struct nixl_xfer *prev, *next; /* agent->xfers, under xfers_lock */
    uint32_t pins;                 /* under xfers_lock: others that look at it; a release waits for them */
    void *block;                   /* the heap block in which all of it lives */

    struct lock words_lock;      /* guards the rest */
    nixl_status_t cancel_status; /* what a cancelled run ends with: CANCELED, or NOT_FOUND "peer removed" */
    struct nixl_failure_info failure;
    struct xfer_words *words; /* NULL until something went wrong; kept until the release */
};

struct xfer_words {
    char cancel[192]; /* why it was cancelled */
    char text[512];   /* why it failed */
};

/* Puts a new request into its agent's list, and takes it out again. Tables held; not held. */
void xfer_enlist(struct nixl_xfer *xfer);
void xfer_delist(struct nixl_xfer *xfer);
/* Ends what a request that leaves the list named of lingering regions: those that nobody names any more,
 * chained by keys[0].bytes, are the caller's to close. Lock of the list held. */
struct region *linger_drop(struct nixl_xfer *xfer);
/* Gives back what a request that is not enlisted holds, and frees it. The backend's request is closed
 * already. No lock held. */
void xfer_free(struct nixl_xfer *xfer);
/* host->complete. */
void xfer_complete(void *ctx, struct nixl_request *request, const struct nixl_failure *failure);
/* Ends every active request of a removed peer as NOT_FOUND "peer removed" (cancel, FORCE). No table lock
 * held. */
void xfer_fail_peer(struct nixl_agent *agent, struct peer *peer, const char *words);
/* True when an active request holds a local region whose mark is set. Takes xfers_lock; tables may be
 * held. */
bool xfer_any_active_uses_marked(struct nixl_agent *agent);
/* Looks at deadlines and stalls of all active requests; returns the next time to look (CLOCK_NEVER: none). */
uint64_t xfer_check_deadlines(struct nixl_agent *agent, uint64_t now_ns);
/* Cancels and quiesces all requests, detaches them and all prepared lists from the agent. For destroy. */
void xfer_orphan_all(struct nixl_agent *agent);

/* ---- What transfers take (cost.c) ---------------------------------------------------------------------- */

struct cost_record;

/* A new request of a backend that cannot tell: its first runs are timed. */
void cost_begin(struct nixl_xfer *xfer);
/* A timed run ended well: called by whoever ends it, before the state says so. */
void cost_note(struct nixl_xfer *xfer, uint64_t start_ns, uint64_t end_ns);
/* An estimate by what was timed, else by the rank of the backend. Any thread. */
void cost_tell(const struct nixl_xfer *xfer, struct nixl_cost *cost);
void cost_free(struct cost_record *records);

/* ---- Notices of failure to targets (notices.c) --------------------------------------------------------- */

#define NOTICE_WORD "NIXL_FAILED "

struct notices {
    struct lock lock;
    struct notice *head, *tail; /* head is atomic: looked at without the lock */
};

/* A request that asked for it ends so: notes what to tell its target. Any locks may be held but this one. */
void notice_add(struct nixl_xfer *xfer, nixl_status_t status);
/* Sends what is noted. No lock of a backend held. */
void notices_send(struct nixl_agent *agent);

/* ---- Progress (progress.c) ----------------------------------------------------------------------------- */

/* A waiter polls that long before it sleeps, where the process has more than one processor. */
#define PROGRESS_WAIT_SPIN_NS (20 * NS_PER_US)

/* What is known of others that compute on a spinning thread's processor. Atomic. */
struct progress_crowd {
    uint64_t until_ns; /* no giving way before */
    uint64_t pause_ns; /* the last pause in that; 0: others were soon done */
};

struct progress {
    struct thread thread;
    bool has_thread;
    bool stop;            /* atomic */
    bool is_away;         /* atomic: the thread leaves the work to callers that poll, for a millisecond */
    uint32_t waiting;     /* atomic: callers that sleep and count on the thread */
    uint32_t sleepers;    /* atomic: who sleeps on epoll_fd: the thread, or one waiter where there is none */
    struct lock sleeping; /* held by the waiter that sleeps on epoll_fd */
    struct lock arming;   /* around arm operations and around changes of the descriptor sets; taken last */
    int wake_fd;          /* eventfd that wakes who sleeps on epoll_fd */
    int epoll_fd;         /* wake_fd and the backends' event descriptors */
    uint64_t wake_at_ns;  /* atomic: until when the thread sleeps at most */
    uint64_t polls;       /* grows with each poll by a caller: the thread stays away while it moves */
    uint64_t polls_away;  /* atomic: polls when the thread went away */
    uint64_t polls_wake;  /* atomic: polls when it was left away by who had something for it */
    uint64_t deadline_ns; /* atomic: no deadline is earlier */
    uint64_t spin_ns;
    /* Callers that spin: atomic, and nothing but their pace depends on it. */
    uint32_t fruitless; /* polls in a row that found nothing */
    uint64_t polled_ns; /* the last of them that looked at the clock */
    struct progress_crowd crowd;
    /* The completion descriptor. */
    int event_fd;    /* eventfd, -1 until asked for (atomic) */
    int outer_fd;    /* epoll of event_fd and, without a thread, of the backends' descriptors: the user's */
    bool is_armed;   /* atomic */
    bool is_watched; /* atomic, stays: event_fd is there, or somebody has waited for events */
    uint64_t events; /* atomic: 1 and the completions and notifications since is_watched */
    uint64_t seen;   /* events at the last arm, under arming */
    /* Who waits for events (await.c). Each flag is put down by whoever wakes. */
    bool is_awaited; /* atomic: some sleep on the word of `events` that moves */
    bool is_dozed;   /* atomic: the one that sleeps on the backends' events waits for ours too */
};

nixl_status_t progress_open(struct nixl_agent *agent);
nixl_status_t progress_start_thread(struct nixl_agent *agent);
/* Joins the thread; descriptors stay, so that backends may still wake. For destroy: then backends are
 * closed. */
void progress_stop(struct nixl_agent *agent);
void progress_close(struct nixl_agent *agent); /* closes the descriptors */
/* A backend that needs progress was opened. */
nixl_status_t progress_add_backend(struct nixl_agent *agent, struct nixl_backend *backend);
/*
 * How a caller sleeps. With a thread, or for a backend that needs no progress: between wait_begin and
 * wait_end it sleeps on its own word. Else, if sleep_begin says yes, on all events by progress_sleep(), which
 * may return for nothing: within `backend` where that one has an operation for it, else on the descriptors.
 */
void progress_wait_begin(struct nixl_agent *agent);
void progress_wait_end(struct nixl_agent *agent);
bool progress_sleep_begin(struct nixl_agent *agent);
void progress_sleep(struct nixl_agent *agent, struct nixl_backend *backend, uint64_t until_ns);
void progress_sleep_end(struct nixl_agent *agent);
/* The backend to call it for when any event counts: one that can be slept in, if there is one; NULL: none needs progress. */
struct nixl_backend *progress_sleeper(struct nixl_agent *agent);
/* Looks at deadlines that may be due by now. For callers, where there is no thread. */
void progress_deadlines(struct nixl_agent *agent, uint64_t now_ns);
/* One round over all backends that need it; how many events. */
unsigned progress_run(struct nixl_agent *agent);
/* The same for one backend: what a poll does. */
unsigned progress_run_one(struct nixl_agent *agent, struct nixl_backend *backend);
/* Of an agent with a thread: a caller's look found nothing, again. No lock is held: others may run for long. */
void progress_give_way(struct nixl_agent *agent);
void progress_wake(struct nixl_agent *agent);
/* A completion or a notification: tells whoever armed or waits for events. Any thread, any lock. */
void progress_event(struct nixl_agent *agent);
/* The half of `events` that moves with each. */
static inline const uint32_t *progress_events_word(const struct progress *progress) {
    return (const uint32_t *)&progress->events + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 1 : 0);
}
/* A request with that deadline was posted. */
void progress_deadline(struct nixl_agent *agent, uint64_t deadline_ns);

/* ---- Notifications (notif.c) --------------------------------------------------------------------------- */

struct inbox {
    struct lock lock;
    struct hash senders;            /* name -> struct peer: what arrives in its name tells that it lives */
    struct peer *last_sender;       /* one of them, or NULL */
    size_t count;                   /* atomic, for a look without the lock */
    struct inbox_slab *head, *tail; /* filled, oldest first */
};

void inbox_init(struct inbox *inbox);
void inbox_destroy(struct inbox *inbox);
/* Adds a notification as if `backend` had delivered it (NULL: this agent itself). False without memory
 * (logged). */
bool inbox_add(struct nixl_agent *agent, struct nixl_backend *backend, const char *sender, size_t sender_len,
               const void *msg, size_t len);
/* A peer came into the table of peers, or left it: whether what arrives in its name is noted as its sign of life
 * (heard_ns). One that comes replaces the former of its name; false without memory. Tables write-held. */
bool inbox_sender_add(struct inbox *inbox, struct peer *peer);
void inbox_sender_remove(struct inbox *inbox, const struct peer *peer);
/* host->notified. */
void notif_on_arrival(void *ctx, const char *sender, size_t sender_len, const void *msg, size_t len);

/* ---- Metadata (metadata.c, load.c, changes.c) ---------------------------------------------------------- */

/* What changed, for update blobs: a bounded log. Guarded by agent->tables. */
struct change_log {
    struct change *items; /* ring */
    size_t cap, count, head;
    uint64_t oldest; /* updates since generations below this are not possible */
};

/* Notes that a local region was added or removed (tables write-held): grows agent->generation. */
void changes_note(struct nixl_agent *agent, const struct region *region, bool added);
/* Something else of the blob changed (tables write-held): grows the generation; updates from before are not
 * possible. */
void changes_cut(struct nixl_agent *agent);
void changes_destroy(struct nixl_agent *agent);

/* ---- The agent (agent.c) ------------------------------------------------------------------------------- */

struct nixl_agent {
    char *name;
    size_t name_len;
    enum nixl_sync sync;
    uint32_t fork_generation;
    bool telemetry;
    uint64_t xfer_timeout_ms, stall_timeout_ms; /* NIXL_NO_TIMEOUT for none */
    struct auth *auth;                          /* the key that blobs are signed with, or NULL */

    struct lock strict;
    struct lock loading;
    struct lock tables_lock;     /* modes NONE and STRICT */
    struct rwlock tables_rwlock; /* mode RW */

    struct nixl_backend *backends[AGENT_BACKENDS]; /* grows only; count is atomic (release after the slot) */
    unsigned backend_count;
    uint32_t
        able[3]; /* masks by bit of enum nixl_cap: who reaches others, serves this agent, notifies; atomic */

    struct region_set regions;
    uint64_t local_changes; /* atomic: grows when a local region is removed */
    uint64_t generation;    /* of the metadata; tables */
    struct wire_incarnation incarnation;
    struct change_log changes;
    struct bytes blob; /* the full blob as last made, valid for blob_generation; tables */
    uint64_t blob_generation;
    bool blob_valid;

    struct hash peers;          /* name -> struct peer; tables */
    struct peer *last_found;    /* atomic: what peer_find() gave last, in the table; tables */
    struct peer *last_notified; /* one of the table, or NULL; atomic, tables */

    struct lock xfers_lock;
    struct nixl_xfer *xfers;
    struct nixl_dlist *dlists;
    struct cost_record *costs; /* of transfers within the agent and to storage: a list; atomic */

    struct inbox inbox;
    struct notices notices;
    struct progress progress;
    struct view *views; /* open memory views; tables */
    void *exchange;     /* src/exchange's state, NULL while there is none */
};

static inline unsigned backend_count(struct nixl_agent *agent) {
    return __atomic_load_n(&agent->backend_count, __ATOMIC_ACQUIRE);
}

static inline uint32_t backend_mask(const struct nixl_agent *agent, uint32_t caps) {
    uint32_t mask =
        caps == 0 ? (1u << __atomic_load_n(&agent->backend_count, __ATOMIC_ACQUIRE)) - 1u : UINT32_MAX;

    for (unsigned i = 0; i < 3; i++) {
        if ((caps & (1u << i)) != 0) {
            mask &= __atomic_load_n(&agent->able[i], __ATOMIC_ACQUIRE);
        }
    }
    return mask;
}

/* The carriers that src/exchange offers, NULL for none. */
const struct agent_exchange *agent_exchange_get(void);
/* Closes all memory views (views.c). For destroy. */
void views_close_all(struct nixl_agent *agent);

/* Modes. "search" looks into tables, "change" alters them, "data" needs none (post, poll, notify). Each enter
 * has its leave. Enter also refuses in a forked child: then it returns the failure and takes nothing. */
nixl_status_t agent_enter(struct nixl_agent *agent, const char *call); /* NULL and fork checks, strict lock */
void agent_leave(struct nixl_agent *agent);

static inline void tables_search(struct nixl_agent *agent) {
    if (agent->sync == NIXL_SYNC_RW) {
        rwlock_read(&agent->tables_rwlock);
    } else {
        lock_take(&agent->tables_lock);
    }
}

static inline void tables_change(struct nixl_agent *agent) {
    if (agent->sync == NIXL_SYNC_RW) {
        rwlock_write(&agent->tables_rwlock);
    } else {
        lock_take(&agent->tables_lock);
    }
}

/* Guards the lists of requests and prepared lists: in mode RW beside the tables, else by their lock. */
static inline void xfers_take(struct nixl_agent *agent) {
    lock_take(agent->sync == NIXL_SYNC_RW ? &agent->xfers_lock : &agent->tables_lock);
}

static inline void xfers_drop(struct nixl_agent *agent) {
    lock_drop(agent->sync == NIXL_SYNC_RW ? &agent->xfers_lock : &agent->tables_lock);
}

/* The same for who holds the tables already. */
static inline void xfers_take_within(struct nixl_agent *agent) {
    if (agent->sync == NIXL_SYNC_RW) {
        lock_take(&agent->xfers_lock);
    }
}

static inline void xfers_drop_within(struct nixl_agent *agent) {
    if (agent->sync == NIXL_SYNC_RW) {
        lock_drop(&agent->xfers_lock);
    }
}

static inline void tables_leave(struct nixl_agent *agent) {
    if (agent->sync == NIXL_SYNC_RW) {
        rwlock_drop(&agent->tables_rwlock);
    } else {
        lock_drop(&agent->tables_lock);
    }
}

/* ---- Options and choice (select.c) --------------------------------------------------------------------- */

/* The mask of options->backends, checked to be this agent's; 0 without hints. Reads no more than
 * options->size. */
nixl_status_t select_hints(struct nixl_agent *agent, const struct nixl_options *options, uint32_t *mask);
/* A full options struct whatever the caller's size: members beyond it are the defaults. NULL gives the
 * defaults. */
struct nixl_options options_full(const struct nixl_options *options);
extern const struct nixl_options options_default;
/* The same without a copy where none is needed; else it is made in *storage. */
static inline const struct nixl_options *options_view(const struct nixl_options *options,
                                                      struct nixl_options *storage) {
    if (options == NULL) {
        return &options_default;
    }
    if (options->size >= sizeof *options) {
        return options;
    }
    *storage = options_full(options);
    return storage;
}
/* The order in which to try the backends of `mask`: hints in their order, then rank, then creation. Returns
 * how many. */
unsigned select_order(struct nixl_agent *agent, const struct nixl_options *options, uint32_t mask,
                      struct nixl_backend *order[AGENT_BACKENDS]);
/* Backends of `mask` that are as cheap as the chosen one by rank, could carry the same and tell what it takes: none
 * when the options name some, or the chosen one cannot tell. Tables need not be held. */
uint32_t select_rivals(const struct nixl_agent *agent, const struct nixl_options *options, uint32_t mask,
                       const struct nixl_backend *chosen);
/* The cheaper one of two requests for the same, by what their backends say; the first one where
 * they say the same or cannot tell. The other one is released. No lock held. */
struct nixl_xfer *select_cheaper(struct nixl_xfer *first, struct nixl_xfer *second);
/* Appends to the error text which plugins would take these kinds ("POSIX would: create it with
 * nixl_backend_create()"). */
void select_suggest(struct nixl_agent *agent, nixl_mem_t local, nixl_mem_t remote, bool remote_peer);

#endif
