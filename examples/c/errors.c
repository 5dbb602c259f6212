/* SPDX-License-Identifier: Apache-2.0 */
/* What failures say: a status for the program, words for people, and the index of the descriptor that is to blame. */
#include <nixl/nixl.h>
#include <stdio.h>
#include <stdlib.h>

static int unexpected;

static void expect(nixl_status_t want, nixl_status_t status, const char *what) {
    printf("%s\n  %s: %s\n", what, nixl_status_string(status), nixl_error());
    if (nixl_error_index() != NIXL_NO_INDEX) {
        printf("  to blame: descriptor %zu\n", nixl_error_index());
    }
    unexpected += status != want;
}

int main(void) {
    static char memory[4096];
    const struct nixl_desc block = {(uintptr_t)memory, sizeof memory, 0};
    /* The third one ends 1 byte behind what is registered. */
    const struct nixl_desc parts[] = {
        {(uintptr_t)memory, 64, 0}, {(uintptr_t)memory + 64, 64, 0}, {(uintptr_t)memory + 4033, 64, 0}};
    const struct nixl_list blocks = NIXL_LIST(DRAM_SEG, &block, 1), some = NIXL_LIST(DRAM_SEG, parts, 3);
    const struct nixl_param wrong = {"no_such_option", "1"};
    struct nixl_agent *agent;
    struct nixl_backend *backend;
    struct nixl_dlist *dlist;
    struct nixl_xfer *xfer;

    if (nixl_agent_create("one", NULL, &agent) != NIXL_SUCCESS) {
        fprintf(stderr, "agent: %s\n", nixl_error());
        return 1;
    }
    expect(NIXL_ERR_NOT_FOUND, nixl_backend_create(agent, "UXC", NULL, 0, &backend),
           "a plugin's name, misspelt");
    expect(NIXL_ERR_INVALID_PARAM, nixl_backend_create(agent, "UCX", &wrong, 1, &backend),
           "an option that is none");
    expect(NIXL_ERR_NOT_FOUND, nixl_mem_register(agent, &blocks, NULL), "memory, and no backend for it");
    if (nixl_backend_create(agent, "UCX", NULL, 0, &backend) != NIXL_SUCCESS ||
        nixl_mem_register(agent, &blocks, NULL) != NIXL_SUCCESS) {
        fprintf(stderr, "UCX: %s\n", nixl_error());
        return 1;
    }
    expect(NIXL_ERR_NOT_FOUND, nixl_dlist_prepare(agent, "", &some, NULL, &dlist),
           "a block past the registered end");
    expect(NIXL_ERR_NOT_FOUND, nixl_xfer_create(agent, NIXL_READ, &blocks, &blocks, "two", NULL, &xfer),
           "a peer that was never loaded");
    expect(NIXL_ERR_INVALID_PARAM, nixl_xfer_create(agent, NIXL_READ, &blocks, &some, "one", NULL, &xfer),
           "one block here, three there");
    expect(NIXL_ERR_MISMATCH, nixl_metadata_load(agent, "not metadata", 12, NULL),
           "bytes that are no metadata");
    nixl_agent_destroy(agent);
    return unexpected ? 1 : 0;
}
