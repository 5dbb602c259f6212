/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers between two processes of this machine: one round of all rows, one line of JSON a row. Environment as always (UCX_TLS,
 * NIXL_UCX_PATH); `--thread` gives both agents a progress thread. bench_net.py runs rounds of it beside others.
 *
 * Rows: single blocks, batches of scattered blocks (all of them posted as one request), notifications, and writes with one.
 * us is from the post to the end, post_us the post alone: medians of the round.
 */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLES 4096u
#define ROW_NS UINT64_C(60000000) /* time for a row */
#define SAMPLES_MIN 5u

static uint64_t total[SAMPLES], posted[SAMPLES];

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static double quantile_us(uint64_t *samples, unsigned count, double q) {
    qsort(samples, count, sizeof *samples, compare);
    return (double)samples[(unsigned)((count - 1) * q)] / 1e3;
}

static void row_print(const char *row, uint64_t bytes, unsigned count) {
    double p99 = quantile_us(total, count, 0.99), us = quantile_us(total, count, 0.5);

    printf(
        "{\"row\": \"%s\", \"us\": %.3f, \"p99_us\": %.3f, \"post_us\": %.3f, \"gb_s\": %.3f, \"samples\": "
        "%u}\n",
        row, us, p99, quantile_us(posted, count, 0.5), us > 0 ? (double)bytes / us / 1e3 : 0, count);
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

static void measure(struct side *side, nixl_xfer_op_t op, uint64_t block, size_t count) {
    uint64_t stride = block < 512 ? 512 : block;
    struct nixl_xfer *xfer = xfer_of(side, op, block, count, count == 1 ? block : stride, false);
    uint64_t end, start, ignored;
    unsigned n = 0;
    char row[64], text[16];

    xfer_run(xfer, &ignored);
    end = now_ns() + ROW_NS;
    while (n < SAMPLES && (n < SAMPLES_MIN || now_ns() < end)) {
        start = now_ns();
        xfer_run(xfer, &posted[n]);
        total[n++] = now_ns() - start;
    }
    (void)nixl_xfer_release(xfer);
    (void)snprintf(row, sizeof row, "%s %zu x %s", op == NIXL_WRITE ? "write" : "read", count,
                   size_text(block, text));
    row_print(row, block * count, n);
}

/* Half of a round trip: ours, theirs. `idle_ms` is slept before each. */
static void measure_echo(struct side *side, bool writes, uint64_t len, unsigned rounds, unsigned idle_ms) {
    struct timespec pause = {idle_ms / 1000, idle_ms % 1000 * 1000000L};
    struct nixl_xfer *xfer = writes ? xfer_of(side, NIXL_WRITE, len, 1, len, true) : NULL;
    char row[64], text[16];
    unsigned n = 0;

    for (; n < rounds; n++) {
        uint64_t start;

        if (n % ECHO_BATCH == 0) {
            unsigned left = rounds - n;

            target_order(side, writes ? COMMAND_ECHO_WRITE : COMMAND_ECHO,
                         left < ECHO_BATCH ? left : ECHO_BATCH, len);
        }
        if (idle_ms != 0) {
            (void)nanosleep(&pause, NULL);
        }
        start = now_ns();
        posted[n] = 0;
        if (writes) {
            xfer_run(xfer, &posted[n]);
        } else if (nixl_notif_send(side->agent, side->peer, "bench", 5, NULL) != NIXL_SUCCESS) {
            stop_with("a notification");
        }
        notif_await(side);
        total[n] = (now_ns() - start) / 2;
    }
    if (xfer != NULL) {
        (void)nixl_xfer_release(xfer);
    }
    if (writes) {
        (void)snprintf(row, sizeof row, "write+notification %s%s", size_text(len, text),
                       idle_ms != 0 ? " after 1 s idle" : "");
    } else {
        (void)snprintf(row, sizeof row, "notification%s", idle_ms != 0 ? " after 1 s idle" : "");
    }
    row_print(row, writes ? len : 0, n);
}

static void measure_all(struct side *side, const char *only) {
    static const uint64_t sizes[] = {8, 64, 512, 4096, 32768, 262144, 1 << 20, 8 << 20, 64 << 20};
    static const size_t counts[] = {16, 128, 10000};
    static const uint64_t blocks[] = {64, 256, 4096, 65536};

    for (int op = 0; op < 2 && strchr(only, 'b') != NULL; op++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            measure(side, op == 0 ? NIXL_WRITE : NIXL_READ, sizes[i], 1);
        }
    }
    for (int op = 0; op < 2 && strchr(only, 'l') != NULL; op++) {
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            for (size_t j = 0; j < sizeof blocks / sizeof blocks[0]; j++) {
                measure(side, op == 0 ? NIXL_WRITE : NIXL_READ, blocks[j], counts[i]);
            }
        }
        measure(side, op == 0 ? NIXL_WRITE : NIXL_READ, 256, 100000);
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
    struct nixl_xfer *xfer = xfer_of(side, NIXL_WRITE, 8, 1, 8, false);
    uint64_t ignored;

    xfer_run(xfer, &ignored);
    printf("{\"backend\": \"%s\", \"transport\": \"%s\"}\n", nixl_backend_description(side->ucx),
           nixl_xfer_transport(xfer));
    (void)nixl_xfer_release(xfer);
}

int main(int argc, char **argv) {
    struct side side = {0};
    const char *only = "blni";

    if (argc == 5 && strcmp(argv[1], "--target") == 0) {
        target_run(atoi(argv[2]), strcmp(argv[3], "1") == 0, strtoull(argv[4], NULL, 10));
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--thread") == 0) {
            side.has_thread = true;
        } else if (strncmp(argv[i], "--only=", 7) == 0) {
            only = argv[i] + 7;
        } else {
            (void)fprintf(stderr, "usage: bench-net [--thread] [--only=LETTERS]\n"
                                  "  --thread   both agents have a progress thread\n"
                                  "  --only     b blocks, l lists, n notifications, i notifications after a "
                                  "second of idling\n");
            return 2;
        }
    }
    target_start(&side);
    side_open(&side, "initiator", "target", MEMORY);
    header_print(&side);
    measure_all(&side, only);
    target_order(&side, COMMAND_STOP, 0, 0);
    side_close(&side);
    return 0;
}
