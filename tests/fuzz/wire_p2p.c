/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the socket exchange: items tile the frame from its beginning, and what is written is read back equal. */
#include <assert.h>
#include <stdint.h>

#include "wire/p2p.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes_view rest = bytes_view(data, size);
    struct wire_p2p_item item;
    const uint8_t *at = data;

    while (wire_p2p_next(&rest, &item)) {
        struct bytes out = {0};

        assert(item.arg.data == at + WIRE_P2P_COMMAND_LEN);
        at = item.arg.data + item.arg.len;
        assert(rest.data == at && rest.len == size - (size_t)(at - data));
        if (item.command != WIRE_P2P_UNKNOWN) {
            struct wire_p2p_item again;
            struct bytes_view one;

            assert(wire_p2p_command_append(&out, item.command, item.arg.data, item.arg.len));
            one = bytes_view_of(&out);
            assert(wire_p2p_next(&one, &again));
            assert(again.command == item.command && bytes_view_equal(again.arg, item.arg) && one.len == 0);
            bytes_free(&out);
        }
    }
    assert(rest.len <= size);
    return 0;
}
