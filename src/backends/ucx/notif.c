/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications: active message 0, eager, with the sender's name and the bytes in it, as the reference sends them. All to one
 * peer go through its one endpoint, so their order is that of the calls.
 */
#include "ucx.h"

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

static void on_sent(void *request, ucs_status_t status, void *arg) {
    struct ucx_message *message = arg;
    struct ucx_end *end = message->end;

    /* A failure without a request is the endpoint's, and is told by its error handler. */
    if (message->xfer != NULL) {
        ucx_xfer_notified(message->xfer, status);
    }
    end->pending--;
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
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_AM_SEND_FLAG_EAGER,
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
    (void)wire_notif_encode(message->bytes.data, host->agent, name_len, msg, len);
    param.user_data = message;
    end->pending++;
    request = self->ucx->am_send_nbx(end->ep, UCX_AM_NOTIF, NULL, 0, message->bytes.data, size, &param);
    if (UCS_PTR_IS_PTR(request)) {
        return xfer != NULL ? NIXL_IN_PROG : NIXL_SUCCESS;
    }
    end->pending--;
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
