/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The POSIX backend's own header: host memory to and from files and block devices, through io_uring, Linux
 * AIO or POSIX AIO. Three layers: files (memory.c, path.c), requests and the engine that serves them
 * (engine.c, serve.c, runs.c), and queues, which only take operations to the kernel and bring results back
 * (uring.c, aio.c, posix_aio.c).
 *
 * One lock, engine->lock, guards requests, operations and the queue. It is never held during a call that may
 * wait for a disk. Files are changed by control operations only, which the agent serializes; what transfers
 * write of a file are hints, read and written relaxed.
 */
#ifndef BACKENDS_POSIX_POSIX_H
#define BACKENDS_POSIX_POSIX_H

#include "base/thread.h"

#include <nixl/backend.h>

#include <limits.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Pieces of memory in one vectored operation: the kernel's own limit. */
#define POSIX_MAX_IOV 1024u
/* No operation is longer: cancelling and fairness between requests stay quick. */
#define POSIX_MAX_OP (4u << 20)
/* What one request keeps in the kernel at once. */
#define POSIX_MAX_REQUEST_OPS 256u
/* What one call copies to or from the page cache itself before it returns. */
#define POSIX_SLICE_BYTES (1u << 20)
#define POSIX_SLICE_OPS 64u

/* ---- Files ----------------------------------------------------------------------------------------------
 */

/* How an open mode string ends up: `rw,create,direct:/path`. */
struct posix_path_mode {
    int flags;        /* for open(2) */
    const char *path; /* into the text given */
    size_t path_len;
};

enum posix_path_kind {
    POSIX_PATH_PLAIN = 0, /* no mode string: the descriptor is in `dev` */
    POSIX_PATH_MODE = 1,  /* parsed */
    POSIX_PATH_BAD = 2    /* meant to be one, and mistyped: `why` says how */
};

/* Decides what registration metadata means. `why` (200 bytes) is written for POSIX_PATH_BAD only. Pure. */
enum posix_path_kind posix_path_parse(const char *text, size_t len, struct posix_path_mode *mode, char *why,
                                      size_t why_size);

/* One open file, shared by all registrations that mean the same open file. */
struct posix_file {
    bool is_file; /* true: what tells it from a posix_memory behind a region's handle */
    struct posix_file *next_by_inode, *next_by_key;
    size_t refs;
    int fd;      /* ours: a duplicate, or opened by path */
    int slot;    /* of fd in the queue's table; -1: not there */
    int twin_fd; /* the same file without O_DIRECT, for what is not aligned; -1: none yet */
    dev_t device;
    ino_t inode;
    int flags;    /* F_GETFL */
    uint64_t key; /* the registered dev */
    char *path;   /* as it was opened, NULL for a descriptor */
    bool is_direct, can_read, can_write, is_append;
    bool is_write_through;            /* O_SYNC or O_DSYNC: a write waits for the device */
    bool is_local;                    /* a write into the page cache waits for no network and no program */
    bool is_fuse;                     /* a program answers */
    bool is_memory;                   /* its pages are all there is: a read does not wait either */
    uint32_t mem_align, offset_align; /* O_DIRECT's rules; 1 when there are none */
    /* Hints. */
    bool no_nowait_read, no_nowait_write; /* the file system refuses RWF_NOWAIT */
    uint64_t slow_until_ns;               /* writes into the page cache are being throttled */
    uint64_t suspect_until_ns;            /* or perhaps: one took long lately */
};

/* Registered host memory. Once enough was asked of it for direct files it is pinned in the kernel queue,
 * which then need not look its pages up for each operation. */
struct posix_memory {
    bool is_file; /* false */
    uint64_t addr, len;
    uint64_t asked;  /* bytes of all requests made of it for direct files */
    int slot;        /* in the queue's table, read relaxed by submitters; -1: not pinned */
    bool is_refused; /* not tried again */
};

/* ---- Requests -------------------------------------------------------------------------------------------
 */

/* A place in a request's list of runs: byte `within` of block `block` of run `run`. */
struct posix_cursor {
    size_t run;
    uint32_t block;
    uint64_t within;
};

/* One read or write: contiguous in the file, in pieces of memory. */
struct posix_io {
    struct posix_file *file;
    const struct posix_memory *memory; /* where all pieces lie; NULL: in several */
    int fd;
    uint64_t offset;
    size_t len;
    struct posix_cursor start;
    struct iovec *iov;
    unsigned iov_count;
};

struct posix_request;

