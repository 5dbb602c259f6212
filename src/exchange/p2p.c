/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket carrier: its thread, its listener, and the life of a job from the call to its end. See p2p.h for who owns
 * what.
 */
#include "exchange/p2p.h"

#include "base/config.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS 32
#define DRAIN_MS 1000 /* at the end, for what is still to be sent */
#define PAUSE_MS 100  /* of accepting when there are no descriptors */

/* ---- jobs ---- */

static bool is_stopping(struct p2p *p2p) {
    return __atomic_load_n(&p2p->is_stopping, __ATOMIC_ACQUIRE);
}

/* Nobody listens there: peers at that host that asked us something by connections of their own are told instead. Never
 * both: the second word would come late, and undo what was learned after the first. */
static bool tell_connected(struct p2p *p2p, struct job *job) {
    for (struct conn *conn = p2p->conns; conn != NULL; conn = conn->next) {
        if (conn->is_accepted && conn->has_asked && !conn->is_bad &&
            address_same(&conn->address, &job->addresses[0], false) &&
            conn_put(conn, bytes_view_of(&job->payload))) {
            job->told++;
        }
    }
    return job->told != 0;
}

static void job_start(struct p2p *p2p, struct job *job) {
    struct conn *conn =
        conn_to(p2p, &job->addresses[job->address_next], job->address_lens[job->address_next]);

    if (conn == NULL || !conn_attach(conn, job)) {
        p2p_job_failed(p2p, job, CONN_CONNECTING, false);
    }
}

static void job_give_up(struct p2p *p2p, struct job *job) {
    nixl_status_t status = NIXL_ERR_BACKEND;

    if (job->kind == JOB_INVALIDATE && job->told != 0) {
        job_finish(p2p->exchange, job, NIXL_SUCCESS);
        return;
    }
    if (is_stopping(p2p)) {
        status = NIXL_ERR_CANCELED;
        error_prefix("the agent ends");
    } else if (job->is_waited) {
        status = NIXL_ERR_CANCELED;
        error_prefix("no result in the time given");
    }
    job_finish(p2p->exchange, job, status);
}

void p2p_job_failed(struct p2p *p2p, struct job *job, enum conn_state state, bool was_reused) {
    uint64_t now = clock_now_ns();
    bool is_final = state == CONN_HELLO; /* keys do not change */

    if (!is_stopping(p2p) && !is_final) {
        if (state == CONN_CONNECTING && job->address_next + 1 < job->address_count) {
            job->address_next++;
            job->retry_ns = now;
        } else if (state == CONN_READY && was_reused && !job->is_again) {
            job->is_again = true; /* the peer had closed it, perhaps long ago */
            job->retry_ns = now;
        } else if (job->kind == JOB_INVALIDATE && state == CONN_CONNECTING && tell_connected(p2p, job)) {
            job_give_up(p2p, job);
            return;
        } else if (job->is_tried_again && job_retry_at(job, now, RETRY_FIRST_MS, RETRY_MOST_MS)) {
            job->address_next = 0;
            if (job->kind == JOB_FETCH) {
                exchange_failed(p2p->exchange, job->peer, error_text());
            }
        } else {
            job_give_up(p2p, job);
            return;
        }
        job->next = p2p->retries;
        p2p->retries = job;
        return;
    }
    if (is_final) {
        job_finish(p2p->exchange, job, NIXL_ERR_NOT_ALLOWED);
    } else {
        job_give_up(p2p, job);
    }
}

static void inbox_take(struct p2p *p2p) {
    struct job *job;

    lock_take(&p2p->lock);
    job = p2p->inbox;
    p2p->inbox = NULL;
    p2p->inbox_end = &p2p->inbox;
    lock_drop(&p2p->lock);
    while (job != NULL) {
        struct job *next = job->next;

        job->next = NULL;
        job_start(p2p, job);
        job = next;
    }
}

