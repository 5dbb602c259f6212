/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notif.c - notifications: sending one, and the map in which received ones are kept by sender, each sender's in the
 * order of arrival.
 */
#include "handles.h"

#include <stdlib.h>
#include <string.h>

struct sender {
    char *agent;
    struct capi_bytes *messages;
    size_t count, room;
};

struct nixl_capi_notif_map_s {
    struct sender *senders;
    size_t count, room;
};

nixl_capi_status_t nixl_capi_gen_notif(nixl_capi_agent_t agent, const char *remote_agent, const void *data,
                                       size_t len, nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;

    if (!agent || !remote_agent || (!data && len)) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_status(
        nixl_notif_send(agent->agent, remote_agent, data, len, capi_options(&options, opt_args)));
}

nixl_capi_status_t nixl_capi_create_notif_map(nixl_capi_notif_map_t *notif_map) {
    if (!notif_map) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    struct nixl_capi_notif_map_s *made = calloc(1, sizeof *made);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    *notif_map = made;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_notif_map_clear(nixl_capi_notif_map_t map) {
    if (!map) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    for (size_t i = 0; i < map->count; i++) {
        struct sender *sender = &map->senders[i];
        for (size_t m = 0; m < sender->count; m++) {
            free(sender->messages[m].data);
        }
        free(sender->messages);
        free(sender->agent);
    }
    map->count = 0;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_destroy_notif_map(nixl_capi_notif_map_t notif_map) {
    if (nixl_capi_notif_map_clear(notif_map) != NIXL_CAPI_SUCCESS) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    free(notif_map->senders);
    free(notif_map);
    return NIXL_CAPI_SUCCESS;
}

static struct sender *sender_find(struct nixl_capi_notif_map_s *map, const char *agent) {
    for (size_t i = 0; i < map->count; i++) {
        if (strcmp(map->senders[i].agent, agent) == 0) {
            return &map->senders[i];
        }
    }
    return NULL;
}

static struct sender *sender_add(struct nixl_capi_notif_map_s *map, const char *agent) {
    char *name = strdup(agent);

    if (!name || !capi_reserve((void **)&map->senders, &map->room, map->count + 1, sizeof *map->senders)) {
        free(name);
        return NULL;
    }
    map->senders[map->count] = (struct sender){name, NULL, 0, 0};
    return &map->senders[map->count++];
}

static bool map_add(struct nixl_capi_notif_map_s *map, const struct nixl_notif *notif) {
    struct sender *sender = sender_find(map, notif->agent);
    struct capi_bytes message = {NULL, 0};

    if (!sender) {
        sender = sender_add(map, notif->agent);
    }
    if (!sender ||
        !capi_reserve((void **)&sender->messages, &sender->room, sender->count + 1,
                      sizeof *sender->messages) ||
        !capi_bytes_set(&message, notif->msg, notif->len)) {
        return false;
    }
    sender->messages[sender->count++] = message;
    return true;
}

nixl_capi_status_t nixl_capi_get_notifs(nixl_capi_agent_t agent, nixl_capi_notif_map_t notif_map,
                                        nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;
    struct nixl_notifs *taken;
    nixl_status_t status;

    if (!agent || !notif_map) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    status = nixl_notif_take(agent->agent, capi_options(&options, opt_args), &taken);
    if (status == NIXL_SUCCESS && taken) {
        for (size_t i = 0; i < taken->count; i++) {
            if (!map_add(notif_map, &taken->items[i])) {
                status = NIXL_ERR_BACKEND;
            }
        }
        nixl_notifs_release(taken);
    }
    return capi_status(status);
}

nixl_capi_status_t nixl_capi_notif_map_size(nixl_capi_notif_map_t map, size_t *size) {
    if (!map || !size) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *size = map->count;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_notif_map_get_agent_at(nixl_capi_notif_map_t map, size_t index,
                                                    const char **agent_name) {
    if (!map || !agent_name || index >= map->count) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *agent_name = map->senders[index].agent;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_notif_map_get_notifs_size(nixl_capi_notif_map_t map, const char *agent_name,
                                                       size_t *size) {
    struct sender *sender;

    if (!map || !agent_name || !size || !(sender = sender_find(map, agent_name))) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *size = sender->count;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_notif_map_get_notif(nixl_capi_notif_map_t map, const char *agent_name,
                                                 size_t index, const void **data, size_t *len) {
    struct sender *sender;

    if (!map || !agent_name || !data || !len || !(sender = sender_find(map, agent_name)) ||
        index >= sender->count) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    /* Rust makes a slice of it, which must not begin at NULL even when it is empty. */
    *data = sender->messages[index].len ? sender->messages[index].data : "";
    *len = sender->messages[index].len;
    return NIXL_CAPI_SUCCESS;
}
