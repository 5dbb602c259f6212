/* SPDX-License-Identifier: Apache-2.0 */
/* The shared key and its macs; see auth.h. The prototypes of libcrypto's HMAC functions are the same in 1.1 and 3. */
#include "base/auth.h"

#include "base/config.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KEY_LEAST 16 /* bytes */
#define KEY_MOST 4096

struct auth {
    char *key;
    size_t len;
    void *(*ctx_new)(void);
    void (*ctx_free)(void *ctx);
    int (*init)(void *ctx, const void *key, int len, const void *md, void *engine);
    int (*update)(void *ctx, const unsigned char *data, size_t len);
    int (*final)(void *ctx, unsigned char *mac, unsigned int *len);
    const void *(*sha256)(void);
};

static nixl_status_t library_open(struct auth *auth) {
    void *library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    const struct {
        const char *name;
        void *at;
    } functions[] = {
        {"HMAC_CTX_new", &auth->ctx_new}, {"HMAC_CTX_free", &auth->ctx_free}, {"HMAC_Init_ex", &auth->init},
        {"HMAC_Update", &auth->update},   {"HMAC_Final", &auth->final},       {"EVP_sha256", &auth->sha256},
    };

    if (library == NULL) {
        library = dlopen("libcrypto.so.1.1", RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) {
        return fail(NIXL_ERR_NOT_SUPPORTED,
                    "NIXL_AUTH_KEY_FILE is set and OpenSSL's libcrypto cannot be opened (%s): "
                    "install it (Debian: libssl3)",
                    dlerror());
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *symbol = dlsym(library, functions[i].name);

        if (symbol == NULL) {
            return fail(NIXL_ERR_NOT_SUPPORTED, "libcrypto has no %s", functions[i].name);
        }
        memcpy(functions[i].at, &symbol, sizeof symbol);
    }
    return NIXL_SUCCESS;
}

static nixl_status_t key_read(struct auth *auth, const char *path) {
    struct stat about;
    int err = file_read(path, KEY_MOST, &auth->key, &auth->len);

    if (err != 0) {
        return fail_errno(NIXL_ERR_INVALID_PARAM, err, "NIXL_AUTH_KEY_FILE: %s cannot be read", path);
    }
    while (auth->len != 0 && text_is_space(auth->key[auth->len - 1])) {
        auth->len--;
    }
    if (auth->len < KEY_LEAST) {
        return fail(NIXL_ERR_INVALID_PARAM,
                    "NIXL_AUTH_KEY_FILE: the key in %s has %zu bytes, at least %d are needed", path,
                    auth->len, KEY_LEAST);
    }
    if (stat(path, &about) == 0 && (about.st_mode & S_IWOTH) != 0) {
        return fail(NIXL_ERR_INVALID_PARAM, "NIXL_AUTH_KEY_FILE: everybody may write to %s", path);
    }
    return NIXL_SUCCESS;
}

nixl_status_t auth_open(struct auth **auth) {
    struct auth *made;
    char *path;
    nixl_status_t status = config_get_string("NIXL_AUTH_KEY_FILE", NULL, &path);

    *auth = NULL;
    if (status != NIXL_SUCCESS || path == NULL || path[0] == '\0') {
        free(status == NIXL_SUCCESS ? path : NULL);
        return status;
    }
    made = calloc(1, sizeof *made);
    status = made != NULL ? key_read(made, path) : fail_memory("a key", sizeof *made);
    free(path);
    if (status == NIXL_SUCCESS) {
        status = library_open(made);
    }
    if (status != NIXL_SUCCESS) {
        auth_close(made);
        return status;
    }
    *auth = made;
    return NIXL_SUCCESS;
}

void auth_close(struct auth *auth) {
    if (auth == NULL) {
        return;
    }
    if (auth->key != NULL) {
        explicit_bzero(auth->key, auth->len);
    }
    free(auth->key);
    free(auth);
}

bool auth_mac(const struct auth *auth, const struct auth_piece *pieces, size_t count,
              uint8_t mac[AUTH_MAC_LEN]) {
    void *ctx = auth->ctx_new();
    unsigned int len = 0;
    bool good = ctx != NULL && auth->init(ctx, auth->key, (int)auth->len, auth->sha256(), NULL) == 1;

    for (size_t i = 0; good && i < count; i++) {
        good = pieces[i].len == 0 || auth->update(ctx, pieces[i].data, pieces[i].len) == 1;
    }
    good = good && auth->final(ctx, mac, &len) == 1 && len == AUTH_MAC_LEN;
    auth->ctx_free(ctx);
    return good;
}

bool auth_equal(const uint8_t *a, const uint8_t *b) {
    uint8_t differ = 0;

    for (size_t i = 0; i < AUTH_MAC_LEN; i++) {
        differ |= (uint8_t)(a[i] ^ b[i]);
    }
    return differ == 0;
}
