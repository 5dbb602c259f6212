/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka with the headers it wants in front, and a temporary folder. */
#ifndef TESTS_BASE_SUPPORT_H
#define TESTS_BASE_SUPPORT_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define TEST(f) cmocka_unit_test(f)

static inline char *temp_dir(void) {
    const char *tmp = getenv("TMPDIR");
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/nixl-base-XXXXXX", tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");
    assert_non_null(mkdtemp(path));
    return strdup(path);
}

/* Removes a folder and what is in it. */
static inline void temp_remove(char *dir) {
    char command[PATH_MAX + 16];

    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
    free(dir);
}

/* Writes `text` to dir/name, making folders on the way. */
static inline void temp_write(const char *dir, const char *name, const char *text) {
    char path[PATH_MAX];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (char *slash = strchr(path + strlen(dir) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0755);
        *slash = '/';
    }
    f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

#endif
