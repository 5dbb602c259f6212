/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins that are part of the library. This program holds NOOP, and BAD whose table is not one; GONE is named but not here. */
#include "support.h"

static struct nixl_backend_ops bad = {.abi = NIXL_BACKEND_ABI, .size = 16, .name = "BAD"};

const struct nixl_backend_ops *static_backend_BAD(void);
const struct nixl_backend_ops *static_backend_BAD(void) {
    return &bad;
}

static void a_builtin_plugin_is_opened_without_a_file(void **state) {
    char *dir = plugin_dir_make();
    struct plugin *first, *again;
    struct nixl_plugin_info *info;

    assert_int_equal(plugin_open("NOOP", &first), NIXL_SUCCESS);
    assert_int_equal(plugin_open("NOOP", &again), NIXL_SUCCESS);
    assert_ptr_equal(first, again);
    assert_null(first->file);
    assert_int_equal(plugin_describe(first, &info), NIXL_SUCCESS);
    assert_string_equal(info->name, "NOOP");
    assert_string_equal(info->path, "(static)");
    free(info);
    plugin_dir_remove(dir);
}

static void builtin_plugins_are_listed_among_the_files_once(void **state) {
    char *dir = plugin_dir_make();
    struct nixl_names *names;

    temp_write(dir, "libplugin_ALPHA.so", "");
    temp_write(dir, "libplugin_NOOP.so", "");
    temp_write(dir, "libplugin_ZETA.so", "");
    assert_int_equal(plugin_list(&names), NIXL_SUCCESS);
    assert_int_equal(names->count, 4);
    assert_string_equal(names->items[0], "ALPHA");
    assert_string_equal(names->items[1], "BAD");
    assert_string_equal(names->items[2], "NOOP");
    assert_string_equal(names->items[3], "ZETA");
    free(names);
    plugin_dir_remove(dir);
}

static void a_builtin_plugin_goes_before_a_file_of_its_name(void **state) {
    char *dir = plugin_dir_make();
    struct plugin *plugin;

    temp_write(dir, "libplugin_NOOP.so", "no object at all");
    assert_int_equal(plugin_open("NOOP", &plugin), NIXL_SUCCESS);
    assert_string_equal(plugin->path, "(static)");
    plugin_dir_remove(dir);
}

static void a_builtin_table_is_checked_like_a_files(void **state) {
    struct plugin *plugin = (struct plugin *)1;

    assert_true(plugin_open("BAD", &plugin) < 0);
    assert_null(plugin);
    assert_words("BAD");
}

static void one_that_is_not_linked_is_not_there(void **state) {
    char *dir = plugin_dir_make();
    struct plugin *plugin = (struct plugin *)1;

    assert_int_equal(plugin_open("GONE", &plugin), NIXL_ERR_NOT_FOUND);
    assert_null(plugin);
    plugin_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_builtin_plugin_is_opened_without_a_file),
        cmocka_unit_test(builtin_plugins_are_listed_among_the_files_once),
        cmocka_unit_test(a_builtin_plugin_goes_before_a_file_of_its_name),
        cmocka_unit_test(a_builtin_table_is_checked_like_a_files),
        cmocka_unit_test(one_that_is_not_linked_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
