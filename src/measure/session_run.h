/* One session of memory ends from its opening to its report, over UDP or over a stream: what both
 * ends of petrel doctor and petrel bench run, each with the other's role. Blocks its thread. */
#ifndef PETREL_MEASURE_SESSION_RUN_H
#define PETREL_MEASURE_SESSION_RUN_H

#include "measure/memory_ends.h"

struct session_run {
    bool sends;
    struct memory_config memory;
    /* Filled by the caller but for role, initial credit and upper. */
    struct driver_config driver;
};

struct session_outcome {
    struct error error; /* kind NONE: it went well, and a sender's blocks were verified */
    struct memory_report memory;
    struct driver_statistics net;
};

/* False with the cause in outcome->error. The rest of the outcome is filled as far as it went. */
bool session_run(const struct session_run *run, struct session_outcome *outcome);

#endif
