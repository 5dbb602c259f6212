/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHELF - an example backend: objects (OBJ_SEG) that live in this process's memory, each named by its key, written
 * from and read into DRAM_SEG. docs/writing-a-backend.md explains it.
 */
#include <nixl/backend.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_BYTES (256u * 1024u) /* copied by one call of progress() at most */

struct shelf_options {
    uint64_t capacity;
};

struct object { /* stays until the backend is closed, registered or not */
    struct object *next;
    uint64_t len; /* the end of what was written */
    size_t key_len;
    const char *key;
    uint8_t *bytes; /* capacity of them, zero where nothing was written; the key follows */
};

struct shelf {
    const struct nixl_host *host;
    uint64_t capacity;
    pthread_mutex_t lock; /* guards all that follows; never held for longer than a step takes */
    struct object *objects;
    struct nixl_request *first, **last; /* the requests in flight, linked by their state */
};

struct job { /* a request's state: the next byte to copy */
    struct nixl_request *next;
    size_t run;
    uint64_t block, at;
    bool canceled; /* atomic */
};

static nixl_status_t shelf_open(const struct nixl_host *host, const void *options,
                                struct nixl_instance *instance, void **self) {
    struct shelf *shelf = calloc(1, sizeof(*shelf));
    if (shelf == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory for the shelf");
    }
    shelf->host = host;
    shelf->capacity = ((const struct shelf_options *)options)->capacity;
    shelf->last = &shelf->first;
    pthread_mutex_init(&shelf->lock, NULL);
    instance->event_fd = -1; /* no events: progress() is to be called every millisecond, or after wake() */
    instance->period_us = 1000;
    *self = shelf;
    return NIXL_SUCCESS;
}

static void shelf_close(void *self) {
    struct shelf *shelf = self;
    for (struct object *object = shelf->objects, *next; object != NULL; object = next) {
        next = object->next;
        free(object->bytes);
        free(object);
    }
    pthread_mutex_destroy(&shelf->lock);
    free(shelf);
}

static struct object *object_find(const struct shelf *shelf, const struct nixl_meta_desc *desc) {
    struct object *object = shelf->objects;
    while (object != NULL &&
           (object->key_len != desc->meta_len || memcmp(object->key, desc->meta, desc->meta_len) != 0)) {
        object = object->next;
    }
    return object;
}

static struct object *object_make(struct shelf *shelf, const struct nixl_meta_desc *desc) {
    struct object *object = calloc(1, sizeof(*object));
    uint8_t *bytes = calloc(1, shelf->capacity + desc->meta_len);
    if (object == NULL || bytes == NULL) {
        free(object);
        free(bytes);
        return NULL;
    }
    memcpy(bytes + shelf->capacity, desc->meta, desc->meta_len);
    *object = (struct object){shelf->objects, 0, desc->meta_len, (char *)bytes + shelf->capacity, bytes};
    return shelf->objects = object;
}

static nixl_status_t shelf_region_open(void *self, nixl_mem_t mem, const struct nixl_meta_desc *desc,
                                       void **region) {
    struct shelf *shelf = self;
    const struct nixl_host *host = shelf->host;
    if (mem == DRAM_SEG) {
        *region = shelf; /* memory needs nothing done; any pointer serves */
        return NIXL_SUCCESS;
    }
    if (desc->meta_len == 0 || desc->meta_len > NIXL_NAME_MAX) {
        return host->fail(host->ctx, NIXL_ERR_INVALID_PARAM,
                          "the metadata is the object's key, 1 to %d bytes, and has %zu", NIXL_NAME_MAX,
                          desc->meta_len);
    }
    pthread_mutex_lock(&shelf->lock);
    struct object *object = object_find(shelf, desc);
    if (object == NULL) {
        object = object_make(shelf, desc);
    }
    pthread_mutex_unlock(&shelf->lock);
    if (object == NULL) {
        return host->fail(host->ctx, NIXL_ERR_BACKEND, "no memory for an object of %llu bytes",
                          (unsigned long long)shelf->capacity);
    }
    *region = object;
    return NIXL_SUCCESS;
}

static void shelf_region_close(void *self, void *region) {
    (void)self, (void)region; /* the registration ends, the object stays */
}

static nixl_status_t shelf_query(void *self, nixl_mem_t mem, const struct nixl_meta_desc *descs, size_t count,
                                 const struct nixl_query_sink *sink) {
    struct shelf *shelf = self;
    nixl_status_t status = NIXL_SUCCESS;
    pthread_mutex_lock(&shelf->lock);
    for (size_t i = 0; i < count && status == NIXL_SUCCESS; i++) {
        const struct object *object = mem == OBJ_SEG ? object_find(shelf, &descs[i]) : NULL;
        if (object != NULL) {
            char size[24];
            snprintf(size, sizeof(size), "%llu", (unsigned long long)object->len);
            status = sink->found(sink->ctx, i, "size", size);
        }
    }
    pthread_mutex_unlock(&shelf->lock);
    return status;
}

static nixl_status_t shelf_request_open(void *self, struct nixl_request *request) {
    const struct nixl_host *host = ((struct shelf *)self)->host;
    if (request->local_mem != DRAM_SEG || request->remote_mem != OBJ_SEG) {
        return host->fail(host->ctx, NIXL_ERR_NOT_SUPPORTED, "local DRAM_SEG and remote OBJ_SEG only");
    }
    return NIXL_SUCCESS;
}

/* Appends to the queue of what is in flight. The lock is held. */
static void queue_put(struct shelf *shelf, struct nixl_request *request) {
    struct job *job = request->state;
    job->next = NULL;
    *shelf->last = request;
    shelf->last = &job->next;
}

