/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that are slow, silent, huge or lie do not disturb others, and frames of unusual form are read right. */
#include "sockets.h"

#include "base/clock.h"

#define WORD(text) (text), (sizeof(text) - 1)

static struct side_of_test b;

static int listener_up(void **state) {
    listener_begin(&b, "B");
    return 0;
}

static int listener_down(void **state) {
    side_end(&b);
    return 0;
}

static uint16_t port_of_b(void) {
    return nixl_agent_listen_port(b.agent);
}

/* B answers, and within a time that shows that nobody holds it up. */
static void assert_b_answers(void) {
    struct bytes frame = {0};
    uint64_t start = clock_now_ns();
    int fd = plain_connect(port_of_b());

    plain_send(fd, WORD("NIXLCOMM:SEND"));
    assert_true(plain_receive(fd, &frame));
    assert_true(frame.len > 100);
    assert_memory_equal(frame.data, "NIXLCOMM:LOADnixlSerDes|", 24);
    assert_true(clock_now_ns() - start < NS_PER_S);
    bytes_free(&frame);
    close(fd);
}

static void a_frame_in_single_bytes_and_two_frames_in_one_write_are_read(void **state) {
    uint8_t bytes[2 * (WIRE_P2P_SIZE_LEN + WIRE_P2P_COMMAND_LEN)];
    struct bytes frame = {0};
    int fd = plain_connect(port_of_b());

    for (unsigned i = 0; i < 2; i++) {
        uint8_t *at = bytes + i * sizeof bytes / 2;

        wire_p2p_size_put(at, WIRE_P2P_COMMAND_LEN);
        memcpy(at + WIRE_P2P_SIZE_LEN, "NIXLCOMM:SEND", WIRE_P2P_COMMAND_LEN);
    }
    assert_int_equal(send(fd, bytes, sizeof bytes, 0), sizeof bytes);
    assert_true(plain_receive(fd, &frame));
    assert_true(plain_receive(fd, &frame));
    for (size_t i = 0; i < sizeof bytes / 2; i++) {
        assert_int_equal(send(fd, bytes + i, 1, 0), 1);
        usleep(500);
    }
    assert_true(plain_receive(fd, &frame));
    bytes_free(&frame);
    close(fd);
}

static void several_commands_in_one_frame_are_all_done(void **state) {
    struct side_of_test a;
    struct blob blob;
    struct bytes out = {0};
    struct bytes frame = {0};
    int fd = plain_connect(port_of_b());

    side_begin(&a, "A", NULL, "MOCK", NULL, 0, true);
    blob = blob_of(a.agent);
    assert_true(wire_p2p_command_append(&out, WIRE_P2P_LOAD, blob.data, blob.len));
    assert_true(wire_p2p_command_append(&out, WIRE_P2P_SEND, NULL, 0));
    plain_send(fd, out.data, out.len);
    assert_true(plain_receive(fd, &frame));
    assert_true(knows(b.agent, "A", a.memory, MEMORY));
    bytes_clear(&out);
    assert_true(wire_p2p_command_append(&out, WIRE_P2P_INVALIDATE, "nobody", 6));
    assert_true(wire_p2p_command_append(&out, WIRE_P2P_INVALIDATE, "A", 1));
    plain_send(fd, out.data, out.len);
    assert_true(becomes(b.agent, "A", false));
    bytes_free(&out);
    bytes_free(&frame);
    free(blob.data);
    side_end(&a);
    close(fd);
}

static void a_client_that_shuts_its_side_still_gets_its_answer(void **state) {
    struct bytes frame = {0};
    int fd = plain_connect(port_of_b());

    plain_send(fd, WORD("NIXLCOMM:SEND"));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_true(plain_receive(fd, &frame));
    assert_true(plain_is_closed(fd, 3000));
    bytes_free(&frame);
    close(fd);
}

static void sizes_that_cannot_be_end_the_connection_at_once(void **state) {
    static const uint64_t sizes[] = {0, 12, WIRE_P2P_FRAME_MAX + 1, UINT64_MAX, UINT64_C(1) << 63};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t size[WIRE_P2P_SIZE_LEN];
        int fd = plain_connect(port_of_b());

        wire_p2p_size_put(size, sizes[i]);
        assert_int_equal(send(fd, size, sizeof size, MSG_NOSIGNAL), sizeof size);
        assert_true(plain_is_closed(fd, 3000));
        close(fd);
    }
    assert_b_answers();
}

