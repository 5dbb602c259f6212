/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: frames in and out without blocking, deadlines, and which job an answer belongs to. All of it runs in
 * the carrier's thread. Memory for a frame grows with what has come, not with what its size claims.
 */
#include "exchange/p2p.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define KEEP_BUFFER (size_t)(256 * 1024) /* a buffer beyond that is given back after its frame */
#define READ_STEP (size_t)(64 * 1024)

/* ---- coming and going ---- */

static void watch(struct conn *conn) {
    bool is_writing = conn->state == CONN_CONNECTING || conn->out_at < conn->out.len;
    /* Who does not take its answers is not read from, so their number is bounded. */
    bool is_reading = conn->state != CONN_CONNECTING && !(conn->is_accepted && conn->out_at < conn->out.len);
    uint32_t events = (is_reading ? EPOLLIN | EPOLLRDHUP : 0u) | (is_writing ? EPOLLOUT : 0u);
    struct epoll_event event = {.events = events, .data.ptr = conn};

    if (events != conn->events && epoll_ctl(conn->p2p->epoll, EPOLL_CTL_MOD, conn->fd, &event) == 0) {
        conn->events = events;
    }
}

struct conn *conn_new(struct p2p *p2p, int fd, const struct sockaddr_storage *address, socklen_t len,
                      bool is_accepted) {
    struct conn *conn = calloc(1, sizeof *conn);
    struct epoll_event event = {.events = is_accepted ? EPOLLIN | EPOLLRDHUP : EPOLLOUT, .data.ptr = conn};
    int on = 1;

    if (conn == NULL || epoll_ctl(p2p->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        (void)fail_errno(NIXL_ERR_BACKEND, errno, "a connection cannot be watched");
        free(conn);
        close(fd);
        return NULL;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    conn->p2p = p2p;
    conn->fd = fd;
    conn->events = event.events;
    conn->is_accepted = is_accepted;
    conn->state = is_accepted ? CONN_READY : CONN_CONNECTING;
    memcpy(&conn->address, address, len);
    conn->address_len = len;
    conn->jobs_end = &conn->jobs;
    conn->in_deadline_ns = conn->out_deadline_ns = CLOCK_NEVER;
    conn->used_ns = clock_now_ns();
    conn->next = p2p->conns;
    if (conn->next != NULL) {
        conn->next->previous = conn;
    }
    p2p->conns = conn;
    *(is_accepted ? &p2p->accepted : &p2p->kept) += 1;
    return conn;
}

static void in_release(struct conn *conn) {
    if (conn->is_accepted) {
        conn->p2p->held -= conn->in.cap;
    }
    bytes_free(&conn->in);
}

/* A key has been spoken of, and the other side has not shown yet that it has the same one. */
static bool is_unproved(const struct conn *conn) {
    return !conn->is_accepted && (conn->state == CONN_HELLO || (conn->is_sealed && conn->sealed_in == 0));
}

void conn_close(struct conn *conn) {
    struct p2p *p2p = conn->p2p;
    struct job *job = conn->jobs;

    *(conn->previous != NULL ? &conn->previous->next : &p2p->conns) = conn->next;
    if (conn->next != NULL) {
        conn->next->previous = conn->previous;
    }
    *(conn->is_accepted ? &p2p->accepted : &p2p->kept) -= 1;
    close(conn->fd);
    while (job != NULL) {
        struct job *next = job->next;

        job->next = NULL;
        p2p_job_failed(p2p, job, is_unproved(conn) ? CONN_HELLO : conn->state, conn->is_reused);
        job = next;
    }
    in_release(conn);
    bytes_free(&conn->out);
    free(conn);
}

static struct conn *find(struct p2p *p2p, const struct sockaddr_storage *address) {
    for (struct conn *conn = p2p->conns; conn != NULL; conn = conn->next) {
        if (!conn->is_bad && address_same(&conn->address, address, true)) {
            return conn;
        }
    }
    return NULL;
}

static void make_room(struct p2p *p2p) {
    struct conn *oldest = NULL;

    if (p2p->kept < CONN_KEPT_MOST) {
        return;
    }
    for (struct conn *conn = p2p->conns; conn != NULL; conn = conn->next) {
        if (!conn->is_accepted && !conn->is_bad && conn->jobs == NULL && conn->out_at == conn->out.len &&
            (oldest == NULL || conn->used_ns < oldest->used_ns)) {
            oldest = conn;
        }
    }
    if (oldest != NULL) {
        oldest->is_bad = true;
    }
}

struct conn *conn_to(struct p2p *p2p, const struct sockaddr_storage *address, socklen_t len) {
    struct conn *conn = find(p2p, address);
    char text[72];
    int fd;

    if (conn != NULL) {
        conn->is_reused = true;
        return conn;
    }
    make_room(p2p);
    fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        (void)fail_errno(NIXL_ERR_BACKEND, errno, "a socket cannot be made");
        return NULL;
    }
    if (connect(fd, (const struct sockaddr *)address, len) != 0 && errno != EINPROGRESS) {
        (void)fail_errno(NIXL_ERR_BACKEND, errno, "connect to %s",
                         address_text(text, sizeof text, address, len));
        close(fd);
        return NULL;
    }
    conn = conn_new(p2p, fd, address, len, false);
    if (conn != NULL) {
        conn->out_deadline_ns = clock_deadline_ms(conn->used_ns, CONNECT_MS);
    }
    return conn;
}

/* ---- out ---- */

/* Adds a frame behind what is on its way. */
static bool put_frame(struct conn *conn, struct bytes_view payload) {
    uint8_t size[WIRE_P2P_SIZE_LEN];
    uint64_t now = clock_now_ns();

    if (conn->out_at == conn->out.len) {
        bytes_clear(&conn->out);
        conn->out_at = 0;
    }
    wire_p2p_size_put(size, payload.len);
    if (!bytes_reserve(&conn->out, sizeof size + payload.len)) {
        (void)fail_memory("a frame on its way", payload.len);
        return false;
    }
    bytes_append(&conn->out, size, sizeof size);
    bytes_append(&conn->out, payload.data, payload.len);
    conn->queued += sizeof size + payload.len;
    conn->used_ns = now;
    conn->out_deadline_ns =
        clock_deadline_ms(now, FRAME_MS + (conn->out.len - conn->out_at) / FRAME_BYTES_PER_MS);
    return true;
}

bool conn_put(struct conn *conn, struct bytes_view payload) {
    struct bytes sealed = {0};
    bool done;

    if (!conn->is_sealed) {
        done = put_frame(conn, payload);
    } else {
        done = seal_put(conn, payload, &sealed) && put_frame(conn, bytes_view_of(&sealed));
        bytes_free(&sealed);
    }
    if (done && conn->state != CONN_CONNECTING) {
        watch(conn);
    }
    return done;
}

/* A job's frame; one that waits for an answer, and is no fetch, asks for one behind it: it comes when what stands before has
 * been dealt with. */
static bool job_put(struct conn *conn, struct job *job) {
    struct bytes ask = {0};
    bool done = conn_put(conn, bytes_view_of(&job->payload));

    job->wants_reply = job->kind == JOB_FETCH || job->is_waited;
    if (done && job->wants_reply && job->kind != JOB_FETCH) {
        done = wire_p2p_command_append(&ask, WIRE_P2P_SEND, NULL, 0) && conn_put(conn, bytes_view_of(&ask));
        bytes_free(&ask);
    }
    job->end_offset = conn->queued;
    return done;
}

bool conn_attach(struct conn *conn, struct job *job) {
    if (conn->state == CONN_READY && !job_put(conn, job)) {
        return false;
    }
    job->next = NULL;
    *conn->jobs_end = job;
    conn->jobs_end = &job->next;
    return true;
}

/* Connected, and with a key agreed on it: what has waited goes out. */
static bool become_ready(struct conn *conn) {
    conn->state = CONN_READY;
    for (struct job *job = conn->jobs; job != NULL; job = job->next) {
        if (!job_put(conn, job)) {
            return false;
        }
    }
    return true;
}

static void job_take(struct conn *conn, struct job **at) {
    struct job *job = *at;

    *at = job->next;
    if (*at == NULL) {
        conn->jobs_end = at;
    }
    job->next = NULL;
}

/* Jobs that want no answer end when their bytes are with the system. */
static void end_sent(struct conn *conn) {
    struct job **at = &conn->jobs;

    while (*at != NULL) {
        struct job *job = *at;

        if (job->wants_reply || job->end_offset > conn->sent || conn->state != CONN_READY) {
            at = &job->next;
            continue;
        }
        job_take(conn, at);
        job_finish(conn->p2p->exchange, job, NIXL_SUCCESS);
    }
}

static bool flush(struct conn *conn) {
    while (conn->out_at < conn->out.len) {
        ssize_t rc =
            send(conn->fd, conn->out.data + conn->out_at, conn->out.len - conn->out_at, MSG_NOSIGNAL);

        if (rc < 0 && (errno == EAGAIN || errno == EINTR)) {
            return true;
        }
        if (rc < 0) {
            char text[72];

            (void)fail_errno(NIXL_ERR_BACKEND, errno, "send to %s",
                             address_text(text, sizeof text, &conn->address, conn->address_len));
            return false;
        }
        conn->out_at += (size_t)rc;
        conn->sent += (uint64_t)rc;
    }
    conn->out_deadline_ns = CLOCK_NEVER;
    if (conn->out.cap > KEEP_BUFFER) {
        bytes_free(&conn->out);
        conn->out_at = 0;
    }
    return true;
}

static bool connected(struct conn *conn) {
    char text[72];
    int err = 0;
    socklen_t len = sizeof err;

    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0 || err != 0) {
        (void)fail_errno(NIXL_ERR_BACKEND, err, "connect to %s",
                         address_text(text, sizeof text, &conn->address, conn->address_len));
        return false;
    }
    conn->out_deadline_ns = CLOCK_NEVER;
    if (conn->p2p->exchange->auth == NULL) {
        return become_ready(conn);
    }
    conn->state = CONN_HELLO;
    conn->in_deadline_ns = clock_deadline_ms(clock_now_ns(), CONNECT_MS);
    return seal_hello(conn);
}

