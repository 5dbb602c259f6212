// SPDX-License-Identifier: Apache-2.0
// Two agents that know each other's names alone meet through etcd: "owner" publishes its metadata, "finder"
// fetches it, writes into owner's memory, and is told when owner withdraws.
//   NIXL_ETCD_ENDPOINTS=http://host:2379 etcd_exchange [backend]        (default: UCX)
#include <nixl.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

static void check(nixl_status_t status, const std::string &what) {
    if (status < 0) {
        std::cerr << what << ": " << nixlEnumStrings::statusStr(status) << ": " << nixl_error() << "\n";
        std::exit(1);
    }
}

// Calls about published metadata return at once, a thread of the agent carries them out: ask until it is so.
static void until(const nixlAgent &agent, const std::string &peer, const nixl_xfer_dlist_t &blocks,
                  nixl_status_t wanted) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    nixl_status_t status;

    while ((status = agent.checkRemoteMD(peer, blocks)) != wanted) {
        if (std::chrono::steady_clock::now() > end) {
            std::cerr << peer << " is not seen as " << nixlEnumStrings::statusStr(wanted) << " but as "
                      << nixlEnumStrings::statusStr(status)
                      << (status < 0 ? std::string(": ") + nixl_error() : "") << "\n";
            std::exit(1);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

int main(int argc, char **argv) {
    const nixl_backend_t type = argc > 1 ? argv[1] : "UCX";
    const char *etcd = std::getenv("NIXL_ETCD_ENDPOINTS");

    if (etcd == nullptr) {
        std::cout << "set NIXL_ETCD_ENDPOINTS to try this\n";
        return 0;
    }
    std::vector<char> from(4096, 'e'), to(4096); // these outlive the agents, which are declared after them
    const nixlAgentConfig config(true);          // with a progress thread
    nixlAgent owner("owner", config), finder("finder", config);
    nixlBackendH *backend;
    check(owner.createBackend(type, {}, backend), type + " of owner");
    check(finder.createBackend(type, {}, backend), type + " of finder");

    nixl_reg_dlist_t from_reg(DRAM_SEG), to_reg(DRAM_SEG);
    from_reg.addDesc(nixlBlobDesc(reinterpret_cast<uintptr_t>(from.data()), from.size(), 0, ""));
    to_reg.addDesc(nixlBlobDesc(reinterpret_cast<uintptr_t>(to.data()), to.size(), 0, ""));
    check(finder.registerMem(from_reg), "register at finder");
    check(owner.registerMem(to_reg), "register at owner");

    // In any order: a fetch waits for what is not published yet, for etcdWatchTimeout of the configuration.
    check(finder.fetchRemoteMD("owner"), "fetch");
    check(owner.sendLocalMD(), "publish");
    until(finder, "owner", to_reg.trim(), NIXL_SUCCESS);
    std::cout << "finder found owner through " << etcd << "\n";

    nixlXferReqH *request;
    check(finder.createXferReq(NIXL_WRITE, from_reg.trim(), to_reg.trim(), "owner", request), "create");
    nixl_status_t status = finder.postXferReq(request);
    while (status == NIXL_IN_PROG) {
        std::this_thread::yield();
        status = finder.getXferStatus(request);
    }
    check(status, "write");
    std::cout << "owner has " << (from == to ? "the bytes" : "other bytes") << "\n";
    check(finder.releaseXferReq(request), "release");

    check(owner.invalidateLocalMD(), "withdraw"); // who has fetched it is told by etcd
    until(finder, "owner", nixl_xfer_dlist_t(DRAM_SEG), NIXL_ERR_NOT_FOUND);
    std::cout << "owner has withdrawn, and finder has forgotten it\n";
    check(finder.deregisterMem(from_reg), "deregister at finder");
    check(owner.deregisterMem(to_reg), "deregister at owner");
    return from == to ? 0 : 1;
}
