/* SPDX-License-Identifier: Apache-2.0 */
/* Names, defaults and forms of nixlbench's flags; what is refused, and in which words. */
#include "support.h"

static char error[512];

/* The reference's names and defaults, written down from its documentation. */
static const struct {
    const char *name, *value;
} reference[] = {
    {"config_file", ""},
    {"benchmark_group", "default"},
    {"runtime_type", "ETCD"},
    {"worker_type", "nixl"},
    {"backend", "UCX"},
    {"initiator_seg_type", "DRAM"},
    {"target_seg_type", "DRAM"},
    {"scheme", "pairwise"},
    {"mode", "SG"},
    {"op_type", "WRITE"},
    {"check_consistency", "0"},
    {"total_buffer_size", "8589934592"},
    {"start_block_size", "4096"},
    {"max_block_size", "67108864"},
    {"start_batch_size", "1"},
    {"max_batch_size", "1"},
    {"num_iter", "1000"},
    {"recreate_xfer", "0"},
    {"reregister_mem", "0"},
    {"prepared_xfer", "0"},
    {"pipeline_depth", "1"},
    {"large_blk_iter_ftr", "16"},
    {"warmup_iter", "100"},
    {"num_threads", "1"},
    {"num_initiator_dev", "1"},
    {"num_target_dev", "1"},
    {"enable_pt", "0"},
    {"progress_threads", "0"},
    {"enable_vmm", "0"},
    {"use_hugepages", "0"},
    {"filepath", ""},
    {"filenames", ""},
    {"num_files", "1"},
    {"storage_enable_direct", "0"},
    {"gds_batch_pool_size", "32"},
    {"gds_batch_limit", "128"},
    {"gds_mt_num_threads", "1"},
    {"device_list", "all"},
    {"etcd_endpoints", ""},
    {"asio_address", "127.0.0.1"},
    {"asio_port", "12345"},
    {"randomize_location_mode", "none"},
    {"randomize_location_mode_seed", "0"},
    {"posix_api_type", "AIO"},
    {"posix_ios_pool_size", "65536"},
    {"posix_kernel_queue_size", "256"},
    {"gpunetio_device_list", "0"},
    {"gpunetio_oob_list", ""},
    {"obj_access_key", ""},
    {"obj_secret_key", ""},
    {"obj_session_token", ""},
    {"obj_bucket_name", ""},
    {"obj_scheme", "http"},
    {"obj_region", "eu-central-1"},
    {"obj_use_virtual_addressing", "0"},
    {"obj_endpoint_override", ""},
    {"obj_req_checksum", "supported"},
    {"obj_ca_bundle", ""},
    {"obj_crt_min_limit", "0"},
    {"obj_accelerated_enable", "0"},
    {"obj_accelerated_type", ""},
    {"azure_blob_account_url", ""},
    {"azure_blob_container_name", ""},
    {"azure_blob_connection_string", ""},
    {"infinia_config_file", ""},
    {"hf3fs_iopool_size", "64"},
    {"gusli_client_name", "NIXLBench"},
    {"gusli_max_simultaneous_requests", "32"},
    {"gusli_config_file", ""},
    {"gusli_device_byte_offsets", ""},
    {"gusli_device_security", ""},
    {"gusli_try_use_uring", "0"},
    {"use_device_api", "0"},
};

static void all_flags_of_the_reference_are_there_with_their_defaults(void **state) {
    struct bench_options options;
    char number[32];

    assert_int_equal(COUNT(reference), 73);
    assert_true(options_of(&options, error, sizeof error, NULL));
    for (size_t i = 0; i < COUNT(reference); i++) {
        assert_string_equal(bench_flags[i].name, reference[i].name);
        assert_string_equal(flag_show(&options.config, &bench_flags[i], number, sizeof number),
                            reference[i].value);
        assert_int_equal(options_source(&options, reference[i].name), FLAG_FROM_DEFAULT);
    }
    options_free(&options);
}

static void a_value_follows_or_is_joined_by_an_equals_sign(void **state) {
    struct bench_options options;

    assert_true(options_of(&options, error, sizeof error, "--num_iter", "7", "--backend=POSIX",
                           "-num_threads", "3", NULL));
    assert_int_equal(options.config.num_iter, 7);
    assert_int_equal(options.config.num_threads, 3);
    assert_string_equal(options.config.backend, "POSIX");
    assert_int_equal(options_source(&options, "num_iter"), FLAG_FROM_COMMAND);
    options_free(&options);
}

