/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static nixl_status_t host_fail(void *ctx, nixl_status_t status, const char *format, ...) {
    struct harness *h = ctx;
    va_list args;

    va_start(args, format);
    vsnprintf(h->error, sizeof h->error, format, args);
    va_end(args);
    return status;
}

static void host_log(void *ctx, enum nixl_log_level level, const char *format, ...) {
    (void)ctx;
    (void)level;
    (void)format;
}

static bool host_log_wants(void *ctx, enum nixl_log_level level) {
    (void)ctx;
    (void)level;
    return false;
}

static const char *host_config(void *ctx, const char *key) {
    (void)ctx;
    return getenv(key);
}

static void host_complete(void *ctx, struct nixl_request *request, const struct nixl_failure *failure) {
    struct harness *h = ctx;
    struct transfer *t = (struct transfer *)request;

    t->status = NIXL_SUCCESS;
    if (failure != NULL) {
        t->status = failure->status;
        t->failure = *failure;
        snprintf(t->text, sizeof t->text, "%s", failure->text != NULL ? failure->text : "");
    }
    __atomic_fetch_add(&h->completions, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&t->is_done, 1, __ATOMIC_RELEASE);
}

static bool set_option(struct harness *h, struct text name, struct text value) {
    size_t i;

    for (i = 0; i < h->ops->option_count; i++) {
        const struct nixl_option *o = &h->ops->options[i];
        char *at = (char *)h->options + o->offset;

        if (!text_equal(name, o->name)) {
            continue;
        }
        if (o->kind == NIXL_OPTION_BOOL) {
            return text_parse_bool(value, (bool *)at) == TEXT_OK;
        }
        if (o->kind == NIXL_OPTION_SIZE) {
            return text_parse_size(value, (uint64_t *)at) == TEXT_OK;
        }
        return o->kind == NIXL_OPTION_UINT && text_parse_uint(value, (uint64_t *)at) == TEXT_OK;
    }
    return false;
}

nixl_status_t harness_open(struct harness *h, const char *options) {
    struct text rest = text_of(options != NULL ? options : ""), word;
    nixl_status_t status;
    size_t i;

    memset(h, 0, sizeof *h);
    h->ops = nixl_backend_v1();
    h->host = (struct nixl_host){.abi = NIXL_BACKEND_ABI,
                                 .size = sizeof h->host,
                                 .ctx = h,
                                 .agent = "harness",
                                 .fail = host_fail,
                                 .log = host_log,
                                 .log_wants = host_log_wants,
                                 .config = host_config,
                                 .complete = host_complete};
    h->options = calloc(1, h->ops->options_bytes);
    for (i = 0; i < h->ops->option_count; i++) {
        set_option(h, text_of(h->ops->options[i].name), text_of(h->ops->options[i].default_value));
    }
    while (text_split(&rest, ' ', &word)) {
        const char *equals = memchr(word.at, '=', word.len);
        struct text name = {word.at, equals != NULL ? (size_t)(equals - word.at) : word.len};
        struct text value = {equals + 1, word.len - name.len - 1};

        if (equals == NULL || !set_option(h, name, value)) {
            free(h->options);
            return host_fail(h, NIXL_ERR_INVALID_PARAM, "option %.*s", (int)word.len, word.at);
        }
    }
    h->instance = (struct nixl_instance){.size = sizeof h->instance,
                                         .mems = h->ops->mems,
                                         .caps = h->ops->caps,
                                         .rank = h->ops->rank,
                                         .event_fd = -1};
    if (UNDER_TSAN && options != NULL && strstr(options, "use_posix_aio=true") != NULL &&
        strstr(options, "use_aio=true") == NULL) {
        free(h->options);
        return host_fail(h, NIXL_ERR_NOT_SUPPORTED, "POSIX AIO under the thread sanitizer");
    }
    status = h->ops->open(&h->host, h->options, &h->instance, &h->self);
    if (status != NIXL_SUCCESS) {
        free(h->options);
    }
    return status;
}

