/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what etcd's gateway answers; see etcd_reply.h. Nothing here trusts a type, a length or a field to be there. */
#include "exchange/etcd_reply.h"

#include "base/error.h"
#include "base/text.h"

#include <stdio.h>

#define ITEMS_MOST 100000 /* events or values of one answer */

/* ---- base64 ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool base64_append(struct bytes *out, const void *data, size_t len) {
    const uint8_t *from = data;
    size_t quads = len / 3 + (len % 3 != 0);
    uint8_t *at;

    if (quads > SIZE_MAX / 4 || (at = bytes_extend(out, quads * 4)) == NULL) {
        return false;
    }
    for (size_t i = 0; i < len; i += 3, at += 4) {
        size_t left = len - i;
        uint32_t v = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                     (left > 2 ? from[i + 2] : 0u);

        at[0] = (uint8_t)digits[v >> 18];
        at[1] = (uint8_t)digits[v >> 12 & 63];
        at[2] = (uint8_t)(left > 1 ? digits[v >> 6 & 63] : '=');
        at[3] = (uint8_t)(left > 2 ? digits[v & 63] : '=');
    }
    return true;
}

static int digit_value(char c) {
    const char *at = c != '\0' ? strchr(digits, c) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

bool base64_decode(struct bytes *out, const char *text, size_t len) {
    size_t before = out->len;

    if (len % 4 != 0 || !bytes_reserve(out, len / 4 * 3 + 1)) {
        return false;
    }
    for (size_t i = 0; i < len; i += 4) {
        unsigned pad = i + 4 == len ? (unsigned)(text[i + 3] == '=') +
                                          (unsigned)(text[i + 3] == '=' && text[i + 2] == '=')
                                    : 0;
        uint32_t v = 0;

        for (unsigned k = 0; k < 4; k++) {
            int value = k >= 4 - pad ? 0 : digit_value(text[i + k]);

            if (value < 0) {
                out->len = before;
                return false;
            }
            v = v << 6 | (uint32_t)value;
        }
        out->data[out->len++] = (uint8_t)(v >> 16);
        if (pad < 2) {
            out->data[out->len++] = (uint8_t)(v >> 8);
        }
        if (pad < 1) {
            out->data[out->len++] = (uint8_t)v;
        }
    }
    return true;
}

bool json_quote_append(struct bytes *out, const char *text) {
    size_t before = out->len;
    bool good = bytes_append_byte(out, '"');

    for (; good && *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        char escape[8];

        if (c == '"' || c == '\\' || c < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", c);
            good = bytes_append_text(out, escape);
        } else {
            good = bytes_append_byte(out, c);
        }
    }
    good = good && bytes_append_byte(out, '"');
    if (!good) {
        out->len = before;
    }
    return good;
}

/* ---- JSON ---- */

static json_t *member(const struct libs *libs, json_t *object, const char *name) {
    return json_is_object(object) ? libs->json.object_get(object, name) : NULL;
}

/* A number, or a string of digits; 0 for anything else. */
static int64_t number_of(const struct libs *libs, json_t *object, const char *name) {
    json_t *value = member(libs, object, name);
    int64_t number = 0;

    if (json_is_integer(value)) {
        return libs->json.integer_value(value);
    }
    if (json_is_string(value)) {
        (void)text_parse_int(text_of(libs->json.string_value(value)), &number);
    }
    return number;
}

static void words_of(const struct libs *libs, json_t *value, char *words, size_t size) {
    if (json_is_string(value)) {
        snprintf(words, size, "%s", libs->json.string_value(value));
    }
}

/* Bytes in base64; a member that is not there is empty. */
static bool bytes_of(const struct libs *libs, json_t *object, const char *name, struct bytes *out) {
    json_t *value = member(libs, object, name);

    if (value == NULL) {
        return true;
    }
    return json_is_string(value) &&
           base64_decode(out, libs->json.string_value(value), libs->json.string_length(value));
}

static nixl_status_t malformed(const char *what) {
    return fail(NIXL_ERR_MISMATCH, "this is no answer of etcd's gateway: %s", what);
}

static nixl_status_t root_read(const struct libs *libs, const void *data, size_t len, json_t **root) {
    json_error_t error;

    *root = libs->json.loadb(data, len, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(*root)) {
        if (*root != NULL) {
            libs->json.destroy(*root);
        }
        return malformed("it is no JSON object");
    }
    return NIXL_SUCCESS;
}

/* An error stands as {"error": words, "code": n} or {"error": {"message": words, "grpc_code": n}}. */
static bool error_read(const struct libs *libs, json_t *root, char *words, size_t size, int64_t *code) {
    json_t *error = member(libs, root, "error");
    json_t *message = member(libs, root, "message");

    if (error == NULL && (message == NULL || member(libs, root, "code") == NULL)) {
        return false;
    }
    snprintf(words, size, "an error without words");
    words_of(libs, message, words, size);
    if (json_is_object(error)) {
        words_of(libs, member(libs, error, "message"), words, size);
        *code = number_of(libs, error, "grpc_code");
    } else {
        words_of(libs, error, words, size);
        *code = number_of(libs, root, "code");
    }
    return true;
}

