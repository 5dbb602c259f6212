/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers between two processes of this machine: one round of all rows, one line of JSON a row. Environment as always (UCX_TLS,
 * NIXL_UCX_PATH); `--thread` gives both agents a progress thread. bench_net.py runs rounds of it beside others.
 *
 * Rows: single blocks, batches of scattered blocks (all of them posted as one request), notifications, and writes with one.
 * us is from the post to the end, post_us the post alone: medians of the round. post_max_us is the longest post, first_us
 * the post and first_total_us the whole of the first run of a request, before all others.
 */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES 4096u
#define SAMPLES_MIN 3u
#define ECHO_FIRST 8u

static uint64_t total[SAMPLES], posted[SAMPLES];
static uint64_t row_ns = 60000000; /* time for a row */
static const char *only_row;       /* NULL: all */

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static double quantile_us(uint64_t *samples, unsigned count, double q) {
    qsort(samples, count, sizeof *samples, compare);
    return (double)samples[(unsigned)((count - 1) * q)] / 1e3;
}

struct first {
    uint64_t post_ns, ns;
};

static void row_print(const char *row, uint64_t bytes, unsigned count, struct first first) {
    double p99 = quantile_us(total, count, 0.99), us = quantile_us(total, count, 0.5);
    double post = quantile_us(posted, count, 0.5), post_max = quantile_us(posted, count, 1);

    printf("{\"row\": \"%s\", \"us\": %.3f, \"p99_us\": %.3f, \"post_us\": %.3f, \"post_max_us\": %.3f, "
           "\"first_us\": %.3f, \"first_total_us\": %.3f, \"gb_s\": %.3f, \"samples\": %u}\n",
           row, us, p99, post, post_max, (double)first.post_ns / 1e3, (double)first.ns / 1e3,
           us > 0 ? (double)bytes / us / 1e3 : 0, count);
    (void)fflush(stdout);
}

static const char *size_text(uint64_t size, char text[16]) {
    if (size >= 1 << 20) {
        (void)snprintf(text, 16, "%lluM", (unsigned long long)size >> 20);
    } else if (size >= 1024) {
        (void)snprintf(text, 16, "%lluK", (unsigned long long)size >> 10);
    } else {
        (void)snprintf(text, 16, "%llu", (unsigned long long)size);
    }
    return text;
}

static void measure(struct side *side, bool is_write, uint64_t block, size_t count) {
    uint64_t stride = block < 512 ? 512 : block, end, start;
    struct first first = {0};
    struct xfer *xfer;
    unsigned n = 0;
    char row[64], text[16];

    (void)snprintf(row, sizeof row, "%s %zu x %s", is_write ? "write" : "read", count,
                   size_text(block, text));
    if (only_row != NULL && strcmp(row, only_row) != 0) {
        return;
    }
    xfer = xfer_of(side, is_write, block, count, count == 1 ? block : stride, false);
    start = now_ns();
    xfer_run(side, xfer, &first.post_ns);
    first.ns = now_ns() - start;
    end = now_ns() + row_ns;
    /* A few samples at least, unless one alone takes far too long. */
    while (n < SAMPLES &&
           ((start = now_ns()) < end || n == 0 || (n < SAMPLES_MIN && start < end + 2 * row_ns))) {
        xfer_run(side, xfer, &posted[n]);
        total[n++] = now_ns() - start;
    }
    agent_xfer_free(side->agent, xfer);
    row_print(row, block * count, n, first);
}

/* Half of a round trip: ours, theirs. `idle_ms` is slept before each. */
static void measure_echo(struct side *side, bool writes, uint64_t len, unsigned rounds, unsigned idle_ms) {
    struct timespec pause = {idle_ms / 1000, idle_ms % 1000 * 1000000L};
    struct xfer *xfer = writes ? xfer_of(side, true, len, 1, len, true) : NULL;
    char row[64], text[16];
    uint64_t end = now_ns() + 2 * row_ns;
    unsigned n = 0, ordered = 0;

    for (; n < rounds; n++) {
        uint64_t start;

        if (n == ordered) {
            /* The first few show whether many can be afforded. */
            unsigned batch = n == 0 ? ECHO_FIRST : ECHO_BATCH;

            if (n > 0 && idle_ms == 0 && now_ns() > end) {
                break;
            }
            batch = rounds - n < batch ? rounds - n : batch;
            target_order(side, writes ? COMMAND_ECHO_WRITE : COMMAND_ECHO, batch, len);
            ordered += batch;
        }
        if (idle_ms != 0) {
            (void)nanosleep(&pause, NULL);
        }
        start = now_ns();
        posted[n] = 0;
        if (writes) {
            xfer_run(side, xfer, &posted[n]);
        } else {
            agent_notify(side->agent, side->peer);
        }
        notif_await(side);
        total[n] = (now_ns() - start) / 2;
    }
    if (xfer != NULL) {
        agent_xfer_free(side->agent, xfer);
    }
    if (writes) {
        (void)snprintf(row, sizeof row, "write+notification %s%s", size_text(len, text),
                       idle_ms != 0 ? " after 1 s idle" : "");
    } else {
        (void)snprintf(row, sizeof row, "notification%s", idle_ms != 0 ? " after 1 s idle" : "");
    }
    row_print(row, writes ? len : 0, n, (struct first){0});
}

