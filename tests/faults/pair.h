/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set-up of most scenarios: this program's agent and one node beside it that knows its metadata, over the transports that
 * initial_state names. Include after cmocka.h.
 */
#ifndef TESTS_FAULTS_PAIR_H
#define TESTS_FAULTS_PAIR_H

#include "peers.h"

struct fixture {
    const struct node_setting *setting;
    struct local l;
    struct node n;
};

/* The two with `memory` bytes each, the metadata loaded here. For a test's setup. */
static inline int fixture_open(void **state, size_t memory) {
    struct fixture *f = calloc(1, sizeof *f);

    f->setting = *state;
    if (!local_open(&f->l, "local", f->setting, memory) ||
        !node_start(&f->n, "node", f->setting, memory, NULL) || node_load(&f->n, &f->l) != NIXL_SUCCESS) {
        fprintf(stderr, "# %s %s\n", f->n.error, nixl_error());
        return -1;
    }
    *state = f;
    return 0;
}

/* For a test's teardown. A node that was stopped goes on first. */
static inline int fixture_close(void **state) {
    struct fixture *f = *state;

    if (f->n.pid > 0) {
        (void)kill(f->n.pid, SIGCONT);
    }
    local_close(&f->l);
    node_stop(&f->n);
    free(f);
    return 0;
}

#endif
