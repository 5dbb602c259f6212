/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of heap that things of the library keep: the allocator's count before and after making many, divided.
 * What a backend keeps of its own is in it; the no-op backend keeps 32 bytes a region and nothing else.
 */
#include "sizes.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define REGIONS 100000u
#define PEERS 1000u
#define DESCRIPTORS 1000000u
#define REQUESTS 1000u
#define BASE UINT64_C(0x200000000)

/* Bytes in use: small blocks and mapped ones. */
static double in_use(void) {
    struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + (double)info.hblkhd;
}

static bool ok(nixl_status_t status) {
    return status >= 0;
}

static struct nixl_agent *agent_make(const char *name) {
    struct nixl_agent *agent;
    struct nixl_backend *backend;

    if (!ok(nixl_agent_create(name, NULL, &agent))) {
        return NULL;
    }
    if (!ok(nixl_backend_create(agent, "NOOP", NULL, 0, &backend))) {
        nixl_agent_destroy(agent);
        return NULL;
    }
    return agent;
}

/* `count` blocks; with `step` 0 at places that no step describes. */
static struct nixl_desc *descs_make(size_t count, uint64_t step) {
    struct nixl_desc *descs = calloc(count, sizeof *descs);

    for (size_t i = 0; descs != NULL && i < count; i++) {
        descs[i] =
            (struct nixl_desc){BASE + (step != 0 ? i * step : (i * 7919 % count) * 512 + i % 3), 256, 0};
    }
    return descs;
}

static bool enroll(struct nixl_agent *agent, const struct nixl_desc *descs, size_t count) {
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, count);

    return ok(nixl_mem_register(agent, &list, NULL));
}

double size_of_region(struct setting *setting) {
    struct nixl_desc *descs = descs_make(REGIONS, 512);
    struct nixl_agent *agent = agent_make("size-regions");
    double before = in_use();
    double bytes = -1;

    (void)setting;
    if (descs != NULL && agent != NULL && enroll(agent, descs, REGIONS)) {
        bytes = (in_use() - before) / REGIONS;
    }
    nixl_agent_destroy(agent);
    free(descs);
    return bytes;
}

double size_of_peer_region(struct setting *setting) {
    struct nixl_desc *descs = descs_make(REGIONS, 512);
    struct nixl_agent *agent = agent_make("size-reader");
    struct nixl_agent *other = agent_make("size-other");
    void *blob = NULL;
    size_t len;
    double before;
    double bytes = -1;

    (void)setting;
    if (descs != NULL && agent != NULL && other != NULL && enroll(other, descs, REGIONS) &&
        ok(nixl_metadata_get(other, &blob, &len))) {
        before = in_use();
        if (ok(nixl_metadata_load(agent, blob, len, NULL))) {
            bytes = (in_use() - before) / REGIONS;
        }
    }
    nixl_free(blob);
    nixl_agent_destroy(agent);
    nixl_agent_destroy(other);
    free(descs);
    return bytes;
}

/* A peer with one region. */
double size_of_peer(struct setting *setting) {
    struct nixl_agent *agent = agent_make("size-many");
    struct nixl_desc desc = {BASE, 4096, 0};
    double before = in_use();
    size_t made = 0;

    (void)setting;
    for (; agent != NULL && made < PEERS; made++) {
        struct nixl_agent *other;
        char name[32];
        void *blob;
        size_t len;
        bool done = false;

        snprintf(name, sizeof name, "size-peer-%zu", made);
        other = agent_make(name);
        if (other == NULL) {
            break;
        }
        if (enroll(other, &desc, 1) && ok(nixl_metadata_get(other, &blob, &len))) {
            done = ok(nixl_metadata_load(agent, blob, len, NULL));
            nixl_free(blob);
        }
        nixl_agent_destroy(other);
        if (!done) {
            break;
        }
    }
    before = (in_use() - before) / PEERS;
    nixl_agent_destroy(agent);
    return made == PEERS ? before : -1;
}

static double prepared(uint64_t step) {
    struct nixl_desc *descs = descs_make(DESCRIPTORS, step);
    struct nixl_desc all = {BASE, (uint64_t)DESCRIPTORS * 1024, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, DESCRIPTORS);
    struct nixl_agent *agent = agent_make("size-lists");
    struct nixl_dlist *dlist = NULL;
    double before;
    double bytes = -1;

    if (descs != NULL && agent != NULL && enroll(agent, &all, 1)) {
        before = in_use();
        if (ok(nixl_dlist_prepare(agent, NULL, &list, NULL, &dlist))) {
            bytes = (in_use() - before) / DESCRIPTORS;
        }
    }
    nixl_dlist_release(dlist);
    nixl_agent_destroy(agent);
    free(descs);
    return bytes;
}

double size_of_prepared_step(struct setting *setting) {
    (void)setting;
    return prepared(512);
}

double size_of_prepared_scattered(struct setting *setting) {
    (void)setting;
    return prepared(0);
}

/* Requests of `blocks` scattered blocks each. */
static double requests(size_t blocks) {
    struct nixl_desc *descs = descs_make(blocks, 0);
    struct nixl_desc all = {BASE, (uint64_t)blocks * 1024 + 4096, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, blocks);
    struct nixl_agent *agent = agent_make("size-requests");
    struct nixl_xfer *xfers[REQUESTS];
    size_t made = 0;
    double before = 0;
    double bytes = -1;

    if (descs != NULL && agent != NULL && enroll(agent, &all, 1)) {
        before = in_use();
        while (made < REQUESTS &&
               ok(nixl_xfer_create(agent, NIXL_READ, &list, &list, "size-requests", NULL, &xfers[made]))) {
            made++;
        }
        bytes = made == REQUESTS ? (in_use() - before) / REQUESTS : -1;
    }
    while (made > 0) {
        (void)nixl_xfer_release(xfers[--made]);
    }
    nixl_agent_destroy(agent);
    free(descs);
    return bytes;
}

double size_of_request(struct setting *setting) {
    (void)setting;
    return requests(1);
}

double size_of_request_block(struct setting *setting) {
    (void)setting;
    return (requests(1001) - requests(1)) / 1000;
}
