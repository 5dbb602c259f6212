/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two agents, "A" and "B", with MOCK backends and 1 MiB of memory each, which know each other. What most
 * tests of requests begin with. Include after cmocka.h.
 */
#ifndef TESTS_UNIT_AGENT_AGENTS_H
#define TESTS_UNIT_AGENT_AGENTS_H

#include "agent/internal.h"

#include "backends/mock/mock.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cmocka and the library both have a word for it. */
#undef fail

#define MEMORY (1u << 20)

struct side_of_test {
    struct nixl_agent *agent;
    struct nixl_backend *backend;
    unsigned char *memory;
};

struct agents {
    struct side_of_test a, b;
};

static inline const struct mock_control *the_mock(void) {
    static const struct mock_control *control;
    char path[512];

    if (control == NULL) {
        void *file;

        snprintf(path, sizeof path, "%s/libplugin_MOCK.so", getenv("NIXL_PLUGIN_DIR"));
        file = dlopen(path, RTLD_NOW);
        assert_non_null(file);
        control = dlsym(file, "mock_control");
        if (control != NULL) {
            control = ((const struct mock_control *(*)(void))(uintptr_t)control)();
        }
        assert_non_null(control);
    }
    return control;
}

/* Says what went wrong, then fails. */
#define assert_status(call, expected)                                                                        \
    do {                                                                                                     \
        nixl_status_t status_of_call = (call);                                                               \
        if (status_of_call != (expected)) {                                                                  \
            print_error("%s: %s: %s\n", #call, nixl_status_string(status_of_call), nixl_error());            \
        }                                                                                                    \
        assert_int_equal(status_of_call, (expected));                                                        \
    } while (0)

#define assert_words(text, words)                                                                            \
    do {                                                                                                     \
        if (strstr((text), (words)) == NULL) {                                                               \
            print_error("no \"%s\" in \"%s\"\n", (words), (text));                                           \
        }                                                                                                    \
        assert_non_null(strstr((text), (words)));                                                            \
    } while (0)

/*
 * Whether something comes at its time: never before it, and after it not late. A machine that is busy with other things makes
 * anything late now and then, so of some attempts the best has to be in time:
 *     struct in_time in_time = {.least_ms = 90, .most_ms = 200};
 *     while (in_time_again(&in_time)) { ...; in_time_note(&in_time, begin_ns); }
 *     in_time_check(&in_time);
 */
struct in_time {
    uint64_t least_ms, most_ms;
    uint64_t best_ms;
    int attempts;
};

static inline bool in_time_again(const struct in_time *in_time) {
    return in_time->attempts == 0 || (in_time->best_ms > in_time->most_ms && in_time->attempts < 10);
}

static inline void in_time_note(struct in_time *in_time, uint64_t begin_ns) {
    uint64_t took_ms = (clock_now_ns() - begin_ns) / NS_PER_MS;

    assert_true(took_ms >= in_time->least_ms);
    if (in_time->attempts++ == 0 || took_ms < in_time->best_ms) {
        in_time->best_ms = took_ms;
    }
}

static inline void in_time_check(const struct in_time *in_time) {
    assert_in_range(in_time->best_ms, in_time->least_ms, in_time->most_ms);
}

/* Registers one block. */
static inline void register_block(struct nixl_agent *agent, const void *at, size_t len) {
    struct nixl_desc desc = {(uintptr_t)at, len, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    assert_status(nixl_mem_register(agent, &list, NULL), NIXL_SUCCESS);
}

static inline nixl_status_t deregister_block(struct nixl_agent *agent, const void *at, size_t len) {
    struct nixl_desc desc = {(uintptr_t)at, len, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    return nixl_mem_deregister(agent, &list, NULL);
}

static inline void introduce(struct nixl_agent *to, struct nixl_agent *whom) {
    void *blob;
    size_t len;

    assert_status(nixl_metadata_get(whom, &blob, &len), NIXL_SUCCESS);
    assert_status(nixl_metadata_load(to, blob, len, NULL), NIXL_SUCCESS);
    nixl_free(blob);
}

static inline void side_begin(struct side_of_test *side, const char *name,
                              const struct nixl_agent_config *config, const char *type,
                              const struct nixl_param *params, size_t param_count, bool registers) {
    assert_status(nixl_agent_create(name, config, &side->agent), NIXL_SUCCESS);
    assert_status(nixl_backend_create(side->agent, type, params, param_count, &side->backend), NIXL_SUCCESS);
    side->memory = aligned_alloc(4096, MEMORY);
    assert_non_null(side->memory);
    for (size_t i = 0; i < MEMORY; i++) {
        side->memory[i] = (unsigned char)(i * 7 + i / 251 + (unsigned char)name[0]);
    }
    if (registers) {
        register_block(side->agent, side->memory, MEMORY);
    }
}

static inline void side_end(struct side_of_test *side) {
    nixl_agent_destroy(side->agent);
    free(side->memory);
}

static inline void agents_begin_with(struct agents *agents, const struct nixl_agent_config *config,
                                     const struct nixl_param *params, size_t param_count) {
    side_begin(&agents->a, "A", config, "MOCK", params, param_count, true);
    side_begin(&agents->b, "B", config, "MOCK", params, param_count, true);
    introduce(agents->a.agent, agents->b.agent);
    introduce(agents->b.agent, agents->a.agent);
}

/* With one option of MOCK, or none. */
static inline void agents_begin(struct agents *agents, const char *option, const char *value) {
    struct nixl_param param = {option, value};

    agents_begin_with(agents, NULL, &param, option != NULL ? 1 : 0);
}

static inline void agents_end(struct agents *agents) {
    side_end(&agents->a);
    side_end(&agents->b);
}

/* A request over whole blocks of both memories at equal offsets. */
static inline struct nixl_xfer *request_of(struct agents *agents, nixl_xfer_op_t op, size_t at, size_t len,
                                           const struct nixl_options *options) {
    struct nixl_desc l = {(uintptr_t)agents->a.memory + at, len, 0};
    struct nixl_desc r = {(uintptr_t)agents->b.memory + at, len, 0};
    struct nixl_list local = NIXL_LIST(DRAM_SEG, &l, 1);
    struct nixl_list remote = NIXL_LIST(DRAM_SEG, &r, 1);
    struct nixl_xfer *xfer = NULL;

    assert_status(nixl_xfer_create(agents->a.agent, op, &local, &remote, "B", options, &xfer), NIXL_SUCCESS);
    return xfer;
}

/* Notifications that have arrived at an agent, after a little while. */
static inline size_t notifs_of(struct nixl_agent *agent, char *last, size_t size) {
    struct nixl_notifs *notifs = NULL;
    size_t count = 0;

    for (int i = 0; i < 20; i++) {
        assert_status(nixl_notif_take(agent, NULL, &notifs), NIXL_SUCCESS);
        if (notifs != NULL) {
            const struct nixl_notif *newest = &notifs->items[notifs->count - 1];

            count += notifs->count;
            if (last != NULL) {
                snprintf(last, size, "%.*s", (int)newest->len, (const char *)newest->msg);
            }
            nixl_notifs_release(notifs);
        }
    }
    return count;
}

#endif
