#include "unit.h"

#include <stdlib.h>

#include "cli/start/bootstrap.h"

static struct bootstrap_start sample(void)
{
    struct bootstrap_start start = {.remote_sends = true,
                                    .first_port = 60000,
                                    .last_port = 61000,
                                    .lanes = 4,
                                    .limit_bps = 200000000,
                                    .policy = {.kind = RATE_BACKGROUND},
                                    .protocol = {1, 3}};
    for (unsigned i = 0; i < START_SECRET_SIZE; i++)
        start.secret[i] = (uint8_t)(i * 37 + 1);
    for (unsigned i = 0; i < SESSION_ID_SIZE; i++)
        start.session_id[i] = (uint8_t)(255 - i);
    return start;
}

static void write_start(const struct bootstrap_start *start, char *line)
{
    size_t length = bootstrap_write_start(start, line, BOOTSTRAP_LINE_MAX);
    assert_true(length > 0);
    assert_int_equal(length, strlen(line));
    assert_int_equal(line[length - 1], '\n');
    line[length - 1] = '\0';
}

static bool reads(const char *line)
{
    struct bootstrap_start start;
    struct error error = {0};
    bool good = bootstrap_read_start(&start, line, &error);
    assert_int_equal(good, error.kind == ERROR_NONE);
    if (!good)
        assert_int_equal(error.kind, ERROR_PROTOCOL);
    return good;
}

static void test_start_round_trip(void **state)
{
    (void)state;
    for (int sends = 0; sends < 2; sends++) {
        struct bootstrap_start start = sample(), back;
        char line[BOOTSTRAP_LINE_MAX];
        struct error error = {0};
        start.remote_sends = sends;
        write_start(&start, line);
        assert_true(bootstrap_read_start(&back, line, &error));
        assert_memory_equal(back.secret, start.secret, START_SECRET_SIZE);
        assert_memory_equal(back.session_id, start.session_id, SESSION_ID_SIZE);
        assert_int_equal(back.remote_sends, sends);
        assert_int_equal(back.first_port, 60000);
        assert_int_equal(back.last_port, 61000);
        assert_int_equal(back.lanes, 4);
        assert_true(back.limit_bps == 200000000);
        assert_int_equal(back.policy.kind, RATE_BACKGROUND);
        assert_int_equal(back.protocol.lowest, 1);
        assert_int_equal(back.protocol.highest, 3);
    }
}

static void test_start_policy(void **state)
{
    (void)state;
    struct bootstrap_start start = sample(), back;
    char line[BOOTSTRAP_LINE_MAX];
    struct error error = {0};
    start.policy = (struct send_policy){.fixed_bps = 123456789};
    write_start(&start, line);
    assert_true(bootstrap_read_start(&back, line, &error));
    assert_true(back.policy.fixed_bps == 123456789);
    char *word = strstr(line, "policy=fixed");
    assert_non_null(word);
    memcpy(word, "policy=later", strlen("policy=later")); /* of a version to come */
    assert_true(bootstrap_read_start(&back, line, &error));
    assert_int_equal(back.policy.kind, RATE_AUTO);
    assert_true(back.policy.fixed_bps == 0);
}

static void test_start_has_no_room(void **state)
{
    (void)state;
    struct bootstrap_start start = sample();
    char line[BOOTSTRAP_LINE_MAX];
    size_t length = bootstrap_write_start(&start, line, sizeof(line));
    assert_int_equal(bootstrap_write_start(&start, line, length + 1), length);
    for (size_t capacity = 1; capacity <= length; capacity++)
        assert_int_equal(bootstrap_write_start(&start, line, capacity), 0);
}

/* Every cut before the last required key ends is refused; later ones lack optional keys only. */
static void test_start_cut(void **state)
{
    (void)state;
    struct bootstrap_start start = sample();
    char line[BOOTSTRAP_LINE_MAX], cut[BOOTSTRAP_LINE_MAX];
    write_start(&start, line);
    size_t needed = (size_t)(strstr(line, "ports=60000-") - line) + strlen("ports=60000-61000");
    for (size_t length = 0; length <= strlen(line); length++) {
        memcpy(cut, line, length);
        cut[length] = '\0';
        bool one_port =
            length > needed - strlen("60000-61000") && length <= needed - strlen("-61000");
        assert_int_equal(reads(cut), length >= needed || one_port);
    }
}

