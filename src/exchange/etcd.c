/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The etcd carrier: publishes this agent's blobs under a lease, gets those of others, and watches them. One thread does
 * it all: short calls one after the other, one stream for all watches. While etcd cannot be reached nothing is lost: jobs
 * wait for the next try or for their deadline.
 *
 * Keys are the reference's: <namespace>/<agent>/<label>, and an empty announce key <namespace>/<agent>/ whose deletion tells
 * that the agent's metadata is void. With the default namespace there is a double slash.
 */
#include "exchange/etcd.h"

#include "base/config.h"
#include "exchange/etcd_kv.h"
#include "exchange/etcd_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_NAMESPACE "/nixl/agents/"
#define DEFAULT_LABEL "metadata"
#define DEFAULT_LEASE_S 30
#define BACKOFF_FIRST_MS 50
#define BACKOFF_MOST_MS 2000

/* What is published, to be published again when the lease is lost. */
struct published {
    struct published *next;
    char *label;
    struct bytes blob;
    bool is_there; /* under the present lease */
};

struct etcd {
    struct etcd_watches watches;
    struct etcd_http http;
    struct exchange *exchange;
    struct thread thread;
    CURLM *multi;
    struct lock lock; /* guards inbox */
    struct job *inbox, **inbox_end;
    bool is_stopping;
    struct job *pending, **pending_end; /* sends and invalidations in their order */
    struct published *published;
    char *announce;
    bool is_announced;
    uint64_t lease_s;
    int64_t lease; /* 0: none */
    uint64_t keepalive_ns;
    bool is_down;
    uint64_t retry_ns, backoff_ms;
    char down_words[WORDS_SIZE];
};

/* ---- the lease and what hangs on it ---- */

static nixl_status_t lease_ensure(struct etcd *etcd) {
    nixl_status_t status;

    if (etcd->lease != 0 || etcd->lease_s == 0) {
        return NIXL_SUCCESS;
    }
    status = etcd_lease_grant(&etcd->http, etcd->lease_s, &etcd->lease);
    if (status == NIXL_SUCCESS) {
        etcd->keepalive_ns = clock_now_ns() + etcd->lease_s * NS_PER_S / 3;
    }
    return status;
}

static void lease_lost(struct etcd *etcd) {
    etcd->lease = 0;
    etcd->is_announced = false;
    for (struct published *one = etcd->published; one != NULL; one = one->next) {
        one->is_there = false;
    }
}

static nixl_status_t put(struct etcd *etcd, const char *key, const struct bytes *value) {
    int64_t code;
    nixl_status_t status = etcd_put(&etcd->http, key, value->data, value->len, etcd->lease, &code);

    if (status != NIXL_SUCCESS && code == ETCD_CODE_NOT_FOUND && etcd->lease != 0) {
        lease_lost(etcd);
        status = NIXL_ERR_REMOTE_DISCONNECT; /* try again with a new one */
    }
    return status;
}

/* ---- publishing ---- */

static nixl_status_t publish(struct etcd *etcd, struct published *one) {
    const struct bytes nothing = {0};
    char *key = etcd_key(etcd->watches.name_space, nixl_agent_name(etcd->exchange->agent), one->label);
    nixl_status_t status = key != NULL ? lease_ensure(etcd) : fail_memory("a key", 0);

    if (status == NIXL_SUCCESS && !etcd->is_announced) {
        status = put(etcd, etcd->announce, &nothing);
        etcd->is_announced = status == NIXL_SUCCESS;
    }
    if (status == NIXL_SUCCESS) {
        status = put(etcd, key, &one->blob);
        one->is_there = status == NIXL_SUCCESS;
    }
    free(key);
    return status;
}

static struct published *published_set(struct etcd *etcd, struct job *job) {
    const char *label = job->label != NULL ? job->label : DEFAULT_LABEL;
    struct published *one = etcd->published;

    while (one != NULL && strcmp(one->label, label) != 0) {
        one = one->next;
    }
    if (one == NULL) {
        one = calloc(1, sizeof *one);
        if (one == NULL || (one->label = strdup(label)) == NULL) {
            free(one);
            return NULL;
        }
        one->next = etcd->published;
        etcd->published = one;
    }
    bytes_free(&one->blob);
    one->blob = job->payload;
    job->payload = (struct bytes){0};
    one->is_there = false;
    return one;
}

