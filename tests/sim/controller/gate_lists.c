/* Which cells the short test takes, and which are known to fail. */
#include "gate_cells.h"

/* One or two of each kind; three seeds each. */
const char *const gate_quick[] = {"start-1g-100ms-1%",
                                  "start-5m-50ms-policer",
                                  "early-100m-5ms",
                                  "memory-high-1g-100ms",
                                  "whole-100m-200ms-5%",
                                  "loss-1g-100ms-5%",
                                  "loss-1g-0.05ms-1%",
                                  "loss-10m-50ms-5%",
                                  "burst16-1g-100ms-1%",
                                  "burst45-100m-100ms-10%",
                                  "correlated-100m-100ms-5%",
                                  "before-1g-100ms-5%",
                                  "queue0.1-1g-100ms",
                                  "lan-13m-0.4ms-12ms-10%",
                                  "queue1-100m-20ms",
                                  "policer50-100m-50ms-1%",
                                  "step-10-1-10m-50ms",
                                  "outage-2s-100m-50ms",
                                  "vanish-1g-1ms",
                                  "hole-3s-1g-1ms",
                                  "floor-0.3m-1g-1ms",
                                  "jitter30-100m-100ms",
                                  "back1%-100m-20ms",
                                  "two-100m-50ms",
                                  "cubic-1bdp-100m-50ms",
                                  "background-cubic-1bdp-1g-50ms",
                                  "stall-10s-100m-50ms",
                                  "slow-1m-50ms-1%",
                                  "scale-10g-10ms-1%"};
const unsigned gate_quick_count = sizeof gate_quick / sizeof gate_quick[0];

/* The cells that are known to fail, and what limits them. A cell that is listed and passes fails
 * the run, and so does a name that is no cell's: the list stays true. */
const struct gate_miss gate_misses[] = {
    {"bbr-1bdp-1g-50ms", "BBR keeps the queue full, and petrel makes room"},
    {"bbr-1bdp-100m-50ms", "BBR keeps the queue full, and petrel makes room"},
    {"step-10-1m-50ms", "an UP may be on its way when the rate falls: 2.4 to 4.3 RTT, by chance"},
    {"fair-cubic-0.1bdp-100m-50ms", "loss that CUBIC yields to is none that petrel has to"},
};

const unsigned gate_miss_count = sizeof gate_misses / sizeof gate_misses[0];
