/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes to and from another process of this host by the kernel's process_vm_writev() and process_vm_readv(), many blocks a
 * call. UCX's cma does one block a call, only from 1.21 on, and behind its queues; this is the same privilege and the same trust. Used between
 * agents whose notes both offer it and which can prove to be on one host.
 *
 * The proof, also against a process number that was given to somebody else: each instance keeps its 16 random bytes in a page
 * that the kernel wipes in forked children, and the note says where. Whoever finds them there by that process number has
 * the right process, running the right program, with the agent alive. It is looked at before the first use, and again whenever
 * CMA_VOUCH_NS have passed, long before the kernel's numbers can have come round.
 */
#include "ucx.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define CMA_VOUCH_NS NS_PER_MS
#define CMA_VECTORS 512u            /* of a call; the kernel takes 1024 */
#define CMA_BLOCKS 4096u            /* looked at for a call: empty and adjoining ones make no vectors */
#define CMA_TURN_NS UINT64_C(60000) /* as UCX_TURN_NS: then a post returns, and progress serves others */
/* What one call may take: within a post, then in the turns of progress. */
#define CMA_POST_BYTES (UINT64_C(256) << 10)
#define CMA_POST_VECTORS 64u
#define CMA_BYTES (UINT64_C(1) << 20)

/* ---- who we are ---- */

