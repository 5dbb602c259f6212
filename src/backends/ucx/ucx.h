/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the UCX backend share. One instance is one agent's: a UCX context, its workers, its peers.
 *
 * Locks, in the order in which they nest:
 *   registry lock (copy.c)   the list of instances in this process
 *   worker.lock              every call of UCX that touches the worker, one of its endpoints or their remote keys; the state
 *                            of those endpoints and of requests in flight on the worker. Never two workers' at once
 *   worker.inbox_lock        requests on their way to the worker
 *   peer.lock                a peer's failure and its words
 *   regions_lock             the table of regions
 *   copies.lock              the list of requests that are copied by ourselves: within this process, and by the kernel to others
 * UCX's context is told that it is shared (mt_workers_shared), so registering memory needs none of them.
 */
#ifndef UCX_UCX_H
#define UCX_UCX_H

#include "ucx_abi.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "base/thread.h"

#include <nixl/backend.h>

/* Bounds on what UCX is given at a time, so that a post is short, and a cancel and a deadline can be kept. */
#define UCX_OP_MAX (UINT64_C(4) << 20)       /* bytes of one put or get; within a post often less (op_max) */
#define UCX_QUEUE_OPS 256u                   /* operations in flight of one request */
#define UCX_QUEUE_BYTES (UINT64_C(16) << 20) /* their bytes */
#define UCX_TURN_NS UINT64_C(60000)          /* time for issuing, in a post or in one turn of progress */
#define UCX_OP_MIN (UINT64_C(64) << 10)
#define UCX_OP_START (UINT64_C(256) << 10)

/* Active messages. 0 is the reference's too; the others are between agents whose notes offer them (serve.c). */
#define UCX_AM_NOTIF 0u
#define UCX_AM_QUESTION 1u
#define UCX_AM_ANSWER 2u
#define UCX_ASKED 1024u /* buckets of questions that wait for their answers */
/* In flight of one request by messages: enough to keep a socket full. */
#define UCX_ASK_OPS 64u
#define UCX_ASK_QUEUE (UINT64_C(2) << 20)
/* Questions that wait to leave for one peer. More are asked when it takes them: so what a stopped peer leaves behind is bounded,
 * and its connection need never go for a deadline. */
#define UCX_UNSENT_MAX 256u
#define UCX_ASK_SMALL                                                                                        \
    (UINT64_C(8) << 10) /* blocks below this are worth packing even where UCX can put by itself */

#define UCX_WORKERS_MAX 64u /* of either kind: more make no difference on any machine known */

#define UCX_TLS_SIZE 512u /* of a list of transports, and of other values in engine_config; with the zero */

#define UCX_PAD 4096u /* zeros behind bytes that UCX parses without knowing where they end */

enum {
    UCX_ERRORS_NONE = 0,
    UCX_ERRORS_PEER = 1
};

/* Filled by the agent from the options table in backend.c. */
struct ucx_options {
    const char *devices;
    uint64_t num_workers;
    uint64_t num_threads;
    uint64_t copy_threads;
    uint64_t split_batch_size;
    int error_handling;
    uint64_t num_device_channels;
    bool ep_close_force;
    const char *engine_config;
    const char *path;
    bool memory_hooks;
    bool messages;
    bool cma;
};

struct ucx_instance;
struct ucx_worker;
struct ucx_xfer;
struct ucx_share;
struct ucx_door_file;

/* An instance's doors (doors.c); all zero where it has none. */
struct ucx_doors {
    int fd;
    struct ucx_door_file *file;
    uint64_t number; /* the last one given */
};

struct ucx_region {
    struct ucx_instance *self; /* whose memory; valid while is_open */
    uint64_t addr, len;
    nixl_mem_t mem;
    ucp_mem_h memh;
    void *key; /* as ucp_rkey_pack made it */
    size_t key_len;
    struct ucx_region *twin; /* another registration of the same block */
    uint32_t references;     /* the owner's and one for each key of a peer in this process */
    /* Peers in this process copy into the region by themselves. Closing waits for those inside. */
    uint32_t users;
    bool is_open;
};

enum ucx_peer_state {
    UCX_PEER_NEW = 0, /* no endpoint yet */
    UCX_PEER_OPEN,
    UCX_PEER_FAILED /* for good; the endpoint is closed or about to be */
};

