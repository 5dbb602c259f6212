/* SPDX-License-Identifier: Apache-2.0 */
#include "ucx_harness.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/text.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- the host ---- */

static nixl_status_t host_fail(void *ctx, nixl_status_t status, const char *format, ...) {
    struct harness *h = ctx;
    va_list args;

    va_start(args, format);
    pthread_mutex_lock(&h->lock);
    (void)vsnprintf(h->error, sizeof h->error, format, args);
    pthread_mutex_unlock(&h->lock);
    va_end(args);
    return status;
}

static void host_log(void *ctx, enum nixl_log_level level, const char *format, ...) {
    struct harness *h = ctx;
    char *buf = level >= NIXL_LOG_WARN ? h->log : h->debug;
    size_t size = sizeof h->log;
    va_list args;

    pthread_mutex_lock(&h->lock);
    size_t len = strlen(buf);
    va_start(args, format);
    (void)text_append_v(buf, size, &len, format, args);
    va_end(args);
    (void)text_append(buf, size, &len, "\n");
    pthread_mutex_unlock(&h->lock);
    if (getenv("HARNESS_LOG") != NULL) {
        fprintf(stderr, "# %s\n", buf);
    }
}

static bool host_log_wants(void *ctx, enum nixl_log_level level) {
    return true;
}

static const char *host_config(void *ctx, const char *key) {
    return getenv(key);
}

static void host_complete(void *ctx, struct nixl_request *request, const struct nixl_failure *failure) {
    struct harness_request *r = (struct harness_request *)request;

    if (__atomic_load_n(&r->is_ended, __ATOMIC_ACQUIRE)) {
        fprintf(stderr, "a request was completed twice\n");
        abort();
    }
    r->status = NIXL_SUCCESS;
    if (failure != NULL) {
        r->failure = *failure;
        r->status = failure->status;
        (void)snprintf(r->text, sizeof r->text, "%s", failure->text != NULL ? failure->text : "");
    }
    __atomic_store_n(&r->is_ended, 1, __ATOMIC_RELEASE);
}

static void host_notified(void *ctx, const char *sender, size_t sender_len, const void *msg, size_t len) {
    struct harness *h = ctx;
    struct harness_notif *n;

    pthread_mutex_lock(&h->lock);
    n = &h->notifs[h->notif_count % HARNESS_NOTIFS];
    free(n->msg);
    (void)snprintf(n->sender, sizeof n->sender, "%.*s", (int)sender_len, sender);
    n->msg = malloc(len + 1);
    memcpy(n->msg, msg, len);
    ((char *)n->msg)[len] = '\0';
    n->len = len;
    h->notif_crc = crc32c(h->notif_crc, msg, len);
    __atomic_fetch_add(&h->notif_count, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&h->lock);
}

static void host_peer_failed(void *ctx, void *token, nixl_status_t status, const char *text) {
    struct harness *h = ctx;

    pthread_mutex_lock(&h->lock);
    h->failures++;
    h->failed_token = token;
    h->failed_status = status;
    (void)snprintf(h->failed_text, sizeof h->failed_text, "%s", text);
    pthread_mutex_unlock(&h->lock);
}

static void host_wake(void *ctx) {
    struct harness *h = ctx;

    __atomic_fetch_add(&h->wakes, 1, __ATOMIC_RELAXED);
    if (h->has_thread) {
        uint64_t one = 1;

        (void)!write(h->wake_fd, &one, sizeof one);
    }
}

static void *thread_body(void *arg) {
    struct harness *h = arg;
    unsigned idle = 0;

    while (!__atomic_load_n(&h->is_stopping, __ATOMIC_ACQUIRE)) {
        struct pollfd fds[2] = {{.fd = h->instance.event_fd, .events = POLLIN},
                                {.fd = h->wake_fd, .events = POLLIN}};
        uint64_t count;

        idle = h->ops->progress(h->self) > 0 ? 0 : idle + 1;
        if (idle < 20 || h->ops->arm(h->self) != NIXL_SUCCESS) {
            continue;
        }
        __atomic_fetch_add(&h->sleeps, 1, __ATOMIC_RELAXED);
        if (poll(fds, 2, -1) > 0 && fds[1].revents != 0) {
            (void)!read(h->wake_fd, &count, sizeof count);
        }
        idle = 0;
    }
    return NULL;
}

