#include "tree/zero_block.h"

static uint8_t zeros[BLOCK_SIZE]; /* not const, so that the program does not hold them */

const uint8_t *zero_block(void)
{
    return zeros;
}
