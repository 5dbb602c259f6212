/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent's beginning and end, the settings it takes from its environment, and the edge of every call: NULL,
 * fork and the one-call-at-a-time mode. Destroy takes things down from the outside in: exchange, requests,
 * thread, peers, views, regions, backends, and only then what backends may still call.
 */
#include "agent/agent.h"
#include "agent/internal.h"

#include "base/auth.h"
#include "base/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define STALL_TIMEOUT_MS 30000u

static const struct agent_exchange *exchange;

void agent_exchange_set(const struct agent_exchange *carrier) {
    __atomic_store_n(&exchange, carrier, __ATOMIC_RELEASE);
}

const struct agent_exchange *agent_exchange_get(void) {
    return __atomic_load_n(&exchange, __ATOMIC_ACQUIRE);
}

/* ---- the edge ---- */

nixl_status_t agent_enter(struct nixl_agent *agent, const char *call) {
    if (agent == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s: agent is NULL", call);
    }
    if (agent->fork_generation != fork_generation()) {
        return fail(
            NIXL_ERR_NOT_ALLOWED,
            "%s: agent %s was made before fork() and lives on in the parent only; make another one here",
            call, agent->name);
    }
    if (agent->sync == NIXL_SYNC_STRICT) {
        lock_take(&agent->strict);
    }
    return NIXL_SUCCESS;
}

void agent_leave(struct nixl_agent *agent) {
    if (agent->sync == NIXL_SYNC_STRICT) {
        lock_drop(&agent->strict);
    }
}

/* ---- settings ---- */

/* The caller's struct may be shorter or longer than ours. */
static nixl_status_t config_read(const struct nixl_agent_config *given, struct nixl_agent_config *config) {
    *config = (struct nixl_agent_config)NIXL_AGENT_CONFIG_INIT;
    if (given == NULL) {
        return NIXL_SUCCESS;
    }
    if (given->size <= sizeof given->size) {
        return fail(NIXL_ERR_INVALID_PARAM,
                    "agent create: config->size is %zu: begin with NIXL_AGENT_CONFIG_INIT", given->size);
    }
    memcpy(config, given, given->size < sizeof *config ? given->size : sizeof *config);
    config->size = sizeof *config;
    if (config->sync != NIXL_SYNC_NONE && config->sync != NIXL_SYNC_STRICT && config->sync != NIXL_SYNC_RW) {
        return fail(NIXL_ERR_INVALID_PARAM, "agent create: config->sync is %d, which is no mode",
                    (int)config->sync);
    }
    return NIXL_SUCCESS;
}

/* A time limit: the caller's if not 0, else the variable's, where 0 means none. */
static nixl_status_t timeout_choose(uint64_t given, const char *key, uint64_t fallback, uint64_t *timeout) {
    uint64_t named;
    nixl_status_t status = config_get_duration_ms(key, fallback, &named);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (given != 0) {
        *timeout = given;
    } else {
        *timeout = named != 0 ? named : NIXL_NO_TIMEOUT;
    }
    return NIXL_SUCCESS;
}

/* The environment's word on telemetry counts more than the program's. */
static nixl_status_t telemetry_choose(bool asked, bool *telemetry) {
    nixl_status_t status = config_get_bool("NIXL_TELEMETRY_ENABLE", asked, telemetry);

    if (status == NIXL_SUCCESS && asked && !*telemetry) {
        log_info("NIXL_TELEMETRY_ENABLE switches off the telemetry that the program asks for");
    }
    return status;
}

static nixl_status_t settings_read(struct nixl_agent *agent, const struct nixl_agent_config *config) {
    nixl_status_t status = telemetry_choose(config->capture_telemetry, &agent->telemetry);

    if (status == NIXL_SUCCESS) {
        status = timeout_choose(config->xfer_timeout_ms, "NIXL_XFER_TIMEOUT_MS", 0, &agent->xfer_timeout_ms);
    }
    if (status == NIXL_SUCCESS) {
        status = timeout_choose(config->stall_timeout_ms, "NIXL_STALL_TIMEOUT_MS", STALL_TIMEOUT_MS,
                                &agent->stall_timeout_ms);
    }
    if (status == NIXL_SUCCESS) {
        status = auth_open(&agent->auth);
    }
    if (status != NIXL_SUCCESS) {
        error_prefix("agent create");
    }
    return status;
}

