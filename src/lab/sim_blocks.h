/* Bare blocks over a simulated session, without files: a source that makes blocks of a known
 * pattern and a sink that knows what must arrive. Finds blocks delivered twice, with wrong bytes,
 * length or kind, buffers lost or returned twice, and control bytes out of place; plays a slow
 * source and a slow disk.
 */
#ifndef PETREL_LAB_SIM_BLOCKS_H
#define PETREL_LAB_SIM_BLOCKS_H

#include "lab/sim_upper.h"

struct sim_blocks_config {
    uint64_t seed; /* both ends of a session get the same */
    uint32_t count;
    uint32_t length_min, length_max; /* of a block, 1 to BLOCK_SIZE */
    uint32_t buffers;              /* blocks that each end's memory holds; a sender's at least 48 */
    uint64_t source_bps, disk_bps; /* 0: as fast as asked */
    uint64_t control_bytes;        /* each way on the control stream */
};

/* The upper of one end; given to sim_world_new. */
struct sim_upper sim_blocks_new(const struct sim_blocks_config *config, enum transfer_role role);
/* Bytes of all blocks together. */
uint64_t sim_blocks_total(const struct sim_blocks_config *config);

#endif