static void published_clear(struct etcd *etcd) {
    while (etcd->published != NULL) {
        struct published *one = etcd->published;

        etcd->published = one->next;
        free(one->label);
        bytes_free(&one->blob);
        free(one);
    }
    etcd->is_announced = false;
}

static nixl_status_t withdraw(struct etcd *etcd) {
    nixl_status_t status = etcd_delete_all(&etcd->http, etcd->announce);

    if (status == NIXL_SUCCESS) {
        published_clear(etcd);
    }
    return status;
}

/* ---- jobs ---- */

static nixl_status_t job_do(struct etcd *etcd, struct job *job) {
    struct published *one;

    if (job->kind == JOB_INVALIDATE) {
        return withdraw(etcd);
    }
    if (job->payload.len != 0) {
        one = published_set(etcd, job);
        if (one == NULL) {
            return fail_memory("what is published", 0);
        }
    }
    for (one = etcd->published; one != NULL; one = one->next) {
        nixl_status_t status = one->is_there ? NIXL_SUCCESS : publish(etcd, one);

        if (status != NIXL_SUCCESS) {
            return status;
        }
    }
    return NIXL_SUCCESS;
}

static void inbox_take(struct etcd *etcd) {
    struct job *job;

    lock_take(&etcd->lock);
    job = etcd->inbox;
    etcd->inbox = NULL;
    etcd->inbox_end = &etcd->inbox;
    lock_drop(&etcd->lock);
    while (job != NULL) {
        struct job *next = job->next;

        job->next = NULL;
        if (job->kind == JOB_FETCH) {
            etcd_watch_fetch(&etcd->watches, job, job->label != NULL ? job->label : DEFAULT_LABEL);
        } else {
            /* A plain send stays until etcd is there. */
            job->deadline_ns = job->is_waited ? job->deadline_ns : CLOCK_NEVER;
            *etcd->pending_end = job;
            etcd->pending_end = &job->next;
        }
        job = next;
    }
}

static struct job *pending_take(struct etcd *etcd, struct job **at) {
    struct job *job = *at;

    *at = job->next;
    if (*at == NULL) {
        etcd->pending_end = at;
    }
    job->next = NULL;
    return job;
}

/* Ends what is too late. Returns the next deadline. */
static uint64_t pending_late(struct etcd *etcd, uint64_t now_ns) {
    uint64_t next = CLOCK_NEVER;
    struct job **at = &etcd->pending;

    while (*at != NULL) {
        if ((*at)->deadline_ns > now_ns) {
            next = (*at)->deadline_ns < next ? (*at)->deadline_ns : next;
            at = &(*at)->next;
            continue;
        }
        (void)fail(NIXL_ERR_CANCELED, "no result in the time given%s%s", etcd->is_down ? ": " : "",
                   etcd->is_down ? etcd->down_words : "");
        job_finish(etcd->exchange, pending_take(etcd, at), NIXL_ERR_CANCELED);
    }
    return next;
}

/* ---- the work that is due ---- */

static nixl_status_t keepalive(struct etcd *etcd, uint64_t now_ns) {
    nixl_status_t status;
    int64_t ttl_s;

    if (etcd->lease == 0 || now_ns < etcd->keepalive_ns) {
        return NIXL_SUCCESS;
    }
    status = etcd_lease_keep(&etcd->http, etcd->lease, &ttl_s);
    if (status != NIXL_SUCCESS) {
        return status;
    }
    etcd->keepalive_ns = now_ns + etcd->lease_s * NS_PER_S / 3;
    if (ttl_s <= 0) {
        log_info("agent %s: its lease in etcd has run out; its metadata is published again",
                 nixl_agent_name(etcd->exchange->agent));
        lease_lost(etcd);
    }
    return NIXL_SUCCESS;
}

