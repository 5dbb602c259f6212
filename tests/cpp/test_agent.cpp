// SPDX-License-Identifier: Apache-2.0
// Every method of class nixlAgent, between two agents of one process over the MOCK backend.
#include "agent_data.h"

#include <algorithm>
#include <numeric>
#include <thread>

// cmocka last: it has a macro fail().
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
extern "C" {
#include <cmocka.h>
}

namespace {

constexpr std::size_t bytes = 4096;

struct Pair {
    nixlAgent near, far;
    nixlBackendH *near_backend = nullptr, *far_backend = nullptr;
    std::vector<unsigned char> from, to;
    nixl_reg_dlist_t near_reg{DRAM_SEG}, far_reg{DRAM_SEG};

    explicit Pair(bool telemetry = true)
        : near("near", config(telemetry)), far("far", config(telemetry)), from(bytes), to(bytes) {
        std::iota(from.begin(), from.end(), static_cast<unsigned char>(3));
        assert_int_equal(near.createBackend("MOCK", {}, near_backend), NIXL_SUCCESS);
        assert_int_equal(far.createBackend("MOCK", {}, far_backend), NIXL_SUCCESS);
        near_reg.addDesc(nixlBlobDesc(reinterpret_cast<uintptr_t>(from.data()), bytes, 0, ""));
        far_reg.addDesc(nixlBlobDesc(reinterpret_cast<uintptr_t>(to.data()), bytes, 0, ""));
        assert_int_equal(near.registerMem(near_reg), NIXL_SUCCESS);
        assert_int_equal(far.registerMem(far_reg), NIXL_SUCCESS);
        nixl_blob_t blob;
        std::string name;
        assert_int_equal(far.getLocalMD(blob), NIXL_SUCCESS);
        assert_int_equal(near.loadRemoteMD(blob, name), NIXL_SUCCESS);
        assert_string_equal(name.c_str(), "far");
    }

    static nixlAgentConfig config(bool telemetry) {
        nixlAgentConfig made(true);
        made.captureTelemetry = telemetry;
        return made;
    }

    nixl_status_t run(nixlXferReqH *req, const nixl_opt_args_t *extra = nullptr) {
        nixl_status_t status = near.postXferReq(req, extra);
        while (status == NIXL_IN_PROG) {
            std::this_thread::yield();
            status = near.getXferStatus(req);
        }
        return status;
    }

