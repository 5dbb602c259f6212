/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transfer would take. UCX computes it for what it carries itself. For the copies of our own (within this process, and by
 * the kernel to others on this host) nobody knows, so both are measured: once in a process, when the first question comes, on
 * memory of our own, for three milliseconds at most. cost_lock is taken first and nothing under it.
 */
#include "ucx.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define PROBE_BYTES (UINT64_C(1) << 20) /* of the large copy */
#define PROBE_SMALL UINT64_C(64)        /* bytes of a small block */
#define PROBE_STEP UINT64_C(4096)       /* between small blocks: they share neither lines nor pages */
#define PROBE_BLOCKS 256u               /* so many steps fit PROBE_BYTES */
#define PROBE_ROUNDS 9u
#define PROBE_NS (3 * NS_PER_MS / 2) /* for one of the two ways: then no further round */
#define CALL_BLOCKS 512u             /* what cma.c gives the kernel at a time */
#define CALL_BYTES (UINT64_C(1) << 20)

/* Nanoseconds, of the middle round. `spread` is how far the others were from it, as a part of it. */
struct pace {
    bool is_known;
    double call, block, byte, spread;
};

/* Copies `count` blocks of `len` bytes, `step` apart. False: the kernel does not let us. */
typedef bool (*copy_fn)(unsigned char *to, unsigned char *from, uint64_t len, uint64_t step, uint64_t count);

static struct lock cost_lock;
static struct pace paces[2]; /* of memmove(), of the kernel's copies */
static bool is_measured;     /* atomic */

static bool copy_plain(unsigned char *to, unsigned char *from, uint64_t len, uint64_t step, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        memmove(to + i * step, from + i * step, len);
    }
    return true;
}

