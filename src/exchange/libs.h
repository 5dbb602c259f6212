/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of libcurl and jansson that the etcd carrier uses. Both are opened by the first call and stay. */
#ifndef EXCHANGE_LIBS_H
#define EXCHANGE_LIBS_H

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <jansson.h>
#include <nixl/nixl.h>

/* X(member, function) */
#define LIBS_CURL(X)                                                                                         \
    X(global_init, curl_global_init)                                                                         \
    X(easy_init, curl_easy_init)                                                                             \
    X(easy_setopt, (curl_easy_setopt))                                                                       \
    X(easy_perform, curl_easy_perform)                                                                       \
    X(easy_getinfo, (curl_easy_getinfo))                                                                     \
    X(easy_cleanup, curl_easy_cleanup)                                                                       \
    X(easy_strerror, curl_easy_strerror)                                                                     \
    X(multi_init, curl_multi_init)                                                                           \
    X(multi_cleanup, curl_multi_cleanup)                                                                     \
    X(multi_add_handle, curl_multi_add_handle)                                                               \
    X(multi_remove_handle, curl_multi_remove_handle)                                                         \
    X(multi_perform, curl_multi_perform)                                                                     \
    X(multi_poll, curl_multi_poll)                                                                           \
    X(multi_wakeup, curl_multi_wakeup)                                                                       \
    X(multi_info_read, curl_multi_info_read)                                                                 \
    X(slist_append, curl_slist_append)                                                                       \
    X(slist_free_all, curl_slist_free_all)

#define LIBS_JSON(X)                                                                                         \
    X(loadb, json_loadb)                                                                                     \
    X(destroy, json_delete)                                                                                  \
    X(object_get, json_object_get)                                                                           \
    X(array_size, json_array_size)                                                                           \
    X(array_get, json_array_get)                                                                             \
    X(string_value, json_string_value)                                                                       \
    X(string_length, json_string_length)                                                                     \
    X(integer_value, json_integer_value)

#define LIBS_MEMBER(member, function) __typeof__(function) *member;

struct libs {
    struct {
        LIBS_CURL(LIBS_MEMBER)
    } curl;
    struct {
        LIBS_JSON(LIBS_MEMBER)
    } json;
};

/* NULL with words: what is missing and how to get it. Thread-safe. */
const struct libs *libs_get(void);

#endif
