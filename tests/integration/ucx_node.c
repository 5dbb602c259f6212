/* SPDX-License-Identifier: Apache-2.0 */
#include "ucx_node.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    CMD_STOP = 1,
    CMD_FILL,
    CMD_CHECK,
    CMD_BLOB,
    CMD_LEARN,
    CMD_NOTIFY,
    CMD_RECEIVED,
    CMD_DEREGISTER,
    CMD_BAD,
    CMD_LAST
};

struct command {
    uint32_t kind;
    uint64_t a, b, c;
    char text[64], peer[64];
};

static uint64_t now_ms(void) {
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- patterns ---- */

static uint64_t mix(uint64_t x) {
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    return x * UINT64_C(0xbf58476d1ce4e5b9);
}

void pattern_fill(void *at, size_t len, uint64_t seed) {
    uint8_t *bytes = at;

    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = mix(seed * 1315423911u + i);

        memcpy(bytes + i, &word, len - i < 8 ? len - i : 8);
    }
}

bool pattern_check(const void *at, size_t len, uint64_t seed) {
    const uint8_t *bytes = at;

    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = mix(seed * 1315423911u + i);

        if (memcmp(bytes + i, &word, len - i < 8 ? len - i : 8) != 0) {
            fprintf(stderr, "# differs at byte %zu of %zu\n", i, len);
            return false;
        }
    }
    return true;
}

/* ---- this process's agent ---- */

static void use_transports(const char *tls) {
    if (tls[0] != '\0') {
        (void)setenv("UCX_TLS", tls, 1);
    } else {
        (void)unsetenv("UCX_TLS");
    }
}

bool local_open(struct local *l, const char *name, const struct node_setting *setting, size_t len) {
    return local_open_with(l, name, setting, len, NULL, 0);
}

bool local_open_with(struct local *l, const char *name, const struct node_setting *setting, size_t len,
                     const struct nixl_param *params, size_t count) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_desc desc;

    memset(l, 0, sizeof *l);
    use_transports(setting->tls);
    config.progress_thread = setting->progress_thread;
    if (nixl_agent_create(name, &config, &l->agent) != NIXL_SUCCESS ||
        nixl_backend_create(l->agent, "UCX", params, count, &l->ucx) != NIXL_SUCCESS) {
        return false;
    }
    l->len = len;
    l->at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    desc = (struct nixl_desc){(uintptr_t)l->at, len, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    return l->at != MAP_FAILED && nixl_mem_register(l->agent, &list, NULL) == NIXL_SUCCESS;
}

void local_close(struct local *l) {
    nixl_agent_destroy(l->agent);
    if (l->at != NULL) {
        (void)munmap(l->at, l->len);
    }
    memset(l, 0, sizeof *l);
}

/* ---- the socket ---- */

static void put(int fd, const void *data, size_t len) {
    const char *at = data;

    while (len > 0) {
        ssize_t n = write(fd, at, len);

        if (n <= 0) {
            return;
        }
        at += n;
        len -= (size_t)n;
    }
}

