/* SPDX-License-Identifier: Apache-2.0 */
/* A folder full of files that are no plugins, and two that are. */
#include "support.h"

#include <elf.h>
#include <pthread.h>

static const char *built(const char *file) {
    static char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/tests/unit/plugin/lib%s.so", getenv("NIXL_TEST_BUILD"), file);
    return path;
}

static void mock_copy(const char *dir, const char *name) {
    char from[PATH_MAX];

    snprintf(from, sizeof from, "%s/libplugin_MOCK.so", getenv("NIXL_TEST_MOCK_PLUGINS"));
    file_copy(from, dir, name);
}

static void refused(const char *name, nixl_status_t status) {
    struct plugin *plugin = (struct plugin *)1;

    assert_int_equal(plugin_open(name, &plugin), status);
    assert_null(plugin);
}

static void a_plugin_is_opened_once_and_stays(void **state) {
    struct plugin *first;
    struct plugin *again;

    setenv("NIXL_PLUGIN_DIR", getenv("NIXL_TEST_MOCK_PLUGINS"), 1);
    assert_int_equal(plugin_open("MOCK", &first), NIXL_SUCCESS);
    assert_string_equal(first->name, "MOCK");
    assert_string_equal(first->ops.version, "1.0");
    assert_int_equal(plugin_open("MOCK", &again), NIXL_SUCCESS);
    assert_ptr_equal(first, again);
}

static void a_missing_plugin_is_told_with_what_is_there(void **state) {
    char long_name[NIXL_NAME_MAX + 1];
    char *dir = plugin_dir_make();

    refused("UCX", NIXL_ERR_NOT_FOUND);
    assert_words("no plugin \"UCX\"");
    assert_words("has no plugins");
    assert_words(dir);
    temp_write(dir, "libplugin_POSIX.so", "");
    temp_write(dir, "libplugin_GDS.so", "");
    refused("UCX", NIXL_ERR_NOT_FOUND);
    assert_words("GDS, POSIX");
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    refused(long_name, NIXL_ERR_NOT_FOUND); /* no file can have that name */
    refused("../UCX", NIXL_ERR_NOT_FOUND);
    refused("", NIXL_ERR_NOT_FOUND);
    plugin_dir_remove(dir);
}

static void a_text_file_is_no_shared_object(void **state) {
    char *dir = plugin_dir_make();

    temp_write(dir, "libplugin_TEXT.so", "#!/bin/sh\necho no\n");
    refused("TEXT", NIXL_ERR_BACKEND);
    assert_words("libplugin_TEXT.so is not a shared object");
    temp_write(dir, "libplugin_EMPTY.so", "");
    refused("EMPTY", NIXL_ERR_BACKEND);
    temp_write(dir, "libplugin_CUT.so", "\177ELF\002\001\001");
    refused("CUT", NIXL_ERR_BACKEND);
    assert_words("cut short");
    plugin_dir_remove(dir);
}

static void an_object_of_another_processor_is_named_as_such(void **state) {
    char *dir = plugin_dir_make();
    char path[PATH_MAX];
    Elf64_Half machine = EM_S390;
    FILE *f;

    mock_copy(dir, "libplugin_MOCK.so");
    snprintf(path, sizeof path, "%s/libplugin_MOCK.so", dir);
    f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, offsetof(Elf64_Ehdr, e_machine), SEEK_SET), 0);
    assert_int_equal(fwrite(&machine, sizeof machine, 1, f), 1);
    fclose(f);
    refused("MOCK", NIXL_ERR_BACKEND);
    assert_words("made for another processor (s390");
    plugin_dir_remove(dir);
}

/* Where the last segment that is loaded ends in the file. */
static off_t loaded_end(const char *path) {
    FILE *f = fopen(path, "r");
    Elf64_Ehdr elf;
    off_t end = 0;

    assert_non_null(f);
    assert_int_equal(fread(&elf, sizeof elf, 1, f), 1);
    assert_int_equal(fseek(f, (long)elf.e_phoff, SEEK_SET), 0);
    for (int i = 0; i < elf.e_phnum; i++) {
        Elf64_Phdr segment;

        assert_int_equal(fread(&segment, sizeof segment, 1, f), 1);
        if (segment.p_type == PT_LOAD && (off_t)(segment.p_offset + segment.p_filesz) > end) {
            end = (off_t)(segment.p_offset + segment.p_filesz);
        }
    }
    fclose(f);
    return end;
}

static void a_truncated_object_is_refused_before_the_loader_dies_of_it(void **state) {
    char *dir = plugin_dir_make();
    char path[PATH_MAX];
    off_t end;

    mock_copy(dir, "libplugin_MOCK.so");
    snprintf(path, sizeof path, "%s/libplugin_MOCK.so", dir);
    end = loaded_end(path);
    for (off_t len = end - 1; len >= 64; len -= end / 16) {
        assert_int_equal(truncate(path, len), 0);
        refused("MOCK", NIXL_ERR_BACKEND);
        assert_words("cut short");
    }
    plugin_dir_remove(dir);
}

