/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers: what their bytes say, the endpoint (made at first use), its failure and its end. An endpoint that failed stays failed:
 * the agent opens the peer anew when it gets new metadata. The note beside a connection names UCX's version, because mixing
 * versions that cannot speak with each other aborts processes, and this instance, so that agents of one process find out.
 */
#include "ucx.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A worker's address has some hundred bytes; with many devices some thousand. */
#define ADDRESS_MAX 65536u
/* Shorter bytes cannot be one: every address starts with a header and a worker's 8-byte identity. */
#define ADDRESS_MIN 12u
/* From here on UCX's versions speak with each other; below only equal ones are let through. */
#define ANY_MIX UCX_VERSION(1, 21, 0)
/* Turns of the worker between a failure and the close of an endpoint with flushes under way. */
#define CLOSE_TURNS 8

/* ---- the note ---- */

void ucx_note_make(struct ucx_instance *self) {
    char id[2 * sizeof self->id + 1];

    if (getrandom(self->id, sizeof self->id, 0) != (ssize_t)sizeof self->id) {
        /* Unique in this process is what counts. */
        const void *me = self;

        memset(self->id, 0, sizeof self->id);
        memcpy(self->id, &me, sizeof me);
        memcpy(self->id + 8, &self->generation, sizeof self->generation);
    }
    ucx_cma_open(self);
    text_hex_encode(id, self->id, sizeof self->id);
    (void)snprintf(self->note, sizeof self->note, "UCX %s errors=%s messages=%d id=%s%s",
                   self->library->version_text,
                   self->options->error_handling == UCX_ERRORS_PEER ? "peer" : "none",
                   self->options->messages, id, self->cma_note);
}

static bool note_version(struct text note, uint32_t *version) {
    uint64_t parts[3] = {0, 0, 0};
    struct text word, number;

    if (note.len < 4 || memcmp(note.at, "UCX ", 4) != 0) {
        return false;
    }
    note.at += 4;
    note.len -= 4;
    if (!text_split(&note, ' ', &word)) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        if (!text_split(&word, '.', &number) || text_parse_uint(number, &parts[i]) != TEXT_OK ||
            parts[i] > 255) {
            return false;
        }
    }
    *version = UCX_VERSION(parts[0], parts[1], parts[2]);
    return true;
}

static bool note_has(struct text note, const char *wanted) {
    struct text word;

    while (text_split(&note, ' ', &word)) {
        if (text_equal(word, wanted)) {
            return true;
        }
    }
    return false;
}

static bool note_id(struct text note, uint8_t id[16]) {
    struct text word;
    char hex[33];

    while (text_split(&note, ' ', &word)) {
        if (word.len == 3 + 32 && memcmp(word.at, "id=", 3) == 0) {
            memcpy(hex, word.at + 3, 32);
            hex[32] = '\0';
            return text_hex_decode(id, hex, 32);
        }
    }
    return false;
}

/* Whether our UCX may be shown the bytes of one of that version. */
static nixl_status_t check_version(struct ucx_instance *self, const char *name, const void *note,
                                   size_t len) {
    const struct nixl_host *host = self->host;
    uint32_t ours = self->library->version, theirs = 0;
    char quoted[80];

    if (note == NULL) {
        if (ours >= ANY_MIX) {
            return NIXL_SUCCESS;
        }
        return host->fail(
            host->ctx, NIXL_ERR_MISMATCH,
            "agent \"%s\" does not say which UCX it runs on, so it takes 1.21 or later; this one runs on "
            "%s (%s), and the two cannot speak with each other",
            name, self->library->version_text, self->library->path);
    }
    if (!note_version((struct text){note, len}, &theirs)) {
        return host->fail(host->ctx, NIXL_ERR_MISMATCH, "agent \"%s\" has a UCX that is not understood: %s",
                          name, text_quote(quoted, sizeof quoted, note, len));
    }
    if (theirs >> 8 == ours >> 8 || (theirs >= ANY_MIX && ours >= ANY_MIX && theirs >> 16 == ours >> 16)) {
        return NIXL_SUCCESS;
    }
    return host->fail(
        host->ctx, NIXL_ERR_MISMATCH,
        "agent \"%s\" runs on UCX %u.%u.%u, this one on %s (%s): the two cannot speak with each other; "
        "use one version on both sides, or 1.21 and later",
        name, theirs >> 16, theirs >> 8 & 255, theirs & 255, self->library->version_text,
        self->library->path);
}

