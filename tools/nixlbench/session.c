/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"
#include "stop.h"

#include "base/text.h"
#include "base/thread.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS 10000
#define MAX_PARAMS 16

bool session_fail(struct session *session, const char *fmt, ...) {
    va_list args;

    va_start(args, fmt);
    vsnprintf(session->error, sizeof session->error, fmt, args);
    va_end(args);
    return false;
}

bool session_runtime_failed(struct session *session) {
    return session_fail(session, "%s", session->runtime->error);
}

bool session_idle(void *arg) {
    struct session *session = arg;
    struct nixl_notifs *notifs = NULL;
    bool happened;

    if (session->agent == NULL) {
        return false;
    }
    if (session->role == ROLE_INITIATOR) {
        return nixl_agent_progress(session->agent) == NIXL_SUCCESS;
    }
    happened = nixl_notif_take(session->agent, NULL, &notifs) == NIXL_SUCCESS && notifs != NULL;
    if (happened) {
        session->notified += notifs->count;
        nixl_notifs_release(notifs);
    }
    return happened;
}

/* ---- The backend's parameters ---- */

struct param_set {
    struct nixl_param items[MAX_PARAMS];
    char text[MAX_PARAMS][256];
    size_t count;
    const struct nixl_plugin_info *plugin;
};

static const struct nixl_option_info *find_option(const struct nixl_plugin_info *plugin, const char *name) {
    for (size_t i = 0; i < plugin->option_count; i++) {
        const struct nixl_option_info *option =
            (const struct nixl_option_info *)((const char *)plugin->options + i * plugin->option_bytes);

        if (strcmp(option->name, name) == 0 || (option->alias != NULL && strcmp(option->alias, name) == 0)) {
            return option;
        }
    }
    return NULL;
}

