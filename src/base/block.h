/* The unit that files are cut into and the wire counts in: docs/protocol.md, "Blocks". */
#ifndef PETREL_BASE_BLOCK_H
#define PETREL_BASE_BLOCK_H

#include <stdint.h>

#define BLOCK_SIZE (1024u * 1024u)
#define BLOCK_NUMBER_LIMIT (UINT32_C(1) << 28) /* numbers are below this */

#endif