/* No byte of the line may be another one and the line still mean the same or crash anything. */
static void test_start_each_byte_changed(void **state)
{
    (void)state;
    struct bootstrap_start start = sample();
    char line[BOOTSTRAP_LINE_MAX];
    write_start(&start, line);
    size_t length = strlen(line);
    for (size_t i = 0; i < length; i++) {
        static const char others[] = "x =-0A\xff\t";
        for (const char *other = others; *other != '\0'; other++) {
            char was = line[i];
            line[i] = *other;
            reads(line);
            line[i] = was;
        }
    }
}

#define SECRET "secret=0102030405060708090a0b0c0d0e0f100102030405060708090a0b0c0d0e0f10 "
#define SESSION "session=0102030405060708090a0b0c0d0e0f10 "

static void test_start_forms(void **state)
{
    (void)state;
    assert_true(reads("petrel-start " SECRET SESSION "role=send ports=1-2"));
    assert_true(reads("petrel-start   " SECRET "\t" SESSION " role=receive ports=7\r"));
    assert_true(reads("petrel-start later=thing word " SECRET SESSION "role=send ports=1-2 x="));
    assert_true(reads("petrel-start " SECRET SESSION "role=send ports=1-2 lanes=17 protocol=x"));
    assert_false(reads("petrel-start " SECRET SESSION "role=both ports=1-2"));
    assert_false(reads("petrel-start " SECRET SESSION "role=send ports=2-1"));
    assert_false(reads("petrel-start " SECRET SESSION "role=send ports=0-1"));
    assert_false(reads("petrel-start " SECRET "role=send ports=1-2"));
    assert_false(reads("petrel-start " SESSION "role=send ports=1-2"));
    assert_false(reads("petrel-start " SECRET SESSION "ports=1-2"));
    assert_false(reads("petrel-start secret=0102 " SESSION "role=send ports=1-2"));
    assert_false(reads("petrel-start secret=0G " SESSION "role=send ports=1-2"));
    assert_false(reads(""));
    assert_false(reads("petrel-start"));
    assert_false(reads(" petrel-start " SECRET SESSION "role=send ports=1-2"));
    assert_false(reads("GET / HTTP/1.0"));
}

static void test_start_too_long(void **state)
{
    (void)state;
    char line[2 * BOOTSTRAP_LINE_MAX];
    snprintf(line, sizeof(line), "petrel-start " SECRET SESSION "role=send ports=1-2 filler=%*d",
             BOOTSTRAP_LINE_MAX, 1);
    assert_false(reads(line));
}

static bool read_answer(const char *line, struct bootstrap_answer *answer, struct error *error)
{
    *error = (struct error){0};
    return bootstrap_read_answer(answer, line, error);
}

static void test_answer_round_trip(void **state)
{
    (void)state;
    struct bootstrap_answer answer = {
        .version = "1.2.3", .port = 60001, .address = "2001:db8::1", .protocol = {2, 4}};
    struct bootstrap_answer back;
    struct error error;
    char line[BOOTSTRAP_LINE_MAX];
    size_t length = bootstrap_write_answer(&answer, line, sizeof(line));
    assert_int_equal(length, strlen(line));
    line[length - 1] = '\0';
    assert_true(bootstrap_is_answer(line));
    assert_true(read_answer(line, &back, &error));
    assert_string_equal(back.version, "1.2.3");
    assert_string_equal(back.address, "2001:db8::1");
    assert_int_equal(back.port, 60001);
    assert_int_equal(back.protocol.lowest, 2);
    assert_int_equal(back.protocol.highest, 4);
    answer.address[0] = '\0';
    line[bootstrap_write_answer(&answer, line, sizeof(line)) - 1] = '\0';
    assert_true(read_answer(line, &back, &error));
    assert_string_equal(back.address, "");
    for (size_t cut = 0; cut <= strlen(line); cut++) {
        char part[BOOTSTRAP_LINE_MAX];
        memcpy(part, line, cut);
        part[cut] = '\0';
        bool good = read_answer(part, &back, &error);
        assert_int_equal(good, strstr(part, "port=6") != NULL);
        assert_int_equal(good, error.kind == ERROR_NONE);
    }
}

