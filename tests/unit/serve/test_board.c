#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serve/board.h"

/* A seat whose client has shown a key, as the session's process would tell it. */
static void take(struct board *board, unsigned seat, uint64_t job, uint8_t key, uint64_t limit_bps)
{
    const struct board_client client = {.job = job};
    struct board_guest guest = {.limit_bps = limit_bps};
    guest.key[0] = key;
    board_take(board, seat, &client);
    board_admit(board, seat, &guest);
}

static void test_sizes(void **state)
{
    (void)state;
    struct error error = {0};
    assert_null(board_new(0, &error));
    error = (struct error){0};
    assert_null(board_new(BOARD_SEATS_MAX + 1, &error));
    assert_int_equal(error.kind, ERROR_USAGE);
    struct board *board = board_new(BOARD_SEATS_MAX, &error);
    assert_int_equal(board_seats(board), BOARD_SEATS_MAX);
    take(board, BOARD_SEATS_MAX - 1, 1, 1, 0);
    assert_non_null(board_client(board, BOARD_SEATS_MAX - 1));
    board_free(board);
    board_free(NULL);
}

static void test_parts_of_limits(void **state)
{
    (void)state;
    struct board *board = board_new(4, NULL);
    take(board, 0, 1, 1, 100);
    take(board, 1, 2, 1, 100);
    take(board, 3, 3, 2, 0);
    board_share_out(board, 0, false);
    assert_int_equal(board_limit(board, 0), 50);
    assert_int_equal(board_limit(board, 1), 50);
    assert_int_equal(board_limit(board, 3), 0);
    board_share_out(board, 120, true);
    assert_int_equal(board_limit(board, 0), 40);
    assert_int_equal(board_limit(board, 3), 40);
    assert_true(board_is_paused(board, 3));
    board_leave(board, 1);
    board_share_out(board, 1000, false);
    assert_int_equal(board_limit(board, 0), 100);
    assert_int_equal(board_limit(board, 3), 500);
    assert_false(board_is_paused(board, 3));
    const struct board_client stranger = {.job = 9};
    struct board_guest guest;
    board_take(board, 2, &stranger); /* takes nothing from the others, and may not run away */
    assert_false(board_guest(board, 2, &guest));
    board_share_out(board, 1000, false);
    assert_int_equal(board_limit(board, 3), 500);
    assert_int_equal(board_limit(board, 2), 333);
    board_share_out(board, 1, false); /* never 0, which would be none */
    assert_int_equal(board_limit(board, 0), 1);
    take(board, 1, 4, 3, 0); /* a page is empty again for the next */
    assert_int_equal(board_limit(board, 1), 0);
    board_free(board);
}

static void test_a_session_in_a_child(void **state)
{
    (void)state;
    struct board *board = board_new(3, NULL);
    for (unsigned seat = 0; seat < 3; seat++)
        take(board, seat, seat + 1, (uint8_t)seat, 0);
    board_share_out(board, 300, false);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        board_keep_only(board, 1);
        struct board_report report = {.direction = BOARD_TO_SERVER,
                                      .bytes_done = board_limit(board, 1),
                                      .bytes_total = 7,
                                      .files_done = 3,
                                      .files_failed = 1,
                                      .rate_bps = 9,
                                      .memory_bytes = 11,
                                      .refusal = 3};
        memset(report.path, 'r', sizeof(report.path) - 1);
        board_report(board, 1, &report);
        struct board_guest guest = {.key = {9}, .limit_bps = 5};
        memset(guest.who, 'w', sizeof(guest.who)); /* without an end */
        board_admit(board, 1, &guest);
        _exit(board_client(board, 0) != NULL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct board_report report;
    board_read(board, 1, &report);
    assert_true(report.direction == BOARD_TO_SERVER && report.bytes_done == 100 &&
                report.bytes_total == 7 && report.files_done == 3 && report.files_failed == 1 &&
                report.rate_bps == 9 && report.memory_bytes == 11 && report.refusal == 3);
    assert_int_equal(strlen(report.path), BOARD_TEXT_MAX - 1);
    struct board_guest guest;
    assert_true(board_guest(board, 1, &guest) && guest.key[0] == 9 && guest.limit_bps == 5);
    assert_int_equal(strlen(guest.who), BOARD_TEXT_MAX - 1);
    board_read(board, 0, &report);
    assert_true(report.bytes_done == 0 && report.path[0] == '\0' &&
                report.refusal == BOARD_NOT_REFUSED);
    board_free(board);
}

/* The pages of others are gone from a session, whatever it does. */
static void test_others_are_out_of_reach(void **state)
{
    (void)state;
    struct board *board = board_new(3, NULL);
    for (unsigned seat = 0; seat < 3; seat += 2) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            const struct board_report report = {.bytes_done = 666};
            signal(SIGSEGV, SIG_DFL); /* not cmocka's, which would go on with the tests here */
            board_keep_only(board, 1);
            board_report(board, seat, &report);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        struct board_report report;
        board_read(board, seat, &report);
        assert_int_equal(report.bytes_done, 0);
    }
    board_free(board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_parts_of_limits),
        cmocka_unit_test(test_a_session_in_a_child),
        cmocka_unit_test(test_others_are_out_of_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
