/* SPDX-License-Identifier: Apache-2.0 */
/* nixl_params.h - what an agent is made with. Programs fill it by position too: the order of the arguments is fixed. */
#ifndef NIXL_CPP_PARAMS_H
#define NIXL_CPP_PARAMS_H

#include "nixl_types.h"

#include <stdexcept>

struct nixlAgentConfig {
    bool useProgThread = false;
    bool useListenThread = false;
    std::uint16_t listenPort = default_comm_port; // 0: the system chooses
    nixl_thread_sync_t syncMode = nixl_thread_sync_t::NIXL_THREAD_SYNC_DEFAULT;
    bool captureTelemetry = false;
    std::uint64_t pthrDelay = 0;      // microseconds; accepted, the thread sleeps on events
    std::uint64_t lthrDelay = 100000; // microseconds; likewise
    std::chrono::microseconds etcdWatchTimeout{5000000};

    nixlAgentConfig() = default;

    // num_workers is accepted and has no effect. Throws std::invalid_argument when there is no such port.
    explicit nixlAgentConfig(
        bool use_prog_thread, bool use_listen_thread = false, int port = default_comm_port,
        nixl_thread_sync_t sync_mode = nixl_thread_sync_t::NIXL_THREAD_SYNC_DEFAULT,
        unsigned int num_workers = 1, std::uint64_t pthr_delay_us = 0, std::uint64_t lthr_delay_us = 100000,
        bool capture_telemetry = false,
        const std::chrono::microseconds &etcd_watch_timeout = std::chrono::microseconds(5000000))
        : useProgThread(use_prog_thread), useListenThread(use_listen_thread), listenPort(checked(port)),
          syncMode(sync_mode), captureTelemetry(capture_telemetry), pthrDelay(pthr_delay_us),
          lthrDelay(lthr_delay_us), etcdWatchTimeout(etcd_watch_timeout) {
        (void)num_workers;
    }

  private:
    static std::uint16_t checked(int port) {
        if (port < 0 || port > 65535) {
            throw std::invalid_argument("there is no port " + std::to_string(port));
        }
        return static_cast<std::uint16_t>(port);
    }
};

#endif
