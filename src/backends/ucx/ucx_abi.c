/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds libucp, opens it and fills the table of its functions. The order: the one the process has already (unless the
 * user's path names one that cannot be mixed up with it), the user's path (option or NIXL_UCX_PATH), the path the build
 * was given, the system's, the `libucx` wheel near the plugin or in the Python environment. Calls come one at a time
 * (the agent's control lock does not span agents, so there is one here).
 */
#include "ucx_abi.h"

#include "base/text.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UCX_SONAME "libucp.so.0"
#define UCX_OLDEST UCX_VERSION(1, 13, 0)

static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ucx_library library;
static bool library_is_open;
static uint32_t library_generation; /* fork_generation() when it was opened; 0: never */

struct symbol {
    const char *name;
    size_t offset;
    bool optional;
};

#define SYMBOL(member)                                                                                       \
    { "ucp_" #member, offsetof(struct ucx_abi, member), false }
#define SYMBOL_OPTIONAL(member)                                                                              \
    { "ucp_" #member, offsetof(struct ucx_abi, member), true }

static const struct symbol symbols[] = {
    SYMBOL(lib_query),
    SYMBOL(get_version),
    SYMBOL(get_version_string),
    SYMBOL(config_read),
    SYMBOL(config_modify),
    SYMBOL(config_release),
    SYMBOL(init_version),
    SYMBOL(cleanup),
    SYMBOL(context_query),
    SYMBOL(worker_create),
    SYMBOL(worker_destroy),
    SYMBOL(worker_query),
    SYMBOL(worker_release_address),
    SYMBOL(worker_progress),
    SYMBOL(worker_get_efd),
    SYMBOL(worker_arm),
    SYMBOL(worker_set_am_recv_handler),
    SYMBOL(ep_create),
    SYMBOL(ep_close_nbx),
    SYMBOL(ep_flush_nbx),
    SYMBOL(ep_print_info),
    SYMBOL_OPTIONAL(ep_evaluate_perf),
    SYMBOL_OPTIONAL(ep_query),
    SYMBOL(mem_map),
    SYMBOL(mem_unmap),
    SYMBOL(mem_query),
    SYMBOL(rkey_pack),
    SYMBOL(rkey_buffer_release),
    SYMBOL(ep_rkey_unpack),
    SYMBOL(rkey_destroy),
    SYMBOL(put_nbx),
    SYMBOL(get_nbx),
    SYMBOL(am_send_nbx),
    SYMBOL(request_free),
    SYMBOL(dt_create_generic),
    SYMBOL(dt_destroy),
    {"ucs_status_string", offsetof(struct ucx_abi, status_string), false},
    {"ucs_log_push_handler", offsetof(struct ucx_abi, log_push_handler), true},
};

/* ---- UCX's own words ---- */

static _Thread_local struct {
    const struct nixl_host *host;
    unsigned depth;
    char text[256];
} inside;

static ucs_log_func_rc_t on_log(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                const ucs_log_component_config_t *component, const char *message,
                                va_list args) {
    char text[sizeof inside.text];

    (void)file;
    (void)line;
    (void)function;
    (void)component;
    /* A fatal line is about to end the process: it must be seen. */
    if (inside.depth == 0 || level > UCS_LOG_LEVEL_WARN || level == UCS_LOG_LEVEL_FATAL) {
        return UCS_LOG_FUNC_RC_CONTINUE;
    }
    (void)vsnprintf(text, sizeof text, message, args);
    if (inside.text[0] == '\0') {
        memcpy(inside.text, text, sizeof text);
    }
    inside.host->log(inside.host->ctx, NIXL_LOG_INFO, "UCX: %s", text);
    return UCS_LOG_FUNC_RC_STOP;
}

void ucx_inside_enter(const struct nixl_host *host) {
    if (inside.depth++ == 0) {
        inside.host = host;
        inside.text[0] = '\0';
    }
}

void ucx_inside_leave(void) {
    inside.depth--;
}

const char *ucx_inside_text(void) {
    return inside.text;
}

const char *ucx_words(const struct ucx_library *lib, ucs_status_t status, char *buf, size_t size) {
    size_t len = 0;

    text_append(buf, size, &len, "UCX %s says: %s", lib->version_text, lib->abi.status_string(status));
    if (inside.text[0] != '\0') {
        text_append(buf, size, &len, " (%s)", inside.text);
        inside.text[0] = '\0';
    }
    return buf;
}

nixl_status_t ucx_status(ucs_status_t status) {
    switch ((int)status) {
    case UCS_OK:
        return NIXL_SUCCESS;
    case UCS_INPROGRESS:
    case UCS_ERR_BUSY:
        return NIXL_IN_PROG;
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_CANCELED:
        return NIXL_ERR_REMOTE_DISCONNECT;
    case UCS_ERR_INVALID_PARAM:
        return NIXL_ERR_INVALID_PARAM;
    default:
        return NIXL_ERR_BACKEND;
    }
}

/* ---- finding the file ---- */

static bool file_exists(const char *path) {
    return access(path, R_OK) == 0;
}

/* Writes the libucp that `path` means (a file, its folder, a prefix, a folder with the wheel) to `found`. */
static bool path_resolve(const char *path, char *found, size_t size) {
    static const char *const below[] = {UCX_SONAME, "lib/" UCX_SONAME, "lib64/" UCX_SONAME,
                                        "libucx/lib/" UCX_SONAME};
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;

    if (strncmp(base, "libucp", 6) == 0 && strstr(base, ".so") != NULL && file_exists(path)) {
        return (size_t)snprintf(found, size, "%s", path) < size;
    }
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        if ((size_t)snprintf(found, size, "%s/%s", path, below[i]) < size && file_exists(found)) {
            return true;
        }
    }
    return false;
}

/* The wheel beside the plugin: ../libucx of its folder and of the folders above it. */
static bool wheel_near_plugin(char *found, size_t size) {
    Dl_info info;
    char folder[PATH_MAX];

    if (dladdr(symbols, &info) == 0 || realpath(info.dli_fname, folder) == NULL) {
        return false;
    }
    for (int up = 0; up < 5; up++) {
        char *slash = strrchr(folder, '/');

        if (slash == NULL || slash == folder) {
            return false;
        }
        *slash = '\0';
        if (path_resolve(folder, found, size)) {
            return true;
        }
    }
    return false;
}

/* The wheel in the folders that a Python of this environment would import from. */
static bool wheel_in_python(const struct nixl_host *host, char *found, size_t size) {
    const char *environment = host->config(host->ctx, "VIRTUAL_ENV");
    struct text rest = text_of(host->config(host->ctx, "PYTHONPATH"));
    struct text piece;
    char pattern[PATH_MAX];
    glob_t hits;
    bool ok = false;

    while (text_split(&rest, ':', &piece)) {
        char folder[PATH_MAX];

        if (piece.len > 0 && piece.len < sizeof folder) {
            memcpy(folder, piece.at, piece.len);
            folder[piece.len] = '\0';
            if (path_resolve(folder, found, size)) {
                return true;
            }
        }
    }
    for (int i = 0; i < 2 && !ok; i++) {
        const char *prefix = i == 0 ? environment : "/usr/local";
        const char *packages = i == 0 ? "site-packages" : "dist-packages";

        if (prefix == NULL) {
            continue;
        }
        (void)snprintf(pattern, sizeof pattern, "%s/lib/python3*/%s/libucx/lib/" UCX_SONAME, prefix,
                       packages);
        if (glob(pattern, 0, NULL, &hits) == 0) {
            ok = (size_t)snprintf(found, size, "%s", hits.gl_pathv[0]) < size;
            globfree(&hits);
        }
    }
    return ok;
}

static int open_flags(const struct nixl_host *host) {
    const char *deepbind = host->config(host->ctx, "NIXL_UCX_DEEPBIND");
    bool on = false;

    if (deepbind != NULL && text_parse_bool(text_of(deepbind), &on) != TEXT_OK) {
        host->log(host->ctx, NIXL_LOG_WARN, "NIXL_UCX_DEEPBIND=%s is neither yes nor no: taken as no",
                  deepbind);
    }
    return RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | (on ? RTLD_DEEPBIND : 0);
}

/* Opens the first libucp in the order of the head comment; NULL with the failure said. */
static void *library_find(const struct nixl_host *host, const char *path, int flags, nixl_status_t *status) {
    char found[PATH_MAX];
    char first_error[512];
    void *handle;

    if (path[0] != '\0') {
        if (!path_resolve(path, found, sizeof found)) {
            *status = host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED,
                                 "there is no " UCX_SONAME
                                 " at %s, nor in it, nor in lib/ below it (option ucx_path, "
                                 "variable NIXL_UCX_PATH)",
                                 path);
            return NULL;
        }
        handle = dlopen(found, flags);
        if (handle == NULL) {
            *status = host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED, "%s does not open: %s", found, dlerror());
        }
        return handle;
    }
#ifdef NIXL_UCX_PATH
    if (path_resolve(NIXL_UCX_PATH, found, sizeof found) && (handle = dlopen(found, flags)) != NULL) {
        return handle;
    }
#endif
    handle = dlopen(UCX_SONAME, flags);
    if (handle != NULL) {
        return handle;
    }
    (void)snprintf(first_error, sizeof first_error, "%s", dlerror());
    if ((wheel_near_plugin(found, sizeof found) || wheel_in_python(host, found, sizeof found)) &&
        (handle = dlopen(found, flags)) != NULL) {
        return handle;
    }
    *status = host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED,
                         "UCX is not installed: %s. Get it with \"apt install libucx0\" or \"pip install "
                         "libucx-cu12\", or name its folder with option ucx_path or NIXL_UCX_PATH",
                         first_error);
    return NULL;
}

