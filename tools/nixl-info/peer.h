/* SPDX-License-Identifier: Apache-2.0 */
/* nixl-info --peer: who answers at an address, what it offers, and which way bytes would go from here to there. */
#ifndef NIXL_INFO_PEER_H
#define NIXL_INFO_PEER_H

#include "base/bytes.h"

#include <stdbool.h>

/* Prints what the blob says and what a connection to its agent says; errors go to stderr. False: it cannot be reached, or the
 * blob is damaged. */
bool peer_show(const struct bytes *blob, bool json);

#endif
