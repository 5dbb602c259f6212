/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the Python binding share. The module uses CPython's stable ABI of 3.11 only, so one file
 * serves every Python from 3.11 on. It stands on <nixl/nixl.h>; of the library's inside it uses the wire format
 * of descriptor lists (pickles), which are pure functions.
 *
 * The GIL guards all structs declared here. A call that releases it first takes hold of what it uses: a list by
 * `pins`, an agent and a handle by `users`; what is released meanwhile lives until the last user is gone.
 */
#ifndef NIXL_PYTHON_BINDING_H
#define NIXL_PYTHON_BINDING_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#include <nixl/nixl.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODULE_NAME "nixl._bindings"

/* ---- args.c: arguments ---- */

#define ARGS_MAX 12

/* A method's parameters: the first `required` must be given, the first `positional` may be without a name
 * (0: all). Interned names are kept after the first call. */
struct signature {
    const char *name;
    const char *params[ARGS_MAX];
    int required;
    int positional;
    PyObject *interned[ARGS_MAX];
    int count;
};

/* Sorts a vectorcall's arguments into `out` (borrowed, NULL where none was given). -1: TypeError is set. */
int args_parse(struct signature *sig, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
               PyObject **out);
/* The same for tp_init and tp_new. */
int args_parse_tuple(struct signature *sig, PyObject *args, PyObject *kwargs, PyObject **out);

/* Conversions of one argument; `what` names it in the TypeError. NULL or None leaves the default. */
int arg_bool(PyObject *value, bool *out);
int arg_u64(PyObject *value, const char *what, uint64_t *out);
int arg_port(PyObject *value, uint16_t *out);
/* Seconds (any number) to milliseconds, rounded up; None: `none_ms`. Negative: ValueError. */
int arg_timeout(PyObject *value, uint64_t none_ms, uint64_t *out_ms);
/* A str without NUL as UTF-8, borrowed from the object. */
const char *arg_text(PyObject *value, const char *what);
/* A memory kind: member, number or "DRAM", "VRAM", "FILE", "BLOCK", "OBJ", "cpu", "cuda". KeyError otherwise. */
int arg_mem(PyObject *value, nixl_mem_t *out);
/* READ or WRITE: member, number or text. KeyError otherwise. */
int arg_op(PyObject *value, nixl_xfer_op_t *out);

/* Bytes of a str (UTF-8) or of anything with a buffer, held until bytes_arg_end(). */
struct bytes_arg {
    const void *data;
    size_t len;
    Py_buffer view;
    bool has_view;
};
int bytes_arg_begin(struct bytes_arg *arg, PyObject *value, const char *what);
void bytes_arg_end(struct bytes_arg *arg);

/* ---- errors.c ---- */

int errors_init(PyObject *module);
/* Sets the exception of `status` with nixl_error()'s words; `backend` may be NULL. Always returns NULL. */
PyObject *raise_status(nixl_status_t status, const char *backend);
/* The same with words and an index of the caller's. */
PyObject *raise_words(nixl_status_t status, const char *words, size_t index, const char *backend);

/* ---- enums.c ---- */

int enums_init(PyObject *module);
PyObject *enum_status(nixl_status_t status); /* new references */
PyObject *enum_mem(nixl_mem_t mem);
PyObject *enum_sync(enum nixl_sync sync);
/* Also takes any enum whose value is the member or its number. */
int enum_sync_value(PyObject *value, enum nixl_sync *out);

/* ---- dlist.c: descriptor lists ---- */

enum list_kind {
    LIST_XFER,
    LIST_REG,
    LIST_REMOTE
};

/* Rows are struct nixl_desc, nixl_strided_desc, nixl_meta_desc or nixl_remote_desc, as `form` says. Metadata
 * and agent names are the list's own blocks. */
struct dlist {
    PyObject_HEAD enum list_kind kind;
    nixl_mem_t mem;
    uint32_t form;
    size_t count, capacity;
    void *rows;
    size_t pins; /* calls that read the rows: nothing may change them */
};

int dlist_init_types(PyObject *module);
PyObject *dlist_type(enum list_kind kind); /* borrowed */
bool dlist_is(PyObject *object, enum list_kind kind);
struct dlist *dlist_new(enum list_kind kind, nixl_mem_t mem);
size_t form_row_bytes(uint32_t form);
/* Descriptors, strided ones counted singly. */
size_t dlist_blocks(const struct dlist *list);
/* Before a change: BufferError while a call reads the rows; strided rows become plain. To be asked again after any
 * Python code has run, which may have done anything with the list. */
