/* SPDX-License-Identifier: Apache-2.0 */
/* The index of regions: what covers a block, in any order of registration, nested, overlapping, doubled,
 * unbounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/internal.h"

#include <stdlib.h>
#include <string.h>

/* cmocka and the index both have a word for it. */
#undef fail

/* A block as registered: addr, len, dev. */
struct block {
    uint64_t addr, len, dev;
};

static struct region *add_to(struct region_set *set, nixl_mem_t mem, struct block block, uint32_t backends) {
    struct nixl_desc desc = {block.addr, block.len, block.dev};
    struct region *region = region_new(mem, &desc, backends);

    assert_non_null(region);
    assert_true(region_set_reserve(set, mem, 1));
    region_set_add(set, mem, &region, 1);
    return region;
}

static struct region *add(struct region_set *set, uint64_t addr, uint64_t len) {
    return add_to(set, DRAM_SEG, (struct block){addr, len, 0}, 1);
}

static struct region *cover_of(const struct region_set *set, nixl_mem_t mem, struct block block,
                               uint32_t want) {
    struct region_hint hint = {0};
    struct nixl_desc desc = {block.addr, block.len, block.dev};

    return region_set_cover(set, mem, &desc, want, &hint);
}

static struct region *cover(const struct region_set *set, uint64_t addr, uint64_t len) {
    return cover_of(set, DRAM_SEG, (struct block){addr, len, 0}, 0);
}

static void drop(struct region_set *set, struct region *region) {
    region_set_remove(set, region);
    region_free(region);
}

static bool free_one(struct region *region, void *ctx) {
    region_free(region);
    return true;
}

static void clear(struct region_set *set) {
    for (unsigned mem = 0; mem < NIXL_MEM_KINDS; mem++) {
        region_set_each(set, (nixl_mem_t)mem, free_one, NULL);
    }
    region_set_destroy(set);
}

static void block_within_a_region_is_found(void **state) {
    struct region_set set;
    struct region *region;

    region_set_init(&set);
    assert_null(cover(&set, 0x1000, 1));
    region = add(&set, 0x1000, 0x100);
    assert_ptr_equal(cover(&set, 0x1000, 0x100), region);
    assert_ptr_equal(cover(&set, 0x10ff, 1), region);
    assert_ptr_equal(cover(&set, 0x1040, 0x10), region);
    assert_null(cover(&set, 0xfff, 1));
    assert_null(cover(&set, 0xfff, 0x200));
    assert_null(cover(&set, 0x1100, 1));
    assert_null(cover(&set, 0x10ff, 2));
    assert_null(cover_of(&set, DRAM_SEG, (struct block){0x1000, 1, 1}, 0));
    assert_null(cover_of(&set, VRAM_SEG, (struct block){0x1000, 1, 0}, 0));
    clear(&set);
}

static void block_of_no_bytes_lies_in_a_region_from_its_start_to_its_end(void **state) {
    struct region_set set;
    struct region *region;

    region_set_init(&set);
    region = add(&set, 0x1000, 0x100);
    assert_ptr_equal(cover(&set, 0x1000, 0), region);
    assert_ptr_equal(cover(&set, 0x1100, 0), region);
    assert_null(cover(&set, 0x1101, 0));
    assert_null(cover(&set, 0xfff, 0));
    clear(&set);
}

/* The reference looks at the nearest region only: [0x10000, +0x10000) is hidden there by [0x15000,
 * +0x1000). */
