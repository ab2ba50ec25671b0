/* Named scenarios: what they consist of, and the tables of them. */
#ifndef PETREL_TESTS_SCENARIO_H
#define PETREL_TESTS_SCENARIO_H

#include "base/units.h"
#include "sim_case.h"

#define MBIT UINT64_C(1000000)
#define GBIT UINT64_C(1000000000)
#define MS NS_PER_MS
#define S NS_PER_S

struct scenario {
    const char *name;
    uint64_t rate_bps, rtt_ns;
    uint32_t blocks, length; /* 0: 64 of about 250,000 bytes */
    unsigned share;          /* percent of rate x (1 - loss) that the goodput must reach; 0: any */
    void (*shape)(struct sim_case *c);
    /* Further demands on the outcome: NULL when they are met. */
    const char *(*check)(const struct sim_outcome *outcome);
};

/* Each ends with an entry without a name. */
extern const struct scenario path_scenarios[];    /* what the path does */
extern const struct scenario session_scenarios[]; /* what becomes of addresses, lanes and peers */

/* Shapes that both use. */
void loss_both(struct sim_case *c, uint32_t share);
void slow_disk(struct sim_case *c);

#endif
