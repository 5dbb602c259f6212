/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stub library. Run without a libnixl_capi in reach: it says so, refuses what would do something and lets go of
 * everything. Run with one (argument "with"): a whole transfer goes through it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "capi/pair.h"
#include "support/skip.h"

static void without_a_library_calls_are_refused_in_words(void **state) {
    nixl_capi_agent_t agent = NULL;
    int number;

    if (!nixl_capi_is_stub()) {
        test_skip("this machine has a libnixl_capi where the loader looks");
    }
    assert_int_equal(nixl_capi_create_agent("a", &agent), NIXL_CAPI_ERROR_INVALID_STATE);
    assert_int_equal(nixl_capi_get_version(&number, &number, &number), NIXL_CAPI_ERROR_INVALID_STATE);
    assert_non_null(strstr(nixl_capi_last_error(), "libnixl_capi"));
}

static void without_a_library_everything_can_be_let_go(void **state) {
    if (!nixl_capi_is_stub()) {
        test_skip("this machine has a libnixl_capi where the loader looks");
    }
    assert_ok(nixl_capi_destroy_agent(NULL));
    assert_ok(nixl_capi_release_xfer_req(NULL, NULL));
    assert_ok(nixl_capi_params_destroy_iterator(NULL));
    nixl_capi_mem_free(malloc(1));
}

static void with_a_library_a_transfer_goes_through(void **state) {
    struct pair *pair;
    nixl_capi_xfer_req_t req;
    int major = 0, minor = 0, patch = 0;

    assert_false(nixl_capi_is_stub());
    assert_ok(nixl_capi_get_version(&major, &minor, &patch));
    assert_int_equal(major, NIXL_CAPI_VERSION_MAJOR);
    pair = pair_make(false);
    assert_ok(nixl_capi_create_xfer_req(pair->near, NIXL_CAPI_XFER_OP_WRITE, pair->near_list, pair->far_list,
                                        "far", &req, NULL));
    assert_ok(pair_run(pair->near, req, NULL));
    assert_memory_equal(pair->near_bytes, pair->far_bytes, PAIR_BYTES);
    assert_ok(nixl_capi_release_xfer_req(pair->near, req));
    assert_ok(nixl_capi_destroy_xfer_req(req));
    pair_end(pair);
}

int main(int argc, char **argv) {
    const struct CMUnitTest without[] = {
        cmocka_unit_test(without_a_library_calls_are_refused_in_words),
        cmocka_unit_test(without_a_library_everything_can_be_let_go),
    };
    const struct CMUnitTest with[] = {
        cmocka_unit_test(with_a_library_a_transfer_goes_through),
    };
    if (argc > 1 && strcmp(argv[1], "with") == 0) {
        return cmocka_run_group_tests(with, NULL, NULL);
    }
    return cmocka_run_group_tests(without, NULL, NULL);
}
