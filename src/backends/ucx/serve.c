/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes by messages, where UCX has no remote access of its own but plays it over messages (tcp). UCX's own play ends the
 * target's process when the reader dies in the middle ("Fatal: unexpected error: Endpoint timeout", seen with 1.13 and 1.22), pays a
 * message for each small block, and touches whatever address it is told. Ours answers through calls that may fail, packs many
 * blocks into one message, and touches open regions only. Used between agents whose notes both offer it; the reference gets UCX's.
 *
 * Active message 1 asks:    head, `count` rows {addr, len}, and for a write the bytes of all rows
 * Active message 2 answers: head with the same cookie and a status, and for a read the bytes of all rows
 * All numbers little-endian. An answer whose cookie is not waited for is dropped, so an operation can be ended at once, and its
 * connection need not go for that: a question that is still on its way has the bytes of a write in itself.
 */
#include "ucx.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum {
    KIND_READ = 0,
    KIND_WRITE = 1
};
enum {
    ANSWER_OK = 0,
    ANSWER_NO_REGION = 1,
    ANSWER_MALFORMED = 2
};

struct head {
    uint64_t cookie;
    uint32_t kind;  /* of a question; in an answer its status */
    uint32_t count; /* rows */
    uint64_t bytes; /* of all rows */
    uint64_t region_addr, region_len;
};

struct row {
    uint64_t addr, len;
};

/* One question stays within UCX's handling of a message as a whole. */
#define ASK_BYTES (UINT64_C(64) << 10)
#define ASK_ROWS 1024u
#define ASK_ROWS_POST                                                                                        \
    256u /* within a post: gathering scattered rows takes 0.1 us each where the memory is cold */

static struct head head_to_wire(struct head h) {
    return (struct head){htole64(h.cookie), htole32(h.kind),        htole32(h.count),
                         htole64(h.bytes),  htole64(h.region_addr), htole64(h.region_len)};
}

static struct head head_from_wire(const void *at) {
    struct head h;

    memcpy(&h, at, sizeof h);
    return (struct head){le64toh(h.cookie), le32toh(h.kind),        le32toh(h.count),
                         le64toh(h.bytes),  le64toh(h.region_addr), le64toh(h.region_len)};
}

/* ---- the target ---- */

static void on_answer_sent(void *request, ucs_status_t status, void *arg) {
    struct ucx_message *message = arg;
    struct ucx_instance *self = message->worker->self;

    (void)status; /* who asked has gone: nobody waits */
    ucx_message_give_back(message);
    self->ucx->request_free(request);
}

static void answer(ucp_ep_h ep, struct ucx_message *message) {
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = on_answer_sent,
                                 .user_data = message};
    ucs_status_ptr_t request = ucx_message_send(message, ep, UCX_AM_ANSWER, &param);

    if (!UCS_PTR_IS_PTR(request)) {
        ucx_message_give_back(message);
    }
}

/* Copies between the rows of an open region and `data`; false when a row leaves the region. */
static bool serve_rows(const struct head *h, const uint8_t *rows, uint8_t *data) {
    uint64_t done = 0;

    for (uint32_t i = 0; i < h->count; i++) {
        struct row row;
        void *at;

        memcpy(&row, rows + (size_t)i * sizeof row, sizeof row);
        row.addr = le64toh(row.addr);
        row.len = le64toh(row.len);
        if (row.addr < h->region_addr || row.addr - h->region_addr > h->region_len ||
            row.len > h->region_len - (row.addr - h->region_addr) || row.len > h->bytes - done) {
            return false;
        }
        at = (void *)(uintptr_t)row.addr;
        if (h->kind == KIND_READ) {
            memcpy(data + done, at, row.len);
        } else {
            memcpy(at, data + done, row.len);
        }
        done += row.len;
    }
    return done == h->bytes;
}

