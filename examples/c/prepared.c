/* SPDX-License-Identifier: Apache-2.0 */
/* Prepared lists: look 64 blocks up once, then make requests from indices, as a cache of pages does. The same request is
 * posted again after its source changed. */
#include <nixl/nixl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 64
#define BLOCK_BYTES 1024

static void check(nixl_status_t status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, nixl_error());
        exit(1);
    }
}

static void run(struct nixl_xfer *xfer) {
    check(nixl_xfer_post(xfer, NULL), "post");
    check(nixl_xfer_wait(xfer, NIXL_NO_TIMEOUT), "transfer");
}

int main(void) {
    static char pages[BLOCKS][BLOCK_BYTES], copies[BLOCKS][BLOCK_BYTES];
    struct nixl_desc whole = {(uintptr_t)pages, sizeof pages, 0},
                     whole_copy = {(uintptr_t)copies, sizeof copies, 0};
    struct nixl_list mine = NIXL_LIST(DRAM_SEG, &whole, 1), theirs = NIXL_LIST(DRAM_SEG, &whole_copy, 1);
    /* One strided item stands for all 64 blocks; an array of 64 struct nixl_desc does as well. */
    struct nixl_strided_desc blocks = {(uintptr_t)pages, BLOCK_BYTES, 0, BLOCK_BYTES, BLOCKS};
    struct nixl_strided_desc copy_blocks = {(uintptr_t)copies, BLOCK_BYTES, 0, BLOCK_BYTES, BLOCKS};
    const struct nixl_list local_list = NIXL_LIST_STRIDED(DRAM_SEG, &blocks, 1);
    const struct nixl_list remote_list = NIXL_LIST_STRIDED(DRAM_SEG, &copy_blocks, 1);
    const int32_t from[] = {3, 4, 5, 40}, to[] = {0, 1, 2, 63};
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_agent *left, *right;
    struct nixl_backend *ucx;
    struct nixl_dlist *local, *remote;
    struct nixl_xfer *xfer;
    void *blob;
    size_t len;

    for (int i = 0; i < BLOCKS; i++) {
        memset(pages[i], 'A' + i % 26, BLOCK_BYTES);
    }
    config.progress_thread = true;
    check(nixl_agent_create("left", &config, &left), "agent left");
    check(nixl_agent_create("right", &config, &right), "agent right");
    check(nixl_backend_create(left, "UCX", NULL, 0, &ucx), "UCX of left");
    check(nixl_backend_create(right, "UCX", NULL, 0, &ucx), "UCX of right");
    check(nixl_mem_register(left, &mine, NULL), "register at left");
    check(nixl_mem_register(right, &theirs, NULL), "register at right");
    check(nixl_metadata_get(right, &blob, &len), "metadata of right");
    check(nixl_metadata_load(left, blob, len, NULL), "load");
    nixl_free(blob);

    check(nixl_dlist_prepare(left, "", &local_list, NULL, &local), "prepare the local side");
    check(nixl_dlist_prepare(left, "right", &remote_list, NULL, &remote), "prepare the remote side");
    printf("%zu blocks prepared on each side\n", nixl_dlist_count(remote));
    check(nixl_xfer_make(left, NIXL_WRITE, local, from, remote, to, 4, NULL, &xfer), "make");
    run(xfer);
    printf("blocks 0, 1, 2 and 63 of right: %c %c %c %c\n", copies[0][0], copies[1][0], copies[2][0],
           copies[63][0]);
    memset(pages[40], '*', BLOCK_BYTES);
    run(xfer);
    printf("block 63 after the second post: %c\n", copies[63][BLOCK_BYTES - 1]);

    check(nixl_xfer_release(xfer), "release");
    nixl_dlist_release(local), nixl_dlist_release(remote);
    nixl_agent_destroy(left), nixl_agent_destroy(right);
    return copies[0][0] == 'D' && copies[63][0] == '*' ? 0 : 1;
}
