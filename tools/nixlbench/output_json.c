/* SPDX-License-Identifier: Apache-2.0 */
/* The whole run as one JSON document; docs/nixlbench.md lists its members. */
#include "output.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Members that hold a NULL (no memory) make the set call fail; json_write sees it in `ok`. */
struct builder {
    bool ok;
};

static void put(struct builder *b, json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) != 0) {
        b->ok = false;
    }
}

/* JSON is UTF-8, names of files and peers need not be: other bytes become question marks, so that results are not lost. */
static json_t *text_json(const char *text) {
    json_t *made = json_string(text);
    char *copy = made == NULL ? strdup(text) : NULL;

    for (char *at = copy; at != NULL && *at != '\0'; at++) {
        *at = (unsigned char)*at < 0x80 ? *at : '?';
    }
    made = made == NULL && copy != NULL ? json_string(copy) : made;
    free(copy);
    return made;
}

static json_t *summary_json(struct builder *b, const struct summary *s) {
    json_t *o = json_object();

    put(b, o, "count", json_integer((json_int_t)s->count));
    put(b, o, "avg_us", json_real(s->avg_us));
    put(b, o, "min_us", json_real(s->min_us));
    put(b, o, "p50_us", json_real(s->p50_us));
    put(b, o, "p90_us", json_real(s->p90_us));
    put(b, o, "p99_us", json_real(s->p99_us));
    put(b, o, "p999_us", json_real(s->p999_us));
    put(b, o, "max_us", json_real(s->max_us));
    return o;
}

static json_t *result_json(struct builder *b, const struct bench_result *r) {
    json_t *o = json_object();

    put(b, o, "op", json_string(nixl_op_string(r->row.op)));
    put(b, o, "block_size", json_integer((json_int_t)r->row.block));
    put(b, o, "batch_size", json_integer((json_int_t)r->row.batch));
    put(b, o, "requests", json_integer((json_int_t)r->requests));
    put(b, o, "bytes", json_integer((json_int_t)r->bytes));
    put(b, o, "seconds", json_real((double)r->wall_ns / 1e9));
    put(b, o, "bandwidth_gb_s", json_real(r->bandwidth));
    put(b, o, "aggregate_gb_s", json_real(r->aggregate));
    put(b, o, "latency_us", json_real(r->latency_us));
    put(b, o, "prep", summary_json(b, &r->prep));
    put(b, o, "post", summary_json(b, &r->post));
    put(b, o, "tx", summary_json(b, &r->tx));
    put(b, o, "transport", text_json(r->transport));
    put(b, o, "checked", json_boolean(r->is_checked));
    put(b, o, "partial", json_boolean(r->is_partial));
    return o;
}

static json_t *config_json(struct builder *b, const struct bench_options *options) {
    json_t *o = json_object();
    char number[32];

    for (size_t i = 0; i < BENCH_REFERENCE_FLAGS; i++) {
        const struct flag *flag = &bench_flags[i];
        const char *value = flag_show(&options->config, flag, number, sizeof number);
        json_t *json;

        if (flag->kind == FLAG_STRING) {
            json = text_json(value);
        } else if (flag->kind == FLAG_BOOL) {
            json = json_boolean(value[0] == '1');
        } else {
            unsigned long long n = 0;

            sscanf(value, "%llu", &n);
            json = json_integer((json_int_t)n);
        }
        put(b, o, flag->name, json);
    }
    return o;
}

bool json_write(const struct bench_plan *plan, const struct bench_options *options,
                const struct bench_facts *facts, const struct bench_result *results, size_t count,
                bool interrupted, const char *error) {
    struct builder builder = {true};
    struct builder *b = &builder;
    json_t *root = json_object();
    json_t *list = json_array();
    json_t *notes = json_array();

    put(b, root, "nixl_version", json_string(nixl_version()));
    put(b, root, "runtime", json_string(plan_runtime_name(plan->runtime)));
    put(b, root, "processes", json_integer(plan->processes));
    put(b, root, "config", config_json(b, options));
    put(b, root, "buffer_size", json_integer((json_int_t)plan->buffer_size));
    put(b, root, "num_iter", json_integer((json_int_t)plan->iterations));
    put(b, root, "warmup_iter", json_integer((json_int_t)plan->warmup));
    for (size_t i = 0; i < plan->note_count; i++) {
        if (json_array_append_new(notes, text_json(plan->notes[i])) != 0) {
            b->ok = false;
        }
    }
    put(b, root, "notes", notes);
    put(b, root, "backend_description", text_json(facts->backend_description));
    put(b, root, "transport", text_json(facts->transport));
    for (size_t i = 0; i < count; i++) {
        if (json_array_append_new(list, result_json(b, &results[i])) != 0) {
            b->ok = false;
        }
    }
    put(b, root, "results", list);
    put(b, root, "interrupted", json_boolean(interrupted));
    put(b, root, "error", error != NULL ? text_json(error) : json_null());
    if (!b->ok || json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0) {
        fprintf(stderr, "nixlbench: the JSON document could not be written\n");
        b->ok = false;
    }
    printf("\n");
    json_decref(root);
    return b->ok;
}
