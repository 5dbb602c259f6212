/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process's part in a run: its agent, its buffers, its peers. session.c sets it up and takes it down, initiator.c,
 * target.c and storage.c hold what each role does with a case.
 */
#ifndef NIXLBENCH_SESSION_H
#define NIXLBENCH_SESSION_H

#include "memory.h"
#include "output.h"
#include "plan.h"
#include "runtime.h"
#include "transfer.h"

/* Every process but rank 0 to rank 0, after a case. Three messages of samples follow when is_initiator is set. */
struct case_message {
    uint64_t is_initiator, is_partial;
    uint64_t requests, bytes, start_ns, end_ns;
    double thread_ns, thread_blocks; /* sums over threads: latency is their quotient */
    char transport[128];
    char error[768]; /* "": all well */
};

struct storage;

struct session {
    const struct bench_plan *plan;
    const struct bench_options *options;
    struct runtime *runtime;
    struct output *output; /* rank 0 only */
    enum bench_role role;
    struct bench_memory memory;
    struct nixl_agent *agent;
    struct nixl_backend *backend;
    char **peers;      /* names of the other processes' agents, by rank; NULL: nothing to do with it */
    bool *is_partner;  /* by rank: this process transfers with it */
    uint64_t notified; /* notifications taken in this phase */
    uint64_t counter;  /* iterations done, for the progress line */
    struct storage *storage;
    bool is_crowded; /* more threads spin on this machine than it has processors */
    bool is_interrupted;
    char error[1024];
};

/* All false with words in session->error. */
bool session_open(struct session *session);
void session_close(struct session *session);
/* Runs all cases of the plan. */
bool session_run(struct session *session);
/* After a run that went well: initiators close their agents before the targets do, so nobody loses a peer. */
void session_finish(struct session *session);

bool session_fail(struct session *session, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
/* Passes on what the runtime says. */
bool session_runtime_failed(struct session *session);
/* Makes progress and counts notifications; the runtime's idle function. */
bool session_idle(void *session);

/* What a role does in one case. *go_on false: the run ends here, without an error. */
bool initiator_case(struct session *session, size_t index, bool *go_on);
bool target_case(struct session *session, size_t index, bool *go_on);
bool storage_open(struct session *session);
bool storage_case(struct session *session, size_t index, bool *go_on);
void storage_close(struct session *session);

/* Lanes of this process for a case, their options set and their parts empty; NULL with words. */
struct lane *session_lanes(struct session *session, const struct bench_case *row, size_t part_count);
void session_lanes_free(struct session *session, struct lane *lanes);
/* Runs the lanes; their first error becomes the session's. */
bool session_lanes_run(struct session *session, struct lane *lanes, uint64_t iterations, bool is_measured);
/* This process's sums. */
void session_case_message(const struct session *session, const struct lane *lanes,
                          struct case_message *message);
/* From sums to a row; percentiles are left to the caller. */
void session_result(const struct bench_case *row, const struct case_message *sum,
                    struct bench_result *result);
/* All threads' samples in one place: prep, post, tx. */
bool session_merge_samples(struct session *session, const struct lane *lanes, struct samples samples[3]);
/* The seed of a case's pattern: 0 (constants) unless bytes are checked and both ends are ours. Phase 0 is warm-up, 1 is
 * measured. */
uint64_t session_seed(const struct session *session, size_t index, unsigned phase);

#endif
