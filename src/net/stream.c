#include "net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INPUT_SIZE (128u * 1024u)
/* As much as may wait here may wait in the pipe, too: a larger one means fewer switches between us
 * and ssh, at 64 KiB (the usual size) one for each two or three packets. */
#define PIPE_SIZE (256 * 1024)
#define OUTPUT_SIZE (STREAM_UNWRITTEN_MAX + TRAIN_BYTES_MAX + 1000u + STREAM_LENGTH_SIZE)

struct stream {
    int input, output;
    int input_flags, output_flags; /* as we found them */
    struct loop *loop;
    bool readable, writable, ended;
    bool hung_up;        /* the loop tells no more: what waits is read up to the end */
    bool unread_by_peer; /* nobody reads the output: the end, once what waits was read */
    bool told;           /* that it is readable, again: the loop need not go on */
    struct error error;
    size_t read_at, read_end;   /* unread frames in `in` */
    size_t write_at, write_end; /* unwritten bytes in `out` */
    uint8_t in[INPUT_SIZE];
    uint8_t out[OUTPUT_SIZE];
};

static bool make_nonblocking(int descriptor, int *flags, struct error *error)
{
    *flags = fcntl(descriptor, F_GETFL);
    if (*flags < 0 || fcntl(descriptor, F_SETFL, *flags | O_NONBLOCK) != 0)
        return error_set_errno(error, errno, "cannot prepare the channel through ssh");
    return true;
}

struct stream *stream_new(int input, int output, struct error *error)
{
    struct stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        error_set(error, ERROR_MEMORY, "out of memory for a stream");
        return NULL;
    }
    *stream = (struct stream){.input = input, .output = output, .readable = true, .writable = true};
    if (!make_nonblocking(input, &stream->input_flags, error) ||
        !make_nonblocking(output, &stream->output_flags, error)) {
        free(stream);
        return NULL;
    }
    if (input == output)
        stream->output_flags = stream->input_flags;
    signal(SIGPIPE, SIG_IGN);
    fcntl(output, F_SETPIPE_SZ, PIPE_SIZE); /* fails on a socket, which does as it is */
    return stream;
}

void stream_free(struct stream *stream)
{
    if (stream == NULL)
        return;
    stream_unregister(stream);
    fcntl(stream->input, F_SETFL, stream->input_flags);
    fcntl(stream->output, F_SETFL, stream->output_flags);
    free(stream);
}

static void update_interest(struct stream *stream)
{
    if (stream->loop == NULL)
        return;
    unsigned reading = stream->told || stream->ended ? 0 : LOOP_READ;
    unsigned writing = stream->writable ? 0 : LOOP_WRITE;
    if (stream->input == stream->output) {
        loop_set_interest(stream->loop, stream->input, reading | writing);
    } else {
        loop_set_interest(stream->loop, stream->input, reading);
        loop_set_interest(stream->loop, stream->output, writing);
    }
}

static void on_ready(void *context, int descriptor, unsigned ready)
{
    struct stream *stream = context;
    bool reads = descriptor == stream->input && (ready & LOOP_READ);
    bool writes = descriptor == stream->output && (ready & LOOP_WRITE);
    /* What was known and not used yet is not to be told again and again: see update_interest. Most
     * often it is used before the next wait, and needs no system call. */
    stream->told = reads && stream->readable;
    stream->readable |= reads;
    stream->writable |= writes;
    /* So would a hang-up be; reading and writing will find it by themselves. */
    if (ready & LOOP_HANGUP) {
        stream->hung_up |= reads;
        loop_remove(stream->loop, descriptor);
    } else {
        update_interest(stream);
    }
}

bool stream_register(struct stream *stream, struct loop *loop, struct error *error)
{
    if (!loop_add(loop, stream->input, 0, on_ready, stream, error))
        return false;
    if (stream->output != stream->input &&
        !loop_add(loop, stream->output, 0, on_ready, stream, error)) {
        loop_remove(loop, stream->input);
        return false;
    }
    stream->loop = loop;
    update_interest(stream);
    return true;
}

void stream_unregister(struct stream *stream)
{
    if (stream->loop == NULL)
        return;
    loop_remove(stream->loop, stream->input);
    loop_remove(stream->loop, stream->output);
    stream->loop = NULL;
}

static bool would_block(int os_errno)
{
    return os_errno == EAGAIN || os_errno == EWOULDBLOCK;
}

/* That nobody is at the other end any more is an end, not a fault of this machine's. */
static bool is_gone(int os_errno)
{
    return os_errno == EPIPE || os_errno == ECONNRESET;
}

static void fail(struct stream *stream, int os_errno)
{
    if (!is_gone(os_errno))
        error_set_errno(&stream->error, os_errno, "the channel through ssh failed");
    stream->ended = true;
    stream->readable = false;
    update_interest(stream);
}

