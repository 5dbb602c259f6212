/* SPDX-License-Identifier: Apache-2.0 */
/* An event loop that serves 1,000 transfers: one descriptor of the agent says when any of them ended. It polls only then. */
#include <nixl/nixl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define TRANSFERS 1000
#define BLOCK 4096

static char from[TRANSFERS * BLOCK], to[TRANSFERS * BLOCK];

static void check(nixl_status_t status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, nixl_error());
        exit(1);
    }
}

/* Sleeps until something happened to the agent. Arming first closes the gap between looking and sleeping. */
static void sleep_until_event(struct nixl_agent *agent, int epoll) {
    struct epoll_event event;
    nixl_status_t armed = nixl_agent_arm(agent);

    check(armed, "arm");
    if (armed == NIXL_IN_PROG && epoll_wait(epoll, &event, 1, 10000) != 1) {
        fprintf(stderr, "nothing happened in 10 s\n");
        exit(1);
    }
}

/* Polls each that is in flight; how many still are. */
static int look(struct nixl_xfer **xfers, int in_flight) {
    int left = 0;

    for (int i = 0; i < in_flight; i++) {
        nixl_status_t status = nixl_xfer_poll(xfers[i]);

        check(status, "write");
        if (status == NIXL_IN_PROG) {
            xfers[left++] = xfers[i];
        } else {
            check(nixl_xfer_release(xfers[i]), "release");
        }
    }
    return left;
}

int main(void) {
    const struct nixl_desc all_from = {(uintptr_t)from, sizeof from, 0},
                           all_to = {(uintptr_t)to, sizeof to, 0};
    const struct nixl_list mine = NIXL_LIST(DRAM_SEG, &all_from, 1), theirs = NIXL_LIST(DRAM_SEG, &all_to, 1);
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct epoll_event event = {.events = EPOLLIN};
    struct nixl_xfer *xfers[TRANSFERS];
    struct nixl_agent *left, *right;
    struct nixl_backend *ucx;
    void *blob;
    size_t len;
    int epoll, in_flight = TRANSFERS, looks = 0;

    memset(from, 'e', sizeof from);
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

    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, nixl_agent_fd(left), &event) != 0) {
        perror("epoll");
        return 1;
    }
    for (int i = 0; i < TRANSFERS; i++) {
        const struct nixl_desc src = {(uintptr_t)from + (size_t)i * BLOCK, BLOCK, 0};
        const struct nixl_desc dst = {(uintptr_t)to + (size_t)i * BLOCK, BLOCK, 0};
        const struct nixl_list srcs = NIXL_LIST(DRAM_SEG, &src, 1), dsts = NIXL_LIST(DRAM_SEG, &dst, 1);

        check(nixl_xfer_create(left, NIXL_WRITE, &srcs, &dsts, "right", NULL, &xfers[i]), "create");
        check(nixl_xfer_post(xfers[i], NULL), "post");
    }
    for (in_flight = look(xfers, in_flight); in_flight > 0; in_flight = look(xfers, in_flight)) {
        sleep_until_event(left, epoll);
        looks++;
    }
    printf("%d transfers of %d bytes written; slept at most %d times\n", TRANSFERS, BLOCK, looks);
    nixl_agent_destroy(left), nixl_agent_destroy(right);
    close(epoll);
    return memcmp(from, to, sizeof from) ? 1 : 0;
}
