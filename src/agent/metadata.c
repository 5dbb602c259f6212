/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This agent's metadata as blobs: all of it, some registered blocks, or what changed. The full blob is kept
 * as last made and copied out until a generation passes. Rows are written with the tables held, so a region
 * in a blob is registered at that moment. A block that is registered several times stands in a blob once.
 */
#include "agent/changes.h"
#include "agent/internal.h"

#include "base/auth.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FORMS_PARTIAL ((1u << NIXL_FORM_PLAIN) | (1u << NIXL_FORM_STRIDED) | (1u << NIXL_FORM_META))

/* ---- pieces of a blob ---- */

static void conns_write(struct nixl_agent *agent, uint32_t mask, struct wire_blob_writer *writer) {
    for (; mask != 0; mask &= mask - 1) {
        const struct nixl_backend *backend = agent->backends[__builtin_ctz(mask)];

        wire_blob_conn(writer, backend->ops.name, backend->conn, backend->conn_len);
    }
}

static void trailer_write(struct nixl_agent *agent, uint32_t mask, enum wire_blob_kind kind, uint64_t base,
                          struct wire_blob_writer *writer) {
    const struct wire_trailer trailer = {
        .kind = kind,
        .incarnation = agent->incarnation,
        .generation = agent->generation,
        .base_generation = base,
    };

    wire_blob_trailer(writer, &trailer);
    for (; mask != 0; mask &= mask - 1) {
        const struct nixl_backend *backend = agent->backends[__builtin_ctz(mask)];

        if (backend->note != NULL) {
            wire_blob_note(writer, backend->ops.name, backend->note, backend->note_len);
        }
    }
}

/* With a key set, the blob says who made it. */
static nixl_status_t blob_seal(const struct nixl_agent *agent, struct wire_blob_writer *writer) {
    struct bytes_view range = wire_blob_auth_range(writer);
    const struct auth_piece piece = {range.data, range.len};
    uint8_t mac[AUTH_MAC_LEN];

    if (!auth_mac(agent->auth, &piece, 1, mac)) {
        return fail(NIXL_ERR_BACKEND, "libcrypto cannot compute the blob's mac");
    }
    wire_blob_seal(writer, mac);
    return NIXL_SUCCESS;
}

static nixl_status_t blob_end(const struct nixl_agent *agent, struct wire_blob_writer *writer) {
    nixl_status_t status;

    if (agent->auth != NULL) {
        wire_blob_mac(writer, WIRE_MAC_HMAC_SHA256, AUTH_MAC_LEN);
    }
    status = wire_blob_end(writer);
    if (status == NIXL_SUCCESS && agent->auth != NULL) {
        return blob_seal(agent, writer);
    }

    if (status == NIXL_SUCCESS) {
        return NIXL_SUCCESS;
    }
    return status == NIXL_ERR_UNKNOWN
               ? fail_memory("a blob", 0)
               : fail(NIXL_ERR_BACKEND, "the blob cannot be written: %s", writer->what);
}

/* A section that begins with its first row, so that there are no empty ones. */
struct section {
    struct wire_blob_writer *writer;
    const struct nixl_backend *backend;
    nixl_mem_t mem;
    size_t expected;
    bool is_open;
    uint64_t addr, len, dev; /* the row before */
};

static void section_add(struct section *section, struct region *region) {
    const struct region_key *key = region_key_of(region, section->backend->slot);

    if (section->is_open && section->addr == region->addr && section->len == region->len &&
        section->dev == region->dev) {
        return; /* registered twice: others need it once */
    }
    if (!section->is_open) {
        wire_blob_section(section->writer, section->backend->ops.name, section->mem, section->expected,
                          key->len);
        section->is_open = true;
    }
    wire_blob_desc(section->writer, region->addr, region->len, region->dev, key->bytes, key->len);
    section->addr = region->addr;
    section->len = region->len;
    section->dev = region->dev;
}

static bool section_visit(struct region *region, void *ctx) {
    struct section *section = ctx;

    if ((region->backends & (1u << section->backend->slot)) != 0) {
        section_add(section, region);
    }
    return true;
}

static nixl_status_t none_reaches_others(const struct nixl_agent *agent, nixl_status_t status) {
    return fail(status, "no backend of agent %s reaches others: there is nothing to tell them", agent->name);
}