enum ucx_cma_state {
    UCX_CMA_NO = 0,
    UCX_CMA_UNKNOWN, /* offered, not tried yet */
    UCX_CMA_YES
};

/* Where a peer runs, as its note says. */
enum ucx_place_of_peer {
    UCX_PLACE_UNKNOWN = 0, /* elsewhere, or it does not say */
    UCX_PLACE_HERE,        /* on this host, with process numbers that mean the same here */
    UCX_PLACE_APART        /* on this host, in a process-number namespace of its own */
};

/* How the kernel's copies reach a peer (cma.c). */
struct ucx_cma {
    uint32_t state; /* enum ucx_cma_state, atomic */
    enum ucx_place_of_peer place;
    bool is_offered; /* its note offers them */
    int refusal;     /* errno of the kernel's refusal at the first try; written before `state` */
    int32_t pid;
    uint64_t proof; /* where its 16 bytes are */
    uint64_t vouched_ns;
    int32_t doors_fd;                  /* there; -1: it has none */
    const struct ucx_door_file *doors; /* here, atomic; NULL: not mapped */
};

/* A peer as one worker has it. The worker's lock guards it. */
struct ucx_end {
    struct ucx_peer *peer;
    struct ucx_worker *worker;
    ucp_ep_h ep;     /* NULL: not made yet, or closed */
    bool is_seen;    /* UCX has said that it failed */
    bool is_queued;  /* in worker.failed */
    bool is_closing; /* the agent has let go of the peer */
    bool is_warm;
    bool has_asked;        /* a first question is on its way or was answered */
    uint64_t notified_ns;  /* atomic: when the last notification was given to UCX, by the coarse clock */
    bool is_silent;        /* questions to it were given up, and it has answered none since */
    bool is_emulated;      /* UCX plays remote access over messages: reads, and with old versions writes */
    bool loses_reads;      /* UCX plays them over shared memory */
    bool has_lanes;        /* is_emulated and loses_reads are known */
    uint32_t pending;      /* flushes and messages whose callback holds this struct */
    uint32_t unsent;       /* questions among them */
    struct ucx_xfer *held; /* requests that wait until it takes questions again, by next_held */
    uint64_t close_from;   /* let go of after a failure: the worker's turn from which it may be closed */
    uint64_t op_max; /* bytes of one operation: as much as UCX takes in without working on it for long */
    struct ucx_end *next;
};

struct ucx_peer {
    struct ucx_instance *self;
    char *name;
    void *token;
    void *address; /* zero-padded */
    size_t address_len;
    bool is_unchecked;    /* it came without a note, so without a checksum */
    bool is_local;        /* an agent of this process: nothing goes through UCX */
    uint8_t local_id[16]; /* whose instance */
    bool takes_questions; /* its note offers them */
    bool is_route_told;   /* atomic: which way its bytes go has been logged (route.c) */
    struct ucx_cma cma;

    /* Its failure is one for all workers. The lock guards what follows; once `state` says so the words stay. */
    struct lock lock;
    enum ucx_peer_state state; /* atomic: read without the lock */
    bool is_torn_down;         /* by ourselves, for a deadline: what it had in flight is CANCELED */
    bool is_reported;          /* the agent knows that it failed */
    bool is_closing;           /* the agent has let go of it */
    char words[448];           /* why it failed */

    bool is_connecting;    /* atomic: written under the first worker's lock, read by anybody */
    uint32_t references;   /* atomic: the agent's, and one for each worker that still closes its end */
    struct ucx_end ends[]; /* one for each worker */
};

static inline enum ucx_peer_state ucx_peer_is(const struct ucx_peer *peer) {
    return __atomic_load_n(&peer->state, __ATOMIC_ACQUIRE);
}

struct ucx_key {
    struct ucx_peer *peer;
    void *bytes; /* padded */
    size_t len;
    uint64_t addr, region_len; /* of the region, as its owner registered it */
    uint32_t door;             /* where its door was last seen; atomic */
    struct ucx_region *region; /* of a peer in this process */
    ucp_rkey_h rkeys[]; /* for each worker, NULL until its first request; written under the worker's lock */
};

/* A place in a request's list: the next byte is `offset` into block `block` (of those that ucx_run_span() counts). */
struct ucx_place {
    size_t run;
    uint64_t block, offset;
};