/* An operation in the kernel's hands. Its queue keeps its own control block behind it. */
struct posix_op {
    struct posix_op *next, *prev; /* in its request's list, or in the free list */
    struct posix_request *owner;
    struct posix_io io;
    size_t done;     /* bytes moved so far */
    unsigned iov_at; /* first piece that is not finished; it is cut to what is left of it */
    unsigned iov_cap;
    unsigned attempts; /* submissions without result */
    bool is_write;
    struct iovec few[4];
    struct iovec *many; /* POSIX_MAX_IOV of them once needed */
    void *control;      /* the queue's */
};

enum posix_fault {
    POSIX_FAULT_NONE = 0,
    POSIX_FAULT_ERRNO,
    POSIX_FAULT_END_OF_FILE,
    POSIX_FAULT_NOTHING_WRITTEN
};

enum posix_stage {
    POSIX_STAGE_COPY = 0, /* page cache: whoever serves it copies */
    POSIX_STAGE_QUEUE,    /* through the kernel queue */
    POSIX_STAGE_BLOCK,    /* by calls that may wait, in threads for that */
    POSIX_STAGES
};

/* The backend's part of a request (nixl_request.state). */
struct posix_request {
    struct nixl_request *request;
    struct posix_request *next, *prev; /* in the list of its stage while it has something to issue */
    struct posix_cursor cursor;        /* the first byte that nobody has been given */
    struct posix_op *ops;              /* in the kernel */
    uint32_t in_kernel;
    uint64_t bytes_in_kernel;
    uint8_t stage; /* enum posix_stage */
    bool is_listed;
    bool is_served; /* somebody copies for it, without the lock */
    bool is_canceled;
    bool has_fuse;     /* some block lies in a file that a program answers for */
    bool has_buffered; /* some block goes through the page cache */
    bool uses_twin;    /* some block is not aligned: everything goes through the page cache */
    /* The failure with the lowest place in the list. */
    uint8_t fault; /* enum posix_fault */
    int os_error;
    struct posix_cursor fault_at;
    uint64_t fault_len;
};

/* ---- Queues ---------------------------------------------------------------------------------------------
 */

struct posix_engine;

enum posix_sleep {
    POSIX_SLEEP_NOW = 0,
    POSIX_SLEEP_NOT_NOW, /* there are results, or no room to begin */
    POSIX_SLEEP_NEVER    /* the kernel has no such call */
};

/* Called by a queue, lock held, for each operation that has ended: bytes moved, or a negative errno. */
typedef void (*posix_ended_fn)(struct posix_engine *engine, struct posix_op *op, ssize_t result);

/* A way to the kernel. All operations but `open`, `close` run with engine->lock held, and never wait. */
struct posix_queue_ops {
    const char *name; /* for people: "io_uring" */
    const char *transport;
    size_t control_bytes; /* of an op's control block */
    bool is_vectored;
    bool is_mute;            /* completions cannot wake anybody */
    bool is_wrong_with_fuse; /* reads of FUSE files may bring wrong bytes */
    bool takes_buffered;     /* buffered operations do not wait inside submit */
    /* 0, or an errno value with `why` in words. `*depth` may be lowered. `wake_fd`: an eventfd that
     * completions signal. */
    int (*open)(void **queue, unsigned *depth, int event_fd, char *why, size_t why_size);
    void (*close)(void *queue);
    /* Takes one operation (again): false when there is no room now. */
    bool (*push)(void *queue, struct posix_op *op);
    /* Hands what was pushed to the kernel; what it refuses at once ends through `ended`. False: it takes no
     * more now, the rest stays pushed. */
    bool (*flush)(void *queue, struct posix_engine *engine, posix_ended_fn ended);
    /* Collects what has ended; returns how many. */
    unsigned (*reap)(void *queue, struct posix_engine *engine, posix_ended_fn ended);
    /* Asks the kernel to give an operation back early; it still ends through reap. */
    void (*cancel)(void *queue, struct posix_op *op);
    /* How one thread sleeps in the kernel until an operation ends; NULL: it cannot, and sleeps on event_fd.
     * sleep_begin: makes that sleep end also when `fd` becomes readable.
     * sleep: called without the lock, and nobody reaps meanwhile. sleep_end: whether `fd` was the cause.
     * nudge: ends a sleep. */
    enum posix_sleep (*sleep_begin)(void *queue, int fd);
    void (*sleep)(void *queue, uint64_t until_ns);
    bool (*sleep_end)(void *queue);
    void (*nudge)(void *queue);
    /* Whether completions signal event_fd. NULL: they always do, unless `is_mute`. */
    void (*notify)(void *queue, bool on);
    /* Any thread, no lock. Pins memory under a free slot below POSIX_PIN_SLOTS, or frees the slot (len 0).
     * False when the kernel will not. NULL: there is no such thing. */
    bool (*pin)(void *queue, unsigned slot, uint64_t addr, uint64_t len);
    /* Any thread, no lock. Keeps an open file under a free slot below POSIX_FILE_SLOTS, so that operations need
     * not look its descriptor up, or frees the slot (fd -1). False when the kernel will not. NULL: there is no
     * such thing. */
    bool (*hold)(void *queue, unsigned slot, int fd);
};

