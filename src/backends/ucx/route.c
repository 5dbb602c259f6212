/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which way a peer's bytes go, said once: what is used at INFO, and what would be faster, with the setting for it, as a warning.
 */
#include "ucx.h"

#include "advice.h"
#include "base/hash.h"
#include "base/text.h"
#include "netdev.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- devices ---- */

void ucx_route_devices(const char *info, const char *carrier, char *devices, size_t size) {
    struct text rest = text_of(info), line;
    size_t used = 0;

    devices[0] = '\0';
    while (text_split(&rest, '\n', &line)) {
        char copy[256], wanted[80];
        const char *at, *end, *dot = NULL;

        (void)snprintf(copy, sizeof copy, "%.*s ", (int)line.len, line.at);
        (void)snprintf(wanted, sizeof wanted, ":%s/", carrier);
        at = strstr(copy, "lane[") != NULL && strstr(copy, " -> ") != NULL ? strstr(copy, wanted) : NULL;
        if (at == NULL) {
            continue;
        }
        /* "tcp/eth0.100.1 md[..": the last dot parts the device from the path on it. */
        at += strlen(wanted);
        end = at + strcspn(at, " ");
        for (const char *c = at; c < end; c++) {
            dot = *c == '.' ? c : dot;
        }
        end = dot != NULL ? dot : end;
        if (memmem(devices, used, at, (size_t)(end - at)) == NULL) {
            (void)text_append(devices, size, &used, "%s%.*s", used > 0 ? "," : "", (int)(end - at), at);
        }
    }
}

/* ---- why the kernel does not copy ---- */

static long status_number(int32_t pid, const char *field) {
    char path[64], line[128];
    size_t len = strlen(field);
    long value = -1;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%" PRId32 "/status", pid);
    file = fopen(path, "re");
    while (file != NULL && value < 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, field, len) == 0) {
            value = strtol(line + len, NULL, 10);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return value;
}

static long yama_scope(void) {
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    char line[32] = "";

    if (file != NULL) {
        if (fgets(line, sizeof line, file) == NULL) {
            line[0] = '\0';
        }
        (void)fclose(file);
    }
    return strtol(line, NULL, 10);
}

/* Whether the call itself is forbidden: nobody else is asked about a process's own memory. */
static bool call_is_forbidden(void) {
    char from = 1, to = 0;
    struct iovec here = {&to, 1}, there = {&from, 1};

    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) < 0 &&
           (errno == EPERM || errno == EACCES || errno == ENOSYS);
}

static void why_refused(const struct ucx_peer *peer, char *why, size_t size) {
    long theirs = status_number(peer->cma.pid, "Uid:"), scope = yama_scope();

    if (call_is_forbidden()) {
        (void)snprintf(why, size,
                       "this process may not call process_vm_readv (%s: a seccomp filter): allow it, in a "
                       "container by --cap-add=SYS_PTRACE or another seccomp profile",
                       strerror(peer->cma.refusal));
    } else if (theirs >= 0 && theirs != (long)geteuid()) {
        (void)snprintf(
            why, size,
            "this process runs as user %ld and that one as user %ld: run both as one user, or give "
            "them CAP_SYS_PTRACE",
            (long)geteuid(), theirs);
    } else if (scope > 0) {
        (void)snprintf(
            why, size,
            "Yama forbids it (kernel.yama.ptrace_scope is %ld): set it to 0, or give the processes "
            "CAP_SYS_PTRACE",
            scope);
    } else {
        (void)snprintf(
            why, size,
            "the kernel refuses it (%s: not dumpable, another user namespace, or a security module): "
            "give the processes CAP_SYS_PTRACE",
            strerror(peer->cma.refusal));
    }
}

/* False when the peer is not known to be on this host, or nothing is known to be wrong. */
static bool why_no_copies(const struct ucx_peer *peer, char *why, size_t size) {
    const struct ucx_instance *self = peer->self;

    if (peer->cma.place == UCX_PLACE_APART) {
        (void)snprintf(why, size,
                       "the two are in process namespaces of their own: share one (docker --pid=host or "
                       "--pid=container:..., Kubernetes hostPID or shareProcessNamespace)");
    } else if (peer->cma.place != UCX_PLACE_HERE) {
        return false;
    } else if (!self->options->cma) {
        (void)snprintf(why, size, "ucx_cma (NIXL_UCX_CMA) is off here: leave it on");
    } else if (self->cma_proof == NULL && self->tls[0] != '\0') {
        (void)snprintf(why, size, "UCX_TLS=%.200s%s leaves cma out: add it, or set no UCX_TLS", self->tls,
                       strlen(self->tls) > 200 ? "..." : "");
    } else if (self->cma_proof == NULL) {
        return false;
    } else if (!peer->cma.is_offered) {
        (void)snprintf(why, size,
                       "the other agent's UCX_TLS leaves cma out, or its ucx_cma (NIXL_UCX_CMA) is off");
    } else if (peer->cma.refusal != 0) {
        why_refused(peer, why, size);
    } else {
        return false;
    }
    return true;
}

