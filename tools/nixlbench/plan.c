/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE UINT64_C(4096)

#ifdef NIXL_HAS_ETCD
static const bool has_etcd = true;
#else
static const bool has_etcd = false;
#endif

static bool refuse(char *error, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), cold));

static bool refuse(char *error, size_t size, const char *fmt, ...) {
    va_list args;

    va_start(args, fmt);
    vsnprintf(error, size, fmt, args);
    va_end(args);
    return false;
}

static void note(struct bench_plan *plan, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void note(struct bench_plan *plan, const char *fmt, ...) {
    char **grown = realloc(plan->notes, (plan->note_count + 1) * sizeof *grown);
    va_list args;

    if (grown == NULL) {
        return;
    }
    plan->notes = grown;
    va_start(args, fmt);
    if (vasprintf(&plan->notes[plan->note_count], fmt, args) >= 0) {
        plan->note_count++;
    }
    va_end(args);
}

static bool same(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

bool plan_is_storage(const char *backend) {
    static const char *const names[] = {"GDS", "GDS_MT", "HF3FS",      "POSIX",
                                        "OBJ", "GUSLI",  "AZURE_BLOB", "INFINIA"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (same(backend, names[i])) {
            return true;
        }
    }
    return false;
}

const char *plan_runtime_name(enum bench_runtime runtime) {
    static const char *const names[] = {"LOCAL", "ASIO", "ETCD", "none"};

    return names[runtime];
}

/* What no part of this program or of the library can do yet, where it would matter. */
static bool check_supported(const struct bench_config *c, bool is_storage, char *error, size_t size) {
    if (same(c->worker_type, "nvshmem")) {
        return refuse(error, size, "--worker_type nvshmem: this benchmark moves bytes by NIXL only");
    }
    if (c->use_device_api) {
        return refuse(error, size, "--use_device_api: transfers started from a GPU are not supported");
    }
    if (c->enable_vmm) {
        return refuse(error, size, "--enable_vmm: GPU memory is not supported");
    }
    if (!same(c->initiator_seg_type, "DRAM")) {
        return refuse(error, size, "--initiator_seg_type %s: only DRAM is supported", c->initiator_seg_type);
    }
    if (!is_storage && !same(c->target_seg_type, "DRAM")) {
        return refuse(error, size, "--target_seg_type %s: only DRAM is supported", c->target_seg_type);
    }
    if (is_storage && !same(c->backend, "POSIX")) {
        return refuse(error, size, "--backend %s: of the storage backends only POSIX can be measured",
                      c->backend);
    }
    if (c->start_block_size > c->max_block_size) {
        return refuse(error, size, "start_block_size %" PRIu64 " is above max_block_size %" PRIu64,
                      c->start_block_size, c->max_block_size);
    }
    if (c->start_batch_size > c->max_batch_size) {
        return refuse(error, size, "start_batch_size %" PRIu64 " is above max_batch_size %" PRIu64,
                      c->start_batch_size, c->max_batch_size);
    }
    return true;
}

static bool choose_runtime(struct bench_plan *plan, const struct bench_options *options, char *error,
                           size_t size) {
    const struct bench_config *c = plan->config;
    bool named = options_source(options, "runtime_type") != FLAG_FROM_DEFAULT;

    if (plan->is_storage) {
        if (c->etcd_endpoints[0] != '\0') {
            return refuse(error, size, "--etcd_endpoints: storage is measured by one process alone");
        }
        plan->runtime = RUNTIME_ALONE;
        plan->processes = 1;
        return true;
    }
    /* The reference's default is ETCD; without an endpoint nobody can be met there, so LOCAL is ours. */
    plan->runtime = same(c->runtime_type, "ETCD") && (named || c->etcd_endpoints[0] != '\0') ? RUNTIME_ETCD
                    : named && same(c->runtime_type, "ASIO")                                 ? RUNTIME_ASIO
                                                                                             : RUNTIME_LOCAL;
    plan->processes = plan->is_multi ? 2 : plan->devices[ROLE_INITIATOR] + plan->devices[ROLE_TARGET];
    if (plan->runtime == RUNTIME_ASIO && plan->processes != 2) {
        return refuse(error, size,
                      "--runtime_type ASIO joins two processes, mode SG with %u + %u devices needs %u",
                      plan->devices[ROLE_INITIATOR], plan->devices[ROLE_TARGET], plan->processes);
    }
    if (plan->runtime == RUNTIME_ETCD && !has_etcd) {
        return refuse(error, size,
                      "--runtime_type ETCD: this nixlbench was built without libcurl and jansson");
    }
    if (plan->runtime == RUNTIME_ETCD && (c->benchmark_group[0] == '\0' || strlen(c->benchmark_group) > 128 ||
                                          strchr(c->benchmark_group, '/') != NULL)) {
        return refuse(error, size, "--benchmark_group \"%s\": it must be 1 to 128 characters without a slash",
                      c->benchmark_group);
    }
    if (plan->processes > (plan->runtime == RUNTIME_ETCD ? ETCD_MAX_PROCESSES : LOCAL_MAX_PROCESSES)) {
        return refuse(error, size,
                      "mode SG with %u + %u devices needs %u processes; runtime LOCAL starts at most %d, "
                      "with ETCD there may be %d",
                      plan->devices[ROLE_INITIATOR], plan->devices[ROLE_TARGET], plan->processes,
                      LOCAL_MAX_PROCESSES, ETCD_MAX_PROCESSES);
    }
    return true;
}

static bool choose_scheme(struct bench_plan *plan, char *error, size_t size) {
    const struct bench_config *c = plan->config;
    unsigned initiators = (unsigned)c->num_initiator_dev;
    unsigned targets = (unsigned)c->num_target_dev;

    plan->devices[ROLE_INITIATOR] = initiators;
    plan->devices[ROLE_TARGET] = plan->is_storage ? initiators : targets;
    plan->slices[ROLE_INITIATOR] = plan->slices[ROLE_TARGET] = 1;
    if (plan->is_storage) {
        return true;
    }
    if (initiators > 1024 || targets > 1024) {
        return refuse(error, size, "at most 1024 devices on a side");
    }
    if (same(c->scheme, "pairwise")) {
        if (initiators != targets) {
            return refuse(error, size,
                          "scheme pairwise: num_initiator_dev %u and num_target_dev %u must be equal",
                          initiators, targets);
        }
    } else if (same(c->scheme, "manytoone")) {
        if (targets != 1) {
            return refuse(error, size, "scheme manytoone: num_target_dev must be 1, not %u", targets);
        }
        plan->slices[ROLE_TARGET] = initiators;
    } else if (same(c->scheme, "onetomany")) {
        if (initiators != 1) {
            return refuse(error, size, "scheme onetomany: num_initiator_dev must be 1, not %u", initiators);
        }
        plan->slices[ROLE_INITIATOR] = targets;
    } else if (initiators <= targets) {
        if (targets % initiators != 0) {
            return refuse(error, size,
                          "scheme tp: num_target_dev %u must be a multiple of num_initiator_dev %u", targets,
                          initiators);
        }
        plan->slices[ROLE_INITIATOR] = targets / initiators;
    } else {
        if (initiators % targets != 0) {
            return refuse(error, size,
                          "scheme tp: num_initiator_dev %u must be a multiple of num_target_dev %u",
                          initiators, targets);
        }
        plan->slices[ROLE_TARGET] = initiators / targets;
    }
    return true;
}

/* num_iter and warmup_iter are shared out over threads and divided for large blocks: rounded up to fit. */
static bool adjust_iterations(struct bench_plan *plan, char *error, size_t size) {
    const struct bench_config *c = plan->config;
    uint64_t part = (uint64_t)c->num_threads * (uint64_t)c->large_blk_iter_ftr;

    plan->threads = (unsigned)c->num_threads;
    if (plan->threads > 1024) {
        return refuse(error, size, "--num_threads %u: at most 1024", plan->threads);
    }
    plan->iterations = ((uint64_t)c->num_iter + part - 1) / part * part;
    plan->warmup = ((uint64_t)c->warmup_iter + part - 1) / part * part;
    if (plan->iterations != (uint64_t)c->num_iter) {
        note(plan,
             "WARNING: num_iter %d raised to %" PRIu64 ", a multiple of num_threads times large_blk_iter_ftr",
             c->num_iter, plan->iterations);
    }
    if (plan->warmup != (uint64_t)c->warmup_iter) {
        note(plan,
             "WARNING: warmup_iter %d raised to %" PRIu64
             ", a multiple of num_threads times large_blk_iter_ftr",
             c->warmup_iter, plan->warmup);
    }
    plan->depth = (unsigned)c->pipeline_depth;
    return true;
}

static bool check_repetition(struct bench_plan *plan, char *error, size_t size) {
    const struct bench_config *c = plan->config;

    plan->recreate = c->recreate_xfer;
    if (c->reregister_mem && c->prepared_xfer) {
        return refuse(error, size,
                      "reregister_mem and prepared_xfer exclude each other: a prepared list names "
                      "registered memory");
    }
    if (c->reregister_mem && !plan->recreate) {
        note(plan, "NOTE: reregister_mem needs a new request in each iteration: recreate_xfer is on");
        plan->recreate = true;
    }
    return true;
}

static bool check_random(struct bench_plan *plan, char *error, size_t size) {
    const struct bench_config *c = plan->config;

    if (same(c->randomize_location_mode, "none")) {
        return true;
    }
    if (!plan->is_storage) {
        note(plan, "WARNING: randomize_location_mode is for storage: ignored");
        return true;
    }
    if (same(c->randomize_location_mode, "blockaligned")) {
        plan->random = RANDOM_BLOCKS;
        return true;
    }
    if (c->storage_enable_direct) {
        return refuse(error, size,
                      "randomize_location_mode bytealigned and storage_enable_direct exclude each "
                      "other: direct I/O needs aligned places");
    }
    if (c->check_consistency) {
        return refuse(error, size,
                      "randomize_location_mode bytealigned and check_consistency exclude each other: "
                      "blocks would overlap");
    }
    plan->random = RANDOM_BYTES;
    return true;
}

/* Bytes that `role`'s process uses in the largest case, over all its devices; UINT64_MAX when that does not fit. */
static uint64_t needed_bytes(const struct bench_plan *plan, enum bench_role role, uint64_t part_align) {
    const struct bench_config *c = plan->config;
    uint64_t slice;
    uint64_t bytes;

    if (__builtin_mul_overflow(c->max_block_size, c->max_batch_size, &slice) ||
        __builtin_mul_overflow(slice, (uint64_t)plan->depth, &slice) || slice > UINT64_MAX - part_align) {
        return UINT64_MAX;
    }
    slice = (slice + part_align - 1) / part_align * part_align;
    if (__builtin_mul_overflow(slice, (uint64_t)plan->slices[role], &bytes) ||
        __builtin_mul_overflow(bytes, (uint64_t)plan->threads, &bytes) ||
        __builtin_mul_overflow(bytes, (uint64_t)plan->devices[role], &bytes)) {
        return UINT64_MAX;
    }
    return bytes;
}

static uint64_t needed_of_both(const struct bench_plan *plan, uint64_t part_align) {
    uint64_t initiator = needed_bytes(plan, ROLE_INITIATOR, part_align);
    uint64_t target = needed_bytes(plan, ROLE_TARGET, part_align);

    return initiator > target ? initiator : target;
}

/* The largest case must fit into its part of a named buffer, without blocks on top of each other. */
static bool check_named_size(struct bench_plan *plan, uint64_t part_align, char *error, size_t size) {
    const struct bench_config *c = plan->config;

    for (int role = 0; role < 2; role++) {
        uint64_t parts = (uint64_t)plan->threads * plan->devices[role];

        if (plan->buffer_size % parts != 0) {
            return refuse(error, size,
                          "total_buffer_size %" PRIu64 " must be divisible by num_threads times %s (%" PRIu64
                          ")",
                          plan->buffer_size, role == 0 ? "num_initiator_dev" : "num_target_dev", parts);
        }
        if (needed_bytes(plan, (enum bench_role)role, 1) > plan->buffer_size) {
            uint64_t need = needed_of_both(plan, part_align);
            char words[64] = "more than there is";

            if (need != UINT64_MAX) {
                snprintf(words, sizeof words, "%" PRIu64, need);
            }
            return refuse(error, size,
                          "total_buffer_size %" PRIu64
                          " is too small: %u device(s), %u thread(s), %u part(s), "
                          "pipeline_depth %u, batches of %" PRIu64 " blocks of %" PRIu64 " bytes need %s",
                          plan->buffer_size, plan->devices[role], plan->threads, plan->slices[role],
                          plan->depth, c->max_batch_size, c->max_block_size, words);
        }
    }
    return true;
}

/* The smallest size from `bytes` on that both sides can cut into whole parts. */
static uint64_t round_to_parts(const struct bench_plan *plan, uint64_t bytes, uint64_t align) {
    uint64_t a = (uint64_t)plan->devices[ROLE_INITIATOR];
    uint64_t b = (uint64_t)plan->devices[ROLE_TARGET];
    uint64_t unit;

    for (uint64_t x = a, y = b;;) { /* least common multiple */
        uint64_t r = x % y;

        if (r == 0) {
            unit = a / y * b * plan->threads * align;
            break;
        }
        x = y;
        y = r;
    }
    if (bytes > UINT64_MAX - unit) {
        return UINT64_MAX;
    }
    return (bytes + unit - 1) / unit * unit;
}

static bool choose_buffer(struct bench_plan *plan, const struct bench_options *options, uint64_t memory_bytes,
                          char *error, size_t size) {
    const struct bench_config *c = plan->config;
    uint64_t align = c->use_hugepages ? HUGEPAGE_SIZE : PAGE;
    uint64_t here = plan->runtime == RUNTIME_LOCAL ? plan->processes : 1;

    plan->needed_size = needed_of_both(plan, 1);
    plan->buffer_size = c->total_buffer_size;
    if (options_source(options, "total_buffer_size") == FLAG_FROM_DEFAULT) {
        uint64_t need = needed_of_both(plan, align);

        if (need <= plan->buffer_size) {
            plan->buffer_size = round_to_parts(plan, need, align);
        }
    }
    if (c->use_hugepages && plan->buffer_size % HUGEPAGE_SIZE != 0) {
        plan->buffer_size = (plan->buffer_size / HUGEPAGE_SIZE + 1) * HUGEPAGE_SIZE;
        note(plan, "NOTE: total_buffer_size raised to %" PRIu64 ", a multiple of 2 MiB", plan->buffer_size);
    }
    if (!check_named_size(plan, align, error, size)) {
        return false;
    }
    if (memory_bytes != 0 && plan->needed_size > memory_bytes / here) {
        return refuse(
            error, size,
            "%" PRIu64 " process(es) with %" PRIu64 " bytes in use each do not fit into the %" PRIu64
            " bytes that this machine has free; lower max_block_size, max_batch_size or pipeline_depth",
            here, plan->needed_size, memory_bytes);
    }
    if (plan->buffer_size < c->total_buffer_size) {
        note(plan,
             "NOTE: buffers of %" PRIu64 " bytes in each process: the largest case needs no more "
             "(total_buffer_size, unless given, is at most %" PRIu64 ")",
             plan->buffer_size, c->total_buffer_size);
    }
    return true;
}

static bool check_devices(const struct bench_plan *plan, char *error, size_t size) {
    const struct bench_config *c = plan->config;
    struct text rest = text_of(c->device_list);
    struct text piece;
    unsigned count = 0;

    if (same(c->device_list, "all") || plan->is_storage) {
        return true;
    }
    while (text_split(&rest, ',', &piece)) {
        if (piece.len == 0) {
            return refuse(error, size, "--device_list %s: an empty name", c->device_list);
        }
        count++;
    }
    if (count == 0) {
        return refuse(error, size, "--device_list is empty: name devices, or \"all\"");
    }
    if (same(c->scheme, "pairwise") && count != plan->devices[ROLE_INITIATOR]) {
        return refuse(error, size,
                      "--device_list %s: scheme pairwise needs a device for each of num_initiator_dev %u",
                      c->device_list, plan->devices[ROLE_INITIATOR]);
    }
    return true;
}

/* A flag for another backend than this one has no effect: say so rather than let it seem to work. */
static void note_foreign_flags(struct bench_plan *plan, const struct bench_options *options) {
    for (size_t i = 0; i < bench_flag_count; i++) {
        const struct flag *flag = &bench_flags[i];

        if (flag->backend == NULL || options->sources[i] == FLAG_FROM_DEFAULT ||
            same(flag->name, "randomize_location_mode")) {
            continue;
        }
        if (same(flag->backend, "storage") ? !plan->is_storage
                                           : !same(flag->backend, plan->config->backend)) {
            note(plan, "NOTE: %s has no effect with backend %s", flag->name, plan->config->backend);
        }
    }
}

static bool make_cases(struct bench_plan *plan, char *error, size_t size) {
    const struct bench_config *c = plan->config;
    bool both = same(c->op_type, "both");
    bool capped = false;

    for (int pass = 0; pass < (both ? 2 : 1); pass++) {
        nixl_xfer_op_t op = both                       ? (pass == 0 ? NIXL_WRITE : NIXL_READ)
                            : same(c->op_type, "READ") ? NIXL_READ
                                                       : NIXL_WRITE;

        for (uint64_t block = c->start_block_size; block <= c->max_block_size; block *= 2) {
            uint64_t less = block > LARGE_BLOCK ? (uint64_t)c->large_blk_iter_ftr : 1;

            for (uint64_t batch = c->start_batch_size; batch <= c->max_batch_size; batch *= 2) {
                struct bench_case *grown = realloc(plan->cases, (plan->case_count + 1) * sizeof *grown);

                if (grown == NULL) {
                    return refuse(error, size, "out of memory");
                }
                plan->cases = grown;
                grown[plan->case_count++] = (struct bench_case){
                    .op = op,
                    .block = block,
                    .batch = batch,
                    .warmup = plan->warmup / plan->threads / less,
                    .iterations = plan->iterations / plan->threads / less,
                    .depth = plan->depth,
                };
                if (plan->depth > grown[plan->case_count - 1].iterations) {
                    grown[plan->case_count - 1].depth = (unsigned)grown[plan->case_count - 1].iterations;
                    capped = true;
                }
                if (batch > UINT64_MAX / 2) {
                    break;
                }
            }
            if (block > UINT64_MAX / 2) {
                break;
            }
        }
    }
    if (capped) {
        note(plan,
             "WARNING: pipeline_depth %u is more than the iterations of a thread in some cases: no more than "
             "those "
             "are in flight there",
             plan->depth);
    }
    return true;
}

static bool plan_fill(const struct bench_options *options, uint64_t memory_bytes, struct bench_plan *plan,
                      char *error, size_t size) {
    const struct bench_config *c = &options->config;

    plan->config = c;
    plan->is_storage = plan_is_storage(c->backend);
    plan->is_multi = same(c->mode, "MG");
    return check_supported(c, plan->is_storage, error, size) && choose_scheme(plan, error, size) &&
           choose_runtime(plan, options, error, size) && adjust_iterations(plan, error, size) &&
           check_repetition(plan, error, size) && check_random(plan, error, size) &&
           check_devices(plan, error, size) && choose_buffer(plan, options, memory_bytes, error, size) &&
           make_cases(plan, error, size);
}

bool plan_make(const struct bench_options *options, uint64_t memory_bytes, struct bench_plan *plan,
               char *error, size_t error_size) {
    memset(plan, 0, sizeof *plan);
    if (!plan_fill(options, memory_bytes, plan, error, error_size)) {
        plan_free(plan);
        return false;
    }
    note_foreign_flags(plan, options);
    return true;
}

void plan_free(struct bench_plan *plan) {
    for (size_t i = 0; i < plan->note_count; i++) {
        free(plan->notes[i]);
    }
    free(plan->notes);
    free(plan->cases);
    memset(plan, 0, sizeof *plan);
}

size_t plan_pair_count(const struct bench_plan *plan) {
    return (size_t)plan->devices[ROLE_INITIATOR] * plan->slices[ROLE_INITIATOR];
}

uint64_t plan_device_bytes(const struct bench_plan *plan, enum bench_role role) {
    return plan->buffer_size / plan->devices[role];
}

struct bench_pair plan_pair(const struct bench_plan *plan, unsigned thread, size_t index) {
    uint64_t part[2], slice[2];
    unsigned slices = plan->slices[ROLE_INITIATOR];
    struct bench_pair pair;
    uint64_t align = plan->config->use_hugepages ? HUGEPAGE_SIZE : 1;

    for (int role = 0; role < 2; role++) {
        part[role] = plan_device_bytes(plan, (enum bench_role)role) / plan->threads;
        slice[role] = part[role] / plan->slices[role];
        if (plan->slices[role] > 1 && slice[role] > align) {
            slice[role] = slice[role] / align * align;
        }
    }
    pair.initiator_dev = (unsigned)(index / slices);
    /* Ascending on both sides: the k-th pair's target is the k-th part of all the targets' parts. */
    pair.target_dev = (unsigned)(index / plan->slices[ROLE_TARGET]);
    pair.initiator_offset = thread * part[ROLE_INITIATOR] + index % slices * slice[ROLE_INITIATOR];
    pair.target_offset = thread * part[ROLE_TARGET] + index % plan->slices[ROLE_TARGET] * slice[ROLE_TARGET];
    return pair;
}

unsigned plan_device_process(const struct bench_plan *plan, enum bench_role role, unsigned device) {
    if (plan->is_multi || plan->is_storage) {
        return role == ROLE_INITIATOR || plan->is_storage ? 0 : 1;
    }
    return role == ROLE_INITIATOR ? device : plan->devices[ROLE_INITIATOR] + device;
}

enum bench_role plan_process_role(const struct bench_plan *plan, unsigned process) {
    unsigned initiators = plan->is_multi || plan->is_storage ? 1 : plan->devices[ROLE_INITIATOR];

    return process < initiators ? ROLE_INITIATOR : ROLE_TARGET;
}