/* Queues the request: whatever its size, this takes no longer than one step. */
static nixl_status_t shelf_post(void *self, struct nixl_request *request) {
    struct shelf *shelf = self;
    *(struct job *)request->state = (struct job){0}; /* it may have run before */
    pthread_mutex_lock(&shelf->lock);
    queue_put(shelf, request);
    pthread_mutex_unlock(&shelf->lock);
    shelf->host->wake(shelf->host->ctx);
    return NIXL_IN_PROG;
}

static void shelf_cancel(void *self, struct nixl_request *request, enum nixl_cancel how) {
    const struct nixl_host *host = ((struct shelf *)self)->host;
    (void)how; /* progress() ends it before its next step, gently or not */
    __atomic_store_n(&((struct job *)request->state)->canceled, true, __ATOMIC_RELAXED);
    host->wake(host->ctx);
}

/* Copies up to STEP_BYTES of the current block. NIXL_IN_PROG: there is more; a failure has its `text` written. */
static nixl_status_t copy_step(struct shelf *shelf, struct nixl_request *request, char text[128]) {
    struct job *job = request->state;
    const struct nixl_run *run = &request->runs[job->run];
    struct object *object = run->remote_key; /* what region_open() gave for the object */
    uint64_t offset = run->remote + job->block * run->remote_stride;
    uint64_t end = request->op == NIXL_WRITE ? shelf->capacity : object->len;

    if (__atomic_load_n(&job->canceled, __ATOMIC_RELAXED)) {
        snprintf(text, 128, "canceled");
        return NIXL_ERR_CANCELED;
    }
    if (run->len > end || offset > end - run->len) {
        snprintf(text, 128, "%llu bytes at offset %llu of an object that ends at %llu",
                 (unsigned long long)run->len, (unsigned long long)offset, (unsigned long long)end);
        return NIXL_ERR_INVALID_PARAM;
    }
    uint64_t part = run->len - job->at < STEP_BYTES ? run->len - job->at : STEP_BYTES;
    uint8_t *memory = (uint8_t *)(uintptr_t)(run->local + job->block * run->local_stride + job->at);
    uint8_t *stored = object->bytes + offset + job->at;
    job->at += part;
    if (request->op == NIXL_WRITE) {
        memcpy(stored, memory, part);
        object->len = object->len > offset + job->at ? object->len : offset + job->at;
    } else {
        memcpy(memory, stored, part);
    }
    __atomic_add_fetch(&request->done_bytes, part, __ATOMIC_RELAXED); /* deadlines look at it */
    if (job->at == run->len) {
        job->at = 0;
        if (++job->block == run->count) {
            job->block = 0;
            job->run++;
        }
    }
    return job->run == request->run_count ? NIXL_SUCCESS : NIXL_IN_PROG;
}

/* One step of the request that waits longest. */
static unsigned shelf_progress(void *self) {
    struct shelf *shelf = self;
    struct nixl_failure failure = NIXL_FAILURE_INIT;
    char text[128];
    if (pthread_mutex_trylock(&shelf->lock) != 0) {
        return 0; /* another thread is at it */
    }
    struct nixl_request *request = shelf->first;
    if (request == NULL) {
        pthread_mutex_unlock(&shelf->lock);
        return 0;
    }
    struct job *job = request->state;
    shelf->first = job->next;
    if (shelf->first == NULL) {
        shelf->last = &shelf->first;
    }
    failure.status = copy_step(shelf, request, text);
    if (failure.status == NIXL_IN_PROG) {
        queue_put(shelf, request);
    }
    bool more = shelf->first != NULL;
    pthread_mutex_unlock(&shelf->lock);
    if (failure.status < 0) {
        failure.run = job->run; /* the agent makes the user's index of these two */
        failure.block = job->block;
        failure.bytes_done = __atomic_load_n(&request->done_bytes, __ATOMIC_RELAXED);
        failure.text = text;
    }
    if (failure.status != NIXL_IN_PROG) { /* after this, the request may be gone */
        shelf->host->complete(shelf->host->ctx, request, failure.status < 0 ? &failure : NULL);
    }
    if (more) {
        shelf->host->wake(shelf->host->ctx);
    }
    return 1;
}

static const struct nixl_option options[] = {
    {.name = "capacity",
     .kind = NIXL_OPTION_SIZE,
     .offset = offsetof(struct shelf_options, capacity),
     .default_value = "1M",
     .min = 1,
     .max = 1u << 30,
     .env = "NIXL_SHELF_CAPACITY",
     .help = "largest object, in bytes; each one takes as much memory"},
};

static const struct nixl_backend_ops ops = {
    .abi = NIXL_BACKEND_ABI,
    .size = sizeof(ops),
    .name = "SHELF",
    .version = "1.0",
    .summary = "Objects in this process's memory, by key",
    .mems = NIXL_MEM_BIT(DRAM_SEG) | NIXL_MEM_BIT(OBJ_SEG),
    .caps = NIXL_CAP_LOCAL,
    .rank = NIXL_RANK_STORAGE,
    .options_bytes = sizeof(struct shelf_options),
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .request_bytes = sizeof(struct job),
    .open = shelf_open,
    .close = shelf_close,
    .region_open = shelf_region_open,
    .region_close = shelf_region_close,
    .query = shelf_query,
    .request_open = shelf_request_open,
    .post = shelf_post,
    .cancel = shelf_cancel,
    .progress = shelf_progress,
};

const struct nixl_backend_ops *nixl_backend_v1(void) {
    return &ops;
}
