/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCPStore carrier: one thread that sets, gets and deletes keys of this agent and others, with the reference's names
 * for them. TCPStore tells nobody of changes, so a key that is not there yet is looked for again, first soon and then
 * less often, and a withdrawal reaches only those who fetch later.
 */
#include "exchange/tcpstore.h"

#include "base/config.h"
#include "exchange/endpoint.h"
#include "exchange/tcpstore_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_LABEL "metadata"
#define TIMEOUT_MS 30000
#define OP_TIMEOUT_MS 5000
#define LOOK_FIRST_MS 5
#define LOOK_MOST_MS 50
#define BACKOFF_FIRST_MS 50
#define BACKOFF_MOST_MS 1000
#define STOP_MS 1000

struct label {
    struct label *next;
    char *name;
};

struct tcpstore {
    struct exchange *exchange;
    struct tcpstore_client client;
    struct thread thread;
    struct lock lock; /* guards inbox */
    struct job *inbox, **inbox_end;
    uint32_t bell; /* a futex: grows with each job and at the end */
    bool is_stopping;
    struct job *pending, **pending_end;
    struct label *labels; /* what this agent has published */
    uint64_t timeout_ms;
    bool is_down;
    uint64_t retry_ns, backoff_ms;
    char down_words[WORDS_SIZE];
};

/* "/nixl/agents/<label>/<agent>/NULL_AGENT"; the first "/" is what PyTorch puts before every key. */
static char *key_of(const char *agent, const char *label) {
    char *key = NULL;

    return asprintf(&key, "/nixl/agents/%s/%s/NULL_AGENT", label, agent) >= 0 ? key : NULL;
}

static const char *label_of(const struct job *job) {
    return job->label != NULL ? job->label : DEFAULT_LABEL;
}

/* ---- jobs ---- */

static bool label_keep(struct tcpstore *store, const char *name) {
    struct label *label = store->labels;

    while (label != NULL && strcmp(label->name, name) != 0) {
        label = label->next;
    }
    if (label != NULL) {
        return true;
    }
    label = calloc(1, sizeof *label);
    if (label == NULL || (label->name = strdup(name)) == NULL) {
        free(label);
        return false;
    }
    label->next = store->labels;
    store->labels = label;
    return true;
}

static nixl_status_t publish(struct tcpstore *store, struct job *job) {
    char *key = key_of(nixl_agent_name(store->exchange->agent), label_of(job));
    nixl_status_t status =
        key != NULL && label_keep(store, label_of(job)) ? NIXL_SUCCESS : fail_memory("a key", 0);

    if (status == NIXL_SUCCESS) {
        status = tcpstore_set(&store->client, key, &job->payload);
    }
    free(key);
    return status;
}

static nixl_status_t withdraw(struct tcpstore *store) {
    while (store->labels != NULL) {
        struct label *label = store->labels;
        char *key = key_of(nixl_agent_name(store->exchange->agent), label->name);
        nixl_status_t status = key != NULL ? tcpstore_delete(&store->client, key) : fail_memory("a key", 0);

        free(key);
        if (status != NIXL_SUCCESS) {
            return status;
        }
        store->labels = label->next;
        free(label->name);
        free(label);
    }
    return NIXL_SUCCESS;
}

/* IN_PROG: nothing is there yet. */
static nixl_status_t look(struct tcpstore *store, struct job *job) {
    struct bytes value = {0};
    bool is_there = false;
    char *key = key_of(job->peer, label_of(job));
    nixl_status_t status =
        key != NULL ? tcpstore_check(&store->client, key, &is_there) : fail_memory("a key", 0);

    if (status == NIXL_SUCCESS && is_there) {
        status = tcpstore_get(&store->client, key, &value);
    }
    free(key);
    if (status == NIXL_SUCCESS && value.len != 0) {
        status = exchange_load(store->exchange, job->peer, value.data, value.len);
    } else if (status == NIXL_SUCCESS) {
        (void)fail(NIXL_ERR_NOT_FOUND, "agent %s has published nothing as \"%s\" in the TCPStore at %s:%u",
                   job->peer, label_of(job), store->client.host, store->client.port);
        (void)job_retry_at(job, clock_now_ns(), LOOK_FIRST_MS, LOOK_MOST_MS);
        status = NIXL_IN_PROG;
    }
    bytes_free(&value);
    return status;
}