extern const struct posix_queue_ops posix_uring_ops; /* only where liburing was there at build time */
extern const struct posix_queue_ops posix_aio_ops;
extern const struct posix_queue_ops posix_posix_aio_ops;

/* ---- The engine -----------------------------------------------------------------------------------------
 */

struct posix_options {
    bool use_aio, use_uring, use_posix_aio, bounce;
    uint64_t ios_pool_size, kernel_queue_size, pin_limit;
};

enum posix_thread_state {
    POSIX_THREAD_RUNNING = 0,
    POSIX_THREAD_IDLE,  /* sleeps until woken */
    POSIX_THREAD_WATCH, /* a poller does the work; looks after it now and then */
    POSIX_THREAD_DRIVE  /* does the work; sleeps until an operation ends or until woken */
};

#define POSIX_BUCKETS 1024u
#define POSIX_BLOCKERS 4u
/* Posts of a batch that go to the kernel together. More save little and leave the device without work meanwhile. */
#define POSIX_BATCH_POSTS 8u
/* A poller that comes round this often between two looks of the thread is at work. */
#define POSIX_BUSY_POLLS 4u
#define POSIX_PIN_SLOTS 256u
#define POSIX_FILE_SLOTS 256u

struct posix_list {
    struct posix_request *head, *tail;
};

struct posix_engine {
    const struct nixl_host *host;
    const struct posix_options *options;
    const struct posix_queue_ops *queue_ops;
    void *queue;
    char description[512];

    /* Control operations only. */
    struct posix_file *by_inode[POSIX_BUCKETS];
    struct posix_file *by_key[POSIX_BUCKETS]; /* opened by path */
    bool is_file_slot_used[POSIX_FILE_SLOTS];

    struct lock pin_lock; /* guards what follows and the memories' members but addr and len */
    uint64_t pinned_bytes;
    bool is_slot_used[POSIX_PIN_SLOTS];

    /* Read without the lock by every poll. */
    __attribute__((aligned(64))) uint32_t active; /* requests posted and not ended */
    uint32_t polls;                               /* grows with calls of progress */
    uint32_t batches; /* atomic: threads that post several requests at this moment */

    __attribute__((aligned(64))) struct lock lock; /* guards all below */
    struct posix_list ready[POSIX_STAGES];
    struct posix_op *ops, *free_ops;
    void *controls;
    unsigned depth, in_kernel;
    bool has_pushed;
    bool is_trusted;  /* the agent has a progress thread, which does the work */
    bool is_armed;    /* somebody sleeps on event_fd, or will */
    bool is_signaled; /* event_fd may have been written since it was drained */
    bool is_polled;   /* a busy poller is expected to do the work */
    bool is_serving;  /* a poller copies at this moment */
    bool is_waited;   /* a thread sleeps within the queue: results are its own to fetch */
    bool is_nudged;   /* and was told to come back */
    bool is_stopping;
    bool is_woken; /* wake_fd was written and not read yet */
    uint8_t thread_state;
    uint32_t posts;
    uint32_t kept;        /* posts of a batch that wait to be issued */
    uint32_t burst_polls; /* `polls` when the burst below began */
    uint64_t burst_start_ns;
    int event_fd; /* written by the kernel when an operation ends while notify is on */
    int wake_fd;  /* wakes the thread */
    struct thread thread;
    struct thread blockers[POSIX_BLOCKERS]; /* serve POSIX_STAGE_BLOCK; started when first needed */
    unsigned blocker_count, blocker_idle;
    uint32_t blocker_word; /* moves when there is something for them */
};

/* runs.c: pure arithmetic over a request's runs. */

/* Fills `io` with what begins at `*cursor` and lies together in one file, at most `max_bytes` in `max_iov`
 * pieces, and moves the cursor behind it. False at the end of the list. Blocks of no bytes are stepped over.
 */
