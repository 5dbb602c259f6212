/* SPDX-License-Identifier: Apache-2.0 */
/* The one-block arena. */
#include "support.h"

#include "base/arena.h"

static void what_was_planned_can_be_taken(void **state) {
    struct arena_plan plan = {0};
    struct arena arena;
    char *a;
    uint64_t *b;
    char *c;
    void *d;

    arena_plan_add(&plan, 3, 1, 1);
    arena_plan_add(&plan, 5, sizeof(uint64_t), _Alignof(uint64_t));
    arena_plan_add(&plan, 1, 1, 1);
    arena_plan_add(&plan, 2, 64, 64);
    assert_int_equal(plan.size, 64 + 128); /* 3, padded to 8, + 40 + 1 = 49, padded to 64, + 128 */
    assert_true(arena_open(&arena, &plan));
    a = arena_take(&arena, 3, 1, 1);
    b = arena_take(&arena, 5, sizeof(uint64_t), _Alignof(uint64_t));
    c = arena_take(&arena, 1, 1, 1);
    d = arena_take(&arena, 2, 64, 64);
    assert_non_null(a);
    assert_ptr_equal(b, a + 8);
    assert_ptr_equal(c, a + 48);
    assert_int_equal((uintptr_t)d % 64, 0);
    memset(d, 1, 128);
    assert_null(arena_take(&arena, 1, 1, 1));
    arena_close(&arena);
}

static void reset_gives_the_block_again(void **state) {
    struct arena_plan plan = {0};
    struct arena arena;
    unsigned char *first;
    unsigned char *second;

    arena_plan_add(&plan, 16, 1, 1);
    assert_true(arena_open(&arena, &plan));
    first = arena_take(&arena, 16, 1, 1);
    memset(first, 0xee, 16);
    arena_reset(&arena);
    second = arena_take_zeroed(&arena, 16, 1, 1);
    assert_ptr_equal(first, second);
    for (size_t i = 0; i < 16; i++) {
        assert_int_equal(second[i], 0);
    }
    arena_close(&arena);
    arena_close(&arena); /* closing an empty one is nothing */
}

static void an_overflowing_plan_cannot_be_opened(void **state) {
    struct arena_plan product = {0};
    struct arena_plan sum = {0};
    struct arena arena;

    arena_plan_add(&product, SIZE_MAX / 4, 8, 8);
    arena_plan_add(&product, 1, 1, 1);
    assert_true(product.overflow);
    assert_false(arena_open(&arena, &product));
    assert_null(arena_take(&arena, 0, 1, 1));
    arena_plan_add(&sum, SIZE_MAX - 10, 1, 1);
    assert_false(sum.overflow);
    assert_false(arena_open(&arena, &sum)); /* more than any block */
    arena_plan_add(&sum, 20, 1, 1);
    assert_true(sum.overflow);
}

static void alignments_that_are_none_are_refused(void **state) {
    struct arena_plan plan = {0};
    struct arena arena;

    arena_plan_add(&plan, 64, 1, 1);
    assert_true(arena_open(&arena, &plan));
    assert_null(arena_take(&arena, 1, 1, 3));
    assert_null(arena_take(&arena, 1, 1, 0));
    assert_null(arena_take(&arena, 1, 1, 128));
    assert_null(arena_take(&arena, SIZE_MAX, 2, 1));
    arena_close(&arena);
}

static void an_arena_may_lie_in_its_own_block(void **state) {
    struct holder {
        struct arena arena;
        int x;
    } * holder;
    struct arena_plan plan = {0};
    struct arena arena;

    arena_plan_add(&plan, 1, sizeof *holder, _Alignof(struct holder));
    assert_true(arena_open(&arena, &plan));
    holder = arena_take_zeroed(&arena, 1, sizeof *holder, _Alignof(struct holder));
    holder->arena = arena;
    arena_close(&holder->arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_was_planned_can_be_taken),        TEST(reset_gives_the_block_again),
        TEST(an_overflowing_plan_cannot_be_opened), TEST(alignments_that_are_none_are_refused),
        TEST(an_arena_may_lie_in_its_own_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
