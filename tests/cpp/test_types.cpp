// SPDX-License-Identifier: Apache-2.0
// Descriptors, lists, tagged fields, names and defaults of the C++ interface: what needs no agent.
#include "nixl.h"
#include "telemetry_event.h"
#include "utils/common/nixl_time.h"

// cmocka last: it has a macro fail().
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
extern "C" {
#include <cmocka.h>
}

static void assert_text(const std::string &have, const std::string &want) {
    assert_string_equal(have.c_str(), want.c_str());
}

static void descriptors_are_ordered_by_device_address_length(void **) {
    const nixlBasicDesc a(100, 10, 0), b(100, 11, 0), c(101, 1, 0), d(0, 0, 1);

    assert_true(a < b && b < c && c < d && !(d < a) && !(a < a));
    assert_true(a == nixlBasicDesc(100, 10, 0));
    assert_true(a != b);
}

static void a_block_covers_what_lies_in_it_and_no_wrap(void **) {
    const nixlBasicDesc block(100, 50, 2);
    const std::size_t huge = SIZE_MAX;

    assert_true(block.covers(block));
    assert_true(block.covers(nixlBasicDesc(149, 1, 2)));
    assert_false(block.covers(nixlBasicDesc(149, 2, 2)));
    assert_false(block.covers(nixlBasicDesc(99, 1, 2)));
    assert_false(block.covers(nixlBasicDesc(100, 50, 3)));
    assert_false(block.covers(nixlBasicDesc(120, huge, 2)));
    assert_true(block.overlaps(nixlBasicDesc(149, 10, 2)));
    assert_true(block.overlaps(nixlBasicDesc(90, 11, 2)));
    assert_false(block.overlaps(nixlBasicDesc(150, 10, 2)));
    assert_false(block.overlaps(nixlBasicDesc(90, 10, 2)));
    assert_false(block.overlaps(nixlBasicDesc(120, 10, 3)));
}

static void a_descriptor_is_24_little_endian_bytes(void **) {
    const unsigned char want[24] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 1, 0, 0,
                                    0,    0,    0,    0,    7,    0,    0,    0,    0, 0, 0, 0};
    const nixlBasicDesc desc(0x1122334455667788, 256, 7);
    const nixl_blob_t bytes = desc.serialize();

    assert_int_equal(bytes.size(), 24);
    assert_memory_equal(bytes.data(), want, 24);
    assert_true(nixlBasicDesc(bytes) == desc);
    assert_true(nixlBasicDesc(bytes.substr(1)) == nixlBasicDesc());
    assert_true(nixlBlobDesc(bytes + "meta") == nixlBlobDesc(desc, "meta"));
    assert_true(nixlBlobDesc(desc, "meta") != nixlBlobDesc(desc, "atem"));
    assert_true(nixlRemoteDesc(bytes + "peer") == nixlRemoteDesc(desc, "peer"));
    assert_true(nixlRemoteDesc(desc, "peer") != nixlRemoteDesc(desc, "reep"));
    assert_text(nixlBlobDesc(desc, "m").serialize(), bytes + "m");
}

static void list_grows_finds_and_removes(void **) {
    nixl_reg_dlist_t list(DRAM_SEG);

    assert_true(list.isEmpty());
    list.reserve(4);
    list.addDesc(nixlBlobDesc(1, 2, 3, "four"));
    list.emplace(static_cast<uintptr_t>(5), static_cast<size_t>(6), static_cast<uint64_t>(7), "eight");
    assert_int_equal(list.descCount(), 2);
    assert_int_equal(list.getType(), DRAM_SEG);
    assert_int_equal(list.getIndex(nixlBasicDesc(5, 6, 7)), 1);
    assert_int_equal(list.getIndex(nixlBasicDesc(5, 6, 8)), NIXL_ERR_NOT_FOUND);
    const nixl_xfer_dlist_t trimmed = list.trim();
    assert_int_equal(trimmed.descCount(), 2);
    assert_true(trimmed[0] == nixlBasicDesc(1, 2, 3));
    list[0].metaInfo = "other";
    nixl_reg_dlist_t copy = list;
    copy[0].metaInfo = "metadata does not count";
    assert_true(copy == list);
    copy[0].len = 9;
    assert_true(copy != list);
    list.remDesc(0);
    assert_int_equal(list.descCount(), 1);
    int thrown = 0;
    for (int index : {-1, 1}) {
        try {
            list.remDesc(index);
        } catch (const std::out_of_range &) {
            thrown++;
        }
    }
    assert_int_equal(thrown, 2);
    list.resize(3);
    assert_int_equal(list.descCount(), 3);
    assert_true(list[2] == nixlBlobDesc());
    list.clear();
    assert_true(list.isEmpty());
    // Older programs pass a bool in the place of the size.
    assert_int_equal(nixl_xfer_dlist_t(VRAM_SEG, true).descCount(), 1);
    assert_text(trimmed.to_string(true), "2 descriptors of DRAM_SEG: (0x1, 2, 3), (0x5, 6, 7)");
}

