#include "transport/rtt.h"

#include "base/units.h"

#define SPREAD_FREE_NS (200 * NS_PER_MS)

void rtt_init(struct rtt *rtt, uint64_t guess_ns)
{
    *rtt = (struct rtt){.smoothed_ns = guess_ns,
                        .variation_ns = guess_ns / 2,
                        .latest_ns = guess_ns,
                        .min_ns = guess_ns};
}

void rtt_sample(struct rtt *rtt, uint64_t sample_ns)
{
    if (sample_ns == 0)
        sample_ns = 1;
    rtt->latest_ns = sample_ns;
    if (!rtt->measured) {
        rtt->measured = true;
        rtt->smoothed_ns = sample_ns;
        rtt->variation_ns = sample_ns / 2;
        rtt->min_ns = sample_ns;
        return;
    }
    uint64_t deviation =
        sample_ns > rtt->smoothed_ns ? sample_ns - rtt->smoothed_ns : rtt->smoothed_ns - sample_ns;
    rtt->variation_ns = (3 * rtt->variation_ns + deviation) / 4;
    rtt->smoothed_ns = (7 * rtt->smoothed_ns + sample_ns) / 8;
    if (sample_ns < rtt->min_ns)
        rtt->min_ns = sample_ns;
}

uint64_t rtt_ack_interval(uint64_t rtt_ns)
{
    uint64_t interval = rtt_ns / 8;
    if (interval < NS_PER_MS)
        return NS_PER_MS;
    return interval > 10 * NS_PER_MS ? 10 * NS_PER_MS : interval;
}

uint64_t rtt_probe_timeout(const struct rtt *rtt)
{
    uint64_t spread = 4 * rtt->variation_ns;
    /* When a long queue has drained, the variation says tens of seconds; a probe too early costs
     * two small packets. */
    if (spread > rtt->smoothed_ns && spread > SPREAD_FREE_NS)
        spread = rtt->smoothed_ns > SPREAD_FREE_NS ? rtt->smoothed_ns : SPREAD_FREE_NS;
    if (spread < 2 * NS_PER_MS)
        spread = 2 * NS_PER_MS;
    return rtt->smoothed_ns + spread + rtt_ack_interval(rtt->smoothed_ns);
}
