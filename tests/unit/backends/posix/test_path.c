/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/posix/posix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>

static enum posix_path_kind parse(const char *text, struct posix_path_mode *mode, char why[200]) {
    why[0] = '\0';
    return posix_path_parse(text, strlen(text), mode, why, 200);
}

static void mode_strings_give_flags_and_path(void **state) {
    static const struct {
        const char *text, *path;
        int flags;
    } cases[] = {
        {"ro:/a", "/a", O_RDONLY},
        {"rw:/a", "/a", O_RDWR},
        {"rw,create:/a", "/a", O_RDWR | O_CREAT},
        {"rw,create,direct,sync,noatime:/a", "/a", O_RDWR | O_CREAT | O_DIRECT | O_SYNC | O_NOATIME},
        {"ro,noatime,direct:rel", "rel", O_RDONLY | O_NOATIME | O_DIRECT},
        {"rw,direct,direct:/twice", "/twice", O_RDWR | O_DIRECT},
        {"rw:/with:colons:in it", "/with:colons:in it", O_RDWR},
        {"rw::", ":", O_RDWR},
    };
    size_t i;

    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct posix_path_mode mode;
        char why[200];

        assert_int_equal(parse(cases[i].text, &mode, why), POSIX_PATH_MODE);
        assert_int_equal(mode.flags, cases[i].flags);
        assert_int_equal(mode.path_len, strlen(cases[i].path));
        assert_memory_equal(mode.path, cases[i].path, mode.path_len);
    }
}

static void mistyped_mode_strings_are_refused_in_words(void **state) {
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"rww:/x", "begins with ro or rw"},
        {"row:/x", "begins with ro or rw"},
        {"rw,crate:/x", "\"crate\""},
        {"ro,Direct:/x", "\"Direct\""},
        {"rw,:/x", "\"\""},
        {"rw,,direct:/x", "\"\""},
        {"rw:", "no path"},
        {"ro,direct:", "no path"},
        {"rw,create", "no path"},
        {"rwx,create:/x", "begins with ro or rw"},
    };
    size_t i;

    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct posix_path_mode mode;
        char why[200];

        assert_int_equal(parse(cases[i].text, &mode, why), POSIX_PATH_BAD);
        assert_non_null(strstr(why, cases[i].word));
    }
}

static void plain_text_names_no_file(void **state) {
    static const char *const cases[] = {"",     "cpu",  "/data/file", "/data/rw:1", "rocksdb:/x",
                                        "r:/x", "w:/x", "RW:/x",      "x,y:/z",     "wr,direct:/x",
                                        ":/x",  "rw",   "ro",         "roads",      "relative/rw,direct:x"};
    size_t i;

    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct posix_path_mode mode;
        char why[200];

        assert_int_equal(parse(cases[i], &mode, why), POSIX_PATH_PLAIN);
        assert_string_equal(why, "");
    }
}

static void metadata_needs_no_terminator(void **state) {
    struct posix_path_mode mode;
    char why[200];

    assert_int_equal(posix_path_parse("rw:/abcdef", 6, &mode, why, sizeof why), POSIX_PATH_MODE);
    assert_int_equal(mode.path_len, 3);
    assert_int_equal(posix_path_parse(NULL, 0, &mode, why, sizeof why), POSIX_PATH_PLAIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mode_strings_give_flags_and_path),
        cmocka_unit_test(mistyped_mode_strings_are_refused_in_words),
        cmocka_unit_test(plain_text_names_no_file),
        cmocka_unit_test(metadata_needs_no_terminator),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
