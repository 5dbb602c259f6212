/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices of failure: a request made with notify_failure that ends otherwise than done tells its target. They are noted where a
 * request ends, which may be inside a backend under its locks, and sent outside by whoever makes progress next.
 */
#include "agent/internal.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct notice {
    struct notice *next;
    struct peer *peer; /* in use */
    struct nixl_backend *backend;
    size_t len;
    unsigned char bytes[];
};

/* "NIXL_FAILED <status>\n" and the notification that will not come. */
static struct notice *notice_make(const struct nixl_xfer *xfer, nixl_status_t status) {
    const char *name = error_status_name(status);
    size_t notif_len = xfer->sends_notif ? xfer->notif.len : 0;
    size_t head = strlen(NOTICE_WORD) + strlen(name) + 1;
    struct notice *notice = malloc(sizeof *notice + head + notif_len + 1);

    if (notice == NULL) {
        return NULL;
    }
    (void)snprintf((char *)notice->bytes, head + 1, "%s%s\n", NOTICE_WORD, name);
    if (notif_len != 0) {
        memcpy(notice->bytes + head, xfer->notif.data, notif_len);
    }
    notice->next = NULL;
    notice->peer = xfer->peer;
    notice->backend = xfer->backend;
    notice->len = head + notif_len;
    return notice;
}

void notice_add(struct nixl_xfer *xfer, nixl_status_t status) {
    struct nixl_agent *agent = xfer->agent;
    struct notice *notice;

    if ((xfer->backend->instance.caps & NIXL_CAP_NOTIF) == 0 ||
        (xfer->peer != NULL && __atomic_load_n(&xfer->peer->is_gone, __ATOMIC_ACQUIRE))) {
        return;
    }
    notice = notice_make(xfer, status);
    if (notice == NULL) {
        log_warn("agent %s: no memory to tell a target of a failed transfer", agent->name);
        return;
    }
    if (notice->peer == NULL) {
        (void)inbox_add(agent, notice->backend, agent->name, agent->name_len, notice->bytes, notice->len);
        free(notice);
        return;
    }
    peer_use(notice->peer);
    lock_take(&agent->notices.lock);
    if (agent->notices.tail != NULL) {
        agent->notices.tail->next = notice;
    } else {
        __atomic_store_n(&agent->notices.head, notice, __ATOMIC_RELEASE);
    }
    agent->notices.tail = notice;
    lock_drop(&agent->notices.lock);
    progress_wake(agent);
}

static void notice_send(struct nixl_agent *agent, struct notice *notice) {
    struct peer *peer = notice->peer;
    struct nixl_backend *backend = __atomic_load_n(&peer->notifier, __ATOMIC_ACQUIRE);
    nixl_status_t status = NIXL_ERR_NOT_FOUND;

    backend = backend != NULL ? backend : notice->backend;
    if (!__atomic_load_n(&peer->is_gone, __ATOMIC_ACQUIRE)) {
        status = backend->ops.notify(backend->self, peer->handles[backend->slot], notice->bytes, notice->len);
    }
    if (status < 0) {
        log_info("agent %s: peer %s could not be told of a failed transfer (%s)", agent->name, peer->name,
                 error_status_name(status));
    }
    peer_leave(peer);
    free(notice);
}

static struct notice *notices_take(struct nixl_agent *agent) {
    struct notice *first;

    lock_take(&agent->notices.lock);
    first = agent->notices.head;
    __atomic_store_n(&agent->notices.head, NULL, __ATOMIC_RELEASE);
    agent->notices.tail = NULL;
    lock_drop(&agent->notices.lock);
    return first;
}

void notices_send(struct nixl_agent *agent) {
    struct notice *notice = notices_take(agent);
    char words[ERROR_TEXT_SIZE];

    /* The call that does this has not failed, whatever becomes of it. */
    (void)snprintf(words, sizeof words, "%s", error_text());
    while (notice != NULL) {
        struct notice *next = notice->next;

        notice_send(agent, notice);
        notice = next;
    }
    error_set(words);
}