void harness_start_thread(struct harness *h) {
    h->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    h->has_thread = pthread_create(&h->thread, NULL, thread_body, h) == 0;
}

static void stop_thread(struct harness *h) {
    if (h->has_thread) {
        __atomic_store_n(&h->is_stopping, 1, __ATOMIC_RELEASE);
        host_wake(h);
        (void)pthread_join(h->thread, NULL);
        h->has_thread = false;
        (void)close(h->wake_fd);
    }
}

/* ---- opening ---- */

const struct nixl_backend_ops *harness_plugin(void) {
    const struct nixl_backend_ops *(*entry)(void);
    const char *folder = getenv("NIXL_TEST_PLUGINS");
    char path[4096];
    void *handle;

    (void)snprintf(path, sizeof path, "%s/libplugin_UCX.so", folder != NULL ? folder : "plugins");
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return NULL;
    }
    *(void **)&entry = dlsym(handle, "nixl_backend_v1");
    return entry != NULL ? entry() : NULL;
}

static const char *param_of(const char *const *params, const struct nixl_option *option) {
    const char *more = getenv("HARNESS_PARAMS");

    for (size_t i = 0; params != NULL && params[i] != NULL; i += 2) {
        if (strcmp(params[i], option->name) == 0 ||
            (option->alias != NULL && strcmp(params[i], option->alias) == 0)) {
            return params[i + 1];
        }
    }
    if (option->env != NULL && getenv(option->env) != NULL) {
        return getenv(option->env);
    }
    if (more != NULL) {
        static __thread char value[16][32];
        static __thread unsigned next;
        struct text rest = text_of(more), word;

        while (text_split(&rest, ' ', &word)) {
            size_t len = strlen(option->name);

            if (word.len > len && memcmp(word.at, option->name, len) == 0 && word.at[len] == '=') {
                char *at = value[next++ % 16];

                (void)snprintf(at, sizeof value[0], "%.*s", (int)(word.len - len - 1), word.at + len + 1);
                return at;
            }
        }
    }
    return option->default_value;
}

static void option_store(char *options, const struct nixl_option *option, const char *value) {
    char *at = options + option->offset;
    uint64_t number = 0;
    bool on = false;
    int place = 0;

    switch (option->kind) {
    case NIXL_OPTION_BOOL:
        (void)text_parse_bool(text_of(value), &on);
        memcpy(at, &on, sizeof on);
        break;
    case NIXL_OPTION_STRING:
        memcpy(at, &value, sizeof value);
        break;
    case NIXL_OPTION_ENUM:
        place = strcmp(value, "peer") == 0;
        memcpy(at, &place, sizeof place);
        break;
    default:
        (void)text_parse_uint(text_of(value), &number);
        memcpy(at, &number, sizeof number);
    }
}

