/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a store is, as users write it: "host:port", "[::1]:2379", "https://host". Pure: nothing is resolved or opened, so
 * that what is malformed is told when an agent is made. Words name the variable, `what`.
 */
#ifndef EXCHANGE_ENDPOINT_H
#define EXCHANGE_ENDPOINT_H

#include "base/text.h"

#include <nixl/nixl.h>

/* *port is 0 where none is given. `host` is a piece of `value`, without brackets. INVALID_PARAM with words. */
nixl_status_t endpoint_split(const char *what, struct text value, struct text *host, uint16_t *port);

/* The next of several between commas (or semicolons), blank ones left out. False at the end. */
bool endpoint_next(struct text *rest, struct text *piece);

/* One or more of host[:port], http://host[:port], https://host[:port]; a slash may follow. INVALID_PARAM with words. */
nixl_status_t endpoint_check_urls(const char *what, const char *list);

#endif
