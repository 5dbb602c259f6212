/* SPDX-License-Identifier: Apache-2.0 */
/* Which plugins there are, by the names of files alone. */
#include "support.h"

static void names_are_found_sorted_and_everything_else_is_passed_over(void **state) {
    char *dir = plugin_dir_make();
    struct nixl_names *names;

    temp_write(dir, "libplugin_UCX.so", "");
    temp_write(dir, "libplugin_POSIX.so", "text is found too: nothing is opened");
    temp_write(dir, "libplugin_.so", "");
    temp_write(dir, "libplugin_OLD.so.1", "");
    temp_write(dir, "plugin_X.so", "");
    temp_write(dir, "libtelemetry_exporter_y.so", "");
    temp_write(dir, "libplugin_FOLDER.so/inside", "");
    assert_int_equal(plugin_list(&names), NIXL_SUCCESS);
    assert_int_equal(names->count, 2);
    assert_string_equal(names->items[0], "POSIX");
    assert_string_equal(names->items[1], "UCX");
    free(names);
    plugin_dir_remove(dir);
}

static void a_link_counts_as_what_it_leads_to(void **state) {
    char *dir = plugin_dir_make();
    char link[PATH_MAX];
    struct nixl_names *names;

    temp_write(dir, "real", "");
    snprintf(link, sizeof link, "%s/libplugin_LINK.so", dir);
    assert_int_equal(symlink("real", link), 0);
    snprintf(link, sizeof link, "%s/libplugin_DANGLING.so", dir);
    assert_int_equal(symlink("nowhere", link), 0);
    assert_int_equal(plugin_list(&names), NIXL_SUCCESS);
    assert_int_equal(names->count, 1);
    assert_string_equal(names->items[0], "LINK");
    free(names);
    plugin_dir_remove(dir);
}

static void a_folder_that_is_not_there_has_no_plugins(void **state) {
    struct nixl_names *names;

    setenv("NIXL_PLUGIN_DIR", "/nonexistent/plugins", 1);
    assert_int_equal(plugin_list(&names), NIXL_SUCCESS);
    assert_int_equal(names->count, 0);
    free(names);
    setenv("NIXL_PLUGIN_DIR", "/dev/null", 1);
    assert_int_equal(plugin_list(&names), NIXL_SUCCESS);
    assert_int_equal(names->count, 0);
    free(names);
    unsetenv("NIXL_PLUGIN_DIR");
}

static void the_default_folder_stands_beside_the_library(void **state) {
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *folder;
    char *slash;
    char *there;
    char *expected;

    assert_true(n > 0);
    self[n] = '\0';
    slash = strrchr(self, '/');
    strcpy(slash, "/plugins");
    unsetenv("NIXL_PLUGIN_DIR");
    assert_int_equal(plugin_folder(&folder), NIXL_SUCCESS);
    /* This program holds the library's objects. The loader knows it by the path it was called with. */
    slash = strrchr(folder, '/');
    assert_string_equal(slash, "/plugins");
    *slash = '\0';
    *strrchr(self, '/') = '\0';
    there = realpath(folder, NULL);
    expected = realpath(self, NULL);
    assert_string_equal(there, expected);
    free(there);
    free(expected);
    free(folder);
}

static void an_empty_setting_means_the_default(void **state) {
    char *named;
    char *plain;

    unsetenv("NIXL_PLUGIN_DIR");
    assert_int_equal(plugin_folder(&plain), NIXL_SUCCESS);
    setenv("NIXL_PLUGIN_DIR", "", 1);
    assert_int_equal(plugin_folder(&named), NIXL_SUCCESS);
    assert_string_equal(named, plain);
    free(named);
    free(plain);
    unsetenv("NIXL_PLUGIN_DIR");
}

static void names_with_slashes_or_control_characters_are_no_names(void **state) {
    char longest[244]; /* 255 bytes of a file's name, less "libplugin_" and ".so" */

    assert_true(plugin_name_is_good("GDS_MT"));
    assert_false(plugin_name_is_good(""));
    assert_false(plugin_name_is_good("../etc/UCX"));
    assert_false(plugin_name_is_good("UC\nX"));
    memset(longest, 'a', sizeof longest);
    longest[243] = '\0';
    assert_false(plugin_name_is_good(longest));
    longest[242] = '\0';
    assert_true(plugin_name_is_good(longest));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(names_are_found_sorted_and_everything_else_is_passed_over),
        TEST(a_link_counts_as_what_it_leads_to),
        TEST(a_folder_that_is_not_there_has_no_plugins),
        TEST(the_default_folder_stands_beside_the_library),
        TEST(an_empty_setting_means_the_default),
        TEST(names_with_slashes_or_control_characters_are_no_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
