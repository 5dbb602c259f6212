/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serialized descriptor lists: nixlDList:form t:mem n:count and the rows. A plain list has one field of n *
 * 24 bytes, left out when n is 0; a list with metadata has one field a row, 24 bytes and the row's blob. Rows
 * are checked once, here, and then walked in place.
 */
#include "wire/codec.h"

#define PLAIN_NAME "nixlBDList"
#define META_NAME "nixlSDList"

static bool read_plain_rows(struct wire_reader *reader, uint64_t count, struct bytes_view *rows) {
    struct wire_reader start = *reader;

    *rows = (struct bytes_view){0};
    if (count == 0) {
        return true;
    }
    if (count > wire_left(reader) / WIRE_ROW) {
        return wire_refuse(reader, "a list claims more descriptors than there are bytes for");
    }
    if (!wire_read_field(reader, NULL, 0, "the list's descriptors are missing", rows)) {
        return false;
    }
    return rows->len == count * WIRE_ROW || wire_refuse(&start, "a list's descriptors do not fit its count");
}

static bool read_meta_rows(struct wire_reader *reader, uint64_t count, struct bytes_view *rows) {
    size_t start = reader->at;

    if (count > wire_left(reader) / WIRE_META_ROW) {
        return wire_refuse(reader, "a list claims more descriptors than there are bytes for");
    }
    for (uint64_t i = 0; i < count; i++) {
        size_t left = wire_left(reader);
        uint64_t len;

        if (left < WIRE_META_ROW) {
            return wire_refuse(reader, "it ends inside a list's descriptors");
        }
        len = wire_get_u64(reader->data + reader->at);
        if (len < WIRE_ROW) {
            return wire_refuse(reader, "a descriptor is shorter than its 24 bytes");
        }
        if (len > left - WIRE_FIELD_EXTRA) {
            return wire_refuse(reader, "a descriptor is longer than the bytes that are left");
        }
        reader->at += WIRE_FIELD_EXTRA + (size_t)len;
    }
    *rows = bytes_view(reader->data + start, reader->at - start);
    return true;
}

bool wire_read_list(struct wire_reader *reader, struct wire_list *list) {
    struct wire_reader start = *reader;
    struct bytes_view name;
    struct bytes_view mem;
    uint64_t count;

    if (!wire_read_field(reader, WIRE_TAG("nixlDList"), "a descriptor list is missing", &name)) {
        return false;
    }
    list->has_meta = wire_view_is(name, META_NAME);
    if (!list->has_meta && !wire_view_is(name, PLAIN_NAME)) {
        return wire_refuse(&start, "a descriptor list is of an unknown form");
    }
    start = *reader;
    if (!wire_read_field(reader, WIRE_TAG("t"), "a list's memory kind is missing", &mem)) {
        return false;
    }
    if (mem.len != sizeof(uint32_t) || !wire_mem_is_kind(wire_get_u32(mem.data))) {
        return wire_refuse(&start, "a list's memory kind does not exist");
    }
    list->mem = (nixl_mem_t)wire_get_u32(mem.data);
    if (!wire_read_count(reader, WIRE_TAG("n"), "a list's count is missing", &count)) {
        return false;
    }
    if (list->has_meta ? !read_meta_rows(reader, count, &list->rows)
                       : !read_plain_rows(reader, count, &list->rows)) {
        return false;
    }
    list->count = (size_t)count; /* fits: it was compared with the bytes that are there */
    return true;
}

nixl_status_t wire_list_decode(const void *data, size_t len, struct wire_list *list,
                               struct wire_error *error) {
    struct wire_reader reader = {.data = data, .len = len, .error = error};
    struct wire_list found;

    if (!wire_read_prefix(&reader) || !wire_read_list(&reader, &found)) {
        return NIXL_ERR_MISMATCH;
    }
    *list = found;
    return NIXL_SUCCESS;
}

void wire_list_begin(const struct wire_list *list, struct wire_list_iter *iter) {
    *iter = (struct wire_list_iter){.at = list->rows.data, .left = list->count, .has_meta = list->has_meta};
}

bool wire_list_next(struct wire_list_iter *iter, struct wire_desc *desc) {
    const uint8_t *row = iter->at;
    size_t meta_len = 0;

    if (iter->left == 0) {
        return false;
    }
    if (iter->has_meta) {
        meta_len = (size_t)wire_get_u64(row) - WIRE_ROW;
        row += sizeof(uint64_t);
    }
    desc->addr = wire_get_u64(row);
    desc->len = wire_get_u64(row + 8);
    desc->dev = wire_get_u64(row + 16);
    desc->meta = bytes_view(row + WIRE_ROW, meta_len);
    iter->at = row + WIRE_ROW + meta_len + (iter->has_meta ? 1 : 0);
    iter->left--;
    return true;
}