static nixl_status_t job_do(struct tcpstore *store, struct job *job) {
    switch (job->kind) {
    case JOB_SEND:
        return publish(store, job);
    case JOB_INVALIDATE:
        return withdraw(store);
    default:
        return look(store, job);
    }
}

static void inbox_take(struct tcpstore *store) {
    struct job *job;

    lock_take(&store->lock);
    job = store->inbox;
    store->inbox = NULL;
    store->inbox_end = &store->inbox;
    lock_drop(&store->lock);
    while (job != NULL) {
        struct job *next = job->next;

        job->next = NULL;
        if (!job->is_waited) {
            job->deadline_ns = clock_deadline_ms(job->started_ns, store->timeout_ms);
        }
        *store->pending_end = job;
        store->pending_end = &job->next;
        job = next;
    }
}

static struct job *pending_take(struct tcpstore *store, struct job **at) {
    struct job *job = *at;

    *at = job->next;
    if (*at == NULL) {
        store->pending_end = at;
    }
    job->next = NULL;
    return job;
}

static void job_late(struct tcpstore *store, struct job *job) {
    nixl_status_t status = job->is_waited || job->kind != JOB_FETCH ? NIXL_ERR_CANCELED : NIXL_ERR_NOT_FOUND;

    (void)fail(status, "no result in the time given: %s", store->is_down ? store->down_words : job->words);
    job_finish(store->exchange, job, status);
}

static void went_down(struct tcpstore *store) {
    snprintf(store->down_words, sizeof store->down_words, "%s", error_text());
    if (!store->is_down) {
        log_warn("agent %s: metadata waits: %s", nixl_agent_name(store->exchange->agent), store->down_words);
    }
    store->is_down = true;
    store->backoff_ms = store->backoff_ms == 0                    ? BACKOFF_FIRST_MS
                        : store->backoff_ms * 2 < BACKOFF_MOST_MS ? store->backoff_ms * 2
                                                                  : BACKOFF_MOST_MS;
    store->retry_ns = clock_deadline_ms(clock_now_ns(), store->backoff_ms);
}

/* Does what is due, each job at most once. Returns when to look again. */
static uint64_t step(struct tcpstore *store) {
    uint64_t next = CLOCK_NEVER;
    struct job **at = &store->pending;

    while (*at != NULL) {
        struct job *job = *at;
        uint64_t now = clock_now_ns();
        nixl_status_t status = NIXL_IN_PROG;

        if (now >= job->retry_ns && (!store->is_down || now >= store->retry_ns)) {
            status = job_do(store, job);
            if (status == NIXL_ERR_REMOTE_DISCONNECT) {
                went_down(store);
            } else {
                store->is_down = false;
                store->backoff_ms = 0;
            }
        }
        if (status == NIXL_IN_PROG || status == NIXL_ERR_REMOTE_DISCONNECT) {
            uint64_t look_ns =
                store->is_down && store->retry_ns > job->retry_ns ? store->retry_ns : job->retry_ns;

            if (clock_now_ns() >= job->deadline_ns) {
                job_late(store, pending_take(store, at));
                continue;
            }
            look_ns = look_ns < job->deadline_ns ? look_ns : job->deadline_ns;
            next = look_ns < next ? look_ns : next;
            at = &job->next;
        } else {
            job_finish(store->exchange, pending_take(store, at), status);
        }
    }
    return next;
}