/* ---- telling ---- */

/* Two devices: MAX_RMA_RAILS is set to 2 from there on (config.c). */
static bool uses_two(const struct ucx_instance *self) {
    return self->library->version >= UCX_VERSION(1, 19, 0) && getenv("UCX_MAX_RMA_RAILS") == NULL;
}

/* The first time that this instance gives this advice. Hundreds of peers, or one that comes back, are no news. */
static bool is_news(struct ucx_instance *self, const char *text) {
    uint64_t mark = hash_bytes(text, strlen(text)) | 1u;

    for (size_t i = 0; i < sizeof self->advice / sizeof self->advice[0]; i++) {
        uint64_t there = 0;

        if (__atomic_compare_exchange_n(&self->advice[i], &there, mark, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            return true;
        }
        if (there == mark) {
            return false;
        }
    }
    return false;
}

static void warn(struct ucx_peer *peer, const char *bytes, const char *devices,
                 const struct ucx_netdev *netdevs, size_t count) {
    const struct nixl_host *host = peer->self->host;
    struct ucx_situation situation = {.bytes = bytes,
                                      .devices = devices,
                                      .uses_two = uses_two(peer->self),
                                      .netdevs = netdevs,
                                      .netdev_count = count};
    char chosen[512], why[384], text[1024];

    situation.setting = ucx_config_devices(peer->self->options, chosen, sizeof chosen);
    situation.chosen = chosen;
    if (why_no_copies(peer, why, sizeof why)) {
        situation.no_copies = why;
    }
    if (ucx_advice(&situation, text, sizeof text)) {
        host->log(host->ctx, is_news(peer->self, text) ? NIXL_LOG_WARN : NIXL_LOG_INFO,
                  "bytes to and from agent \"%s\" could go faster: %s", peer->name, text);
    }
}

void ucx_route_tell(struct ucx_peer *peer, const char *bytes, const char *notifs, const char *devices) {
    const struct nixl_host *host = peer->self->host;
    struct ucx_netdev *netdevs;
    const struct ucx_netdev *only;
    size_t count = 0;

    if (__atomic_exchange_n(&peer->is_route_told, true, __ATOMIC_RELAXED)) {
        return;
    }
    if (__atomic_load_n(&peer->cma.state, __ATOMIC_RELAXED) == UCX_CMA_YES) {
        host->log(host->ctx, NIXL_LOG_INFO,
                  "bytes to and from agent \"%s\" go by cma (the kernel's copies), notifications by %s",
                  peer->name, notifs);
        return;
    }
    netdevs = malloc(UCX_NETDEVS * sizeof *netdevs);
    if (netdevs != NULL) {
        count = ucx_netdevs(netdevs, UCX_NETDEVS);
    }
    only = ucx_netdev_find(netdevs, count, devices);
    host->log(host->ctx, NIXL_LOG_INFO,
              "bytes to and from agent \"%s\" go by %s%s%s%s%s%s, notifications by %s", peer->name, bytes,
              devices[0] != '\0' ? " (" : "", devices, only != NULL && only->address[0] != '\0' ? ", " : "",
              only != NULL ? only->address : "", devices[0] != '\0' ? ")" : "", notifs);
    warn(peer, bytes, devices, netdevs, count);
    free(netdevs);
}

const char *ucx_route_hint(const struct ucx_instance *self, char *text, size_t size) {
    struct ucx_netdev *netdevs = malloc(UCX_NETDEVS * sizeof *netdevs);
    size_t count = netdevs != NULL ? ucx_netdevs(netdevs, UCX_NETDEVS) : 0, used = 0;
    bool has_local = false, has_inner = false;
    char list[384];

    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        has_local = has_local || (netdevs[i].is_up && netdevs[i].address[0] == '\0' &&
                                  strchr(netdevs[i].local, '.') != NULL);
        has_inner = has_inner || (netdevs[i].is_up && netdevs[i].is_inner && netdevs[i].address[0] != '\0');
    }
    ucx_netdevs_text(netdevs, count, list, sizeof list);
    if (list[0] != '\0') {
        (void)text_append(text, size, &used,
                          ". Interfaces here: %s. Where some of them do not lead to the other "
                          "agent, name those that do by UCX_NET_DEVICES (or ucx_devices), on "
                          "both sides",
                          list);
    }
    if (has_inner && self->library->version >= UCX_VERSION(1, 21, 0)) {
        (void)text_append(
            text, size, &used,
            ". To reach containers behind a bridge of this host, set UCX_TCP_BRIDGE_ENABLE=y and "
            "UCX_NET_DEVICES to that bridge");
    }
    if (has_local && self->library->version >= UCX_VERSION(1, 21, 0)) {
        (void)text_append(
            text, size, &used,
            ". UCX %s does not use link-local addresses (169.254.0.0/16): give the interface another",
            self->library->version_text);
    }
    free(netdevs);
    return text;
}
