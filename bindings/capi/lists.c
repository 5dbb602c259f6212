/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lists.c - descriptor lists for transfers, registrations and views. Their items are the core's own structs, so
 * a call hands them on as they are.
 */
#include "handles.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The reference's name for "no agent" in a list for views. */
#define NULL_AGENT "NULL_AGENT"

static struct nixl_list list_of(nixl_capi_mem_type_t mem, uint32_t form, const void *items, size_t count) {
    struct nixl_list list = NIXL_LIST_INIT;

    list.mem = (nixl_mem_t)mem;
    list.form = form;
    list.items = items;
    list.count = count;
    return list;
}

struct nixl_list capi_xfer_list(const struct nixl_capi_xfer_dlist_s *dlist) {
    return list_of(dlist->mem, NIXL_FORM_PLAIN, dlist->items, dlist->count);
}

struct nixl_list capi_reg_list(const struct nixl_capi_reg_dlist_s *dlist) {
    return list_of(dlist->mem, NIXL_FORM_META, dlist->items, dlist->count);
}

struct nixl_list capi_remote_list(const struct nixl_capi_remote_dlist_s *dlist) {
    return list_of(dlist->mem, NIXL_FORM_REMOTE, dlist->items, dlist->count);
}

static const char *mem_name(nixl_capi_mem_type_t mem) {
    const char *name = "UNKNOWN";

    nixl_capi_mem_type_to_string(mem, &name);
    return name;
}

/* ---- Transfers ---------------------------------------------------------------------------------------- */

