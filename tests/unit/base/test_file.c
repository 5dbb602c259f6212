/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded reading and sorted listings. */
#include "support.h"

#include "base/file.h"

#include <errno.h>

static void path_in(char *out, const char *dir, const char *name) {
    snprintf(out, PATH_MAX, "%s/%s", dir, name);
}

static void a_file_is_read_whole_and_terminated(void **state) {
    char *dir = temp_dir();
    char path[PATH_MAX];
    char big[5001];
    char *data;
    size_t len;

    memset(big, 'x', 5000);
    big[5000] = '\0';
    temp_write(dir, "big", big);
    path_in(path, dir, "big");
    assert_int_equal(file_read(path, 5000, &data, &len), 0);
    assert_int_equal(len, 5000);
    assert_string_equal(data, big);
    free(data);
    temp_write(dir, "empty", "");
    path_in(path, dir, "empty");
    assert_int_equal(file_read(path, 0, &data, &len), 0);
    assert_int_equal(len, 0);
    assert_string_equal(data, "");
    free(data);
    temp_remove(dir);
}

static void a_file_over_the_limit_is_refused(void **state) {
    char *dir = temp_dir();
    char path[PATH_MAX];
    char *data = path;
    size_t len = 77;

    temp_write(dir, "f", "123456");
    path_in(path, dir, "f");
    assert_int_equal(file_read(path, 5, &data, &len), EFBIG);
    assert_int_equal(file_read("/proc/self/status", 5, &data, &len), EFBIG); /* tells no size beforehand */
    assert_int_equal(file_read("/dev/zero", 100000, &data, &len), EFBIG);
    assert_ptr_equal(data, path);
    assert_int_equal(len, 77);
    temp_remove(dir);
}

static void pseudo_files_are_read_to_their_end(void **state) {
    char *data;
    size_t len;

    assert_int_equal(file_read("/proc/self/status", 1 << 20, &data, &len), 0);
    assert_non_null(strstr(data, "Pid:"));
    assert_int_equal(strlen(data), len);
    free(data);
}

static void what_is_no_file_gives_its_errno(void **state) {
    char *data = NULL;
    size_t len;

    assert_int_equal(file_read("/nowhere/at/all", 10, &data, &len), ENOENT);
    assert_int_equal(file_read("/", 10, &data, &len), EISDIR);
    assert_null(data);
}

static void a_listing_is_sorted_and_has_no_dots(void **state) {
    char *dir = temp_dir();
    char **names;
    size_t count;

    assert_int_equal(file_list(dir, &names, &count), 0);
    assert_int_equal(count, 0);
    file_list_free(names, count);
    temp_write(dir, "b", "");
    temp_write(dir, "a10", "");
    temp_write(dir, "sub/x", "");
    temp_write(dir, ".hidden", "");
    temp_write(dir, "a9", "");
    assert_int_equal(file_list(dir, &names, &count), 0);
    assert_int_equal(count, 5);
    assert_string_equal(names[0], ".hidden");
    assert_string_equal(names[1], "a10");
    assert_string_equal(names[2], "a9");
    assert_string_equal(names[3], "b");
    assert_string_equal(names[4], "sub");
    file_list_free(names, count);
    assert_int_equal(file_list("/nowhere/at/all", &names, &count), ENOENT);
    temp_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_file_is_read_whole_and_terminated), TEST(a_file_over_the_limit_is_refused),
        TEST(pseudo_files_are_read_to_their_end),  TEST(what_is_no_file_gives_its_errno),
        TEST(a_listing_is_sorted_and_has_no_dots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