static void hyphens_and_underscores_are_alike(void **state) {
    struct bench_options options;

    assert_true(
        options_of(&options, error, sizeof error, "--start-block_size=512", "--check-consistency", NULL));
    assert_int_equal(options.config.start_block_size, 512);
    assert_true(options.config.check_consistency);
    options_free(&options);
}

static void booleans_are_switched_and_take_values(void **state) {
    static const struct {
        const char *first, *second;
        bool expected;
    } forms[] = {
        {"--enable_pt", NULL, true},   {"--enable_pt=false", NULL, false}, {"--enable_pt", "True", true},
        {"--enable_pt", "0", false},   {"--noenable_pt", NULL, false},     {"--no-enable-pt", NULL, false},
        {"--enable_pt=t", NULL, true}, {"--enable_pt=F", NULL, false},     {"--enable-pt=yes", NULL, true},
    };

    for (size_t i = 0; i < COUNT(forms); i++) {
        struct bench_options options;

        assert_true(options_of(&options, error, sizeof error, forms[i].first, forms[i].second, NULL));
        assert_int_equal(options.config.enable_pt, forms[i].expected);
        assert_int_equal(options_source(&options, "enable_pt"), FLAG_FROM_COMMAND);
        options_free(&options);
    }
}

static void a_flag_after_a_switch_is_not_its_value(void **state) {
    struct bench_options options;

    assert_true(options_of(&options, error, sizeof error, "--enable_pt", "--num_iter", "5", NULL));
    assert_true(options.config.enable_pt);
    assert_int_equal(options.config.num_iter, 5);
    options_free(&options);
}

static void sizes_may_have_a_unit(void **state) {
    struct bench_options options;

    assert_true(
        options_of(&options, error, sizeof error, "--max_block_size=16M", "--total_buffer_size", "2G", NULL));
    assert_int_equal(options.config.max_block_size, 16777216);
    assert_int_equal(options.config.total_buffer_size, UINT64_C(2147483648));
    options_free(&options);
}

static void refusals_name_the_flag_and_what_it_takes(void **state) {
    static const struct {
        const char *first, *second;
        const char *words[3];
    } cases[] = {
        {"--num_itr=5", NULL, {"unknown flag \"num_itr\"", "--num_iter"}},
        {"--frobnicate", NULL, {"unknown flag \"frobnicate\"", "--help"}},
        {"--num_iter", NULL, {"--num_iter", "value is missing"}},
        {"--num_iter=0", NULL, {"--num_iter \"0\"", "from 1 to 2147483647"}},
        {"--num_iter=-4", NULL, {"--num_iter -4", "from 1 to 2147483647"}},
        {"--num_iter=ten", NULL, {"--num_iter \"ten\"", "must be a number"}},
        {"--num_iter=99999999999999999999999", NULL, {"from 1 to 2147483647"}},
        {"--num_iter=4294967297", NULL, {"from 1 to 2147483647"}},
        {"--asio_port=65536", NULL, {"--asio_port \"65536\"", "to 65535"}},
        {"--op_type=COPY", NULL, {"--op_type \"COPY\"", "READ|WRITE|both"}},
        {"--op_type=read", NULL, {"READ|WRITE|both"}},
        {"--posix_api_type=SYNC", NULL, {"AIO|URING|POSIXAIO"}},
        {"--obj_scheme=ftp", NULL, {"http|https"}},
        {"--obj_req_checksum=never", NULL, {"supported|required"}},
        {"--pipeline_depth=0", NULL, {"--pipeline_depth \"0\"", "from 1 to 2147483647"}},
        {"--large_blk_iter_ftr=0", NULL, {"--large_blk_iter_ftr \"0\"", "from 1"}},
        {"--num_threads=0", NULL, {"--num_threads \"0\"", "from 1"}},
        {"--scheme=ring", NULL, {"pairwise|manytoone|onetomany|tp"}},
        {"--mode=XX", NULL, {"SG|MG"}},
        {"--worker_type=mpi", NULL, {"nixl|nvshmem"}},
        {"--runtime_type=MPI", NULL, {"ETCD|ASIO|LOCAL"}},
        {"--randomize_location_mode=all", NULL, {"none|blockaligned|bytealigned"}},
        {"--check_consistency=maybe", NULL, {"--check_consistency \"maybe\"", "true or false"}},
        {"positional", NULL, {"\"positional\"", "--help"}},
        {"--nonum_iter", NULL, {"unknown flag \"nonum_iter\""}},
        {"--config_file=/nowhere/x.toml", NULL, {"/nowhere/x.toml", "No such file"}},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench_options options;

        assert_false(options_of(&options, error, sizeof error, cases[i].first, cases[i].second, NULL));
        for (size_t k = 0; k < 3 && cases[i].words[k] != NULL; k++) {
            if (strstr(error, cases[i].words[k]) == NULL) {
                fail_msg("%s gave \"%s\", without \"%s\"", cases[i].first, error, cases[i].words[k]);
            }
        }
        options_free(&options);
    }
}

