/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that count bytes instead of time. Each gives bytes of heap for one of what its name says; below 0:
 * failed. */
#ifndef BENCH_SIZES_H
#define BENCH_SIZES_H

#include "bench.h"

double size_of_region(struct setting *setting);
double size_of_peer_region(struct setting *setting);
double size_of_peer(struct setting *setting);
double size_of_prepared_step(struct setting *setting);
double size_of_prepared_scattered(struct setting *setting);
double size_of_request(struct setting *setting);
double size_of_request_block(struct setting *setting);

#endif
