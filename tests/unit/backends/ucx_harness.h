/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the UCX plugin without an agent: a `struct nixl_host`, and a second process (this program again, by exec, so that it
 * has a UCX of its own) which is told over a socket what to do.
 */
#ifndef UCX_HARNESS_H
#define UCX_HARNESS_H

#include <nixl/backend.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HARNESS_NOTIFS 4096
#define HARNESS_MSG_MAX ((size_t)2 << 20)

struct harness_notif {
    char sender[64];
    void *msg;
    size_t len;
};

/* An instance of the plugin with the host it sees. */
struct harness {
    struct nixl_host host;
    char name[64];
    const struct nixl_backend_ops *ops;
    void *self;
    void *options;
    struct nixl_instance instance;
    pthread_mutex_t lock;
    char error[1024];
    char log[4096];   /* lines of WARN and worse */
    char debug[4096]; /* lines below */
    struct harness_notif notifs[HARNESS_NOTIFS];
    size_t notif_count, notif_taken;
    uint32_t notif_crc; /* CRC-32C over all of them in order */
    unsigned wakes;
    /* A progress thread that sleeps on the plugin's descriptor and on this one, which wake() writes. */
    pthread_t thread;
    int wake_fd;
    bool has_thread;
    uint32_t is_stopping;
    uint64_t sleeps;
    void *failed_token;
    unsigned failures;
    nixl_status_t failed_status;
    char failed_text[512];
};

struct harness_memory {
    void *region;
    uint8_t *at;
    size_t len;
    const void *key;
    size_t key_len;
};

struct harness_request {
    struct nixl_request request;
    volatile int is_ended;
    nixl_status_t status;
    struct nixl_failure failure;
    char text[512];
};

/* The plugin's table; NULL when its file does not open. */
const struct nixl_backend_ops *harness_plugin(void);

/* Fills in the host alone. */
void harness_init(struct harness *h, const char *name, bool progress_thread);
/* Opens an instance: `params` is "name", "value", ..., NULL (or NULL). Fails with h->error set. What `params` leaves out,
 * HARNESS_PARAMS in the environment may say: "num_workers=4 num_threads=2". */
nixl_status_t harness_open(struct harness *h, const char *name, const char *const *params,
                           bool progress_thread);
void harness_close(struct harness *h);
/* Starts the progress thread (harness_close() joins it). */
void harness_start_thread(struct harness *h);
bool harness_register(struct harness *h, struct harness_memory *m, size_t len);
void harness_unregister(struct harness *h, struct harness_memory *m);

/* Makes a request of `count` runs; `notif` may be NULL. */
nixl_status_t harness_request_open(struct harness *h, struct harness_request *r, nixl_xfer_op_t op,
                                   void *peer, const struct nixl_run *runs, size_t count, const char *notif);
/* With the program's words for the backend (`custom`, which has to live on). */
nixl_status_t harness_request_open_custom(struct harness *h, struct harness_request *r, nixl_xfer_op_t op,
                                          void *peer, const struct nixl_run *runs, size_t count,
                                          const char *notif, const char *custom);
void harness_request_close(struct harness *h, struct harness_request *r);
/* Posts and makes progress until it ended; IN_PROG when that takes longer than timeout_ms. */
nixl_status_t harness_post(struct harness *h, struct harness_request *r);
nixl_status_t harness_wait(struct harness *h, struct harness_request *r, unsigned timeout_ms);
nixl_status_t harness_run(struct harness *h, struct harness_request *r, unsigned timeout_ms);
/* Waits for the next notification; NULL after timeout_ms. */
const struct harness_notif *harness_notif(struct harness *h, unsigned timeout_ms);

void harness_fill(void *at, size_t len, uint64_t seed);
bool harness_check(const void *at, size_t len, uint64_t seed);

/* The other process. */
struct remote {
    pid_t pid;
    int fd;
    char error[1024];
    uint8_t conn[65536];
    size_t conn_len;
    char note[256];
    size_t note_len;
    uint64_t addr; /* of its memory */
    size_t len;
    uint8_t key[65536];
    size_t key_len;
};

/* Starts it with memory of `len` bytes (0: none), and environment entries "NAME=value", ..., NULL on top of this one's (a
 * bare "NAME" removes). False: r->error says why its backend did not open. */
bool remote_start(struct remote *r, const char *name, size_t len, const char *const *environment);
void remote_stop(struct remote *r); /* asks it to end, then waits */
void remote_kill(struct remote *r); /* SIGKILL, then waits */
void remote_fill(struct remote *r, size_t offset, size_t len, uint64_t seed);
bool remote_check(struct remote *r, size_t offset, size_t len, uint64_t seed);
/* Makes it load `h` as a peer; then it can send notifications (each "<text> <i>" for i below count). */
nixl_status_t remote_load(struct remote *r, struct harness *h);
nixl_status_t remote_notify(struct remote *r, const char *text, unsigned count, size_t pad);
/* What it has received: the number, and the CRC-32C over all of it in order. */
size_t remote_received(struct remote *r, size_t expected, unsigned timeout_ms, uint32_t *crc);
/* Deregisters its memory (which stays mapped). */
void remote_deregister(struct remote *r);
/* Stops making progress for a while. */
void remote_pause(struct remote *r, unsigned ms);

/* Call first in main(): does not return in the other process. With the argument "ucx122" the program runs over UCX 1.22
 * (NIXL_TEST_UCX122), or says that it is skipped and ends. */
void harness_main(int argc, char **argv);

/* The transports of what opens next, here and there: a UCX_TLS, "" for none. With "ucx:" before it the kernel's copies are off, and
 * UCX carries everything. Names it for a test's title. */
const char *harness_transports(const char *setting);
const char *harness_transports_title(const char *setting);

/* Loads `r` into `h`: its peer and the key of its memory. */
nixl_status_t harness_load(struct harness *h, struct remote *r, void **peer, void **key);

/* Whether the UCX that serves is 1.21 or later (asks by the plugin's description). */
bool harness_is_new_ucx(struct harness *h);

#endif
