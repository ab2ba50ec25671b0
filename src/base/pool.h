/* A pool of equal buffers with one owner thread: taken and given back, never zeroed.
 *
 * Memory is allocated as it is first needed, up to the limit, and page-aligned so that buffers can
 * be used for direct disk access. Buffers may travel to other threads but come back here.
 */
#ifndef PETREL_BASE_POOL_H
#define PETREL_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

struct pool;

struct pool *pool_new(size_t buffer_size, size_t limit_count);
void pool_free(struct pool *pool);     /* every buffer must be back */
uint8_t *pool_take(struct pool *pool); /* NULL at the limit or without memory */
void pool_give(struct pool *pool, uint8_t *buffer);
size_t pool_taken(const struct pool *pool);

#endif
