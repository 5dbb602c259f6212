/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many processors the process may keep busy: its affinity mask, and the quotas of its control group and
 * of all groups above it, version 1 and 2, found through /proc/self/cgroup and /proc/self/mountinfo (proc(5),
 * cgroups(7)).
 */
#include "thread.h"

#include "file.h"
#include "text.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROC_FILE_LIMIT ((size_t)4 << 20) /* hosts with thousands of mounts exist */
#define CPU_MASK_LIMIT ((size_t)65536)

static unsigned affinity_count(void) {
    /* The kernel refuses a mask shorter than its own, whatever the machine: grow until it fits. */
    for (size_t bits = 1024; bits <= CPU_MASK_LIMIT; bits *= 4) {
        cpu_set_t *set = CPU_ALLOC(bits);
        size_t size = CPU_ALLOC_SIZE(bits);
        int rc;
        int count;

        if (set == NULL) {
            break;
        }
        rc = sched_getaffinity(0, size, set);
        count = rc == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0) {
            return (unsigned)count;
        }
    }
    return (unsigned)(sysconf(_SC_NPROCESSORS_ONLN) > 0 ? sysconf(_SC_NPROCESSORS_ONLN) : 1);
}

/* One small pseudo file below `root`; NULL when it is not there. */
static char *read_below(const char *root, const char *dir, const char *name, size_t limit) {
    char path[PATH_MAX];
    char *data;
    size_t len;
    int n = snprintf(path, sizeof path, "%s%s/%s", root, dir, name);

    if (n < 0 || (size_t)n >= sizeof path || file_read(path, limit, &data, &len) != 0) {
        return NULL;
    }
    return data;
}

/* Thousandths of a processor that one group's files allow; 0 for no limit. */
static uint64_t quota_of_group(const char *root, const char *dir, bool is_v2) {
    uint64_t quota = 0;
    uint64_t period = 0;
    char *data = read_below(root, dir, is_v2 ? "cpu.max" : "cpu.cfs_quota_us", 128);

    if (data == NULL) {
        return 0;
    }
    if (is_v2) { /* "max 100000" or "150000 100000" */
        struct text rest = text_trim(text_of(data));
        struct text piece;

        if (!text_split(&rest, ' ', &piece) || text_parse_uint(piece, &quota) != TEXT_OK ||
            !text_split(&rest, ' ', &piece) || text_parse_uint(piece, &period) != TEXT_OK) {
            quota = 0;
        }
    } else { /* -1 for none, which is no unsigned number */
        char *period_data = read_below(root, dir, "cpu.cfs_period_us", 128);

        if (text_parse_uint(text_trim(text_of(data)), &quota) != TEXT_OK || period_data == NULL ||
            text_parse_uint(text_trim(text_of(period_data)), &period) != TEXT_OK) {
            quota = 0;
        }
        free(period_data);
    }
    free(data);
    if (quota == 0 || period == 0 || quota > UINT64_MAX / 1000) {
        return 0;
    }
    quota = quota * 1000 / period;
    return quota != 0 ? quota : 1;
}

/* The least quota of the group `path` below the mount point and of all its parents up to that point. */
static uint64_t quota_up_the_tree(const char *root, const char *mount_point, const char *path, bool is_v2) {
    char dir[PATH_MAX];
    size_t floor_len = strlen(mount_point);
    uint64_t least = 0;
    int n = snprintf(dir, sizeof dir, "%s%s", mount_point, path);

    if (n < 0 || (size_t)n >= sizeof dir) {
        return 0;
    }
    for (;;) {
        uint64_t here = quota_of_group(root, dir, is_v2);
        char *slash = strrchr(dir, '/');

        if (here != 0 && (least == 0 || here < least)) {
            least = here;
        }
        if (strlen(dir) <= floor_len || slash == NULL || (size_t)(slash - dir) < floor_len) {
            return least;
        }
        *slash = '\0';
    }
}

static bool list_has(struct text list, const char *word) {
    struct text piece;

    while (text_split(&list, ',', &piece)) {
        if (text_equal(piece, word)) {
            return true;
        }
    }
    return false;
}

