/* SPDX-License-Identifier: Apache-2.0 */
/* The processor count: the affinity mask of this process, and quotas in made-up control group trees. */
#include "support.h"

#include "base/thread.h"

#include <sched.h>

static void the_count_follows_the_affinity_mask(void **state) {
    cpu_set_t before;
    cpu_set_t one;
    int first = 0;

    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    while (!CPU_ISSET(first, &before)) {
        first++;
    }
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_true(cpu_count_now() >= 1);
    assert_true(cpu_count_now() <= (unsigned)CPU_COUNT(&before));
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cpu_count_now(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(cpu_count(), cpu_count());
}

static void without_a_control_group_there_is_no_quota(void **state) {
    char *root = temp_dir();

    assert_int_equal(cpu_quota(root), 0);
    temp_write(root, "proc/self/cgroup", "");
    temp_write(root, "proc/self/mountinfo", "");
    assert_int_equal(cpu_quota(root), 0);
    temp_remove(root);
}

static void version_2_takes_the_least_quota_up_the_tree(void **state) {
    char *root = temp_dir();

    temp_write(root, "proc/self/cgroup", "0::/pods/a/job\n");
    temp_write(root, "proc/self/mountinfo",
               "22 26 0:21 / /proc rw,nosuid - proc proc rw\n"
               "30 26 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    temp_write(root, "sys/fs/cgroup/pods/a/job/cpu.max", "max 100000\n");
    assert_int_equal(cpu_quota(root), 0);
    temp_write(root, "sys/fs/cgroup/pods/a/job/cpu.max", "400000 100000\n");
    assert_int_equal(cpu_quota(root), 4000);
    temp_write(root, "sys/fs/cgroup/pods/cpu.max", "150000 100000\n");
    assert_int_equal(cpu_quota(root), 1500);
    temp_write(root, "sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_int_equal(cpu_quota(root), 500);
    temp_write(root, "sys/fs/cgroup/pods/a/cpu.max", "junk\n");
    assert_int_equal(cpu_quota(root), 500);
    temp_remove(root);
}

static void version_1_reads_the_cpu_controller(void **state) {
    char *root = temp_dir();

    temp_write(root, "proc/self/cgroup", "9:memory:/x\n4:cpu,cpuacct:/job\n0::/\n");
    temp_write(root, "proc/self/mountinfo",
               "31 26 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
               "32 26 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
               "33 26 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
    temp_write(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    temp_write(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cpu_quota(root), 0);
    temp_write(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
    assert_int_equal(cpu_quota(root), 2500);
    temp_remove(root);
}

/* A container without a namespace of its own sees the host's path, and of the tree only its own part. */
static void a_mount_of_a_part_of_the_tree_is_understood(void **state) {
    char *root = temp_dir();

    temp_write(root, "proc/self/cgroup", "4:cpu:/docker/abc/inner\n");
    temp_write(root, "proc/self/mountinfo",
               "32 26 0:29 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
    temp_write(root, "sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "300000\n");
    temp_write(root, "sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cpu_quota(root), 3000);
    temp_write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
    temp_write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cpu_quota(root), 2000);
    temp_remove(root);
}

static void broken_lines_are_passed_over(void **state) {
    char *root = temp_dir();

    temp_write(root, "proc/self/cgroup", "nonsense\n0\n0:\n:::\n0::/\n");
    temp_write(root, "proc/self/mountinfo",
               "\n1\n1 2 3\n1 2 3 / /x rw\n1 2 3 / /x rw -\n1 2 3 / /x rw - cgroup2\n"
               "30 26 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    temp_write(root, "sys/fs/cgroup/cpu.max", "200000 0\n");
    assert_int_equal(cpu_quota(root), 0);
    temp_write(root, "sys/fs/cgroup/cpu.max", "200000 100000");
    assert_int_equal(cpu_quota(root), 2000);
    temp_remove(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_count_follows_the_affinity_mask),         TEST(without_a_control_group_there_is_no_quota),
        TEST(version_2_takes_the_least_quota_up_the_tree), TEST(version_1_reads_the_cpu_controller),
        TEST(a_mount_of_a_part_of_the_tree_is_understood), TEST(broken_lines_are_passed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