void harness_init(struct harness *h, const char *name, bool progress_thread) {
    memset(h, 0, sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
    (void)snprintf(h->name, sizeof h->name, "%s", name);
    h->host = (struct nixl_host){.abi = NIXL_BACKEND_ABI,
                                 .size = sizeof h->host,
                                 .ctx = h,
                                 .agent = h->name,
                                 .progress_thread = progress_thread,
                                 .stall_timeout_ms = 30000,
                                 .fail = host_fail,
                                 .log = host_log,
                                 .log_wants = host_log_wants,
                                 .config = host_config,
                                 .complete = host_complete,
                                 .notified = host_notified,
                                 .peer_failed = host_peer_failed,
                                 .wake = host_wake};
}

nixl_status_t harness_open(struct harness *h, const char *name, const char *const *params,
                           bool progress_thread) {
    nixl_status_t status;

    harness_init(h, name, progress_thread);
    h->ops = harness_plugin();
    if (h->ops == NULL) {
        (void)snprintf(h->error, sizeof h->error, "the plugin does not open");
        return NIXL_ERR_NOT_FOUND;
    }
    h->options = calloc(1, h->ops->options_bytes);
    for (size_t i = 0; i < h->ops->option_count; i++) {
        option_store(h->options, &h->ops->options[i], param_of(params, &h->ops->options[i]));
    }
    h->instance = (struct nixl_instance){sizeof h->instance, h->ops->mems, h->ops->caps, h->ops->rank, -1, 0};
    status = h->ops->open(&h->host, h->options, &h->instance, &h->self);
    if (status != NIXL_SUCCESS) {
        free(h->options);
        h->self = NULL;
    }
    return status;
}

void harness_close(struct harness *h) {
    stop_thread(h);
    if (h->self != NULL) {
        h->ops->close(h->self);
        free(h->options);
        h->self = NULL;
    }
    for (size_t i = 0; i < HARNESS_NOTIFS; i++) {
        free(h->notifs[i].msg);
        h->notifs[i].msg = NULL;
    }
}

bool harness_register(struct harness *h, struct harness_memory *m, size_t len) {
    struct nixl_meta_desc desc;

    m->len = len;
    m->at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->at == MAP_FAILED) {
        return false;
    }
    desc = (struct nixl_meta_desc){(uintptr_t)m->at, len, 0, NULL, 0};
    return h->ops->region_open(h->self, DRAM_SEG, &desc, &m->region) == NIXL_SUCCESS &&
           h->ops->region_key(h->self, m->region, &m->key, &m->key_len) == NIXL_SUCCESS;
}

void harness_unregister(struct harness *h, struct harness_memory *m) {
    h->ops->region_close(h->self, m->region);
    (void)munmap(m->at, m->len);
}

nixl_status_t harness_request_open(struct harness *h, struct harness_request *r, nixl_xfer_op_t op,
                                   void *peer, const struct nixl_run *runs, size_t count, const char *notif) {
    return harness_request_open_custom(h, r, op, peer, runs, count, notif, NULL);
}

nixl_status_t harness_request_open_custom(struct harness *h, struct harness_request *r, nixl_xfer_op_t op,
                                          void *peer, const struct nixl_run *runs, size_t count,
                                          const char *notif, const char *custom) {
    memset(r, 0, sizeof *r);
    r->request.size = sizeof r->request;
    r->request.op = op;
    r->request.peer = peer;
    r->request.runs = runs;
    r->request.run_count = count;
    r->request.custom = custom;
    r->request.custom_len = custom != NULL ? strlen(custom) : 0;
    for (size_t i = 0; i < count; i++) {
        r->request.block_count += runs[i].count;
        r->request.total_bytes += runs[i].count * runs[i].len;
    }
    if (notif != NULL) {
        r->request.notif = notif;
        r->request.notif_len = strlen(notif);
        r->request.has_notif = true;
    }
    r->request.state = aligned_alloc(64, (h->ops->request_bytes + 63) / 64 * 64);
    memset(r->request.state, 0, h->ops->request_bytes);
    return h->ops->request_open(h->self, &r->request);
}

void harness_request_close(struct harness *h, struct harness_request *r) {
    h->ops->request_close(h->self, &r->request);
    memset(r->request.state, 0xa5, h->ops->request_bytes);
    free(r->request.state);
}

nixl_status_t harness_post(struct harness *h, struct harness_request *r) {
    r->is_ended = 0;
    r->text[0] = '\0';
    r->request.done_bytes = 0;
    return h->ops->post(h->self, &r->request);
}

nixl_status_t harness_wait(struct harness *h, struct harness_request *r, unsigned timeout_ms) {
    uint64_t end = clock_now_ns() + timeout_ms * NS_PER_MS;

    while (!__atomic_load_n(&r->is_ended, __ATOMIC_ACQUIRE)) {
        if (h->ops->progress(h->self) == 0 && clock_now_ns() > end) {
            return NIXL_IN_PROG;
        }
        if (clock_now_ns() > end) {
            return NIXL_IN_PROG;
        }
    }
    return r->status;
}

nixl_status_t harness_run(struct harness *h, struct harness_request *r, unsigned timeout_ms) {
    nixl_status_t status = harness_post(h, r);

    return status == NIXL_IN_PROG ? harness_wait(h, r, timeout_ms) : status;
}

