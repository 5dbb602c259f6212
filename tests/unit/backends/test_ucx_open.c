/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the UCX plugin, its options, and what it refuses in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/ucx/ucx_abi.h"
#include "support/skip.h"
#include "ucx_harness.h"

static struct harness h;

/* ---- each in a process of its own, because UCX is opened once a process ---- */

struct outcome {
    nixl_status_t status;
    char error[1024];
    char about[1024];
    char log[4096];
    char output[1024]; /* what came to the screen */
};

/* Opens (and closes) an instance in a fresh child; the child runs `more` with it open. */
static struct outcome open_in_child(const char *const *environment, const char *const *params,
                                    void (*more)(struct harness *)) {
    struct outcome outcome = {.status = NIXL_ERR_UNKNOWN};
    int result[2], screen[2], status;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe(result), 0);
    assert_int_equal(pipe(screen), 0);
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        (void)dup2(screen[1], 1);
        (void)dup2(screen[1], 2);
        for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
            (void)putenv((char *)environment[i]);
        }
        outcome.status = harness_open(&h, "opener", params, false);
        if (outcome.status == NIXL_SUCCESS) {
            (void)snprintf(outcome.about, sizeof outcome.about, "%s", h.ops->describe(h.self));
            if (more != NULL) {
                more(&h);
            }
            harness_close(&h);
        }
        (void)snprintf(outcome.error, sizeof outcome.error, "%s", h.error);
        (void)snprintf(outcome.log, sizeof outcome.log, "%s", h.log);
        (void)fflush(NULL);
        _exit(write(result[1], &outcome, sizeof outcome) == (ssize_t)sizeof outcome ? 0 : 1);
    }
    (void)close(result[1]);
    (void)close(screen[1]);
    n = read(result[0], &outcome, sizeof outcome);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (n != (ssize_t)sizeof outcome) {
        outcome.status = NIXL_ERR_UNKNOWN;
        (void)snprintf(outcome.error, sizeof outcome.error, "the child ended with status %d", status);
    }
    n = read(screen[0], outcome.output, sizeof outcome.output - 1);
    outcome.output[n > 0 ? n : 0] = '\0';
    (void)close(result[0]);
    (void)close(screen[0]);
    printf("# %d %s%s\n", outcome.status, outcome.error, outcome.about);
    return outcome;
}

#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})
#define PARAMS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void a_plain_open_succeeds_and_prints_nothing(void **state) {
    struct outcome o = open_in_child(NULL, NULL, NULL);

    assert_int_equal(o.status, NIXL_SUCCESS);
    assert_string_equal(o.output, "");
    assert_string_equal(o.log, "");
    assert_non_null(strstr(o.about, "UCX 1."));
    assert_non_null(strstr(o.about, "libucp.so"));
    assert_non_null(strstr(o.about, "memory hooks none"));
}

static void transports_without_messages_are_refused_with_the_cure(void **state) {
    static const char *const lists[] = {"self", "cma", "self,cma"};

    for (size_t i = 0; i < 3; i++) {
        char variable[64];
        struct outcome o;

        (void)snprintf(variable, sizeof variable, "UCX_TLS=%s", lists[i]);
        o = open_in_child(ENV(variable), NULL, NULL);
        assert_int_equal(o.status, NIXL_ERR_NOT_SUPPORTED);
        assert_non_null(strstr(o.error, variable));
        assert_string_equal(o.output, "");
    }
}

static void transports_that_do_not_exist_are_refused_with_their_name(void **state) {
    struct outcome o = open_in_child(ENV("UCX_TLS=carrier_pigeon"), NULL, NULL);

    assert_true(o.status < 0);
    assert_non_null(strstr(o.error, "carrier_pigeon"));
}

static void devices_that_do_not_exist_are_refused_with_their_name(void **state) {
    struct outcome o = open_in_child(NULL, PARAMS("device_list", "nosuch0, nosuch1"), NULL);

    assert_true(o.status < 0);
    assert_non_null(strstr(o.error, "nosuch0"));
}

