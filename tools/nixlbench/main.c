/* SPDX-License-Identifier: Apache-2.0 */
/* nixlbench: flags, plan, runtime, session, output; and what the exit status is. */
#include "config.h"
#include "output.h"
#include "plan.h"
#include "progress.h"
#include "runtime.h"
#include "session.h"
#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int complain(const char *words) {
    fprintf(stderr, "nixlbench: %s\n", words);
    return EXIT_FAILURE;
}

static bool open_runtime(struct runtime *runtime, const struct bench_plan *plan, char *const *argv) {
    switch (plan->runtime) {
    case RUNTIME_LOCAL:
        return runtime_open_local(runtime, plan, argv);
    case RUNTIME_ASIO:
        return runtime_open_asio(runtime, plan);
#ifdef NIXL_HAS_ETCD
    case RUNTIME_ETCD:
        return runtime_open_etcd(runtime, plan);
#endif
    default:
        return runtime_open_alone(runtime);
    }
}

static void begin_output(struct session *session) {
    struct bench_facts facts = {{0}, {0}};

    snprintf(facts.backend_description, sizeof facts.backend_description, "%s",
             nixl_backend_description(session->backend));
    for (unsigned i = 0; i < session->runtime->size; i++) {
        if (session->peers[i] != NULL && facts.transport[0] == '\0') {
            snprintf(facts.transport, sizeof facts.transport, "%s",
                     nixl_peer_transport(session->agent, session->peers[i], session->backend));
        }
    }
    output_begin(session->output, &facts);
}

/* A peer that gave up has said why: that is the cause, and what was seen here only its effect. */
static void prefer_cause(struct session *session) {
    struct runtime *runtime = session->runtime;

    for (unsigned i = 0; runtime_is_own(runtime) && i < runtime->size; i++) {
        if (i == runtime->rank || runtime->channels[i].fd < 0) {
            continue;
        }
        runtime_has_message(runtime, i);
        for (struct frame *frame = runtime->channels[i].first; frame != NULL; frame = frame->next) {
            if (frame->type == FRAME_ABORT) {
                snprintf(session->error, sizeof session->error, "%s", frame->bytes);
                return;
            }
        }
    }
}

static void give_up(struct session *session) {
    struct runtime *runtime = session->runtime;
    char words[sizeof session->error + 64];

    prefer_cause(session);
    /* Rank 0 speaks for those that it started: it hears why, unless it is gone. */
    if (runtime->rank == 0 || runtime->kind != RUNTIME_LOCAL) {
        complain(session->error);
    }
    snprintf(words, sizeof words, "process %u (%s): %s", runtime->rank,
             session->role == ROLE_INITIATOR ? "initiator" : "target", session->error);
    runtime_abort(runtime,
                  runtime->rank == 0 || strncmp(session->error, "process ", 8) == 0 ? session->error : words);
}

static int run(struct session *session) {
    bool speaks = session->runtime->rank == 0;
    bool ok = session_open(session);

    if (ok && speaks) {
        begin_output(session);
        progress_open(session->plan);
    }
    ok = ok && session_run(session);
    if (ok) {
        session_finish(session);
    }
    progress_close();
    if (!ok) {
        give_up(session);
    }
    if (speaks && !output_end(session->output, session->is_interrupted, ok ? NULL : session->error)) {
        ok = false;
    }
    session_close(session);
    return ok && !session->is_interrupted ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* rank 0's choice of buffers holds for the processes that it starts: they see another state of the machine. */
static bool make_plan(struct bench_options *options, struct bench_plan *plan, char *error, size_t size) {
    uint64_t buffer_size;
    bool is_child = runtime_is_local_child(&buffer_size);

    if (!plan_make(options, is_child ? 0 : memory_available(), plan, error, size)) {
        return false;
    }
    if (is_child) {
        plan->buffer_size = buffer_size;
    }
    return true;
}

/* A page that cannot be written is found out before hours of measuring, not after. */
static bool report_is_possible(const char *path, char *error, size_t size) {
    char folder[PATH_MAX];
    struct stat st;
    int rc = 0;

    if (path[0] == '\0') {
        return true;
    }
    snprintf(folder, sizeof folder, "%s", path);
    if (stat(path, &st) == 0) {
        rc = S_ISDIR(st.st_mode) ? EISDIR : access(path, W_OK) != 0 ? errno : 0;
    } else if (access(dirname(folder), W_OK | X_OK) != 0) {
        rc = errno;
    }
    if (rc != 0) {
        snprintf(error, size, "--report %s: %s", path, strerror(rc));
    }
    return rc == 0;
}

/* Where standard descriptors are closed, what is opened next would take their numbers and get what is printed. */
static void hold_standard_descriptors(void) {
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)open("/dev/null", fd == 1 ? O_RDONLY : O_RDWR); /* so that writing results there fails */
        }
    }
}

static int bench(struct bench_options *options, char *const *argv) {
    struct bench_plan plan;
    struct runtime runtime;
    struct session session;
    char error[768];
    uint64_t ignored;
    int rc;

    if (!report_is_possible(options->config.report, error, sizeof error) ||
        !make_plan(options, &plan, error, sizeof error)) {
        return complain(error);
    }
    stop_install(runtime_is_local_child(&ignored));
    memset(&session, 0, sizeof session);
    session.plan = &plan;
    session.options = options;
    session.runtime = &runtime;
    session.output = output_open(&plan, options);
    if (session.output == NULL) {
        rc = complain("out of memory");
    } else if (!open_runtime(&runtime, &plan, argv)) {
        rc = complain(runtime.error);
    } else {
        rc = run(&session);
    }
    if (!runtime_close(&runtime) && rc == EXIT_SUCCESS) {
        rc = complain("a process that was started here ended with an error");
    }
    output_close(session.output);
    plan_free(&plan);
    return rc;
}

int main(int argc, char **argv) {
    struct bench_options options;
    char error[768];
    int rc = EXIT_SUCCESS;

    hold_standard_descriptors();
    if (!options_init(&options)) {
        return complain("out of memory");
    }
    if (!options_parse(&options, argc, argv, error, sizeof error)) {
        rc = complain(error);
    } else if (options.config.help) {
        flags_help();
    } else if (options.config.version) {
        printf("nixlbench %s\n", nixl_version());
    } else {
        rc = bench(&options, argv);
    }
    if ((options.config.help || options.config.version) && (fflush(stdout) != 0 || ferror(stdout))) {
        rc = complain("standard output cannot be written");
    }
    options_free(&options);
    return rc;
}
