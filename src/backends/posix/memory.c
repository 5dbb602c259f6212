/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: registered by descriptor (which is duplicated, so what the user does with his cannot reach a
 * transfer) or by a mode string with a path. Registrations of the same open file share one duplicate. Host
 * memory needs no registration with the kernel. Control operations only: the agent serializes them.
 */
#include "posix.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Flags that make two descriptors of one file different for a transfer. */
#define IDENTITY_FLAGS (O_ACCMODE | O_APPEND | O_DIRECT | O_SYNC | O_DSYNC | O_NOATIME | O_PATH)

static size_t bucket_of(uint64_t value) {
    return (size_t)((value * UINT64_C(0x9E3779B97F4A7C15)) >> 54);
}

_Static_assert(POSIX_BUCKETS == 1u << (64 - 54), "bucket_of gives ten bits");

const char *posix_file_name(const struct posix_file *file, char *buf, size_t size) {
    char link[40];
    ssize_t n;

    if (file->path != NULL) {
        snprintf(buf, size, "%s", file->path);
        return buf;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", file->fd);
    n = readlink(link, buf, size - 1);
    if (n <= 0) {
        snprintf(buf, size, "descriptor %" PRIu64, file->key);
    } else {
        buf[n] = '\0';
    }
    return buf;
}

int posix_file_twin(struct posix_file *file) {
    char link[40];
    int flags = (file->flags & (O_ACCMODE | O_SYNC | O_DSYNC)) | O_CLOEXEC;
    int none = -1, fd;

    if (__atomic_load_n(&file->twin_fd, __ATOMIC_ACQUIRE) >= 0) {
        return 0;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", file->fd);
    fd = open(link, flags);
    if (fd < 0) {
        return errno;
    }
    /* Two threads may make their first such request at once. */
    if (!__atomic_compare_exchange_n(&file->twin_fd, &none, fd, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        close(fd);
    }
    return 0;
}

/* File systems of this machine's own disks and memory, where a write into the page cache waits at most for a
 * disk. */
static void find_file_system(struct posix_file *file, mode_t mode) {
    static const unsigned long kinds[] = {
        0x01021994, /* tmpfs; also where block device nodes live */
        0x858458f6, /* ramfs */
        0xEF53,     /* ext2, ext3, ext4 */
        0x58465342, /* xfs */
        0x9123683E, /* btrfs */
        0x794c7630, /* overlayfs */
        0xF2F52010, /* f2fs */
        0x2fc12fc1, /* zfs */
    };
    struct statfs fs;
    size_t i;

    if (fstatfs(file->fd, &fs) != 0) {
        file->is_fuse = true; /* a program that does not answer this question either */
        return;
    }
    file->is_fuse = (unsigned long)fs.f_type == 0x65735546;
    for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if ((unsigned long)fs.f_type == kinds[i]) {
            file->is_local = true;
            file->is_memory = i < 2 && S_ISREG(mode);
        }
    }
}

/* What O_DIRECT asks for. Kernels before 6.1 do not tell: then the usual block of 512 bytes, and the kernel's
 * own EINVAL where that was not enough. */
static void find_alignment(struct posix_file *file, mode_t mode) {
    int sector = 0;

    file->mem_align = file->offset_align = 1;
    if (!file->is_direct) {
        return;
    }
    file->mem_align = file->offset_align = 512;
    if (S_ISBLK(mode) && ioctl(file->fd, BLKSSZGET, &sector) == 0 && sector > 512 &&
        (sector & (sector - 1)) == 0) {
        file->offset_align = (uint32_t)sector;
    }
#ifdef STATX_DIOALIGN
    struct statx sx;

    if (statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 && (sx.stx_mask & STATX_DIOALIGN) != 0 &&
        sx.stx_dio_offset_align != 0 && sx.stx_dio_mem_align != 0) {
        file->mem_align = sx.stx_dio_mem_align;
        file->offset_align = sx.stx_dio_offset_align;
    }
#endif
}

static const char *kind_word(mode_t mode) {
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a directory";
    case S_IFIFO:
        return "a pipe";
    case S_IFSOCK:
        return "a socket";
    default:
        return "of an unknown kind";
    }
}

static void insert(struct posix_engine *engine, struct posix_file *file) {
    struct posix_file **slot;

    if (file->path != NULL) {
        slot = &engine->by_key[bucket_of(file->key)];
        file->next_by_key = *slot;
    } else {
        slot = &engine->by_inode[bucket_of(file->inode)];
        file->next_by_inode = *slot;
    }
    *slot = file;
}

/* Gives the queue the open file; beyond its slots descriptors do as well. */
static void hold(struct posix_engine *engine, struct posix_file *file) {
    unsigned slot = 0;

    file->slot = -1;
    while (slot < POSIX_FILE_SLOTS && engine->is_file_slot_used[slot]) {
        slot++;
    }
    if (engine->queue_ops->hold != NULL && slot < POSIX_FILE_SLOTS &&
        engine->queue_ops->hold(engine->queue, slot, file->fd)) {
        engine->is_file_slot_used[slot] = true;
        file->slot = (int)slot;
    }
}

static void let_go(struct posix_engine *engine, const struct posix_file *file) {
    if (file->slot >= 0) {
        (void)engine->queue_ops->hold(engine->queue, (unsigned)file->slot, -1);
        engine->is_file_slot_used[file->slot] = false;
    }
}

static void file_free(struct posix_file *file) {
    if (file->twin_fd >= 0) {
        close(file->twin_fd);
    }
    if (file->fd >= 0) {
        close(file->fd);
    }
    free(file->path);
    free(file);
}

/* Fills in what follows from file->fd, its status and flags. */
static void describe_file(struct posix_file *file, const struct stat *st, int flags) {
    int access = flags & O_ACCMODE;

    file->is_file = true;
    file->refs = 1;
    file->twin_fd = -1;
    file->device = st->st_dev;
    file->inode = st->st_ino;
    file->flags = flags;
    file->can_read = access == O_RDONLY || access == O_RDWR;
    file->can_write = access == O_WRONLY || access == O_RDWR;
    file->is_append = (flags & O_APPEND) != 0;
    file->is_direct = (flags & O_DIRECT) != 0;
    file->is_write_through = (flags & (O_SYNC | O_DSYNC)) != 0;
    find_file_system(file, st->st_mode);
    find_alignment(file, st->st_mode);
}

static bool is_usable_kind(mode_t mode) {
    return S_ISREG(mode) || S_ISBLK(mode) || S_ISCHR(mode);
}

/* ---- By path --------------------------------------------------------------------------------------------
 */

static nixl_status_t open_path(struct posix_engine *engine, const struct posix_path_mode *mode, uint64_t key,
                               struct posix_file **out) {
    const struct nixl_host *host = engine->host;
    struct posix_file *file;
    struct stat st;
    int flags;

    for (file = engine->by_key[bucket_of(key)]; file != NULL; file = file->next_by_key) {
        if (file->key == key) {
            return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM,
                              "device id %" PRIu64 " is taken by %s: each file opened by path needs its own",
                              key, file->path);
        }
    }
    file = calloc(1, sizeof *file);
    if (file != NULL) {
        file->fd = file->twin_fd = -1;
        file->path = strndup(mode->path, mode->path_len);
    }
    if (file == NULL || file->path == NULL) {
        free(file);
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    /* O_NONBLOCK: a pipe must not keep us waiting for its other end. */
    file->fd = open(file->path, mode->flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    if (file->fd < 0) {
        nixl_status_t status = host->fail(
            host->ctx, NIXL_ERR_BACKEND, "%s cannot be opened: %s%s", file->path, strerror(errno),
            errno == EINVAL && (mode->flags & O_DIRECT) != 0 ? " (its file system does not know direct)"
                                                             : "");

        file_free(file);
        return status;
    }
    flags = fcntl(file->fd, F_GETFL);
    if (fstat(file->fd, &st) != 0 || flags < 0 || !is_usable_kind(st.st_mode)) {
        nixl_status_t status = host->fail(host->ctx, NIXL_ERR_INVALID_PARAM, "%s is %s, not a file",
                                          file->path, kind_word(st.st_mode));

        file_free(file);
        return status;
    }
    flags &= ~O_NONBLOCK;
    if (fcntl(file->fd, F_SETFL, flags) != 0) {
        nixl_status_t status = host->fail(host->ctx, NIXL_ERR_BACKEND, "%s: %s", file->path, strerror(errno));

        file_free(file);
        return status;
    }
    file->key = key;
    describe_file(file, &st, flags);
    hold(engine, file);
    insert(engine, file);
    *out = file;
    return NIXL_SUCCESS;
}

/* ---- By descriptor --------------------------------------------------------------------------------------
 */

/* A descriptor of our own for the user's. One in non-blocking mode is opened anew, since the kernel would
 * answer EAGAIN where a read has to wait for the disk. */
static int duplicate(int fd, int *flags) {
    char link[40];
    int own;

    if ((*flags & O_NONBLOCK) != 0) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        own = open(link, (*flags & (IDENTITY_FLAGS & ~O_PATH)) | O_CLOEXEC | O_NOCTTY);
        if (own >= 0) {
            *flags &= ~O_NONBLOCK;
            return own;
        }
    }
    return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static nixl_status_t open_descriptor(struct posix_engine *engine, uint64_t key, struct posix_file **out) {
    const struct nixl_host *host = engine->host;
    struct posix_file *file;
    struct stat st;
    int flags, fd = (int)key;

    if (key > INT_MAX || (flags = fcntl(fd, F_GETFL)) < 0 || fstat(fd, &st) != 0) {
        return host->fail(
            host->ctx, NIXL_ERR_INVALID_PARAM,
            "%" PRIu64
            " is no open descriptor (a file is registered by an open descriptor as its device id, or by "
            "metadata such as \"rw:/path\")",
            key);
    }
    if (!is_usable_kind(st.st_mode) || (flags & O_PATH) != 0) {
        return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM, "descriptor %d is %s, not a file", fd,
                          (flags & O_PATH) != 0 ? "opened with O_PATH" : kind_word(st.st_mode));
    }
    for (file = engine->by_inode[bucket_of(st.st_ino)]; file != NULL; file = file->next_by_inode) {
        if (file->device == st.st_dev && file->inode == st.st_ino &&
            ((file->flags ^ flags) & IDENTITY_FLAGS) == 0) {
            file->refs++;
            *out = file;
            return NIXL_SUCCESS;
        }
    }
    file = calloc(1, sizeof *file);
    if (file == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    file->twin_fd = -1;
    file->fd = duplicate(fd, &flags);
    if (file->fd < 0) {
        nixl_status_t status = host->fail(
            host->ctx, NIXL_ERR_BACKEND, "descriptor %d cannot be duplicated: %s%s", fd, strerror(errno),
            errno == EMFILE ? " (raise the limit on open files, `ulimit -n`)" : "");

        file_free(file);
        return status;
    }
    file->key = key;
    describe_file(file, &st, flags);
    hold(engine, file);
    insert(engine, file);
    *out = file;
    return NIXL_SUCCESS;
}

/* ---- Host memory ----------------------------------------------------------------------------------------
 */

/* The kernel's limit for one pinned range. */
#define PIN_MAX (UINT64_C(1) << 30)

void posix_memory_asked(struct posix_engine *engine, struct posix_memory *memory, uint64_t bytes) {
    unsigned slot;

    if (engine->queue_ops->pin == NULL || engine->options->pin_limit == 0) {
        return;
    }
    lock_take(&engine->pin_lock);
    memory->asked += bytes;
    /* Pinning costs about as much as moving every byte once without: so it is done after that much was asked
     * for. */
    if (memory->slot < 0 && !memory->is_refused && memory->asked >= memory->len) {
        for (slot = 0; slot < POSIX_PIN_SLOTS && engine->is_slot_used[slot]; slot++) {
        }
        memory->is_refused = slot == POSIX_PIN_SLOTS || memory->len == 0 || memory->len > PIN_MAX ||
                             memory->len > engine->options->pin_limit - engine->pinned_bytes ||
                             !engine->queue_ops->pin(engine->queue, slot, memory->addr, memory->len);
        if (!memory->is_refused) {
            engine->is_slot_used[slot] = true;
            engine->pinned_bytes += memory->len;
            __atomic_store_n(&memory->slot, (int)slot, __ATOMIC_RELEASE);
        }
    }
    lock_drop(&engine->pin_lock);
}

static nixl_status_t memory_open(struct posix_engine *engine, const struct nixl_meta_desc *desc,
                                 void **region) {
    struct posix_memory *memory = calloc(1, sizeof *memory);

    if (memory == NULL) {
        return engine->host->fail(engine->host->ctx, NIXL_ERR_BACKEND, "no memory");
    }
    memory->addr = desc->addr;
    memory->len = desc->len;
    memory->slot = -1;
    *region = memory;
    return NIXL_SUCCESS;
}

static void memory_close(struct posix_engine *engine, struct posix_memory *memory) {
    if (memory->slot >= 0) {
        lock_take(&engine->pin_lock);
        (void)engine->queue_ops->pin(engine->queue, (unsigned)memory->slot, 0, 0);
        engine->is_slot_used[memory->slot] = false;
        engine->pinned_bytes -= memory->len;
        lock_drop(&engine->pin_lock);
    }
    free(memory);
}

/* ---- Regions --------------------------------------------------------------------------------------------
 */

nixl_status_t posix_region_open(void *self, nixl_mem_t mem, const struct nixl_meta_desc *desc,
                                void **region) {
    struct posix_engine *engine = self;
    const struct nixl_host *host = engine->host;
    struct posix_path_mode mode;
    struct posix_file *file = NULL;
    char why[200];
    nixl_status_t status;

    if (mem != FILE_SEG) {
        return memory_open(engine, desc, region);
    }
    switch (posix_path_parse(desc->meta, desc->meta_len, &mode, why, sizeof why)) {
    case POSIX_PATH_BAD:
        return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM, "%s", why);
    case POSIX_PATH_MODE:
        if (memchr(mode.path, '\0', mode.path_len) != NULL) {
            return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM, "a path with a NUL in it");
        }
        status = open_path(engine, &mode, desc->dev, &file);
        break;
    default:
        status = open_descriptor(engine, desc->dev, &file);
        break;
    }
    if (status == NIXL_SUCCESS) {
        *region = file;
    }
    return status;
}

