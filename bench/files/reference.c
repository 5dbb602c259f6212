/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measurement of main.c through <nixl/capi.h>, for the library that the loader finds as libnixl_capi.so:
 * the reference's, where it is installed. The same requests in flight at the same places; what has no call to
 * sleep in is polled without pause. Prints one line of JSON.
 *
 *   bench-files-reference FILE write|read BLOCK DEPTH buffered|direct SECONDS
 */
#include <nixl/capi.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* As in main.c. */
#define REQUESTS 4096u
#define MISSES 32u

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

static void check(nixl_capi_status_t status, const char *what) {
    if (status != NIXL_CAPI_SUCCESS && status != NIXL_CAPI_IN_PROG) {
        fprintf(stderr, "bench-files-reference: %s failed (%d)\n", what, (int)status);
        _exit(1);
    }
}

struct load {
    nixl_capi_agent_t agent;
    nixl_capi_xfer_req_t *xfers; /* depth * turns: one after another in each place of the queue */
    unsigned *turn;              /* of a place */
    unsigned *next; /* places in the order of their posts, a list that begins and ends at place `depth` */
    unsigned last;  /* place */
    unsigned depth, turns;
};

static void register_block(nixl_capi_agent_t agent, nixl_capi_mem_type_t mem, uintptr_t addr, size_t len,
                           uint64_t dev) {
    nixl_capi_reg_dlist_t list;

    check(nixl_capi_create_reg_dlist(mem, &list), "list");
    check(nixl_capi_reg_dlist_add_desc(list, addr, len, dev, NULL, 0), "list");
    check(nixl_capi_register_mem(agent, list, NULL), "registration");
}

static nixl_capi_xfer_dlist_t list_of(nixl_capi_mem_type_t mem, uintptr_t addr, size_t len, uint64_t dev) {
    nixl_capi_xfer_dlist_t list;

    check(nixl_capi_create_xfer_dlist(mem, &list), "list");
    check(nixl_capi_xfer_dlist_add_desc(list, addr, len, dev), "list");
    return list;
}

static void make_requests(struct load *load, nixl_capi_xfer_op_t op, char *buf, uint64_t block,
                          uint64_t file_bytes, uint64_t fd, nixl_capi_opt_args_t args) {
    uint64_t blocks = file_bytes / block, state = 1;
    unsigned i;

    for (i = 0; i < load->depth * load->turns; i++) {
        nixl_capi_xfer_dlist_t local, remote;

        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        local = list_of(NIXL_CAPI_MEM_DRAM, (uintptr_t)buf + i / load->turns * block, block, 0);
        remote = list_of(NIXL_CAPI_MEM_FILE, (uintptr_t)((state >> 33) % blocks * block), block, fd);
        check(nixl_capi_create_xfer_req(load->agent, op, local, remote, "bench", &load->xfers[i], args),
              "request");
        nixl_capi_destroy_xfer_dlist(local);
        nixl_capi_destroy_xfer_dlist(remote);
    }
}

/* Posts the request whose turn it is in a place, which so becomes the last in order. */
static void post_in(struct load *load, unsigned place) {
    check(nixl_capi_post_xfer_req(load->agent, load->xfers[place * load->turns + load->turn[place]], NULL),
          "post");
    load->next[load->last] = place;
    load->next[place] = load->depth;
    load->last = place;
}

static bool has_ended(const struct load *load, nixl_capi_xfer_req_t xfer) {
    nixl_capi_status_t status = nixl_capi_get_xfer_status(load->agent, xfer);

    check(status, "transfer");
    return status != NIXL_CAPI_IN_PROG;
}