bool stream_read(struct stream *stream)
{
    if (!stream->readable || stream->ended)
        return false;
    memmove(stream->in, stream->in + stream->read_at, stream->read_end - stream->read_at);
    stream->read_end -= stream->read_at;
    stream->read_at = 0;
    if (stream->read_end == INPUT_SIZE)
        return false; /* whole frames wait to be taken */
    ssize_t got;
    do
        got = read(stream->input, stream->in + stream->read_end, INPUT_SIZE - stream->read_end);
    while (got < 0 && errno == EINTR);
    stream->told = false;
    if (got > 0) {
        stream->read_end += (size_t)got;
        /* Else it is empty, or the loop will tell. */
        stream->readable =
            stream->read_end == INPUT_SIZE || stream->hung_up || stream->unread_by_peer;
        update_interest(stream);
        return true;
    }
    stream->readable = false;
    if (got == 0 || (would_block(errno) && stream->unread_by_peer))
        stream->ended = true;
    else if (!would_block(errno))
        fail(stream, errno);
    update_interest(stream);
    return false;
}

bool stream_next_frame(struct stream *stream, uint8_t **frame, size_t *size)
{
    size_t have = stream->read_end - stream->read_at;
    uint8_t *at = stream->in + stream->read_at;
    if (have < STREAM_LENGTH_SIZE)
        return false;
    size_t length = (size_t)at[0] << 8 | at[1];
    if (length == 0 || length > STREAM_PACKET_MAX) {
        error_set(&stream->error, ERROR_PROTOCOL,
                  "the far end sent something else than petrel's packets (a length of %zu); does a "
                  "login script there print text?",
                  length);
        stream->ended = true;
        return false;
    }
    if (have < STREAM_LENGTH_SIZE + length)
        return false;
    *frame = at;
    *size = STREAM_LENGTH_SIZE + length;
    stream->read_at += *size;
    return true;
}

size_t stream_unwritten(const struct stream *stream)
{
    return stream->write_end - stream->write_at;
}

size_t stream_room(const struct stream *stream)
{
    size_t waiting = stream_unwritten(stream);
    return waiting < STREAM_UNWRITTEN_MAX ? STREAM_UNWRITTEN_MAX - waiting : 0;
}

/* Hands bytes to the system. How many it took: all of them when nobody will read any. */
static size_t put_bytes(struct stream *stream, const uint8_t *bytes, size_t size)
{
    size_t done = 0;
    if (stream->unread_by_peer)
        return size;
    while (stream->writable && done < size) {
        ssize_t put = write(stream->output, bytes + done, size - done);
        if (put > 0) {
            done += (size_t)put;
        } else if (put < 0 && errno != EINTR) {
            if (is_gone(errno)) {
                stream->unread_by_peer = stream->readable = true;
                return size;
            }
            stream->writable = false;
            if (!would_block(errno)) {
                fail(stream, errno);
                return size;
            }
        }
    }
    return done;
}

bool stream_flush(struct stream *stream)
{
    size_t put = put_bytes(stream, stream->out + stream->write_at, stream_unwritten(stream));
    bool any = put > 0;
    stream->write_at += put;
    if (stream->write_at == stream->write_end)
        stream->write_at = stream->write_end = 0;
    update_interest(stream);
    return any;
}

static void append(struct stream *stream, const uint8_t *bytes, size_t size)
{
    if (stream->write_end + size > OUTPUT_SIZE) {
        memmove(stream->out, stream->out + stream->write_at, stream_unwritten(stream));
        stream->write_end -= stream->write_at;
        stream->write_at = 0;
    }
    if (stream->write_end + size > OUTPUT_SIZE) {
        error_set(&stream->error, ERROR_IO, "the channel through ssh was given more than it takes");
        stream->ended = true;
        return;
    }
    memcpy(stream->out + stream->write_end, bytes, size);
    stream->write_end += size;
}

void stream_write(struct stream *stream, const uint8_t *bytes, size_t size)
{
    /* What the pipe takes at once need not be copied. */
    size_t put = stream_unwritten(stream) == 0 ? put_bytes(stream, bytes, size) : 0;
    if (put < size)
        append(stream, bytes + put, size - put);
    stream_flush(stream);
}

void stream_write_frame(struct stream *stream, const uint8_t *bytes, size_t size)
{
    const uint8_t length[STREAM_LENGTH_SIZE] = {(uint8_t)(size >> 8), (uint8_t)size};
    append(stream, length, sizeof(length));
    stream_write(stream, bytes, size);
}

bool stream_has_ended(const struct stream *stream)
{
    return stream->ended;
}

const struct error *stream_error(const struct stream *stream)
{
    return &stream->error;
}
