/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault 6: the reference keeps backends in a set of pointers, so which one serves differs from run to run, and even the
 * order of the caller's hints is lost.
 */
#include "fault.h"

#define MANY 8

struct pair {
    struct nixl_agent *agent;
    struct nixl_backend *backends[2];
    unsigned char *memory;
};

static void pair_begin(struct pair *pair, const char *const types[2], const char *const ranks[2]) {
    assert_status(nixl_agent_create("A", NULL, &pair->agent), NIXL_SUCCESS);
    for (unsigned i = 0; i < 2; i++) {
        struct nixl_param rank = {"rank", ranks[i]};

        assert_status(nixl_backend_create(pair->agent, types[i], &rank, 1, &pair->backends[i]), NIXL_SUCCESS);
    }
    pair->memory = calloc(1, 4096);
    register_block(pair->agent, pair->memory, 4096);
}

static void pair_end(struct pair *pair) {
    nixl_agent_destroy(pair->agent);
    free(pair->memory);
}

/* Which one serves a request from lists, which must be the one that serves a request from prepared lists. */
static struct nixl_backend *chosen(const struct pair *pair, const struct nixl_options *options) {
    struct nixl_desc desc = {(uintptr_t)pair->memory, 64, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_dlist *local = prepare_block(pair->agent, "", pair->memory, 64);
    struct nixl_dlist *remote = prepare_block(pair->agent, "A", pair->memory, 64);
    struct nixl_backend *backend;
    struct nixl_xfer *xfer;

    assert_status(nixl_xfer_create(pair->agent, NIXL_WRITE, &list, &list, "A", options, &xfer), NIXL_SUCCESS);
    backend = nixl_xfer_backend(xfer);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_status(nixl_xfer_make(pair->agent, NIXL_WRITE, local, NULL, remote, NULL, 1, options, &xfer),
                  NIXL_SUCCESS);
    assert_ptr_equal(nixl_xfer_backend(xfer), backend);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    nixl_dlist_release(local);
    nixl_dlist_release(remote);
    return backend;
}

static const char *const in_order[2] = {"MOCK", "MOCK2"};
static const char *const reversed[2] = {"MOCK2", "MOCK"};
static const char *const equal[2] = {"10", "10"};

static void hints_are_tried_in_their_order(void **state) {
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_backend *hints[2];
    struct pair pair;

    pair_begin(&pair, in_order, equal);
    options.backends = hints;
    options.backend_count = 2;
    for (unsigned first = 0; first < 2; first++) {
        hints[0] = pair.backends[first];
        hints[1] = pair.backends[1 - first];
        assert_ptr_equal(chosen(&pair, &options), hints[0]);
    }
    pair_end(&pair);
}

static void of_equals_the_first_created_serves_wherever_it_lies(void **state) {
    struct pair pairs[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        pair_begin(&pairs[i], i % 2 == 0 ? in_order : reversed, equal);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_ptr_equal(chosen(&pairs[i], NULL), pairs[i].backends[0]);
        pair_end(&pairs[i]);
    }
}

static void the_cheaper_one_serves_whenever_it_was_created(void **state) {
    static const char *const first[2] = {"10", "20"};
    static const char *const second[2] = {"20", "10"};
    struct pair pair;

    pair_begin(&pair, in_order, first);
    assert_ptr_equal(chosen(&pair, NULL), pair.backends[0]);
    pair_end(&pair);
    pair_begin(&pair, in_order, second);
    assert_ptr_equal(chosen(&pair, NULL), pair.backends[1]);
    pair_end(&pair);
}

static const struct CMUnitTest tests[] = {
    TEST(hints_are_tried_in_their_order),
    TEST(of_equals_the_first_created_serves_wherever_it_lies),
    TEST(the_cheaper_one_serves_whenever_it_was_created),
};

FAULT_TESTS(tests)
