/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata over sockets between an agent of this library and one of the reference, in both directions, with both as the
 * side that asks. NIXL_TEST_REFERENCE_PYTHON names an interpreter with the reference's Python package, else it is skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <nixl/nixl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/skip.h"

static struct {
    pid_t pid;
    FILE *in, *out;
    uint16_t port;
    uintptr_t memory;
} theirs;

static struct nixl_agent *ours;
static char memory[4096] __attribute__((aligned(4096)));

static uint16_t free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void say(const char *format, ...) {
    char line[256] = "";
    va_list args;

    va_start(args, format);
    vfprintf(theirs.in, format, args);
    va_end(args);
    fputc('\n', theirs.in);
    fflush(theirs.in);
    assert_non_null(fgets(line, sizeof line, theirs.out));
    if (strcmp(line, "done\n") != 0 && strcmp(line, "yes\n") != 0) {
        print_error("the reference answers %s", line);
    }
    assert_true(strcmp(line, "done\n") == 0 || strcmp(line, "yes\n") == 0);
}

static bool start(const char *python) {
    char script[4096];
    char port[16];
    int in[2];
    int out[2];
    char line[256] = "";

    snprintf(script, sizeof script, "%s/tests/integration/exchange_reference_peer.py",
             getenv("NIXL_TEST_SOURCE"));
    theirs.port = free_port();
    snprintf(port, sizeof port, "%u", theirs.port);
    assert_int_equal(pipe(in) | pipe(out), 0);
    theirs.pid = fork();
    if (theirs.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        unsetenv("NIXL_PLUGIN_DIR");
        unsetenv("LD_LIBRARY_PATH");
        execl(python, python, script, "theirs", port, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    theirs.in = fdopen(in[1], "w");
    theirs.out = fdopen(out[0], "r");
    while (fgets(line, sizeof line, theirs.out) != NULL) {
        unsigned long at;

        if (sscanf(line, "ready %lu", &at) == 1) {
            theirs.memory = at;
            return true;
        }
    }
    return false;
}

static int begin(void **state) {
    const char *python = getenv("NIXL_TEST_REFERENCE_PYTHON");
    const char *ucx = getenv("NIXL_TEST_UCX122");
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_desc desc = {(uintptr_t)memory, sizeof memory, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);
    struct nixl_backend *backend;

    if (python == NULL || python[0] == '\0') {
        return 0;
    }
    signal(SIGPIPE, SIG_IGN);
    if (ucx != NULL && ucx[0] != '\0') {
        setenv("NIXL_UCX_PATH", ucx, 1);
    }
    if (!start(python)) {
        print_error("the reference's agent does not start\n");
        return -1;
    }
    config.progress_thread = true;
    config.listen_thread = true;
    config.listen_port = 0;
    if (nixl_agent_create("ours", &config, &ours) != NIXL_SUCCESS ||
        nixl_backend_create(ours, "UCX", NULL, 0, &backend) != NIXL_SUCCESS ||
        nixl_mem_register(ours, &list, NULL) != NIXL_SUCCESS) {
        print_error("%s\n", nixl_error());
        return -1;
    }
    return 0;
}

static int end(void **state) {
    nixl_agent_destroy(ours);
    if (theirs.pid > 0) {
        fclose(theirs.in);
        kill(theirs.pid, SIGKILL);
        waitpid(theirs.pid, NULL, 0);
    }
    return 0;
}

static void there(void) {
    if (ours == NULL) {
        test_skip("NIXL_TEST_REFERENCE_PYTHON names no interpreter with the reference");
    }
}

static struct nixl_options to_them(uint64_t wait_ms) {
    struct nixl_options options = NIXL_OPTIONS_INIT;

    options.ip_addr = "127.0.0.1";
    options.port = theirs.port;
    options.wait_ms = wait_ms;
    return options;
}

static bool we_know(bool expected) {
    struct nixl_desc desc = {theirs.memory, 4096, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    for (unsigned i = 0; i < 1000; i++) {
        if ((nixl_metadata_check(ours, "theirs", &list) == NIXL_SUCCESS) == expected) {
            return true;
        }
        usleep(5000);
    }
    return false;
}

static void assert_good(nixl_status_t status) {
    if (status != NIXL_SUCCESS) {
        print_error("%s: %s\n", nixl_status_string(status), nixl_error());
    }
    assert_int_equal(status, NIXL_SUCCESS);
}

static void we_fetch_from_the_reference(void **state) {
    struct nixl_options options = to_them(5000);

    there();
    assert_good(nixl_metadata_fetch(ours, "theirs", &options));
    assert_true(we_know(true));
    assert_good(nixl_metadata_invalidate(ours, "theirs"));
    options.wait_ms = 0;
    assert_good(nixl_metadata_fetch(ours, "theirs", &options));
    assert_true(we_know(true));
    assert_good(nixl_metadata_invalidate(ours, "theirs"));
}

static void we_send_to_the_reference_and_declare_ourselves_void(void **state) {
    struct nixl_options options = to_them(5000);

    there();
    assert_good(nixl_metadata_send(ours, &options));
    say("knows ours 1");
    assert_good(nixl_metadata_invalidate_local(ours, &options));
    say("knows ours 0");
}

static void the_reference_sends_to_us_and_declares_itself_void(void **state) {
    there();
    say("send %u", nixl_agent_listen_port(ours));
    assert_true(we_know(true));
    say("void %u", nixl_agent_listen_port(ours));
    assert_true(we_know(false));
}

static void the_reference_fetches_from_us(void **state) {
    there();
    say("fetch ours %u", nixl_agent_listen_port(ours));
    say("knows ours 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(we_fetch_from_the_reference),
        cmocka_unit_test(we_send_to_the_reference_and_declare_ourselves_void),
        cmocka_unit_test(the_reference_sends_to_us_and_declares_itself_void),
        cmocka_unit_test(the_reference_fetches_from_us),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
