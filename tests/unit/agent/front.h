/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka's headers in their order, then two agents with MOCK; helpers on blobs. */
#ifndef TESTS_UNIT_AGENT_FRONT_H
#define TESTS_UNIT_AGENT_FRONT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/agent/agents.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEST(f) cmocka_unit_test(f)

/* This thread's last failure. */
#define assert_error(words) assert_words(nixl_error(), words)

struct blob {
    void *data;
    size_t len;
};

static inline struct blob blob_of(struct nixl_agent *agent) {
    struct blob blob;

    assert_status(nixl_metadata_get(agent, &blob.data, &blob.len), NIXL_SUCCESS);
    return blob;
}

static inline struct blob update_of(struct nixl_agent *agent, uint64_t since) {
    struct blob blob;

    assert_status(nixl_metadata_get_update(agent, since, &blob.data, &blob.len), NIXL_SUCCESS);
    return blob;
}

/* Some registered blocks, with connections or without. */
static inline struct blob partial_of(struct nixl_agent *agent, const struct nixl_desc *descs, size_t count,
                                     bool include_conn) {
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_list list = NIXL_LIST(DRAM_SEG, descs, count);
    struct blob blob;

    options.include_conn = include_conn;
    assert_status(nixl_metadata_get_partial(agent, &list, &options, &blob.data, &blob.len), NIXL_SUCCESS);
    return blob;
}

static inline nixl_status_t load_blob_into(struct nixl_agent *agent, struct blob blob) {
    return nixl_metadata_load(agent, blob.data, blob.len, NULL);
}

/* Loads and frees it. */
static inline nixl_status_t load_into(struct nixl_agent *agent, struct blob blob) {
    nixl_status_t status = load_blob_into(agent, blob);

    free(blob.data);
    return status;
}

/* The same blob as an agent of the reference would have written it: nothing after the last section. */
static inline struct blob blob_plain(struct nixl_agent *agent, const char *name) {
    struct blob with = blob_of(agent);
    struct bytes scratch = {0};
    struct bytes out = {0};
    struct wire_blob *view = malloc(sizeof *view);
    struct wire_blob_writer writer;
    struct wire_error error;

    assert_non_null(view);
    assert_int_equal(wire_blob_open(with.data, with.len, &scratch, view, &error), NIXL_SUCCESS);
    wire_blob_begin(&writer, &out, name != NULL ? name : (const char *)view->agent.data,
                    name != NULL ? strlen(name) : view->agent.len);
    for (size_t i = 0; i < view->conn_count; i++) {
        char type[64] = "";

        memcpy(type, view->conns[i].type.data, view->conns[i].type.len);
        wire_blob_conn(&writer, type, view->conns[i].bytes.data, view->conns[i].bytes.len);
    }
    for (size_t i = 0; i < view->section_count; i++) {
        char type[64] = "";
        struct wire_list_iter iter;
        struct wire_desc desc;

        memcpy(type, view->sections[i].type.data, view->sections[i].type.len);
        wire_blob_section(&writer, type, view->sections[i].list.mem, 0, 0);
        wire_list_begin(&view->sections[i].list, &iter);
        while (wire_list_next(&iter, &desc)) {
            wire_blob_desc(&writer, desc.addr, desc.len, desc.dev, desc.meta.data, desc.meta.len);
        }
    }
    assert_int_equal(wire_blob_end(&writer), NIXL_SUCCESS);
    bytes_free(&scratch);
    free(view);
    free(with.data);
    return (struct blob){out.data, out.len};
}

/* Whether a peer is known to have the whole block. */
static inline bool knows(struct nixl_agent *agent, const char *peer, const void *at, size_t len) {
    struct nixl_desc desc = {(uintptr_t)at, len, 0};
    struct nixl_list list = NIXL_LIST(DRAM_SEG, &desc, 1);

    return nixl_metadata_check(agent, peer, &list) == NIXL_SUCCESS;
}

/* All that MOCK has open, in every instance. */
static inline void assert_nothing_open(void) {
    assert_int_equal(the_mock()->count(NULL, "regions"), 0);
    assert_int_equal(the_mock()->count(NULL, "peers"), 0);
    assert_int_equal(the_mock()->count(NULL, "keys"), 0);
    assert_int_equal(the_mock()->count(NULL, "requests"), 0);
    assert_int_equal(the_mock()->count(NULL, "active"), 0);
}

#endif
