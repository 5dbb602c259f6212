/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of peers over UCX share: the matrix of transports, with and without the progress thread, and small helpers
 * on top of integration/ucx_node.h. Include after cmocka.h.
 */
#ifndef TESTS_FAULTS_PEERS_H
#define TESTS_FAULTS_PEERS_H

#include "integration/ucx_node.h"
#include "outcome.h"
#include "support/skip.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static const struct node_setting matrix[] = {
    {"tcp,self", true}, {"tcp,self", false}, {"sm,self", true}, {"sm,self", false}, {"", true}, {"", false},
};

static inline const char *over(const struct node_setting *s) {
    static char text[64];

    (void)snprintf(text, sizeof text, "UCX %s%s", s->tls[0] != '\0' ? s->tls : "default",
                   s->progress_thread ? "" : ", no thread");
    return text;
}

static inline uint64_t now_ms(void) {
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* A number of rounds, more in `make soak` and fewer where everything is slow. */
static inline unsigned rounds_of(const char *variable, unsigned usual) {
    const char *text = getenv(variable);

    return text != NULL && text[0] != '\0' ? (unsigned)strtoul(text, NULL, 10) : usual;
}

static inline size_t open_descriptors(void) {
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;

    while (dir != NULL && readdir(dir) != NULL) {
        count++;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return count;
}

static inline size_t rss_kib(void) {
    unsigned long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file != NULL) {
        if (fscanf(file, "%lu %lu", &total, &resident) != 2) {
            resident = 0;
        }
        (void)fclose(file);
    }
    return resident * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* `count` blocks of `len` bytes, `stride` apart, at equal offsets on both sides. */
static inline struct nixl_xfer *request_to(struct local *l, struct node *n, nixl_xfer_op_t op, size_t count,
                                           size_t len, size_t stride, const struct nixl_options *options) {
    struct nixl_strided_desc ours = {(uintptr_t)l->at, len, 0, stride, count},
                             theirs = {n->addr, len, 0, stride, count};
    struct nixl_list here = NIXL_LIST_STRIDED(DRAM_SEG, &ours, 1),
                     there = NIXL_LIST_STRIDED(DRAM_SEG, &theirs, 1);
    struct nixl_xfer *xfer = NULL;
    nixl_status_t status = nixl_xfer_create(l->agent, op, &here, &there, n->name, options, &xfer);

    if (status != NIXL_SUCCESS) {
        fprintf(stderr, "# create: %s: %s\n", nixl_status_string(status), nixl_error());
    }
    return xfer;
}

/* Posts and waits, at most 30 s. */
static inline nixl_status_t run_once(struct nixl_xfer *xfer) {
    nixl_status_t status = nixl_xfer_post(xfer, NULL);

    return status == NIXL_IN_PROG ? nixl_xfer_wait(xfer, 30000) : status;
}

/* A WRITE of `len` patterned bytes arrives whole. */
static inline void assert_write_arrives(struct local *l, struct node *n, size_t len, uint64_t seed) {
    struct nixl_xfer *xfer;
    nixl_status_t status;

    pattern_fill(l->at, len, seed);
    xfer = request_to(l, n, NIXL_WRITE, 1, len, len, NULL);
    assert_non_null(xfer);
    status = run_once(xfer);
    if (status != NIXL_SUCCESS) {
        fprintf(stderr, "# %s: %s / %s\n", nixl_status_string(status), nixl_xfer_error(xfer), nixl_error());
    }
    assert_int_equal(status, NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_true(node_check(n, 0, len, seed));
}

/* Makes progress until the connection to the peer is known to be dead, at most 5 s. */
static inline void assert_disconnected(struct local *l, const char *peer) {
    nixl_status_t status;

    for (uint64_t end = now_ms() + 5000;
         (status = nixl_peer_state(l->agent, peer)) != NIXL_ERR_REMOTE_DISCONNECT && now_ms() < end;) {
        (void)nixl_agent_progress(l->agent);
        (void)usleep(1000);
    }
    assert_int_equal(status, NIXL_ERR_REMOTE_DISCONNECT);
}

/* Releases, again as long as it has not ended. */
static inline void assert_released(struct nixl_xfer *xfer, unsigned within_ms) {
    uint64_t end = now_ms() + within_ms;
    nixl_status_t status;

    do {
        status = nixl_xfer_release(xfer);
    } while (status == NIXL_ERR_REPOST_ACTIVE && now_ms() < end);
    assert_int_equal(status, NIXL_SUCCESS);
}

/* UCX before 1.21 ends the process whose peer dies while the two connect over tcp ("Assertion ... wireup.type"): docs/failures.md. */
static inline bool may_be_aborted(const struct local *l, const struct node_setting *setting) {
    return strncmp(setting->tls, "sm", 2) != 0 && strstr(nixl_backend_description(l->ucx), "UCX 1.1") != NULL;
}

/* Registers each test once for each line of the matrix and runs them, or those that NIXL_TEST_ONLY (with * and ?) names;
 * initial_state is the setting. */
static inline int run_matrix(const struct CMUnitTest *tests, size_t count) {
    static struct CMUnitTest all[128];
    static char names[128][160];
    size_t used = 0;

    for (size_t s = 0; s < COUNT_OF(matrix); s++) {
        for (size_t i = 0; i < count && used < COUNT_OF(all); i++, used++) {
            (void)snprintf(names[used], sizeof names[used], "%s: %s", over(&matrix[s]), tests[i].name);
            all[used] = tests[i];
            all[used].name = names[used];
            all[used].initial_state = (void *)(uintptr_t)&matrix[s];
        }
    }
    cmocka_set_test_filter(getenv("NIXL_TEST_ONLY"));
    return _cmocka_run_group_tests("matrix", all, used, NULL, NULL);
}

#endif