nixl_status_t ucx_note(void *instance, const void **note, size_t *len) {
    struct ucx_instance *self = instance;

    *note = self->note;
    *len = strlen(self->note);
    return NIXL_SUCCESS;
}

nixl_status_t ucx_conn_info(void *instance, const void **conn, size_t *len) {
    struct ucx_instance *self = instance;

    *conn = self->address;
    *len = self->address_len;
    return NIXL_SUCCESS;
}

/* ---- open ---- */

static void peer_free(struct ucx_peer *peer) {
    ucx_doors_unmap(peer);
    free(peer->address);
    free(peer->name);
    free(peer);
}

static void peer_release(struct ucx_peer *peer) {
    if (__atomic_sub_fetch(&peer->references, 1, __ATOMIC_ACQ_REL) == 0) {
        peer_free(peer);
    }
}

static struct ucx_peer *peer_make(struct ucx_instance *self, const char *name, const void *address,
                                  size_t address_len) {
    struct ucx_peer *peer = calloc(1, sizeof *peer + self->worker_count * sizeof peer->ends[0]);

    if (peer == NULL) {
        return NULL;
    }
    peer->self = self;
    peer->references = 1;
    peer->name = strdup(name);
    peer->address = ucx_padded_copy(address, address_len);
    peer->address_len = address_len;
    for (unsigned i = 0; i < self->worker_count; i++) {
        peer->ends[i].peer = peer;
        peer->ends[i].worker = &self->workers[i];
        peer->ends[i].op_max = UCX_OP_START;
    }
    if (peer->name == NULL || peer->address == NULL) {
        peer_free(peer);
        return NULL;
    }
    return peer;
}