void posix_region_close(void *self, void *region) {
    struct posix_engine *engine = self;
    struct posix_file *file = region, **link; /* or a posix_memory: both begin alike */

    if (!file->is_file) {
        memory_close(engine, region);
        return;
    }
    if (--file->refs != 0) {
        return;
    }
    if (file->path != NULL) {
        for (link = &engine->by_key[bucket_of(file->key)]; *link != file; link = &(*link)->next_by_key) {
        }
        *link = file->next_by_key;
    } else {
        for (link = &engine->by_inode[bucket_of(file->inode)]; *link != file;
             link = &(*link)->next_by_inode) {
        }
        *link = file->next_by_inode;
    }
    let_go(engine, file);
    file_free(file);
}

/* ---- Query ----------------------------------------------------------------------------------------------
 */

static nixl_status_t query_one(struct posix_engine *engine, const struct nixl_meta_desc *desc, size_t index,
                               const struct nixl_query_sink *sink) {
    const struct nixl_host *host = engine->host;
    struct posix_path_mode mode = {.path = desc->meta, .path_len = desc->meta_len};
    char why[200], path[PATH_MAX], number[32];
    struct stat st;
    nixl_status_t status;

    if (posix_path_parse(desc->meta, desc->meta_len, &mode, why, sizeof why) == POSIX_PATH_BAD) {
        return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM, "block %zu: %s", index, why);
    }
    if (mode.path_len == 0) {
        return NIXL_SUCCESS; /* no name: nothing is found */
    }
    if (mode.path_len >= sizeof path || memchr(mode.path, '\0', mode.path_len) != NULL) {
        return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM, "block %zu: the path is %s", index,
                          mode.path_len >= sizeof path ? "too long" : "cut by a NUL");
    }
    memcpy(path, mode.path, mode.path_len);
    path[mode.path_len] = '\0';
    if (stat(path, &st) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) {
            return NIXL_SUCCESS;
        }
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "block %zu: %s: %s", index, path, strerror(errno));
    }
    if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0 && errno != ENOENT) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "block %zu: %s cannot be read: %s", index, path,
                          strerror(errno));
    }
    snprintf(number, sizeof number, "%lld", (long long)st.st_size);
    status = sink->found(sink->ctx, index, "size", number);
    if (status == NIXL_SUCCESS) {
        snprintf(number, sizeof number, "%u", (unsigned)st.st_mode);
        status = sink->found(sink->ctx, index, "mode", number);
    }
    if (status == NIXL_SUCCESS) {
        snprintf(number, sizeof number, "%lld", (long long)st.st_mtime);
        status = sink->found(sink->ctx, index, "mtime", number);
    }
    return status;
}

nixl_status_t posix_query(void *self, nixl_mem_t mem, const struct nixl_meta_desc *descs, size_t count,
                          const struct nixl_query_sink *sink) {
    struct posix_engine *engine = self;
    nixl_status_t status = NIXL_SUCCESS;
    size_t i;

    if (mem != FILE_SEG) {
        return engine->host->fail(engine->host->ctx, NIXL_ERR_NOT_SUPPORTED, "only files can be asked for");
    }
    for (i = 0; i < count && status == NIXL_SUCCESS; i++) {
        status = query_one(engine, &descs[i], i, sink);
    }
    return status;
}
