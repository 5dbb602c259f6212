/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transfer would take, where its backend cannot tell: estimated from the transfers of the same way (backend, peer,
 * direction) that have been timed. A request is timed in its first runs, so that one that is posted over and over pays no
 * clock. Until a way has moved something there is only what its backend's rank says of its kind, and the answer says so.
 *
 * The estimate is  duration = start + size / speed,  fitted to the timed transfers by least squares of the relative
 * error, so that small transfers count as much as large ones; old ones fade. A block counts as if it had COST_BLOCK bytes
 * more. Each record has a lock of its own, the innermost of all; who finds it held drops his sample.
 */
#include "xfer.h"

#include <stdlib.h>

#define COST_BLOCK 4096.0
#define COST_FADE 0.97   /* what a transfer counts after the next one: some thirty are remembered */
#define COST_RUNS 4      /* of a request are timed */
#define COST_EVEN 1e-6   /* below, sizes do not differ enough to tell start from speed */
#define COST_MAX_NS 1e18 /* thirty years */

/* Sums over the transfers, of weight COST_FADE^age, with y their time and x their size. */
struct cost_fit {
    double n, p, q, pp, pq, qq; /* 1, 1/y, x/y, their squares and product */
    double least, most;         /* sizes seen */
};

struct cost_record {
    struct cost_record *next;
    unsigned slot; /* of the backend */
    struct lock lock;
    struct cost_fit fits[2]; /* by nixl_xfer_op_t: READ, WRITE */
};

static double size_of(const struct nixl_request *request) {
    return (double)request->total_bytes + COST_BLOCK * (double)request->block_count;
}

/* ---- records ---- */

static struct cost_record **records_of(struct nixl_xfer *xfer) {
    return xfer->peer != NULL ? &xfer->peer->costs : &xfer->agent->costs;
}

