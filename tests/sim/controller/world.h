/* Runs flows over a path in virtual time and measures what came of it. */
#ifndef PETREL_SIM_CONTROLLER_WORLD_H
#define PETREL_SIM_CONTROLLER_WORLD_H

#include "flow.h"

struct world_config {
    struct path_config path;
    struct flow_config flows[PATH_FLOWS_MAX];
    unsigned flow_count;
    uint64_t duration_ns;
    uint64_t queue_from_ns; /* queue delay is averaged from here */
    uint64_t calm_from_ns;  /* an event after which the queue has to be short again */
    bool trace;             /* one line per interval on stdout */
};

struct world {
    struct world_config config;
    struct path path;
    struct flow flows[PATH_FLOWS_MAX];
    double queue_sum_ns;
    uint64_t queue_samples;
    uint32_t *queue_us; /* the queue after the event, once a millisecond */
    uint32_t queue_us_count;
};

void world_run(struct world *world, const struct world_config *config, uint64_t seed);
void world_release(struct world *world);

/* Goodput of a flow in [from, until), bits a second. */
double world_goodput_bps(const struct world *world, unsigned flow, uint64_t from_ns,
                         uint64_t until_ns);
/* Shares of sent packets that were lost to any cause, or to queue and policer alone. */
double world_lost_share(const struct world *world, unsigned flow, uint64_t from_ns,
                        uint64_t until_ns);
double world_overflow_share(const struct world *world, unsigned flow, uint64_t from_ns,
                            uint64_t until_ns);
double world_queue_ms(const struct world *world);
/* How long after `from_ns` the goodput over one RTT first reached the rate; -1 never. */
double world_reach_rtts(const struct world *world, unsigned flow, uint64_t from_ns,
                        double rate_bps);

/* What the first 20 RTTs lost to queue and policer, in bandwidth-delay products. */
double world_early_bdps(const struct world *world, unsigned flow);
/* The most that was sent in one of the ten RTTs after `from_ns`, bits a second. */
double world_peak_bps(const struct world *world, unsigned flow, uint64_t from_ns);
/* When the queue was first under `target_ns` after calm_from_ns, counted from when it could have
 * been empty: an RTT after the event the sender can know of it, and what is queued by then has to
 * go. -1 never. */
double world_calm_rtts(const struct world *world, uint64_t target_ns);
/* How long after `from_ns` no more than `rate_bps` was sent in an RTT for the first time. */
double world_settle_rtts(const struct world *world, unsigned flow, uint64_t from_ns,
                         double rate_bps);

#endif