static void a_list_that_leaves_out_all_is_refused(void **state) {
    struct outcome o = open_in_child(ENV("UCX_TLS=^all"), NULL, NULL);

    assert_int_equal(o.status, NIXL_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(o.error, "UCX_TLS=^all leaves no transport"));
    o = open_in_child(NULL, PARAMS("engine_config", "TLS=^tcp,all"), NULL);
    assert_int_equal(o.status, NIXL_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(o.error, "^tcp,all"));
    assert_int_equal(open_in_child(ENV("UCX_TLS=^sm"), NULL, NULL).status, NIXL_SUCCESS);
    assert_int_equal(open_in_child(ENV("UCX_TLS=all"), NULL, NULL).status, NIXL_SUCCESS);
}

/* "tcp,self,tcp,self,...,sysv": `len` characters or up to 8 more, the last name once. */
static char *long_list(const char *before, size_t len) {
    char *list = calloc(1, strlen(before) + len + 16);

    (void)strcat(list, before);
    while (strlen(list) < strlen(before) + len - 4) {
        (void)strcat(list, "tcp,self,");
    }
    return strcat(list, "sysv");
}

static void a_long_list_of_transports_counts_whole(void **state) {
    char *list = long_list("UCX_TLS=", 300), *pair = long_list("TLS=", 300);
    struct outcome o = open_in_child(ENV(list), NULL, NULL);

    assert_int_equal(o.status, NIXL_SUCCESS);
    assert_non_null(strstr(o.about, list + strlen("UCX_TLS=")));
    assert_non_null(strstr(o.about, "memory hooks none"));
    o = open_in_child(NULL, PARAMS("engine_config", pair), NULL);
    assert_int_equal(o.status, NIXL_SUCCESS);
    assert_non_null(strstr(o.about, pair + strlen("TLS=")));
    free(list);
    free(pair);
}

static void what_is_longer_than_any_list_is_refused_in_words(void **state) {
    char *list = long_list("UCX_TLS=", 600), *pair = long_list("TLS=", 600);
    char *devices = long_list("NET_DEVICES=", 600);
    struct outcome o = open_in_child(ENV(list), NULL, NULL);

    assert_int_equal(o.status, NIXL_ERR_INVALID_PARAM);
    assert_non_null(strstr(o.error, "UCX_TLS=tcp,self,"));
    assert_non_null(strstr(o.error, "at most 511"));
    o = open_in_child(NULL, PARAMS("engine_config", pair), NULL);
    assert_int_equal(o.status, NIXL_ERR_INVALID_PARAM);
    assert_non_null(strstr(o.error, "engine_config: TLS=tcp,self,"));
    assert_non_null(strstr(o.error, "at most 511"));
    o = open_in_child(NULL, PARAMS("engine_config", devices), NULL);
    assert_int_equal(o.status, NIXL_ERR_INVALID_PARAM);
    assert_non_null(strstr(o.error, "NET_DEVICES"));
    assert_non_null(strstr(o.error, "at most 511"));
    free(list);
    free(pair);
    free(devices);
}

static void a_device_of_the_environment_that_does_not_exist_is_refused_with_its_name(void **state) {
    struct outcome o = open_in_child(ENV("UCX_NET_DEVICES=nope0"), NULL, NULL);

    assert_int_equal(o.status, NIXL_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(o.error, "UCX_NET_DEVICES=nope0 leaves no transport"));
    assert_string_equal(o.output, "");
    o = open_in_child(NULL, PARAMS("engine_config", "NET_DEVICES=nope1"), NULL);
    assert_int_equal(o.status, NIXL_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(o.error, "engine_config=NET_DEVICES=nope1"));
    assert_int_equal(open_in_child(ENV("UCX_NET_DEVICES=lo"), NULL, NULL).status, NIXL_SUCCESS);
}

