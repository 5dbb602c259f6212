/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run was asked for: one member a flag, filled from the flag table (flag_table.c) by the command line and
 * a TOML file (flags.c). Names and defaults are those that users of the reference's benchmark know. Nothing here
 * checks whether the flags fit together: plan.c does.
 */
#ifndef NIXLBENCH_CONFIG_H
#define NIXLBENCH_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_config {
    char *config_file, *benchmark_group, *runtime_type, *worker_type, *backend;
    char *initiator_seg_type, *target_seg_type, *scheme, *mode, *op_type;
    bool check_consistency;
    uint64_t total_buffer_size, start_block_size, max_block_size, start_batch_size, max_batch_size;
    int32_t num_iter;
    bool recreate_xfer, reregister_mem, prepared_xfer;
    int32_t pipeline_depth, large_blk_iter_ftr, warmup_iter, num_threads, num_initiator_dev, num_target_dev;
    bool enable_pt;
    uint64_t progress_threads;
    bool enable_vmm, use_hugepages;
    char *filepath, *filenames;
    int32_t num_files;
    bool storage_enable_direct;
    int32_t gds_batch_pool_size, gds_batch_limit, gds_mt_num_threads;
    char *device_list, *etcd_endpoints, *asio_address;
    uint32_t asio_port;
    char *randomize_location_mode;
    uint64_t randomize_location_mode_seed;
    char *posix_api_type;
    int32_t posix_ios_pool_size, posix_kernel_queue_size;
    char *gpunetio_device_list, *gpunetio_oob_list;
    char *obj_access_key, *obj_secret_key, *obj_session_token, *obj_bucket_name, *obj_scheme, *obj_region;
    bool obj_use_virtual_addressing;
    char *obj_endpoint_override, *obj_req_checksum, *obj_ca_bundle;
    uint64_t obj_crt_min_limit;
    bool obj_accelerated_enable;
    char *obj_accelerated_type;
    char *azure_blob_account_url, *azure_blob_container_name, *azure_blob_connection_string;
    char *infinia_config_file;
    int32_t hf3fs_iopool_size;
    char *gusli_client_name;
    int32_t gusli_max_simultaneous_requests;
    char *gusli_config_file, *gusli_device_byte_offsets, *gusli_device_security;
    bool gusli_try_use_uring;
    bool use_device_api;
    /* Ours alone. */
    char *output, *report, *progress;
    bool help, version;
};

enum flag_kind {
    FLAG_STRING,
    FLAG_BOOL,
    FLAG_INT32,
    FLAG_UINT32,
    FLAG_UINT64
};

enum flag_source {
    FLAG_FROM_DEFAULT = 0,
    FLAG_FROM_FILE,
    FLAG_FROM_COMMAND
};

struct flag {
    const char *name;
    enum flag_kind kind;
    size_t offset;
    const char *default_text;
    const char *choices; /* "a|b|c" (case matters), or NULL */
    int64_t min;         /* numbers only; max 0: as far as the kind goes */
    uint64_t max;
    const char *help;
    const char
        *backend;   /* the flag matters with this backend only; NULL: always. "storage": with all of those */
    bool is_secret; /* never shown */
};

extern const struct flag bench_flags[];
extern const size_t bench_flag_count;
/* How many of them, from the first on, are the reference's; the rest are ours. */
#define BENCH_REFERENCE_FLAGS 73

struct bench_options {
    struct bench_config config;
    enum flag_source *sources; /* bench_flag_count of them */
};

/* Sets all flags to their defaults. False without memory. */
bool options_init(struct bench_options *options);
void options_free(struct bench_options *options);

/*
 * Reads the command line, then the file that --config_file names; a flag of the command line beats the file's.
 * False with words in `error`. Names may be written with - or _; --flag v and --flag=v are alike; a boolean is
 * switched by --flag and --noflag and takes a value, too.
 */
bool options_parse(struct bench_options *options, int argc, char *const *argv, char *error,
                   size_t error_size);

/* Reads the settings in TOML text; `name` stands in words. Flags that came from the command line stay. */
bool options_read_toml(struct bench_options *options, const char *text, size_t len, const char *name,
                       char *error, size_t error_size);

/* The flag's row, NULL when there is none. `name` may hold - for _. */
const struct flag *flag_find(const char *name, size_t len);
enum flag_source options_source(const struct bench_options *options, const char *name);
/* The value as text, "(hidden)" for a secret that is set; for people and for the JSON record. */
const char *flag_show(const struct bench_config *config, const struct flag *flag, char *buf, size_t size);

/* The text of --help. */
void flags_help(void);

#endif
