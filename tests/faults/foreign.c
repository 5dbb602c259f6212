/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata in the reference's own form, which has no checksum, with any one bit flipped: refused in words, or loaded and then
 * used, with an end in time and never a crash. A blob that the reference wrote (tests/vectors), whose peer is gone, and that of a
 * node that lives, without our trailer. In a network of this program's own, in which the address that was recorded is near.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <sys/mount.h>

#include "peers.h"

#define MEMORY ((size_t)1 << 16)
#define DEADLINE_MS 200u
#define LATE_MS 10000u /* on a machine with much else to do */
/* Each bit in one of the settings; of a living peer's, where a flip costs more, those of what UCX packed, of the address each other. */
#define STEP 6u
#define STEP_ADDRESS 12u

struct fixture {
    const struct node_setting *setting;
    struct local l;
    struct node n;
    bool has_node;
    unsigned refused, failed, done;
    uint64_t longest_ms;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);

    f->setting = *state;
    *state = f;
    if (!local_open(&f->l, "local", f->setting, MEMORY)) {
        fprintf(stderr, "# %s\n", nixl_error());
        return -1;
    }
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    local_close(&f->l);
    if (f->has_node) {
        node_stop(&f->n);
    }
    free(f);
    return 0;
}

/* The value of a hex field of the vectors, as bytes. */
static uint8_t *recorded(const char *field, size_t *len) {
    static char text[16384];
    char path[4096], key[64];
    uint8_t *bytes = calloc(1, sizeof text / 2);
    const char *at;
    FILE *in;

    (void)snprintf(path, sizeof path, "%s/tests/vectors/reference-1.4.0.json", getenv("NIXL_TEST_SOURCE"));
    in = fopen(path, "re");
    assert_non_null(in);
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    (void)fclose(in);
    (void)snprintf(key, sizeof key, "\"%s\": \"", field);
    at = strstr(text, key);
    assert_non_null(at);
    at += strlen(key);
    for (*len = 0; sscanf(at, "%2hhx", &bytes[*len]) == 1; at += 2) {
        (*len)++;
    }
    assert_true(*len > 100);
    return bytes;
}

/* What the agent thinks that it knows is used as anybody would use it. */
static nixl_status_t use(struct fixture *f, const char *name, uint64_t addr) {
    struct nixl_desc ours = {(uintptr_t)f->l.at, 64, 0}, theirs = {addr, 64, 0};
    struct nixl_list here = NIXL_LIST(DRAM_SEG, &ours, 1), there = NIXL_LIST(DRAM_SEG, &theirs, 1);
    struct nixl_options options = NIXL_OPTIONS_INIT;
    struct nixl_dlist *prepared = NULL;
    struct nixl_xfer *xfer = NULL;
    nixl_status_t status;

    options.timeout_ms = DEADLINE_MS;
    status = nixl_dlist_prepare(f->l.agent, name, &there, NULL, &prepared);
    if (status == NIXL_SUCCESS) {
        status = nixl_xfer_create(f->l.agent, NIXL_WRITE, &here, &there, name, &options, &xfer);
    }
    if (status == NIXL_SUCCESS) {
        status = run_once(xfer);
        assert_true(status == NIXL_SUCCESS || nixl_xfer_error(xfer)[0] != '\0' || nixl_error()[0] != '\0');
    } else {
        assert_true(nixl_error()[0] != '\0');
    }
    assert_released(xfer, LATE_MS);
    nixl_dlist_release(prepared);
    return status;
}

/* Loads it, uses and forgets whatever that made known. */
static void try_one(struct fixture *f, const void *blob, size_t len, uint64_t addr) {
    /* In a block of its own: a sanitizer sees a byte read beyond it. */
    void *copy = malloc(len);
    struct nixl_names *names = NULL;
    uint64_t begun = now_ms(), took;
    nixl_status_t status;

    memcpy(copy, blob, len);
    status = nixl_metadata_load(f->l.agent, copy, len, NULL);
    free(copy);
    assert_true(status == NIXL_SUCCESS || (status < 0 && nixl_error()[0] != '\0'));
    if (status != NIXL_SUCCESS) {
        f->refused++;
    }
    assert_int_equal(nixl_peer_list(f->l.agent, &names), NIXL_SUCCESS);
    assert_true(status == NIXL_SUCCESS || names->count == 0);
    for (size_t i = 0; i < names->count; i++) {
        status = use(f, names->items[i], addr);
        f->done += status == NIXL_SUCCESS;
        f->failed += status != NIXL_SUCCESS;
        assert_int_equal(nixl_metadata_invalidate(f->l.agent, names->items[i]), NIXL_SUCCESS);
    }
    nixl_free(names);
    took = now_ms() - begun;
    f->longest_ms = took > f->longest_ms ? took : f->longest_ms;
    assert_true(took < LATE_MS);
}

struct part {
    size_t from, to; /* bytes */
};

