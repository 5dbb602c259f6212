/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting several requests in one call. Each post is its own, with its own result; the backends are told where
 * the first begins and the last ends, so that they can hand over all of them at once.
 */
#include "xfer.h"

/* The backend to tell of a post; NULL: there is none, or it does not care. */
static struct nixl_backend *teller(const struct nixl_xfer *xfer) {
    if (xfer == NULL || xfer->agent == NULL || xfer_is_inherited(xfer->agent)) {
        return NULL; /* the post says why not */
    }
    return xfer->backend->ops.batch != NULL ? xfer->backend : NULL;
}

static void batch_turn(struct nixl_backend *from, struct nixl_backend *to) {
    if (from != NULL) {
        from->ops.batch(from->self, false);
    }
    if (to != NULL) {
        to->ops.batch(to->self, true);
    }
}

nixl_status_t nixl_xfer_post_all(struct nixl_xfer *const *xfers, size_t count, nixl_status_t *statuses) {
    struct nixl_backend *told = NULL;
    nixl_status_t result = NIXL_SUCCESS;

    if (xfers == NULL && count != 0) {
        return fail(NIXL_ERR_INVALID_PARAM, "post all: %zu requests at NULL", count);
    }
    for (size_t i = 0; i < count; i++) {
        struct nixl_backend *backend = teller(xfers[i]);
        nixl_status_t status;

        if (backend != told) {
            batch_turn(told, backend);
            told = backend;
        }
        status = nixl_xfer_post(xfers[i], NULL);
        if (statuses != NULL) {
            statuses[i] = status;
        }
        if (status < 0 || (status == NIXL_IN_PROG && result == NIXL_SUCCESS)) {
            result = status;
        }
    }
    batch_turn(told, NULL);
    return result;
}
