/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at a plugin's file before the loader gets it. The loader's own words for a file of another processor
 * ("No such file or directory") mislead, a file that is cut short kills it, and loading one of the
 * reference's plugins would run C++ constructors that expect another library around them.
 */
#include "plugin/parts.h"

#include "base/error.h"
#include "base/thread.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW ((size_t)64 << 10) /* bytes searched at a time */

#if defined(__x86_64__)
#define NATIVE_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define NATIVE_MACHINE EM_AARCH64
#elif defined(__powerpc64__)
#define NATIVE_MACHINE EM_PPC64
#elif defined(__riscv)
#define NATIVE_MACHINE EM_RISCV
#else
#define NATIVE_MACHINE EM_NONE /* not known: left to the loader */
#endif

static const char *machine_name(unsigned machine) {
    switch (machine) {
    case EM_X86_64:
        return "x86-64";
    case EM_AARCH64:
        return "aarch64";
    case EM_386:
        return "i386";
    case EM_ARM:
        return "arm";
    case EM_PPC64:
        return "ppc64";
    case EM_RISCV:
        return "riscv";
    case EM_S390:
        return "s390";
    default:
        return "another machine";
    }
}

static ssize_t read_full(int fd, unsigned char *buf, size_t len, off_t at) {
    size_t done = 0;

    while (done < len) {
        ssize_t n = pread(fd, buf + done, len - done, at + (off_t)done);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* Whether a symbol's name, with its terminator on both sides, stands in the file. Windows overlap by the
 * name's size. */
static bool file_names(int fd, off_t size, const char *symbol) {
    const size_t len = strlen(symbol) + 2;
    unsigned char *window = malloc(WINDOW);
    char bounded[64];
    bool found = false;

    if (window == NULL || len > sizeof bounded) {
        free(window);
        return false;
    }
    bounded[0] = '\0';
    memcpy(bounded + 1, symbol, len - 1);
    for (off_t at = 0; at < size && !found; at += (off_t)(WINDOW - len)) {
        ssize_t n = read_full(fd, window, WINDOW, at);

        if (n <= 0) {
            break;
        }
        found = memmem(window, (size_t)n, bounded, len) != NULL;
    }
    free(window);
    return found;
}

static nixl_status_t cut_short(const char *path, off_t size) {
    return fail(NIXL_ERR_BACKEND, "%s is cut short: it has %lld bytes and names more", path, (long long)size);
}

/* The loader maps segments without a look at the file's length, and dies where it ends. */
static nixl_status_t segments_check(const char *path, int fd, off_t size, const Elf64_Ehdr *elf) {
    for (unsigned i = 0; i < elf->e_phnum && elf->e_phentsize >= sizeof(Elf64_Phdr); i++) {
        Elf64_Phdr segment;
        uint64_t at = elf->e_phoff + (uint64_t)i * elf->e_phentsize;

        if (at > (uint64_t)size ||
            read_full(fd, (unsigned char *)&segment, sizeof segment, (off_t)at) != (ssize_t)sizeof segment) {
            return cut_short(path, size);
        }
        if (segment.p_type == PT_LOAD &&
            (segment.p_offset > (uint64_t)size || segment.p_filesz > (uint64_t)size - segment.p_offset)) {
            return cut_short(path, size);
        }
    }
    return NIXL_SUCCESS;
}

static nixl_status_t header_check(const char *path, int fd, off_t size) {
    Elf64_Ehdr elf;
    ssize_t n = read_full(fd, (unsigned char *)&elf, sizeof elf, 0);

    if (n < (ssize_t)SELFMAG || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0) {
        return fail(NIXL_ERR_BACKEND, "%s is not a shared object (no ELF header)", path);
    }
    if (n < (ssize_t)sizeof elf) {
        return cut_short(path, size);
    }
    if (elf.e_ident[EI_CLASS] != ELFCLASS64 ||
        (NATIVE_MACHINE != EM_NONE && elf.e_machine != NATIVE_MACHINE)) {
        return fail(NIXL_ERR_BACKEND, "%s is made for another processor (%s, ELF machine %u); this is %s",
                    path, machine_name(elf.e_machine), (unsigned)elf.e_machine, machine_name(NATIVE_MACHINE));
    }
    return segments_check(path, fd, size, &elf);
}

nixl_status_t plugin_probe(const char *name, const char *path) {
    struct stat st;
    nixl_status_t status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) {
        return fail_errno(errno == ENOENT ? NIXL_ERR_NOT_FOUND : NIXL_ERR_BACKEND, errno,
                          "plugin %s: %s cannot be opened", name, path);
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return fail(NIXL_ERR_BACKEND, "plugin %s: %s is not a file", name, path);
    }
    status = header_check(path, fd, st.st_size);
    if (status == NIXL_SUCCESS && !file_names(fd, st.st_size, NIXL_BACKEND_ENTRY) &&
        file_names(fd, st.st_size, PLUGIN_FOREIGN_ENTRY)) {
        status = fail(NIXL_ERR_MISMATCH,
                      "%s is a C++ plugin (it exports " PLUGIN_FOREIGN_ENTRY "): this library needs one that "
                      "exports " NIXL_BACKEND_ENTRY "; take the plugin that comes with it",
                      path);
    }
    close(fd);
    return status;
}