static bool get(int fd, void *data, size_t len) {
    char *at = data;

    while (len > 0) {
        ssize_t n = read(fd, at, len);

        if (n <= 0) {
            return false;
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static void put_block(int fd, const void *data, size_t len) {
    put(fd, &len, sizeof len);
    put(fd, data, len);
}

static void *get_block(int fd, size_t *len) {
    void *data;

    if (!get(fd, len, sizeof *len)) {
        return NULL;
    }
    data = malloc(*len + 1);
    if (!get(fd, data, *len)) {
        free(data);
        return NULL;
    }
    return data;
}

/* ---- the node ---- */

struct side {
    struct local l;
    int fd;
    size_t received, bad;
    char last[128]; /* notification */
};

static void take_notifs(struct side *side) {
    struct nixl_notifs *notifs = NULL;

    if (nixl_notif_take(side->l.agent, NULL, &notifs) == NIXL_SUCCESS && notifs != NULL) {
        side->received += notifs->count;
        for (size_t i = 0; i < notifs->count; i++) {
            unsigned long long offset, len, seed;

            (void)snprintf(side->last, sizeof side->last, "%s", (const char *)notifs->items[i].msg);
            if (sscanf(notifs->items[i].msg, "check %llu %llu %llu", &offset, &len, &seed) == 3 &&
                !pattern_check(side->l.at + offset, len, seed)) {
                side->bad++;
            }
        }
        nixl_notifs_release(notifs);
    }
}

static void side_blob(struct side *side) {
    void *blob = NULL;
    size_t len = 0;

    (void)nixl_metadata_get(side->l.agent, &blob, &len);
    put_block(side->fd, blob, len);
    nixl_free(blob);
}

static void side_learn(struct side *side) {
    size_t len;
    void *blob = get_block(side->fd, &len);
    nixl_status_t status = nixl_metadata_load(side->l.agent, blob, len, NULL);

    free(blob);
    put(side->fd, &status, sizeof status);
    put_block(side->fd, nixl_error(), strlen(nixl_error()) + 1);
}

static void side_notify(struct side *side, const struct command *c) {
    nixl_status_t status = NIXL_SUCCESS;
    char text[96];

    for (uint64_t i = 0; i < c->a && status == NIXL_SUCCESS; i++) {
        int len = snprintf(text, sizeof text, "%s %llu", c->text, (unsigned long long)i);

        status = nixl_notif_send(side->l.agent, c->peer, text, (size_t)len, NULL);
    }
    put(side->fd, &status, sizeof status);
}

static bool side_deregister(struct side *side) {
    struct nixl_desc desc = {(uintptr_t)side->l.at, side->l.len, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    return nixl_mem_deregister(side->l.agent, &list, NULL) == NIXL_SUCCESS;
}

static bool side_command(struct side *side) {
    struct command c;
    uint64_t end;
    bool ok = true;

    if (!get(side->fd, &c, sizeof c) || c.kind == CMD_STOP) {
        return false;
    }
    switch (c.kind) {
    case CMD_FILL:
        pattern_fill(side->l.at + c.a, c.b, c.c);
        put(side->fd, &ok, sizeof ok);
        break;
    case CMD_CHECK:
        ok = pattern_check(side->l.at + c.a, c.b, c.c);
        put(side->fd, &ok, sizeof ok);
        break;
    case CMD_BAD:
        put(side->fd, &side->bad, sizeof side->bad);
        break;
    case CMD_LAST:
        put_block(side->fd, side->last, strlen(side->last) + 1);
        break;
    case CMD_DEREGISTER:
        ok = side_deregister(side);
        put(side->fd, &ok, sizeof ok);
        break;
    case CMD_BLOB:
        side_blob(side);
        break;
    case CMD_LEARN:
        side_learn(side);
        break;
    case CMD_NOTIFY:
        side_notify(side, &c);
        break;
    case CMD_RECEIVED:
        end = now_ms() + c.b;
        do {
            take_notifs(side);
        } while (side->received < c.a && now_ms() < end);
        put(side->fd, &side->received, sizeof side->received);
        break;
    default:
        break;
    }
    return true;
}

/* With a progress thread the node sleeps on the socket; without one it makes progress as a server would: busily while there
 * is some, else on descriptors. */
static void side_loop(struct side *side, bool progress_thread) {
    unsigned idle = 0;

    for (;;) {
        struct pollfd fds[2] = {
            {.fd = side->fd, .events = POLLIN},
            {.fd = progress_thread ? -1 : nixl_agent_fd(side->l.agent), .events = POLLIN}};
        int timeout = -1;

        if (!progress_thread) {
            idle = nixl_agent_progress(side->l.agent) == NIXL_SUCCESS ? 0 : idle + 1;
            timeout = 0;
            if (idle > 500) {
                timeout = nixl_agent_arm(side->l.agent) == NIXL_IN_PROG ? -1 : 0;
            } else if (idle % 16 != 0) {
                continue;
            }
        }
        if (poll(fds, 2, timeout) > 0 && fds[0].revents != 0 && !side_command(side)) {
            return;
        }
    }
}

static void run_node(char **argv) {
    struct node_setting setting = {.progress_thread = strcmp(argv[5], "1") == 0};
    struct side side = {.fd = atoi(argv[2])};
    uint64_t addr;

    setting.tls = getenv("UCX_TLS") != NULL ? getenv("UCX_TLS") : "";
    if (!local_open(&side.l, argv[3], &setting, strtoull(argv[4], NULL, 10))) {
        put_block(side.fd, nixl_error(), strlen(nixl_error()) + 1);
        _exit(1);
    }
    put_block(side.fd, "", 1);
    addr = (uintptr_t)side.l.at;
    put(side.fd, &addr, sizeof addr);
    side_loop(&side, setting.progress_thread);
    local_close(&side.l);
    exit(0);
}

void node_main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "--node") == 0) {
        run_node(argv);
    }
    if (argc > 1 && strcmp(argv[1], "ucx122") == 0) {
        const char *folder = getenv("NIXL_TEST_UCX122");

        if (folder == NULL || folder[0] == '\0') {
            printf("1..0 # SKIP UCX 1.22 is not there (scripts/ucx122.sh fetches it)\n");
            exit(0);
        }
        (void)setenv("NIXL_UCX_PATH", folder, 1);
    }
}

/* ---- telling it ---- */

bool (*node_before_exec)(void);

bool node_start(struct node *n, const char *name, const struct node_setting *setting, size_t len,
                const char *const *environment) {
    char fd[16], size[32], self[4096];
    char *const argv[] = {self, "--node", fd, (char *)name, size, setting->progress_thread ? "1" : "0", NULL};
    ssize_t got = readlink("/proc/self/exe", self, sizeof self - 1);
    size_t error_len;
    char *error;
    int pair[2];

    memset(n, 0, sizeof *n);
    if (got <= 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        return false;
    }
    self[got] = '\0';
    (void)snprintf(fd, sizeof fd, "%d", pair[1]);
    (void)snprintf(size, sizeof size, "%zu", len);
    use_transports(setting->tls);
    n->pid = fork();
    if (n->pid == 0) {
        (void)close(pair[0]);
        for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
            if (strchr(environment[i], '=') != NULL) {
                (void)putenv((char *)environment[i]);
            } else {
                (void)unsetenv(environment[i]);
            }
        }
        if (node_before_exec == NULL || node_before_exec()) {
            (void)execve(self, argv, environ);
        }
        _exit(127);
    }
    (void)close(pair[1]);
    n->fd = pair[0];
    n->len = len;
    (void)snprintf(n->name, sizeof n->name, "%s", name);
    error = get_block(n->fd, &error_len);
    if (error == NULL || error[0] != '\0') {
        (void)snprintf(n->error, sizeof n->error, "%s", error != NULL ? error : "the node ended");
        free(error);
        (void)waitpid(n->pid, NULL, 0);
        (void)close(n->fd);
        return false;
    }
    free(error);
    return get(n->fd, &n->addr, sizeof n->addr);
}

