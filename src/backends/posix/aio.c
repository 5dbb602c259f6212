/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue on Linux AIO, by its system calls: there are five, and the library adds nothing to them. The
 * kernel works on direct files in the background; for the page cache io_submit itself would wait for the
 * disk, so the engine keeps such operations away (takes_buffered is false). Results are read from the ring
 * that the kernel maps into this process.
 */
#include "posix.h"

#include "base/text.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The mapped ring, as the kernel's aio.c lays it out. */
struct aio_ring {
    unsigned id, nr, head, tail;
    unsigned magic, compat_features, incompat_features, header_length;
    struct io_event events[];
};

#define AIO_RING_MAGIC 0xa10a10a1u

#define SMALLEST_DEPTH 16u

struct aio {
    aio_context_t context;
    int event_fd;
    unsigned depth, staged_count;
    struct iocb **staged; /* depth of them; behind it as many that were refused */
};

static int aio_open(void **queue, unsigned *depth, int event_fd, char *why, size_t why_size) {
    struct aio *q = calloc(1, sizeof *q);
    unsigned want = *depth;
    size_t at = 0;
    int rc = 0;

    if (q == NULL) {
        text_append(why, why_size, &at, "no memory");
        return ENOMEM;
    }
    /* The machine has a fixed number of them for all processes: less is better than nothing. */
    while (syscall(SYS_io_setup, want, &q->context) != 0) {
        rc = errno;
        if (rc != EAGAIN || want / 2 < SMALLEST_DEPTH) {
            text_append(why, why_size, &at, "io_setup: %s%s", strerror(rc),
                        rc == EAGAIN   ? " (fs.aio-max-nr is used up)"
                        : rc == ENOSYS ? " (this kernel has none)"
                        : rc == EPERM  ? " (a seccomp profile forbids it)"
                                       : "");
            free(q);
            return rc;
        }
        want /= 2;
    }
    q->depth = want;
    q->event_fd = event_fd;
    q->staged = calloc(2 * (size_t)want, sizeof(struct iocb *));
    if (q->staged == NULL) {
        syscall(SYS_io_destroy, q->context);
        free(q);
        text_append(why, why_size, &at, "no memory");
        return ENOMEM;
    }
    *depth = want;
    *queue = q;
    return 0;
}

static void aio_close(void *queue) {
    struct aio *q = queue;

    syscall(SYS_io_destroy, q->context);
    free(q->staged);
    free(q);
}

static bool aio_push(void *queue, struct posix_op *op) {
    struct aio *q = queue;
    struct iocb *cb = op->control;
    struct iovec *iov = op->io.iov + op->iov_at;
    unsigned count = op->io.iov_count - op->iov_at;

    if (q->staged_count == q->depth) {
        return false;
    }
    memset(cb, 0, sizeof *cb);
    cb->aio_data = (uintptr_t)op;
    cb->aio_fildes = (uint32_t)op->io.fd;
    cb->aio_offset = (int64_t)(op->io.offset + op->done);
    if (count != 1) {
        cb->aio_lio_opcode = op->is_write ? IOCB_CMD_PWRITEV : IOCB_CMD_PREADV;
        cb->aio_buf = (uintptr_t)iov;
        cb->aio_nbytes = count;
    } else {
        cb->aio_lio_opcode = op->is_write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
        cb->aio_buf = (uintptr_t)iov->iov_base;
        cb->aio_nbytes = iov->iov_len;
    }
    cb->aio_flags = IOCB_FLAG_RESFD;
    cb->aio_resfd = (uint32_t)q->event_fd;
    q->staged[q->staged_count++] = cb;
    return true;
}

static bool aio_flush(void *queue, struct posix_engine *engine, posix_ended_fn ended) {
    struct aio *q = queue;
    struct iocb **refused = q->staged + q->depth;
    unsigned at = 0, refused_count = 0, i;
    bool is_full = false;

    while (at < q->staged_count && !is_full) {
        long rc = syscall(SYS_io_submit, q->context, (long)(q->staged_count - at), q->staged + at);

        if (rc > 0) {
            at += (unsigned)rc;
        } else if (rc == 0 || errno == EAGAIN) {
            is_full = true;
        } else if (errno != EINTR) {
            /* The first one is at fault. Its reason goes where its result would be. */
            q->staged[at]->aio_nbytes = (unsigned)errno;
            refused[refused_count++] = q->staged[at++];
        }
    }
    q->staged_count -= at;
    memmove(q->staged, q->staged + at, q->staged_count * sizeof(struct iocb *));
    for (i = 0; i < refused_count; i++) {
        ended(engine, (struct posix_op *)(uintptr_t)refused[i]->aio_data, -(ssize_t)refused[i]->aio_nbytes);
    }
    return !is_full;
}

static unsigned reap_by_call(struct aio *q, struct posix_engine *engine, posix_ended_fn ended) {
    struct io_event events[64];
    struct timespec none = {0, 0};
    long rc =
        syscall(SYS_io_getevents, q->context, 0L, (long)(sizeof events / sizeof events[0]), events, &none);
    long i;

    for (i = 0; i < rc; i++) {
        ended(engine, (struct posix_op *)(uintptr_t)events[i].data, (ssize_t)events[i].res);
    }
    return rc > 0 ? (unsigned)rc : 0;
}

static unsigned aio_reap(void *queue, struct posix_engine *engine, posix_ended_fn ended) {
    struct aio *q = queue;
    struct aio_ring *ring = (struct aio_ring *)(uintptr_t)q->context;
    unsigned n = 0;

    if (ring->magic != AIO_RING_MAGIC || ring->incompat_features != 0) {
        return reap_by_call(q, engine, ended);
    }
    for (;;) {
        unsigned head = ring->head;
        struct io_event event;

        /* The event was stored before the tail that admits it. */
        if (head == __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE)) {
            return n;
        }
        event = ring->events[head];
        /* The kernel may use the place again once it sees the new head. */
        __atomic_store_n(&ring->head, (head + 1) % ring->nr, __ATOMIC_RELEASE);
        ended(engine, (struct posix_op *)(uintptr_t)event.data, (ssize_t)event.res);
        n++;
    }
}

static void aio_cancel_op(void *queue, struct posix_op *op) {
    struct aio *q = queue;
    struct io_event event;

    /* Whatever it answers, the operation's event comes through the ring. */
    syscall(SYS_io_cancel, q->context, op->control, &event);
}

const struct posix_queue_ops posix_aio_ops = {
    .name = "Linux AIO",
    .transport = "AIO",
    .control_bytes = sizeof(struct iocb),
    .is_vectored = true,
    .takes_buffered = false,
    .open = aio_open,
    .close = aio_close,
    .push = aio_push,
    .flush = aio_flush,
    .reap = aio_reap,
    .cancel = aio_cancel_op,
};