static void the_device_list_has_two_names_and_blanks_do_not_matter(void **state) {
    static const char *const names[] = {"ucx_devices", "device_list"};
    static const char *const good[] = {"lo", "lo,lo", "lo, lo", " lo ,lo "}, *const bad[] = {"no0,no1",
                                                                                             "no0, no1"};

    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof good / sizeof good[0]; k++) {
            assert_int_equal(open_in_child(NULL, PARAMS(names[i], good[k]), NULL).status, NIXL_SUCCESS);
        }
        for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
            struct outcome o = open_in_child(NULL, PARAMS(names[i], bad[k]), NULL);

            assert_int_equal(o.status, NIXL_ERR_NOT_SUPPORTED);
            assert_non_null(strstr(o.error, bad[k]));
        }
        /* It goes before the variable, as in the reference. */
        assert_int_equal(open_in_child(ENV("UCX_NET_DEVICES=no2"), PARAMS(names[i], "lo"), NULL).status,
                         NIXL_SUCCESS);
    }
}

/* Those of the reference, and this library's own. */
static void every_option_is_taken_by_its_name(void **state) {
    static const char *const pairs[][2] = {
        {"ucx_devices", "lo"},
        {"device_list", "lo"},
        {"num_workers", "2"},
        {"num_threads", "2"},
        {"split_batch_size", "512"},
        {"ucx_error_handling_mode", "peer"},
        {"ucx_num_device_channels", "8"},
        {"ucx_ep_close_force", "true"},
        {"engine_config", "MAX_RNDV_RAILS=1"},
        {"ucx_memory_hooks", "false"},
        {"ucx_messages", "false"},
        {"ucx_cma", "false"},
    };
    struct outcome o;

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        o = open_in_child(NULL, PARAMS(pairs[i][0], pairs[i][1]), NULL);
        assert_int_equal(o.status, NIXL_SUCCESS);
        assert_string_equal(o.output, "");
    }
    o = open_in_child(
        ENV("NIXL_UCX_SGL_ENABLE=y", "NIXL_UCX_WARNING_TIMEOUT=5000", "NIXL_DISABLE_CUDA_ADDR_WA=1"), NULL,
        NULL);
    assert_int_equal(o.status, NIXL_SUCCESS);
    assert_string_equal(o.output, "");
}

static void engine_config_takes_pairs_whose_values_hold_commas(void **state) {
    struct outcome o =
        open_in_child(NULL, PARAMS("engine_config", "TLS=tcp,self, UCX_MAX_RNDV_RAILS=1"), NULL);

    assert_int_equal(o.status, NIXL_SUCCESS);
    assert_non_null(strstr(o.about, "transports tcp,self;"));
}

static void engine_config_gives_way_to_variables(void **state) {
    struct outcome o = open_in_child(ENV("UCX_TLS=tcp"), PARAMS("engine_config", "TLS=self"), NULL);

    assert_int_equal(o.status, NIXL_SUCCESS);
    assert_non_null(strstr(o.about, "transports tcp;"));
}

static void a_malformed_engine_config_is_refused_with_the_piece(void **state) {
    struct outcome o = open_in_child(NULL, PARAMS("engine_config", "garbage"), NULL);

    assert_int_equal(o.status, NIXL_ERR_INVALID_PARAM);
    assert_non_null(strstr(o.error, "\"garbage\""));
    o = open_in_child(NULL, PARAMS("engine_config", "MAX_EAGER_RAILS=many"), NULL);
    assert_int_equal(o.status, NIXL_ERR_INVALID_PARAM);
    assert_non_null(strstr(o.error, "MAX_EAGER_RAILS=many"));
}

static void a_path_without_ucx_is_refused_with_the_path(void **state) {
    struct outcome o = open_in_child(NULL, PARAMS("ucx_path", "/nowhere/ucx"), NULL);

    assert_int_equal(o.status, NIXL_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(o.error, "/nowhere/ucx"));
    assert_non_null(strstr(o.error, "ucx_path"));
}

