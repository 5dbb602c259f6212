/* SPDX-License-Identifier: Apache-2.0 */
/* Reading addresses of stores; see endpoint.h. */
#include "exchange/endpoint.h"

#include "base/error.h"

#include <string.h>

static nixl_status_t malformed(const char *what, struct text value, const char *why) {
    /* What stands before an @ would be a password. */
    if (value.len != 0 && memchr(value.at, '@', value.len) != NULL) {
        return fail(NIXL_ERR_INVALID_PARAM, "%s: user and password do not belong into an address", what);
    }
    return fail(NIXL_ERR_INVALID_PARAM, "%s: \"%.*s\" %s", what, (int)(value.len < 200 ? value.len : 200),
                value.at, why);
}

static bool is_host(struct text host, bool is_bracketed) {
    const char *others = is_bracketed ? ":.%" : "-._";

    for (size_t i = 0; i < host.len; i++) {
        char c = host.at[i];
        bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (c == '\0' || (!is_plain && strchr(others, c) == NULL)) {
            return false;
        }
    }
    return host.len != 0;
}

nixl_status_t endpoint_split(const char *what, struct text value, struct text *host, uint16_t *port) {
    bool is_bracketed = value.len != 0 && value.at[0] == '[';
    const char *end = value.len == 0 ? NULL : memrchr(value.at, is_bracketed ? ']' : ':', value.len);
    struct text name = value;
    struct text tail = {NULL, 0};
    uint64_t number = 0;

    if (is_bracketed) {
        if (end == NULL) {
            return malformed(what, value, "has no closing bracket");
        }
        name = (struct text){value.at + 1, (size_t)(end - value.at) - 1};
        end++;
        end = end < value.at + value.len ? end : NULL;
    } else if (end != NULL) {
        name.len = (size_t)(end - value.at);
    }
    if (end != NULL) {
        tail = (struct text){end + 1, (size_t)(value.at + value.len - end) - 1};
        if (*end != ':' || text_parse_uint(tail, &number) != TEXT_OK || number == 0 || number > UINT16_MAX) {
            return malformed(what, value, "has no port from 1 to 65535 after the host");
        }
    }
    if (!is_host(name, is_bracketed)) {
        return malformed(what, value, "must be host:port (an IPv6 address in brackets)");
    }
    *host = name;
    *port = (uint16_t)number;
    return NIXL_SUCCESS;
}

bool endpoint_next(struct text *rest, struct text *piece) {
    while (rest->len != 0) {
        size_t len = 0;

        while (len < rest->len && rest->at[len] != ',' && rest->at[len] != ';') {
            len++;
        }
        *piece = text_trim((struct text){rest->at, len});
        len += len < rest->len;
        rest->at += len;
        rest->len -= len;
        if (piece->len != 0) {
            return true;
        }
    }
    return false;
}

static nixl_status_t check_url(const char *what, struct text url) {
    const char *mark = memmem(url.at, url.len, "://", 3);
    struct text rest = url;
    struct text host;
    uint16_t port;

    if (mark != NULL) {
        struct text scheme = {url.at, (size_t)(mark - url.at)};

        if (!text_equal(scheme, "http") && !text_equal(scheme, "https")) {
            return malformed(what, url, "is neither http:// nor https://");
        }
        rest.at = mark + 3;
        rest.len -= scheme.len + 3;
    }
    while (rest.len != 0 && rest.at[rest.len - 1] == '/') {
        rest.len--;
    }
    return endpoint_split(what, rest, &host, &port);
}

nixl_status_t endpoint_check_urls(const char *what, const char *list) {
    struct text rest = text_of(list);
    struct text piece;
    nixl_status_t status = NIXL_SUCCESS;
    size_t count = 0;

    for (; status == NIXL_SUCCESS && endpoint_next(&rest, &piece); count++) {
        status = check_url(what, piece);
    }
    return status == NIXL_SUCCESS && count == 0 ? fail(NIXL_ERR_INVALID_PARAM, "%s names no endpoint", what)
                                                : status;
}