static void measure_lists(struct side *side, bool is_write, const size_t *counts, size_t n) {
    static const uint64_t blocks[] = {64, 256, 4096, 65536};

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < sizeof blocks / sizeof blocks[0]; j++) {
            measure(side, is_write, blocks[j], counts[i]);
        }
    }
}

static void measure_all(struct side *side, const char *only) {
    static const uint64_t sizes[] = {8,     64,     256,     1024,    4096,     16384,
                                     65536, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
    static const size_t few[] = {16, 128}, many[] = {10000};

    for (int op = 0; op < 2; op++) {
        bool is_write = op == 0;

        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && strchr(only, 'b') != NULL; i++) {
            measure(side, is_write, sizes[i], 1);
        }
        if (strchr(only, 's') != NULL) {
            measure_lists(side, is_write, few, 2);
        }
        if (strchr(only, 'l') != NULL) {
            measure_lists(side, is_write, many, 1);
            measure(side, is_write, 256, 100000);
        }
    }
    for (int op = 0; op < 2 && strchr(only, 'g') != NULL; op++) {
        measure(side, op == 0, 4 << 20, 1);
        measure(side, op == 0, 64 << 20, 1);
        measure(side, op == 0, 64 << 20, 8);
        measure(side, op == 0, 4 << 20, 64);
        measure(side, op == 0, 64 << 10, 4096);
    }
    if (strchr(only, 'n') != NULL) {
        measure_echo(side, false, 0, 2048, 0);
        measure_echo(side, true, 8, 2048, 0);
        measure_echo(side, true, 65536, 1024, 0);
    }
    if (strchr(only, 'i') != NULL) {
        measure_echo(side, false, 0, 5, 1000);
        measure_echo(side, true, 8, 5, 1000);
    }
}

static void header_print(struct side *side) {
    struct xfer *xfer = xfer_of(side, true, 8, 1, 8, false);
    uint64_t ignored;

    xfer_run(side, xfer, &ignored);
    printf("{\"backend\": \"%s\", \"transport\": \"%s\"}\n", agent_backend(side->agent),
           agent_transport(side->agent, xfer));
    agent_xfer_free(side->agent, xfer);
}

static void usage(void) {
    (void)fprintf(stderr,
                  "usage: bench-net [--thread] [--only=LETTERS] [--row=ROW] [--ms=N]\n"
                  "  --thread   both agents have a progress thread\n"
                  "  --only     b single blocks, s lists of 16 and 128, l lists of 10,000 and 100,000,\n"
                  "             n notifications, i notifications after a second of idling; bsln\n"
                  "             g large copies, which are not in the default\n"
                  "  --row      of the blocks and lists this one, named as it is printed\n"
                  "  --ms       time for a row, 60\n"
                  "BENCH_NET_PARAMS in the environment: parameters of both backends, \"num_threads=2 "
                  "num_workers=4\"\n");
}

int main(int argc, char **argv) {
    struct side side = {0};
    const char *only = "bsln";

    if (argc == 5 && strcmp(argv[1], "--target") == 0) {
        target_run(atoi(argv[2]), strcmp(argv[3], "1") == 0, strtoull(argv[4], NULL, 10));
        _exit(0);
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--thread") == 0) {
            side.has_thread = true;
        } else if (strncmp(argv[i], "--only=", 7) == 0) {
            only = argv[i] + 7;
        } else if (strncmp(argv[i], "--row=", 6) == 0) {
            only_row = argv[i] + 6;
        } else if (strncmp(argv[i], "--ms=", 5) == 0) {
            row_ns = strtoull(argv[i] + 5, NULL, 10) * 1000000u;
        } else {
            usage();
            return 2;
        }
    }
    target_start(&side);
    side_open(&side, "initiator", "target", MEMORY);
    header_print(&side);
    measure_all(&side, only);
    target_order(&side, COMMAND_STOP, 0, 0);
    side_close(&side);
    (void)fflush(stdout);
    /* What a foreign library does at the end of its process is not measured. */
    _exit(0);
}