/* Hands out a copy that the caller frees. */
static nixl_status_t copy_out(const struct bytes *from, void **blob, size_t *len) {
    void *copy = malloc(from->len);

    if (copy == NULL) {
        return fail_memory("a blob", from->len);
    }
    memcpy(copy, from->data, from->len);
    *blob = copy;
    *len = from->len;
    return NIXL_SUCCESS;
}

/* ---- the full blob ---- */

static bool blob_is_current(const struct nixl_agent *agent) {
    return agent->blob_valid && agent->blob_generation == agent->generation;
}

/* Tables write-held. */
static nixl_status_t full_make(struct nixl_agent *agent) {
    uint32_t mask = backend_mask(agent, NIXL_CAP_REMOTE);
    struct wire_blob_writer writer;
    nixl_status_t status;

    agent->blob_valid = false;
    bytes_clear(&agent->blob);
    wire_blob_begin(&writer, &agent->blob, agent->name, agent->name_len);
    conns_write(agent, mask, &writer);
    for (unsigned mem = 0; mem < NIXL_MEM_KINDS; mem++) {
        for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
            struct section section = {
                .writer = &writer,
                .backend = agent->backends[__builtin_ctz(rest)],
                .mem = (nixl_mem_t)mem,
                .expected = region_set_count(&agent->regions, (nixl_mem_t)mem),
            };

            region_set_each(&agent->regions, section.mem, section_visit, &section);
        }
    }
    trailer_write(agent, mask, WIRE_BLOB_FULL, 0, &writer);
    status = blob_end(agent, &writer);
    if (status == NIXL_SUCCESS) {
        agent->blob_valid = true;
        agent->blob_generation = agent->generation;
    }
    return status;
}

static nixl_status_t full_get(struct nixl_agent *agent, void **blob, size_t *len) {
    nixl_status_t status;

    tables_search(agent);
    if (blob_is_current(agent)) {
        status = copy_out(&agent->blob, blob, len);
        tables_leave(agent);
        return status;
    }
    tables_leave(agent);
    tables_change(agent);
    status = blob_is_current(agent) ? NIXL_SUCCESS : full_make(agent);
    if (status == NIXL_SUCCESS) {
        status = copy_out(&agent->blob, blob, len);
    }
    tables_leave(agent);
    return status;
}

/* The start of each call that gives a blob. */
static nixl_status_t blob_enter(struct nixl_agent *agent, const char *call, void **blob, size_t *len) {
    if (blob == NULL || len == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s: %s is NULL", call, blob == NULL ? "blob" : "len");
    }
    *blob = NULL;
    *len = 0;
    return agent_enter(agent, call);
}

static nixl_status_t blob_leave(struct nixl_agent *agent, const char *call, nixl_status_t status) {
    agent_leave(agent);
    if (status != NIXL_SUCCESS) {
        error_prefix("%s", call);
    }
    return status;
}

nixl_status_t nixl_metadata_get(struct nixl_agent *agent, void **blob, size_t *len) {
    nixl_status_t status = blob_enter(agent, "get metadata", blob, len);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = backend_mask(agent, NIXL_CAP_REMOTE) != 0 ? full_get(agent, blob, len)
                                                       : none_reaches_others(agent, NIXL_ERR_INVALID_PARAM);
    return blob_leave(agent, "get metadata", status);
}

uint64_t nixl_metadata_generation(struct nixl_agent *agent) {
    uint64_t generation;

    if (agent_enter(agent, "metadata generation") != NIXL_SUCCESS) {
        return 0;
    }
    tables_search(agent);
    generation = agent->generation;
    tables_leave(agent);
    agent_leave(agent);
    return generation;
}

/* ---- some blocks ---- */

static int by_place(const void *a, const void *b) {
    const struct region *x = *(struct region *const *)a;
    const struct region *y = *(struct region *const *)b;

    if (x->dev != y->dev) {
        return x->dev < y->dev ? -1 : 1;
    }
    if (x->addr != y->addr) {
        return x->addr < y->addr ? -1 : 1;
    }
    return x->len < y->len ? -1 : x->len > y->len;
}

/* The region of each block for that backend; *count of them. False at a block that is registered with none of
 * `mask`, which is then *missing at *index. */
