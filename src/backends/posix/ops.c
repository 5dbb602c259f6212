/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations in the kernel: made of a request's runs, pushed, continued when the kernel did only a part, and
 * brought home. A request ends when the kernel holds nothing of it any more and nothing is left to issue.
 * Lock held throughout.
 */
#include "posix.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Operations that one request issues before the next one has its turn. */
#define TURN_OPS 32u
/* Longest operation through the page cache: several in parallel read ahead better than one. */
#define BUFFERED_OP (1u << 20)
/* What a request keeps in the kernel at most. A copy happens inside the submission, so there it is less. */
#define DIRECT_BYTES (16u << 20)
#define BUFFERED_BYTES (8u << 20)
/* A kernel that keeps saying "again" is taken at its word after that many attempts. */
#define MAX_ATTEMPTS 1000u

/* ---- Lists ----------------------------------------------------------------------------------------------
 */

void posix_enlist(struct posix_engine *engine, struct posix_request *r) {
    struct posix_list *list = &engine->ready[r->stage];

    r->is_listed = true;
    r->next = NULL;
    r->prev = list->tail;
    *(list->tail != NULL ? &list->tail->next : &list->head) = r;
    list->tail = r;
}

void posix_delist(struct posix_engine *engine, struct posix_request *r) {
    struct posix_list *list = &engine->ready[r->stage];

    if (!r->is_listed) {
        return;
    }
    r->is_listed = false;
    *(r->prev != NULL ? &r->prev->next : &list->head) = r->next;
    *(r->next != NULL ? &r->next->prev : &list->tail) = r->prev;
}

bool posix_ops_open(struct posix_engine *engine) {
    size_t control = engine->queue_ops->control_bytes;
    unsigned i;

    engine->ops = calloc(engine->depth, sizeof *engine->ops);
    engine->controls = calloc(engine->depth, control != 0 ? control : 1);
    if (engine->ops == NULL || engine->controls == NULL) {
        return false;
    }
    for (i = engine->depth; i-- > 0;) {
        struct posix_op *op = &engine->ops[i];

        op->control = (char *)engine->controls + i * control;
        op->next = engine->free_ops;
        engine->free_ops = op;
    }
    return true;
}

void posix_ops_close(struct posix_engine *engine) {
    unsigned i;

    for (i = 0; engine->ops != NULL && i < engine->depth; i++) {
        free(engine->ops[i].many);
    }
    free(engine->ops);
    free(engine->controls);
}

/* ---- The end of a request -------------------------------------------------------------------------------
 */

static void fault_text(const struct posix_request *r, char *text, size_t size) {
    const struct nixl_run *run = &r->request->runs[r->fault_at.run];
    const struct posix_file *file = run->remote_key;
    uint64_t offset = run->remote + r->fault_at.block * run->remote_stride + r->fault_at.within;
    char path[256];
    struct stat st;
    size_t at = 0;

    text_append(text, size, &at, "%s of %" PRIu64 " bytes at offset %" PRIu64 " of %s: ",
                r->request->op == NIXL_WRITE ? "write" : "read", r->fault_len, offset,
                posix_file_name(file, path, sizeof path));
    switch ((enum posix_fault)r->fault) {
    case POSIX_FAULT_END_OF_FILE:
        text_append(text, size, &at, "end of file");
        if (fstat(file->fd, &st) == 0 && S_ISREG(st.st_mode)) {
            text_append(text, size, &at, " (it has %lld bytes)", (long long)st.st_size);
        }
        break;
    case POSIX_FAULT_NOTHING_WRITTEN:
        text_append(text, size, &at, "the file system takes no more bytes");
        break;
    default:
        text_append(text, size, &at, "%s", strerror(r->os_error));
        if (r->os_error == EINVAL && file->is_direct) {
            text_append(text, size, &at,
                        " (opened for direct: offset, length and address must suit the device's blocks)");
        }
        break;
    }
}

void posix_end(struct posix_engine *engine, struct posix_request *r) {
    struct nixl_request *request = r->request;
    const struct nixl_host *host = engine->host;
    struct nixl_failure failure = NIXL_FAILURE_INIT;
    char text[512];

    if (r->fault == POSIX_FAULT_NONE && r->cursor.run == request->run_count) {
        host->complete(host->ctx, request, NULL);
        return;
    }
    failure.bytes_done = __atomic_load_n(&request->done_bytes, __ATOMIC_RELAXED);
    if (r->fault == POSIX_FAULT_NONE || (r->is_canceled && r->os_error == ECANCELED)) {
        failure.status = NIXL_ERR_CANCELED;
    } else {
        failure.os_error = r->os_error;
        failure.run = r->fault_at.run;
        failure.block = r->fault_at.block;
        fault_text(r, text, sizeof text);
        failure.text = text;
    }
    host->complete(host->ctx, request, &failure);
}