/* Starts what is due again. Returns when the next one is. */
static uint64_t retries_start(struct p2p *p2p, uint64_t now_ns) {
    struct job *due = NULL;
    struct job **at = &p2p->retries;
    uint64_t next = CLOCK_NEVER;

    while (*at != NULL) {
        struct job *job = *at;

        if (job->retry_ns > now_ns) {
            next = job->retry_ns < next ? job->retry_ns : next;
            at = &job->next;
            continue;
        }
        *at = job->next;
        job->next = due;
        due = job;
    }
    while (due != NULL) {
        struct job *job = due;

        due = job->next;
        job->next = NULL;
        job_start(p2p, job);
        next = now_ns; /* a failure may have put one back */
    }
    return next;
}

/* Ends jobs of a connection whose time is over while the connection itself lives on. */
static uint64_t jobs_late(struct conn *conn, uint64_t now_ns) {
    uint64_t next = CLOCK_NEVER;
    char text[72];

    for (struct job *job = conn->jobs; job != NULL; job = job->next) {
        next = job->wants_reply && job->deadline_ns < next ? job->deadline_ns : next;
    }
    if (next > now_ns) {
        return next;
    }
    /* An answer that comes later would be taken for another's, so the connection goes with it. */
    (void)fail(NIXL_ERR_BACKEND, "%s does not answer",
               address_text(text, sizeof text, &conn->address, conn->address_len));
    conn_close(conn);
    return CLOCK_NEVER;
}

/* ---- commands of peers ---- */

static void blob_give(struct conn *conn) {
    struct bytes reply = {0};
    void *blob = NULL;
    size_t len = 0;

    if (nixl_metadata_get(conn->p2p->exchange->agent, &blob, &len) != NIXL_SUCCESS) {
        log_debug("a peer asks for metadata and there is none: %s", error_text());
        len = 0;
    }
    conn->has_asked = true;
    if (!wire_p2p_command_append(&reply, WIRE_P2P_LOAD, blob, len) ||
        !conn_put(conn, bytes_view_of(&reply))) {
        conn->is_bad = true;
    }
    bytes_free(&reply);
    free(blob);
}

static void peer_forget(struct conn *conn, struct bytes_view view) {
    char name[NIXL_NAME_MAX + 1];
    char quoted[128];

    if (view.len == 0 || view.len > NIXL_NAME_MAX || memchr(view.data, 0, view.len) != NULL) {
        (void)fail(NIXL_ERR_MISMATCH, "it wants a peer forgotten whose name is none");
        conn_blame(conn);
        return;
    }
    memcpy(name, view.data, view.len);
    name[view.len] = '\0';
    if (nixl_metadata_invalidate(conn->p2p->exchange->agent, name) != NIXL_SUCCESS) {
        log_debug("metadata of %s is declared void: %s",
                  text_quote(quoted, sizeof quoted, view.data, view.len), error_text());
    }
}

void p2p_command(struct conn *conn, const struct wire_p2p_item *item) {
    char quoted[64];

    switch (item->command) {
    case WIRE_P2P_LOAD:
        conn->has_asked = true;
        if (exchange_load(conn->p2p->exchange, NULL, item->arg.data, item->arg.len) != NIXL_SUCCESS) {
            error_prefix("its metadata is refused");
            conn_blame(conn);
        }
        break;
    case WIRE_P2P_SEND:
        blob_give(conn);
        break;
    case WIRE_P2P_INVALIDATE:
        peer_forget(conn, item->arg);
        break;
    default:
        (void)fail(NIXL_ERR_MISMATCH, "it sends a command that is not known here: %s",
                   text_quote(quoted, sizeof quoted, item->arg.data - 4, 4));
        conn_blame(conn);
        break;
    }
}

/* ---- the listener ---- */

static void listener_pause(struct p2p *p2p, bool is_paused) {
    struct epoll_event event = {.events = is_paused ? 0 : EPOLLIN, .data.ptr = &p2p->listener};

    p2p->listener_is_paused = is_paused;
    p2p->listener_resume_ns = is_paused ? clock_deadline_ms(clock_now_ns(), PAUSE_MS) : CLOCK_NEVER;
    (void)epoll_ctl(p2p->epoll, EPOLL_CTL_MOD, p2p->listener, &event);
}

