/* SPDX-License-Identifier: Apache-2.0 */
/* What backends may say when a request ends, also when they say it badly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agents.h"

#include <errno.h>

/* A request that a test completes itself: NOOP never does. */
static struct nixl_xfer *begin(struct side_of_test *side) {
    struct nixl_desc l[3];
    struct nixl_list list = NIXL_LIST(DRAM_SEG, l, 3);
    struct nixl_xfer *xfer;

    side_begin(side, "A", NULL, "NOOP", NULL, 0, true);
    for (size_t i = 0; i < 3; i++) {
        l[i] = (struct nixl_desc){(uintptr_t)side->memory + i * 100, 10, 0};
    }
    assert_status(nixl_xfer_create(side->agent, NIXL_WRITE, &list, &list, "A", NULL, &xfer), NIXL_SUCCESS);
    assert_int_equal(xfer->request.run_count, 1);
    xfer->state = XFER_IN_PROG;
    return xfer;
}

static void end(struct side_of_test *side, struct nixl_xfer *xfer) {
    assert_status(nixl_xfer_release(xfer), NIXL_SUCCESS);
    side_end(side);
}

static void block_within_a_run_is_told_as_the_users_descriptor(void **state) {
    struct nixl_failure failure = NIXL_FAILURE_INIT;
    struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
    struct side_of_test side;
    struct nixl_xfer *xfer = begin(&side);

    failure.status = NIXL_ERR_NOT_FOUND;
    failure.run = 0;
    failure.block = 2;
    failure.bytes_done = 20;
    failure.os_error = ENOENT;
    failure.text = "it is not there";
    xfer_complete(side.backend, &xfer->request, &failure);
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_NOT_FOUND);
    assert_words(nixl_xfer_error(xfer), "NIXL_ERR_NOT_FOUND: descriptor 2 (local 0x");
    assert_words(nixl_xfer_error(xfer),
                 "10 bytes): backend NOOP: it is not there (No such file or directory)");
    assert_int_equal(nixl_xfer_failure(xfer, &info), NIXL_ERR_NOT_FOUND);
    assert_int_equal(info.index, 2);
    assert_int_equal(info.os_error, ENOENT);
    assert_int_equal(info.bytes_done, 20);
    end(&side, xfer);
}

static void place_that_is_none_is_left_out(void **state) {
    static const struct {
        size_t run;
        uint64_t block;
    } places[] = {{NIXL_NO_INDEX, 0}, {1, 0}, {0, 3}};

    for (size_t i = 0; i < 3; i++) {
        struct nixl_failure failure = NIXL_FAILURE_INIT;
        struct nixl_failure_info info = NIXL_FAILURE_INFO_INIT;
        struct side_of_test side;
        struct nixl_xfer *xfer = begin(&side);

        failure.run = places[i].run;
        failure.block = places[i].block;
        xfer_complete(side.backend, &xfer->request, &failure);
        assert_string_equal(nixl_xfer_error(xfer), "NIXL_ERR_BACKEND: backend NOOP: no cause was given");
        assert_int_equal(nixl_xfer_failure(xfer, &info), NIXL_ERR_BACKEND);
        assert_int_equal(info.index, NIXL_NO_INDEX);
        end(&side, xfer);
    }
}

static void status_that_is_no_failure_becomes_one(void **state) {
    static const int statuses[] = {NIXL_SUCCESS, NIXL_IN_PROG, -77};

    for (size_t i = 0; i < 3; i++) {
        struct nixl_failure failure = NIXL_FAILURE_INIT;
        struct side_of_test side;
        struct nixl_xfer *xfer = begin(&side);

        failure.status = (nixl_status_t)statuses[i];
        xfer_complete(side.backend, &xfer->request, &failure);
        assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_BACKEND);
        end(&side, xfer);
    }
}

static void cancel_that_nobody_asked_for_keeps_the_backends_words(void **state) {
    struct nixl_failure failure = NIXL_FAILURE_INIT;
    struct side_of_test side;
    struct nixl_xfer *xfer = begin(&side);

    failure.status = NIXL_ERR_CANCELED;
    failure.text = "the connection was torn down for another transfer's deadline";
    xfer_complete(side.backend, &xfer->request, &failure);
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_CANCELED);
    assert_words(nixl_xfer_error(xfer), "another transfer's deadline");
    end(&side, xfer);
}

static void failure_of_a_shorter_struct_has_the_defaults_beyond(void **state) {
    struct nixl_failure failure = NIXL_FAILURE_INIT;
    struct nixl_failure_info info = {offsetof(struct nixl_failure_info, index), NIXL_SUCCESS, 7, 99, 98};
    struct side_of_test side;
    struct nixl_xfer *xfer = begin(&side);

    failure.size = offsetof(struct nixl_failure, run);
    failure.run = 0;
    failure.bytes_done = 55;
    xfer_complete(side.backend, &xfer->request, &failure);
    assert_int_equal(nixl_xfer_failure(xfer, &info), NIXL_ERR_BACKEND);
    assert_int_equal(info.status, NIXL_ERR_BACKEND);
    assert_int_equal(info.os_error, 0);
    assert_int_equal(info.index, 99); /* beyond the caller's struct: untouched */
    info = (struct nixl_failure_info)NIXL_FAILURE_INFO_INIT;
    assert_int_equal(nixl_xfer_failure(xfer, &info), NIXL_ERR_BACKEND);
    assert_int_equal(info.index, NIXL_NO_INDEX);
    assert_int_equal(info.bytes_done, 0);
    end(&side, xfer);
}

static void second_completion_is_ignored(void **state) {
    struct nixl_failure failure = NIXL_FAILURE_INIT;
    struct side_of_test side;
    struct nixl_xfer *xfer = begin(&side);

    log_set_level(LOG_LEVEL_FATAL);
    xfer_complete(side.backend, &xfer->request, NULL);
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_SUCCESS);
    xfer_complete(side.backend, &xfer->request, &failure);
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_SUCCESS);
    log_reset();
    end(&side, xfer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_within_a_run_is_told_as_the_users_descriptor),
        cmocka_unit_test(place_that_is_none_is_left_out),
        cmocka_unit_test(status_that_is_no_failure_becomes_one),
        cmocka_unit_test(cancel_that_nobody_asked_for_keeps_the_backends_words),
        cmocka_unit_test(failure_of_a_shorter_struct_has_the_defaults_beyond),
        cmocka_unit_test(second_completion_is_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
