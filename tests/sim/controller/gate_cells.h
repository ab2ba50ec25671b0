/* The table of gates: each cell is a path, who sends on it, and what must come of it. */
#ifndef PETREL_SIM_CONTROLLER_GATE_CELLS_H
#define PETREL_SIM_CONTROLLER_GATE_CELLS_H

#include "world.h"

struct gate_cell {
    const char *name;
    struct path_config path;   /* queue_bytes is derived from queue_bdp when 0 */
    double queue_bdp;          /* of the first rate (of the policer, if there is one) */
    double duration_s, from_s; /* judged from here to the end */
    unsigned petrels, cubics;  /* flows of each; the petrels start first, unless cubic_first */
    bool cubic_first;
    uint64_t cubic_bps;      /* shaped at its source to this; 0: not */
    struct flow_config flow; /* of every petrel; unit_packets 0: by the rate */

    /* What must hold; 0: not judged. Shares are of the ceiling: rate x (1 - loss). */
    double share;         /* of all petrels together, median over the seeds */
    double share_worst;   /* 5th percentile; 0: 0.03 under the median's */
    double lost_most;     /* sent packets lost to anything */
    double overflow_most; /* to queue and policer only */
    double queue_ms_most;
    double reach_rtts; /* until 0.9 of the ceiling is delivered, from reach_from_s */
    double reach_from_s;
    double settle_rtts; /* until no more than 1.1 x the present rate is sent */
    double jain;
    double rival_share; /* what CUBIC gets, of what it gets alone */
    bool quick;         /* also in the short test */
};

extern const struct gate_cell gate_cells[];
extern const unsigned gate_cell_count;

#endif
