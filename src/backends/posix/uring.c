/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue on io_uring. Any thread that holds the engine's lock may submit. When a submitting thread ends,
 * the kernel gives what its workers had not begun back as ECANCELED: the engine submits such operations
 * again.
 */
#include "posix.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

struct uring {
    struct io_uring ring;
    bool can_pin, can_hold;
    bool is_watching; /* an operation waits for the descriptor that ends a sleep; its data is this struct */
};

static int explain(int rc, char *why, size_t why_size, const char *what) {
    size_t at = 0;

    text_append(why, why_size, &at, "%s: %s%s", what, strerror(rc),
                rc == EPERM || rc == EACCES
                    ? " (a container's seccomp profile or kernel.io_uring_disabled forbids it)"
                : rc == ENOSYS ? " (this kernel has none)"
                               : "");
    return rc;
}

/* One round through the ring: some sandboxes allow the set-up and forbid the rest. */
static int try_out(struct uring *u, char *why, size_t why_size) {
    struct io_uring_probe *probe = io_uring_get_probe_ring(&u->ring);
    struct io_uring_sqe *sqe;
    struct io_uring_cqe *cqe;
    bool is_known;
    int rc;

    is_known = probe != NULL && io_uring_opcode_supported(probe, IORING_OP_READ) &&
               io_uring_opcode_supported(probe, IORING_OP_ASYNC_CANCEL);
    io_uring_free_probe(probe);
    if (!is_known) {
        return explain(ENOSYS, why, why_size, "io_uring's IORING_OP_READ");
    }
    sqe = io_uring_get_sqe(&u->ring);
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, NULL);
    rc = io_uring_submit(&u->ring);
    if (rc < 0) {
        return explain(-rc, why, why_size, "io_uring_enter");
    }
    do {
        rc = io_uring_wait_cqe(&u->ring, &cqe);
    } while (rc == -EINTR);
    if (rc < 0) {
        return explain(-rc, why, why_size, "io_uring_enter");
    }
    io_uring_cqe_seen(&u->ring, cqe);
    return 0;
}

static int uring_open(void **queue, unsigned *depth, int event_fd, char *why, size_t why_size) {
    /* With SUBMIT_ALL one malformed entry does not hold back those behind it (kernel 5.18). */
    static const unsigned flag_sets[] = {IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL, IORING_SETUP_CLAMP};
    struct uring *u = calloc(1, sizeof *u);
    size_t i;
    int rc = -EINVAL;

    if (u == NULL) {
        return explain(ENOMEM, why, why_size, "io_uring");
    }
    for (i = 0; i < sizeof flag_sets / sizeof flag_sets[0] && rc == -EINVAL; i++) {
        struct io_uring_params params = {.flags = flag_sets[i]};

        rc = io_uring_queue_init_params(*depth, &u->ring, &params);
    }
    if (rc < 0) {
        free(u);
        return explain(-rc, why, why_size, "io_uring_setup");
    }
    rc = try_out(u, why, why_size);
    if (rc == 0) {
        rc = -io_uring_register_eventfd(&u->ring, event_fd);
        if (rc != 0) {
            explain(rc, why, why_size, "io_uring_register");
        }
    }
    if (rc == 0) {
        rc = -io_uring_cq_eventfd_toggle(&u->ring, false);
        if (rc != 0) {
            explain(rc, why, why_size, "io_uring without switchable events");
        }
    }
    if (rc != 0) {
        io_uring_queue_exit(&u->ring);
        free(u);
        return rc;
    }
    if (*depth > u->ring.sq.ring_entries) {
        *depth = u->ring.sq.ring_entries;
    }
    u->can_pin = io_uring_register_buffers_sparse(&u->ring, POSIX_PIN_SLOTS) == 0; /* kernel 5.19 */
    u->can_hold = io_uring_register_files_sparse(&u->ring, POSIX_FILE_SLOTS) == 0; /* the same */
    *queue = u;
    return 0;
}

static void uring_close(void *queue) {
    struct uring *u = queue;

    io_uring_queue_exit(&u->ring);
    free(u);
}

