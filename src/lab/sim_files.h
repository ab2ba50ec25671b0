/* A whole transfer over a simulated session: transfer/ with its real messages and credit, on
 * simulated storage whose disk takes its time.
 */
#ifndef PETREL_LAB_SIM_FILES_H
#define PETREL_LAB_SIM_FILES_H

#include "lab/sim_storage.h"
#include "lab/sim_upper.h"
#include "transfer/transfer.h"

struct sim_files_config {
    bool pull; /* the receiver is the client and asks */
    struct sim_source_config source;
    struct sim_sink_config sink;
    uint64_t source_bps, disk_bps; /* 0: no time passes */
    size_t pool_blocks;            /* 0: the transfer's own */
};

/* The upper of one end; given to sim_world_new. Both ends of a session get the same
 * configuration. */
struct sim_upper sim_files_new(const struct sim_files_config *config, enum transfer_role role);

/* What an upper made by sim_files_new has come to. */
void sim_files_progress(const struct sim_upper *upper, struct transfer_progress *progress);
void sim_files_result(const struct sim_upper *upper, struct sim_sink_result *result); /* sinks */

#endif