// By hand from the byte format: tag, 8 bytes of length, payload, '|'.
static std::string field(const std::string &tag, const std::string &payload) {
    return tag + static_cast<char>(payload.size()) + std::string(7, '\0') + payload + "|";
}

static void plain_list_has_the_bytes_of_the_reference(void **) {
    nixl_xfer_dlist_t list(VRAM_SEG);
    nixlSerDes out, in;

    list.addDesc(nixlBasicDesc(1, 2, 3));
    list.addDesc(nixlBasicDesc(4, 5, 6));
    assert_int_equal(list.serialize(&out), NIXL_SUCCESS);
    const std::string want =
        "nixlSerDes|" + field("nixlDList", "nixlBDList") + field("t", std::string("\1\0\0\0", 4)) +
        field("n", std::string("\2\0\0\0\0\0\0\0", 8)) + field("", list[0].serialize() + list[1].serialize());
    assert_int_equal(out.exportStr().size(), want.size());
    assert_memory_equal(out.exportStr().data(), want.data(), want.size());
    assert_int_equal(in.importStr(want), NIXL_SUCCESS);
    const nixl_xfer_dlist_t back(&in);
    assert_true(back == list);
}

static void list_with_metadata_has_one_field_a_descriptor(void **) {
    nixl_reg_dlist_t list(FILE_SEG);
    nixlSerDes out, in;

    list.addDesc(nixlBlobDesc(0, 4096, 1, "rw:/a"));
    list.addDesc(nixlBlobDesc(0, 0, 2, ""));
    assert_int_equal(list.serialize(&out), NIXL_SUCCESS);
    const std::string want = "nixlSerDes|" + field("nixlDList", "nixlSDList") +
                             field("t", std::string("\4\0\0\0", 4)) +
                             field("n", std::string("\2\0\0\0\0\0\0\0", 8)) + field("", list[0].serialize()) +
                             field("", list[1].serialize());
    assert_memory_equal(out.exportStr().data(), want.data(), want.size());
    assert_int_equal(in.importStr(out.exportStr()), NIXL_SUCCESS);
    const nixl_reg_dlist_t back(&in);
    assert_true(back == list);
    assert_text(back[0].metaInfo, "rw:/a");
}

static void damaged_and_lying_lists_are_read_as_empty(void **) {
    nixl_xfer_dlist_t list(DRAM_SEG);
    nixlSerDes out;

    list.addDesc(nixlBasicDesc(1, 2, 3));
    list.serialize(&out);
    const std::string good = out.exportStr();
    for (std::size_t cut = 0; cut < good.size(); cut++) {
        nixlSerDes in;
        in.importStr(good.substr(0, cut));
        assert_true(nixl_xfer_dlist_t(&in).isEmpty());
    }
    std::string lying = good;
    lying[lying.find("n\x08") + 9 + 7] = '\x7f'; // the count's top byte
    nixlSerDes in;
    in.importStr(lying);
    assert_true(nixl_xfer_dlist_t(&in).isEmpty());
    nixlSerDes other;
    other.importStr(good);
    assert_true(nixl_reg_dlist_t(&other).isEmpty()); // a plain list is no list with metadata
}

