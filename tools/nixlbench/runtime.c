/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime.h"
#include "stop.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS_PER_LOOK 64 /* idle calls between two looks at the channels */
#define ROUNDS_UNTIL_YIELD 4096
#define STOP_PATIENCE_MS 10000 /* after Ctrl-C: how long to wait for a peer that says nothing */

bool runtime_fail(struct runtime *runtime, const char *fmt, ...) {
    va_list args;

    va_start(args, fmt);
    vsnprintf(runtime->error, sizeof runtime->error, fmt, args);
    va_end(args);
    return false;
}

bool runtime_set_size(struct runtime *runtime, unsigned size) {
    runtime->channels = calloc(size, sizeof *runtime->channels);
    if (runtime->channels == NULL) {
        return runtime_fail(runtime, "out of memory");
    }
    runtime->size = size;
    for (unsigned i = 0; i < size; i++) {
        runtime->channels[i].fd = -1;
        runtime->channels[i].last = &runtime->channels[i].first;
    }
    return true;
}

void runtime_tune(int fd) {
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

bool runtime_open_alone(struct runtime *runtime) {
    memset(runtime, 0, sizeof *runtime);
    runtime->kind = RUNTIME_ALONE;
    return runtime_set_size(runtime, 1);
}

static bool write_all(int fd, const void *data, size_t len) {
    const char *at = data;

    while (len != 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EAGAIN) {
                struct pollfd p = {.fd = fd, .events = POLLOUT};

                poll(&p, 1, 1000);
                continue;
            }
            return false;
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static bool send_frame(struct runtime *runtime, unsigned to, char type, const void *data, size_t len) {
    struct channel *channel = &runtime->channels[to];
    uint32_t head = (uint32_t)len | (uint32_t)(unsigned char)type << 24;

    if (!write_all(channel->fd, &head, sizeof head) || !write_all(channel->fd, data, len)) {
        channel->is_closed = true;
        return runtime_fail(runtime, "process %u cannot be reached: %s", to, strerror(errno));
    }
    return true;
}

/* Moves whole frames from the bytes to the list. */
static bool split_frames(struct runtime *runtime, struct channel *channel) {
    size_t at = 0;
    uint32_t head;

    while (channel->in.len - at >= sizeof head) {
        struct frame *frame;
        size_t len;

        memcpy(&head, channel->in.data + at, sizeof head);
        len = head & FRAME_LIMIT;
        if (channel->in.len - at - sizeof head < len) {
            break;
        }
        frame = malloc(sizeof *frame + len + 1);
        if (frame == NULL) {
            return runtime_fail(runtime, "out of memory");
        }
        frame->next = NULL;
        frame->type = (char)(head >> 24);
        frame->len = len;
        memcpy(frame->bytes, channel->in.data + at + sizeof head, len);
        frame->bytes[len] = '\0';
        *channel->last = frame;
        channel->last = &frame->next;
        at += sizeof head + len;
    }
    if (at != 0) {
        memmove(channel->in.data, channel->in.data + at, channel->in.len - at);
        channel->in.len -= at;
    }
    return true;
}

/* Takes in what has arrived, without waiting. */
static bool read_channel(struct runtime *runtime, struct channel *channel) {
    while (!channel->is_closed && channel->fd >= 0) {
        ssize_t n;

        if (!bytes_reserve(&channel->in, 65536)) {
            return runtime_fail(runtime, "out of memory");
        }
        n = recv(channel->fd, channel->in.data + channel->in.len, 65536, MSG_DONTWAIT);
        if (n > 0) {
            channel->in.len += (size_t)n;
            continue;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            channel->is_closed = true;
        }
        break;
    }
    return split_frames(runtime, channel);
}

/* The reason that another process sent for giving up. */
static bool check_abort(struct runtime *runtime, unsigned from) {
    for (struct frame *frame = runtime->channels[from].first; frame != NULL; frame = frame->next) {
        if (frame->type == FRAME_ABORT && runtime_is_own(runtime)) {
            return runtime_fail(runtime, "%s", frame->bytes);
        }
    }
    return true;
}

static bool wait_for_bytes(struct runtime *runtime, unsigned from, unsigned *round) {
    struct channel *channel = &runtime->channels[from];
    bool happened = runtime->idle != NULL && runtime->idle(runtime->idle_ctx);

    if (runtime->idle == NULL || runtime->may_sleep) {
        struct pollfd p = {.fd = channel->fd, .events = POLLIN};

        poll(&p, 1, runtime->idle == NULL ? 100 : 1);
        return true;
    }
    *round = happened ? 0 : *round + 1;
    if (runtime->is_crowded || (*round > ROUNDS_UNTIL_YIELD && *round % 16 == 0)) {
        sched_yield();
    }
    return *round % ROUNDS_PER_LOOK == 0;
}

/* The next frame of one of two types; the caller frees it. NULL with words. */
static struct frame *next_frame(struct runtime *runtime, unsigned from, char type, char other) {
    struct channel *channel = &runtime->channels[from];
    uint64_t stopped_ns = 0;
    unsigned round = 0;

    for (;;) {
        if (!read_channel(runtime, channel) || !check_abort(runtime, from)) {
            return NULL;
        }
        for (struct frame **at = &channel->first; *at != NULL; at = &(*at)->next) {
            struct frame *frame = *at;

            if (frame->type == type || frame->type == other) {
                *at = frame->next;
                if (channel->last == &frame->next) {
                    channel->last = at;
                }
                return frame;
            }
        }
        if (channel->is_closed) {
            runtime_fail(runtime, "process %u ended before its time", from);
            return NULL;
        }
        if (stop_requested()) {
            if (stopped_ns == 0) {
                stopped_ns = clock_coarse_ns();
            } else if (clock_coarse_ns() - stopped_ns > STOP_PATIENCE_MS * NS_PER_MS) {
                runtime_fail(runtime, "interrupted; process %u does not answer", from);
                return NULL;
            }
        }
        while (!wait_for_bytes(runtime, from, &round)) {
        }
    }
}

bool runtime_send(struct runtime *runtime, unsigned to, const void *data, size_t len) {
    const char *at = data;
    int size = (int)len;

    if (runtime->keys != NULL) {
        return runtime->keys->send(runtime, to, data, len);
    }
    if (runtime_is_own(runtime)) {
        for (; len > FRAME_LIMIT; at += FRAME_LIMIT, len -= FRAME_LIMIT) {
            if (!send_frame(runtime, to, FRAME_MORE, at, FRAME_LIMIT)) {
                return false;
            }
        }
        return send_frame(runtime, to, FRAME_TEXT, at, len);
    }
    if (len > FRAME_LIMIT) {
        return runtime_fail(runtime, "a message of %zu bytes is longer than the ASIO runtime carries (%zu)",
                            len, FRAME_LIMIT);
    }
    return send_frame(runtime, to, FRAME_INT, &size, sizeof size) &&
           send_frame(runtime, to, FRAME_TEXT, at, len);
}

bool runtime_recv(struct runtime *runtime, unsigned from, struct bytes *out) {
    struct frame *frame;
    int size = -1;
    bool more = true;

    bytes_clear(out);
    if (runtime->keys != NULL) {
        return runtime->keys->recv(runtime, from, out);
    }
    if (!runtime_is_own(runtime)) {
        frame = next_frame(runtime, from, FRAME_INT, FRAME_INT);
        if (frame == NULL) {
            return false;
        }
        if (frame->len == sizeof size) {
            memcpy(&size, frame->bytes, sizeof size);
        }
        free(frame);
        if (size < 0) {
            return runtime_fail(runtime, "process %u sent a malformed length", from);
        }
    }
    while (more) {
        frame = next_frame(runtime, from, FRAME_TEXT, FRAME_MORE);
        if (frame == NULL) {
            return false;
        }
        more = frame->type == FRAME_MORE;
        if (!bytes_append(out, frame->bytes, frame->len)) {
            free(frame);
            return runtime_fail(runtime, "out of memory");
        }
        free(frame);
    }
    if (size >= 0 && (size_t)size != out->len) {
        return runtime_fail(runtime, "process %u sent %zu bytes and announced %d", from, out->len, size);
    }
    return true;
}

bool runtime_has_message(struct runtime *runtime, unsigned from) {
    struct channel *channel = &runtime->channels[from];

    if (channel->first == NULL && !channel->is_closed) {
        read_channel(runtime, channel);
    }
    return channel->first != NULL || channel->is_closed;
}

static bool await_barrier(struct runtime *runtime, unsigned from, const char *name) {
    struct frame *frame = next_frame(runtime, from, FRAME_BARRIER, FRAME_BARRIER);
    char shown[100]; /* at an ASIO port a stranger may have sent it */
    bool same;

    if (frame == NULL) {
        return false;
    }
    same = strcmp(frame->bytes, name) == 0;
    if (!same) {
        runtime_fail(runtime, "process %u is at barrier %s, this one at \"%s\": do both have the same flags?",
                     from, text_quote(shown, sizeof shown, frame->bytes, frame->len), name);
    }
    free(frame);
    return same;
}

/* Two processes tell each other; of several, all tell rank 0, which then tells all. */
bool runtime_barrier(struct runtime *runtime, const char *name) {
    char full[64];
    size_t len;

    if (runtime->keys != NULL) {
        return runtime->keys->barrier(runtime, name);
    }
    snprintf(full, sizeof full, "%s/%u", name, ++runtime->barriers);
    len = strlen(full);
    if (runtime->size == 1) {
        return true;
    }
    if (runtime->rank != 0 || runtime->size == 2) {
        unsigned other = runtime->rank == 0 ? 1 : 0;

        return send_frame(runtime, other, FRAME_BARRIER, full, len) && await_barrier(runtime, other, full);
    }
    for (unsigned i = 1; i < runtime->size; i++) {
        if (!await_barrier(runtime, i, full)) {
            return false;
        }
    }
    for (unsigned i = 1; i < runtime->size; i++) {
        if (!send_frame(runtime, i, FRAME_BARRIER, full, len)) {
            return false;
        }
    }
    return true;
}

void runtime_abort(struct runtime *runtime, const char *words) {
    char why[sizeof runtime->error];

    if (!runtime_is_own(runtime)) {
        return;
    }
    snprintf(why, sizeof why, "%s", words); /* may be runtime->error itself */
    for (unsigned i = 0; i < runtime->size; i++) {
        if (i != runtime->rank && runtime->channels[i].fd >= 0 && !runtime->channels[i].is_closed) {
            send_frame(runtime, i, FRAME_ABORT, why, strlen(why));
        }
    }
}
