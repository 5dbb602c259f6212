/* SPDX-License-Identifier: Apache-2.0 */
/* Memory to a file and back, with the backend POSIX. The file is named by its path, opened at registration and made if it
 * is not there. */
#include <nixl/nixl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(nixl_status_t status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, nixl_error());
        exit(1);
    }
}

static void transfer(struct nixl_agent *agent, nixl_xfer_op_t op, const struct nixl_list *memory,
                     const struct nixl_list *file) {
    struct nixl_xfer *xfer;

    /* Storage belongs to this agent: it is its own peer. */
    check(nixl_xfer_create(agent, op, memory, file, nixl_agent_name(agent), NULL, &xfer), "create");
    check(nixl_xfer_post(xfer, NULL), "post");
    check(nixl_xfer_wait(xfer, NIXL_NO_TIMEOUT), nixl_op_string(op));
    printf("%s by %s\n", nixl_op_string(op), nixl_xfer_transport(xfer));
    check(nixl_xfer_release(xfer), "release");
}

int main(void) {
    static char data[8192], back[8192];
    char path[] = "nixl-example-XXXXXX", meta[64];
    const struct nixl_desc out = {(uintptr_t)data, sizeof data, 0}, in = {(uintptr_t)back, sizeof back, 0};
    const struct nixl_desc both[] = {out, in};
    /* addr is the offset in the file, dev a number of ours for it; a length of 0 registers all of it. */
    struct nixl_meta_desc registered = {0, 0, 1, meta, 0};
    const struct nixl_desc part = {0, sizeof data, 1};
    const struct nixl_list memory = NIXL_LIST(DRAM_SEG, both, 2),
                           file = NIXL_LIST_META(FILE_SEG, &registered, 1);
    const struct nixl_list outs = NIXL_LIST(DRAM_SEG, &out, 1), ins = NIXL_LIST(DRAM_SEG, &in, 1);
    const struct nixl_list parts = NIXL_LIST(FILE_SEG, &part, 1);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_query_results *answers;
    struct nixl_meta_desc asked = {0, 0, 0, path, sizeof path - 1};
    const struct nixl_list question = NIXL_LIST_META(FILE_SEG, &asked, 1);
    struct nixl_agent *agent;
    struct nixl_backend *posix;
    int fd = mkstemp(path);

    if (fd < 0 || close(fd) != 0 || unlink(path) != 0) {
        perror(path);
        return 1;
    }
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (char)(i * 31);
    }
    registered.meta_len = (size_t)snprintf(meta, sizeof meta, "rw,create:%s", path);
    check(nixl_agent_create("keeper", NULL, &agent), "agent");
    check(nixl_backend_create(agent, "POSIX", NULL, 0, &posix), "POSIX");
    printf("%s\n", nixl_backend_description(posix));
    check(nixl_mem_register(agent, &memory, NULL), "register memory");
    check(nixl_mem_register(agent, &file, NULL), "register the file");
    transfer(agent, NIXL_WRITE, &outs, &parts);
    transfer(agent, NIXL_READ, &ins, &parts);

    options.backends = &posix;
    options.backend_count = 1;
    check(nixl_mem_query(agent, &question, &options, &answers), "query");
    for (size_t i = 0; answers->items[0].found && i < answers->items[0].params.count; i++) {
        printf("%s=%s ", answers->items[0].params.items[i].key, answers->items[0].params.items[i].value);
    }
    printf("\n");
    nixl_free(answers);
    nixl_agent_destroy(agent);
    unlink(path);
    return memcmp(data, back, sizeof data) ? 1 : 0;
}
