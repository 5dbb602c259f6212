/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of bench-core. A sample repeats a call often enough for the clock and returns the cost of one, or
 * of one descriptor. What is measured is the library's front, linked as programs link it.
 *
 * The reference's figures were measured on a 2-core x86-64 virtual machine with a no-op backend in the same
 * manner.
 */
#include "bench.h"
#include "sizes.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 256u /* bytes of a descriptor */
#define STEP 512u  /* from one to the next */
#define BASE UINT64_C(0x100000000)
#define MANY 100000u /* descriptors in the large list */
#define REGIONS 10000u
#define SCATTER 4096u
#define BLOB_REGIONS 50000u
#define NOTE "a notification of 33 bytes, so..."
#define NOTE_LEN 33u

/*
 * Agents of one mode:
 *   one    one large region, lists of it
 *   cells  10,000 regions of a block each
 *   blank  registrations come and go
 *   blobs  50,000 regions, whose metadata is given
 *   reader loads that
 *   timed  as one, with telemetry
 */
struct setting {
    struct nixl_agent *one, *cells, *blank, *blobs, *reader, *timed;
    struct nixl_desc *row;             /* MANY blocks in ascending order */
    struct nixl_desc *shuffled;        /* the first REGIONS of them, shuffled */
    struct nixl_desc *scatter;         /* SCATTER blocks of the large region, no two of one step */
    int32_t *indices;                  /* SCATTER indices, no two neighbours */
    struct nixl_dlist *local, *remote; /* MANY blocks */
    struct nixl_xfer *single, *noting, *timing;
    char peer[16]; /* the one agent's peer */
    void *blob;
    size_t blob_len;
    uint64_t changed;
};

static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void shuffle(struct nixl_desc *descs, size_t count) {
    for (size_t i = count - 1; i > 0; i--) {
        size_t j = random_next() % (i + 1);
        struct nixl_desc swapped = descs[i];

        descs[i] = descs[j];
        descs[j] = swapped;
    }
}

static bool ok(nixl_status_t status) {
    return status >= 0;
}

static struct nixl_list list_of(const struct nixl_desc *descs, size_t count) {
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, count);

    return list;
}

/* ---- setting up ---- */

static struct nixl_agent *agent_make(const char *name, enum nixl_sync sync, bool telemetry) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_agent *agent;
    struct nixl_backend *backend;

    config.sync = sync;
    config.capture_telemetry = telemetry;
    if (!ok(nixl_agent_create(name, &config, &agent))) {
        return NULL;
    }
    if (!ok(nixl_backend_create(agent, "NOOP", NULL, 0, &backend))) {
        nixl_agent_destroy(agent);
        return NULL;
    }
    return agent;
}

static bool enroll(struct nixl_agent *agent, const struct nixl_desc *descs, size_t count) {
    struct nixl_list list = list_of(descs, count);

    return ok(nixl_mem_register(agent, &list, NULL));
}

static bool introduce(struct nixl_agent *to, struct nixl_agent *whom) {
    void *blob;
    size_t len;
    bool done;

    if (!ok(nixl_metadata_get(whom, &blob, &len))) {
        return false;
    }
    done = ok(nixl_metadata_load(to, blob, len, NULL));
    nixl_free(blob);
    return done;
}

static bool descs_make(struct setting *s) {
    s->row = calloc(MANY, sizeof *s->row);
    s->shuffled = calloc(REGIONS, sizeof *s->shuffled);
    s->scatter = calloc(SCATTER, sizeof *s->scatter);
    s->indices = calloc(SCATTER, sizeof *s->indices);
    if (s->row == NULL || s->shuffled == NULL || s->scatter == NULL || s->indices == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < MANY; i++) {
        s->row[i] = (struct nixl_desc){BASE + i * STEP, BLOCK, 0};
    }
    memcpy(s->shuffled, s->row, REGIONS * sizeof *s->shuffled);
    shuffle(s->shuffled, REGIONS);
    for (size_t i = 0; i < SCATTER; i++) {
        s->scatter[i] = s->row[i * 24];
    }
    shuffle(s->scatter, SCATTER);
    for (size_t i = 0; i < SCATTER; i++) {
        s->indices[i] = (int32_t)((s->scatter[i].addr - BASE) / STEP);
    }
    return true;
}

