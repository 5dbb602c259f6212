/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory views: the vendor's own handle over registered blocks, local or of peers, for transfers that a
 * device starts. What is known here is only which view belongs to which backend, and what it must keep alive:
 * regions and peers.
 */
#include "agent/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FORMS_LOCAL ((1u << NIXL_FORM_PLAIN) | (1u << NIXL_FORM_STRIDED))

struct view {
    struct view *next;
    struct nixl_backend *backend;
    void *handle; /* the vendor's */
    bool is_remote;
    size_t count;
    struct nixl_desc *descs;
    void **keys;
    void **handles;          /* the peers' */
    struct region **regions; /* a reference each, NULL for an empty slot */
    struct peer **peers;     /* a use each, NULL for local blocks and empty slots */
};

static void view_free(struct view *view) {
    for (size_t i = 0; i < view->count && view->regions != NULL && view->peers != NULL; i++) {
        if (view->peers[i] != NULL) {
            peer_region_unref(view->peers[i], view->regions[i]);
            peer_leave(view->peers[i]);
        } else if (view->regions[i] != NULL && region_unref(view->regions[i])) {
            region_free(view->regions[i]);
        }
    }
    free(view->descs);
    free(view->keys);
    free(view->handles);
    free(view->regions);
    free(view->peers);
    free(view);
}

static struct view *view_new(size_t count, bool is_remote) {
    struct view *view = calloc(1, sizeof *view);

    if (view == NULL) {
        return NULL;
    }
    view->count = count;
    view->is_remote = is_remote;
    view->descs = calloc(count, sizeof *view->descs);
    view->keys = calloc(count, sizeof *view->keys);
    view->handles = calloc(count, sizeof *view->handles);
    view->regions = calloc(count, sizeof *view->regions);
    view->peers = calloc(count, sizeof *view->peers);
    if (view->descs == NULL || view->keys == NULL || view->handles == NULL || view->regions == NULL ||
        view->peers == NULL) {
        view_free(view);
        return NULL;
    }
    return view;
}

/* ---- blocks to keys; tables held ---- */

static nixl_status_t local_find(struct nixl_agent *agent, const struct nixl_list *list, unsigned slot,
                                struct view *view) {
    struct region_hint hint = {0};
    struct list_reader reader;

    list_begin(&reader, list);
    for (size_t i = 0; i < view->count && list_next(&reader, &view->descs[i]); i++) {
        struct region *region =
            region_set_cover(&agent->regions, list->mem, &view->descs[i], 1u << slot, &hint);

        if (region == NULL) {
            return region_set_explain(&agent->regions, list->mem, &view->descs[i], i, agent->name);
        }
        region_ref(region);
        view->regions[i] = region;
        view->keys[i] = region_key_of(region, slot)->handle;
    }
    return NIXL_SUCCESS;
}

static nixl_status_t slot_find(struct nixl_agent *agent, const struct nixl_remote_desc *item, nixl_mem_t mem,
                               unsigned slot, size_t i, struct view *view) {
    struct region_hint hint = {0};
    struct region *region;
    struct peer *peer;

    view->descs[i] = (struct nixl_desc){item->addr, item->len, item->dev};
    if (item->agent == NULL) {
        return NIXL_SUCCESS;
    }
    peer = peer_find(agent, item->agent, strlen(item->agent));
    if (peer == NULL) {
        return fail_at(NIXL_ERR_NOT_FOUND, i, "descriptor %zu: peer %s is not loaded", i, item->agent);
    }
    if ((peer->backends & (1u << slot)) == 0) {
        return fail_at(NIXL_ERR_NOT_FOUND, i, "descriptor %zu: peer %s is not reached by backend %s", i,
                       item->agent, agent->backends[slot]->ops.name);
    }
    region = region_set_cover(&peer->regions, mem, &view->descs[i], 1u << slot, &hint);
    if (region == NULL) {
        return region_set_explain(&peer->regions, mem, &view->descs[i], i, item->agent);
    }
    peer_use(peer);
    region_ref(region);
    view->peers[i] = peer;
    view->regions[i] = region;
    view->keys[i] = region_key_of(region, slot)->handle;
    view->handles[i] = peer->handles[slot];
    return NIXL_SUCCESS;
}

static nixl_status_t remote_find(struct nixl_agent *agent, const struct nixl_list *list, unsigned slot,
                                 struct view *view) {
    const unsigned char *at = list->items;
    size_t used = 0;
    nixl_status_t status = NIXL_SUCCESS;

    for (size_t i = 0; i < view->count && status == NIXL_SUCCESS; i++) {
        struct nixl_remote_desc item;

        memcpy(&item, at + i * list_item_bytes(list), sizeof item);
        used += item.agent != NULL;
        status = slot_find(agent, &item, list->mem, slot, i, view);
    }
    if (status == NIXL_SUCCESS && used == 0) {
        status = fail(NIXL_ERR_NOT_FOUND, "the list has empty slots only");
    }
    return status;
}

/* ---- opening ---- */

