/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's settings: NIXL's own, those of the options, and engine_config, each only where the user has not set the UCX_
 * variable. They are given to UCX's configuration object, not to the environment, but for the switches that some version
 * reads nowhere else.
 */
#include "ucx.h"

#include "base/text.h"
#include "netdev.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct setting {
    const char *name, *value;
    uint32_t since; /* UCX_VERSION(), 0: always */
};

/* RNDV_THRESH=inf: puts and gets of one host go by cma instead of tcp (1.22), and messages stay eager, in order.
 * KEEPALIVE_INTERVAL: a peer that died is noticed within about a second where no socket tells. */
static const struct setting defaults[] = {
    {"RNDV_THRESH", "inf", 0},
    {"KEEPALIVE_INTERVAL", "1s", 0},
    /* 1.13 warns of the next three; what lies between it and the 1.19 that the reference asks for goes without. */
    {"MAX_RMA_RAILS", "2", UCX_VERSION(1, 19, 0)},
    {"IB_PCI_RELAXED_ORDERING", "try", UCX_VERSION(1, 19, 0)},
    {"RC_FENCE", "none", UCX_VERSION(1, 19, 0)},
    /* Copies of one turn of progress: 1, the default, makes each small block pay for a turn over all transports. */
    {"CMA_TX_QUOTA", "32", UCX_VERSION(1, 21, 0)},
    /* UCX connects within the call that first uses a peer. An interface that swallows packets would hold it for the system's
     * 127 s; so it is 7 s, with two more tries in case a packet was lost. */
    {"TCP_SYN_CNT", "2", UCX_VERSION(1, 21, 0)},
    {"MAX_HCA_PER_GPU", "auto", UCX_VERSION(1, 21, 0)},
    {"RNDV_PIPELINE_ERROR_HANDLING", "y", UCX_VERSION(1, 22, 0)},
};

/* Since then error handling of shared memory can be set in the configuration object. */
#define SM_BY_CONFIG UCX_VERSION(1, 21, 0)

static bool user_has_set(const char *name) {
    char variable[128];

    return (size_t)snprintf(variable, sizeof variable, "UCX_%s", name) < sizeof variable &&
           getenv(variable) != NULL;
}

/* One of ours: a UCX that does not know it goes without. */
static void set_default(const struct nixl_host *host, const struct ucx_library *library, ucp_config_t *config,
                        const char *name, const char *value) {
    ucs_status_t status;

    if (user_has_set(name)) {
        return;
    }
    status = library->abi.config_modify(config, name, value);
    if (status != UCS_OK) {
        host->log(host->ctx, NIXL_LOG_DEBUG, "UCX %s does not take %s=%s: %s", library->version_text, name,
                  value, library->abi.status_string(status));
    }
}

/* The next KEY=VALUE of an engine_config. Values may hold commas: a piece without '=' belongs to the one before. */
static bool next_pair(struct text *rest, struct text *name, struct text *value) {
    const char *at = rest->at, *end = rest->at + rest->len, *equals, *stop;

    while (at < end && (*at == ',' || text_is_space(*at))) {
        at++;
    }
    if (at == end) {
        return false;
    }
    equals = memchr(at, '=', (size_t)(end - at));
    *name = text_trim((struct text){at, equals != NULL ? (size_t)(equals - at) : (size_t)(end - at)});
    if (equals == NULL) {
        *value = (struct text){NULL, 0};
        *rest = (struct text){end, 0};
        return true;
    }
    stop = end;
    for (const char *comma = memchr(equals, ',', (size_t)(end - equals)); comma != NULL;) {
        const char *next = comma + 1 < end ? memchr(comma + 1, ',', (size_t)(end - comma - 1)) : NULL;
        const char *piece_end = next != NULL ? next : end;

        if (memchr(comma, '=', (size_t)(piece_end - comma)) != NULL) {
            stop = comma;
            break;
        }
        comma = next;
    }
    *value = text_trim((struct text){equals + 1, (size_t)(stop - equals - 1)});
    *rest = (struct text){stop, (size_t)(end - stop)};
    return true;
}

/* The name without the UCX_ that users are used to. */
static bool copy_name(struct text name, char *out, size_t size) {
    if (name.len > 4 && memcmp(name.at, "UCX_", 4) == 0) {
        name.at += 4;
        name.len -= 4;
    }
    if (name.len == 0 || name.len >= size || memchr(name.at, ',', name.len) != NULL) {
        return false;
    }
    memcpy(out, name.at, name.len);
    out[name.len] = '\0';
    return true;
}