/* ---- in ---- */

/* The job that an answer belongs to: the first that waits for one. Answers come in the order of the questions. */
static bool answer(struct conn *conn, struct bytes_view blob) {
    struct exchange *exchange = conn->p2p->exchange;
    struct job **at = &conn->jobs;
    struct job *job;

    while (*at != NULL && !(*at)->wants_reply) {
        at = &(*at)->next;
    }
    if (*at == NULL || conn->state != CONN_READY) {
        return false;
    }
    job = *at;
    job_take(conn, at);
    if (job->kind != JOB_FETCH) {
        job_finish(exchange, job, NIXL_SUCCESS);
    } else if (blob.len == 0) {
        (void)fail(NIXL_ERR_NOT_FOUND, "the peer has no metadata to give yet");
        p2p_job_failed(conn->p2p, job, CONN_READY, false);
    } else {
        job_finish(exchange, job, exchange_load(exchange, job->peer, blob.data, blob.len));
    }
    return true;
}

static bool item_handle(struct conn *conn, const struct wire_p2p_item *item) {
    if (item->command == WIRE_P2P_HELLO) {
        if (!seal_hello_got(conn, item->arg)) {
            return false;
        }
        conn->in_deadline_ns = CLOCK_NEVER;
        return conn->is_accepted || become_ready(conn);
    }
    if (item->command != WIRE_P2P_LOAD || !answer(conn, item->arg)) {
        p2p_command(conn, item);
    }
    return true;
}

