/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks etcd for all keys of the namespace and reads the blobs: who published what, how long each agent has been living, how much
 * is left of the lease. It uses the library's own client of etcd's gateway and its reader of blobs, and changes nothing.
 */
#include "etcd.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/text.h"
#include "exchange/etcd_kv.h"
#include "wire/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct row {
    char agent[256], label[128], backends[256];
    size_t blob_len;
    bool is_blob, has_life;
    double age_s;
    uint64_t generation;
    int64_t lease_s; /* left; -1: no lease */
};

static int64_t lease_left(struct etcd_http *http, int64_t lease) {
    int64_t left;

    return lease != 0 && etcd_lease_left(http, lease, &left) == NIXL_SUCCESS ? left : -1;
}

static void blob_read(const struct bytes *value, struct row *row) {
    struct wire_blob *blob = malloc(sizeof *blob);
    struct bytes scratch = {0};
    size_t len = 0;

    if (blob != NULL && wire_blob_open(value->data, value->len, &scratch, blob, NULL) == NIXL_SUCCESS) {
        row->is_blob = true;
        for (size_t i = 0; i < blob->conn_count; i++) {
            struct bytes_view type = blob->conns[i].type;

            text_append(row->backends, sizeof row->backends, &len, "%s%.*s", i != 0 ? "," : "", (int)type.len,
                        (const char *)type.data);
        }
        row->has_life = blob->has_trailer;
        if (blob->has_trailer) {
            row->generation = blob->trailer.generation;
            row->age_s =
                (double)(int64_t)(clock_wall_ns() - blob->trailer.incarnation.boot_ns) / (double)NS_PER_S;
        }
    }
    bytes_free(&scratch);
    free(blob);
}

/* <namespace>/<agent>/<label>; an announce key has no label. Control characters of foreign names are not for a terminal. */
static void name_copy(char *to, size_t size, const uint8_t *from, size_t len) {
    size_t used = 0;

    for (; used < len && used < size - 1; used++) {
        to[used] = from[used] >= 0x20 && from[used] != 0x7f ? (char)from[used] : '?';
    }
    to[used] = '\0';
}

static void name_read(const struct etcd_kv *kv, size_t skip, struct row *row) {
    const uint8_t *name = kv->key.data + skip;
    size_t len = kv->key.len - skip;
    const uint8_t *slash;

    memset(row, 0, sizeof *row);
    while (len != 0 && *name == '/') {
        name++;
        len--;
    }
    slash = memrchr(name, '/', len);
    name_copy(row->agent, sizeof row->agent, name, slash != NULL ? (size_t)(slash - name) : len);
    if (slash != NULL) {
        name_copy(row->label, sizeof row->label, slash + 1, len - (size_t)(slash - name) - 1);
    }
}

static void row_read(struct etcd_http *http, size_t skip, const struct etcd_kv *kv, struct row *row) {
    name_read(kv, skip, row);
    row->blob_len = kv->value.len;
    row->lease_s = lease_left(http, kv->lease);
    blob_read(&kv->value, row);
}

static void row_print(const struct row *row) {
    char age[32] = "-";
    char lease[32] = "-";
    char generation[32] = "-";

    if (row->has_life) {
        snprintf(age, sizeof age, "%.1f s", row->age_s);
        snprintf(generation, sizeof generation, "%" PRIu64, row->generation);
    }
    if (row->lease_s >= 0) {
        snprintf(lease, sizeof lease, "%" PRId64 " s", row->lease_s);
    }
    printf("%-24s %-12s %10zu %12s %8s %10s  %s\n", row->agent,
           row->label[0] != '\0' ? row->label : "(announced)", row->blob_len, age, lease, generation,
           row->is_blob || row->blob_len == 0 ? row->backends : "(no blob)");
}

