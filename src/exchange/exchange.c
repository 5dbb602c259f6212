/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One agent's exchange: which carrier a call goes to, and what is remembered of failures. Nothing is opened, and no
 * thread started, before a listener is asked for or a call needs a carrier. `lock` guards the carriers' coming into
 * being; jobs are handed over and waited for without it.
 */
#include "exchange/exchange.h"

#include "base/config.h"
#include "base/text.h"
#ifdef NIXL_HAS_ETCD
#include "exchange/etcd.h"
#endif
#include "exchange/endpoint.h"
#include "exchange/internal.h"
#include "exchange/tcpstore.h"
#include "wire/p2p.h"

#include <stdio.h>
#include <stdlib.h>

#define FAILURES_MOST 4096 /* peers whose last failure is kept */

/* ---- failures ---- */

void exchange_failed(struct exchange *exchange, const char *peer, const char *words) {
    void *old = NULL;
    char *copy = words != NULL ? strdup(words) : NULL;

    if (peer == NULL) {
        free(copy);
        return;
    }
    lock_take(&exchange->failures_lock);
    if (copy == NULL) {
        old = hash_remove(&exchange->failures, peer, strlen(peer));
    } else if (hash_count(&exchange->failures) >= FAILURES_MOST ||
               !hash_put(&exchange->failures, peer, strlen(peer), copy, &old)) {
        old = copy;
    }
    lock_drop(&exchange->failures_lock);
    free(old);
}

static void on_last_error(void *state, const char *peer, char *text, size_t size) {
    struct exchange *exchange = state;
    const char *words;

    lock_take(&exchange->failures_lock);
    words = hash_get(&exchange->failures, peer, strlen(peer));
    snprintf(text, size, "%s", words != NULL ? words : "");
    lock_drop(&exchange->failures_lock);
}

/* ---- what arrives ---- */

char *exchange_blob_name(const void *blob, size_t len) {
    struct wire_blob *view = malloc(sizeof *view);
    struct bytes scratch = {0};
    char *name = NULL;

    if (view != NULL && wire_blob_open(blob, len, &scratch, view, NULL) == NIXL_SUCCESS) {
        name = strndup((const char *)view->agent.data, view->agent.len);
    }
    bytes_free(&scratch);
    free(view);
    return name;
}

nixl_status_t exchange_load(struct exchange *exchange, const char *expected, const void *blob, size_t len) {
    char *name = exchange_blob_name(blob, len);
    nixl_status_t status;

    if (expected != NULL && name != NULL && strcmp(name, expected) != 0) {
        status = fail(NIXL_ERR_MISMATCH,
                      "agent \"%.100s\" was asked for, and agent \"%.100s\" answers there: is the "
                      "address right?",
                      expected, name);
        exchange_failed(exchange, expected, error_text());
        free(name);
        return status;
    }
    status = nixl_metadata_load(exchange->agent, len != 0 ? blob : "", len, NULL);
    exchange_failed(exchange, name != NULL ? name : expected, status < 0 ? error_text() : NULL);
    free(name);
    return status;
}

/* ---- beginning and end ---- */

static nixl_status_t check_host_port(const char *variable, const char *value) {
    struct text host;
    uint16_t port;
    nixl_status_t status = endpoint_split(variable, text_of(value), &host, &port);

    return status == NIXL_SUCCESS && port == 0
               ? fail(NIXL_ERR_INVALID_PARAM, "%s is \"%.200s\": it must be host:port", variable, value)
               : status;
}

/* Whether a store is named. What is malformed is told now, not by the first call that wants the store. */
static bool is_named(const char *variable, nixl_status_t (*check)(const char *variable, const char *value),
                     nixl_status_t *status) {
    char *value = NULL;
    bool is_there;

    if (*status == NIXL_SUCCESS) {
        *status = config_get_string(variable, NULL, &value);
    }
    is_there = value != NULL && value[0] != '\0';
    if (is_there) {
        *status = check(variable, value);
    }
    free(value);
    return is_there;
}

