/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of etcd's gateway, as a reply and as a line of a watch: read or refused, and freed. */
#include <assert.h>
#include <stdint.h>

#include "exchange/etcd_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct libs *libs = libs_get();
    struct etcd_reply reply;
    struct etcd_news news;
    struct bytes text = {0};
    struct bytes again = {0};

    if (libs != NULL && etcd_reply_read(libs, data, size, &reply) == NIXL_SUCCESS) {
        assert(!reply.is_error || reply.kv_count == 0);
        etcd_reply_free(&reply);
    }
    if (libs != NULL && etcd_news_read(libs, data, size, &news) == NIXL_SUCCESS) {
        assert(!news.is_error || news.event_count == 0);
        etcd_news_free(&news);
    }
    assert(base64_append(&text, data, size) && text.len == (size + 2) / 3 * 4);
    assert(base64_decode(&again, (const char *)text.data, text.len));
    assert(again.len == size && (size == 0 || memcmp(again.data, data, size) == 0));
    bytes_clear(&again);
    (void)base64_decode(&again, (const char *)data, size);
    bytes_clear(&text);
    bytes_clear(&again);
    assert(bytes_append(&text, data, size) && bytes_append_byte(&text, 0));
    assert(json_quote_append(&again, (const char *)text.data) &&
           again.len >= strlen((const char *)text.data) + 2);
    bytes_free(&text);
    bytes_free(&again);
    return 0;
}
