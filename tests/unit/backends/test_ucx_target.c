/* SPDX-License-Identifier: Apache-2.0 */
/* The target's side over tcp: it survives those who read and write its memory, and guards what it has deregistered. */
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

#include "base/clock.h"
#include "support/skip.h"
#include "ucx_harness.h"

#define MEMORY ((size_t)16 << 20)
#define WAIT_MS 20000

static struct harness h;

/* ---- who reads and writes: another process (this program with --initiator), which posts again and again until it is killed ---- */

struct target_bytes {
    uint64_t addr, len;
    size_t conn_len, note_len, key_len;
    uint8_t conn[2048], note[256], key[256];
};

static void initiator_main(char **argv) {
    static struct target_bytes t;
    struct nixl_desc desc;
    struct harness_memory m;
    struct harness_request q;
    struct nixl_run *runs;
    size_t block = strtoull(argv[3], NULL, 10), count;
    void *peer, *key;

    if (read(0, &t, sizeof t) != (ssize_t)sizeof t ||
        harness_open(&h, "initiator", NULL, false) != NIXL_SUCCESS || !harness_register(&h, &m, MEMORY)) {
        _exit(2);
    }
    desc = (struct nixl_desc){t.addr, t.len, 0};
    if (h.ops->peer_open(h.self, "target", NULL, t.conn, t.conn_len, t.note, t.note_len, &peer) !=
            NIXL_SUCCESS ||
        h.ops->key_open(h.self, peer, DRAM_SEG, &desc, t.key, t.key_len, &key) != NIXL_SUCCESS) {
        _exit(3);
    }
    count = MEMORY / block;
    runs = calloc(count, sizeof *runs);
    for (size_t i = 0; i < count; i++) {
        runs[i] = (struct nixl_run){.local = (uintptr_t)m.at + i * block,
                                    .remote = t.addr + i * block,
                                    .len = block,
                                    .local_key = m.region,
                                    .remote_key = key,
                                    .count = 1,
                                    .first_index = (uint32_t)i};
    }
    if (harness_request_open(&h, &q, argv[2][0] == 'r' ? NIXL_READ : NIXL_WRITE, peer, runs, count, NULL) !=
        0) {
        _exit(4);
    }
    /* Once through, so that the connection stands, then tell the target. */
    if (harness_run(&h, &q, WAIT_MS) != NIXL_SUCCESS || write(1, "g", 1) != 1) {
        _exit(5);
    }
    while (harness_run(&h, &q, WAIT_MS) == NIXL_SUCCESS) {
    }
    _exit(6);
}

/* Starts one, lets it work for `ms`, kills it, and goes on making progress. False: it did not come up. */
static bool one_death(const struct target_bytes *t, const char *op, const char *block, unsigned ms,
                      unsigned pause_ms) {
    int in[2], out[2];
    char self[4096], ready;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    uint64_t end;
    pid_t pid;

    self[n > 0 ? n : 0] = '\0';
    if (pipe(in) != 0 || pipe2(out, O_NONBLOCK) != 0) {
        return false;
    }
    pid = fork();
    if (pid == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        (void)execl(self, self, "--initiator", op, block, (char *)NULL);
        _exit(127);
    }
    (void)!write(in[1], t, sizeof *t);
    end = clock_now_ns() + 10 * NS_PER_S;
    n = 0;
    while (clock_now_ns() < end && (n = read(out[0], &ready, 1)) != 1) {
        (void)h.ops->progress(h.self);
    }
    end = clock_now_ns() + ms * NS_PER_MS;
    while (n == 1 && clock_now_ns() < end) {
        (void)h.ops->progress(h.self);
    }
    (void)usleep(pause_ms * 1000); /* its messages pile up */
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    end = clock_now_ns() + 30 * NS_PER_MS;
    while (clock_now_ns() < end) {
        (void)h.ops->progress(h.self);
    }
    for (int i = 0; i < 2; i++) {
        (void)close(in[i]);
        (void)close(out[i]);
    }
    return n == 1;
}