static bool blocks_find(struct nixl_agent *agent, const struct nixl_list *list, uint32_t mask, unsigned slot,
                        struct region **regions, size_t *count, size_t *index, struct nixl_desc *missing) {
    struct list_reader reader;

    *count = 0;
    list_begin(&reader, list);
    for (*index = 0; list_next(&reader, missing); (*index)++) {
        struct region *region = region_set_exact(&agent->regions, list->mem, missing, 1u << slot);

        if (region != NULL) {
            regions[(*count)++] = region;
        } else if (region_set_exact(&agent->regions, list->mem, missing, mask) == NULL) {
            return false;
        }
    }
    qsort(regions, *count, sizeof *regions, by_place);
    return true;
}

static nixl_status_t not_registered(struct nixl_agent *agent, const struct nixl_list *list, size_t index,
                                    const struct nixl_desc *desc) {
    return fail_at(NIXL_ERR_NOT_FOUND, index,
                   "descriptor %zu (%s, addr 0x%" PRIx64 ", %" PRIu64 " bytes, dev %" PRIu64
                   ") is not registered as it stands with a backend of agent %s that reaches others",
                   index, nixl_mem_string(list->mem), desc->addr, desc->len, desc->dev, agent->name);
}

/* Tables held. */
static nixl_status_t partial_write(struct nixl_agent *agent, const struct nixl_list *list, size_t blocks,
                                   uint32_t mask, bool with_conns, struct region **regions,
                                   struct bytes *out) {
    struct wire_blob_writer writer;

    wire_blob_begin(&writer, out, agent->name, agent->name_len);
    if (with_conns) {
        conns_write(agent, mask, &writer);
    }
    for (uint32_t rest = mask; rest != 0 && blocks != 0; rest &= rest - 1) {
        struct section section = {.writer = &writer,
                                  .backend = agent->backends[__builtin_ctz(rest)],
                                  .mem = list->mem,
                                  .expected = blocks};
        struct nixl_desc missing;
        size_t count;
        size_t index;

        if (!blocks_find(agent, list, mask, section.backend->slot, regions, &count, &index, &missing)) {
            return not_registered(agent, list, index, &missing);
        }
        for (size_t i = 0; i < count; i++) {
            section_add(&section, regions[i]);
        }
    }
    trailer_write(agent, mask, WIRE_BLOB_PARTIAL, 0, &writer);
    return blob_end(agent, &writer);
}

static nixl_status_t partial_get(struct nixl_agent *agent, const struct nixl_list *list,
                                 const struct nixl_options *options, void **blob, size_t *len) {
    uint32_t able = backend_mask(agent, NIXL_CAP_REMOTE);
    struct bytes out = {0};
    struct region **regions;
    uint32_t hints;
    size_t blocks = 0;
    nixl_status_t status = select_hints(agent, options, &hints);

    if (status == NIXL_SUCCESS && list != NULL) {
        status = list_check(list, FORMS_PARTIAL, true, "list", &blocks, NULL);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    able = hints != 0 ? able & hints : able;
    if (able == 0) {
        return none_reaches_others(agent, NIXL_ERR_BACKEND);
    }
    regions = array_alloc(blocks, sizeof *regions);
    if (regions == NULL) {
        return fail_memory("a blob", blocks * sizeof *regions);
    }
    tables_search(agent);
    status = partial_write(agent, list, blocks, able, options_full(options).include_conn || blocks == 0,
                           regions, &out);
    tables_leave(agent);
    free(regions);
    if (status == NIXL_SUCCESS) {
        *blob = out.data;
        *len = out.len;
    } else {
        bytes_free(&out);
    }
    return status;
}

nixl_status_t nixl_metadata_get_partial(struct nixl_agent *agent, const struct nixl_list *list,
                                        const struct nixl_options *options, void **blob, size_t *len) {
    nixl_status_t status = blob_enter(agent, "get partial metadata", blob, len);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = partial_get(agent, list, options, blob, len);
    return blob_leave(agent, "get partial metadata", status);
}

/* ---- what changed ---- */

static int by_change(const void *a, const void *b) {
    const struct change *x = a;
    const struct change *y = b;

    if (x->mem != y->mem) {
        return x->mem < y->mem ? -1 : 1;
    }
    if (x->desc.dev != y->desc.dev) {
        return x->desc.dev < y->desc.dev ? -1 : 1;
    }
    if (x->desc.addr != y->desc.addr) {
        return x->desc.addr < y->desc.addr ? -1 : 1;
    }
    return x->desc.len < y->desc.len ? -1 : x->desc.len > y->desc.len;
}

static bool same_block(const struct change *a, const struct change *b) {
    return by_change(a, b) == 0;
}

/* Changes of one block become one: which backends it was removed from, which it was touched by. Returns how
 * many blocks. `backends` is then what was touched, `removed` (in the same order) what was removed. */
static size_t changes_settle(struct change *changes, size_t count, uint32_t *removed) {
    size_t kept = 0;

    qsort(changes, count, sizeof *changes, by_change);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || !same_block(&changes[kept - 1], &changes[i])) {
            changes[kept] = changes[i];
            removed[kept++] = changes[i].was_removal ? changes[i].backends : 0;
        } else {
            changes[kept - 1].backends |= changes[i].backends;
            removed[kept - 1] |= changes[i].was_removal ? changes[i].backends : 0;
        }
    }
    return kept;
}

