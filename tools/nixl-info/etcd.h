/* SPDX-License-Identifier: Apache-2.0 */
/* nixl-info --etcd: what agents have published in the etcd that the environment names. */
#ifndef NIXL_INFO_ETCD_H
#define NIXL_INFO_ETCD_H

#include "base/bytes.h"

#include <stdbool.h>

/* Prints a table, or one JSON document. False, and words on stderr, when etcd cannot be asked. */
bool etcd_show(bool json);

/* The metadata that an agent has published. False with words on stderr. */
bool etcd_blob(const char *agent, struct bytes *blob);

#endif
