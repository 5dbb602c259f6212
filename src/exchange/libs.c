/* SPDX-License-Identifier: Apache-2.0 */
/* Opens libcurl and jansson at their first use, so that a program that does not exchange through etcd never loads them. */
#include "exchange/libs.h"

#include "base/error.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static struct libs libs;
static bool is_open;
static struct lock lock = LOCK_INIT;

/* "(curl_easy_setopt)" is the function where the name alone may be a macro. */
static nixl_status_t symbol_find(void *library, const char *name, void *at) {
    char plain[64];
    void *symbol;

    snprintf(plain, sizeof plain, "%s", name[0] == '(' ? name + 1 : name);
    plain[strcspn(plain, ")")] = '\0';
    symbol = dlsym(library, plain);
    if (symbol == NULL) {
        return fail(NIXL_ERR_NOT_SUPPORTED, "%s is not in the library that was found: it is too old", plain);
    }
    memcpy(at, &symbol, sizeof symbol);
    return NIXL_SUCCESS;
}

static void *library_open(const char *const *names, const char *package) {
    for (const char *const *name = names; *name != NULL; name++) {
        void *library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);

        if (library != NULL) {
            return library;
        }
    }
    (void)fail(NIXL_ERR_NOT_SUPPORTED,
               "the exchange through etcd needs %s, which cannot be opened: install it (Debian: %s)",
               names[0], package);
    return NULL;
}

static nixl_status_t libs_open(void) {
    static const char *const curl_names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", NULL};
    static const char *const json_names[] = {"libjansson.so.4", NULL};
    void *curl = library_open(curl_names, "libcurl4");
    void *json = curl != NULL ? library_open(json_names, "libjansson4") : NULL;
    nixl_status_t status = json != NULL ? NIXL_SUCCESS : NIXL_ERR_NOT_SUPPORTED;

#define FIND_CURL(member, function)                                                                          \
    if (status == NIXL_SUCCESS) {                                                                            \
        status = symbol_find(curl, #function, &libs.curl.member);                                            \
    }
#define FIND_JSON(member, function)                                                                          \
    if (status == NIXL_SUCCESS) {                                                                            \
        status = symbol_find(json, #function, &libs.json.member);                                            \
    }
    LIBS_CURL(FIND_CURL)
    LIBS_JSON(FIND_JSON)
    if (status == NIXL_SUCCESS && libs.curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        status = fail(NIXL_ERR_BACKEND, "libcurl cannot be initialized");
    }
    return status;
}

const struct libs *libs_get(void) {
    bool good;

    lock_take(&lock);
    good = is_open || libs_open() == NIXL_SUCCESS;
    is_open = good;
    lock_drop(&lock);
    return good ? &libs : NULL;
}
