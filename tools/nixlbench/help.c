/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <nixl/nixl.h>

#include <stdio.h>
#include <string.h>

void flags_help(void) {
    static const char *const kinds[] = {"text", "bool", "int", "uint", "uint"};

    printf("nixlbench %s: measures transfers between two NIXL agents, or between an agent and storage\n\n"
           "usage: nixlbench [--flag value | --flag=value | --switch | --noswitch] ...\n"
           "Names may be written with - or _. Sizes may end in K, M, G or T.\n",
           nixl_version());
    for (size_t i = 0; i < bench_flag_count; i++) {
        const struct flag *flag = &bench_flags[i];

        if (i == 0) {
            printf("\nFlags:\n");
        } else if (i == BENCH_REFERENCE_FLAGS) {
            printf("\nBesides:\n");
        }
        printf("  --%-32s %s\n", flag->name, flag->help);
        printf("      %s, default %s%s%s", kinds[flag->kind], flag->kind == FLAG_STRING ? "\"" : "",
               flag->default_text, flag->kind == FLAG_STRING ? "\"" : "");
        if (flag->choices != NULL) {
            printf(", one of %s", flag->choices);
        }
        if (flag->backend != NULL) {
            printf(strcmp(flag->backend, "storage") == 0 ? "; %s backends only" : "; backend %s only",
                   flag->backend);
        }
        printf("\n");
    }
}
