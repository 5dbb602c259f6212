/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications: active message 0, eager, with the sender's name and the bytes in it, as the reference sends them. All to one
 * peer go through its one endpoint, so their order is that of the calls.
 */
#include "ucx.h"

#include "base/clock.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

/* ---- receiving ---- */

static ucs_status_t on_message(void *arg, const void *header, size_t header_len, void *data, size_t len,
                               const ucp_am_recv_param_t *param) {
    const struct ucx_worker *worker = arg;
    const struct nixl_host *host = worker->self->host;
    struct wire_error error = {NULL, 0};
    struct wire_notif notif;

    (void)header;
    (void)header_len;
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        host->log(host->ctx, NIXL_LOG_WARN, "a message of %zu bytes was dropped: no NIXL sends by rendezvous",
                  len);
        return UCS_OK;
    }
    if (wire_notif_decode(data, len, &notif, &error) != NIXL_SUCCESS) {
        host->log(host->ctx, NIXL_LOG_WARN, "a message of %zu bytes was dropped: %s at byte %zu", len,
                  error.what, error.offset);
        return UCS_OK;
    }
    host->notified(host->ctx, (const char *)notif.name.data, notif.name.len, notif.msg.data, notif.msg.len);
    return UCS_OK;
}

nixl_status_t ucx_notif_handler(struct ucx_worker *worker, unsigned id, ucp_am_recv_callback_t handler) {
    struct ucx_instance *self = worker->self;
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = id,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = handler,
        .arg = worker,
    };
    char words[512];
    ucs_status_t status = self->ucx->worker_set_am_recv_handler(worker->handle, &param);

    if (status != UCS_OK) {
        return self->host->fail(self->host->ctx, NIXL_ERR_BACKEND, "messages cannot be received: %s",
                                ucx_words(self->library, status, words, sizeof words));
    }
    return NIXL_SUCCESS;
}

nixl_status_t ucx_notif_listen(struct ucx_worker *worker) {
    return ucx_notif_handler(worker, UCX_AM_NOTIF, on_message);
}

/* ---- sending ---- */

/* A message that grew beyond this gives its memory back. */
#define MESSAGE_KEEP ((size_t)128 << 10)

void ucx_message_give_back(struct ucx_message *message) {
    struct ucx_worker *worker = message->worker;

    if (message->bytes.cap > MESSAGE_KEEP) {
        bytes_free(&message->bytes);
    }
    message->next = worker->messages;
    worker->messages = message;
}

struct ucx_message *ucx_message_take(struct ucx_worker *worker, size_t len) {
    struct ucx_message *message = worker->messages;

    if (message == NULL) {
        message = calloc(1, sizeof *message);
        if (message == NULL) {
            return NULL;
        }
    } else {
        worker->messages = message->next;
    }
    message->worker = worker;
    message->end = NULL;
    message->xfer = NULL;
    bytes_clear(&message->bytes);
    if (!bytes_reserve(&message->bytes, len)) {
        ucx_message_give_back(message);
        return NULL;
    }
    return message;
}

/* ---- messages that UCX copies ----
 *
 * UCX before 1.21 ends the process ("Assertion `comp->count > 0'") when a tcp connection breaks while a message is on its way
 * from the sender's own memory. It copies, and is safe, when the message's type is one that only the sender can read.
 */

#define COPIED_BEFORE UCX_VERSION(1, 21, 0)
#define COPIED_ALWAYS 512u /* bytes that every transport copies by itself */

static void *copied_start(void *context, const void *buffer, size_t count) {
    (void)context;
    (void)count;
    return (void *)(uintptr_t)buffer;
}

static void *copied_start_unpack(void *context, void *buffer, size_t count) {
    (void)context;
    (void)count;
    return buffer;
}

static size_t copied_size(void *state) {
    return ((const struct bytes *)state)->len;
}

static size_t copied_pack(void *state, size_t offset, void *dest, size_t max) {
    const struct bytes *bytes = state;
    size_t len = bytes->len - offset < max ? bytes->len - offset : max;

    memcpy(dest, bytes->data + offset, len);
    return len;
}

static ucs_status_t copied_unpack(void *state, size_t offset, const void *src, size_t len) {
    (void)state;
    (void)offset;
    (void)src;
    (void)len;
    return UCS_ERR_UNSUPPORTED;
}

static void copied_finish(void *state) {
    (void)state;
}

