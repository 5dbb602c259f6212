/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NIXL_TESTS_TOOLS_SUPPORT_H
#define NIXL_TESTS_TOOLS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Options from a command line of words, which end with NULL. False with words in `error`. */
static inline bool options_of(struct bench_options *options, char *error, size_t size, ...) {
    char *argv[32] = {(char *)"nixlbench"};
    int argc = 1;
    va_list words;

    va_start(words, size);
    while ((argv[argc] = va_arg(words, char *)) != NULL) {
        argc++;
    }
    va_end(words);
    assert_true(options_init(options));
    error[0] = '\0';
    return options_parse(options, argc, argv, error, size);
}

#endif
