/* SPDX-License-Identifier: Apache-2.0 */
/* A request's runs as operations on files: what lies together is gathered, whatever descriptors it came in.
 * Pure. */
#include "posix.h"

static void step_block(const struct nixl_request *request, struct posix_cursor *c) {
    c->within = 0;
    if (++c->block == request->runs[c->run].count) {
        c->block = 0;
        c->run++;
    }
}

bool posix_gather(const struct posix_request *r, struct posix_cursor *cursor, struct posix_io *io,
                  unsigned max_iov, size_t max_bytes) {
    const struct nixl_request *request = r->request;
    struct posix_cursor c = *cursor;
    struct iovec *iov = io->iov;
    unsigned pieces = 0;
    size_t total = 0;

    io->file = NULL;
    while (c.run < request->run_count) {
        const struct nixl_run *run = &request->runs[c.run];
        uint64_t local = run->local + c.block * run->local_stride + c.within;
        uint64_t offset = run->remote + c.block * run->remote_stride + c.within;
        uint64_t left = run->len - c.within;
        size_t piece = left < max_bytes - total ? (size_t)left : max_bytes - total;

        if (left == 0) {
            step_block(request, &c);
            continue;
        }
        if (total == 0) {
            io->file = run->remote_key;
            io->memory = run->local_key;
            io->offset = offset;
            io->start = c;
        } else if (run->remote_key != io->file || offset != io->offset + total) {
            break;
        }
        if (pieces != 0 && (uint64_t)(uintptr_t)iov[pieces - 1].iov_base + iov[pieces - 1].iov_len == local) {
            iov[pieces - 1].iov_len += piece;
        } else if (pieces == max_iov) {
            break;
        } else {
            iov[pieces].iov_base = (void *)(uintptr_t)local;
            iov[pieces++].iov_len = piece;
        }
        if (io->memory != run->local_key) {
            io->memory = NULL;
        }
        total += piece;
        if (piece == left) {
            step_block(request, &c);
        } else {
            c.within += piece;
        }
        if (total == max_bytes || (request->flags & NIXL_REQUEST_KEEP_LISTS) != 0) {
            break;
        }
    }
    *cursor = c;
    if (total == 0) {
        return false;
    }
    io->fd = r->uses_twin && io->file->is_direct ? io->file->twin_fd : io->file->fd;
    io->len = total;
    io->iov_count = pieces;
    return true;
}

void posix_advance(const struct nixl_request *request, struct posix_cursor *cursor, uint64_t bytes) {
    while (cursor->run < request->run_count) {
        uint64_t left = request->runs[cursor->run].len - cursor->within;

        if (bytes < left) {
            cursor->within += bytes;
            return;
        }
        bytes -= left;
        if (bytes == 0 && left != 0) {
            step_block(request, cursor);
            return;
        }
        step_block(request, cursor);
    }
}

bool posix_is_aligned(const struct nixl_run *run, const struct posix_file *file, uint32_t *block,
                      const char **what, uint64_t *value, uint32_t *align) {
    uint64_t offset_bits = file->offset_align - 1, mem_bits = file->mem_align - 1;
    uint32_t i;

    if (!file->is_direct) {
        return true;
    }
    /* The first block and the distances decide; a bad distance shows at block 1. */
    for (i = 0; i < 2 && i < run->count; i++) {
        uint64_t offset = run->remote + i * run->remote_stride, local = run->local + i * run->local_stride;

        *block = i;
        *align = file->offset_align;
        if ((offset & offset_bits) != 0) {
            *what = "file offset";
            *value = offset;
            return false;
        }
        if ((run->len & offset_bits) != 0) {
            *what = "length";
            *value = run->len;
            return false;
        }
        if ((local & mem_bits) != 0) {
            *what = "address";
            *value = local;
            *align = file->mem_align;
            return false;
        }
    }
    return true;
}
