#include "cli/start/pipe_peek.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void pipe_peek_open(struct pipe_peek *peek)
{
    if (pipe2(peek->copy, O_CLOEXEC) != 0)
        peek->copy[0] = peek->copy[1] = -1;
}

void pipe_peek_close(struct pipe_peek *peek)
{
    for (int i = 0; i < 2; i++) {
        if (peek->copy[i] >= 0)
            close(peek->copy[i]);
        peek->copy[i] = -1;
    }
}

static ssize_t read_some(int fd, char *bytes, size_t size)
{
    ssize_t got;
    do
        got = read(fd, bytes, size);
    while (got < 0 && errno == EINTR);
    return got;
}

static ssize_t take_one(int pipe, char *byte, size_t *taken)
{
    ssize_t got = read_some(pipe, byte, 1);
    *taken = got > 0 ? 1 : 0;
    return got;
}

ssize_t pipe_peek_look(struct pipe_peek *peek, int pipe, char *bytes, size_t capacity,
                       size_t *taken)
{
    *taken = 0;
    if (peek->copy[0] < 0)
        return take_one(pipe, bytes, taken);
    ssize_t copied = tee(pipe, peek->copy[1], capacity, SPLICE_F_NONBLOCK);
    if (copied < 0 && errno != EINTR && errno != EAGAIN)
        return take_one(pipe, bytes, taken);
    if (copied < 0)
        errno = EAGAIN;
    for (ssize_t done = 0; done < copied;) {
        ssize_t got = read_some(peek->copy[0], bytes + done, (size_t)(copied - done));
        if (got <= 0)
            return -1;
        done += got;
    }
    return copied;
}

void pipe_peek_skip(int pipe, size_t size)
{
    char bytes[4096];
    while (size > 0) {
        ssize_t got = read_some(pipe, bytes, size < sizeof(bytes) ? size : sizeof(bytes));
        if (got <= 0)
            return;
        size -= (size_t)got;
    }
}
