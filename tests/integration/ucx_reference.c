/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent of this library and one of the reference, each the initiator in turn: reads, writes, notifications with them and by
 * themselves, metadata by blob and by update, over tcp and over what UCX chooses. NIXL_TEST_REFERENCE_PYTHON names an interpreter that
 * has the reference's Python package, NIXL_TEST_UCX122 the UCX of ours. The last line tells the versions and transports of both.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <nixl/nixl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/skip.h"

#define SIZE ((size_t)1 << 20)

static const char *const settings[] = {"tcp", ""};

/* Both sides; theirs is a process that answers lines. */
static struct {
    const char *missing; /* why there is no reference here */
    struct nixl_agent *agent;
    struct nixl_backend *ucx;
    pid_t pid;
    FILE *in, *out;
    char *line;
    size_t line_size;
    uint64_t theirs[2]; /* their blocks' addresses */
} t;

static uint8_t memory[2][SIZE] __attribute__((aligned(4096)));
static char facts[2][512]; /* of each setting, for the last line */

static uint64_t now_ms(void) {
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Sends a line; its answer without "= " and newline, until the next call. Ours goes on meanwhile: it has a thread. */
static const char *tell(const char *format, ...) {
    va_list args;

    va_start(args, format);
    (void)vfprintf(t.in, format, args);
    va_end(args);
    (void)fputc('\n', t.in);
    (void)fflush(t.in);
    for (;;) {
        ssize_t len = getline(&t.line, &t.line_size, t.out);

        if (len <= 0) {
            return "ended";
        }
        if (strncmp(t.line, "= ", 2) == 0) {
            t.line[len - 1] = '\0';
            return t.line + 2;
        }
    }
}

#define assert_tells(expected, ...)                                                                          \
    do {                                                                                                     \
        const char *told = tell(__VA_ARGS__);                                                                \
                                                                                                             \
        if (strcmp(told, (expected)) != 0) {                                                                 \
            fail_msg("the reference answers \"%.300s\" instead of \"%s\"", told, (expected));                \
        }                                                                                                    \
    } while (0)

static void assert_good(nixl_status_t status) {
    if (status != NIXL_SUCCESS) {
        fail_msg("%s: %s", nixl_status_string(status), nixl_error());
    }
}

/* ---- beginning and end ---- */

static bool start_theirs(const char *python) {
    char script[4096];
    int in[2], out[2];
    unsigned long long first = 0, second = 0;

    (void)snprintf(script, sizeof script, "%s/tests/integration/ucx_reference_peer.py",
                   getenv("NIXL_TEST_SOURCE"));
    if (pipe(in) != 0 || pipe(out) != 0) {
        return false;
    }
    t.pid = fork();
    if (t.pid == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        (void)close(in[1]);
        (void)close(out[0]);
        (void)unsetenv("NIXL_PLUGIN_DIR");
        (void)unsetenv("LD_LIBRARY_PATH");
        (void)setenv("UCX_PROTO_INFO", "y", 1); /* which transports it uses: asked for at the end */
        (void)execl(python, python, script, (char *)NULL);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    t.in = fdopen(in[1], "w");
    t.out = fdopen(out[0], "r");
    while (getline(&t.line, &t.line_size, t.out) > 0) {
        if (sscanf(t.line, "= ready %llu %llu", &first, &second) == 2) {
            t.theirs[0] = first;
            t.theirs[1] = second;
            return true;
        }
    }
    return false;
}

static bool start_ours(void) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_desc desc = {(uintptr_t)memory[0], SIZE, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    config.progress_thread = true;
    return nixl_agent_create("ours", &config, &t.agent) == NIXL_SUCCESS &&
           nixl_backend_create(t.agent, "UCX", NULL, 0, &t.ucx) == NIXL_SUCCESS &&
           nixl_mem_register(t.agent, &list, NULL) == NIXL_SUCCESS;
}

static size_t hex_decode(const char *hex, uint8_t **out) {
    size_t len = strlen(hex) / 2;

    *out = malloc(len + 1);
    for (size_t i = 0; i < len; i++) {
        unsigned byte = 0;

        (void)sscanf(hex + 2 * i, "%2x", &byte);
        (*out)[i] = (uint8_t)byte;
    }
    return len;
}

static nixl_status_t load_theirs(const char *hex) {
    uint8_t *blob;
    size_t len = hex_decode(hex, &blob);
    nixl_status_t status = nixl_metadata_load(t.agent, blob, len, NULL);

    free(blob);
    return status;
}

static void give_ours(const void *blob, size_t len) {
    char *hex = malloc(2 * len + 1);

    for (size_t i = 0; i < len; i++) {
        (void)sprintf(hex + 2 * i, "%02x", ((const uint8_t *)blob)[i]);
    }
    assert_tells("ours", "load %s", hex);
    free(hex);
}

static int setup(void **state) {
    const char *tls = *state, *python = getenv("NIXL_TEST_REFERENCE_PYTHON"),
               *ucx = getenv("NIXL_TEST_UCX122");
    void *blob;
    size_t len;

    t.missing = python == NULL || python[0] == '\0'
                    ? "NIXL_TEST_REFERENCE_PYTHON names no interpreter with the reference"
                : ucx == NULL || ucx[0] == '\0' ? "UCX 1.22 is not there (scripts/ucx122.sh fetches it)"
                                                : NULL;
    if (t.missing != NULL) {
        return 0;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setenv("NIXL_UCX_PATH", ucx, 1);
    (void)(tls[0] != '\0' ? setenv("UCX_TLS", tls, 1) : unsetenv("UCX_TLS"));
    if (!start_theirs(python) || !start_ours()) {
        fprintf(stderr, "# the two do not start: %s\n", nixl_error());
        return -1;
    }
    assert_good(load_theirs(tell("md")));
    assert_good(nixl_metadata_get(t.agent, &blob, &len));
    give_ours(blob, len);
    nixl_free(blob);
    return 0;
}

static int teardown(void **state) {
    if (t.missing == NULL) {
        nixl_agent_destroy(t.agent);
        (void)fclose(t.in);
        (void)fclose(t.out);
        (void)kill(t.pid, SIGKILL);
        (void)waitpid(t.pid, NULL, 0);
    }
    return 0;
}

static void there(void) {
    if (t.missing != NULL) {
        test_skip("%s", t.missing);
    }
}

/* ---- moving ---- */

/* One transfer of ours of a whole block; the transport, until this thread's next call. */
static const char *move(nixl_xfer_op_t op, unsigned block, const char *notif) {
    struct nixl_desc here = {(uintptr_t)memory[0], SIZE, 0}, there_ = {t.theirs[block], SIZE, 0};
    struct nixl_list local = NIXL_LIST(DRAM_SEG, &here, 1), remote = NIXL_LIST(DRAM_SEG, &there_, 1);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    static char transport[128];

    options.has_notif = notif != NULL;
    options.notif = notif;
    options.notif_len = notif != NULL ? strlen(notif) : 0;
    assert_good(nixl_xfer_create(t.agent, op, &local, &remote, "theirs", &options, &xfer));
    status = nixl_xfer_post(xfer, NULL);
    status = status == NIXL_IN_PROG ? nixl_xfer_wait(xfer, 20000) : status;
    if (status != NIXL_SUCCESS) {
        fail_msg("%s: %s", nixl_status_string(status), nixl_xfer_error(xfer));
    }
    (void)snprintf(transport, sizeof transport, "%s", nixl_xfer_transport(xfer));
    assert_good(nixl_xfer_release(xfer));
    return transport;
}

static bool all_are(const uint8_t *at, uint8_t value) {
    return at[0] == value && memcmp(at, at + 1, SIZE - 1) == 0;
}

/* Takes `count` notifications of theirs, which must be "<prefix>0", "<prefix>1", ... */
static void assert_received(const char *prefix, unsigned count) {
    uint64_t end = now_ms() + 10000;
    unsigned seen = 0;

    while (seen < count && now_ms() < end) {
        struct nixl_notifs *notifs = NULL;

        assert_good(nixl_notif_take(t.agent, NULL, &notifs));
        for (size_t i = 0; notifs != NULL && i < notifs->count; i++) {
            char text[64];

            (void)snprintf(text, sizeof text, "%s%u", prefix, seen++);
            assert_string_equal(notifs->items[i].msg, text);
            assert_string_equal(notifs->items[i].agent, "theirs");
        }
        nixl_notifs_release(notifs);
    }
    assert_int_equal(seen, count);
}

/* ---- the tests ---- */

static void we_write_and_read_and_notify(void **state) {
    const char *tls = *state;
    unsigned which = tls[0] != '\0' ? 0 : 1;
    char write_way[128], read_way[128];
    const char *description;

    there();
    description = nixl_backend_description(t.ucx);
    memset(memory[0], 11, SIZE);
    (void)snprintf(write_way, sizeof write_way, "%s", move(NIXL_WRITE, 0, "n0"));
    assert_tells("n0", "notifs 1");
    assert_tells("yes", "holds 0 11");
    assert_tells("done", "fill 0 12");
    (void)snprintf(read_way, sizeof read_way, "%s", move(NIXL_READ, 0, "n1"));
    assert_true(all_are(memory[0], 12));
    assert_tells("n1", "notifs 1");
    assert_tells("DONE", "WRITE %llu %zu m0", (unsigned long long)(uintptr_t)memory[0], SIZE);
    assert_string_equal(write_way, read_way);
    if (tls[0] != '\0') {
        assert_string_equal(write_way, "UCX tcp");
    }
    (void)snprintf(facts[which], sizeof facts[which], "%s: ours NIXL %s, %.*s, %s; theirs %s",
                   tls[0] != '\0' ? tls : "default", nixl_version(), (int)strcspn(description, ","),
                   description, write_way, tell("versions"));
}

static void the_reference_writes_and_reads_and_notifies(void **state) {
    there();
    memset(memory[0], 0, SIZE);
    assert_tells("done", "fill 0 21");
    assert_tells("DONE", "WRITE %llu %zu m0", (unsigned long long)(uintptr_t)memory[0], SIZE);
    assert_received("m", 1);
    assert_true(all_are(memory[0], 21));
    memset(memory[0], 22, SIZE);
    assert_tells("DONE", "READ %llu %zu r0", (unsigned long long)(uintptr_t)memory[0], SIZE);
    assert_tells("yes", "holds 0 22");
    assert_received("r", 1);
}

static void notifications_alone_travel_both_ways_in_order(void **state) {
    there();
    for (unsigned i = 0; i < 5; i++) {
        char text[16];

        assert_tells("done", "notify k%u", i);
        (void)snprintf(text, sizeof text, "o%u", i);
        assert_good(nixl_notif_send(t.agent, "theirs", text, strlen(text), NULL));
    }
    assert_received("k", 5);
    assert_tells("o0 o1 o2 o3 o4", "notifs 5");
}

static void our_update_brings_a_region_to_the_reference(void **state) {
    struct nixl_desc desc = {(uintptr_t)memory[1], SIZE, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    uint64_t since;
    void *blob;
    size_t len;

    there();
    since = nixl_metadata_generation(t.agent);
    memset(memory[1], 0, SIZE);
    assert_good(nixl_mem_register(t.agent, &list, NULL));
    assert_tells("done", "fill 0 31");
    assert_true(strncmp(tell("WRITE %llu %zu x", (unsigned long long)(uintptr_t)memory[1], SIZE),
                        "failed: ", 8) == 0);
    assert_good(nixl_metadata_get_update(t.agent, since, &blob, &len));
    give_ours(blob, len);
    nixl_free(blob);
    assert_tells("DONE", "WRITE %llu %zu u0", (unsigned long long)(uintptr_t)memory[1], SIZE);
    assert_received("u", 1);
    assert_true(all_are(memory[1], 31));
    assert_good(nixl_mem_deregister(t.agent, &list, NULL));
}

static void their_update_brings_a_region_to_us(const char *how) {
    struct nixl_desc theirs = {t.theirs[1], SIZE, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &theirs, 1);

    there();
    assert_int_equal(nixl_metadata_check(t.agent, "theirs", &list), NIXL_ERR_NOT_FOUND);
    assert_good(load_theirs(tell("more %s", how)));
    assert_good(nixl_metadata_check(t.agent, "theirs", &list));
    memset(memory[0], 41, SIZE);
    (void)move(NIXL_WRITE, 1, "p0");
    assert_tells("p0", "notifs 1");
    assert_tells("yes", "holds 1 41");
    /* What was known before still is. */
    (void)move(NIXL_WRITE, 0, NULL);
    assert_tells("yes", "holds 0 41");
}

static void their_partial_blob_brings_a_region_to_us(void **state) {
    their_update_brings_a_region_to_us("part");
}

static void their_whole_blob_once_more_brings_a_region_to_us(void **state) {
    their_update_brings_a_region_to_us("all");
}

#define TEST(f)                                                                                              \
    { #f, f, setup, teardown, NULL }
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

int main(void) {
    static const struct CMUnitTest tests[] = {
        TEST(we_write_and_read_and_notify),
        TEST(the_reference_writes_and_reads_and_notifies),
        TEST(notifications_alone_travel_both_ways_in_order),
        TEST(our_update_brings_a_region_to_the_reference),
        TEST(their_partial_blob_brings_a_region_to_us),
        TEST(their_whole_blob_once_more_brings_a_region_to_us),
    };
    static struct CMUnitTest all[COUNT_OF(settings) * COUNT_OF(tests)];
    static char names[COUNT_OF(all)][120];
    size_t count = 0;
    int rc;

    for (size_t s = 0; s < COUNT_OF(settings); s++) {
        for (size_t i = 0; i < COUNT_OF(tests); i++, count++) {
            (void)snprintf(names[count], sizeof names[count], "%s: %s",
                           settings[s][0] != '\0' ? settings[s] : "default", tests[i].name);
            all[count] = tests[i];
            all[count].name = names[count];
            all[count].initial_state = (void *)(uintptr_t)settings[s];
        }
    }
    rc = cmocka_run_group_tests(all, NULL, NULL);
    printf("# %s%s%s\n", facts[0][0] != '\0' ? facts[0] : "no reference agent ran",
           facts[1][0] != '\0' ? " | " : "", facts[1]);
    return rc;
}
