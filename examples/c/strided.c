/* SPDX-License-Identifier: Apache-2.0 */
/* Strided lists: block 5 of each of 32 layers, which lie 16 blocks apart, is one item instead of 32 descriptors. The
 * other side keeps blocks close together: both sides need the same count and length, not the same stride. */
#include <nixl/nixl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 32
#define BLOCKS 16
#define BLOCK_BYTES 512

static void check(nixl_status_t status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, nixl_error());
        exit(1);
    }
}

int main(void) {
    static char cache[LAYERS][BLOCKS][BLOCK_BYTES], packed[LAYERS][BLOCK_BYTES];
    const struct nixl_desc all = {(uintptr_t)cache, sizeof cache, 0},
                           pack = {(uintptr_t)packed, sizeof packed, 0};
    const struct nixl_list alls = NIXL_LIST(DRAM_SEG, &all, 1), packs = NIXL_LIST(DRAM_SEG, &pack, 1);
    const struct nixl_strided_desc from = {(uintptr_t)cache[0][5], BLOCK_BYTES, 0, sizeof cache[0], LAYERS};
    const struct nixl_strided_desc to = {(uintptr_t)packed, BLOCK_BYTES, 0, BLOCK_BYTES, LAYERS};
    const struct nixl_list local = NIXL_LIST_STRIDED(DRAM_SEG, &from, 1);
    const struct nixl_list remote = NIXL_LIST_STRIDED(DRAM_SEG, &to, 1);
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_agent *left, *right;
    struct nixl_backend *ucx;
    struct nixl_xfer *xfer;
    void *blob;
    size_t len;
    int wrong = 0;

    for (int layer = 0; layer < LAYERS; layer++) {
        memset(cache[layer][5], 1 + layer, BLOCK_BYTES);
    }
    config.progress_thread = true;
    check(nixl_agent_create("left", &config, &left), "agent left");
    check(nixl_agent_create("right", &config, &right), "agent right");
    check(nixl_backend_create(left, "UCX", NULL, 0, &ucx), "UCX of left");
    check(nixl_backend_create(right, "UCX", NULL, 0, &ucx), "UCX of right");
    check(nixl_mem_register(left, &alls, NULL), "register at left");
    check(nixl_mem_register(right, &packs, NULL), "register at right");
    check(nixl_metadata_get(right, &blob, &len), "metadata of right");
    check(nixl_metadata_load(left, blob, len, NULL), "load");
    nixl_free(blob);
    check(nixl_xfer_create(left, NIXL_WRITE, &local, &remote, "right", NULL, &xfer), "create");
    check(nixl_xfer_post(xfer, NULL), "post");
    check(nixl_xfer_wait(xfer, NIXL_NO_TIMEOUT), "write");
    for (int layer = 0; layer < LAYERS; layer++) {
        wrong += packed[layer][0] != 1 + layer || packed[layer][BLOCK_BYTES - 1] != 1 + layer;
    }
    printf("block 5 of %d layers, %d of them wrong\n", LAYERS, wrong);
    check(nixl_xfer_release(xfer), "release");
    nixl_agent_destroy(left), nixl_agent_destroy(right);
    return wrong ? 1 : 0;
}