int dlist_change_begin(struct dlist *list);
/* tuples.c. Appends a tuple; index names it in errors. */
int dlist_append_tuple(struct dlist *list, PyObject *tuple, size_t index);
/* addr, len and dev of a tuple of three or more. */
int tuple_block(PyObject *tuple, struct nixl_desc *block);
void dlist_clear(struct dlist *list);
/* Room for `extra` more rows. */
int dlist_reserve(struct dlist *list, size_t extra);
/* A registration list's rows as a plain transfer list. */
struct dlist *dlist_trim(const struct dlist *list);

/* ---- pickle.c ---- */

PyObject *dlist_reduce(PyObject *self, PyObject *unused);
PyObject *dlist_getstate(PyObject *self, PyObject *unused);
PyObject *dlist_setstate(PyObject *self, PyObject *state);

/* ---- convert.c: Python objects to descriptors ---- */

/* What a call reads its descriptors from; nothing is copied where the form allows. */
struct source {
    struct nixl_list list;
    struct dlist *owner; /* a pinned list, or one made for the call; NULL: `view` holds the rows */
    Py_buffer view;
    bool has_view;
};

enum source_result {
    SOURCE_OK = 0,
    SOURCE_ERROR = -1,     /* an exception is set */
    SOURCE_WRONG_FORM = 1, /* none is: *why has a sentence */
};
/* Opens lists, N x 3 and N x 5 arrays, lists of tuples, tensors and lists of tensors. `mem` NULL or None: the kind is the
 * list's or the tensor's. */
enum source_result source_begin(struct source *source, enum list_kind kind, PyObject *descs, PyObject *mem,
                                const char **why);
/* The same, with TypeError instead of SOURCE_WRONG_FORM. */
int source_begin_strict(struct source *source, enum list_kind kind, PyObject *descs, PyObject *mem);
void source_end(struct source *source);
/* A new list from anything source_begin() takes; an existing list is returned itself. */
PyObject *source_to_list(enum list_kind kind, PyObject *descs, PyObject *mem, enum source_result *result,
                         const char **why);
/* Fills an empty list from an N x 3 array, a transfer list also from an N x 5 one (ValueError for others). */
int dlist_fill_array(struct dlist *list, PyObject *array);
/* Fills an empty list from a list of tuples. */
int dlist_fill_tuples(struct dlist *list, PyObject *sequence);
/* Fills an empty transfer list with rows (addr, len, dev, stride, count). */
int dlist_fill_strided(struct dlist *list, PyObject *sequence);
/* Adds the blocks of a strided row to *total; false with ValueError when they are too many to be counted. */
bool strided_count_fits(uint64_t count, size_t row, uint64_t *total);

/* Indices of prepared lists as int32: any integer array without a copy where it is int32 already, any sequence. */
struct indices {
    const int32_t *at; /* NULL: all, in order */
    size_t count;
    int32_t *scratch;
    Py_buffer view;
    bool has_view;
};
int indices_begin(struct indices *indices, PyObject *object);
void indices_end(struct indices *indices);

/* ---- tensor.c: objects that are memory ---- */

struct tensor {
    uint64_t addr, len, dev;
    nixl_mem_t mem;
    int ndim;
    uint64_t shape[16], stride[16]; /* stride in bytes */
    uint64_t item;
    bool contiguous;
};
/* 1: it is one and *out has it; 0: it is none; -1: an exception. */
int tensor_read(PyObject *object, struct tensor *out, bool want_shape);
bool tensor_like(PyObject *object);
/* Appends the strided rows of a tensor cut along one dimension. */
int tensor_cut(struct dlist *list, const struct tensor *tensor, Py_ssize_t dim);

/* ---- handles.c ---- */

enum handle_kind {
    HANDLE_FREE,
    HANDLE_BACKEND,
    HANDLE_DLIST,
    HANDLE_XFER
};

struct handle {
    void *ptr;
    uint32_t generation;
    uint32_t users;
    uint32_t next_free;
    uint8_t kind;
    bool dying;  /* released while in use: the last user releases it */
    bool posted; /* an xfer that was posted at least once */
    bool reaped; /* an xfer that nobody holds and that had not ended: released when it has */
    uint64_t post_ns, posted_at_ns, done_at_ns;
};

