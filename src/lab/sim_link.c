/* See sim_link.h. */
#include "lab/sim_link.h"

#include "base/units.h"

#define BITS_NS (UINT64_C(8) * NS_PER_S) /* bytes x this / rate_bps = ns */

uint64_t sim_scale(uint64_t a, uint64_t b, uint64_t c)
{
    return (uint64_t)((unsigned __int128)a * b / c);
}

void sim_link_init(struct sim_link *link, const struct sim_link_config *config, uint64_t seed)
{
    *link = (struct sim_link){.config = *config, .up = true};
    random_seed(&link->random, seed);
    link->policer.fill = config->policer_burst_bytes * BITS_NS;
    for (unsigned i = 0; i < SIM_FLOWS_MAX; i++) {
        link->flow_policer[i].fill = config->flow_policer_burst_bytes * BITS_NS;
    }
}

static uint64_t backlog_bytes(const struct sim_link *link, uint64_t now_ns)
{
    if (link->config.rate_bps == 0 || link->free_at_ns <= now_ns) {
        return 0;
    }
    return sim_scale(link->free_at_ns - now_ns, link->config.rate_bps, BITS_NS);
}

/* What waits in the queue is sent at the new rate from now on; arrivals already told stand. */
static void change_rate(struct sim_link *link, uint64_t at_ns, uint64_t rate_bps)
{
    uint64_t waiting = backlog_bytes(link, at_ns);
    link->config.rate_bps = rate_bps;
    link->free_remainder = 0;
    if (waiting > 0) {
        link->free_at_ns = at_ns + (rate_bps ? sim_scale(waiting, BITS_NS, rate_bps) : 0);
    }
}

static void apply_changes(struct sim_link *link, uint64_t now_ns)
{
    while (link->change_next < link->config.change_count &&
           link->config.changes[link->change_next].at_ns <= now_ns) {
        const struct sim_change *change = &link->config.changes[link->change_next++];
        switch (change->kind) {
        case SIM_CHANGE_RATE:
            change_rate(link, change->at_ns, change->value);
            break;
        case SIM_CHANGE_DELAY:
            link->config.delay_ns = change->value;
            break;
        case SIM_CHANGE_MTU:
            link->config.mtu = (uint32_t)change->value;
            break;
        case SIM_CHANGE_LOSS:
            link->config.loss = (uint32_t)change->value;
            break;
        case SIM_CHANGE_UP:
            link->up = change->value != 0;
            break;
        }
    }
}

static bool bucket_passes(struct sim_bucket *bucket, uint64_t bps, uint64_t burst_bytes,
                          uint64_t now_ns, uint64_t bytes)
{
    if (bps == 0) {
        return true;
    }
    uint64_t full = burst_bytes * BITS_NS;
    uint64_t passed_ns = now_ns - bucket->at_ns;
    bucket->at_ns = now_ns;
    if (passed_ns >= full / bps + 1 || bucket->fill + passed_ns * bps >= full) {
        bucket->fill = full;
    } else {
        bucket->fill += passed_ns * bps;
    }
    if (bucket->fill < bytes * BITS_NS) {
        return false;
    }
    bucket->fill -= bytes * BITS_NS;
    return true;
}

static bool policer_passes(struct sim_link *link, unsigned flow, uint64_t now_ns, uint64_t bytes)
{
    const struct sim_link_config *config = &link->config;
    return bucket_passes(&link->flow_policer[flow % SIM_FLOWS_MAX], config->flow_policer_bps,
                         config->flow_policer_burst_bytes, now_ns, bytes) &&
           bucket_passes(&link->policer, config->policer_bps, config->policer_burst_bytes, now_ns,
                         bytes);
}

