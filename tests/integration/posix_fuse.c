/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The misbehaving file system of posix_env.h: a child process that speaks the kernel's FUSE protocol
 * (linux/fuse.h, version 7.31) itself, since what it is for is answers that no library gives.
 */
#include "posix_env.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_BYTES (1u << 20)
#define SHORT_BYTES 1000u
#define EIO_FROM 65536u
#define MAX_WRITE (128u * 1024u)

enum {
    NODE_ROOT = 1, /* the protocol's number */
    NODE_GOOD,
    NODE_SHORT,
    NODE_EIO,
    NODE_HANG,
    NODE_END
};

static const char *const names[NODE_END] = {
    [NODE_GOOD] = "good", [NODE_SHORT] = "short", [NODE_EIO] = "eio", [NODE_HANG] = "hang"};

static pid_t server = -1;
static char mount_point[64];
static unsigned char *shared;

static void reply(int fd, uint64_t unique, int error, const void *data, size_t len) {
    struct fuse_out_header out = {.len = (uint32_t)(sizeof out + len), .error = -error, .unique = unique};
    struct iovec iov[2] = {{&out, sizeof out}, {(void *)(uintptr_t)data, len}};

    /* ENOENT: the request was given up meanwhile. */
    if (writev(fd, iov, len != 0 ? 2 : 1) < 0 && errno != ENOENT) {
        _exit(1);
    }
}

static struct fuse_attr attr_of(uint64_t node) {
    return (struct fuse_attr){.ino = node,
                              .size = node == NODE_ROOT ? 0 : FILE_BYTES,
                              .mode = node == NODE_ROOT ? S_IFDIR | 0755 : S_IFREG | 0666,
                              .nlink = 1,
                              .blksize = 4096};
}

static void on_lookup(int fd, const struct fuse_in_header *in, const char *name) {
    struct fuse_entry_out out = {0};
    uint64_t node;

    for (node = NODE_GOOD; node < NODE_END && strcmp(names[node], name) != 0; node++) {
    }
    if (node == NODE_END) {
        reply(fd, in->unique, ENOENT, NULL, 0);
        return;
    }
    out.nodeid = node;
    out.attr = attr_of(node);
    reply(fd, in->unique, 0, &out, sizeof out);
}

static void on_read(int fd, const struct fuse_in_header *in, const struct fuse_read_in *arg) {
    size_t len = arg->size;

    if (in->nodeid == NODE_EIO && arg->offset + len > EIO_FROM) {
        reply(fd, in->unique, EIO, NULL, 0);
        return;
    }
    if (in->nodeid == NODE_SHORT && len > SHORT_BYTES) {
        len = SHORT_BYTES;
    }
    if (arg->offset >= FILE_BYTES) {
        len = 0;
    } else if (len > FILE_BYTES - arg->offset) {
        len = FILE_BYTES - arg->offset;
    }
    reply(fd, in->unique, 0, shared + arg->offset, len);
}

static void on_write(int fd, const struct fuse_in_header *in, const struct fuse_write_in *arg) {
    struct fuse_write_out out = {.size = arg->size};

    if (in->nodeid == NODE_EIO && arg->offset + arg->size > EIO_FROM) {
        reply(fd, in->unique, EIO, NULL, 0);
        return;
    }
    if (in->nodeid == NODE_SHORT && out.size > SHORT_BYTES) {
        out.size = SHORT_BYTES;
    }
    if (arg->offset + out.size > FILE_BYTES) {
        reply(fd, in->unique, ENOSPC, NULL, 0);
        return;
    }
    memcpy(shared + arg->offset, arg + 1, out.size);
    reply(fd, in->unique, 0, &out, sizeof out);
}

static void serve(int fd) {
    static _Alignas(8) char buf[MAX_WRITE + 4096];

    for (;;) {
        const struct fuse_in_header *in = (const void *)buf;
        const void *arg = in + 1;
        ssize_t n = read(fd, buf, sizeof buf);

        if (n < 0) {
            if (errno == EINTR || errno == EAGAIN || errno == ENOENT) {
                continue;
            }
            _exit(0); /* ENODEV: unmounted */
        }
        switch (in->opcode) {
        case FUSE_INIT: {
            /* Without FUSE_ASYNC_DIO: with it the kernel makes EIO of a short write, and keeps reads from
             * being interrupted. */
            struct fuse_init_out out = {.major = 7,
                                        .minor = 31,
                                        .max_readahead = MAX_WRITE,
                                        .max_write = MAX_WRITE,
                                        .flags = FUSE_BIG_WRITES | FUSE_ASYNC_READ};

            reply(fd, in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_LOOKUP:
            on_lookup(fd, in, arg);
            break;
        case FUSE_GETATTR:
        case FUSE_SETATTR: {
            struct fuse_attr_out out = {.attr = attr_of(in->nodeid)};

            reply(fd, in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_OPEN: {
            struct fuse_open_out out = {.open_flags = FOPEN_DIRECT_IO};

            reply(fd, in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_READ:
            if (in->nodeid != NODE_HANG) {
                on_read(fd, in, arg);
            }
            break;
        case FUSE_WRITE:
            if (in->nodeid != NODE_HANG) {
                on_write(fd, in, arg);
            }
            break;
        case FUSE_INTERRUPT:
            reply(fd, ((const struct fuse_interrupt_in *)arg)->unique, EINTR, NULL, 0);
            break;
        case FUSE_FLUSH:
        case FUSE_RELEASE:
        case FUSE_FSYNC:
            reply(fd, in->unique, 0, NULL, 0);
            break;
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
            break;
        case FUSE_DESTROY:
            _exit(0);
        default:
            reply(fd, in->unique, ENOSYS, NULL, 0);
            break;
        }
    }
}

const char *place_fuse(char dir[64], unsigned char **bytes) {
    static char why[100];
    const char *none = place_none();
    char options[80];
    int fd;

    if (none != NULL) {
        return none;
    }
    fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        snprintf(why, sizeof why, "/dev/fuse: %s", strerror(errno));
        return why;
    }
    strcpy(mount_point, "/tmp/nixl-fuse-XXXXXX");
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    if (mkdtemp(mount_point) == NULL ||
        mount("nixl-test", mount_point, "fuse", MS_NOSUID | MS_NODEV, options) != 0) {
        snprintf(why, sizeof why, "no FUSE mount: %s", strerror(errno));
        close(fd);
        return why;
    }
    shared = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(fd);
    }
    close(fd);
    strcpy(dir, mount_point);
    *bytes = shared;
    return NULL;
}

void place_fuse_end(void) {
    if (server > 0) {
        umount2(mount_point, MNT_DETACH);
        rmdir(mount_point);
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
        server = -1;
        munmap(shared, FILE_BYTES);
    }
}
