/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications as UCX's active message 0 carries them: the prefix, name:sender, msg:bytes. */
#include "wire/codec.h"

size_t wire_notif_size(size_t name_len, size_t msg_len) {
    size_t size = WIRE_PREFIX_LEN + sizeof("namemsg") - 1 + 2 * WIRE_FIELD_EXTRA;

    if (name_len == 0 || !size_add(size, name_len, &size) || !size_add(size, msg_len, &size)) {
        return 0;
    }
    return size;
}

size_t wire_notif_encode(void *buffer, const void *name, size_t name_len, const void *msg, size_t msg_len) {
    size_t size = wire_notif_size(name_len, msg_len);
    uint8_t *at = buffer;

    if (size == 0) {
        return 0;
    }
    memcpy(at, WIRE_PREFIX, WIRE_PREFIX_LEN);
    at = wire_put_field(at + WIRE_PREFIX_LEN, WIRE_TAG("name"), name, name_len);
    wire_put_field(at, WIRE_TAG("msg"), msg, msg_len);
    return size;
}

nixl_status_t wire_notif_decode(const void *data, size_t len, struct wire_notif *notif,
                                struct wire_error *error) {
    struct wire_reader reader = {.data = data, .len = len, .error = error};
    struct wire_notif found;

    if (!wire_read_prefix(&reader) ||
        !wire_read_text(&reader, WIRE_TAG("name"), "the sender's name is missing", &found.name)) {
        return NIXL_ERR_MISMATCH;
    }
    if (memchr(found.name.data, 0, found.name.len) != NULL) {
        wire_refuse(&reader, "the sender's name contains a NUL byte");
        return NIXL_ERR_MISMATCH;
    }
    if (!wire_read_field(&reader, WIRE_TAG("msg"), "the message is missing", &found.msg)) {
        return NIXL_ERR_MISMATCH;
    }
    *notif = found;
    return NIXL_SUCCESS;
}
