/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets with a key: who has it is let in, everybody else is refused in words, and nothing can be replayed. */
#include "sockets.h"

#include "base/auth.h"

#include <sys/stat.h>

#include "base/text.h"

static char key_path[64];

static void key_write(const char *key) {
    FILE *file = fopen(key_path, "w");

    assert_non_null(file);
    fprintf(file, "%s\n", key);
    fclose(file);
}

static void with_key(const char *key) {
    if (key != NULL) {
        key_write(key);
        setenv("NIXL_AUTH_KEY_FILE", key_path, 1);
    } else {
        unsetenv("NIXL_AUTH_KEY_FILE");
    }
}

#define KEY "a key of more than 16 bytes"
#define OTHER_KEY "another key of 16 bytes at least"

static void macs_are_those_of_rfc_4231(void **state) {
    /* Its test case 7 has a key of 131 bytes 0xaa and this text. */
    static const char text[] =
        "This is a test using a larger than block-size key and a larger than block-size data. The key "
        "needs to be hashed before being used by the HMAC algorithm.";
    static const char expected[] = "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2";
    const struct auth_piece pieces[] = {{text, 10}, {text + 10, 0}, {text + 10, sizeof text - 11}};
    uint8_t mac[AUTH_MAC_LEN];
    char hex[2 * AUTH_MAC_LEN + 1];
    char key[132];
    struct auth *auth;

    memset(key, 0xaa, 131);
    key[131] = '\0';
    with_key(key);
    assert_status(auth_open(&auth), NIXL_SUCCESS);
    assert_non_null(auth);
    assert_true(auth_mac(auth, pieces, 3, mac));
    text_hex_encode(hex, mac, sizeof mac);
    assert_string_equal(hex, expected);
    auth_close(auth);
}

static void a_key_file_that_cannot_be_used_fails_the_agent(void **state) {
    struct nixl_agent *agent;

    with_key("too short");
    assert_status(nixl_agent_create("x", NULL, &agent), NIXL_ERR_INVALID_PARAM);
    assert_error("has 9 bytes, at least 16 are needed");
    with_key(KEY);
    chmod(key_path, 0666);
    assert_status(nixl_agent_create("x", NULL, &agent), NIXL_ERR_INVALID_PARAM);
    assert_error("everybody may write");
    chmod(key_path, 0600);
    setenv("NIXL_AUTH_KEY_FILE", "/nonexistent/key", 1);
    assert_status(nixl_agent_create("x", NULL, &agent), NIXL_ERR_INVALID_PARAM);
    assert_error("/nonexistent/key cannot be read");
}

static void with_one_key_all_calls_work(void **state) {
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_options options;

    with_key(KEY);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    listener_begin(&b, "B");
    options = to_side(&b, 3000);
    assert_status(nixl_metadata_fetch(a.agent, "B", &options), NIXL_SUCCESS);
    assert_status(nixl_metadata_send(a.agent, &options), NIXL_SUCCESS);
    assert_true(knows(b.agent, "A", a.memory, MEMORY));
    assert_status(nixl_metadata_invalidate_local(a.agent, &options), NIXL_SUCCESS);
    assert_status(nixl_metadata_check(b.agent, "A", NULL), NIXL_ERR_NOT_FOUND);
    options.port = 1;
    assert_status(nixl_metadata_invalidate_local(b.agent, &options), NIXL_SUCCESS);
    assert_true(becomes(a.agent, "B", false));
    side_end(&a);
    side_end(&b);
}

static void refuse(const char *ours, const char *theirs, const char *words) {
    struct side_of_test a;
    struct side_of_test b;
    struct nixl_options options;

    with_key(theirs);
    listener_begin(&b, "B");
    with_key(ours);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    options = to_side(&b, 400);
    assert_true(nixl_metadata_fetch(a.agent, "B", &options) < 0);
    assert_error(words);
    assert_true(nixl_metadata_send(a.agent, &options) < 0);
    assert_status(nixl_metadata_check(a.agent, "B", NULL), NIXL_ERR_NOT_FOUND);
    assert_status(nixl_metadata_check(b.agent, "A", NULL), NIXL_ERR_NOT_FOUND);
    side_end(&a);
    side_end(&b);
}

static void without_the_key_or_with_another_one_nobody_is_let_in(void **state) {
    refuse(OTHER_KEY, KEY, "it has no key or another one (NIXL_AUTH_KEY_FILE)");
    refuse(KEY, NULL, "it has no key or another one (NIXL_AUTH_KEY_FILE)");
    refuse(NULL, KEY, "closed the connection");
}

