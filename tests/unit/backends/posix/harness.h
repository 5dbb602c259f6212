/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small agent for the POSIX backend alone: a host that keeps the last error text, options from a line of
 * text, and transfers whose end can be waited for with and without polling.
 */
#ifndef TESTS_POSIX_HARNESS_H
#define TESTS_POSIX_HARNESS_H

#include <nixl/backend.h>

/* The C library's own threads of POSIX AIO crash the thread sanitizer, which has not seen them start. */
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

struct harness {
    const struct nixl_backend_ops *ops;
    struct nixl_host host;
    struct nixl_instance instance;
    void *options;
    void *self;
    char error[1024];
    unsigned completions; /* of all transfers */
};

struct transfer {
    struct nixl_request request;
    struct harness *harness;
    struct nixl_run *runs;
    int is_done;
    nixl_status_t status;
    struct nixl_failure failure;
    char text[1024];
};

/* Opens an instance; `options` is "name=value name=value", NULL for the defaults. */
nixl_status_t harness_open(struct harness *h, const char *options);
void harness_close(struct harness *h);

/* Registers a file: by descriptor when `meta` is NULL. NULL on failure (h->error). */
void *harness_file(struct harness *h, uint64_t dev, const char *meta);
/* A handle for host memory. */
void *harness_memory(struct harness *h, const void *addr, uint64_t len);

/* Makes a transfer of `count` runs, which are copied and get their first_index. */
nixl_status_t transfer_open(struct harness *h, struct transfer *t, nixl_xfer_op_t op,
                            const struct nixl_run *runs, size_t count, uint32_t flags);
nixl_status_t transfer_post(struct transfer *t);
/* Waits for its end, polling or sleeping; NIXL_IN_PROG when `timeout_ms` is over. */
nixl_status_t transfer_wait(struct transfer *t, unsigned timeout_ms, bool polling);
/* Post and wait with polling. */
nixl_status_t transfer_run(struct transfer *t);
void transfer_close(struct transfer *t);

/* A run of one block. */
struct nixl_run run_of(void *file, const void *buf, uint64_t offset, uint64_t len);

/* Bytes that tell their place: any two offsets within 1 TiB differ in some of eight neighbours. */
void fill_pattern(void *buf, size_t len, uint64_t seed);
bool check_pattern(const void *buf, size_t len, uint64_t seed);

#endif