/* Where a blob has what UCX packed: the address, behind "c" and 8 bytes that say how long it is, and the first row's key. */
struct parts {
    struct part address, key;
    uint64_t region;
};

static size_t number_at(const uint8_t *at) {
    uint64_t number;

    memcpy(&number, at, sizeof number);
    return (size_t)number;
}

static struct parts find_parts(const uint8_t *blob, size_t len) {
    static const char conn[] = "UCX|c", list[] = "nixlSDList|t";
    const uint8_t *c = memmem(blob, len, conn, sizeof conn - 1),
                  *row = memmem(blob, len, list, sizeof list - 1);
    struct parts parts;

    assert_non_null(c);
    assert_non_null(row);
    c += sizeof conn - 1;
    parts.address.from = (size_t)(c + 8 - blob);
    parts.address.to = parts.address.from + number_at(c);
    /* The kind of memory (8 + 4 bytes) and the count (8 + 8) come first. */
    row += sizeof list - 1 + 12 + strlen("|n") + 16 + strlen("|");
    parts.key.from = (size_t)(row + 8 + 24 - blob);
    parts.key.to = (size_t)(row + 8 - blob) + number_at(row);
    parts.region = number_at(row + 8);
    assert_true(parts.address.to < len && parts.key.from < parts.key.to && parts.key.to < len);
    return parts;
}

static bool is_within(struct part part, size_t bit) {
    return bit / 8 >= part.from && bit / 8 < part.to;
}

static void flip(struct fixture *f, uint8_t *blob, size_t len, bool is_living) {
    struct parts parts = find_parts(blob, len);
    size_t mine = (size_t)(f->setting - matrix);
    /* NIXL_TEST_FLIPS=1: each bit in each setting, which takes minutes. */
    size_t step = rounds_of("NIXL_TEST_FLIPS", STEP);
    unsigned tried = 0;

    for (size_t bit = 0; bit < len * 8; bit++) {
        bool is_address = is_within(parts.address, bit);

        if (step == STEP && is_living &&
            (is_address ? bit % STEP_ADDRESS >= STEP : !is_within(parts.key, bit))) {
            continue;
        }
        if (bit % step == mine % step) {
            blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
            try_one(f, blob, len, parts.region);
            blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
            tried++;
        }
    }
    printf("# %u of %zu bits: %u refused at load, %u in use, %u used; %llu ms at most\n", tried, len * 8,
           f->refused, f->failed, f->done, (unsigned long long)f->longest_ms);
    assert_true(f->refused > 0);
}

static void any_flipped_bit_of_the_references_metadata_does_no_harm(void **state) {
    struct fixture *f = *state;
    size_t len;
    uint8_t *blob = recorded("full_metadata", &len);

    flip(f, blob, len, false);
    free(blob);
    outcome("a bit of the reference's metadata flipped", over(f->setting),
            "refused in words, or its use ends in words", 0);
}

static void any_flipped_bit_of_a_living_peers_metadata_does_no_harm(void **state) {
    struct fixture *f = *state;
    uint8_t *blob, *trailer;
    size_t len;

    assert_true(node_start(&f->n, "node", f->setting, MEMORY, NULL));
    f->has_node = true;
    blob = node_blob(&f->n, &len);
    assert_non_null(blob);
    trailer = memmem(blob, len, "nixlTrailer", strlen("nixlTrailer"));
    assert_non_null(trailer);
    flip(f, blob, (size_t)(trailer - blob), true);
    free(blob);
    assert_int_equal(node_load(&f->n, &f->l), NIXL_SUCCESS);
    assert_write_arrives(&f->l, &f->n, MEMORY, 1);
}

static bool sh(const char *command) {
    return system(command) == 0;
}

/* A network in which the address that was recorded, 192.0.2.2, and any that a flipped bit makes of it, is here, and refuses. */
static bool take_own_network(void) {
    return geteuid() == 0 && unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
           mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           /* UCX looks for devices there. */
           mount("sysfs", "/sys", "sysfs", MS_RDONLY, NULL) == 0 &&
           sh("exec 2>/dev/null; ip link set lo up && ip link add near type veth peer name far && "
              "ip addr add 192.0.2.3/24 dev near && ip link set far up && ip link set near up && "
              "ip route add local 192.0.2.0/24 dev lo && ip route add local 0.0.0.0/1 dev lo && "
              "ip route add local 128.0.0.0/1 dev lo && "
              "for i in $(seq 100); do [ \"$(cat /sys/class/net/near/carrier)\" = 1 ] && exit 0; sleep 0.05; "
              "done; exit 1");
}

#define TEST(f)                                                                                              \
    { #f, f, setup, teardown, NULL }

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        TEST(any_flipped_bit_of_the_references_metadata_does_no_harm),
        TEST(any_flipped_bit_of_a_living_peers_metadata_does_no_harm),
    };

    node_main(argc, argv);
    if (!take_own_network()) {
        printf("1..0 # SKIP a network of its own takes root and ip\n");
        return 0;
    }
    return run_matrix(tests, COUNT_OF(tests));
}
