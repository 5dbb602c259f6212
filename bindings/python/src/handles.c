/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python names backends, prepared lists and requests by numbers, as the reference does. Here a number is a place in
 * the agent's table and the place's generation, never an address: a number of something released, or of another agent,
 * is refused.
 * A handle that a call holds while another thread releases it stays until that call is done.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

#define INDEX_BITS 24
#define INDEX_MASK ((1u << INDEX_BITS) - 1)
#define NO_FREE UINT32_MAX

static const char *const kind_names[] = {"free place", "backend", "prepared list", "transfer request"};

static int table_grow(struct agent *agent) {
    static uint32_t agents;
    uint32_t old = agent->handle_count, count = old != 0 ? old * 2 : 32;
    struct handle *handles;

    if (old == 0) {
        /* Far from every other agent's (the golden ratio of 2^32): a number of theirs is refused here. */
        agent->first_generation = ++agents * 2654435769u;
        agent->first_generation += agent->first_generation == 0;
    }

    handles = count < INDEX_MASK ? realloc(agent->handles, count * sizeof *handles) : NULL;
    if (handles == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(handles + old, 0, (count - old) * sizeof *handles);
    for (uint32_t i = old; i < count; i++) {
        handles[i].generation = agent->first_generation;
        handles[i].next_free = i + 1 < count ? i + 1 : NO_FREE;
    }
    agent->handles = handles;
    agent->handle_count = count;
    agent->free_head = old;
    return 0;
}

static uint64_t number_of(const struct agent *agent, uint32_t index) {
    return (uint64_t)agent->handles[index].generation << INDEX_BITS | (index + 1);
}

PyObject *handle_object(struct agent *agent, enum handle_kind kind, void *ptr) {
    struct handle *handle;
    PyObject *number;
    uint32_t index;

    if ((agent->handle_count == 0 || agent->free_head == NO_FREE) && table_grow(agent) != 0) {
        return NULL;
    }
    index = agent->free_head;
    number = PyLong_FromUnsignedLongLong(number_of(agent, index));
    if (number == NULL) {
        return NULL;
    }
    handle = &agent->handles[index];
    agent->free_head = handle->next_free;
    *handle = (struct handle){.ptr = ptr, .generation = handle->generation, .kind = (uint8_t)kind};
    return number;
}

void handle_remove(struct agent *agent, uint32_t index) {
    struct handle *handle = &agent->handles[index];

    agent->reap_count -= handle->reaped;
    *handle = (struct handle){.generation = handle->generation + 1, .next_free = agent->free_head};
    if (handle->generation == 0) {
        handle->generation = 1;
    }
    agent->free_head = index;
}

bool handle_find(struct agent *agent, PyObject *number, enum handle_kind kind, uint32_t *index) {
    unsigned long long value;
    const struct handle *handle;

    if (!PyLong_Check(number)) {
        return false;
    }
    value = PyLong_AsUnsignedLongLong(number);
    if (value == (unsigned long long)-1) {
        PyErr_Clear();
        return false;
    }
    *index = (uint32_t)(value & INDEX_MASK) - 1;
    if (*index >= agent->handle_count) {
        return false;
    }
    handle = &agent->handles[*index];
    return handle->kind == kind && !handle->dying && handle->generation == (uint32_t)(value >> INDEX_BITS);
}

void *handle_hold(struct agent *agent, PyObject *number, enum handle_kind kind, uint32_t *index) {
    if (agent_hold(agent) != 0) {
        return NULL;
    }
    if (!handle_find(agent, number, kind, index)) {
        if (!PyLong_Check(number)) {
            PyErr_Format(PyExc_TypeError, "a %s is named by an int, not %R", kind_names[kind], number);
        } else {
            char words[120];

            PyOS_snprintf(words, sizeof words, "this is no %s of this agent, or it was released",
                          kind_names[kind]);
            raise_words(NIXL_ERR_INVALID_PARAM, words, NIXL_NO_INDEX, NULL);
        }
        agent_drop(agent);
        return NULL;
    }
    agent->handles[*index].users++;
    return agent->handles[*index].ptr;
}

void handle_drop(struct agent *agent, uint32_t index) {
    struct handle *handle = &agent->handles[index];

    handle->users--;
    if (handle->users == 0 && handle->dying) {
        if (handle->kind == HANDLE_DLIST) {
            nixl_dlist_release(handle->ptr);
            handle_remove(agent, index);
        } else {
            handle->reaped = true;
            agent->reap_count++;
            agent_reap(agent);
        }
    }
    agent_drop(agent);
}

uint64_t handle_number(const struct agent *agent, enum handle_kind kind, const void *ptr) {
    for (uint32_t i = 0; i < agent->handle_count; i++) {
        if (agent->handles[i].kind == kind && agent->handles[i].ptr == ptr) {
            return number_of(agent, i);
        }
    }
    return 0;
}

int handle_backends(struct agent *agent, PyObject *numbers, struct nixl_backend **backends, size_t *count) {
    PyObject *list;
    Py_ssize_t n;

    *count = 0;
    if (numbers == NULL || numbers == Py_None) {
        return 0;
    }
    list = PySequence_List(numbers);
    n = list != NULL ? PyList_Size(list) : -1;
    if (n > BACKENDS_MAX) {
        PyErr_Format(PyExc_ValueError, "%zd backends are more than the %d an agent can have", n,
                     BACKENDS_MAX);
        n = -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        uint32_t index;

        if (!handle_find(agent, PyList_GetItem(list, i), HANDLE_BACKEND, &index)) {
            PyErr_Format(PyExc_TypeError, "%R is no backend of this agent", PyList_GetItem(list, i));
            n = -1;
            break;
        }
        backends[(*count)++] = agent->handles[index].ptr;
    }
    Py_XDECREF(list);
    return n < 0 ? -1 : 0;
}