/* The process's path in the unified tree ("0::/path") or in the tree of the cpu controller
 * ("4:cpu,cpuacct:/path"). */
static bool group_path(const char *cgroup, bool is_v2, char *out, size_t size) {
    struct text lines = text_of(cgroup);
    struct text line;

    while (text_split(&lines, '\n', &line)) {
        struct text rest = line;
        struct text id;
        struct text controllers;

        if (!text_split(&rest, ':', &id) || !text_split(&rest, ':', &controllers) || rest.at == NULL) {
            continue;
        }
        if (is_v2 ? (text_equal(id, "0") && controllers.len == 0) : list_has(controllers, "cpu")) {
            if (rest.len >= size) {
                return false;
            }
            memcpy(out, rest.at, rest.len);
            out[rest.len] = '\0';
            return true;
        }
    }
    return false;
}

/* One line of mountinfo: "36 35 98:0 <root> <mount point> <options> [tags] - <type> <source> <super
 * options>". */
static uint64_t quota_of_mount(const char *root, const char *cgroup, struct text line) {
    struct text fields[5];
    struct text piece;
    struct text type;
    char group[PATH_MAX];
    char mount_root[PATH_MAX];
    char mount_point[PATH_MAX];
    const char *below;
    bool is_v2;
    size_t len;

    for (size_t i = 0; i < 5; i++) {
        if (!text_split(&line, ' ', &fields[i])) {
            return 0;
        }
    }
    do {
        if (!text_split(&line, ' ', &piece)) {
            return 0;
        }
    } while (!text_equal(piece, "-"));
    if (!text_split(&line, ' ', &type) || !text_split(&line, ' ', &piece)) {
        return 0;
    }
    is_v2 = text_equal(type, "cgroup2");
    if (!is_v2 && !(text_equal(type, "cgroup") && list_has(line, "cpu"))) {
        return 0;
    }
    if (fields[3].len >= sizeof mount_root || fields[4].len >= sizeof mount_point ||
        !group_path(cgroup, is_v2, group, sizeof group)) {
        return 0;
    }
    memcpy(mount_root, fields[3].at, fields[3].len);
    mount_root[fields[3].len] = '\0';
    memcpy(mount_point, fields[4].at, fields[4].len);
    mount_point[fields[4].len] = '\0';

    /* In a container the mount shows only a part of the tree: take its root off the process's path. */
    len = strlen(mount_root);
    if (len == 1) {
        len = 0;
    }
    below =
        strncmp(group, mount_root, len) == 0 && (group[len] == '/' || group[len] == '\0') ? group + len : "";
    if (strcmp(below, "/") == 0) {
        below = "";
    }
    return quota_up_the_tree(root, mount_point, below, is_v2);
}

uint64_t cpu_quota(const char *root) {
    char *cgroup = read_below(root, "/proc/self", "cgroup", PROC_FILE_LIMIT);
    char *mounts = read_below(root, "/proc/self", "mountinfo", PROC_FILE_LIMIT);
    uint64_t least = 0;

    if (cgroup != NULL && mounts != NULL) {
        struct text lines = text_of(mounts);
        struct text line;

        while (text_split(&lines, '\n', &line)) {
            uint64_t here = quota_of_mount(root, cgroup, line);

            if (here != 0 && (least == 0 || here < least)) {
                least = here;
            }
        }
    }
    free(cgroup);
    free(mounts);
    return least;
}

unsigned cpu_count_now(void) {
    unsigned count = affinity_count();
    uint64_t quota = cpu_quota("");

    if (quota != 0 && quota / 1000 < count) {
        count = quota >= 1000 ? (unsigned)(quota / 1000) : 1;
    }
    return count;
}

unsigned cpu_count(void) {
    static unsigned known;
    unsigned count = __atomic_load_n(&known, __ATOMIC_RELAXED);

    if (count == 0) {
        count = cpu_count_now();
        __atomic_store_n(&known, count, __ATOMIC_RELAXED);
    }
    return count;
}
