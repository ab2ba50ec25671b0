#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/start/pipe_peek.h"

static void test_what_was_seen_is_still_there(void **state)
{
    (void)state;
    struct pipe_peek peek;
    int ends[2];
    char bytes[64];
    size_t taken;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pipe_peek_open(&peek);
    assert_int_equal(pipe_peek_look(&peek, ends[0], bytes, sizeof(bytes), &taken), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(write(ends[1], "noise\nline\nrest", 15), 15);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe_peek_look(&peek, ends[0], bytes, sizeof(bytes), &taken), 15);
        assert_memory_equal(bytes, "noise\nline\nrest", 15);
        assert_int_equal(taken, 0);
    }
    pipe_peek_skip(ends[0], 11);
    close(ends[1]);
    assert_int_equal(pipe_peek_look(&peek, ends[0], bytes, 3, &taken), 3);
    assert_int_equal(read(ends[0], bytes, sizeof(bytes)), 4);
    assert_memory_equal(bytes, "rest", 4);
    assert_int_equal(pipe_peek_look(&peek, ends[0], bytes, sizeof(bytes), &taken), 0);
    pipe_peek_close(&peek);
    close(ends[0]);
}

/* A full pipe of many small pieces. */
static void test_much(void **state)
{
    (void)state;
    static char bytes[65536];
    struct pipe_peek peek;
    int ends[2];
    size_t put = 0, seen = 0, taken;
    ssize_t got;
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    pipe_peek_open(&peek);
    while ((got = write(ends[1], "0123456789abcdef", 16)) > 0)
        put += (size_t)got;
    while ((got = pipe_peek_look(&peek, ends[0], bytes, sizeof(bytes), &taken)) > 0) {
        assert_int_equal(taken, 0);
        for (size_t i = 0; i < (size_t)got; i++)
            assert_int_equal(bytes[i], "0123456789abcdef"[(seen + i) % 16]);
        pipe_peek_skip(ends[0], (size_t)got);
        seen += (size_t)got;
    }
    assert_int_equal(seen, put);
    pipe_peek_close(&peek);
    close(ends[0]);
    close(ends[1]);
}

static void test_one_byte_where_it_cannot_be_done(void **state)
{
    (void)state;
    struct pipe_peek peek;
    int ends[2];
    char bytes[64];
    size_t taken;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pipe_peek_open(&peek);
    assert_int_equal(write(ends[1], "ab", 2), 2);
    assert_int_equal(pipe_peek_look(&peek, ends[0], bytes, sizeof(bytes), &taken), 1);
    assert_int_equal(taken, 1);
    pipe_peek_close(&peek);
    assert_int_equal(pipe_peek_look(&peek, ends[0], bytes + 1, sizeof(bytes) - 1, &taken), 1);
    assert_memory_equal(bytes, "ab", 2);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_seen_is_still_there),
        cmocka_unit_test(test_much),
        cmocka_unit_test(test_one_byte_where_it_cannot_be_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
