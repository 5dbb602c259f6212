// SPDX-License-Identifier: Apache-2.0
// The agent of README.md, written with class nixlAgent.
#include "files.h"

#include <nixl.h>

#include <thread>

static unsigned char inbox[mixed_agents][mixed_bytes], source[mixed_bytes], read_back[mixed_bytes];

static void check(nixl_status_t status, const std::string &what) {
    if (status < 0) {
        mixed_fail(what.c_str(), nixl_error());
    }
}

static nixl_xfer_dlist_t list_of(uintptr_t addr) {
    nixl_xfer_dlist_t list(DRAM_SEG);
    list.addDesc(nixlBasicDesc(addr, mixed_bytes, 0));
    return list;
}

static void transfer(nixlAgent &agent, nixl_xfer_op_t op, const void *local, uintptr_t remote,
                     const std::string &peer, const std::optional<std::string> &notif) {
    nixl_opt_args_t options;
    nixlXferReqH *request;
    options.notif = notif;
    check(agent.createXferReq(op, list_of(reinterpret_cast<uintptr_t>(local)), list_of(remote), peer, request,
                              &options),
          peer);
    nixl_status_t status = agent.postXferReq(request);
    for (int tries = 0; tries < 200000 && status == NIXL_IN_PROG; tries++) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        status = agent.getXferStatus(request);
    }
    if (status != NIXL_SUCCESS) {
        mixed_fail(peer.c_str(), nixlEnumStrings::statusStr(status).c_str());
    }
    check(agent.releaseXferReq(request), peer);
}

int main(int argc, char **argv) {
    const struct mixed mixed = mixed_arguments(argc, argv);
    nixlAgent agent(mixed.name, nixlAgentConfig(true));
    nixlBackendH *ucx;
    nixl_reg_dlist_t memory(DRAM_SEG);
    nixl_blob_t blob;
    nixl_notifs_t notifs;
    std::string name;
    char text[128];

    std::memset(source, 'A' + mixed.self, sizeof source);
    check(agent.createBackend("UCX", {}, ucx), "UCX");
    memory.addDesc(nixlBlobDesc(reinterpret_cast<uintptr_t>(inbox), sizeof inbox, 0, ""));
    memory.addDesc(nixlBlobDesc(reinterpret_cast<uintptr_t>(source), sizeof source, 0, ""));
    memory.addDesc(nixlBlobDesc(reinterpret_cast<uintptr_t>(read_back), sizeof read_back, 0, ""));
    check(agent.registerMem(memory), "register");
    check(agent.getLocalMD(blob), "metadata");
    mixed_put(&mixed, "md", blob.data(), blob.size());
    const std::string addresses = std::to_string(memory[0].addr) + " " + std::to_string(memory[1].addr);
    mixed_put(&mixed, "at", addresses.data(), addresses.size());
    for (int i = 0; i < mixed.count; i++) {
        if (i == mixed.self) {
            continue;
        }
        blob.resize(1 << 20);
        blob.resize(mixed_get(&mixed, mixed.names[i], "md", &blob[0], blob.size()));
        check(agent.loadRemoteMD(blob, name), mixed.names[i]);
        text[mixed_get(&mixed, mixed.names[i], "at", text, sizeof text - 1)] = '\0';
        char *rest;
        const uintptr_t their_inbox = std::strtoull(text, &rest, 10),
                        their_source = std::strtoull(rest, nullptr, 10);
        transfer(agent, NIXL_READ, read_back, their_source, name, std::nullopt);
        mixed_compare(&mixed, i, read_back, "read of");
        transfer(agent, NIXL_WRITE, source, their_inbox + static_cast<uintptr_t>(mixed.self * mixed_bytes),
                 name, mixed.name);
    }
    for (int tries = 0; tries < 3000 && notifs.size() < static_cast<size_t>(mixed.count - 1); tries++) {
        check(agent.getNotifs(notifs), "notifications");
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    for (int i = 0; i < mixed.count; i++) {
        if (i != mixed.self) {
            if (notifs[mixed.names[i]] != std::vector<nixl_blob_t>{mixed.names[i]}) {
                mixed_fail(mixed.names[i], "sent another notification, or none");
            }
            mixed_compare(&mixed, i, inbox[i], "inbox of");
        }
    }
    mixed_put(&mixed, "done", "", 0);
    for (int i = 0; i < mixed.count; i++) {
        mixed_get(&mixed, mixed.names[i], "done", text, sizeof text);
    }
    return 0;
}