/* When this life began, and what tells it from another that began in the same nanosecond. Later agents of
 * this process begin later even where the clock stands still. */
static struct wire_incarnation incarnation_make(void) {
    static uint64_t last;
    struct wire_incarnation life = {.boot_ns = clock_wall_ns()};
    uint64_t before = __atomic_load_n(&last, __ATOMIC_RELAXED);

    do {
        if (life.boot_ns <= before) {
            life.boot_ns = before + 1;
        }
    } while (!__atomic_compare_exchange_n(&last, &before, life.boot_ns, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    if (getrandom(&life.random, sizeof life.random, GRND_NONBLOCK) != (ssize_t)sizeof life.random) {
        life.random = hash_bytes(&life.boot_ns, sizeof life.boot_ns) ^ clock_now_ns();
    }
    return life;
}

/* ---- beginning ---- */

static nixl_status_t name_check(const char *name) {
    size_t len = name != NULL ? strnlen(name, NIXL_NAME_MAX + 1) : 0;

    if (len == 0) {
        return fail(NIXL_ERR_INVALID_PARAM, "agent create: an agent needs a name, none is given");
    }
    if (len > NIXL_NAME_MAX) {
        return fail(NIXL_ERR_INVALID_PARAM, "agent create: the name is longer than %d bytes", NIXL_NAME_MAX);
    }
    return NIXL_SUCCESS;
}

static void agent_free(struct nixl_agent *agent) {
    inbox_destroy(&agent->inbox);
    changes_destroy(agent);
    region_set_destroy(&agent->regions);
    hash_clear(&agent->peers, NULL);
    cost_free(agent->costs);
    bytes_free(&agent->blob);
    auth_close(agent->auth);
    rwlock_destroy(&agent->tables_rwlock);
    free(agent->name);
    free(agent);
}

static nixl_status_t exchange_open(struct nixl_agent *agent, const struct nixl_agent_config *config) {
    const struct agent_exchange *carrier = agent_exchange_get();

    if (carrier != NULL) {
        return carrier->open(agent, config, &agent->exchange);
    }
    if (config->listen_thread) {
        return fail(
            NIXL_ERR_NOT_SUPPORTED,
            "agent create: this build cannot listen for metadata; carry blobs by other means and load them "
            "with nixl_metadata_load()");
    }
    return NIXL_SUCCESS;
}

/* What can fail and must be taken back in order. */
static nixl_status_t agent_start(struct nixl_agent *agent, const struct nixl_agent_config *config) {
    nixl_status_t status = progress_open(agent);

    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (config->progress_thread) {
        status = progress_start_thread(agent);
    }
    if (status == NIXL_SUCCESS) {
        status = exchange_open(agent, config);
    }
    if (status != NIXL_SUCCESS) {
        progress_stop(agent);
        progress_close(agent);
    }
    return status;
}

nixl_status_t nixl_agent_create(const char *name, const struct nixl_agent_config *config,
                                struct nixl_agent **agent) {
    struct nixl_agent_config full;
    struct nixl_agent *made;
    nixl_status_t status;

    if (agent == NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "agent create: agent is NULL");
    }
    *agent = NULL;
    status = name_check(name);
    if (status == NIXL_SUCCESS) {
        status = config_read(config, &full);
    }
    if (status != NIXL_SUCCESS) {
        return status;
    }
    made = aligned_alloc(64, (sizeof *made + 63) / 64 * 64);
    if (made == NULL) {
        return fail_memory("an agent", sizeof *made);
    }
    memset(made, 0, sizeof *made);
    made->fork_generation = fork_generation();
    made->sync = full.sync;
    made->incarnation = incarnation_make();
    made->generation = 1;
    made->changes.oldest = 1;
    rwlock_init(&made->tables_rwlock);
    region_set_init(&made->regions);
    inbox_init(&made->inbox);
    made->name = strdup(name);
    made->name_len = strlen(name);
    status = made->name != NULL ? settings_read(made, &full) : fail_memory("an agent's name", made->name_len);
    if (status == NIXL_SUCCESS) {
        status = agent_start(made, &full);
    }
    if (status != NIXL_SUCCESS) {
        agent_free(made);
        return status;
    }
    log_debug("agent %s begins", name);
    *agent = made;
    return NIXL_SUCCESS;
}

/* ---- end ---- */

static bool peer_collect(const char *key, size_t len, void *value, void *ctx) {
    (void)key;
    (void)len;
    *(struct peer **)ctx = value;
    return false;
}

static void peers_close(struct nixl_agent *agent) {
    for (;;) {
        struct peer *peer = NULL;

        tables_change(agent);
        hash_each(&agent->peers, peer_collect, &peer);
        if (peer != NULL) {
            peer_retire(peer);
        }
        tables_leave(agent);
        if (peer == NULL) {
            return;
        }
        peer_leave(peer);
    }
}

/* Regions taken out of the set a handful at a time: there may be no memory to list them all. */
#define HANDFUL 256u

struct handful {
    struct region *items[HANDFUL];
    size_t count;
};

static bool region_collect(struct region *region, void *ctx) {
    struct handful *some = ctx;

    some->items[some->count++] = region;
    return some->count < HANDFUL;
}

static void region_close(struct nixl_agent *agent, struct region *region) {
    for (uint32_t rest = region->backends; rest != 0; rest &= rest - 1) {
        unsigned slot = (unsigned)__builtin_ctz(rest);
        struct nixl_backend *backend = agent->backends[slot];

        lock_take(&backend->control);
        backend->ops.region_close(backend->self, region_key_of(region, slot)->handle);
        lock_drop(&backend->control);
    }
    if (region_unref(region)) {
        region_free(region);
    }
}

/* Their memory may be gone already: a backend's region_close() copes. */
static void regions_close(struct nixl_agent *agent) {
    for (unsigned mem = 0; mem < NIXL_MEM_KINDS; mem++) {
        struct handful some;

        do {
            some.count = 0;
            region_set_each(&agent->regions, (nixl_mem_t)mem, region_collect, &some);
            for (size_t i = 0; i < some.count; i++) {
                region_set_remove(&agent->regions, some.items[i]);
                region_close(agent, some.items[i]);
            }
        } while (some.count == HANDFUL);
    }
}

void nixl_agent_destroy(struct nixl_agent *agent) {
    const struct agent_exchange *carrier = agent_exchange_get();

    if (agent == NULL) {
        return;
    }
    if (agent->fork_generation != fork_generation()) {
        /* Its threads and its backends' hardware are the parent's: nothing of it can be taken down from here.
         */
        (void)fail(NIXL_ERR_NOT_ALLOWED,
                   "agent destroy: agent %s was made before fork() and is the parent's to destroy",
                   agent->name);
        return;
    }
    if (agent->exchange != NULL && carrier != NULL) {
        carrier->close(agent->exchange);
        agent->exchange = NULL;
    }
    xfer_orphan_all(agent);
    notices_send(agent);
    progress_stop(agent);
    peers_close(agent);
    views_close_all(agent);
    regions_close(agent);
    backend_close_all(agent);
    progress_close(agent);
    log_debug("agent %s ends", agent->name);
    agent_free(agent);
}

const char *nixl_agent_name(const struct nixl_agent *agent) {
    return agent != NULL ? agent->name : "";
}

uint16_t nixl_agent_listen_port(const struct nixl_agent *agent) {
    const struct agent_exchange *carrier = agent_exchange_get();

    return agent != NULL && agent->exchange != NULL && carrier != NULL ? carrier->listen_port(agent->exchange)
                                                                       : 0;
}
