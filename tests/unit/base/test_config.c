/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: environment before file, which file, strict types, words that name the place. */
#include "base/config.h"
#include "base/error.h"
#include "base/log.h"

#include "support.h"

#include "base/thread.h"

static char *dir;
static char warned[4096];

static void keep(int level, const char *line, void *ctx) {
    snprintf(warned, sizeof warned, "%s", line);
}

static int setup(void **state) {
    static const char *const names[] = {"NIXL_CONFIG_FILE", "NIXL_T", "NIXL_T_KEY", "a.b"};

    dir = temp_dir();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
    setenv("HOME", dir, 1);
    log_set_sink(keep, NULL);
    warned[0] = '\0';
    error_clear();
    config_reload();
    return 0;
}

static int teardown(void **state) {
    config_reload();
    temp_remove(dir);
    log_reset();
    return 0;
}

/* Puts `text` into the home folder's file. */
static void home_file(const char *text) {
    temp_write(dir, ".nixl.cfg", text);
    config_reload();
}

/* The message must be exactly this, with %s for the home folder. */
static void check_error(const char *fmt) {
    char expected[ERROR_TEXT_SIZE];

    snprintf(expected, sizeof expected, fmt, dir);
    assert_string_equal(error_text(), expected);
}

static void what_is_set_nowhere_is_the_fallback(void **state) {
    bool b = false;
    int64_t i = 0;
    uint64_t u = 0;
    uint64_t ms = 0;
    char *s = NULL;
    char *where = warned;

    assert_int_equal(config_get_bool("NIXL_T", true, &b), NIXL_SUCCESS);
    assert_true(b);
    assert_int_equal(config_get_int("NIXL_T", -5, &i), NIXL_SUCCESS);
    assert_true(i == -5);
    assert_int_equal(config_get_uint("NIXL_T", 7, &u), NIXL_SUCCESS);
    assert_true(u == 7);
    assert_int_equal(config_get_duration_ms("NIXL_T", 30000, &ms), NIXL_SUCCESS);
    assert_true(ms == 30000);
    assert_int_equal(config_get_string("NIXL_T", "x", &s), NIXL_SUCCESS);
    assert_string_equal(s, "x");
    free(s);
    assert_int_equal(config_get_string("NIXL_T", NULL, &s), NIXL_SUCCESS);
    assert_null(s);
    s = warned;
    assert_int_equal(config_get_raw("NIXL_T", &s, &where), NIXL_SUCCESS);
    assert_null(s);
    assert_null(where);
    assert_false(config_has("NIXL_T"));
    assert_string_equal(warned, "");
}

static void the_environment_goes_before_the_file(void **state) {
    int64_t i = 0;
    char *s = NULL;
    char *where = NULL;

    home_file("NIXL_T = 1\n");
    assert_int_equal(config_get_int("NIXL_T", 0, &i), NIXL_SUCCESS);
    assert_true(i == 1);
    setenv("NIXL_T", "-2", 1);
    assert_int_equal(config_get_int("NIXL_T", 0, &i), NIXL_SUCCESS);
    assert_true(i == -2);
    assert_int_equal(config_get_raw("NIXL_T", &s, &where), NIXL_SUCCESS);
    assert_string_equal(s, "-2");
    assert_string_equal(where, "environment variable NIXL_T");
    assert_true(config_has("NIXL_T"));
    free(s);
    free(where);
}

static void every_type_comes_from_the_environment(void **state) {
    bool b = true;
    uint64_t u = 0;
    char *s = NULL;

    setenv("NIXL_T", "Off", 1);
    assert_int_equal(config_get_bool("NIXL_T", true, &b), NIXL_SUCCESS);
    assert_false(b);
    setenv("NIXL_T", "0x10", 1);
    assert_int_equal(config_get_uint("NIXL_T", 0, &u), NIXL_SUCCESS);
    assert_true(u == 16);
    setenv("NIXL_T", "1.5s", 1);
    assert_int_equal(config_get_duration_ms("NIXL_T", 0, &u), NIXL_SUCCESS);
    assert_true(u == 1500);
    setenv("NIXL_T", "250", 1);
    assert_int_equal(config_get_duration_ms("NIXL_T", 0, &u), NIXL_SUCCESS);
    assert_true(u == 250);
    setenv("NIXL_T", "1us", 1); /* rounded up, so that it does not become "no limit" */
    assert_int_equal(config_get_duration_ms("NIXL_T", 0, &u), NIXL_SUCCESS);
    assert_true(u == 1);
    setenv("NIXL_T", "18446744073709551615", 1);
    assert_int_equal(config_get_duration_ms("NIXL_T", 0, &u), NIXL_SUCCESS);
    assert_true(u == UINT64_MAX);
    setenv("NIXL_T", "", 1);
    assert_int_equal(config_get_string("NIXL_T", "x", &s), NIXL_SUCCESS);
    assert_string_equal(s, ""); /* set but empty is set */
    free(s);
}

