/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers: what their bytes say, the endpoint (made at first use), its failure and its end. An endpoint that failed stays failed:
 * the agent opens the peer anew when it gets new metadata. The note beside a connection names UCX's version, because mixing
 * versions that cannot speak with each other aborts processes, and this instance, so that agents of one process find out.
 */
#include "ucx.h"

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
    free(peer->address);
    free(peer->name);
    free(peer);
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
    peer = calloc(1, sizeof *peer);
    if (peer != NULL) {
        peer->name = strdup(name);
        peer->address = ucx_padded_copy(conn, conn_len);
    }
    if (peer == NULL || peer->name == NULL || peer->address == NULL) {
        if (peer != NULL) {
            peer_free(peer);
        }
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    peer->self = self;
    peer->token = token;
    peer->address_len = conn_len;
    peer->op_max = UCX_OP_START;
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

/* ---- the endpoint ---- */

static void say_failed(struct ucx_peer *peer) {
    if (!peer->is_reported && !peer->is_closing) {
        peer->is_reported = true;
        peer->self->host->peer_failed(peer->self->host->ctx, peer->token, NIXL_ERR_REMOTE_DISCONNECT,
                                      peer->words);
    }
}

static void queue_failed(struct ucx_peer *peer) {
    struct ucx_worker *worker = &peer->self->worker;

    if (!peer->is_queued && !peer->is_closing) {
        peer->is_queued = true;
        peer->next = worker->failed;
        worker->failed = peer;
    }
}

/* UCX's error handler: within progress, or within the call that failed. Only notes it. */
static void on_endpoint_error(void *arg, ucp_ep_h ep, ucs_status_t status) {
    struct ucx_peer *peer = arg;

    (void)ep;
    peer->is_seen = true;
    if (peer->state == UCX_PEER_FAILED) {
        if (peer->ep != NULL) {
            queue_failed(peer); /* found out before UCX did: now it may be closed */
        }
        return;
    }
    peer->cause = status;
    (void)snprintf(peer->words, sizeof peer->words,
                   "the connection to agent \"%.128s\" failed: UCX %s says: %s", peer->name,
                   peer->self->library->version_text, peer->self->ucx->status_string(status));
    __atomic_store_n(&peer->state, UCX_PEER_FAILED, __ATOMIC_RELEASE);
    queue_failed(peer);
}

/* A callback that came while the agent still had the peer, or after it let go: `pending` keeps the struct either way. */
static void on_flushed(void *request, ucs_status_t status, void *arg) {
    struct ucx_peer *peer = arg;

    (void)status;
    __atomic_store_n(&peer->is_connecting, false, __ATOMIC_RELAXED);
    peer->pending--;
    peer->self->ucx->request_free(request);
}

static void on_closed(void *request, ucs_status_t status, void *arg) {
    struct ucx_peer *peer = arg;

    (void)status;
    peer->pending--;
    peer->self->ucx->request_free(request);
}

/* True when the flush is over already. */
static bool endpoint_flush(struct ucx_peer *peer) {
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = on_flushed,
                                 .user_data = peer};
    ucs_status_ptr_t request = peer->self->ucx->ep_flush_nbx(peer->ep, &param);

    if (UCS_PTR_IS_PTR(request)) {
        peer->pending++;
        return false;
    }
    return true;
}

static void endpoint_close(struct ucx_peer *peer, bool force) {
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0,
                                 .cb.send = on_closed,
                                 .user_data = peer};
    ucp_ep_h ep = peer->ep;
    ucs_status_ptr_t request;

    if (ep == NULL) {
        return;
    }
    peer->ep = NULL;
    /* Counted before the call: a callback of another operation may look at it meanwhile. */
    peer->pending++;
    request = peer->self->ucx->ep_close_nbx(ep, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        peer->pending--;
    }
}

