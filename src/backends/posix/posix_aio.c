/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue on POSIX AIO: the C library's threads, which work where the kernel allows nothing else. One piece
 * of memory an operation, and one operation of a file at a time. It cannot wake anybody: the engine's thread
 * looks.
 */
#include "posix.h"

#include "base/text.h"

#include <aio.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct paio {
    unsigned depth, staged_count, running_count;
    struct posix_op **staged, **running; /* depth of each */
};

static int paio_open(void **queue, unsigned *depth, int event_fd, char *why, size_t why_size) {
    struct paio *q = calloc(1, sizeof *q);
    size_t at = 0;
    /* The C library's threads do not live on in a forked child, and it does not know: what is queued there
     * would wait for ever. */
    static uint32_t first_generation;
    uint32_t generation = fork_generation(), none = 0;

    (void)event_fd;
    if (!__atomic_compare_exchange_n(&first_generation, &none, generation, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED) &&
        none != generation) {
        free(q);
        text_append(
            why, why_size, &at,
            "this process was forked from one that used it, and the C library's threads for it are gone");
        return ENOTSUP;
    }
    if (q != NULL) {
        q->depth = *depth;
        q->staged = calloc(2 * (size_t)*depth, sizeof(struct posix_op *));
    }
    if (q == NULL || q->staged == NULL) {
        free(q);
        text_append(why, why_size, &at, "no memory");
        return ENOMEM;
    }
    q->running = q->staged + q->depth;
    *queue = q;
    return 0;
}

static void paio_close(void *queue) {
    struct paio *q = queue;

    free(q->staged);
    free(q);
}

static bool paio_push(void *queue, struct posix_op *op) {
    struct paio *q = queue;

    if (q->staged_count == q->depth) {
        return false;
    }
    q->staged[q->staged_count++] = op;
    return true;
}

static bool paio_flush(void *queue, struct posix_engine *engine, posix_ended_fn ended) {
    struct paio *q = queue;

    while (q->staged_count != 0) {
        struct posix_op *op = q->staged[q->staged_count - 1];
        struct aiocb *cb = op->control;
        struct iovec *iov = op->io.iov + op->iov_at;
        int rc;

        memset(cb, 0, sizeof *cb);
        cb->aio_fildes = op->io.fd;
        cb->aio_buf = iov->iov_base;
        cb->aio_nbytes = iov->iov_len;
        cb->aio_offset = (off_t)(op->io.offset + op->done);
        cb->aio_sigevent.sigev_notify = SIGEV_NONE;
        rc = op->is_write ? aio_write(cb) : aio_read(cb);
        if (rc != 0 && errno == EAGAIN) {
            return false;
        }
        q->staged_count--;
        if (rc == 0) {
            q->running[q->running_count++] = op;
        } else {
            ended(engine, op, -errno);
        }
    }
    return true;
}

static unsigned paio_reap(void *queue, struct posix_engine *engine, posix_ended_fn ended) {
    struct paio *q = queue;
    unsigned i = 0, n = 0;

    while (i < q->running_count) {
        struct posix_op *op = q->running[i];
        int error = aio_error(op->control);
        ssize_t result;

        if (error == EINPROGRESS) {
            i++;
            continue;
        }
        result = aio_return(op->control);
        q->running[i] = q->running[--q->running_count];
        ended(engine, op, error != 0 ? -error : result);
        n++;
    }
    return n;
}

/*
 * All of the file, not the one: glibc 2.36 loses what is queued behind a single request that it takes out of
 * the queue (the next one is marked as runnable and given to no thread). What others wanted comes back as
 * ECANCELED and is submitted again by the engine.
 */
static void paio_cancel(void *queue, struct posix_op *op) {
    (void)queue;
    aio_cancel(op->io.fd, NULL);
}

const struct posix_queue_ops posix_posix_aio_ops = {
    .name = "POSIX AIO",
    .transport = "POSIX AIO",
    .control_bytes = sizeof(struct aiocb),
    .is_vectored = false,
    .is_mute = true,
    .takes_buffered = true,
    .open = paio_open,
    .close = paio_close,
    .push = paio_push,
    .flush = paio_flush,
    .reap = paio_reap,
    .cancel = paio_cancel,
};
