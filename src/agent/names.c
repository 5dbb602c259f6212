/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of nixl.h: version, names of numbers, this thread's last failure, and the plugins that can be
 * asked for. Nothing here needs an agent.
 */
#include "agent/internal.h"

#include <stdlib.h>

const char *nixl_version(void) {
    return NIXL_VERSION_TEXT;
}

const char *nixl_status_string(nixl_status_t status) {
    if (status > NIXL_IN_PROG || status < NIXL_ERR_NO_TELEMETRY) {
        return "BAD_STATUS";
    }
    return error_status_name(status);
}

const char *nixl_mem_string(nixl_mem_t mem) {
    switch (mem) {
    case DRAM_SEG:
        return "DRAM_SEG";
    case VRAM_SEG:
        return "VRAM_SEG";
    case BLK_SEG:
        return "BLK_SEG";
    case OBJ_SEG:
        return "OBJ_SEG";
    case FILE_SEG:
        return "FILE_SEG";
    }
    return "BAD_SEG";
}

const char *nixl_op_string(nixl_xfer_op_t op) {
    switch (op) {
    case NIXL_READ:
        return "READ";
    case NIXL_WRITE:
        return "WRITE";
    }
    return "BAD_OP";
}

const char *nixl_error(void) {
    return error_text();
}

size_t nixl_error_index(void) {
    return error_index();
}

void nixl_free(void *block) {
    free(block);
}

nixl_status_t nixl_plugin_list(struct nixl_names **names) {
    if (names == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "plugin list: names is NULL");
    }
    return plugin_list(names);
}

nixl_status_t nixl_plugin_describe(const char *name, struct nixl_plugin_info **info) {
    struct plugin *plugin;
    nixl_status_t status;

    if (info == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "plugin describe: info is NULL");
    }
    *info = NULL;
    if (name == NULL || name[0] == '\0') {
        return fail(NIXL_ERR_INVALID_PARAM, "plugin describe: no name is given");
    }
    status = plugin_open(name, &plugin);
    if (status == NIXL_SUCCESS) {
        status = plugin_describe(plugin, info);
    }
    if (status != NIXL_SUCCESS) {
        error_prefix("plugin describe");
    }
    return status;
}
