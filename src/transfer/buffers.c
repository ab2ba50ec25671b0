#include "transfer/buffers.h"

#include <stdlib.h>

#include "base/block.h"

bool buffers_open(struct buffers *buffers, size_t limit)
{
    *buffers = (struct buffers){.pool = pool_new(BLOCK_SIZE, limit),
                                .out = calloc(limit > 0 ? limit : 1, sizeof(uint8_t *)),
                                .limit = limit};
    if (buffers->pool != NULL && buffers->out != NULL)
        return true;
    buffers_close(buffers);
    return false;
}

void buffers_close(struct buffers *buffers)
{
    while (buffers->out_count > 0)
        pool_give(buffers->pool, buffers->out[--buffers->out_count]);
    pool_free(buffers->pool);
    free(buffers->out);
    *buffers = (struct buffers){0};
}

uint8_t *buffers_take(struct buffers *buffers)
{
    uint8_t *bytes = buffers->out_count < buffers->limit ? pool_take(buffers->pool) : NULL;
    if (bytes != NULL)
        buffers->out[buffers->out_count++] = bytes;
    return bytes;
}

bool buffers_give(struct buffers *buffers, uint8_t *bytes)
{
    for (size_t i = 0; i < buffers->out_count; i++) {
        if (buffers->out[i] != bytes)
            continue;
        buffers->out[i] = buffers->out[--buffers->out_count];
        pool_give(buffers->pool, bytes);
        return true;
    }
    return false;
}
