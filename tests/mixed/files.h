/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - what the C and C++ programs of this folder exchange files with. See README.md. */
#ifndef NIXL_TESTS_MIXED_FILES_H
#define NIXL_TESTS_MIXED_FILES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    mixed_bytes = 4096,
    mixed_agents = 16
};

struct mixed {
    const char *folder, *name;
    const char *names[mixed_agents];
    int count, self;
};

static inline void mixed_fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    _exit(1);
}

static inline struct mixed mixed_arguments(int argc, char **argv) {
    struct mixed mixed;

    memset(&mixed, 0, sizeof mixed);
    if (argc != 4) {
        mixed_fail("usage", "peer FOLDER NAME NAMES");
    }
    mixed.folder = argv[1];
    mixed.name = argv[2];
    mixed.self = -1;
    for (char *name = strtok(argv[3], ","); name != NULL && mixed.count < mixed_agents;
         name = strtok(NULL, ",")) {
        if (strcmp(name, mixed.name) == 0) {
            mixed.self = mixed.count;
        }
        mixed.names[mixed.count++] = name;
    }
    if (mixed.self < 0) {
        mixed_fail(mixed.name, "is not among the names");
    }
    return mixed;
}

static inline void mixed_put(const struct mixed *mixed, const char *suffix, const void *data, size_t len) {
    char path[512], hidden[520];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s.%s", mixed->folder, mixed->name, suffix);
    snprintf(hidden, sizeof hidden, "%s.new", path);
    file = fopen(hidden, "wb");
    if (file == NULL || fwrite(data, 1, len, file) != len || fclose(file) != 0 || rename(hidden, path) != 0) {
        mixed_fail(path, "cannot be written");
    }
}

/* Waits for a file of another agent, at most 30 s. Returns its length. */
static inline size_t mixed_get(const struct mixed *mixed, const char *name, const char *suffix, void *data,
                               size_t room) {
    char path[512];
    FILE *file = NULL;
    size_t len;

    snprintf(path, sizeof path, "%s/%s.%s", mixed->folder, name, suffix);
    for (int tries = 0; tries < 3000 && (file = fopen(path, "rb")) == NULL; tries++) {
        usleep(10000);
    }
    if (file == NULL) {
        mixed_fail(path, "does not come");
    }
    len = fread(data, 1, room, file);
    fclose(file);
    return len;
}

static inline void mixed_compare(const struct mixed *mixed, int index, const unsigned char *data,
                                 const char *what) {
    for (int i = 0; i < mixed_bytes; i++) {
        if (data[i] != 'A' + index) {
            mixed_fail(what, mixed->names[index]);
        }
    }
}

#endif
