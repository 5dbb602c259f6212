/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded reading of small files, and sorted listings. */
#include "file.h"

#include "array.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads to the end or to `limit` + 1 bytes: one more than allowed is how we know. Pseudo files tell no size.
 */
static int read_all(int fd, size_t limit, char **data, size_t *len) {
    char *buf = NULL;
    size_t cap = 0;
    size_t used = 0;
    int rc = 0;

    for (;;) {
        ssize_t n;

        if (used > limit) {
            rc = EFBIG;
            break;
        }
        if (!array_reserve(&buf, &cap, used + 512 + 1, 1)) {
            rc = ENOMEM;
            break;
        }
        n = read(fd, buf + used, cap - used - 1);
        if (n == 0) {
            buf[used] = '\0';
            *data = buf;
            *len = used;
            return 0;
        }
        if (n < 0 && errno != EINTR) {
            rc = errno;
            break;
        }
        used += n > 0 ? (size_t)n : 0;
    }
    free(buf);
    return rc;
}

int file_read(const char *path, size_t limit, char **data, size_t *len) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int rc;

    if (fd < 0) {
        return errno;
    }
    if (fstat(fd, &st) != 0) {
        rc = errno;
    } else if (S_ISDIR(st.st_mode)) {
        rc = EISDIR;
    } else if (S_ISREG(st.st_mode) && st.st_size > 0 && (uint64_t)st.st_size > limit) {
        rc = EFBIG;
    } else {
        rc = read_all(fd, limit, data, len);
    }
    close(fd);
    return rc;
}

static int name_compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int file_list(const char *path, char ***names, size_t *count) {
    char **list = NULL;
    size_t cap = 0;
    size_t used = 0;
    DIR *dir = opendir(path);
    int rc = 0;

    if (dir == NULL) {
        return errno;
    }
    for (;;) {
        struct dirent *entry;
        char *name;

        errno = 0;
        entry = readdir(dir);
        if (entry == NULL) {
            rc = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        name = strdup(entry->d_name);
        if (name == NULL || !array_reserve(&list, &cap, used + 1, sizeof *list)) {
            free(name);
            rc = ENOMEM;
            break;
        }
        list[used++] = name;
    }
    closedir(dir);
    if (rc != 0) {
        file_list_free(list, used);
        return rc;
    }
    if (used > 1) {
        qsort(list, used, sizeof *list, name_compare);
    }
    *names = list;
    *count = used;
    return 0;
}

void file_list_free(char **names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
}