/* An operation that has not completed. */
struct ucx_op {
    struct ucx_op *next;
    struct ucx_xfer *xfer;
    uint64_t bytes;
    struct ucx_place place; /* where it begins; run NIXL_NO_INDEX: a flush */
    uint64_t cookie;        /* of its question */
};

/* A message on its way out, from a free list. */
struct ucx_message {
    struct ucx_message *next;
    struct ucx_worker *worker;
    struct ucx_end *end;   /* whose `pending` counts it; NULL for answers */
    struct ucx_xfer *xfer; /* whose notification it is, or NULL */
    struct bytes bytes;
};

enum ucx_phase {
    UCX_IDLE = 0,
    UCX_ISSUING,  /* blocks are left to be given to UCX */
    UCX_DRAINING, /* waiting for the operations' own completions */
    UCX_FLUSHING, /* waiting for the flush that proves that they arrived */
    UCX_HANDED,   /* the data is in place; the first worker is to send the notification */
    UCX_NOTIFYING /* waiting for the notification to leave */
};

/* A request's state: zeroed by the agent before request_open. */
struct ucx_xfer {
    struct ucx_instance *self;
    struct nixl_request *request;
    struct ucx_peer *peer;     /* NULL: this agent */
    struct ucx_end *end;       /* of the peer, where UCX moves the bytes */
    struct ucx_worker *worker; /* whose end that is; atomic: it changes when the first worker is to notify */
    struct ucx_worker *home;   /* the one it is posted on */
    struct ucx_xfer *whole;    /* itself; of a part, or of a piece of a copy: the request's */
    struct ucx_parts *parts;   /* of a list split over workers, else NULL */
    struct ucx_xfer *next;     /* in worker.ready, worker.inbox or copies */
    bool is_copy; /* by ourselves: within this process, or by_cma. Atomic where a cancel may look */
    bool by_cma;
    bool is_queued;
    bool is_stopping; /* atomic: cancelled, or a part has failed. The whole's counts */
    bool is_handed;   /* atomic: in the first worker's inbox, for its notification */
    bool has_keys;    /* its remote keys are unpacked */
    bool asks;        /* goes by messages (serve.c) */
    bool is_held;     /* in end.held */
    struct ucx_xfer *next_held;
    uint32_t flags; /* of UCX's operations */
    enum ucx_phase phase;
    uint32_t ops;           /* in flight */
    uint64_t queued;        /* their bytes */
    struct ucx_place place; /* the next byte to issue */
    struct ucx_place limit; /* where it ends: the list's end, or a part's or piece's */
    uint64_t done;
    struct ucx_share *share; /* of a copy that several threads share, else NULL */
    /* The first failure in the list's order. */
    ucs_status_t status;
    size_t failed_run;
    uint64_t failed_block;
};

struct ucx_xfer_queue {
    struct ucx_xfer *head, *tail;
};

/* A list that is split: each part is moved, and proved to have arrived, by a worker of its own. */
struct ucx_parts {
    uint32_t left; /* atomic: parts under way, and the post */
    unsigned count;
    struct ucx_xfer part[];
};

/* A thread that drives one worker and helps with large copies (threads.c). */
struct ucx_helper {
    struct thread thread;
    int wake_fd;
    uint32_t is_asleep; /* atomic */
    uint32_t turns;     /* atomic: grows while it runs */
    uint32_t seen;      /* by others, and when: whether it is kept from running. Atomic */
    uint64_t seen_ns;
};

/* The thread that helps with large copies by default (copier.c). */
struct ucx_copier {
    struct lock lock; /* around its start and its end */
    struct thread thread;
    bool is_tried;  /* to start it; atomic */
    uint32_t state; /* atomic; a futex */
    /* Atomic: when it was called, and until when it is not to be. */
    uint64_t called_ns, rests_until_ns;
};

struct ucx_worker {
    struct ucx_instance *self;
    unsigned index;
    /* Requests on their way from other threads; `arrived` (atomic) counts them. */
    struct lock inbox_lock;
    struct ucx_xfer_queue inbox;
    uint32_t arrived;
    /* Not of the first worker: nobody looks at it in vain. `busy` is atomic, and tells of all else. */
    uint32_t requests; /* being moved */
    uint32_t pending;  /* of its ends */
    uint32_t busy;
    struct ucx_helper helper;

