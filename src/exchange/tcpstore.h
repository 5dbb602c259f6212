/* SPDX-License-Identifier: Apache-2.0 */
/* The TCPStore carrier, for exchange.c. */
#ifndef EXCHANGE_TCPSTORE_H
#define EXCHANGE_TCPSTORE_H

#include "exchange/internal.h"

extern const struct store_ops tcpstore_ops;
/* Reads NIXL_TCPSTORE_ENDPOINT and its time-outs and starts its thread. Fails in words. */
nixl_status_t tcpstore_open(struct exchange *exchange, void **store);

#endif