const struct harness_notif *harness_notif(struct harness *h, unsigned timeout_ms) {
    uint64_t end = clock_now_ns() + timeout_ms * NS_PER_MS;

    for (;;) {
        pthread_mutex_lock(&h->lock);
        bool has = h->notif_taken < h->notif_count;
        pthread_mutex_unlock(&h->lock);
        if (has) {
            return &h->notifs[h->notif_taken++ % HARNESS_NOTIFS];
        }
        (void)h->ops->progress(h->self);
        if (clock_now_ns() > end) {
            return NULL;
        }
    }
}

/* ---- patterns: each byte depends on the seed and its place ---- */

static uint64_t mix(uint64_t x) {
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    return x * UINT64_C(0xbf58476d1ce4e5b9);
}

void harness_fill(void *at, size_t len, uint64_t seed) {
    uint8_t *bytes = at;

    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = mix(seed + i);

        memcpy(bytes + i, &word, len - i < 8 ? len - i : 8);
    }
}

bool harness_check(const void *at, size_t len, uint64_t seed) {
    const uint8_t *bytes = at;

    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = mix(seed + i);

        if (memcmp(bytes + i, &word, len - i < 8 ? len - i : 8) != 0) {
            return false;
        }
    }
    return true;
}

/* ---- the other process ---- */

enum {
    CMD_STOP = 1,
    CMD_FILL,
    CMD_CHECK,
    CMD_LOAD,
    CMD_NOTIFY,
    CMD_RECEIVED,
    CMD_PAUSE,
    CMD_DEREGISTER
};

struct command {
    uint32_t kind;
    uint64_t a, b, c;
    char text[64];
};

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

static bool get_block(int fd, void *data, size_t *len) {
    return get(fd, len, sizeof *len) && get(fd, data, *len);
}

struct side {
    struct harness *h;
    struct harness_memory memory;
    void *peer;
    int fd;
};

static void side_notify(struct side *side, const struct command *c) {
    size_t size = sizeof c->text + 32 + c->b;
    char *text = calloc(1, size);
    nixl_status_t status = NIXL_SUCCESS;

    for (uint64_t i = 0; i < c->a && status == NIXL_SUCCESS; i++) {
        int len = snprintf(text, size, "%s %llu", c->text, (unsigned long long)i);

        status = side->h->ops->notify(side->h->self, side->peer, text, (size_t)len + c->b);
    }
    free(text);
    put(side->fd, &status, sizeof status);
}

static void side_received(struct side *side, const struct command *c) {
    uint64_t end = clock_now_ns() + c->b * NS_PER_MS;
    size_t count = 0;

    while (side->h->notif_count < c->a && clock_now_ns() < end) {
        (void)side->h->ops->progress(side->h->self);
    }
    count = side->h->notif_count;
    put(side->fd, &count, sizeof count);
    put(side->fd, &side->h->notif_crc, sizeof side->h->notif_crc);
}

static void side_load(struct side *side) {
    static uint8_t conn[65536], note[256];
    size_t conn_len, note_len;
    nixl_status_t status;

    if (!get_block(side->fd, conn, &conn_len) || !get_block(side->fd, note, &note_len)) {
        _exit(2);
    }
    status = side->h->ops->peer_open(side->h->self, "parent", side, conn, conn_len,
                                     note_len > 0 ? note : NULL, note_len, &side->peer);
    put(side->fd, &status, sizeof status);
}

static bool side_command(struct side *side) {
    struct command c;
    bool ok;

    if (!get(side->fd, &c, sizeof c) || c.kind == CMD_STOP) {
        return false;
    }
    switch (c.kind) {
    case CMD_FILL:
        harness_fill(side->memory.at + c.a, c.b, c.c);
        ok = true;
        put(side->fd, &ok, sizeof ok);
        break;
    case CMD_CHECK:
        ok = harness_check(side->memory.at + c.a, c.b, c.c);
        put(side->fd, &ok, sizeof ok);
        break;
    case CMD_LOAD:
        side_load(side);
        break;
    case CMD_NOTIFY:
        side_notify(side, &c);
        break;
    case CMD_RECEIVED:
        side_received(side, &c);
        break;
    case CMD_DEREGISTER:
        side->h->ops->region_close(side->h->self, side->memory.region);
        side->memory.region = NULL;
        ok = true;
        put(side->fd, &ok, sizeof ok);
        break;
    case CMD_PAUSE:
        (void)usleep((useconds_t)c.a * 1000);
        break;
    }
    return true;
}

