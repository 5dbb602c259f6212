/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the blob, and connects in a process of its own: a library that hangs or crashes is reported and no more. What the library
 * warns of meanwhile is part of the answer.
 */
#include "peer.h"

#include "base/clock.h"
#include "base/error.h"
#include "wire/wire.h"

#include <nixl/nixl.h>

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECT_MS 10000
#define PATIENCE_MS 30000 /* with opening a backend, and UCX's own connecting */
#define WARNINGS_MAX 16

/* What the child finds. */
struct reach {
    bool ok;
    char transport[256];
    char words[2048]; /* why not */
};

struct outcome {
    struct reach reach;
    char log[8192]; /* the child's stderr */
    size_t log_len;
    char *warnings[WARNINGS_MAX]; /* in log */
    size_t warning_count;
};

/* ---- the child ---- */

static bool backends_open(struct nixl_agent *agent, const struct wire_blob *blob, struct reach *reach) {
    unsigned opened = 0;

    for (size_t i = 0; i < blob->conn_count; i++) {
        struct nixl_backend *backend;
        char type[64];

        (void)snprintf(type, sizeof type, "%.*s", (int)blob->conns[i].type.len,
                       (const char *)blob->conns[i].type.data);
        if (nixl_backend_create(agent, type, NULL, 0, &backend) == NIXL_SUCCESS) {
            opened++;
        } else {
            (void)snprintf(reach->words, sizeof reach->words, "%s", nixl_error());
        }
    }
    if (blob->conn_count == 0) {
        (void)snprintf(reach->words, sizeof reach->words, "it has no backend that reaches others");
    }
    return opened != 0;
}

static void reach_peer(const struct bytes *bytes, const struct wire_blob *blob, struct reach *reach) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_agent *agent;
    char name[64], *peer = NULL;
    nixl_status_t status;

    (void)snprintf(name, sizeof name, "nixl-info-%ld", (long)getpid());
    options.wait_ms = CONNECT_MS;
    if (nixl_agent_create(name, &config, &agent) != NIXL_SUCCESS) {
        (void)snprintf(reach->words, sizeof reach->words, "%s", nixl_error());
        return;
    }
    if (!backends_open(agent, blob, reach)) {
        return;
    }
    if (nixl_metadata_load(agent, bytes->data, bytes->len, &peer) != NIXL_SUCCESS) {
        (void)snprintf(reach->words, sizeof reach->words, "%s", nixl_error());
        return;
    }
    status = nixl_peer_connect(agent, peer, &options);
    reach->ok = status == NIXL_SUCCESS;
    if (status == NIXL_IN_PROG) {
        (void)snprintf(
            reach->words, sizeof reach->words,
            "it does not complete the connection within %d s: a firewall is between, or its process makes no "
            "progress (no progress thread, and nobody polls)",
            CONNECT_MS / 1000);
    } else if (status != NIXL_SUCCESS) {
        (void)snprintf(reach->words, sizeof reach->words, "%s", nixl_error());
    } else {
        (void)snprintf(reach->transport, sizeof reach->transport, "%s",
                       nixl_peer_transport(agent, peer, NULL));
    }
}

static void child(const struct bytes *bytes, const struct wire_blob *blob, int out, int err) {
    struct reach reach = {0};

    (void)dup2(err, STDOUT_FILENO);
    (void)dup2(err, STDERR_FILENO);
    (void)setenv("NIXL_LOG_LEVEL", "WARN", 1);
    reach_peer(bytes, blob, &reach);
    fflush(NULL);
    if (write(out, &reach, sizeof reach) != (ssize_t)sizeof reach) {
        _exit(1);
    }
    _exit(0); /* the peer sees the connection's end */
}

/* ---- the parent ---- */