static void a_bad_variable_is_an_error_whatever_the_fallback(void **state) {
    bool b = true;
    int64_t i = 3;
    uint64_t u = 3;

    setenv("NIXL_T", "maybe", 1);
    assert_int_equal(config_get_bool("NIXL_T", true, &b), NIXL_ERR_INVALID_PARAM);
    check_error("environment variable NIXL_T is \"maybe\": expected true or false (y yes on 1 true enable, n "
                "no off 0 "
                "false disable)");
    assert_int_equal(config_get_int("NIXL_T", 0, &i), NIXL_ERR_INVALID_PARAM);
    check_error("environment variable NIXL_T is \"maybe\": expected an integer");
    assert_int_equal(config_get_duration_ms("NIXL_T", 0, &u), NIXL_ERR_INVALID_PARAM);
    check_error("environment variable NIXL_T is \"maybe\": expected a time in milliseconds, or with a unit "
                "(ns us ms s m h)");
    setenv("NIXL_T", "-1", 1);
    assert_int_equal(config_get_uint("NIXL_T", 0, &u), NIXL_ERR_INVALID_PARAM);
    check_error("environment variable NIXL_T is \"-1\": expected an integer that is not negative");
    setenv("NIXL_T", "", 1);
    assert_int_equal(config_get_int("NIXL_T", 0, &i), NIXL_ERR_INVALID_PARAM);
    check_error("environment variable NIXL_T is \"\": expected an integer");
    setenv("NIXL_T", "9223372036854775808", 1);
    assert_int_equal(config_get_int("NIXL_T", 0, &i), NIXL_ERR_INVALID_PARAM);
    check_error("environment variable NIXL_T is \"9223372036854775808\", which is out of range: expected an "
                "integer of 64 bits");
    assert_true(b);
    assert_true(i == 3);
    assert_true(u == 3);
}

static void a_range_is_kept(void **state) {
    uint64_t u = 3;

    setenv("NIXL_T", "10", 1);
    assert_int_equal(config_get_uint_range("NIXL_T", 1, 1, 10, &u), NIXL_SUCCESS);
    assert_true(u == 10);
    setenv("NIXL_T", "11", 1);
    assert_int_equal(config_get_uint_range("NIXL_T", 1, 1, 10, &u), NIXL_ERR_INVALID_PARAM);
    check_error("environment variable NIXL_T is \"11\", which is out of range: expected 1 to 10");
    setenv("NIXL_T", "0", 1);
    assert_int_equal(config_get_uint_range("NIXL_T", 1, 1, 10, &u), NIXL_ERR_INVALID_PARAM);
    setenv("NIXL_T", "99999999999999999999", 1);
    assert_int_equal(config_get_uint_range("NIXL_T", 1, 1, 10, &u), NIXL_ERR_INVALID_PARAM);
    unsetenv("NIXL_T");
    home_file("\nNIXL_T = 11");
    assert_int_equal(config_get_uint_range("NIXL_T", 1, 1, 10, &u), NIXL_ERR_INVALID_PARAM);
    check_error("%s/.nixl.cfg:2: NIXL_T is 11, which is out of range: expected 1 to 10");
    assert_true(u == 10);
}

static void a_secret_is_not_in_the_message(void **state) {
    int64_t i = 0;

    setenv("NIXL_T_KEY", "hunter2", 1);
    assert_int_equal(config_get_int("NIXL_T_KEY", 0, &i), NIXL_ERR_INVALID_PARAM);
    check_error("environment variable NIXL_T_KEY is not valid (value hidden): expected an integer");
    unsetenv("NIXL_T_KEY");
    home_file("NIXL_T_KEY = 'hunter2'");
    assert_int_equal(config_get_int("NIXL_T_KEY", 0, &i), NIXL_ERR_INVALID_PARAM);
    check_error("%s/.nixl.cfg:1: NIXL_T_KEY is a string: expected an integer");
}

