/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "support/skip.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct harness h;
static char dir[64], path[128];

static int set_up(void **state) {
    strcpy(dir, "/tmp/nixl-posix-XXXXXX");
    if (mkdtemp(dir) == NULL) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/file", dir);
    return harness_open(&h, NULL);
}

static int tear_down(void **state) {
    char command[200];

    harness_close(&h);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static unsigned open_descriptors(void) {
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    return n;
}

static int make_file(const char *name, size_t size) {
    int fd = open(name, O_RDWR | O_CREAT, 0644);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    return fd;
}

static void registrations_of_one_open_file_share_a_descriptor(void **state) {
    int fd = make_file(path, 4096);
    unsigned before = open_descriptors();
    void *regions[1000];
    size_t i;

    for (i = 0; i < 1000; i++) {
        regions[i] = harness_file(&h, (uint64_t)fd, NULL);
        assert_non_null(regions[i]);
    }
    assert_int_equal(open_descriptors(), before + 1);
    for (i = 0; i < 1000; i++) {
        h.ops->region_close(h.self, regions[i]);
    }
    assert_int_equal(open_descriptors(), before);
    close(fd);
}

static void users_descriptor_may_be_closed_and_its_number_used_again(void **state) {
    int fd = make_file(path, 4096), other;
    char name[140], bytes[16];
    void *file = harness_file(&h, (uint64_t)fd, NULL), *second;
    struct nixl_run run;
    struct transfer t;

    close(fd);
    snprintf(name, sizeof name, "%s.other", path);
    other = make_file(name, 4096);
    assert_int_equal(other, fd); /* the number now means another file */
    second = harness_file(&h, (uint64_t)other, NULL);
    assert_ptr_not_equal(second, file);

    memset(bytes, 'A', sizeof bytes);
    run = run_of(file, bytes, 0, sizeof bytes);
    assert_int_equal(transfer_open(&h, &t, NIXL_WRITE, &run, 1, 0), NIXL_SUCCESS);
    assert_int_equal(transfer_run(&t), NIXL_SUCCESS);
    transfer_close(&t);
    assert_int_equal(pread(other, bytes, 1, 0), 1);
    assert_int_equal(bytes[0], 0);
    fd = open(path, O_RDONLY);
    assert_int_equal(pread(fd, bytes, 1, 0), 1);
    assert_int_equal(bytes[0], 'A');
    close(fd);
    close(other);
    h.ops->region_close(h.self, file);
    h.ops->region_close(h.self, second);
}

static void files_are_opened_by_path_and_closed_at_deregistration(void **state) {
    char meta[160];
    unsigned before = open_descriptors();
    void *file;

    snprintf(meta, sizeof meta, "rw,create:%s", path);
    file = harness_file(&h, UINT64_C(1) << 40, meta);
    assert_non_null(file);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(open_descriptors(), before + 1);
    h.ops->region_close(h.self, file);
    assert_int_equal(open_descriptors(), before);
}

static void missing_path_without_create_is_refused_and_makes_no_file(void **state) {
    assert_null(harness_file(&h, 1, "rw:/nonexistent-nixl-probe"));
    assert_non_null(strstr(h.error, "/nonexistent-nixl-probe"));
    assert_non_null(strstr(h.error, "No such file"));
    assert_int_not_equal(access("/nonexistent-nixl-probe", F_OK), 0);
}

static void device_id_of_a_path_is_its_own(void **state) {
    char meta[160];
    void *file, *again;

    snprintf(meta, sizeof meta, "rw,create:%s", path);
    file = harness_file(&h, 5, meta);
    assert_non_null(file);
    assert_null(harness_file(&h, 5, meta));
    assert_non_null(strstr(h.error, "device id 5 is taken"));
    h.ops->region_close(h.self, file);
    again = harness_file(&h, 5, meta);
    assert_non_null(again);
    h.ops->region_close(h.self, again);
}

static void what_is_no_open_file_is_refused_in_words(void **state) {
    int pipes[2], folder = open(dir, O_RDONLY);

    assert_int_equal(pipe(pipes), 0);
    assert_null(harness_file(&h, 999999, NULL));
    assert_non_null(strstr(h.error, "999999 is no open descriptor"));
    assert_null(harness_file(&h, (UINT64_C(1) << 32) + 1, NULL)); /* never cut to descriptor 1 */
    assert_non_null(strstr(h.error, "4294967297 is no open descriptor"));
    assert_null(harness_file(&h, (uint64_t)pipes[0], NULL));
    assert_non_null(strstr(h.error, "a pipe"));
    assert_null(harness_file(&h, (uint64_t)folder, NULL));
    assert_non_null(strstr(h.error, "a directory"));
    assert_null(harness_file(&h, 0, "rww:/x"));
    assert_non_null(strstr(h.error, "rww"));
    close(pipes[0]);
    close(pipes[1]);
    close(folder);
}

static void named_pipe_by_path_is_refused_without_waiting(void **state) {
    char meta[160];

    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(meta, sizeof meta, "ro:%s", path);
    assert_null(harness_file(&h, 3, meta));
    assert_non_null(strstr(h.error, "a pipe"));
}

static void direction_that_the_file_is_not_open_for_is_refused(void **state) {
    int fd = make_file(path, 4096), append;
    char meta[160], byte = 'x';
    void *file;
    struct nixl_run run;
    struct transfer t;

    snprintf(meta, sizeof meta, "ro:%s", path);
    file = harness_file(&h, 9, meta);
    run = run_of(file, &byte, 0, 1);
    assert_int_equal(transfer_open(&h, &t, NIXL_WRITE, &run, 1, 0), NIXL_ERR_INVALID_PARAM);
    assert_non_null(strstr(h.error, "not open for writing"));
    h.ops->region_close(h.self, file);

    append = open(path, O_RDWR | O_APPEND);
    file = harness_file(&h, (uint64_t)append, NULL);
    run = run_of(file, &byte, 0, 1);
    assert_int_equal(transfer_open(&h, &t, NIXL_WRITE, &run, 1, 0), NIXL_ERR_INVALID_PARAM);
    assert_non_null(strstr(h.error, "O_APPEND"));
    assert_int_equal(transfer_open(&h, &t, NIXL_READ, &run, 1, 0), NIXL_SUCCESS);
    transfer_close(&t);
    h.ops->region_close(h.self, file);
    close(append);
    close(fd);
}

/* ---- query --- */

struct answers {
    bool found[1000];
    char size[1000][24], mode[1000][24], mtime[1000][24];
};

static nixl_status_t found(void *ctx, size_t index, const char *key, const char *value) {
    struct answers *a = ctx;

    a->found[index] = true;
    snprintf(strcmp(key, "size") == 0   ? a->size[index]
             : strcmp(key, "mode") == 0 ? a->mode[index]
                                        : a->mtime[index],
             24, "%s", value);
    return NIXL_SUCCESS;
}

static void query_tells_size_mode_and_time_also_by_mode_string(void **state) {
    static struct answers a;
    struct nixl_query_sink sink = {.ctx = &a, .found = found};
    char by_mode[160], missing[160];
    struct nixl_meta_desc descs[5] = {{.meta = path, .meta_len = strlen(path)}};
    struct stat st;
    char expected[24];

    close(make_file(path, 12345));
    assert_int_equal(stat(path, &st), 0);
    snprintf(by_mode, sizeof by_mode, "rw,create:%s", path);
    snprintf(missing, sizeof missing, "%s/beneath", path); /* a file as a folder */
    descs[1] = (struct nixl_meta_desc){.meta = by_mode, .meta_len = strlen(by_mode)};
    descs[2] = (struct nixl_meta_desc){.meta = "/no/such", .meta_len = 8};
    descs[3] = (struct nixl_meta_desc){.meta = missing, .meta_len = strlen(missing)};
    descs[4] = (struct nixl_meta_desc){.meta = dir, .meta_len = strlen(dir)};
    assert_int_equal(h.ops->query(h.self, FILE_SEG, descs, 5, &sink), NIXL_SUCCESS);
    assert_true(a.found[0] && a.found[1] && a.found[4]);
    assert_false(a.found[2] || a.found[3]);
    assert_string_equal(a.size[0], "12345");
    assert_string_equal(a.size[1], "12345");
    snprintf(expected, sizeof expected, "%u", (unsigned)st.st_mode);
    assert_string_equal(a.mode[0], expected);
    snprintf(expected, sizeof expected, "%lld", (long long)st.st_mtime);
    assert_string_equal(a.mtime[0], expected);
    assert_int_equal(stat(dir, &st), 0); /* which of the two it is, the mode tells */
    snprintf(expected, sizeof expected, "%u", (unsigned)st.st_mode);
    assert_string_equal(a.mode[4], expected);
}

static void thousand_paths_are_asked_in_one_call(void **state) {
    static struct answers a;
    static char names[1000][160];
    static struct nixl_meta_desc descs[1000];
    struct nixl_query_sink sink = {.ctx = &a, .found = found};
    size_t i;

    memset(&a, 0, sizeof a);
    for (i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof names[i], "%s/%zu", dir, i);
        if (i % 3 == 0) {
            close(make_file(names[i], i));
        }
        descs[i] = (struct nixl_meta_desc){.meta = names[i], .meta_len = strlen(names[i])};
    }
    assert_int_equal(h.ops->query(h.self, FILE_SEG, descs, 1000, &sink), NIXL_SUCCESS);
    for (i = 0; i < 1000; i++) {
        assert_int_equal(a.found[i], i % 3 == 0);
        assert_true(!a.found[i] || strtoul(a.size[i], NULL, 10) == i);
    }
}

