/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that README lists as not there yet: each answers NIXL_ERR_NOT_SUPPORTED, says why in words, and sets its
 * output to NULL. readme.sh compares the names in the table here with README's.
 */
#include <nixl/nixl.h>
#include <stdio.h>
#include <string.h>

static char memory[64];
static const struct nixl_desc block = {(uintptr_t)memory, sizeof memory, 0};
static const struct nixl_list list = NIXL_LIST(DRAM_SEG, &block, 1);
static const struct nixl_remote_desc remote_block = {(uintptr_t)memory, sizeof memory, 0, "peer"};
static const struct nixl_list remote_list = {
    sizeof(struct nixl_list), DRAM_SEG, NIXL_FORM_REMOTE, &remote_block, 0, 1};
static void *view = memory;

static nixl_status_t view_local(struct nixl_agent *agent, const struct nixl_options *options) {
    (void)options;
    return nixl_view_local(agent, &list, NULL, &view);
}

static nixl_status_t view_remote(struct nixl_agent *agent, const struct nixl_options *options) {
    (void)options;
    return nixl_view_remote(agent, &remote_list, NULL, &view);
}

static const struct {
    const char *name;
    nixl_status_t (*call)(struct nixl_agent *agent, const struct nixl_options *options);
    const char *words;
    bool gives_view;
} not_yet[] = {
    {"nixl_view_local", view_local, "memory views", true},
    {"nixl_view_remote", view_remote, "memory views", true},
};

int main(void) {
    const size_t count = sizeof not_yet / sizeof not_yet[0];
    struct nixl_agent *agent = NULL;
    struct nixl_options options = NIXL_OPTIONS_INIT;
    int failed = 0;

    options.ip_addr = "127.0.0.1";
    printf("1..%zu\n", count);
    if (nixl_agent_create("left", NULL, &agent) != NIXL_SUCCESS) {
        printf("Bail out! no agent: %s\n", nixl_error());
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        view = memory;
        nixl_status_t status = not_yet[i].call(agent, &options);
        bool good = status == NIXL_ERR_NOT_SUPPORTED && strstr(nixl_error(), not_yet[i].words) != NULL &&
                    (!not_yet[i].gives_view || view == NULL);
        printf("%sok %zu - %s says that it is not there yet\n", good ? "" : "not ", i + 1, not_yet[i].name);
        if (!good) {
            printf("# %s, \"%s\"\n", nixl_status_string(status), nixl_error());
            failed = 1;
        }
    }
    nixl_agent_destroy(agent);
    return failed;
}
