/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes: the second is started before this one touches NIXL, and sends its metadata through a socket. This one
 * reads the other's memory and lets it know. */
#include <nixl/nixl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(nixl_status_t status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, nixl_error());
        exit(1);
    }
}

static void move(int fd, void *data, size_t len, int out) {
    for (size_t done = 0; done < len;) {
        ssize_t n =
            out ? write(fd, (char *)data + done, len - done) : read(fd, (char *)data + done, len - done);
        if (n <= 0) {
            fprintf(stderr, "the other process is gone\n");
            exit(1);
        }
        done += (size_t)n;
    }
}

static struct nixl_agent *agent_with(const char *name, const struct nixl_list *list) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_agent *agent;
    struct nixl_backend *ucx;

    config.progress_thread = true;
    check(nixl_agent_create(name, &config, &agent), name);
    check(nixl_backend_create(agent, "UCX", NULL, 0, &ucx), "UCX");
    check(nixl_mem_register(agent, list, NULL), "register");
    return agent;
}

/* The process that has the data: hands its metadata over and serves until it is told that the data was read. */
static int serve(int fd) {
    static char data[65536];
    struct nixl_desc block = {(uintptr_t)data, sizeof data, 0};
    const struct nixl_list list = NIXL_LIST(DRAM_SEG, &block, 1);
    struct nixl_agent *agent = agent_with("server", &list);
    struct nixl_notifs *notifs = NULL;
    void *blob;
    size_t len;

    memset(data, 's', sizeof data);
    check(nixl_metadata_get(agent, &blob, &len), "metadata");
    move(fd, &len, sizeof len, 1);
    move(fd, blob, len, 1);
    move(fd, &block, sizeof block, 1);
    nixl_free(blob);
    while (notifs == NULL) {
        check(nixl_notif_take(agent, NULL, &notifs), "take");
        usleep(1000);
    }
    printf("the server was told: %s\n", (const char *)notifs->items[0].msg);
    nixl_notifs_release(notifs);
    nixl_agent_destroy(agent);
    return 0;
}

static int fetch(int fd) {
    static char data[65536];
    struct nixl_desc block = {(uintptr_t)data, sizeof data, 0}, theirs;
    const struct nixl_list list = NIXL_LIST(DRAM_SEG, &block, 1), remote = NIXL_LIST(DRAM_SEG, &theirs, 1);
    struct nixl_agent *agent = agent_with("client", &list);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer;
    void *blob;
    size_t len;

    move(fd, &len, sizeof len, 0);
    blob = malloc(len);
    move(fd, blob, len, 0);
    move(fd, &theirs, sizeof theirs, 0);
    check(nixl_metadata_load(agent, blob, len, NULL), "load");
    free(blob);
    options.has_notif = true;
    options.notif = "thank you";
    options.notif_len = 9;
    check(nixl_xfer_create(agent, NIXL_READ, &list, &remote, "server", &options, &xfer), "create");
    check(nixl_xfer_post(xfer, NULL), "post");
    check(nixl_xfer_wait(xfer, NIXL_NO_TIMEOUT), "read");
    printf("the client has %zu bytes, carried by %s\n", sizeof data, nixl_xfer_transport(xfer));
    check(nixl_xfer_release(xfer), "release");
    return data[0] == 's' && data[sizeof data - 1] == 's' ? 0 : 1;
}

int main(void) {
    int ends[2], status = 1, result;
    pid_t server;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || (server = fork()) < 0) {
        perror("starting the server");
        return 1;
    }
    if (server == 0) {
        return serve(ends[0]);
    }
    close(ends[0]);
    result = fetch(ends[1]);
    waitpid(server, &status, 0);
    return result || status;
}
