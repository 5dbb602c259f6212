// SPDX-License-Identifier: Apache-2.0
// Two agents in one program: "left" writes a buffer into memory of "right", which is told when it is there.
//   single_process [backend]        (default: UCX)
#include <nixl.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

static void check(nixl_status_t status, const std::string &what) {
    if (status < 0) {
        std::cerr << what << ": " << nixlEnumStrings::statusStr(status) << ": " << nixl_error() << "\n";
        std::exit(1);
    }
}

int main(int argc, char **argv) {
    const nixl_backend_t type = argc > 1 ? argv[1] : "UCX";
    const nixlAgentConfig config(true); // with a progress thread
    nixlAgent left("left", config), right("right", config);
    nixlBackendH *left_backend, *right_backend;
    nixl_b_params_t params;
    nixl_mem_list_t kinds;

    check(left.getPluginParams(type, kinds, params), "parameters of " + type);
    std::cout << type << " takes " << kinds.size() << " kinds of memory and has " << params.size()
              << " parameters\n";
    check(left.createBackend(type, {}, left_backend), type + " of left");
    check(right.createBackend(type, {}, right_backend), type + " of right");

    std::vector<char> from(4096, 'n'), to(4096);
    nixl_reg_dlist_t from_reg(DRAM_SEG), to_reg(DRAM_SEG);
    from_reg.addDesc(nixlBlobDesc(reinterpret_cast<uintptr_t>(from.data()), from.size(), 0, ""));
    to_reg.addDesc(nixlBlobDesc(reinterpret_cast<uintptr_t>(to.data()), to.size(), 0, ""));
    check(left.registerMem(from_reg), "register at left");
    check(right.registerMem(to_reg), "register at right");

    nixl_blob_t metadata; // bytes: carry them to left's machine as you like
    std::string name;
    check(right.getLocalMD(metadata), "metadata of right");
    check(left.loadRemoteMD(metadata, name), "load");

    nixl_opt_args_t options;
    nixlXferReqH *request;
    options.notif = "4096 bytes for you";
    check(left.createXferReq(NIXL_WRITE, from_reg.trim(), to_reg.trim(), name, request, &options), "create");
    nixl_status_t status = left.postXferReq(request);
    while (status == NIXL_IN_PROG) {
        std::this_thread::yield();
        status = left.getXferStatus(request);
    }
    check(status, "write");

    nixl_notifs_t notifs;
    while (notifs.empty()) {
        check(right.getNotifs(notifs), "notifications");
    }
    std::cout << "right was told \"" << notifs["left"].front() << "\" and has "
              << (std::memcmp(from.data(), to.data(), to.size()) == 0 ? "the bytes" : "other bytes") << "\n";
    check(left.releaseXferReq(request), "release");
    check(left.deregisterMem(from_reg), "deregister at left");
    check(right.deregisterMem(to_reg), "deregister at right");
    return from == to ? 0 : 1;
}