/* A file by the right name that is another library: the C library's mathematics. */
static void a_foreign_library_is_refused_with_its_file(void **state) {
    char folder[] = "/tmp/nixl-foreign-XXXXXX", file[64], command[256];
    struct outcome o;

    assert_non_null(mkdtemp(folder));
    (void)snprintf(file, sizeof file, "%s/libucp.so.0", folder);
    (void)snprintf(command, sizeof command,
                   "cp -L \"$(ldconfig -p | sed -n 's/.*libm.so.6.*=> //p' | head -n 1)\" %s", file);
    if (system(command) != 0 || access(file, R_OK) != 0) {
        (void)unlink(file);
        (void)rmdir(folder);
        test_skip("there is no libm.so.6 to stand for a foreign library");
    }
    o = open_in_child(NULL, PARAMS("ucx_path", folder), NULL);
    (void)unlink(file);
    assert_int_equal(o.status, NIXL_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(o.error, file));
    assert_non_null(strstr(o.error, "another library"));
    /* And one that is no library at all. */
    (void)snprintf(command, sizeof command, "echo text >%s", file);
    assert_int_equal(system(command), 0);
    o = open_in_child(NULL, PARAMS("ucx_path", file), NULL);
    (void)unlink(file);
    (void)rmdir(folder);
    assert_int_equal(o.status, NIXL_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(o.error, file));
}

static void another_file_than_expected_is_refused_with_both(void **state) {
    struct outcome o = open_in_child(ENV("NIXL_UCX_EXPECTED_SONAME=my-own-ucx"), NULL, NULL);

    assert_int_equal(o.status, NIXL_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(o.error, "my-own-ucx"));
    assert_non_null(strstr(o.error, "libucp.so"));
    assert_int_equal(open_in_child(ENV("NIXL_UCX_EXPECTED_SONAME=libucp"), NULL, NULL).status, NIXL_SUCCESS);
}

static void deep_binding_is_possible(void **state) {
#ifdef __SANITIZE_ADDRESS__
    test_skip("the address sanitizer does not allow RTLD_DEEPBIND");
#endif
    assert_int_equal(open_in_child(ENV("NIXL_UCX_DEEPBIND=y"), NULL, NULL).status, NIXL_SUCCESS);
}

static void without_error_handling_more_transports_serve(void **state) {
    assert_int_equal(
        open_in_child(ENV("UCX_TLS=self,posix"), PARAMS("ucx_error_handling_mode", "none"), NULL).status,
        NIXL_SUCCESS);
}

static void hooks_that_hang_are_refused(void **state) {
    struct outcome o = open_in_child(NULL, NULL, NULL);

    if (strstr(o.about, "UCX 1.13") == NULL) {
        test_skip("only UCX 1.13 hangs with them");
    }
    o = open_in_child(ENV("UCX_MEM_MMAP_HOOK_MODE=reloc"), NULL, NULL);
    assert_int_equal(o.status, NIXL_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(o.error, "reloc"));
}

/* ---- signals ---- */

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGTERM, SIGUSR1};

static void handler_of_the_application(int number) {
    _exit(100 + number);
}

/* Runs in the child with the backend open: the first signal whose handler is another one is the error. */
static void look_at_handlers(struct harness *a) {
    for (size_t i = 0; i < sizeof fatal_signals / sizeof fatal_signals[0]; i++) {
        struct sigaction action;

        if (sigaction(fatal_signals[i], NULL, &action) != 0 ||
            action.sa_handler != handler_of_the_application) {
            (void)snprintf(a->error, sizeof a->error, "signal %d has another handler now", fatal_signals[i]);
            return;
        }
    }
}

static struct outcome open_with_handlers(const char *const *environment) {
    struct sigaction before[sizeof fatal_signals / sizeof fatal_signals[0]];
    struct sigaction ours = {.sa_handler = handler_of_the_application};
    struct outcome o;

    for (size_t i = 0; i < sizeof fatal_signals / sizeof fatal_signals[0]; i++) {
        assert_int_equal(sigaction(fatal_signals[i], &ours, &before[i]), 0);
    }
    o = open_in_child(environment, NULL, look_at_handlers);
    for (size_t i = 0; i < sizeof fatal_signals / sizeof fatal_signals[0]; i++) {
        assert_int_equal(sigaction(fatal_signals[i], &before[i], NULL), 0);
    }
    return o;
}

static void the_application_s_signal_handlers_stay(void **state) {
    struct outcome o = open_with_handlers(NULL);

    assert_int_equal(o.status, NIXL_SUCCESS);
    assert_string_equal(o.error, "");
    assert_string_equal(o.output, "");
}

