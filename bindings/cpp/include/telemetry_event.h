/* SPDX-License-Identifier: Apache-2.0 */
/*
 * telemetry_event.h - events as they stand in a telemetry file, and their names. The file (mode 0644, named after its
 * agent) is a ring for one writer and one reader: header, then `capacity` events, a power of two. Positions are kept
 * below the capacity; equal ones mean that it is empty.
 */
#ifndef NIXL_CPP_TELEMETRY_EVENT_H
#define NIXL_CPP_TELEMETRY_EVENT_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

constexpr int TELEMETRY_VERSION = 4;

enum class nixl_telemetry_event_type_t : std::uint32_t {
    AGENT_TX_BYTES = 0,
    AGENT_RX_BYTES = 1,
    AGENT_TX_REQUESTS_NUM = 2,
    AGENT_RX_REQUESTS_NUM = 3,
    AGENT_MEMORY_REGISTERED = 4,
    AGENT_MEMORY_DEREGISTERED = 5,
    AGENT_XFER_TIME = 6,      // microseconds
    AGENT_XFER_POST_TIME = 7, // microseconds
    AGENT_ERR_NOT_POSTED = 8,
    AGENT_ERR_INVALID_PARAM = 9,
    AGENT_ERR_BACKEND = 10,
    AGENT_ERR_NOT_FOUND = 11,
    AGENT_ERR_MISMATCH = 12,
    AGENT_ERR_NOT_ALLOWED = 13,
    AGENT_ERR_REPOST_ACTIVE = 14,
    AGENT_ERR_UNKNOWN = 15,
    AGENT_ERR_NOT_SUPPORTED = 16,
    AGENT_ERR_REMOTE_DISCONNECT = 17,
    AGENT_ERR_CANCELED = 18,
    AGENT_ERR_NO_TELEMETRY = 19,
    AGENT_TELEMETRY_EVENTS_DROPPED = 20
};

constexpr std::size_t nixl_telemetry_event_type_count = 21;

struct nixlTelemetryEvent {
    nixl_telemetry_event_type_t eventType_ = nixl_telemetry_event_type_t::AGENT_TX_BYTES;
    std::uint32_t reserved_ = 0;
    std::uint64_t value_ = 0;

    nixlTelemetryEvent() = default;
    nixlTelemetryEvent(nixl_telemetry_event_type_t event_type, std::uint64_t value)
        : eventType_(event_type), value_(value) {}
};
static_assert(sizeof(nixlTelemetryEvent) == 16, "an event has 16 bytes in the file");

// What the file begins with.
struct nixlTelemetryFileHeader {
    std::uint64_t write_pos; // stored by the writer after the event
    std::uint64_t read_pos;  // stored by the reader after it has the event
    std::int32_t version;
    std::int32_t expected_version;
    std::uint64_t capacity;
    std::uint64_t mask; // capacity - 1
};
static_assert(sizeof(nixlTelemetryFileHeader) == 40, "the events begin at byte 40");

namespace nixlEnumStrings {

// "agent_tx_bytes" and so on; "unknown" for a number that is none of them.
inline std::string telemetryEventTypeStr(nixl_telemetry_event_type_t type) {
    static const std::array<const char *, nixl_telemetry_event_type_count> names = {
        "agent_tx_bytes",          "agent_rx_bytes",          "agent_tx_requests_num",
        "agent_rx_requests_num",   "agent_memory_registered", "agent_memory_deregistered",
        "agent_xfer_time",         "agent_xfer_post_time",    "agent_err_not_posted",
        "agent_err_invalid_param", "agent_err_backend",       "agent_err_not_found",
        "agent_err_mismatch",      "agent_err_not_allowed",   "agent_err_repost_active",
        "agent_err_unknown",       "agent_err_not_supported", "agent_err_remote_disconnect",
        "agent_err_canceled",      "agent_err_no_telemetry",  "agent_telemetry_events_dropped",
    };
    const auto index = static_cast<std::size_t>(type);
    return index < names.size() ? names[index] : "unknown";
}

} // namespace nixlEnumStrings

#endif