static nixl_status_t apply_engine_config(const struct nixl_host *host, const struct ucx_library *library,
                                         ucp_config_t *config, const char *pairs) {
    struct text rest = text_of(pairs), name, value;

    while (next_pair(&rest, &name, &value)) {
        char key[96], text[UCX_TLS_SIZE];
        ucs_status_t status;

        if (value.at != NULL && value.len >= sizeof text) {
            return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM,
                              "engine_config: the value of %.*s has %zu characters: at most %zu are taken",
                              (int)(name.len < 96 ? name.len : 96), name.at, value.len, sizeof text - 1);
        }
        if (value.at == NULL || !copy_name(name, key, sizeof key)) {
            return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM, "engine_config: \"%.*s\" is not KEY=VALUE",
                              (int)name.len, name.at);
        }
        memcpy(text, value.at, value.len);
        text[value.len] = '\0';
        if (user_has_set(key)) {
            host->log(host->ctx, NIXL_LOG_INFO, "engine_config: %s=%s gives way to the variable UCX_%s", key,
                      text, key);
            continue;
        }
        status = library->abi.config_modify(config, key, text);
        if (status != UCS_OK) {
            return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM,
                              "engine_config: UCX %s does not take %s=%s: %s", library->version_text, key,
                              text, library->abi.status_string(status));
        }
    }
    return NIXL_SUCCESS;
}

/* "mlx5_0, eth0" becomes "mlx5_0:1,eth0": RDMA devices are named with their port, others without. */
static nixl_status_t apply_devices(const struct nixl_host *host, const struct ucx_library *library,
                                   ucp_config_t *config, const char *devices) {
    struct text rest = text_of(devices), piece;
    char list[1024];
    size_t len = 0;
    ucs_status_t status;

    list[0] = '\0';
    while (text_split(&rest, ',', &piece)) {
        char path[128];
        bool is_rdma;

        if (piece.len == 0) {
            continue;
        }
        is_rdma = memchr(piece.at, ':', piece.len) == NULL &&
                  (size_t)snprintf(path, sizeof path, "/sys/class/infiniband/%.*s", (int)piece.len,
                                   piece.at) < sizeof path &&
                  access(path, F_OK) == 0;
        if (!text_append(list, sizeof list, &len, "%s%.*s%s", len > 0 ? "," : "", (int)piece.len, piece.at,
                         is_rdma ? ":1" : "")) {
            return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM,
                              "ucx_devices: the list is longer than %zu bytes", sizeof list - 1);
        }
    }
    if (len == 0) {
        return NIXL_SUCCESS;
    }
    status = library->abi.config_modify(config, "NET_DEVICES", list);
    if (status != UCS_OK) {
        return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM, "ucx_devices: UCX %s does not take \"%s\": %s",
                          library->version_text, list, library->abi.status_string(status));
    }
    return NIXL_SUCCESS;
}

nixl_status_t ucx_config_transports(const struct nixl_host *host, const struct ucx_options *options,
                                    char tls[UCX_TLS_SIZE]) {
    const char *variable = getenv("UCX_TLS");
    struct text rest = text_of(options->engine_config), name, value;
    struct text chosen = text_of(variable != NULL ? variable : "");

    while (variable == NULL && next_pair(&rest, &name, &value)) {
        char key[96];

        if (value.at != NULL && copy_name(name, key, sizeof key) && strcmp(key, "TLS") == 0) {
            chosen = value;
        }
    }
    tls[0] = '\0';
    if (chosen.len >= UCX_TLS_SIZE) {
        return host->fail(
            host->ctx, NIXL_ERR_INVALID_PARAM, "%s=%.48s... has %zu characters: at most %u are taken",
            variable != NULL ? "UCX_TLS" : "engine_config: TLS", chosen.at, chosen.len, UCX_TLS_SIZE - 1);
    }
    memcpy(tls, chosen.at, chosen.len);
    tls[chosen.len] = '\0';
    return NIXL_SUCCESS;
}

bool ucx_config_is_chosen(const struct ucx_options *options, const char *tls) {
    return tls[0] != '\0' || options->devices[0] != '\0' || options->engine_config[0] != '\0' ||
           user_has_set("NET_DEVICES");
}

