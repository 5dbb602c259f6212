/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared objects that are no plugins of ours, by definition at compile time: with JUNK_FOREIGN the entry of a
 * C++ plugin and a constructor that leaves a trace; with JUNK_NULL our entry without a table; with JUNK_NEEDY
 * a symbol that is nowhere; else nothing at all.
 */
#include <nixl/backend.h>

#include <stdlib.h>

#if defined(JUNK_FOREIGN)
NIXL_API void *nixl_plugin_init(void);

void *nixl_plugin_init(void) {
    return NULL;
}

static void __attribute__((constructor)) trace(void) {
    setenv("NIXL_TEST_FOREIGN_RAN", "yes", 1);
}
#elif defined(JUNK_NULL)
const struct nixl_backend_ops *nixl_backend_v1(void) {
    return NULL;
}
#elif defined(JUNK_NEEDY)
int nixl_test_is_nowhere(void);

const struct nixl_backend_ops *nixl_backend_v1(void) {
    return nixl_test_is_nowhere() != 0 ? NULL : NULL;
}
#else
NIXL_API int nixl_test_nothing(void);

int nixl_test_nothing(void) {
    return 0;
}
#endif
