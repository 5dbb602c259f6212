/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/thread.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TERMINAL_PERIOD_MS 250
#define LOG_PERIOD_MS 1000

static struct {
    pthread_mutex_t mutex; /* guards all that follows */
    pthread_cond_t wake;
    struct thread thread;
    const struct bench_plan *plan;
    bool is_open, is_terminal, is_shown, is_ending;
    size_t index;
    struct bench_case row;
    const char *phase;
    const uint64_t *counter;
    uint64_t total, began_ns;
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void show(void) {
    uint64_t done = state.counter != NULL ? __atomic_load_n(state.counter, __ATOMIC_RELAXED) : 0;
    uint64_t took_ns = clock_now_ns() - state.began_ns;
    char size[32];

    if (state.phase == NULL) {
        return;
    }
    text_size(size, sizeof size, state.row.block);
    fprintf(stderr, "%s[%zu/%zu] %s %s x %" PRIu64 ", %s", state.is_terminal ? "\r\033[K" : "",
            state.index + 1, state.plan->case_count, nixl_op_string(state.row.op), size, state.row.batch,
            state.phase);
    if (state.total != 0) {
        fprintf(stderr, ": %" PRIu64 " of %" PRIu64, done, state.total);
        if (done != 0 && took_ns != 0) {
            fprintf(stderr, ", %.2f GB/s",
                    (double)done * (double)(state.row.block * state.row.batch) / (double)took_ns);
        }
    }
    fputs(state.is_terminal ? "" : "\n", stderr);
    fflush(stderr);
    state.is_shown = true;
}

static void body(void *arg) {
    (void)arg;
    pthread_mutex_lock(&state.mutex);
    while (!state.is_ending) {
        uint64_t at_ns =
            clock_now_ns() + (state.is_terminal ? TERMINAL_PERIOD_MS : LOG_PERIOD_MS) * NS_PER_MS;
        struct timespec at = {(time_t)(at_ns / NS_PER_S), (long)(at_ns % NS_PER_S)};
        int rc = 0;

        while (rc == 0 && !state.is_ending) {
            rc = pthread_cond_timedwait(&state.wake, &state.mutex, &at);
        }
        if (!state.is_ending) {
            show();
        }
    }
    pthread_mutex_unlock(&state.mutex);
}

bool progress_open(const struct bench_plan *plan) {
    const char *how = plan->config->progress;
    pthread_condattr_t attr;

    if (strcmp(how, "off") == 0) {
        return true;
    }
    state.plan = plan;
    state.is_terminal = isatty(STDERR_FILENO) != 0;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&state.wake, &attr);
    pthread_condattr_destroy(&attr);
    state.is_open = thread_start(&state.thread, "progress line", body, NULL) == 0;
    return state.is_open;
}

void progress_case(size_t index, const struct bench_case *row, const char *phase, const uint64_t *counter,
                   uint64_t total) {
    pthread_mutex_lock(&state.mutex);
    state.index = index;
    state.row = *row;
    state.phase = phase;
    state.counter = counter;
    state.total = total;
    state.began_ns = clock_now_ns();
    pthread_mutex_unlock(&state.mutex);
}

void progress_hide(void) {
    pthread_mutex_lock(&state.mutex);
    if (state.is_terminal && state.is_shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        state.is_shown = false;
    }
    pthread_mutex_unlock(&state.mutex);
}

void progress_close(void) {
    if (!state.is_open) {
        return;
    }
    pthread_mutex_lock(&state.mutex);
    state.is_ending = true;
    pthread_cond_signal(&state.wake);
    pthread_mutex_unlock(&state.mutex);
    thread_join(&state.thread);
    progress_hide();
    state.is_open = false;
}