static bool requests_make(struct setting *s) {
    struct nixl_desc all = {BASE, (uint64_t)MANY * STEP, 0};
    struct nixl_list large = list_of(s->row, MANY);
    struct nixl_list one = list_of(s->row, 1);
    struct nixl_options note = NIXL_OPTIONS_INIT;

    note.notif = NOTE;
    note.notif_len = NOTE_LEN;
    note.has_notif = true;
    return enroll(s->one, &all, 1) && enroll(s->timed, &all, 1) && enroll(s->reader, &all, 1) &&
           introduce(s->one, s->reader) && introduce(s->timed, s->reader) &&
           ok(nixl_dlist_prepare(s->one, NULL, &large, NULL, &s->local)) &&
           ok(nixl_dlist_prepare(s->one, s->peer, &large, NULL, &s->remote)) &&
           ok(nixl_xfer_create(s->one, NIXL_WRITE, &one, &one, s->peer, NULL, &s->single)) &&
           ok(nixl_xfer_create(s->one, NIXL_WRITE, &one, &one, s->peer, &note, &s->noting)) &&
           ok(nixl_xfer_create(s->timed, NIXL_WRITE, &one, &one, s->peer, NULL, &s->timing));
}

struct setting *setting_make(enum nixl_sync sync) {
    struct setting *s = calloc(1, sizeof *s);

    if (s == NULL) {
        return NULL;
    }
    snprintf(s->peer, sizeof s->peer, "reader");
    s->one = agent_make("one", sync, false);
    s->timed = agent_make("timed", sync, true);
    s->cells = agent_make("cells", sync, false);
    s->blank = agent_make("blank", sync, false);
    s->blobs = agent_make("blobs", sync, false);
    s->reader = agent_make("reader", sync, false);
    if (s->one == NULL || s->timed == NULL || s->cells == NULL || s->blank == NULL || s->blobs == NULL ||
        s->reader == NULL || !descs_make(s) || !requests_make(s) || !enroll(s->cells, s->row, REGIONS) ||
        !enroll(s->blobs, s->row, BLOB_REGIONS) || !ok(nixl_metadata_get(s->blobs, &s->blob, &s->blob_len))) {
        setting_free(s);
        return NULL;
    }
    return s;
}

void setting_free(struct setting *s) {
    (void)nixl_xfer_release(s->single);
    (void)nixl_xfer_release(s->noting);
    (void)nixl_xfer_release(s->timing);
    nixl_dlist_release(s->local);
    nixl_dlist_release(s->remote);
    nixl_agent_destroy(s->one);
    nixl_agent_destroy(s->timed);
    nixl_agent_destroy(s->cells);
    nixl_agent_destroy(s->blank);
    nixl_agent_destroy(s->blobs);
    nixl_agent_destroy(s->reader);
    nixl_free(s->blob);
    free(s->row);
    free(s->shuffled);
    free(s->scatter);
    free(s->indices);
    free(s);
}

/* ---- posting, polling, notifying ---- */

#define FAST 5000 /* repetitions of a call that takes nanoseconds: short samples are seldom interrupted */

static double per(uint64_t begin, double count) {
    return (double)(bench_now_ns() - begin) / count;
}

static double post_of(struct nixl_xfer *xfer) {
    uint64_t begin = bench_now_ns();

    for (int i = 0; i < FAST; i++) {
        if (nixl_xfer_post(xfer, NULL) != NIXL_SUCCESS) {
            return -1;
        }
    }
    return per(begin, FAST);
}

static double sample_post(struct setting *s) {
    return post_of(s->single);
}

static double sample_post_noting(struct setting *s) {
    return post_of(s->noting);
}

static double sample_post_timed(struct setting *s) {
    return post_of(s->timing);
}

static double sample_poll(struct setting *s) {
    uint64_t begin;

    if (nixl_xfer_post(s->single, NULL) != NIXL_SUCCESS) {
        return -1;
    }
    begin = bench_now_ns();
    for (int i = 0; i < FAST; i++) {
        if (nixl_xfer_poll(s->single) != NIXL_SUCCESS) {
            return -1;
        }
    }
    return per(begin, FAST);
}

