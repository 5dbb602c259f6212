/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage side: one process, its buffers here and files there. Files that are made here are removed at the end. Each
 * file is opened twice: as the backend is to use it, and plainly, to fill it and to read back what was written.
 */
#include "pattern.h"
#include "progress.h"
#include "session.h"
#include "stop.h"

#include "base/array.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0744
#define CHUNK ((size_t)1 << 20)
#define FILE_ALIGN UINT64_C(4096)

struct bench_file {
    char *path;
    int fd;       /* the backend's */
    int plain_fd; /* ours */
    bool is_ours; /* made here: removed at the end */
};

struct storage {
    struct bench_file *files;
    size_t count;
    uint64_t file_bytes; /* of each */
    uint8_t *chunk;
};

/* ---- Files ---- */

static bool add_file(struct session *session, struct text name, bool is_generated) {
    struct storage *storage = session->storage;
    const struct bench_config *c = session->plan->config;
    struct bench_file *file = &storage->files[storage->count];
    int flags = O_RDWR | O_CLOEXEC | (c->storage_enable_direct ? O_DIRECT : 0);
    bool has_folder = c->filepath[0] != '\0' && name.len != 0 && name.at[0] != '/';

    if (asprintf(&file->path, "%s%s%.*s", has_folder ? c->filepath : "",
                 has_folder && c->filepath[strlen(c->filepath) - 1] != '/' ? "/" : "", (int)name.len,
                 name.at) < 0) {
        file->path = NULL;
        return session_fail(session, "out of memory");
    }
    storage->count++;
    file->plain_fd = open(file->path, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, FILE_MODE);
    file->is_ours = file->plain_fd >= 0;
    if (file->plain_fd < 0 && errno == EEXIST) {
        file->plain_fd = open(file->path, O_RDWR | O_CLOEXEC);
        file->is_ours = is_generated; /* left over from a run that was killed */
    }
    if (file->plain_fd < 0) {
        return session_fail(session, "%s: %s", file->path, strerror(errno));
    }
    file->fd = open(file->path, flags);
    if (file->fd < 0) {
        return session_fail(session, "%s%s: %s", file->path, c->storage_enable_direct ? " with O_DIRECT" : "",
                            strerror(errno));
    }
    return true;
}