    struct lock lock;
    uint32_t wanted; /* threads that wait for the lock: progress makes way */
    ucp_worker_h handle;
    int event_fd;
    struct ucx_xfer_queue ready; /* requests that can go on */
    struct ucx_end *failed;      /* whose failure is to be handled outside UCX's callbacks */
    struct ucx_end *closing;     /* of peers the agent let go of, being flushed */
    uint64_t turns;              /* calls of ucp_worker_progress() */
    bool is_closing_soon;        /* some end of `closing` only waits for turns */
    struct ucx_op *ops;          /* free */
    void *op_slabs;
    struct ucx_op *asked[UCX_ASKED]; /* by cookie */
    uint64_t next_cookie;
    struct ucx_message *messages; /* free */
};

/* Counts a flush or message on its way, and takes one off. */
static inline void ucx_end_hold(struct ucx_end *end) {
    end->pending++;
    end->worker->pending++;
}
static inline void ucx_end_drop(struct ucx_end *end) {
    end->pending--;
    end->worker->pending--;
}

struct ucx_copies {
    struct lock lock;
    struct ucx_xfer_queue queue;
    uint32_t active; /* atomic: queued or in somebody's hands */
    uint32_t shared; /* atomic: queued for several threads */
};

struct ucx_instance {
    const struct nixl_host *host;
    const struct ucx_library *library;
    const struct ucx_abi *ucx;
    const struct ucx_options *options;
    uint32_t generation; /* fork_generation() at open */
    ucp_context_h context;
    bool has_device_memory; /* UCX knows memory kinds besides the host's */
    ucp_datatype_t copied;  /* of messages that UCX is made to copy (notif.c), if has_copied */
    bool has_copied;
    /* The first one is the agent's address: what others send comes to it, and every notification leaves by it. */
    struct ucx_worker *workers;
    unsigned worker_count; /* those of num_workers, then those that have a thread */
    unsigned shared_count; /* of num_workers: driven by who polls, and by the agent's progress thread */
    unsigned helper_count; /* with a thread */
    int event_fd;          /* of the shared ones */
    bool is_ending;        /* atomic: the threads are to end */
    uint32_t polls;        /* atomic: of progress; idle workers are looked at from time to time */
    const void *takers[UCX_WORKERS_MAX]; /* atomic: which thread makes its requests on which worker */
    struct ucx_copies copies;
    struct ucx_copier copier;

    struct lock regions_lock;
    struct hash regions; /* by address and length */

    void *address;
    size_t address_len;
    uint8_t id[16];
    char note[255];
    /* For peers on this host (cma.c): what our note says, "" when it offers nothing, and our host's word in it. */
    void *cma_proof;
    char cma_note[128], cma_host[64];
    uint64_t advice[8]; /* hashes of what has been advised already, 0: none; atomic (route.c) */
    struct ucx_doors doors;
    char about[704 + UCX_TLS_SIZE];
    char tls[UCX_TLS_SIZE];    /* UCX_TLS as it counts, "" when not set */
    struct ucx_instance *next; /* in the registry */
};

/* cost.c */
nixl_status_t ucx_cost(void *self, const struct nixl_request *request, struct nixl_cost *cost);

/* config.c: UCX's settings; `tls` is what ucx_config_transports() found. */
nixl_status_t ucx_config_make(const struct nixl_host *host, const struct ucx_library *library,
                              const struct ucx_options *options, const char *tls, ucp_config_t **config);
/* The transport list in force (UCX_TLS, else engine_config's TLS), "" for none; one that is too long is refused. Before the
 * library is opened. */
nixl_status_t ucx_config_transports(const struct nixl_host *host, const struct ucx_options *options,
                                    char tls[UCX_TLS_SIZE]);
/* Whether the user chose transports or devices, so that too few may be left; and that choice as "NAME=" and its value. */
bool ucx_config_is_chosen(const struct ucx_options *options, const char *tls);
const char *ucx_config_choice(const struct ucx_options *options, const char *tls, const char **value);
/* Sets the environment where UCX reads a switch only there, while it opens. Calls come in pairs, one pair at a time. */
/* The variable or option that chooses the network devices, its value in `value`; NULL when there is none. */
const char *ucx_config_devices(const struct ucx_options *options, char *value, size_t size);
void ucx_config_environment(const struct ucx_library *library, const char *tls, bool peer_errors);
/* Takes back what ucx_config_environment() set, for the instances to come. */
void ucx_config_environment_restore(void);

