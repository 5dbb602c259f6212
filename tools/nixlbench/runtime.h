/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of one run and how they talk: messages in order between any two, and barriers. Frames are those of the
 * reference's ASIO runtime (32 bits: type << 24 | length, native order, then the bytes), so one code serves the LOCAL
 * runtime (a socket pair between any two processes), ASIO (one TCP connection) and ETCD (one between any two). While it
 * waits it calls `idle`, because an agent without a progress thread moves only when it is called. One thread.
 */
#ifndef NIXLBENCH_RUNTIME_H
#define NIXLBENCH_RUNTIME_H

#include "plan.h"

#include "base/bytes.h"

#include <sys/types.h>

enum frame_type {
    FRAME_INT = 'i',
    FRAME_INTS = 'a',
    FRAME_TEXT = 's',
    FRAME_REDUCE = 'r',
    FRAME_BARRIER = 'b',
    FRAME_MORE = 'S', /* own processes only: a piece of a message; the next frame goes on */
    FRAME_ABORT = 'x' /* own processes only: the sender gave up, for the reason in the bytes */
};

#define FRAME_LIMIT ((size_t)0xffffff)

struct frame {
    struct frame *next;
    char type;
    size_t len;
    char bytes[];
};

struct channel {
    int fd; /* -1: none (to oneself) */
    struct bytes in;
    struct frame *first, **last; /* whole frames not taken yet */
    bool is_closed;
};

/* Makes progress; true when something happened. */
typedef bool (*runtime_idle_fn)(void *ctx);

struct runtime;

/* How messages go where there are no channels: through a store's keys. As runtime_send() and its like. */
struct runtime_keys {
    bool (*send)(struct runtime *runtime, unsigned to, const void *data, size_t len);
    bool (*recv)(struct runtime *runtime, unsigned from, struct bytes *out);
    bool (*barrier)(struct runtime *runtime, const char *name);
};

struct etcd_meeting;

struct runtime {
    enum bench_runtime kind;
    unsigned rank, size;
    bool is_foreign;          /* the other end may be the reference's: what is said is what that says */
    struct channel *channels; /* size of them */
    const struct runtime_keys *keys; /* NULL: channels */
    struct etcd_meeting *meeting;    /* ETCD only */
    unsigned barriers;
    runtime_idle_fn idle;
    void *idle_ctx;
    bool is_crowded; /* more threads spin than there are processors */
    bool may_sleep;  /* idle has nothing to do: somebody else makes progress */
    pid_t *children; /* LOCAL, rank 0: size of them, 0 for itself */
    char error[768];
};

/* All are processes of this program. */
static inline bool runtime_is_own(const struct runtime *runtime) {
    return !runtime->is_foreign;
}

/*
 * Starts, as rank 0, the other processes of a LOCAL run with this one's arguments; or joins, as one that was
 * started so. False with words in runtime->error.
 */
bool runtime_open_local(struct runtime *runtime, const struct bench_plan *plan, char *const *argv);
/* True in a process that runtime_open_local() started; *buffer_size is what rank 0 chose. */
bool runtime_is_local_child(uint64_t *buffer_size);
/* Whoever can listen at the address is rank 0, the other one connects. */
bool runtime_open_asio(struct runtime *runtime, const struct bench_plan *plan);
/* Meets the others of the group in etcd; who comes first is rank 0. Waits up to three minutes for them. */
bool runtime_open_etcd(struct runtime *runtime, const struct bench_plan *plan);
/* A run of one. */
bool runtime_open_alone(struct runtime *runtime);

/* All false with words in runtime->error. */
bool runtime_send(struct runtime *runtime, unsigned to, const void *data, size_t len);
/* `out` is emptied first. */
bool runtime_recv(struct runtime *runtime, unsigned from, struct bytes *out);
/* True when a message from there can be received without waiting, or never will be (the channel is closed). */
bool runtime_has_message(struct runtime *runtime, unsigned from);
bool runtime_barrier(struct runtime *runtime, const char *name);
/* Tells the others, if they are of this program, why this process gives up. */
void runtime_abort(struct runtime *runtime, const char *words);

/* Ends all channels; rank 0 of a LOCAL run waits for its children, and kills those that do not end in time. False
 * when one had failed. */
bool runtime_close(struct runtime *runtime);

/* Private to the runtime's files. */
bool runtime_fail(struct runtime *runtime, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
bool runtime_set_size(struct runtime *runtime, unsigned size);
/* Short messages at once, and a peer whose machine is gone is noticed. */
void runtime_tune(int fd);
void runtime_close_etcd(struct runtime *runtime);

#endif