static bool boot_id(char out[33]) {
    char line[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t used = 0;

    if (file == NULL) {
        return false;
    }
    if (fgets(line, sizeof line, file) != NULL) {
        for (const char *c = line; *c != '\0' && used < 32; c++) {
            if (*c != '-' && *c != '\n') {
                out[used++] = *c;
            }
        }
    }
    (void)fclose(file);
    out[used] = '\0';
    return used == 32;
}

/* Process numbers mean the same within one name space. */
static bool pid_space(uint64_t *inode) {
    char link[64];
    ssize_t len = readlink("/proc/self/ns/pid", link, sizeof link);
    const char *open = len > 0 ? memchr(link, '[', (size_t)len) : NULL;

    return open != NULL && link[len - 1] == ']' &&
           text_parse_uint((struct text){open + 1, (size_t)(link + len - 1 - open - 1)}, inode) == TEXT_OK;
}

/* Whether the user's transport list leaves the kernel's copies in. */
static bool is_wanted(const struct ucx_instance *self) {
    struct text rest = text_of(self->tls), piece;
    bool excludes = self->tls[0] == '^', named = false;

    if (!self->options->cma || self->tls[0] == '\0') {
        return self->options->cma;
    }
    if (excludes) {
        rest.at++;
        rest.len--;
    }
    while (text_split(&rest, ',', &piece)) {
        named = named || text_equal(piece, "cma") || text_equal(piece, "sm") || text_equal(piece, "shm") ||
                text_equal(piece, "all");
    }
    return named != excludes;
}

void ucx_cma_open(struct ucx_instance *self) {
    char boot[33];
    uint64_t space;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *proof;

    self->cma_note[0] = '\0';
    if (!boot_id(boot) || !pid_space(&space)) {
        return;
    }
    /* Where we are is told in any case: who has to do without the copies can then say why (advice.c). */
    (void)snprintf(self->cma_host, sizeof self->cma_host, "host=%s/%" PRIu64, boot, space);
    (void)snprintf(self->cma_note, sizeof self->cma_note, " %s", self->cma_host);
    if (!is_wanted(self)) {
        return;
    }
    proof = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (proof == MAP_FAILED) {
        return;
    }
    if (madvise(proof, page, MADV_WIPEONFORK) != 0) {
        (void)munmap(proof, page);
        return;
    }
    memcpy(proof, self->id, sizeof self->id);
    self->cma_proof = proof;
    ucx_doors_open(self);
    (void)snprintf(self->cma_note, sizeof self->cma_note, " %s cma=%ld/0x%" PRIxPTR, self->cma_host,
                   (long)getpid(), (uintptr_t)proof);
    if (self->doors.file != NULL) {
        size_t used = strlen(self->cma_note);

        (void)text_append(self->cma_note, sizeof self->cma_note, &used, " doors=%d", self->doors.fd);
    }
}

void ucx_cma_close(struct ucx_instance *self) {
    if (self->cma_proof != NULL) {
        (void)munmap(self->cma_proof, (size_t)sysconf(_SC_PAGESIZE));
        self->cma_proof = NULL;
    }
    ucx_doors_close(self);
}

/* ---- who the peer is ---- */

/* Whether a note's word names our boot, and with it our host, though other process numbers. */
static bool is_same_boot(const char *host, struct text word) {
    const char *slash = strchr(host, '/');

    return slash != NULL && word.len > (size_t)(slash + 1 - host) &&
           memcmp(word.at, host, (size_t)(slash + 1 - host)) == 0;
}

void ucx_cma_peer(struct ucx_peer *peer, const void *note, size_t len) {
    struct ucx_instance *self = peer->self;
    struct text rest = {note, len}, word;
    uint64_t pid = 0, at = 0, doors = UINT64_MAX;
    bool is_here = false;

    peer->cma.state = UCX_CMA_NO;
    peer->cma.doors_fd = -1;
    peer->cma.place = UCX_PLACE_UNKNOWN;
    while (text_split(&rest, ' ', &word)) {
        struct text number;

        if (self->cma_host[0] != '\0' && text_equal(word, self->cma_host)) {
            is_here = true;
            peer->cma.place = UCX_PLACE_HERE;
        } else if (is_same_boot(self->cma_host, word)) {
            peer->cma.place = UCX_PLACE_APART;
        } else if (word.len > 4 && memcmp(word.at, "cma=", 4) == 0) {
            word.at += 4;
            word.len -= 4;
            if (!text_split(&word, '/', &number) || text_parse_uint(number, &pid) != TEXT_OK ||
                text_parse_uint(word, &at) != TEXT_OK) {
                pid = 0;
            }
        } else if (word.len > 6 && memcmp(word.at, "doors=", 6) == 0) {
            word.at += 6;
            word.len -= 6;
            if (text_parse_uint(word, &doors) != TEXT_OK) {
                doors = UINT64_MAX;
            }
        }
    }
    peer->cma.is_offered = pid != 0;
    if (self->cma_proof != NULL && is_here && pid > 0 && pid <= INT32_MAX && at != 0 &&
        pid != (uint64_t)getpid()) {
        peer->cma.pid = (int32_t)pid;
        peer->cma.proof = at;
        peer->cma.doors_fd = doors <= INT32_MAX ? (int32_t)doors : -1;
        peer->cma.state = UCX_CMA_UNKNOWN;
    }
}

enum vouch {
    VOUCH_GOOD,
    VOUCH_GONE,   /* the process, its program or its agent */
    VOUCH_REFUSED /* by the kernel */
};

static bool is_refusal(int error) {
    return error == EPERM || error == EACCES || error == ENOSYS;
}

static enum vouch vouch(struct ucx_peer *peer, uint64_t now) {
    uint8_t id[sizeof peer->local_id];
    struct iovec here = {id, sizeof id}, there = {(void *)(uintptr_t)peer->cma.proof, sizeof id};
    ssize_t n = process_vm_readv(peer->cma.pid, &here, 1, &there, 1, 0);

    if (n == (ssize_t)sizeof id && memcmp(id, peer->local_id, sizeof id) == 0) {
        __atomic_store_n(&peer->cma.vouched_ns, now, __ATOMIC_RELAXED);
        return VOUCH_GOOD;
    }
    return n < 0 && is_refusal(errno) ? VOUCH_REFUSED : VOUCH_GONE;
}

bool ucx_cma_can(struct ucx_peer *peer) {
    struct ucx_instance *self = peer->self;
    uint32_t state = __atomic_load_n(&peer->cma.state, __ATOMIC_ACQUIRE);

    if (state == UCX_CMA_UNKNOWN) {
        enum vouch answer = vouch(peer, clock_now_ns());

        if (answer == VOUCH_GOOD) {
            ucx_doors_map(peer);
        } else if (answer == VOUCH_REFUSED) {
            peer->cma.refusal = errno;
        }
        state = answer == VOUCH_GOOD ? UCX_CMA_YES : UCX_CMA_NO;
        __atomic_store_n(&peer->cma.state, state, __ATOMIC_RELEASE);
        if (state == UCX_CMA_NO) {
            self->host->log(self->host->ctx, NIXL_LOG_DEBUG,
                            "agent \"%s\" is on this host, but its memory cannot be reached by the kernel's "
                            "copies (%s): UCX carries its bytes",
                            peer->name,
                            answer == VOUCH_REFUSED ? strerror(peer->cma.refusal)
                                                    : "another process is there");
        }
    }
    return state == UCX_CMA_YES;
}

bool ucx_cma_is_gone(struct ucx_peer *peer) {
    uint64_t now;

    if (__atomic_load_n(&peer->cma.state, __ATOMIC_ACQUIRE) != UCX_CMA_YES) {
        return false;
    }
    now = clock_now_ns();
    return now - __atomic_load_n(&peer->cma.vouched_ns, __ATOMIC_RELAXED) > CMA_VOUCH_NS &&
           vouch(peer, now) == VOUCH_GONE;
}

/* ---- copying ---- */

struct batch {
    struct iovec local[CMA_VECTORS], remote[CMA_VECTORS];
    unsigned locals, remotes;
    uint64_t bytes;
    struct ucx_place end;
};

/* There is room for one more. */
static void vector_add(struct iovec *vectors, unsigned *count, uint64_t at, uint64_t len, bool merges) {
    struct iovec *next = &vectors[*count];

    if (merges && *count > 0 && (uintptr_t)next[-1].iov_base + next[-1].iov_len == at) {
        next[-1].iov_len += len;
        return;
    }
    *next = (struct iovec){(void *)(uintptr_t)at, len};
    (*count)++;
}

/* The next blocks of a request's list, from xfer->place on. */
static void batch_make(const struct ucx_xfer *xfer, uint64_t max_bytes, unsigned max_vectors,
                       struct batch *batch) {
    const struct nixl_request *request = xfer->request;
    bool merges = (request->flags & NIXL_REQUEST_KEEP_LISTS) == 0;
    struct ucx_place *place = &batch->end;

    batch->locals = batch->remotes = 0;
    batch->bytes = 0;
    batch->end = xfer->place;
    for (unsigned i = 0; i < CMA_BLOCKS && !ucx_place_is(place, &xfer->limit) && batch->bytes < max_bytes;
         i++) {
        const struct nixl_run *run = &request->runs[place->run];
        struct ucx_span span = ucx_run_span(run, request->flags);
        bool is_last = place->run == xfer->limit.run && place->block == xfer->limit.block;
        uint64_t len = (is_last ? xfer->limit.offset : span.len) - place->offset;

        len = len < max_bytes - batch->bytes ? len : max_bytes - batch->bytes;
        if (len != 0) {
            if (batch->locals == max_vectors || batch->remotes == max_vectors) {
                break;
            }
            vector_add(batch->local, &batch->locals,
                       run->local + place->block * run->local_stride + place->offset, len, merges);
            vector_add(batch->remote, &batch->remotes,
                       run->remote + place->block * run->remote_stride + place->offset, len, merges);
            batch->bytes += len;
        }
        place->offset += len;
        if (place->offset == span.len) {
            place->offset = 0;
            if (++place->block == span.count) {
                place->block = 0;
                place->run++;
            }
        }
    }
}

static enum ucx_copy fail_gone(struct ucx_xfer *xfer, struct ucx_copy_failure *failure) {
    struct ucx_instance *self = xfer->self;

    /* What UCX has of the connection ends with it. */
    ucx_peer_lost(xfer->peer, "its process has ended, or its agent was destroyed");
    self->host->wake(self->host->ctx);
    failure->status = xfer->peer->is_torn_down ? NIXL_ERR_CANCELED : NIXL_ERR_REMOTE_DISCONNECT;
    (void)snprintf(failure->text, sizeof failure->text, "%s", xfer->peer->words);
    return UCX_COPY_FAILED;
}

static enum ucx_copy refuse(struct ucx_xfer *xfer) {
    struct ucx_instance *self = xfer->self;

    if (__atomic_exchange_n(&xfer->peer->cma.state, UCX_CMA_NO, __ATOMIC_ACQ_REL) == UCX_CMA_YES) {
        self->host->log(
            self->host->ctx, NIXL_LOG_DEBUG,
            "the kernel does not let this process copy to agent \"%s\" any more: UCX carries its bytes",
            xfer->peer->name);
    }
    return UCX_COPY_REFUSED;
}

/* Looks at the doors of all regions that blocks from `from` up to `end` lie in; the first that is closed fails the request. */
static bool are_open(struct ucx_xfer *xfer, const struct ucx_place *from, const struct ucx_place *end,
                     struct ucx_copy_failure *failure) {
    const struct nixl_request *request = xfer->request;
    const struct ucx_key *last = NULL;

    for (size_t i = from->run;
         i < request->run_count && (i < end->run || (i == end->run && end->block + end->offset != 0)); i++) {
        struct ucx_key *key = request->runs[i].remote_key;

        if (key == last || ucx_door_is_open(xfer->peer, key)) {
            last = key;
            continue;
        }
        failure->status = NIXL_ERR_NOT_FOUND;
        xfer->failed_run = i;
        xfer->failed_block = i == from->run ? from->block : 0;
        (void)snprintf(failure->text, sizeof failure->text,
                       "agent \"%.64s\" has deregistered the region at 0x%" PRIx64 " (%" PRIu64 " bytes)",
                       xfer->peer->name, key->addr, key->region_len);
        return false;
    }
    return true;
}

/* The kernel moved nothing. */
static enum ucx_copy fail_at_place(struct ucx_xfer *xfer, int error, struct ucx_copy_failure *failure) {
    const struct nixl_run *run = &xfer->request->runs[xfer->place.run];
    uint64_t block = xfer->place.offset >= run->len ? xfer->place.offset / run->len : xfer->place.block;

    if (is_refusal(error)) {
        return refuse(xfer);
    }
    if (error == ESRCH || vouch(xfer->peer, clock_now_ns()) == VOUCH_GONE) {
        return fail_gone(xfer, failure);
    }
    if (!are_open(xfer, &xfer->place, &(struct ucx_place){.run = xfer->place.run, .offset = 1}, failure)) {
        return UCX_COPY_FAILED;
    }
    failure->status = NIXL_ERR_BACKEND;
    failure->os_error = error;
    xfer->failed_run = xfer->place.run;
    xfer->failed_block = block;
    (void)snprintf(failure->text, sizeof failure->text,
                   "%" PRIu64 " bytes at 0x%" PRIx64 " here and 0x%" PRIx64
                   " of agent \"%.64s\" cannot be copied: %s",
                   run->len, run->local + block * run->local_stride, run->remote + block * run->remote_stride,
                   xfer->peer->name, error == EFAULT ? "one of them is not mapped" : strerror(error));
    return UCX_COPY_FAILED;
}

/* One call of the kernel. */
static enum ucx_copy copy_batch(struct ucx_xfer *xfer, uint64_t max_bytes, unsigned max_vectors,
                                struct ucx_copy_failure *failure) {
    struct nixl_request *request = xfer->request;
    pid_t pid = xfer->peer->cma.pid;
    struct batch batch;
    ssize_t n = 0;

    batch_make(xfer, max_bytes, max_vectors, &batch);
    if (request->op == NIXL_WRITE && !are_open(xfer, &xfer->place, &batch.end, failure)) {
        return UCX_COPY_FAILED;
    }
    if (batch.bytes != 0) {
        n = request->op == NIXL_WRITE
                ? process_vm_writev(pid, batch.local, batch.locals, batch.remote, batch.remotes, 0)
                : process_vm_readv(pid, batch.local, batch.locals, batch.remote, batch.remotes, 0);
        if (n <= 0) {
            return fail_at_place(xfer, n < 0 ? errno : EFAULT, failure);
        }
        if ((uint64_t)n < batch.bytes) {
            /* Up to a block that cannot be reached: the next call begins with it, and says why. */
            batch_make(xfer, (uint64_t)n, max_vectors, &batch);
        }
        /* What was read while they were open is good; what was written may have landed in memory that is somebody else's by
         * now, and nobody should count on it. The kernel lets go of each page by a full barrier, so its copy comes before
         * these loads. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (!are_open(xfer, &xfer->place, &batch.end, failure)) {
            return UCX_COPY_FAILED;
        }
    }
    xfer->place = batch.end;
    xfer->done += (uint64_t)n;
    __atomic_fetch_add(&request->done_bytes, (uint64_t)n, __ATOMIC_RELAXED);
    return ucx_place_is(&xfer->place, &xfer->limit) ? UCX_COPY_DONE : UCX_COPY_MORE;
}

enum ucx_copy ucx_cma_some(struct ucx_xfer *xfer, bool in_post, struct ucx_copy_failure *failure) {
    struct ucx_peer *peer = xfer->peer;
    uint64_t now = clock_now_ns(), end = now + CMA_TURN_NS;
    enum ucx_copy outcome;

    if (ucx_peer_is(peer) == UCX_PEER_FAILED) {
        return fail_gone(xfer, failure);
    }
    do {
        if (now - __atomic_load_n(&peer->cma.vouched_ns, __ATOMIC_RELAXED) > CMA_VOUCH_NS) {
            switch (vouch(peer, now)) {
            case VOUCH_GONE:
                return fail_gone(xfer, failure);
            case VOUCH_REFUSED:
                return refuse(xfer);
            case VOUCH_GOOD:
                break;
            }
        }
        outcome = copy_batch(xfer, in_post ? CMA_POST_BYTES : CMA_BYTES,
                             in_post ? CMA_POST_VECTORS : CMA_VECTORS, failure);
    } while (outcome == UCX_COPY_MORE && !ucx_xfer_is_stopping(xfer) && (now = clock_now_ns()) < end);
    return outcome;
}
