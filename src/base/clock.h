/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time in nanoseconds. The two monotonic clocks share one time line; the coarse one is cheaper and up to one
 * kernel tick (1 to 10 ms) late, which is right for deadlines. Wall time is for people and wire formats only.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

#define CLOCK_NEVER UINT64_MAX /* a deadline that does not come */

static inline uint64_t clock_read_ns(clockid_t id) {
    struct timespec ts;

    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_now_ns(void) {
    return clock_read_ns(CLOCK_MONOTONIC);
}

static inline uint64_t clock_coarse_ns(void) {
    return clock_read_ns(CLOCK_MONOTONIC_COARSE);
}

/* Since 1970, UTC. */
static inline uint64_t clock_wall_ns(void) {
    return clock_read_ns(CLOCK_REALTIME);
}

/* `now + ms`, saturating at CLOCK_NEVER. */
static inline uint64_t clock_deadline_ms(uint64_t now_ns, uint64_t ms) {
    return ms >= (CLOCK_NEVER - now_ns) / NS_PER_MS ? CLOCK_NEVER : now_ns + ms * NS_PER_MS;
}

#endif