static void test_answer_forms(void **state)
{
    (void)state;
    struct bootstrap_answer answer;
    struct error error;
    assert_true(read_answer("PETREL-REMOTE port=1", &answer, &error));
    assert_int_equal(answer.protocol.highest, 0);
    assert_true(read_answer("PETREL-REMOTE port=65535 new=thing\r", &answer, &error));
    assert_false(read_answer("PETREL-REMOTE port=0", &answer, &error));
    assert_false(read_answer("PETREL-REMOTE port=65536", &answer, &error));
    assert_false(read_answer("PETREL-REMOTE port=-1", &answer, &error));
    assert_false(read_answer("PETREL-REMOTE version=1", &answer, &error));
    assert_int_equal(error.kind, ERROR_PROTOCOL);
    char longest[BOOTSTRAP_LINE_MAX];
    snprintf(longest, sizeof(longest), "PETREL-REMOTE port=9 version=%0500d address=%0400d", 1, 2);
    assert_true(read_answer(longest, &answer, &error));
    assert_int_equal(strlen(answer.version), sizeof(answer.version) - 1);
    assert_int_equal(strlen(answer.address), sizeof(answer.address) - 1);
}

static void test_errors(void **state)
{
    (void)state;
    struct bootstrap_answer answer;
    struct error said, error;
    char line[BOOTSTRAP_LINE_MAX];
    for (unsigned kind = 1; kind < ERROR_KIND_COUNT; kind++) {
        said = (struct error){0};
        error_set(&said, (enum error_kind)kind, "reason %u", kind);
        size_t length = bootstrap_write_error(&said, line, sizeof(line));
        assert_int_equal(length, strlen(line));
        line[length - 1] = '\0';
        assert_true(bootstrap_is_answer(line));
        assert_false(read_answer(line, &answer, &error));
        assert_int_equal(error.kind, kind);
        assert_string_equal(error.text, said.text);
    }
    assert_false(read_answer("PETREL-ERROR never-heard-of it failed", &answer, &error));
    assert_int_equal(error.kind, ERROR_PEER);
    assert_false(read_answer("PETREL-ERROR none no", &answer, &error));
    assert_int_equal(error.kind, ERROR_PEER);
    assert_false(read_answer("PETREL-ERROR ", &answer, &error));
    assert_true(error.text[0] != '\0');
}

static void test_an_error_is_one_line(void **state)
{
    (void)state;
    struct error said = {0};
    char line[BOOTSTRAP_LINE_MAX];
    error_set(&said, ERROR_IO, "a\nb\rc\033[31m");
    size_t length = bootstrap_write_error(&said, line, sizeof(line));
    assert_string_equal(line, "PETREL-ERROR io a?b?c?[31m\n");
    assert_int_equal(length, strlen(line));
    assert_int_equal(bootstrap_write_error(&said, line, 8), 0);
}

static void test_versions_meet(void **state)
{
    (void)state;
    const struct version_range unsaid = {0, 0}, one = {1, 1}, two = {2, 2}, both = {1, 2};
    assert_true(version_ranges_meet(one, one));
    assert_true(version_ranges_meet(one, both));
    assert_true(version_ranges_meet(both, two));
    assert_true(version_ranges_meet(unsaid, two));
    assert_true(version_ranges_meet(one, unsaid));
    assert_false(version_ranges_meet(one, two));
    assert_false(version_ranges_meet(two, one));
}

