/* Looking at what is in a pipe and leaving it there: whoever looks for a line in it can do so by
 * the block, and what follows the line stays for the next reader. */
#ifndef PETREL_CLI_PIPE_PEEK_H
#define PETREL_CLI_PIPE_PEEK_H

#include <stddef.h>
#include <sys/types.h>

struct pipe_peek {
    int copy[2]; /* a pipe of ours, empty between two calls; -1: there is none */
};

void pipe_peek_open(struct pipe_peek *peek);
void pipe_peek_close(struct pipe_peek *peek);

/* Copies at most `capacity` bytes of what is in `pipe` now. Returns how many, 0 at the pipe's end,
 * -1 with errno; EAGAIN when nothing is there. Where it is no pipe, or the system cannot do that,
 * one byte is taken out of it instead, after waiting for it, and *taken says so. */
ssize_t pipe_peek_look(struct pipe_peek *peek, int pipe, char *bytes, size_t capacity,
                       size_t *taken);
/* Takes `size` bytes, which have been looked at, out of it. */
void pipe_peek_skip(int pipe, size_t size);

#endif