nixl_status_t ucx_peer_open(void *instance, const char *name, void *token, const void *conn, size_t conn_len,
                            const void *note, size_t note_len, void **out) {
    struct ucx_instance *self = instance;
    const struct nixl_host *host = self->host;
    struct ucx_peer *peer;
    nixl_status_t status;

    if (ucx_is_inherited(self)) {
        return ucx_fail_inherited(self);
    }
    if (conn_len < ADDRESS_MIN || conn_len > ADDRESS_MAX) {
        return host->fail(host->ctx, NIXL_ERR_MISMATCH, "%zu bytes are no address of a UCX worker", conn_len);
    }
    status = check_version(self, name, note, note_len);
    if (status != NIXL_SUCCESS) {
        return status;
    }
    /* In its unified mode UCX leaves things out of addresses that only it knows. */
    if (note == NULL && getenv("UCX_UNIFIED_MODE") == NULL && !ucx_address_is_whole(conn, conn_len)) {
        return host->fail(host->ctx, NIXL_ERR_MISMATCH,
                          "the address of agent \"%s\" is damaged, or of a UCX that is not known here", name);
    }
    peer = peer_make(self, name, conn, conn_len);
    if (peer == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    peer->token = token;
    peer->is_unchecked = note == NULL;
    peer->is_local = note != NULL && note_id((struct text){note, note_len}, peer->local_id) &&
                     ucx_registry_has(peer->local_id);
    peer->takes_questions =
        note != NULL && self->options->messages && note_has((struct text){note, note_len}, "messages=1");
    if (note != NULL && !peer->is_local) {
        ucx_cma_peer(peer, note, note_len);
    }
    *out = peer;
    return NIXL_SUCCESS;
}

/* ---- the failure of a peer, which is one for all its ends ---- */

/* The first cause stays. False: it had failed before. */
static bool peer_fail(struct ucx_peer *peer, bool is_torn_down, const char *words) {
    bool is_first;

    lock_take(&peer->lock);
    is_first = peer->state != UCX_PEER_FAILED;
    if (is_first) {
        peer->is_torn_down = is_torn_down;
        (void)snprintf(peer->words, sizeof peer->words, "%s", words);
        __atomic_store_n(&peer->state, UCX_PEER_FAILED, __ATOMIC_RELEASE);
    }
    lock_drop(&peer->lock);
    return is_first;
}

/* Tells the agent, once, and not after it has let go. */
static void say_failed(struct ucx_peer *peer) {
    lock_take(&peer->lock);
    if (!peer->is_reported && !peer->is_closing) {
        peer->is_reported = true;
        peer->self->host->peer_failed(peer->self->host->ctx, peer->token, NIXL_ERR_REMOTE_DISCONNECT,
                                      peer->words);
    }
    lock_drop(&peer->lock);
}

nixl_status_t ucx_fail_peer(struct ucx_peer *peer) {
    /* Of this process: it is gone for good. */
    return peer->self->host->fail(peer->self->host->ctx, NIXL_ERR_REMOTE_DISCONNECT, "%s%s", peer->words,
                                  peer->is_local ? "" : "; to reach it anew load its metadata again");
}

/* ---- the endpoint ---- */

static void queue_failed(struct ucx_end *end) {
    struct ucx_worker *worker = end->worker;

    if (!end->is_queued && !end->is_closing) {
        end->is_queued = true;
        end->next = worker->failed;
        worker->failed = end;
    }
}

/* What was handed to a connection that failed may be lost: nobody confirms notifications. */
static void add_last_notification(const struct ucx_peer *peer, char *words, size_t size) {
    uint64_t left = __atomic_load_n(&peer->ends[0].notified_ns, __ATOMIC_RELAXED);
    size_t used = strlen(words);

    if (left != 0) {
        (void)text_append(words, size, &used,
                          "; the last notification to it left %llu ms before and may not have arrived",
                          (unsigned long long)((clock_coarse_ns() - left) / NS_PER_MS));
    }
}

/* UCX's error handler: within progress, or within the call that failed. Only notes it. */
static void on_endpoint_error(void *arg, ucp_ep_h ep, ucs_status_t status) {
    struct ucx_end *end = arg;
    struct ucx_peer *peer = end->peer;
    char words[sizeof peer->words];

    (void)ep;
    end->is_seen = true;
    (void)snprintf(words, sizeof words, "the connection to agent \"%.128s\" failed: UCX %s says: %s",
                   peer->name, peer->self->library->version_text, peer->self->ucx->status_string(status));
    add_last_notification(peer, words, sizeof words);
    if (peer_fail(peer, false, words) || end->ep != NULL) {
        queue_failed(end); /* found out before UCX did: now it may be closed */
    }
}

/* A callback that came while the agent still had the peer, or after it let go: `pending` keeps the struct either way. */
static void on_flushed(void *request, ucs_status_t status, void *arg) {
    struct ucx_end *end = arg;

    (void)status;
    if (end->worker->index == 0) {
        __atomic_store_n(&end->peer->is_connecting, false, __ATOMIC_RELAXED);
    }
    ucx_end_drop(end);
    end->worker->self->ucx->request_free(request);
}

static void on_closed(void *request, ucs_status_t status, void *arg) {
    struct ucx_end *end = arg;

    (void)status;
    ucx_end_drop(end);
    end->worker->self->ucx->request_free(request);
}

/* True when the flush is over already. */
static bool endpoint_flush(struct ucx_end *end) {
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = on_flushed,
                                 .user_data = end};
    ucs_status_ptr_t request = end->worker->self->ucx->ep_flush_nbx(end->ep, &param);

    if (UCS_PTR_IS_PTR(request)) {
        ucx_end_hold(end);
        return false;
    }
    return true;
}

static void endpoint_close(struct ucx_end *end, bool force) {
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0,
                                 .cb.send = on_closed,
                                 .user_data = end};
    ucp_ep_h ep = end->ep;
    ucs_status_ptr_t request;

    if (ep == NULL) {
        return;
    }
    end->ep = NULL;
    /* Counted before the call: a callback of another operation may look at it meanwhile. */
    ucx_end_hold(end);
    request = end->worker->self->ucx->ep_close_nbx(ep, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        ucx_end_drop(end);
    }
}

static nixl_status_t endpoint_create(struct ucx_worker *worker, const void *address, struct ucx_end *end,
                                     ucp_ep_h *ep, ucs_status_t *status) {
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = address,
        .err_mode = UCP_ERR_HANDLING_MODE_NONE,
    };

    if (worker->self->options->error_handling == UCX_ERRORS_PEER) {
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        if (end != NULL) {
            params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER;
            params.err_handler.cb = on_endpoint_error;
            params.err_handler.arg = end;
        }
    }
    *status = worker->self->ucx->ep_create(worker->handle, &params, ep);
    return *status == UCS_OK ? NIXL_SUCCESS : NIXL_ERR_BACKEND;
}