    std::vector<std::string> take(nixlAgent &agent, const std::string &sender, std::size_t count) {
        nixl_notifs_t notifs;
        for (int tries = 0; tries < 200000 && notifs[sender].size() < count; tries++) {
            assert_int_equal(agent.getNotifs(notifs), NIXL_SUCCESS);
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        return notifs[sender];
    }

    nixlXferReqH *write(const nixl_opt_args_t *extra = nullptr) {
        nixlXferReqH *req = nullptr;
        assert_int_equal(near.createXferReq(NIXL_WRITE, near_reg.trim(), far_reg.trim(), "far", req, extra),
                         NIXL_SUCCESS);
        return req;
    }
};

void constructor_throws_and_says_why(void **) {
    int thrown = 0;
    try {
        nixlAgent nobody("", nixlAgentConfig());
    } catch (const std::invalid_argument &error) {
        thrown += error.what()[0] != '\0';
    }
    try {
        nixlAgent nobody(std::string("a\0b", 3), nixlAgentConfig());
    } catch (const std::invalid_argument &) {
        thrown++;
    }
    try {
        nixlAgent longest(std::string(NIXL_NAME_MAX + 1, 'x'), nixlAgentConfig());
    } catch (const std::runtime_error &error) {
        thrown += error.what()[0] != '\0';
    }
    assert_int_equal(thrown, 3);
}

void plugins_and_backends_describe_themselves(void **) {
    Pair pair;
    std::vector<nixl_backend_t> plugins;
    nixl_mem_list_t mems;
    nixl_b_params_t params{{"stale", "1"}};
    nixlBackendH *other = pair.near_backend;

    assert_int_equal(pair.near.getAvailPlugins(plugins), NIXL_SUCCESS);
    assert_int_equal(std::count(plugins.begin(), plugins.end(), "MOCK"), 1);
    assert_int_equal(pair.near.getPluginParams("MOCK", mems, params), NIXL_SUCCESS);
    assert_int_equal(params.count("stale"), 0);
    assert_false(params.empty());
    assert_int_equal(std::count(mems.begin(), mems.end(), DRAM_SEG), 1);
    assert_int_equal(pair.near.getPluginParams("NO_SUCH", mems, params), NIXL_ERR_NOT_FOUND);
    assert_int_equal(pair.near.getBackendParams(pair.near_backend, mems, params), NIXL_SUCCESS);
    assert_int_equal(pair.near.getBackendParams(nullptr, mems, params), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.createBackend("MOCK", {}, other), NIXL_ERR_INVALID_PARAM);
    assert_null(other);
    assert_int_equal(pair.near.createBackend("NO_SUCH", {}, other), NIXL_ERR_NOT_FOUND);
    assert_string_equal(pair.near_backend->getType().c_str(), "MOCK");
    assert_true(pair.near_backend->supportsRemote() && pair.near_backend->supportsLocal() &&
                pair.near_backend->supportsNotif());
    // What a plugin names as its parameters can be given back to it.
    nixlAgent asking("asking", nixlAgentConfig());
    assert_int_equal(asking.getPluginParams("MOCK", mems, params), NIXL_SUCCESS);
    assert_int_equal(asking.createBackend("MOCK", params, other), NIXL_SUCCESS);
}

void write_and_read_carry_every_byte(void **) {
    Pair pair;
    nixlXferReqH *req = pair.write();
    nixlBackendH *backend = nullptr;
    std::chrono::microseconds duration{0}, margin{0};
    nixl_cost_t method;

    // MOCK says 8 bytes a nanosecond and a tenth in doubt.
    assert_int_equal(pair.near.estimateXferCost(req, duration, margin, method), NIXL_SUCCESS);
    assert_int_equal(duration.count(), (bytes / 8 + 999) / 1000);
    assert_int_equal(margin.count(), (bytes / 8 / 10 + 999) / 1000);
    assert_true(method == nixl_cost_t::ANALYTICAL_BACKEND);

    assert_int_equal(pair.near.getXferStatus(req), NIXL_ERR_NOT_POSTED);
    assert_int_equal(pair.run(req), NIXL_SUCCESS);
    assert_true(pair.from == pair.to);
    assert_int_equal(pair.near.queryXferBackend(req, backend), NIXL_SUCCESS);
    assert_ptr_equal(backend, pair.near_backend);
    assert_int_equal(pair.near.releaseXferReq(req), NIXL_SUCCESS);

    std::fill(pair.to.begin(), pair.to.end(), static_cast<unsigned char>(9));
    assert_int_equal(
        pair.near.createXferReq(NIXL_READ, pair.near_reg.trim(), pair.far_reg.trim(), "far", req),
        NIXL_SUCCESS);
    assert_int_equal(pair.run(req), NIXL_SUCCESS);
    assert_true(pair.from == pair.to);
    assert_int_equal(pair.from[bytes - 1], 9);
    assert_int_equal(pair.near.releaseXferReq(req), NIXL_SUCCESS);
}

void missing_handles_are_refused(void **) {
    Pair pair;
    nixlXferReqH *req = reinterpret_cast<nixlXferReqH *>(&pair);
    nixlDlistH *handle = reinterpret_cast<nixlDlistH *>(&pair);
    nixlBackendH *backend;
    nixl_xfer_telem_t times;
    std::chrono::microseconds duration, margin;
    nixl_cost_t method;

    assert_int_equal(pair.near.postXferReq(nullptr), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.getXferStatus(nullptr), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.getXferTelemetry(nullptr, times), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.queryXferBackend(nullptr, backend), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.estimateXferCost(nullptr, duration, margin, method), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.releaseXferReq(nullptr), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.releasedDlistH(nullptr), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.makeXferReq(NIXL_READ, nullptr, {0}, nullptr, {0}, req),
                     NIXL_ERR_INVALID_PARAM);
    assert_null(req);
    assert_int_equal(pair.near.prepXferDlist("nobody", pair.far_reg.trim(), handle), NIXL_ERR_NOT_FOUND);
    assert_null(handle);
    req = reinterpret_cast<nixlXferReqH *>(&pair);
    assert_int_equal(
        pair.near.createXferReq(NIXL_READ, pair.near_reg.trim(), pair.far_reg.trim(), "nobody", req),
        NIXL_ERR_NOT_FOUND);
    assert_null(req);
    // "" is the local side only where a list is prepared.
    assert_int_equal(pair.near.createXferReq(NIXL_READ, pair.near_reg.trim(), pair.far_reg.trim(), "", req),
                     NIXL_ERR_NOT_FOUND);
}

void prepared_lists_pair_by_index(void **) {
    Pair pair;
    nixl_xfer_dlist_t near_list(DRAM_SEG), far_list(DRAM_SEG);
    nixl_stride_dlist_t strided(DRAM_SEG);
    nixlDlistH *local, *local_too, *remote, *own, *by_stride;
    nixlXferReqH *req;
    nixl_xfer_telem_t times;

    for (std::size_t at = 0; at < bytes; at += 512) {
        near_list.addDesc(nixlBasicDesc(pair.near_reg[0].addr + at, 512, 0));
        far_list.addDesc(nixlBasicDesc(pair.far_reg[0].addr + at, 512, 0));
    }
    strided.addDesc(nixlStrideDesc(pair.far_reg[0].addr, 512, 0, 512, 8));
    assert_int_equal(pair.near.prepXferDlist(NIXL_INIT_AGENT, near_list, local), NIXL_SUCCESS);
    assert_int_equal(pair.near.prepXferDlist(near_list, local_too), NIXL_SUCCESS);
    assert_int_equal(pair.near.prepXferDlist("far", far_list, remote), NIXL_SUCCESS);
    assert_int_equal(pair.near.prepXferDlist("near", near_list, own), NIXL_SUCCESS);
    assert_int_equal(pair.near.prepXferDlist("far", strided, by_stride), NIXL_SUCCESS);

    assert_int_equal(pair.near.makeXferReq(NIXL_WRITE, local, {0, 1, 2, 5, 6}, remote, {0, 1, 2, 5, 6}, req),
                     NIXL_SUCCESS);
    assert_int_equal(pair.run(req), NIXL_SUCCESS);
    assert_memory_equal(pair.to.data(), pair.from.data(), 3 * 512);
    assert_int_equal(pair.to[3 * 512], 0);
    assert_int_equal(pair.near.getXferTelemetry(req, times), NIXL_SUCCESS);
    assert_int_equal(times.descCount, 2);
    assert_int_equal(times.totalBytes, 5 * 512);
    assert_true(times.postDuration.count() > 0 && times.xferDuration >= times.postDuration);
    assert_true(times.startTime <= std::chrono::steady_clock::now());
    assert_true(std::chrono::steady_clock::now() - times.startTime < std::chrono::minutes(1));
    assert_int_equal(pair.near.releaseXferReq(req), NIXL_SUCCESS);

    nixl_opt_args_t skip;
    skip.skipDescMerge = true;
    assert_int_equal(
        pair.near.makeXferReq(NIXL_WRITE, local_too, {0, 1, 2}, by_stride, {0, 1, 2}, req, &skip),
        NIXL_SUCCESS);
    assert_int_equal(pair.run(req), NIXL_SUCCESS);
    assert_int_equal(pair.near.getXferTelemetry(req, times), NIXL_SUCCESS);
    assert_int_equal(times.descCount, 3);
    assert_int_equal(pair.near.releaseXferReq(req), NIXL_SUCCESS);

    // Loopback: the last block of near becomes a copy of its first.
    assert_int_equal(pair.near.makeXferReq(NIXL_WRITE, local, {0}, own, {7}, req), NIXL_SUCCESS);
    assert_int_equal(pair.run(req), NIXL_SUCCESS);
    assert_memory_equal(pair.from.data() + 7 * 512, pair.from.data(), 512);
    assert_int_equal(pair.near.releaseXferReq(req), NIXL_SUCCESS);

    assert_int_equal(pair.near.makeXferReq(NIXL_WRITE, local, {8}, remote, {0}, req), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.makeXferReq(NIXL_WRITE, local, {-1}, remote, {0}, req),
                     NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.makeXferReq(NIXL_WRITE, local, {0, 1}, remote, {0}, req),
                     NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.makeXferReq(NIXL_WRITE, local, {}, remote, {}, req), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.makeXferReq(NIXL_WRITE, remote, {0}, local, {0}, req), NIXL_ERR_INVALID_PARAM);
    for (nixlDlistH *handle : {local, local_too, remote, own, by_stride}) {
        assert_int_equal(pair.near.releasedDlistH(handle), NIXL_SUCCESS);
    }
}

void notification_travels_in_both_forms_and_is_stored(void **) {
    Pair pair;
    nixl_opt_args_t stored, old_form, none;
    const std::string binary("d\0\xff", 3);

    stored.notif = binary;
    nixlXferReqH *req = pair.write(&stored);
    assert_int_equal(pair.run(req), NIXL_SUCCESS); // the stored one
    old_form.notifMsg = "old";
    old_form.hasNotif = true;
    assert_int_equal(pair.run(req, &old_form), NIXL_SUCCESS);
    assert_int_equal(pair.run(req), NIXL_SUCCESS);        // "old" again
    assert_int_equal(pair.run(req, &none), NIXL_SUCCESS); // drops it
    assert_int_equal(pair.run(req), NIXL_SUCCESS);
    assert_int_equal(pair.near.genNotif("far", "", nullptr), NIXL_SUCCESS);
    const std::vector<std::string> want = {binary, "old", "old", ""};
    assert_true(pair.take(pair.far, "near", want.size()) == want);
    assert_int_equal(pair.near.releaseXferReq(req), NIXL_SUCCESS);

    assert_int_equal(pair.near.genNotif("near", "to myself"), NIXL_SUCCESS);
    assert_string_equal(pair.take(pair.near, "near", 1)[0].c_str(), "to myself");
    assert_int_equal(pair.near.genNotif("nobody", "x"), NIXL_ERR_NOT_FOUND);
    nixl_opt_args_t by_backend;
    by_backend.backends = {pair.near_backend};
    nixl_notifs_t notifs;
    assert_int_equal(pair.near.getNotifs(notifs, &by_backend), NIXL_SUCCESS);
}

void metadata_is_checked_forgotten_and_partial(void **) {
    Pair pair;
    nixl_blob_t blob = "as it was";
    std::string name = "as it was";
    nixl_reg_dlist_t strange(DRAM_SEG);

    strange.addDesc(nixlBlobDesc(4096, 64, 0, ""));
    assert_int_equal(pair.near.checkRemoteMD("far", nixl_xfer_dlist_t(DRAM_SEG)), NIXL_SUCCESS);
    assert_int_equal(pair.near.checkRemoteMD("far", pair.far_reg.trim()), NIXL_SUCCESS);
    assert_int_equal(pair.near.checkRemoteMD("far", strange.trim()), NIXL_ERR_NOT_FOUND);
    assert_int_equal(pair.near.makeConnection("far"), NIXL_SUCCESS);
    assert_int_equal(pair.near.makeConnection("near"), NIXL_ERR_NOT_FOUND);
    assert_int_equal(pair.far.getLocalPartialMD(strange, blob), NIXL_ERR_NOT_FOUND);
    assert_string_equal(blob.c_str(), "as it was");
    nixl_opt_args_t with_connections;
    with_connections.includeConnInfo = true;
    assert_int_equal(pair.far.getLocalPartialMD(pair.far_reg, blob, &with_connections), NIXL_SUCCESS);
    assert_int_equal(pair.near.invalidateRemoteMD("far"), NIXL_SUCCESS);
    assert_int_equal(pair.near.invalidateRemoteMD("far"), NIXL_ERR_NOT_FOUND);
    assert_int_equal(pair.near.checkRemoteMD("far", nixl_xfer_dlist_t(DRAM_SEG)), NIXL_ERR_NOT_FOUND);
    assert_int_equal(pair.near.loadRemoteMD("garbage", name), NIXL_ERR_MISMATCH);
    assert_string_equal(name.c_str(), "as it was");
    assert_int_equal(pair.near.loadRemoteMD(blob, name), NIXL_SUCCESS);
    assert_int_equal(pair.near.checkRemoteMD("far", pair.far_reg.trim()), NIXL_SUCCESS);
}

void exchange_without_a_way_or_with_a_wrong_port_is_refused(void **) {
    Pair pair;
    nixl_opt_args_t wrong;

    wrong.ipAddr = "127.0.0.1";
    wrong.port = 65536;
    assert_int_equal(pair.near.sendLocalMD(&wrong), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.sendLocalPartialMD(pair.near_reg, &wrong), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.fetchRemoteMD("far", &wrong), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.invalidateLocalMD(&wrong), NIXL_ERR_INVALID_PARAM);
    assert_true(pair.near.sendLocalMD() < 0);
    assert_true(pair.near.fetchRemoteMD("nobody") < 0);
    assert_true(pair.near.sendLocalPartialMD(pair.near_reg) < 0);
    assert_true(pair.near.invalidateLocalMD() < 0);
}

void registrations_count_and_storage_is_asked_one_backend_at_a_time(void **) {
    Pair pair;
    nixl_opt_args_t by_backend;
    std::vector<nixl_query_resp_t> answers(3);

    by_backend.backends = {pair.near_backend};
    assert_int_equal(pair.near.registerMem(pair.near_reg, &by_backend), NIXL_SUCCESS);
    assert_int_equal(pair.near.deregisterMem(pair.near_reg, &by_backend), NIXL_SUCCESS);
    assert_int_equal(pair.near.deregisterMem(pair.near_reg), NIXL_SUCCESS);
    assert_int_equal(pair.near.deregisterMem(pair.near_reg), NIXL_ERR_NOT_FOUND);
    assert_int_equal(pair.near.registerMem(nixl_reg_dlist_t(OBJ_SEG)), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(pair.near.queryMem(pair.near_reg, answers, nullptr), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(answers.size(), 3);
    assert_int_equal(pair.near.queryMem(pair.near_reg, answers, &by_backend), NIXL_SUCCESS);
    assert_int_equal(answers.size(), 1);
}

void telemetry_that_is_off_says_so(void **) {
    Pair pair(false);
    nixl_xfer_telem_t times;
    nixlXferReqH *req = pair.write();

    assert_int_equal(pair.run(req), NIXL_SUCCESS);
    assert_int_equal(pair.near.getXferTelemetry(req, times), NIXL_ERR_NO_TELEMETRY);
    assert_int_equal(pair.near.releaseXferReq(req), NIXL_SUCCESS);
}

void view_of_empty_slots_only_is_refused(void **) {
    Pair pair;
    nixl_remote_dlist_t slots(DRAM_SEG);
    nixlMemViewH view = &pair;

    slots.addDesc(nixlRemoteDesc(0, 0, 0, nixl_null_agent));
    assert_true(pair.near.prepMemView(slots, view) < 0);
    assert_null(view);
    view = &pair;
    assert_true(pair.near.prepMemView(nixl_local_dlist_t(DRAM_SEG), view) < 0);
    assert_null(view);
    pair.near.releaseMemView(&pair); // not a view: refused, and no more
}

// The order of calls in which a C++ inference server uses an agent, from several threads at once.
void a_server_s_order_of_calls_from_four_threads(void **) {
    nixlAgentConfig config(true, false, 0, nixl_thread_sync_t::NIXL_THREAD_SYNC_DEFAULT, 1, 0, 10000, true);
    nixlAgent server("server", config);
    Pair pair;
    nixl_b_params_t params;
    nixl_mem_list_t mems;
    nixlBackendH *backend = nullptr;
    std::vector<unsigned char> memory(4 * bytes);
    nixl_reg_dlist_t reg(DRAM_SEG);
    nixl_blob_t blob;
    std::string name;
    int failed = 0;

    assert_int_equal(server.getPluginParams("MOCK", mems, params), NIXL_SUCCESS);
    assert_int_equal(server.createBackend("MOCK", params, backend), NIXL_SUCCESS);
    nixl_opt_args_t extra;
    extra.backends.push_back(backend);
    reg.addDesc(nixlBlobDesc(reinterpret_cast<uintptr_t>(memory.data()), memory.size(), 0, ""));
    assert_int_equal(server.registerMem(reg, &extra), NIXL_SUCCESS);
    assert_int_equal(pair.far.getLocalMD(blob), NIXL_SUCCESS);
    assert_int_equal(server.loadRemoteMD(blob, name), NIXL_SUCCESS);
    std::vector<std::thread> threads;
    std::mutex lock;
    for (std::size_t id = 0; id < 4; id++) {
        threads.emplace_back([&, id] {
            int bad = 0;
            for (int round = 0; round < 100; round++) {
                nixl_xfer_dlist_t local(DRAM_SEG), remote(DRAM_SEG);
                nixlXferReqH *req = nullptr;
                local.addDesc(nixlBasicDesc(reg[0].addr + id * bytes, 1024, 0));
                remote.addDesc(nixlBasicDesc(pair.far_reg[0].addr + id * 1024, 1024, 0));
                bad += server.createXferReq(NIXL_READ, local, remote, name, req, &extra) != NIXL_SUCCESS;
                nixl_status_t status = server.postXferReq(req, &extra);
                while (status == NIXL_IN_PROG) {
                    std::this_thread::yield();
                    status = server.getXferStatus(req);
                }
                bad += status != NIXL_SUCCESS;
                bad += server.genNotif(name, "done") != NIXL_SUCCESS;
                bad += server.releaseXferReq(req) != NIXL_SUCCESS;
            }
            const std::lock_guard<std::mutex> guard(lock);
            failed += bad;
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    assert_int_equal(failed, 0);
    assert_int_equal(pair.take(pair.far, "server", 400).size(), 400);
    nixl_reg_dlist_t equal(DRAM_SEG);
    equal.addDesc(nixlBlobDesc(reg[0].addr, reg[0].len, 0, ""));
    assert_int_equal(server.deregisterMem(equal, &extra), NIXL_SUCCESS);
}

} // namespace

int main() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constructor_throws_and_says_why),
        cmocka_unit_test(plugins_and_backends_describe_themselves),
        cmocka_unit_test(write_and_read_carry_every_byte),
        cmocka_unit_test(missing_handles_are_refused),
        cmocka_unit_test(prepared_lists_pair_by_index),
        cmocka_unit_test(notification_travels_in_both_forms_and_is_stored),
        cmocka_unit_test(metadata_is_checked_forgotten_and_partial),
        cmocka_unit_test(exchange_without_a_way_or_with_a_wrong_port_is_refused),
        cmocka_unit_test(registrations_count_and_storage_is_asked_one_backend_at_a_time),
        cmocka_unit_test(telemetry_that_is_off_says_so),
        cmocka_unit_test(view_of_empty_slots_only_is_refused),
        cmocka_unit_test(a_server_s_order_of_calls_from_four_threads),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
