/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The LOCAL runtime: rank 0 runs this program again for each other process and gives it its end of a socket pair to
 * every process. Nothing is left behind: a child ends when rank 0 does, however that happens.
 */
#include "runtime.h"
#include "stop.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOCAL_VARIABLE "NIXLBENCH_LOCAL" /* rank size parent buffer_size fd fd ...: -1 for oneself */
#define END_PATIENCE_MS 5000

/* One socket for each ordered pair: fds[i * size + j] is i's end to j. */
static bool make_sockets(struct runtime *runtime, int *fds, unsigned size) {
    for (unsigned i = 0; i < size * size; i++) {
        fds[i] = -1;
    }
    for (unsigned i = 0; i < size; i++) {
        for (unsigned j = i + 1; j < size; j++) {
            int pair[2];

            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
                return runtime_fail(runtime, "socket pair for processes %u and %u: %s", i, j,
                                    strerror(errno));
            }
            fds[i * size + j] = pair[0];
            fds[j * size + i] = pair[1];
        }
    }
    return true;
}

static void close_sockets(int *fds, unsigned size, unsigned but_of) {
    for (unsigned i = 0; i < size; i++) {
        for (unsigned j = 0; j < size && i != but_of; j++) {
            if (fds[i * size + j] >= 0) {
                close(fds[i * size + j]);
            }
        }
    }
}

/* In the child, between fork and exec. */
static void become(char *const *argv, const char *variable, const int *fds, unsigned size, unsigned rank,
                   pid_t parent) {
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
    }
    dup2(STDERR_FILENO, STDOUT_FILENO); /* standard output is for results */
    for (unsigned j = 0; j < size; j++) {
        if (fds[rank * size + j] >= 0) {
            fcntl(fds[rank * size + j], F_SETFD, 0);
        }
    }
    if (putenv((char *)(uintptr_t)variable) == 0) {
        execv("/proc/self/exe", argv);
    }
    fprintf(stderr, "nixlbench: process %u could not be started: %m\n", rank);
    _exit(127);
}

static bool start_children(struct runtime *runtime, const struct bench_plan *plan, char *const *argv,
                           const int *fds) {
    unsigned size = runtime->size;
    pid_t parent = getpid();

    for (unsigned rank = 1; rank < size; rank++) {
        char variable[512];
        int len = snprintf(variable, sizeof variable, LOCAL_VARIABLE "=%u %u %ld %" PRIu64, rank, size,
                           (long)parent, plan->buffer_size);
        pid_t pid;

        for (unsigned j = 0; j < size; j++) {
            len += snprintf(variable + len, sizeof variable - (size_t)len, " %d", fds[rank * size + j]);
        }
        fflush(NULL);
        pid = fork();
        if (pid == 0) {
            become(argv, variable, fds, size, rank, parent);
        }
        if (pid < 0) {
            return runtime_fail(runtime, "process %u of %u could not be started: %s", rank, size,
                                strerror(errno));
        }
        runtime->children[rank] = pid;
    }
    return true;
}

/* A process that rank 0 started takes its sockets from the environment. */
static bool join_parent(struct runtime *runtime) {
    const char *text = getenv(LOCAL_VARIABLE);
    unsigned rank, size;
    long parent;
    uint64_t buffer_size;
    int used;

    if (text == NULL ||
        sscanf(text, "%u %u %ld %" SCNu64 "%n", &rank, &size, &parent, &buffer_size, &used) != 4 ||
        size < 2 || size > LOCAL_MAX_PROCESSES || rank == 0 || rank >= size) {
        return runtime_fail(runtime, LOCAL_VARIABLE " is set, but not by nixlbench");
    }
    if (!runtime_set_size(runtime, size)) {
        return false;
    }
    runtime->rank = rank;
    text += used;
    for (unsigned j = 0; j < size; j++) {
        if (sscanf(text, "%d%n", &runtime->channels[j].fd, &used) != 1) {
            return runtime_fail(runtime, LOCAL_VARIABLE " is set, but not by nixlbench");
        }
        if (runtime->channels[j].fd >= 0) {
            fcntl(runtime->channels[j].fd, F_SETFD, FD_CLOEXEC);
        }
        text += used;
    }
    return true;
}

bool runtime_is_local_child(uint64_t *buffer_size) {
    const char *text = getenv(LOCAL_VARIABLE);
    long parent;

    return text != NULL && sscanf(text, "%*u %*u %ld %" SCNu64, &parent, buffer_size) == 2 &&
           parent == (long)getppid();
}

bool runtime_open_local(struct runtime *runtime, const struct bench_plan *plan, char *const *argv) {
    unsigned size = plan->processes;
    uint64_t ignored;
    int *fds;
    bool ok;

    memset(runtime, 0, sizeof *runtime);
    runtime->kind = RUNTIME_LOCAL;
    if (runtime_is_local_child(&ignored)) {
        return join_parent(runtime);
    }
    if (!runtime_set_size(runtime, size)) {
        return false;
    }
    fds = malloc(sizeof *fds * size * size);
    runtime->children = calloc(size, sizeof *runtime->children);
    if (fds == NULL || runtime->children == NULL) {
        free(fds);
        return runtime_fail(runtime, "out of memory");
    }
    ok = make_sockets(runtime, fds, size) && start_children(runtime, plan, argv, fds);
    close_sockets(fds, size, 0);
    for (unsigned j = 0; j < size; j++) {
        runtime->channels[j].fd = fds[j];
    }
    free(fds);
    return ok;
}

/* True when the child ended well; kills it when it does not end by the deadline. */
static bool reap(pid_t pid, uint64_t deadline_ns) {
    int status = 0;

    for (;;) {
        pid_t got = waitpid(pid, &status, clock_now_ns() < deadline_ns ? WNOHANG : 0);

        if (got == pid || (got < 0 && errno != EINTR)) {
            return got == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        if (clock_now_ns() >= deadline_ns) {
            kill(pid, SIGKILL);
        } else {
            struct timespec nap = {0, 1000000};

            nanosleep(&nap, NULL);
            if (clock_now_ns() >= deadline_ns) {
                kill(pid, SIGKILL);
            }
        }
    }
}

bool runtime_close(struct runtime *runtime) {
    uint64_t deadline_ns = clock_now_ns() + END_PATIENCE_MS * NS_PER_MS;
    bool ok = true;

    for (unsigned i = 0; runtime->channels != NULL && i < runtime->size; i++) {
        struct channel *channel = &runtime->channels[i];

        if (channel->fd >= 0) {
            close(channel->fd);
        }
        while (channel->first != NULL) {
            struct frame *frame = channel->first;

            channel->first = frame->next;
            free(frame);
        }
        bytes_free(&channel->in);
    }
    for (unsigned i = 0; runtime->children != NULL && i < runtime->size; i++) {
        if (runtime->children[i] > 0 && !reap(runtime->children[i], deadline_ns)) {
            ok = false;
        }
    }
#ifdef NIXL_HAS_ETCD
    runtime_close_etcd(runtime);
#endif
    free(runtime->children);
    free(runtime->channels);
    runtime->children = NULL;
    runtime->channels = NULL;
    return ok;
}
