/* Frames over pipes and sockets that take and give bytes in any pieces. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/units.h"
#include "net/stream.h"

static void fill(uint8_t *bytes, size_t size, unsigned salt)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 253 + salt);
}

static void test_frames_cross_a_pipe_that_fills_up(void **state)
{
    (void)state;
    int there[2], back[2];
    assert_int_equal(pipe(there), 0);
    assert_int_equal(pipe(back), 0);
    struct stream *near = stream_new(back[0], there[1], NULL);
    struct stream *far = stream_new(there[0], back[1], NULL);
    struct loop *loop = loop_new(NULL);
    assert_true(stream_register(near, loop, NULL));
    assert_true(stream_register(far, loop, NULL));

    enum { FRAMES = 400 };
    uint8_t bytes[STREAM_PACKET_MAX];
    unsigned sent = 0, received = 0;
    size_t most = 0;
    while (received < FRAMES) {
        while (sent < FRAMES && stream_room(near) > 0) {
            size_t size = 1 + (sent * 977u) % STREAM_PACKET_MAX;
            fill(bytes, size, sent++);
            stream_write_frame(near, bytes, size);
        }
        most = stream_unwritten(near) > most ? stream_unwritten(near) : most;
        uint8_t *frame;
        size_t size;
        while (stream_read(far)) {
            while (stream_next_frame(far, &frame, &size)) {
                size_t expected = 1 + (received * 977u) % STREAM_PACKET_MAX;
                assert_int_equal(size, expected + STREAM_LENGTH_SIZE);
                fill(bytes, expected, received++);
                assert_memory_equal(frame + STREAM_LENGTH_SIZE, bytes, expected);
            }
        }
        if (received < FRAMES)
            loop_wait(loop, TIME_NEVER, loop_now(), 0);
        stream_flush(near);
    }
    assert_true(most > 64 * 1024); /* the pipe did fill up */
    assert_true(most <= STREAM_UNWRITTEN_MAX + STREAM_PACKET_MAX + STREAM_LENGTH_SIZE);

    stream_free(near);
    close(there[1]);
    assert_false(stream_read(far)); /* found empty before */
    while (!stream_has_ended(far)) {
        loop_wait(loop, TIME_NEVER, loop_now(), 0);
        stream_read(far);
    }
    assert_int_equal(stream_error(far)->kind, ERROR_NONE);
    stream_free(far);
    loop_free(loop);
    close(there[0]);
    close(back[0]);
    close(back[1]);
}

/* What a busy machine makes of it: the last bytes and the end are seen at once. */
static void last_bytes_and_end(int input, int output, int other)
{
    const uint8_t frame[] = {0, 1, 'x'};
    struct stream *stream = stream_new(input, output, NULL);
    struct loop *loop = loop_new(NULL);
    assert_true(stream_register(stream, loop, NULL));
    assert_false(stream_read(stream)); /* found empty: from here on the loop tells */
    assert_int_equal(write(other, frame, sizeof(frame)), sizeof(frame));
    close(other);
    unsigned frames = 0;
    uint8_t *bytes;
    size_t size;
    for (unsigned turn = 0; turn < 5 && !stream_has_ended(stream); turn++) {
        loop_wait(loop, loop_now() + 10 * NS_PER_MS, loop_now(), 0);
        while (stream_read(stream))
            while (stream_next_frame(stream, &bytes, &size))
                frames++;
    }
    assert_int_equal(frames, 1);
    assert_true(stream_has_ended(stream));
    assert_int_equal(stream_error(stream)->kind, ERROR_NONE);
    stream_free(stream);
    loop_free(loop);
}

static void test_the_end_comes_with_the_last_bytes(void **state)
{
    (void)state;
    int in[2], out[2], both[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    last_bytes_and_end(in[0], out[1], in[1]);
    close(in[0]);
    close(out[0]);
    close(out[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
    last_bytes_and_end(both[0], both[0], both[1]);
    close(both[0]);
}

static void test_frames_in_single_bytes_over_one_socket(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    struct stream *stream = stream_new(ends[0], ends[0], NULL);
    assert_int_not_equal(fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
    const uint8_t bytes[] = {0, 3, 'a', 'b', 'c', 0, 1, 'd', 0x40, 0x00};
    unsigned frames = 0;
    uint8_t *frame;
    size_t size;
    struct loop *loop = loop_new(NULL);
    assert_true(stream_register(stream, loop, NULL));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        assert_int_equal(write(ends[1], bytes + i, 1), 1);
        loop_wait(loop, 0, loop_now(), 0);
        while (stream_read(stream))
            while (stream_next_frame(stream, &frame, &size))
                frames++;
    }
    assert_int_equal(frames, 2);
    assert_int_equal(stream_error(stream)->kind, ERROR_NONE); /* 16384 is the longest */
    stream_free(stream);
    assert_int_equal(fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
    loop_free(loop);
    close(ends[0]);
    close(ends[1]);
}

static void breaks(const uint8_t *bytes, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct stream *stream = stream_new(ends[0], ends[1], NULL);
    assert_int_equal(write(ends[1], bytes, size), size);
    assert_true(stream_read(stream));
    uint8_t *frame;
    size_t length;
    assert_false(stream_next_frame(stream, &frame, &length));
    assert_true(stream_has_ended(stream));
    assert_int_equal(stream_error(stream)->kind, ERROR_PROTOCOL);
    stream_free(stream);
    close(ends[0]);
    close(ends[1]);
}

static void test_broken_framing(void **state)
{
    (void)state;
    breaks((const uint8_t[]){0, 0, 1}, 3);
    breaks((const uint8_t[]){0x40, 1, 1}, 3);
    breaks((const uint8_t *)"Welcome", 7);
}

/* An end like any other, once what the other side said last was read. */
static void test_a_reader_that_went_away(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int other[2];
    assert_int_equal(pipe(other), 0);
    struct stream *stream = stream_new(other[0], ends[1], NULL);
    close(ends[0]);
    assert_int_equal(write(other[1], "\0\3bye", 5), 5);
    stream_write_frame(stream, (const uint8_t *)"abc", 3);
    assert_int_equal(stream_unwritten(stream), 0);
    assert_false(stream_has_ended(stream));
    uint8_t *frame;
    size_t size;
    assert_true(stream_read(stream));
    assert_true(stream_next_frame(stream, &frame, &size));
    assert_memory_equal(frame, "\0\3bye", 5);
    assert_false(stream_read(stream));
    assert_true(stream_has_ended(stream));
    assert_int_equal(stream_error(stream)->kind, ERROR_NONE);
    stream_free(stream);
    close(ends[1]);
    close(other[0]);
    close(other[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_cross_a_pipe_that_fills_up),
        cmocka_unit_test(test_the_end_comes_with_the_last_bytes),
        cmocka_unit_test(test_frames_in_single_bytes_over_one_socket),
        cmocka_unit_test(test_broken_framing),
        cmocka_unit_test(test_a_reader_that_went_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