static nixl_status_t endpoint_create(struct ucx_instance *self, const void *address, struct ucx_peer *peer,
                                     ucp_ep_h *ep, ucs_status_t *status) {
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = address,
        .err_mode = UCP_ERR_HANDLING_MODE_NONE,
    };

    if (self->options->error_handling == UCX_ERRORS_PEER) {
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        if (peer != NULL) {
            params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER;
            params.err_handler.cb = on_endpoint_error;
            params.err_handler.arg = peer;
        }
    }
    *status = self->ucx->ep_create(self->worker.handle, &params, ep);
    return *status == UCS_OK ? NIXL_SUCCESS : NIXL_ERR_BACKEND;
}

nixl_status_t ucx_fail_peer(struct ucx_peer *peer) {
    return peer->self->host->fail(peer->self->host->ctx, NIXL_ERR_REMOTE_DISCONNECT, "%s", peer->words);
}

nixl_status_t ucx_peer_endpoint(struct ucx_peer *peer) {
    struct ucx_instance *self = peer->self;
    const struct nixl_host *host = self->host;
    nixl_status_t result = NIXL_SUCCESS;
    ucs_status_t status;
    char words[512];

    if (__builtin_expect(peer->state == UCX_PEER_OPEN, 1)) {
        return NIXL_SUCCESS;
    }
    if (peer->state == UCX_PEER_FAILED) {
        return ucx_fail_peer(peer);
    }
    if (endpoint_create(self, peer->address, peer, &peer->ep, &status) != NIXL_SUCCESS) {
        peer->ep = NULL;
        result = host->fail(host->ctx, NIXL_ERR_BACKEND,
                            "agent \"%s\" cannot be reached by the transports in use (UCX_TLS=%s): %s",
                            peer->name, self->tls[0] != '\0' ? self->tls : "all",
                            ucx_words(self->library, status, words, sizeof words));
    } else if (peer->state == UCX_PEER_NEW) {
        __atomic_store_n(&peer->state, UCX_PEER_OPEN, __ATOMIC_RELEASE);
    } else {
        result = ucx_fail_peer(peer);
    }
    return result;
}

nixl_status_t ucx_peer_probe(struct ucx_instance *self) {
    const struct nixl_host *host = self->host;
    struct ucx_peer *probe = calloc(1, sizeof *probe);
    nixl_status_t result = NIXL_SUCCESS;
    ucs_status_t status;
    char words[512];

    if (probe == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    probe->self = self;
    if (endpoint_create(self, self->address, NULL, &probe->ep, &status) != NIXL_SUCCESS) {
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
            self->ucx->worker_progress(self->worker.handle);
        }
    }
    if (probe->pending == 0) {
        free(probe);
    }
    return result;
}

/* ---- failure ---- */

void ucx_peer_handle_failure(struct ucx_peer *peer) {
    /* Ends what is in flight: the callbacks come within the call or with the next progress. */
    endpoint_close(peer, true);
    ucx_ask_forget(peer->self, peer, NULL, UCS_ERR_CANCELED);
    say_failed(peer);
}

void ucx_peer_tear_down(struct ucx_peer *peer, const char *why) {
    if (peer->state != UCX_PEER_OPEN) {
        return;
    }
    if (peer->self->options->error_handling != UCX_ERRORS_PEER) {
        /* UCX refuses to close by force then: what is under way has to end by itself. */
        peer->self->host->log(
            peer->self->host->ctx, NIXL_LOG_WARN,
            "the connection to agent \"%s\" cannot be torn down (%s): ucx_error_handling_mode is none",
            peer->name, why);
        return;
    }
    peer->is_torn_down = true;
    peer->cause = UCS_ERR_CANCELED;
    (void)snprintf(peer->words, sizeof peer->words, "the connection to agent \"%.128s\" was torn down: %s",
                   peer->name, why);
    __atomic_store_n(&peer->state, UCX_PEER_FAILED, __ATOMIC_RELEASE);
    ucx_peer_handle_failure(peer);
}

void ucx_peer_lost(struct ucx_peer *peer, const char *why) {
    if (peer->state == UCX_PEER_FAILED) {
        return;
    }
    peer->cause = UCS_ERR_CONNECTION_RESET;
    (void)snprintf(peer->words, sizeof peer->words, "the connection to agent \"%.128s\" failed: %s",
                   peer->name, why);
    __atomic_store_n(&peer->state, UCX_PEER_FAILED, __ATOMIC_RELEASE);
    /* The endpoint is left to UCX's own discovery: 1.22 crashes when it is closed by force in between. */
    ucx_ask_forget(peer->self, peer, NULL, UCS_ERR_CANCELED);
    say_failed(peer);
}