/* Both pipes to their ends. False when it takes too long, or the answer is not whole. */
static bool listen_to(int in, int err, struct outcome *outcome) {
    uint64_t deadline_ns = clock_deadline_ms(clock_now_ns(), PATIENCE_MS);
    struct pollfd p[2] = {{.fd = in, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    size_t got = 0;

    while (p[0].fd >= 0 || p[1].fd >= 0) {
        uint64_t now_ns = clock_now_ns();
        ssize_t n;

        if (now_ns >= deadline_ns) {
            (void)snprintf(outcome->reach.words, sizeof outcome->reach.words, "no connection within %d s",
                           PATIENCE_MS / 1000);
            return false;
        }
        if (poll(p, 2, (int)((deadline_ns - now_ns) / NS_PER_MS) + 1) <= 0) {
            continue;
        }
        if (p[0].fd >= 0 && p[0].revents != 0) {
            n = read(in, (char *)&outcome->reach + got, sizeof outcome->reach - got);
            got += n > 0 ? (size_t)n : 0;
            p[0].fd = n > 0 || (n < 0 && errno == EINTR) ? in : -1;
        }
        if (p[1].fd >= 0 && p[1].revents != 0) {
            char rest[1024];
            bool fits = outcome->log_len < sizeof outcome->log - 1;

            n = fits ? read(err, outcome->log + outcome->log_len, sizeof outcome->log - 1 - outcome->log_len)
                     : read(err, rest, sizeof rest);
            outcome->log_len += fits && n > 0 ? (size_t)n : 0;
            p[1].fd = n > 0 || (n < 0 && errno == EINTR) ? err : -1;
        }
    }
    if (got != sizeof outcome->reach) {
        memset(&outcome->reach, 0, sizeof outcome->reach);
    }
    return got == sizeof outcome->reach;
}

/* The texts of the log's warnings: "W1201 04:50:09.123456 12345 UCX:0] agent nixl-info-1, backend UCX: text". */
static void find_warnings(struct outcome *outcome) {
    char *save = NULL;

    for (char *line = strtok_r(outcome->log, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        char *text = strstr(line, "] ");
        char *backend = text != NULL ? strstr(text, ", backend ") : NULL;

        if (line[0] != 'W' || text == NULL) {
            fprintf(stderr, "%s\n", line);
            continue;
        }
        backend = backend != NULL ? strstr(backend, ": ") : NULL;
        if (outcome->warning_count < WARNINGS_MAX) {
            outcome->warnings[outcome->warning_count++] = (backend != NULL ? backend : text) + 2;
        }
    }
}

static void connect_apart(const struct bytes *bytes, const struct wire_blob *blob, struct outcome *outcome) {
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    int status = 0;
    pid_t pid = -1;

    if (pipe(out) == 0 && pipe(err) == 0) {
        fflush(NULL);
        pid = fork();
    }
    if (pid == 0) {
        close(out[0]);
        close(err[0]);
        child(bytes, blob, out[1], err[1]);
    }
    if (pid < 0) {
        (void)snprintf(outcome->reach.words, sizeof outcome->reach.words, "fork: %s", strerror(errno));
        return;
    }
    close(out[1]);
    close(err[1]);
    if (!listen_to(out[0], err[0], outcome)) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        if (outcome->reach.words[0] == '\0') {
            (void)snprintf(outcome->reach.words, sizeof outcome->reach.words,
                           "connecting ended the process (%s)",
                           WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit");
        }
    } else {
        waitpid(pid, &status, 0);
    }
    close(out[0]);
    close(err[0]);
    find_warnings(outcome);
}

/* ---- showing ---- */

static const char *const mem_names[NIXL_MEM_KINDS] = {"DRAM", "VRAM", "BLK", "OBJ", "FILE"};

/* Foreign text is not for a terminal as it comes. */
static const char *shown(struct bytes_view view, char *buf, size_t size) {
    size_t n = 0;

    for (; n < view.len && n < size - 1; n++) {
        buf[n] = view.data[n] >= 0x20 && view.data[n] < 0x7f ? (char)view.data[n] : '?';
    }
    buf[n] = '\0';
    return buf;
}

/* Of a backend that tells: a note begins with what speaks, "UCX 1.22.0 errors=peer ...". */
static bool version_of(const struct wire_blob *blob, struct bytes_view type, char *buf, size_t size) {
    struct wire_cursor cursor = {0};
    struct wire_note note;
    char *space;

    while (wire_blob_next_note(blob, &cursor, &note)) {
        if (bytes_view_equal(note.type, type)) {
            shown(note.bytes, buf, size);
            space = strchr(buf, ' ');
            space = space != NULL ? strchr(space + 1, ' ') : NULL;
            if (space != NULL) {
                *space = '\0';
            }
            return true;
        }
    }
    return false;
}

static uint64_t bytes_of(const struct wire_list *list) {
    struct wire_list_iter iter;
    struct wire_desc desc;
    uint64_t sum = 0;

    wire_list_begin(list, &iter);
    while (wire_list_next(&iter, &desc)) {
        sum += desc.len;
    }
    return sum;
}

static json_t *describe(const struct wire_blob *blob, const struct outcome *outcome) {
    json_t *o = json_object(), *backends = json_array(), *regions = json_array(), *warnings = json_array();
    char text[256];

    json_object_set_new(o, "agent", json_string(shown(blob->agent, text, sizeof text)));
    if (blob->has_trailer) {
        (void)snprintf(text, sizeof text, "%" PRIu64 ".%016" PRIx64, blob->trailer.incarnation.boot_ns,
                       blob->trailer.incarnation.random);
        json_object_set_new(o, "incarnation", json_string(text));
        json_object_set_new(o, "age_s",
                            json_real((double)(int64_t)(clock_wall_ns() - blob->trailer.incarnation.boot_ns) /
                                      (double)NS_PER_S));
        json_object_set_new(o, "generation", json_integer((json_int_t)blob->trailer.generation));
    }
    for (size_t i = 0; i < blob->conn_count; i++) {
        json_t *one = json_object();

        json_object_set_new(one, "name", json_string(shown(blob->conns[i].type, text, sizeof text)));
        if (version_of(blob, blob->conns[i].type, text, sizeof text)) {
            json_object_set_new(one, "version", json_string(text));
        }
        json_array_append_new(backends, one);
    }
    json_object_set_new(o, "backends", backends);
    for (size_t i = 0; i < blob->section_count; i++) {
        const struct wire_section *section = &blob->sections[i];
        json_t *one = json_object();

        json_object_set_new(one, "backend", json_string(shown(section->type, text, sizeof text)));
        json_object_set_new(one, "mem", json_string(mem_names[section->list.mem]));
        json_object_set_new(one, "count", json_integer((json_int_t)section->list.count));
        json_object_set_new(one, "bytes", json_integer((json_int_t)bytes_of(&section->list)));
        json_array_append_new(regions, one);
    }
    json_object_set_new(o, "regions", regions);
    json_object_set_new(o, "reached", json_boolean(outcome->reach.ok));
    json_object_set_new(o, outcome->reach.ok ? "transport" : "error",
                        json_string(outcome->reach.ok ? outcome->reach.transport : outcome->reach.words));
    for (size_t i = 0; i < outcome->warning_count; i++) {
        json_array_append_new(warnings, json_string(outcome->warnings[i]));
    }
    json_object_set_new(o, "warnings", warnings);
    return o;
}

static const char *string_of(const json_t *o, const char *key) {
    const char *text = json_string_value(json_object_get(o, key));

    return text != NULL ? text : "";
}

static void print(const json_t *o, const struct wire_blob *blob) {
    size_t i;
    json_t *one;

    printf("agent       %s\n", string_of(o, "agent"));
    if (blob->has_trailer) {
        printf("incarnation %s, %.1f s old, generation %" PRIu64 "\n", string_of(o, "incarnation"),
               json_real_value(json_object_get(o, "age_s")), blob->trailer.generation);
    } else {
        printf("incarnation not told: no agent of this library\n");
    }
    json_array_foreach(json_object_get(o, "backends"), i, one) {
        const char *version = string_of(one, "version");

        printf("backend     %s (%s)\n", string_of(one, "name"),
               version[0] != '\0' ? version : "version not told");
    }
    json_array_foreach(json_object_get(o, "regions"), i, one) {
        printf("regions     %" JSON_INTEGER_FORMAT " of %s by %s, %" JSON_INTEGER_FORMAT " bytes\n",
               json_integer_value(json_object_get(one, "count")), string_of(one, "mem"),
               string_of(one, "backend"), json_integer_value(json_object_get(one, "bytes")));
    }
    if (json_is_true(json_object_get(o, "reached"))) {
        printf("transport   %s\n", string_of(o, "transport"));
    }
    json_array_foreach(json_object_get(o, "warnings"), i, one) {
        printf("warning     %s\n", json_string_value(one));
    }
}

bool peer_show(const struct bytes *bytes, bool json) {
    struct wire_blob *blob = malloc(sizeof *blob);
    struct outcome *outcome = calloc(1, sizeof *outcome);
    struct bytes scratch = {0};
    struct wire_error error = {0};
    bool ok = false;

    if (blob == NULL || outcome == NULL) {
        fprintf(stderr, "nixl-info: no memory\n");
    } else if (wire_blob_open(bytes->data, bytes->len, &scratch, blob, &error) != NIXL_SUCCESS) {
        fprintf(stderr, "nixl-info: what it gives is no metadata: %s\n",
                error.what != NULL ? error.what : "damaged");
    } else {
        json_t *o;

        connect_apart(bytes, blob, outcome);
        o = describe(blob, outcome);
        if (json) {
            json_dumpf(o, stdout, JSON_INDENT(1));
            printf("\n");
        } else {
            print(o, blob);
        }
        json_decref(o);
        ok = outcome->reach.ok;
        if (!ok) {
            fprintf(stderr, "nixl-info: it is not reached: %s\n", outcome->reach.words);
        }
    }
    bytes_free(&scratch);
    free(outcome);
    free(blob);
    return ok;
}