/* Passes the datagram through the limiter; *leave_ns is when its last bit is out. */
static bool queue_passes(struct sim_link *link, uint64_t now_ns, uint64_t bytes, uint64_t *leave_ns)
{
    const struct sim_link_config *config = &link->config;
    *leave_ns = now_ns;
    if (config->rate_bps == 0) {
        return true;
    }
    uint64_t waiting = backlog_bytes(link, now_ns);
    if (config->queue_bytes != 0 && waiting + bytes > config->queue_bytes) {
        return false;
    }
    if (link->free_at_ns <= now_ns) {
        link->free_at_ns = now_ns;
        link->free_remainder = 0;
    }
    if (link->free_at_ns - now_ns > link->counts.queue_ns_max) {
        link->counts.queue_ns_max = link->free_at_ns - now_ns;
    }
    uint64_t work = bytes * BITS_NS + link->free_remainder;
    link->free_at_ns += work / config->rate_bps;
    link->free_remainder = work % config->rate_bps;
    *leave_ns = link->free_at_ns;
    return true;
}

static bool is_lost(struct sim_link *link)
{
    const struct sim_link_config *config = &link->config;
    if (config->burst_enter != 0) {
        bool flips = random_chance(&link->random,
                                   link->bad_state ? config->burst_leave : config->burst_enter);
        link->bad_state ^= flips;
        if (link->bad_state && random_chance(&link->random, config->burst_loss)) {
            return true;
        }
    }
    if (config->loss == 0) {
        return false;
    }
    if (config->loss_repeat == 0 || !random_chance(&link->random, config->loss_repeat)) {
        link->last_lost = random_chance(&link->random, config->loss);
    }
    return link->last_lost;
}

static struct sim_arrival arrive(struct sim_link *link, uint64_t leave_ns)
{
    const struct sim_link_config *config = &link->config;
    struct sim_arrival arrival = {.at_ns = leave_ns + config->delay_ns};
    if (config->jitter_ns != 0) {
        arrival.at_ns += random_below(&link->random, config->jitter_ns + 1);
    }
    if (config->reorder != 0 && random_chance(&link->random, config->reorder)) {
        arrival.at_ns += random_below(&link->random, config->reorder_ns + 1);
        link->counts.held_back++;
    } else {
        if (arrival.at_ns < link->last_arrival_ns) {
            arrival.at_ns = link->last_arrival_ns;
        }
        link->last_arrival_ns = arrival.at_ns;
    }
    if (config->corrupt != 0 && random_chance(&link->random, config->corrupt)) {
        arrival.corrupt = true;
        arrival.corrupt_bit = random_next(&link->random);
        link->counts.corrupted++;
    }
    return arrival;
}

static enum sim_fate judge(struct sim_link *link, unsigned flow, uint64_t now_ns, uint64_t bytes,
                           uint64_t *leave_ns)
{
    if (!link->up) {
        return SIM_DOWN;
    }
    if (link->config.mtu != 0 && bytes > link->config.mtu) {
        return SIM_TOO_BIG;
    }
    if (!policer_passes(link, flow, now_ns, bytes)) {
        return SIM_POLICED;
    }
    if (!queue_passes(link, now_ns, bytes, leave_ns)) {
        return SIM_QUEUE_FULL;
    }
    return is_lost(link) ? SIM_LOST : SIM_PASSED;
}

unsigned sim_link_offer(struct sim_link *link, uint64_t now_ns, uint32_t size,
                        struct sim_arrival arrivals[2], enum sim_fate *fate)
{
    return sim_link_offer_flow(link, 0, now_ns, size, arrivals, fate);
}

unsigned sim_link_offer_flow(struct sim_link *link, unsigned flow, uint64_t now_ns, uint32_t size,
                             struct sim_arrival arrivals[2], enum sim_fate *fate)
{
    uint64_t bytes = size + SIM_LINK_OVERHEAD;
    uint64_t leave_ns = now_ns;
    apply_changes(link, now_ns);
    *fate = judge(link, flow, now_ns, bytes, &leave_ns);
    link->counts.fates[*fate]++;
    link->counts.offered_bytes += bytes;
    if (*fate != SIM_PASSED) {
        return 0;
    }
    link->counts.passed_bytes += bytes;
    arrivals[0] = arrive(link, leave_ns);
    if (link->config.duplicate == 0 || !random_chance(&link->random, link->config.duplicate)) {
        return 1;
    }
    link->counts.duplicated++;
    arrivals[1] = arrive(link, leave_ns);
    return 2;
}

uint64_t sim_link_backlog(struct sim_link *link, uint64_t now_ns)
{
    apply_changes(link, now_ns);
    return backlog_bytes(link, now_ns);
}