static void a_user_who_asks_for_ucx_s_signal_handlers_gets_them(void **state) {
    struct outcome o = open_with_handlers(ENV("UCX_HANDLE_ERRORS=bt"));

    assert_int_equal(o.status, NIXL_SUCCESS);
    assert_non_null(strstr(o.error, "another handler"));
}

/* ---- a library that cannot do threads: no such build is at hand, so a table stands in ---- */

static ucs_thread_mode_t fake_level;

static ucs_status_t fake_lib_query(ucp_lib_attr_t *attr) {
    attr->max_thread_level = fake_level;
    return UCS_OK;
}

static void a_ucx_without_threads_is_refused(void **state) {
    struct ucx_abi abi = {.lib_query = fake_lib_query};

    harness_init(&h, "opener", false);
    fake_level = UCS_THREAD_MODE_SINGLE;
    assert_int_equal(ucx_library_check_threads(&h.host, &abi, "1.99.0", "/x/libucp.so.0"),
                     NIXL_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(h.error, "threads"));
    assert_non_null(strstr(h.error, "/x/libucp.so.0"));
    fake_level = UCS_THREAD_MODE_MULTI;
    assert_int_equal(ucx_library_check_threads(&h.host, &abi, "1.99.0", "/x/libucp.so.0"), NIXL_SUCCESS);
}

/* ---- fork ---- */

/* Runs in a child that has UCX open, and forks again. */
static void fork_with_it_open(struct harness *parent) {
    struct harness_memory m;
    int status = -1;
    pid_t pid;

    if (!harness_register(parent, &m, 4096)) {
        exit(90);
    }
    pid = fork();
    if (pid == 0) {
        static struct harness fresh;
        struct nixl_meta_desc desc = {(uintptr_t)m.at, 4096, 0, NULL, 0};
        void *region;
        int bad = 0;

        bad |= parent->ops->region_open(parent->self, DRAM_SEG, &desc, &region) != NIXL_ERR_NOT_ALLOWED;
        bad |= strstr(parent->error, "fork") == NULL;
        bad |= parent->ops->progress(parent->self) != 0;
        bad |= parent->ops->arm(parent->self) != NIXL_ERR_NOT_ALLOWED;
        bad |= (harness_open(&fresh, "fresh", NULL, false) != NIXL_ERR_NOT_ALLOWED) << 1;
        bad |= (strstr(fresh.error, "UCX was started before fork(); use spawn or exec") == NULL) << 2;
        harness_unregister(parent, &m);
        harness_close(parent);
        _exit(bad);
    }
    (void)waitpid(pid, &status, 0);
    if (status != 0) {
        (void)snprintf(parent->error, sizeof parent->error, "the forked child ended with %d", status);
    }
    harness_unregister(parent, &m);
    /* The parent goes on. */
    if (!harness_register(parent, &m, 8192)) {
        (void)snprintf(parent->error, sizeof parent->error, "the parent cannot register any more");
    }
    harness_unregister(parent, &m);
}

static void a_forked_child_is_refused_and_the_parent_goes_on(void **state) {
    struct outcome o = open_in_child(NULL, NULL, fork_with_it_open);

    assert_int_equal(o.status, NIXL_SUCCESS);
    assert_string_equal(o.error, "");
}

/* ---- what peers may send ---- */

