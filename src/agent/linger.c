/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of a peer that left its set, by an update, while requests name them: their keys stay open until the
 * last of those requests is released. Requests hold no references, which would cost two atomic operations a
 * region each time one is made; they are counted here, once, when a region leaves. Guarded by the lock of the
 * agent's requests (xfers_take).
 */
#include "internal.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    const struct region_id *x = &((const struct lingering *)a)->id;
    const struct region_id *y = &((const struct lingering *)b)->id;

    if (x->slot != y->slot) {
        return x->slot < y->slot ? -1 : 1;
    }
    return (x->generation > y->generation) - (x->generation < y->generation);
}

static struct lingering *find(const struct peer *peer, struct region_id id) {
    struct lingering key = {.id = id};

    return bsearch(&key, peer->lingering, peer->lingering_count, sizeof key, ascending);
}

/* Forgets those that no request names. */
static void compact(struct peer *peer) {
    size_t kept = 0;

    for (size_t i = 0; i < peer->lingering_count; i++) {
        if (peer->lingering[i].names != 0) {
            peer->lingering[kept++] = peer->lingering[i];
        }
    }
    peer->lingering_count = kept;
}

bool linger_reserve(struct peer *peer, size_t more) {
    bool done;

    xfers_take_within(peer->agent);
    done = array_reserve(&peer->lingering, &peer->lingering_cap, peer->lingering_count + more,
                         sizeof *peer->lingering);
    xfers_drop_within(peer->agent);
    return done;
}

/* Counts what one request names of the leaving regions. */
static void count_request(struct nixl_xfer *xfer) {
    const struct peer *peer = xfer->peer;

    for (size_t i = 0; i < xfer->remote_count; i++) {
        struct region *region = region_set_get(&peer->regions, xfer->remote_regions[i]);

        if (region != NULL && region->leaves) {
            find(peer, region->id)->names++;
            xfer->names_lingering = true;
        }
    }
}

size_t linger_note(struct nixl_agent *agent, struct peer *peer, struct region **leaving, size_t count) {
    size_t free_to_go = 0;

    if (count == 0) {
        return 0;
    }
    xfers_take_within(agent);
    compact(peer);
    for (size_t i = 0; i < count; i++) {
        leaving[i]->leaves = true;
        peer->lingering[peer->lingering_count++] = (struct lingering){leaving[i]->id, 0, leaving[i]};
    }
    qsort(peer->lingering, peer->lingering_count, sizeof *peer->lingering, ascending);
    for (struct nixl_xfer *xfer = agent->xfers; xfer != NULL; xfer = xfer->next) {
        if (xfer->peer == peer) {
            count_request(xfer);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (find(peer, leaving[i]->id)->names == 0) {
            struct region *region = leaving[i];

            leaving[i] = leaving[free_to_go];
            leaving[free_to_go++] = region;
        }
    }
    compact(peer);
    xfers_drop_within(agent);
    return free_to_go;
}

struct region *linger_drop(struct nixl_xfer *xfer) {
    struct region *ended = NULL;

    for (size_t i = 0; i < xfer->remote_count; i++) {
        struct lingering *place = find(xfer->peer, xfer->remote_regions[i]);

        if (place == NULL || place->names == 0 || --place->names != 0 || !region_unref(place->region)) {
            continue;
        }
        /* Nobody else knows it now, and a peer's region has no use for these bytes. */
        place->region->keys[0].bytes = ended;
        ended = place->region;
    }
    return ended;
}
