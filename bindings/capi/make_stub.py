#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the stub library's source from nixl/capi.h: one function of the same name for each declared one, which looks
its original up in a libnixl_capi that is opened at the first call.   make_stub.py capi.h stub.c"""
import re
import sys

HEAD = '''/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Made from nixl/capi.h by make_stub.py. A program that is built where there is no NIXL links this; its first call
 * opens libnixl_capi.so.0, else libnixl_capi.so, and all calls go there. Without a library, with one of another
 * major version or for a function that it lacks: ERROR_INVALID_STATE; destroying and releasing succeed.
 */
#include <dlfcn.h>
#include <nixl/capi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {
%(names)s};
static void *entries[sizeof names / sizeof names[0]];
static bool is_open;
static char failure[512];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
    int major = NIXL_CAPI_VERSION_MAJOR, minor = 0, patch = 0;
    nixl_capi_status_t (*get_version)(int *, int *, int *);
    void *library = dlopen("libnixl_capi.so.0", RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        library = dlopen("libnixl_capi.so", RTLD_NOW | RTLD_LOCAL);
    }
    if (!library) {
        const char *why = dlerror();
        snprintf(failure, sizeof failure, "libnixl_capi cannot be opened: %%s", why ? why : "no reason given");
        return;
    }
    /* A library of before that function's time has the same interface. */
    *(void **)&get_version = dlsym(library, "nixl_capi_get_version");
    if (get_version && (get_version(&major, &minor, &patch) != NIXL_CAPI_SUCCESS || major != NIXL_CAPI_VERSION_MAJOR)) {
        snprintf(failure, sizeof failure, "libnixl_capi has interface %%d.%%d.%%d, this program is made for %%d", major,
                 minor, patch, NIXL_CAPI_VERSION_MAJOR);
        dlclose(library);
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        entries[i] = dlsym(library, names[i]);
    }
    is_open = true;
}

static void *entry(size_t index) {
    pthread_once(&once, open_library);
    return entries[index];
}
'''

SPECIAL = {
    'nixl_capi_is_stub': '''    (void)entry(0);
    return !is_open;''',
    'nixl_capi_last_error': '''    const char *(*real)(void);
    *(void **)&real = entry({index});
    return real ? real() : failure;''',
    'nixl_capi_mem_free': '''    void (*real)(void *);
    *(void **)&real = entry({index});
    if (real) {{
        real(block);
    }} else {{
        free(block);
    }}''',
}


def prototypes(text):
    text = re.sub(r'/\*.*?\*/', ' ', text, flags=re.S)
    for found in re.finditer(r'^NIXL_CAPI\s+([^;(]*?)(nixl_capi_\w+)\s*\(([^;]*?)\)\s*;', text, flags=re.S | re.M):
        returns, name, arguments = (' '.join(part.split()) for part in found.groups())
        yield returns, name, arguments


def parameter_names(arguments):
    if arguments == 'void':
        return []
    return [re.search(r'(\w+)$', one.strip()).group(1) for one in arguments.split(',')]


def function(index, returns, name, arguments):
    star = '' if returns.endswith('*') else ' '
    head = f'\n{returns}{star}{name}({arguments}) {{\n'
    if name in SPECIAL:
        return head + SPECIAL[name].format(index=index) + '\n}\n'
    ends = re.match(r'nixl_capi_(destroy|release)_|nixl_capi_params_destroy', name)
    status = 'NIXL_CAPI_SUCCESS' if ends else 'NIXL_CAPI_ERROR_INVALID_STATE'
    without = f'(is_open ? NIXL_CAPI_ERROR_INVALID_STATE : {status})' if ends else status
    call = ', '.join(parameter_names(arguments))
    return (head + f'    {returns} (*real)({arguments});\n    *(void **)&real = entry({index});\n'
            f'    return real ? real({call}) : {without};\n}}\n')


def main():
    with open(sys.argv[1], encoding='utf-8') as header:
        found = list(prototypes(header.read()))
    with open(sys.argv[2], 'w', encoding='utf-8') as out:
        out.write(HEAD % {'names': ''.join(f'    "{name}",\n' for _, name, _ in found)})
        for index, (returns, name, arguments) in enumerate(found):
            out.write(function(index, returns, name, arguments))


if __name__ == '__main__':
    main()
