/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What N agents ask of one etcd, without the N agents: the same requests by the library's own client, from a few threads. First
 * all publish (a lease, the announce key, the blob), then each renews its lease once, then blobs are fetched, then connections
 * are held as idle agents hold them, then leases are given up. Prints one JSON object: requests, seconds, the
 * processor time and the memory of etcd.
 *
 *     bench-etcd PORT PID AGENTS BLOB_BYTES CONNECTIONS
 */
#include "streams.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "exchange/etcd_kv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 4
#define LEASE_S 3600 /* longer than the measurement */
#define FETCHES_MOST 20000
#define REVOKES_MOST 2000

enum phase {
    PUBLISH,
    RENEW,
    FETCH,
    REVOKE,
    PHASES
};

static const char *const names[] = {"publish", "renew", "fetch", "revoke"};
static const unsigned requests_each[] = {3, 1, 1, 1};

struct run {
    unsigned port, agents;
    size_t blob_len;
    char *blob;
    int64_t *leases;
    enum phase phase;
    unsigned count; /* agents of this phase */
    uint32_t failed;
};

struct worker {
    struct run *run;
    struct thread thread;
    unsigned number;
};

/* Seconds of processor time and bytes of memory of a process. */
static double cpu_s(int pid) {
    char path[64], line[1024] = "";
    unsigned long user = 0, system = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = fopen(path, "re");
    if (file != NULL && fgets(line, sizeof line, file) != NULL && strrchr(line, ')') != NULL) {
        sscanf(strrchr(line, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
               &system);
    }
    if (file != NULL) {
        fclose(file);
    }
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double memory_mib(int pid) {
    char path[64];
    unsigned long resident = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%*u %lu", &resident) != 1) {
            resident = 0;
        }
        fclose(file);
    }
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1048576.0;
}

static nixl_status_t agent_do(struct run *run, struct etcd_http *http, unsigned agent) {
    struct etcd_reply reply;
    char announce[64], key[80];
    nixl_status_t status;
    int64_t ttl_s;

    snprintf(announce, sizeof announce, "/nixl/agents//agent-%u/", agent);
    snprintf(key, sizeof key, "%smetadata", announce);
    switch (run->phase) {
    case PUBLISH:
        status = etcd_lease_grant(http, LEASE_S, &run->leases[agent]);
        if (status == NIXL_SUCCESS) {
            status = etcd_put(http, announce, "", 0, run->leases[agent], NULL);
        }
        return status == NIXL_SUCCESS
                   ? etcd_put(http, key, run->blob, run->blob_len, run->leases[agent], NULL)
                   : status;
    case RENEW:
        return etcd_lease_keep(http, run->leases[agent], &ttl_s);
    case FETCH:
        status = etcd_get(http, key, &reply);
        if (status == NIXL_SUCCESS) {
            status = reply.kv_count == 1 && reply.kvs[0].value.len == run->blob_len ? NIXL_SUCCESS
                                                                                    : NIXL_ERR_MISMATCH;
            etcd_reply_free(&reply);
        }
        return status;
    default:
        return etcd_lease_revoke(http, run->leases[agent]);
    }
}

static void work(void *arg) {
    struct worker *worker = arg;
    struct run *run = worker->run;
    struct etcd_http http;
    char endpoint[64];

    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u", run->port);
    if (etcd_http_open(&http, endpoint) != NIXL_SUCCESS) {
        __atomic_fetch_add(&run->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (unsigned i = worker->number; i < run->count; i += THREADS) {
        if (agent_do(run, &http, i) != NIXL_SUCCESS) {
            if (__atomic_fetch_add(&run->failed, 1, __ATOMIC_RELAXED) == 0) {
                fprintf(stderr, "%s: %s\n", names[run->phase], error_text());
            }
        }
    }
    etcd_http_close(&http);
}

static void phase_run(struct run *run, int pid, enum phase phase, unsigned count) {
    struct worker workers[THREADS];
    double cpu = cpu_s(pid);
    uint64_t begin_ns = clock_now_ns();
    double seconds;

    run->phase = phase;
    run->count = count;
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.run = run, .number = i};
        if (thread_start(&workers[i].thread, "bench-etcd", work, &workers[i]) != 0) {
            abort();
        }
    }
    for (unsigned i = 0; i < THREADS; i++) {
        thread_join(&workers[i].thread);
    }
    seconds = (double)(clock_now_ns() - begin_ns) / (double)NS_PER_S;
    printf("\"%s\": {\"agents\": %u, \"requests\": %u, \"seconds\": %.4f, \"etcd_cpu_s\": %.3f, "
           "\"etcd_mib\": %.1f}, ",
           names[phase], count, count * requests_each[phase], seconds, cpu_s(pid) - cpu, memory_mib(pid));
    fflush(stdout);
}

static void connections_run(struct run *run, int pid, size_t count, int is_watch) {
    double before = memory_mib(pid);
    int *fds;
    size_t open = streams_open((uint16_t)run->port, count, is_watch, &fds);

    printf("\"%s\": {\"count\": %zu, \"etcd_mib\": %.1f}, ", is_watch ? "watches" : "connections", open,
           memory_mib(pid) - before);
    streams_close(fds, open);
    run->failed += open != count;
}

int main(int argc, char **argv) {
    struct run run = {0};
    size_t connections;
    int pid;

    if (argc != 6) {
        fprintf(stderr, "usage: bench-etcd PORT PID AGENTS BLOB_BYTES CONNECTIONS\n");
        return 2;
    }
    run.port = (unsigned)atoi(argv[1]);
    pid = atoi(argv[2]);
    run.agents = (unsigned)atoi(argv[3]);
    run.blob_len = (size_t)atol(argv[4]);
    connections = (size_t)atol(argv[5]);
    run.blob = malloc(run.blob_len + 1);
    run.leases = calloc(run.agents + 1, sizeof *run.leases);
    if (run.blob == NULL || run.leases == NULL) {
        return 1;
    }
    for (size_t i = 0; i < run.blob_len; i++) {
        run.blob[i] = (char)(i * 131 + i / 7); /* as little compressible as a blob */
    }
    printf("{\"before_mib\": %.1f, ", memory_mib(pid));
    phase_run(&run, pid, PUBLISH, run.agents);
    phase_run(&run, pid, RENEW, run.agents);
    phase_run(&run, pid, FETCH, run.agents < FETCHES_MOST ? run.agents : FETCHES_MOST);
    connections_run(&run, pid, connections, 0);
    connections_run(&run, pid, connections, 1);
    phase_run(&run, pid, REVOKE, run.agents < REVOKES_MOST ? run.agents : REVOKES_MOST);
    printf("\"failed\": %u}\n", run.failed);
    free(run.blob);
    free(run.leases);
    return run.failed == 0 ? 0 : 1;
}
