/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target once over every file of the folder named as argument, in the order of their names, and once over
 * no bytes at all. A crash, a sanitizer's report or an assertion in the target is the failure; this program only reads.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_seed(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* The bytes of one file in a buffer of exactly their number, so that ASan sees a read past the end. */
static uint8_t *read_seed(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        return NULL;
    }
    uint8_t *data = NULL;
    long end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (end >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        *size = (size_t)end;
        data = malloc(*size ? *size : 1);
        if (data && fread(data, 1, *size, file) != *size) {
            free(data);
            data = NULL;
        }
    }
    fclose(file);
    return data;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
        return 2;
    }
    struct dirent **seeds = NULL;
    int count = scandir(argv[1], &seeds, is_seed, alphasort);
    if (count < 1) {
        printf("1..1\nnot ok 1 - seeds of %s\n# %s\n", argv[1],
               count < 0 ? strerror(errno) : "no seeds there");
        return 1;
    }
    int bad = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 0; i < count; i++) {
        char path[4096];
        size_t size = 0;
        snprintf(path, sizeof path, "%s/%s", argv[1], seeds[i]->d_name);
        uint8_t *data = read_seed(path, &size);
        if (data) {
            LLVMFuzzerTestOneInput(data, size);
        } else {
            printf("# cannot read %s: %s\n", path, strerror(errno));
            bad++;
        }
        free(data);
        free(seeds[i]);
    }
    free(seeds);
    printf("1..1\n%s 1 - %d seeds replayed\n", bad ? "not ok" : "ok", count);
    return bad ? 1 : 0;
}
