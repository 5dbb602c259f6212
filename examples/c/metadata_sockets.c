/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata over sockets: one agent listens; the other one fetches its metadata, writes into its memory, and sends its own. */
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
    static char from[4096] = "carried by a socket", to[4096];
    const struct nixl_desc src = {(uintptr_t)from, sizeof from, 0}, dst = {(uintptr_t)to, sizeof to, 0};
    const struct nixl_list srcs = NIXL_LIST(DRAM_SEG, &src, 1), dsts = NIXL_LIST(DRAM_SEG, &dst, 1);
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_options there = NIXL_OPTIONS_INIT;
    struct nixl_agent *listening, *asking;
    struct nixl_backend *ucx;
    struct nixl_xfer *xfer;

    config.progress_thread = true;
    check(nixl_agent_create("asking", &config, &asking), "agent asking");
    config.listen_thread = true;
    config.listen_port = 0; /* any; the usual one is 8888 */
    check(nixl_agent_create("listening", &config, &listening), "agent listening");
    check(nixl_backend_create(listening, "UCX", NULL, 0, &ucx), "UCX of listening");
    check(nixl_backend_create(asking, "UCX", NULL, 0, &ucx), "UCX of asking");
    check(nixl_mem_register(listening, &dsts, NULL), "register at listening");
    check(nixl_mem_register(asking, &srcs, NULL), "register at asking");

    there.ip_addr = "localhost"; /* a name, or an IPv4 or IPv6 address */
    there.port = nixl_agent_listen_port(listening);
    there.wait_ms = 5000; /* wait for the result; without it, nixl_metadata_check() tells */
    check(nixl_metadata_fetch(asking, "listening", &there), "fetch");
    check(nixl_xfer_create(asking, NIXL_WRITE, &srcs, &dsts, "listening", NULL, &xfer), "create");
    check(nixl_xfer_post(xfer, NULL), "post");
    check(nixl_xfer_wait(xfer, NIXL_NO_TIMEOUT), "write");
    printf("listening has \"%s\"\n", to);
    nixl_xfer_release(xfer);

    check(nixl_metadata_send(asking, &there), "send");
    check(nixl_metadata_check(listening, "asking", &srcs), "the listening agent knows the other one");
    check(nixl_metadata_invalidate_local(asking, &there), "invalidate");
    if (nixl_metadata_check(listening, "asking", NULL) == NIXL_SUCCESS || strcmp(from, to) != 0) {
        return 1;
    }
    printf("and has forgotten asking again\n");
    nixl_agent_destroy(asking), nixl_agent_destroy(listening);
    return 0;
}
