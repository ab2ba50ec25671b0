/* What sits on top of a simulated session: bare blocks (lab/sim_blocks.h) or a whole transfer
 * (lab/sim_files.h). The same shape as struct driver_upper, plus what a test must know at the end.
 */
#ifndef PETREL_LAB_SIM_UPPER_H
#define PETREL_LAB_SIM_UPPER_H

#include "lab/sim_trace.h"
#include "transport/session.h"

struct sim_upper {
    void *context;
    uint32_t initial_credit;
    /* Where to trace, as which host, and the world's time; borrowed. Called once, first. */
    void (*enter)(void *context, struct sim_trace *trace, unsigned host, const uint64_t *now_ns);
    void (*attach)(void *context, struct session *session, uint64_t now_ns);
    bool (*step)(void *context, uint64_t now_ns); /* true when something moved */
    uint64_t (*deadline)(void *context);
    bool (*is_ended)(void *context);
    void (*abort)(void *context, uint64_t now_ns);
    /* Its own error, kind NONE if it has none; called at any time. */
    const struct error *(*error)(void *context);
    /* The first broken promise seen from above (a block twice, a wrong byte), or NULL. */
    const char *(*failure)(void *context);
    /* Counts what moved, so that stalls show: unique bytes received or known to have arrived. */
    uint64_t (*progress)(void *context);
    /* True when this end believes that everything arrived and was verified. */
    bool (*succeeded)(void *context);
    /* World's time of that, for goodput; 0 while it has not come. */
    uint64_t (*done_ns)(void *context);
    void (*free)(void *context);
};

#endif
