/* Blocks made smaller on the way (-z): zstd frames of one block each.
 *
 * Two implementations of the same functions: squeeze_zstd.c, and squeeze_none.c for a build without
 * libzstd, which neither makes nor reads such blocks. What stands in a squeezed block is in
 * docs/protocol.md, "Blocks". Sizes are bytes.
 */
#ifndef PETREL_TREE_SQUEEZE_H
#define PETREL_TREE_SQUEEZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SQUEEZE_LEVEL_MAX 19u

struct squeezer;

bool squeeze_is_possible(void);
/* NULL without memory, and without libzstd. */
struct squeezer *squeezer_new(void);
void squeezer_free(struct squeezer *squeezer);

/* Makes `size` bytes smaller, at level 1 to SQUEEZE_LEVEL_MAX. 0 when `capacity` is too little. */
size_t squeezer_pack(struct squeezer *squeezer, unsigned level, const uint8_t *bytes, size_t size,
                     uint8_t *out, size_t capacity);

/* The reverse. False: no memory, or these bytes are no frame that yields at most `capacity`. The
 * frame's own header is not believed. */
bool squeezer_unpack(struct squeezer *squeezer, const uint8_t *bytes, size_t size, uint8_t *out,
                     size_t capacity, size_t *got);

#endif
