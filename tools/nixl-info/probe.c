/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

#include "base/clock.h"

#include <nixl/nixl.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 20000

/* In the child. */
static void open_backend(const char *name, struct probe *probe) {
    struct nixl_agent *agent;
    struct nixl_backend *backend;

    if (nixl_agent_create("nixl-info", NULL, &agent) != NIXL_SUCCESS) {
        snprintf(probe->words, sizeof probe->words, "%s", nixl_error());
        return;
    }
    if (nixl_backend_create(agent, name, NULL, 0, &backend) == NIXL_SUCCESS) {
        probe->ok = true;
        probe->mems = nixl_backend_mems(backend);
        probe->caps = nixl_backend_caps(backend);
        snprintf(probe->words, sizeof probe->words, "%s", nixl_backend_description(backend));
    } else {
        snprintf(probe->words, sizeof probe->words, "%s", nixl_error());
    }
}

static void probe_in_child(const char *name, int out) {
    struct probe probe = {0};

    dup2(STDERR_FILENO, STDOUT_FILENO); /* what a library prints must not mix with the answer */
    open_backend(name, &probe);
    if (write(out, &probe, sizeof probe) != (ssize_t)sizeof probe) {
        _exit(1);
    }
    _exit(0); /* closing it is another matter than opening it */
}

/* The whole answer, or false when the child ends or says nothing for too long. */
static bool read_answer(int in, struct probe *probe, bool *is_late) {
    uint64_t deadline_ns = clock_now_ns() + PATIENCE_MS * NS_PER_MS;
    size_t got = 0;

    *is_late = false;
    while (got < sizeof *probe) {
        struct pollfd p = {.fd = in, .events = POLLIN};
        uint64_t now_ns = clock_now_ns();
        ssize_t n;

        if (now_ns >= deadline_ns) {
            *is_late = true;
            return false;
        }
        if (poll(&p, 1, (int)((deadline_ns - now_ns) / NS_PER_MS) + 1) <= 0) {
            continue;
        }
        n = read(in, (char *)probe + got, sizeof *probe - got);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return false;
        }
        got += n > 0 ? (size_t)n : 0;
    }
    return true;
}

void probe_backend(const char *name, struct probe *probe) {
    int ends[2];
    int status = 0;
    bool is_late;
    pid_t pid;

    memset(probe, 0, sizeof *probe);
    if (pipe(ends) != 0) {
        snprintf(probe->words, sizeof probe->words, "pipe: %s", strerror(errno));
        return;
    }
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        probe_in_child(name, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        snprintf(probe->words, sizeof probe->words, "fork: %s", strerror(errno));
    } else if (!read_answer(ends[0], probe, &is_late)) {
        memset(probe, 0, sizeof *probe);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        if (is_late) {
            snprintf(probe->words, sizeof probe->words, "did not open within %d s", PATIENCE_MS / 1000);
        } else if (WIFSIGNALED(status)) {
            snprintf(probe->words, sizeof probe->words, "opening it ended the process by signal %d (%s)",
                     WTERMSIG(status), strsignal(WTERMSIG(status)));
        } else {
            snprintf(probe->words, sizeof probe->words, "opening it ended the process with status %d",
                     WEXITSTATUS(status));
        }
    } else {
        waitpid(pid, &status, 0);
    }
    close(ends[0]);
}