static nixl_status_t publish_missing(struct etcd *etcd) {
    nixl_status_t status = NIXL_SUCCESS;

    for (struct published *one = etcd->published; one != NULL && status == NIXL_SUCCESS; one = one->next) {
        status = one->is_there ? NIXL_SUCCESS : publish(etcd, one);
    }
    /* etcd's own refusal is told to the job that brought it, and is no reason to stop. */
    return status == NIXL_ERR_REMOTE_DISCONNECT ? status : NIXL_SUCCESS;
}

/* Everything that is due; REMOTE_DISCONNECT when etcd cannot be reached. */
static nixl_status_t work(struct etcd *etcd, uint64_t now_ns) {
    nixl_status_t status = keepalive(etcd, now_ns);

    while (status != NIXL_ERR_REMOTE_DISCONNECT && etcd->pending != NULL) {
        status = job_do(etcd, etcd->pending);
        if (status != NIXL_ERR_REMOTE_DISCONNECT) {
            job_finish(etcd->exchange, pending_take(etcd, &etcd->pending), status);
        }
    }
    if (status != NIXL_ERR_REMOTE_DISCONNECT) {
        status = publish_missing(etcd);
    }
    if (status != NIXL_ERR_REMOTE_DISCONNECT) {
        status = etcd_watch_get(&etcd->watches);
    }
    return status;
}

static void went_down(struct etcd *etcd) {
    snprintf(etcd->down_words, sizeof etcd->down_words, "%s", error_text());
    if (!etcd->is_down) {
        log_warn("agent %s: metadata waits, etcd cannot be reached: %s",
                 nixl_agent_name(etcd->exchange->agent), etcd->down_words);
    }
    etcd->is_down = true;
    etcd->backoff_ms = etcd->backoff_ms == 0                    ? BACKOFF_FIRST_MS
                       : etcd->backoff_ms * 2 < BACKOFF_MOST_MS ? etcd->backoff_ms * 2
                                                                : BACKOFF_MOST_MS;
    etcd->retry_ns = clock_deadline_ms(clock_now_ns(), etcd->backoff_ms);
}

static void came_up(struct etcd *etcd) {
    if (etcd->is_down) {
        log_info("agent %s: etcd is reached again", nixl_agent_name(etcd->exchange->agent));
    }
    etcd->is_down = false;
    etcd->backoff_ms = 0;
}

/* Does what is due and returns when to look again. */
static uint64_t step(struct etcd *etcd) {
    uint64_t now = clock_now_ns();
    uint64_t next;
    uint64_t late;

    if (!etcd->is_down || now >= etcd->retry_ns) {
        bool has_reached = etcd->pending != NULL || etcd->is_down;
        nixl_status_t status = work(etcd, now);

        if (status == NIXL_ERR_REMOTE_DISCONNECT) {
            went_down(etcd);
        } else if (has_reached) {
            came_up(etcd);
        }
    }
    now = clock_now_ns();
    next = pending_late(etcd, now);
    late = etcd_watch_late(&etcd->watches, now, etcd->is_down ? etcd->down_words : NULL);
    next = late < next ? late : next;
    if (etcd->is_down) {
        next = etcd->retry_ns < next ? etcd->retry_ns : next;
    } else if (etcd->lease != 0) {
        next = etcd->keepalive_ns < next ? etcd->keepalive_ns : next;
    }
    late = etcd_watch_stream(&etcd->watches, etcd->is_down, now);
    return late < next ? late : next;
}

static int poll_ms(uint64_t next_ns) {
    uint64_t now = clock_now_ns();
    uint64_t ms = next_ns <= now ? 0 : (next_ns - now) / NS_PER_MS + 1;

    return ms < 60000 ? (int)ms : 60000;
}

static void jobs_cancel(struct etcd *etcd) {
    while (etcd->pending != NULL) {
        (void)fail(NIXL_ERR_CANCELED, "the agent ends%s%s", etcd->is_down ? ": " : "",
                   etcd->is_down ? etcd->down_words : "");
        job_finish(etcd->exchange, pending_take(etcd, &etcd->pending), NIXL_ERR_CANCELED);
    }
}

