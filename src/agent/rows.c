/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The regions of a blob against those that are known of its agent: which are new, which are the same, which
 * go. A region is told by backend, kind, device, address and length; that it is still the same, by the length
 * and checksum of its bytes.
 */
#include "agent/load.h"

#include "base/crc32c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is known of a peer's region; the load marks it. */
#define MARK_KEPT 1
#define MARK_GOES 2

static int row_order(const struct load_row *a, const struct load_row *b) {
    if (a->desc.dev != b->desc.dev) {
        return a->desc.dev < b->desc.dev ? -1 : 1;
    }
    if (a->desc.addr != b->desc.addr) {
        return a->desc.addr < b->desc.addr ? -1 : 1;
    }
    if (a->desc.len != b->desc.len) {
        return a->desc.len < b->desc.len ? -1 : 1;
    }
    return 0;
}

static int by_place(const void *a, const void *b) {
    return row_order(a, b);
}

/* One section is in order, each region in it once. Returns how many rows are left, or SIZE_MAX when one
 * region stands there twice with different bytes. */
static size_t section_settle(struct load_row *rows, size_t count) {
    size_t kept = count != 0;

    for (size_t i = 1; i < count; i++) {
        if (row_order(&rows[i - 1], &rows[i]) > 0) {
            qsort(rows, count, sizeof *rows, by_place);
            break;
        }
    }
    for (size_t i = 1; i < count; i++) {
        if (row_order(&rows[kept - 1], &rows[i]) != 0) {
            rows[kept++] = rows[i];
        } else if (!bytes_view_equal(rows[kept - 1].meta, rows[i].meta)) {
            return SIZE_MAX;
        }
    }
    return kept;
}

static nixl_status_t section_read(struct load *load, const struct wire_section *section, unsigned slot) {
    struct load_row *first = load->rows + load->row_count;
    struct wire_list_iter iter;
    struct wire_desc desc;
    size_t count = 0;

    wire_list_begin(&section->list, &iter);
    while (wire_list_next(&iter, &desc)) {
        if (!mem_is_storage(section->list.mem) && desc.addr + desc.len < desc.addr) {
            return fail(NIXL_ERR_MISMATCH,
                        "region %zu of backend %s (addr 0x%" PRIx64 ", %" PRIu64 " bytes) wraps around",
                        count, load->agent->backends[slot]->ops.name, desc.addr, desc.len);
        }
        if (desc.meta.len > UINT32_MAX) {
            return fail(NIXL_ERR_MISMATCH, "region %zu has %zu bytes of data", count, desc.meta.len);
        }
        first[count++] = (struct load_row){
            .desc = {desc.addr, desc.len, desc.dev},
            .meta = desc.meta,
            .mem = (uint8_t)section->list.mem,
            .slot = (uint8_t)slot,
        };
    }
    count = section_settle(first, count);
    if (count == SIZE_MAX) {
        return fail(NIXL_ERR_NOT_ALLOWED, "one %s region of backend %s is there twice with different keys",
                    nixl_mem_string(section->list.mem), load->agent->backends[slot]->ops.name);
    }
    load->row_count += count;
    return NIXL_SUCCESS;
}

nixl_status_t rows_gather(struct load *load, uint32_t mask) {
    const struct wire_blob *blob = load->blob;
    struct nixl_backend *backends[WIRE_BLOB_SECTIONS];
    size_t total = 0;

    for (size_t i = 0; i < blob->section_count; i++) {
        const struct wire_section *section = &blob->sections[i];
        struct nixl_backend *backend =
            backend_find(load->agent, (const char *)section->type.data, section->type.len);

        backends[i] = backend != NULL && (mask & (1u << backend->slot)) != 0 ? backend : NULL;
        total += backends[i] != NULL ? section->list.count : 0;
    }
    load->rows = array_alloc(total, sizeof *load->rows);
    if (load->rows == NULL) {
        return fail_memory("the regions of a blob", total * sizeof *load->rows);
    }
    for (size_t i = 0; i < blob->section_count; i++) {
        if (backends[i] != NULL) {
            nixl_status_t status = section_read(load, &blob->sections[i], backends[i]->slot);

            if (status != NIXL_SUCCESS) {
                return status;
            }
        }
    }
    return NIXL_SUCCESS;
}

static bool drop_add(struct load *load, struct region *region) {
    if (!array_reserve(&load->drops, &load->drop_cap, load->drop_count + 1, sizeof *load->drops)) {
        return false;
    }
    region->mark = MARK_GOES;
    load->drops[load->drop_count++] = region;
    return true;
}

