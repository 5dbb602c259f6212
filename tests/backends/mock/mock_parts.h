/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of MOCK share. One lock, mock_lock, guards everything in all instances: simple, and a copy
 * under it can never meet a region that is being closed.
 */
#ifndef MOCK_PARTS_H
#define MOCK_PARTS_H

#include <nixl/backend.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef MOCK_NAME
#define MOCK_NAME "MOCK"
#endif

enum mock_progress {
    MOCK_OWN = 0,    /* a thread of its own */
    MOCK_EVENT = 1,  /* an event descriptor with arm */
    MOCK_TIMED = 2,  /* called every so often */
    MOCK_INLINE = 3, /* within post */
    MOCK_WAIT = 4    /* an event descriptor, and waiters sleep within this backend */
};

struct mock_options {
    int progress;
    uint64_t delay_us, chunk, connect_us, rank;
    uint64_t cost_speed;
    bool hold, stubborn, mute;
    int64_t fail_at, fail_block, fail_status;
    uint64_t fail_post, fail_region, fail_key, fail_peer, fail_notify;
    const char *fail_text, *note, *mems, *caps;
    bool reject;
    uint64_t key_bytes;
};

struct mock_counts {
    long regions, peers, keys, requests, active, views; /* now */
    long posts, cancels, forced, notifs, waits;         /* ever */
    long batches, open_batches;                         /* begun ever, and not ended */
    long region_opens, key_opens, peer_opens;           /* ever */
};

struct mock {
    const struct nixl_host *host;
    struct mock_options options; /* changed by mock_control->set, under mock_lock */
    char fail_text[256];
    struct mock *next;
    uint64_t id;
    bool is_dead;
    unsigned char conn[64];
    size_t conn_len;
    struct mock_peer *peers;
    struct mock_request *first, *last; /* active */
    struct mock_counts counts;
    unsigned char custom[256];
    size_t custom_len;
    pthread_mutex_t inside; /* held by who makes progress */
    int event_fd;
    pthread_t thread;
    pthread_cond_t work;
    bool stop;
};

struct mock_region {
    struct mock *owner;
    uint64_t id; /* place in the table of all regions */
    nixl_mem_t mem;
    uint64_t addr, len, dev;
    unsigned char key[256]; /* what others get */
};

struct mock_peer {
    struct mock_peer *next;
    uint64_t target; /* id of an instance */
    void *token;
    bool is_lost;
    uint64_t connected_ns; /* 0: nobody asked yet */
    char name[NIXL_NAME_MAX + 1];
    char text[256]; /* why it is lost */
};

struct mock_key {
    uint64_t region;
};

/* A request's state. */
struct mock_request {
    struct nixl_request *request;
    struct mock_request *prev, *next;
    bool is_active;
    int cancel; /* 0, or 1 + enum nixl_cancel */
    uint64_t due_ns;
    size_t run;
    uint64_t block, offset, moved;
};

extern pthread_mutex_t mock_lock;
extern struct mock *mock_instances; /* newest first */

uint64_t mock_now_ns(void);
struct mock *mock_by_id(uint64_t id); /* NULL when closed or dead */
/* Words in a list "a,b" as bits by their place in `names` (NULL-terminated); UINT32_MAX for an unknown word.
 */
uint32_t mock_words(const char *list, const char *const *names);

/* memory.c; NULL when a region is not there any more */
struct mock_region *mock_region_by_id(uint64_t id);
/* Where a block of a region is in this process, NULL when it lies outside. */
unsigned char *mock_place(const struct mock_region *region, uint64_t addr, uint64_t len);
nixl_status_t mock_region_open(void *self, nixl_mem_t mem, const struct nixl_meta_desc *desc, void **region);
void mock_region_close(void *self, void *region);
nixl_status_t mock_region_key(void *self, void *region, const void **key, size_t *len);
nixl_status_t mock_query(void *self, nixl_mem_t mem, const struct nixl_meta_desc *descs, size_t count,
                         const struct nixl_query_sink *sink);
nixl_status_t mock_key_open(void *self, void *peer, nixl_mem_t mem, const struct nixl_desc *desc,
                            const void *bytes, size_t len, void **key);
void mock_key_close(void *self, void *peer, void *key);

nixl_status_t mock_view_open(void *self, nixl_mem_t mem, bool remote, const struct nixl_desc *descs,
                             void *const *keys, void *const *peers, size_t count, void **view);
void mock_view_close(void *self, void *view);

/* peer.c */
nixl_status_t mock_conn_info(void *self, const void **conn, size_t *len);
nixl_status_t mock_note(void *self, const void **note, size_t *len);
nixl_status_t mock_peer_open(void *self, const char *name, void *token, const void *conn, size_t conn_len,
                             const void *note, size_t note_len, void **peer);
void mock_peer_close(void *self, void *peer);
nixl_status_t mock_peer_connect(void *self, void *peer);
nixl_status_t mock_peer_state(void *self, void *peer);
nixl_status_t mock_peer_transport(void *self, void *peer, nixl_mem_t mem, char *text, size_t size);
nixl_status_t mock_notify(void *self, void *peer, const void *msg, size_t len);
/* With mock_lock held. */
void mock_peer_lose(struct mock *mock, struct mock_peer *peer, const char *text);
/* Hands a notification to the peer's instance; false when it is gone. With mock_lock held. */
bool mock_deliver(struct mock *mock, struct mock_peer *peer, const void *msg, size_t len);

/* xfer.c */
nixl_status_t mock_request_open(void *self, struct nixl_request *request);
void mock_request_close(void *self, struct nixl_request *request);
nixl_status_t mock_post(void *self, struct nixl_request *request);
void mock_cancel(void *self, struct nixl_request *request, enum nixl_cancel how);
nixl_status_t mock_cost(void *self, const struct nixl_request *request, struct nixl_cost *cost);
nixl_status_t mock_transport(void *self, const struct nixl_request *request, char *text, size_t size);
unsigned mock_progress(void *self);
nixl_status_t mock_arm(void *self);
nixl_status_t mock_wait(void *self, int fd, uint64_t until_ns);
void mock_batch(void *self, bool begins);
/* Something changed that may let requests go on. With mock_lock held. */
void mock_stir(struct mock *mock);
void *mock_thread(void *self);

#endif