nixl_status_t ucx_messages_open(struct ucx_instance *self) {
    static const ucp_generic_dt_ops_t ops = {
        .start_pack = copied_start,
        .start_unpack = copied_start_unpack,
        .packed_size = copied_size,
        .pack = copied_pack,
        .unpack = copied_unpack,
        .finish = copied_finish,
    };
    char words[512];
    ucs_status_t status = UCS_OK;

    if (self->library->version < COPIED_BEFORE) {
        status = self->ucx->dt_create_generic(&ops, NULL, &self->copied);
        self->has_copied = status == UCS_OK;
    }
    return status == UCS_OK
               ? NIXL_SUCCESS
               : self->host->fail(self->host->ctx, NIXL_ERR_BACKEND, "messages cannot be sent: %s",
                                  ucx_words(self->library, status, words, sizeof words));
}

void ucx_messages_close(struct ucx_instance *self) {
    if (self->has_copied) {
        self->ucx->dt_destroy(self->copied);
        self->has_copied = false;
    }
}

ucs_status_ptr_t ucx_message_send(struct ucx_message *message, ucp_ep_h ep, unsigned id,
                                  ucp_request_param_t *param) {
    const struct ucx_instance *self = message->worker->self;
    const struct bytes *bytes = &message->bytes;

    param->op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param->flags |= UCP_AM_SEND_FLAG_EAGER;
    if (!self->has_copied || bytes->len <= COPIED_ALWAYS) {
        return self->ucx->am_send_nbx(ep, id, NULL, 0, bytes->data, bytes->len, param);
    }
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param->datatype = self->copied;
    return self->ucx->am_send_nbx(ep, id, NULL, 0, bytes, 1, param);
}

static void on_sent(void *request, ucs_status_t status, void *arg) {
    struct ucx_message *message = arg;
    struct ucx_end *end = message->end;

    /* A failure without a request is the endpoint's, and is told by its error handler. */
    if (message->xfer != NULL) {
        ucx_xfer_notified(message->xfer, status);
    }
    ucx_end_drop(end);
    ucx_message_give_back(message);
    end->worker->self->ucx->request_free(request);
}

/* A sent message's words when UCX refuses it at once. */
static nixl_status_t send_refused(struct ucx_peer *peer, ucs_status_t status) {
    const struct nixl_host *host = peer->self->host;
    char words[512];

    if (ucx_peer_is(peer) == UCX_PEER_FAILED) {
        return ucx_fail_peer(peer);
    }
    return host->fail(host->ctx, ucx_status(status), "the notification to agent \"%s\" was not sent: %s",
                      peer->name, ucx_words(peer->self->library, status, words, sizeof words));
}

nixl_status_t ucx_notif_send(struct ucx_peer *peer, const void *msg, size_t len, struct ucx_xfer *xfer) {
    struct ucx_instance *self = peer->self;
    struct ucx_end *end = &peer->ends[0];
    const struct nixl_host *host = self->host;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = on_sent};
    size_t name_len = strlen(host->agent);
    size_t size = wire_notif_size(name_len, len);
    struct ucx_message *message = size != 0 ? ucx_message_take(end->worker, size) : NULL;
    ucs_status_ptr_t request;

    if (message == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory for a notification of %zu bytes", len);
    }
    message->end = end;
    message->xfer = xfer;
    message->bytes.len = size;
    __atomic_store_n(&end->notified_ns, clock_coarse_ns(), __ATOMIC_RELAXED);
    (void)wire_notif_encode(message->bytes.data, host->agent, name_len, msg, len);
    param.user_data = message;
    ucx_end_hold(end);
    request = ucx_message_send(message, end->ep, UCX_AM_NOTIF, &param);
    if (UCS_PTR_IS_PTR(request)) {
        return xfer != NULL ? NIXL_IN_PROG : NIXL_SUCCESS;
    }
    ucx_end_drop(end);
    ucx_message_give_back(message);
    if (UCS_PTR_IS_ERR(request)) {
        return send_refused(peer, UCS_PTR_STATUS(request));
    }
    return NIXL_SUCCESS;
}

nixl_status_t ucx_notify(void *instance, void *handle, const void *msg, size_t len) {
    struct ucx_instance *self = instance;
    struct ucx_peer *peer = handle;
    struct ucx_worker *worker = ucx_first_worker(self);
    nixl_status_t status;
    bool is_pending;

    if (ucx_is_inherited(self)) {
        return ucx_fail_inherited(self);
    }
    if (peer->is_local) {
        if (!ucx_registry_notify(peer->local_id, self->host->agent, msg, len)) {
            return ucx_peer_state(self, peer);
        }
        return NIXL_SUCCESS;
    }
    ucx_worker_enter(worker);
    status = ucx_end_connect(&peer->ends[0]);
    if (status == NIXL_SUCCESS) {
        status = ucx_notif_send(peer, msg, len, NULL);
    }
    is_pending = peer->ends[0].pending != 0;
    ucx_worker_leave(worker);
    if (is_pending) {
        self->host->wake(self->host->ctx);
    }
    return status;
}
