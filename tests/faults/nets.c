/* SPDX-License-Identifier: Apache-2.0 */
#include "nets.h"

#include "integration/ucx_node.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MTU 9000u
#define PACKETS 2048u /* kept at most, each way; more are lost, as in any router */

static int net_a = -1, net_b = -1;

/* ---- the namespaces ---- */

/* UCX looks for devices in /sys/class/net, which shows those of the namespace that it was mounted in. */
static bool see_own_devices(void) {
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("sysfs", "/sys", "sysfs", MS_RDONLY, NULL) == 0;
}

static bool enter_b(void) {
    return setns(net_b, CLONE_NEWNET) == 0 && unshare(CLONE_NEWNS) == 0 && see_own_devices();
}

bool nets_in_a(const char *command) {
    return system(command) == 0;
}

bool nets_in_b(const char *command) {
    pid_t pid = fork();
    int status = -1;

    if (pid == 0) {
        _exit(setns(net_b, CLONE_NEWNET) == 0 && execl("/bin/sh", "sh", "-c", command, (char *)NULL) == 0
                  ? 0
                  : 127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* ---- the relay ---- */

struct packet {
    uint64_t due_ns;
    size_t len;
    uint8_t bytes[MTU + 64];
};

static struct direction {
    struct packet *packets; /* PACKETS of them, a ring */
    size_t first, count;
    bool is_held;
} ways[2];

static struct {
    pthread_mutex_t lock; /* of ways */
    pthread_t thread;
    int tun[2]; /* A's, B's */
    uint64_t delay_ns;
    bool runs, stop;
} relay = {.lock = PTHREAD_MUTEX_INITIALIZER, .tun = {-1, -1}};

static uint64_t now_ns(void) {
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void take_in(enum way way) {
    struct direction *d = &ways[way];
    uint8_t lost[MTU + 64];

    for (int i = 0; i < 64; i++) {
        struct packet *packet = d->count < PACKETS ? &d->packets[(d->first + d->count) % PACKETS] : NULL;
        ssize_t got =
            read(relay.tun[way == A_TO_B ? 0 : 1], packet != NULL ? packet->bytes : lost, sizeof lost);

        if (got <= 0) {
            return;
        }
        if (packet != NULL) {
            packet->len = (size_t)got;
            packet->due_ns = now_ns() + relay.delay_ns;
            d->count++;
        }
    }
}

/* Hands over what is due; when the next one is. */
static uint64_t hand_over(enum way way) {
    struct direction *d = &ways[way];

    while (!d->is_held && d->count > 0) {
        struct packet *packet = &d->packets[d->first];

        if (packet->due_ns > now_ns()) {
            return packet->due_ns;
        }
        /* A device that takes none loses it. */
        (void)!write(relay.tun[way == A_TO_B ? 1 : 0], packet->bytes, packet->len);
        d->first = (d->first + 1) % PACKETS;
        d->count--;
    }
    return UINT64_MAX;
}

static void *relay_main(void *arg) {
    (void)arg;
    while (!__atomic_load_n(&relay.stop, __ATOMIC_ACQUIRE)) {
        struct pollfd fds[2] = {{.fd = relay.tun[0], .events = POLLIN},
                                {.fd = relay.tun[1], .events = POLLIN}};
        uint64_t next = UINT64_MAX, now;
        /* A change of is_held is seen within this. */
        struct timespec wait = {0, 2000000};

        (void)pthread_mutex_lock(&relay.lock);
        for (enum way way = A_TO_B; way <= B_TO_A; way++) {
            uint64_t due;

            take_in(way);
            due = hand_over(way);
            next = due < next ? due : next;
        }
        (void)pthread_mutex_unlock(&relay.lock);
        now = now_ns();
        if (next < now + 2000000u) {
            wait.tv_nsec = next > now ? (long)(next - now) : 0;
        }
        (void)ppoll(fds, 2, &wait, NULL);
    }
    return NULL;
}

static int tun_open(const char *name) {
    struct ifreq request;
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

    memset(&request, 0, sizeof request);
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    (void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (fd >= 0 && ioctl(fd, TUNSETIFF, &request) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

void nets_hold(enum way way, bool hold) {
    (void)pthread_mutex_lock(&relay.lock);
    ways[way].is_held = hold;
    (void)pthread_mutex_unlock(&relay.lock);
}

void nets_lose(void) {
    (void)pthread_mutex_lock(&relay.lock);
    take_in(A_TO_B);
    take_in(B_TO_A);
    ways[A_TO_B].count = ways[B_TO_A].count = 0;
    (void)pthread_mutex_unlock(&relay.lock);
}

/* ---- the links ---- */

static bool addresses(const char *link, unsigned net) {
    static const char way[] = "ip addr add 10.%u.0.%d/24 dev %s && ip link set %s up";
    char in_a[256], in_b[256];

    (void)snprintf(in_a, sizeof in_a, way, net, 1, link, link);
    (void)snprintf(in_b, sizeof in_b, way, net, 2, link, link);
    return nets_in_a(in_a) && nets_in_b(in_b);
}

#define CARRIER                                                                                              \
    "for i in $(seq 500); do ip link show near | grep -q 'state UP' && exit 0; sleep 0.01; done; exit 1"

const char *nets_open(void) {
    char command[256];

    if (geteuid() != 0) {
        return "network namespaces take root";
    }
    if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) {
        return "network namespaces are not permitted here";
    }
    net_b = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (!nets_in_a("ip link set lo up") || unshare(CLONE_NEWNET) != 0) {
        return "ip is not there";
    }
    net_a = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (!see_own_devices()) {
        return "sysfs cannot be mounted here";
    }
    if (!nets_in_a("ip link set lo up && nft list ruleset >/dev/null 2>&1 && "
                   "ss -K -t state listening >/dev/null 2>&1")) {
        return "nft or ss is not there";
    }
    (void)snprintf(command, sizeof command,
                   "ip link add near type veth peer name near netns /proc/%d/fd/%d 2>/dev/null", getpid(),
                   net_b);
    /* Without a carrier, which comes some time after, UCX does not see the device. */
    if (!nets_in_a(command) || !addresses("near", 99) || !nets_in_a(CARRIER) || !nets_in_b(CARRIER)) {
        return "the kernel has no veth";
    }
    /* UCX learns the routes once in a process's life, so both links are there from the start. */
    relay.tun[0] = tun_open("far");
    if (setns(net_b, CLONE_NEWNET) == 0) {
        relay.tun[1] = tun_open("far");
    }
    if (setns(net_a, CLONE_NEWNET) != 0 || relay.tun[0] < 0 || relay.tun[1] < 0 ||
        !nets_in_a("ip link set far mtu 9000") || !nets_in_b("ip link set far mtu 9000") ||
        !addresses("far", 98)) {
        return "the kernel has no tun";
    }
    node_before_exec = enter_b;
    return NULL;
}

bool nets_use_near(void) {
    return setenv("UCX_NET_DEVICES", "near", 1) == 0;
}

bool nets_use_far(unsigned delay_ms) {
    for (enum way way = A_TO_B; way <= B_TO_A; way++) {
        ways[way].packets = calloc(PACKETS, sizeof *ways[way].packets);
        ways[way].first = ways[way].count = 0;
        ways[way].is_held = false;
        if (ways[way].packets == NULL) {
            return false;
        }
    }
    relay.delay_ns = delay_ms * 1000000u;
    relay.stop = false;
    relay.runs = pthread_create(&relay.thread, NULL, relay_main, NULL) == 0;
    return relay.runs && setenv("UCX_NET_DEVICES", "far", 1) == 0;
}

void nets_end_far(void) {
    if (relay.runs) {
        __atomic_store_n(&relay.stop, true, __ATOMIC_RELEASE);
        (void)pthread_join(relay.thread, NULL);
        relay.runs = false;
    }
    for (enum way way = A_TO_B; way <= B_TO_A; way++) {
        free(ways[way].packets);
        ways[way].packets = NULL;
    }
}

void nets_kill_connections(void) {
    (void)nets_in_a("ss -K -t state established >/dev/null");
    (void)nets_in_b("ss -K -t state established >/dev/null");
}
