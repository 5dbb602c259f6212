/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One load of a blob, as load.c (the rules), rows.c (which regions come and go) and stage.c (what backends
 * open for it) pass it on. A load runs under agent->loading: the table of peers and the peer's regions do not
 * change meanwhile but by it. Nothing of the agent changes before the commit, and that is all or nothing.
 */
#ifndef AGENT_LOAD_H
#define AGENT_LOAD_H

#include "agent/internal.h"

/* A region in the blob that this agent has a backend for. */
struct load_row {
    struct nixl_desc desc;
    struct bytes_view meta;
    struct region *known; /* the peer has it already, with the same bytes; its mark is set */
    struct region *made;  /* staged */
    uint8_t mem, slot;
};

enum load_action {
    LOAD_ADD,     /* to the peer that is there */
    LOAD_NEW,     /* the peer becomes known, or takes the place of its former self */
    LOAD_NOTHING, /* all of it is known */
};

struct load {
    struct nixl_agent *agent;
    struct wire_blob *blob;
    char *name;
    struct peer *old;  /* loaded under that name, NULL for none */
    struct peer *peer; /* what the blob goes into: old, or a new one in no table */
    enum load_action action;

    uint32_t offered; /* backends of the blob's connections that this agent has */
    const struct wire_conn *conns[AGENT_BACKENDS];
    uint32_t opened; /* backends whose peer handle this load opened */
    void *handles[AGENT_BACKENDS];
    struct bytes conn_copies[AGENT_BACKENDS];

    struct load_row *rows; /* section by section, each sorted */
    size_t row_count;
    size_t new_count;              /* rows that are not known yet */
    size_t by_mem[NIXL_MEM_KINDS]; /* new rows of each kind */
    struct region **drops;         /* known regions that go, marked */
    size_t drop_cap, drop_count;
    struct region **adds; /* room for the new regions of one kind */
};

/* rows.c: which rows the blob has for the backends of `mask`; sorted, each region once. */
nixl_status_t rows_gather(struct load *load, uint32_t mask);
/* Compares them with what is known of `old`: fills known, drops, new_count, by_mem. */
nixl_status_t rows_compare(struct load *load, const struct peer *old);
/* Takes the marks off again. */
void rows_unmark(struct load *load);
void rows_free(struct load *load);

/* stage.c: opens the peer with backends of `mask`, then the keys of new rows. What fails is taken back by
 * stage_undo(). */
nixl_status_t stage_peers(struct load *load, uint32_t mask);
nixl_status_t stage_keys(struct load *load);
void stage_undo(struct load *load);

#endif
