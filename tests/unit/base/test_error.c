/* SPDX-License-Identifier: Apache-2.0 */
/* The last failure's text. error.h comes first: cmocka has a macro called fail. */
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"

#include "support.h"

#include <errno.h>

#undef fail

static void a_fresh_thread(void *arg) {
    const char **seen = arg;

    *seen = error_text()[0] == '\0' ? "empty" : "not empty";
    (void)fail(NIXL_ERR_BACKEND, "of the other thread");
}

static void fail_sets_the_text_and_returns_the_status(void **state) {
    assert_int_equal(fail(NIXL_ERR_NOT_FOUND, "descriptor %d (%s)", 7, "x"), NIXL_ERR_NOT_FOUND);
    assert_string_equal(error_text(), "descriptor 7 (x)");
    assert_int_equal(fail(NIXL_ERR_MISMATCH, "short"), NIXL_ERR_MISMATCH);
    assert_string_equal(error_text(), "short");
    error_clear();
    assert_string_equal(error_text(), "");
}

static void each_thread_has_its_own_text(void **state) {
    struct thread thread;
    const char *seen = NULL;

    (void)fail(NIXL_ERR_UNKNOWN, "mine");
    assert_int_equal(thread_start(&thread, "other", a_fresh_thread, &seen), 0);
    thread_join(&thread);
    assert_string_equal(seen, "empty");
    assert_string_equal(error_text(), "mine");
}

static void the_old_text_may_be_an_argument_of_the_new_one(void **state) {
    (void)fail(NIXL_ERR_UNKNOWN, "inner");
    (void)fail(NIXL_ERR_UNKNOWN, "outer (%s)", error_text());
    assert_string_equal(error_text(), "outer (inner)");
    error_set(error_text() + 6);
    assert_string_equal(error_text(), "(inner)");
}

static void foreign_bytes_are_made_fit_for_a_terminal_and_a_string(void **state) {
    (void)fail(NIXL_ERR_MISMATCH, "peer %s is not known", "a\n\033[2J\x7f");
    assert_string_equal(error_text(), "peer a??[2J? is not known");
    (void)fail(NIXL_ERR_MISMATCH, "peer %s", "\xff\xc3");
    assert_string_equal(error_text(), "peer ??");
    (void)fail(NIXL_ERR_MISMATCH, "peer %s", "na\xc3\xafve");
    assert_string_equal(error_text(), "peer na\xc3\xafve");
}

static void context_goes_before_and_behind(void **state) {
    error_clear();
    error_prefix("backend %s", "UCX");
    assert_string_equal(error_text(), "backend UCX");
    (void)fail(NIXL_ERR_UNKNOWN, "no such peer");
    error_prefix("post to %d", 5);
    error_append("; tried %s", "twice");
    assert_string_equal(error_text(), "post to 5: no such peer; tried twice");
    error_set(NULL);
    assert_string_equal(error_text(), "");
}

static void a_long_text_is_cut_with_dots(void **state) {
    char text[3000];

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    (void)fail(NIXL_ERR_UNKNOWN, "%s", text);
    assert_int_equal(strlen(error_text()), ERROR_TEXT_SIZE - 1);
    assert_string_equal(error_text() + ERROR_TEXT_SIZE - 5, "x...");
    error_prefix("context");
    assert_int_equal(strlen(error_text()), ERROR_TEXT_SIZE - 1);
    assert_memory_equal(error_text(), "context: xxx", 12);
    assert_string_equal(error_text() + ERROR_TEXT_SIZE - 5, "x...");
    error_append("%s", text);
    assert_string_equal(error_text() + ERROR_TEXT_SIZE - 4, "...");
    text[ERROR_TEXT_SIZE - 1] = '\0'; /* exactly as long as fits: no dots */
    (void)fail(NIXL_ERR_UNKNOWN, "%s", text);
    assert_string_equal(error_text(), text);
}

static void a_cut_leaves_whole_utf8_characters(void **state) {
    char text[3001] = "";

    for (size_t i = 0; i < 1000; i++) {
        memcpy(text + 3 * i, "\xe2\x82\xac", 3);
    }
    (void)fail(NIXL_ERR_UNKNOWN, "%s", text); /* 340 whole characters are 1020 bytes, + 3 dots = 1023 */
    assert_int_equal(strlen(error_text()), 1023);
    (void)fail(NIXL_ERR_UNKNOWN, "-%s", text); /* one byte more in front: 339 fit */
    assert_int_equal(strlen(error_text()), 1 + 339 * 3 + 3);
    assert_string_equal(error_text() + 1 + 338 * 3, "\xe2\x82\xac...");
}

static void errno_is_put_in_words(void **state) {
    assert_int_equal(fail_errno(NIXL_ERR_BACKEND, ENOSPC, "write to %s", "/x"), NIXL_ERR_BACKEND);
    assert_string_equal(error_text(), "write to /x: No space left on device");
    assert_int_equal(fail_memory("a list", 4096), NIXL_ERR_BACKEND);
    assert_string_equal(error_text(), "out of memory for a list (4096 bytes)");
    (void)fail_memory("a list", 0);
    assert_string_equal(error_text(), "out of memory for a list");
}

static void statuses_have_names(void **state) {
    assert_string_equal(error_status_name(NIXL_SUCCESS), "NIXL_SUCCESS");
    assert_string_equal(error_status_name(NIXL_IN_PROG), "NIXL_IN_PROG");
    assert_string_equal(error_status_name((nixl_status_t)-4), "NIXL_ERR_NOT_FOUND");
    assert_string_equal(error_status_name((nixl_status_t)-12), "NIXL_ERR_NO_TELEMETRY");
    assert_string_equal(error_status_name((nixl_status_t)-13), "unknown status");
    for (int status = 1; status >= -12; status--) {
        assert_memory_equal(error_status_name((nixl_status_t)status), "NIXL_", 5);
    }
}

static void keep_line(int level, const char *line, void *ctx) {
    snprintf(ctx, 400, "%d %s", level, line);
}

static void failures_are_logged_at_debug_only(void **state) {
    char line[400] = "";

    log_set_sink(keep_line, line);
    log_set_level(LOG_LEVEL_INFO);
    (void)fail(NIXL_ERR_NOT_FOUND, "quiet");
    assert_string_equal(line, "");
    log_set_level(LOG_LEVEL_DEBUG);
    (void)fail(NIXL_ERR_NOT_FOUND, "loud");
    assert_non_null(strstr(line, "1 D"));
    assert_non_null(strstr(line, "] NIXL_ERR_NOT_FOUND: loud\n"));
    log_reset();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(fail_sets_the_text_and_returns_the_status),
        TEST(each_thread_has_its_own_text),
        TEST(the_old_text_may_be_an_argument_of_the_new_one),
        TEST(foreign_bytes_are_made_fit_for_a_terminal_and_a_string),
        TEST(context_goes_before_and_behind),
        TEST(a_long_text_is_cut_with_dots),
        TEST(a_cut_leaves_whole_utf8_characters),
        TEST(errno_is_put_in_words),
        TEST(statuses_have_names),
        TEST(failures_are_logged_at_debug_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