static uint32_t serve(struct ucx_instance *self, const struct head *h, const uint8_t *rows, uint8_t *data) {
    struct ucx_region *region = ucx_region_find(self, h->region_addr, h->region_len);
    uint32_t status = ANSWER_NO_REGION;

    if (region == NULL) {
        return status;
    }
    if (region->mem == DRAM_SEG && ucx_region_enter(region)) {
        status = serve_rows(h, rows, data) ? ANSWER_OK : ANSWER_MALFORMED;
        ucx_region_leave(region);
    }
    ucx_region_release(region);
    return status;
}

static bool is_whole(const struct head *h, size_t len) {
    return h->count <= ASK_ROWS && h->bytes <= ASK_BYTES && h->kind <= KIND_WRITE &&
           len == sizeof *h + h->count * sizeof(struct row) + (h->kind == KIND_WRITE ? h->bytes : 0);
}

static ucs_status_t on_question(void *arg, const void *header, size_t header_len, void *data, size_t len,
                                const ucp_am_recv_param_t *param) {
    struct ucx_worker *worker = arg;
    struct ucx_instance *self = worker->self;
    const struct nixl_host *host = self->host;
    struct ucx_message *message;
    struct head h;
    uint8_t *rows = (uint8_t *)data + sizeof h;
    size_t answer_len;

    (void)header;
    (void)header_len;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) ||
        !(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) || len < sizeof h ||
        (h = head_from_wire(data), !is_whole(&h, len))) {
        host->log(host->ctx, NIXL_LOG_WARN, "a malformed question of %zu bytes was dropped", len);
        return UCS_OK;
    }
    answer_len = sizeof h + (h.kind == KIND_READ ? h.bytes : 0);
    message = ucx_message_take(worker, answer_len);
    if (message == NULL) {
        host->log(host->ctx, NIXL_LOG_WARN, "no memory to answer a peer");
        return UCS_OK;
    }
    message->bytes.len = answer_len;
    h.kind =
        serve(self, &h, rows,
              h.kind == KIND_READ ? message->bytes.data + sizeof h : rows + h.count * sizeof(struct row));
    if (h.kind != ANSWER_OK) {
        message->bytes.len = sizeof h;
        h.bytes = 0;
    }
    h = head_to_wire(h);
    memcpy(message->bytes.data, &h, sizeof h);
    answer(param->reply_ep, message);
    return UCS_OK;
}

/* ---- who asks ---- */

static struct ucx_op **asked_slot(struct ucx_worker *worker, uint64_t cookie) {
    return &worker->asked[cookie % UCX_ASKED];
}

static struct ucx_op *asked_take(struct ucx_worker *worker, uint64_t cookie) {
    for (struct ucx_op **link = asked_slot(worker, cookie); *link != NULL; link = &(*link)->next) {
        struct ucx_op *op = *link;

        if (op->cookie == cookie) {
            *link = op->next;
            return op;
        }
    }
    return NULL;
}

bool ucx_ask_may(struct ucx_xfer *xfer) {
    struct ucx_end *end = xfer->end;

    if (end->unsent < UCX_UNSENT_MAX) {
        return true;
    }
    if (!xfer->is_held) {
        xfer->is_held = true;
        xfer->next_held = end->held;
        end->held = xfer;
    }
    return false;
}

void ucx_ask_unhold(struct ucx_xfer *xfer) {
    struct ucx_xfer **link;

    if (!xfer->is_held) {
        return;
    }
    link = &xfer->end->held;
    while (*link != xfer) {
        link = &(*link)->next_held;
    }
    *link = xfer->next_held;
    xfer->is_held = false;
}

/* Who waited looks again. */
static void release_held(struct ucx_end *end) {
    while (end->held != NULL) {
        struct ucx_xfer *xfer = end->held;

        ucx_ask_unhold(xfer);
        ucx_worker_ready(end->worker, xfer);
    }
}

void ucx_ask_forget(struct ucx_end *end, const struct ucx_xfer *xfer, ucs_status_t status) {
    struct ucx_worker *worker = end->worker;

    if (xfer == NULL) {
        release_held(end);
    }

    for (size_t i = 0; i < UCX_ASKED; i++) {
        struct ucx_op **link = &worker->asked[i];

        while (*link != NULL) {
            struct ucx_op *op = *link;

            if (op->xfer->end == end && (xfer == NULL || op->xfer == xfer)) {
                *link = op->next;
                ucx_op_finish(op, status);
            } else {
                link = &op->next;
            }
        }
    }
}