/* worker.c */
nixl_status_t ucx_workers_open(struct ucx_instance *self);
void ucx_workers_close(struct ucx_instance *self);
/* Take and give back the worker's lock outside progress. */
void ucx_worker_enter(struct ucx_worker *worker);
void ucx_worker_leave(struct ucx_worker *worker);
/* Lock held, outside UCX's callbacks: lets requests go on that can, handles failed and closing peers. Returns how many
 * it served. */
unsigned ucx_worker_settle(struct ucx_worker *worker);
/* One turn of the worker, if nobody else is in it. */
unsigned ucx_worker_turn(struct ucx_worker *worker);
/* SUCCESS: its descriptor becomes readable when there is something to do. IN_PROG: there is. */
nixl_status_t ucx_worker_arm(struct ucx_worker *worker);
/* Hands a request over to a worker whose lock need not be held; the worker's next turn takes it up. */
void ucx_worker_send(struct ucx_worker *worker, struct ucx_xfer *xfer);
/* The worker on which this thread makes its requests. */
struct ucx_worker *ucx_worker_choose(struct ucx_instance *self);
void ucx_worker_ready(struct ucx_worker *worker, struct ucx_xfer *xfer);
void ucx_worker_unready(struct ucx_worker *worker, struct ucx_xfer *xfer);
unsigned ucx_progress(void *self);
nixl_status_t ucx_arm(void *self);

/* threads.c */
nixl_status_t ucx_helpers_start(struct ucx_instance *self);
void ucx_helpers_stop(struct ucx_instance *self);
/* There is something for the worker's thread to do. */
void ucx_helper_wake(struct ucx_worker *worker);
/* Wakes as many threads for a copy. */
void ucx_helpers_wake(struct ucx_instance *self, unsigned count);
/* Whether the worker's thread has not come to run for a while although there is work: then who polls drives the worker. */
bool ucx_helper_is_kept(struct ucx_worker *worker);

/* copier.c */
/* For a copy that is worth it: at the first call, if options and processors let it. */
void ucx_copier_start(struct ucx_instance *self);
void ucx_copier_stop(struct ucx_instance *self);
bool ucx_copier_is_there(const struct ucx_instance *self);
/* There is a piece to take. Costs a load where it is at work, or not there. */
void ucx_copier_call(struct ucx_instance *self);

static inline struct ucx_worker *ucx_xfer_worker(const struct ucx_xfer *xfer) {
    return __atomic_load_n(&xfer->worker, __ATOMIC_ACQUIRE);
}
static inline bool ucx_xfer_is_stopping(const struct ucx_xfer *xfer) {
    return __atomic_load_n(&xfer->whole->is_stopping, __ATOMIC_RELAXED);
}
static inline bool ucx_xfer_is_part(const struct ucx_xfer *xfer) {
    return xfer->whole != xfer;
}
static inline bool ucx_place_is(const struct ucx_place *a, const struct ucx_place *b) {
    return a->run == b->run && a->block == b->block && a->offset == b->offset;
}
static inline struct ucx_worker *ucx_first_worker(const struct ucx_instance *self) {
    return &self->workers[0];
}
/* Inherited through fork: nothing of UCX may be touched any more. */
static inline bool ucx_is_inherited(const struct ucx_instance *self) {
    return self->generation != fork_generation();
}
nixl_status_t ucx_fail_inherited(const struct ucx_instance *self);

/* memory.c */
nixl_status_t ucx_region_open(void *self, nixl_mem_t mem, const struct nixl_meta_desc *desc, void **region);
void ucx_region_close(void *self, void *region);
nixl_status_t ucx_region_key(void *self, void *region, const void **key, size_t *len);
nixl_status_t ucx_key_open(void *self, void *peer, nixl_mem_t mem, const struct nixl_desc *desc,
                           const void *bytes, size_t len, void **key);
