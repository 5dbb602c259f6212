/* SPDX-License-Identifier: Apache-2.0 */
#include "netdev.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- sysfs ---- */

static bool exists(const char *format, const char *name, const char *more) {
    char path[256];
    struct stat st;

    return (size_t)snprintf(path, sizeof path, format, name, more) < sizeof path && lstat(path, &st) == 0;
}

/* The first line of a file; "" when it cannot be read. */
static void line_of(char *line, int size, const char *format, const char *name, const char *more) {
    char path[256];
    FILE *file;

    line[0] = '\0';
    if ((size_t)snprintf(path, sizeof path, format, name, more) >= sizeof path ||
        (file = fopen(path, "re")) == NULL) {
        return;
    }
    if (fgets(line, size, file) == NULL) {
        line[0] = '\0';
    }
    (void)fclose(file);
}

static long number_of(const char *format, const char *name) {
    char line[64];

    line_of(line, sizeof line, format, name, "");
    return strtol(line, NULL, 0);
}

/* The next name in a directory that is no dot file. */
static const char *next_name(DIR *dir) {
    struct dirent *entry;

    do {
        entry = readdir(dir);
    } while (entry != NULL && entry->d_name[0] == '.');
    return entry != NULL ? entry->d_name : NULL;
}

static DIR *folder(const char *format, const char *name) {
    char path[256];

    return (size_t)snprintf(path, sizeof path, format, name) < sizeof path ? opendir(path) : NULL;
}

/* A VLAN and its like: another interface of the same card. */
static bool stands_on_another(const char *name) {
    DIR *dir = folder("/sys/class/net/%s", name);
    const char *entry;
    bool found = false;

    while (dir != NULL && !found && (entry = next_name(dir)) != NULL) {
        found = strncmp(entry, "lower_", 6) == 0;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return found;
}

static bool is_bond(const char *name) {
    return exists("/sys/class/net/%s/bonding%s", name, "");
}

/* A card, a bond of cards, or what stands on one: bytes that go in there can leave the host. */
static bool port_leads_out(const char *name) {
    return exists("/sys/class/net/%s/device%s", name, "") || is_bond(name) || stands_on_another(name);
}

static bool bridge_is_inner(const char *name) {
    DIR *ports = folder("/sys/class/net/%s/brif", name);
    const char *port;
    bool leads_out = false;

    while (ports != NULL && !leads_out && (port = next_name(ports)) != NULL) {
        leads_out = port_leads_out(port);
    }
    if (ports != NULL) {
        (void)closedir(ports);
    }
    return !leads_out;
}

/* ---- interfaces ---- */

static struct ucx_netdev *device_for(struct ucx_netdev *devices, size_t *count, size_t max,
                                     const struct ifaddrs *at) {
    struct ucx_netdev *device = NULL;
    long type;

    for (size_t i = 0; i < *count; i++) {
        if (strcmp(devices[i].name, at->ifa_name) == 0) {
            return &devices[i];
        }
    }
    if (*count == max || strlen(at->ifa_name) >= sizeof device->name) {
        return NULL;
    }
    device = &devices[(*count)++];
    *device = (struct ucx_netdev){.mbps = 0};
    (void)snprintf(device->name, sizeof device->name, "%s", at->ifa_name);
    device->is_up = (at->ifa_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
    device->is_loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
    device->is_bridge = exists("/sys/class/net/%s/bridge%s", device->name, "");
    device->is_inner = device->is_bridge && bridge_is_inner(device->name);
    type = number_of("/sys/class/net/%s/type%s", device->name);
    device->is_nic = (type == ARPHRD_ETHER || type == ARPHRD_INFINIBAND) && !device->is_bridge &&
                     (at->ifa_flags & (IFF_LOOPBACK | IFF_NOARP | IFF_POINTOPOINT)) == 0 &&
                     !exists("/sys/class/net/%s/tun_flags%s", device->name, "") &&
                     (is_bond(device->name) || !stands_on_another(device->name));
    device->mbps = number_of("/sys/class/net/%s/speed%s", device->name);
    if (device->mbps < 0) {
        device->mbps = 0;
    }
    return device;
}

static void address_note(struct ucx_netdev *device, const struct sockaddr *address) {
    char text[48];
    bool is_local, is_four = address->sa_family == AF_INET;
    const void *bytes = is_four ? (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr
                                : &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    const uint8_t *b = bytes;
    char *place;

    is_local = is_four ? b[0] == 169 && b[1] == 254 : b[0] == 0xfe && (b[1] & 0xc0) == 0x80;
    if (inet_ntop(address->sa_family, bytes, text, sizeof text) == NULL) {
        return;
    }
    place = is_local ? device->local : device->address;
    /* UCX, too, prefers IPv4. */
    if (place[0] == '\0' || (is_four && strchr(place, ':') != NULL)) {
        (void)snprintf(place, sizeof device->local, "%s", text);
    }
}

static size_t interfaces(struct ucx_netdev *devices, size_t max) {
    struct ifaddrs *all = NULL;
    size_t count = 0;

    if (getifaddrs(&all) != 0) {
        return 0;
    }
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        struct ucx_netdev *device = device_for(devices, &count, max, at);

        if (device != NULL && at->ifa_addr != NULL &&
            (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6)) {
            address_note(device, at->ifa_addr);
        }
    }
    freeifaddrs(all);
    return count;
}

/* ---- RDMA ---- */

static void rdma_port(struct ucx_netdev *devices, size_t *count, size_t max, const char *device,
                      const char *port) {
    char line[64];
    struct ucx_netdev *at;

    if (*count == max) {
        return;
    }
    at = &devices[*count];
    *at = (struct ucx_netdev){.is_rdma = true, .is_nic = true};
    if ((size_t)snprintf(at->name, sizeof at->name, "%s:%s", device, port) >= sizeof at->name) {
        return;
    }
    line_of(line, sizeof line, "/sys/class/infiniband/%s/ports/%s/state", device, port);
    at->is_up = strstr(line, "ACTIVE") != NULL;
    line_of(line, sizeof line, "/sys/class/infiniband/%s/ports/%s/rate", device, port);
    at->mbps = (int64_t)(strtod(line, NULL) * 1000); /* "100 Gb/sec (4X EDR)" */
    (*count)++;
}

static void rdma_ports(struct ucx_netdev *devices, size_t *count, size_t max) {
    DIR *all = opendir("/sys/class/infiniband");
    const char *name;

    while (all != NULL && (name = next_name(all)) != NULL) {
        DIR *ports = folder("/sys/class/infiniband/%s/ports", name);
        const char *port;

        while (ports != NULL && (port = next_name(ports)) != NULL) {
            rdma_port(devices, count, max, name, port);
        }
        if (ports != NULL) {
            (void)closedir(ports);
        }
    }
    if (all != NULL) {
        (void)closedir(all);
    }
}

/* ---- the list ---- */

size_t ucx_netdevs(struct ucx_netdev *devices, size_t max) {
    size_t count = interfaces(devices, max);

    rdma_ports(devices, &count, max);
    return count;
}

const struct ucx_netdev *ucx_netdev_find(const struct ucx_netdev *devices, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(devices[i].name, name) == 0) {
            return &devices[i];
        }
    }
    return NULL;
}