static struct io_uring_sqe *next_sqe(struct uring *u) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

    if (sqe == NULL) {
        io_uring_submit(&u->ring);
        sqe = io_uring_get_sqe(&u->ring);
    }
    return sqe;
}

/* What a worker of the kernel should do from the start: where a server on the network or a program answers,
 * the submission itself might wait for it. */
static bool must_be_worked_on(const struct posix_op *op) {
    const struct posix_file *file = op->io.file;

    return file->is_fuse || (!file->is_local && op->io.fd == file->fd && !file->is_direct);
}

/* Below that, looking pages up costs no more than going to the slot. */
#define PIN_PAYS 8192u

/* The slot of memory that is pinned, for a direct operation on one piece of it; else -1. */
static int pinned_slot(const struct uring *u, const struct posix_op *op, unsigned count) {
    if (!u->can_pin || count != 1 || op->io.len - op->done < PIN_PAYS || op->io.memory == NULL ||
        !op->io.file->is_direct || op->io.fd != op->io.file->fd) {
        return -1;
    }
    return __atomic_load_n(&op->io.memory->slot, __ATOMIC_ACQUIRE);
}

static bool uring_push(void *queue, struct posix_op *op) {
    struct io_uring_sqe *sqe = next_sqe(queue);
    struct iovec *iov = op->io.iov + op->iov_at;
    unsigned count = op->io.iov_count - op->iov_at;
    uint64_t offset = op->io.offset + op->done;
    unsigned flags = 0;
    int slot;

    if (sqe == NULL) {
        return false;
    }
    slot = pinned_slot(queue, op, count);
    if (slot >= 0) {
        if (op->is_write) {
            io_uring_prep_write_fixed(sqe, op->io.fd, iov->iov_base, (unsigned)iov->iov_len, offset, slot);
        } else {
            io_uring_prep_read_fixed(sqe, op->io.fd, iov->iov_base, (unsigned)iov->iov_len, offset, slot);
        }
    } else if (count != 1) {
        if (op->is_write) {
            io_uring_prep_writev(sqe, op->io.fd, iov, count, offset);
        } else {
            io_uring_prep_readv(sqe, op->io.fd, iov, count, offset);
        }
    } else if (op->is_write) {
        io_uring_prep_write(sqe, op->io.fd, iov->iov_base, (unsigned)iov->iov_len, offset);
    } else {
        io_uring_prep_read(sqe, op->io.fd, iov->iov_base, (unsigned)iov->iov_len, offset);
    }
    if (op->io.fd == op->io.file->fd && op->io.file->slot >= 0) {
        sqe->fd = op->io.file->slot;
        flags |= IOSQE_FIXED_FILE;
    }
    if (must_be_worked_on(op)) {
        flags |= IOSQE_ASYNC;
    }
    io_uring_sqe_set_flags(sqe, flags);
    io_uring_sqe_set_data(sqe, op);
    return true;
}

static bool uring_flush(void *queue, struct posix_engine *engine, posix_ended_fn ended) {
    struct uring *u = queue;
    int rc;

    (void)engine;
    (void)ended;
    do {
        rc = io_uring_submit(&u->ring);
    } while (rc == -EINTR);
    return rc >= 0 && io_uring_sq_ready(&u->ring) == 0;
}

static unsigned uring_reap(void *queue, struct posix_engine *engine, posix_ended_fn ended) {
    struct uring *u = queue;
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0, n = 0;

    io_uring_for_each_cqe(&u->ring, head, cqe) {
        struct posix_op *op = io_uring_cqe_get_data(cqe);

        seen++;
        if ((void *)op == u) {
            u->is_watching = false;
        } else if (op != NULL) { /* NULL: the result of a cancellation or nudge itself */
            ended(engine, op, cqe->res);
            n++;
        }
    }
    if (seen != 0) {
        io_uring_cq_advance(&u->ring, seen);
    }
    return n;
}

static void uring_cancel(void *queue, struct posix_op *op) {
    struct io_uring_sqe *sqe = next_sqe(queue);

    if (sqe != NULL) {
        io_uring_prep_cancel(sqe, op, 0);
        io_uring_sqe_set_data(sqe, NULL);
    }
}

