/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of nixlAgent that tell of a transfer: its times, its cost, its backend, why it failed. */
#include "binding.h"

#include <string.h>

static uint64_t us_up(uint64_t ns) {
    return (ns + 999) / 1000;
}

static PyObject *times_object(const struct nixl_xfer_times *times) {
    uint64_t post = us_up(times->post_ns), xfer = us_up(times->xfer_ns);

    post = post > 0 ? post : 1;
    return telemetry_new(times->start_ns / 1000, post, xfer > post ? xfer : post, times->total_bytes,
                         times->desc_count);
}

/* With `always`, a transfer that is done has times also while telemetry is off: those this binding saw. */
static PyObject *telemetry_get(PyObject *self, PyObject *number, bool always) {
    struct nixl_xfer_times times = NIXL_XFER_TIMES_INIT;
    struct agent *agent = (struct agent *)self;
    PyObject *result;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint32_t index;

    xfer = handle_hold(agent, number, HANDLE_XFER, &index);
    if (xfer == NULL) {
        return NULL;
    }
    status = nixl_xfer_stats(xfer, &times);
    if (status == NIXL_ERR_NO_TELEMETRY && always) {
        struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
        const struct handle *handle = &agent->handles[index];

        status = nixl_xfer_failure(xfer, &info);
        times.start_ns = handle->posted_at_ns;
        times.post_ns = handle->post_ns;
        times.xfer_ns =
            (handle->done_at_ns != 0 ? handle->done_at_ns : monotonic_ns()) - handle->posted_at_ns;
    }
    if (status == NIXL_SUCCESS) {
        result = times_object(&times);
    } else if (status == NIXL_ERR_NO_TELEMETRY) {
        result = raise_words(status, "telemetry is off: set capture_telemetry or NIXL_TELEMETRY_ENABLE",
                             NIXL_NO_INDEX, NULL);
    } else if (status == NIXL_IN_PROG) {
        /* Not yet an answer; the reference raises too. */
        result = raise_words(NIXL_ERR_NOT_POSTED, "the transfer is still in flight", NIXL_NO_INDEX, NULL);
    } else {
        const char *words = nixl_xfer_error(xfer);

        result = raise_words(status, words[0] != '\0' ? words : "the transfer was not posted yet",
                             NIXL_NO_INDEX, NULL);
    }
    handle_drop(agent, index);
    return result;
}

METHOD(agent_xfer_telemetry) {
    static struct signature sig = {.name = "getXferTelemetry", .params = {"reqh"}, .required = 1};
    PyObject *v[ARGS_MAX];

    return args_parse(&sig, args, nargs, kwnames, v) != 0 ? NULL : telemetry_get(self, v[0], false);
}

METHOD(agent_xfer_times) {
    static struct signature sig = {.name = "xferTimes", .params = {"reqh"}, .required = 1};
    PyObject *v[ARGS_MAX];

    return args_parse(&sig, args, nargs, kwnames, v) != 0 ? NULL : telemetry_get(self, v[0], true);
}

METHOD(agent_estimate_cost) {
    static struct signature sig = {.name = "estimateXferCost", .params = {"req_handle"}, .required = 1};
    struct nixl_cost cost = NIXL_COST_INIT;
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *result;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint32_t index;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 ||
        (xfer = handle_hold(agent, v[0], HANDLE_XFER, &index)) == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = nixl_xfer_cost(xfer, &cost);
    Py_END_ALLOW_THREADS;
    result = status < 0 ? raise_status(status, nixl_backend_type(nixl_xfer_backend(xfer)))
                        : Py_BuildValue("(KKi)", (unsigned long long)us_up(cost.duration_ns),
                                        (unsigned long long)us_up(cost.margin_ns), (int)cost.method);
    handle_drop(agent, index);
    return result;
}

METHOD(agent_query_backend) {
    static struct signature sig = {.name = "queryXferBackend", .params = {"reqh"}, .required = 1};
    struct agent *agent = (struct agent *)self;
    PyObject *v[ARGS_MAX], *result;
    struct nixl_xfer *xfer;
    uint64_t number;
    uint32_t index;

    if (args_parse(&sig, args, nargs, kwnames, v) != 0 ||
        (xfer = handle_hold(agent, v[0], HANDLE_XFER, &index)) == NULL) {
        return NULL;
    }
    number = handle_number(agent, HANDLE_BACKEND, nixl_xfer_backend(xfer));
    result = number != 0
                 ? PyLong_FromUnsignedLongLong(number)
                 : raise_words(NIXL_ERR_NOT_FOUND, "the request's backend is not known", NIXL_NO_INDEX, NULL);
    handle_drop(agent, index);
    return result;
}

static PyObject *text_of_xfer(PyObject *self, PyObject *number,
                              const char *(*text)(const struct nixl_xfer *)) {
    struct agent *agent = (struct agent *)self;
    struct nixl_xfer *xfer;
    PyObject *result;
    const char *words;
    uint32_t index;

    xfer = handle_hold(agent, number, HANDLE_XFER, &index);
    if (xfer == NULL) {
        return NULL;
    }
    words = text(xfer);
    result = PyUnicode_DecodeUTF8(words, (Py_ssize_t)strlen(words), "backslashreplace");
    handle_drop(agent, index);
    return result;
}

METHOD(agent_xfer_error) {
    static struct signature sig = {.name = "xferError", .params = {"reqh"}, .required = 1};
    PyObject *v[ARGS_MAX];

    return args_parse(&sig, args, nargs, kwnames, v) != 0 ? NULL : text_of_xfer(self, v[0], nixl_xfer_error);
}

METHOD(agent_xfer_transport) {
    static struct signature sig = {.name = "xferTransport", .params = {"reqh"}, .required = 1};
    PyObject *v[ARGS_MAX];

    return args_parse(&sig, args, nargs, kwnames, v) != 0 ? NULL
                                                          : text_of_xfer(self, v[0], nixl_xfer_transport);
}
