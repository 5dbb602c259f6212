/* SPDX-License-Identifier: Apache-2.0 */
/* The agent of README.md, written with <nixl/nixl.h>. */
#include "files.h"

#include <inttypes.h>
#include <nixl/nixl.h>

static unsigned char inbox[mixed_agents][mixed_bytes], source[mixed_bytes], read_back[mixed_bytes];
static unsigned char blob[1 << 20];

static void check(nixl_status_t status, const char *what) {
    if (status < 0) {
        mixed_fail(what, nixl_error());
    }
}

static void transfer(struct nixl_agent *agent, nixl_xfer_op_t op, const void *local, uint64_t remote,
                     const char *peer, const char *notif) {
    const struct nixl_desc here = {(uintptr_t)local, mixed_bytes, 0}, there = {remote, mixed_bytes, 0};
    const struct nixl_list locals = NIXL_LIST(DRAM_SEG, &here, 1), remotes = NIXL_LIST(DRAM_SEG, &there, 1);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer;

    options.has_notif = notif != NULL;
    options.notif = notif;
    options.notif_len = notif ? strlen(notif) : 0;
    check(nixl_xfer_create(agent, op, &locals, &remotes, peer, &options, &xfer), peer);
    check(nixl_xfer_post(xfer, NULL), peer);
    check(nixl_xfer_wait(xfer, 20000), peer);
    if (nixl_xfer_poll(xfer) != NIXL_SUCCESS) {
        mixed_fail(peer, "the transfer does not end");
    }
    check(nixl_xfer_release(xfer), peer);
}

int main(int argc, char **argv) {
    const struct mixed mixed = mixed_arguments(argc, argv);
    const struct nixl_desc blocks[] = {{(uintptr_t)inbox, sizeof inbox, 0},
                                       {(uintptr_t)source, sizeof source, 0},
                                       {(uintptr_t)read_back, sizeof read_back, 0}};
    const struct nixl_list memory = NIXL_LIST(DRAM_SEG, blocks, 3);
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_agent *agent;
    struct nixl_backend *ucx;
    struct nixl_notifs *notifs;
    uint64_t at[2];
    char text[128];
    void *own;
    size_t len;
    int came = 0;

    memset(source, 'A' + mixed.self, sizeof source);
    config.progress_thread = true;
    check(nixl_agent_create(mixed.name, &config, &agent), "agent");
    check(nixl_backend_create(agent, "UCX", NULL, 0, &ucx), "UCX");
    check(nixl_mem_register(agent, &memory, NULL), "register");
    check(nixl_metadata_get(agent, &own, &len), "metadata");
    len = (mixed_put(&mixed, "md", own, len), (size_t)snprintf(text, sizeof text, "%" PRIuPTR " %" PRIuPTR,
                                                               (uintptr_t)inbox, (uintptr_t)source));
    mixed_put(&mixed, "at", text, len);
    nixl_free(own);
    for (int i = 0; i < mixed.count; i++) {
        if (i == mixed.self) {
            continue;
        }
        len = mixed_get(&mixed, mixed.names[i], "md", blob, sizeof blob);
        check(nixl_metadata_load(agent, blob, len, NULL), mixed.names[i]);
        text[mixed_get(&mixed, mixed.names[i], "at", text, sizeof text - 1)] = '\0';
        if (sscanf(text, "%" SCNu64 " %" SCNu64, &at[0], &at[1]) != 2) {
            mixed_fail(mixed.names[i], "gives no addresses");
        }
        transfer(agent, NIXL_READ, read_back, at[1], mixed.names[i], NULL);
        mixed_compare(&mixed, i, read_back, "read of");
        transfer(agent, NIXL_WRITE, source, at[0] + (uint64_t)mixed.self * mixed_bytes, mixed.names[i],
                 mixed.name);
    }
    for (int tries = 0; tries < 3000 && came < mixed.count - 1; tries++) {
        check(nixl_notif_take(agent, NULL, &notifs), "notifications");
        came += notifs ? (int)notifs->count : 0;
        nixl_notifs_release(notifs);
        usleep(10000);
    }
    if (came != mixed.count - 1) {
        mixed_fail(mixed.name, "notifications are missing");
    }
    for (int i = 0; i < mixed.count; i++) {
        if (i != mixed.self) {
            mixed_compare(&mixed, i, inbox[i], "inbox of");
        }
    }
    mixed_put(&mixed, "done", "", 0);
    for (int i = 0; i < mixed.count; i++) {
        mixed_get(&mixed, mixed.names[i], "done", text, sizeof text);
    }
    nixl_agent_destroy(agent);
    return 0;
}