bool posix_gather(const struct posix_request *r, struct posix_cursor *cursor, struct posix_io *io,
                  unsigned max_iov, size_t max_bytes);
/* Moves a cursor by `bytes` bytes, which must be there. */
void posix_advance(const struct nixl_request *request, struct posix_cursor *cursor, uint64_t bytes);
/* Whether all blocks of a run obey the file's rules for O_DIRECT; else the first bad block and which value is
 * wrong. */
bool posix_is_aligned(const struct nixl_run *run, const struct posix_file *file, uint32_t *block,
                      const char **what, uint64_t *value, uint32_t *align);

/* memory.c */
nixl_status_t posix_region_open(void *self, nixl_mem_t mem, const struct nixl_meta_desc *desc, void **region);
void posix_region_close(void *self, void *region);
nixl_status_t posix_query(void *self, nixl_mem_t mem, const struct nixl_meta_desc *descs, size_t count,
                          const struct nixl_query_sink *sink);
/* Where a file is, for messages; returns buf. */
const char *posix_file_name(const struct posix_file *file, char *buf, size_t size);
/* Opens the twin of an O_DIRECT file. 0 or an errno value. */
int posix_file_twin(struct posix_file *file);

/* Counts a request of `bytes` for direct files, and pins the memory when it pays. */
void posix_memory_asked(struct posix_engine *engine, struct posix_memory *memory, uint64_t bytes);

/* serve.c: transfers through the page cache by plain calls. Called without the lock, for a request that
 * nobody else serves. */

enum posix_served {
    POSIX_SERVED_ALL = 0, /* to the end of the list */
    POSIX_SERVED_SLICE,   /* as much as one call does; there is more */
    POSIX_SERVED_WAIT,    /* the next piece would wait: not for this stage */
    POSIX_SERVED_FAULT    /* r->fault is set */
};

/* May wait for the device only where `may_wait`. */
enum posix_served posix_serve(struct posix_request *r, bool may_wait);
/* Notes a fault at `at` unless one at an earlier place is known. */
void posix_note_fault(struct posix_request *r, enum posix_fault fault, int os_error, struct posix_cursor at,
                      uint64_t len);

/* engine.c */
nixl_status_t posix_request_open(void *self, struct nixl_request *request);
nixl_status_t posix_post(void *self, struct nixl_request *request);
void posix_batch(void *self, bool begins);
void posix_cancel(void *self, struct nixl_request *request, enum nixl_cancel how);
unsigned posix_progress(void *self);
nixl_status_t posix_arm(void *self);
nixl_status_t posix_wait(void *self, int fd, uint64_t until_ns);
/* Lock held. There is work that no operation's end announces: who sleeps within the queue is to see to it. */
void posix_nudge(struct posix_engine *engine);
/* Lock held. Switches the queue's notifications. */
void posix_notify(struct posix_engine *engine, bool on);
/* Lock held. Takes what was written to event_fd. */
void posix_drain(struct posix_engine *engine);

/* ops.c: operations in the kernel; lock held. */
bool posix_ops_open(struct posix_engine *engine);
void posix_ops_close(struct posix_engine *engine);
/* Gives the kernel what fits of the requests that wait for it. */
void posix_issue(struct posix_engine *engine);
/* Collects results; returns how many. */
unsigned posix_reap(struct posix_engine *engine);
/* Asks the kernel for a request's operations back. */
void posix_recall(struct posix_engine *engine, struct posix_request *r);
/* List handling. */
void posix_enlist(struct posix_engine *engine, struct posix_request *r);
void posix_delist(struct posix_engine *engine, struct posix_request *r);
/* Ends a request that has nothing left to do: r must not be touched after true. */
bool posix_end_if_over(struct posix_engine *engine, struct posix_request *r);
/* The same for a request that never reached the engine: no lock needed. */
void posix_end(struct posix_engine *engine, struct posix_request *r);

/* thread.c */
int posix_thread_start(struct posix_engine *engine);
void posix_thread_stop(struct posix_engine *engine);
/* Lock held. */
void posix_thread_wake(struct posix_engine *engine);
/* A request is there that its poster did not finish: the thread learns of it if need be. Lock held. */
void posix_thread_hand_over(struct posix_engine *engine);
/* The same for a request that entered POSIX_STAGE_BLOCK. Lock held. */
void posix_thread_block(struct posix_engine *engine);
/* Serves one slice of a request whose stage is `stage`, dropping the lock meanwhile. False when there is
 * none. */
bool posix_serve_one(struct posix_engine *engine, enum posix_stage stage);

#endif
