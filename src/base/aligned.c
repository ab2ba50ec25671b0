#include "base/aligned.h"

#include <stdint.h>
#include <stdlib.h>
#ifdef _WIN32
#include <malloc.h>
#endif

void *aligned_new(size_t size, size_t alignment)
{
    if (size > SIZE_MAX - alignment)
        return NULL;
    size_t whole = (size + alignment - 1) & ~(alignment - 1); /* aligned_alloc asks for this */
#ifdef _WIN32
    return _aligned_malloc(whole, alignment);
#else
    return aligned_alloc(alignment, whole);
#endif
}

void aligned_free(void *memory)
{
#ifdef _WIN32
    _aligned_free(memory);
#else
    free(memory);
#endif
}