static bool items_handle(struct conn *conn, struct bytes_view rest, bool is_inside) {
    struct wire_p2p_item item;

    while (rest.len != 0) {
        if (!wire_p2p_next(&rest, &item)) {
            (void)fail(NIXL_ERR_MISMATCH, "it sends what is no command");
            return false;
        }
        if (item.command == WIRE_P2P_SEALED) {
            struct bytes_view inner;

            if (is_inside || !seal_open(conn, item.arg, &inner) || !items_handle(conn, inner, true)) {
                return false;
            }
            continue;
        }
        if (conn->p2p->exchange->auth != NULL && !is_inside && item.command != WIRE_P2P_HELLO) {
            (void)fail(NIXL_ERR_NOT_ALLOWED, "it sends a command without the key that is asked for here "
                                             "(NIXL_AUTH_KEY_FILE)");
            return false;
        }
        if (!item_handle(conn, &item)) {
            return false;
        }
    }
    return true;
}

static bool frame_begins(struct conn *conn) {
    conn->frame_len = wire_p2p_size(conn->in.data);
    if (conn->frame_len < WIRE_P2P_COMMAND_LEN || conn->frame_len > WIRE_P2P_FRAME_MAX) {
        (void)fail(NIXL_ERR_MISMATCH, "it announces a frame of %llu bytes; %d to %llu are allowed",
                   (unsigned long long)conn->frame_len, WIRE_P2P_COMMAND_LEN,
                   (unsigned long long)WIRE_P2P_FRAME_MAX);
        return false;
    }
    conn->in_deadline_ns = clock_deadline_ms(clock_now_ns(), FRAME_MS + conn->frame_len / FRAME_BYTES_PER_MS);
    return true;
}

