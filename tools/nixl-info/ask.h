/* SPDX-License-Identifier: Apache-2.0 */
/* Asks an agent that listens for its metadata, without being an agent: the blob as it comes, of whatever name. */
#ifndef NIXL_INFO_ASK_H
#define NIXL_INFO_ASK_H

#include "base/bytes.h"

#include <nixl/nixl.h>

/* `where` is HOST, HOST:PORT or [IPV6]:PORT. With NIXL_AUTH_KEY_FILE the frames are sealed as an agent's are. Fails in words (the
 * library's error_text()) within `patience_ms`; `blob` is then empty. */
nixl_status_t ask_agent(const char *where, uint64_t patience_ms, struct bytes *blob);

#endif
