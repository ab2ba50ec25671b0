/* From a seed to a session: the committed distribution of paths and mishaps for random runs.
 *
 * Round trips of 0.05 to 600 ms and rates of 1 Mbit/s to 100 Gbit/s, both log-uniform; loss of 0
 * to 30 % each way; each impairment in at least a tenth of the seeds (random_runs counts them).
 * Every session moves at least 50 blocks; their length follows the path, so that no seed takes
 * long.
 */
#ifndef PETREL_TESTS_SIM_SEED_PLAN_H
#define PETREL_TESTS_SIM_SEED_PLAN_H

#include "sim_case.h"

enum impairment {
    WITH_LOSS,
    WITH_ACK_LOSS,
    WITH_BURSTS,
    WITH_CORRELATED_LOSS,
    WITH_JITTER,
    WITH_REORDERING,
    WITH_DUPLICATES,
    WITH_CORRUPTION,
    WITH_POLICER,
    WITH_RATE_CHANGE,
    WITH_SHALLOW_QUEUE,
    WITH_DEEP_QUEUE,
    WITH_SLOW_ACK_PATH,
    WITH_OUTAGE,
    WITH_MTU,
    WITH_BLACK_HOLE,
    WITH_PORT_CHANGE,
    WITH_ADDRESS_CHANGE,
    WITH_ATTACKER,
    WITH_LANES,
    WITH_LATE_LANES,
    WITH_DEAD_LANE,
    WITH_STREAM,
    WITH_SLOW_DISK,
    WITH_SLOW_SOURCE,
    WITH_LITTLE_CREDIT,
    WITH_CONTROL,
    WITH_LATE_WAKES,
    WITH_PULL,
    WITH_REAL_CIPHER,
    WITH_EARLY_END, /* one side vanishes or is stopped */
    WITH_FILES,     /* a whole transfer */
    WITH_FAULTY_FILES,
    WITH_CHANNEL,
    IMPAIRMENT_COUNT
};

const char *impairment_name(enum impairment impairment);

/* Fills `c`; *drawn has a bit for each impairment. */
void seed_plan(struct sim_case *c, uint64_t seed, uint64_t *drawn);

#endif