static void fields_are_read_in_order_with_their_tags(void **) {
    nixlSerDes out, in;
    const unsigned char bytes[3] = {0, '|', 0xff};
    unsigned char back[3] = {1, 1, 1};

    assert_int_equal(out.addStr("name", "value"), NIXL_SUCCESS);
    assert_int_equal(out.addBuf("bytes", bytes, 3), NIXL_SUCCESS);
    assert_int_equal(out.addBuf("bytes", nullptr, 3), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(out.addBuf("bytes", bytes, -1), NIXL_ERR_INVALID_PARAM);
    assert_int_equal(in.importStr("no such thing"), NIXL_ERR_MISMATCH);
    assert_int_equal(in.importStr(out.exportStr()), NIXL_SUCCESS);
    assert_int_equal(in.addStr("more", ""), NIXL_ERR_MISMATCH);
    assert_text(in.getStr("other"), "");
    assert_text(in.getStr("name"), "value");
    assert_int_equal(in.getBufLen("name"), NIXL_ERR_MISMATCH);
    assert_int_equal(in.getBufLen("bytes"), 3);
    assert_int_equal(in.getBuf("bytes", back, 2), NIXL_ERR_MISMATCH);
    assert_int_equal(in.getBuf("bytes", back, 3), NIXL_SUCCESS);
    assert_memory_equal(back, bytes, 3);
    assert_text(in.getStr("name"), "");
    // A length that would wrap around.
    nixlSerDes wrapping;
    assert_int_equal(wrapping.importStr("nixlSerDes|t" + std::string(8, '\xff') + "x|"), NIXL_SUCCESS);
    assert_text(wrapping.getStr("t"), "");
    assert_text(nixlSerDes::_bytesToString("ab", 2), "ab");
    nixlSerDes::_stringToBytes(back, "xyz", 3);
    assert_memory_equal(back, "xyz", 3);
}

static void names_and_numbers_are_the_reference_s(void **) {
    assert_text(nixlEnumStrings::memTypeStr(BLK_SEG), "BLK_SEG");
    assert_text(nixlEnumStrings::xferOpStr(NIXL_WRITE), "WRITE");
    assert_text(nixlEnumStrings::statusStr(NIXL_ERR_REPOST_ACTIVE), "NIXL_ERR_REPOST_ACTIVE");
    assert_text(nixlEnumStrings::statusStr(static_cast<nixl_status_t>(7)), "BAD_STATUS");
    assert_text(default_metadata_label, "metadata");
    assert_text(nixl_null_agent, "NULL_AGENT");
    assert_text(NIXL_INIT_AGENT, "");
    assert_int_equal(default_comm_port, 8888);
    assert_int_equal(static_cast<int>(nixl_thread_sync_t::NIXL_THREAD_SYNC_STRICT), 1);
    assert_int_equal(static_cast<int>(nixl_thread_sync_t::NIXL_THREAD_SYNC_RW), 2);
    assert_int_equal(static_cast<int>(nixl_thread_sync_t::NIXL_THREAD_SYNC_DEFAULT), 0);
    assert_int_equal(static_cast<int>(nixl_cost_t::ANALYTICAL_BACKEND), 0);
    assert_text(
        nixlEnumStrings::telemetryEventTypeStr(nixl_telemetry_event_type_t::AGENT_TELEMETRY_EVENTS_DROPPED),
        "agent_telemetry_events_dropped");
    const nixl_opt_args_t none;
    assert_true(!none.notif && !none.hasNotif && !none.skipDescMerge && !none.includeConnInfo &&
                none.port == 8888);
}

static void configuration_is_filled_by_position_too(void **) {
    const nixlAgentConfig plain;
    assert_true(!plain.useProgThread && !plain.useListenThread && plain.listenPort == 8888 &&
                !plain.captureTelemetry);
    assert_true(plain.pthrDelay == 0 && plain.lthrDelay == 100000 &&
                plain.etcdWatchTimeout.count() == 5000000);
    const nixlAgentConfig one(true);
    assert_true(one.useProgThread && !one.useListenThread);
    const nixlAgentConfig all(true, true, 1234, nixl_thread_sync_t::NIXL_THREAD_SYNC_RW, 1, 5, 10000, true,
                              std::chrono::microseconds(7));
    assert_true(all.useListenThread && all.listenPort == 1234 &&
                all.syncMode == nixl_thread_sync_t::NIXL_THREAD_SYNC_RW);
    assert_true(all.pthrDelay == 5 && all.lthrDelay == 10000 && all.captureTelemetry);
    assert_int_equal(all.etcdWatchTimeout.count(), 7);
    bool thrown = false;
    try {
        nixlAgentConfig(true, true, 65536);
    } catch (const std::invalid_argument &) {
        thrown = true;
    }
    assert_true(thrown);
}

static void clock_goes_forward_in_four_units(void **) {
    const nixlTime::ns_t before = nixlTime::getNs();
    assert_true(nixlTime::getUs() >= before / 1000);
    assert_true(nixlTime::getMs() >= before / 1000000);
    assert_true(nixlTime::getSec() >= before / 1000000000);
    assert_true(nixlTime::fastSteadyNow().time_since_epoch().count() > 0);
}

int main() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_are_ordered_by_device_address_length),
        cmocka_unit_test(a_block_covers_what_lies_in_it_and_no_wrap),
        cmocka_unit_test(a_descriptor_is_24_little_endian_bytes),
        cmocka_unit_test(list_grows_finds_and_removes),
        cmocka_unit_test(plain_list_has_the_bytes_of_the_reference),
        cmocka_unit_test(list_with_metadata_has_one_field_a_descriptor),
        cmocka_unit_test(damaged_and_lying_lists_are_read_as_empty),
        cmocka_unit_test(fields_are_read_in_order_with_their_tags),
        cmocka_unit_test(names_and_numbers_are_the_reference_s),
        cmocka_unit_test(configuration_is_filled_by_position_too),
        cmocka_unit_test(clock_goes_forward_in_four_units),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