/* ---- opening it ---- */

/* Switches of UCX's constructors, which read the environment while the library is being loaded. */
static void environment_prepare(const struct nixl_host *host, bool hooks) {
    const char *mode = getenv("UCX_MEM_MMAP_HOOK_MODE");

    library.hooks_were_set = mode != NULL;
    if (mode == NULL && !hooks) {
        /* They cost 400 ms in 1.22 and nothing here needs them: all memory is registered explicitly. */
        (void)setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 0);
    }
    /* UCX's handlers of SIGSEGV and the like would replace the application's. */
    (void)setenv("UCX_HANDLE_ERRORS", "none", 0);
    /* NIXL may set variables for transports that turn out not to be there; that is no news to anybody. */
    (void)setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 0);
    host->log(host->ctx, NIXL_LOG_DEBUG, "UCX memory hooks: %s", mode != NULL ? mode : hooks ? "on" : "off");
}

static nixl_status_t symbols_load(const struct nixl_host *host, void *handle, struct ucx_abi *abi) {
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *address = dlsym(handle, symbols[i].name);

        if (address == NULL && !symbols[i].optional) {
            struct link_map *map = NULL;

            return host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED,
                              "%s has no %s: it is another library, or a UCX older than 1.13",
                              dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : UCX_SONAME,
                              symbols[i].name);
        }
        memcpy((char *)abi + symbols[i].offset, &address, sizeof address);
    }
    return NIXL_SUCCESS;
}