/* False when the backend has no such option. */
static bool add_param(struct param_set *set, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool add_param(struct param_set *set, const char *name, const char *fmt, ...) {
    va_list args;

    if (find_option(set->plugin, name) == NULL || set->count == MAX_PARAMS) {
        return false;
    }
    va_start(args, fmt);
    vsnprintf(set->text[set->count], sizeof set->text[0], fmt, args);
    va_end(args);
    set->items[set->count] = (struct nixl_param){name, set->text[set->count]};
    set->count++;
    return true;
}

/* Of several devices, a process of mode SG takes the one of its place. */
static struct text own_devices(const struct session *session) {
    const struct bench_plan *plan = session->plan;
    struct text all = text_of(plan->config->device_list);
    struct text rest = all;
    struct text piece = all;

    if (plan->is_multi || strcmp(plan->config->scheme, "pairwise") != 0) {
        return all;
    }
    for (unsigned i = 0; i <= session->memory.first_device && text_split(&rest, ',', &piece); i++) {
    }
    return piece;
}

static bool network_params(struct session *session, struct param_set *set) {
    const struct bench_config *c = session->plan->config;
    const struct nixl_option_info *workers = find_option(set->plugin, "num_workers");

    if (strcmp(c->device_list, "all") != 0) {
        struct text devices = own_devices(session);

        if (!add_param(set, "device_list", "%.*s", (int)devices.len, devices.at)) {
            return session_fail(session, "--device_list: backend %s takes no list of devices", c->backend);
        }
    }
    if (c->num_threads > 1 && workers != NULL && workers->max > (uint64_t)c->num_threads) {
        add_param(set, "num_workers", "%d", c->num_threads + 1);
    }
    if (c->progress_threads != 0 && !add_param(set, "num_threads", "%" PRIu64, c->progress_threads)) {
        return session_fail(session, "--progress_threads: backend %s has no threads of its own", c->backend);
    }
    return true;
}

static bool storage_params(struct session *session, struct param_set *set) {
    const struct bench_config *c = session->plan->config;
    const char *api = strcmp(c->posix_api_type, "URING") == 0      ? "use_uring"
                      : strcmp(c->posix_api_type, "POSIXAIO") == 0 ? "use_posix_aio"
                                                                   : "use_aio";

    add_param(set, api, "true");
    if (options_source(session->options, "posix_ios_pool_size") != FLAG_FROM_DEFAULT) {
        add_param(set, "ios_pool_size", "%d", c->posix_ios_pool_size);
    }
    if (options_source(session->options, "posix_kernel_queue_size") != FLAG_FROM_DEFAULT) {
        add_param(set, "kernel_queue_size", "%d", c->posix_kernel_queue_size);
    }
    return true;
}

static bool open_backend(struct session *session) {
    const char *type = session->plan->config->backend;
    struct nixl_plugin_info *plugin;
    struct param_set set = {.count = 0};
    bool ok;

    if (nixl_plugin_describe(type, &plugin) != NIXL_SUCCESS) {
        return session_fail(session, "--backend %s: %s", type, nixl_error());
    }
    set.plugin = plugin;
    ok = session->plan->is_storage ? storage_params(session, &set) : network_params(session, &set);
    if (ok &&
        nixl_backend_create(session->agent, type, set.items, set.count, &session->backend) != NIXL_SUCCESS) {
        ok = session_fail(session, "%s", nixl_error());
    }
    nixl_free(plugin);
    return ok;
}

/* ---- The agent and its peers ---- */

/* The first of a role is called as the reference calls it: its targets count the notifications of "initiator". */
static void agent_name(const struct session *session, char *name, size_t size) {
    unsigned rank = session->runtime->rank;
    unsigned first = session->role == ROLE_INITIATOR ? 0 : plan_device_process(session->plan, ROLE_TARGET, 0);

    if (rank == first) {
        snprintf(name, size, "%s", session->role == ROLE_INITIATOR ? "initiator" : "target");
    } else {
        snprintf(name, size, "%s%u", session->role == ROLE_INITIATOR ? "initiator" : "target", rank - first);
    }
}

static bool open_agent(struct session *session) {
    const struct bench_config *c = session->plan->config;
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    char name[32];

    config.progress_thread = c->enable_pt;
    config.sync = session->plan->threads > 1 ? NIXL_SYNC_RW : NIXL_SYNC_NONE;
    agent_name(session, name, sizeof name);
    if (nixl_agent_create(name, &config, &session->agent) != NIXL_SUCCESS) {
        return session_fail(session, "%s", nixl_error());
    }
    return open_backend(session);
}

static bool register_buffers(struct session *session) {
    const struct bench_memory *memory = &session->memory;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_desc *descs = calloc(memory->device_count, sizeof *descs);
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, memory->device_count);
    nixl_status_t status;

    if (descs == NULL) {
        return session_fail(session, "out of memory");
    }
    options.backends = &session->backend;
    options.backend_count = 1;
    for (unsigned d = 0; d < memory->device_count; d++) {
        descs[d] = (struct nixl_desc){(uint64_t)(uintptr_t)memory->buffers[d], memory->device_bytes, 0};
    }
    status = nixl_mem_register(session->agent, &list, &options);
    free(descs);
    return status == NIXL_SUCCESS ||
           session_fail(session, "register %zu bytes: %s", memory->device_bytes, nixl_error());
}

static void find_partners(struct session *session) {
    const struct bench_plan *plan = session->plan;
    unsigned self = session->runtime->rank;

    for (size_t i = 0; i < plan_pair_count(plan); i++) {
        struct bench_pair pair = plan_pair(plan, 0, i);
        unsigned initiator = plan_device_process(plan, ROLE_INITIATOR, pair.initiator_dev);
        unsigned target = plan_device_process(plan, ROLE_TARGET, pair.target_dev);

        if (initiator == self || target == self) {
            session->is_partner[initiator == self ? target : initiator] = true;
        }
    }
}

/* Targets send their metadata to their initiators, who load it and connect. */
static bool send_metadata(struct session *session) {
    void *blob;
    size_t len;
    bool ok = true;

    if (nixl_metadata_get(session->agent, &blob, &len) != NIXL_SUCCESS) {
        return session_fail(session, "%s", nixl_error());
    }
    for (unsigned i = 0; i < session->runtime->size && ok; i++) {
        ok = !session->is_partner[i] || runtime_send(session->runtime, i, blob, len) ||
             session_runtime_failed(session);
    }
    nixl_free(blob);
    return ok;
}