static void body(void *arg) {
    struct etcd *etcd = arg;

    while (!__atomic_load_n(&etcd->is_stopping, __ATOMIC_ACQUIRE)) {
        uint64_t next;

        inbox_take(etcd);
        next = step(etcd);
        etcd->http.libs->curl.multi_poll(etcd->multi, NULL, 0, poll_ms(next), NULL);
        etcd_watch_read(&etcd->watches);
    }
    inbox_take(etcd);
    if (!etcd->is_down) {
        while (etcd->pending != NULL) {
            nixl_status_t status = job_do(etcd, etcd->pending);

            if (status == NIXL_ERR_REMOTE_DISCONNECT) {
                break;
            }
            job_finish(etcd->exchange, pending_take(etcd, &etcd->pending), status);
        }
        /* Its keys go with it, and those who watch them know. */
        if (etcd->lease != 0) {
            (void)etcd_lease_revoke(&etcd->http, etcd->lease);
        }
    }
    jobs_cancel(etcd);
    etcd_watches_close(&etcd->watches);
}

/* ---- beginning and end ---- */

static void etcd_submit(void *store, struct job *job) {
    struct etcd *etcd = store;

    lock_take(&etcd->lock);
    *etcd->inbox_end = job;
    etcd->inbox_end = &job->next;
    lock_drop(&etcd->lock);
    etcd->http.libs->curl.multi_wakeup(etcd->multi);
}

static void etcd_free(struct etcd *etcd) {
    if (etcd->multi != NULL) {
        etcd->http.libs->curl.multi_cleanup(etcd->multi);
    }
    etcd_http_close(&etcd->http);
    published_clear(etcd);
    free(etcd->watches.name_space);
    free(etcd->announce);
    free(etcd);
}

static void etcd_close(void *store) {
    struct etcd *etcd = store;

    __atomic_store_n(&etcd->is_stopping, true, __ATOMIC_RELEASE);
    etcd_http_stop(&etcd->http);
    etcd->http.libs->curl.multi_wakeup(etcd->multi);
    thread_join(&etcd->thread);
    etcd_free(etcd);
}

const struct store_ops etcd_ops = {.submit = etcd_submit, .close = etcd_close};

static nixl_status_t settings_read(struct etcd *etcd) {
    char *endpoints = NULL;
    nixl_status_t status = config_get_string("NIXL_ETCD_ENDPOINTS", "", &endpoints);

    if (status == NIXL_SUCCESS) {
        status = config_get_string("NIXL_ETCD_NAMESPACE", DEFAULT_NAMESPACE, &etcd->watches.name_space);
    }
    if (status == NIXL_SUCCESS) {
        status = config_get_uint_range("NIXL_ETCD_LEASE_S", DEFAULT_LEASE_S, 0, 86400, &etcd->lease_s);
    }
    if (status == NIXL_SUCCESS) {
        status = etcd_http_open(&etcd->http, endpoints);
    }
    free(endpoints);
    return status;
}

nixl_status_t etcd_open(struct exchange *exchange, void **store) {
    struct etcd *etcd = calloc(1, sizeof *etcd);
    nixl_status_t status;
    int err;

    if (etcd == NULL) {
        return fail_memory("the etcd carrier", sizeof *etcd);
    }
    etcd->exchange = exchange;
    etcd->inbox_end = &etcd->inbox;
    etcd->pending_end = &etcd->pending;
    status = settings_read(etcd);
    if (status == NIXL_SUCCESS) {
        etcd->multi = etcd->http.libs->curl.multi_init();
        etcd->announce = etcd_key(etcd->watches.name_space, nixl_agent_name(exchange->agent), "");
        etcd_watches_open(&etcd->watches, exchange, &etcd->http, etcd->multi);
        status =
            etcd->multi != NULL && etcd->announce != NULL ? NIXL_SUCCESS : fail_memory("the etcd carrier", 0);
    }
    if (status == NIXL_SUCCESS) {
        err = thread_start(&etcd->thread, "nixl-etcd", body, etcd);
        status = err == 0 ? NIXL_SUCCESS
                          : fail_errno(NIXL_ERR_BACKEND, err, "the etcd carrier's thread cannot be started");
    }
    if (status != NIXL_SUCCESS) {
        etcd_free(etcd);
        return status;
    }
    *store = etcd;
    return NIXL_SUCCESS;
}
