/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 of a peer, idle or in mid-transfer: what was asked of it ends in time and in words, what others do goes on, and
 * nothing of it is left behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sys/mman.h>

#include "peers.h"

#define ENDS_MS 3000
#define LARGE ((size_t)1 << 30)
#define BLOCKS 10000u
#define BLOCK ((size_t)16 << 10)
#define SIDE ((size_t)1 << 20) /* of the bystander */

struct fixture {
    const struct node_setting *setting;
    struct local l;
    struct node dying, other;
    struct nixl_xfer *bystander;
    bool is_dead, stop;
    pthread_t thread;
    unsigned done, failed;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);

    f->setting = *state;
    if (!local_open(&f->l, "local", f->setting, LARGE) ||
        !node_start(&f->dying, "dying", f->setting, LARGE, NULL) ||
        !node_start(&f->other, "other", f->setting, SIDE, NULL) ||
        node_load(&f->other, &f->l) != NIXL_SUCCESS || node_load(&f->dying, &f->l) != NIXL_SUCCESS) {
        fprintf(stderr, "# %s %s %s\n", f->dying.error, f->other.error, nixl_error());
        return -1;
    }
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    local_close(&f->l);
    if (!f->is_dead) {
        node_stop(&f->dying);
    }
    node_stop(&f->other);
    free(f);
    return 0;
}

/* Writes to the other node for as long as the death takes. */
static void *stand_by(void *arg) {
    struct fixture *f = arg;

    while (!__atomic_load_n(&f->stop, __ATOMIC_ACQUIRE)) {
        if (run_once(f->bystander) == NIXL_SUCCESS) {
            __atomic_add_fetch(&f->done, 1, __ATOMIC_RELAXED);
        } else {
            fprintf(stderr, "# bystander: %s\n", nixl_xfer_error(f->bystander));
            f->failed++;
        }
    }
    return NULL;
}

static void ends_in_words(struct fixture *f, struct nixl_xfer *xfer, uint64_t since, const char *fault) {
    nixl_status_t status = nixl_xfer_wait(xfer, 15000);
    uint64_t took = now_ms() - since;

    printf("# %s after %llu ms: %s\n", nixl_status_string(status), (unsigned long long)took,
           nixl_xfer_error(xfer));
    assert_true(status == NIXL_ERR_REMOTE_DISCONNECT || status == NIXL_ERR_CANCELED);
    assert_true(strlen(nixl_xfer_error(xfer)) > 0);
    assert_true(took <= ENDS_MS);
    outcome(fault, over(f->setting), nixl_status_string(status), (double)took);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
}

/*
 * What this process holds: descriptors, memory, and the sockets among the descriptors, which over tcp are the endpoints. A peer
 * that was loaded, used, killed and forgotten leaves what there was before: the second one as much as the first.
 */
struct level {
    size_t descriptors, sockets, kib;
};

static size_t open_sockets(void) {
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;

    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[300], target[64];
        ssize_t len;

        (void)snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        len = readlink(path, target, sizeof target);
        count += len > 7 && memcmp(target, "socket:", 7) == 0;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return count;
}

/* Its memory without the 1 GiB that the transfers move. */
static struct level level_of(struct fixture *f) {
    (void)madvise(f->l.at + SIDE, f->l.len - SIDE, MADV_DONTNEED);
    return (struct level){open_descriptors(), open_sockets(), rss_kib()};
}

/* UCX lets go of a dead connection when its keep-alive has seen the death, a second later at most. */
static void level_returns(struct fixture *f, const struct level *before) {
    struct level now;
    uint64_t end = now_ms() + 5000;

    do {
        (void)nixl_agent_progress(f->l.agent);
        (void)usleep(2000);
        now = level_of(f);
    } while ((now.descriptors > before->descriptors || now.sockets > before->sockets) && now_ms() < end);
    printf("# descriptors %zu to %zu, sockets %zu to %zu, memory %+.0f KiB\n", before->descriptors,
           now.descriptors, before->sockets, now.sockets,
           before->kib < SIZE_MAX / 2 ? (double)now.kib - (double)before->kib : 0.0);
    assert_true(now.descriptors <= before->descriptors);
    assert_true(now.sockets <= before->sockets);
    /* Less than what one peer's request of 10,000 blocks takes. */
    assert_true(now.kib <= before->kib + 2048);
}