static bool receive_metadata(struct session *session) {
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct bytes blob = {0};
    bool ok = true;

    options.wait_ms = CONNECT_MS;
    options.backends = &session->backend;
    options.backend_count = 1;
    for (unsigned i = 0; i < session->runtime->size && ok; i++) {
        if (!session->is_partner[i]) {
            continue;
        }
        if (!runtime_recv(session->runtime, i, &blob)) {
            ok = session_runtime_failed(session);
        } else if (nixl_metadata_load(session->agent, blob.data, blob.len, &session->peers[i]) !=
                   NIXL_SUCCESS) {
            ok = session_fail(session, "metadata of process %u: %s", i, nixl_error());
        }
    }
    bytes_free(&blob);
    for (unsigned i = 0; i < session->runtime->size && ok && runtime_is_own(session->runtime); i++) {
        if (session->peers[i] != NULL && nixl_peer_connect(session->agent, session->peers[i], &options) < 0) {
            ok = session_fail(session, "connect to %s: %s", session->peers[i], nixl_error());
        }
    }
    return ok;
}

/* Threads on this machine that look for something all the time. */
static unsigned spinning_threads(const struct session *session) {
    const struct bench_plan *plan = session->plan;
    unsigned initiators = 0;

    for (unsigned i = 0; i < plan->processes; i++) {
        initiators += plan_process_role(plan, i) == ROLE_INITIATOR;
    }
    if (plan->runtime == RUNTIME_LOCAL) {
        return initiators * plan->threads + (plan->config->enable_pt ? 0 : plan->processes - initiators);
    }
    return plan->threads;
}

bool session_open(struct session *session) {
    struct runtime *runtime = session->runtime;

    session->role = plan_process_role(session->plan, runtime->rank);
    session->is_crowded = spinning_threads(session) > cpu_count();
    runtime->is_crowded = session->is_crowded;
    session->peers = calloc(runtime->size, sizeof *session->peers);
    session->is_partner = calloc(runtime->size, sizeof *session->is_partner);
    if (session->peers == NULL || session->is_partner == NULL) {
        return session_fail(session, "out of memory");
    }
    if (!runtime_barrier(runtime, "start_barrier")) {
        return session_runtime_failed(session);
    }
    if (!memory_open(&session->memory, session->plan, runtime->rank, session->error, sizeof session->error)) {
        return false;
    }
    if (!open_agent(session)) {
        return false;
    }
    /* With reregister_mem the local blocks are registered in each iteration and nowhere else. */
    if (!(session->role == ROLE_INITIATOR && session->plan->config->reregister_mem) &&
        !register_buffers(session)) {
        return false;
    }
    if (session->plan->is_storage) {
        return storage_open(session);
    }
    runtime->idle = session_idle;
    runtime->idle_ctx = session;
    runtime->may_sleep = session->plan->config->enable_pt;
    find_partners(session);
    return session->role == ROLE_TARGET ? send_metadata(session) : receive_metadata(session);
}

void session_close(struct session *session) {
    if (session->runtime != NULL) {
        session->runtime->idle = NULL;
    }
    if (session->storage != NULL) {
        storage_close(session);
    }
    nixl_agent_destroy(session->agent);
    session->agent = NULL;
    memory_close(&session->memory);
    for (unsigned i = 0;
         session->peers != NULL && session->runtime->channels != NULL && i < session->runtime->size; i++) {
        nixl_free(session->peers[i]);
    }
    free(session->peers);
    free(session->is_partner);
    session->peers = NULL;
    session->is_partner = NULL;
}

/* ---- Cases ---- */

uint64_t session_seed(const struct session *session, size_t index, unsigned phase) {
    if (!session->plan->config->check_consistency || !runtime_is_own(session->runtime)) {
        return 0;
    }
    return index * 2 + phase + 1;
}

struct lane *session_lanes(struct session *session, const struct bench_case *row, size_t part_count) {
    const struct bench_plan *plan = session->plan;
    struct lane *lanes = calloc(plan->threads, sizeof *lanes);

    for (unsigned t = 0; lanes != NULL && t < plan->threads; t++) {
        struct lane *lane = &lanes[t];

        lane->agent = session->agent;
        lane->backend = session->backend;
        lane->op = row->op;
        lane->depth = row->depth;
        lane->recreate = plan->recreate;
        lane->reregister = plan->config->reregister_mem;
        lane->prepared = plan->config->prepared_xfer;
        lane->yields = session->is_crowded;
        lane->notify = !plan->is_storage;
        lane->iterations = row->iterations;
        lane->progress = &session->counter;
        lane->part_count = part_count;
        lane->parts = calloc(part_count, sizeof *lane->parts);
        if (lane->parts == NULL || !lane_prepare(lane)) {
            session_lanes_free(session, lanes);
            lanes = NULL;
        }
    }
    if (lanes == NULL) {
        session_fail(session, "out of memory");
    }
    return lanes;
}

