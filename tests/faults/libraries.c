/* SPDX-License-Identifier: Apache-2.0 */
/* Two UCX libraries in one process: whoever came first, an agent works or fails in words, within seconds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "peers.h"

#define SECONDS_MAX 20u

/* In a process of its own, by exec: what is loaded first, and what NIXL is told to load. */
static int child(const char *first, const char *second) {
    struct node_setting setting = {"tcp,self", true};
    struct local l;
    char path[1024];

    (void)alarm(SECONDS_MAX);
    if (strcmp(first, "system") == 0) {
        (void)snprintf(path, sizeof path, "libucp.so.0");
    } else {
        (void)snprintf(path, sizeof path, "%s/libucp.so.0", first);
    }
    (void)setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
    if (dlopen(path, RTLD_NOW | RTLD_GLOBAL) == NULL) {
        printf("# %s\n", dlerror());
        return 2;
    }
    if (strcmp(second, "system") != 0) {
        (void)setenv("NIXL_UCX_PATH", second, 1);
    }
    if (!local_open(&l, "local", &setting, 1 << 20)) {
        printf("# refused: %s\n", nixl_error());
        return nixl_error()[0] != '\0' ? 0 : 3;
    }
    printf("# works: %s\n", nixl_backend_description(l.ucx));
    {
        /* Bytes move: within this process. */
        struct nixl_desc a = {(uintptr_t)l.at, 4096, 0}, b = {(uintptr_t)l.at + 8192, 4096, 0};
        struct nixl_list here = NIXL_LIST(DRAM_SEG, &a, 1), there = NIXL_LIST(DRAM_SEG, &b, 1);
        struct nixl_xfer *xfer = NULL;

        pattern_fill(l.at, 4096, 3);
        if (nixl_xfer_create(l.agent, NIXL_WRITE, &here, &there, "local", NULL, &xfer) != NIXL_SUCCESS ||
            run_once(xfer) != NIXL_SUCCESS || !pattern_check(l.at + 8192, 4096, 3)) {
            printf("# %s\n", nixl_error());
            return 4;
        }
        (void)nixl_xfer_release(xfer);
    }
    local_close(&l);
    return 0;
}

static void run(const char *first, const char *second) {
    char self[4096];
    ssize_t got = readlink("/proc/self/exe", self, sizeof self - 1);
    uint64_t start = now_ms();
    int status = 0;
    pid_t pid;

    assert_true(got > 0);
    self[got] = '\0';
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        (void)execl(self, self, "--libraries", first, second, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    printf("# %s first, then %s: status 0x%x after %llu ms\n", first, second, (unsigned)status,
           (unsigned long long)(now_ms() - start));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    outcome("two UCX libraries in one process", "UCX 1.13 and 1.22", "works, or refused in words",
            (double)(now_ms() - start));
}

static const char *newer(void) {
    const char *folder = getenv("NIXL_TEST_UCX122");

    if (folder == NULL || folder[0] == '\0') {
        test_skip("UCX 1.22 is not there (scripts/ucx122.sh fetches it)");
    }
    return folder;
}

static void the_systems_first_then_ours(void **state) {
    run("system", newer());
}

static void ours_first_then_the_systems(void **state) {
    run(newer(), "system");
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_systems_first_then_ours),
        cmocka_unit_test(ours_first_then_the_systems),
    };

    if (argc == 4 && strcmp(argv[1], "--libraries") == 0) {
        return child(argv[2], argv[3]);
    }
    node_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
