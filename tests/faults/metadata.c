/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata that is damaged, cut short, or of a peer that cannot be reached: refused in words, never a crash, never late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "peers.h"

#define MEMORY ((size_t)1 << 20)

struct fixture {
    const struct node_setting *setting;
    struct local l;
    struct node n;
    uint8_t *blob;
    size_t len;
    bool is_dead;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);

    f->setting = *state;
    if (!local_open(&f->l, "local", f->setting, MEMORY) ||
        !node_start(&f->n, "node", f->setting, MEMORY, NULL)) {
        fprintf(stderr, "# %s %s\n", f->n.error, nixl_error());
        return -1;
    }
    f->blob = node_blob(&f->n, &f->len);
    *state = f;
    return f->blob != NULL ? 0 : -1;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    local_close(&f->l);
    if (!f->is_dead) {
        node_stop(&f->n);
    }
    free(f->blob);
    free(f);
    return 0;
}

/* Nothing of a refused blob is kept. */
static void assert_unknown(struct fixture *f) {
    struct nixl_names *names = NULL;

    assert_int_equal(nixl_peer_list(f->l.agent, &names), NIXL_SUCCESS);
    assert_int_equal(names->count, 0);
    nixl_free(names);
}

static void any_flipped_bit_is_refused(void **state) {
    struct fixture *f = *state;

    for (size_t bit = 0; bit < f->len * 8; bit++) {
        nixl_status_t status;

        f->blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
        status = nixl_metadata_load(f->l.agent, f->blob, f->len, NULL);
        f->blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (status >= 0 || nixl_error()[0] == '\0') {
            fprintf(stderr, "# bit %zu of byte %zu of %zu: %s\n", bit % 8, bit / 8, f->len,
                    nixl_status_string(status));
        }
        assert_true(status < 0 && nixl_error()[0] != '\0');
    }
    printf("# %zu bits; the last words: %s\n", f->len * 8, nixl_error());
    assert_unknown(f);
    assert_int_equal(nixl_metadata_load(f->l.agent, f->blob, f->len, NULL), NIXL_SUCCESS);
    assert_write_arrives(&f->l, &f->n, MEMORY, 1);
    outcome("a bit of the metadata flipped", over(f->setting), "refused in words", 0);
}

/* Without its end it is as the reference's, of which each length is checked. */
static void any_shorter_blob_is_refused_or_whole(void **state) {
    struct fixture *f = *state;
    unsigned whole = 0;

    for (size_t len = 0; len < f->len; len++) {
        /* At the end of its own block, so that a sanitizer sees a byte read beyond it. */
        uint8_t *copy = malloc(len != 0 ? len : 1);
        nixl_status_t status;

        memcpy(copy, f->blob, len);
        status = nixl_metadata_load(f->l.agent, copy, len, NULL);
        free(copy);
        whole += status == NIXL_SUCCESS;
        assert_true(status == NIXL_SUCCESS || nixl_error()[0] != '\0');
    }
    printf("# %zu lengths, %u of them whole without the trailer; the last words: %s\n", f->len, whole,
           nixl_error());
    assert_true(whole <= 1);
    outcome("metadata cut short", over(f->setting), "refused in words", 0);
}

static void the_metadata_of_a_dead_peer_fails_in_words_and_in_time(void **state) {
    struct fixture *f = *state;
    struct nixl_desc ours = {(uintptr_t)f->l.at, 4096, 0}, theirs = {f->n.addr, 4096, 0};
    struct nixl_list here = NIXL_LIST(DRAM_SEG, &ours, 1), there = NIXL_LIST(DRAM_SEG, &theirs, 1);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_xfer *xfer = NULL;
    uint64_t start = now_ms();
    nixl_status_t status;

    node_kill(&f->n);
    f->is_dead = true;
    options.timeout_ms = 3000;
    status = nixl_metadata_load(f->l.agent, f->blob, f->len, NULL);
    if (status == NIXL_SUCCESS) {
        status = nixl_xfer_create(f->l.agent, NIXL_WRITE, &here, &there, "node", &options, &xfer);
    }
    if (status == NIXL_SUCCESS) {
        status = run_once(xfer);
    }
    printf("# %s after %llu ms: %s %s\n", nixl_status_string(status), (unsigned long long)(now_ms() - start),
           nixl_error(), xfer != NULL ? nixl_xfer_error(xfer) : "");
    assert_true(status < 0);
    assert_true(now_ms() - start < 3200);
    outcome("metadata of a dead peer", over(f->setting), nixl_status_string(status),
            (double)(now_ms() - start));
    assert_released(xfer, 5000);
    /* The agent is none the worse. */
    assert_true(node_start(&f->n, "node", f->setting, MEMORY, NULL));
    f->is_dead = false;
    assert_int_equal(node_load(&f->n, &f->l), NIXL_SUCCESS);
    assert_write_arrives(&f->l, &f->n, MEMORY, 2);
}

#define TEST(f)                                                                                              \
    { #f, f, setup, teardown, NULL }

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(any_flipped_bit_is_refused),
        TEST(any_shorter_blob_is_refused_or_whole),
        TEST(the_metadata_of_a_dead_peer_fails_in_words_and_in_time),
    };

    node_main(argc, argv);
    return run_matrix(tests, COUNT_OF(tests));
}