static void body(void *arg) {
    struct tcpstore *store = arg;

    while (!__atomic_load_n(&store->is_stopping, __ATOMIC_ACQUIRE)) {
        uint32_t bell = __atomic_load_n(&store->bell, __ATOMIC_ACQUIRE);
        uint64_t next;

        inbox_take(store);
        next = step(store);
        if (next > clock_now_ns() && !__atomic_load_n(&store->is_stopping, __ATOMIC_ACQUIRE)) {
            (void)futex_wait(&store->bell, bell, next);
        }
    }
    inbox_take(store);
    if (!store->is_down) {
        (void)step(store);
        (void)withdraw(store);
    }
    while (store->pending != NULL) {
        (void)fail(NIXL_ERR_CANCELED, "the agent ends%s%s", store->is_down ? ": " : "",
                   store->is_down ? store->down_words : "");
        job_finish(store->exchange, pending_take(store, &store->pending), NIXL_ERR_CANCELED);
    }
}

/* ---- beginning and end ---- */

static void ring(struct tcpstore *store) {
    __atomic_fetch_add(&store->bell, 1, __ATOMIC_RELEASE);
    futex_wake(&store->bell, 1);
}

static void on_submit(void *carrier, struct job *job) {
    struct tcpstore *store = carrier;

    lock_take(&store->lock);
    *store->inbox_end = job;
    store->inbox_end = &job->next;
    lock_drop(&store->lock);
    ring(store);
}

static void store_free(struct tcpstore *store) {
    tcpstore_disconnect(&store->client);
    while (store->labels != NULL) {
        struct label *label = store->labels;

        store->labels = label->next;
        free(label->name);
        free(label);
    }
    free(store->client.host);
    free(store);
}

static void on_close(void *carrier) {
    struct tcpstore *store = carrier;

    __atomic_store_n(&store->client.stop_ns, clock_deadline_ms(clock_now_ns(), STOP_MS), __ATOMIC_RELEASE);
    __atomic_store_n(&store->is_stopping, true, __ATOMIC_RELEASE);
    ring(store);
    thread_join(&store->thread);
    store_free(store);
}

const struct store_ops tcpstore_ops = {.submit = on_submit, .close = on_close};

/* "host:port", "[::1]:29500". */
static nixl_status_t endpoint_read(struct tcpstore *store) {
    char *endpoint = NULL;
    nixl_status_t status = config_get_string("NIXL_TCPSTORE_ENDPOINT", "", &endpoint);
    struct text host;

    if (status == NIXL_SUCCESS) {
        status = endpoint_split("NIXL_TCPSTORE_ENDPOINT", text_of(endpoint), &host, &store->client.port);
    }
    if (status == NIXL_SUCCESS) {
        store->client.host = strndup(host.at, host.len);
        status = store->client.host != NULL ? NIXL_SUCCESS : fail_memory("the address of the TCPStore", 0);
    }
    free(endpoint);
    return status;
}

nixl_status_t tcpstore_open(struct exchange *exchange, void **carrier) {
    struct tcpstore *store = calloc(1, sizeof *store);
    nixl_status_t status;
    int err;

    if (store == NULL) {
        return fail_memory("the TCPStore carrier", sizeof *store);
    }
    store->exchange = exchange;
    store->client.fd = -1;
    store->inbox_end = &store->inbox;
    store->pending_end = &store->pending;
    status = endpoint_read(store);
    if (status == NIXL_SUCCESS) {
        status =
            config_get_uint_range("NIXL_TCPSTORE_TIMEOUT_MS", TIMEOUT_MS, 1, 86400000, &store->timeout_ms);
    }
    if (status == NIXL_SUCCESS) {
        status = config_get_uint_range("NIXL_TCPSTORE_OP_TIMEOUT_MS", OP_TIMEOUT_MS, 1, 86400000,
                                       &store->client.op_timeout_ms);
    }
    if (status == NIXL_SUCCESS) {
        err = thread_start(&store->thread, "nixl-tcpstore", body, store);
        status = err == 0
                     ? NIXL_SUCCESS
                     : fail_errno(NIXL_ERR_BACKEND, err, "the TCPStore carrier's thread cannot be started");
    }
    if (status != NIXL_SUCCESS) {
        store_free(store);
        return status;
    }
    *carrier = store;
    return NIXL_SUCCESS;
}
