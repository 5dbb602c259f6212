/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: memcpy in chunks under mock_lock, from whatever makes progress, so that a request can be met in
 * any state. Delays, holds and failures are where the options say.
 */
#include "mock_parts.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>

uint64_t mock_now_ns(void) {
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

nixl_status_t mock_request_open(void *self, struct nixl_request *request) {
    struct mock *mock = self;
    struct mock_request *r = request->state;

    pthread_mutex_lock(&mock_lock);
    if (mock->options.reject) {
        pthread_mutex_unlock(&mock_lock);
        return mock->host->fail(mock->host->ctx, NIXL_ERR_NOT_SUPPORTED,
                                "such a request is not for this backend");
    }
    r->request = request;
    mock->counts.requests++;
    mock->custom_len = request->custom_len < sizeof mock->custom ? request->custom_len : sizeof mock->custom;
    if (mock->custom_len != 0) {
        memcpy(mock->custom, request->custom, mock->custom_len);
    }
    pthread_mutex_unlock(&mock_lock);
    return NIXL_SUCCESS;
}

void mock_request_close(void *self, struct nixl_request *request) {
    struct mock *mock = self;

    (void)request;
    pthread_mutex_lock(&mock_lock);
    mock->counts.requests--;
    pthread_mutex_unlock(&mock_lock);
}

/* ---- the queue; all below with mock_lock held ---- */

static void queue_add(struct mock *mock, struct mock_request *r) {
    r->prev = mock->last;
    r->next = NULL;
    if (mock->last != NULL) {
        mock->last->next = r;
    } else {
        mock->first = r;
    }
    mock->last = r;
    r->is_active = true;
    mock->counts.active++;
}

static void queue_remove(struct mock *mock, struct mock_request *r) {
    if (r->prev != NULL) {
        r->prev->next = r->next;
    } else {
        mock->first = r->next;
    }
    if (r->next != NULL) {
        r->next->prev = r->prev;
    } else {
        mock->last = r->prev;
    }
    r->is_active = false;
    mock->counts.active--;
}

/* The request is not touched any more after this. */
static void end(struct mock *mock, struct mock_request *r, const struct nixl_failure *failure) {
    struct nixl_request *request = r->request;

    queue_remove(mock, r);
    mock->host->complete(mock->host->ctx, request, failure);
}

static struct nixl_failure failure_of(const struct mock_request *r, nixl_status_t status, const char *text) {
    struct nixl_failure failure = NIXL_FAILURE_INIT;

    failure.status = status;
    failure.run = r->run < r->request->run_count ? r->run : NIXL_NO_INDEX;
    failure.block = r->block;
    failure.bytes_done = r->moved;
    failure.text = text;
    return failure;
}

static struct mock_region *remote_region(const struct nixl_request *request, const struct nixl_run *run) {
    const struct mock_key *key = run->remote_key;

    return request->peer == NULL ? run->remote_key : mock_region_by_id(key->region);
}

/* Copies up to `budget` bytes of the current block. False with a failure. */
static bool step(struct mock *mock, struct mock_request *r, uint64_t budget, uint64_t *moved,
                 struct nixl_failure *failure) {
    struct nixl_request *request = r->request;
    const struct nixl_run *run = &request->runs[r->run];
    uint64_t len = run->len - r->offset < budget ? run->len - r->offset : budget;
    struct mock_region *remote = remote_region(request, run);
    unsigned char *here;
    unsigned char *there;

    if (mock->options.fail_at >= 0 && (uint64_t)mock->options.fail_at == r->run &&
        (uint64_t)mock->options.fail_block == r->block && r->offset == 0) {
        *failure = failure_of(r, (nixl_status_t)mock->options.fail_status, mock->fail_text);
        return false;
    }
    if (remote == NULL) {
        *failure = failure_of(r, NIXL_ERR_BACKEND, "the peer has closed the region");
        return false;
    }
    here = mock_place(run->local_key, run->local + r->block * run->local_stride + r->offset, len);
    there = mock_place(remote, run->remote + r->block * run->remote_stride + r->offset, len);
    if (here == NULL || there == NULL) {
        *failure = failure_of(r, NIXL_ERR_BACKEND,
                              here == NULL ? "the local block lies outside its region"
                                           : "the remote block lies outside its region");
        return false;
    }
    memmove(request->op == NIXL_WRITE ? there : here, request->op == NIXL_WRITE ? here : there, len);
    r->offset += len;
    r->moved += len;
    *moved = len;
    __atomic_fetch_add(&request->done_bytes, len, __ATOMIC_RELAXED);
    if (r->offset == run->len) {
        r->offset = 0;
        r->block++;
        if (r->block == run->count) {
            r->block = 0;
            r->run++;
        }
    }
    return true;
}

/* Why a request must end now, if it must. */
static bool is_over(struct mock *mock, struct mock_request *r, struct nixl_failure *failure) {
    struct mock_peer *peer = r->request->peer;

    if (peer != NULL && !peer->is_lost && mock_by_id(peer->target) == NULL) {
        mock_peer_lose(mock, peer, "the peer is not there any more");
    }
    if (peer != NULL && peer->is_lost) {
        *failure = failure_of(r, NIXL_ERR_REMOTE_DISCONNECT, peer->text);
        return true;
    }
    if (r->cancel != 0 && (r->cancel > 1 || !mock->options.stubborn)) {
        *failure = failure_of(r, NIXL_ERR_CANCELED, NULL);
        return true;
    }
    return false;
}

/* Whether something can be done for a request at that time. */
static bool is_due(struct mock *mock, struct mock_request *r, uint64_t now) {
    struct mock_peer *peer = r->request->peer;

    if (r->cancel > 1 || (r->cancel == 1 && !mock->options.stubborn)) {
        return true;
    }
    if (peer != NULL && (peer->is_lost || mock_by_id(peer->target) == NULL)) {
        return true;
    }
    return !mock->options.hold && now >= r->due_ns;
}

/* One chunk, perhaps the end. */
static void advance(struct mock *mock, struct mock_request *r) {
    uint64_t budget = mock->options.chunk;
    struct nixl_request *request = r->request;
    struct nixl_failure failure;
    uint64_t moved;

    if (is_over(mock, r, &failure)) {
        end(mock, r, &failure);
        return;
    }
    while (r->run < request->run_count && budget > 0) {
        if (!step(mock, r, budget, &moved, &failure)) {
            end(mock, r, &failure);
            return;
        }
        budget -= moved;
    }
    if (r->run < request->run_count) {
        return;
    }
    if (request->has_notif && request->peer != NULL) {
        mock_deliver(mock, request->peer, request->notif, request->notif_len);
    }
    end(mock, r, NULL);
}

static unsigned round_of(struct mock *mock) {
    uint64_t now = mock_now_ns();
    unsigned events = 0;
    struct mock_request *next;

    for (struct mock_request *r = mock->first; r != NULL; r = next) {
        next = r->next;
        if (is_due(mock, r, now)) {
            advance(mock, r);
            events++;
        }
    }
    return events;
}

/* When something can be done next: 0 now, UINT64_MAX never. */
static uint64_t next_due(struct mock *mock) {
    uint64_t now = mock_now_ns();
    uint64_t soonest = UINT64_MAX;

    for (struct mock_request *r = mock->first; r != NULL; r = r->next) {
        if (is_due(mock, r, now)) {
            return 0;
        }
        if (!mock->options.hold && r->due_ns < soonest) {
            soonest = r->due_ns;
        }
    }
    return soonest;
}

static void timer_set(struct mock *mock, uint64_t at) {
    struct itimerspec when = {0};

    if (at != UINT64_MAX) {
        if (at == 0) {
            at = 1; /* long ago: at once. Zero would switch it off */
        }
        when.it_value.tv_sec = (time_t)(at / 1000000000u);
        when.it_value.tv_nsec = (long)(at % 1000000000u);
    }
    timerfd_settime(mock->event_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void mock_stir(struct mock *mock) {
    if (mock->options.progress == MOCK_EVENT || mock->options.progress == MOCK_WAIT) {
        timer_set(mock, next_due(mock));
    } else if (mock->options.progress == MOCK_OWN) {
        pthread_cond_broadcast(&mock->work);
    }
}

/* ---- operations ---- */

/* All of it within post. */
static nixl_status_t post_inline(struct mock *mock, struct mock_request *r) {
    struct nixl_request *request = r->request;
    struct nixl_failure failure;
    uint64_t moved;

    while (r->run < request->run_count) {
        if (!step(mock, r, UINT64_MAX, &moved, &failure)) {
            return mock->host->fail(mock->host->ctx, failure.status, "%s", failure.text);
        }
    }
    if (request->has_notif && request->peer != NULL) {
        mock_deliver(mock, request->peer, request->notif, request->notif_len);
    }
    return NIXL_SUCCESS;
}

nixl_status_t mock_post(void *self, struct nixl_request *request) {
    struct mock *mock = self;
    struct mock_request *r = request->state;
    struct nixl_failure failure;
    nixl_status_t status = NIXL_IN_PROG;

    pthread_mutex_lock(&mock_lock);
    mock->counts.posts++;
    if (r->is_active) {
        status = mock->host->fail(mock->host->ctx, NIXL_ERR_BACKEND, "posted while it is in flight");
        pthread_mutex_unlock(&mock_lock);
        return status;
    }
    r->request = request;
    r->run = 0;
    r->block = r->offset = r->moved = 0;
    r->cancel = 0;
    r->due_ns = mock->options.delay_us != 0 ? mock_now_ns() + mock->options.delay_us * 1000 : 0;
    if (mock->options.fail_post != 0 && (uint64_t)mock->counts.posts == mock->options.fail_post) {
        status = mock->host->fail(mock->host->ctx, (nixl_status_t)mock->options.fail_status, "%s",
                                  mock->fail_text);
    } else if (is_over(mock, r, &failure)) {
        status = mock->host->fail(mock->host->ctx, failure.status, "%s", failure.text);
    } else if (mock->options.progress == MOCK_INLINE) {
        status = post_inline(mock, r);
    } else {
        queue_add(mock, r);
        mock_stir(mock);
    }
    pthread_mutex_unlock(&mock_lock);
    return status;
}

void mock_cancel(void *self, struct nixl_request *request, enum nixl_cancel how) {
    struct mock *mock = self;
    struct mock_request *r = request->state;

    pthread_mutex_lock(&mock_lock);
    mock->counts.cancels++;
    mock->counts.forced += how == NIXL_CANCEL_FORCE;
    if (r->is_active) {
        r->cancel = r->cancel > 1 + (int)how ? r->cancel : 1 + (int)how;
        mock_stir(mock);
    }
    pthread_mutex_unlock(&mock_lock);
}

nixl_status_t mock_cost(void *self, const struct nixl_request *request, struct nixl_cost *cost) {
    const struct mock *mock = self;

    if (mock->options.mute) {
        return mock->host->fail(mock->host->ctx, NIXL_ERR_NOT_SUPPORTED, MOCK_NAME " is mute");
    }
    cost->method = NIXL_COST_ANALYTICAL_BACKEND;
    cost->duration_ns = mock->options.delay_us * 1000 + request->total_bytes / mock->options.cost_speed;
    cost->margin_ns = cost->duration_ns / 10;
    return NIXL_SUCCESS;
}

nixl_status_t mock_transport(void *self, const struct nixl_request *request, char *text, size_t size) {
    return mock_peer_transport(self, request->peer, request->remote_mem, text, size);
}

unsigned mock_progress(void *self) {
    struct mock *mock = self;
    unsigned events;

    if (pthread_mutex_trylock(&mock->inside) != 0) {
        return 0;
    }
    pthread_mutex_lock(&mock_lock);
    events = round_of(mock);
    pthread_mutex_unlock(&mock_lock);
    pthread_mutex_unlock(&mock->inside);
    return events;
}

nixl_status_t mock_arm(void *self) {
    struct mock *mock = self;
    uint64_t at;

    pthread_mutex_lock(&mock_lock);
    at = next_due(mock);
    if (at != 0) {
        timer_set(mock, at);
    }
    pthread_mutex_unlock(&mock_lock);
    return at == 0 ? NIXL_IN_PROG : NIXL_SUCCESS;
}

nixl_status_t mock_wait(void *self, int fd, uint64_t until_ns) {
    struct mock *mock = self;
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = mock->event_fd, .events = POLLIN}};
    uint64_t now = mock_now_ns(), left = until_ns > now ? until_ns - now : 0;
    struct timespec ts = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};

    if (mock->options.progress != MOCK_WAIT) {
        return NIXL_ERR_NOT_SUPPORTED;
    }
    pthread_mutex_lock(&mock_lock);
    mock->counts.waits++;
    pthread_mutex_unlock(&mock_lock);
    /* The timer is set by every post, cancel and change of an option. */
    if (mock_arm(mock) == NIXL_IN_PROG) {
        return NIXL_SUCCESS;
    }
    (void)ppoll(fds, 2, until_ns != UINT64_MAX ? &ts : NULL, NULL);
    return (fds[0].revents & POLLIN) != 0 ? NIXL_IN_PROG : NIXL_SUCCESS;
}

void mock_batch(void *self, bool begins) {
    struct mock *mock = self;

    pthread_mutex_lock(&mock_lock);
    mock->counts.batches += begins;
    mock->counts.open_batches += begins ? 1 : -1;
    pthread_mutex_unlock(&mock_lock);
}

void *mock_thread(void *self) {
    struct mock *mock = self;

    pthread_mutex_lock(&mock_lock);
    while (!mock->stop) {
        uint64_t at;

        round_of(mock);
        at = next_due(mock);
        if (mock->stop || at == 0) {
            /* Others get their turn between two chunks. */
            pthread_mutex_unlock(&mock_lock);
            pthread_mutex_lock(&mock_lock);
        } else if (at == UINT64_MAX) {
            pthread_cond_wait(&mock->work, &mock_lock);
        } else {
            struct timespec until = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)};

            pthread_cond_timedwait(&mock->work, &mock_lock, &until);
        }
    }
    pthread_mutex_unlock(&mock_lock);
    return NULL;
}