/* One life of the peer: it is used, dies in the middle, and is forgotten. */
static void one_death(struct fixture *f, nixl_xfer_op_t op, bool many) {
    struct nixl_xfer *warm = request_to(&f->l, &f->dying, op, 1, 64, 64, NULL), *xfer;
    nixl_status_t status;
    uint64_t start;
    char fault[96];

    assert_int_equal(run_once(warm), NIXL_SUCCESS);
    assert_int_equal(nixl_xfer_release(warm), NIXL_SUCCESS);
    /* Beyond the bytes that the bystander sends. */
    xfer = many ? request_to(&f->l, &f->dying, op, BLOCKS, BLOCK, 2 * BLOCK, NULL)
                : request_to(&f->l, &f->dying, op, 1, LARGE, LARGE, NULL);
    assert_non_null(xfer);
    status = nixl_xfer_post(xfer, NULL);
    if (status == NIXL_IN_PROG) {
        (void)nixl_xfer_wait(xfer, 3);
    }
    (void)snprintf(fault, sizeof fault, "kill -9 during a %s of %s", nixl_op_string(op),
                   many ? "10,000 blocks" : "1 GiB");
    start = now_ms();
    node_kill(&f->dying);
    f->is_dead = true;
    if (nixl_xfer_poll(xfer) == NIXL_SUCCESS) {
        fprintf(stderr, "# it was done before the kill\n");
        assert_true(many);
        (void)nixl_xfer_release(xfer);
    } else {
        ends_in_words(f, xfer, start, fault);
    }
    assert_int_equal(nixl_metadata_invalidate(f->l.agent, "dying"), NIXL_SUCCESS);
}

static void killed(void **state, nixl_xfer_op_t op, bool many) {
    struct fixture *f = *state;
    struct level before, after_one;
    uint64_t start;

    pattern_fill(f->l.at, SIDE, 5);
    f->bystander = request_to(&f->l, &f->other, NIXL_WRITE, 1, SIDE, SIDE, NULL);
    assert_int_equal(run_once(f->bystander), NIXL_SUCCESS);
    assert_int_equal(nixl_metadata_invalidate(f->l.agent, "dying"), NIXL_SUCCESS);
    before = level_of(f);
    assert_int_equal(node_load(&f->dying, &f->l), NIXL_SUCCESS);
    assert_int_equal(pthread_create(&f->thread, NULL, stand_by, f), 0);
    start = now_ms();
    one_death(f, op, many);
    /* It goes on: one more from begin to end, however busy the machine. */
    for (unsigned seen = __atomic_load_n(&f->done, __ATOMIC_RELAXED);
         __atomic_load_n(&f->done, __ATOMIC_RELAXED) < seen + 2 && now_ms() - start < 30000;) {
        (void)usleep(1000);
    }
    __atomic_store_n(&f->stop, true, __ATOMIC_RELEASE);
    (void)pthread_join(f->thread, NULL);
    printf("# the bystander: %u done\n", f->done);
    assert_int_equal(f->failed, 0);
    assert_true(f->done > 1);
    /* UCX keeps what it took for the first transfer of its kind, so memory is compared from the second life on. */
    before.kib = SIZE_MAX / 2;
    level_returns(f, &before);
    after_one = level_of(f);
    assert_true(node_start(&f->dying, "dying", f->setting, LARGE, NULL));
    f->is_dead = false;
    assert_int_equal(node_load(&f->dying, &f->l), NIXL_SUCCESS);
    one_death(f, op, many);
    level_returns(f, &after_one);
    assert_int_equal(nixl_xfer_release(f->bystander), NIXL_SUCCESS);
    if (op == NIXL_WRITE) {
        assert_true(node_check(&f->other, 0, SIDE, 5));
    }
}

