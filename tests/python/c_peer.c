/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C side of test_processes.py:  c_peer FOLDER. It gives its metadata and the address of its megabyte as files, reads
 * and writes the Python agent's memory ("python.metadata", "python.address"), waits until that one has written and told
 * so, and ends with 0 when every byte is right.
 */
#include <nixl/nixl.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIZE (1u << 20)

static const char *folder;

static void fail(const char *what) {
    fprintf(stderr, "c_peer: %s: %s\n", what, nixl_error());
    exit(1);
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

static void put(const char *name, const void *data, size_t len) {
    char part[512], whole[512];
    FILE *file;

    snprintf(whole, sizeof whole, "%s/%s", folder, name);
    snprintf(part, sizeof part, "%s/%s.part", folder, name);
    file = fopen(part, "wb");
    if (file == NULL || fwrite(data, 1, len, file) != len || fclose(file) != 0 || rename(part, whole) != 0) {
        fail(whole);
    }
}

static size_t get(const char *name, void *data, size_t room) {
    char path[512];
    FILE *file = NULL;
    size_t len;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (int i = 0; i < 2000 && (file = fopen(path, "rb")) == NULL; i++) {
        pause_ms(10);
    }
    if (file == NULL) {
        fail(path);
    }
    len = fread(data, 1, room, file);
    fclose(file);
    return len;
}

static void move(struct nixl_agent *agent, nixl_xfer_op_t op, void *mine, uint64_t theirs,
                 const char *notif) {
    struct nixl_desc local = {(uint64_t)(uintptr_t)mine, SIZE, 0}, remote = {theirs, SIZE, 0};
    struct nixl_list locals = NIXL_LIST(DRAM_SEG, &local, 1), remotes = NIXL_LIST(DRAM_SEG, &remote, 1);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer;

    options.has_notif = true;
    options.notif = notif;
    options.notif_len = strlen(notif);
    if (nixl_xfer_create(agent, op, &locals, &remotes, "python", &options, &xfer) != NIXL_SUCCESS ||
        nixl_xfer_post(xfer, NULL) < 0 || nixl_xfer_wait(xfer, 20000) != NIXL_SUCCESS) {
        fail(notif);
    }
    (void)nixl_xfer_release(xfer);
}

static void expect(const unsigned char *memory, unsigned char byte, const char *when) {
    for (size_t i = 0; i < SIZE; i++) {
        if (memory[i] != byte) {
            fprintf(stderr, "c_peer: %s: byte %zu is %02x\n", when, i, memory[i]);
            exit(1);
        }
    }
}

static void wait_for(struct nixl_agent *agent, const char *text) {
    for (int i = 0; i < 20000; i++) {
        struct nixl_notifs *notifs = NULL;

        if (nixl_notif_take(agent, NULL, &notifs) != NIXL_SUCCESS) {
            fail("notifications");
        }
        for (size_t k = 0; notifs != NULL && k < notifs->count; k++) {
            if (notifs->items[k].len == strlen(text) &&
                memcmp(notifs->items[k].msg, text, strlen(text)) == 0 &&
                strcmp(notifs->items[k].agent, "python") == 0) {
                nixl_notifs_release(notifs);
                return;
            }
        }
        nixl_notifs_release(notifs);
        pause_ms(1);
    }
    fail(text);
}

int main(int argc, char **argv) {
    struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;
    unsigned char *memory = aligned_alloc(4096, SIZE), *scratch = aligned_alloc(4096, SIZE);
    struct nixl_desc blocks[2];
    struct nixl_list list = NIXL_LIST(DRAM_SEG, blocks, 2);
    struct nixl_backend *backend;
    struct nixl_agent *agent;
    char blob[16384], number[64];
    void *metadata = NULL;
    char *peer;
    uint64_t theirs;
    size_t len = 0;

    if (argc != 2 || memory == NULL || scratch == NULL) {
        return 2;
    }
    folder = argv[1];
    memset(memory, 'C', SIZE);
    blocks[0] = (struct nixl_desc){(uint64_t)(uintptr_t)memory, SIZE, 0};
    blocks[1] = (struct nixl_desc){(uint64_t)(uintptr_t)scratch, SIZE, 0};
    config.progress_thread = true;
    if (nixl_agent_create("c", &config, &agent) != NIXL_SUCCESS ||
        nixl_backend_create(agent, "UCX", NULL, 0, &backend) != NIXL_SUCCESS ||
        nixl_mem_register(agent, &list, NULL) != NIXL_SUCCESS ||
        nixl_metadata_get(agent, &metadata, &len) != NIXL_SUCCESS) {
        fail("start");
    }
    put("c.metadata", metadata, len);
    nixl_free(metadata);
    snprintf(number, sizeof number, "%" PRIu64, blocks[0].addr);
    put("c.address", number, strlen(number));
    len = get("python.metadata", blob, sizeof blob);
    if (nixl_metadata_load(agent, blob, len, &peer) != NIXL_SUCCESS || strcmp(peer, "python") != 0) {
        fail("the Python agent's metadata");
    }
    nixl_free(peer);
    number[get("python.address", number, sizeof number - 1)] = '\0';
    theirs = strtoull(number, NULL, 10);

    move(agent, NIXL_READ, scratch, theirs, "c has read");
    expect(scratch, 'P', "after the read");
    memset(scratch, 'w', SIZE);
    move(agent, NIXL_WRITE, scratch, theirs, "c has written");
    wait_for(agent, "python has written");
    expect(memory, 'v', "after Python's write");
    if (nixl_notif_send(agent, "python", "bye", 3, NULL) != NIXL_SUCCESS) {
        fail("bye");
    }
    pause_ms(300);
    nixl_agent_destroy(agent);
    free(memory);
    free(scratch);
    return 0;
}
