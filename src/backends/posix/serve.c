/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers through the page cache by plain calls, in the thread that posts or polls: where the pages are
 * there already, a copy is all there is to do, and no queue is as quick. Reads ask with RWF_NOWAIT and so
 * never wait. Writes do too where the file system knows it; on local file systems that do not, a plain write
 * is a copy as well, until the kernel throttles writers: a write that took long because it slept, not because
 * the processor had others to serve, sends the file's writes through the queue for a while.
 */
#include "posix.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

/* A copy of a slice takes up to some 100 us. What takes longer waits for a disk. */
#define SLOW_NS (2 * NS_PER_MS)
#define SLOW_FOR_NS (100 * NS_PER_MS)
#define SUSPECT_FOR_NS (1000 * NS_PER_MS)

#define SERVE_IOV 64u

void posix_note_fault(struct posix_request *r, enum posix_fault fault, int os_error, struct posix_cursor at,
                      uint64_t len) {
    if (r->fault != POSIX_FAULT_NONE &&
        (at.run > r->fault_at.run || (at.run == r->fault_at.run && at.block >= r->fault_at.block))) {
        return;
    }
    r->fault = (uint8_t)fault;
    r->os_error = os_error;
    r->fault_at = at;
    r->fault_len = len;
}

enum call {
    CALL_NOWAIT,
    CALL_PLAIN,
    CALL_NONE
};

/* How this piece may be moved by this thread now. */
static enum call choose(const struct posix_file *file, bool is_write, bool may_wait) {
    if (may_wait) {
        return CALL_PLAIN;
    }
    if (!is_write) {
        if (!__atomic_load_n(&file->no_nowait_read, __ATOMIC_RELAXED)) {
            return CALL_NOWAIT;
        }
        return file->is_memory ? CALL_PLAIN : CALL_NONE;
    }
    if (file->is_write_through) {
        return CALL_NONE;
    }
    if (!__atomic_load_n(&file->no_nowait_write, __ATOMIC_RELAXED)) {
        return CALL_NOWAIT;
    }
    if (!file->is_local) {
        return CALL_NONE;
    }
    if (__atomic_load_n(&file->slow_until_ns, __ATOMIC_RELAXED) != 0) {
        return clock_coarse_ns() < __atomic_load_n(&file->slow_until_ns, __ATOMIC_RELAXED) ? CALL_NONE
                                                                                           : CALL_PLAIN;
    }
    return CALL_PLAIN;
}

static ssize_t move(const struct posix_io *io, bool is_write, enum call call) {
    int flags = call == CALL_NOWAIT ? RWF_NOWAIT : 0;
    ssize_t n;

    do {
        if (call == CALL_PLAIN && io->iov_count == 1) {
            n = is_write ? pwrite(io->fd, io->iov[0].iov_base, io->len, (off_t)io->offset)
                         : pread(io->fd, io->iov[0].iov_base, io->len, (off_t)io->offset);
        } else {
            n = is_write ? pwritev2(io->fd, io->iov, (int)io->iov_count, (off_t)io->offset, flags)
                         : preadv2(io->fd, io->iov, (int)io->iov_count, (off_t)io->offset, flags);
        }
    } while (n < 0 && errno == EINTR);
    return n;
}

/* How often this thread has gone to sleep. */
static long sleeps(void) {
    struct rusage used;

    return getrusage(RUSAGE_THREAD, &used) == 0 ? used.ru_nvcsw : 0;
}

/* A plain write into the page cache, with a look at whether writers are being throttled. Counting a thread's
 * sleeps is a system call, so that is done only while there is a suspicion. */
static ssize_t write_watched(const struct posix_io *io) {
    struct posix_file *file = io->file;
    uint64_t start_ns = clock_now_ns(), now_ns;
    bool is_suspect = start_ns < __atomic_load_n(&file->suspect_until_ns, __ATOMIC_RELAXED);
    long before = is_suspect ? sleeps() : 0;
    ssize_t n = move(io, true, CALL_PLAIN);
    int error = errno;

    now_ns = clock_now_ns();
    if (now_ns - start_ns > SLOW_NS) {
        __atomic_store_n(&file->suspect_until_ns, now_ns + SUSPECT_FOR_NS, __ATOMIC_RELAXED);
        if (is_suspect && sleeps() != before) {
            __atomic_store_n(&file->slow_until_ns, now_ns + SLOW_FOR_NS, __ATOMIC_RELAXED);
        }
    }
    errno = error;
    return n;
}

/* Lets the device read ahead for what this slice will ask of it, so that its reads do not come one at a time.
 */
static void announce(const struct posix_request *r) {
    struct posix_cursor ahead = r->cursor;
    struct iovec iov[SERVE_IOV];
    struct posix_io io = {.iov = iov};
    unsigned i;

    for (i = 0; i < POSIX_SLICE_OPS && posix_gather(r, &ahead, &io, SERVE_IOV, POSIX_SLICE_BYTES); i++) {
        posix_fadvise(io.fd, (off_t)io.offset, (off_t)io.len, POSIX_FADV_WILLNEED);
    }
}

enum posix_served posix_serve(struct posix_request *r, bool may_wait) {
    struct nixl_request *request = r->request;
    bool is_write = request->op == NIXL_WRITE;
    struct iovec iov[SERVE_IOV];
    struct posix_io io = {.iov = iov};
    size_t budget = POSIX_SLICE_BYTES;
    unsigned calls = 0;

    if (may_wait && !is_write) {
        announce(r);
    }
    while (calls < POSIX_SLICE_OPS && budget != 0) {
        struct posix_cursor next = r->cursor;
        enum call call;
        ssize_t n;

        if (!posix_gather(r, &next, &io, SERVE_IOV, budget)) {
            r->cursor = next; /* behind empty blocks, if any */
            return POSIX_SERVED_ALL;
        }
        call = io.file->is_direct && !r->uses_twin && !may_wait ? CALL_NONE
                                                                : choose(io.file, is_write, may_wait);
        if (call == CALL_NONE) {
            return POSIX_SERVED_WAIT;
        }
        n = is_write && call == CALL_PLAIN && !may_wait ? write_watched(&io) : move(&io, is_write, call);
        calls++;
        if (n > 0) {
            __atomic_fetch_add(&request->done_bytes, (uint64_t)n, __ATOMIC_RELAXED);
            if ((size_t)n == io.len) {
                r->cursor = next;
            } else {
                posix_advance(request, &r->cursor, (uint64_t)n);
            }
            budget -= (size_t)n;
            continue;
        }
        if (n < 0 && call == CALL_NOWAIT) {
            if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) {
                __atomic_store_n(is_write ? &io.file->no_nowait_write : &io.file->no_nowait_read, true,
                                 __ATOMIC_RELAXED);
                continue;
            }
            if (errno == EAGAIN) {
                return POSIX_SERVED_WAIT;
            }
        }
        if (n == 0) {
            posix_note_fault(r, is_write ? POSIX_FAULT_NOTHING_WRITTEN : POSIX_FAULT_END_OF_FILE, 0, io.start,
                             io.len);
        } else {
            posix_note_fault(r, POSIX_FAULT_ERRNO, errno, io.start, io.len);
        }
        return POSIX_SERVED_FAULT;
    }
    return r->cursor.run == request->run_count ? POSIX_SERVED_ALL : POSIX_SERVED_SLICE;
}