bool posix_end_if_over(struct posix_engine *engine, struct posix_request *r) {
    if (r->in_kernel != 0 || r->is_served ||
        (r->fault == POSIX_FAULT_NONE && !r->is_canceled && r->cursor.run != r->request->run_count)) {
        return false;
    }
    posix_delist(engine, r);
    __atomic_store_n(&engine->active, engine->active - 1, __ATOMIC_RELEASE);
    posix_end(engine, r);
    return true;
}

/* ---- Operations -----------------------------------------------------------------------------------------
 */

static bool make_op(struct posix_engine *engine, struct posix_request *r, struct posix_cursor *cursor,
                    struct posix_op *op) {
    const struct posix_file *file;
    struct posix_cursor first = *cursor;
    struct iovec one;
    unsigned room = sizeof op->few / sizeof op->few[0];
    size_t limit;

    /* A first look at one piece tells the file, and so the limits. */
    op->io.iov = &one;
    if (!posix_gather(r, &first, &op->io, 1, 1)) {
        *cursor = first; /* behind empty blocks, if any */
        return false;
    }
    file = op->io.file;
    limit = file->is_direct && !r->uses_twin ? POSIX_MAX_OP : BUFFERED_OP;
    op->io.iov = op->few;
    first = *cursor;
    if (!engine->queue_ops->is_vectored) {
        room = 1;
    } else if (op->many != NULL) {
        op->io.iov = op->many;
        room = POSIX_MAX_IOV;
    }
    posix_gather(r, &first, &op->io, room, limit);
    if (room == sizeof op->few / sizeof op->few[0] && op->io.iov_count == room && op->io.len < limit &&
        first.run < r->request->run_count) {
        /* There may be more: take the long array, which the operation then keeps. */
        op->many = malloc(POSIX_MAX_IOV * sizeof *op->many);
        if (op->many != NULL) {
            op->io.iov = op->many;
            first = *cursor;
            posix_gather(r, &first, &op->io, POSIX_MAX_IOV, limit);
        }
    }
    *cursor = first;
    op->owner = r;
    op->is_write = r->request->op == NIXL_WRITE;
    op->done = 0;
    op->iov_at = 0;
    op->attempts = 0;
    return true;
}

static bool push(struct posix_engine *engine, struct posix_op *op) {
    if (!engine->queue_ops->push(engine->queue, op)) {
        return false;
    }
    engine->has_pushed = true;
    return true;
}

static void op_release(struct posix_engine *engine, struct posix_op *op) {
    struct posix_request *r = op->owner;

    *(op->prev != NULL ? &op->prev->next : &r->ops) = op->next;
    if (op->next != NULL) {
        op->next->prev = op->prev;
    }
    r->in_kernel--;
    r->bytes_in_kernel -= op->io.len;
    engine->in_kernel--;
    op->next = engine->free_ops;
    engine->free_ops = op;
}

static void op_fault(struct posix_op *op, enum posix_fault fault, int os_error) {
    struct posix_cursor at = op->io.start;

    posix_advance(op->owner->request, &at, op->done);
    posix_note_fault(op->owner, fault, os_error, at, op->io.len - op->done);
}

/* Cuts what was done off the pieces. */
static void op_advance(struct posix_op *op, size_t bytes) {
    op->done += bytes;
    while (bytes != 0) {
        struct iovec *piece = &op->io.iov[op->iov_at];

        if (bytes < piece->iov_len) {
            piece->iov_base = (char *)piece->iov_base + bytes;
            piece->iov_len -= bytes;
            return;
        }
        bytes -= piece->iov_len;
        op->iov_at++;
    }
}

