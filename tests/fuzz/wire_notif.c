/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications: what is accepted is written again and read back equal. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct wire_notif again, notif;
    struct wire_error error = {0};
    uint8_t *buffer;
    size_t len;

    if (wire_notif_decode(data, size, &notif, &error) != NIXL_SUCCESS) {
        assert(error.what != NULL && error.offset <= size);
        return 0;
    }
    assert(notif.name.len != 0 && notif.msg.len <= size);
    len = wire_notif_size(notif.name.len, notif.msg.len);
    assert(len != 0 && len <= size);
    buffer = malloc(len);
    assert(buffer != NULL);
    assert(wire_notif_encode(buffer, notif.name.data, notif.name.len, notif.msg.data, notif.msg.len) == len);
    assert(wire_notif_decode(buffer, len, &again, NULL) == NIXL_SUCCESS);
    assert(bytes_view_equal(again.name, notif.name) && bytes_view_equal(again.msg, notif.msg));
    assert(wire_notif_encode(buffer, notif.name.data, notif.name.len, notif.msg.data, SIZE_MAX) == 0);
    free(buffer);
    return 0;
}