struct agent {
    PyObject_HEAD struct nixl_agent *ptr; /* NULL: closed */
    struct handle *handles;
    uint32_t handle_count, free_head;
    uint32_t users; /* calls that have released the GIL */
    uint32_t reap_count;
    uint32_t first_generation; /* of the numbers of this agent's handles */
    bool closing;
    bool telemetry;
    struct agent *prev, *next; /* all open agents: what the process's end closes */
};

/* A number for a handle as a Python int, never 0. On failure `ptr` is the caller's still. */
PyObject *handle_object(struct agent *agent, enum handle_kind kind, void *ptr);
/* Finds a handle by its number and takes hold of it and of the agent; NULL with an exception. */
void *handle_hold(struct agent *agent, PyObject *number, enum handle_kind kind, uint32_t *index);
void handle_drop(struct agent *agent, uint32_t index);
/* Finds a handle without taking hold; false without an exception when there is none. */
bool handle_find(struct agent *agent, PyObject *number, enum handle_kind kind, uint32_t *index);
/* The number of a handle whose pointer is known: backends. 0: none. */
uint64_t handle_number(const struct agent *agent, enum handle_kind kind, const void *ptr);
void handle_remove(struct agent *agent, uint32_t index);
/* Backends named by a sequence of numbers; *count 0 for NULL, None and empty ones. */
#define BACKENDS_MAX 64
int handle_backends(struct agent *agent, PyObject *numbers, struct nixl_backend **backends, size_t *count);

/* ---- agent.c ---- */

int agent_init_type(PyObject *module);
/* Takes hold of an open agent for a call that releases the GIL; -1 with an exception when it is closed. */
int agent_hold(struct agent *agent);
void agent_drop(struct agent *agent);
/* Tries again to release requests that nobody holds. */
void agent_reap(struct agent *agent);

/* ---- config.c ---- */

struct config {
    PyObject_HEAD struct nixl_agent_config c;
};
int config_init_type(PyObject *module);
PyObject *config_type(void); /* borrowed */

/* ---- telemetry.c ---- */

int telemetry_init_type(PyObject *module);
PyObject *telemetry_new(uint64_t start_us, uint64_t post_us, uint64_t xfer_us, uint64_t bytes,
                        uint64_t descs);

/* ---- methods of the agent type, by subject ---- */

#define METHOD(name)                                                                                         \
    PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
#define METHOD_ENTRY(py_name, function, doc)                                                                 \
    { py_name, (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS, doc }

/* backends.c */
METHOD(agent_avail_plugins);
METHOD(agent_plugin_params);
METHOD(agent_backend_params);
METHOD(agent_create_backend);
METHOD(agent_backend_description);
/* memory.c */
METHOD(agent_register_mem);
METHOD(agent_deregister_mem);
METHOD(agent_query_mem);
METHOD(agent_prep_mem_view);
METHOD(agent_release_mem_view);
/* xfer.c */
METHOD(agent_prep_dlist);
METHOD(agent_make_xfer);
METHOD(agent_create_xfer);
METHOD(agent_post_xfer);
METHOD(agent_xfer_status);
METHOD(agent_wait_xfer);
METHOD(agent_cancel_xfer);
METHOD(agent_release_xfer);
METHOD(agent_forget_xfer);
METHOD(agent_release_dlist);
METHOD(agent_dlist_count);
/* xfer_info.c */
METHOD(agent_xfer_telemetry);
METHOD(agent_xfer_times);
METHOD(agent_estimate_cost);
METHOD(agent_query_backend);
METHOD(agent_xfer_error);
METHOD(agent_xfer_transport);
/* peer.c */
METHOD(agent_get_notifs);
METHOD(agent_gen_notif);
METHOD(agent_make_connection);
METHOD(agent_peer_state);
METHOD(agent_peer_list);
METHOD(agent_peer_transport);
/* metadata.c */
METHOD(agent_get_local_md);
METHOD(agent_get_partial_md);
METHOD(agent_load_remote_md);
METHOD(agent_invalidate_remote_md);
METHOD(agent_send_local_md);
METHOD(agent_send_partial_md);
METHOD(agent_fetch_remote_md);
METHOD(agent_invalidate_local_md);
METHOD(agent_check_remote_md);

uint64_t monotonic_ns(void);

#endif
