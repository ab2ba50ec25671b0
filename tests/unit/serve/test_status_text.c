#include "unit.h"

#include <jansson.h>
#include <stdlib.h>

#include "serve/status_text.h"

static struct board *a_board(const char *who)
{
    struct board *board = board_new(5, NULL);
    const struct board_client client = {.job = 3, .started_s = 100, .peer = "192.0.2.7:50000"};
    const struct board_report report = {.direction = BOARD_FROM_SERVER,
                                        .path = "docs",
                                        .bytes_done = 5000000,
                                        .bytes_total = 10000000,
                                        .rate_bps = 80000000};
    struct board_guest guest = {.limit_bps = 5};
    snprintf(guest.who, sizeof(guest.who), "%s", who);
    board_take(board, 1, &client); /* who has not shown a key is not shown */
    board_take(board, 2, &client);
    board_admit(board, 2, &guest);
    board_report(board, 2, &report);
    return board;
}

static void test_for_people(void **state)
{
    (void)state;
    struct metrics metrics = {.started_s = 40, .limit_bps = 1000000000, .paused = true};
    struct board *board = a_board("anna\x1b[2J@laptop");
    metrics.jobs[JOB_OK] = 7;
    metrics.refused[REFUSED_KEY] = 2;
    char *text = status_text(&metrics, board, 165);
    assert_string_equal(text, "up 2:05, 1 of at most 5 clients, 7 jobs done, 2 refused; limit 1.00 "
                              "Gbit/s; PAUSED\n"
                              "job 3  anna?[2J@laptop  192.0.2.7:50000  from-server docs  5.00 MB "
                              "of 10.0 MB  10.0 MB/s  1:05\n");
    free(text);
    board_free(board);
}

static void test_json(void **state)
{
    (void)state;
    const struct metrics metrics = {.started_s = 40, .draining = true};
    struct board *board = a_board("\xff\"");
    char *text = status_json(&metrics, board, 165);
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    json_t *client = json_array_get(json_object_get(object, "clients"), 0);
    assert_true(json_is_true(json_object_get(object, "draining")) &&
                json_is_false(json_object_get(object, "paused")));
    assert_int_equal(json_integer_value(json_object_get(object, "seconds")), 125);
    assert_int_equal(json_array_size(json_object_get(object, "clients")), 1);
    assert_int_equal(json_integer_value(json_object_get(client, "bytes_done")), 5000000);
    assert_string_equal(json_string_value(json_object_get(client, "who")), "?\"");
    assert_string_equal(json_string_value(json_object_get(client, "path")), "docs");
    json_decref(object);
    free(text);
    board_free(board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_for_people),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