static void every_type_comes_from_the_file(void **state) {
    bool b = false;
    int64_t i = 0;
    uint64_t u = 0;
    char *s = NULL;
    char *where = NULL;
    char expected[PATH_MAX + 32];

    home_file("b = true\ni = -5\nu = 0x10\nms = 250\nt = \"1.5s\"\nf = 0.5\ns = 'text'\nd = "
              "1979-05-27\n[a]\nb = 'nested'\n");
    assert_int_equal(config_get_bool("b", false, &b), NIXL_SUCCESS);
    assert_true(b);
    assert_int_equal(config_get_int("i", 0, &i), NIXL_SUCCESS);
    assert_true(i == -5);
    assert_int_equal(config_get_uint("u", 0, &u), NIXL_SUCCESS);
    assert_true(u == 16);
    assert_int_equal(config_get_duration_ms("ms", 0, &u), NIXL_SUCCESS);
    assert_true(u == 250);
    assert_int_equal(config_get_duration_ms("t", 0, &u), NIXL_SUCCESS);
    assert_true(u == 1500);
    assert_int_equal(config_get_string("a.b", NULL, &s), NIXL_SUCCESS);
    assert_string_equal(s, "nested");
    free(s);
    assert_int_equal(config_get_raw("i", &s, &where), NIXL_SUCCESS);
    snprintf(expected, sizeof expected, "%s/.nixl.cfg:2: i", dir);
    assert_string_equal(s, "-5");
    assert_string_equal(where, expected);
    free(s);
    free(where);
    assert_int_equal(config_get_raw("f", &s, NULL), NIXL_SUCCESS);
    assert_string_equal(s, "0.5");
    free(s);
    assert_int_equal(config_get_raw("b", &s, NULL), NIXL_SUCCESS);
    assert_string_equal(s, "true");
    free(s);
    assert_int_equal(config_get_raw("d", &s, NULL), NIXL_SUCCESS);
    assert_string_equal(s, "1979-05-27");
    free(s);
    assert_true(config_has("a.b"));
    assert_false(config_has("a.c"));
}