static void test_a_remembered_path(void **state)
{
    (void)state;
    struct bootstrap_start start = sample(), back;
    char line[BOOTSTRAP_LINE_MAX];
    struct error error = {0};
    start.path = (struct rate_memory){
        .rate_bps = 123456789012, .rtt_ns = 50123000, .loss_millionths = 10000};
    write_start(&start, line);
    assert_true(bootstrap_read_start(&back, line, &error));
    assert_memory_equal(&back.path, &start.path, sizeof(back.path));
    static const char *const bad[] = {"1,2",
                                      "1,2,3,4",
                                      "1,2,",
                                      ",,",
                                      "1,2,1000001",
                                      "1,60000001,0",
                                      "-1,2,3",
                                      "1, 2,3",
                                      "1,2,3x",
                                      "x",
                                      "99999999999999999999,1,1",
                                      "1,2,999999999999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char *at = strstr(line, "path=");
        sprintf(at, "path=%s", bad[i]);
        assert_true(bootstrap_read_start(&back, line, &error)); /* as if it were not said */
        assert_int_equal(back.path.rate_bps, 0);
    }
}

static void test_measurements(void **state)
{
    (void)state;
    struct bootstrap_start start = sample(), back;
    struct bootstrap_answer answer = {.version = "1.2", .job = JOB_MEASURE}, heard;
    char line[BOOTSTRAP_LINE_MAX];
    struct error error = {0};
    start.job = JOB_MEASURE;
    write_start(&start, line);
    assert_non_null(strstr(line, "job=measure"));
    assert_true(bootstrap_read_start(&back, line, &error));
    assert_int_equal(back.job, JOB_MEASURE);
    strcpy(strstr(line, "job="), "job=dance");
    assert_true(bootstrap_read_start(&back, line, &error));
    assert_int_equal(back.job, JOB_COPY);

    assert_true(bootstrap_write_answer(&answer, line, sizeof(line)) > 0);
    line[strcspn(line, "\n")] = '\0';
    assert_true(bootstrap_read_answer(&heard, line, &error));
    assert_int_equal(heard.job, JOB_MEASURE);
    assert_int_equal(heard.port, 0);
    assert_false(bootstrap_read_answer(&heard, "PETREL-REMOTE version=1 port=0 job=copy", &error));
}

static void test_ways(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned ways;
    } forms[] = {{"udp", WAY_UDP},
                 {"ssh", WAY_SSH},
                 {"udp,ssh", WAY_UDP | WAY_SSH},
                 {"ssh,udp", WAY_UDP | WAY_SSH},
                 {"udp,ports", WAY_UDP | WAY_PORTS},
                 {"udp,pigeon,ssh,", WAY_UDP | WAY_SSH},
                 {"", 0},
                 {",", 0},
                 {"UDP", 0},
                 {"udpssh", 0}};
    struct bootstrap_start start = sample(), back;
    struct bootstrap_answer answer;
    char line[BOOTSTRAP_LINE_MAX];
    struct error error = {0};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        write_start(&start, line);
        sprintf(strstr(line, "ways="), "ways=%s", forms[i].text);
        assert_true(bootstrap_read_start(&back, line, &error));
        assert_int_equal(back.ways, forms[i].ways);
        snprintf(line, sizeof(line), "PETREL-REMOTE port=1 ways=%s", forms[i].text);
        assert_true(read_answer(line, &answer, &error));
        assert_int_equal(answer.ways, forms[i].ways);
        start.ways = forms[i].ways;
        write_start(&start, line);
        assert_true(bootstrap_read_start(&back, line, &error));
        assert_int_equal(back.ways, start.ways);
    }
    /* Only the way through ssh alone needs no port. */
    assert_true(read_answer("PETREL-REMOTE port=0 ways=ssh", &answer, &error));
    assert_false(read_answer("PETREL-REMOTE port=0 ways=udp,ssh", &answer, &error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_round_trip),
        cmocka_unit_test(test_start_policy),
        cmocka_unit_test(test_start_has_no_room),
        cmocka_unit_test(test_start_cut),
        cmocka_unit_test(test_start_each_byte_changed),
        cmocka_unit_test(test_start_forms),
        cmocka_unit_test(test_start_too_long),
        cmocka_unit_test(test_answer_round_trip),
        cmocka_unit_test(test_answer_forms),
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_an_error_is_one_line),
        cmocka_unit_test(test_versions_meet),
        cmocka_unit_test(test_a_remembered_path),
        cmocka_unit_test(test_measurements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
