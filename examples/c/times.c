/* SPDX-License-Identifier: Apache-2.0 */
/* How long a transfer took, what carried it and what the next one would take. Times are kept because the agent is told to;
 * NIXL_TELEMETRY_ENABLE=y does the same from outside. */
#include <inttypes.h>
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
    static char from[4 << 20], to[4 << 20];
    const struct nixl_desc src = {(uintptr_t)from, sizeof from, 0}, dst = {(uintptr_t)to, sizeof to, 0};
    const struct nixl_list srcs = NIXL_LIST(DRAM_SEG, &src, 1), dsts = NIXL_LIST(DRAM_SEG, &dst, 1);
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_xfer_times times = NIXL_XFER_TIMES_INIT;
    struct nixl_cost cost = NIXL_COST_INIT;
    struct nixl_agent *left, *right;
    struct nixl_backend *ucx;
    struct nixl_xfer *xfer;
    void *blob;
    size_t len;

    config.progress_thread = true;
    config.capture_telemetry = true;
    check(nixl_agent_create("left", &config, &left), "agent left");
    check(nixl_agent_create("right", &config, &right), "agent right");
    check(nixl_backend_create(left, "UCX", NULL, 0, &ucx), "UCX of left");
    check(nixl_backend_create(right, "UCX", NULL, 0, &ucx), "UCX of right");
    printf("%s\n", nixl_backend_description(ucx));
    check(nixl_mem_register(left, &srcs, NULL), "register at left");
    check(nixl_mem_register(right, &dsts, NULL), "register at right");
    check(nixl_metadata_get(right, &blob, &len), "metadata of right");
    check(nixl_metadata_load(left, blob, len, NULL), "load");
    nixl_free(blob);
    check(nixl_xfer_create(left, NIXL_WRITE, &srcs, &dsts, "right", NULL, &xfer), "create");
    for (int i = 0; i < 3; i++) {
        check(nixl_xfer_post(xfer, NULL), "post");
        check(nixl_xfer_wait(xfer, NIXL_NO_TIMEOUT), "write");
        check(nixl_xfer_stats(xfer, &times), "times");
        printf("%" PRIu64 " bytes in %.1f us, %.1f us of them in post, by %s\n", times.total_bytes,
               (double)times.xfer_ns / 1000, (double)times.post_ns / 1000, nixl_xfer_transport(xfer));
    }
    if (nixl_xfer_cost(xfer, &cost) == NIXL_SUCCESS) {
        printf("the next one should take %.1f us, give or take %.1f\n", (double)cost.duration_ns / 1000,
               (double)cost.margin_ns / 1000);
    } else {
        printf("what the next one will take: %s\n", nixl_error());
    }
    check(nixl_xfer_release(xfer), "release");
    nixl_agent_destroy(left), nixl_agent_destroy(right);
    return times.total_bytes == sizeof from && times.xfer_ns >= times.post_ns ? 0 : 1;
}