static bool read_toml(struct bench_options *options, const char *text) {
    return options_read_toml(options, text, strlen(text), "x.toml", error, sizeof error);
}

static void the_file_beats_the_default_and_the_command_line_beats_the_file(void **state) {
    struct bench_options options;

    assert_true(options_of(&options, error, sizeof error, "--num_iter=5", NULL));
    assert_true(
        read_toml(&options, "num_iter = 9\nwarmup_iter = 3\nbackend = \"POSIX\"\nenable_pt = true\n"));
    assert_int_equal(options.config.num_iter, 5);
    assert_int_equal(options.config.warmup_iter, 3);
    assert_string_equal(options.config.backend, "POSIX");
    assert_true(options.config.enable_pt);
    assert_int_equal(options_source(&options, "num_iter"), FLAG_FROM_COMMAND);
    assert_int_equal(options_source(&options, "warmup_iter"), FLAG_FROM_FILE);
    options_free(&options);
}

static void mistakes_in_the_file_are_told_with_their_line(void **state) {
    static const struct {
        const char *text;
        const char *words[2];
    } cases[] = {
        {"num_iter = 1\nnum_itr = 2\n", {"x.toml:2:", "num_itr"}},
        {"num_iter = \"5\"\n", {"x.toml:1: num_iter is a string", "must be an integer"}},
        {"\n\nenable_pt = 1\n", {"x.toml:3: enable_pt is an integer", "true or false"}},
        {"backend = 3\n", {"x.toml:1: backend", "must be a string"}},
        {"num_iter = 0\n", {"x.toml:1: --num_iter", "from 1"}},
        {"num_iter = \n", {"x.toml:1:"}},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench_options options;

        assert_true(options_of(&options, error, sizeof error, NULL));
        assert_false(read_toml(&options, cases[i].text));
        for (size_t k = 0; k < 2 && cases[i].words[k] != NULL; k++) {
            if (strstr(error, cases[i].words[k]) == NULL) {
                fail_msg("\"%s\" lacks \"%s\"", error, cases[i].words[k]);
            }
        }
        options_free(&options);
    }
}

static void secrets_are_never_shown(void **state) {
    static const char *const secrets[] = {"obj_access_key", "obj_secret_key", "obj_session_token",
                                          "azure_blob_connection_string", "gusli_device_security"};
    char number[32];

    for (size_t i = 0; i < COUNT(secrets); i++) {
        struct bench_options options;
        char argument[96];

        snprintf(argument, sizeof argument, "--%s=hunter2", secrets[i]);
        assert_true(options_of(&options, error, sizeof error, argument, NULL));
        assert_string_equal(
            flag_show(&options.config, flag_find(secrets[i], strlen(secrets[i])), number, sizeof number),
            "(hidden)");
        options_free(&options);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_flags_of_the_reference_are_there_with_their_defaults),
        cmocka_unit_test(a_value_follows_or_is_joined_by_an_equals_sign),
        cmocka_unit_test(hyphens_and_underscores_are_alike),
        cmocka_unit_test(booleans_are_switched_and_take_values),
        cmocka_unit_test(a_flag_after_a_switch_is_not_its_value),
        cmocka_unit_test(sizes_may_have_a_unit),
        cmocka_unit_test(refusals_name_the_flag_and_what_it_takes),
        cmocka_unit_test(the_file_beats_the_default_and_the_command_line_beats_the_file),
        cmocka_unit_test(mistakes_in_the_file_are_told_with_their_line),
        cmocka_unit_test(secrets_are_never_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
