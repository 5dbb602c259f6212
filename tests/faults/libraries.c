/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two UCX libraries in one process, and torch beside them (NIXL_TEST_TORCH_PYTHON, an interpreter that has it): whoever came
 * first, an agent works or fails in words, within seconds.
 */
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

/* torch first, then what the first argument names, then an agent that moves a tensor within the process. */
static const char torch_program[] =
    "import ctypes, os, signal, sys\n"
    "signal.alarm(120)\n"
    "import torch\n"
    "if sys.argv[1]:\n"
    "    ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)\n"
    "from nixl._api import nixl_agent, nixl_agent_config\n"
    "try:\n"
    "    a = nixl_agent('a', nixl_agent_config(backends=['UCX']))\n"
    "except Exception as e:\n"
    "    print('# refused:', e, flush=True)\n"
    "    os._exit(0 if len(str(e)) > 20 else 3)\n"
    "x, y = torch.zeros(1024), torch.ones(1024)\n"
    "a.register_memory([x, y])\n"
    "h = a.initialize_xfer('WRITE', a.get_xfer_descs([y]), a.get_xfer_descs([x]), 'a')\n"
    "state = a.transfer(h)\n"
    "while state == 'PROC':\n"
    "    state = a.check_xfer_state(h)\n"
    "loaded = sorted({l.split()[-1] for l in open('/proc/self/maps') if 'libucp' in l})\n"
    "print('# torch', torch.__version__, 'then', *loaded, state, float(x.sum()), flush=True)\n"
    "os._exit(0 if state == 'DONE' and x.sum() == 1024 else 4)\n";

static void beside_torch(const char *first, const char *path) {
    const char *python = getenv("NIXL_TEST_TORCH_PYTHON"), *build = getenv("NIXL_TEST_BUILD");
    uint64_t start = now_ms();
    char package[4096];
    int status = 0;
    pid_t pid;

    if (python == NULL || python[0] == '\0') {
        test_skip("NIXL_TEST_TORCH_PYTHON names no interpreter that has torch");
    }
    (void)snprintf(package, sizeof package, "%s/bindings/python/nixl/_bindings.abi3.so",
                   build != NULL ? build : ".");
    if (access(package, R_OK) != 0) {
        test_skip("the Python binding is not built here");
    }
    *strstr(package, "/nixl/_bindings") = '\0';
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        (void)setenv("PYTHONPATH", package, 1);
        (void)setenv("UCX_TLS", "tcp,self", 1);
        (void)setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
        if (path != NULL) {
            (void)setenv("NIXL_UCX_PATH", path, 1);
        }
        (void)execl(python, python, "-c", torch_program, first, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    outcome("torch loaded first, then UCX", "UCX 1.13 and 1.22", "works, or refused in words",
            (double)(now_ms() - start));
}

static void torch_first_then_the_systems(void **state) {
    beside_torch("", NULL);
}

static void torch_first_then_ours(void **state) {
    beside_torch("", newer());
}

static void torch_and_the_systems_first_then_ours(void **state) {
    beside_torch("libucp.so.0", newer());
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_systems_first_then_ours),
        cmocka_unit_test(ours_first_then_the_systems),
        cmocka_unit_test(torch_first_then_the_systems),
        cmocka_unit_test(torch_first_then_ours),
        cmocka_unit_test(torch_and_the_systems_first_then_ours),
    };

    if (argc == 4 && strcmp(argv[1], "--libraries") == 0) {
        return child(argv[2], argv[3]);
    }
    node_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
