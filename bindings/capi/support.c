/* SPDX-License-Identifier: Apache-2.0 */
/*
 * support.c - the translation of status, bytes and growing arrays that every file of this folder uses, and the
 * functions about the library itself.
 */
#include "handles.h"

#include <stdlib.h>
#include <string.h>

nixl_capi_status_t capi_status(nixl_status_t status) {
    switch (status) {
    case NIXL_SUCCESS:
        return NIXL_CAPI_SUCCESS;
    case NIXL_IN_PROG:
        return NIXL_CAPI_IN_PROG;
    case NIXL_ERR_INVALID_PARAM:
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    case NIXL_ERR_NOT_FOUND:
        return NIXL_CAPI_ERROR_NOT_FOUND;
    case NIXL_ERR_NO_TELEMETRY:
        return NIXL_CAPI_ERROR_NO_TELEMETRY;
    default:
        return NIXL_CAPI_ERROR_BACKEND;
    }
}

bool capi_reserve(void **items, size_t *room, size_t count, size_t item_bytes) {
    size_t grown = *room ? *room : 8;
    void *block;

    if (count <= *room) {
        return true;
    }
    while (grown < count) {
        if (grown > SIZE_MAX / 2) {
            return false;
        }
        grown *= 2;
    }
    if (grown > SIZE_MAX / item_bytes) {
        return false;
    }
    block = realloc(*items, grown * item_bytes);
    if (!block) {
        return false;
    }
    *items = block;
    *room = grown;
    return true;
}

bool capi_bytes_set(struct capi_bytes *bytes, const void *data, size_t len) {
    void *copy = NULL;

    if (len) {
        copy = malloc(len);
        if (!copy) {
            return false;
        }
        memcpy(copy, data, len);
    }
    free(bytes->data);
    bytes->data = copy;
    bytes->len = len;
    return true;
}

nixl_capi_status_t capi_bytes_copy(const struct capi_bytes *bytes, void **data, size_t *len) {
    struct capi_bytes copy = {NULL, 0};

    if (!capi_bytes_set(&copy, bytes->data, bytes->len)) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    *data = copy.data;
    *len = copy.len;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_get_version(int *major, int *minor, int *patch) {
    if (!major || !minor || !patch) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *major = NIXL_CAPI_VERSION_MAJOR;
    *minor = NIXL_CAPI_VERSION_MINOR;
    *patch = NIXL_CAPI_VERSION_PATCH;
    return NIXL_CAPI_SUCCESS;
}

bool nixl_capi_is_stub(void) {
    return false;
}

void nixl_capi_mem_free(void *block) {
    free(block);
}

const char *nixl_capi_last_error(void) {
    return nixl_error();
}