static bool frame_ends(struct conn *conn) {
    struct bytes frame = conn->in;
    size_t len = (size_t)conn->frame_len;
    bool good;

    conn->in = (struct bytes){0};
    conn->frame_len = 0;
    conn->in_deadline_ns = CLOCK_NEVER;
    good = items_handle(conn, bytes_view(frame.data + WIRE_P2P_SIZE_LEN, len), false);
    if (frame.cap > KEEP_BUFFER || conn->in.data != NULL) {
        if (conn->is_accepted) {
            conn->p2p->held -= frame.cap;
        }
        bytes_free(&frame);
    } else {
        bytes_clear(&frame);
        conn->in = frame;
    }
    return good;
}

/* Room for the next read: what is missing of the size or the frame, in steps. */
static bool in_reserve(struct conn *conn, size_t *room) {
    uint64_t need = WIRE_P2P_SIZE_LEN + conn->frame_len - conn->in.len;
    size_t step = need < READ_STEP ? (size_t)need : READ_STEP;
    size_t before = conn->in.cap;

    if (!bytes_reserve(&conn->in, step)) {
        (void)fail_memory("a frame that comes in", step);
        return false;
    }
    if (conn->is_accepted) {
        conn->p2p->held += conn->in.cap - before;
        if (conn->p2p->held > HELD_MOST + KEEP_BUFFER * CONN_ACCEPTED_MOST) {
            (void)fail(NIXL_ERR_NOT_ALLOWED, "unfinished frames of all peers together are too large");
            return false;
        }
    }
    *room = conn->in.cap - conn->in.len < need ? conn->in.cap - conn->in.len : (size_t)need;
    return true;
}

static bool closed_by_peer(struct conn *conn, int err) {
    char text[72];

    conn->is_gone = true;
    address_text(text, sizeof text, &conn->address, conn->address_len);
    if (is_unproved(conn)) {
        (void)fail(NIXL_ERR_NOT_ALLOWED,
                   "%s closed the connection at the challenge: it has no key or another one "
                   "(NIXL_AUTH_KEY_FILE)",
                   text);
    } else if (err != 0) {
        (void)fail_errno(NIXL_ERR_BACKEND, err, "receive from %s", text);
    } else {
        (void)fail(NIXL_ERR_BACKEND, "%s closed the connection", text);
    }
    return false;
}

