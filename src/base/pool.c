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
    size_t resting_count;
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

/* Frees buffers at rest until the pool, with what is out, holds no more than its limit. */
static void shrink(struct pool *pool)
{
    while (pool->resting != NULL && pool->taken + pool->resting_count > pool->limit) {
        struct resting *buffer = pool->resting;
        pool->resting = buffer->next;
        pool->resting_count--;
        aligned_free(buffer);
    }
}

void pool_free(struct pool *pool)
{
    if (pool == NULL)
        return;
    assert(pool->taken == 0);
    pool->limit = 0;
    shrink(pool);
    free(pool);
}

uint8_t *pool_take(struct pool *pool)
{
    if (pool->taken >= pool->limit)
        return NULL;
    struct resting *buffer = pool->resting;
    if (buffer != NULL) {
        pool->resting = buffer->next;
        pool->resting_count--;
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
    pool->resting_count++;
    pool->taken--;
    shrink(pool);
}

void pool_set_limit(struct pool *pool, size_t limit_count)
{
    pool->limit = limit_count;
    shrink(pool);
}

size_t pool_taken(const struct pool *pool)
{
    return pool->taken;
}

size_t pool_limit(const struct pool *pool)
{
    return pool->limit;
}