static bool open_files(struct session *session) {
    const struct bench_config *c = session->plan->config;
    struct storage *storage = session->storage;
    struct text rest = text_of(c->filenames);
    struct text piece;
    size_t count = 0;

    while (text_split(&rest, ',', &piece)) {
        count++;
    }
    if (count == 0) {
        count = (size_t)c->num_files;
    }
    storage->files = calloc(count, sizeof *storage->files);
    if (storage->files == NULL) {
        return session_fail(session, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        storage->files[i].fd = storage->files[i].plain_fd = -1;
    }
    rest = text_of(c->filenames);
    for (size_t i = 0; i < count; i++) {
        char name[64];
        bool is_generated = c->filenames[0] == '\0';

        if (is_generated) {
            int len = snprintf(name, sizeof name, "nixlbench_%s_test_file_target_%zu", c->backend, i);

            for (int k = 0; k < len; k++) {
                name[k] = (char)tolower((unsigned char)name[k]);
            }
            piece = text_of(name);
        } else if (!text_split(&rest, ',', &piece) || piece.len == 0) {
            return session_fail(session, "--filenames %s: an empty name", c->filenames);
        }
        if (!add_file(session, piece, is_generated)) {
            return false;
        }
    }
    return true;
}

static bool write_plain(struct session *session, const struct bench_file *file, const void *data, size_t len,
                        uint64_t offset) {
    const char *at = data;

    while (len != 0) {
        ssize_t n = pwrite(file->plain_fd, at, len, (off_t)offset);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return session_fail(session, "%s: write at %" PRIu64 ": %s", file->path, offset,
                                n < 0 ? strerror(errno) : "nothing was written");
        }
        at += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

/* Fills a file with 0xaa, unless it is the user's and only to be read: then its bytes stay. */
static bool prefill(struct session *session, const struct bench_file *file) {
    struct storage *storage = session->storage;
    const struct bench_config *c = session->plan->config;
    bool only_read = strcmp(c->op_type, "READ") == 0 && !c->check_consistency;
    struct stat st;

    if (fstat(file->plain_fd, &st) != 0) {
        return session_fail(session, "%s: %s", file->path, strerror(errno));
    }
    if (!file->is_ours && (uint64_t)st.st_size >= storage->file_bytes) {
        return true;
    }
    if (!file->is_ours && only_read) {
        return session_fail(session,
                            "%s has %" PRIu64 " bytes and %" PRIu64 " are read of it: it is left as it is",
                            file->path, (uint64_t)st.st_size, storage->file_bytes);
    }
    memset(storage->chunk, PATTERN_TARGET, CHUNK);
    for (uint64_t at = 0; at < storage->file_bytes && !stop_requested(); at += CHUNK) {
        uint64_t left = storage->file_bytes - at;

        if (!write_plain(session, file, storage->chunk, left < CHUNK ? (size_t)left : CHUNK, at)) {
            return false;
        }
    }
    /* Pages that are still to be written would be written in the middle of the measurement. */
    if (fsync(file->plain_fd) != 0) {
        return session_fail(session, "%s: %s", file->path, strerror(errno));
    }
    return true;
}

static bool register_files(struct session *session) {
    struct storage *storage = session->storage;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_desc *descs = calloc(storage->count, sizeof *descs);
    struct nixl_list list = NIXL_LIST(FILE_SEG, descs, storage->count);
    nixl_status_t status;

    if (descs == NULL) {
        return session_fail(session, "out of memory");
    }
    options.backends = &session->backend;
    options.backend_count = 1;
    for (size_t i = 0; i < storage->count; i++) {
        descs[i] = (struct nixl_desc){0, storage->file_bytes, (uint64_t)storage->files[i].fd};
    }
    status = nixl_mem_register(session->agent, &list, &options);
    free(descs);
    return status == NIXL_SUCCESS || session_fail(session, "register files: %s", nixl_error());
}

bool storage_open(struct session *session) {
    const struct bench_plan *plan = session->plan;
    struct storage *storage = calloc(1, sizeof *storage);
    uint64_t bytes;

    if (storage == NULL) {
        return session_fail(session, "out of memory");
    }
    session->storage = storage;
    storage->chunk = malloc(CHUNK);
    if (storage->chunk == NULL) {
        return session_fail(session, "out of memory");
    }
    if (!open_files(session)) {
        return false;
    }
    /* Blocks go round the files, so no file gets more than its share rounded up to whole blocks. */
    bytes = plan->random != RANDOM_NONE ? plan->buffer_size : plan->needed_size;
    storage->file_bytes =
        (bytes / storage->count + plan->config->max_block_size + FILE_ALIGN - 1) / FILE_ALIGN * FILE_ALIGN;
    for (size_t i = 0; i < storage->count; i++) {
        if (!prefill(session, &storage->files[i])) {
            return false;
        }
    }
    return plan->config->reregister_mem || register_files(session);
}

void storage_close(struct session *session) {
    struct storage *storage = session->storage;

    /* The backend may hold the descriptors until the agent is gone. */
    nixl_agent_destroy(session->agent);
    session->agent = NULL;
    for (size_t i = 0; storage->files != NULL && i < storage->count; i++) {
        struct bench_file *file = &storage->files[i];

        if (file->is_ours) {
            unlink(file->path);
        }
        if (file->fd >= 0) {
            close(file->fd);
        }
        if (file->plain_fd >= 0) {
            close(file->plain_fd);
        }
        free(file->path);
    }
    free(storage->files);
    free(storage->chunk);
    free(storage);
    session->storage = NULL;
}

/* ---- Places ---- */

/* xorshift64*: the same seed gives the same places everywhere. */
static uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* A place for each of `count` blocks, all of them different: slot k is block k / files of file k % files. */
static uint64_t *choose_slots(struct session *session, const struct bench_case *row, uint64_t count,
                              uint64_t *state) {
    struct storage *storage = session->storage;
    uint64_t slots = storage->file_bytes / row->block * storage->count;
    uint64_t *all;

    if (session->plan->random == RANDOM_NONE || slots < count) {
        slots = count;
    }
    all = array_alloc(slots, sizeof *all);
    for (uint64_t i = 0; all != NULL && i < slots; i++) {
        all[i] = i;
    }
    for (uint64_t i = 0; all != NULL && session->plan->random == RANDOM_BLOCKS && i < count; i++) {
        uint64_t j = i + next_random(state) % (slots - i);
        uint64_t swap = all[i];

        all[i] = all[j];
        all[j] = swap;
    }
    return all;
}

static bool fill_parts(struct session *session, const struct bench_case *row, struct lane *lanes) {
    struct storage *storage = session->storage;
    uint64_t state =
        session->plan->config->randomize_location_mode_seed * 2 + 0x9e3779b97f4a7c15; /* never 0: odd */
    uint64_t count = plan_pair_count(session->plan) * row->batch * row->depth * session->plan->threads;
    uint64_t *slots = choose_slots(session, row, count, &state);
    uint64_t k = 0;

    if (slots == NULL) {
        return session_fail(session, "out of memory");
    }
    for (unsigned t = 0; t < session->plan->threads; t++) {
        struct lane_part *p = &lanes[t].parts[0];

        p->peer = nixl_agent_name(session->agent);
        p->remote_mem = FILE_SEG;
        p->local = memory_list(&session->memory, row, t, 0, &p->count);
        p->remote = p->local != NULL ? array_alloc(p->count, sizeof *p->remote) : NULL;
        if (p->remote == NULL) {
            free(slots);
            return session_fail(session, "out of memory");
        }
        for (size_t i = 0; i < p->count; i++, k++) {
            uint64_t offset = slots[k] / storage->count * row->block;

            if (session->plan->random == RANDOM_BYTES) {
                offset = next_random(&state) % (storage->file_bytes - row->block + 1);
            }
            p->remote[i] = (struct nixl_desc){offset, row->block,
                                              (uint64_t)storage->files[slots[k] % storage->count].fd};
        }
    }
    free(slots);
    return true;
}

static struct bench_file *file_of(struct session *session, uint64_t fd) {
    for (size_t i = 0; i < session->storage->count; i++) {
        if ((uint64_t)session->storage->files[i].fd == fd) {
            return &session->storage->files[i];
        }
    }
    return NULL;
}

/* ---- Filling and comparing the files ---- */

static bool fill_block(struct session *session, const struct nixl_desc *place, uint64_t position,
                       uint64_t seed) {
    struct bench_file *file = file_of(session, place->dev);

    for (uint64_t at = 0; at < place->len; at += CHUNK) {
        uint64_t left = place->len - at;
        size_t len = left < CHUNK ? (size_t)left : CHUNK;

        pattern_fill(session->storage->chunk, len, position + at, seed, PATTERN_TARGET);
        if (!write_plain(session, file, session->storage->chunk, len, place->addr + at)) {
            return false;
        }
    }
    return true;
}

static bool check_block(struct session *session, const struct nixl_desc *place, uint64_t position,
                        uint64_t seed) {
    struct bench_file *file = file_of(session, place->dev);
    uint8_t *chunk = session->storage->chunk;

    for (uint64_t at = 0; at < place->len; at += CHUNK) {
        uint64_t left = place->len - at;
        size_t len = left < CHUNK ? (size_t)left : CHUNK;
        size_t wrong;

        for (size_t got = 0; got < len;) {
            ssize_t n = pread(file->plain_fd, chunk + got, len - got, (off_t)(place->addr + at + got));

            if (n < 0 && errno == EINTR) {
                continue;
            }
            if (n <= 0) {
                return session_fail(session, "consistency check failed: %s at %" PRIu64 ": %s", file->path,
                                    place->addr + at + got, n < 0 ? strerror(errno) : "the file ends there");
            }
            got += (size_t)n;
        }
        wrong = pattern_check(chunk, len, position + at, seed, PATTERN_INITIATOR);
        if (wrong < len) {
            return session_fail(session,
                                "consistency check failed: %s at %" PRIu64 " is 0x%02x, must be 0x%02x",
                                file->path, place->addr + at + wrong, chunk[wrong],
                                pattern_byte(position + at + wrong, seed, PATTERN_INITIATOR));
        }
    }
    return true;
}

/* Every block of the lanes' lists, with its place in the pattern. */
static bool each_block(struct session *session, const struct bench_case *row, struct lane *lanes,
                       uint64_t seed,
                       bool (*visit)(struct session *, const struct nixl_desc *, uint64_t, uint64_t)) {
    for (unsigned t = 0; t < session->plan->threads; t++) {
        const struct lane_part *p = &lanes[t].parts[0];
        uint64_t position = memory_position(session->plan, row, t, 0);

        for (size_t i = 0; i < p->count; i++, position += row->block) {
            if (!visit(session, &p->remote[i], position, seed)) {
                return false;
            }
        }
    }
    return true;
}

/* The side that the bytes come from gets the phase's pattern; the other one is wiped before the first phase. */
static bool fill_source(struct session *session, const struct bench_case *row, struct lane *lanes,
                        uint64_t seed) {
    if (row->op == NIXL_WRITE) {
        memory_fill(&session->memory, row, seed);
        return true;
    }
    return seed == 0 || each_block(session, row, lanes, seed, fill_block);
}

static bool wipe(struct session *session, const struct bench_case *row, struct lane *lanes) {
    if (row->op == NIXL_READ) {
        memory_fill(&session->memory, row, 0);
        return true;
    }
    return !session->plan->config->check_consistency || each_block(session, row, lanes, 0, fill_block);
}

static bool run_phases(struct session *session, size_t index, struct lane *lanes) {
    const struct bench_case *row = &session->plan->cases[index];
    uint64_t threads = session->plan->threads;

    if (!wipe(session, row, lanes) || !fill_source(session, row, lanes, session_seed(session, index, 0))) {
        return false;
    }
    __atomic_store_n(&session->counter, 0, __ATOMIC_RELAXED);
    progress_case(index, row, "warm-up", &session->counter, row->warmup * threads);
    if (row->warmup != 0 && !session_lanes_run(session, lanes, row->warmup, false)) {
        return false;
    }
    if (session_seed(session, index, 1) != 0 &&
        !fill_source(session, row, lanes, session_seed(session, index, 1))) {
        return false;
    }
    __atomic_store_n(&session->counter, 0, __ATOMIC_RELAXED);
    progress_case(index, row, "measuring", &session->counter, row->iterations * threads);
    if (!session_lanes_run(session, lanes, row->iterations, true)) {
        return false;
    }
    progress_case(index, row, "finishing", NULL, 0);
    if (!session->plan->config->check_consistency || stop_requested()) {
        return true;
    }
    if (row->op == NIXL_READ) {
        return memory_check(&session->memory, row, session_seed(session, index, 1), session->error,
                            sizeof session->error);
    }
    return each_block(session, row, lanes, session_seed(session, index, 1), check_block);
}

bool storage_case(struct session *session, size_t index, bool *go_on) {
    const struct bench_case *row = &session->plan->cases[index];
    struct samples samples[3] = {0};
    struct lane *lanes = session_lanes(session, row, 1);
    struct case_message sum;
    struct bench_result result;
    bool ok;

    ok = lanes != NULL && fill_parts(session, row, lanes) && run_phases(session, index, lanes) &&
         session_merge_samples(session, lanes, samples);
    if (ok) {
        session_case_message(session, lanes, &sum);
        session_result(row, &sum, &result);
        samples_summarize(&samples[0], &result.prep);
        samples_summarize(&samples[1], &result.post);
        samples_summarize(&samples[2], &result.tx);
        *go_on = !stop_requested();
        result.is_checked = session->plan->config->check_consistency && *go_on;
        progress_hide();
        if (result.requests != 0 && !output_row(session->output, &result)) {
            ok = session_fail(session, "out of memory");
        }
    }
    for (int k = 0; k < 3; k++) {
        samples_free(&samples[k]);
    }
    session_lanes_free(session, lanes);
    return ok;
}
