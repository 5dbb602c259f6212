/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include "base/array.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

bool exchange_send_list(struct session *session, unsigned to, const struct nixl_desc *descs, size_t count) {
    struct bytes text = {0};
    bool ok;

    if (wire_list_encode_plain(&text, DRAM_SEG, descs, sizeof *descs, count) != NIXL_SUCCESS) {
        bytes_free(&text);
        return session_fail(session, "a list of %zu descriptors cannot be written", count);
    }
    ok = runtime_send(session->runtime, to, text.data, text.len) || session_runtime_failed(session);
    bytes_free(&text);
    return ok;
}

bool exchange_recv_list(struct session *session, unsigned from, struct nixl_desc **descs, size_t *count) {
    struct bytes text = {0};
    struct wire_list list;
    struct wire_error error;
    bool ok = false;

    *descs = NULL;
    if (!runtime_recv(session->runtime, from, &text)) {
        session_runtime_failed(session);
    } else if (wire_list_decode(text.data, text.len, &list, &error) != NIXL_SUCCESS) {
        session_fail(session, "the descriptors of process %u are damaged: %s", from, error.what);
    } else if ((*descs = array_alloc(list.count, sizeof **descs)) == NULL) {
        session_fail(session, "out of memory");
    } else {
        wire_list_copy(&list, *descs);
        *count = list.count;
        ok = true;
    }
    bytes_free(&text);
    return ok;
}

bool exchange_recv_struct(struct session *session, unsigned from, void *data, size_t len) {
    struct bytes bytes = {0};
    bool ok = false;

    if (!runtime_recv(session->runtime, from, &bytes)) {
        session_runtime_failed(session);
    } else if (bytes.len != len) {
        session_fail(session, "process %u sent %zu bytes instead of %zu", from, bytes.len, len);
    } else {
        memcpy(data, bytes.data, len);
        ok = true;
    }
    bytes_free(&bytes);
    return ok;
}
