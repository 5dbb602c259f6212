/* SPDX-License-Identifier: Apache-2.0 */
/* How a target answers questions, also hostile ones: serve.c alone, with stand-ins for UCX and for the rest of the backend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../../src/backends/ucx/serve.c"

/* ---- stand-ins ---- */

static uint8_t memory[4096];
static struct ucx_region region;
static struct ucx_instance self;
static struct ucx_worker worker;
static struct nixl_host host;
static struct {
    unsigned count;
    struct head head;
    uint8_t data[65536];
    size_t len;
} answered;
static unsigned logged;
static ucs_status_t finished;
static unsigned finish_count;

struct ucx_region *ucx_region_find(struct ucx_instance *owner, uint64_t addr, uint64_t len) {
    return addr == region.addr && len == region.len ? &region : NULL;
}
void ucx_region_release(struct ucx_region *r) {}
bool ucx_region_enter(struct ucx_region *r) {
    return r->is_open;
}
void ucx_region_leave(struct ucx_region *r) {}
struct ucx_message *ucx_message_take(struct ucx_worker *on, size_t len) {
    struct ucx_message *message = calloc(1, sizeof *message);

    message->worker = on;
    assert_true(bytes_reserve(&message->bytes, len));
    return message;
}
void ucx_message_give_back(struct ucx_message *message) {
    bytes_free(&message->bytes);
    free(message);
}
void ucx_op_finish(struct ucx_op *op, ucs_status_t status) {
    finished = status;
    finish_count++;
}
static unsigned ready_count;

void ucx_worker_ready(struct ucx_worker *on, struct ucx_xfer *ready) {
    assert_ptr_equal(on, &worker);
    assert_false(ready->is_held);
    ready_count++;
}
nixl_status_t ucx_notif_handler(struct ucx_worker *on, unsigned id, ucp_am_recv_callback_t handler) {
    return NIXL_SUCCESS;
}

ucs_status_ptr_t ucx_message_send(struct ucx_message *message, ucp_ep_h ep, unsigned id,
                                  ucp_request_param_t *param) {
    assert_int_equal(id, UCX_AM_ANSWER);
    answered.count++;
    answered.head = head_from_wire(message->bytes.data);
    answered.len = message->bytes.len - sizeof(struct head);
    memcpy(answered.data, message->bytes.data + sizeof(struct head), answered.len);
    return NULL;
}

static void fake_log(void *ctx, enum nixl_log_level level, const char *format, ...) {
    logged++;
}

static int setup(void **state) {
    for (size_t i = 0; i < sizeof memory; i++) {
        memory[i] = (uint8_t)(i * 7);
    }
    region =
        (struct ucx_region){.self = &self, .addr = (uintptr_t)memory + 1000, .len = 2000, .is_open = true};
    host = (struct nixl_host){.log = fake_log};
    self = (struct ucx_instance){.host = &host};
    worker = (struct ucx_worker){.self = &self};
    memset(&answered, 0, sizeof answered);
    logged = 0;
    finish_count = 0;
    return 0;
}

/* Gives a question to the target in a block of exactly its length, so that the sanitizer sees a step beyond. */
static void ask(struct head h, const struct row *rows, uint32_t row_count, const void *data, size_t data_len,
                size_t cut) {
    ucp_am_recv_param_t param = {.recv_attr = UCP_AM_RECV_ATTR_FIELD_REPLY_EP};
    size_t len = sizeof h + row_count * sizeof *rows + data_len;
    uint8_t *bytes = malloc(len);
    struct head wire = head_to_wire(h);

    memcpy(bytes, &wire, sizeof wire);
    if (row_count > 0) {
        memcpy(bytes + sizeof h, rows, row_count * sizeof *rows);
    }
    if (data_len > 0) {
        memcpy(bytes + sizeof h + row_count * sizeof *rows, data, data_len);
    }
    uint8_t *exact = malloc(len - cut > 0 ? len - cut : 1);
    memcpy(exact, bytes, len - cut);
    assert_int_equal(on_question(&worker, NULL, 0, exact, len - cut, &param), UCS_OK);
    free(exact);
    free(bytes);
}

static struct head head_of(uint32_t kind, uint32_t count, uint64_t bytes) {
    return (struct head){.cookie = 77,
                         .kind = kind,
                         .count = count,
                         .bytes = bytes,
                         .region_addr = region.addr,
                         .region_len = region.len};
}

static void a_read_is_answered_with_the_bytes_of_all_rows(void **state) {
    struct row rows[2] = {{region.addr, 10}, {region.addr + 1990, 10}};

    ask(head_of(KIND_READ, 2, 20), rows, 2, NULL, 0, 0);
    assert_int_equal(answered.count, 1);
    assert_int_equal(answered.head.cookie, 77);
    assert_int_equal(answered.head.kind, ANSWER_OK);
    assert_int_equal(answered.len, 20);
    assert_memory_equal(answered.data, memory + 1000, 10);
    assert_memory_equal(answered.data + 10, memory + 2990, 10);
}