static void a_library_that_lacks_is_told_in_the_loaders_words(void **state) {
    char *dir = plugin_dir_make();

    file_copy(built("junk_needy"), dir, "libplugin_X.so");
    refused("X", NIXL_ERR_BACKEND);
    assert_words("plugin X cannot be loaded: ");
    assert_words("nixl_test_is_nowhere");
    plugin_dir_remove(dir);
}

static void a_plugin_of_the_reference_is_refused_unloaded(void **state) {
    char *dir = plugin_dir_make();

    unsetenv("NIXL_TEST_FOREIGN_RAN");
    file_copy(built("junk_foreign"), dir, "libplugin_UCX.so");
    refused("UCX", NIXL_ERR_MISMATCH);
    assert_words("C++ plugin");
    assert_words("nixl_plugin_init");
    assert_null(getenv("NIXL_TEST_FOREIGN_RAN"));
    plugin_dir_remove(dir);
}

static void an_object_without_the_entry_is_no_plugin(void **state) {
    char *dir = plugin_dir_make();

    file_copy(built("junk_nothing"), dir, "libplugin_X.so");
    refused("X", NIXL_ERR_MISMATCH);
    assert_words("does not export nixl_backend_v1");
    plugin_dir_remove(dir);
}

static void an_entry_without_a_table_is_a_fault_of_the_plugin(void **state) {
    char *dir = plugin_dir_make();

    file_copy(built("junk_null"), dir, "libplugin_X.so");
    refused("X", NIXL_ERR_BACKEND);
    assert_words("returned no table");
    plugin_dir_remove(dir);
}

static void a_file_that_is_called_otherwise_than_its_plugin_is_refused(void **state) {
    char *dir = plugin_dir_make();

    mock_copy(dir, "libplugin_UCX.so");
    refused("UCX", NIXL_ERR_BACKEND);
    assert_words("calls itself MOCK");
    plugin_dir_remove(dir);
}

static void a_named_pipe_is_not_waited_for(void **state) {
    char *dir = plugin_dir_make();
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/libplugin_PIPE.so", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused("PIPE", NIXL_ERR_BACKEND);
    assert_words("is not a file");
    plugin_dir_remove(dir);
}

static void one_bad_file_does_not_hide_the_others(void **state) {
    char *dir = plugin_dir_make();
    struct plugin *plugin;

    temp_write(dir, "libplugin_A.so", "junk");
    file_copy(built("junk_foreign"), dir, "libplugin_B.so");
    mock_copy(dir, "libplugin_MOCK.so");
    assert_int_equal(plugin_open("MOCK", &plugin), NIXL_SUCCESS);
    plugin_dir_remove(dir);
}

static void suggestions_name_what_serves_and_leave_the_callers_words_alone(void **state) {
    char *dir = plugin_dir_make();
    char text[64];

    temp_write(dir, "libplugin_JUNK.so", "junk");
    mock_copy(dir, "libplugin_MOCK.so");
    (void)(fail)(NIXL_ERR_NOT_FOUND, "the caller's words");
    assert_int_equal(plugin_suggest(DRAM_SEG, DRAM_SEG, true, text, sizeof text), 1);
    assert_string_equal(text, "MOCK");
    assert_string_equal(error_text(), "the caller's words");
    plugin_dir_remove(dir);
}

#define OPENERS 4

static void *open_mock(void *out) {
    assert_int_equal(plugin_open("MOCK", out), NIXL_SUCCESS);
    return NULL;
}

static void threads_that_open_at_once_get_one_plugin(void **state) {
    char *dir = plugin_dir_make();
    struct plugin *plugins[OPENERS];
    pthread_t threads[OPENERS];

    mock_copy(dir, "libplugin_MOCK.so");
    for (int i = 0; i < OPENERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, open_mock, &plugins[i]), 0);
    }
    for (int i = 0; i < OPENERS; i++) {
        pthread_join(threads[i], NULL);
        assert_ptr_equal(plugins[i], plugins[0]);
    }
    plugin_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_plugin_is_opened_once_and_stays),
        TEST(a_missing_plugin_is_told_with_what_is_there),
        TEST(a_text_file_is_no_shared_object),
        TEST(an_object_of_another_processor_is_named_as_such),
        TEST(a_truncated_object_is_refused_before_the_loader_dies_of_it),
        TEST(a_library_that_lacks_is_told_in_the_loaders_words),
        TEST(a_plugin_of_the_reference_is_refused_unloaded),
        TEST(an_object_without_the_entry_is_no_plugin),
        TEST(an_entry_without_a_table_is_a_fault_of_the_plugin),
        TEST(a_file_that_is_called_otherwise_than_its_plugin_is_refused),
        TEST(a_named_pipe_is_not_waited_for),
        TEST(one_bad_file_does_not_hide_the_others),
        TEST(suggestions_name_what_serves_and_leave_the_callers_words_alone),
        TEST(threads_that_open_at_once_get_one_plugin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