static void tell(struct node *n, uint32_t kind, uint64_t a, uint64_t b, uint64_t c, const char *text,
                 const char *peer) {
    struct command command = {.kind = kind, .a = a, .b = b, .c = c};

    (void)snprintf(command.text, sizeof command.text, "%s", text);
    (void)snprintf(command.peer, sizeof command.peer, "%s", peer);
    put(n->fd, &command, sizeof command);
}

void node_stop(struct node *n) {
    tell(n, CMD_STOP, 0, 0, 0, "", "");
    (void)waitpid(n->pid, NULL, 0);
    (void)close(n->fd);
}

void node_kill(struct node *n) {
    (void)kill(n->pid, SIGKILL);
    (void)waitpid(n->pid, NULL, 0);
    (void)close(n->fd);
}

void *node_blob(struct node *n, size_t *len) {
    tell(n, CMD_BLOB, 0, 0, 0, "", "");
    return get_block(n->fd, len);
}

nixl_status_t node_load(struct node *n, struct local *l) {
    nixl_status_t status = NIXL_ERR_UNKNOWN;
    size_t len;
    void *blob = node_blob(n, &len);

    if (blob != NULL) {
        status = nixl_metadata_load(l->agent, blob, len, NULL);
        free(blob);
    }
    return status;
}

