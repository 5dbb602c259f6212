/* SPDX-License-Identifier: Apache-2.0 */
/* An event loop: one descriptor of the agent says when a transfer ended or a notification came. Nothing polls in vain. */
#include <nixl/nixl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

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

int main(void) {
    static char from[1 << 20], to[1 << 20];
    const struct nixl_desc src = {(uintptr_t)from, sizeof from, 0}, dst = {(uintptr_t)to, sizeof to, 0};
    const struct nixl_list srcs = NIXL_LIST(DRAM_SEG, &src, 1), dsts = NIXL_LIST(DRAM_SEG, &dst, 1);
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct epoll_event event = {.events = EPOLLIN};
    struct nixl_agent *left, *right;
    struct nixl_backend *ucx;
    struct nixl_xfer *xfer;
    nixl_status_t status;
    void *blob;
    size_t len;
    int epoll, sleeps = 0;

    memset(from, 'e', sizeof from);
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

    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, nixl_agent_fd(left), &event) != 0) {
        perror("epoll");
        return 1;
    }
    check(nixl_xfer_create(left, NIXL_WRITE, &srcs, &dsts, "right", NULL, &xfer), "create");
    status = nixl_xfer_post(xfer, NULL);
    while (status == NIXL_IN_PROG) {
        sleep_until_event(left, epoll);
        sleeps++;
        status = nixl_xfer_poll(xfer);
    }
    check(status, "write");
    printf("1 MiB written; looked %d times\n", sleeps);
    check(nixl_xfer_release(xfer), "release");
    nixl_agent_destroy(left), nixl_agent_destroy(right);
    close(epoll);
    return memcmp(from, to, sizeof from) ? 1 : 0;
}
