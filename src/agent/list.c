/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptor lists of any form, read as a sequence of blocks. Items are the caller's memory: of any alignment
 * and distance, read once by the check and once by the walk, never written.
 */
#include "internal.h"

#include <inttypes.h>

#define BLOCKS_MAX UINT64_C(0x7fffffff) /* indices are int32_t */

static const size_t natural_bytes[] = {
    [NIXL_FORM_PLAIN] = sizeof(struct nixl_desc),
    [NIXL_FORM_STRIDED] = sizeof(struct nixl_strided_desc),
    [NIXL_FORM_META] = sizeof(struct nixl_meta_desc),
    [NIXL_FORM_REMOTE] = sizeof(struct nixl_remote_desc),
};

static const char *const form_names[] = {
    [NIXL_FORM_PLAIN] = "plain",
    [NIXL_FORM_STRIDED] = "strided",
    [NIXL_FORM_META] = "with metadata",
    [NIXL_FORM_REMOTE] = "remote",
};

size_t list_item_bytes(const struct nixl_list *list) {
    return list->item_bytes != 0 ? list->item_bytes : natural_bytes[list->form];
}

/* A registered "to the end" of storage wraps by design; everything else must end below 2^64. */
static bool block_wraps(nixl_mem_t mem, uint64_t addr, uint64_t len) {
    return addr + len < addr && !(len == UINT64_MAX && mem_is_storage(mem));
}

static nixl_status_t item_fault(const char *what, size_t index, const struct nixl_desc *desc,
                                const char *why) {
    return fail_at(NIXL_ERR_INVALID_PARAM, index,
                   "%s: descriptor %zu (addr 0x%" PRIx64 ", %" PRIu64 " bytes, dev %" PRIu64 ") %s", what,
                   index, desc->addr, desc->len, desc->dev, why);
}

/* Plain items: first without branches, then, if something is wrong, in search of the culprit. */
static nixl_status_t check_plain(const struct nixl_list *list, const char *what, uint64_t *bytes) {
    const unsigned char *at = list->items;
    size_t step = list_item_bytes(list);
    struct nixl_desc desc;
    uint64_t sum = 0;
    uint64_t carry = 0;
    uint64_t wraps = 0;

    for (size_t i = 0; i < list->count; i++, at += step) {
        memcpy(&desc, at, sizeof desc);
        wraps |= (uint64_t)(desc.addr + desc.len < desc.addr);
        sum += desc.len;
        carry |= (uint64_t)(sum < desc.len);
    }
    if (__builtin_expect((wraps | carry) == 0, 1)) {
        *bytes = sum;
        return NIXL_SUCCESS;
    }
    at = list->items;
    for (size_t i = 0; i < list->count; i++, at += step) {
        memcpy(&desc, at, sizeof desc);
        if (block_wraps(list->mem, desc.addr, desc.len)) {
            return item_fault(what, i, &desc, "wraps around the address space");
        }
    }
    *bytes = carry != 0 ? UINT64_MAX : sum;
    return NIXL_SUCCESS;
}

static nixl_status_t check_strided(const struct nixl_list *list, const char *what, size_t *blocks,
                                   uint64_t *bytes) {
    const unsigned char *at = list->items;
    size_t step = list_item_bytes(list);
    struct nixl_strided_desc item;
    struct nixl_desc first;
    uint64_t total = 0;
    uint64_t sum = 0;
    uint64_t offset;
    uint64_t part;

    for (size_t i = 0; i < list->count; i++, at += step) {
        memcpy(&item, at, sizeof item);
        first = (struct nixl_desc){item.addr, item.len, item.dev};
        if (item.count == 0) {
            return item_fault(what, i, &first, "repeats 0 times");
        }
        if (__builtin_mul_overflow(item.stride, item.count - 1, &offset) ||
            __builtin_add_overflow(item.addr, offset, &offset) || offset + item.len < offset) {
            return item_fault(what, i, &first, "repeats beyond the end of the address space");
        }
        if (item.count > BLOCKS_MAX - total) {
            return item_fault(what, i, &first, "makes more than 2147483647 blocks");
        }
        total += item.count;
        if (__builtin_mul_overflow(item.len, item.count, &part) || __builtin_add_overflow(sum, part, &sum)) {
            sum = UINT64_MAX;
        }
    }
    *blocks = (size_t)total;
    *bytes = sum;
    return NIXL_SUCCESS;
}

