/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer.h"
#include "stop.h"

#include "base/clock.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_MS 2000 /* after Ctrl-C: how long requests in flight may still take */
#define RELEASE_MS 5000
#define ROUNDS_UNTIL_YIELD 4096
#define ROOM ((size_t)1 << 20) /* samples of a kind that there is room for at the start */

/* What lanes that run together look at: an error of one ends them all. */
enum {
    GO_WAIT,
    GO_RUN,
    GO_HOME
};

static bool lane_fail(struct lane *lane, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));

static bool lane_fail(struct lane *lane, const char *fmt, ...) {
    va_list args;

    if (lane->error[0] == '\0') {
        va_start(args, fmt);
        vsnprintf(lane->error, sizeof lane->error, fmt, args);
        va_end(args);
    }
    return false;
}

bool lane_prepare(struct lane *lane) {
    size_t room;

    lane->slots = calloc(lane->depth, sizeof *lane->slots);
    if (lane->slots == NULL) {
        return false;
    }
    for (unsigned s = 0; s < lane->depth; s++) {
        struct lane_slot *slot = &lane->slots[s];

        slot->xfers = calloc(lane->part_count, sizeof *slot->xfers);
        slot->local_lists = calloc(lane->part_count, sizeof *slot->local_lists);
        slot->remote_lists = calloc(lane->part_count, sizeof *slot->remote_lists);
        if (slot->xfers == NULL || slot->local_lists == NULL || slot->remote_lists == NULL) {
            return false;
        }
    }
    /* Beyond that many they grow while they are taken, by half at a time. */
    room = lane->iterations < ROOM ? (size_t)lane->iterations : ROOM;
    return samples_reserve(&lane->prep, lane->recreate ? room : lane->depth) &&
           samples_reserve(&lane->post, room) && samples_reserve(&lane->tx, room);
}

/* The piece of a part that a slot transfers. */
static struct nixl_list piece(const struct lane *lane, const struct lane_slot *slot, size_t part,
                              bool remote) {
    const struct lane_part *p = &lane->parts[part];
    size_t per_slot = p->count / lane->depth;
    size_t at = (size_t)(slot - lane->slots) * per_slot;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, p->local + at, per_slot);

    if (remote) {
        list.mem = p->remote_mem;
        list.items = p->remote + at;
    }
    return list;
}

static struct nixl_options with_backend(const struct lane *lane) {
    struct nixl_options options = NIXL_OPTIONS_INIT;

    options.backends = &lane->backend;
    options.backend_count = 1;
    return options;
}

static bool is_storage_part(const struct lane *lane, size_t part) {
    return lane->parts[part].remote_mem != DRAM_SEG;
}

static bool slot_register(struct lane *lane, struct lane_slot *slot) {
    struct nixl_options options = with_backend(lane);

    for (size_t i = 0; i < lane->part_count; i++) {
        struct nixl_list local = piece(lane, slot, i, false);
        struct nixl_list remote = piece(lane, slot, i, true);

        if (nixl_mem_register(lane->agent, &local, &options) != NIXL_SUCCESS ||
            (is_storage_part(lane, i) && nixl_mem_register(lane->agent, &remote, &options) != NIXL_SUCCESS)) {
            return lane_fail(lane, "register: %s", nixl_error());
        }
    }
    slot->is_registered = true;
    return true;
}

static bool slot_deregister(struct lane *lane, struct lane_slot *slot) {
    struct nixl_options options = with_backend(lane);

    slot->is_registered = false;
    for (size_t i = 0; i < lane->part_count; i++) {
        struct nixl_list local = piece(lane, slot, i, false);
        struct nixl_list remote = piece(lane, slot, i, true);

        if (nixl_mem_deregister(lane->agent, &local, &options) != NIXL_SUCCESS ||
            (is_storage_part(lane, i) &&
             nixl_mem_deregister(lane->agent, &remote, &options) != NIXL_SUCCESS)) {
            return lane_fail(lane, "deregister: %s", nixl_error());
        }
    }
    return true;
}

static bool keep(struct lane *lane, struct samples *samples, uint64_t ns) {
    return !lane->is_measured || samples_add(samples, ns) ||
           lane_fail(lane, "out of memory for %zu samples", samples->count);
}