/* Makes progress while there is some, then sleeps until UCX's descriptor or the socket has something. */
static void side_loop(struct side *side) {
    struct harness *h = side->h;
    unsigned idle = 0;

    for (;;) {
        struct pollfd fds[2] = {{.fd = side->fd, .events = POLLIN},
                                {.fd = h->instance.event_fd, .events = POLLIN}};
        int timeout = 0;

        idle = h->ops->progress(h->self) > 0 ? 0 : idle + 1;
        if (idle > 200) {
            timeout = h->ops->arm(h->self) == NIXL_SUCCESS ? -1 : 0;
        } else if (idle % 16 != 0) {
            continue;
        }
        if (poll(fds, 2, timeout) > 0 && fds[0].revents != 0 && !side_command(side)) {
            return;
        }
    }
}

static void remote_main(int argc, char **argv) {
    static struct harness h;
    struct side side = {.h = &h};
    uint64_t len;
    const void *conn = "", *note = "";
    size_t conn_len = 0, note_len = 0;

    if (argc != 5 || strcmp(argv[1], "--remote") != 0) {
        return;
    }
    side.fd = atoi(argv[2]);
    len = strtoull(argv[4], NULL, 10);
    if (harness_open(&h, argv[3], NULL, false) != NIXL_SUCCESS ||
        (len > 0 && !harness_register(&h, &side.memory, len))) {
        put_block(side.fd, h.error, strlen(h.error) + 1);
        _exit(1);
    }
    put_block(side.fd, "", 1);
    (void)h.ops->conn_info(h.self, &conn, &conn_len);
    (void)h.ops->note(h.self, &note, &note_len);
    put_block(side.fd, conn, conn_len);
    put_block(side.fd, note, note_len);
    len = (uintptr_t)side.memory.at;
    put(side.fd, &len, sizeof len);
    put_block(side.fd, side.memory.key, side.memory.key_len);
    side_loop(&side);
    if (side.peer != NULL) {
        h.ops->peer_close(h.self, side.peer);
    }
    if (side.memory.region != NULL) {
        harness_unregister(&h, &side.memory);
    }
    harness_close(&h);
    exit(0);
}

bool remote_start(struct remote *r, const char *name, size_t len, const char *const *environment) {
    char fd[16], size[32], self[4096];
    char *const argv[] = {self, "--remote", fd, (char *)name, size, NULL};
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    int pair[2];
    size_t error_len;

    memset(r, 0, sizeof *r);
    if (n <= 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        return false;
    }
    self[n] = '\0';
    (void)snprintf(fd, sizeof fd, "%d", pair[1]);
    (void)snprintf(size, sizeof size, "%zu", len);
    r->pid = fork();
    if (r->pid == 0) {
        (void)close(pair[0]);
        for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
            if (strchr(environment[i], '=') != NULL) {
                (void)putenv((char *)environment[i]);
            } else {
                (void)unsetenv(environment[i]);
            }
        }
        (void)execve(self, argv, environ);
        _exit(127);
    }
    (void)close(pair[1]);
    r->fd = pair[0];
    r->len = len;
    if (!get_block(r->fd, r->error, &error_len) || r->error[0] != '\0') {
        (void)waitpid(r->pid, NULL, 0);
        (void)close(r->fd);
        return false;
    }
    return get_block(r->fd, r->conn, &r->conn_len) && get_block(r->fd, r->note, &r->note_len) &&
           get(r->fd, &r->addr, sizeof r->addr) && get_block(r->fd, r->key, &r->key_len);
}

static void send_command(struct remote *r, uint32_t kind, uint64_t a, uint64_t b, uint64_t c,
                         const char *text) {
    struct command command = {.kind = kind, .a = a, .b = b, .c = c};

    (void)snprintf(command.text, sizeof command.text, "%s", text);
    put(r->fd, &command, sizeof command);
}

void remote_stop(struct remote *r) {
    send_command(r, CMD_STOP, 0, 0, 0, "");
    (void)waitpid(r->pid, NULL, 0);
    (void)close(r->fd);
}

