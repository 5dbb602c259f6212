/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One measurement of file transfers, the way an application makes them: `depth` requests of one block each in
 * flight, posted again as they end, at places spread over the file; between ends the program sleeps: with one
 * request in nixl_xfer_wait(), else in nixl_agent_wait(). As "poll" it asks without pause instead. Prints
 * one line of JSON. bench_files.py runs it beside fio.
 *
 *   bench-files FILE write|read BLOCK DEPTH buffered|direct SECONDS wait|poll [option[=value]]
 */
#include <nixl/nixl.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* So many requests are made, each with its own offset, for the device's and host's caches not to know them. */
#define REQUESTS 4096u
/* Looks at requests in the order of their posts end after that many that have not ended. */
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

static void check(nixl_status_t status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "bench-files: %s: %s\n", what, nixl_error());
        exit(1);
    }
}

struct load {
    struct nixl_agent *agent;
    struct nixl_xfer **xfers; /* depth * turns: one after another in each place of the queue */
    unsigned *turn;           /* of a place */
    unsigned *next; /* places in the order of their posts, a list that begins and ends at place `depth` */
    unsigned last;  /* place */
    unsigned depth, turns;
    uint64_t seen;            /* by nixl_agent_wait() */
    struct nixl_xfer **batch; /* to be posted together */
    unsigned batched;
    bool polls;
};

static void make_requests(struct load *load, nixl_xfer_op_t op, char *buf, uint64_t block,
                          uint64_t file_bytes, uint64_t fd) {
    uint64_t blocks = file_bytes / block, state = 1;
    unsigned i;

    for (i = 0; i < load->depth * load->turns; i++) {
        struct nixl_desc local = {(uintptr_t)buf + i / load->turns * block, block, 0}, remote;
        struct nixl_list locals = NIXL_LIST(DRAM_SEG, &local, 1), remotes = NIXL_LIST(FILE_SEG, &remote, 1);

        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        remote = (struct nixl_desc){(state >> 33) % blocks * block, block, fd};
        check(nixl_xfer_create(load->agent, op, &locals, &remotes, "bench", NULL, &load->xfers[i]),
              "request");
    }
}

/* The request whose turn it is in a place will be posted, the last in order. */
static void post_in(struct load *load, unsigned place) {
    load->batch[load->batched++] = load->xfers[place * load->turns + load->turn[place]];
    load->next[load->last] = place;
    load->next[place] = load->depth;
    load->last = place;
}

static void post_batch(struct load *load) {
    check(nixl_xfer_post_all(load->batch, load->batched, NULL), "post");
    load->batched = 0;
}

/* Nothing has ended since the last look. */
static void rest(struct load *load) {
    if (load->depth == 1) {
        check(nixl_xfer_wait(load->xfers[load->turn[0]], NIXL_NO_TIMEOUT), "wait");
    } else {
        check(nixl_agent_wait(load->agent, &load->seen, NIXL_NO_TIMEOUT), "wait");
    }
}

static bool has_ended(const struct load *load, struct nixl_xfer *xfer) {
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    nixl_status_t status = load->polls ? nixl_xfer_poll(xfer) : nixl_xfer_failure(xfer, &info);

    if (status < 0) {
        fprintf(stderr, "bench-files: %s\n", nixl_xfer_error(xfer));
        exit(1);
    }
    return status != NIXL_IN_PROG;
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
    post_batch(load);
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
        post_batch(load);
        *ops += ended;
        if (ended == 0 && active != 0 && !load->polls) {
            rest(load);
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

    if (argc < 8) {
        fprintf(stderr, "usage: bench-files FILE write|read BLOCK DEPTH buffered|direct SECONDS wait|poll "
                        "[option[=value]]\n");
        return 2;
    }
    is_write = strcmp(argv[2], "write") == 0;
    block = strtoull(argv[3], NULL, 10);
    load.depth = (unsigned)strtoul(argv[4], NULL, 10);
    load.turns = load.depth != 0 && load.depth < REQUESTS / 16 ? REQUESTS / load.depth : 16;
    is_direct = strcmp(argv[5], "direct") == 0;
    seconds = strtod(argv[6], NULL);
    load.polls = strcmp(argv[7], "poll") == 0;
    if (argc > 8) {
        char *equals = strchr(argv[8], '=');

        param.key = argv[8];
        if (equals != NULL) {
            *equals = '\0';
            param.value = equals + 1;
        }
    }
    file = open(argv[1], O_RDWR | (is_direct ? O_DIRECT : 0));
    if (file < 0 || fstat(file, &st) != 0 || load.depth == 0 || block == 0 || (uint64_t)st.st_size < block) {
        fprintf(stderr, "bench-files: %s: %s\n", argv[1],
                file < 0 ? strerror(errno) : "smaller than a block");
        return 1;
    }
    fd = (uint64_t)file;
    file_bytes = (uint64_t)st.st_size;
    buf = aligned_alloc(4096, load.depth * block);
    load.xfers = calloc((size_t)load.depth * load.turns, sizeof(struct nixl_xfer *));
    load.turn = calloc(load.depth, sizeof *load.turn);
    load.next = calloc(load.depth + 1, sizeof *load.next);
    load.batch = calloc(load.depth, sizeof(struct nixl_xfer *));
    if (buf == NULL || load.batch == NULL || load.xfers == NULL || load.turn == NULL || load.next == NULL) {
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
    run_load(&load, seconds, &ops, &took, &cpu);
    printf("{\"ops\": %llu, \"seconds\": %.6f, \"bytes\": %llu, \"cpu_seconds\": %.6f, \"queue\": \"%s\"}\n",
           (unsigned long long)ops, took, (unsigned long long)(ops * block), cpu,
           nixl_backend_description(backend));
    for (unsigned i = 0; i < load.depth * load.turns; i++) {
        nixl_xfer_release(load.xfers[i]);
    }
    nixl_agent_destroy(load.agent);
    close(file);
    free(buf);
    free(load.xfers);
    free(load.turn);
    free(load.next);
    free(load.batch);
    return 0;
}