static void region_under_a_nested_one_is_found_in_any_order(void **state) {
    static const uint64_t queries[] = {0x11000, 0x17000, 0x15000, 0x15800, 0x1ff00};
    struct region_set set;
    struct region *outer;
    struct region *inner;

    region_set_init(&set);
    inner = add(&set, 0x15000, 0x1000);
    outer = add(&set, 0x10000, 0x10000);
    for (size_t i = 0; i < 5; i++) {
        for (size_t j = 0; j < 5; j++) {
            struct region_hint hint = {0};
            struct nixl_desc a = {queries[i], 0x100, 0};
            struct nixl_desc b = {queries[j], 0x100, 0};

            assert_non_null(region_set_cover(&set, DRAM_SEG, &a, 0, &hint));
            assert_non_null(region_set_cover(&set, DRAM_SEG, &b, 0, &hint));
        }
    }
    assert_ptr_equal(cover(&set, 0x15800, 0x1000), outer);
    drop(&set, outer);
    assert_ptr_equal(cover(&set, 0x15800, 0x100), inner);
    assert_null(cover(&set, 0x17000, 1));
    assert_null(cover(&set, 0x15800, 0x1000));
    clear(&set);
}

static void one_large_region_is_found_under_ten_thousand_small_ones(void **state) {
    struct region_set set;
    struct region *large;

    region_set_init(&set);
    for (uint64_t i = 0; i < 10000; i++) {
        (void)add(&set, 0x100000 + i * 0x1000, 0x100);
    }
    large = add(&set, 0x10000, 0x10000000);
    for (uint64_t i = 0; i < 10000; i++) {
        assert_ptr_equal(cover(&set, 0x100000 + i * 0x1000, 0x200), large);
    }
    drop(&set, large);
    assert_null(cover(&set, 0x100000, 0x200));
    assert_non_null(cover(&set, 0x100000, 0x100));
    clear(&set);
}

static void overlapping_regions_cover_what_either_covers(void **state) {
    struct region_set set;
    struct region *first;
    struct region *second;

    region_set_init(&set);
    first = add(&set, 0x1000, 0x1000);
    second = add(&set, 0x1800, 0x1000);
    assert_ptr_equal(cover(&set, 0x1400, 0xc00), first);
    assert_ptr_equal(cover(&set, 0x1900, 0x700), second);
    assert_ptr_equal(cover(&set, 0x1c00, 0xc00), second);
    assert_null(cover(&set, 0x1400, 0x1000));
    clear(&set);
}

static void block_over_two_adjoining_regions_is_refused_naming_both(void **state) {
    struct region_set set;
    struct nixl_desc desc = {0x1f00, 0x200, 0};

    region_set_init(&set);
    (void)add(&set, 0x1000, 0x1000);
    (void)add(&set, 0x2000, 0x1000);
    assert_null(cover(&set, 0x1f00, 0x200));
    assert_int_equal(region_set_explain(&set, DRAM_SEG, &desc, 7, "this agent"), NIXL_ERR_NOT_FOUND);
    assert_non_null(strstr(error_text(), "descriptor 7 (addr 0x1f00, 512 bytes"));
    assert_non_null(strstr(error_text(), "[0x1000, 0x2000) and [0x2000, 0x3000)"));
    assert_int_equal(error_index(), 7);
    clear(&set);
}

static void words_tell_an_end_overrun_from_no_region_at_all(void **state) {
    struct region_set set;
    struct nixl_desc past = {0x1f00, 0x200, 0};
    struct nixl_desc nowhere = {0x9000, 0x10, 0};

    region_set_init(&set);
    (void)add(&set, 0x1000, 0x1000);
    assert_int_equal(region_set_explain(&set, DRAM_SEG, &past, 0, "this agent"), NIXL_ERR_NOT_FOUND);
    assert_non_null(strstr(error_text(), "runs past the end of the DRAM_SEG region [0x1000, 0x2000)"));
    assert_int_equal(region_set_explain(&set, DRAM_SEG, &nowhere, 3, "this agent"), NIXL_ERR_NOT_FOUND);
    assert_non_null(strstr(error_text(), "descriptor 3 (addr 0x9000, 16 bytes, dev 0) is in no"));
    clear(&set);
}

