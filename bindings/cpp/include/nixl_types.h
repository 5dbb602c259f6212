/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixl_types.h - the C++ interface's names for kinds, status and optional arguments. The enumerations of memory,
 * operation and status are those of <nixl/nixl.h>; what C has no word for is defined here. C++17 and later.
 */
#ifndef NIXL_CPP_TYPES_H
#define NIXL_CPP_TYPES_H

#ifndef __cplusplus
#error "this is the C++ interface; C programs include <nixl/nixl.h>"
#endif

#include <nixl/nixl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

class nixlSerDes;
class nixlAgent;
class nixlBackendH;
class nixlDlistH;   // a prepared list; only pointers to it exist
class nixlXferReqH; // a transfer request; only pointers to it exist

enum class nixl_thread_sync_t {
    NIXL_THREAD_SYNC_NONE = 0,
    NIXL_THREAD_SYNC_STRICT = 1,
    NIXL_THREAD_SYNC_RW = 2,
    NIXL_THREAD_SYNC_DEFAULT = NIXL_THREAD_SYNC_NONE
};

enum class nixl_cost_t {
    ANALYTICAL_BACKEND = 0
};

namespace nixlEnumStrings {

inline std::string memTypeStr(const nixl_mem_t &mem) {
    return nixl_mem_string(mem);
}

inline std::string xferOpStr(const nixl_xfer_op_t &op) {
    return nixl_op_string(op);
}

inline std::string statusStr(const nixl_status_t &status) {
    return nixl_status_string(status);
}

} // namespace nixlEnumStrings

using nixl_backend_t = std::string;
// Bytes of any value; not text.
using nixl_blob_t = std::string;
using nixl_mem_list_t = std::vector<nixl_mem_t>;
using nixl_b_params_t = std::unordered_map<std::string, std::string>;
// Sender to messages, each sender's in the order of arrival.
using nixl_notifs_t = std::unordered_map<std::string, std::vector<nixl_blob_t>>;
// Empty: what was asked for is not there.
using nixl_query_resp_t = std::optional<nixl_b_params_t>;
using nixlMemViewH = void *;
using chrono_point_t = std::chrono::steady_clock::time_point;
using chrono_period_us_t = std::chrono::microseconds;
using nixl_etcd_deletion_callback_t =
    std::function<nixl_status_t(const std::string &remote_agent, void *user_data)>;

constexpr std::uint16_t default_comm_port = NIXL_DEFAULT_PORT;
inline const std::string default_metadata_label = "metadata";
inline const std::string default_partial_metadata_label = "partial_metadata";
// Stands for "no agent" in the descriptors of a memory view.
inline const std::string nixl_null_agent = "NULL_AGENT";

// The agent argument of nixlAgent::prepXferDlist() that means the local side.
#define NIXL_INIT_AGENT ""

// Each call reads the members that its comment names.
struct nixlAgentOptionalArgs {
    // Backends to use, preferred first. None: the agent chooses.
    std::vector<nixlBackendH *> backends;
    // The notification that the other side gets after the data.
    std::optional<nixl_blob_t> notif;
    // The older form of `notif`: notifMsg counts while hasNotif is set and `notif` is empty.
    nixl_blob_t notifMsg;
    bool hasNotif = false;
    bool skipDescMerge = false;
    bool includeConnInfo = false;
    // Metadata exchange: a peer's address and port, or a store's label.
    std::string ipAddr;
    int port = default_comm_port;
    std::string metadataLabel;
    // Bytes for the backend.
    nixl_blob_t customParam;
};
using nixl_opt_args_t = nixlAgentOptionalArgs;

struct nixlXferTelemetry {
    chrono_point_t startTime{};
    // Whole microseconds, rounded up.
    chrono_period_us_t postDuration{};
    chrono_period_us_t xferDuration{};
    std::size_t totalBytes = 0;
    std::size_t descCount = 0; // after merging
};
using nixl_xfer_telem_t = nixlXferTelemetry;

#endif
