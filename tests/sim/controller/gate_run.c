#include "gate_run.h"

static struct world world, alone; /* large: not on the stack */

static double ceiling_bps(const struct gate_cell *cell, const struct world_config *config)
{
    double bits = 0, from = cell->from_s * 1e9, until = (double)config->duration_ns;
    for (unsigned i = 0; i < config->path.step_count; i++) {
        double start = (double)config->path.steps[i].at_ns;
        double end =
            i + 1 < config->path.step_count ? (double)config->path.steps[i + 1].at_ns : until;
        start = start < from ? from : start;
        if (end > start)
            bits += (end - start) * (double)config->path.steps[i].rate_bps;
    }
    double bps = bits / (until - from);
    const double caps[] = {(double)config->path.policer_bps, (double)cell->flow.limit_bps,
                           (double)cell->flow.fixed_bps, (double)cell->flow.source_bps};
    for (unsigned i = 0; i < sizeof caps / sizeof caps[0]; i++)
        if (caps[i] > 0 && bps > caps[i])
            bps = caps[i];
    if (cell->path.wander_ns > 0)
        bps *= 0.75;
    return cell->path.loss_before ? bps : bps * (1 - cell->path.loss);
}

/* Who meets whom in which phase is chance, and what becomes of it must not be: an event finds each
 * seed's flow at another point of its cycle, and flows follow each other at other distances. */
static uint64_t start_ns(const struct gate_cell *cell, unsigned flow, uint64_t seed)
{
    if (flow >= cell->petrels)
        return cell->rival_first ? 0 : NS_PER_S;
    if (cell->rivals > 0)
        return cell->rival_first ? NS_PER_S : 0;
    if (cell->petrels > 1)
        return 100 * NS_PER_MS + flow * (600 + seed * 37 % 110) * NS_PER_MS;
    return cell->event_s > 1 ? seed * 37 % 500 * NS_PER_MS : 0;
}

static struct world_config config_of(const struct gate_cell *cell, uint64_t seed, bool frozen,
                                     bool trace)
{
    struct world_config config = {.path = cell->path,
                                  .flow_count = cell->petrels + cell->rivals,
                                  .duration_ns = (uint64_t)(cell->duration_s * 1e9),
                                  .queue_from_ns = (uint64_t)(cell->from_s * 1e9),
                                  .calm_from_ns = (uint64_t)(cell->event_s * 1e9),
                                  .trace = trace};
    if (cell->rate_by_chance)
        config.path.steps[0].rate_bps = config.path.steps[0].rate_bps * (70 + seed * 37 % 61) / 100;
    double rate = (double)config.path.steps[0].rate_bps;
    if (config.path.queue_bytes == 0)
        config.path.queue_bytes =
            (uint64_t)(cell->queue_bdp * rate / 8 * (double)cell->path.rtt_ns / 1e9);
    for (unsigned i = 0; i < config.flow_count; i++) {
        struct flow_config *flow = &config.flows[i];
        *flow = cell->flow;
        flow->frozen = frozen;
        if (flow->unit_packets == 0)
            flow->unit_packets = rate > 40e9 ? 32 : rate > 4e9 ? 8 : rate > 4e8 ? 2 : 1;
        flow->start_ns = start_ns(cell, i, seed);
        if (i >= cell->petrels) {
            flow->kind = cell->bbr ? FLOW_BBR : FLOW_CUBIC;
            flow->source_bps = cell->rival_bps;
        }
    }
    return config;
}

static double jain_index(const double *values, unsigned count)
{
    double sum = 0, squares = 0;
    for (unsigned i = 0; i < count; i++) {
        sum += values[i];
        squares += values[i] * values[i];
    }
    return squares > 0 ? sum * sum / (double)count / squares : 0;
}

/* What the rival would have had without us, over the same path. */
static double rival_alone_bps(const struct gate_cell *cell, const struct world_config *config,
                              uint64_t seed)
{
    struct world_config lonely = *config;
    lonely.flows[0] = config->flows[cell->petrels];
    lonely.flow_count = 1;
    lonely.trace = false;
    world_run(&alone, &lonely, seed);
    double bps = world_goodput_bps(&alone, 0, lonely.queue_from_ns, lonely.duration_ns);
    world_release(&alone);
    return bps;
}

static double target_ms(const struct gate_cell *cell)
{
    double eighth = (double)cell->path.rtt_ns / 8e6;
    return eighth < 4 ? 4 : eighth > 25 ? 25 : eighth;
}

static void judge_event(const struct gate_cell *cell, const struct world_config *config,
                        double ceiling, struct outcome *outcome)
{
    uint64_t from = (uint64_t)(cell->event_s * 1e9);
    double now_bps = (double)path_rate_bps(&world.path, config->duration_ns);
    outcome->reach = world_reach_rtts(&world, 0, from, 0.9 * ceiling);
    outcome->settle = world_settle_rtts(&world, 0, from, 1.1 * now_bps);
    outcome->peak = world_peak_bps(&world, 0, from) / now_bps;
    outcome->early = world_early_bdps(&world, 0);
    outcome->calm = world_calm_rtts(&world, (uint64_t)(target_ms(cell) * 1e6));
}

struct outcome gate_run(const struct gate_cell *cell, uint64_t seed, bool frozen, bool trace)
{
    struct world_config config = config_of(cell, seed, frozen, trace);
    struct outcome outcome = {0};
    world_run(&world, &config, seed);
    uint64_t from = config.queue_from_ns, until = config.duration_ns;
    double sum = 0, each[PATH_FLOWS_MAX] = {0}, ceiling = ceiling_bps(cell, &config);
    for (unsigned i = 0; i < cell->petrels; i++) {
        each[i] = world_goodput_bps(&world, i, from, until);
        sum += each[i];
        outcome.condemned += world.flows[i].condemned;
        outcome.lost += world_lost_share(&world, i, from, until) / cell->petrels;
        outcome.overflow += world_overflow_share(&world, i, from, until) / cell->petrels;
    }
    outcome.share = sum / ceiling;
    outcome.queue_ms = world_queue_ms(&world);
    outcome.queue_targets = outcome.queue_ms / target_ms(cell);
    outcome.jain = jain_index(each, cell->petrels);
    judge_event(cell, &config, ceiling, &outcome);
    if (cell->rivals > 0) {
        double rival = world_goodput_bps(&world, cell->petrels, from, until);
        outcome.rival = rival / rival_alone_bps(cell, &config, seed);
    }
    world_release(&world);
    return outcome;
}