/* The next piece of a request's list, at most `max` bytes of one block; moves the place on. */
static uint64_t next_piece(const struct nixl_request *request, struct ucx_place *place, uint64_t max,
                           uint64_t *local, uint64_t *remote) {
    const struct nixl_run *run = &request->runs[place->run];
    struct ucx_span span = ucx_run_span(run, request->flags);
    uint64_t len = span.len - place->offset;

    len = len < max ? len : max;
    *local = run->local + place->block * run->local_stride + place->offset;
    *remote = run->remote + place->block * run->remote_stride + place->offset;
    place->offset += len;
    if (place->offset == span.len) {
        place->offset = 0;
        if (++place->block == span.count) {
            place->block = 0;
            place->run++;
        }
    }
    return len;
}

/* How much of the list one question takes: blocks of one remote region. */
static void measure(const struct ucx_xfer *xfer, uint32_t max_rows, uint32_t *rows, uint64_t *bytes) {
    const struct nixl_request *request = xfer->request;
    const void *key = request->runs[xfer->place.run].remote_key;
    struct ucx_place place = xfer->place;
    uint64_t local, remote;

    *rows = 0;
    *bytes = 0;
    while (!ucx_place_is(&place, &xfer->limit) && request->runs[place.run].remote_key == key &&
           *bytes < ASK_BYTES && *rows < max_rows) {
        *bytes += next_piece(request, &place, ASK_BYTES - *bytes, &local, &remote);
        (*rows)++;
    }
}

/* Writes the question and moves the request's place behind it. */
static void write_question(struct ucx_xfer *xfer, struct head h, uint8_t *out) {
    const struct nixl_request *request = xfer->request;
    uint8_t *rows = out + sizeof h, *data = rows + h.count * sizeof(struct row);
    struct head wire = head_to_wire(h);
    uint64_t done = 0;

    memcpy(out, &wire, sizeof wire);
    for (uint32_t i = 0; i < h.count; i++) {
        uint64_t local, remote;
        uint64_t len = next_piece(request, &xfer->place, h.bytes - done, &local, &remote);
        struct row row = {htole64(remote), htole64(len)};

        memcpy(rows + i * sizeof row, &row, sizeof row);
        if (h.kind == KIND_WRITE) {
            memcpy(data + done, (const void *)(uintptr_t)local, len);
        }
        done += len;
    }
}

static void on_question_sent(void *request, ucs_status_t status, void *arg) {
    struct ucx_message *message = arg;
    struct ucx_instance *self = message->worker->self;

    /* A failure is the endpoint's: its error handler ends the operations. */
    (void)status;
    ucx_end_drop(message->end);
    if (--message->end->unsent < UCX_UNSENT_MAX) {
        release_held(message->end);
    }
    ucx_message_give_back(message);
    self->ucx->request_free(request);
}

bool ucx_ask(struct ucx_xfer *xfer, struct ucx_op *op, bool in_post) {
    struct ucx_worker *worker = xfer->worker;
    struct ucx_end *end = xfer->end;
    const struct ucx_key *key = xfer->request->runs[xfer->place.run].remote_key;
    struct head h = {.cookie = worker->next_cookie++,
                     .kind = xfer->request->op == NIXL_WRITE ? KIND_WRITE : KIND_READ,
                     .region_addr = key->addr,
                     .region_len = key->region_len};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .flags = UCP_AM_SEND_FLAG_REPLY,
                                 .cb.send = on_question_sent};
    struct ucx_message *message;
    struct ucx_op **slot;
    ucs_status_ptr_t request;
    size_t len;

    measure(xfer, in_post ? ASK_ROWS_POST : ASK_ROWS, &h.count, &h.bytes);
    len = sizeof h + h.count * sizeof(struct row) + (h.kind == KIND_WRITE ? h.bytes : 0);
    message = ucx_message_take(worker, len);
    if (message == NULL) {
        ucx_op_finish(op, UCS_ERR_NO_MEMORY);
        return false;
    }
    op->bytes = h.bytes;
    op->cookie = h.cookie;
    message->bytes.len = len;
    message->end = end;
    write_question(xfer, h, message->bytes.data);
    xfer->queued += h.bytes;
    slot = asked_slot(worker, h.cookie);
    op->next = *slot;
    *slot = op;
    param.user_data = message;
    ucx_end_hold(end);
    end->unsent++;
    request = ucx_message_send(message, end->ep, UCX_AM_QUESTION, &param);
    if (UCS_PTR_IS_PTR(request)) {
        return true;
    }
    ucx_end_drop(end);
    end->unsent--;
    ucx_message_give_back(message);
    if (UCS_PTR_IS_ERR(request) && asked_take(worker, h.cookie) != NULL) {
        ucx_op_finish(op, UCS_PTR_STATUS(request));
        return false;
    }
    return true;
}

