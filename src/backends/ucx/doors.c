/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doors: which blocks of an agent are registered now, for those on this host that copy by the kernel (cma.c), which itself knows
 * nothing of registrations. Each instance has one file of memory without a name, and in it a table of the blocks; a peer maps it,
 * read only, and looks before it writes and after it has read. That costs some loads. The keys are UCX's own: a block that
 * is registered again has its door open again.
 *
 * A block's entry is the first free one from where its address and length point to, within a page's worth of entries. It stays
 * where it is while its block is registered; afterwards it may become another block's, so a reader makes sure that it saw one
 * and the same number before and after. Where none is free a block goes without, which happens from some 80,000 blocks on; as
 * long as there is such a block nobody concludes from an entry that is not there.
 *
 * The owner's side is called under the lock of its regions.
 */
#include "ucx.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACE_BITS 17u
#define WINDOW 128u /* entries that may be a block's */
#define ENTRIES ((1u << PLACE_BITS) + WINDOW)
/* Nobody makes it shorter under a reader. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct entry {
    uint64_t number; /* of the registration, 0: closed */
    uint64_t addr, len;
    uint64_t reserved;
};

/* Pages that no block needs take no memory. */
struct ucx_door_file {
    uint8_t id[16];    /* whose it is */
    uint64_t unlisted; /* blocks without an entry */
    uint8_t reserved[4096 - 24];
    struct entry entries[ENTRIES];
};

static uint32_t first_of(uint64_t addr, uint64_t len) {
    uint64_t mixed = (addr ^ (len * UINT64_C(0xd6e8feb86659fd93))) * UINT64_C(0x9e3779b97f4a7c15);

    mixed ^= mixed >> 32;
    mixed *= UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(mixed >> (64 - PLACE_BITS));
}

/* ---- the owner ---- */

void ucx_doors_open(struct ucx_instance *self) {
    int fd = memfd_create("nixl-ucx-doors", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *at = MAP_FAILED;

    if (fd < 0) {
        return;
    }
    if (ftruncate(fd, (off_t)sizeof(struct ucx_door_file)) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0) {
        at = mmap(NULL, sizeof(struct ucx_door_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (at == MAP_FAILED) {
        (void)close(fd);
        return;
    }
    self->doors.fd = fd;
    self->doors.file = at;
    memcpy(self->doors.file->id, self->id, sizeof self->id);
}

void ucx_doors_close(struct ucx_instance *self) {
    struct ucx_doors *doors = &self->doors;

    if (doors->file == NULL) {
        return;
    }
    if (!ucx_is_inherited(self)) {
        memset(doors->file->id, 0, sizeof doors->file->id); /* no later reader */
    }
    (void)munmap(doors->file, sizeof *doors->file);
    (void)close(doors->fd);
    *doors = (struct ucx_doors){0};
}

void ucx_door_open(struct ucx_instance *self, uint64_t addr, uint64_t len) {
    struct ucx_doors *doors = &self->doors;
    struct entry *window, *free_entry = NULL;

    if (doors->file == NULL) {
        return;
    }
    window = &doors->file->entries[first_of(addr, len)];
    for (uint32_t i = 0; i < WINDOW && free_entry == NULL; i++) {
        if (window[i].number == 0) {
            free_entry = &window[i];
        }
    }
    if (free_entry == NULL) {
        __atomic_fetch_add(&doors->file->unlisted, 1, __ATOMIC_SEQ_CST);
        return;
    }
    /* A reader that takes these for the former block's finds that the number has changed: it is stored last, and was 0 before. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&free_entry->addr, addr, __ATOMIC_RELAXED);
    __atomic_store_n(&free_entry->len, len, __ATOMIC_RELAXED);
    __atomic_store_n(&free_entry->number, ++doors->number, __ATOMIC_RELEASE);
}

void ucx_door_close(struct ucx_instance *self, uint64_t addr, uint64_t len) {
    struct ucx_doors *doors = &self->doors;
    struct entry *window;

    /* In a forked child the doors are still the parent's. */
    if (doors->file == NULL || ucx_is_inherited(self)) {
        return;
    }
    window = &doors->file->entries[first_of(addr, len)];
    for (uint32_t i = 0; i < WINDOW; i++) {
        if (window[i].number != 0 && window[i].addr == addr && window[i].len == len) {
            __atomic_store_n(&window[i].number, 0, __ATOMIC_SEQ_CST);
            return;
        }
    }
    __atomic_fetch_sub(&doors->file->unlisted, 1, __ATOMIC_SEQ_CST);
}

/* ---- a peer's ---- */

/* The file of that number in that process; NULL unless it is the peer's own, as long as it must be. */
static const struct ucx_door_file *map_file(const struct ucx_peer *peer) {
    const struct ucx_door_file *file;
    char path[64];
    struct stat info;
    void *at = MAP_FAILED;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", peer->cma.pid, peer->cma.doors_fd);
    /* Without O_NONBLOCK a pipe of that number would hold us. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == (off_t)sizeof *file &&
        (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) != 0) {
        at = mmap(NULL, sizeof *file, PROT_READ, MAP_SHARED, fd, 0);
    }
    (void)close(fd);
    if (at == MAP_FAILED) {
        return NULL;
    }
    file = at;
    if (memcmp(file->id, peer->local_id, sizeof file->id) != 0) {
        (void)munmap(at, sizeof *file);
        return NULL;
    }
    return file;
}

void ucx_doors_map(struct ucx_peer *peer) {
    const struct ucx_door_file *none = NULL, *file;

    if (peer->cma.doors_fd < 0 || __atomic_load_n(&peer->cma.doors, __ATOMIC_ACQUIRE) != NULL) {
        return;
    }
    file = map_file(peer);
    if (file == NULL) {
        peer->self->host->log(peer->self->host->ctx, NIXL_LOG_DEBUG,
                              "which blocks of agent \"%s\" are registered cannot be looked at", peer->name);
        return;
    }
    if (!__atomic_compare_exchange_n(&peer->cma.doors, &none, file, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        (void)munmap((void *)(uintptr_t)file, sizeof *file); /* another thread was here at the same time */
    }
}

void ucx_doors_unmap(struct ucx_peer *peer) {
    if (peer->cma.doors != NULL) {
        (void)munmap((void *)(uintptr_t)peer->cma.doors, sizeof *peer->cma.doors);
        peer->cma.doors = NULL;
    }
}

static bool is_open_at(const struct entry *entry, const struct ucx_key *key) {
    uint64_t number = __atomic_load_n(&entry->number, __ATOMIC_ACQUIRE);
    bool is_it = __atomic_load_n(&entry->addr, __ATOMIC_RELAXED) == key->addr &&
                 __atomic_load_n(&entry->len, __ATOMIC_RELAXED) == key->region_len;

    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return is_it && number != 0 && __atomic_load_n(&entry->number, __ATOMIC_RELAXED) == number;
}

bool ucx_door_is_open(const struct ucx_peer *peer, struct ucx_key *key) {
    const struct ucx_door_file *file = __atomic_load_n(&peer->cma.doors, __ATOMIC_ACQUIRE);
    uint32_t first;

    if (file == NULL || is_open_at(&file->entries[__atomic_load_n(&key->door, __ATOMIC_RELAXED)], key)) {
        return true;
    }
    first = first_of(key->addr, key->region_len);
    for (uint32_t i = first; i < first + WINDOW; i++) {
        if (is_open_at(&file->entries[i], key)) {
            __atomic_store_n(&key->door, i, __ATOMIC_RELAXED);
            return true;
        }
    }
    return __atomic_load_n(&file->unlisted, __ATOMIC_ACQUIRE) != 0;
}
