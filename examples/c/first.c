/* SPDX-License-Identifier: Apache-2.0 */
/* Two agents in one program: "left" writes a buffer into memory of "right". */
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
    static char from[4096] = "Hello from the left", to[4096];
    const struct nixl_desc src = {(uintptr_t)from, sizeof from, 0}, dst = {(uintptr_t)to, sizeof to, 0};
    const struct nixl_list srcs = NIXL_LIST(DRAM_SEG, &src, 1), dsts = NIXL_LIST(DRAM_SEG, &dst, 1);
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_agent *left, *right;
    struct nixl_backend *ucx;
    struct nixl_xfer *xfer;
    void *blob;
    size_t len;

    config.progress_thread = true;
    check(nixl_agent_create("left", &config, &left), "agent left");
    check(nixl_agent_create("right", &config, &right), "agent right");
    check(nixl_backend_create(left, "UCX", NULL, 0, &ucx), "UCX of left");
    check(nixl_backend_create(right, "UCX", NULL, 0, &ucx), "UCX of right");
    check(nixl_mem_register(left, &srcs, NULL), "register at left");
    check(nixl_mem_register(right, &dsts, NULL), "register at right");
    check(nixl_metadata_get(right, &blob, &len),
          "metadata"); /* bytes: carry them to left's machine as you like */
    check(nixl_metadata_load(left, blob, len, NULL), "load");
    check(nixl_xfer_create(left, NIXL_WRITE, &srcs, &dsts, "right", NULL, &xfer), "create");
    check(nixl_xfer_post(xfer, NULL), "post");
    check(nixl_xfer_wait(xfer, NIXL_NO_TIMEOUT), "write");
    printf("right has \"%s\", carried by %s\n", to, nixl_xfer_transport(xfer));
    check(nixl_xfer_release(xfer), "release"), nixl_free(blob);
    nixl_agent_destroy(left), nixl_agent_destroy(right);
}
