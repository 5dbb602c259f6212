/* SPDX-License-Identifier: Apache-2.0 */
#include "posix_env.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

/* ---- the agent --- */

nixl_status_t node_open(struct node *n, const char *queue, bool progress_thread) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    struct nixl_param param = {.key = queue, .value = "true"};
    nixl_status_t status;

    n->posix = NULL;
    config.progress_thread = progress_thread;
    status = nixl_agent_create("files", &config, &n->agent);
    if (status != NIXL_SUCCESS) {
        fprintf(stderr, "%s\n", nixl_error());
        abort();
    }
    return nixl_backend_create(n->agent, "POSIX", &param, queue != NULL ? 1 : 0, &n->posix);
}

void node_close(struct node *n) {
    nixl_agent_destroy(n->agent);
    n->agent = NULL;
}

nixl_status_t node_register(struct node *n, nixl_mem_t mem, uint64_t addr, uint64_t len, uint64_t dev,
                            const char *meta) {
    struct nixl_meta_desc desc = {
        .addr = addr, .len = len, .dev = dev, .meta = meta, .meta_len = meta != NULL ? strlen(meta) : 0};
    struct nixl_list list = NIXL_LIST_META(mem, &desc, 1);

    return nixl_mem_register(n->agent, &list, NULL);
}

nixl_status_t node_deregister(struct node *n, nixl_mem_t mem, uint64_t addr, uint64_t len, uint64_t dev) {
    struct nixl_desc desc = {addr, len, dev};
    struct nixl_list list = NIXL_LIST(mem, &desc, 1);

    return nixl_mem_deregister(n->agent, &list, NULL);
}

nixl_status_t node_xfer(struct node *n, nixl_xfer_op_t op, const void *buf, uint64_t len, uint64_t dev,
                        uint64_t offset, struct nixl_xfer **xfer) {
    struct nixl_desc local = {(uintptr_t)buf, len, 0}, remote = {offset, len, dev};
    struct nixl_list locals = NIXL_LIST(DRAM_SEG, &local, 1), remotes = NIXL_LIST(FILE_SEG, &remote, 1);

    return nixl_xfer_create(n->agent, op, &locals, &remotes, nixl_agent_name(n->agent), NULL, xfer);
}

nixl_status_t node_run(struct nixl_xfer *xfer) {
    nixl_status_t status = nixl_xfer_post(xfer, NULL);

    return status == NIXL_IN_PROG ? nixl_xfer_wait(xfer, 30000) : status;
}

void pattern(void *buf, uint64_t len, uint64_t seed) {
    unsigned char *at = buf;
    uint64_t i;

    for (i = 0; i < len; i++) {
        at[i] = (unsigned char)((seed + i) ^ ((seed + i) >> 8) * 13 ^ ((seed + i) >> 16) * 7);
    }
}

/* ---- places --- */

const char *place_none(void) {
    static bool is_inside;
    static char why[100];

    if (is_inside) {
        return NULL;
    }
    if (geteuid() != 0) {
        return "mounting needs root";
    }
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        snprintf(why, sizeof why, "no mount namespace: %s", strerror(errno));
        return why;
    }
    is_inside = true;
    return NULL;
}

static const char *new_folder(char dir[64]) {
    strcpy(dir, "/tmp/nixl-place-XXXXXX");
    return mkdtemp(dir) != NULL ? NULL : "no folder in /tmp";
}

const char *place_tmpfs(size_t bytes, char dir[64]) {
    char options[40];
    static char why[100];
    const char *none = place_none();

    if (none != NULL || (none = new_folder(dir)) != NULL) {
        return none;
    }
    snprintf(options, sizeof options, "size=%zu", bytes);
    if (mount("nixl-test", dir, "tmpfs", 0, options) != 0) {
        snprintf(why, sizeof why, "no tmpfs: %s", strerror(errno));
        rmdir(dir);
        return why;
    }
    return NULL;
}

const char *place_loop(size_t bytes, char device[64], int *backing) {
    static char why[100];
    char name[64] = "/tmp/nixl-loop-XXXXXX";
    int control = -1, fd = -1, number = -1, tries;

    if (geteuid() != 0) {
        return "loop devices need root";
    }
    *backing = mkstemp(name);
    unlink(name);
    control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (*backing < 0 || ftruncate(*backing, (off_t)bytes) != 0 || control < 0) {
        snprintf(why, sizeof why, "no loop device: %s", strerror(errno));
        return why;
    }
    /* Somebody else may take the free one between the two calls. */
    for (tries = 0; tries < 10; tries++) {
        number = ioctl(control, LOOP_CTL_GET_FREE);
        snprintf(device, 64, "/dev/loop%d", number);
        fd = number >= 0 ? open(device, O_RDWR | O_CLOEXEC) : -1;
        if (fd >= 0 && ioctl(fd, LOOP_SET_FD, *backing) == 0) {
            close(control);
            close(fd);
            return NULL;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    snprintf(why, sizeof why, "no loop device: %s", strerror(errno));
    close(control);
    close(*backing);
    return why;
}

void place_loop_end(const char *device, int backing) {
    int fd = open(device, O_RDWR | O_CLOEXEC);

    if (fd >= 0) {
        ioctl(fd, LOOP_CLR_FD, 0);
        close(fd);
    }
    close(backing);
}