static void a_sealed_frame_counts_once_and_in_its_connection_only(void **state) {
    struct side_of_test b;
    struct bytes_view arg;
    struct bytes frame = {0};
    struct bytes sealed = {0};
    char nonce[65];
    uint8_t theirs[32];
    uint8_t zeros[32] = {0};
    uint8_t mac[32];
    const uint64_t counter = 0;
    struct auth *auth;
    struct wire_p2p_item item;
    int fd;

    with_key(KEY);
    listener_begin(&b, "B");
    assert_status(auth_open(&auth), NIXL_SUCCESS);
    fd = plain_connect(nixl_agent_listen_port(b.agent));
    memset(nonce, '0', 64);
    nonce[64] = '\0';
    assert_true(wire_p2p_command_append(&sealed, WIRE_P2P_HELLO, nonce, 64));
    plain_send(fd, sealed.data, sealed.len);
    assert_true(plain_receive(fd, &frame));
    arg = bytes_view_of(&frame);
    assert_true(wire_p2p_next(&arg, &item));
    assert_int_equal(item.command, WIRE_P2P_HELLO);
    assert_true(text_hex_decode(theirs, (const char *)item.arg.data, item.arg.len));
    /* By the description in seal.c and docs/security.md. */
    {
        const struct auth_piece pieces[] = {{"nixl p2p 1", 11}, {"c", 1},      {zeros, 32},
                                            {theirs, 32},       {&counter, 8}, {"NIXLCOMM:SEND", 13}};

        assert_true(auth_mac(auth, pieces, 6, mac));
    }
    bytes_clear(&sealed);
    assert_true(wire_p2p_command_append(&sealed, WIRE_P2P_SEALED, mac, 32));
    assert_true(bytes_append(&sealed, "NIXLCOMM:SEND", 13));
    plain_send(fd, sealed.data, sealed.len);
    assert_true(plain_receive(fd, &frame));
    assert_memory_equal(frame.data, "NIXLCOMM:SEAL", 13);
    plain_send(fd, sealed.data, sealed.len);
    assert_true(plain_is_closed(fd, 3000));
    close(fd);
    fd = plain_connect(nixl_agent_listen_port(b.agent));
    plain_send(fd, sealed.data, sealed.len);
    assert_true(plain_is_closed(fd, 3000));
    close(fd);
    bytes_free(&frame);
    bytes_free(&sealed);
    auth_close(auth);
    side_end(&b);
}

static void blobs_count_only_when_signed_with_the_key(void **state) {
    struct side_of_test a;
    struct side_of_test b;
    struct side_of_test c;
    struct side_of_test d;
    struct blob blob;
    struct nixl_desc desc;

    with_key(KEY);
    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    side_begin(&b, "B", NULL, "MOCK", NULL, 0, true);
    with_key(OTHER_KEY);
    side_begin(&c, "C", NULL, "MOCK", NULL, 0, true);
    with_key(NULL);
    side_begin(&d, "D", NULL, "MOCK", NULL, 0, true);
    assert_status(load_into(a.agent, blob_of(b.agent)), NIXL_SUCCESS);
    desc = (struct nixl_desc){(uintptr_t)b.memory, MEMORY, 0};
    assert_status(load_into(a.agent, partial_of(b.agent, &desc, 1, false)), NIXL_SUCCESS);
    assert_status(load_into(a.agent, update_of(b.agent, nixl_metadata_generation(b.agent))), NIXL_SUCCESS);
    assert_status(load_into(a.agent, blob_of(c.agent)), NIXL_ERR_NOT_ALLOWED);
    assert_error("signed with another key");
    assert_status(load_into(a.agent, blob_of(d.agent)), NIXL_ERR_NOT_ALLOWED);
    assert_error("not signed with the key");
    assert_status(load_into(a.agent, blob_plain(d.agent, "E")), NIXL_ERR_NOT_ALLOWED);
    assert_error("not signed with the key");
    /* Who asks for no key takes both. */
    assert_status(load_into(d.agent, blob_of(c.agent)), NIXL_SUCCESS);
    blob = blob_of(b.agent);
    ((char *)memmem(blob.data, blob.len, "Agent", 5))[13] ^=
        1; /* another name, and a crc that is now wrong */
    assert_status(load_into(a.agent, blob), NIXL_ERR_MISMATCH);
    side_end(&a);
    side_end(&b);
    side_end(&c);
    side_end(&d);
}

static int key_up(void **state) {
    int fd;

    exchange_install();
    log_set_level(LOG_LEVEL_ERROR);
    snprintf(key_path, sizeof key_path, "/tmp/nixl-test-key-XXXXXX");
    fd = mkstemp(key_path);
    close(fd);
    return fd < 0;
}

static int key_down(void **state) {
    unlink(key_path);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(macs_are_those_of_rfc_4231),
        TEST(a_key_file_that_cannot_be_used_fails_the_agent),
        TEST(with_one_key_all_calls_work),
        TEST(without_the_key_or_with_another_one_nobody_is_let_in),
        TEST(a_sealed_frame_counts_once_and_in_its_connection_only),
        TEST(blobs_count_only_when_signed_with_the_key),
    };

    return cmocka_run_group_tests(tests, key_up, key_down);
}