static bool part_make(struct lane *lane, struct lane_slot *slot, size_t i) {
    struct nixl_options options = with_backend(lane);
    struct nixl_list local = piece(lane, slot, i, false);
    struct nixl_list remote = piece(lane, slot, i, true);
    nixl_status_t status;

    if (lane->notify) {
        options.notif = LANE_NOTIFICATION;
        options.notif_len = strlen(LANE_NOTIFICATION);
        options.has_notif = true;
    }
    if (!lane->prepared) {
        status = nixl_xfer_create(lane->agent, lane->op, &local, &remote, lane->parts[i].peer, &options,
                                  &slot->xfers[i]);
        return status == NIXL_SUCCESS || lane_fail(lane, "create a request: %s", nixl_error());
    }
    if (slot->local_lists[i] == NULL) {
        status = nixl_dlist_prepare(lane->agent, NULL, &local, &options, &slot->local_lists[i]);
        if (status == NIXL_SUCCESS) {
            status = nixl_dlist_prepare(lane->agent, lane->parts[i].peer, &remote, &options,
                                        &slot->remote_lists[i]);
        }
        if (status != NIXL_SUCCESS) {
            return lane_fail(lane, "prepare a list: %s", nixl_error());
        }
    }
    status = nixl_xfer_make(lane->agent, lane->op, slot->local_lists[i], NULL, slot->remote_lists[i], NULL,
                            local.count, &options, &slot->xfers[i]);
    return status == NIXL_SUCCESS || lane_fail(lane, "make a request: %s", nixl_error());
}

/* Makes what the slot has not: registrations, requests. The time is a prep sample. */
static bool slot_make(struct lane *lane, struct lane_slot *slot) {
    uint64_t start = clock_now_ns();

    if (lane->reregister && !slot->is_registered && !slot_register(lane, slot)) {
        return false;
    }
    for (size_t i = 0; i < lane->part_count; i++) {
        if (slot->xfers[i] == NULL && !part_make(lane, slot, i)) {
            return false;
        }
    }
    return keep(lane, &lane->prep, clock_now_ns() - start);
}

/* A request that has not ended is cancelled; false when even that does not end it. */
static bool release(struct lane *lane, struct nixl_xfer **xfer) {
    uint64_t deadline = clock_deadline_ms(clock_coarse_ns(), RELEASE_MS);

    while (nixl_xfer_release(*xfer) == NIXL_ERR_REPOST_ACTIVE) {
        if (clock_coarse_ns() > deadline) {
            return lane_fail(lane, "a request did not end within %d s of its cancellation",
                             RELEASE_MS / 1000);
        }
        nixl_agent_progress(lane->agent);
    }
    *xfer = NULL;
    return true;
}

/* Prepared lists stay for the next request: it is the making of one from them that is to be measured. */
static bool slot_unmake(struct lane *lane, struct lane_slot *slot) {
    for (size_t i = 0; i < lane->part_count; i++) {
        if (slot->xfers[i] != NULL && !release(lane, &slot->xfers[i])) {
            return false;
        }
    }
    return !slot->is_registered || slot_deregister(lane, slot);
}

static void slot_end(struct lane *lane, struct lane_slot *slot) {
    slot_unmake(lane, slot);
    for (size_t i = 0; i < lane->part_count; i++) {
        nixl_dlist_release(slot->local_lists[i]);
        nixl_dlist_release(slot->remote_lists[i]);
        slot->local_lists[i] = slot->remote_lists[i] = NULL;
    }
    slot->in_flight = false;
}

/* The request's own words, which begin with its status; those of the failed call where it has none. */
static bool request_failed(struct lane *lane, const struct nixl_xfer *xfer, nixl_status_t status,
                           const char *what) {
    const char *words = nixl_xfer_error(xfer);

    if (words[0] != '\0') {
        return lane_fail(lane, "%s: %s", what, words);
    }
    return lane_fail(lane, "%s: %s: %s", what, nixl_status_string(status), nixl_error());
}

static bool slot_post(struct lane *lane, struct lane_slot *slot) {
    uint64_t start = clock_now_ns();

    slot->pending = 0;
    slot->in_flight = true;
    for (size_t i = 0; i < lane->part_count; i++) {
        nixl_status_t status = nixl_xfer_post(slot->xfers[i], NULL);

        if (status < 0) {
            return request_failed(lane, slot->xfers[i], status, "post");
        }
        slot->pending += status == NIXL_IN_PROG;
    }
    slot->posted_ns = clock_now_ns();
    return keep(lane, &lane->post, slot->posted_ns - start);
}

/* Looks once at a slot in flight; *is_done when all its requests are done. */
static bool slot_look(struct lane *lane, struct lane_slot *slot, bool *is_done) {
    unsigned pending = 0;

    for (size_t i = 0; slot->pending != 0 && i < lane->part_count; i++) {
        nixl_status_t status = nixl_xfer_poll(slot->xfers[i]);

        if (status < 0) {
            return request_failed(lane, slot->xfers[i], status, "transfer");
        }
        pending += status == NIXL_IN_PROG;
    }
    slot->pending = pending;
    *is_done = pending == 0;
    return true;
}

static void note_transport(struct lane *lane, const struct nixl_xfer *xfer) {
    if (lane->transport[0] == '\0') {
        snprintf(lane->transport, sizeof lane->transport, "%s", nixl_xfer_transport(xfer));
    }
}

