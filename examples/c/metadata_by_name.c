/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata by name, through the store that the environment names: NIXL_ETCD_ENDPOINTS=http://host:2379 for etcd, or
 * NIXL_TCPSTORE_ENDPOINT=host:29500 for PyTorch's TCPStore. The program is the same for both.
 */
#include <nixl/nixl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(nixl_status_t status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, nixl_error());
        exit(1);
    }
}

int main(void) {
    static char from[4096] = "found by name", to[4096];
    const struct nixl_desc src = {(uintptr_t)from, sizeof from, 0}, dst = {(uintptr_t)to, sizeof to, 0};
    const struct nixl_list srcs = NIXL_LIST(DRAM_SEG, &src, 1), dsts = NIXL_LIST(DRAM_SEG, &dst, 1);
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_options wait = NIXL_OPTIONS_INIT;
    struct nixl_agent *owner, *finder;
    struct nixl_backend *ucx;
    struct nixl_xfer *xfer;

    if (getenv("NIXL_ETCD_ENDPOINTS") == NULL && getenv("NIXL_TCPSTORE_ENDPOINT") == NULL) {
        printf("set NIXL_ETCD_ENDPOINTS or NIXL_TCPSTORE_ENDPOINT to try this\n");
        return 0;
    }
    config.progress_thread = true;
    check(nixl_agent_create("owner", &config, &owner), "agent owner");
    check(nixl_agent_create("finder", &config, &finder), "agent finder");
    check(nixl_backend_create(owner, "UCX", NULL, 0, &ucx), "UCX of owner");
    check(nixl_backend_create(finder, "UCX", NULL, 0, &ucx), "UCX of finder");
    check(nixl_mem_register(owner, &dsts, NULL), "register at owner");
    check(nixl_mem_register(finder, &srcs, NULL), "register at finder");

    wait.wait_ms = 10000;
    check(nixl_metadata_fetch(finder, "owner", NULL), "a fetch before there is anything: it completes later");
    check(nixl_metadata_send(owner, &wait), "publish");
    check(nixl_metadata_fetch(finder, "owner", &wait), "a fetch that is waited for");
    check(nixl_xfer_create(finder, NIXL_WRITE, &srcs, &dsts, "owner", NULL, &xfer), "create");
    check(nixl_xfer_post(xfer, NULL), "post");
    check(nixl_xfer_wait(xfer, NIXL_NO_TIMEOUT), "write");
    printf("owner has \"%s\"\n", to);
    nixl_xfer_release(xfer);
    check(nixl_metadata_invalidate_local(owner, &wait), "withdraw");
    nixl_agent_destroy(finder), nixl_agent_destroy(owner);
    return strcmp(from, to) != 0;
}