/* ---- close ---- */

/* Found dead by a copy while UCX does not know yet. 1.22 crashes when such an endpoint is closed by force, so that has to
 * wait for UCX's own discovery: within the interval of its keep-alive. */
static bool waits_for_ucx(const struct ucx_peer *peer) {
    return peer->state == UCX_PEER_FAILED && !peer->is_seen &&
           peer->self->options->error_handling == UCX_ERRORS_PEER;
}

/* What UCX put off for its next turns when the endpoint failed (the going on of flushes) must not find it closed: 1.22
 * crashes. */
static bool waits_for_turns(struct ucx_peer *peer) {
    struct ucx_worker *worker = &peer->self->worker;

    if (peer->state != UCX_PEER_FAILED || peer->pending == 0) {
        return false;
    }
    if (peer->close_from == 0) {
        peer->close_from = worker->turns + CLOSE_TURNS;
    }
    if (worker->turns >= peer->close_from) {
        return false;
    }
    worker->is_closing_soon = true;
    return true;
}

static bool may_close(struct ucx_peer *peer) {
    if (peer->state == UCX_PEER_FAILED) {
        return !waits_for_ucx(peer) && !waits_for_turns(peer);
    }
    return peer->pending == 0;
}

bool ucx_peer_finish_close(struct ucx_peer *peer, bool force) {
    if (peer->ep != NULL && (force || may_close(peer))) {
        endpoint_close(peer, peer->self->options->error_handling == UCX_ERRORS_PEER);
    }
    if (peer->ep == NULL && peer->pending == 0) {
        peer_free(peer);
        return true;
    }
    return false;
}

void ucx_peer_close(void *instance, void *handle) {
    struct ucx_instance *self = instance;
    struct ucx_peer *peer = handle;

    if (ucx_is_inherited(self)) {
        peer_free(peer);
        return;
    }
    ucx_worker_enter(self);
    if (peer->is_queued) {
        struct ucx_peer **link = &self->worker.failed;

        while (*link != peer) {
            link = &(*link)->next;
        }
        *link = peer->next;
        peer->is_queued = false;
    }
    peer->is_closing = true;
    if (peer->ep != NULL && peer->state == UCX_PEER_OPEN && !self->options->ep_close_force) {
        /* Notifications under way still arrive. */
        (void)endpoint_flush(peer);
    }
    if (!ucx_peer_finish_close(peer, self->options->ep_close_force)) {
        peer->next = self->worker.closing;
        self->worker.closing = peer;
        self->host->wake(self->host->ctx);
    }
    ucx_worker_leave(self);
}

/* ---- asking ---- */

nixl_status_t ucx_peer_connect(void *instance, void *handle) {
    struct ucx_instance *self = instance;
    struct ucx_peer *peer = handle;
    nixl_status_t status;

    if (ucx_is_inherited(self)) {
        return ucx_fail_inherited(self);
    }
    if (peer->is_local) {
        return ucx_peer_state(self, peer);
    }
    ucx_worker_enter(self);
    status = ucx_peer_endpoint(peer);
    if (status == NIXL_SUCCESS && !peer->is_connecting && !endpoint_flush(peer)) {
        __atomic_store_n(&peer->is_connecting, true, __ATOMIC_RELAXED);
    }
    if (status == NIXL_SUCCESS && peer->is_connecting) {
        status = NIXL_IN_PROG;
    }
    (void)ucx_worker_settle(self);
    ucx_worker_leave(self);
    if (status == NIXL_IN_PROG) {
        self->host->wake(self->host->ctx);
    }
    return status;
}

void ucx_peer_warm(struct ucx_peer *peer) {
    if (!peer->is_warm) {
        peer->is_warm = true;
        (void)endpoint_flush(peer);
    }
}