static nixl_status_t kvs_read(const struct libs *libs, json_t *list, struct etcd_reply *reply) {
    size_t count = json_is_array(list) ? libs->json.array_size(list) : 0;

    if (list == NULL) {
        return NIXL_SUCCESS;
    }
    if (!json_is_array(list) || count > ITEMS_MOST) {
        return malformed("its list of values");
    }
    reply->kvs = calloc(count != 0 ? count : 1, sizeof *reply->kvs);
    if (reply->kvs == NULL) {
        return fail_memory("values of etcd", count * sizeof *reply->kvs);
    }
    for (; reply->kv_count < count; reply->kv_count++) {
        json_t *one = libs->json.array_get(list, reply->kv_count);
        struct etcd_kv *kv = &reply->kvs[reply->kv_count];

        if (!bytes_of(libs, one, "key", &kv->key) || !bytes_of(libs, one, "value", &kv->value)) {
            reply->kv_count++;
            return malformed("a value is not base64");
        }
        kv->create_revision = number_of(libs, one, "create_revision");
        kv->mod_revision = number_of(libs, one, "mod_revision");
        kv->lease = number_of(libs, one, "lease");
    }
    return NIXL_SUCCESS;
}

nixl_status_t etcd_reply_read(const struct libs *libs, const void *data, size_t len,
                              struct etcd_reply *reply) {
    json_t *root;
    json_t *body;
    nixl_status_t status;

    memset(reply, 0, sizeof *reply);
    status = root_read(libs, data, len, &root);
    if (status != NIXL_SUCCESS) {
        return status;
    }
    reply->is_error = error_read(libs, root, reply->error, sizeof reply->error, &reply->code);
    body = member(libs, root, "result"); /* of a stream */
    body = json_is_object(body) ? body : root;
    if (!reply->is_error) {
        json_t *token = member(libs, body, "token");

        reply->revision = number_of(libs, member(libs, body, "header"), "revision");
        reply->id = number_of(libs, body, "ID");
        reply->ttl = number_of(libs, body, "TTL");
        if (json_is_string(token)) {
            reply->token = strdup(libs->json.string_value(token));
        }
        status = kvs_read(libs, member(libs, body, "kvs"), reply);
    }
    libs->json.destroy(root);
    if (status != NIXL_SUCCESS) {
        etcd_reply_free(reply);
    }
    return status;
}

void etcd_reply_free(struct etcd_reply *reply) {
    for (size_t i = 0; i < reply->kv_count; i++) {
        bytes_free(&reply->kvs[i].key);
        bytes_free(&reply->kvs[i].value);
    }
    free(reply->kvs);
    free(reply->token);
    memset(reply, 0, sizeof *reply);
}

static nixl_status_t events_read(const struct libs *libs, json_t *list, struct etcd_news *news) {
    size_t count = json_is_array(list) ? libs->json.array_size(list) : 0;

    if (list == NULL) {
        return NIXL_SUCCESS;
    }
    if (!json_is_array(list) || count > ITEMS_MOST) {
        return malformed("its list of events");
    }
    news->events = calloc(count != 0 ? count : 1, sizeof *news->events);
    if (news->events == NULL) {
        return fail_memory("events of etcd", count * sizeof *news->events);
    }
    for (; news->event_count < count; news->event_count++) {
        json_t *one = libs->json.array_get(list, news->event_count);
        json_t *type = member(libs, one, "type");
        json_t *kv = member(libs, one, "kv");
        struct etcd_event *event = &news->events[news->event_count];

        event->is_delete = json_is_string(type) && strcmp(libs->json.string_value(type), "DELETE") == 0;
        event->revision = number_of(libs, kv, "mod_revision");
        if (!bytes_of(libs, kv, "key", &event->key) || !bytes_of(libs, kv, "value", &event->value)) {
            news->event_count++;
            return malformed("an event is not base64");
        }
    }
    return NIXL_SUCCESS;
}

nixl_status_t etcd_news_read(const struct libs *libs, const void *data, size_t len, struct etcd_news *news) {
    json_t *root;
    json_t *body;
    int64_t code = 0;
    nixl_status_t status;

    memset(news, 0, sizeof *news);
    status = root_read(libs, data, len, &root);
    if (status != NIXL_SUCCESS) {
        return status;
    }
    news->is_error = error_read(libs, root, news->error, sizeof news->error, &code);
    body = member(libs, root, "result");
    if (!news->is_error && !json_is_object(body)) {
        status = malformed("a watch without a result");
    } else if (!news->is_error) {
        news->is_canceled = json_is_true(member(libs, body, "canceled"));
        news->watch_id = number_of(libs, body, "watch_id");
        news->revision = number_of(libs, member(libs, body, "header"), "revision");
        news->compact_revision = number_of(libs, body, "compact_revision");
        words_of(libs, member(libs, body, "cancel_reason"), news->error, sizeof news->error);
        status = events_read(libs, member(libs, body, "events"), news);
    }
    libs->json.destroy(root);
    if (status != NIXL_SUCCESS) {
        etcd_news_free(news);
    }
    return status;
}

void etcd_news_free(struct etcd_news *news) {
    for (size_t i = 0; i < news->event_count; i++) {
        bytes_free(&news->events[i].key);
        bytes_free(&news->events[i].value);
    }
    free(news->events);
    memset(news, 0, sizeof *news);
}
