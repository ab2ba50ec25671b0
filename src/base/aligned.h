/* Memory whose address is a multiple of a power of two, on every C library.
 *
 * Windows has no aligned_alloc and wants its own function to free what _aligned_malloc gave, so
 * the two stand here together. Only base/ needs this: others take buffers from a pool.
 */
#ifndef PETREL_BASE_ALIGNED_H
#define PETREL_BASE_ALIGNED_H

#include <stddef.h>

/* `alignment` is a power of two, at least the size of a pointer. NULL without memory. Free with
 * aligned_free only. */
void *aligned_new(size_t size, size_t alignment);
void aligned_free(void *memory);

#endif