static void doubled_regions_are_each_found_exactly_once_when_marked(void **state) {
    struct region_set set;
    struct nixl_desc desc = {0x1000, 0x100, 0};
    struct region *found[3];

    region_set_init(&set);
    for (int i = 0; i < 3; i++) {
        (void)add(&set, 0x1000, 0x100);
    }
    for (int i = 0; i < 3; i++) {
        found[i] = region_set_exact(&set, DRAM_SEG, &desc, 0);
        assert_non_null(found[i]);
        found[i]->mark = 1;
    }
    assert_true(found[0] != found[1] && found[1] != found[2] && found[0] != found[2]);
    assert_null(region_set_exact(&set, DRAM_SEG, &desc, 0));
    found[1]->mark = 0;
    assert_ptr_equal(region_set_exact(&set, DRAM_SEG, &desc, 0), found[1]);
    clear(&set);
}

static void exact_needs_all_three_numbers(void **state) {
    struct region_set set;
    struct nixl_desc descs[] = {
        {0x1000, 0xff, 0}, {0x1001, 0x100, 0}, {0x1000, 0x100, 1}, {0x1000, 0x101, 0}};
    struct nixl_desc right = {0x1000, 0x100, 0};

    region_set_init(&set);
    (void)add(&set, 0x1000, 0x100);
    for (int i = 0; i < 4; i++) {
        assert_null(region_set_exact(&set, DRAM_SEG, &descs[i], 0));
    }
    assert_non_null(region_set_exact(&set, DRAM_SEG, &right, 0));
    assert_null(region_set_exact(&set, DRAM_SEG, &right, 2));
    assert_non_null(region_set_exact(&set, DRAM_SEG, &right, 3));
    clear(&set);
}

/* The reference's "to the end" works at address 0 alone. */
static void storage_of_no_length_covers_everything_from_its_start(void **state) {
    static const nixl_mem_t kinds[] = {BLK_SEG, OBJ_SEG, FILE_SEG};

    for (int i = 0; i < 3; i++) {
        struct region_set set;
        struct nixl_desc exact = {4096, 0, 9};
        struct region *region;

        region_set_init(&set);
        region = add_to(&set, kinds[i], (struct block){4096, 0, 9}, 1);
        assert_ptr_equal(cover_of(&set, kinds[i], (struct block){4096, 1u << 30, 9}, 0), region);
        assert_ptr_equal(cover_of(&set, kinds[i], (struct block){UINT64_C(1) << 60, 7, 9}, 0), region);
        assert_null(cover_of(&set, kinds[i], (struct block){4095, 1, 9}, 0));
        assert_null(cover_of(&set, kinds[i], (struct block){4096, 1, 8}, 0));
        assert_ptr_equal(region_set_exact(&set, kinds[i], &exact, 0), region);
        clear(&set);
    }
}

static void memory_of_no_length_covers_nothing(void **state) {
    struct region_set set;

    region_set_init(&set);
    (void)add(&set, 0x1000, 0);
    assert_null(cover(&set, 0x1000, 1));
    assert_non_null(cover(&set, 0x1000, 0));
    clear(&set);
}

static void block_at_the_top_of_the_address_space_does_not_wrap(void **state) {
    struct region_set set;
    struct region *region;

    region_set_init(&set);
    region = add(&set, UINT64_MAX - 0xfff, 0xfff);
    assert_ptr_equal(cover(&set, UINT64_MAX - 0xff, 0xff), region);
    assert_null(cover(&set, UINT64_MAX - 0xff, UINT64_MAX));
    assert_null(cover(&set, 0, 1));
    clear(&set);
}

