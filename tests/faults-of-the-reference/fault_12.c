/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault 12: what goes wrong in one of the reference's plugins crosses into the program as it comes (there: as an exception).
 * In C it would be a status that is none, or a failure that calls itself success.
 */
#include "fault.h"

static void a_failure_never_reads_as_success(void **state) {
    struct nixl_param params[] = {{"fail_at", "0"}, {"fail_status", "0"}};
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    struct agents agents;
    struct nixl_xfer *xfer;

    agents_begin_with(&agents, NULL, params, 2);
    xfer = request_of(&agents, NIXL_WRITE, 0, 4096, NULL);
    assert_status(nixl_xfer_post(xfer, NULL), NIXL_IN_PROG);
    assert_status(nixl_xfer_wait(xfer, 10000), NIXL_ERR_BACKEND);
    assert_words(nixl_xfer_error(xfer), "told to fail");
    assert_status(nixl_xfer_failure(xfer, &info), NIXL_ERR_BACKEND);
    assert_int_equal(info.status, NIXL_ERR_BACKEND);
    assert_int_equal(info.index, 0);
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    agents_end(&agents);
}

static const struct CMUnitTest tests[] = {
    TEST(a_failure_never_reads_as_success),
};

FAULT_TESTS(tests)