static void what_is_no_command_ends_the_connection_and_bad_blobs_do_not(void **state) {
    struct bytes frame = {0};
    int fd = plain_connect(port_of_b());

    plain_send(fd, WORD("GET / HTTP/1.1 and so on"));
    assert_true(plain_is_closed(fd, 3000));
    close(fd);
    fd = plain_connect(port_of_b());
    plain_send(fd, WORD("NIXLCOMM:LOADnixlSerDes|Agent"));
    plain_send(fd, WORD("NIXLCOMM:LOAD"));
    plain_send(fd, WORD("NIXLCOMM:INVL"));
    plain_send(fd, WORD("NIXLCOMM:WHATever"));
    plain_send(fd, WORD("NIXLCOMM:SEND"));
    assert_true(plain_receive(fd, &frame));
    bytes_free(&frame);
    close(fd);
}

static void a_claimed_gibibyte_costs_no_memory_until_it_comes(void **state) {
    uint8_t size[WIRE_P2P_SIZE_LEN];
    long before;
    long after;
    int fds[50];
    FILE *file = fopen("/proc/self/statm", "r");

    assert_int_equal(fscanf(file, "%*s %ld", &before), 1);
    wire_p2p_size_put(size, WIRE_P2P_FRAME_MAX);
    for (size_t i = 0; i < 50; i++) {
        fds[i] = plain_connect(port_of_b());
        assert_int_equal(send(fds[i], size, sizeof size, MSG_NOSIGNAL), sizeof size);
    }
    assert_b_answers();
    rewind(file);
    fflush(file);
    fclose(file);
    file = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(file, "%*s %ld", &after), 1);
    assert_true((after - before) * sysconf(_SC_PAGESIZE) < 64 << 20);
    fclose(file);
    for (size_t i = 0; i < 50; i++) {
        close(fds[i]);
    }
}

static void three_hundred_silent_peers_do_not_keep_others_out(void **state) {
    int fds[300];

    for (size_t i = 0; i < 300; i++) {
        fds[i] = plain_connect(port_of_b());
    }
    assert_b_answers();
    for (size_t i = 0; i < 300; i++) {
        close(fds[i]);
    }
}

static void a_size_that_never_becomes_whole_ends_in_time(void **state) {
    int fd = plain_connect(port_of_b());
    uint64_t start = clock_now_ns();

    assert_int_equal(send(fd, "\x0d\0", 2, 0), 2);
    assert_b_answers();
    assert_true(plain_is_closed(fd, 10000));
    assert_true(clock_now_ns() - start > 4 * NS_PER_S && clock_now_ns() - start < 9 * NS_PER_S);
    close(fd);
}

static void a_peer_that_takes_no_answers_is_not_answered_without_bound(void **state) {
    int fd = plain_connect(port_of_b());
    uint8_t frame[WIRE_P2P_SIZE_LEN + WIRE_P2P_COMMAND_LEN];
    size_t accepted = 0;

    wire_p2p_size_put(frame, WIRE_P2P_COMMAND_LEN);
    memcpy(frame + WIRE_P2P_SIZE_LEN, "NIXLCOMM:SEND", WIRE_P2P_COMMAND_LEN);
    /* It stops reading when its answers are not taken, so this side's writes stop, too. */
    for (unsigned pause = 0; pause < 50;) {
        if (send(fd, frame, sizeof frame, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
            accepted += sizeof frame;
            pause = 0;
        } else {
            pause++;
            usleep(2000);
        }
        assert_true(accepted < 64 << 20);
    }
    assert_b_answers();
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_frame_in_single_bytes_and_two_frames_in_one_write_are_read),
        TEST(several_commands_in_one_frame_are_all_done),
        TEST(a_client_that_shuts_its_side_still_gets_its_answer),
        TEST(sizes_that_cannot_be_end_the_connection_at_once),
        TEST(what_is_no_command_ends_the_connection_and_bad_blobs_do_not),
        TEST(a_claimed_gibibyte_costs_no_memory_until_it_comes),
        TEST(three_hundred_silent_peers_do_not_keep_others_out),
        TEST(a_size_that_never_becomes_whole_ends_in_time),
        TEST(a_peer_that_takes_no_answers_is_not_answered_without_bound),
    };

    exchange_install();
    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, listener_up, listener_down);
}