static void wanted_backends_choose_among_regions(void **state) {
    struct region_set set;
    struct region *a;
    struct region *b;
    struct region *both;

    region_set_init(&set);
    both = add_to(&set, DRAM_SEG, (struct block){0x0, 0x10000, 0}, 3);
    a = add_to(&set, DRAM_SEG, (struct block){0x1000, 0x1000, 0}, 1);
    b = add_to(&set, DRAM_SEG, (struct block){0x1000, 0x1000, 0}, 2);
    assert_ptr_equal(cover_of(&set, DRAM_SEG, (struct block){0x1100, 1, 0}, 3), both);
    assert_true((cover_of(&set, DRAM_SEG, (struct block){0x1100, 1, 0}, 1)->backends & 1) != 0);
    assert_true((cover_of(&set, DRAM_SEG, (struct block){0x1100, 1, 0}, 2)->backends & 2) != 0);
    assert_null(cover_of(&set, DRAM_SEG, (struct block){0x1100, 1, 0}, 4));
    drop(&set, both);
    assert_ptr_equal(cover_of(&set, DRAM_SEG, (struct block){0x1100, 1, 0}, 1), a);
    assert_ptr_equal(cover_of(&set, DRAM_SEG, (struct block){0x1100, 1, 0}, 2), b);
    assert_null(cover_of(&set, DRAM_SEG, (struct block){0x1100, 1, 0}, 3));
    clear(&set);
}

static void id_finds_its_region_until_that_leaves_also_when_the_slot_is_used_again(void **state) {
    struct region_set set;
    struct region *region;
    struct region *next;
    struct region_id id;

    region_set_init(&set);
    region = add(&set, 0x1000, 0x100);
    id = region->id;
    assert_ptr_equal(region_set_get(&set, id), region);
    region_set_remove(&set, region);
    assert_true(region->is_dead);
    assert_null(region_set_get(&set, id));
    next = add(&set, 0x1000, 0x100);
    assert_int_equal(next->id.slot, id.slot);
    assert_null(region_set_get(&set, id));
    assert_ptr_equal(region_set_get(&set, next->id), next);
    region_free(region);
    clear(&set);
}

/* ---- against a list that is searched from end to end ---- */

#define MODEL 3000

static uint64_t random_state = 1;