static double sample_notify(struct setting *s) {
    uint64_t begin = bench_now_ns();

    for (int i = 0; i < FAST; i++) {
        if (nixl_notif_send(s->one, s->peer, NOTE, NOTE_LEN, NULL) < 0) {
            return -1;
        }
    }
    return per(begin, FAST);
}

static double sample_take_none(struct setting *s) {
    struct nixl_notifs *notifs;
    uint64_t begin = bench_now_ns();

    for (int i = 0; i < FAST; i++) {
        if (nixl_notif_take(s->one, NULL, &notifs) != NIXL_SUCCESS || notifs != NULL) {
            return -1;
        }
    }
    return per(begin, FAST);
}

/* ---- making requests ---- */

static double make_of(struct setting *s, const int32_t *indices, size_t count, int repeat) {
    struct nixl_xfer *xfer;
    uint64_t begin = bench_now_ns();

    for (int i = 0; i < repeat; i++) {
        if (nixl_xfer_make(s->one, NIXL_WRITE, s->local, indices, s->remote, indices, count, NULL, &xfer) !=
                NIXL_SUCCESS ||
            nixl_xfer_release(xfer) != NIXL_SUCCESS) {
            return -1;
        }
    }
    return per(begin, (double)count * repeat);
}

static double sample_make_one(struct setting *s) {
    return make_of(s, s->indices, 1, FAST);
}

static double sample_make_scattered(struct setting *s) {
    return make_of(s, s->indices, SCATTER, 5);
}

static double sample_make_all(struct setting *s) {
    return make_of(s, NULL, MANY, 1);
}

static double create_of(struct nixl_agent *agent, const char *peer, const struct nixl_desc *descs,
                        size_t count, int repeat) {
    struct nixl_list list = list_of(descs, count);
    struct nixl_xfer *xfer;
    uint64_t begin = bench_now_ns();

    for (int i = 0; i < repeat; i++) {
        if (nixl_xfer_create(agent, NIXL_WRITE, &list, &list, peer, NULL, &xfer) != NIXL_SUCCESS ||
            nixl_xfer_release(xfer) != NIXL_SUCCESS) {
            return -1;
        }
    }
    return per(begin, (double)count * repeat);
}

static double sample_create_one(struct setting *s) {
    return create_of(s->one, s->peer, s->row, 1, FAST);
}

static double sample_create_many(struct setting *s) {
    return create_of(s->one, s->peer, s->row, SCATTER, 5);
}

static double sample_create_scattered(struct setting *s) {
    return create_of(s->one, s->peer, s->scatter, SCATTER, 5);
}

static double sample_create_sorted(struct setting *s) {
    return create_of(s->cells, "cells", s->row, REGIONS, 1);
}

static double sample_create_shuffled(struct setting *s) {
    return create_of(s->cells, "cells", s->shuffled, REGIONS, 1);
}

/* ---- preparing lists ---- */

static double prepare_of(struct nixl_agent *agent, const struct nixl_desc *descs, size_t count, int repeat) {
    struct nixl_list list = list_of(descs, count);
    struct nixl_dlist *dlist;
    uint64_t begin = bench_now_ns();

    for (int i = 0; i < repeat; i++) {
        if (nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist) != NIXL_SUCCESS) {
            return -1;
        }
        nixl_dlist_release(dlist);
    }
    return per(begin, (double)count * repeat);
}

static double sample_prepare_one_region(struct setting *s) {
    return prepare_of(s->one, s->row, MANY, 2);
}

static double sample_prepare_sorted(struct setting *s) {
    return prepare_of(s->cells, s->row, REGIONS, 1);
}

static double sample_prepare_shuffled(struct setting *s) {
    return prepare_of(s->cells, s->shuffled, REGIONS, 1);
}

/* ---- registering ---- */

static bool one_by_one(struct nixl_agent *agent, const struct nixl_desc *descs, bool adds, bool descending) {
    for (size_t i = 0; i < REGIONS; i++) {
        struct nixl_list list = list_of(&descs[descending ? REGIONS - 1 - i : i], 1);

        if (!ok(adds ? nixl_mem_register(agent, &list, NULL) : nixl_mem_deregister(agent, &list, NULL))) {
            return false;
        }
    }
    return true;
}