/* The first endpoint there is. False: the peer has failed meanwhile. */
static bool peer_opened(struct ucx_peer *peer) {
    bool is_good;

    lock_take(&peer->lock);
    is_good = peer->state != UCX_PEER_FAILED;
    if (is_good) {
        __atomic_store_n(&peer->state, UCX_PEER_OPEN, __ATOMIC_RELEASE);
    }
    lock_drop(&peer->lock);
    return is_good;
}

nixl_status_t ucx_end_connect(struct ucx_end *end) {
    struct ucx_peer *peer = end->peer;
    struct ucx_instance *self = peer->self;
    const struct nixl_host *host = self->host;
    enum ucx_peer_state state = ucx_peer_is(peer);
    ucs_status_t status;
    char words[512], hint[1024];

    if (__builtin_expect(state == UCX_PEER_OPEN && end->ep != NULL, 1)) {
        return NIXL_SUCCESS;
    }
    if (state == UCX_PEER_FAILED) {
        return ucx_fail_peer(peer);
    }
    if (endpoint_create(end->worker, peer->address, end, &end->ep, &status) != NIXL_SUCCESS) {
        end->ep = NULL;
        return host->fail(host->ctx, NIXL_ERR_BACKEND,
                          "agent \"%s\" cannot be reached by the transports in use (UCX_TLS=%s): %s%s",
                          peer->name, self->tls[0] != '\0' ? self->tls : "all",
                          ucx_words(self->library, status, words, sizeof words),
                          ucx_route_hint(self, hint, sizeof hint));
    }
    return peer_opened(peer) ? NIXL_SUCCESS : ucx_fail_peer(peer);
}

