/* The table of gates: each cell is a path, who sends on it, and what must come of it. */
#ifndef PETREL_SIM_CONTROLLER_GATE_CELLS_H
#define PETREL_SIM_CONTROLLER_GATE_CELLS_H

#include "world.h"

struct gate_cell {
    const char *name;
    struct path_config path;   /* queue_bytes is derived from queue_bdp when 0 */
    double queue_bdp;          /* of the first rate (of the policer, if there is one) */
    double duration_s, from_s; /* judged from here to the end */
    unsigned petrels;          /* flows; each starts 0.6 to 0.7 s after the one before */
    unsigned rivals;           /* CUBIC, unless: */
    bool bbr;
    bool rival_first;        /* it starts a second before the petrels, else a second after */
    uint64_t rival_bps;      /* shaped at its source to this; 0: not */
    struct flow_config flow; /* of every petrel; unit_packets 0: by the rate */

    /* What must hold; 0: not judged. Shares are of the ceiling: rate x (1 - loss). */
    double share;         /* of all petrels together, median over the seeds */
    double share_worst;   /* 5th percentile; 0: 0.03 under the median's */
    double lost_most;     /* sent packets lost to anything */
    double overflow_most; /* to queue and policer only */
    double queue_ms_most;
    double queue_targets_most; /* mean queue, in targets: RTT/8, 4 to 25 ms */
    double reach_rtts;         /* until 0.9 of the ceiling is delivered, from event_s */
    double reach_worst;        /* the same, 95th percentile; 0: 1.6 times the median's */
    double event_s;
    double settle_rtts;  /* until no more than 1.1 x the present rate is sent */
    double calm_rtts;    /* until the queue is under its target, on top of what it takes the path to
                            get rid of what was sent before the sender could know: an RTT more */
    double peak_most;    /* sent in one of ten RTTs after event_s, of the rate */
    double early_worst;  /* overflowed in the first 20 RTT, in bandwidth-delay products, 95th
                            percentile */
    bool rate_by_chance; /* 0.7 to 1.3 of what it says, so that each seed's start meets the path's
                            rate at another step */
    double jain;
    double rival_share; /* what the rival gets, of what it gets alone */
};

extern const struct gate_cell gate_cells[];
extern const unsigned gate_cell_count;

/* gate_lists.c: the short test, and what is known to fail. */
extern const char *const gate_quick[];
extern const unsigned gate_quick_count;
struct gate_miss {
    const char *name, *limit;
};
extern const struct gate_miss gate_misses[];
extern const unsigned gate_miss_count;

#endif