static void unreadable_path_is_an_error_with_its_index(void **state) {
    static struct answers a;
    struct nixl_query_sink sink = {.ctx = &a, .found = found};
    struct nixl_meta_desc descs[2] = {{.meta = "/", .meta_len = 1}, {.meta = path, .meta_len = strlen(path)}};
    bool is_root = geteuid() == 0;
    nixl_status_t status;

    close(make_file(path, 1));
    assert_int_equal(chmod(path, 0), 0);
    if (is_root && seteuid(65534) != 0) {
        test_skip("root, and no other user to try as");
    }
    chmod(dir, 0755);
    status = h.ops->query(h.self, FILE_SEG, descs, 2, &sink);
    if (is_root) {
        assert_int_equal(seteuid(0), 0);
    }
    assert_int_equal(status, NIXL_ERR_BACKEND);
    assert_non_null(strstr(h.error, "block 1"));
    assert_non_null(strstr(h.error, path));
    assert_non_null(strstr(h.error, "Permission denied"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(registrations_of_one_open_file_share_a_descriptor),
        CASE(users_descriptor_may_be_closed_and_its_number_used_again),
        CASE(files_are_opened_by_path_and_closed_at_deregistration),
        CASE(missing_path_without_create_is_refused_and_makes_no_file),
        CASE(device_id_of_a_path_is_its_own),
        CASE(what_is_no_open_file_is_refused_in_words),
        CASE(named_pipe_by_path_is_refused_without_waiting),
        CASE(direction_that_the_file_is_not_open_for_is_refused),
        CASE(query_tells_size_mode_and_time_also_by_mode_string),
        CASE(thousand_paths_are_asked_in_one_call),
        CASE(unreadable_path_is_an_error_with_its_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
