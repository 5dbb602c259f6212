/* SPDX-License-Identifier: Apache-2.0 */
/* What is warned of, and above all what is not; and which network devices are left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "backends/ucx/advice.h"

#define CARD(device, ip, speed)                                                                              \
    { .name = device, .is_up = true, .is_nic = true, .address = ip, .mbps = speed }
#define PORT(device, speed)                                                                                  \
    { .name = device, .is_rdma = true, .is_up = true, .is_nic = true, .mbps = speed }
#define LOOPBACK                                                                                             \
    { .name = "lo", .is_up = true, .is_loopback = true, .address = "127.0.0.1" }
#define DOCKER                                                                                               \
    { .name = "docker0", .is_up = true, .is_bridge = true, .is_inner = true, .address = "172.17.0.1" }
#define LINK_LOCAL(device)                                                                                   \
    { .name = device, .is_up = true, .is_nic = true, .local = "169.254.7.1", .mbps = 1000 }
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static char text[1024];

static bool advised(struct ucx_situation situation, const struct ucx_netdev *netdevs, size_t count) {
    situation.netdevs = netdevs;
    situation.netdev_count = count;
    situation.chosen = situation.chosen != NULL ? situation.chosen : "";
    return ucx_advice(&situation, text, sizeof text);
}

static void assert_says(const char *words) {
    if (strstr(text, words) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, text);
    }
}

static void the_kernel_s_copies_are_no_reason_to_warn(void **state) {
    const struct ucx_netdev netdevs[] = {LOOPBACK, CARD("eth0", "10.1.0.1", 1000),
                                         CARD("eth1", "10.2.0.1", 1000)};

    assert_false(advised((struct ucx_situation){.bytes = "cma",
                                                .devices = "memory",
                                                .setting = "UCX_NET_DEVICES",
                                                .chosen = "eth0",
                                                .uses_two = true},
                         netdevs, COUNT_OF(netdevs)));
}

static void tcp_within_a_host_is_told_with_its_reason(void **state) {
    const struct ucx_netdev netdevs[] = {LOOPBACK};

    assert_true(
        advised((struct ucx_situation){.bytes = "tcp", .devices = "lo", .no_copies = "because of this"},
                netdevs, COUNT_OF(netdevs)));
    assert_says("tcp");
    assert_says("cma");
    assert_says("because of this");
    /* Other ways are as fast, or nobody knows. */
    assert_false(advised((struct ucx_situation){.bytes = "posix", .devices = "memory", .no_copies = "this"},
                         netdevs, COUNT_OF(netdevs)));
    assert_false(
        advised((struct ucx_situation){.bytes = "rc_mlx5", .devices = "mlx5_0:1", .no_copies = "this"},
                netdevs, COUNT_OF(netdevs)));
}

static void tcp_between_hosts_is_no_reason_to_warn(void **state) {
    const struct ucx_netdev netdevs[] = {LOOPBACK, CARD("eth0", "10.1.0.1", 1000), DOCKER};

    assert_false(advised((struct ucx_situation){.bytes = "tcp", .devices = "eth0", .uses_two = true}, netdevs,
                         COUNT_OF(netdevs)));
}

static void a_link_local_address_is_told_only_beside_a_better_one(void **state) {
    const struct ucx_netdev alone[] = {LOOPBACK, LINK_LOCAL("a0"), DOCKER};
    const struct ucx_netdev better[] = {LOOPBACK, LINK_LOCAL("a0"), CARD("eth0", "10.1.0.1", 1000)};
    const struct ucx_situation in_use = {.bytes = "tcp", .devices = "a0"};

    assert_false(advised(in_use, alone, COUNT_OF(alone)));
    assert_true(advised(in_use, better, COUNT_OF(better)));
    assert_says("link-local");
    assert_says("a0");
    assert_says("UCX_NET_DEVICES=eth0,lo");
}

