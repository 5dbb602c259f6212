/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One measurement of file transfers, the way an application makes them: `depth` requests of one block each in
 * flight, posted again as they end, at places spread over the file; between ends the program sleeps on the
 * agent's descriptor. Prints one line of JSON. bench_files.py runs it beside fio.
 *
 *   bench-files FILE write|read BLOCK DEPTH buffered|direct SECONDS [queue option]
 */
#include <nixl/nixl.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Requests that take turns in one place of the queue: each has its own offset. */
#define TURNS 16u

static double now_s(void) {
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static double cpu_s(void) {
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void check(nixl_status_t status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "bench-files: %s: %s\n", what, nixl_error());
        exit(1);
    }
}

struct load {
    struct nixl_agent *agent;
    struct nixl_xfer **xfers; /* depth * TURNS */
    unsigned *turn;
    unsigned depth;
};

static void make_requests(struct load *load, nixl_xfer_op_t op, char *buf, uint64_t block,
                          uint64_t file_bytes, uint64_t fd) {
    uint64_t blocks = file_bytes / block, state = 1;
    unsigned i;

    for (i = 0; i < load->depth * TURNS; i++) {
        struct nixl_desc local = {(uintptr_t)buf + i / TURNS * block, block, 0}, remote;
        struct nixl_list locals = NIXL_LIST(DRAM_SEG, &local, 1), remotes = NIXL_LIST(FILE_SEG, &remote, 1);

        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        remote = (struct nixl_desc){(state >> 33) % blocks * block, block, fd};
        check(nixl_xfer_create(load->agent, op, &locals, &remotes, "bench", NULL, &load->xfers[i]),
              "request");
    }
}

static void run_load(struct load *load, double seconds, uint64_t *ops, double *took, double *cpu) {
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    struct pollfd pfd = {.fd = nixl_agent_fd(load->agent), .events = POLLIN};
    double start = now_s(), cpu_start = cpu_s(), end = start + seconds;
    unsigned active = load->depth, i, passes = 0;
    bool is_over = false;

    if (pfd.fd < 0) {
        check(NIXL_ERR_BACKEND, "descriptor");
    }
    *ops = 0;
    for (i = 0; i < load->depth; i++) {
        check(nixl_xfer_post(load->xfers[i * TURNS], NULL), "post");
    }
    while (active != 0) {
        unsigned ended = 0;

        for (i = 0; i < load->depth; i++) {
            struct nixl_xfer *xfer = load->xfers[i * TURNS + load->turn[i]];
            nixl_status_t status;

            if (load->turn[i] == TURNS) {
                continue; /* this place is closed */
            }
            status = nixl_xfer_failure(xfer, &info);
            if (status == NIXL_IN_PROG) {
                continue;
            }
            if (status != NIXL_SUCCESS) {
                fprintf(stderr, "bench-files: %s\n", nixl_xfer_error(xfer));
                exit(1);
            }
            ended++;
            if (is_over) {
                load->turn[i] = TURNS;
                active--;
                continue;
            }
            load->turn[i] = (load->turn[i] + 1) % TURNS;
            check(nixl_xfer_post(load->xfers[i * TURNS + load->turn[i]], NULL), "post");
        }
        *ops += ended;
        if (ended == 0 && nixl_agent_progress(load->agent) != NIXL_SUCCESS &&
            nixl_agent_arm(load->agent) == NIXL_IN_PROG) {
            poll(&pfd, 1, 100);
            nixl_agent_progress(load->agent);
        }
        if (!is_over && (++passes % 16 == 0 || load->depth >= 16)) {
            is_over = now_s() >= end;
        }
    }
    *took = now_s() - start;
    *cpu = cpu_s() - cpu_start;
}

int main(int argc, char **argv) {
    struct nixl_backend *backend;
    struct nixl_param param = {NULL, "true"};
    struct nixl_meta_desc desc;
    struct load load = {0};
    uint64_t block, ops, fd, file_bytes;
    double seconds, took, cpu;
    bool is_write, is_direct;
    struct stat st;
    char *buf;
    int file;

    if (argc < 7) {
        fprintf(stderr,
                "usage: bench-files FILE write|read BLOCK DEPTH buffered|direct SECONDS [queue option]\n");
        return 2;
    }
    is_write = strcmp(argv[2], "write") == 0;
    block = strtoull(argv[3], NULL, 10);
    load.depth = (unsigned)strtoul(argv[4], NULL, 10);
    is_direct = strcmp(argv[5], "direct") == 0;
    seconds = strtod(argv[6], NULL);
    param.key = argc > 7 ? argv[7] : NULL;
    file = open(argv[1], O_RDWR | (is_direct ? O_DIRECT : 0));
    if (file < 0 || fstat(file, &st) != 0 || load.depth == 0 || block == 0 || (uint64_t)st.st_size < block) {
        fprintf(stderr, "bench-files: %s: %s\n", argv[1],
                file < 0 ? strerror(errno) : "smaller than a block");
        return 1;
    }
    fd = (uint64_t)file;
    file_bytes = (uint64_t)st.st_size;
    buf = aligned_alloc(4096, load.depth * block);
    load.xfers = calloc((size_t)load.depth * TURNS, sizeof(struct nixl_xfer *));
    load.turn = calloc(load.depth, sizeof *load.turn);
    if (buf == NULL || load.xfers == NULL || load.turn == NULL) {
        fprintf(stderr, "bench-files: no memory\n");
        return 1;
    }
    memset(buf, 0x5A, load.depth * block);
    check(nixl_agent_create("bench", NULL, &load.agent), "agent");
    check(nixl_backend_create(load.agent, "POSIX", &param, param.key != NULL ? 1 : 0, &backend), "backend");
    desc = (struct nixl_meta_desc){.addr = (uintptr_t)buf, .len = load.depth * block};
    {
        struct nixl_list list = NIXL_LIST_META(DRAM_SEG, &desc, 1);

        check(nixl_mem_register(load.agent, &list, NULL), "memory");
    }
    desc = (struct nixl_meta_desc){.dev = fd};
    {
        struct nixl_list list = NIXL_LIST_META(FILE_SEG, &desc, 1);

        check(nixl_mem_register(load.agent, &list, NULL), "file");
    }
    make_requests(&load, is_write ? NIXL_WRITE : NIXL_READ, buf, block, file_bytes, fd);
    run_load(&load, seconds / 10, &ops, &took, &cpu); /* warm up */
    memset(load.turn, 0, load.depth * sizeof *load.turn);
    run_load(&load, seconds, &ops, &took, &cpu);
    printf("{\"ops\": %llu, \"seconds\": %.6f, \"bytes\": %llu, \"cpu_seconds\": %.6f, \"queue\": \"%s\"}\n",
           (unsigned long long)ops, took, (unsigned long long)(ops * block), cpu,
           nixl_backend_description(backend));
    for (unsigned i = 0; i < load.depth * TURNS; i++) {
        nixl_xfer_release(load.xfers[i]);
    }
    nixl_agent_destroy(load.agent);
    close(file);
    free(buf);
    free(load.xfers);
    free(load.turn);
    return 0;
}