/* True when the operation goes on, as another submission. */
static bool goes_on(struct posix_engine *engine, struct posix_op *op, ssize_t result) {
    struct posix_request *r = op->owner;
    const struct posix_file *file = op->io.file;

    if (result > 0) {
        __atomic_fetch_add(&r->request->done_bytes, (uint64_t)result, __ATOMIC_RELAXED);
        op_advance(op, (size_t)result);
        op->attempts = 0;
        if (op->done >= op->io.len) {
            return false;
        }
        if (!op->is_write && op->io.fd == file->fd && file->is_direct && op->done % file->offset_align != 0) {
            /* A direct read stops inside a block only at the end of the file; it could not be continued
             * either. */
            op_fault(op, POSIX_FAULT_END_OF_FILE, 0);
            return false;
        }
    } else if (result == 0) {
        op_fault(op, op->is_write ? POSIX_FAULT_NOTHING_WRITTEN : POSIX_FAULT_END_OF_FILE, 0);
        return false;
    } else if ((result != -EINTR && result != -EAGAIN && result != -ECANCELED) ||
               (op->attempts++ >= MAX_ATTEMPTS && !r->is_canceled)) {
        /* ECANCELED without our asking: the thread that had submitted it is gone. */
        op_fault(op, POSIX_FAULT_ERRNO, (int)-result);
        return false;
    }
    if (r->is_canceled || r->fault != POSIX_FAULT_NONE) {
        if (r->fault == POSIX_FAULT_NONE) {
            op_fault(op, POSIX_FAULT_ERRNO, ECANCELED); /* bytes are missing: never a success */
        }
        return false;
    }
    if (!push(engine, op)) {
        op_fault(op, POSIX_FAULT_ERRNO, EAGAIN);
        return false;
    }
    return true;
}

static void ended(struct posix_engine *engine, struct posix_op *op, ssize_t result) {
    struct posix_request *r = op->owner;

    if (goes_on(engine, op, result)) {
        return;
    }
    op_release(engine, op);
    if (posix_end_if_over(engine, r)) {
        return;
    }
    if (r->fault != POSIX_FAULT_NONE) {
        posix_delist(engine, r);
    } else if (!r->is_listed && !r->is_served && !r->is_canceled && r->cursor.run != r->request->run_count) {
        posix_enlist(engine, r);
    }
}

unsigned posix_reap(struct posix_engine *engine) {
    /* Results that somebody took away would leave who sleeps within the queue asleep. */
    return engine->in_kernel != 0 && !engine->is_waited
               ? engine->queue_ops->reap(engine->queue, engine, ended)
               : 0;
}

/* One request's turn. False when the queue is full. */
static bool issue_turn(struct posix_engine *engine, struct posix_request *r) {
    unsigned turn;

    for (turn = 0; turn < TURN_OPS; turn++) {
        struct posix_op *op = engine->free_ops;

        if (r->in_kernel >= POSIX_MAX_REQUEST_OPS ||
            r->bytes_in_kernel >= (r->has_buffered ? BUFFERED_BYTES : DIRECT_BYTES)) {
            posix_delist(engine, r); /* back in the list when one of them ends */
            return true;
        }
        if (op == NULL) {
            return false;
        }
        if (!make_op(engine, r, &r->cursor, op)) {
            break;
        }
        engine->free_ops = op->next;
        op->prev = NULL;
        op->next = r->ops;
        if (op->next != NULL) {
            op->next->prev = op;
        }
        r->ops = op;
        r->in_kernel++;
        r->bytes_in_kernel += op->io.len;
        engine->in_kernel++;
        if (!push(engine, op)) {
            r->cursor = op->io.start;
            op_release(engine, op);
            return false;
        }
    }
    posix_delist(engine, r);
    if (r->cursor.run != r->request->run_count) {
        posix_enlist(engine, r); /* behind the others */
    } else {
        posix_end_if_over(engine, r); /* a list that ends in empty blocks */
    }
    return true;
}

void posix_issue(struct posix_engine *engine) {
    struct posix_list *list = &engine->ready[POSIX_STAGE_QUEUE];

    do {
        while (list->head != NULL && issue_turn(engine, list->head)) {
        }
        if (!engine->has_pushed) {
            return;
        }
        engine->has_pushed = false;
        if (!engine->queue_ops->flush(engine->queue, engine, ended)) {
            engine->has_pushed = true; /* the kernel takes no more now */
            return;
        }
    } while (engine->has_pushed);
}

void posix_recall(struct posix_engine *engine, struct posix_request *r) {
    struct posix_op *op;

    for (op = r->ops; op != NULL; op = op->next) {
        engine->queue_ops->cancel(engine->queue, op);
    }
}