static bool take_in(struct conn *conn) {
    size_t taken = 0;

    while (taken < READ_AT_ONCE && !conn->is_bad) {
        size_t room;
        ssize_t rc;

        if (!in_reserve(conn, &room)) {
            return false;
        }
        rc = recv(conn->fd, conn->in.data + conn->in.len, room, 0);
        if (rc < 0 && (errno == EAGAIN || errno == EINTR)) {
            return true;
        }
        if (rc <= 0) {
            return closed_by_peer(conn, rc < 0 ? errno : 0);
        }
        if (conn->in.len == 0) {
            conn->in_deadline_ns = clock_deadline_ms(clock_now_ns(), FRAME_MS);
        }
        conn->in.len += (size_t)rc;
        taken += (size_t)rc;
        conn->used_ns = clock_now_ns();
        if (conn->frame_len == 0 && conn->in.len == WIRE_P2P_SIZE_LEN && !frame_begins(conn)) {
            return false;
        }
        if (conn->frame_len != 0 && conn->in.len == WIRE_P2P_SIZE_LEN + conn->frame_len &&
            !frame_ends(conn)) {
            return false;
        }
        if (conn->is_accepted && conn->out_at < conn->out.len) {
            return true; /* its answer first */
        }
    }
    return true;
}

/* ---- events ---- */

void conn_event(struct conn *conn, uint32_t events) {
    bool good = true;

    if (conn->state == CONN_CONNECTING) {
        good = connected(conn);
    } else if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        good = take_in(conn);
    }
    /* An accepted peer that goes in the middle of nothing has done no wrong. */
    if (!good && conn->is_accepted && (!conn->is_gone || conn->in.len != 0)) {
        conn_blame(conn);
    }
    if (good && !conn->is_bad && conn->state != CONN_CONNECTING) {
        good = flush(conn);
    }
    if (!good || conn->is_bad) {
        conn->is_bad = true;
        conn_close(conn);
        return;
    }
    end_sent(conn);
    watch(conn);
}

uint64_t conn_late(struct conn *conn, uint64_t now_ns) {
    uint64_t next =
        conn->in_deadline_ns < conn->out_deadline_ns ? conn->in_deadline_ns : conn->out_deadline_ns;
    char text[72];

    if (conn->is_bad) {
        (void)fail(NIXL_ERR_BACKEND, "the connection made room for others");
        conn_close(conn);
        return CLOCK_NEVER;
    }
    if (next > now_ns) {
        return next;
    }
    address_text(text, sizeof text, &conn->address, conn->address_len);
    if (conn->state == CONN_CONNECTING) {
        (void)fail(NIXL_ERR_BACKEND, "connect to %s: no answer within %d ms", text, CONNECT_MS);
    } else if (conn->state == CONN_HELLO) {
        (void)fail(NIXL_ERR_NOT_ALLOWED,
                   "%s does not answer the challenge: it has no key (NIXL_AUTH_KEY_FILE)", text);
    } else if (conn->out_deadline_ns <= now_ns) {
        (void)fail(NIXL_ERR_BACKEND, "%s does not take what is sent to it", text);
    } else {
        (void)fail(NIXL_ERR_BACKEND, "%s began a frame and did not end it in time", text);
    }
    if (conn->is_accepted) {
        conn_blame(conn);
    }
    conn_close(conn);
    return CLOCK_NEVER;
}

void conn_blame(const struct conn *conn) {
    struct p2p *p2p = conn->p2p;
    uint64_t now = clock_now_ns();
    char text[72];

    address_text(text, sizeof text, &conn->address, conn->address_len);
    if (now - p2p->warned_ns > 10 * NS_PER_S) {
        p2p->warned_ns = now;
        p2p->warnings = 0;
    }
    log_at(p2p->warnings++ < 10 ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG, "agent %s: metadata peer %s: %s",
           nixl_agent_name(p2p->exchange->agent), text, error_text());
}
