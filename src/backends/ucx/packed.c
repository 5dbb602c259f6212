/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses and keys as UCX packs them, looked at before UCX takes them: it gets no length with them, follows the lengths inside,
 * and ends the process at a version that it does not know. For metadata that carries no checksum, which is the reference's.
 * Says only that they are whole, not that they are true. Pure functions; layouts of UCX 1.12 to 1.22.
 */
#include "ucx.h"

#include <string.h>

#define HEADER_VERSION 0x0fu /* of an address's first byte; what is above are flags in version 0 */
#define HEADER_NAME 1u       /* flags: what follows the header */
#define HEADER_ID 2u
#define HEADER_CLIENT 4u

#define LAST 0x80u /* the top bit of a length: of the last device, transport, connection */
#define DEVICE_NONE 0xffu
#define DEVICE_EMPTY 0x80u /* of the index of a device's memory domain: no transports follow */
#define DEVICE_INDEX 0x7fu
#define DEVICE_PATHS 0x40u
#define DEVICE_SYSTEM 0x20u
#define DEVICE_LEN 0x1fu
#define TRANSPORT_HAS_CONNECTIONS 0x40u
#define TRANSPORT_LEN 0x3fu
#define TRANSPORT_NAME 2u /* bytes of the sum of its name */
#define ATTRIBUTES_0 16u  /* bytes of a transport's attributes, by the address's version */
#define ATTRIBUTES_1 8u

#define KEY_DOMAINS 8u    /* bytes of a key's map of memory domains */
#define KEY_MEMORY_MAX 9u /* the last kind of memory that UCX 1.21 and 1.22 know */

struct reader {
    const uint8_t *at, *end;
    unsigned version;
    bool is_short;
};

static void skip(struct reader *r, size_t len) {
    if ((size_t)(r->end - r->at) < len) {
        r->is_short = true;
        r->at = r->end;
    } else {
        r->at += len;
    }
}

static unsigned byte(struct reader *r) {
    const uint8_t *at = r->at;

    skip(r, 1);
    return r->is_short ? 0 : *at;
}

/* A number in the low bits of a byte; from version 1 on, when all of those are set, in the next byte. */
static unsigned extended(struct reader *r, unsigned value, unsigned mask) {
    value &= mask;
    return r->version != 0 && value == mask ? byte(r) : value;
}

static void skip_connections(struct reader *r) {
    unsigned lane;

    do {
        skip(r, byte(r));
        lane = byte(r);
    } while (!r->is_short && (lane & LAST) == 0);
}

static void skip_transports(struct reader *r) {
    unsigned flags;

    do {
        skip(r, TRANSPORT_NAME + (r->version == 0 ? ATTRIBUTES_0 : ATTRIBUTES_1));
        flags = byte(r);
        skip(r, extended(r, flags, TRANSPORT_LEN));
        if ((flags & TRANSPORT_HAS_CONNECTIONS) != 0) {
            skip_connections(r);
        }
    } while (!r->is_short && (flags & LAST) == 0);
}

static void skip_devices(struct reader *r) {
    unsigned domain, flags, len;

    do {
        domain = byte(r);
        (void)extended(r, domain, DEVICE_INDEX);
        flags = byte(r);
        len = extended(r, flags, DEVICE_LEN);
        skip(r, (flags & DEVICE_PATHS) != 0 ? 1 : 0);
        skip(r, (flags & DEVICE_SYSTEM) != 0 ? 1 : 0);
        skip(r, len);
        if ((domain & DEVICE_EMPTY) == 0) {
            skip_transports(r);
        }
    } while (!r->is_short && (flags & LAST) == 0);
}

bool ucx_address_is_whole(const void *bytes, size_t len) {
    struct reader r = {.at = bytes, .end = (const uint8_t *)bytes + len};
    unsigned header = byte(&r), flags;

    r.version = header & HEADER_VERSION;
    if (r.version > 1) {
        return false;
    }
    flags = r.version == 0 ? header >> 4 : byte(&r);
    /* In version 0 the identity is there whether the flag says so or not. */
    skip(&r, r.version == 0 || (flags & HEADER_ID) != 0 ? 8 : 0);
    skip(&r, (flags & HEADER_CLIENT) != 0 ? 8 : 0);
    if ((flags & HEADER_NAME) != 0) {
        skip(&r, byte(&r));
    }
    if (r.at < r.end && *r.at == DEVICE_NONE) {
        return false; /* no transport at all */
    }
    skip_devices(&r);
    return !r.is_short && r.at == r.end;
}

bool ucx_key_is_whole(const void *bytes, size_t len) {
    struct reader r = {.at = bytes, .end = (const uint8_t *)bytes + len};
    uint64_t domains = 0;

    if (len < KEY_DOMAINS + 1) {
        return false;
    }
    memcpy(&domains, bytes, sizeof domains);
    skip(&r, KEY_DOMAINS);
    if (byte(&r) > KEY_MEMORY_MAX) {
        return false;
    }
    for (; domains != 0; domains &= domains - 1) {
        skip(&r, byte(&r));
    }
    /* What follows, the device and the distances to it, may be missing. */
    return !r.is_short;
}
