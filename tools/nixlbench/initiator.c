/* SPDX-License-Identifier: Apache-2.0 */
/* An initiator's part in a case; at rank 0 also the sum of what all processes found. */
#include "exchange.h"
#include "progress.h"
#include "stop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fills the parts of all lanes: this process's blocks, and those that its targets name. */
static bool fill_parts(struct session *session, const struct bench_case *row, struct lane *lanes) {
    size_t part = 0;

    for (unsigned other = 0; other < session->runtime->size; other++) {
        if (!session->is_partner[other]) {
            continue;
        }
        for (unsigned t = 0; t < session->plan->threads; t++) {
            struct lane_part *p = &lanes[t].parts[part];
            size_t far = 0;

            p->peer = session->peers[other];
            p->remote_mem = DRAM_SEG;
            p->local = memory_list(&session->memory, row, t, other, &p->count);
            if (p->local == NULL) {
                return session_fail(session, "out of memory");
            }
            if (!exchange_recv_list(session, other, &p->remote, &far)) {
                return false;
            }
            if (far != p->count) {
                return session_fail(
                    session,
                    "%s offers %zu blocks to a thread, this process %zu: do both have the same "
                    "flags?",
                    p->peer, far, p->count);
            }
        }
        part++;
    }
    return true;
}

/* Tells each target how many notifications it should have got. */
static bool end_phase(struct session *session, const struct lane *lanes) {
    struct phase_message message = {0, !stop_requested()};

    for (unsigned t = 0; t < session->plan->threads; t++) {
        message.notifications += lanes[t].done;
    }
    for (unsigned other = 0; other < session->runtime->size; other++) {
        if (session->is_partner[other] && !runtime_send(session->runtime, other, &message, sizeof message)) {
            return session_runtime_failed(session);
        }
    }
    return true;
}

static bool sync_all(struct session *session) {
    return runtime_barrier(session->runtime, "sync") || session_runtime_failed(session);
}

/* Warm-up and measurement, with the barriers that the reference has, too. */
static bool run_phases(struct session *session, size_t index, struct lane *lanes) {
    const struct bench_case *row = &session->plan->cases[index];
    bool own = runtime_is_own(session->runtime);
    uint64_t threads = session->plan->threads;
    bool writes = row->op == NIXL_WRITE;

    memory_fill(&session->memory, row, writes ? session_seed(session, index, 0) : 0);
    if (!sync_all(session)) {
        return false;
    }
    __atomic_store_n(&session->counter, 0, __ATOMIC_RELAXED);
    progress_case(index, row, "warm-up", &session->counter, row->warmup * threads);
    if ((row->warmup != 0 && !session_lanes_run(session, lanes, row->warmup, false)) ||
        (own && !end_phase(session, lanes)) || !sync_all(session)) {
        return false;
    }
    if (session_seed(session, index, 1) != 0) {
        memory_fill(&session->memory, row, writes ? session_seed(session, index, 1) : 0);
        if (!sync_all(session)) {
            return false;
        }
    }
    __atomic_store_n(&session->counter, 0, __ATOMIC_RELAXED);
    progress_case(index, row, "measuring", &session->counter, row->iterations * threads);
    if (!session_lanes_run(session, lanes, row->iterations, true) || (own && !end_phase(session, lanes))) {
        return false;
    }
    progress_case(index, row, "finishing", NULL, 0);
    return (!own && stop_requested()) || sync_all(session);
}

/* Rank 0: takes in one process's end of the case. */
static bool take_message(struct session *session, unsigned from, struct case_message *sum,
                         struct samples samples[3]) {
    struct case_message message;
    struct bytes bytes = {0};
    bool ok;

    if (!exchange_recv_struct(session, from, &message, sizeof message)) {
        return false;
    }
    if (message.error[0] != '\0') {
        return session_fail(session, "process %u: %s", from, message.error);
    }
    if (!message.is_initiator) {
        return true;
    }
    for (int k = 0; k < 3; k++) {
        ok = runtime_recv(session->runtime, from, &bytes);
        if (!ok) {
            session_runtime_failed(session);
        } else if (!samples_append(&samples[k], (const uint64_t *)(const void *)bytes.data,
                                   bytes.len / sizeof(uint64_t))) {
            ok = session_fail(session, "out of memory");
        }
        if (!ok) {
            bytes_free(&bytes);
            return false;
        }
    }
    bytes_free(&bytes);
    sum->is_partial |= message.is_partial;
    sum->requests += message.requests;
    sum->bytes += message.bytes;
    sum->thread_ns += message.thread_ns;
    sum->thread_blocks += message.thread_blocks;
    sum->start_ns = message.start_ns < sum->start_ns ? message.start_ns : sum->start_ns;
    sum->end_ns = message.end_ns > sum->end_ns ? message.end_ns : sum->end_ns;
    return true;
}

