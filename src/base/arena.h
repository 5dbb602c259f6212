/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One block for an object and all its arrays: add up the sizes in a plan, allocate once, hand pieces out in
 * the same order. Freed as one. There is no growth: taking more than was planned gives NULL.
 *
 *     struct arena_plan plan = {0};
 *     arena_plan_add(&plan, 1, sizeof(struct request), _Alignof(struct request));
 *     arena_plan_add(&plan, runs, sizeof(struct run), _Alignof(struct run));
 *     if (!arena_open(&arena, &plan)) …
 *     request = arena_take(&arena, 1, sizeof(struct request), _Alignof(struct request));
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#define ARENA_ALIGN 64 /* the block starts on a cache line; no piece may ask for a wider alignment */

struct arena_plan {
    size_t size;
    bool overflow;
};

struct arena {
    unsigned char *base;
    size_t size;
    size_t used;
};

/* Adds `count` items of `item` bytes at `align` (a power of two up to ARENA_ALIGN). An overflow is kept in
 * the plan. */
void arena_plan_add(struct arena_plan *plan, size_t count, size_t item, size_t align);

/* Allocates what the plan says; false when it overflowed or there is no memory, the arena then being empty.
 */
bool arena_open(struct arena *arena, const struct arena_plan *plan);

/* The next piece, not cleared; NULL when it does not fit or the product overflows. count 0 gives a valid
 * address. */
void *arena_take(struct arena *arena, size_t count, size_t item, size_t align);

/* As arena_take, zeroed. */
void *arena_take_zeroed(struct arena *arena, size_t count, size_t item, size_t align);

/* Makes the whole block free to be handed out again. */
void arena_reset(struct arena *arena);

/* Frees the block. When the object in it holds the arena itself, copy the struct out first: `arena_of =
 * r->arena`. */
void arena_close(struct arena *arena);

#endif
