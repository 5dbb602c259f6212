/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of both ends, with memcpy in the place of a network: what the check must find. */
#include "support.h"

#include "memory.h"

static struct bench_options options;
static struct bench_plan plan;
static struct bench_memory ends[4];
static char error[768];
static char words[768];

static void begin(const char *a, const char *b, const char *c) {
    assert_true(options_of(&options, error, sizeof error, "--start_block_size=1000", "--max_block_size=1000",
                           "--start_batch_size=3", "--max_batch_size=3", "--num_iter=64", a, b, c, NULL));
    if (!plan_make(&options, 0, &plan, error, sizeof error)) {
        fail_msg("%s", error);
    }
    for (unsigned i = 0; i < plan.processes; i++) {
        assert_true(memory_open(&ends[i], &plan, i, error, sizeof error));
    }
}

static void end(void) {
    for (unsigned i = 0; i < plan.processes; i++) {
        memory_close(&ends[i]);
    }
    plan_free(&plan);
    options_free(&options);
}

static const struct bench_case *row(void) {
    return &plan.cases[0];
}

/* Copies what initiator `a` and target `b` have in common; returns how many blocks. */
static size_t transfer(unsigned a, unsigned b) {
    size_t total = 0;

    for (unsigned t = 0; t < plan.threads; t++) {
        size_t near, far;
        struct nixl_desc *from = memory_list(&ends[a], row(), t, b, &near);
        struct nixl_desc *to = memory_list(&ends[b], row(), t, a, &far);

        assert_int_equal(near, far);
        for (size_t i = 0; i < near; i++) {
            assert_int_equal(from[i].len, 1000);
            assert_int_equal(to[i].len, 1000);
            memcpy((void *)(uintptr_t)to[i].addr, (const void *)(uintptr_t)from[i].addr, 1000);
        }
        total += near;
        free(from);
        free(to);
    }
    return total;
}

static bool target_is_right(unsigned target, uint64_t seed) {
    words[0] = '\0';
    return memory_check(&ends[target], row(), seed, words, sizeof words);
}

static void bytes_that_were_moved_are_found_right(void **state) {
    begin("--num_threads=2", "--pipeline_depth=2", NULL);
    memory_fill(&ends[0], row(), 7);
    memory_fill(&ends[1], row(), 0);
    assert_int_equal(transfer(0, 1), 2 * 2 * 3);
    assert_true(target_is_right(1, 7));
    end();
}

static void bytes_that_were_not_moved_are_found(void **state) {
    begin("--num_threads=2", NULL, NULL);
    memory_fill(&ends[0], row(), 7);
    memory_fill(&ends[1], row(), 0);
    assert_false(target_is_right(1, 7));
    assert_non_null(strstr(words, "WRITE of 1000 bytes, batch 3: block 0 of thread 0, byte 0 is 0xaa"));
    end();
}

static void one_wrong_byte_is_named_with_its_block(void **state) {
    struct nixl_desc *list;
    size_t count;

    begin("--num_threads=2", NULL, NULL);
    memory_fill(&ends[0], row(), 7);
    transfer(0, 1);
    list = memory_list(&ends[1], row(), 1, 0, &count);
    ((uint8_t *)(uintptr_t)list[2].addr)[999] ^= 1;
    assert_false(target_is_right(1, 7));
    assert_non_null(strstr(words, "block 2 of thread 1, byte 999"));
    free(list);
    end();
}

static void two_blocks_that_changed_places_are_found(void **state) {
    struct nixl_desc *list;
    uint8_t swap[1000];
    size_t count;

    begin(NULL, NULL, NULL);
    memory_fill(&ends[0], row(), 7);
    transfer(0, 1);
    list = memory_list(&ends[1], row(), 0, 0, &count);
    memcpy(swap, (void *)(uintptr_t)list[0].addr, 1000);
    memcpy((void *)(uintptr_t)list[0].addr, (void *)(uintptr_t)list[1].addr, 1000);
    memcpy((void *)(uintptr_t)list[1].addr, swap, 1000);
    assert_false(target_is_right(1, 7));
    free(list);
    end();
}

static void bytes_of_an_earlier_phase_are_found(void **state) {
    begin(NULL, NULL, NULL);
    memory_fill(&ends[0], row(), 7);
    transfer(0, 1);
    assert_true(target_is_right(1, 7));
    assert_false(target_is_right(1, 8));
    end();
}

static void without_a_seed_the_constants_of_the_reference_are_used(void **state) {
    begin(NULL, NULL, NULL);
    memory_fill(&ends[0], row(), 0);
    memory_fill(&ends[1], row(), 0);
    assert_int_equal(ends[0].buffers[0][0], 0xbb);
    assert_int_equal(ends[1].buffers[0][0], 0xaa);
    transfer(0, 1);
    assert_true(target_is_right(1, 0));
    end();
}

static void several_initiators_write_side_by_side_into_one_target(void **state) {
    begin("--scheme=manytoone", "--num_initiator_dev=3", "--num_threads=2");
    for (unsigned i = 0; i < 3; i++) {
        memory_fill(&ends[i], row(), 7);
    }
    memory_fill(&ends[3], row(), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_false(target_is_right(3, 7));
        assert_int_equal(transfer(i, 3), 2 * 3);
    }
    assert_true(target_is_right(3, 7));
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_were_moved_are_found_right),
        cmocka_unit_test(bytes_that_were_not_moved_are_found),
        cmocka_unit_test(one_wrong_byte_is_named_with_its_block),
        cmocka_unit_test(two_blocks_that_changed_places_are_found),
        cmocka_unit_test(bytes_of_an_earlier_phase_are_found),
        cmocka_unit_test(without_a_seed_the_constants_of_the_reference_are_used),
        cmocka_unit_test(several_initiators_write_side_by_side_into_one_target),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