void session_lanes_free(struct session *session, struct lane *lanes) {
    for (unsigned t = 0; lanes != NULL && t < session->plan->threads; t++) {
        if (lanes[t].parts != NULL) {
            lane_free(&lanes[t]);
        }
    }
    free(lanes);
}

bool session_lanes_run(struct session *session, struct lane *lanes, uint64_t iterations, bool is_measured) {
    if (lanes_run(lanes, session->plan->threads, iterations, is_measured)) {
        return true;
    }
    for (unsigned t = 0; t < session->plan->threads; t++) {
        if (lanes[t].error[0] != '\0') {
            return session_fail(session, "%s", lanes[t].error);
        }
    }
    return session_fail(session, "a thread failed");
}

void session_case_message(const struct session *session, const struct lane *lanes,
                          struct case_message *message) {
    memset(message, 0, sizeof *message);
    message->is_initiator = 1;
    message->start_ns = UINT64_MAX;
    for (unsigned t = 0; t < session->plan->threads; t++) {
        const struct lane *lane = &lanes[t];

        message->start_ns = lane->start_ns < message->start_ns ? lane->start_ns : message->start_ns;
        message->end_ns = lane->end_ns > message->end_ns ? lane->end_ns : message->end_ns;
        message->requests += lane->done;
        for (size_t i = 0; i < lane->part_count; i++) {
            const struct lane_part *part = &lane->parts[i];
            uint64_t blocks = lane->done * (part->count / lane->depth);

            message->bytes += blocks * part->local[0].len;
            message->thread_blocks += (double)blocks;
        }
        message->thread_ns += (double)(lane->end_ns - lane->start_ns);
        message->is_partial |= lane->is_cut_short;
    }
    snprintf(message->transport, sizeof message->transport, "%s", lanes[0].transport);
}

void session_result(const struct bench_case *row, const struct case_message *sum,
                    struct bench_result *result) {
    memset(result, 0, sizeof *result);
    result->row = *row;
    result->requests = sum->requests;
    result->bytes = sum->bytes;
    result->wall_ns = sum->end_ns > sum->start_ns ? sum->end_ns - sum->start_ns : 0;
    result->bandwidth = bandwidth_gb(sum->bytes, result->wall_ns);
    result->aggregate = result->bandwidth;
    result->latency_us = sum->thread_blocks > 0 ? sum->thread_ns / sum->thread_blocks / 1e3 : 0;
    result->is_partial = sum->is_partial != 0;
    snprintf(result->transport, sizeof result->transport, "%s", sum->transport);
}

bool session_merge_samples(struct session *session, const struct lane *lanes, struct samples samples[3]) {
    for (unsigned t = 0; t < session->plan->threads; t++) {
        const struct samples *in[3] = {&lanes[t].prep, &lanes[t].post, &lanes[t].tx};

        for (int k = 0; k < 3; k++) {
            if (!samples_append(&samples[k], in[k]->ns, in[k]->count)) {
                return session_fail(session, "out of memory");
            }
        }
    }
    return true;
}

bool session_run(struct session *session) {
    bool go_on = true;
    bool ok = true;

    for (size_t i = 0; i < session->plan->case_count && ok && go_on; i++) {
        if (session->plan->is_storage) {
            ok = storage_case(session, i, &go_on);
        } else if (session->role == ROLE_INITIATOR) {
            ok = initiator_case(session, i, &go_on);
        } else {
            ok = target_case(session, i, &go_on);
        }
    }
    if (ok && !runtime_is_own(session->runtime) && go_on) {
        ok = runtime_barrier(session->runtime, "sync") || session_runtime_failed(session);
    }
    session->is_interrupted = session->runtime->rank == 0 && stop_requested();
    return ok;
}

void session_finish(struct session *session) {
    if (session->plan->is_storage || !runtime_is_own(session->runtime)) {
        return;
    }
    if (session->role == ROLE_INITIATOR) {
        nixl_agent_destroy(session->agent);
        session->agent = NULL;
    }
    runtime_barrier(session->runtime, "end");
}
