/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every byte between two processes over UCX: 1 byte to 256 MiB, odd alignments, 1 to 100,000 descriptors, WRITE and READ, over
 * three choices of transports, with and without progress threads. The normal suite takes every setting with sizes that cover each
 * path; NIXL_TEST_FULL=1 takes the largest with every setting too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ucx_node.h"

#define LARGEST ((size_t)256 << 20)
#define MARGIN 64u

static const struct node_setting settings[] = {
    {"tcp,self", false}, {"tcp,self", true}, {"sm,self", false}, {"sm,self", true}, {"", false}, {"", true},
};

struct fixture {
    struct local l;
    struct node n;
    const struct node_setting *setting;
    size_t len;
};

static bool is_full(void) {
    const char *full = getenv("NIXL_TEST_FULL");

    return full != NULL && full[0] == '1';
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);

    f->setting = *state;
    f->len = LARGEST + 2 * MARGIN;
    if (!node_start(&f->n, "node", f->setting, f->len, NULL) ||
        !local_open(&f->l, "local", f->setting, f->len) || node_load(&f->n, &f->l) != NIXL_SUCCESS) {
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

/* One block: `here` and `there` are offsets. */
static void one_block(struct fixture *f, size_t here, size_t there, size_t len) {
    struct nixl_desc ours = {(uintptr_t)f->l.at + here, len, 0}, theirs = {f->n.addr + there, len, 0};

    /* What lies around the block must stay: zeros on both sides. */
    memset(f->l.at, 0, here + len + MARGIN);
    pattern_fill(f->l.at + here, len, len);
    node_fill(&f->n, there - 8, 8, 41);
    node_fill(&f->n, there + len, 8, 42);
    assert_int_equal(move(&f->l, &f->n, NIXL_WRITE, &ours, &theirs, 1, NULL), NIXL_SUCCESS);
    assert_true(node_check(&f->n, there, len, len));
    assert_true(node_check(&f->n, there - 8, 8, 41));
    assert_true(node_check(&f->n, there + len, 8, 42));

    node_fill(&f->n, there, len, len + 1);
    memset(f->l.at, 0, here + len + MARGIN);
    assert_int_equal(move(&f->l, &f->n, NIXL_READ, &ours, &theirs, 1, NULL), NIXL_SUCCESS);
    assert_true(pattern_check(f->l.at + here, len, len + 1));
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(f->l.at[here - 1 - i], 0);
        assert_int_equal(f->l.at[here + len + i], 0);
    }
}

static void single_blocks_from_a_byte_to_megabytes_at_odd_addresses(void **state) {
    static const size_t lens[] = {1,    2,    3,     8,     63,     511,     4095,         4096,
                                  4097, 8185, 65535, 65536, 262145, 1 << 20, (4 << 20) + 3};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        one_block(f, 8 + i % 8, 8 + (i * 3 + 1) % 8, lens[i]);
    }
}

static void a_block_of_256_mib(void **state) {
    struct fixture *f = *state;

    if (!is_full() && f->setting->progress_thread && strcmp(f->setting->tls, "") != 0) {
        one_block(f, 9, 11, 32 << 20);
        return;
    }
    one_block(f, 9, 11, LARGEST);
}

/* `count` blocks of `len`; the i-th of ours goes to a place far from its neighbours' (7919 is prime to the counts). */
static void scattered(struct fixture *f, size_t count, size_t len) {
    struct nixl_desc *ours = calloc(count, sizeof *ours), *theirs = calloc(count, sizeof *theirs);
    uint8_t *expected = malloc(count * len);
    struct nixl_desc all = {(uintptr_t)f->l.at, count * len, 0}, there = {f->n.addr + 1, count * len, 0};

    pattern_fill(f->l.at, count * len, count);
    for (size_t i = 0; i < count; i++) {
        size_t place = i * 7919 % count;

        ours[i] = (struct nixl_desc){(uintptr_t)f->l.at + i * len, len, 0};
        theirs[i] = (struct nixl_desc){f->n.addr + 1 + place * len, len, 0};
        memcpy(expected + place * len, f->l.at + i * len, len);
    }
    assert_int_equal(move(&f->l, &f->n, NIXL_WRITE, ours, theirs, count, NULL), NIXL_SUCCESS);
    memset(f->l.at, 0, count * len);
    assert_int_equal(move(&f->l, &f->n, NIXL_READ, &all, &there, 1, NULL), NIXL_SUCCESS);
    assert_memory_equal(f->l.at, expected, count * len);
    /* And back by single reads. */
    memset(f->l.at, 0, count * len);
    assert_int_equal(move(&f->l, &f->n, NIXL_READ, ours, theirs, count, NULL), NIXL_SUCCESS);
    assert_true(pattern_check(f->l.at, count * len, count));
    free(ours);
    free(theirs);
    free(expected);
}

static void lists_of_2_to_10000_descriptors(void **state) {
    struct fixture *f = *state;

    scattered(f, 2, 1);
    scattered(f, 3, 100000);
    scattered(f, 16, 4097);
    scattered(f, 257, 333);
    scattered(f, 1000, 65536);
    scattered(f, 10000, 77);
}

static void a_list_of_100000_descriptors(void **state) {
    struct fixture *f = *state;

    scattered(f, 100000, 24);
}

static void the_notification_finds_all_bytes_in_place(void **state) {
    struct fixture *f = *state;

    for (size_t i = 0; i < 10; i++) {
        size_t len = i % 2 == 0 ? 100 : 9 << 20;
        struct nixl_desc ours = {(uintptr_t)f->l.at, len, 0}, theirs = {f->n.addr, len, 0};

        pattern_fill(f->l.at, len, i);
        assert_int_equal(move(&f->l, &f->n, NIXL_WRITE, &ours, &theirs, 1, "there"), NIXL_SUCCESS);
        assert_int_equal(node_received(&f->n, i + 1, 10000), i + 1);
        assert_true(node_check(&f->n, 0, len, i));
    }
}

#define TEST(f)                                                                                              \
    { #f, f, setup, teardown, NULL }
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(single_blocks_from_a_byte_to_megabytes_at_odd_addresses),
        TEST(a_block_of_256_mib),
        TEST(lists_of_2_to_10000_descriptors),
        TEST(a_list_of_100000_descriptors),
        TEST(the_notification_finds_all_bytes_in_place),
    };
    static struct CMUnitTest all[COUNT_OF(settings) * COUNT_OF(tests)];
    static char names[COUNT_OF(all)][128];

    node_main(argc, argv);
    for (size_t s = 0; s < COUNT_OF(settings); s++) {
        for (size_t i = 0; i < COUNT_OF(tests); i++) {
            size_t at = s * COUNT_OF(tests) + i;

            (void)snprintf(names[at], sizeof names[at], "%s, %s: %s",
                           settings[s].tls[0] != '\0' ? settings[s].tls : "default",
                           settings[s].progress_thread ? "thread" : "no thread", tests[i].name);
            all[at] = tests[i];
            all[at].name = names[at];
            all[at].initial_state = (void *)&settings[s];
        }
    }
    return cmocka_run_group_tests(all, NULL, NULL);
}