static void a_write_lands_in_its_rows_only(void **state) {
    struct row rows[2] = {{region.addr + 5, 3}, {region.addr + 100, 2}};
    uint8_t before[sizeof memory];

    memcpy(before, memory, sizeof memory);
    ask(head_of(KIND_WRITE, 2, 5), rows, 2, "abcde", 5, 0);
    assert_int_equal(answered.head.kind, ANSWER_OK);
    assert_int_equal(answered.len, 0);
    memcpy(before + 1005, "abc", 3);
    memcpy(before + 1100, "de", 2);
    assert_memory_equal(memory, before, sizeof memory);
}

static void rows_outside_the_region_touch_nothing(void **state) {
    const struct row bad[] = {{region.addr - 1, 1},
                              {region.addr + 2000, 1},
                              {region.addr + 1999, 2},
                              {region.addr, 2001},
                              {0, 1},
                              {UINT64_MAX, 1},
                              {region.addr, UINT64_MAX},
                              {region.addr + 1, UINT64_MAX}};
    uint8_t before[sizeof memory];

    memcpy(before, memory, sizeof memory);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        answered.count = 0;
        ask(head_of(KIND_WRITE, 1, 1), &bad[i], 1, "x", 1, 0);
        assert_int_equal(answered.count, 1);
        assert_int_equal(answered.head.kind, ANSWER_MALFORMED);
        ask(head_of(KIND_READ, 1, 1), &bad[i], 1, NULL, 0, 0);
        assert_int_equal(answered.head.kind, ANSWER_MALFORMED);
        assert_int_equal(answered.len, 0);
    }
    assert_memory_equal(memory, before, sizeof memory);
}

static void rows_that_do_not_add_up_are_refused(void **state) {
    struct row rows[2] = {{region.addr, 10}, {region.addr, 10}};

    ask(head_of(KIND_READ, 2, 19), rows, 2, NULL, 0, 0);
    assert_int_equal(answered.head.kind, ANSWER_MALFORMED);
    ask(head_of(KIND_READ, 2, 21), rows, 2, NULL, 0, 0);
    assert_int_equal(answered.head.kind, ANSWER_MALFORMED);
    ask(head_of(KIND_READ, 0, 1), NULL, 0, NULL, 0, 0);
    assert_int_equal(answered.head.kind, ANSWER_MALFORMED);
}

static void a_region_that_is_gone_is_said_to_be(void **state) {
    struct row row = {region.addr, 10};
    struct head h = head_of(KIND_READ, 1, 10);

    region.is_open = false;
    ask(h, &row, 1, NULL, 0, 0);
    assert_int_equal(answered.head.kind, ANSWER_NO_REGION);
    region.is_open = true;
    h.region_len++;
    ask(h, &row, 1, NULL, 0, 0);
    assert_int_equal(answered.head.kind, ANSWER_NO_REGION);
    region.mem = VRAM_SEG;
    ask(head_of(KIND_READ, 1, 10), &row, 1, NULL, 0, 0);
    assert_int_equal(answered.head.kind, ANSWER_NO_REGION);
}

static void truncated_and_oversized_questions_are_dropped(void **state) {
    struct row rows[2] = {{region.addr, 3}, {region.addr, 2}};

    for (size_t cut = 1; cut <= sizeof(struct head) + sizeof rows + 5; cut++) {
        ask(head_of(KIND_WRITE, 2, 5), rows, 2, "abcde", 5, cut);
        assert_int_equal(answered.count, 0);
        assert_int_equal(logged, cut);
    }
    ask(head_of(KIND_READ, UINT32_MAX, 5), rows, 2, NULL, 0, 0);
    ask(head_of(KIND_READ, 2, UINT64_MAX), rows, 2, NULL, 0, 0);
    ask(head_of(KIND_READ, 2, ASK_BYTES + 1), rows, 2, NULL, 0, 0);
    ask(head_of(9, 2, 5), rows, 2, NULL, 0, 0);
    ask(head_of(KIND_WRITE, 2, UINT64_MAX - 31), rows, 2, NULL, 0, 0);
    assert_int_equal(answered.count, 0);
}

/* ---- answers ---- */

static struct nixl_request request;
static struct ucx_end asked_end = {.worker = &worker};
static struct ucx_xfer xfer;
static uint8_t target[16];

static struct ucx_op *waiting_op(struct ucx_op *op, struct nixl_run *run, uint64_t cookie) {
    memset(target, 0, sizeof target);
    *run = (struct nixl_run){
        .local = (uintptr_t)target, .len = 3, .local_stride = 5, .remote_stride = 4, .count = 3};
    request = (struct nixl_request){.op = NIXL_READ, .runs = run, .run_count = 1};
    xfer = (struct ucx_xfer){.self = &self, .worker = &worker, .end = &asked_end, .request = &request};
    *op = (struct ucx_op){.xfer = &xfer, .bytes = 9, .cookie = cookie};
    op->next = worker.asked[cookie % UCX_ASKED];
    worker.asked[cookie % UCX_ASKED] = op;
    return op;
}

