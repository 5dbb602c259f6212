/* SPDX-License-Identifier: Apache-2.0 */
/*
 * params.c - lists of names, of memory kinds and of parameters. Parameters keep the order in which they were
 * added; a key stands once.
 */
#include "handles.h"

#include <stdlib.h>
#include <string.h>

nixl_capi_status_t nixl_capi_destroy_string_list(nixl_capi_string_list_t list) {
    if (!list) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    nixl_free(list->names);
    free(list);
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_string_list_size(nixl_capi_string_list_t list, size_t *size) {
    if (!list || !size) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *size = list->names->count;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_string_list_get(nixl_capi_string_list_t list, size_t index, const char **str) {
    if (!list || !str || index >= list->names->count) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *str = list->names->items[index];
    return NIXL_CAPI_SUCCESS;
}

struct nixl_capi_mem_list_s *capi_mem_list_new(uint32_t mems) {
    struct nixl_capi_mem_list_s *list = calloc(1, sizeof *list);

    if (!list) {
        return NULL;
    }
    for (int kind = 0; kind < NIXL_MEM_KINDS; kind++) {
        if (mems & NIXL_MEM_BIT(kind)) {
            list->items[list->count++] = (nixl_capi_mem_type_t)kind;
        }
    }
    return list;
}

nixl_capi_status_t nixl_capi_destroy_mem_list(nixl_capi_mem_list_t list) {
    if (!list) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    free(list);
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_mem_list_is_empty(nixl_capi_mem_list_t list, bool *is_empty) {
    if (!list || !is_empty) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *is_empty = list->count == 0;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_mem_list_size(nixl_capi_mem_list_t list, size_t *size) {
    if (!list || !size) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *size = list->count;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_mem_list_get(nixl_capi_mem_list_t list, size_t index,
                                          nixl_capi_mem_type_t *mem_type) {
    if (!list || !mem_type || index >= list->count) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *mem_type = list->items[index];
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_mem_type_to_string(nixl_capi_mem_type_t mem_type, const char **str) {
    static const char *const names[] = {"DRAM", "VRAM", "BLOCK", "OBJECT", "FILE", "UNKNOWN"};
    unsigned kind = (unsigned)mem_type;

    if (!str || kind >= sizeof names / sizeof names[0]) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *str = names[kind];
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_create_params(nixl_capi_params_t *params) {
    if (!params) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    struct nixl_capi_params_s *made = calloc(1, sizeof *made);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    *params = made;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_destroy_params(nixl_capi_params_t params) {
    if (!params) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    for (size_t i = 0; i < params->count; i++) {
        free(params->items[i].key);
        free(params->items[i].value);
    }
    free(params->items);
    free(params);
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_params_add(nixl_capi_params_t params, const char *key, const char *value) {
    struct capi_param added;

    if (!params || !key || !value) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    added.value = strdup(value);
    if (!added.value) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    for (size_t i = 0; i < params->count; i++) {
        if (strcmp(params->items[i].key, key) == 0) {
            free(params->items[i].value);
            params->items[i].value = added.value;
            return NIXL_CAPI_SUCCESS;
        }
    }
    added.key = strdup(key);
    if (!added.key ||
        !capi_reserve((void **)&params->items, &params->room, params->count + 1, sizeof *params->items)) {
        free(added.key);
        free(added.value);
        return NIXL_CAPI_ERROR_BACKEND;
    }
    params->items[params->count++] = added;
    return NIXL_CAPI_SUCCESS;
}

struct nixl_capi_params_s *capi_params_from(const struct nixl_params *params) {
    struct nixl_capi_params_s *made = calloc(1, sizeof *made);

    if (!made) {
        return NULL;
    }
    for (size_t i = 0; i < params->count; i++) {
        if (nixl_capi_params_add(made, params->items[i].key, params->items[i].value) != NIXL_CAPI_SUCCESS) {
            nixl_capi_destroy_params(made);
            return NULL;
        }
    }
    return made;
}

nixl_capi_status_t nixl_capi_params_is_empty(nixl_capi_params_t params, bool *is_empty) {
    if (!params || !is_empty) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *is_empty = params->count == 0;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_params_create_iterator(nixl_capi_params_t params, nixl_capi_param_iter_t *iter) {
    if (!params || !iter) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    struct nixl_capi_param_iter_s *made = calloc(1, sizeof *made);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    made->params = params;
    *iter = made;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_params_iterator_next(nixl_capi_param_iter_t iter, const char **key,
                                                  const char **value, bool *has_next) {
    if (!iter || !key || !value || !has_next) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    if (iter->next < iter->params->count) {
        *key = iter->params->items[iter->next].key;
        *value = iter->params->items[iter->next].value;
        iter->next++;
        *has_next = iter->next < iter->params->count;
    } else {
        *has_next = false;
    }
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_params_destroy_iterator(nixl_capi_param_iter_t iter) {
    if (!iter) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    free(iter);
    return NIXL_CAPI_SUCCESS;
}