/* The first backend, in the order of choice, that offers views of that kind. */
static nixl_status_t backend_choose(struct nixl_agent *agent, const struct nixl_options *options,
                                    nixl_mem_t mem, bool is_remote, struct nixl_backend **backend) {
    struct nixl_backend *order[AGENT_BACKENDS];
    uint32_t able = backend_mask(agent, is_remote ? NIXL_CAP_REMOTE : 0);
    uint32_t hints;
    unsigned count;
    nixl_status_t status = select_hints(agent, options, &hints);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    count = select_order(agent, options, hints != 0 ? able & hints : able, order);
    for (unsigned i = 0; i < count; i++) {
        if (order[i]->ops.view_open != NULL && (order[i]->instance.mems & NIXL_MEM_BIT(mem)) != 0) {
            *backend = order[i];
            return NIXL_SUCCESS;
        }
    }
    return fail(NIXL_ERR_NOT_SUPPORTED, "no backend of agent %s offers memory views of %s", agent->name,
                nixl_mem_string(mem));
}

static nixl_status_t vendor_open(struct view *view, nixl_mem_t mem) {
    struct nixl_backend *backend = view->backend;
    unsigned mark = backend_mark();
    nixl_status_t status;

    lock_take(&backend->control);
    status = backend->ops.view_open(backend->self, mem, view->is_remote, view->descs, view->keys,
                                    view->is_remote ? view->handles : NULL, view->count, &view->handle);
    lock_drop(&backend->control);
    return status == NIXL_SUCCESS ? status : backend_fault(backend, mark, status, "opening a memory view");
}

static nixl_status_t view_open(struct nixl_agent *agent, const struct nixl_list *list,
                               const struct nixl_options *options, bool is_remote, void **handle) {
    struct nixl_backend *backend = NULL;
    struct view *view;
    size_t blocks;
    nixl_status_t status =
        list_check(list, is_remote ? 1u << NIXL_FORM_REMOTE : FORMS_LOCAL, false, "list", &blocks, NULL);

    if (status == NIXL_SUCCESS) {
        status = backend_choose(agent, options, list->mem, is_remote, &backend);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    view = view_new(blocks, is_remote);
    if (view == NULL) {
        return fail_memory("a memory view", blocks * sizeof(struct nixl_desc));
    }
    view->backend = backend;
    tables_search(agent);
    status = is_remote ? remote_find(agent, list, backend->slot, view)
                       : local_find(agent, list, backend->slot, view);
    tables_leave(agent);
    if (status == NIXL_SUCCESS) {
        status = vendor_open(view, list->mem);
    }
    if (status != NIXL_SUCCESS) {
        view_free(view);
        return status;
    }
    tables_change(agent);
    view->next = agent->views;
    agent->views = view;
    tables_leave(agent);
    *handle = view->handle;
    return NIXL_SUCCESS;
}

static nixl_status_t view_call(struct nixl_agent *agent, const struct nixl_list *list,
                               const struct nixl_options *options, bool is_remote, void **view) {
    const char *call = is_remote ? "remote view" : "local view";
    nixl_status_t status;

    if (view == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s: view is NULL", call);
    }
    *view = NULL;
    status = agent_enter(agent, call);
    if (status != NIXL_SUCCESS) {
        return status;
    }
    status = view_open(agent, list, options, is_remote, view);
    agent_leave(agent);
    if (status != NIXL_SUCCESS) {
        error_prefix("%s", call);
    }
    return status;
}

nixl_status_t nixl_view_local(struct nixl_agent *agent, const struct nixl_list *list,
                              const struct nixl_options *options, void **view) {
    return view_call(agent, list, options, false, view);
}

nixl_status_t nixl_view_remote(struct nixl_agent *agent, const struct nixl_list *list,
                               const struct nixl_options *options, void **view) {
    return view_call(agent, list, options, true, view);
}

/* ---- closing ---- */

static void view_close(struct view *view) {
    lock_take(&view->backend->control);
    view->backend->ops.view_close(view->backend->self, view->handle);
    lock_drop(&view->backend->control);
    view_free(view);
}

nixl_status_t nixl_view_release(struct nixl_agent *agent, void *handle) {
    struct view **at;
    struct view *view;
    nixl_status_t status = agent_enter(agent, "release view");

    if (status != NIXL_SUCCESS) {
        return status;
    }
    tables_change(agent);
    for (at = &agent->views; *at != NULL && (*at)->handle != handle; at = &(*at)->next) {
    }
    view = *at;
    if (view != NULL) {
        *at = view->next;
    }
    tables_leave(agent);
    if (view != NULL) {
        view_close(view);
    } else {
        status = fail(NIXL_ERR_NOT_FOUND, "release view: %p is not a view of agent %s", handle, agent->name);
    }
    agent_leave(agent);
    return status;
}

void views_close_all(struct nixl_agent *agent) {
    while (agent->views != NULL) {
        struct view *view = agent->views;

        agent->views = view->next;
        view_close(view);
    }
}