static void lane_drain(struct lane *lane) {
    uint64_t deadline = clock_deadline_ms(clock_coarse_ns(), DRAIN_MS);
    bool is_done;

    for (unsigned s = 0; s < lane->depth; s++) {
        struct lane_slot *slot = &lane->slots[s];

        is_done = false;
        while (slot->in_flight && !is_done && clock_coarse_ns() < deadline) {
            if (!slot_look(lane, slot, &is_done)) {
                return;
            }
        }
        if (slot->in_flight && is_done) {
            slot->in_flight = false;
            lane->done++;
        }
    }
}

static bool is_over(const struct lane *lane) {
    return stop_requested() || (lane->go != NULL && __atomic_load_n(lane->go, __ATOMIC_RELAXED) == GO_HOME);
}

static bool lane_loop(struct lane *lane) {
    unsigned depth = lane->iterations < lane->depth ? (unsigned)lane->iterations : lane->depth;
    uint64_t issued = 0;
    unsigned idle = 0;

    for (unsigned s = 0; s < depth; s++, issued++) {
        if (!slot_make(lane, &lane->slots[s]) || !slot_post(lane, &lane->slots[s])) {
            return false;
        }
    }
    if (depth != 0) {
        note_transport(lane, lane->slots[0].xfers[0]);
    }
    while (lane->done < lane->iterations && !is_over(lane)) {
        /* A round that takes long waits for somebody else: who may need this processor. */
        if (lane->yields || (++idle > ROUNDS_UNTIL_YIELD && idle % 64 == 0)) {
            sched_yield();
        }
        for (unsigned s = 0; s < depth; s++) {
            struct lane_slot *slot = &lane->slots[s];
            bool is_done = false;

            if (!slot->in_flight) {
                continue;
            }
            if (!slot_look(lane, slot, &is_done)) {
                return false;
            }
            if (!is_done) {
                continue;
            }
            idle = 0;
            if (!keep(lane, &lane->tx, clock_now_ns() - slot->posted_ns)) {
                return false;
            }
            slot->in_flight = false;
            lane->done++;
            __atomic_fetch_add(lane->progress, 1, __ATOMIC_RELAXED);
            if (issued >= lane->iterations) {
                continue;
            }
            if (lane->recreate && (!slot_unmake(lane, slot) || !slot_make(lane, slot))) {
                return false;
            }
            if (!slot_post(lane, slot)) {
                return false;
            }
            issued++;
        }
    }
    return true;
}

static void lane_body(void *arg) {
    struct lane *lane = arg;

    while (lane->go != NULL && __atomic_load_n(lane->go, __ATOMIC_ACQUIRE) == GO_WAIT) {
        cpu_relax();
    }
    lane->done = 0;
    lane->start_ns = clock_now_ns();
    if (lane_loop(lane) && lane->done < lane->iterations) {
        lane_drain(lane);
    }
    lane->is_cut_short = lane->done < lane->iterations;
    lane->end_ns = clock_now_ns();
    for (unsigned s = 0; s < lane->depth; s++) {
        slot_end(lane, &lane->slots[s]);
    }
    if (lane->error[0] != '\0' && lane->go != NULL) {
        __atomic_store_n(lane->go, GO_HOME, __ATOMIC_RELAXED);
    }
}

bool lanes_run(struct lane *lanes, size_t count, uint64_t iterations, bool is_measured) {
    uint32_t go = GO_WAIT;
    bool ok = true;

    for (size_t i = 0; i < count; i++) {
        lanes[i].iterations = iterations;
        lanes[i].is_measured = is_measured;
        lanes[i].go = count > 1 ? &go : NULL;
        if (count > 1) {
            int rc = thread_start(&lanes[i].thread, "nixlbench", lane_body, &lanes[i]);

            if (rc != 0) {
                ok = lane_fail(&lanes[i], "thread: %s", strerror(rc));
                break;
            }
        }
    }
    if (count == 1) {
        lane_body(&lanes[0]);
    }
    __atomic_store_n(&go, ok ? GO_RUN : GO_HOME, __ATOMIC_RELEASE);
    for (size_t i = 0; i < count; i++) {
        thread_join(&lanes[i].thread);
        ok = ok && lanes[i].error[0] == '\0';
    }
    return ok;
}

void lane_free(struct lane *lane) {
    for (unsigned s = 0; lane->slots != NULL && s < lane->depth; s++) {
        free(lane->slots[s].xfers);
        free(lane->slots[s].local_lists);
        free(lane->slots[s].remote_lists);
    }
    free(lane->slots);
    samples_free(&lane->prep);
    samples_free(&lane->post);
    samples_free(&lane->tx);
    for (size_t i = 0; i < lane->part_count; i++) {
        free(lane->parts[i].local);
        free(lane->parts[i].remote);
    }
    free(lane->parts);
    memset(lane, 0, sizeof *lane);
}
