/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: what a call hands to a carrier's thread, how it ends, and how a caller waits for that. */
#include "exchange/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool text_keep(const char *text, char **copy) {
    *copy = text != NULL && text[0] != '\0' ? strdup(text) : NULL;
    return *copy != NULL || text == NULL || text[0] == '\0';
}

struct job *job_new(enum job_kind kind, const char *peer, const struct nixl_options *options,
                    uint64_t default_ms) {
    struct job *job = calloc(1, sizeof *job);
    uint64_t now = clock_now_ns();

    if (job == NULL) {
        return NULL;
    }
    job->refs = 1;
    job->kind = kind;
    job->status = NIXL_IN_PROG;
    job->is_waited = options->wait_ms != 0;
    job->is_tried_again = job->is_waited || kind == JOB_FETCH;
    job->started_ns = now;
    job->deadline_ns = clock_deadline_ms(now, job->is_waited ? options->wait_ms : default_ms);
    if (!text_keep(peer, &job->peer) || !text_keep(options->label, &job->label)) {
        job_unref(job);
        return NULL;
    }
    return job;
}

void job_ref(struct job *job) {
    __atomic_fetch_add(&job->refs, 1, __ATOMIC_RELAXED);
}

void job_unref(struct job *job) {
    if (__atomic_sub_fetch(&job->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        bytes_free(&job->payload);
        free(job->peer);
        free(job->label);
        free(job);
    }
}

static const char *kind_name(enum job_kind kind) {
    return kind == JOB_SEND ? "send" : kind == JOB_FETCH ? "fetch" : "invalidation";
}

void job_finish(struct exchange *exchange, struct job *job, nixl_status_t status) {
    if (status < 0) {
        snprintf(job->words, sizeof job->words, "%s", error_text());
        /* Who waits is told; else only the log can tell. */
        log_at(job->is_waited ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN, "agent %s: %s of metadata%s%s failed: %s",
               nixl_agent_name(exchange->agent), kind_name(job->kind), job->peer != NULL ? " of " : "",
               job->peer != NULL ? job->peer : "", job->words);
    }
    if (job->kind == JOB_FETCH) {
        exchange_failed(exchange, job->peer, status < 0 ? job->words : NULL);
    }
    job->status = status;
    __atomic_store_n(&job->is_done, 1, __ATOMIC_RELEASE);
    futex_wake(&job->is_done, 1);
    job_unref(job);
}

nixl_status_t job_wait(struct job *job, uint64_t wait_ms) {
    /* The carrier ends it at its deadline; a little more time lets its words arrive. */
    uint64_t until =
        wait_ms == NIXL_NO_TIMEOUT ? CLOCK_NEVER : clock_deadline_ms(clock_now_ns(), wait_ms + 250);

    while (__atomic_load_n(&job->is_done, __ATOMIC_ACQUIRE) == 0) {
        if (futex_wait(&job->is_done, 0, until) == ETIMEDOUT &&
            __atomic_load_n(&job->is_done, __ATOMIC_ACQUIRE) == 0) {
            return fail(NIXL_ERR_CANCELED, "no result within %" PRIu64 " ms", wait_ms);
        }
    }
    return job->status < 0 ? fail(job->status, "%s", job->words) : job->status;
}

bool job_retry_at(struct job *job, uint64_t now_ns, uint64_t first_ms, uint64_t most_ms) {
    snprintf(job->words, sizeof job->words, "%s", error_text());
    job->backoff_ms = job->backoff_ms == 0            ? first_ms
                      : job->backoff_ms * 2 < most_ms ? job->backoff_ms * 2
                                                      : most_ms;
    job->retry_ns = clock_deadline_ms(now_ns, job->backoff_ms);
    return job->retry_ns < job->deadline_ns;
}