static void peers_and_memory(struct harness *a) {
    const void *conn, *note;
    size_t conn_len, note_len;
    struct nixl_meta_desc desc = {4096, 4096, 0, NULL, 0};
    struct nixl_desc at = {4096, 4096, 0};
    void *peer = NULL, *key = NULL, *region = NULL;
    char text[256], ours[32];
    unsigned major = 0, minor = 0;

    (void)a->ops->conn_info(a->self, &conn, &conn_len);
    (void)a->ops->note(a->self, &note, &note_len);
    (void)snprintf(text, sizeof text, "%.*s", (int)note_len, (const char *)note);
    printf("note: %s\n", text);
    if (sscanf(text, "UCX %u.%u.", &major, &minor) != 2) {
        exit(80);
    }
    (void)snprintf(ours, sizeof ours, "UCX %u.%u.0", major, minor);

    static const char *const bad[] = {"UCX 1.14.1", "UCX 2.0.0", "UCX",     "",
                                      "UCX 1",      "UCX x.y.z", "mpich 3", "UCX 1.99999999999999999999.0",
                                      "UCX -1.2.3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        a->error[0] = '\0';
        if (a->ops->peer_open(a->self, "x", NULL, conn, conn_len, bad[i], strlen(bad[i]), &peer) !=
                NIXL_ERR_MISMATCH ||
            a->error[0] == '\0') {
            exit(10 + (int)i);
        }
    }
    if (a->ops->peer_open(a->self, "x", NULL, conn, conn_len, ours, strlen(ours), &peer) != NIXL_SUCCESS) {
        exit(30);
    }
    for (size_t len = 0; len < 12; len++) {
        void *none;
        if (a->ops->peer_open(a->self, "x", NULL, conn, len, ours, strlen(ours), &none) !=
            NIXL_ERR_MISMATCH) {
            exit(31);
        }
    }
    if (a->ops->key_open(a->self, peer, DRAM_SEG, &at, "", 0, &key) != NIXL_ERR_MISMATCH) {
        exit(32);
    }
    a->ops->peer_close(a->self, peer);
    /* No note: the reference, which runs on 1.21 or later. */
    nixl_status_t status = a->ops->peer_open(a->self, "ref", NULL, conn, conn_len, NULL, 0, &peer);
    if (status != (minor >= 21 ? NIXL_SUCCESS : NIXL_ERR_MISMATCH)) {
        exit(33);
    }
    if (status == NIXL_SUCCESS) {
        a->ops->peer_close(a->self, peer);
    }
    (void)snprintf(text, sizeof text, "UCX 1.%u.0", minor >= 21 ? 13 : 22);
    if (a->ops->peer_open(a->self, "x", NULL, conn, conn_len, text, strlen(text), &peer) !=
            NIXL_ERR_MISMATCH ||
        strstr(a->error, text) == NULL || strstr(a->error, "speak with each other") == NULL) {
        exit(34);
    }
    desc.len = 0;
    if (a->ops->region_open(a->self, DRAM_SEG, &desc, &region) != NIXL_ERR_INVALID_PARAM) {
        exit(40);
    }
    desc.addr = UINT64_MAX - 10;
    desc.len = 100;
    if (a->ops->region_open(a->self, DRAM_SEG, &desc, &region) != NIXL_ERR_INVALID_PARAM) {
        exit(41);
    }
    desc.addr = 4096;
    if (a->ops->region_open(a->self, VRAM_SEG, &desc, &region) != NIXL_ERR_NOT_SUPPORTED ||
        strstr(a->error, "GPU") == NULL) {
        exit(42);
    }
    a->error[0] = '\0';
}

static void foreign_versions_and_impossible_bytes_are_refused(void **state) {
    struct outcome o = open_in_child(NULL, NULL, peers_and_memory);

    assert_int_equal(o.status, NIXL_SUCCESS);
    assert_string_equal(o.error, "");
}

/* In the child that has it open: no file of CUDA or of a GPU's driver is mapped, libucp is. */
static void only_ucx_is_mapped(struct harness *a) {
    static const char *const foreign[] = {"libcuda", "libcudart", "libnvidia", "uct_cuda", "ucm_cuda"};
    char line[4400];
    bool has_ucp = false;
    FILE *maps = fopen("/proc/self/maps", "r");

    if (maps == NULL) {
        exit(50);
    }
    while (fgets(line, sizeof line, maps) != NULL) {
        has_ucp = has_ucp || strstr(line, "libucp") != NULL;
        for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
            if (strstr(line, foreign[i]) != NULL) {
                fprintf(stderr, "%s", line);
            }
        }
    }
    fclose(maps);
    if (!has_ucp) {
        exit(51);
    }
}

