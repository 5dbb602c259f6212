/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What backends open for a load: the peer by its connection bytes, and a key for each new region. Until the
 * load commits, all of it can be taken back. Called with no lock but agent->loading; takes control locks.
 */
#include "agent/load.h"

#include "base/crc32c.h"

#include <inttypes.h>
#include <stdlib.h>

static void note_find(const struct wire_blob *blob, struct bytes_view type, struct wire_note *note,
                      bool *found) {
    struct wire_cursor cursor = {0};

    *found = false;
    while (!*found && wire_blob_next_note(blob, &cursor, note)) {
        *found = bytes_view_equal(note->type, type);
    }
}

static nixl_status_t peer_stage(struct load *load, struct nixl_backend *backend) {
    const unsigned slot = backend->slot;
    const struct wire_conn *conn = load->conns[slot];
    struct wire_note note = {0};
    unsigned mark = backend_mark();
    bool has_note;
    nixl_status_t status;

    note_find(load->blob, conn->type, &note, &has_note);
    if (!bytes_append(&load->conn_copies[slot], conn->bytes.data, conn->bytes.len)) {
        return fail_memory("connection information", conn->bytes.len);
    }
    lock_take(&backend->control);
    status = backend->ops.peer_open(backend->self, load->name, load->peer, load->conn_copies[slot].data,
                                    conn->bytes.len, has_note ? note.bytes.data : NULL,
                                    has_note ? note.bytes.len : 0, &load->handles[slot]);
    lock_drop(&backend->control);
    if (status != NIXL_SUCCESS) {
        return backend_fault(backend, mark, status, "opening the peer");
    }
    load->opened |= 1u << slot;
    return NIXL_SUCCESS;
}

nixl_status_t stage_peers(struct load *load, uint32_t mask) {
    nixl_status_t status = NIXL_SUCCESS;

    for (; mask != 0 && status == NIXL_SUCCESS; mask &= mask - 1) {
        status = peer_stage(load, load->agent->backends[__builtin_ctz(mask)]);
    }
    return status;
}

static void *handle_of(const struct load *load, unsigned slot) {
    return (load->opened & (1u << slot)) != 0 ? load->handles[slot] : load->peer->handles[slot];
}

/* The backend's control lock is held. */
static nixl_status_t key_stage(struct load *load, struct nixl_backend *backend, struct load_row *row) {
    struct region *region = region_new((nixl_mem_t)row->mem, &row->desc, 1u << row->slot);
    unsigned mark = backend_mark();
    nixl_status_t status;

    if (region == NULL) {
        return fail_memory("a region", sizeof *region);
    }
    status = backend->ops.key_open(backend->self, handle_of(load, row->slot), (nixl_mem_t)row->mem,
                                   &row->desc, row->meta.data, row->meta.len, &region->keys[0].handle);
    if (status != NIXL_SUCCESS) {
        region_free(region);
        status = backend_fault(backend, mark, status, "making a key");
        error_append(" (%s region at 0x%" PRIx64 ", %" PRIu64 " bytes)",
                     nixl_mem_string((nixl_mem_t)row->mem), row->desc.addr, row->desc.len);
        return status;
    }
    region->keys[0].len = (uint32_t)row->meta.len;
    region->keys[0].digest = crc32c(0, row->meta.data, row->meta.len);
    row->made = region;
    return NIXL_SUCCESS;
}

nixl_status_t stage_keys(struct load *load) {
    struct nixl_backend *held = NULL;
    nixl_status_t status = NIXL_SUCCESS;

    for (size_t i = 0; i < load->row_count && status == NIXL_SUCCESS; i++) {
        struct load_row *row = &load->rows[i];
        struct nixl_backend *backend = load->agent->backends[row->slot];

        if (row->known != NULL) {
            continue;
        }
        if (held != backend) {
            if (held != NULL) {
                lock_drop(&held->control);
            }
            lock_take(&backend->control);
            held = backend;
        }
        status = key_stage(load, backend, row);
    }
    if (held != NULL) {
        lock_drop(&held->control);
    }
    return status;
}

void stage_undo(struct load *load) {
    for (size_t i = 0; i < load->row_count; i++) {
        struct load_row *row = &load->rows[i];

        if (row->made != NULL) {
            struct nixl_backend *backend = load->agent->backends[row->slot];

            lock_take(&backend->control);
            backend->ops.key_close(backend->self, handle_of(load, row->slot), row->made->keys[0].handle);
            lock_drop(&backend->control);
            region_free(row->made);
            row->made = NULL;
        }
    }
    for (uint32_t rest = load->opened; rest != 0; rest &= rest - 1) {
        struct nixl_backend *backend = load->agent->backends[__builtin_ctz(rest)];

        lock_take(&backend->control);
        backend->ops.peer_close(backend->self, load->handles[backend->slot]);
        lock_drop(&backend->control);
    }
    load->opened = 0;
}