static void run_load(struct load *load, double seconds, uint64_t *ops, double *took, double *cpu) {
    double start = now_s(), cpu_start = cpu_s(), end = start + seconds;
    unsigned active = load->depth, i, passes = 0;
    bool is_over = false;

    *ops = 0;
    load->last = load->depth;
    for (i = 0; i < load->depth; i++) {
        post_in(load, i);
    }
    while (active != 0) {
        unsigned before = load->depth, place = load->next[before], stop = load->last, misses = 0, ended = 0;
        bool is_last = false;

        while (!is_last && misses < MISSES) {
            unsigned next = load->next[place];

            is_last = place == stop;
            if (!has_ended(load, load->xfers[place * load->turns + load->turn[place]])) {
                misses++;
                before = place;
                place = next;
                continue;
            }
            ended++;
            load->turn[place] = (load->turn[place] + 1) % load->turns;
            load->next[before] = next;
            if (load->last == place) {
                load->last = before;
            }
            if (is_over) {
                active--;
            } else {
                post_in(load, place);
            }
            place = load->next[before];
        }
        *ops += ended;
        if (!is_over && (++passes % 16 == 0 || load->depth >= 16)) {
            is_over = now_s() >= end;
        }
    }
    *took = now_s() - start;
    *cpu = cpu_s() - cpu_start;
}

int main(int argc, char **argv) {
    nixl_capi_backend_t backend;
    nixl_capi_params_t params;
    nixl_capi_opt_args_t args;
    struct load load = {0};
    uint64_t block, ops, file_bytes;
    double seconds, took, cpu;
    bool is_write, is_direct;
    struct stat st;
    char *buf;
    int file;

    if (argc != 7) {
        fprintf(stderr, "usage: bench-files-reference FILE write|read BLOCK DEPTH buffered|direct SECONDS\n");
        return 2;
    }
    is_write = strcmp(argv[2], "write") == 0;
    block = strtoull(argv[3], NULL, 10);
    load.depth = (unsigned)strtoul(argv[4], NULL, 10);
    load.turns = load.depth != 0 && load.depth < REQUESTS / 16 ? REQUESTS / load.depth : 16;
    is_direct = strcmp(argv[5], "direct") == 0;
    seconds = strtod(argv[6], NULL);
    file = open(argv[1], O_RDWR | (is_direct ? O_DIRECT : 0));
    if (file < 0 || fstat(file, &st) != 0 || load.depth == 0 || block == 0 || (uint64_t)st.st_size < block) {
        fprintf(stderr, "bench-files-reference: %s cannot be used\n", argv[1]);
        return 1;
    }
    file_bytes = (uint64_t)st.st_size;
    buf = aligned_alloc(4096, load.depth * block);
    load.xfers = calloc((size_t)load.depth * load.turns, sizeof *load.xfers);
    load.turn = calloc(load.depth, sizeof *load.turn);
    load.next = calloc(load.depth + 1, sizeof *load.next);
    if (buf == NULL || load.xfers == NULL || load.turn == NULL || load.next == NULL) {
        fprintf(stderr, "bench-files-reference: no memory\n");
        return 1;
    }
    memset(buf, 0x5A, load.depth * block);
    if (nixl_capi_is_stub()) {
        fprintf(stderr, "bench-files-reference: there is no libnixl_capi.so\n");
        return 1;
    }
    check(nixl_capi_create_agent("bench", &load.agent), "agent");
    check(nixl_capi_create_params(&params), "parameters");
    check(nixl_capi_create_backend(load.agent, "POSIX", params, &backend), "backend");
    check(nixl_capi_create_opt_args(&args), "options");
    check(nixl_capi_opt_args_add_backend(args, backend), "options");
    register_block(load.agent, NIXL_CAPI_MEM_DRAM, (uintptr_t)buf, load.depth * block, 0);
    register_block(load.agent, NIXL_CAPI_MEM_FILE, 0, file_bytes, (uint64_t)file);
    make_requests(&load, is_write ? NIXL_CAPI_XFER_OP_WRITE : NIXL_CAPI_XFER_OP_READ, buf, block, file_bytes,
                  (uint64_t)file, args);
    run_load(&load, seconds / 10, &ops, &took, &cpu); /* warm up */
    run_load(&load, seconds, &ops, &took, &cpu);
    printf("{\"ops\": %llu, \"seconds\": %.6f, \"bytes\": %llu, \"cpu_seconds\": %.6f}\n",
           (unsigned long long)ops, took, (unsigned long long)(ops * block), cpu);
    fflush(stdout);
    _exit(0); /* the library of others need not end well for its figures to be right */
}