void remote_kill(struct remote *r) {
    (void)kill(r->pid, SIGKILL);
    (void)waitpid(r->pid, NULL, 0);
    (void)close(r->fd);
}

void remote_fill(struct remote *r, size_t offset, size_t len, uint64_t seed) {
    bool ok = false;

    send_command(r, CMD_FILL, offset, len, seed, "");
    (void)get(r->fd, &ok, sizeof ok);
}

bool remote_check(struct remote *r, size_t offset, size_t len, uint64_t seed) {
    bool ok = false;

    send_command(r, CMD_CHECK, offset, len, seed, "");
    return get(r->fd, &ok, sizeof ok) && ok;
}

nixl_status_t remote_load(struct remote *r, struct harness *h) {
    const void *conn, *note;
    size_t conn_len, note_len;
    nixl_status_t status = NIXL_ERR_UNKNOWN;

    (void)h->ops->conn_info(h->self, &conn, &conn_len);
    (void)h->ops->note(h->self, &note, &note_len);
    send_command(r, CMD_LOAD, 0, 0, 0, "");
    put_block(r->fd, conn, conn_len);
    put_block(r->fd, note, note_len);
    (void)get(r->fd, &status, sizeof status);
    return status;
}

nixl_status_t remote_notify(struct remote *r, const char *text, unsigned count, size_t pad) {
    nixl_status_t status = NIXL_ERR_UNKNOWN;

    send_command(r, CMD_NOTIFY, count, pad, 0, text);
    (void)get(r->fd, &status, sizeof status);
    return status;
}

size_t remote_received(struct remote *r, size_t expected, unsigned timeout_ms, uint32_t *crc) {
    size_t count = 0;
    uint32_t got = 0;

    send_command(r, CMD_RECEIVED, expected, timeout_ms, 0, "");
    if (!get(r->fd, &count, sizeof count) || !get(r->fd, &got, sizeof got)) {
        return 0;
    }
    if (crc != NULL) {
        *crc = got;
    }
    return count;
}

void remote_deregister(struct remote *r) {
    bool ok;

    send_command(r, CMD_DEREGISTER, 0, 0, 0, "");
    (void)get(r->fd, &ok, sizeof ok);
}

void remote_pause(struct remote *r, unsigned ms) {
    send_command(r, CMD_PAUSE, ms, 0, 0, "");
}

const char *harness_transports(const char *setting) {
    bool ucx_alone = strncmp(setting, "ucx:", 4) == 0;
    const char *tls = ucx_alone ? setting + 4 : setting;

    (void)setenv("NIXL_UCX_CMA", ucx_alone ? "n" : "y", 1);
    if (tls[0] != '\0') {
        (void)setenv("UCX_TLS", tls, 1);
    } else {
        (void)unsetenv("UCX_TLS");
    }
    return tls;
}

const char *harness_transports_title(const char *setting) {
    if (strcmp(setting, "ucx:") == 0) {
        return "ucx:default";
    }
    return setting[0] != '\0' ? setting : "default";
}

void harness_main(int argc, char **argv) {
    remote_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], "ucx122") == 0) {
        const char *folder = getenv("NIXL_TEST_UCX122");

        if (folder == NULL || folder[0] == '\0') {
            printf("1..0 # SKIP UCX 1.22 is not there (scripts/ucx122.sh fetches it)\n");
            exit(0);
        }
        (void)setenv("NIXL_UCX_PATH", folder, 1);
    }
}

nixl_status_t harness_load(struct harness *h, struct remote *r, void **peer, void **key) {
    struct nixl_desc desc = {r->addr, r->len, 0};
    nixl_status_t status =
        h->ops->peer_open(h->self, "remote", r, r->conn, r->conn_len, r->note, r->note_len, peer);

    if (status == NIXL_SUCCESS && r->len > 0 && key != NULL) {
        status = h->ops->key_open(h->self, *peer, DRAM_SEG, &desc, r->key, r->key_len, key);
    }
    return status;
}

bool harness_is_new_ucx(struct harness *h) {
    return strstr(h->ops->describe(h->self), "UCX 1.2") != NULL;
}
