/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata that grows and shrinks: a full blob once, then only what changed; and a blob for one block alone. */
#include <nixl/nixl.h>
#include <stdio.h>
#include <stdlib.h>

static void check(nixl_status_t status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, nixl_error());
        exit(1);
    }
}

int main(void) {
    static char first[4096], second[4096];
    const struct nixl_desc a = {(uintptr_t)first, sizeof first, 0}, b = {(uintptr_t)second, sizeof second, 0};
    const struct nixl_list as = NIXL_LIST(DRAM_SEG, &a, 1), bs = NIXL_LIST(DRAM_SEG, &b, 1);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_agent *owner, *reader;
    struct nixl_backend *ucx;
    uint64_t known;
    void *blob;
    size_t len;
    int wrong = 0;

    check(nixl_agent_create("owner", NULL, &owner), "agent owner");
    check(nixl_agent_create("reader", NULL, &reader), "agent reader");
    check(nixl_backend_create(owner, "UCX", NULL, 0, &ucx), "UCX of owner");
    check(nixl_backend_create(reader, "UCX", NULL, 0, &ucx), "UCX of reader");
    check(nixl_mem_register(owner, &as, NULL), "register the first");
    check(nixl_metadata_get(owner, &blob, &len), "metadata");
    known = nixl_metadata_generation(owner);
    printf("everything: %zu bytes\n", len);
    check(nixl_metadata_load(reader, blob, len, NULL), "load");
    nixl_free(blob);
    wrong += nixl_metadata_check(reader, "owner", &as) != NIXL_SUCCESS;
    wrong += nixl_metadata_check(reader, "owner", &bs) != NIXL_ERR_NOT_FOUND;

    /* The owner lets one block go and takes another one. */
    check(nixl_mem_deregister(owner, &as, NULL), "deregister the first");
    check(nixl_mem_register(owner, &bs, NULL), "register the second");
    check(nixl_metadata_get_update(owner, known, &blob, &len), "update");
    printf("what changed: %zu bytes\n", len);
    check(nixl_metadata_load(reader, blob, len, NULL), "load the update");
    nixl_free(blob);
    wrong += nixl_metadata_check(reader, "owner", &as) != NIXL_ERR_NOT_FOUND;
    wrong += nixl_metadata_check(reader, "owner", &bs) != NIXL_SUCCESS;

    check(nixl_metadata_invalidate(reader, "owner"), "forget");
    options.include_conn = true;
    check(nixl_metadata_get_partial(owner, &bs, &options, &blob, &len), "partial");
    printf("one block and the way there: %zu bytes\n", len);
    check(nixl_metadata_load(reader, blob, len, NULL), "load the part");
    nixl_free(blob);
    wrong += nixl_metadata_check(reader, "owner", &bs) != NIXL_SUCCESS;
    printf("%d answers were wrong\n", wrong);
    nixl_agent_destroy(owner), nixl_agent_destroy(reader);
    return wrong ? 1 : 0;
}