nixl_status_t ucx_library_check_threads(const struct nixl_host *host, const struct ucx_abi *abi,
                                        const char *version, const char *path) {
    ucp_lib_attr_t attr = {.field_mask = UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL};
    ucs_status_t status = abi->lib_query(&attr);

    if (status != UCS_OK) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "UCX %s does not say which thread modes it has: %s",
                          version, abi->status_string(status));
    }
    if (attr.max_thread_level < UCS_THREAD_MODE_MULTI) {
        return host->fail(
            host->ctx, NIXL_ERR_NOT_SUPPORTED,
            "UCX %s (%s) was built without support for threads (configure --enable-mt): NIXL needs it",
            version, path);
    }
    return NIXL_SUCCESS;
}

/* What may be wrong with a library that opened. */
static nixl_status_t library_check(const struct nixl_host *host, struct ucx_library *lib) {
    const char *expected = host->config(host->ctx, "NIXL_UCX_EXPECTED_SONAME");
    const char *mode = getenv("UCX_MEM_MMAP_HOOK_MODE");
    unsigned major = 0, minor = 0, patch = 0;

    lib->abi.get_version(&major, &minor, &patch);
    lib->version = UCX_VERSION(major, minor, patch);
    (void)snprintf(lib->version_text, sizeof lib->version_text, "%u.%u.%u", major, minor, patch);
    if (expected != NULL && expected[0] != '\0' && strstr(lib->path, expected) == NULL) {
        return host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED,
                          "UCX was found as %s, but NIXL_UCX_EXPECTED_SONAME wants a path with \"%s\" in it",
                          lib->path, expected);
    }
    if (major != 1 || lib->version < UCX_OLDEST) {
        return host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED, "UCX %s (%s) is not one of 1.13 or later",
                          lib->version_text, lib->path);
    }
    if (mode != NULL && strcmp(mode, "reloc") == 0 && lib->version < UCX_VERSION(1, 14, 0)) {
        return host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED,
                          "UCX_MEM_MMAP_HOOK_MODE=reloc makes UCX %s spin for ever on current systems: use "
                          "bistro or none",
                          lib->version_text);
    }
    return ucx_library_check_threads(host, &lib->abi, lib->version_text, lib->path);
}

