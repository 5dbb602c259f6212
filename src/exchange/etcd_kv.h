/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single requests to etcd: keys, leases, the lock. Each is one call of etcd_http_call() and fails as that does, in words.
 * One thread for each etcd_http.
 */
#ifndef EXCHANGE_ETCD_KV_H
#define EXCHANGE_ETCD_KV_H

#include "exchange/etcd_http.h"

#define ETCD_CODE_NOT_FOUND 5 /* gRPC's: also of a lease that has run out */

/* `lease` 0: for ever. `code`, if not NULL, gets gRPC's code of a failure. */
nixl_status_t etcd_put(struct etcd_http *http, const char *key, const void *value, size_t len, int64_t lease,
                       int64_t *code);
/* One key, or none: reply->kv_count. Free the reply. */
nixl_status_t etcd_get(struct etcd_http *http, const char *key, struct etcd_reply *reply);
/* All keys that begin with `prefix` (not empty), in order. Free the reply. */
nixl_status_t etcd_list(struct etcd_http *http, const char *prefix, struct etcd_reply *reply);
/* A key that is not there is no failure. */
nixl_status_t etcd_delete(struct etcd_http *http, const char *key);
nixl_status_t etcd_delete_all(struct etcd_http *http, const char *prefix);

nixl_status_t etcd_lease_grant(struct etcd_http *http, uint64_t ttl_s, int64_t *lease);
/* *ttl_s: what it has now; 0 or less when it had run out. */
nixl_status_t etcd_lease_keep(struct etcd_http *http, int64_t lease, int64_t *ttl_s);
nixl_status_t etcd_lease_left(struct etcd_http *http, int64_t lease, int64_t *ttl_s);
/* Its keys and locks go with it. */
nixl_status_t etcd_lease_revoke(struct etcd_http *http, int64_t lease);

/*
 * Waits for etcd's lock of this name and holds it as long as the lease lives. REMOTE_DISCONNECT after ETCD_CALL_MS: somebody
 * else holds it, or etcd does not answer; worth trying again.
 */
nixl_status_t etcd_lock(struct etcd_http *http, const char *name, int64_t lease);

#endif
