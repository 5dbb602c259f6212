/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - optional arguments, and what a call of the core gets for them. */
#include "handles.h"

#include <stdlib.h>
#include <string.h>

nixl_capi_status_t nixl_capi_create_opt_args(nixl_capi_opt_args_t *args) {
    if (!args) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    struct nixl_capi_opt_args_s *made = calloc(1, sizeof *made);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    made->port = NIXL_DEFAULT_PORT;
    *args = made;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_destroy_opt_args(nixl_capi_opt_args_t args) {
    if (!args) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    free(args->backends);
    free(args->notif.data);
    free(args->custom.data);
    free(args->ip_addr);
    free(args);
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_opt_args_add_backend(nixl_capi_opt_args_t args, nixl_capi_backend_t backend) {
    if (!args || !backend) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    if (!capi_reserve((void **)&args->backends, &args->backend_room, args->backend_count + 1,
                      sizeof *args->backends)) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    args->backends[args->backend_count++] = backend->backend;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_opt_args_set_notif_msg(nixl_capi_opt_args_t args, const void *data, size_t len) {
    if (!args || (!data && len)) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_bytes_set(&args->notif, data, len) ? NIXL_CAPI_SUCCESS : NIXL_CAPI_ERROR_BACKEND;
}

nixl_capi_status_t nixl_capi_opt_args_get_notif_msg(nixl_capi_opt_args_t args, void **data, size_t *len) {
    if (!args || !data || !len) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_bytes_copy(&args->notif, data, len);
}

nixl_capi_status_t nixl_capi_opt_args_set_has_notif(nixl_capi_opt_args_t args, bool has_notif) {
    if (!args) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    args->has_notif = has_notif;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_opt_args_get_has_notif(nixl_capi_opt_args_t args, bool *has_notif) {
    if (!args || !has_notif) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *has_notif = args->has_notif;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_opt_args_set_skip_desc_merge(nixl_capi_opt_args_t args, bool skip_merge) {
    if (!args) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    args->keep_lists = skip_merge;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_opt_args_get_skip_desc_merge(nixl_capi_opt_args_t args, bool *skip_merge) {
    if (!args || !skip_merge) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *skip_merge = args->keep_lists;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_opt_args_set_ip_addr(nixl_capi_opt_args_t args, const char *ip_addr) {
    if (!args || !ip_addr) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    char *copy = strdup(ip_addr);
    if (!copy) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    free(args->ip_addr);
    args->ip_addr = copy;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_opt_args_set_port(nixl_capi_opt_args_t args, uint16_t port) {
    if (!args) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    args->port = port;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_opt_args_set_custom_param(nixl_capi_opt_args_t args, const void *data,
                                                       size_t len) {
    if (!args || (!data && len)) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_bytes_set(&args->custom, data, len) ? NIXL_CAPI_SUCCESS : NIXL_CAPI_ERROR_BACKEND;
}

nixl_capi_status_t nixl_capi_opt_args_get_custom_param(nixl_capi_opt_args_t args, void **data, size_t *len) {
    if (!args || !data || !len) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_bytes_copy(&args->custom, data, len);
}

const struct nixl_options *capi_options(struct nixl_options *options, nixl_capi_opt_args_t args) {
    const struct nixl_options plain = NIXL_OPTIONS_INIT;

    if (!args) {
        return NULL;
    }
    *options = plain;
    options->backends = args->backends;
    options->backend_count = args->backend_count;
    options->has_notif = args->has_notif;
    options->notif = args->notif.data;
    options->notif_len = args->notif.len;
    options->keep_lists = args->keep_lists;
    options->ip_addr = args->ip_addr;
    options->port = args->port;
    options->custom = args->custom.data;
    options->custom_len = args->custom.len;
    return options;
}