void ucx_key_close(void *self, void *peer, void *key);
/* Worker lock held, endpoint there: makes the key usable on its worker. */
nixl_status_t ucx_key_unpack(struct ucx_end *end, struct ucx_key *key);
/* A counted reference to an open region with these bounds, or NULL. */
struct ucx_region *ucx_region_find(struct ucx_instance *owner, uint64_t addr, uint64_t len);
void ucx_region_release(struct ucx_region *region);
/* Between the two the region stays open. False: it is gone. */
bool ucx_region_enter(struct ucx_region *region);
void ucx_region_leave(struct ucx_region *region);
/* A copy with UCX_PAD zeros behind it, NULL without memory. */
void *ucx_padded_copy(const void *bytes, size_t len);

/* packed.c: whether bytes without a checksum can be an address, a key of DRAM, that UCX packed */
bool ucx_address_is_whole(const void *bytes, size_t len);
bool ucx_key_is_whole(const void *bytes, size_t len);

/* peer.c */
nixl_status_t ucx_conn_info(void *self, const void **conn, size_t *len);
nixl_status_t ucx_note(void *self, const void **note, size_t *len);
nixl_status_t ucx_peer_open(void *self, const char *name, void *token, const void *conn, size_t conn_len,
                            const void *note, size_t note_len, void **peer);
void ucx_peer_close(void *self, void *peer);
nixl_status_t ucx_peer_connect(void *self, void *peer);
nixl_status_t ucx_peer_state(void *self, void *peer);
nixl_status_t ucx_peer_transport(void *self, void *peer, nixl_mem_t mem, char *text, size_t size);
/* Worker lock held. The endpoint, made at its first use; fails in words. */
nixl_status_t ucx_end_connect(struct ucx_end *end);
/* No lock held: tears the connection down on all workers. */
void ucx_peer_tear_down(struct ucx_peer *peer, const char *why);
/* Worker lock held, outside callbacks: what the error handler left to do. */
void ucx_end_handle_failure(struct ucx_end *end);
/* Worker lock held, outside callbacks: true when the closing end is gone (and perhaps its peer freed). `force`: do not wait. */
bool ucx_end_finish_close(struct ucx_end *end, bool force);
/* No worker's lock held: it is known to be gone, and why. */
void ucx_peer_lost(struct ucx_peer *peer, const char *why);
nixl_status_t ucx_fail_peer(struct ucx_peer *peer);
/* Worker lock held, endpoint there: starts connecting, so that the peer's death is noticed and the first notification is fast
 * although no byte goes by UCX. */
void ucx_end_warm(struct ucx_end *end);
/* Worker lock held, endpoint there: learns once whether UCX emulates remote access to the peer. */
void ucx_end_look_at_lanes(struct ucx_end *end);
/* First worker's lock held. Whether an endpoint to our own address can be made: whether the transports that are left
 * suffice. */
nixl_status_t ucx_peer_probe(struct ucx_instance *self);
void ucx_note_make(struct ucx_instance *self);

/* route.c: which way bytes go, for people */
/* The devices that a transport's lanes use in what ucp_ep_print_info() says: "eth0,eth1". */
void ucx_route_devices(const char *info, const char *carrier, char *devices, size_t size);
/* Logs it once a peer, and warns where a setting would make it faster. */
void ucx_route_tell(struct ucx_peer *peer, const char *bytes, const char *notifs, const char *devices);
/* What a user could set when a peer cannot be reached: sentences behind ". ", "" for none. Returns text. */
const char *ucx_route_hint(const struct ucx_instance *self, char *text, size_t size);

/* notif.c */
nixl_status_t ucx_notif_listen(struct ucx_worker *worker);
nixl_status_t ucx_notify(void *self, void *peer, const void *msg, size_t len);
/* First worker's lock held, endpoint there. Gives a notification to UCX; the bytes are copied. With a request: IN_PROG, and
 * ucx_xfer_notified() later, when it could not leave at once. */
nixl_status_t ucx_notif_send(struct ucx_peer *peer, const void *msg, size_t len, struct ucx_xfer *xfer);

/* A message with room for `len` bytes, NULL without memory; and back. Worker lock held. */
struct ucx_message *ucx_message_take(struct ucx_worker *worker, size_t len);
void ucx_message_give_back(struct ucx_message *message);
/* ucp_am_send_nbx() of its bytes, eager; the callback, its argument and further flags are in `param`. */
ucs_status_ptr_t ucx_message_send(struct ucx_message *message, ucp_ep_h ep, unsigned id,
                                  ucp_request_param_t *param);