/* As cma.c does it, but between places of this process: the same walk through the pages of somebody's memory. */
static bool copy_by_kernel(unsigned char *to, unsigned char *from, uint64_t len, uint64_t step,
                           uint64_t count) {
    struct iovec here[PROBE_BLOCKS], there[PROBE_BLOCKS];

    for (uint64_t i = 0; i < count; i++) {
        here[i] = (struct iovec){from + i * step, len};
        there[i] = (struct iovec){to + i * step, len};
    }
    return process_vm_writev(getpid(), here, count, there, count, 0) == (ssize_t)(count * len);
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double middle(double *times, unsigned count) {
    qsort(times, count, sizeof times[0], compare);
    return times[count / 2];
}

/* Time of one copy; below 0: refused. */
static double clocked(copy_fn copy, unsigned char *memory, uint64_t len, uint64_t count) {
    uint64_t start = clock_now_ns();

    return copy(memory + PROBE_BYTES, memory, len, PROBE_STEP, count) ? (double)(clock_now_ns() - start) : -1;
}

static void measure(copy_fn copy, unsigned char *memory, struct pace *pace) {
    double one[PROBE_ROUNDS], many[PROBE_ROUNDS], large[PROBE_ROUNDS];
    uint64_t end = clock_now_ns() + PROBE_NS;
    unsigned rounds = 0;

    do {
        one[rounds] = clocked(copy, memory, PROBE_SMALL, 1);
        many[rounds] = clocked(copy, memory, PROBE_SMALL, PROBE_BLOCKS);
        large[rounds] = clocked(copy, memory, PROBE_BYTES, 1);
        if (one[rounds] < 0 || many[rounds] < 0 || large[rounds] < 0) {
            return;
        }
        rounds++;
    } while (rounds < PROBE_ROUNDS && clock_now_ns() < end);
    pace->call = middle(one, rounds);
    pace->block = middle(many, rounds) / (double)PROBE_BLOCKS;
    pace->byte = middle(large, rounds) / (double)PROBE_BYTES;
    /* Sorted: the slower half, without the slowest where there are enough (somebody else had the processor). */
    pace->spread = large[rounds > 4 ? rounds - 2 : rounds - 1] / large[rounds / 2] - 1;
    pace->is_known = true;
}

static void measure_once(void) {
    void *memory;

    if (__atomic_load_n(&is_measured, __ATOMIC_ACQUIRE)) {
        return;
    }
    lock_take(&cost_lock);
    if (!is_measured) {
        memory = mmap(NULL, 2 * PROBE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (memory != MAP_FAILED) {
            measure(copy_plain, memory, &paces[0]);
            measure(copy_by_kernel, memory, &paces[1]);
            (void)munmap(memory, 2 * PROBE_BYTES);
            __atomic_store_n(&is_measured, true, __ATOMIC_RELEASE);
        }
    }
    lock_drop(&cost_lock);
}

static uint64_t whole_ns(double ns) {
    return ns < 1e18 ? (uint64_t)ns + 1 : UINT64_C(1000000000000000000);
}

static nixl_status_t cannot_tell(const struct ucx_instance *self) {
    return self->host->fail(self->host->ctx, NIXL_ERR_NOT_SUPPORTED,
                            "UCX cannot tell what this transfer takes");
}

static nixl_status_t copy_cost(const struct ucx_instance *self, const struct nixl_request *request,
                               bool by_kernel, struct nixl_cost *cost) {
    const struct pace *pace = &paces[by_kernel];
    uint64_t calls = 1;
    double ns, doubt;

    measure_once();
    if (!__atomic_load_n(&is_measured, __ATOMIC_ACQUIRE) || !pace->is_known) {
        return cannot_tell(self);
    }
    if (by_kernel) {
        calls += (request->block_count - 1) / CALL_BLOCKS;
        calls = calls > request->total_bytes / CALL_BYTES ? calls : request->total_bytes / CALL_BYTES;
    }
    ns = pace->call * (double)calls + pace->block * (double)(request->block_count - 1) +
         pace->byte * (double)request->total_bytes;
    /* Half as much at least: whose caches the bytes are in, and who else copies, shows only then. What was not tried is in doubt
     * wholly: more than that does not fit the caches. */
    doubt = request->total_bytes > PROBE_BYTES ? 1.0 : 0.5;
    cost->method = NIXL_COST_MEASURED;
    cost->duration_ns = whole_ns(ns);
    cost->margin_ns = whole_ns(ns * (pace->spread > doubt ? pace->spread : doubt));
    return NIXL_SUCCESS;
}

/* UCX computes from what it knows of the lanes' devices, and tells no error: so all of it is in doubt. */
static nixl_status_t ucx_own_cost(struct ucx_instance *self, const struct nixl_request *request,
                                  struct nixl_cost *cost) {
    const struct ucx_xfer *xfer = request->state;
    double seconds = 0;
    nixl_status_t status;

    if (self->ucx->ep_evaluate_perf == NULL) {
        return cannot_tell(self);
    }
    ucx_worker_enter(xfer->home);
    status = ucx_end_connect(xfer->end);
    for (size_t i = 0; i < request->run_count && status == NIXL_SUCCESS; i++) {
        struct ucx_span span = ucx_run_span(&request->runs[i], request->flags);
        ucp_ep_evaluate_perf_param_t param = {.field_mask = UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE,
                                              .message_size = span.len};
        ucp_ep_evaluate_perf_attr_t attr = {.field_mask = UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME};

        if (self->ucx->ep_evaluate_perf(xfer->end->ep, &param, &attr) != UCS_OK) {
            status = cannot_tell(self);
        } else {
            seconds += attr.estimated_time * (double)span.count;
        }
    }
    ucx_worker_leave(xfer->home);
    if (status == NIXL_SUCCESS) {
        cost->method = NIXL_COST_ANALYTICAL_BACKEND;
        cost->duration_ns = whole_ns(seconds * 1e9);
        cost->margin_ns = cost->duration_ns;
    }
    return status;
}

nixl_status_t ucx_cost(void *instance, const struct nixl_request *request, struct nixl_cost *cost) {
    struct ucx_instance *self = instance;
    const struct ucx_xfer *xfer = request->state;

    if (ucx_is_inherited(self)) {
        return ucx_fail_inherited(self);
    }
    if (xfer->peer == NULL || xfer->peer->is_local) {
        return copy_cost(self, request, false, cost);
    }
    return xfer->by_cma ? copy_cost(self, request, true, cost) : ucx_own_cost(self, request, cost);
}
