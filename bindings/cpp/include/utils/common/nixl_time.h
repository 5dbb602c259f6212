/* SPDX-License-Identifier: Apache-2.0 */
/* nixl_time.h - the steady clock as plain numbers. */
#ifndef NIXL_CPP_TIME_H
#define NIXL_CPP_TIME_H

#include <chrono>
#include <cstdint>

namespace nixlTime {

using namespace std::chrono;

using ns_t = std::uint64_t;
using us_t = std::uint64_t;
using ms_t = std::uint64_t;
using sec_t = std::uint64_t;

template <class Unit> inline std::uint64_t since_epoch() {
    return static_cast<std::uint64_t>(duration_cast<Unit>(steady_clock::now().time_since_epoch()).count());
}

inline ns_t getNs() {
    return since_epoch<nanoseconds>();
}

inline us_t getUs() {
    return since_epoch<microseconds>();
}

inline ms_t getMs() {
    return since_epoch<milliseconds>();
}

inline sec_t getSec() {
    return since_epoch<seconds>();
}

// The kernel's clock is read without entering the kernel: nothing is gained by reading the processor's own.
inline steady_clock::time_point fastSteadyNow() {
    return steady_clock::now();
}

} // namespace nixlTime

#endif
