/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka, a temporary folder of plugins, and a table that passes every check. */
#ifndef TESTS_PLUGIN_SUPPORT_H
#define TESTS_PLUGIN_SUPPORT_H

#include "unit/base/support.h"

#include "base/error.h"
#include "plugin/parts.h"

#define assert_words(part) assert_non_null(strstr(error_text(), (part)))

static inline void file_copy(const char *from, const char *dir, const char *name) {
    char command[2 * PATH_MAX + 16];

    snprintf(command, sizeof command, "cp '%s' '%s/%s'", from, dir, name);
    assert_int_equal(system(command), 0);
}

/* A temporary folder that NIXL_PLUGIN_DIR names. */
static inline char *plugin_dir_make(void) {
    char *dir = temp_dir();

    setenv("NIXL_PLUGIN_DIR", dir, 1);
    return dir;
}

static inline void plugin_dir_remove(char *dir) {
    unsetenv("NIXL_PLUGIN_DIR");
    temp_remove(dir);
}

#endif