/* Items with more than a block in them. */
static nixl_status_t check_others(const struct nixl_list *list, const char *what, uint64_t *bytes) {
    const unsigned char *at = list->items;
    size_t step = list_item_bytes(list);
    struct nixl_meta_desc item;
    struct nixl_desc desc;
    uint64_t sum = 0;

    for (size_t i = 0; i < list->count; i++, at += step) {
        memcpy(&desc, at, sizeof desc);
        if (block_wraps(list->mem, desc.addr, desc.len)) {
            return item_fault(what, i, &desc, "wraps around the address space");
        }
        if (list->form == NIXL_FORM_META) {
            memcpy(&item, at, sizeof item);
            if (item.meta == NULL && item.meta_len != 0) {
                return item_fault(what, i, &desc, "has a metadata length without metadata");
            }
        }
        if (__builtin_add_overflow(sum, desc.len, &sum)) {
            sum = UINT64_MAX;
        }
    }
    *bytes = sum;
    return NIXL_SUCCESS;
}

nixl_status_t list_check_head(const struct nixl_list *list, uint32_t forms, bool allow_empty,
                              const char *what) {
    if (list == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s: NULL", what);
    }
    if (list->size < sizeof *list) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s: size is %zu, not %zu (initialize it with NIXL_LIST_INIT)",
                    what, list->size, sizeof *list);
    }
    if ((unsigned)list->mem >= NIXL_MEM_KINDS) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s: %d is no memory kind", what, (int)list->mem);
    }
    if (list->form > NIXL_FORM_REMOTE) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s: %u is no form of a list", what, list->form);
    }
    if ((forms & (1u << list->form)) == 0) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s: a list of the form \"%s\" is not accepted here", what,
                    form_names[list->form]);
    }
    if (list->count == 0) {
        return allow_empty ? NIXL_SUCCESS : fail(NIXL_ERR_INVALID_PARAM, "%s: no descriptors", what);
    }
    if (list->items == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s: %zu descriptors at NULL", what, list->count);
    }
    if (list->item_bytes != 0 && list->item_bytes < natural_bytes[list->form]) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s: items of %zu bytes, but the form \"%s\" needs %zu", what,
                    list->item_bytes, form_names[list->form], natural_bytes[list->form]);
    }
    if (list->count > BLOCKS_MAX) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s: %zu descriptors, more than 2147483647", what, list->count);
    }
    return NIXL_SUCCESS;
}

nixl_status_t list_check(const struct nixl_list *list, uint32_t forms, bool allow_empty, const char *what,
                         size_t *blocks, uint64_t *bytes) {
    nixl_status_t status = list_check_head(list, forms, allow_empty, what);
    size_t block_count;
    uint64_t sum = 0;

    if (status != NIXL_SUCCESS) {
        return status;
    }
    block_count = list->count;
    if (list->form == NIXL_FORM_PLAIN) {
        status = check_plain(list, what, &sum);
    } else if (list->form == NIXL_FORM_STRIDED) {
        status = check_strided(list, what, &block_count, &sum);
    } else {
        status = check_others(list, what, &sum);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (bytes != NULL) {
        /* UINT64_MAX stands for "does not fit" too: no transfer is as long as that. */
        if (sum == UINT64_MAX) {
            return fail(NIXL_ERR_INVALID_PARAM, "%s: its blocks sum up to more than 2^64 bytes", what);
        }
        *bytes = sum;
    }
    *blocks = block_count;
    return NIXL_SUCCESS;
}

void list_begin(struct list_reader *reader, const struct nixl_list *list) {
    *reader = (struct list_reader){
        .at = list->items,
        .left = list->count,
        .item_bytes = list_item_bytes(list),
        .form = list->form,
    };
}

bool list_next(struct list_reader *reader, struct nixl_desc *desc) {
    struct nixl_strided_desc *strided = &reader->strided;

    if (reader->form == NIXL_FORM_STRIDED) {
        if (strided->count == 0) {
            if (reader->left == 0) {
                return false;
            }
            memcpy(strided, reader->at, sizeof *strided);
            reader->at += reader->item_bytes;
            reader->left--;
        }
        *desc = (struct nixl_desc){strided->addr, strided->len, strided->dev};
        strided->addr += strided->stride;
        strided->count--;
        return true;
    }
    if (reader->left == 0) {
        return false;
    }
    memcpy(desc, reader->at, sizeof *desc);
    reader->at += reader->item_bytes;
    reader->left--;
    return true;
}

bool list_next_meta(struct list_reader *reader, struct nixl_meta_desc *desc) {
    const unsigned char *at = reader->at;
    struct nixl_desc block;

    if (!list_next(reader, &block)) {
        return false;
    }
    if (reader->form == NIXL_FORM_META) {
        memcpy(desc, at, sizeof *desc);
    } else {
        *desc = (struct nixl_meta_desc){block.addr, block.len, block.dev, NULL, 0};
    }
    return true;
}