void ucx_ask_warm(struct ucx_end *end) {
    struct ucx_worker *worker = end->worker;
    struct head h = head_to_wire((struct head){.cookie = worker->next_cookie++, .kind = KIND_READ});
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .flags = UCP_AM_SEND_FLAG_REPLY,
                                 .cb.send = on_question_sent};
    struct ucx_message *message = end->has_asked ? NULL : ucx_message_take(worker, sizeof h);

    if (message == NULL) {
        return;
    }
    end->has_asked = true;
    memcpy(message->bytes.data, &h, sizeof h);
    message->bytes.len = sizeof h;
    message->end = end;
    param.user_data = message;
    ucx_end_hold(end);
    end->unsent++;
    if (!UCS_PTR_IS_PTR(ucx_message_send(message, end->ep, UCX_AM_QUESTION, &param))) {
        ucx_end_drop(end);
        end->unsent--;
        ucx_message_give_back(message);
    }
}

/* The bytes of a read to their blocks. */
static void scatter(const struct ucx_op *op, const uint8_t *data) {
    struct ucx_place place = op->place;
    uint64_t done = 0;

    while (done < op->bytes) {
        uint64_t local, remote;
        uint64_t len = next_piece(op->xfer->request, &place, op->bytes - done, &local, &remote);

        memcpy((void *)(uintptr_t)local, data + done, len);
        done += len;
    }
}

static ucs_status_t on_answer(void *arg, const void *header, size_t header_len, void *data, size_t len,
                              const ucp_am_recv_param_t *param) {
    struct ucx_worker *worker = arg;
    struct ucx_instance *self = worker->self;
    struct ucx_op *op;
    struct head h;

    (void)header;
    (void)header_len;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) || len < sizeof h) {
        self->host->log(self->host->ctx, NIXL_LOG_WARN, "a malformed answer of %zu bytes was dropped", len);
        return UCS_OK;
    }
    h = head_from_wire(data);
    op = asked_take(worker, h.cookie);
    if (op == NULL) {
        return UCS_OK; /* its operation was ended meanwhile */
    }
    op->xfer->end->is_silent = false;
    if (h.kind != ANSWER_OK) {
        ucx_op_finish(op, h.kind == ANSWER_NO_REGION ? UCS_ERR_NO_ELEM : UCS_ERR_INVALID_ADDR);
    } else if (op->xfer->request->op == NIXL_READ && len - sizeof h != op->bytes) {
        ucx_op_finish(op, UCS_ERR_MESSAGE_TRUNCATED);
    } else {
        if (op->xfer->request->op == NIXL_READ) {
            scatter(op, (const uint8_t *)data + sizeof h);
        }
        ucx_op_finish(op, UCS_OK);
    }
    return UCS_OK;
}

nixl_status_t ucx_serve_listen(struct ucx_worker *worker) {
    nixl_status_t status = ucx_notif_handler(worker, UCX_AM_QUESTION, on_question);

    return status == NIXL_SUCCESS ? ucx_notif_handler(worker, UCX_AM_ANSWER, on_answer) : status;
}