nixl_status_t ucx_peer_state(void *instance, void *handle) {
    struct ucx_instance *self = instance;
    struct ucx_peer *peer = handle;

    if (ucx_is_inherited(self)) {
        return ucx_fail_inherited(self);
    }
    if (peer->is_local && !ucx_registry_has(peer->local_id)) {
        ucx_worker_enter(self);
        if (peer->state != UCX_PEER_FAILED) {
            (void)snprintf(peer->words, sizeof peer->words,
                           "agent \"%.128s\" of this process has been destroyed", peer->name);
            __atomic_store_n(&peer->state, UCX_PEER_FAILED, __ATOMIC_RELEASE);
            say_failed(peer);
        }
        ucx_worker_leave(self);
    }
    if (__atomic_load_n(&peer->state, __ATOMIC_ACQUIRE) != UCX_PEER_FAILED && ucx_cma_is_gone(peer)) {
        ucx_worker_enter(self);
        ucx_peer_lost(peer, "its process has ended, or its agent was destroyed");
        ucx_worker_leave(self);
        self->host->wake(self->host->ctx);
    }
    if (__atomic_load_n(&peer->state, __ATOMIC_ACQUIRE) == UCX_PEER_FAILED) {
        return ucx_fail_peer(peer);
    }
    return __atomic_load_n(&peer->is_connecting, __ATOMIC_RELAXED) ? NIXL_IN_PROG : NIXL_SUCCESS;
}

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
static void ask_transports(struct ucx_peer *peer, char *text, size_t size) {
    struct ucx_transport_entry entries[8];
    struct ucx_ep_attr attr = {.field_mask = UCX_EP_ATTR_TRANSPORTS,
                               .transports = {entries, 8, sizeof entries[0]}};

    if (peer->self->library->version < UCX_VERSION(1, 19, 0) || peer->self->ucx->ep_query == NULL ||
        peer->self->ucx->ep_query(peer->ep, &attr) != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < attr.transports.num_entries && i < 8; i++) {
        add_name(text, size, entries[i].transport_name, strlen(entries[i].transport_name));
    }
}

/* The endpoint's lanes by name: those for remote access, and those for messages. Worker lock held. */
static void lanes(struct ucx_peer *peer, char *rma, char *am, size_t size) {
    char *info = NULL;
    size_t info_len = 0;
    FILE *stream = open_memstream(&info, &info_len);

    rma[0] = '\0';
    am[0] = '\0';
    if (stream == NULL) {
        return;
    }
    peer->self->ucx->ep_print_info(peer->ep, stream);
    if (fclose(stream) == 0) {
        read_lanes(info, rma, am, size);
    }
    free(info);
    if (rma[0] == '\0' && am[0] == '\0') {
        ask_transports(peer, am, size);
    }
}

void ucx_peer_look_at_lanes(struct ucx_peer *peer) {
    char rma[64], am[64];

    if (peer->has_lanes) {
        return;
    }
    peer->has_lanes = true;
    lanes(peer, rma, am, sizeof rma);
    peer->is_emulated = strcmp(rma[0] != '\0' ? rma : am, "tcp") == 0;
    peer->self->host->log(peer->self->host->ctx, NIXL_LOG_INFO,
                          "bytes to and from agent \"%s\" go by %s, notifications by %s", peer->name,
                          __atomic_load_n(&peer->cma.state, __ATOMIC_RELAXED) == UCX_CMA_YES
                              ? "cma (the kernel's copies)"
                          : rma[0] != '\0' ? rma
                                           : am,
                          am[0] != '\0' ? am : rma);
}

nixl_status_t ucx_peer_transport(void *instance, void *handle, nixl_mem_t mem, char *text, size_t size) {
    struct ucx_instance *self = instance;
    struct ucx_peer *peer = handle;
    nixl_status_t status;
    char rma[64] = "", am[64] = "";

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
    ucx_worker_enter(self);
    status = ucx_peer_endpoint(peer);
    if (status == NIXL_SUCCESS && peer->ep != NULL) {
        lanes(peer, rma, am, sizeof rma);
    }
    ucx_worker_leave(self);
    if (status == NIXL_SUCCESS) {
        (void)snprintf(text, size, "%s", rma[0] != '\0' ? rma : am);
    }
    return status;
}