static uint64_t random_below(uint64_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

static bool model_covers(struct region **all, size_t count, const struct nixl_desc *desc, uint32_t want) {
    for (size_t i = 0; i < count; i++) {
        if (all[i]->dev == desc->dev && all[i]->addr <= desc->addr &&
            desc->addr + desc->len <= all[i]->addr + all[i]->len && (all[i]->backends & want) == want) {
            return true;
        }
    }
    return false;
}

static bool is_ascending(struct region *region, void *ctx) {
    struct region **last = ctx;

    if (*last != NULL) {
        assert_true((*last)->dev < region->dev ||
                    ((*last)->dev == region->dev &&
                     ((*last)->addr < region->addr ||
                      ((*last)->addr == region->addr && (*last)->len <= region->len))));
    }
    *last = region;
    return true;
}

static void model_run(uint64_t devs, uint64_t spread, uint64_t longest, int steps) {
    static struct region *all[MODEL];
    struct region_set set;
    size_t count = 0;

    region_set_init(&set);
    for (int step = 0; step < steps; step++) {
        struct region_hint hint = {0};
        struct region *last = NULL;
        bool adds = count == 0 || (count < MODEL && random_below(100) < 60);

        if (adds) {
            struct block block = {random_below(spread), random_below(longest), random_below(devs)};

            all[count++] = add_to(&set, DRAM_SEG, block, 1u + (uint32_t)random_below(3));
        } else {
            size_t i = random_below(count);

            drop(&set, all[i]);
            all[i] = all[--count];
        }
        assert_int_equal(region_set_count(&set, DRAM_SEG), count);
        for (int q = 0; q < 8; q++) {
            struct nixl_desc desc = {random_below(spread), random_below(longest), random_below(devs)};
            uint32_t want = (uint32_t)random_below(4);
            struct region *found = region_set_cover(&set, DRAM_SEG, &desc, want, &hint);

            assert_int_equal(found != NULL, model_covers(all, count, &desc, want));
            if (found != NULL) {
                assert_true(region_holds(found, &desc) && (found->backends & want) == want);
            }
        }
        if (step % 64 == 0) {
            region_set_each(&set, DRAM_SEG, is_ascending, &last);
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct nixl_desc desc = {all[i]->addr, all[i]->len, all[i]->dev};

        assert_non_null(region_set_exact(&set, DRAM_SEG, &desc, 0));
        assert_ptr_equal(region_set_get(&set, all[i]->id), all[i]);
    }
    while (count > 0) {
        drop(&set, all[--count]);
    }
    assert_int_equal(region_set_count(&set, DRAM_SEG), 0);
    clear(&set);
}

static void any_mixture_is_covered_as_by_a_full_search(void **state) {
    model_run(1, 100000, 50, 4000);      /* mostly apart */
    model_run(1, 2000, 400, 4000);       /* nested and overlapping */
    model_run(1, 40, 10, 2000);          /* mostly doubled */
    model_run(50, 1000, 100, 4000);      /* many devices */
    model_run(100000, 3, 3, 4000);       /* a device a region, as files are */
    model_run(2, 1000000, 999999, 1000); /* huge */
}

/* Blocks of a plain list looked up in a row, as preparing and creating do, some of them in no region. */
static void walk_run(uint64_t devs, uint64_t spread, uint64_t longest) {
    static struct region *all[MODEL];
    static struct nixl_desc descs[2000];
    struct region_set set;

    region_set_init(&set);
    for (size_t i = 0; i < 1000; i++) {
        struct block block = {random_below(spread), random_below(longest), random_below(devs)};

        all[i] = add_to(&set, DRAM_SEG, block, 1u + (uint32_t)random_below(3));
    }
    for (size_t i = 0; i < 2000; i++) {
        descs[i] =
            (struct nixl_desc){random_below(spread), random_below(longest / 4 + 1), random_below(devs)};
        if (random_below(8) != 0) {
            const struct region *region = all[random_below(1000)];

            descs[i] = (struct nixl_desc){region->addr, random_below(region->len + 1), region->dev};
        }
    }
    for (uint32_t want = 0; want < 4; want++) {
        struct region_walk walk = {.set = &set, .mem = DRAM_SEG, .want = want};

        for (size_t i = 0; i < 2000; i++) {
            struct region *found = walk.hint.last;

            if (found == NULL || !region_holds(found, &descs[i])) {
                found = region_walk_find(&walk, &descs[i], (const unsigned char *)descs, sizeof descs[0], i,
                                         2000);
            }
            assert_int_equal(found != NULL, model_covers(all, 1000, &descs[i], want));
            if (found != NULL) {
                assert_true(region_holds(found, &descs[i]) && (found->backends & want) == want);
            }
        }
        assert_true(walk.ahead_count != 0);
    }
    clear(&set);
}

static void blocks_looked_up_in_a_row_are_found_as_one_by_one(void **state) {
    walk_run(1, 10000000, 500); /* apart: every block in another region */
    walk_run(1, 100000, 500);   /* overlapping */
    walk_run(7, 100000, 500);
    walk_run(100000, 10, 10);
}

static void walk_over_no_regions_finds_none(void **state) {
    struct nixl_desc descs[20] = {{0x1000, 1, 0}};
    struct region_set set;
    struct region_walk walk = {.set = &set, .mem = DRAM_SEG};
    struct region *region;

    region_set_init(&set);
    for (size_t i = 0; i < 20; i++) {
        assert_null(region_walk_find(&walk, &descs[i], (const unsigned char *)descs, sizeof descs[0], i, 20));
    }
    /* Also when there were some. */
    region = add(&set, 0x1000, 1);
    drop(&set, region);
    walk = (struct region_walk){.set = &set, .mem = DRAM_SEG};
    for (size_t i = 0; i < 20; i++) {
        assert_null(region_walk_find(&walk, &descs[i], (const unsigned char *)descs, sizeof descs[0], i, 20));
    }
    clear(&set);
}

/* Fills, in an order, and finds each in another. */
static void fill_run(const size_t *order, size_t n) {
    struct region_set set;
    struct region **regions = calloc(n, sizeof *regions);
    struct region *last = NULL;

    region_set_init(&set);
    for (size_t i = 0; i < n; i++) {
        regions[order[i]] = add(&set, order[i] * 0x1000, 0x800);
    }
    region_set_each(&set, DRAM_SEG, is_ascending, &last);
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(cover(&set, i * 0x1000 + 0x7ff, 1), regions[i]);
        assert_null(cover(&set, i * 0x1000 + 0x800, 1));
    }
    for (size_t i = 0; i < n; i++) {
        drop(&set, regions[order[i]]);
        assert_null(cover(&set, order[i] * 0x1000, 1));
    }
    clear(&set);
    free(regions);
}

static void ten_thousand_regions_are_found_whatever_the_order_of_adding(void **state) {
    enum {
        N = 10000
    };
    size_t *order = calloc(N, sizeof *order);

    for (size_t i = 0; i < N; i++) {
        order[i] = i;
    }
    fill_run(order, N);
    for (size_t i = 0; i < N; i++) {
        order[i] = N - 1 - i;
    }
    fill_run(order, N);
    for (size_t i = N - 1; i > 0; i--) {
        size_t j = random_below(i + 1);
        size_t t = order[i];

        order[i] = order[j];
        order[j] = t;
    }
    fill_run(order, N);
    free(order);
}

static void reserved_room_suffices_when_every_chunk_is_full(void **state) {
    enum {
        FULL = 64 * 128
    };
    struct region_set set;
    struct region *more[200];

    region_set_init(&set);
    /* Ascending additions leave full chunks behind. */
    for (uint64_t i = 0; i < FULL; i++) {
        (void)add(&set, i * 0x100, 0x10);
    }
    assert_true(region_set_reserve(&set, DRAM_SEG, 200));
    for (uint64_t i = 0; i < 200; i++) {
        struct nixl_desc desc = {(i * 37 % 64) * 128 * 0x100 + 0x20, 8, 0};

        more[i] = region_new(DRAM_SEG, &desc, 1);
        assert_non_null(more[i]);
    }
    region_set_add(&set, DRAM_SEG, more, 200);
    assert_int_equal(region_set_count(&set, DRAM_SEG), FULL + 200);
    clear(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_within_a_region_is_found),
        cmocka_unit_test(block_of_no_bytes_lies_in_a_region_from_its_start_to_its_end),
        cmocka_unit_test(region_under_a_nested_one_is_found_in_any_order),
        cmocka_unit_test(one_large_region_is_found_under_ten_thousand_small_ones),
        cmocka_unit_test(overlapping_regions_cover_what_either_covers),
        cmocka_unit_test(block_over_two_adjoining_regions_is_refused_naming_both),
        cmocka_unit_test(words_tell_an_end_overrun_from_no_region_at_all),
        cmocka_unit_test(doubled_regions_are_each_found_exactly_once_when_marked),
        cmocka_unit_test(exact_needs_all_three_numbers),
        cmocka_unit_test(storage_of_no_length_covers_everything_from_its_start),
        cmocka_unit_test(memory_of_no_length_covers_nothing),
        cmocka_unit_test(block_at_the_top_of_the_address_space_does_not_wrap),
        cmocka_unit_test(wanted_backends_choose_among_regions),
        cmocka_unit_test(id_finds_its_region_until_that_leaves_also_when_the_slot_is_used_again),
        cmocka_unit_test(any_mixture_is_covered_as_by_a_full_search),
        cmocka_unit_test(blocks_looked_up_in_a_row_are_found_as_one_by_one),
        cmocka_unit_test(walk_over_no_regions_finds_none),
        cmocka_unit_test(ten_thousand_regions_are_found_whatever_the_order_of_adding),
        cmocka_unit_test(reserved_room_suffices_when_every_chunk_is_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
