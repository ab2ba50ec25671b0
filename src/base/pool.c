#include "base/pool.h"

#include <assert.h>
#include <stdlib.h>

#include "base/aligned.h"

#define PAGE_SIZE_BYTES 4096u

/* A buffer at rest holds the link to the next one: the last given back, still warm, goes first. */
struct resting {
    struct resting *next;
};

struct pool {
    size_t buffer_size;
    size_t limit;
    size_t taken;
    struct resting *resting;
};

struct pool *pool_new(size_t buffer_size, size_t limit_count)
{
    struct pool *pool = malloc(sizeof *pool);
    if (pool == NULL)
        return NULL;
    *pool = (struct pool){
        .buffer_size = buffer_size < sizeof(struct resting) ? sizeof(struct resting) : buffer_size,
        .limit = limit_count};
    return pool;
}

void pool_free(struct pool *pool)
{
    if (pool == NULL)
        return;
    assert(pool->taken == 0);
    for (struct resting *buffer = pool->resting, *next; buffer != NULL; buffer = next) {
        next = buffer->next;
        aligned_free(buffer);
    }
    free(pool);
}

uint8_t *pool_take(struct pool *pool)
{
    if (pool->taken >= pool->limit)
        return NULL;
    struct resting *buffer = pool->resting;
    if (buffer != NULL) {
        pool->resting = buffer->next;
    } else {
        buffer = aligned_new(pool->buffer_size, PAGE_SIZE_BYTES);
        if (buffer == NULL)
            return NULL;
    }
    pool->taken++;
    return (uint8_t *)buffer;
}

void pool_give(struct pool *pool, uint8_t *buffer)
{
    if (buffer == NULL)
        return;
    assert(pool->taken > 0);
    struct resting *rest = (struct resting *)(void *)buffer;
    rest->next = pool->resting;
    pool->resting = rest;
    pool->taken--;
}

size_t pool_taken(const struct pool *pool)
{
    return pool->taken;
}
