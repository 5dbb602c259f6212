/* SPDX-License-Identifier: Apache-2.0 */
/* A target's part in a case: says where its blocks are, makes progress while others transfer, compares. */
#include "exchange.h"
#include "stop.h"

#include "base/clock.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTIFY_PATIENCE_MS 10000

static bool send_lists(struct session *session, const struct bench_case *row) {
    for (unsigned other = 0; other < session->runtime->size; other++) {
        for (unsigned t = 0; session->is_partner[other] && t < session->plan->threads; t++) {
            size_t count;
            struct nixl_desc *list = memory_list(&session->memory, row, t, other, &count);
            bool ok;

            if (list == NULL) {
                return session_fail(session, "out of memory");
            }
            ok = exchange_send_list(session, other, list, count);
            free(list);
            if (!ok) {
                return false;
            }
        }
    }
    return true;
}

/* Waits until `expected` notifications have come. `check`: whether to look for the initiator's end, and to give up
 * when nothing comes any more. */
static bool await_notifications(struct session *session, uint64_t expected, bool is_over) {
    uint64_t last_ns = clock_coarse_ns();
    uint64_t seen = session->notified;
    unsigned round = 0;

    while (session->notified < expected) {
        session_idle(session);
        if (session->notified != seen) {
            seen = session->notified;
            last_ns = clock_coarse_ns();
        }
        if (++round % 256 != 0) {
            continue;
        }
        if (is_over && clock_coarse_ns() - last_ns > NOTIFY_PATIENCE_MS * NS_PER_MS) {
            return session_fail(session, "only %" PRIu64 " of %" PRIu64 " notifications have arrived", seen,
                                expected);
        }
        if (!is_over && runtime_has_message(session->runtime, 0) && session->runtime->channels[0].is_closed &&
            session->runtime->channels[0].first == NULL) {
            return session_fail(session, "the initiator ended before its time");
        }
        if (stop_requested()) {
            return session_fail(session, "interrupted");
        }
        if (session->runtime->may_sleep) {
            sched_yield();
        }
    }
    session->notified -= expected;
    return true;
}

/* One phase: the initiators transfer, this process makes progress. `requests`: how many a foreign initiator makes. */
static bool serve(struct session *session, uint64_t requests) {
    struct phase_message message;
    uint64_t expected = 0;
    bool is_exact = true;

    if (!runtime_is_own(session->runtime)) {
        return await_notifications(session, requests, false);
    }
    for (unsigned other = 0; other < session->runtime->size; other++) {
        if (session->is_partner[other]) {
            if (!exchange_recv_struct(session, other, &message, sizeof message)) {
                return false;
            }
            expected += message.notifications;
            is_exact = is_exact && message.is_exact;
        }
    }
    if (is_exact) {
        return await_notifications(session, expected, true);
    }
    session->is_interrupted = true;
    session->notified = 0;
    return true;
}

static bool sync_all(struct session *session) {
    return runtime_barrier(session->runtime, "sync") || session_runtime_failed(session);
}

static bool run_phases(struct session *session, size_t index) {
    const struct bench_case *row = &session->plan->cases[index];
    bool is_read = row->op == NIXL_READ;
    uint64_t threads = session->plan->threads;

    memory_fill(&session->memory, row, is_read ? session_seed(session, index, 0) : 0);
    if (!sync_all(session) || !serve(session, row->warmup * threads) || !sync_all(session)) {
        return false;
    }
    if (session_seed(session, index, 1) != 0) {
        if (is_read) {
            memory_fill(&session->memory, row, session_seed(session, index, 1));
        }
        if (!sync_all(session)) {
            return false;
        }
    }
    return serve(session, row->iterations * threads) && sync_all(session);
}

bool target_case(struct session *session, size_t index, bool *go_on) {
    const struct bench_case *row = &session->plan->cases[index];
    struct case_message message = {0};
    uint64_t more;

    if (!send_lists(session, row) || !run_phases(session, index)) {
        return false;
    }
    if (session->plan->config->check_consistency && row->op == NIXL_WRITE && !session->is_interrupted &&
        !memory_check(&session->memory, row, session_seed(session, index, 1), message.error,
                      sizeof message.error)) {
        if (!runtime_is_own(session->runtime)) {
            return session_fail(session, "%s", message.error);
        }
    }
    if (!runtime_is_own(session->runtime)) {
        return true;
    }
    if (!runtime_send(session->runtime, 0, &message, sizeof message)) {
        return session_runtime_failed(session);
    }
    if (!exchange_recv_struct(session, 0, &more, sizeof more)) {
        return false;
    }
    *go_on = more != 0;
    return true;
}