nixl_capi_status_t nixl_capi_create_xfer_dlist(nixl_capi_mem_type_t mem_type, nixl_capi_xfer_dlist_t *dlist) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    struct nixl_capi_xfer_dlist_s *made = calloc(1, sizeof *made);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    made->mem = mem_type;
    *dlist = made;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_destroy_xfer_dlist(nixl_capi_xfer_dlist_t dlist) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    free(dlist->items);
    free(dlist);
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_xfer_dlist_get_type(nixl_capi_xfer_dlist_t dlist,
                                                 nixl_capi_mem_type_t *mem_type) {
    if (!dlist || !mem_type) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *mem_type = dlist->mem;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_xfer_dlist_add_desc(nixl_capi_xfer_dlist_t dlist, uintptr_t addr, size_t len,
                                                 uint64_t dev_id) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    if (!capi_reserve((void **)&dlist->items, &dlist->room, dlist->count + 1, sizeof *dlist->items)) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    dlist->items[dlist->count++] = (struct nixl_desc){addr, len, dev_id};
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_xfer_dlist_desc_count(nixl_capi_xfer_dlist_t dlist, size_t *count) {
    if (!dlist || !count) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *count = dlist->count;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_xfer_dlist_len(nixl_capi_xfer_dlist_t dlist, size_t *len) {
    return nixl_capi_xfer_dlist_desc_count(dlist, len);
}

nixl_capi_status_t nixl_capi_xfer_dlist_is_empty(nixl_capi_xfer_dlist_t dlist, bool *is_empty) {
    if (!dlist || !is_empty) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *is_empty = dlist->count == 0;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_xfer_dlist_trim(nixl_capi_xfer_dlist_t dlist) {
    return dlist ? NIXL_CAPI_SUCCESS : NIXL_CAPI_ERROR_INVALID_PARAM;
}

nixl_capi_status_t nixl_capi_xfer_dlist_rem_desc(nixl_capi_xfer_dlist_t dlist, int index) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    if (index < 0 || (size_t)index >= dlist->count) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    dlist->count--;
    memmove(&dlist->items[index], &dlist->items[index + 1],
            (dlist->count - (size_t)index) * sizeof *dlist->items);
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_xfer_dlist_clear(nixl_capi_xfer_dlist_t dlist) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    dlist->count = 0;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_xfer_dlist_resize(nixl_capi_xfer_dlist_t dlist, size_t new_size) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    if (!capi_reserve((void **)&dlist->items, &dlist->room, new_size, sizeof *dlist->items)) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    for (; dlist->count < new_size; dlist->count++) {
        dlist->items[dlist->count] = (struct nixl_desc){0, 0, 0};
    }
    dlist->count = new_size;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_xfer_dlist_print(nixl_capi_xfer_dlist_t dlist) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    printf("%zu transfer descriptors of kind %s\n", dlist->count, mem_name(dlist->mem));
    for (size_t i = 0; i < dlist->count; i++) {
        printf("%6zu: address 0x%" PRIx64 ", %" PRIu64 " bytes, device %" PRIu64 "\n", i,
               dlist->items[i].addr, dlist->items[i].len, dlist->items[i].dev);
    }
    return fflush(stdout) ? NIXL_CAPI_ERROR_BACKEND : NIXL_CAPI_SUCCESS;
}

/* ---- Registrations ------------------------------------------------------------------------------------ */

static void reg_drop(struct nixl_capi_reg_dlist_s *dlist, size_t first) {
    for (size_t i = first; i < dlist->count; i++) {
        free((void *)(uintptr_t)dlist->items[i].meta);
    }
    if (first < dlist->count) {
        dlist->count = first;
    }
}

nixl_capi_status_t nixl_capi_create_reg_dlist(nixl_capi_mem_type_t mem_type, nixl_capi_reg_dlist_t *dlist) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    struct nixl_capi_reg_dlist_s *made = calloc(1, sizeof *made);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    made->mem = mem_type;
    *dlist = made;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_destroy_reg_dlist(nixl_capi_reg_dlist_t dlist) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    reg_drop(dlist, 0);
    free(dlist->items);
    free(dlist);
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_reg_dlist_get_type(nixl_capi_reg_dlist_t dlist, nixl_capi_mem_type_t *mem_type) {
    if (!dlist || !mem_type) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *mem_type = dlist->mem;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_reg_dlist_add_desc(nixl_capi_reg_dlist_t dlist, uintptr_t addr, size_t len,
                                                uint64_t dev_id, const void *metadata, size_t metadata_len) {
    struct capi_bytes meta = {NULL, 0};

    if (!dlist || (!metadata && metadata_len)) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    if (!capi_reserve((void **)&dlist->items, &dlist->room, dlist->count + 1, sizeof *dlist->items) ||
        !capi_bytes_set(&meta, metadata, metadata_len)) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    dlist->items[dlist->count++] = (struct nixl_meta_desc){addr, len, dev_id, meta.data, meta.len};
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_reg_dlist_desc_count(nixl_capi_reg_dlist_t dlist, size_t *count) {
    if (!dlist || !count) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *count = dlist->count;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_reg_dlist_is_empty(nixl_capi_reg_dlist_t dlist, bool *is_empty) {
    if (!dlist || !is_empty) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *is_empty = dlist->count == 0;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_reg_dlist_trim(nixl_capi_reg_dlist_t dlist) {
    return dlist ? NIXL_CAPI_SUCCESS : NIXL_CAPI_ERROR_INVALID_PARAM;
}

nixl_capi_status_t nixl_capi_reg_dlist_rem_desc(nixl_capi_reg_dlist_t dlist, int index) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    if (index < 0 || (size_t)index >= dlist->count) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    free((void *)(uintptr_t)dlist->items[index].meta);
    dlist->count--;
    memmove(&dlist->items[index], &dlist->items[index + 1],
            (dlist->count - (size_t)index) * sizeof *dlist->items);
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_reg_dlist_clear(nixl_capi_reg_dlist_t dlist) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    reg_drop(dlist, 0);
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_reg_dlist_resize(nixl_capi_reg_dlist_t dlist, size_t new_size) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    if (!capi_reserve((void **)&dlist->items, &dlist->room, new_size, sizeof *dlist->items)) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    reg_drop(dlist, new_size);
    for (; dlist->count < new_size; dlist->count++) {
        dlist->items[dlist->count] = (struct nixl_meta_desc){0, 0, 0, NULL, 0};
    }
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_reg_dlist_print(nixl_capi_reg_dlist_t dlist) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    printf("%zu registration descriptors of kind %s\n", dlist->count, mem_name(dlist->mem));
    for (size_t i = 0; i < dlist->count; i++) {
        printf("%6zu: address 0x%" PRIx64 ", %" PRIu64 " bytes, device %" PRIu64 ", %zu bytes of metadata\n",
               i, dlist->items[i].addr, dlist->items[i].len, dlist->items[i].dev, dlist->items[i].meta_len);
    }
    return fflush(stdout) ? NIXL_CAPI_ERROR_BACKEND : NIXL_CAPI_SUCCESS;
}

/* ---- Views of other agents' memory -------------------------------------------------------------------- */

nixl_capi_status_t nixl_capi_create_remote_dlist(nixl_capi_mem_type_t mem_type,
                                                 nixl_capi_remote_dlist_t *dlist) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    struct nixl_capi_remote_dlist_s *made = calloc(1, sizeof *made);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    made->mem = mem_type;
    *dlist = made;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_destroy_remote_dlist(nixl_capi_remote_dlist_t dlist) {
    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    for (size_t i = 0; i < dlist->count; i++) {
        free((void *)(uintptr_t)dlist->items[i].agent);
    }
    free(dlist->items);
    free(dlist);
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_remote_dlist_add_desc(nixl_capi_remote_dlist_t dlist, uintptr_t addr, size_t len,
                                                   uint64_t dev_id, const char *remote_agent) {
    char *agent = NULL;

    if (!dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    if (!capi_reserve((void **)&dlist->items, &dlist->room, dlist->count + 1, sizeof *dlist->items)) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    if (remote_agent && strcmp(remote_agent, NULL_AGENT) != 0) {
        agent = strdup(remote_agent);
        if (!agent) {
            return NIXL_CAPI_ERROR_BACKEND;
        }
    }
    dlist->items[dlist->count++] = (struct nixl_remote_desc){addr, len, dev_id, agent};
    return NIXL_CAPI_SUCCESS;
}