static bool at_once(struct nixl_agent *agent, const struct nixl_desc *descs, bool adds) {
    struct nixl_list list = list_of(descs, REGIONS);

    return ok(adds ? nixl_mem_register(agent, &list, NULL) : nixl_mem_deregister(agent, &list, NULL));
}

/* Microseconds for all. */
static double us_since(uint64_t begin) {
    return (double)(bench_now_ns() - begin) / 1000;
}

static double registering(struct setting *s, const struct nixl_desc *descs, bool single, bool descending,
                          bool measures_removal) {
    uint64_t begin = bench_now_ns();
    double adding;

    if (!(single ? one_by_one(s->blank, descs, true, descending) : at_once(s->blank, descs, true))) {
        return -1;
    }
    adding = us_since(begin);
    begin = bench_now_ns();
    if (!(single && measures_removal ? one_by_one(s->blank, descs, false, descending)
                                     : at_once(s->blank, descs, false))) {
        return -1;
    }
    return measures_removal ? us_since(begin) : adding;
}

static double sample_register_list(struct setting *s) {
    return registering(s, s->row, false, false, false);
}

static double sample_register_ascending(struct setting *s) {
    return registering(s, s->row, true, false, false);
}

static double sample_register_descending(struct setting *s) {
    return registering(s, s->row, true, true, false);
}

static double sample_register_shuffled(struct setting *s) {
    return registering(s, s->shuffled, true, false, false);
}

static double sample_register_list_shuffled(struct setting *s) {
    return registering(s, s->shuffled, false, false, false);
}

static double sample_deregister_list(struct setting *s) {
    return registering(s, s->row, false, false, true);
}

static double sample_deregister_shuffled(struct setting *s) {
    return registering(s, s->shuffled, true, false, true);
}

/* ---- metadata ---- */

static double sample_blob_get(struct setting *s) {
    uint64_t begin = bench_now_ns();
    void *blob;
    size_t len;

    if (nixl_metadata_get(s->blobs, &blob, &len) != NIXL_SUCCESS) {
        return -1;
    }
    nixl_free(blob);
    return us_since(begin);
}

static double sample_blob_get_changed(struct setting *s) {
    struct nixl_desc desc = {BASE + (uint64_t)(MANY + s->changed++ % 1000) * STEP, BLOCK, 0};
    double us = -1;

    if (enroll(s->blobs, &desc, 1)) {
        struct nixl_list list = list_of(&desc, 1);

        us = sample_blob_get(s);
        if (!ok(nixl_mem_deregister(s->blobs, &list, NULL))) {
            us = -1;
        }
    }
    return us;
}

static double sample_blob_load(struct setting *s) {
    uint64_t begin;
    double us;

    (void)nixl_metadata_invalidate(s->reader, "blobs");
    begin = bench_now_ns();
    if (nixl_metadata_load(s->reader, s->blob, s->blob_len, NULL) != NIXL_SUCCESS) {
        return -1;
    }
    us = us_since(begin);
    return us;
}

static double sample_blob_load_again(struct setting *s) {
    uint64_t begin;

    if (nixl_metadata_check(s->reader, "blobs", NULL) != NIXL_SUCCESS &&
        nixl_metadata_load(s->reader, s->blob, s->blob_len, NULL) != NIXL_SUCCESS) {
        return -1;
    }
    begin = bench_now_ns();
    if (nixl_metadata_load(s->reader, s->blob, s->blob_len, NULL) != NIXL_SUCCESS) {
        return -1;
    }
    return us_since(begin);
}

/* ---- all of them ---- */

#define EACH(n)                                                                                              \
    { (n), (n), (n) }