const char *ucx_config_choice(const struct ucx_options *options, const char *tls, const char **value) {
    if (tls[0] != '\0') {
        *value = tls;
        return "UCX_TLS=";
    }
    if (options->devices[0] != '\0') {
        *value = options->devices;
        return "ucx_devices=";
    }
    if (user_has_set("NET_DEVICES")) {
        *value = getenv("UCX_NET_DEVICES");
        return "UCX_NET_DEVICES=";
    }
    *value = options->engine_config;
    return "engine_config=";
}

/* To UCX "^all" leaves out a transport by the name of all, which is none: everything stays. Nobody means that. */
static bool tls_leaves_out_all(const char *tls) {
    struct text rest = text_of(tls), piece;

    if (tls[0] != '^') {
        return false;
    }
    rest.at++;
    rest.len--;
    while (text_split(&rest, ',', &piece)) {
        if (text_equal(piece, "all")) {
            return true;
        }
    }
    return false;
}

const char *ucx_config_devices(const struct ucx_options *options, char *value, size_t size) {
    const char *variable = getenv("UCX_NET_DEVICES");
    struct text rest = text_of(options->engine_config), name, one;
    bool found = false;

    if (options->devices[0] != '\0') {
        (void)snprintf(value, size, "%s", options->devices);
        return "ucx_devices";
    }
    if (variable != NULL) {
        (void)snprintf(value, size, "%s", variable);
        return "UCX_NET_DEVICES";
    }
    while (next_pair(&rest, &name, &one)) {
        char key[96];

        if (one.at != NULL && copy_name(name, key, sizeof key) && strcmp(key, "NET_DEVICES") == 0) {
            (void)snprintf(value, size, "%.*s", (int)one.len, one.at);
            found = true;
        }
    }
    return found ? "engine_config NET_DEVICES" : NULL;
}

/* Whether a transport list leaves tcp in. */
static bool tls_has_tcp(const char *tls) {
    struct text rest = text_of(tls[0] == '^' ? tls + 1 : tls), piece;
    bool named = false;

    while (text_split(&rest, ',', &piece)) {
        named = named || text_equal(piece, "tcp") || text_equal(piece, "all");
    }
    return tls[0] == '\0' || named != (tls[0] == '^');
}

/* Where the user leaves the choice of network devices to us. Up to 1.20 UCX takes any interface that is up, also a bridge whose
 * address each host with docker has, or one with a link-local address; later ones leave out link-local addresses and all bridges,
 * also the one that a host's only address may be on. */
static void choose_devices(const struct nixl_host *host, const struct ucx_library *library,
                           const struct ucx_options *options, const char *tls, ucp_config_t *config) {
    bool leaves_bridges_out = library->version >= UCX_VERSION(1, 21, 0), needs_bridges = false;
    struct ucx_netdev *netdevs;
    char list[1024];
    size_t count;

    if (ucx_config_devices(options, list, sizeof list) != NULL || !tls_has_tcp(tls)) {
        return;
    }
    netdevs = malloc(UCX_NETDEVS * sizeof *netdevs);
    if (netdevs == NULL) {
        return;
    }
    count = ucx_netdevs(netdevs, UCX_NETDEVS);
    for (size_t i = 0; i < count && leaves_bridges_out; i++) {
        needs_bridges = needs_bridges || (netdevs[i].is_bridge && ucx_netdev_leads_out(&netdevs[i]));
    }
    if (needs_bridges) {
        set_default(host, library, config, "TCP_BRIDGE_ENABLE", "y");
    }
    if ((needs_bridges || !leaves_bridges_out) && ucx_netdevs_choose(netdevs, count, list, sizeof list)) {
        host->log(host->ctx, NIXL_LOG_INFO,
                  "network devices: %s (UCX_NET_DEVICES or ucx_devices choose others); bridges of containers "
                  "and link-local addresses are left out",
                  list);
        set_default(host, library, config, "NET_DEVICES", list);
    }
    free(netdevs);
}

/* Whether a transport list asks for that kind of shared memory. */
static bool tls_asks_for(const char *tls, const char *kind) {
    struct text rest = text_of(tls), piece;

    if (tls[0] == '^') {
        return false;
    }
    while (text_split(&rest, ',', &piece)) {
        if (text_equal(piece, "sm") || text_equal(piece, "shm") || text_equal(piece, kind)) {
            return true;
        }
    }
    return false;
}