#ifndef NIXL_HAS_ETCD
static nixl_status_t etcd_open(struct exchange *exchange, void **store) {
    (void)exchange;
    (void)store;
    return fail(NIXL_ERR_NOT_SUPPORTED,
                "NIXL_ETCD_ENDPOINTS is set, and this libnixl was built without libcurl and jansson");
}

static const struct store_ops etcd_ops;
#endif

static nixl_status_t store_choose(struct exchange *exchange) {
    nixl_status_t status = NIXL_SUCCESS;
    bool wants_etcd = is_named("NIXL_ETCD_ENDPOINTS", endpoint_check_urls, &status);
    bool wants_tcpstore = is_named("NIXL_TCPSTORE_ENDPOINT", check_host_port, &status);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (wants_etcd && wants_tcpstore) {
        return fail(
            NIXL_ERR_INVALID_PARAM,
            "NIXL_ETCD_ENDPOINTS and NIXL_TCPSTORE_ENDPOINT are both set: metadata can go to one store only");
    }
    if (wants_etcd) {
        exchange->store_ops = &etcd_ops;
        exchange->store_open = etcd_open;
    } else if (wants_tcpstore) {
        exchange->store_ops = &tcpstore_ops;
        exchange->store_open = tcpstore_open;
    }
    return NIXL_SUCCESS;
}

static void on_close(void *state) {
    struct exchange *exchange = state;

    p2p_close(exchange->p2p);
    if (exchange->store != NULL) {
        exchange->store_ops->close(exchange->store);
    }
    auth_close(exchange->auth);
    hash_clear(&exchange->failures, free);
    free(exchange);
}

static nixl_status_t on_open(struct nixl_agent *agent, const struct nixl_agent_config *config, void **state) {
    struct exchange *exchange = calloc(1, sizeof *exchange);
    nixl_status_t status;

    if (exchange == NULL) {
        return fail_memory("an agent's exchange", sizeof *exchange);
    }
    exchange->agent = agent;
    exchange->config = *config;
    status = auth_open(&exchange->auth);
    if (status == NIXL_SUCCESS) {
        status = store_choose(exchange);
    }
    if (status == NIXL_SUCCESS && config->listen_thread) {
        status = p2p_open(exchange, true, &exchange->p2p);
    }
    /* The caller's string is gone after this call. */
    exchange->config.listen_address = NULL;
    if (status != NIXL_SUCCESS) {
        error_prefix("agent create");
        on_close(exchange);
        return status;
    }
    *state = exchange;
    return NIXL_SUCCESS;
}

static uint16_t on_port(void *state) {
    const struct exchange *exchange = state;

    return exchange->p2p != NULL && exchange->config.listen_thread ? p2p_port(exchange->p2p) : 0;
}

/* ---- calls ---- */

static bool by_address(const struct nixl_options *options) {
    return options->ip_addr != NULL && options->ip_addr[0] != '\0';
}

static nixl_status_t p2p_get(struct exchange *exchange, struct p2p **p2p) {
    nixl_status_t status = NIXL_SUCCESS;

    lock_take(&exchange->lock);
    if (exchange->p2p == NULL) {
        status = p2p_open(exchange, false, &exchange->p2p);
    }
    *p2p = exchange->p2p;
    lock_drop(&exchange->lock);
    return status;
}

static nixl_status_t store_get(struct exchange *exchange, void **store) {
    nixl_status_t status = NIXL_SUCCESS;

    *store = NULL;
    if (exchange->store_open == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "no address is given, and no store of metadata is named: give "
                                            "ip_addr, or set NIXL_ETCD_ENDPOINTS or "
                                            "NIXL_TCPSTORE_ENDPOINT before the agent is made");
    }
    lock_take(&exchange->lock);
    if (exchange->store == NULL) {
        status = exchange->store_open(exchange, &exchange->store);
    }
    *store = exchange->store;
    lock_drop(&exchange->lock);
    return status;
}

