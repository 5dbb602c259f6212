/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a request: why it failed, its times, backend, transport and cost. Nothing here changes
 * one. */
#include "xfer.h"

#include <sched.h>
#include <stdio.h>

const char *nixl_xfer_error(const struct nixl_xfer *xfer) {
    int32_t state;

    if (xfer == NULL) {
        return "";
    }
    state = xfer_state(xfer);
    if (state >= NIXL_SUCCESS || state == NIXL_ERR_NOT_POSTED) {
        return "";
    }
    return xfer->words != NULL ? xfer->words->text : error_status_name((nixl_status_t)state);
}

nixl_status_t nixl_xfer_failure(const struct nixl_xfer *xfer, struct nixl_failure_info *info) {
    struct nixl_failure_info full = NIXL_FAILURE_INFO_INIT;
    size_t size;
    int32_t state;

    if (xfer == NULL || info == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "failure: %s is NULL", xfer == NULL ? "the request" : "info");
    }
    state = xfer_state(xfer);
    if (state < 0 && state != NIXL_ERR_NOT_POSTED) {
        full = xfer->failure;
    }
    size = info->size < sizeof full ? info->size : sizeof full;
    full.size = info->size;
    memcpy(info, &full, size);
    return xfer_status_of(state);
}

nixl_status_t nixl_xfer_stats(const struct nixl_xfer *xfer, struct nixl_xfer_times *times) {
    struct nixl_xfer_times full = NIXL_XFER_TIMES_INIT;
    uint64_t xfer_ns;
    int32_t state;

    if (xfer == NULL || times == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "stats: %s is NULL", xfer == NULL ? "the request" : "times");
    }
    if (xfer->agent == NULL) {
        return xfer_fail_orphan("stats");
    }
    if (!xfer->agent->telemetry) {
        /* Its size is known without a clock. */
        if (xfer_state(xfer) == NIXL_SUCCESS && times->size >= sizeof full) {
            times->total_bytes = xfer->request.total_bytes;
            times->desc_count = xfer->request.block_count;
        }
        return fail(NIXL_ERR_NO_TELEMETRY,
                    "stats: telemetry is off; set capture_telemetry or NIXL_TELEMETRY_ENABLE=y");
    }
    state = xfer_state(xfer);
    if (state != NIXL_SUCCESS) {
        return xfer_status_of(state);
    }
    /* A completion may come before its post has returned and written post_ns. */
    while (__atomic_load_n(&xfer->is_posting, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
    xfer_ns = xfer->end_ns > xfer->start_ns ? xfer->end_ns - xfer->start_ns : 1;
    full.size = times->size;
    full.start_ns = xfer->start_ns;
    full.post_ns = xfer->post_ns;
    full.xfer_ns = xfer_ns > xfer->post_ns ? xfer_ns : xfer->post_ns;
    full.total_bytes = xfer->request.total_bytes;
    full.desc_count = xfer->request.block_count;
    memcpy(times, &full, times->size < sizeof full ? times->size : sizeof full);
    return NIXL_SUCCESS;
}

struct nixl_backend *nixl_xfer_backend(const struct nixl_xfer *xfer) {
    return xfer != NULL ? xfer->backend : NULL;
}

const char *nixl_xfer_transport(const struct nixl_xfer *xfer) {
    static _Thread_local char text[128];
    struct nixl_backend *backend;
    size_t used;

    if (xfer == NULL || xfer->backend == NULL) {
        return "";
    }
    backend = xfer->backend;
    used = (size_t)snprintf(text, sizeof text, "%s", backend->ops.name);
    if (backend->ops.transport == NULL || xfer_is_inherited(xfer->agent) || used + 2 >= sizeof text) {
        return text;
    }
    text[used + 1] = '\0';
    if (backend->ops.transport(backend->self, &xfer->request, text + used + 1, sizeof text - used - 1) ==
            NIXL_SUCCESS &&
        text[used + 1] != '\0') {
        text[used] = ' ';
    } else {
        text[used] = '\0';
    }
    return text;
}

nixl_status_t nixl_xfer_cost(const struct nixl_xfer *xfer, struct nixl_cost *cost) {
    struct nixl_cost full = NIXL_COST_INIT;
    struct nixl_backend *backend;
    unsigned mark = backend_mark();
    nixl_status_t status;

    if (xfer == NULL || cost == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "cost: %s is NULL", xfer == NULL ? "the request" : "cost");
    }
    if (xfer->agent == NULL) {
        return xfer_fail_orphan("cost");
    }
    if (xfer_is_inherited(xfer->agent)) {
        return xfer_fail_inherited("cost", xfer->agent);
    }
    if (xfer->peer != NULL && __atomic_load_n(&xfer->peer->is_gone, __ATOMIC_ACQUIRE)) {
        return fail(NIXL_ERR_NOT_FOUND, "cost: peer \"%.64s\" was removed or replaced", xfer->peer->name);
    }
    backend = xfer->backend;
    status = backend->ops.cost != NULL ? backend->ops.cost(backend->self, &xfer->request, &full)
                                       : NIXL_ERR_NOT_SUPPORTED;
    if (status == NIXL_ERR_NOT_SUPPORTED) {
        full = (struct nixl_cost)NIXL_COST_INIT;
        cost_tell(xfer, &full);
    } else if (status != NIXL_SUCCESS) {
        status = backend_fault(backend, mark, status, "estimating the cost");
        error_prefix("cost");
        return status;
    }
    full.size = cost->size;
    memcpy(cost, &full, cost->size < sizeof full ? cost->size : sizeof full);
    return NIXL_SUCCESS;
}