nixl_status_t ucx_messages_open(struct ucx_instance *self);
void ucx_messages_close(struct ucx_instance *self);
/* `handler` gets the worker. */
nixl_status_t ucx_notif_handler(struct ucx_worker *worker, unsigned id, ucp_am_recv_callback_t handler);

/* serve.c: reads and writes by messages. Worker lock held. */
nixl_status_t ucx_serve_listen(struct ucx_worker *worker);
/* Asks for the next piece of a request; `op` is counted already. False: it has failed at once and is finished. */
bool ucx_ask(struct ucx_xfer *xfer, struct ucx_op *op, bool in_post);
/* Asks for nothing, once: UCX sets up what a message with an answer needs, which takes a millisecond or two over tcp, when a
 * request is made and not in its first post. */
void ucx_ask_warm(struct ucx_end *end);
/* Ends what an end, or one request on it, still waits for. */
void ucx_ask_forget(struct ucx_end *end, const struct ucx_xfer *xfer, ucs_status_t status);
/* Whether the peer takes another question; if it does not, the request goes on when it does, or when its connection fails. */
bool ucx_ask_may(struct ucx_xfer *xfer);
/* It need not wait any more. */
void ucx_ask_unhold(struct ucx_xfer *xfer);

/* xfer.c */
/* An operation is over: counts, and gives the record back. */
void ucx_op_finish(struct ucx_op *op, ucs_status_t status);
nixl_status_t ucx_request_open(void *self, struct nixl_request *request);
void ucx_request_close(void *self, struct nixl_request *request);
nixl_status_t ucx_post(void *self, struct nixl_request *request);
void ucx_cancel(void *self, struct nixl_request *request, enum nixl_cancel how);
nixl_status_t ucx_transport(void *self, const struct nixl_request *request, char *text, size_t size);
/* Within a callback: a request's notification has left, or could not. */
void ucx_xfer_notified(struct ucx_xfer *xfer, ucs_status_t status);
/* Worker lock held, outside callbacks: lets a request go on, and completes it when it is through. */
void ucx_xfer_go_on(struct ucx_xfer *xfer, uint64_t *turn_end);

/* A request goes on in the hands of the first worker: within settling, or by whoever held the last part of it. */
void ucx_xfer_hand(struct ucx_xfer *xfer);
/* Worker lock held, outside callbacks: takes up what arrived. */
void ucx_xfer_take_up(struct ucx_worker *worker, struct ucx_xfer *xfer);
/* Worker lock held: the endpoint and every remote key of a request or part. */
nixl_status_t ucx_xfer_make_ready(struct ucx_xfer *xfer);
/* Tells the agent how a request ended. */
void ucx_xfer_complete(struct ucx_xfer *xfer);
bool ucx_xfer_is_good(const struct ucx_xfer *xfer);
void ucx_xfer_note_failure(struct ucx_xfer *xfer, ucs_status_t status, size_t run, uint64_t block);

/* split.c: lists over several workers */
/* Splits a request if that helps; without memory or connections it stays whole. */
void ucx_split_open(struct ucx_xfer *xfer);
void ucx_split_close(struct ucx_xfer *xfer);
nixl_status_t ucx_split_post(struct ucx_xfer *xfer);
void ucx_split_cancel(struct ucx_xfer *xfer, enum nixl_cancel how);
/* A part has ended; its worker's lock is held. */
void ucx_split_part_ended(struct ucx_xfer *part);

/* copy.c: agents of one process */
void ucx_registry_add(struct ucx_instance *self);
void ucx_registry_remove(struct ucx_instance *self);
bool ucx_registry_has(const uint8_t id[16]);
/* Delivers to the instance `id`, false when it is gone. */
bool ucx_registry_notify(const uint8_t id[16], const char *sender, const void *msg, size_t len);
/* The open region of instance `id` with these bounds, counted; NULL when there is none. */
struct ucx_region *ucx_registry_region(const uint8_t id[16], uint64_t addr, uint64_t len);
/* Starts a copy. NOT_SUPPORTED with xfer->is_copy false: the kernel refuses, and what is left is UCX's to move. */
nixl_status_t ucx_copy_post(struct ucx_xfer *xfer);
/* Copies for a bounded time; returns how many requests it moved on. */
unsigned ucx_copy_progress(struct ucx_instance *self);
static inline bool ucx_copy_is_active(const struct ucx_instance *self) {
    return __atomic_load_n(&self->copies.active, __ATOMIC_ACQUIRE) != 0;
}

