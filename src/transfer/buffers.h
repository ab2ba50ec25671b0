/* The block buffers of one transfer: a pool that also knows which buffers are out, so that what a
 * closed session or sink still held comes back at the end. One owner thread. */
#ifndef PETREL_TRANSFER_BUFFERS_H
#define PETREL_TRANSFER_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"

struct buffers {
    struct pool *pool;
    uint8_t **out;
    size_t out_count, limit;
};

bool buffers_open(struct buffers *buffers, size_t limit);
/* Every buffer is taken back first: nobody may touch them any more. */
void buffers_close(struct buffers *buffers);
uint8_t *buffers_take(struct buffers *buffers); /* NULL at the limit or without memory */
/* False when the buffer is none of ours that is out. */
bool buffers_give(struct buffers *buffers, uint8_t *bytes);

#endif