static void a_bridge_of_containers_is_told_only_beside_a_card(void **state) {
    const struct ucx_netdev alone[] = {LOOPBACK, DOCKER};
    const struct ucx_netdev better[] = {LOOPBACK, DOCKER, CARD("eth0", "10.1.0.1", 1000)};
    const struct ucx_netdev outward[] = {
        LOOPBACK,
        {.name = "br0", .is_up = true, .is_bridge = true, .address = "10.1.0.1"},
        CARD("eth1", "10.2.0.1", 1000)};

    assert_false(
        advised((struct ucx_situation){.bytes = "tcp", .devices = "docker0"}, alone, COUNT_OF(alone)));
    assert_true(
        advised((struct ucx_situation){.bytes = "tcp", .devices = "docker0"}, better, COUNT_OF(better)));
    assert_says("bridge docker0");
    assert_says("UCX_NET_DEVICES=eth0,lo");
    assert_false(
        advised((struct ucx_situation){.bytes = "tcp", .devices = "br0"}, outward, COUNT_OF(outward)));
}

static void one_card_of_two_is_told_when_a_setting_leaves_the_other_out(void **state) {
    const struct ucx_netdev two[] = {LOOPBACK, CARD("eth0", "10.1.0.1", 1000),
                                     CARD("eth1", "10.2.0.1", 1000)};
    struct ucx_situation s = {.bytes = "tcp",
                              .devices = "eth0",
                              .setting = "UCX_NET_DEVICES",
                              .chosen = "eth0,lo",
                              .uses_two = true};

    assert_true(advised(s, two, COUNT_OF(two)));
    assert_says("one network device of two");
    assert_says("UCX_NET_DEVICES=eth0,lo leaves out eth1");
    assert_says("UCX_NET_DEVICES=eth0,eth1");
    s.chosen = "^eth1";
    assert_true(advised(s, two, COUNT_OF(two)));
    s.chosen = "eth0, eth1"; /* the other does not reach the peer, then */
    assert_false(advised(s, two, COUNT_OF(two)));
    s.chosen = "all";
    assert_false(advised(s, two, COUNT_OF(two)));
    s.setting = NULL;
    assert_false(advised(s, two, COUNT_OF(two)));
    /* A UCX that uses one device loses nothing. */
    s = (struct ucx_situation){
        .bytes = "tcp", .devices = "eth0", .setting = "UCX_NET_DEVICES", .chosen = "eth0"};
    assert_false(advised(s, two, COUNT_OF(two)));
}

static void a_slower_or_unknown_card_may_be_left_out(void **state) {
    const struct ucx_netdev slow[] = {CARD("eth0", "10.1.0.1", 100000), CARD("eth1", "10.2.0.1", 1000)};
    const struct ucx_netdev unknown[] = {CARD("eth0", "10.1.0.1", 1000), CARD("eth1", "10.2.0.1", 0)};
    const struct ucx_situation s = {
        .bytes = "tcp", .devices = "eth0", .setting = "ucx_devices", .chosen = "eth0", .uses_two = true};

    assert_false(advised(s, slow, COUNT_OF(slow)));
    assert_false(advised(s, unknown, COUNT_OF(unknown)));
}

static void one_rdma_port_of_two_is_told_and_one_of_many_is_not(void **state) {
    const struct ucx_netdev two[] = {LOOPBACK, CARD("eth0", "10.1.0.1", 400000), PORT("mlx5_0:1", 400000),
                                     PORT("mlx5_1:1", 400000)};
    const struct ucx_netdev many[] = {PORT("mlx5_0:1", 400000), PORT("mlx5_1:1", 400000),
                                      PORT("mlx5_2:1", 400000)};
    struct ucx_situation s = {.bytes = "rc_mlx5",
                              .devices = "mlx5_0:1",
                              .setting = "UCX_NET_DEVICES",
                              .chosen = "mlx5_0:1",
                              .uses_two = true};

    assert_true(advised(s, two, COUNT_OF(two)));
    assert_says("mlx5_1:1");
    assert_false(advised(s, many, COUNT_OF(many)));
    s.setting = "ucx_devices";
    s.chosen = "mlx5_0, mlx5_1";
    assert_false(advised(s, two, COUNT_OF(two)));
}