static void answer_with(uint64_t cookie, uint32_t status, const char *data, size_t len) {
    ucp_am_recv_param_t param = {0};
    uint8_t *bytes = malloc(sizeof(struct head) + len);
    struct head wire = head_to_wire((struct head){.cookie = cookie, .kind = status, .bytes = len});

    memcpy(bytes, &wire, sizeof wire);
    memcpy(bytes + sizeof wire, data, len);
    assert_int_equal(on_answer(&worker, NULL, 0, bytes, sizeof wire + len, &param), UCS_OK);
    free(bytes);
}

static void an_answer_is_scattered_over_its_blocks(void **state) {
    struct ucx_op op;
    struct nixl_run run;

    waiting_op(&op, &run, 5);
    answer_with(5, ANSWER_OK, "abcdefghi", 9);
    assert_int_equal(finish_count, 1);
    assert_int_equal(finished, UCS_OK);
    assert_memory_equal(target, "abc\0\0def\0\0ghi\0\0\0", 16);
}

static void answers_nobody_waits_for_and_short_ones_write_nothing(void **state) {
    static const uint8_t zeros[16];
    struct ucx_op op;
    struct nixl_run run;

    waiting_op(&op, &run, 5);
    answer_with(6, ANSWER_OK, "abcdefghi", 9);
    answer_with(5 + UCX_ASKED, ANSWER_OK, "abcdefghi", 9);
    assert_int_equal(finish_count, 0);
    answer_with(5, ANSWER_OK, "abcdefgh", 8);
    assert_int_equal(finish_count, 1);
    assert_int_equal(finished, UCS_ERR_MESSAGE_TRUNCATED);
    /* It was answered: a second time nobody waits any more. */
    answer_with(5, ANSWER_OK, "abcdefghi", 9);
    assert_int_equal(finish_count, 1);
    waiting_op(&op, &run, 7);
    answer_with(7, ANSWER_NO_REGION, "", 0);
    assert_int_equal(finished, UCS_ERR_NO_ELEM);
    assert_memory_equal(target, zeros, 16);
}

static void forgotten_operations_end_and_their_answers_are_dropped(void **state) {
    static struct ucx_end end = {.worker = &worker}, other = {.worker = &worker};
    struct ucx_op ops[2];
    struct nixl_run run;

    waiting_op(&ops[0], &run, 5);
    waiting_op(&ops[1], &run, 5 + UCX_ASKED);
    xfer.end = &end;
    ucx_ask_forget(&other, NULL, UCS_ERR_CANCELED);
    assert_int_equal(finish_count, 0);
    ucx_ask_forget(&end, NULL, UCS_ERR_CANCELED);
    assert_int_equal(finish_count, 2);
    assert_int_equal(finished, UCS_ERR_CANCELED);
    answer_with(5, ANSWER_OK, "abcdefghi", 9);
    assert_int_equal(finish_count, 2);
}

static void a_peer_that_takes_no_questions_holds_requests_until_it_does(void **state) {
    static struct ucx_end end = {.worker = &worker, .unsent = UCX_UNSENT_MAX - 1};
    struct ucx_xfer first = {.end = &end, .worker = &worker}, second = first, third = first;

    ready_count = 0;
    assert_true(ucx_ask_may(&first));
    end.unsent = UCX_UNSENT_MAX;
    assert_false(ucx_ask_may(&first));
    assert_false(ucx_ask_may(&first));
    assert_false(ucx_ask_may(&second));
    assert_false(ucx_ask_may(&third));
    ucx_ask_unhold(&second);
    ucx_ask_unhold(&second);
    assert_true(first.is_held && !second.is_held && third.is_held);
    /* Its connection fails. */
    ucx_ask_forget(&end, NULL, UCS_ERR_CANCELED);
    assert_int_equal(ready_count, 2);
    assert_null(end.held);
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_read_is_answered_with_the_bytes_of_all_rows),
        TEST(a_write_lands_in_its_rows_only),
        TEST(rows_outside_the_region_touch_nothing),
        TEST(rows_that_do_not_add_up_are_refused),
        TEST(a_region_that_is_gone_is_said_to_be),
        TEST(truncated_and_oversized_questions_are_dropped),
        TEST(an_answer_is_scattered_over_its_blocks),
        TEST(answers_nobody_waits_for_and_short_ones_write_nothing),
        TEST(forgotten_operations_end_and_their_answers_are_dropped),
        TEST(a_peer_that_takes_no_questions_holds_requests_until_it_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