enum ucx_copy {
    UCX_COPY_MORE,
    UCX_COPY_DONE,
    UCX_COPY_FAILED,
    UCX_COPY_GIVEN,  /* the bytes are there, and UCX ends the request when its notification has left */
    UCX_COPY_REFUSED /* by the kernel: not this way */
};

/* Why a copy failed; the block is in the request's state, NIXL_NO_INDEX when none is to blame. */
struct ucx_copy_failure {
    nixl_status_t status;
    int os_error;
    char text[512];
};

/* Queues a request that goes on in turns. */
void ucx_copy_queue(struct ucx_xfer *xfer);
/* copies.lock held: takes a request out of the queue, and puts it at its end. */
void ucx_copy_unqueue(struct ucx_copies *copies, struct ucx_xfer *xfer);
void ucx_copy_requeue(struct ucx_copies *copies, struct ucx_xfer *xfer);
/* Copies up to `bytes` on within this process. */
enum ucx_copy ucx_copy_here(struct ucx_xfer *xfer, uint64_t bytes, struct ucx_copy_failure *failure);
/* A queued request's bytes have all been dealt with: its notification, its end, or UCX's turn. */
void ucx_copy_ended(struct ucx_xfer *xfer, enum ucx_copy outcome, struct ucx_copy_failure *failure);

/* share.c: large copies by several threads */
void ucx_share_open(struct ucx_xfer *xfer);
void ucx_share_close(struct ucx_xfer *xfer);
/* Starts a copy whose `share` is there. */
nixl_status_t ucx_share_post(struct ucx_xfer *xfer);
/* Copies a piece of the first request in the queue if that is shared, or of the first that is. */
bool ucx_share_turn(struct ucx_instance *self, bool only_shared);
bool ucx_copy_wants_help(struct ucx_instance *self);
unsigned ucx_copy_help(struct ucx_instance *self);

/* cma.c: other processes of this host, by the kernel */
/* Makes what our note offers; call once self->id is there. */
void ucx_cma_open(struct ucx_instance *self);
void ucx_cma_close(struct ucx_instance *self);
/* Reads a peer's offer. */
void ucx_cma_peer(struct ucx_peer *peer, const void *note, size_t len);
/* Whether the kernel copies to and from the peer; tries it at the first call. */
bool ucx_cma_can(struct ucx_peer *peer);
/* Whether a peer that the kernel copied to has ended since: UCX's keep-alive sees only whom it has finished connecting to. */
bool ucx_cma_is_gone(struct ucx_peer *peer);
/* Copies on for a bounded time. Without locks; one thread at a time for a request. */
enum ucx_copy ucx_cma_some(struct ucx_xfer *xfer, bool in_post, struct ucx_copy_failure *failure);

/* doors.c: which blocks are registered, for those that cma.c serves */
void ucx_doors_open(struct ucx_instance *self);
void ucx_doors_close(struct ucx_instance *self);
/* For the first registration of a block, and at the end of its last. regions_lock held. */
void ucx_door_open(struct ucx_instance *self, uint64_t addr, uint64_t len);
void ucx_door_close(struct ucx_instance *self, uint64_t addr, uint64_t len);
/* Makes a peer's doors visible here, if it can; without locks. */
void ucx_doors_map(struct ucx_peer *peer);
void ucx_doors_unmap(struct ucx_peer *peer);
/* Whether a key's region is registered now, as far as can be seen. */
bool ucx_door_is_open(const struct ucx_peer *peer, struct ucx_key *key);

/* The run as UCX should see it: blocks that adjoin on both sides are one block. */
struct ucx_span {
    uint64_t len, count;
};
static inline struct ucx_span ucx_run_span(const struct nixl_run *run, uint32_t flags) {
    if (run->count > 1 && run->local_stride == run->len && run->remote_stride == run->len &&
        (flags & NIXL_REQUEST_KEEP_LISTS) == 0) {
        return (struct ucx_span){run->len * run->count, 1};
    }
    return (struct ucx_span){run->len, run->count};
}

#endif
