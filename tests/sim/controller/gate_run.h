/* One run of a cell: the world it describes, and what came of it. */
#ifndef PETREL_SIM_CONTROLLER_GATE_RUN_H
#define PETREL_SIM_CONTROLLER_GATE_RUN_H

#include "gate_cells.h"

struct outcome {
    double share, lost, overflow, queue_ms, queue_targets, reach, settle, calm, peak, early, jain,
        rival;
    double condemned; /* flows that gave their trains up */
};

/* `frozen`: the rate never changes after the first. `trace`: a line an interval on stdout. */
struct outcome gate_run(const struct gate_cell *cell, uint64_t seed, bool frozen, bool trace);

#endif
