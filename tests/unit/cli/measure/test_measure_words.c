#include "unit.h"

#include "cli/measure/measure_words.h"

static struct measure_request sample(enum measure_do what)
{
    struct measure_request request = {.what = what,
                                      .of = what == MEASURE_END ? MEASURE_TCP : MEASURE_PING,
                                      .sends = true,
                                      .stop = true,
                                      .first_port = 60000,
                                      .last_port = 61000,
                                      .size_bytes = UINT64_C(1) << 40,
                                      .time_ns = 5 * NS_PER_S,
                                      .lanes = 16,
                                      .streams = 8,
                                      .policy = 2,
                                      .congestion = "bbr",
                                      .path = "/a b/\"c\""};
    memset(request.token, 0xab, sizeof(request.token));
    memset(request.secret, 0x01, sizeof(request.secret));
    memset(request.session_id, 0xff, sizeof(request.session_id));
    port_set_add(&request.ports4, 1);
    port_set_add(&request.ports6, 65535);
    return request;
}

static void write_request(const struct measure_request *request, char *line)
{
    size_t length = measure_write_request(request, line, MEASURE_LINE_MAX);
    assert_true(length > 0);
    assert_int_equal(line[length - 1], '\n');
    line[length - 1] = '\0';
}

static enum error_kind read_request(const char *line)
{
    struct measure_request request;
    struct error error = {0};
    bool good = measure_read_request(&request, line, &error);
    assert_int_equal(good, error.kind == ERROR_NONE);
    return error.kind;
}

static void test_requests_round_trip(void **state)
{
    (void)state;
    for (unsigned what = 0; what < MEASURE_DO_COUNT; what++) {
        struct measure_request request = sample((enum measure_do)what), back;
        char line[MEASURE_LINE_MAX];
        struct error error = {0};
        write_request(&request, line);
        assert_true(measure_read_request(&back, line, &error));
        assert_memory_equal(&back, &request, sizeof(back));
    }
}

static void test_each_byte_cut(void **state)
{
    (void)state;
    struct measure_request request = sample(MEASURE_SESSION);
    char line[MEASURE_LINE_MAX];
    write_request(&request, line);
    for (size_t length = strlen(line) - 1; length > 0; length--) {
        line[length] = '\0';
        assert_int_equal(read_request(line), ERROR_PROTOCOL);
    }
}

static void test_limits(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum error_kind kind;
    } cases[] = {
        {"{\"do\":\"ping\",\"lanes\":16}", ERROR_NONE},
        {"{\"do\":\"ping\",\"lanes\":17}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"lanes\":-1}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"lanes\":1.0}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"lanes\":\"1\"}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"streams\":17}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"policy\":3}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"first_port\":65536}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"time_ns\":3600000000000}", ERROR_NONE},
        {"{\"do\":\"ping\",\"time_ns\":3600000000001}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"size_bytes\":281474976710656}", ERROR_NONE},
        {"{\"do\":\"ping\",\"size_bytes\":281474976710657}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"congestion\":\"123456789012345\"}", ERROR_NONE},
        {"{\"do\":\"ping\",\"congestion\":\"1234567890123456\"}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"path\":\"a\\u0000b\"}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"token\":\"ab\"}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"token\":\"GGababababababababababababababab\"}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"stop\":1}", ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"later\":[1,{}]}", ERROR_NONE},
        {"{\"do\":\"dance\"}", ERROR_VERSION},
        {"{\"do\":7}", ERROR_VERSION},
        {"{}", ERROR_VERSION},
        {"[]", ERROR_PROTOCOL},
        {"", ERROR_PROTOCOL},
        {"{\"do\":\"end\"}", ERROR_VERSION},
        {"{\"do\":\"knock\",\"ports4\":\"1\"}", ERROR_VERSION},
        {"{\"do\":\"knock\",\"of\":\"echo\"}", ERROR_PROTOCOL},
        {"{\"do\":\"knock\",\"of\":\"echo\",\"ports6\":\"9\"}", ERROR_NONE},
        {"{\"do\":\"knock\",\"of\":\"session\",\"ports4\":\"1-31\",\"ports6\":\"1\"}", ERROR_NONE},
        {"{\"do\":\"knock\",\"of\":\"session\",\"ports4\":\"1-31\",\"ports6\":\"1-2\"}",
         ERROR_PROTOCOL},
        {"{\"do\":\"ping\",\"ports4\":\"1-33\"}", ERROR_PROTOCOL},
        {"{\"do\":\"echo\",\"first_port\":2,\"last_port\":1}", ERROR_PROTOCOL},
        {"{\"do\":\"echo\",\"last_port\":1}", ERROR_PROTOCOL},
        {"{\"do\":\"disk\"}", ERROR_PROTOCOL},
        {"{\"do\":\"tcp\",\"first_port\":1,\"last_port\":2,\"time_ns\":1}", ERROR_PROTOCOL},
        {"{\"do\":\"session\",\"first_port\":1,\"last_port\":2}", ERROR_PROTOCOL},
        {"{\"do\":\"session\",\"stream\":true,\"time_ns\":1}", ERROR_NONE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (read_request(cases[i].line) != cases[i].kind)
            fail_msg("%s", cases[i].line);
    }
}

static void test_a_line_that_is_too_long(void **state)
{
    (void)state;
    static char line[MEASURE_LINE_MAX + 1];
    const char *beginning = "{\"do\":\"ping\",\"x\":\"";
    memset(line, 'a', sizeof(line) - 1);
    memcpy(line, beginning, strlen(beginning));
    memcpy(line + sizeof(line) - 3, "\"}", 2);
    assert_int_equal(read_request(line), ERROR_PROTOCOL);
}

static void test_answers(void **state)
{
    (void)state;
    struct session_figures figures = {.started = true,
                                      .bytes = 123456789012,
                                      .seconds = 1.25,
                                      .datagram_bytes = 1472,
                                      .lanes = 4,
                                      .coalescing = true},
                           back = {0};
    char line[MEASURE_LINE_MAX];
    struct error failed = {0}, error = {0};
    assert_true(measure_write_answer(NULL, session_figures_fields, &figures, line, sizeof(line)) >
                0);
    assert_true(measure_read_answer(line, session_figures_fields, &back, &error));
    assert_memory_equal(&back, &figures, sizeof(back));

    error_set(&failed, ERROR_NO_SPACE, "full: \x1b[31m\xff");
    memset(&back, 0, sizeof(back));
    assert_true(
        measure_write_answer(&failed, session_figures_fields, &figures, line, sizeof(line)) > 0);
    assert_false(measure_read_answer(line, session_figures_fields, &back, &error));
    assert_int_equal(error.kind, ERROR_NO_SPACE);
    assert_true(back.bytes == figures.bytes);

    error_clear(&error);
    assert_false(measure_read_answer("hello", NULL, NULL, &error));
    assert_int_equal(error.kind, ERROR_PROTOCOL);
    error_clear(&error);
    assert_false(measure_read_answer("{\"error\":\"strange\"}", NULL, NULL, &error));
    assert_int_equal(error.kind, ERROR_PEER);
    assert_int_equal(measure_write_answer(NULL, session_figures_fields, &figures, line, 20), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_round_trip),
        cmocka_unit_test(test_each_byte_cut),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_a_line_that_is_too_long),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