nixl_status_t node_learn(struct node *n, struct local *l) {
    nixl_status_t status = NIXL_ERR_UNKNOWN;
    void *blob = NULL;
    size_t len = 0;
    char *error;

    if (nixl_metadata_get(l->agent, &blob, &len) != NIXL_SUCCESS) {
        return status;
    }
    tell(n, CMD_LEARN, 0, 0, 0, "", "");
    put_block(n->fd, blob, len);
    nixl_free(blob);
    (void)get(n->fd, &status, sizeof status);
    error = get_block(n->fd, &len);
    (void)snprintf(n->error, sizeof n->error, "%s", error != NULL ? error : "");
    free(error);
    return status;
}

bool node_deregister(struct node *n) {
    bool ok = false;

    tell(n, CMD_DEREGISTER, 0, 0, 0, "", "");
    return get(n->fd, &ok, sizeof ok) && ok;
}

void node_fill(struct node *n, size_t offset, size_t len, uint64_t seed) {
    bool ok;

    tell(n, CMD_FILL, offset, len, seed, "", "");
    (void)get(n->fd, &ok, sizeof ok);
}

bool node_check(struct node *n, size_t offset, size_t len, uint64_t seed) {
    bool ok = false;

    tell(n, CMD_CHECK, offset, len, seed, "", "");
    return get(n->fd, &ok, sizeof ok) && ok;
}

nixl_status_t node_notify(struct node *n, const char *peer, const char *text, unsigned count) {
    nixl_status_t status = NIXL_ERR_UNKNOWN;

    tell(n, CMD_NOTIFY, count, 0, 0, text, peer);
    (void)get(n->fd, &status, sizeof status);
    return status;
}

size_t node_received(struct node *n, size_t expected, unsigned timeout_ms) {
    size_t count = 0;

    tell(n, CMD_RECEIVED, expected, timeout_ms, 0, "", "");
    (void)get(n->fd, &count, sizeof count);
    return count;
}

void node_last(struct node *n, char *text, size_t size) {
    char *last;
    size_t len;

    tell(n, CMD_LAST, 0, 0, 0, "", "");
    last = get_block(n->fd, &len);
    (void)snprintf(text, size, "%s", last != NULL ? last : "");
    free(last);
}

size_t node_bad(struct node *n) {
    size_t count = SIZE_MAX;

    tell(n, CMD_BAD, 0, 0, 0, "", "");
    (void)get(n->fd, &count, sizeof count);
    return count;
}

nixl_status_t move(struct local *l, struct node *n, nixl_xfer_op_t op, const struct nixl_desc *blocks,
                   const struct nixl_desc *peer_blocks, size_t count, const char *notif) {
    struct nixl_list ours = NIXL_LIST(DRAM_SEG, blocks, count),
                     theirs = NIXL_LIST(DRAM_SEG, peer_blocks, count);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer = NULL;
    nixl_status_t status;

    if (notif != NULL) {
        options.has_notif = true;
        options.notif = notif;
        options.notif_len = strlen(notif);
    }
    status = nixl_xfer_create(l->agent, op, &ours, &theirs, n->name, &options, &xfer);
    if (status != NIXL_SUCCESS) {
        fprintf(stderr, "# create: %s\n", nixl_error());
        return status;
    }
    status = nixl_xfer_post(xfer, NULL);
    if (status == NIXL_IN_PROG && count % 2 == 0) {
        status = nixl_xfer_wait(xfer, 30000);
    } else {
        for (uint64_t end = now_ms() + 30000; status == NIXL_IN_PROG && now_ms() < end;) {
            status = nixl_xfer_poll(xfer);
        }
    }
    if (status != NIXL_SUCCESS) {
        fprintf(stderr, "# %d: %s / %s\n", status, nixl_xfer_error(xfer), nixl_error());
    }
    (void)nixl_xfer_release(xfer);
    return status;
}