/* The accepted connection that has been idle longest goes. */
static void accepted_make_room(struct p2p *p2p) {
    struct conn *oldest = NULL;

    for (struct conn *conn = p2p->conns; conn != NULL; conn = conn->next) {
        if (conn->is_accepted && !conn->is_bad && (oldest == NULL || conn->used_ns < oldest->used_ns)) {
            oldest = conn;
        }
    }
    if (oldest != NULL) {
        oldest->is_bad = true;
    }
}

static void accept_some(struct p2p *p2p) {
    for (unsigned i = 0; i < EVENTS; i++) {
        struct sockaddr_storage address = {0};
        socklen_t len = sizeof address;
        int fd = accept4(p2p->listener, (struct sockaddr *)&address, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                accepted_make_room(p2p);
                listener_pause(p2p, true);
            }
            return;
        }
        if (p2p->accepted >= CONN_ACCEPTED_MOST) {
            accepted_make_room(p2p);
        }
        address_unmap(&address, &len);
        (void)conn_new(p2p, fd, &address, len, true);
    }
}

/* ---- the thread ---- */

static uint64_t deadlines_keep(struct p2p *p2p) {
    uint64_t now = clock_now_ns();
    uint64_t next = CLOCK_NEVER;
    struct conn *conn = p2p->conns;

    while (conn != NULL) {
        struct conn *after = conn->next;
        uint64_t jobs_next = jobs_late(conn, now);

        next = jobs_next < next ? jobs_next : next;
        conn = after;
    }
    for (conn = p2p->conns; conn != NULL;) {
        struct conn *after = conn->next;
        uint64_t at = conn_late(conn, now);

        next = at < next ? at : next;
        conn = after;
    }
    if (p2p->listener_is_paused) {
        if (p2p->listener_resume_ns <= now) {
            listener_pause(p2p, false);
        } else {
            next = p2p->listener_resume_ns < next ? p2p->listener_resume_ns : next;
        }
    }
    return next;
}

static bool has_to_send(const struct p2p *p2p) {
    for (const struct conn *conn = p2p->conns; conn != NULL; conn = conn->next) {
        if (conn->out_at < conn->out.len) {
            return true;
        }
        for (const struct job *job = conn->jobs; job != NULL; job = job->next) {
            if (job->kind != JOB_FETCH) {
                return true;
            }
        }
    }
    return false;
}

static int wait_ms(uint64_t next_ns) {
    uint64_t now = clock_now_ns();

    if (next_ns == CLOCK_NEVER) {
        return -1;
    }
    return next_ns <= now
               ? 0
               : (int)((next_ns - now) / NS_PER_MS < 60000 ? (next_ns - now + NS_PER_MS - 1) / NS_PER_MS
                                                           : 60000);
}

static void events_wait(struct p2p *p2p, uint64_t next_ns) {
    struct epoll_event events[EVENTS];
    int count = epoll_wait(p2p->epoll, events, EVENTS, wait_ms(next_ns));

    for (int i = 0; i < count; i++) {
        void *who = events[i].data.ptr;

        if (who == &p2p->wake) {
            uint64_t value;

            (void)!read(p2p->wake, &value, sizeof value);
        } else if (who == &p2p->listener) {
            accept_some(p2p);
        } else {
            conn_event(who, events[i].events);
        }
    }
}

static void body(void *arg) {
    struct p2p *p2p = arg;
    uint64_t end_ns = CLOCK_NEVER;

    for (;;) {
        uint64_t next;
        uint64_t retry;

        inbox_take(p2p);
        /* Deadlines first: what they end may have to be tried again. */
        next = deadlines_keep(p2p);
        retry = retries_start(p2p, clock_now_ns());
        if (is_stopping(p2p)) {
            if (end_ns == CLOCK_NEVER) {
                end_ns = clock_deadline_ms(clock_now_ns(), DRAIN_MS);
            }
            if (!has_to_send(p2p) || clock_now_ns() >= end_ns) {
                break;
            }
            next = end_ns < next ? end_ns : next;
        }
        events_wait(p2p, retry < next ? retry : next);
    }
    error_set("it was on its way");
    while (p2p->conns != NULL) {
        conn_close(p2p->conns);
    }
    while (p2p->retries != NULL) {
        struct job *job = p2p->retries;

        p2p->retries = job->next;
        error_set(job->words);
        job_give_up(p2p, job);
    }
}