void wire_list_copy(const struct wire_list *list, struct nixl_desc *descs) {
    struct wire_list_iter iter;
    struct wire_desc desc;

    wire_list_begin(list, &iter);
    while (wire_list_next(&iter, &desc)) {
        *descs++ = (struct nixl_desc){.addr = desc.addr, .len = desc.len, .dev = desc.dev};
    }
}

/* The prefix and the list up to its rows, whose size is `rows_size`: everything that can fail happens here.
 */
static nixl_status_t start_list(struct bytes *out, const char *form, nixl_mem_t mem, size_t count,
                                size_t rows_size) {
    static const size_t head = WIRE_PREFIX_LEN + sizeof("nixlDList" PLAIN_NAME "tn") - 1 +
                               3 * WIRE_FIELD_EXTRA + sizeof(uint32_t) + sizeof(uint64_t);
    uint8_t number[sizeof(uint64_t)];
    uint8_t *at;
    size_t size;

    if (!size_add(head, rows_size, &size)) {
        return NIXL_ERR_INVALID_PARAM;
    }
    if (!bytes_reserve(out, size)) {
        return NIXL_ERR_UNKNOWN;
    }
    at = out->data + out->len;
    memcpy(at, WIRE_PREFIX, WIRE_PREFIX_LEN);
    at = wire_put_field(at + WIRE_PREFIX_LEN, WIRE_TAG("nixlDList"), form, strlen(form));
    wire_put_u32(number, (uint32_t)mem);
    at = wire_put_field(at, WIRE_TAG("t"), number, sizeof(uint32_t));
    wire_put_u64(number, count);
    wire_put_field(at, WIRE_TAG("n"), number, sizeof number);
    out->len += head;
    return NIXL_SUCCESS;
}

nixl_status_t wire_list_encode_plain(struct bytes *out, nixl_mem_t mem, const void *descs, size_t stride,
                                     size_t count) {
    const char *item = descs;
    nixl_status_t status;
    size_t rows;
    uint8_t *at;

    if (!wire_mem_is_kind((uint32_t)mem) || stride < sizeof(struct nixl_desc) ||
        !size_mul(count, WIRE_ROW, &rows) || !size_add(rows, WIRE_FIELD_EXTRA, &rows)) {
        return NIXL_ERR_INVALID_PARAM;
    }
    rows -= WIRE_FIELD_EXTRA;
    status = start_list(out, PLAIN_NAME, mem, count, count != 0 ? rows + WIRE_FIELD_EXTRA : 0);
    if (status != NIXL_SUCCESS || count == 0) {
        return status;
    }
    at = out->data + out->len;
    wire_put_u64(at, rows);
    at += sizeof(uint64_t);
    for (size_t i = 0; i < count; i++, item += stride, at += WIRE_ROW) {
        struct nixl_desc desc;

        memcpy(&desc, item, sizeof desc);
        wire_put_row(at, desc.addr, desc.len, desc.dev);
    }
    *at = WIRE_SEPARATOR;
    out->len += rows + WIRE_FIELD_EXTRA;
    return NIXL_SUCCESS;
}

nixl_status_t wire_list_encode_meta(struct bytes *out, nixl_mem_t mem, const void *descs, size_t stride,
                                    size_t count) {
    const char *item = descs;
    struct nixl_meta_desc desc;
    nixl_status_t status;
    size_t rows;

    if (!wire_mem_is_kind((uint32_t)mem) || stride < sizeof desc || !size_mul(count, WIRE_META_ROW, &rows)) {
        return NIXL_ERR_INVALID_PARAM;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(&desc, item + i * stride, sizeof desc);
        if ((desc.meta == NULL && desc.meta_len != 0) || !size_add(rows, desc.meta_len, &rows)) {
            return NIXL_ERR_INVALID_PARAM;
        }
    }
    status = start_list(out, META_NAME, mem, count, rows);
    if (status != NIXL_SUCCESS) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(&desc, item + i * stride, sizeof desc);
        out->len +=
            wire_row_put(out->data + out->len, desc.addr, desc.len, desc.dev, desc.meta, desc.meta_len);
    }
    return NIXL_SUCCESS;
}