/* The environment is the process's: one instance opens at a time. */
static pthread_mutex_t environment_lock = PTHREAD_MUTEX_INITIALIZER;
static bool has_set_posix, has_set_sysv, has_set_segment;

static bool set_here(const char *variable, const char *value, bool wanted) {
    return wanted && getenv(variable) == NULL && setenv(variable, value, 0) == 0;
}

/* Whether tcp is among the transports, which UCX must have for its variables not to be warned of. */
static bool has_tcp(const char *tls) {
    struct text rest = text_of(tls[0] == '^' ? tls + 1 : tls), piece;

    while (text_split(&rest, ',', &piece)) {
        if (text_equal(piece, "tcp") || text_equal(piece, "all")) {
            return tls[0] != '^';
        }
    }
    return tls[0] == '\0' || tls[0] == '^';
}

void ucx_config_environment(const struct ucx_library *library, const char *tls, bool peer_errors) {
    bool by_variable = library->version < SM_BY_CONFIG, sm = by_variable && peer_errors;

    pthread_mutex_lock(&environment_lock);
    has_set_posix = set_here("UCX_POSIX_ERROR_HANDLING", "y", sm && tls_asks_for(tls, "posix"));
    has_set_sysv = set_here("UCX_SYSV_ERROR_HANDLING", "y", sm && tls_asks_for(tls, "sysv"));
    /* Messages are copied with these versions (notif.c): as large a piece as a receiver takes, or each costs 8 calls. */
    has_set_segment = set_here("UCX_TCP_TX_SEG_SIZE", "64k",
                               by_variable && has_tcp(tls) && getenv("UCX_TCP_RX_SEG_SIZE") == NULL);
}

void ucx_config_environment_restore(void) {
    if (has_set_posix) {
        (void)unsetenv("UCX_POSIX_ERROR_HANDLING");
    }
    if (has_set_sysv) {
        (void)unsetenv("UCX_SYSV_ERROR_HANDLING");
    }
    if (has_set_segment) {
        (void)unsetenv("UCX_TCP_TX_SEG_SIZE");
    }
    pthread_mutex_unlock(&environment_lock);
}

nixl_status_t ucx_config_make(const struct nixl_host *host, const struct ucx_library *library,
                              const struct ucx_options *options, const char *tls, ucp_config_t **out) {
    ucp_config_t *config = NULL;
    char channels[24], words[512];
    nixl_status_t result;
    ucs_status_t status = library->abi.config_read(NULL, NULL, &config);

    if (status != UCS_OK) {
        return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM,
                          "the UCX_ variables of the environment do not parse: %s",
                          ucx_words(library, status, words, sizeof words));
    }
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
        if (library->version >= defaults[i].since) {
            set_default(host, library, config, defaults[i].name, defaults[i].value);
        }
    }
    if (library->version >= UCX_VERSION(1, 21, 0)) {
        (void)snprintf(channels, sizeof channels, "%llu", (unsigned long long)options->num_device_channels);
        set_default(host, library, config, "RC_GDA_NUM_CHANNELS", channels);
    }
    if (tls_leaves_out_all(tls)) {
        library->abi.config_release(config);
        return host->fail(
            host->ctx, NIXL_ERR_NOT_SUPPORTED,
            "UCX_TLS=%s leaves no transport: name those to use (UCX_TLS=tcp,self), or those to leave out",
            tls);
    }
    if (library->version >= SM_BY_CONFIG && options->error_handling == UCX_ERRORS_PEER) {
        if (tls_asks_for(tls, "posix")) {
            set_default(host, library, config, "POSIX_ERROR_HANDLING", "y");
        }
        if (tls_asks_for(tls, "sysv")) {
            set_default(host, library, config, "SYSV_ERROR_HANDLING", "y");
        }
    }
    choose_devices(host, library, options, tls, config);
    result = apply_engine_config(host, library, config, options->engine_config);
    if (result == NIXL_SUCCESS) {
        result = apply_devices(host, library, config, options->devices);
    }
    if (result != NIXL_SUCCESS) {
        library->abi.config_release(config);
        return result;
    }
    *out = config;
    return NIXL_SUCCESS;
}