/* The libucp of the package built for CUDA 12 needs none. */
static void ucx_1_22_loads_without_cuda(void **state) {
    const char *folder = getenv("NIXL_TEST_UCX122");
    char variable[4200];
    struct outcome o;

    if (folder == NULL || folder[0] == '\0') {
        test_skip("UCX 1.22 is not there (scripts/ucx122.sh fetches it)");
    }
    (void)snprintf(variable, sizeof variable, "NIXL_UCX_PATH=%s", folder);
    o = open_in_child(ENV(variable), NULL, only_ucx_is_mapped);
    assert_int_equal(o.status, NIXL_SUCCESS);
    assert_non_null(strstr(o.about, "UCX 1.22"));
    assert_string_equal(o.output, "");
}

/* ---- two real processes on two versions ---- */

static void two_versions_refuse_each_other_both_ways(void **state) {
    const char *other = getenv("NIXL_TEST_UCX122");
    char variable[4200];
    struct remote r;
    void *peer;
    bool we_are_new;

    if (other == NULL || other[0] == '\0') {
        test_skip("UCX 1.22 is not there (scripts/ucx122.sh fetches it)");
    }
    /* In a child: this process must not have UCX. */
    (void)fflush(stdout);
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        we_are_new = getenv("NIXL_UCX_PATH") != NULL;
        (void)snprintf(variable, sizeof variable, "NIXL_UCX_PATH=%s", other);
        if (!remote_start(&r, "remote", 4096, ENV(we_are_new ? "NIXL_UCX_PATH" : variable))) {
            _exit(2);
        }
        if (harness_open(&h, "local", NULL, false) != NIXL_SUCCESS) {
            _exit(3);
        }
        if (harness_load(&h, &r, &peer, NULL) != NIXL_ERR_MISMATCH) {
            _exit(4);
        }
        printf("# %s\n", h.error);
        (void)fflush(stdout);
        if (remote_load(&r, &h) != NIXL_ERR_MISMATCH) {
            _exit(5);
        }
        harness_close(&h);
        remote_stop(&r);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_open_succeeds_and_prints_nothing),
        cmocka_unit_test(transports_without_messages_are_refused_with_the_cure),
        cmocka_unit_test(transports_that_do_not_exist_are_refused_with_their_name),
        cmocka_unit_test(devices_that_do_not_exist_are_refused_with_their_name),
        cmocka_unit_test(a_list_that_leaves_out_all_is_refused),
        cmocka_unit_test(a_long_list_of_transports_counts_whole),
        cmocka_unit_test(what_is_longer_than_any_list_is_refused_in_words),
        cmocka_unit_test(a_device_of_the_environment_that_does_not_exist_is_refused_with_its_name),
        cmocka_unit_test(the_device_list_has_two_names_and_blanks_do_not_matter),
        cmocka_unit_test(every_option_is_taken_by_its_name),
        cmocka_unit_test(engine_config_takes_pairs_whose_values_hold_commas),
        cmocka_unit_test(engine_config_gives_way_to_variables),
        cmocka_unit_test(a_malformed_engine_config_is_refused_with_the_piece),
        cmocka_unit_test(a_path_without_ucx_is_refused_with_the_path),
        cmocka_unit_test(a_foreign_library_is_refused_with_its_file),
        cmocka_unit_test(another_file_than_expected_is_refused_with_both),
        cmocka_unit_test(deep_binding_is_possible),
        cmocka_unit_test(without_error_handling_more_transports_serve),
        cmocka_unit_test(hooks_that_hang_are_refused),
        cmocka_unit_test(the_application_s_signal_handlers_stay),
        cmocka_unit_test(a_user_who_asks_for_ucx_s_signal_handlers_gets_them),
        cmocka_unit_test(a_ucx_without_threads_is_refused),
        cmocka_unit_test(a_forked_child_is_refused_and_the_parent_goes_on),
        cmocka_unit_test(foreign_versions_and_impossible_bytes_are_refused),
        cmocka_unit_test(ucx_1_22_loads_without_cuda),
        cmocka_unit_test(two_versions_refuse_each_other_both_ways),
    };

    harness_main(argc, argv);
    (void)unsetenv("UCX_TLS");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