nixl_status_t ucx_peer_probe(struct ucx_instance *self) {
    struct ucx_worker *worker = ucx_first_worker(self);
    const struct nixl_host *host = self->host;
    struct ucx_end *probe = calloc(1, sizeof *probe);
    nixl_status_t result = NIXL_SUCCESS;
    ucs_status_t status;
    char words[512];

    if (probe == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    probe->worker = worker;
    if (endpoint_create(worker, self->address, NULL, &probe->ep, &status) != NIXL_SUCCESS) {
        bool peer_mode = self->options->error_handling == UCX_ERRORS_PEER;
        const char *value = "", *choice = ucx_config_choice(self->options, self->tls, &value);

        probe->ep = NULL;
        result = host->fail(
            host->ctx, NIXL_ERR_NOT_SUPPORTED, "%s%s leaves no transport that carries messages%s: %s%s. %s",
            choice, value, peer_mode ? " and notices a dead peer" : "",
            self->tls[0] != '\0' ? "add tcp (or sm on one host)" : "name network devices that are there",
            peer_mode ? ", or set ucx_error_handling_mode=none" : "",
            ucx_words(self->library, status, words, sizeof words));
    } else {
        endpoint_close(probe, self->options->error_handling == UCX_ERRORS_PEER);
        for (int i = 0; i < 100000 && probe->pending != 0; i++) {
            self->ucx->worker_progress(worker->handle);
        }
    }
    if (probe->pending == 0) {
        free(probe);
    }
    return result;
}

void ucx_end_handle_failure(struct ucx_end *end) {
    /* Ends what is in flight: the callbacks come within the call or with the next progress. */
    endpoint_close(end, true);
    ucx_ask_forget(end, NULL, UCS_ERR_CANCELED);
    say_failed(end->peer);
}

void ucx_peer_tear_down(struct ucx_peer *peer, const char *why) {
    struct ucx_instance *self = peer->self;
    char words[sizeof peer->words];

    if (ucx_peer_is(peer) != UCX_PEER_OPEN) {
        return;
    }
    if (self->options->error_handling != UCX_ERRORS_PEER) {
        /* UCX refuses to close by force then: what is under way has to end by itself. */
        self->host->log(
            self->host->ctx, NIXL_LOG_WARN,
            "the connection to agent \"%s\" cannot be torn down (%s): ucx_error_handling_mode is none",
            peer->name, why);
        return;
    }
    (void)snprintf(words, sizeof words, "the connection to agent \"%.128s\" was torn down: %s", peer->name,
                   why);
    add_last_notification(peer, words, sizeof words);
    if (!peer_fail(peer, true, words)) {
        return;
    }
    for (unsigned i = 0; i < self->worker_count; i++) {
        if (self->workers[i].handle != NULL) {
            ucx_worker_enter(&self->workers[i]);
            ucx_end_handle_failure(&peer->ends[i]);
            ucx_worker_leave(&self->workers[i]);
        }
    }
}

void ucx_peer_lost(struct ucx_peer *peer, const char *why) {
    struct ucx_instance *self = peer->self;
    char words[sizeof peer->words];

    (void)snprintf(words, sizeof words, "the connection to agent \"%.128s\" failed: %s", peer->name, why);
    if (!peer_fail(peer, false, words)) {
        return;
    }
    for (unsigned i = 0; i < self->worker_count; i++) {
        /* The endpoint is left to UCX's own discovery: 1.22 crashes when it is closed by force in between. */
        if (self->workers[i].handle != NULL) {
            ucx_worker_enter(&self->workers[i]);
            ucx_ask_forget(&peer->ends[i], NULL, UCS_ERR_CANCELED);
            ucx_worker_leave(&self->workers[i]);
        }
    }
    say_failed(peer);
}

/* ---- close ---- */

/* Found dead by a copy while UCX does not know yet. 1.22 crashes when such an endpoint is closed by force, so that has to
 * wait for UCX's own discovery: within the interval of its keep-alive. */
static bool waits_for_ucx(const struct ucx_end *end) {
    return ucx_peer_is(end->peer) == UCX_PEER_FAILED && !end->is_seen &&
           end->worker->self->options->error_handling == UCX_ERRORS_PEER;
}

/* What UCX put off for its next turns when the endpoint failed (the going on of flushes) must not find it closed: 1.22
 * crashes. */
static bool waits_for_turns(struct ucx_end *end) {
    struct ucx_worker *worker = end->worker;

    if (ucx_peer_is(end->peer) != UCX_PEER_FAILED || end->pending == 0) {
        return false;
    }
    if (end->close_from == 0) {
        end->close_from = worker->turns + CLOSE_TURNS;
    }
    if (worker->turns >= end->close_from) {
        return false;
    }
    worker->is_closing_soon = true;
    return true;
}

static bool may_close(struct ucx_end *end) {
    if (ucx_peer_is(end->peer) == UCX_PEER_FAILED) {
        return !waits_for_ucx(end) && !waits_for_turns(end);
    }
    return end->pending == 0;
}

bool ucx_end_finish_close(struct ucx_end *end, bool force) {
    if (end->ep != NULL && (force || may_close(end))) {
        endpoint_close(end, end->worker->self->options->error_handling == UCX_ERRORS_PEER);
    }
    if (end->ep == NULL && end->pending == 0) {
        peer_release(end->peer);
        return true;
    }
    return false;
}

/* Worker lock held. True when the worker still has to finish it. */
static bool end_close(struct ucx_end *end) {
    struct ucx_worker *worker = end->worker;
    /* What a silent peer has not taken would keep the connection until it goes on, if it ever does. */
    bool force = worker->self->options->ep_close_force ||
                 (end->is_silent && worker->self->options->error_handling == UCX_ERRORS_PEER);

    if (end->is_queued) {
        struct ucx_end **link = &worker->failed;

        while (*link != end) {
            link = &(*link)->next;
        }
        *link = end->next;
        end->is_queued = false;
    }
    end->is_closing = true;
    if (end->ep != NULL && ucx_peer_is(end->peer) == UCX_PEER_OPEN && !force) {
        /* Notifications under way still arrive. */
        (void)endpoint_flush(end);
    }
    if (ucx_end_finish_close(end, force)) {
        return false;
    }
    end->next = worker->closing;
    worker->closing = end;
    return true;
}

void ucx_peer_close(void *instance, void *handle) {
    struct ucx_instance *self = instance;
    struct ucx_peer *peer = handle;
    bool is_left = false;

    if (ucx_is_inherited(self)) {
        peer_free(peer);
        return;
    }
    lock_take(&peer->lock);
    peer->is_closing = true;
    lock_drop(&peer->lock);
    for (unsigned i = 0; i < self->worker_count; i++) {
        if (self->workers[i].handle != NULL) {
            __atomic_fetch_add(&peer->references, 1, __ATOMIC_RELAXED);
            ucx_worker_enter(&self->workers[i]);
            is_left = end_close(&peer->ends[i]) || is_left;
            ucx_worker_leave(&self->workers[i]);
        }
    }
    peer_release(peer);
    if (is_left) {
        self->host->wake(self->host->ctx);
    }
}

/* ---- asking ---- */

nixl_status_t ucx_peer_connect(void *instance, void *handle) {
    struct ucx_instance *self = instance;
    struct ucx_worker *worker = ucx_first_worker(self);
    struct ucx_peer *peer = handle;
    struct ucx_end *end = &peer->ends[0];
    nixl_status_t status;

    if (ucx_is_inherited(self)) {
        return ucx_fail_inherited(self);
    }
    if (peer->is_local) {
        return ucx_peer_state(self, peer);
    }
    ucx_worker_enter(worker);
    status = ucx_end_connect(end);
    if (status == NIXL_SUCCESS && !peer->is_connecting && !endpoint_flush(end)) {
        __atomic_store_n(&peer->is_connecting, true, __ATOMIC_RELAXED);
    }
    if (status == NIXL_SUCCESS && peer->is_connecting) {
        status = NIXL_IN_PROG;
    }
    (void)ucx_worker_settle(worker);
    ucx_worker_leave(worker);
    if (status == NIXL_IN_PROG) {
        self->host->wake(self->host->ctx);
    }
    return status;
}

void ucx_end_warm(struct ucx_end *end) {
    if (!end->is_warm) {
        end->is_warm = true;
        (void)endpoint_flush(end);
    }
}

nixl_status_t ucx_peer_state(void *instance, void *handle) {
    struct ucx_instance *self = instance;
    struct ucx_peer *peer = handle;

    if (ucx_is_inherited(self)) {
        return ucx_fail_inherited(self);
    }
    if (peer->is_local && !ucx_registry_has(peer->local_id)) {
        char words[sizeof peer->words];

        (void)snprintf(words, sizeof words, "agent \"%.128s\" of this process has been destroyed",
                       peer->name);
        if (peer_fail(peer, false, words)) {
            say_failed(peer);
        }
    }
    if (ucx_peer_is(peer) != UCX_PEER_FAILED && ucx_cma_is_gone(peer)) {
        ucx_peer_lost(peer, "its process has ended, or its agent was destroyed");
        self->host->wake(self->host->ctx);
    }
    if (ucx_peer_is(peer) == UCX_PEER_FAILED) {
        return ucx_fail_peer(peer);
    }
    return __atomic_load_n(&peer->is_connecting, __ATOMIC_RELAXED) ? NIXL_IN_PROG : NIXL_SUCCESS;
}

#define DEVICES_MAX 256

/* Adds a name to "a+b" unless it is there. */
static void add_name(char *names, size_t size, const char *name, size_t len) {
    struct text rest = text_of(names), one;
    size_t used = strlen(names);

    while (text_split(&rest, '+', &one)) {
        if (one.len == len && memcmp(one.at, name, len) == 0) {
            return;
        }
    }
    (void)text_append(names, size, &used, "%s%.*s", used > 0 ? "+" : "", (int)len, name);
}

/* Reads what ucp_ep_print_info() says of its lanes, in lines like
 *   #   lane[1]:  5:cma/memory.0 md[4]  -> md[4]/cma/sysdev[255] seg 4294967295 rma_bw#0
 * Lanes for remote memory access carry puts and gets; without any, messages do ("am"). */
static void read_lanes(const char *info, char *rma, char *am, size_t size) {
    struct text rest = text_of(info), line;

    rma[0] = '\0';
    am[0] = '\0';
    while (text_split(&rest, '\n', &line)) {
        char copy[256];
        const char *name, *end, *use;

        (void)snprintf(copy, sizeof copy, "%.*s ", (int)line.len, line.at);
        name = strstr(copy, "lane[");
        name = name != NULL ? strstr(name, "]:") : NULL;
        name = name != NULL ? strchr(name + 2, ':') : NULL;
        end = name != NULL ? strchr(name, '/') : NULL;
        use = end != NULL ? strstr(end, "->") : NULL;
        if (use == NULL) {
            continue;
        }
        name++;
        if (strstr(use, " rma_bw#") != NULL || strstr(use, " rma ") != NULL || strstr(use, " rma#") != NULL) {
            add_name(rma, size, name, (size_t)(end - name));
        }
        if (strstr(use, " am ") != NULL) {
            add_name(am, size, name, (size_t)(end - name));
        }
    }
}

/* Transports as ucp_ep_query() lists them, for a UCX whose text is not understood. */
static void ask_transports(struct ucx_end *end, char *text, size_t size) {
    const struct ucx_instance *self = end->worker->self;
    struct ucx_transport_entry entries[8];
    struct ucx_ep_attr attr = {.field_mask = UCX_EP_ATTR_TRANSPORTS,
                               .transports = {entries, 8, sizeof entries[0]}};

    if (self->library->version < UCX_VERSION(1, 19, 0) || self->ucx->ep_query == NULL ||
        self->ucx->ep_query(end->ep, &attr) != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < attr.transports.num_entries && i < 8; i++) {
        add_name(text, size, entries[i].transport_name, strlen(entries[i].transport_name));
    }
}

/* The endpoint's lanes by name: those for remote access, and those for messages. Worker lock held. */
static void lanes(struct ucx_end *end, char *rma, char *am, size_t size, char devices[DEVICES_MAX]) {
    char *info = NULL;
    size_t info_len = 0;
    FILE *stream = open_memstream(&info, &info_len);

    rma[0] = '\0';
    am[0] = '\0';
    devices[0] = '\0';
    if (stream == NULL) {
        return;
    }
    end->worker->self->ucx->ep_print_info(end->ep, stream);
    if (fclose(stream) == 0) {
        read_lanes(info, rma, am, size);
        ucx_route_devices(info, rma[0] != '\0' ? rma : am, devices, DEVICES_MAX);
    }
    free(info);
    if (rma[0] == '\0' && am[0] == '\0') {
        ask_transports(end, am, size);
    }
}

void ucx_end_look_at_lanes(struct ucx_end *end) {
    char rma[64], am[64], devices[DEVICES_MAX];

    if (end->has_lanes) {
        return;
    }
    end->has_lanes = true;
    lanes(end, rma, am, sizeof rma, devices);
    end->is_emulated = strcmp(rma[0] != '\0' ? rma : am, "tcp") == 0;
    /* Without a lane for remote access both are played here, too, and UCX 1.13 loses the end of reads when a peer is torn down. */
    end->loses_reads = rma[0] == '\0' && (strcmp(am, "posix") == 0 || strcmp(am, "sysv") == 0);
    ucx_route_tell(end->peer, rma[0] != '\0' ? rma : am, am[0] != '\0' ? am : rma, devices);
}

nixl_status_t ucx_peer_transport(void *instance, void *handle, nixl_mem_t mem, char *text, size_t size) {
    struct ucx_instance *self = instance;
    struct ucx_peer *peer = handle;
    nixl_status_t status;
    char rma[64] = "", am[64] = "", devices[DEVICES_MAX];

    if (peer == NULL || peer->is_local) {
        (void)snprintf(text, size, "memcpy");
        return NIXL_SUCCESS;
    }
    if (ucx_is_inherited(self)) {
        return ucx_fail_inherited(self);
    }
    if (mem == DRAM_SEG && ucx_cma_can(peer)) {
        (void)snprintf(text, size, "cma");
        return NIXL_SUCCESS;
    }
    ucx_worker_enter(ucx_first_worker(self));
    status = ucx_end_connect(&peer->ends[0]);
    if (status == NIXL_SUCCESS && peer->ends[0].ep != NULL) {
        lanes(&peer->ends[0], rma, am, sizeof rma, devices);
        ucx_end_look_at_lanes(&peer->ends[0]);
    }
    ucx_worker_leave(ucx_first_worker(self));
    if (status == NIXL_SUCCESS) {
        (void)snprintf(text, size, "%s", rma[0] != '\0' ? rma : am);
    }
    return status;
}