/* The way's record, made when there is none; NULL without memory. */
static __attribute__((noinline)) struct cost_record *record_get(struct cost_record **records, unsigned slot) {
    struct cost_record *first = __atomic_load_n(records, __ATOMIC_ACQUIRE);
    struct cost_record *made = NULL;

    for (;;) {
        for (struct cost_record *record = first; record != NULL; record = record->next) {
            if (record->slot == slot) {
                free(made);
                return record;
            }
        }
        if (made == NULL && (made = calloc(1, sizeof *made)) == NULL) {
            return NULL;
        }
        made->slot = slot;
        made->next = first;
        if (__atomic_compare_exchange_n(records, &first, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            return made;
        }
    }
}

void cost_free(struct cost_record *records) {
    while (records != NULL) {
        struct cost_record *next = records->next;

        free(records);
        records = next;
    }
}

void cost_begin(struct nixl_xfer *xfer) {
    struct cost_record **records = records_of(xfer);
    struct cost_record *record = __atomic_load_n(records, __ATOMIC_ACQUIRE);
    unsigned slot = xfer->backend->slot;

    if (__builtin_expect(record == NULL || record->slot != slot, 0)) {
        record = record_get(records, slot);
    }
    xfer->cost = record;
    if (record != NULL) {
        xfer->runs_to_time = COST_RUNS;
        xfer->is_timed = true;
    }
}

/* ---- what was seen ---- */

static void fit_add(struct cost_fit *fit, double size, double ns) {
    double p = 1 / ns;
    double q = size / ns;

    fit->n = fit->n * COST_FADE + 1;
    fit->p = fit->p * COST_FADE + p;
    fit->q = fit->q * COST_FADE + q;
    fit->pp = fit->pp * COST_FADE + p * p;
    fit->pq = fit->pq * COST_FADE + p * q;
    fit->qq = fit->qq * COST_FADE + q * q;
    fit->least = fit->most == 0 || size < fit->least ? size : fit->least;
    fit->most = size > fit->most ? size : fit->most;
}

void cost_note(struct nixl_xfer *xfer, uint64_t start_ns, uint64_t end_ns) {
    if (xfer->runs_to_time == 0) {
        return;
    }
    if (lock_try(&xfer->cost->lock)) {
        fit_add(&xfer->cost->fits[xfer->request.op == NIXL_WRITE], size_of(&xfer->request),
                end_ns > start_ns ? (double)(end_ns - start_ns) : 1);
        lock_drop(&xfer->cost->lock);
    }
    if (--xfer->runs_to_time == 0) {
        xfer->is_timed = xfer->agent->telemetry;
    }
}

/* ---- what is to be expected ---- */

static void cost_write(struct nixl_cost *cost, enum nixl_cost_method method, double ns, double doubt) {
    double margin = ns * doubt;

    cost->method = method;
    cost->duration_ns = ns < COST_MAX_NS ? (uint64_t)ns + 1 : (uint64_t)COST_MAX_NS;
    cost->margin_ns = margin < COST_MAX_NS ? (uint64_t)margin + 1 : (uint64_t)COST_MAX_NS;
}

/* By Newton's way, so that the library needs no mathematics beside it. */
static double root(double x) {
    double r = x > 1 ? x : 1;

    for (int i = 0; i < 60; i++) {
        r = (r + x / r) / 2;
    }
    return r;
}

/* From a fit that has seen something. */
static void fit_tell(const struct cost_fit *fit, double size, struct nixl_cost *cost) {
    double det = fit->pp * fit->qq - fit->pq * fit->pq;
    double start = 0;
    double byte = fit->q / fit->qq;
    double left;
    double doubt;

    if (det > COST_EVEN * fit->pp * fit->qq) {
        double a = (fit->p * fit->qq - fit->q * fit->pq) / det;
        double b = (fit->q * fit->pp - fit->p * fit->pq) / det;

        if (a >= 0 && b >= 0) {
            start = a;
            byte = b;
        } else if (b < 0) { /* larger ones took no longer */
            start = fit->p / fit->pp;
            byte = 0;
        }
    }
    /* Mean square of the relative error: sum (1 - start/y - byte x/y)^2. */
    left = fit->n - 2 * (start * fit->p + byte * fit->q) + start * start * fit->pp +
           2 * start * byte * fit->pq + byte * byte * fit->qq;
    doubt = left > 0 ? root(left / fit->n) : 0;
    /* A few are no measure of their scatter, and sizes not seen yet may be anything. */
    doubt += 1 / fit->n;
    if (size < fit->least || size > fit->most) {
        doubt = doubt > 1 ? doubt : 1;
    }
    cost_write(cost, NIXL_COST_MEASURED, start + byte * size, doubt);
}

/* By the kind of backend alone: start in ns, bytes a ns. The right order of size. */
static void rank_tell(uint32_t rank, double size, struct nixl_cost *cost) {
    static const struct {
        uint32_t rank;
        double start, speed;
    } kinds[] = {
        {NIXL_RANK_MEMORY, 1e3, 8},
        {NIXL_RANK_RDMA, 5e3, 10},
        {NIXL_RANK_NETWORK, 50e3, 1},
        {UINT32_MAX, 100e3, 1},
    };
    unsigned kind = 0;

    while (rank > kinds[kind].rank) {
        kind++;
    }
    cost_write(cost, NIXL_COST_DECLARED, kinds[kind].start + size / kinds[kind].speed, 1);
}

void cost_tell(const struct nixl_xfer *xfer, struct nixl_cost *cost) {
    struct nixl_backend *backend = xfer->backend;
    struct cost_fit fit = {0};
    double size = size_of(&xfer->request);

    /* From now on its requests are timed. */
    __atomic_store_n(&backend->is_timed, true, __ATOMIC_RELAXED);
    if (xfer->cost != NULL) {
        lock_take(&xfer->cost->lock);
        fit = xfer->cost->fits[xfer->request.op == NIXL_WRITE];
        lock_drop(&xfer->cost->lock);
    }
    if (fit.n > 0) {
        fit_tell(&fit, size, cost);
    } else {
        rank_tell(backend->instance.rank, size, cost);
    }
}