static void a_card_without_a_link_is_told_when_it_has_an_address(void **state) {
    struct ucx_netdev two[] = {LOOPBACK, CARD("eth0", "10.1.0.1", 1000), CARD("eth1", "10.2.0.1", 0), DOCKER};
    struct ucx_situation s = {.bytes = "tcp", .devices = "eth0", .uses_two = true};

    two[2].is_up = false;
    two[3].is_up = false; /* docker without containers */
    assert_true(advised(s, two, COUNT_OF(two)));
    assert_says("eth1 (10.2.0.1) has no link");
    s.setting = "UCX_NET_DEVICES";
    s.chosen = "eth0"; /* nobody wants it */
    assert_false(advised(s, two, COUNT_OF(two)));
    s.setting = NULL;
    two[2].address[0] = '\0';
    assert_false(advised(s, two, COUNT_OF(two)));
}

static void devices_are_left_alone_where_none_misleads(void **state) {
    const struct ucx_netdev netdevs[] = {LOOPBACK, CARD("eth0", "10.1.0.1", 1000), PORT("mlx5_0:1", 100000)};
    const struct ucx_netdev nothing_else[] = {LOOPBACK, DOCKER, LINK_LOCAL("a0")};
    char list[256] = "as it was";

    assert_false(ucx_netdevs_choose(netdevs, COUNT_OF(netdevs), list, sizeof list));
    assert_false(ucx_netdevs_choose(nothing_else, COUNT_OF(nothing_else), list, sizeof list));
    assert_string_equal(list, "as it was");
}

static void bridges_of_containers_and_link_local_addresses_are_left_out(void **state) {
    const struct ucx_netdev netdevs[] = {LOOPBACK, DOCKER, LINK_LOCAL("a0"), CARD("eth0", "10.1.0.1", 1000),
                                         PORT("mlx5_0:1", 100000)};
    char list[256];

    assert_true(ucx_netdevs_choose(netdevs, COUNT_OF(netdevs), list, sizeof list));
    assert_string_equal(list, "lo,eth0,mlx5_0:1");
    /* A list that does not fit is none. */
    assert_false(ucx_netdevs_choose(netdevs, COUNT_OF(netdevs), list, 8));
}

/* This machine's own: whatever it has, a loopback is among it. */
static void the_machine_s_devices_are_found(void **state) {
    struct ucx_netdev netdevs[UCX_NETDEVS];
    size_t count = ucx_netdevs(netdevs, UCX_NETDEVS);
    const struct ucx_netdev *lo = ucx_netdev_find(netdevs, count, "lo");

    assert_true(count > 0);
    if (lo != NULL) {
        assert_true(lo->is_loopback && !lo->is_nic && !lo->is_bridge && !ucx_netdev_leads_out(lo));
    }
    assert_int_equal(ucx_netdevs(netdevs, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_s_copies_are_no_reason_to_warn),
        cmocka_unit_test(tcp_within_a_host_is_told_with_its_reason),
        cmocka_unit_test(tcp_between_hosts_is_no_reason_to_warn),
        cmocka_unit_test(a_link_local_address_is_told_only_beside_a_better_one),
        cmocka_unit_test(a_bridge_of_containers_is_told_only_beside_a_card),
        cmocka_unit_test(one_card_of_two_is_told_when_a_setting_leaves_the_other_out),
        cmocka_unit_test(a_slower_or_unknown_card_may_be_left_out),
        cmocka_unit_test(one_rdma_port_of_two_is_told_and_one_of_many_is_not),
        cmocka_unit_test(a_card_without_a_link_is_told_when_it_has_an_address),
        cmocka_unit_test(devices_are_left_alone_where_none_misleads),
        cmocka_unit_test(bridges_of_containers_and_link_local_addresses_are_left_out),
        cmocka_unit_test(the_machine_s_devices_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
