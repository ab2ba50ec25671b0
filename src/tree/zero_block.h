/* A block of zeros, for what is not read because nothing is stored there. */
#ifndef PETREL_TREE_ZERO_BLOCK_H
#define PETREL_TREE_ZERO_BLOCK_H

#include <stdint.h>

#include "base/block.h"

/* BLOCK_SIZE zeros, never to be written to. */
const uint8_t *zero_block(void);

#endif
