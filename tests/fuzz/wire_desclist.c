/* SPDX-License-Identifier: Apache-2.0 */
/* Serialized descriptor lists: what is accepted is walked, written again and read back equal. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const struct wire_list *a, const struct wire_list *b) {
    struct wire_list_iter at_a, at_b;
    struct wire_desc x, y;

    if (a->mem != b->mem || a->has_meta != b->has_meta || a->count != b->count) {
        return false;
    }
    wire_list_begin(a, &at_a);
    wire_list_begin(b, &at_b);
    while (wire_list_next(&at_a, &x)) {
        if (!wire_list_next(&at_b, &y) || x.addr != y.addr || x.len != y.len || x.dev != y.dev ||
            !bytes_view_equal(x.meta, y.meta)) {
            return false;
        }
    }
    return !wire_list_next(&at_b, &y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct wire_error error = {0};
    struct nixl_meta_desc *items;
    struct wire_list again, list;
    struct wire_list_iter iter;
    struct wire_desc desc;
    struct bytes out = {0};
    size_t n = 0;

    if (wire_list_decode(data, size, &list, &error) != NIXL_SUCCESS) {
        assert(error.what != NULL && error.offset <= size);
        return 0;
    }
    assert(list.count <= size / 24);
    items = calloc(list.count + 1, sizeof *items);
    assert(items != NULL);
    for (wire_list_begin(&list, &iter); wire_list_next(&iter, &desc); n++) {
        items[n] = (struct nixl_meta_desc){.addr = desc.addr,
                                           .len = desc.len,
                                           .dev = desc.dev,
                                           .meta = desc.meta.data,
                                           .meta_len = desc.meta.len};
    }
    assert(n == list.count);
    if (list.has_meta) {
        assert(wire_list_encode_meta(&out, list.mem, items, sizeof *items, n) == NIXL_SUCCESS);
    } else {
        struct nixl_desc *plain = calloc(n + 1, sizeof *plain);

        assert(plain != NULL);
        wire_list_copy(&list, plain);
        assert(wire_list_encode_plain(&out, list.mem, plain, sizeof *plain, n) == NIXL_SUCCESS);
        free(plain);
    }
    assert(wire_list_decode(out.data, out.len, &again, NULL) == NIXL_SUCCESS);
    assert(same(&list, &again));
    bytes_free(&out);
    free(items);
    return 0;
}
