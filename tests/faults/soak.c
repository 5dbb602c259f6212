/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same again and again: agents that come and go against one survivor, small transfers with a fresh request each. Memory,
 * descriptors and time must not grow. NIXL_SOAK_SECONDS is how long each kind goes on at most, besides its number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>

#include "peers.h"

#define MEMORY ((size_t)1 << 20)
#define SAMPLES 64u
#define CHUNK 128u
#define SLOPE_MAX 1.0 /* per cent per 10,000 */

struct fixture {
    const struct node_setting *setting;
    struct local l;
    struct node n;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);

    f->setting = *state;
    if (!local_open(&f->l, "local", f->setting, MEMORY) ||
        !node_start(&f->n, "node", f->setting, MEMORY, NULL) || node_load(&f->n, &f->l) != NIXL_SUCCESS) {
        fprintf(stderr, "# %s %s\n", f->n.error, nixl_error());
        return -1;
    }
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    local_close(&f->l);
    node_stop(&f->n);
    free(f);
    return 0;
}

/* The processor's time that this process has used: others on the machine do not lengthen it much. */
static double cpu_us(void) {
    struct timespec ts;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* What was measured after so many; time as the best of the sample's chunks. */
struct sample {
    double count, rss, fds, us;
};

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/*
 * Growth over the last half, in per cent of its middle per 10,000: the median of the slopes of all pairs, which single
 * samples on a busy machine do not move.
 */
static double slope(const struct sample *samples, size_t count, size_t member) {
    static double slopes[SAMPLES * SAMPLES];
    double values[SAMPLES], middle;
    size_t half = count / 2, used = 0;

    for (size_t i = half; i < count; i++) {
        values[i - half] = *(const double *)((const char *)&samples[i] + member);
        for (size_t j = i + 1; j < count; j++) {
            slopes[used++] = (*(const double *)((const char *)&samples[j] + member) - values[i - half]) /
                             (samples[j].count - samples[i].count) * 10000;
        }
    }
    if (used == 0) {
        return 0;
    }
    qsort(values, count - half, sizeof values[0], by_value);
    qsort(slopes, used, sizeof slopes[0], by_value);
    middle = values[(count - half) / 2];
    return middle > 0 ? slopes[used / 2] / middle * 100 : 0;
}

static void judge(const char *what, const struct node_setting *setting, const struct sample *samples,
                  size_t count) {
    double rss = slope(samples, count, offsetof(struct sample, rss)),
           fds = slope(samples, count, offsetof(struct sample, fds)),
           us = slope(samples, count, offsetof(struct sample, us));
    char ended[96];

    printf("# %s over %s: %.0f; per 10,000 of the last half: RSS %+.2f %%, descriptors %+.2f %%, time %+.2f "
           "%%; %.1f us each at "
           "the end, RSS %.0f KiB, %.0f descriptors\n",
           what, over(setting), samples[count - 1].count, rss, fds, us, samples[count - 1].us,
           samples[count - 1].rss, samples[count - 1].fds);
    (void)snprintf(ended, sizeof ended, "RSS %+.2f %%, descriptors %+.2f %% per 10,000", rss, fds);
    outcome(what, over(setting), ended, 0);
    assert_true(rss < SLOPE_MAX);
    assert_true(fds < SLOPE_MAX);
    /* Fewer, where a transport is slow, say too little about so small a slope. */
    if (samples[count - 1].count >= 90000) {
        assert_true(us < SLOPE_MAX);
    }
}

static void small_transfers_with_fresh_requests_leave_nothing_behind(void **state) {
    struct fixture *f = *state;
    unsigned total = rounds_of("NIXL_SOAK_TRANSFERS", 100000), seconds = rounds_of("NIXL_SOAK_SECONDS", 2);
    static struct sample samples[SAMPLES];
    size_t used = 0, before;
    uint64_t begun, end;

    assert_write_arrives(&f->l, &f->n, 4096, 1);
    before = open_descriptors();
    begun = now_ms();
    end = begun + seconds * 1000u;
    for (unsigned i = 0; used < SAMPLES && now_ms() < end; used++) {
        unsigned until = total / SAMPLES * ((unsigned)used + 1);
        double best = 1e9;

        /* A share of the number or of the time, whichever is over first, and one chunk at least. */
        while (best > 1e8 || (i < until && now_ms() < begun + (used + 1) * seconds * 1000u / SAMPLES)) {
            double start = cpu_us();

            for (unsigned k = 0; k < CHUNK; k++, i++) {
                struct nixl_xfer *xfer =
                    request_to(&f->l, &f->n, i % 2 ? NIXL_READ : NIXL_WRITE, 1, 512, 512, NULL);

                assert_non_null(xfer);
                assert_int_equal(run_once(xfer), NIXL_SUCCESS);
                assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
            }
            start = (cpu_us() - start) / CHUNK;
            best = start < best ? start : best;
        }
        samples[used] = (struct sample){i, (double)rss_kib(), (double)open_descriptors(), best};
    }
    assert_true(used >= 2);
    judge("small transfers, fresh requests", f->setting, samples, used);
    assert_int_equal(open_descriptors(), before);
    assert_write_arrives(&f->l, &f->n, MEMORY, 2);
}

/* Each new agent of this process learns of the survivor and is learned by it, moves bytes both ways of looking, and goes. */
static void agents_that_come_and_go_leave_nothing_behind(void **state) {
    struct fixture *f = *state;
    unsigned total = rounds_of("NIXL_SOAK_AGENTS", 170), seconds = rounds_of("NIXL_SOAK_SECONDS", 2);
    static struct sample samples[SAMPLES];
    size_t used = 0, before;
    uint64_t end = now_ms() + seconds * 1000u;
    unsigned i = 0;

    local_close(&f->l);
    before = open_descriptors();
    for (; i < total && now_ms() < end; i++) {
        uint64_t start = now_ms();
        char name[32];

        (void)snprintf(name, sizeof name, "comer-%u", i % 3);
        assert_true(local_open(&f->l, name, f->setting, MEMORY));
        assert_int_equal(node_load(&f->n, &f->l), NIXL_SUCCESS);
        assert_int_equal(node_learn(&f->n, &f->l), NIXL_SUCCESS);
        assert_write_arrives(&f->l, &f->n, 20000, i);
        assert_int_equal(node_notify(&f->n, name, "hello", 1), NIXL_SUCCESS);
        local_close(&f->l);
        if (i * SAMPLES / total >= used && used < SAMPLES) {
            samples[used++] = (struct sample){i + 1, (double)rss_kib(), (double)open_descriptors(),
                                              (double)(now_ms() - start) * 1000};
        }
    }
    printf("# %u agents over %s; descriptors %zu before, %zu after; RSS %.0f KiB at half, %zu at the end\n",
           i, over(f->setting), before, open_descriptors(), samples[used / 2].rss, rss_kib());
    assert_true(i >= 3);
    assert_int_equal(open_descriptors(), before);
    /* A slope of so few is noise: growth over the last half stays below what an agent's buffers weigh. */
    assert_true((double)rss_kib() - samples[used / 2].rss < 2048 + 4.0 * (double)(i / 2));
    outcome("agents that come and go", over(f->setting), "descriptors as before", 0);
    assert_true(local_open(&f->l, "local", f->setting, MEMORY));
    assert_int_equal(node_load(&f->n, &f->l), NIXL_SUCCESS);
    assert_write_arrives(&f->l, &f->n, MEMORY, 2);
}

#define TEST(f)                                                                                              \
    { #f, f, setup, teardown, NULL }

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(small_transfers_with_fresh_requests_leave_nothing_behind),
        TEST(agents_that_come_and_go_leave_nothing_behind),
    };

    node_main(argc, argv);
    /* Memory that is free goes back, so that what grows is what is kept. */
    (void)mallopt(M_TRIM_THRESHOLD, 128 << 10);
    return run_matrix(tests, COUNT_OF(tests));
}