static void target_survives(const char *op) {
    static struct target_bytes t;
    struct harness_memory m;
    const void *conn, *note;

    (void)setenv("UCX_TLS", "tcp,self", 1);
    assert_int_equal(harness_open(&h, "target", NULL, false), NIXL_SUCCESS);
    assert_true(harness_register(&h, &m, MEMORY));
    (void)h.ops->conn_info(h.self, &conn, &t.conn_len);
    (void)h.ops->note(h.self, &note, &t.note_len);
    memcpy(t.conn, conn, t.conn_len);
    memcpy(t.note, note, t.note_len);
    memcpy(t.key, m.key, m.key_len);
    t.key_len = m.key_len;
    t.addr = (uintptr_t)m.at;
    t.len = m.len;
    for (unsigned i = 0; i < 6; i++) {
        assert_true(one_death(&t, op, i % 2 == 0 ? "65536" : "512", 3 + i * 2, i % 3 == 0 ? 20 : 0));
    }
    harness_unregister(&h, &m);
    harness_close(&h);
}

/* With UCX's own emulation the first death ended the target: "Fatal: unexpected error: Endpoint timeout". */
static void a_target_survives_the_death_of_those_who_read(void **state) {
    target_survives("read");
}

static void a_target_survives_the_death_of_those_who_write(void **state) {
    if (getenv("NIXL_UCX_PATH") == NULL) {
        test_skip(
            "UCX before 1.21 may also abort on what it had pending itself (ucp_request.c, wire-up messages)");
    }
    target_survives("write");
}

/* ---- this process reads and writes ---- */

static void move(const char *messages, bool deregister, nixl_status_t expected) {
    const char *const params[] = {"ucx_messages", messages, NULL};
    struct harness_request q;
    struct harness_memory m;
    struct nixl_run run[2];
    struct remote r;
    void *peer, *key;

    (void)setenv("UCX_TLS", "tcp,self", 1);
    assert_true(remote_start(&r, "remote", MEMORY, NULL));
    assert_int_equal(harness_open(&h, "local", params, false), NIXL_SUCCESS);
    assert_true(harness_register(&h, &m, MEMORY));
    assert_int_equal(harness_load(&h, &r, &peer, &key), NIXL_SUCCESS);
    run[0] = (struct nixl_run){.local = (uintptr_t)m.at,
                               .remote = r.addr + 1,
                               .len = 3000001,
                               .local_key = m.region,
                               .remote_key = key,
                               .count = 1};
    run[1] = (struct nixl_run){.local = (uintptr_t)m.at + 3000001,
                               .remote = r.addr + 3000002,
                               .len = 100,
                               .local_key = m.region,
                               .remote_key = key,
                               .local_stride = 100,
                               .remote_stride = 100,
                               .count = 500,
                               .first_index = 1};
    if (deregister) {
        remote_deregister(&r);
    }
    for (int op = NIXL_WRITE; op >= NIXL_READ; op--) {
        if (op == NIXL_WRITE) {
            harness_fill(m.at, 3050001, 12);
        } else {
            memset(m.at, 0, 3050001);
        }
        assert_int_equal(harness_request_open(&h, &q, (nixl_xfer_op_t)op, peer, run, 2, NULL), NIXL_SUCCESS);
        if (!deregister || op == NIXL_READ) {
            assert_int_equal(harness_run(&h, &q, WAIT_MS), expected);
        }
        if (deregister && op == NIXL_READ) {
            assert_non_null(strstr(q.text, "no such region"));
        }
        harness_request_close(&h, &q);
    }
    if (!deregister) {
        assert_true(harness_check(m.at, 3050001, 12));
        assert_true(remote_check(&r, 1, 3050001, 12));
    }
    h.ops->key_close(h.self, peer, key);
    h.ops->peer_close(h.self, peer);
    harness_unregister(&h, &m);
    harness_close(&h);
    remote_stop(&r);
}

static void bytes_travel_by_messages(void **state) {
    move("true", false, NIXL_SUCCESS);
}

/* As with the reference, which knows no other way. */
static void bytes_travel_by_ucx_s_own_emulation(void **state) {
    move("false", false, NIXL_SUCCESS);
}

static void a_read_of_a_deregistered_region_fails_with_words(void **state) {
    move("true", true, NIXL_ERR_NOT_FOUND);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_travel_by_messages),
        cmocka_unit_test(bytes_travel_by_ucx_s_own_emulation),
        cmocka_unit_test(a_read_of_a_deregistered_region_fails_with_words),
        cmocka_unit_test(a_target_survives_the_death_of_those_who_read),
        cmocka_unit_test(a_target_survives_the_death_of_those_who_write),
    };

    if (argc == 4 && strcmp(argv[1], "--initiator") == 0) {
        initiator_main(argv);
    }
    harness_main(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