static json_t *row_json(const struct row *row) {
    json_t *o = json_object();

    json_object_set_new(o, "agent", json_string(row->agent));
    json_object_set_new(o, "label", json_string(row->label));
    json_object_set_new(o, "bytes", json_integer((json_int_t)row->blob_len));
    json_object_set_new(o, "backends", json_string(row->backends));
    json_object_set_new(o, "age_s", row->has_life ? json_real(row->age_s) : json_null());
    json_object_set_new(o, "generation",
                        row->has_life ? json_integer((json_int_t)row->generation) : json_null());
    json_object_set_new(o, "lease_s", row->lease_s >= 0 ? json_integer(row->lease_s) : json_null());
    return o;
}

static void show(struct etcd_http *http, const char *name_space, const struct etcd_reply *reply, bool json) {
    json_t *list = json_array();
    struct row row;

    if (!json) {
        printf("namespace %s\n%-24s %-12s %10s %12s %8s %10s  %s\n", name_space, "agent", "label", "bytes",
               "age", "lease", "generation", "backends");
    }
    for (size_t i = 0; i < reply->kv_count; i++) {
        row_read(http, strlen(name_space), &reply->kvs[i], &row);
        if (json) {
            json_array_append_new(list, row_json(&row));
        } else {
            row_print(&row);
        }
    }
    if (json) {
        json_dumpf(list, stdout, JSON_INDENT(1));
        printf("\n");
    } else if (reply->kv_count == 0) {
        printf("(nothing is published)\n");
    }
    json_decref(list);
}

/* The metadata of that agent among all keys: its name may hold slashes, and the namespace may end in one. */
static nixl_status_t blob_pick(const struct etcd_reply *reply, size_t skip, const char *agent,
                               struct bytes *blob) {
    struct row row;

    for (size_t i = 0; i < reply->kv_count; i++) {
        const struct etcd_kv *kv = &reply->kvs[i];

        name_read(kv, skip, &row);
        if (strcmp(row.agent, agent) == 0 && strcmp(row.label, "metadata") == 0) {
            return bytes_append(blob, kv->value.data, kv->value.len) ? NIXL_SUCCESS
                                                                     : fail_memory("a blob", kv->value.len);
        }
    }
    return fail(NIXL_ERR_NOT_FOUND, "agent %s has not published its metadata", agent);
}

/* Asks for all keys, and hands them to one of the two. */
static bool ask_all(bool json, const char *agent, struct bytes *blob) {
    struct etcd_http http = {0};
    struct etcd_reply reply;
    char *endpoints = NULL;
    char *name_space = NULL;
    nixl_status_t status = config_get_string("NIXL_ETCD_ENDPOINTS", "", &endpoints);

    if (status == NIXL_SUCCESS) {
        status = config_get_string("NIXL_ETCD_NAMESPACE", "/nixl/agents/", &name_space);
    }
    if (status == NIXL_SUCCESS && endpoints[0] == '\0') {
        status = fail(NIXL_ERR_INVALID_PARAM, "--etcd: NIXL_ETCD_ENDPOINTS is not set");
    }
    if (status == NIXL_SUCCESS && name_space[0] == '\0') {
        status = fail(NIXL_ERR_INVALID_PARAM, "NIXL_ETCD_NAMESPACE is empty");
    }
    if (status == NIXL_SUCCESS) {
        status = etcd_http_open(&http, endpoints);
    }
    if (status == NIXL_SUCCESS) {
        status = etcd_list(&http, name_space, &reply);
        if (status == NIXL_SUCCESS) {
            if (agent != NULL) {
                status = blob_pick(&reply, strlen(name_space), agent, blob);
            } else {
                show(&http, name_space, &reply, json);
            }
            etcd_reply_free(&reply);
        }
        etcd_http_close(&http);
    }
    if (status != NIXL_SUCCESS) {
        fprintf(stderr, "nixl-info: %s\n", error_text());
    }
    free(endpoints);
    free(name_space);
    return status == NIXL_SUCCESS;
}

bool etcd_show(bool json) {
    return ask_all(json, NULL, NULL);
}

bool etcd_blob(const char *agent, struct bytes *blob) {
    return ask_all(false, agent, blob);
}
