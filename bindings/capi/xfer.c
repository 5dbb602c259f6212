/* SPDX-License-Identifier: Apache-2.0 */
/* xfer.c - prepared lists and transfer requests. */
#include "handles.h"

#include <stdlib.h>

nixl_capi_status_t nixl_capi_prep_xfer_dlist(nixl_capi_agent_t agent, const char *agent_name,
                                             nixl_capi_xfer_dlist_t descs,
                                             nixl_capi_xfer_dlist_handle_t *dlist_handle,
                                             nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;

    if (!agent || !agent_name || !descs || !dlist_handle) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *dlist_handle = NULL;
    struct nixl_capi_xfer_dlist_handle_s *made = calloc(1, sizeof *made);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    const struct nixl_list list = capi_xfer_list(descs);
    nixl_status_t status =
        nixl_dlist_prepare(agent->agent, agent_name, &list, capi_options(&options, opt_args), &made->dlist);
    if (status != NIXL_SUCCESS) {
        free(made);
        return capi_status(status);
    }
    *dlist_handle = made;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_release_xfer_dlist_handle(nixl_capi_agent_t agent,
                                                       nixl_capi_xfer_dlist_handle_t dlist_handle) {
    if (!agent || !dlist_handle) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    nixl_dlist_release(dlist_handle->dlist);
    free(dlist_handle);
    return NIXL_CAPI_SUCCESS;
}

/* Ends the making of a request: the handle on success, else nothing is left. */
static nixl_status_t give_request(nixl_status_t status, struct nixl_capi_xfer_req_s *made,
                                  nixl_capi_xfer_req_t *req) {
    if (status != NIXL_SUCCESS) {
        free(made);
        return status;
    }
    *req = made;
    return NIXL_SUCCESS;
}

nixl_capi_status_t nixl_capi_make_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_op_t operation,
                                           nixl_capi_xfer_dlist_handle_t local_descs,
                                           const int *local_indices, size_t local_indices_count,
                                           nixl_capi_xfer_dlist_handle_t remote_descs,
                                           const int *remote_indices, size_t remote_indices_count,
                                           nixl_capi_xfer_req_t *req, nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;
    nixl_status_t status;

    if (!agent || !local_descs || !remote_descs || !req || !local_indices || !remote_indices ||
        local_indices_count != remote_indices_count) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *req = NULL;
    struct nixl_capi_xfer_req_s *made = calloc(1, sizeof *made);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    status = nixl_xfer_make(agent->agent, (nixl_xfer_op_t)operation, local_descs->dlist, local_indices,
                            remote_descs->dlist, remote_indices, local_indices_count,
                            capi_options(&options, opt_args), &made->xfer);
    return capi_status(give_request(status, made, req));
}

nixl_capi_status_t nixl_capi_create_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_op_t operation,
                                             nixl_capi_xfer_dlist_t local_descs,
                                             nixl_capi_xfer_dlist_t remote_descs, const char *remote_agent,
                                             nixl_capi_xfer_req_t *req, nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;
    nixl_status_t status;

    if (!agent || !local_descs || !remote_descs || !remote_agent || !req) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    *req = NULL;
    struct nixl_capi_xfer_req_s *made = calloc(1, sizeof *made);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    const struct nixl_list local = capi_xfer_list(local_descs), remote = capi_xfer_list(remote_descs);
    status = nixl_xfer_create(agent->agent, (nixl_xfer_op_t)operation, &local, &remote, remote_agent,
                              capi_options(&options, opt_args), &made->xfer);
    status = give_request(status, made, req);
    return status == NIXL_SUCCESS ? NIXL_CAPI_SUCCESS : NIXL_CAPI_ERROR_BACKEND;
}

static bool request_is_usable(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req) {
    return agent && req && req->xfer;
}

/* Microseconds are what the interface has; a time that was taken is never told as none. */
static uint64_t microseconds(uint64_t ns) {
    return ns / 1000 + (ns % 1000 != 0);
}

nixl_capi_status_t nixl_capi_estimate_xfer_cost(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req,
                                                nixl_capi_opt_args_t opt_args, int64_t *duration_us,
                                                int64_t *err_margin_us, nixl_capi_cost_t *method) {
    struct nixl_cost cost = NIXL_COST_INIT;

    (void)opt_args;
    if (!request_is_usable(agent, req) || !duration_us || !err_margin_us || !method) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    nixl_status_t status = nixl_xfer_cost(req->xfer, &cost);
    if (status == NIXL_SUCCESS) {
        *duration_us = (int64_t)microseconds(cost.duration_ns);
        *err_margin_us = (int64_t)microseconds(cost.margin_ns);
        *method = NIXL_CAPI_COST_ANALYTICAL_BACKEND; /* the only one that this interface knows */
    }
    return capi_status(status);
}

nixl_capi_status_t nixl_capi_post_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req,
                                           nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;

    if (!request_is_usable(agent, req)) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_status(nixl_xfer_post(req->xfer, capi_options(&options, opt_args)));
}

nixl_capi_status_t nixl_capi_get_xfer_status(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req) {
    if (!request_is_usable(agent, req)) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_status(nixl_xfer_poll(req->xfer));
}

nixl_capi_status_t nixl_capi_get_xfer_telemetry(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req,
                                                nixl_capi_xfer_telemetry_t telemetry) {
    struct nixl_xfer_times times = NIXL_XFER_TIMES_INIT;

    if (!request_is_usable(agent, req) || !telemetry) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    nixl_status_t status = nixl_xfer_stats(req->xfer, &times);
    if (status == NIXL_SUCCESS) {
        telemetry->start_time_us = times.start_ns / 1000;
        telemetry->post_duration_us = microseconds(times.post_ns);
        telemetry->xfer_duration_us = microseconds(times.xfer_ns);
        telemetry->total_bytes = times.total_bytes;
        telemetry->desc_count = times.desc_count;
    }
    return capi_status(status);
}

nixl_capi_status_t nixl_capi_query_xfer_backend(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req,
                                                nixl_capi_backend_t *backend) {
    if (!request_is_usable(agent, req) || !backend) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    struct nixl_capi_backend_s *made = calloc(1, sizeof *made);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    made->backend = nixl_xfer_backend(req->xfer);
    if (!made->backend) {
        free(made);
        return NIXL_CAPI_ERROR_NOT_FOUND;
    }
    *backend = made;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_release_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req) {
    if (!agent || !req) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    nixl_status_t status = nixl_xfer_release(req->xfer);
    if (status == NIXL_SUCCESS) {
        req->xfer = NULL;
    }
    return capi_status(status);
}

nixl_capi_status_t nixl_capi_destroy_xfer_req(nixl_capi_xfer_req_t req) {
    if (!req) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    if (req->xfer) {
        return NIXL_CAPI_ERROR_INVALID_STATE;
    }
    free(req);
    return NIXL_CAPI_SUCCESS;
}
