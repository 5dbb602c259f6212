/* SPDX-License-Identifier: Apache-2.0 */
#include "stop.h"

#include <string.h>

int stop_signal;

static void on_signal(int signal) {
    __atomic_store_n(&stop_signal, signal, __ATOMIC_RELAXED);
}

void stop_install(bool is_child) {
    struct sigaction action;

    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = is_child ? SIG_IGN : on_signal;
    action.sa_flags = is_child ? SA_RESTART : (int)(SA_RESTART | SA_RESETHAND);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* Whose reader is gone hears it from the write, and ends as one should: files removed, others told. */
    action.sa_handler = SIG_IGN;
    action.sa_flags = 0;
    sigaction(SIGPIPE, &action, NULL);
}
