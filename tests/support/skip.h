/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Skipping one cmocka test with its reason. cmocka prints "not ok" for a skipped test and takes no reason;
 * tests/support/tap.sh, through which every cmocka program is run, turns the pair into TAP's form.
 * Include after cmocka.h.
 */
#ifndef NIXL_TESTS_SKIP_H
#define NIXL_TESTS_SKIP_H

#include <stdio.h>

#define test_skip(...)                                                                                       \
    do {                                                                                                     \
        printf("# skip: ");                                                                                  \
        printf(__VA_ARGS__);                                                                                 \
        printf("\n");                                                                                        \
        fflush(stdout);                                                                                      \
        skip();                                                                                              \
    } while (0)

#endif
