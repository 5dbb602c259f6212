/* SPDX-License-Identifier: Apache-2.0 */
/* What flags come to: adjustments, refusals, layouts of the schemes. */
#include "support.h"

#include "plan.h"

#define GIB (UINT64_C(1) << 30)

static char error[768];
static struct bench_options options;
static struct bench_plan plan;

static bool made;

static bool make(uint64_t memory) {
    made = plan_make(&options, memory, &plan, error, sizeof error);
    return made;
}

static bool make_if(bool is_parsed) {
    if (!is_parsed) {
        fail_msg("%s", error);
    }
    return make(64 * GIB);
}

#define MAKE(...) make_if(options_of(&options, error, sizeof error, __VA_ARGS__, NULL))

static void done(void) {
    if (made) {
        plan_free(&plan);
    }
    options_free(&options);
}

static bool noted(const char *words) {
    for (size_t i = 0; i < plan.note_count; i++) {
        if (strstr(plan.notes[i], words) != NULL) {
            return true;
        }
    }
    return false;
}

static void without_a_runtime_or_etcd_the_peer_is_started_here(void **state) {
    assert_true(MAKE("--backend=UCX"));
    assert_int_equal(plan.runtime, RUNTIME_LOCAL);
    assert_int_equal(plan.processes, 2);
    done();
    assert_true(MAKE("--runtime_type=ASIO"));
    assert_int_equal(plan.runtime, RUNTIME_ASIO);
    done();
#ifdef NIXL_HAS_ETCD
    assert_true(MAKE("--runtime_type=ETCD"));
    assert_int_equal(plan.runtime, RUNTIME_ETCD);
    done();
    assert_true(
        MAKE("--etcd_endpoints=http://localhost:2379", "--num_initiator_dev=20", "--num_target_dev=20"));
    assert_int_equal(plan.runtime, RUNTIME_ETCD);
    assert_int_equal(plan.processes, 40);
    done();
    assert_true(MAKE("--etcd_endpoints=http://localhost:2379", "--runtime_type=LOCAL"));
    assert_int_equal(plan.runtime, RUNTIME_LOCAL);
    done();
    assert_false(MAKE("--runtime_type=ETCD", "--benchmark_group=a/b"));
    assert_non_null(strstr(error, "without a slash"));
    done();
#else
    assert_false(MAKE("--runtime_type=ETCD"));
    assert_non_null(strstr(error, "built without libcurl"));
    done();
#endif
    assert_true(MAKE("--backend=POSIX"));
    assert_int_equal(plan.runtime, RUNTIME_ALONE);
    assert_int_equal(plan.processes, 1);
    done();
}

