/* SPDX-License-Identifier: Apache-2.0 */
/* The etcd carrier, for exchange.c. */
#ifndef EXCHANGE_ETCD_H
#define EXCHANGE_ETCD_H

#include "exchange/internal.h"

extern const struct store_ops etcd_ops;
/* Reads NIXL_ETCD_* and starts its thread. Opens libcurl and jansson. Fails in words. */
nixl_status_t etcd_open(struct exchange *exchange, void **store);

#endif
