/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend that breaks one promise of the plugin interface, by its option `fault`. It has no progress and no
 * arm operation.
 */
#include <nixl/backend.h>

#include <stddef.h>
#include <string.h>

enum fault {
    NONE,
    ODD_STATUS,
    EVENT,
    PERIOD,
    CONN_FAILS,
    NO_CONN,
    NOTE_FAILS,
    LONG_NOTE,
    NULL_NOTE,
    LOGS,
    ODD_KEYS
};

struct faulty_options {
    int fault;
};

static const struct nixl_option option_table[] = {
    {.name = "fault",
     .kind = NIXL_OPTION_ENUM,
     .offset = offsetof(struct faulty_options, fault),
     .default_value = "none",
     .choices =
         "none|odd_status|event|period|conn_fails|no_conn|note_fails|long_note|null_note|logs|odd_keys",
     .help = "the promise that is broken"},
};

static struct {
    int fault;
    int open;
    int regions;
    unsigned keys;
} faulty;

static nixl_status_t on_open(const struct nixl_host *host, const void *options,
                             struct nixl_instance *instance, void **self) {
    faulty.fault = ((const struct faulty_options *)options)->fault;
    if (faulty.fault == ODD_STATUS) {
        return NIXL_IN_PROG;
    }
    if (faulty.fault == EVENT) {
        instance->event_fd = 0;
    }
    if (faulty.fault == PERIOD) {
        instance->period_us = 5;
    }
    if (faulty.fault == LOGS && host->log_wants(host->ctx, NIXL_LOG_WARN)) {
        host->log(host->ctx, NIXL_LOG_WARN, "the %s is odd", "weather");
        host->log(host->ctx, NIXL_LOG_TRACE, "never seen");
        host->wake(host->ctx);
    }
    faulty.open++;
    *self = &faulty;
    return NIXL_SUCCESS;
}

static void on_close(void *self) {
    faulty.open--;
}

static nixl_status_t on_region_open(void *self, nixl_mem_t mem, const struct nixl_meta_desc *desc,
                                    void **region) {
    static unsigned taken;

    if (faulty.fault != ODD_KEYS) {
        return NIXL_ERR_NOT_SUPPORTED;
    }
    faulty.regions++;
    *region = &taken;
    return NIXL_SUCCESS;
}

static void on_region_close(void *self, void *region) {
    faulty.regions--;
}

static void on_two(void *self, void *other) {}

/* Without words of its own, or longer than a blob can carry. */
static nixl_status_t on_region_key(void *self, void *region, const void **key, size_t *len) {
    *key = "key";
    *len = (size_t)UINT32_MAX + 1;
    return faulty.keys++ % 2 == 0 ? NIXL_ERR_NOT_SUPPORTED : NIXL_SUCCESS;
}

static nixl_status_t on_conn(void *self, const void **conn, size_t *len) {
    *conn = "conn";
    *len = faulty.fault == NO_CONN ? 0 : 4;
    return faulty.fault == CONN_FAILS ? NIXL_ERR_UNKNOWN : NIXL_SUCCESS;
}

static nixl_status_t on_note(void *self, const void **note, size_t *len) {
    static const char text[300] = "note";

    *note = faulty.fault == NULL_NOTE ? NULL : text;
    *len = faulty.fault == LONG_NOTE ? 256 : 4;
    return faulty.fault == NOTE_FAILS ? NIXL_ERR_BACKEND : NIXL_SUCCESS;
}

static nixl_status_t on_peer_open(void *self, const char *name, void *token, const void *conn,
                                  size_t conn_len, const void *note, size_t note_len, void **peer) {
    return NIXL_ERR_NOT_SUPPORTED;
}

static nixl_status_t on_key_open(void *self, void *peer, nixl_mem_t mem, const struct nixl_desc *desc,
                                 const void *bytes, size_t len, void **key) {
    return NIXL_ERR_NOT_SUPPORTED;
}

static void on_key_close(void *self, void *peer, void *key) {}

static nixl_status_t on_post(void *self, struct nixl_request *request) {
    return NIXL_ERR_NOT_SUPPORTED;
}

static void on_cancel(void *self, struct nixl_request *request, enum nixl_cancel how) {}

static nixl_status_t on_notify(void *self, void *peer, const void *msg, size_t len) {
    return NIXL_ERR_NOT_SUPPORTED;
}

NIXL_API int faulty_open_count(void);

int faulty_open_count(void) {
    return faulty.open;
}

NIXL_API int faulty_region_count(void);

int faulty_region_count(void) {
    return faulty.regions;
}

const struct nixl_backend_ops *nixl_backend_v1(void) {
    static const struct nixl_backend_ops ops = {
        .abi = NIXL_BACKEND_ABI,
        .size = sizeof(struct nixl_backend_ops),
        .name = "FAULTY",
        .version = "0",
        .summary = "breaks promises (tests only)",
        .mems = NIXL_MEM_BIT(DRAM_SEG),
        .caps = NIXL_CAP_REMOTE | NIXL_CAP_NOTIF,
        .rank = NIXL_RANK_NETWORK,
        .options_bytes = sizeof(struct faulty_options),
        .options = option_table,
        .option_count = 1,
        .open = on_open,
        .close = on_close,
        .region_open = on_region_open,
        .region_close = on_region_close,
        .region_key = on_region_key,
        .conn_info = on_conn,
        .note = on_note,
        .peer_open = on_peer_open,
        .peer_close = on_two,
        .key_open = on_key_open,
        .key_close = on_key_close,
        .post = on_post,
        .cancel = on_cancel,
        .notify = on_notify,
    };

    return &ops;
}