const struct row rows[] = {
    {"post", "ns", {8, 62, 44}, sample_post, "post of a request that ends at once"},
    {"post + notification",
     "ns",
     {95, 0, 0},
     sample_post_noting,
     "the same with a stored notification of 33 bytes"},
    {"post, telemetry on", "ns", {58, 0, 0}, sample_post_timed, "the same while times are kept"},
    {"poll, done", "ns", {4, 53, 39}, sample_poll, "poll of a request that has ended"},
    {"notify", "ns", EACH(0), sample_notify, "a notification of 33 bytes apart from any transfer"},
    {"take notifications, none",
     "ns",
     {12, 65, 45},
     sample_take_none,
     "nixl_notif_take() when nothing has arrived"},
    {"make + release, 1", "ns", {75, 0, 0}, sample_make_one, "a request from prepared lists, one index"},
    {"make + release, 4096 scattered",
     "ns/index",
     {14, 0, 0},
     sample_make_scattered,
     "4,096 indices, no two neighbours"},
    {"make + release, 100000 in order",
     "ns/index",
     {63, 0, 0},
     sample_make_all,
     "100,000 indices in ascending order, blocks apart"},
    {"create + release, 1",
     "ns",
     {77, 0, 0},
     sample_create_one,
     "a request from two lists of one descriptor"},
    {"create + release, 4096",
     "ns/desc",
     {7, 0, 0},
     sample_create_many,
     "4,096 descriptors a step apart in one region"},
    {"create + release, 4096 scattered",
     "ns/desc",
     {7, 0, 0},
     sample_create_scattered,
     "4,096 descriptors of no step in one region"},
    {"create, 10000 regions sorted",
     "ns/desc",
     {35, 0, 0},
     sample_create_sorted,
     "both sides over 10,000 regions, in ascending order"},
    {"create, 10000 regions shuffled",
     "ns/desc",
     {1820, 0, 0},
     sample_create_shuffled,
     "both sides over 10,000 regions, shuffled"},
    {"prepare, 1 region",
     "ns/desc",
     {1.7, 0, 0},
     sample_prepare_one_region,
     "100,000 descriptors a step apart"},
    {"prepare, 10000 regions sorted",
     "ns/desc",
     {35, 0, 0},
     sample_prepare_sorted,
     "10,000 regions, ascending"},
    {"prepare, 10000 regions shuffled",
     "ns/desc",
     {1440, 0, 0},
     sample_prepare_shuffled,
     "10,000 regions, shuffled"},
    {"register 10000, one list", "us", {900, 0, 0}, sample_register_list, "10,000 blocks in one call"},
    {"register 10000, one list shuffled",
     "us",
     {0, 0, 0},
     sample_register_list_shuffled,
     "the same, shuffled"},
    {"register 10000 singly, ascending", "us", {1700, 0, 0}, sample_register_ascending, "10,000 calls"},
    {"register 10000 singly, descending", "us", {205000, 0, 0}, sample_register_descending, "10,000 calls"},
    {"register 10000 singly, shuffled", "us", {0, 0, 0}, sample_register_shuffled, "10,000 calls"},
    {"deregister 10000, one list", "us", {2263, 0, 0}, sample_deregister_list, "10,000 blocks in one call"},
    {"deregister 10000 singly, shuffled", "us", {0, 0, 0}, sample_deregister_shuffled, "10,000 calls"},
    {"blob get, 50000 regions", "us", {1600, 0, 0}, sample_blob_get, "unchanged since it was last asked for"},
    {"blob get, 50000 regions, changed",
     "us",
     {1600, 0, 0},
     sample_blob_get_changed,
     "one region came since"},
    {"blob load, 50000 regions", "us", {7500, 0, 0}, sample_blob_load, "of a peer not known before"},
    {"blob load again, 50000 regions", "us", {0, 0, 0}, sample_blob_load_again, "the same blob once more"},
    {"heap per registered region", "bytes", EACH(0), size_of_region, "of 100,000, with one backend"},
    {"heap per region of a peer", "bytes", EACH(0), size_of_peer_region, "of 100,000, with one backend"},
    {"heap per peer", "bytes", EACH(0), size_of_peer, "of 1,000 with a region each"},
    {"heap per prepared block, a step apart", "bytes", EACH(0), size_of_prepared_step,
     "of 1,000,000 in one list: one run"},
    {"heap per prepared block, scattered", "bytes", EACH(0), size_of_prepared_scattered,
     "of 1,000,000 in one list"},
    {"heap per request", "bytes", EACH(0), size_of_request, "of one block"},
    {"heap per scattered block of a request", "bytes", EACH(0), size_of_request_block, "beyond the first"},
};

const size_t row_count = sizeof rows / sizeof rows[0];
