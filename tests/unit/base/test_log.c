/* SPDX-License-Identifier: Apache-2.0 */
/* Log levels, the form of a line, one write a line. Real lines are read back through a pipe put in stderr's
 * place. */
#include "base/log.h"

#include "support.h"

#include "base/thread.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <time.h>

static char kept[8192];
static int kept_count;
static int kept_level;

static void keep(int level, const char *line, void *ctx) {
    kept_count++;
    kept_level = level;
    snprintf(kept, sizeof kept, "%s", line);
}

static int setup(void **state) {
    unsetenv("NIXL_LOG_LEVEL");
    log_reset();
    log_set_sink(keep, NULL);
    kept[0] = '\0';
    kept_count = 0;
    return 0;
}

static int teardown(void **state) {
    unsetenv("NIXL_LOG_LEVEL");
    log_reset();
    return 0;
}

static void the_default_level_is_warn(void **state) {
    assert_false(log_enabled(LOG_LEVEL_TRACE));
    assert_false(log_enabled(LOG_LEVEL_DEBUG));
    assert_false(log_enabled(LOG_LEVEL_INFO));
    assert_true(log_enabled(LOG_LEVEL_WARN));
    assert_true(log_enabled(LOG_LEVEL_ERROR));
    assert_true(log_enabled(LOG_LEVEL_FATAL));
    assert_int_equal(kept_count, 0);
}

static void the_environment_sets_the_level_in_any_case(void **state) {
    setenv("NIXL_LOG_LEVEL", "debug", 1);
    assert_true(log_enabled(LOG_LEVEL_DEBUG));
    assert_false(log_enabled(LOG_LEVEL_TRACE));
    setenv("NIXL_LOG_LEVEL", "TRACE", 1); /* read once only */
    assert_false(log_enabled(LOG_LEVEL_TRACE));
    log_reset();
    assert_true(log_enabled(LOG_LEVEL_TRACE));
    log_reset();
    setenv("NIXL_LOG_LEVEL", "Fatal", 1);
    assert_false(log_enabled(LOG_LEVEL_ERROR));
    assert_true(log_enabled(LOG_LEVEL_FATAL));
}

static void an_unknown_level_is_said_once(void **state) {
    setenv("NIXL_LOG_LEVEL", "LOUD", 1);
    assert_true(log_enabled(LOG_LEVEL_WARN));
    assert_false(log_enabled(LOG_LEVEL_INFO));
    assert_int_equal(kept_count, 1);
    assert_int_equal(kept_level, LOG_LEVEL_WARN);
    assert_non_null(
        strstr(kept, "NIXL_LOG_LEVEL is \"LOUD\": expected TRACE, DEBUG, INFO, WARN, ERROR or FATAL"));
}

static void an_empty_level_is_no_level(void **state) {
    setenv("NIXL_LOG_LEVEL", "", 1);
    assert_true(log_enabled(LOG_LEVEL_WARN));
    assert_int_equal(kept_count, 0);
}

static void macros_write_from_their_level_up(void **state) {
    log_set_level(LOG_LEVEL_INFO);
    log_trace("no");
    log_debug("no");
    assert_int_equal(kept_count, 0);
    log_info("a");
    log_warn("b");
    log_error("c");
    assert_int_equal(kept_count, 3);
    assert_int_equal(kept_level, LOG_LEVEL_ERROR);
}

/* "W1201 04:50:09.123456 12345 peer.c:42] text" */
static void a_line_has_the_documented_form(void **state) {
    time_t before = time(NULL);
    char expected[64];
    struct tm tm;
    unsigned micro;
    long tid;
    int number;
    char day[8];
    char clock[16];
    char file[64];
    char text[64];

    log_write(LOG_LEVEL_WARN, "some/where/peer.c", 42, "value %d", 5);
    assert_int_equal(sscanf(kept, "%7s %8[0-9:].%6u %ld %63[^:]:%d] %63[^\n]", day, clock, &micro, &tid, file,
                            &number, text),
                     7);
    assert_string_equal(file, "peer.c");
    assert_int_equal(number, 42);
    assert_string_equal(text, "value 5");
    assert_int_equal(tid, gettid());
    assert_int_equal(kept[strlen(kept) - 1], '\n');
    /* The C library's own idea of local time; time() may lag behind the precise clock by a tick. */
    for (time_t t = before; t <= time(NULL) + 1; t++) {
        localtime_r(&t, &tm);
        strftime(expected, sizeof expected, "W%m%d %H:%M:%S", &tm);
        if (strncmp(kept, expected, strlen(expected)) == 0) {
            return;
        }
    }
    print_message("%s", kept);
    fail_msg("the time of the line is not the local time");
}

static void the_level_letter_stands_first(void **state) {
    const char *letters = "TDIWEF";

    for (int level = 0; level <= 5; level++) {
        log_write(level, __FILE__, 1, "x");
        assert_int_equal(kept[0], letters[level]);
    }
    log_write(99, NULL, 1, "x");
    assert_int_equal(kept[0], 'F');
    assert_non_null(strstr(kept, " ?:1] x\n"));
}