/*
 * A block that was removed and is there again (registered anew, or a second time from the beginning) is both
 * removed and added: its key may be another one. Tables held.
 */
static nixl_status_t update_write(struct nixl_agent *agent, uint64_t since, struct change *changes,
                                  size_t count, const uint32_t *removed, struct bytes *out) {
    uint32_t mask = backend_mask(agent, NIXL_CAP_REMOTE);
    struct wire_blob_writer writer;

    wire_blob_begin(&writer, out, agent->name, agent->name_len);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        unsigned slot = (unsigned)__builtin_ctz(rest);
        struct section section = {.writer = &writer, .backend = agent->backends[slot]};

        for (size_t i = 0; i < count; i++) {
            struct region *region = region_set_exact(&agent->regions, (nixl_mem_t)changes[i].mem,
                                                     &changes[i].desc, changes[i].backends & (1u << slot));

            if ((changes[i].backends & (1u << slot)) == 0 || region == NULL) {
                continue;
            }
            if (section.is_open && section.mem != (nixl_mem_t)changes[i].mem) {
                section.is_open = false;
            }
            section.mem = (nixl_mem_t)changes[i].mem;
            section_add(&section, region);
        }
    }
    trailer_write(agent, mask, WIRE_BLOB_UPDATE, since, &writer);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        unsigned slot = (unsigned)__builtin_ctz(rest);

        for (size_t i = 0; i < count; i++) {
            if ((removed[i] & (1u << slot)) != 0) {
                wire_blob_removed(&writer, agent->backends[slot]->ops.name, (nixl_mem_t)changes[i].mem,
                                  changes[i].desc.addr, changes[i].desc.len, changes[i].desc.dev);
            }
        }
    }
    return blob_end(agent, &writer);
}

/* Tables held. */
static nixl_status_t update_make(struct nixl_agent *agent, uint64_t since, struct bytes *out) {
    size_t count = changes_since(agent, since, NULL);
    struct change *changes = array_alloc(count, sizeof *changes);
    uint32_t *removed = array_alloc(count, sizeof *removed);
    nixl_status_t status;

    if (changes == NULL || removed == NULL) {
        status = fail_memory("an update", count * sizeof *changes);
    } else {
        changes_since(agent, since, changes);
        count = changes_settle(changes, count, removed);
        status = update_write(agent, since, changes, count, removed, out);
    }
    free(changes);
    free(removed);
    return status;
}

static nixl_status_t update_get(struct nixl_agent *agent, uint64_t since, void **blob, size_t *len) {
    struct bytes out = {0};
    nixl_status_t status = NIXL_SUCCESS;
    bool too_old;

    tables_search(agent);
    too_old = since < agent->changes.oldest;
    if (since > agent->generation) {
        status = fail(NIXL_ERR_NOT_FOUND, "generation %" PRIu64 " is yet to come: agent %s is at %" PRIu64,
                      since, agent->name, agent->generation);
    } else if (!too_old) {
        status = update_make(agent, since, &out);
    }
    tables_leave(agent);
    if (status != NIXL_SUCCESS) {
        bytes_free(&out);
        return status;
    }
    if (too_old) {
        return full_get(agent, blob, len);
    }
    *blob = out.data;
    *len = out.len;
    return NIXL_SUCCESS;
}

nixl_status_t nixl_metadata_get_update(struct nixl_agent *agent, uint64_t since, void **blob, size_t *len) {
    nixl_status_t status = blob_enter(agent, "get metadata update", blob, len);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = backend_mask(agent, NIXL_CAP_REMOTE) != 0 ? update_get(agent, since, blob, len)
                                                       : none_reaches_others(agent, NIXL_ERR_INVALID_PARAM);
    return blob_leave(agent, "get metadata update", status);
}
