/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is not linked to libnixl opens it with dlopen(), lets two agents move bytes, and closes it, many times: neither
 * descriptors nor threads nor memory pile up, and the process goes on well after the last.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <nixl/nixl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 100

static char from[4096], to[4096];
static void *library;

static void *find(const char *name) {
    void *symbol = dlsym(library, name);

    if (symbol == NULL) {
        printf("Bail out! %s\n", dlerror());
        exit(1);
    }
    return symbol;
}

#define CALL(name) ((__typeof__(&name))find(#name))

static void check(nixl_status_t status, const char *what) {
    if (status < 0) {
        printf("Bail out! %s: %s\n", what, CALL(nixl_error)());
        exit(1);
    }
}

static int entries(const char *folder) {
    DIR *dir = opendir(folder);
    int count = 0;

    while (dir != NULL && readdir(dir) != NULL) {
        count++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return count;
}

static void one_round(const char *path) {
    const struct nixl_desc src = {(uintptr_t)from, sizeof from, 0}, dst = {(uintptr_t)to, sizeof to, 0};
    const struct nixl_list srcs = NIXL_LIST(DRAM_SEG, &src, 1), dsts = NIXL_LIST(DRAM_SEG, &dst, 1);
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_agent *left, *right;
    struct nixl_backend *mock;
    struct nixl_xfer *xfer;
    void *blob;
    size_t len;

    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        printf("Bail out! %s\n", dlerror());
        exit(1);
    }
    config.progress_thread = true;
    check(CALL(nixl_agent_create)("left", &config, &left), "agent left");
    check(CALL(nixl_agent_create)("right", &config, &right), "agent right");
    check(CALL(nixl_backend_create)(left, "MOCK", NULL, 0, &mock), "backend of left");
    check(CALL(nixl_backend_create)(right, "MOCK", NULL, 0, &mock), "backend of right");
    check(CALL(nixl_mem_register)(left, &srcs, NULL), "register at left");
    check(CALL(nixl_mem_register)(right, &dsts, NULL), "register at right");
    check(CALL(nixl_metadata_get)(right, &blob, &len), "metadata");
    check(CALL(nixl_metadata_load)(left, blob, len, NULL), "load");
    CALL(nixl_free)(blob);
    memset(to, 0, sizeof to);
    check(CALL(nixl_xfer_create)(left, NIXL_WRITE, &srcs, &dsts, "right", NULL, &xfer), "create");
    check(CALL(nixl_xfer_post)(xfer, NULL), "post");
    check(CALL(nixl_xfer_wait)(xfer, NIXL_NO_TIMEOUT), "write");
    check(CALL(nixl_xfer_release)(xfer), "release");
    CALL(nixl_agent_destroy)(left);
    CALL(nixl_agent_destroy)(right);
    if (CALL(nixl_backend_create)(NULL, "MOCK", NULL, 0, &mock) >= 0) { /* leaves words behind */
        printf("Bail out! an agent that is NULL took a backend\n");
        exit(1);
    }
    dlclose(library);
}

int main(void) {
    char path[4096];
    int fds, threads, unloaded, number = 0, rc = 0;
    size_t heap;

    snprintf(path, sizeof path, "%s/libnixl.so", getenv("NIXL_TEST_BUILD"));
    memset(from, 'x', sizeof from);
    one_round(path); /* what stays of the first round (the plugin's file) counts as there */
    fds = entries("/proc/self/fd");
    threads = entries("/proc/self/task");
    heap = mallinfo2().uordblks;
    for (int i = 0; i < ROUNDS; i++) {
        one_round(path);
    }
    unloaded = dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL;
#define VERDICT(is_well, ...)                                                                                \
    do {                                                                                                     \
        number++;                                                                                            \
        rc |= !(is_well);                                                                                    \
        printf("%sok %d - ", (is_well) ? "" : "not ", number);                                               \
        printf(__VA_ARGS__);                                                                                 \
        printf("\n");                                                                                        \
    } while (0)
    VERDICT(memcmp(from, to, sizeof from) == 0, "each round moves its bytes");
    VERDICT(unloaded, "the library is gone when its last user closes it");
    VERDICT(entries("/proc/self/fd") == fds, "no descriptors stay");
    VERDICT(entries("/proc/self/task") == threads, "no threads stay");
    printf("# heap: %zu bytes after the first round, %zu after the last\n", heap, mallinfo2().uordblks);
    /* glibc itself keeps some 500 bytes of each dlopen() and more for variables of threads; a snapshot of the configuration or a
     * plugin's record would be above that. */
    VERDICT(mallinfo2().uordblks <= heap + (size_t)ROUNDS * 1536, "memory does not pile up");
    fflush(stdout);
    {
        int child_rc = system("true"); /* fork handlers of what is gone would crash here */

        VERDICT(child_rc == 0, "the process forks well afterwards");
    }
    printf("1..%d\n", number);
    return rc;
}
