/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - registration, what storage knows of a block, and views. */
#include "handles.h"

#include <stdlib.h>

nixl_capi_status_t nixl_capi_register_mem(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t dlist,
                                          nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;

    if (!agent || !dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    const struct nixl_list list = capi_reg_list(dlist);
    return capi_status(nixl_mem_register(agent->agent, &list, capi_options(&options, opt_args)));
}

nixl_capi_status_t nixl_capi_deregister_mem(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t dlist,
                                            nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;

    if (!agent || !dlist) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    const struct nixl_list list = capi_reg_list(dlist);
    return capi_status(nixl_mem_deregister(agent->agent, &list, capi_options(&options, opt_args)));
}

nixl_capi_status_t nixl_capi_query_mem(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t descs,
                                       nixl_capi_query_resp_list_t resp, nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;
    struct nixl_query_results *results;

    if (!agent || !descs || !resp) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    const struct nixl_list list = capi_reg_list(descs);
    nixl_status_t status = nixl_mem_query(agent->agent, &list, capi_options(&options, opt_args), &results);
    if (status == NIXL_SUCCESS) {
        nixl_free(resp->results);
        resp->results = results;
    }
    return capi_status(status);
}

nixl_capi_status_t nixl_capi_create_query_resp_list(nixl_capi_query_resp_list_t *list) {
    if (!list) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    struct nixl_capi_query_resp_list_s *made = calloc(1, sizeof *made);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    *list = made;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_destroy_query_resp_list(nixl_capi_query_resp_list_t list) {
    if (!list) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    nixl_free(list->results);
    free(list);
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_query_resp_list_size(nixl_capi_query_resp_list_t list, size_t *size) {
    if (!list || !size) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *size = list->results ? list->results->count : 0;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_query_resp_list_has_value(nixl_capi_query_resp_list_t list, size_t index,
                                                       bool *has_value) {
    if (!list || !has_value || !list->results || index >= list->results->count) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *has_value = list->results->items[index].found;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_query_resp_list_get_params(nixl_capi_query_resp_list_t list, size_t index,
                                                        nixl_capi_params_t *params) {
    if (!list || !params || !list->results || index >= list->results->count ||
        !list->results->items[index].found) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    struct nixl_capi_params_s *made = capi_params_from(&list->results->items[index].params);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    *params = made;
    return NIXL_CAPI_SUCCESS;
}

/* A view handle is the backend's own pointer: kernels are given it as it is. */
nixl_capi_status_t nixl_capi_prep_mem_view_local(nixl_capi_agent_t agent, nixl_capi_xfer_dlist_t descs,
                                                 nixl_capi_mem_view_t *view, nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;
    void *made;

    if (!agent || !descs || !view) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    const struct nixl_list list = capi_xfer_list(descs);
    nixl_status_t status = nixl_view_local(agent->agent, &list, capi_options(&options, opt_args), &made);
    if (status == NIXL_SUCCESS) {
        *view = made;
    }
    return capi_status(status);
}

nixl_capi_status_t nixl_capi_prep_mem_view_remote(nixl_capi_agent_t agent, nixl_capi_remote_dlist_t descs,
                                                  nixl_capi_mem_view_t *view, nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;
    void *made;

    if (!agent || !descs || !view) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    const struct nixl_list list = capi_remote_list(descs);
    nixl_status_t status = nixl_view_remote(agent->agent, &list, capi_options(&options, opt_args), &made);
    if (status == NIXL_SUCCESS) {
        *view = made;
    }
    return capi_status(status);
}

nixl_capi_status_t nixl_capi_release_mem_view(nixl_capi_agent_t agent, nixl_capi_mem_view_t view) {
    if (!agent || !view) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_status(nixl_view_release(agent->agent, view));
}
