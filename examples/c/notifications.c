/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications: apart from any transfer, with any bytes, to a peer and to oneself; and one that comes with a transfer,
 * after its data. */
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

/* Waits for the next notifications of an agent and prints them. Returns how many came. */
static size_t take(struct nixl_agent *agent) {
    struct nixl_notifs *notifs = NULL;
    size_t count;

    while (notifs == NULL) {
        check(nixl_notif_take(agent, NULL, &notifs), "take");
    }
    count = notifs->count;
    for (size_t i = 0; i < count; i++) {
        printf("%s got %zu bytes from %s: \"%s\"\n", nixl_agent_name(agent), notifs->items[i].len,
               notifs->items[i].agent, (const char *)notifs->items[i].msg);
    }
    nixl_notifs_release(notifs);
    return count;
}

int main(void) {
    static char from[256] = "the data", to[256];
    const struct nixl_desc src = {(uintptr_t)from, sizeof from, 0}, dst = {(uintptr_t)to, sizeof to, 0};
    const struct nixl_list srcs = NIXL_LIST(DRAM_SEG, &src, 1), dsts = NIXL_LIST(DRAM_SEG, &dst, 1);
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_agent *left, *right;
    struct nixl_backend *ucx;
    struct nixl_xfer *xfer;
    void *blob;
    size_t len, came = 0;

    config.progress_thread = true;
    check(nixl_agent_create("left", &config, &left), "agent left");
    check(nixl_agent_create("right", &config, &right), "agent right");
    check(nixl_backend_create(left, "UCX", NULL, 0, &ucx), "UCX of left");
    check(nixl_backend_create(right, "UCX", NULL, 0, &ucx), "UCX of right");
    check(nixl_mem_register(left, &srcs, NULL), "register at left");
    check(nixl_mem_register(right, &dsts, NULL), "register at right");
    check(nixl_metadata_get(right, &blob, &len), "metadata of right");
    check(nixl_metadata_load(left, blob, len, NULL), "load");
    nixl_free(blob);

    check(nixl_notif_send(left, "left", "note to myself", 14, NULL), "send to itself");
    take(left);
    check(nixl_notif_send(left, "right", "one", 3, NULL), "send");
    check(nixl_notif_send(left, "right", "two", 3, NULL), "send");
    while (came < 2) { /* in the order of sending */
        came += take(right);
    }

    options.has_notif = true;
    options.notif = "256 bytes are there";
    options.notif_len = strlen(options.notif);
    check(nixl_xfer_create(left, NIXL_WRITE, &srcs, &dsts, "right", &options, &xfer), "create");
    check(nixl_xfer_post(xfer, NULL), "post");
    take(right);
    printf("right has \"%s\"\n", to); /* the notification came after the data */
    check(nixl_xfer_wait(xfer, NIXL_NO_TIMEOUT), "write");
    check(nixl_xfer_release(xfer), "release");
    nixl_agent_destroy(left), nixl_agent_destroy(right);
    return strcmp(from, to) == 0 ? 0 : 1;
}