static void a_write_of_one_gib_ends_when_its_target_is_killed(void **state) {
    killed(state, NIXL_WRITE, false);
}

static void a_read_of_ten_thousand_blocks_ends_when_its_owner_is_killed(void **state) {
    killed(state, NIXL_READ, true);
}

static void a_read_of_one_gib_ends_when_its_owner_is_killed(void **state) {
    killed(state, NIXL_READ, false);
}

static void a_write_of_ten_thousand_blocks_ends_when_its_target_is_killed(void **state) {
    killed(state, NIXL_WRITE, true);
}

/* Nothing moves when it dies. Who comes later is told, and all that the peer was is given back. */
static void an_idle_peer_that_is_killed_is_noticed_and_leaves_nothing_behind(void **state) {
    struct fixture *f = *state;
    size_t before = open_descriptors(), with;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    uint64_t start;

    assert_write_arrives(&f->l, &f->dying, 100, 1);
    assert_write_arrives(&f->l, &f->other, 100, 2);
    with = open_descriptors();
    xfer = request_to(&f->l, &f->dying, NIXL_WRITE, 1, SIDE, SIDE, NULL);
    start = now_ms();
    node_kill(&f->dying);
    f->is_dead = true;
    do {
        (void)nixl_agent_progress(f->l.agent);
        status = nixl_peer_state(f->l.agent, "dying");
        (void)usleep(1000);
    } while (status != NIXL_ERR_REMOTE_DISCONNECT && now_ms() - start < 15000);
    printf("# %s after %llu ms: %s\n", nixl_status_string(status), (unsigned long long)(now_ms() - start),
           nixl_peer_error(f->l.agent, "dying"));
    assert_int_equal(status, NIXL_ERR_REMOTE_DISCONNECT);
    assert_true(now_ms() - start <= ENDS_MS);
    outcome("kill -9 of an idle peer", over(f->setting), "REMOTE_DISCONNECT by nixl_peer_state()",
            (double)(now_ms() - start));
    status = run_once(xfer);
    assert_int_equal(status, NIXL_ERR_REMOTE_DISCONNECT);
    assert_true(nixl_xfer_error(xfer)[0] != '\0');
    /* Refused by the backend within the post: the request says the same to who asks later. */
    assert_int_equal(nixl_xfer_poll(xfer), NIXL_ERR_REMOTE_DISCONNECT);
    assert_int_equal(nixl_xfer_post(xfer, NULL), NIXL_ERR_REMOTE_DISCONNECT);
    assert_int_equal(nixl_xfer_release(xfer), NIXL_SUCCESS);
    assert_int_equal(nixl_metadata_invalidate(f->l.agent, "dying"), NIXL_SUCCESS);
    for (start = now_ms(); open_descriptors() >= with && with > before + 1 && now_ms() - start < 3000;) {
        (void)nixl_agent_progress(f->l.agent);
        (void)usleep(1000);
    }
    printf("# descriptors: %zu, connected %zu, after %zu\n", before, with, open_descriptors());
    /* The connection to the other one is still there. */
    assert_true(open_descriptors() <= with);
    assert_write_arrives(&f->l, &f->other, SIDE, 3);
}

#define TEST(f)                                                                                              \
    { #f, f, setup, teardown, NULL }

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(a_write_of_one_gib_ends_when_its_target_is_killed),
        TEST(a_read_of_ten_thousand_blocks_ends_when_its_owner_is_killed),
        TEST(a_read_of_one_gib_ends_when_its_owner_is_killed),
        TEST(a_write_of_ten_thousand_blocks_ends_when_its_target_is_killed),
        TEST(an_idle_peer_that_is_killed_is_noticed_and_leaves_nothing_behind),
    };

    node_main(argc, argv);
    return run_matrix(tests, COUNT_OF(tests));
}