/* ---- beginning and end ---- */

void p2p_submit(struct p2p *p2p, struct job *job) {
    const uint64_t one = 1;

    lock_take(&p2p->lock);
    *p2p->inbox_end = job;
    p2p->inbox_end = &job->next;
    lock_drop(&p2p->lock);
    (void)!write(p2p->wake, &one, sizeof one);
}

uint16_t p2p_port(const struct p2p *p2p) {
    return p2p->port;
}

static void p2p_free(struct p2p *p2p) {
    if (p2p->listener >= 0) {
        close(p2p->listener);
    }
    if (p2p->wake >= 0) {
        close(p2p->wake);
    }
    if (p2p->epoll >= 0) {
        close(p2p->epoll);
    }
    free(p2p);
}

static bool watch_in(struct p2p *p2p, int *fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = fd};

    return epoll_ctl(p2p->epoll, EPOLL_CTL_ADD, *fd, &event) == 0;
}

/* The configuration's address, else NIXL_LISTEN_ADDRESS, else all. */
static nixl_status_t listener_open(struct p2p *p2p) {
    const struct nixl_agent_config *config = &p2p->exchange->config;
    char *named = NULL;
    const char *host = config->listen_address;
    nixl_status_t status = NIXL_SUCCESS;

    if (host == NULL || host[0] == '\0') {
        status = config_get_string("NIXL_LISTEN_ADDRESS", NULL, &named);
        host = named;
    }
    if (status == NIXL_SUCCESS) {
        status = address_listen(host, config->listen_port, &p2p->listener, &p2p->port);
    }
    if (status == NIXL_SUCCESS) {
        log_at(config->listen_port == 0 ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG,
               "MD listener is listening on port %u", p2p->port);
    }
    free(named);
    return status;
}

nixl_status_t p2p_open(struct exchange *exchange, bool listen, struct p2p **p2p) {
    struct p2p *made = calloc(1, sizeof *made);
    nixl_status_t status = NIXL_SUCCESS;
    int err;

    if (made == NULL) {
        return fail_memory("the socket carrier", sizeof *made);
    }
    made->exchange = exchange;
    made->listener = -1;
    made->listener_resume_ns = CLOCK_NEVER;
    made->inbox_end = &made->inbox;
    made->epoll = epoll_create1(EPOLL_CLOEXEC);
    made->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (made->epoll < 0 || made->wake < 0 || !watch_in(made, &made->wake)) {
        status = fail_errno(NIXL_ERR_BACKEND, errno, "the socket carrier's descriptors cannot be made");
    }
    if (status == NIXL_SUCCESS && listen) {
        status = listener_open(made);
        if (status == NIXL_SUCCESS && !watch_in(made, &made->listener)) {
            status = fail_errno(NIXL_ERR_BACKEND, errno, "the listener cannot be watched");
        }
    }
    if (status == NIXL_SUCCESS) {
        err = thread_start(&made->thread, "nixl-metadata", body, made);
        if (err != 0) {
            status = fail_errno(NIXL_ERR_BACKEND, err, "the socket carrier's thread cannot be started");
        }
    }
    if (status != NIXL_SUCCESS) {
        p2p_free(made);
        return status;
    }
    *p2p = made;
    return NIXL_SUCCESS;
}

void p2p_close(struct p2p *p2p) {
    const uint64_t one = 1;

    if (p2p == NULL) {
        return;
    }
    __atomic_store_n(&p2p->is_stopping, true, __ATOMIC_RELEASE);
    (void)!write(p2p->wake, &one, sizeof one);
    thread_join(&p2p->thread);
    p2p_free(p2p);
}
