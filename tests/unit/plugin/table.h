/* SPDX-License-Identifier: Apache-2.0 */
/* A table of operations that passes every check, for tests to damage. The operations are never called. */
#ifndef TESTS_PLUGIN_TABLE_H
#define TESTS_PLUGIN_TABLE_H

#include <nixl/backend.h>

#include <stdbool.h>
#include <stdint.h>

struct table_options {
    bool flag;
    int64_t depth;
    uint64_t count, bytes;
    const char *path, *secret;
    int mode;
};

extern struct nixl_option table_option_list[7];
struct nixl_backend_ops table_make(const char *name);

#endif
