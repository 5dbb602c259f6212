/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The initializer macros of nixl.h, compiled as C11 and as C++17 (initializers.cpp includes this file): each sets
 * the size and leaves what its comment says. A member added in the middle of a struct shifts a value and is seen here.
 */
#include <nixl/nixl.h>
#include <stdio.h>

static int number, failed;

static void expect(bool holds, const char *what) {
    number++;
    if (!holds) {
        failed++;
    }
    printf("%sok %d - %s\n", holds ? "" : "not ", number, what);
}

int main(void) {
    const struct nixl_desc block = {4096, 64, 0};
    const struct nixl_list none = NIXL_LIST_INIT;
    const struct nixl_list one = NIXL_LIST(VRAM_SEG, &block, 1);
    const struct nixl_options options = NIXL_OPTIONS_INIT;
    const struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    const struct nixl_xfer_times times = NIXL_XFER_TIMES_INIT;
    const struct nixl_failure_info failure = NIXL_FAILURE_INFO_INIT;
    const struct nixl_cost cost = NIXL_COST_INIT;

    printf("1..12\n");
    expect(sizeof(struct nixl_desc) == 24, "a descriptor has 24 bytes");
    expect(none.size == sizeof none && none.count == 0 && none.items == NULL, "an empty list");
    expect(one.size == sizeof one && one.mem == VRAM_SEG && one.form == NIXL_FORM_PLAIN &&
               one.items == &block && one.item_bytes == 0 && one.count == 1,
           "a list of one");
    expect(options.size == sizeof options && options.backends == NULL && options.backend_count == 0,
           "options: size, no backends");
    expect(options.notif == NULL && options.notif_len == 0 && !options.has_notif, "options: no notification");
    expect(!options.keep_lists && !options.include_conn && !options.notify_failure, "options: no flags");
    expect(options.ip_addr == NULL && options.port == 8888 && options.label == NULL, "options: port 8888");
    expect(options.custom == NULL && options.custom_len == 0 && options.timeout_ms == 0 &&
               options.stall_timeout_ms == 0 && options.wait_ms == 0,
           "options: no custom bytes, default times");
    expect(config.size == sizeof config && !config.progress_thread && !config.listen_thread &&
               !config.capture_telemetry && config.sync == NIXL_SYNC_NONE,
           "configuration: no threads, no telemetry");
    expect(config.listen_port == 8888 && config.listen_address == NULL && config.listen_delay_us == 100000 &&
               config.etcd_watch_timeout_us == 5000000 && config.xfer_timeout_ms == 0 &&
               config.stall_timeout_ms == 0,
           "configuration: port 8888 and the times");
    expect(times.size == sizeof times && times.post_ns == 0 && cost.size == sizeof cost &&
               cost.duration_ns == 0,
           "times and cost are empty");
    expect(failure.size == sizeof failure && failure.status == NIXL_SUCCESS && failure.index == NIXL_NO_INDEX,
           "no failure");
    return failed ? 1 : 0;
}