/* What an update says is gone. */
static bool removals_mark(struct load *load, const struct peer *old) {
    struct wire_cursor cursor = {0};
    struct wire_removed removed;

    while (wire_blob_next_removed(load->blob, &cursor, &removed)) {
        struct nixl_backend *backend =
            backend_find(load->agent, (const char *)removed.type.data, removed.type.len);
        struct region *region;

        if (backend == NULL) {
            continue;
        }
        region = region_set_exact(&old->regions, removed.mem, &removed.desc, 1u << backend->slot);
        if (region != NULL && !drop_add(load, region)) {
            return false;
        }
    }
    return true;
}

struct sweep {
    struct load *load;
    bool failed;
};

static bool unmarked_visit(struct region *region, void *ctx) {
    struct sweep *sweep = ctx;

#ifndef BREAK_7
    if (region->mark == 0 && !drop_add(sweep->load, region)) {
        sweep->failed = true;
    }
#endif
    return !sweep->failed;
}

/* What a full blob does not have is gone. */
static bool absent_mark(struct load *load, const struct peer *old) {
    struct sweep sweep = {.load = load};

    for (unsigned mem = 0; mem < NIXL_MEM_KINDS; mem++) {
        region_set_each(&old->regions, (nixl_mem_t)mem, unmarked_visit, &sweep);
    }
    return !sweep.failed;
}

/* A region that is known with other bytes. The blob of a reference's agent may not change it, one of ours
 * may. */
static nixl_status_t row_conflict(struct load *load, const struct load_row *row, struct region *known) {
    const struct wire_trailer *trailer = &load->blob->trailer;

    if (!load->blob->has_trailer || !load->old->has_trailer || trailer->generation < load->old->generation) {
        return fail(NIXL_ERR_NOT_ALLOWED,
                    "%s region (addr 0x%" PRIx64 ", %" PRIu64 " bytes, dev %" PRIu64
                    ") of backend %s is known with another key: forget the peer first",
                    nixl_mem_string((nixl_mem_t)row->mem), row->desc.addr, row->desc.len, row->desc.dev,
                    load->agent->backends[row->slot]->ops.name);
    }
    return drop_add(load, known) ? NIXL_SUCCESS : fail_memory("removed regions", 0);
}

static nixl_status_t row_compare(struct load *load, const struct peer *old, struct load_row *row) {
    struct region *known = region_set_exact(&old->regions, (nixl_mem_t)row->mem, &row->desc, 1u << row->slot);
    const struct region_key *key;

    if (known == NULL) {
        return NIXL_SUCCESS;
    }
    key = region_key_of(known, row->slot);
    if (key->len == row->meta.len && key->digest == crc32c(0, row->meta.data, row->meta.len)) {
        known->mark = MARK_KEPT;
        row->known = known;
        return NIXL_SUCCESS;
    }
    return row_conflict(load, row, known);
}

static nixl_status_t old_compare(struct load *load, const struct peer *old) {
    const bool has_trailer = load->blob->has_trailer;
    nixl_status_t status = NIXL_SUCCESS;

    if (has_trailer && load->blob->trailer.kind == WIRE_BLOB_UPDATE && !removals_mark(load, old)) {
        return fail_memory("removed regions", 0);
    }
    for (size_t i = 0; i < load->row_count && status == NIXL_SUCCESS; i++) {
        status = row_compare(load, old, &load->rows[i]);
    }
    if (status == NIXL_SUCCESS && has_trailer && load->blob->trailer.kind == WIRE_BLOB_FULL &&
        !absent_mark(load, old)) {
        return fail_memory("removed regions", 0);
    }
    return status;
}

nixl_status_t rows_compare(struct load *load, const struct peer *old) {
    nixl_status_t status = NIXL_SUCCESS;

    if (old != NULL) {
        tables_search(load->agent);
        status = old_compare(load, old);
        tables_leave(load->agent);
    }
    for (size_t i = 0; i < load->row_count; i++) {
        if (load->rows[i].known == NULL) {
            load->new_count++;
            load->by_mem[load->rows[i].mem]++;
        }
    }
    return status;
}

void rows_unmark(struct load *load) {
    for (size_t i = 0; i < load->row_count; i++) {
        if (load->rows[i].known != NULL) {
            load->rows[i].known->mark = 0;
        }
    }
    for (size_t i = 0; i < load->drop_count; i++) {
        load->drops[i]->mark = 0;
    }
}

void rows_free(struct load *load) {
    free(load->rows);
    free(load->drops);
    free(load->adds);
    load->rows = NULL;
    load->drops = NULL;
    load->adds = NULL;
    load->row_count = load->drop_count = 0;
}