/* A libucp under a name of its own ("libucp-nixl.so.0"), whose parts have such names too: nothing of it can be mixed up
 * with another UCX in the process. */
static bool path_is_private(const char *path) {
    const char *slash = strrchr(path, '/');

    return strncmp(slash != NULL ? slash + 1 : path, "libucp-", 7) == 0;
}

/* Opens the modules of a private UCX, so that they too find its symbols first: the other UCX in the process may have been
 * opened for all to see, and UCX opens its modules without that care. Modules that do not open stay out. */
static void modules_open(const char *path, int flags) {
    const char *slash = strrchr(path, '/');
    char pattern[PATH_MAX];
    glob_t hits;

    if (slash == NULL ||
        (size_t)snprintf(pattern, sizeof pattern, "%.*s/ucx/lib*.so.0", (int)(slash - path), path) >=
            sizeof pattern ||
        glob(pattern, 0, NULL, &hits) != 0) {
        return;
    }
    for (size_t i = 0; i < hits.gl_pathc; i++) {
        (void)dlopen(hits.gl_pathv[i], flags);
    }
    globfree(&hits);
}

static nixl_status_t library_load(const struct nixl_host *host, const char *path, bool hooks) {
    struct ucx_library lib = {0};
    nixl_status_t status = NIXL_ERR_NOT_SUPPORTED;
    int flags = open_flags(host);
    void *handle = dlopen(UCX_SONAME, flags | RTLD_NOLOAD);
    Dl_info info;
    void *address;
    bool apart;

    apart = handle != NULL && path_is_private(path);
    lib.was_loaded = handle != NULL && !apart;
    if (!lib.was_loaded) {
        environment_prepare(host, hooks);
        lib.hooks_were_set = library.hooks_were_set;
        handle = library_find(host, path, flags | (apart ? RTLD_DEEPBIND : 0), &status);
        if (handle == NULL) {
            return status;
        }
        if (apart) {
            modules_open(path, flags | RTLD_DEEPBIND);
        }
    }
    status = symbols_load(host, handle, &lib.abi);
    if (status != NIXL_SUCCESS) {
        return status;
    }
    memcpy(&address, &lib.abi.get_version_string, sizeof address);
    if (dladdr(address, &info) != 0 && info.dli_fname != NULL) {
        (void)snprintf(lib.path, sizeof lib.path, "%s", info.dli_fname);
    }
    status = library_check(host, &lib);
    if (status != NIXL_SUCCESS) {
        return status;
    }
    if (lib.was_loaded && path[0] != '\0' && strncmp(lib.path, path, strlen(path)) != 0) {
        host->log(host->ctx, NIXL_LOG_WARN,
                  "UCX %s (%s) was in this process before NIXL: it is used, ucx_path %s is not",
                  lib.version_text, lib.path, path);
    }
    if (lib.abi.log_push_handler != NULL) {
        lib.abi.log_push_handler(on_log);
    }
    library = lib;
    library_is_open = true;
    library_generation = fork_generation();
    host->log(host->ctx, NIXL_LOG_DEBUG, "UCX %s: %s%s", lib.version_text, lib.path,
              lib.was_loaded ? " (it was in this process already)" : "");
    return NIXL_SUCCESS;
}

bool ucx_library_was_forked(void) {
    return library_generation != 0 && library_generation != fork_generation();
}

nixl_status_t ucx_library_open(const struct nixl_host *host, const char *path, bool hooks,
                               const struct ucx_library **out) {
    nixl_status_t status = NIXL_SUCCESS;

    if (ucx_library_was_forked()) {
        return host->fail(host->ctx, NIXL_ERR_NOT_ALLOWED,
                          "UCX was started before fork(); use spawn or exec for processes that need it too");
    }
    (void)fork_generation();
    pthread_mutex_lock(&library_lock);
    if (!library_is_open) {
        status = library_load(host, path, hooks);
    } else if (path[0] != '\0' && strncmp(library.path, path, strlen(path)) != 0) {
        host->log(host->ctx, NIXL_LOG_WARN, "UCX %s (%s) is open in this process: ucx_path %s is not used",
                  library.version_text, library.path, path);
    }
    pthread_mutex_unlock(&library_lock);
    if (status == NIXL_SUCCESS) {
        *out = &library;
    }
    return status;
}