bool ucx_netdev_leads_out(const struct ucx_netdev *device) {
    return device->is_up && !device->is_rdma && !device->is_loopback && !device->is_inner &&
           device->address[0] != '\0';
}

const char *ucx_netdevs_text(const struct ucx_netdev *devices, size_t count, char *buf, size_t size) {
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (ucx_netdev_leads_out(&devices[i])) {
            (void)text_append(buf, size, &used, "%s%s (%s)", used > 0 ? ", " : "", devices[i].name,
                              devices[i].address);
        }
    }
    return buf;
}

/* IPv6's link-local addresses UCX leaves out by itself. */
static bool misleads(const struct ucx_netdev *device) {
    return !device->is_rdma && device->is_up &&
           (device->is_inner || (device->address[0] == '\0' && strchr(device->local, '.') != NULL));
}

bool ucx_netdevs_choose(const struct ucx_netdev *devices, size_t count, char *list, size_t size) {
    bool leaves_out = false, leads_out = false, fits = true;
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        leaves_out = leaves_out || misleads(&devices[i]);
        leads_out = leads_out || ucx_netdev_leads_out(&devices[i]);
    }
    if (!leaves_out || !leads_out) {
        return false;
    }
    for (size_t i = 0; i < count && fits; i++) {
        const struct ucx_netdev *device = &devices[i];

        if (device->is_up && !misleads(device) &&
            (device->is_rdma || device->is_loopback || device->address[0] != '\0')) {
            fits = text_append(list, size, &used, "%s%s", used > 0 ? "," : "", device->name);
        }
    }
    return fits;
}