/* ---- sleeping in the ring --- */

static enum posix_sleep uring_sleep_begin(void *queue, int fd) {
    struct uring *u = queue;

    if ((u->ring.features & IORING_FEAT_EXT_ARG) == 0) { /* kernel 5.11 */
        return POSIX_SLEEP_NEVER;
    }
    if (!u->is_watching) {
        struct io_uring_sqe *sqe = next_sqe(u);

        if (sqe == NULL) {
            return POSIX_SLEEP_NOT_NOW;
        }
        io_uring_prep_poll_add(sqe, fd, POLLIN);
        io_uring_sqe_set_data(sqe, u);
        u->is_watching = true;
        io_uring_submit(&u->ring);
    }
    return io_uring_cq_ready(&u->ring) == 0 ? POSIX_SLEEP_NOW : POSIX_SLEEP_NOT_NOW;
}

/* The kernel counts from the results that were there when the call began: one that comes between the look at
 * them and the call ends it at once. */
static void uring_sleep(void *queue, uint64_t until_ns) {
    struct uring *u = queue;
    uint64_t now_ns = clock_now_ns(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    struct __kernel_timespec ts = {.tv_sec = (int64_t)(left_ns / NS_PER_S),
                                   .tv_nsec = (long long)(left_ns % NS_PER_S)};
    struct io_uring_getevents_arg arg = {.ts = until_ns == UINT64_MAX ? 0 : (uintptr_t)&ts};

    (void)io_uring_enter2((unsigned)u->ring.ring_fd, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
                          (sigset_t *)&arg, sizeof arg);
}

/* Takes away what is no operation's result in front of the first one: with none in the kernel nobody reaps, and
 * it would end every sleep to come. */
static bool uring_sleep_end(void *queue) {
    struct uring *u = queue;
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;
    bool is_readable = false, is_front = true;

    io_uring_for_each_cqe(&u->ring, head, cqe) {
        void *data = io_uring_cqe_get_data(cqe);

        is_front = is_front && (data == u || data == NULL);
        seen += is_front;
        if (data == u) {
            is_readable = true;
            u->is_watching = !is_front;
        }
    }
    if (seen != 0) {
        io_uring_cq_advance(&u->ring, seen);
    }
    return is_readable;
}

static void uring_nudge(void *queue) {
    struct uring *u = queue;
    struct io_uring_sqe *sqe = next_sqe(u);

    if (sqe != NULL) {
        io_uring_prep_nop(sqe);
        io_uring_sqe_set_data(sqe, NULL);
        io_uring_submit(&u->ring);
    }
}

static void uring_notify(void *queue, bool on) {
    struct uring *u = queue;

    io_uring_cq_eventfd_toggle(&u->ring, on);
}

static bool uring_pin(void *queue, unsigned slot, uint64_t addr, uint64_t len) {
    struct uring *u = queue;
    struct iovec iov = {(void *)(uintptr_t)addr, len};
    __u64 tag = 0;

    return u->can_pin && io_uring_register_buffers_update_tag(&u->ring, slot, &iov, &tag, 1) == 1;
}

static bool uring_hold(void *queue, unsigned slot, int fd) {
    struct uring *u = queue;

    return u->can_hold && io_uring_register_files_update(&u->ring, slot, &fd, 1) == 1;
}

const struct posix_queue_ops posix_uring_ops = {
    .name = "io_uring",
    .transport = "io_uring",
    .is_vectored = true,
    .takes_buffered = true,
    /* Linux 6.18 goes on by itself after a short read of a FUSE file with FOPEN_DIRECT_IO, and from the old
     * offset: the same bytes arrive again and again. */
    .is_wrong_with_fuse = true,
    .open = uring_open,
    .close = uring_close,
    .push = uring_push,
    .flush = uring_flush,
    .reap = uring_reap,
    .cancel = uring_cancel,
    .sleep_begin = uring_sleep_begin,
    .sleep = uring_sleep,
    .sleep_end = uring_sleep_end,
    .nudge = uring_nudge,
    .notify = uring_notify,
    .pin = uring_pin,
    .hold = uring_hold,
};