void harness_close(struct harness *h) {
    h->ops->close(h->self);
    free(h->options);
}

void *harness_file(struct harness *h, uint64_t dev, const char *meta) {
    struct nixl_meta_desc desc = {.dev = dev, .meta = meta, .meta_len = meta != NULL ? strlen(meta) : 0};
    void *region = NULL;

    return h->ops->region_open(h->self, FILE_SEG, &desc, &region) == NIXL_SUCCESS ? region : NULL;
}

void *harness_memory(struct harness *h, const void *addr, uint64_t len) {
    struct nixl_meta_desc desc = {.addr = (uintptr_t)addr, .len = len};
    void *region = NULL;

    h->ops->region_open(h->self, DRAM_SEG, &desc, &region);
    return region;
}

struct nixl_run run_of(void *file, const void *buf, uint64_t offset, uint64_t len) {
    return (struct nixl_run){
        .local = (uintptr_t)buf, .remote = offset, .len = len, .remote_key = file, .count = 1};
}

nixl_status_t transfer_open(struct harness *h, struct transfer *t, nixl_xfer_op_t op,
                            const struct nixl_run *runs, size_t count, uint32_t flags) {
    uint32_t index = 0;
    nixl_status_t status;
    size_t i;

    memset(t, 0, sizeof *t);
    t->harness = h;
    t->runs = calloc(count, sizeof *runs);
    memcpy(t->runs, runs, count * sizeof *runs);
    t->request.size = sizeof t->request;
    t->request.op = op;
    t->request.local_mem = DRAM_SEG;
    t->request.remote_mem = FILE_SEG;
    t->request.flags = flags;
    t->request.runs = t->runs;
    t->request.run_count = count;
    for (i = 0; i < count; i++) {
        t->runs[i].first_index = index;
        index += t->runs[i].count;
        t->request.total_bytes += t->runs[i].len * t->runs[i].count;
    }
    t->request.block_count = index;
    t->request.state = aligned_alloc(16, (h->ops->request_bytes + 15) & ~(size_t)15);
    memset(t->request.state, 0, h->ops->request_bytes);
    status = h->ops->request_open(h->self, &t->request);
    if (status != NIXL_SUCCESS) {
        transfer_close(t);
    }
    return status;
}

nixl_status_t transfer_post(struct transfer *t) {
    __atomic_store_n(&t->is_done, 0, __ATOMIC_RELAXED);
    t->request.done_bytes = 0;
    t->text[0] = '\0';
    return t->harness->ops->post(t->harness->self, &t->request);
}

nixl_status_t transfer_wait(struct transfer *t, unsigned timeout_ms, bool polling) {
    uint64_t end = clock_deadline_ms(clock_now_ns(), timeout_ms);

    while (__atomic_load_n(&t->is_done, __ATOMIC_ACQUIRE) == 0) {
        if (clock_coarse_ns() > end) {
            return NIXL_IN_PROG;
        }
        if (polling) {
            t->harness->ops->progress(t->harness->self);
        } else {
            usleep(200);
        }
    }
    return t->status;
}

nixl_status_t transfer_run(struct transfer *t) {
    nixl_status_t status = transfer_post(t);

    return status == NIXL_IN_PROG ? transfer_wait(t, 20000, true) : status;
}

void transfer_close(struct transfer *t) {
    free(t->runs);
    free(t->request.state);
    t->runs = NULL;
    t->request.state = NULL;
}

void fill_pattern(void *buf, size_t len, uint64_t seed) {
    unsigned char *at = buf;
    size_t i;

    for (i = 0; i < len; i++) {
        uint64_t place = seed + i;

        at[i] = (unsigned char)((place >> ((place & 7) * 5)) ^ (place * 31));
    }
}

bool check_pattern(const void *buf, size_t len, uint64_t seed) {
    const unsigned char *at = buf;
    size_t i;

    for (i = 0; i < len; i++) {
        uint64_t place = seed + i;

        if (at[i] != (unsigned char)((place >> ((place & 7) * 5)) ^ (place * 31))) {
            return false;
        }
    }
    return true;
}
