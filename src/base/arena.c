/* SPDX-License-Identifier: Apache-2.0 */
/* The one-block arena. Sizes are checked in the plan, so a take that was planned cannot fail. */
#include "arena.h"

#include "array.h"

#include <stdlib.h>
#include <string.h>

/* The offset of the next piece and its end, both checked. */
static bool piece_place(size_t used, size_t count, size_t item, size_t align, size_t *at, size_t *end) {
    size_t bytes;
    size_t padded;

    if (align == 0 || align > ARENA_ALIGN || (align & (align - 1)) != 0) {
        return false;
    }
    if (!size_add(used, align - 1, &padded) || !size_mul(count, item, &bytes)) {
        return false;
    }
    *at = padded & ~(align - 1);
    return size_add(*at, bytes, end);
}

void arena_plan_add(struct arena_plan *plan, size_t count, size_t item, size_t align) {
    size_t at;
    size_t end;

    if (plan->overflow || !piece_place(plan->size, count, item, align, &at, &end)) {
        plan->overflow = true;
        return;
    }
    plan->size = end;
}

bool arena_open(struct arena *arena, const struct arena_plan *plan) {
    size_t size;
    void *base;

    *arena = (struct arena){0};
    if (plan->overflow || !size_add(plan->size, ARENA_ALIGN - 1, &size) || size > PTRDIFF_MAX) {
        return false;
    }
    size &= ~(size_t)(ARENA_ALIGN - 1);
    if (size == 0) {
        size = ARENA_ALIGN;
    }
    base = aligned_alloc(ARENA_ALIGN, size);
    if (base == NULL) {
        return false;
    }
    arena->base = base;
    arena->size = size;
    return true;
}

void *arena_take(struct arena *arena, size_t count, size_t item, size_t align) {
    size_t at;
    size_t end;

    if (arena->base == NULL || !piece_place(arena->used, count, item, align, &at, &end) ||
        end > arena->size) {
        return NULL;
    }
    arena->used = end;
    return arena->base + at;
}

void *arena_take_zeroed(struct arena *arena, size_t count, size_t item, size_t align) {
    void *piece = arena_take(arena, count, item, align);

    if (piece != NULL) {
        memset(piece, 0, count * item);
    }
    return piece;
}

void arena_reset(struct arena *arena) {
    arena->used = 0;
}

void arena_close(struct arena *arena) {
    void *base = arena->base;

    *arena = (struct arena){0}; /* before the free: the arena may lie in its own block */
    free(base);
}
