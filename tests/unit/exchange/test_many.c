/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many agents in several processes publish through one etcd at once, and each fetches the next four by name. Without
 * arguments a size for the suite; "PROCESSES AGENTS" for another one. Prints how long it took and what it cost.
 */
#include "etcd_server.h"

#include "base/clock.h"
#include "support/skip.h"

#include <sys/resource.h>

#define NEIGHBOURS 4
#define MOST 128 /* agents of one process */

static struct etcd_server server;
static unsigned processes = 4;
static unsigned agents_each = 8;
static const char *program;

static void name_of(char *name, size_t size, unsigned number) {
    snprintf(name, size, "agent-%u", number);
}

/* One process: makes its agents, waits for the start, publishes and fetches, and says how many fetches succeeded. */
static int child_run(unsigned first, unsigned count, unsigned total) {
    static struct nixl_agent *agents[MOST];
    struct nixl_options brief = NIXL_OPTIONS_INIT;
    struct nixl_backend *backend;
    char name[32];
    char go;
    unsigned known = 0;
    uint64_t deadline;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    exchange_install();
    for (unsigned i = 0; i < count; i++) {
        name_of(name, sizeof name, first + i);
        assert_status(nixl_agent_create(name, NULL, &agents[i]), NIXL_SUCCESS);
        assert_status(nixl_backend_create(agents[i], "MOCK", NULL, 0, &backend), NIXL_SUCCESS);
    }
    brief.wait_ms = 60000;
    if (write(1, "r", 1) != 1 || read(0, &go, 1) != 1) {
        return 1;
    }
    for (unsigned i = 0; i < count; i++) {
        assert_status(nixl_metadata_send(agents[i], NULL), NIXL_SUCCESS);
    }
    for (unsigned i = 0; i < count; i++) {
        for (unsigned k = 1; k <= NEIGHBOURS; k++) {
            name_of(name, sizeof name, (first + i + k) % total);
            known += nixl_metadata_fetch(agents[i], name, &brief) == NIXL_SUCCESS;
        }
    }
    deadline = clock_deadline_ms(clock_now_ns(), 100);
    while (clock_now_ns() < deadline) {
        usleep(1000); /* watches settle */
    }
    dprintf(1, "%u\n", known);
    /* Stays, so that nobody's keys vanish before all have fetched. */
    if (read(0, &go, 1) < 0) {
        return 1;
    }
    for (unsigned i = 0; i < count; i++) {
        nixl_agent_destroy(agents[i]);
    }
    return 0;
}

struct child {
    pid_t pid;
    int in, out;
};

static struct child child_start(unsigned first, unsigned total) {
    struct child child;
    int in[2];
    int out[2];
    char texts[3][16];

    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    snprintf(texts[0], sizeof texts[0], "%u", first);
    snprintf(texts[1], sizeof texts[1], "%u", agents_each);
    snprintf(texts[2], sizeof texts[2], "%u", total);
    child.pid = fork();
    if (child.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl("/proc/self/exe", program, "--child", texts[0], texts[1], texts[2], (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    child.in = in[1];
    child.out = out[0];
    return child;
}

static long resident_kib(pid_t pid) {
    char path[64];
    char line[256];
    long kib = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "VmRSS: %ld", &kib);
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib;
}

static void all_find_their_neighbours(void **state) {
    const unsigned total = processes * agents_each;
    struct child *children = calloc(processes, sizeof *children);
    unsigned known = 0;
    long children_kib = 0;
    uint64_t start;
    char byte;

    if (server.pid <= 0) {
        free(children);
        test_skip("etcd is not there (Debian: etcd-server)");
        return;
    }
    assert_non_null(children);
    for (unsigned i = 0; i < processes; i++) {
        children[i] = child_start(i * agents_each, total);
    }
    for (unsigned i = 0; i < processes; i++) {
        assert_int_equal(read(children[i].out, &byte, 1), 1);
    }
    start = clock_now_ns();
    for (unsigned i = 0; i < processes; i++) {
        assert_int_equal(write(children[i].in, "g", 1), 1);
    }
    for (unsigned i = 0; i < processes; i++) {
        char line[32] = "";

        assert_true(read(children[i].out, line, sizeof line - 1) > 0);
        known += (unsigned)atoi(line);
    }
    print_message("# %u agents in %u processes: %u fetches in %.2f s; ", total, processes, known,
                  (double)(clock_now_ns() - start) / 1e9);
    for (unsigned i = 0; i < processes; i++) {
        children_kib += resident_kib(children[i].pid);
    }
    print_message("%ld KiB a process of theirs, %ld KiB etcd\n", children_kib / (long)processes,
                  resident_kib(server.pid));
    assert_int_equal(known, total * NEIGHBOURS);
    for (unsigned i = 0; i < processes; i++) {
        int how = 1;

        close(children[i].in);
        close(children[i].out);
        waitpid(children[i].pid, &how, 0);
        assert_int_equal(how, 0);
    }
    free(children);
}

static int server_up(void **state) {
    static char endpoint[64];

    if (etcd_server_start(&server)) {
        snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u", server.port);
        setenv("NIXL_ETCD_ENDPOINTS", endpoint, 1);
    }
    return 0;
}

static int server_down(void **state) {
    etcd_server_end(&server);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {TEST(all_find_their_neighbours)};

    program = argv[0];
    if (argc == 5 && strcmp(argv[1], "--child") == 0) {
        return child_run((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]));
    }
    if (argc == 3) {
        processes = (unsigned)atoi(argv[1]);
        agents_each = (unsigned)atoi(argv[2]);
        assert_in_range(processes, 1, 64);
        assert_in_range(agents_each, 1, MOST);
    }
    return cmocka_run_group_tests(tests, server_up, server_down);
}