static void what_cannot_be_served_is_refused_in_words(void **state) {
    static const struct {
        const char *a, *b, *words;
    } cases[] = {
        {"--backend=POSIX", "--etcd_endpoints=http://localhost:2379", "one process alone"},
        {"--worker_type=nvshmem", NULL, "nvshmem"},
        {"--initiator_seg_type=VRAM", NULL, "initiator_seg_type"},
        {"--target_seg_type=VRAM", NULL, "target_seg_type"},
        {"--use_device_api", NULL, "use_device_api"},
        {"--enable_vmm", NULL, "enable_vmm"},
        {"--backend=GDS", NULL, "GDS"},
        {"--backend=OBJ", NULL, "OBJ"},
        {"--start_block_size=8192", "--max_block_size=4096",
         "start_block_size 8192 is above max_block_size 4096"},
        {"--start_batch_size=8", "--max_batch_size=4", "start_batch_size 8 is above max_batch_size 4"},
        {"--reregister_mem", "--prepared_xfer", "exclude each other"},
        {"--num_initiator_dev=2", NULL, "must be equal"},
        {"--scheme=manytoone", "--num_target_dev=2", "num_target_dev must be 1"},
        {"--scheme=onetomany", "--num_initiator_dev=2", "num_initiator_dev must be 1"},
        {"--device_list=eth0,eth1", NULL, "--device_list"},
        {"--total_buffer_size=64K", NULL, "too small"},
        {"--total_buffer_size=1000000001", "--num_threads=2", "divisible"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_true(options_of(&options, error, sizeof error, cases[i].a, cases[i].b, NULL));
        assert_false(make(64 * GIB));
        if (strstr(error, cases[i].words) == NULL) {
            fail_msg("%s gave \"%s\", without \"%s\"", cases[i].a, error, cases[i].words);
        }
        done();
    }
}

static void bytealigned_places_exclude_direct_io_and_checking(void **state) {
    assert_false(MAKE("--backend=POSIX", "--randomize_location_mode=bytealigned", "--storage_enable_direct"));
    assert_non_null(strstr(error, "aligned"));
    done();
    assert_false(MAKE("--backend=POSIX", "--randomize_location_mode=bytealigned", "--check_consistency"));
    assert_non_null(strstr(error, "overlap"));
    done();
    assert_true(MAKE("--backend=POSIX", "--randomize_location_mode=bytealigned"));
    assert_int_equal(plan.random, RANDOM_BYTES);
    done();
    assert_true(MAKE("--randomize_location_mode=blockaligned"));
    assert_int_equal(plan.random, RANDOM_NONE);
    assert_true(noted("randomize_location_mode"));
    done();
}

static void iterations_are_rounded_up_to_threads_times_factor(void **state) {
    assert_true(MAKE("--num_threads=3"));
    assert_int_equal(plan.iterations, 1008); /* 1000 up to a multiple of 48 */
    assert_int_equal(plan.warmup, 144);      /* 100 likewise */
    assert_true(noted("num_iter 1000 raised to 1008"));
    assert_true(noted("warmup_iter 100 raised to 144"));
    done();
    assert_true(MAKE("--num_iter=32", "--warmup_iter=0"));
    assert_int_equal(plan.iterations, 32);
    assert_int_equal(plan.warmup, 0);
    assert_false(noted("raised"));
    done();
}

static void reregistering_makes_a_request_each_time(void **state) {
    assert_true(MAKE("--reregister_mem"));
    assert_true(plan.recreate);
    assert_true(noted("recreate_xfer is on"));
    done();
}

static void blocks_and_batches_double_and_large_blocks_get_fewer_iterations(void **state) {
    assert_true(
        MAKE("--start_block_size=524288", "--max_block_size=3M", "--max_batch_size=3", "--num_threads=2"));
    /* Blocks 512 KiB, 1 MiB, 2 MiB (4 MiB is above 3 MiB); batches 1 and 2. */
    assert_int_equal(plan.case_count, 6);
    assert_int_equal(plan.cases[0].block, 524288);
    assert_int_equal(plan.cases[1].batch, 2);
    assert_int_equal(plan.cases[2].block, 1048576);
    assert_int_equal(plan.cases[2].iterations, 512); /* 1024 over two threads: 1 MiB is not large yet */
    assert_int_equal(plan.cases[4].block, 2097152);
    assert_int_equal(plan.cases[4].iterations, 32);
    assert_int_equal(plan.cases[4].warmup, 4); /* 128 over two threads over 16 */
    done();
}

static void both_directions_run_write_first(void **state) {
    assert_true(MAKE("--op_type=both", "--max_block_size=8K"));
    assert_int_equal(plan.case_count, 4);
    assert_int_equal(plan.cases[0].op, NIXL_WRITE);
    assert_int_equal(plan.cases[1].op, NIXL_WRITE);
    assert_int_equal(plan.cases[2].op, NIXL_READ);
    assert_int_equal(plan.cases[2].block, 4096);
    done();
}

static void a_buffer_that_was_not_asked_for_is_as_large_as_needed(void **state) {
    assert_true(MAKE("--max_block_size=1M", "--max_batch_size=4", "--pipeline_depth=2"));
    assert_int_equal(plan.buffer_size, 8 << 20);
    assert_true(noted("buffers of 8388608 bytes"));
    done();
    assert_true(MAKE("--max_block_size=1M", "--total_buffer_size=1G"));
    assert_int_equal(plan.buffer_size, GIB);
    assert_false(noted("buffers of"));
    done();
    /* Three threads with parts of whole pages: 3 * 4096 for blocks of 1000 bytes. */
    assert_true(MAKE("--start_block_size=1000", "--max_block_size=1000", "--num_threads=3"));
    assert_int_equal(plan.buffer_size, 3 * 4096);
    done();
}

static void a_buffer_that_is_too_small_is_told_what_it_needs(void **state) {
    assert_false(MAKE("--total_buffer_size=1M", "--max_block_size=1M", "--max_batch_size=2"));
    assert_non_null(strstr(error, "2097152"));
    done();
    assert_false(MAKE("--max_block_size=16T", "--max_batch_size=16777216"));
    assert_non_null(strstr(error, "more than there is"));
    done();
}

static void what_does_not_fit_into_memory_is_refused_before_it_starts(void **state) {
    assert_true(options_of(&options, error, sizeof error, "--max_block_size=2G", NULL));
    assert_false(make(3 * GIB)); /* two processes of 2 GiB */
    assert_non_null(strstr(error, "do not fit"));
    assert_true(make(5 * GIB));
    done();
}

static void huge_pages_round_the_buffer_up(void **state) {
    assert_true(MAKE("--use_hugepages", "--max_block_size=4K", "--total_buffer_size=3M"));
    assert_int_equal(plan.buffer_size, 4 << 20);
    assert_true(noted("multiple of 2 MiB"));
    done();
}

static void a_depth_above_the_iterations_is_capped(void **state) {
    assert_true(MAKE("--pipeline_depth=8", "--num_iter=64", "--start_block_size=1M", "--max_block_size=2M"));
    assert_int_equal(plan.cases[0].depth, 8);
    assert_int_equal(plan.cases[1].iterations, 4);
    assert_int_equal(plan.cases[1].depth, 4);
    assert_true(noted("pipeline_depth"));
    done();
}

static void flags_of_another_backend_are_noted_as_without_effect(void **state) {
    assert_true(MAKE("--obj_scheme=https", "--num_files=3"));
    assert_true(noted("obj_scheme has no effect with backend UCX"));
    assert_true(noted("num_files has no effect with backend UCX"));
    done();
    assert_true(MAKE("--backend=POSIX", "--num_files=3", "--posix_api_type=URING"));
    assert_false(noted("no effect"));
    done();
}

static void pairwise_joins_the_same_places(void **state) {
    assert_true(MAKE("--num_initiator_dev=3", "--num_target_dev=3"));
    assert_int_equal(plan.processes, 6);
    assert_int_equal(plan_pair_count(&plan), 3);
    for (unsigned i = 0; i < 3; i++) {
        struct bench_pair pair = plan_pair(&plan, 0, i);

        assert_int_equal(pair.initiator_dev, i);
        assert_int_equal(pair.target_dev, i);
        assert_int_equal(plan_device_process(&plan, ROLE_INITIATOR, i), i);
        assert_int_equal(plan_device_process(&plan, ROLE_TARGET, i), 3 + i);
    }
    assert_int_equal(plan_process_role(&plan, 2), ROLE_INITIATOR);
    assert_int_equal(plan_process_role(&plan, 3), ROLE_TARGET);
    done();
}

static void many_to_one_gives_each_initiator_a_slice_of_the_target(void **state) {
    assert_true(MAKE("--scheme=manytoone", "--num_initiator_dev=4", "--total_buffer_size=1G"));
    assert_int_equal(plan_pair_count(&plan), 4);
    for (unsigned i = 0; i < 4; i++) {
        struct bench_pair pair = plan_pair(&plan, 0, i);

        assert_int_equal(pair.initiator_dev, i);
        assert_int_equal(pair.target_dev, 0);
        assert_int_equal(pair.initiator_offset, 0);
        assert_int_equal(pair.target_offset, i * (GIB / 4));
    }
    done();
}

static void one_to_many_gives_each_target_a_slice_of_the_initiator(void **state) {
    assert_true(
        MAKE("--scheme=onetomany", "--num_target_dev=2", "--total_buffer_size=1G", "--num_threads=2"));
    assert_int_equal(plan_pair_count(&plan), 2);
    for (unsigned thread = 0; thread < 2; thread++) {
        for (unsigned i = 0; i < 2; i++) {
            struct bench_pair pair = plan_pair(&plan, thread, i);

            assert_int_equal(pair.initiator_dev, 0);
            assert_int_equal(pair.target_dev, i);
            assert_int_equal(pair.initiator_offset, thread * (GIB / 2) + i * (GIB / 4));
            assert_int_equal(pair.target_offset,
                             thread * (GIB / 4)); /* each target device has half of 1 GiB */
        }
    }
    done();
}

static void tp_spreads_by_the_ratio(void **state) {
    assert_true(MAKE("--scheme=tp", "--num_initiator_dev=2", "--num_target_dev=4"));
    assert_int_equal(plan_pair_count(&plan), 4);
    assert_int_equal(plan_pair(&plan, 0, 2).initiator_dev, 1);
    assert_int_equal(plan_pair(&plan, 0, 2).target_dev, 2);
    done();
    assert_true(MAKE("--scheme=tp", "--num_initiator_dev=4", "--num_target_dev=2"));
    assert_int_equal(plan_pair_count(&plan), 4);
    assert_int_equal(plan_pair(&plan, 0, 3).initiator_dev, 3);
    assert_int_equal(plan_pair(&plan, 0, 3).target_dev, 1);
    assert_true(plan_pair(&plan, 0, 3).target_offset > plan_pair(&plan, 0, 2).target_offset);
    done();
    assert_false(MAKE("--scheme=tp", "--num_initiator_dev=2", "--num_target_dev=3"));
    assert_non_null(strstr(error, "multiple"));
    done();
}

static void mode_mg_puts_all_devices_into_two_processes(void **state) {
    assert_true(MAKE("--mode=MG", "--num_initiator_dev=4", "--num_target_dev=4"));
    assert_int_equal(plan.processes, 2);
    assert_int_equal(plan_device_process(&plan, ROLE_INITIATOR, 3), 0);
    assert_int_equal(plan_device_process(&plan, ROLE_TARGET, 0), 1);
    assert_int_equal(plan_process_role(&plan, 1), ROLE_TARGET);
    done();
}

static void more_processes_than_sixteen_are_refused(void **state) {
    assert_false(MAKE("--num_initiator_dev=9", "--num_target_dev=9"));
    assert_non_null(strstr(error, "at most 16"));
    done();
    assert_false(MAKE("--runtime_type=ASIO", "--num_initiator_dev=2", "--num_target_dev=2"));
    assert_non_null(strstr(error, "two processes"));
    done();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_runtime_or_etcd_the_peer_is_started_here),
        cmocka_unit_test(what_cannot_be_served_is_refused_in_words),
        cmocka_unit_test(bytealigned_places_exclude_direct_io_and_checking),
        cmocka_unit_test(iterations_are_rounded_up_to_threads_times_factor),
        cmocka_unit_test(reregistering_makes_a_request_each_time),
        cmocka_unit_test(blocks_and_batches_double_and_large_blocks_get_fewer_iterations),
        cmocka_unit_test(both_directions_run_write_first),
        cmocka_unit_test(a_buffer_that_was_not_asked_for_is_as_large_as_needed),
        cmocka_unit_test(a_buffer_that_is_too_small_is_told_what_it_needs),
        cmocka_unit_test(what_does_not_fit_into_memory_is_refused_before_it_starts),
        cmocka_unit_test(huge_pages_round_the_buffer_up),
        cmocka_unit_test(a_depth_above_the_iterations_is_capped),
        cmocka_unit_test(flags_of_another_backend_are_noted_as_without_effect),
        cmocka_unit_test(pairwise_joins_the_same_places),
        cmocka_unit_test(many_to_one_gives_each_initiator_a_slice_of_the_target),
        cmocka_unit_test(one_to_many_gives_each_target_a_slice_of_the_initiator),
        cmocka_unit_test(tp_spreads_by_the_ratio),
        cmocka_unit_test(mode_mg_puts_all_devices_into_two_processes),
        cmocka_unit_test(more_processes_than_sixteen_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
