/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same again and again: agents that come and go against one survivor, small transfers with a fresh request each. Memory,
 * descriptors and time must not grow. NIXL_SOAK_SECONDS is how long the transfers go on at least, besides their number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>

#include "pair.h"

#define MEMORY ((size_t)1 << 20)
#define SAMPLES 64u
#define CHUNK 128u
#define SLOPE_MAX 1.0 /* per cent per 10,000 */

static int setup(void **state) {
    return fixture_open(state, MEMORY);
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

/*
 * The same of the time: the best of the last quarter against the best of the one before. A machine that does other things
 * lengthens most samples, not all of so many; what grows lengthens all.
 */
static double time_slope(const struct sample *samples, size_t count) {
    size_t third = count / 2, fourth = count * 3 / 4;
    double before = 1e12, after = 1e12;

    for (size_t i = third; i < count; i++) {
        double *best = i < fourth ? &before : &after;

        *best = samples[i].us < *best ? samples[i].us : *best;
    }
    return (after - before) / before * 100 / (samples[count - 1].count - samples[fourth - 1].count) * 10000;
}

struct verdict {
    double rss, fds, us;
};

static struct verdict judge(const char *what, const struct node_setting *setting,
                            const struct sample *samples, size_t count) {
    struct verdict v = {slope(samples, count, offsetof(struct sample, rss)),
                        slope(samples, count, offsetof(struct sample, fds)), time_slope(samples, count)};

    printf("# %s over %s: %.0f; %.1f us each at the end, RSS %.0f KiB, %.0f descriptors", what, over(setting),
           samples[count - 1].count, samples[count - 1].us, samples[count - 1].rss, samples[count - 1].fds);
    if (samples[count - 1].count >= 1000) {
        printf("; per 10,000 of the last half: RSS %+.3f %%, descriptors %+.3f %%, time %+.3f %%", v.rss,
               v.fds, v.us);
    }
    printf("\n");
    return v;
}

/* `total` small transfers, or those of `seconds` if they are more. */
static struct verdict small_transfers(struct fixture *f, unsigned total, unsigned seconds) {
    static struct sample samples[SAMPLES];
    uint64_t begun = now_ms();
    unsigned done = 0;

    for (size_t used = 0; used < SAMPLES; used++) {
        double best = 1e9;

        do {
            double start = cpu_us();

            for (unsigned k = 0; k < CHUNK; k++, done++) {
                struct nixl_xfer *xfer =
                    request_to(&f->l, &f->n, done % 2 ? NIXL_READ : NIXL_WRITE, 1, 512, 512, NULL);

                assert_non_null(xfer);
                assert_int_equal(run_once(xfer), NIXL_SUCCESS);
                assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
            }
            start = (cpu_us() - start) / CHUNK;
            best = start < best ? start : best;
        } while (done < (uint64_t)total * (used + 1) / SAMPLES ||
                 now_ms() < begun + seconds * 1000u * (used + 1) / SAMPLES);
        samples[used] = (struct sample){done, (double)rss_kib(), (double)open_descriptors(), best};
    }
    return judge("small transfers, fresh requests", f->setting, samples, SAMPLES);
}

/* What grows with every transfer shows in each of five turns; what the machine did meanwhile does not. */
static void small_transfers_with_fresh_requests_leave_nothing_behind(void **state) {
    struct fixture *f = *state;
    unsigned total = rounds_of("NIXL_SOAK_TRANSFERS", 100000), seconds = rounds_of("NIXL_SOAK_SECONDS", 1);
    struct verdict v = {0, 0, SLOPE_MAX};
    size_t before;

    assert_write_arrives(&f->l, &f->n, 4096, 1);
    before = open_descriptors();
    for (int turn = 0; turn < 5 && (v.rss >= SLOPE_MAX || v.us >= SLOPE_MAX); turn++) {
        v = small_transfers(f, total, seconds);
        assert_true(v.fds < SLOPE_MAX);
    }
    assert_true(v.rss < SLOPE_MAX);
    assert_true(v.us < SLOPE_MAX);
    assert_int_equal(open_descriptors(), before);
    assert_write_arrives(&f->l, &f->n, MEMORY, 2);
    outcome("small transfers, fresh requests", over(f->setting),
            "memory, descriptors and time grow by less than 1 % per 10,000", 0);
}

static bool is_default_with_thread(const struct node_setting *setting) {
    return setting->tls[0] == '\0' && setting->progress_thread;
}

/* Each new agent of this process learns of the survivor and is learned by it, moves bytes both ways of looking, and goes. */
static void agents_that_come_and_go_leave_nothing_behind(void **state) {
    struct fixture *f = *state;
    unsigned total = rounds_of("NIXL_SOAK_AGENTS", is_default_with_thread(f->setting) ? 1000 : 64);
    static struct sample samples[SAMPLES];
    size_t before;
    unsigned done = 0;
    struct verdict v;

    local_close(&f->l);
    before = open_descriptors();
    for (size_t used = 0; used < SAMPLES; used++) {
        double best = 1e9;

        do {
            double start = cpu_us();
            char name[32];

            (void)snprintf(name, sizeof name, "comer-%u", done % 3);
            assert_true(local_open(&f->l, name, f->setting, MEMORY));
            assert_int_equal(node_load(&f->n, &f->l), NIXL_SUCCESS);
            assert_int_equal(node_learn(&f->n, &f->l), NIXL_SUCCESS);
            assert_write_arrives(&f->l, &f->n, 20000, done);
            assert_int_equal(node_notify(&f->n, name, "hello", 1), NIXL_SUCCESS);
            local_close(&f->l);
            start = cpu_us() - start;
            best = start < best ? start : best;
            done++;
        } while (done < (uint64_t)total * (used + 1) / SAMPLES);
        samples[used] = (struct sample){done, (double)rss_kib(), (double)open_descriptors(), best};
    }
    v = judge("agents that come and go", f->setting, samples, SAMPLES);
    printf("# descriptors %zu before, %zu after; the survivor's answers: %zu wrong\n", before,
           open_descriptors(), node_bad(&f->n));
    assert_int_equal(open_descriptors(), before);
    assert_true(v.fds < SLOPE_MAX);
    /* The last half of few says nothing of 10,000: then its growth stays below what one agent's buffers weigh. */
    assert_true(done >= 1000 ? v.rss < SLOPE_MAX : samples[SAMPLES - 1].rss - samples[SAMPLES / 2].rss < 512);
    outcome("agents that come and go", over(f->setting), "descriptors as before, memory does not grow", 0);
    assert_true(local_open(&f->l, "local", f->setting, MEMORY));
    assert_int_equal(node_load(&f->n, &f->l), NIXL_SUCCESS);
    assert_write_arrives(&f->l, &f->n, MEMORY, 2);
}

#define TEST(f)                                                                                              \
    { #f, f, setup, fixture_close, NULL }

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