static void types_of_the_file_are_strict(void **state) {
    bool b = true;
    int64_t i = 3;
    uint64_t u = 3;
    char *s = warned;

    home_file("one = 1\nfive = \"5\"\nyes = 'yes'\nminus = -1\nhalf = 0.5\nlist = [1]\n[table]\n");
    assert_int_equal(config_get_bool("one", true, &b), NIXL_ERR_INVALID_PARAM);
    check_error("%s/.nixl.cfg:1: one is an integer: expected true or false");
    assert_int_equal(config_get_int("five", 0, &i), NIXL_ERR_INVALID_PARAM);
    check_error("%s/.nixl.cfg:2: five is the text \"5\": expected an integer");
    assert_int_equal(config_get_bool("yes", true, &b), NIXL_ERR_INVALID_PARAM);
    check_error("%s/.nixl.cfg:3: yes is the text \"yes\": expected true or false");
    assert_int_equal(config_get_uint("minus", 0, &u), NIXL_ERR_INVALID_PARAM);
    check_error("%s/.nixl.cfg:4: minus is -1, which is out of range: expected 0 to 18446744073709551615");
    assert_int_equal(config_get_duration_ms("minus", 0, &u), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(config_get_int("half", 0, &i), NIXL_ERR_INVALID_PARAM);
    check_error("%s/.nixl.cfg:5: half is a number with a fraction: expected an integer");
    assert_int_equal(config_get_string("one", "x", &s), NIXL_ERR_INVALID_PARAM);
    check_error("%s/.nixl.cfg:1: one is an integer: expected text in quotes");
    assert_int_equal(config_get_raw("list", &s, NULL), NIXL_ERR_INVALID_PARAM);
    check_error("%s/.nixl.cfg:6: list is an array: expected a single value");
    assert_int_equal(config_get_raw("table", &s, NULL), NIXL_ERR_INVALID_PARAM);
    assert_true(b);
    assert_true(i == 3);
    assert_true(u == 3);
    assert_ptr_equal(s, warned);
}

static void a_broken_file_fails_what_the_environment_does_not_answer(void **state) {
    int64_t i = 3;
    char *s = warned;

    home_file("fine = 1\nNIXL_T = = 2\n");
    assert_int_equal(config_get_int("fine", 0, &i), NIXL_ERR_INVALID_PARAM);
    check_error("%s/.nixl.cfg:2: expected a value (text stands in quotes), found \"=\"");
    assert_int_equal(config_get_string("other", "x", &s), NIXL_ERR_INVALID_PARAM);
    setenv("NIXL_T", "7", 1);
    assert_int_equal(config_get_int("NIXL_T", 0, &i), NIXL_SUCCESS);
    assert_true(i == 7);
    assert_false(config_has("fine"));
}

static void the_named_file_goes_before_the_home_folders(void **state) {
    char path[PATH_MAX];
    int64_t i = 0;
    char *file = NULL;

    home_file("NIXL_T = 1");
    assert_int_equal(config_get_int("NIXL_T", 0, &i), NIXL_SUCCESS);
    temp_write(dir, "named", "NIXL_T = 2");
    snprintf(path, sizeof path, "%s/named", dir);
    setenv("NIXL_CONFIG_FILE", path, 1);
    assert_int_equal(config_get_int("NIXL_T", 0, &i), NIXL_SUCCESS);
    assert_true(i == 1); /* read once */
    config_reload();
    assert_int_equal(config_get_int("NIXL_T", 0, &i), NIXL_SUCCESS);
    assert_true(i == 2);
    assert_int_equal(config_file(&file), NIXL_SUCCESS);
    assert_string_equal(file, path);
    free(file);
    assert_string_equal(warned, "");
}

static void a_named_file_that_is_missing_is_said_and_passed_over(void **state) {
    int64_t i = 0;

    temp_write(dir, ".nixl.cfg", "NIXL_T = 1");
    setenv("NIXL_CONFIG_FILE", "/nowhere/nixl.cfg", 1);
    config_reload();
    assert_int_equal(config_get_int("NIXL_T", 0, &i), NIXL_SUCCESS);
    assert_true(i == 1);
    assert_non_null(strstr(warned, "NIXL_CONFIG_FILE names /nowhere/nixl.cfg, which does not exist"));
}

static void a_broken_named_file_is_not_replaced_by_another(void **state) {
    char path[PATH_MAX];
    int64_t i = 3;

    temp_write(dir, ".nixl.cfg", "NIXL_T = 1");
    temp_write(dir, "named", "[");
    snprintf(path, sizeof path, "%s/named", dir);
    setenv("NIXL_CONFIG_FILE", path, 1);
    config_reload();
    assert_int_equal(config_get_int("NIXL_T", 0, &i), NIXL_ERR_INVALID_PARAM);
    assert_true(i == 3);
}

static void a_folder_in_the_files_place_is_an_error(void **state) {
    int64_t i = 3;

    setenv("NIXL_CONFIG_FILE", dir, 1);
    config_reload();
    assert_int_equal(config_get_int("NIXL_T", 0, &i), NIXL_ERR_BACKEND);
    check_error("cannot read configuration file %s: Is a directory");
}

static uint32_t go;

static void read_settings(void *arg) {
    bool *good = arg;

    while (__atomic_load_n(&go, __ATOMIC_ACQUIRE) == 0) {
        cpu_relax();
    }
    for (int round = 0; round < 200; round++) {
        int64_t i = 0;

        *good = *good && config_get_int("NIXL_T", 0, &i) == NIXL_SUCCESS && i == 5;
    }
}

static void threads_may_come_first_together(void **state) {
    struct thread threads[3];
    bool good[3] = {true, true, true};

    home_file("NIXL_T = 5");
    __atomic_store_n(&go, 0, __ATOMIC_RELAXED);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(thread_start(&threads[i], "config", read_settings, &good[i]), 0);
    }
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    for (size_t i = 0; i < 3; i++) {
        thread_join(&threads[i]);
        assert_true(good[i]);
    }
}

#define CONFIG_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CONFIG_TEST(what_is_set_nowhere_is_the_fallback),
        CONFIG_TEST(the_environment_goes_before_the_file),
        CONFIG_TEST(every_type_comes_from_the_environment),
        CONFIG_TEST(a_bad_variable_is_an_error_whatever_the_fallback),
        CONFIG_TEST(a_range_is_kept),
        CONFIG_TEST(a_secret_is_not_in_the_message),
        CONFIG_TEST(every_type_comes_from_the_file),
        CONFIG_TEST(types_of_the_file_are_strict),
        CONFIG_TEST(a_broken_file_fails_what_the_environment_does_not_answer),
        CONFIG_TEST(the_named_file_goes_before_the_home_folders),
        CONFIG_TEST(a_named_file_that_is_missing_is_said_and_passed_over),
        CONFIG_TEST(a_broken_named_file_is_not_replaced_by_another),
        CONFIG_TEST(a_folder_in_the_files_place_is_an_error),
        CONFIG_TEST(threads_may_come_first_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