/* Hands the job over and, if asked, waits for it. The reference for the caller is dropped here. */
static nixl_status_t job_run(struct job *job, void (*submit)(void *carrier, struct job *job), void *carrier,
                             uint64_t wait_ms) {
    nixl_status_t status = NIXL_SUCCESS;

    job_ref(job);
    submit(carrier, job);
    if (wait_ms != 0) {
        status = job_wait(job, wait_ms);
    }
    job_unref(job);
    return status;
}

static void submit_p2p(void *carrier, struct job *job) {
    p2p_submit(carrier, job);
}

/* By address. What the network does is no failure of a plain call, as in the reference: it is logged, and
 * nixl_metadata_check() tells. */
static nixl_status_t p2p_run(struct exchange *exchange, struct job *job, const struct nixl_options *options) {
    struct p2p *p2p;
    nixl_status_t status = p2p_get(exchange, &p2p);

    if (status != NIXL_SUCCESS) {
        job_unref(job);
        return status;
    }
    status = address_resolve(options->ip_addr, options->port, job);
    if (status != NIXL_SUCCESS) {
        bool is_told = job->is_waited || status == NIXL_ERR_INVALID_PARAM;

        job_finish(exchange, job, status);
        return is_told ? status : NIXL_SUCCESS;
    }
    return job_run(job, submit_p2p, p2p, options->wait_ms);
}

static nixl_status_t store_run(struct exchange *exchange, struct job *job,
                               const struct nixl_options *options) {
    void *store;
    nixl_status_t status = store_get(exchange, &store);

    if (status != NIXL_SUCCESS) {
        job_unref(job);
        return status;
    }
    return job_run(job, exchange->store_ops->submit, store, options->wait_ms);
}

static nixl_status_t on_send(void *state, const void *blob, size_t len, bool is_partial,
                             const struct nixl_options *options) {
    struct exchange *exchange = state;
    struct job *job;

    if (is_partial && !by_address(options) && (options->label == NULL || options->label[0] == '\0')) {
        return fail(NIXL_ERR_INVALID_PARAM,
                    "partial metadata goes to a store under a label: set options->label");
    }
    job = job_new(JOB_SEND, NULL, options, FETCH_DEFAULT_MS);
    if (job == NULL) {
        return fail_memory("a send", sizeof *job);
    }
    if (by_address(options) ? !wire_p2p_command_append(&job->payload, WIRE_P2P_LOAD, blob, len)
                            : !bytes_append(&job->payload, blob, len)) {
        job_unref(job);
        return fail_memory("a blob on its way", len);
    }
    return by_address(options) ? p2p_run(exchange, job, options) : store_run(exchange, job, options);
}

static nixl_status_t on_fetch(void *state, const char *peer, const struct nixl_options *options) {
    struct exchange *exchange = state;
    struct job *job = job_new(JOB_FETCH, peer, options, exchange->config.etcd_watch_timeout_us / 1000);

    if (job == NULL ||
        (by_address(options) && !wire_p2p_command_append(&job->payload, WIRE_P2P_SEND, NULL, 0))) {
        if (job != NULL) {
            job_unref(job);
        }
        return fail_memory("a fetch", 0);
    }
    return by_address(options) ? p2p_run(exchange, job, options) : store_run(exchange, job, options);
}

static nixl_status_t on_invalidate(void *state, const struct nixl_options *options) {
    struct exchange *exchange = state;
    const char *name = nixl_agent_name(exchange->agent);
    struct job *job = job_new(JOB_INVALIDATE, NULL, options, FETCH_DEFAULT_MS);

    if (job == NULL || (by_address(options) &&
                        !wire_p2p_command_append(&job->payload, WIRE_P2P_INVALIDATE, name, strlen(name)))) {
        if (job != NULL) {
            job_unref(job);
        }
        return fail_memory("an invalidation", 0);
    }
    return by_address(options) ? p2p_run(exchange, job, options) : store_run(exchange, job, options);
}

static const struct agent_exchange exchange_ops = {
    .open = on_open,
    .close = on_close,
    .listen_port = on_port,
    .send = on_send,
    .fetch = on_fetch,
    .invalidate = on_invalidate,
    .last_error = on_last_error,
};

__attribute__((constructor)) void exchange_install(void) {
    agent_exchange_set(&exchange_ops);
}