/* Rank 0: collects from all, writes the row and tells whether there is another one. */
static bool conclude(struct session *session, size_t index, struct lane *lanes, struct samples samples[3],
                     bool *go_on) {
    const struct bench_plan *plan = session->plan;
    struct case_message sum;
    struct bench_result result;
    double own_bandwidth;
    uint64_t more;

    session_case_message(session, lanes, &sum);
    session_result(&plan->cases[index], &sum, &result);
    own_bandwidth = result.bandwidth;
    for (unsigned i = 1; runtime_is_own(session->runtime) && i < session->runtime->size; i++) {
        if (!take_message(session, i, &sum, samples)) {
            return false;
        }
    }
    session_result(&plan->cases[index], &sum, &result);
    result.bandwidth = own_bandwidth;
    samples_summarize(&samples[0], &result.prep);
    samples_summarize(&samples[1], &result.post);
    samples_summarize(&samples[2], &result.tx);
    *go_on = !stop_requested();
    /* The other end of an ASIO run compares what was written, and says so itself. */
    result.is_checked = plan->config->check_consistency && !result.is_partial && *go_on &&
                        (runtime_is_own(session->runtime) || plan->cases[index].op == NIXL_READ);
    progress_hide();
    if (result.requests != 0 && !output_row(session->output, &result)) {
        return session_fail(session, "out of memory");
    }
    more = *go_on;
    for (unsigned i = 1; runtime_is_own(session->runtime) && i < session->runtime->size; i++) {
        if (!runtime_send(session->runtime, i, &more, sizeof more)) {
            return session_runtime_failed(session);
        }
    }
    return true;
}

/* Another initiator: sends its figures to rank 0 and hears whether to go on. */
static bool report(struct session *session, struct lane *lanes, struct samples samples[3], bool *go_on) {
    struct runtime *runtime = session->runtime;
    struct case_message message;
    uint64_t more;

    session_case_message(session, lanes, &message);
    if (!runtime_send(runtime, 0, &message, sizeof message)) {
        return session_runtime_failed(session);
    }
    for (int k = 0; k < 3; k++) {
        if (!runtime_send(runtime, 0, samples[k].ns, samples[k].count * sizeof(uint64_t))) {
            return session_runtime_failed(session);
        }
    }
    if (!exchange_recv_struct(session, 0, &more, sizeof more)) {
        return false;
    }
    *go_on = more != 0;
    return true;
}

bool initiator_case(struct session *session, size_t index, bool *go_on) {
    const struct bench_case *row = &session->plan->cases[index];
    struct samples samples[3] = {0};
    size_t partners = 0;
    struct lane *lanes;
    bool ok;

    for (unsigned i = 0; i < session->runtime->size; i++) {
        partners += session->is_partner[i];
    }
    lanes = session_lanes(session, row, partners);
    ok = lanes != NULL && fill_parts(session, row, lanes) && run_phases(session, index, lanes) &&
         session_merge_samples(session, lanes, samples);
    if (ok && session->plan->config->check_consistency && row->op == NIXL_READ && !lanes[0].is_cut_short) {
        ok = memory_check(&session->memory, row, session_seed(session, index, 1), session->error,
                          sizeof session->error);
    }
    if (ok) {
        ok = session->runtime->rank == 0 ? conclude(session, index, lanes, samples, go_on)
                                         : report(session, lanes, samples, go_on);
    }
    for (int k = 0; k < 3; k++) {
        samples_free(&samples[k]);
    }
    session_lanes_free(session, lanes);
    return ok;
}