static void control_characters_cannot_forge_a_line(void **state) {
    log_write(LOG_LEVEL_WARN, "a.c", 1, "one\ntwo\x1b[2J\x7f \xc3\xa4");
    assert_non_null(strstr(kept, "] one\\x0atwo\\x1b[2J\\x7f \xc3\xa4\n"));
}

static void a_long_text_is_cut(void **state) {
    char *text = malloc(20000);

    memset(text, 'y', 19999);
    text[19999] = '\0';
    log_write(LOG_LEVEL_WARN, "a.c", 1, "%s", text);
    assert_true(strlen(kept) < 4096);
    assert_string_equal(kept + strlen(kept) - 5, "y...\n");
    memset(text, '\n', 19999); /* four characters each */
    log_write(LOG_LEVEL_WARN, "a.c", 1, "%s", text);
    assert_true(strlen(kept) < 4096);
    assert_string_equal(kept + strlen(kept) - 5, "a...\n");
    free(text);
}

static void errno_survives_a_line(void **state) {
    errno = ENOTTY;
    log_write(LOG_LEVEL_WARN, "a.c", 1, "x");
    assert_int_equal(errno, ENOTTY);
}

/* Runs with stderr as the writing end of a pipe that keeps packets apart, so that each write(2) shows. */
static void on_stderr_a_line_is_one_write(void **state) {
    int ends[2];
    int saved;
    char packet[4096];
    ssize_t n;

    log_set_sink(NULL, NULL);
    assert_int_equal(pipe2(ends, O_DIRECT | O_NONBLOCK), 0);
    saved = dup(STDERR_FILENO);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    log_warn("first %d", 1);
    log_warn("second");
    log_info("not this");
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
    n = read(ends[0], packet, sizeof packet);
    assert_true(n > 0);
    assert_memory_equal(packet + n - 10, "] first 1\n", 10);
    n = read(ends[0], packet, sizeof packet);
    assert_true(n > 0);
    assert_memory_equal(packet + n - 9, "] second\n", 9);
    assert_int_equal(read(ends[0], packet, sizeof packet), -1);
    close(ends[0]);
    close(ends[1]);
}

static void a_closed_stderr_harms_nobody(void **state) {
    int saved = dup(STDERR_FILENO);

    log_set_sink(NULL, NULL);
    close(STDERR_FILENO);
    log_warn("nobody reads this");
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
}

static int total;

static void count(int level, const char *line, void *ctx) {
    total++; /* unguarded: the sink's lock must do */
}

static void write_many(void *arg) {
    for (int i = 0; i < 500; i++) {
        log_warn("%d", i);
    }
}

static void threads_share_a_sink_safely(void **state) {
    struct thread threads[3];

    total = 0;
    log_set_sink(count, NULL);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(thread_start(&threads[i], "log", write_many, NULL), 0);
    }
    for (size_t i = 0; i < 3; i++) {
        thread_join(&threads[i]);
    }
    assert_int_equal(total, 1500);
}

static void secrets_are_hidden_by_their_name(void **state) {
    assert_string_equal(log_redact("NIXL_LOG_LEVEL", "INFO"), "INFO");
    assert_string_equal(log_redact("bucket", "b1"), "b1");
    assert_string_equal(log_redact("secret_key", "s3cr3t"), "(hidden)");
    assert_string_equal(log_redact("AWS_SECRET_ACCESS_KEY", "s3cr3t"), "(hidden)");
    assert_string_equal(log_redact("session_Token", "s3cr3t"), "(hidden)");
    assert_string_equal(log_redact("AZURE_STORAGE_CONNECTION_STRING", "s3cr3t"), "(hidden)");
    assert_string_equal(log_redact("etcd_password", ""), "(hidden)");
    assert_string_equal(log_redact("anything", NULL), "(unset)");
    assert_string_equal(log_redact("key", NULL), "(unset)");
}

#define LOG_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        LOG_TEST(the_default_level_is_warn),
        LOG_TEST(the_environment_sets_the_level_in_any_case),
        LOG_TEST(an_unknown_level_is_said_once),
        LOG_TEST(an_empty_level_is_no_level),
        LOG_TEST(macros_write_from_their_level_up),
        LOG_TEST(a_line_has_the_documented_form),
        LOG_TEST(the_level_letter_stands_first),
        LOG_TEST(control_characters_cannot_forge_a_line),
        LOG_TEST(a_long_text_is_cut),
        LOG_TEST(errno_survives_a_line),
        LOG_TEST(on_stderr_a_line_is_one_write),
        LOG_TEST(a_closed_stderr_harms_nobody),
        LOG_TEST(threads_share_a_sink_safely),
        LOG_TEST(secrets_are_hidden_by_their_name),
    };

    setenv("TZ", "IST-5:30", 1); /* an offset that is no whole hour; this form needs no zone files */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
