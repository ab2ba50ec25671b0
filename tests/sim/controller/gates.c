/* Judges the rate controller: runs the cells of gate_cells.c over several seeds and prints a table.
 *
 *   controller_gates [--full] [--quick] [--frozen] [--seeds N] [--first-seed N] [--trace] [NAME...]
 *
 * NAME is a part of a cell's name. --full takes 20 seeds, --quick the short list and one seed.
 * --frozen keeps the rate after the first decision: the negative control, which must fail.
 * Exit status 0 when every cell passed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate_cells.h"

#define SEEDS_MAX 100u

struct options {
    unsigned seeds, first_seed;
    bool quick, frozen, trace;
    char **names;
    int name_count;
};

/* One run of a cell. */
struct outcome {
    double share, lost, overflow, queue_ms, reach, settle, jain, rival;
};

static struct world world, alone; /* large: not on the stack */

/* ---- One run ---- */

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

static struct world_config config_of(const struct gate_cell *cell, const struct options *options)
{
    struct world_config config = {.path = cell->path,
                                  .flow_count = cell->petrels + cell->cubics,
                                  .duration_ns = (uint64_t)(cell->duration_s * 1e9),
                                  .queue_from_ns = (uint64_t)(cell->from_s * 1e9),
                                  .trace = options->trace};
    double rate = (double)cell->path.steps[0].rate_bps;
    if (config.path.queue_bytes == 0)
        config.path.queue_bytes =
            (uint64_t)(cell->queue_bdp * rate / 8 * (double)cell->path.rtt_ns / 1e9);
    for (unsigned i = 0; i < config.flow_count; i++) {
        config.flows[i] = cell->flow;
        config.flows[i].frozen = options->frozen;
        if (config.flows[i].unit_packets == 0)
            config.flows[i].unit_packets = rate > 40e9 ? 32 : rate > 4e9 ? 8 : rate > 4e8 ? 2 : 1;
        bool petrel = i < cell->petrels;
        if (!petrel)
            config.flows[i].source_bps = cell->cubic_bps;
        config.flows[i].kind = petrel ? FLOW_PETREL : FLOW_CUBIC;
        if (cell->petrels > 1 || (cell->cubics > 0 && petrel == cell->cubic_first))
            config.flows[i].start_ns =
                petrel ? i * 700 * NS_PER_MS + 100 * NS_PER_MS : 1000 * NS_PER_MS;
    }
    if (cell->cubics > 0 && cell->cubic_first)
        config.flows[0].start_ns = 1000 * NS_PER_MS;
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

static struct outcome run_cell(const struct gate_cell *cell, const struct options *options,
                               uint64_t seed)
{
    struct world_config config = config_of(cell, options);
    struct outcome outcome = {0};
    world_run(&world, &config, seed);
    uint64_t from = config.queue_from_ns, until = config.duration_ns;
    double sum = 0, each[PATH_FLOWS_MAX] = {0}, ceiling = ceiling_bps(cell, &config);
    for (unsigned i = 0; i < cell->petrels; i++) {
        each[i] = world_goodput_bps(&world, i, from, until);
        sum += each[i];
        outcome.lost += world_lost_share(&world, i, from, until) / cell->petrels;
        outcome.overflow += world_overflow_share(&world, i, from, until) / cell->petrels;
    }
    outcome.share = sum / ceiling;
    outcome.queue_ms = world_queue_ms(&world);
    outcome.jain = jain_index(each, cell->petrels);
    uint64_t reach_from = (uint64_t)(cell->reach_from_s * 1e9);
    outcome.reach = world_reach_rtts(&world, 0, reach_from, 0.9 * ceiling);
    outcome.settle = world_settle_rtts(
        &world, 0, reach_from, 1.1 * (double)path_rate_bps(&world.path, config.duration_ns));
    if (cell->cubics > 0) {
        double rival = world_goodput_bps(&world, cell->petrels, from, until);
        outcome.rival = rival / rival_alone_bps(cell, &config, seed);
    }
    world_release(&world);
    return outcome;
}

/* ---- Judging ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* `rank` 0.5 is the median; times that were never reached (-1) sort last. */
static double ranked(const struct outcome *outcomes, unsigned count, size_t offset, double rank)
{
    double values[SEEDS_MAX];
    for (unsigned i = 0; i < count; i++) {
        memcpy(&values[i], (const char *)&outcomes[i] + offset, sizeof values[i]);
        if (values[i] < 0)
            values[i] = 9999;
    }
    qsort(values, count, sizeof values[0], ascending);
    return values[(unsigned)(rank * (double)(count - 1) + 0.5)];
}

#define RANKED(field, rank) ranked(outcomes, count, offsetof(struct outcome, field), rank)

static bool print_upper(const char *name, double value, double most, double scale, const char *unit)
{
    if (most == 0)
        return true;
    bool good = value <= most;
    printf("  %s %.4g%s (<= %.4g)%s", name, value * scale, unit, most * scale, good ? "" : " <<<");
    return good;
}

static bool print_lower(const char *name, double value, double least)
{
    if (least == 0)
        return true;
    bool good = value >= least;
    printf("  %s %.3f (>= %.3g)%s", name, value, least, good ? "" : " <<<");
    return good;
}

static bool judge(const struct gate_cell *cell, const struct outcome *outcomes, unsigned count)
{
    double worst = cell->share_worst > 0 ? cell->share_worst : cell->share - 0.03;
    double share = RANKED(share, 0.5), low = RANKED(share, 0.05);
    bool good = share >= cell->share && low >= worst;
    printf("%-27s share %5.1f %% worst %5.1f %% (%g, %g)%s  lost %5.2f %%  queue %6.2f ms",
           cell->name, share * 100, low * 100, cell->share * 100, worst * 100, good ? "" : " <<<",
           RANKED(lost, 0.5) * 100, RANKED(queue_ms, 0.5));
    good &= print_upper("lost", RANKED(lost, 0.5), cell->lost_most, 100, " %");
    good &= print_upper("overflow", RANKED(overflow, 0.5), cell->overflow_most, 100, " %");
    good &= print_upper("queue", RANKED(queue_ms, 0.5), cell->queue_ms_most, 1, " ms");
    good &= print_upper("reach", RANKED(reach, 0.5), cell->reach_rtts, 1, " RTT");
    good &= print_upper("settle", RANKED(settle, 0.5), cell->settle_rtts, 1, " RTT");
    good &= print_lower("jain", RANKED(jain, 0.5), cell->jain);
    good &= print_lower("rival", RANKED(rival, 0.5), cell->rival_share);
    printf("  %s\n", good ? "ok" : "FAIL");
    fflush(stdout);
    return good;
}

static bool chosen(const struct gate_cell *cell, const struct options *options)
{
    if (options->quick && !cell->quick)
        return false;
    for (int i = 0; i < options->name_count; i++)
        if (strstr(cell->name, options->names[i]) != NULL)
            return true;
    return options->name_count == 0;
}

static bool parse_options(struct options *options, int argc, char **argv)
{
    *options = (struct options){.seeds = 5, .first_seed = 1};
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--full") == 0)
            options->seeds = 20;
        else if (strcmp(argv[i], "--quick") == 0)
            options->quick = true, options->seeds = 1;
        else if (strcmp(argv[i], "--frozen") == 0)
            options->frozen = true;
        else if (strcmp(argv[i], "--trace") == 0)
            options->trace = true, options->seeds = 1;
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            options->seeds = (unsigned)atoi(argv[++i]);
        else if (strcmp(argv[i], "--first-seed") == 0 && i + 1 < argc)
            options->first_seed = (unsigned)atoi(argv[++i]);
        else
            return false;
    }
    options->names = argv + i;
    options->name_count = argc - i;
    return options->seeds >= 1 && options->seeds <= SEEDS_MAX;
}

int main(int argc, char **argv)
{
    struct options options;
    if (!parse_options(&options, argc, argv)) {
        fprintf(
            stderr,
            "usage: controller_gates [--full] [--quick] [--frozen] [--seeds N] [--first-seed N] "
            "[--trace] [NAME...]\n");
        return 2;
    }
    unsigned passed = 0, run = 0;
    for (unsigned i = 0; i < gate_cell_count; i++) {
        if (!chosen(&gate_cells[i], &options))
            continue;
        struct outcome outcomes[SEEDS_MAX];
        for (unsigned seed = 0; seed < options.seeds; seed++)
            outcomes[seed] = run_cell(&gate_cells[i], &options, options.first_seed + seed);
        run++;
        passed += judge(&gate_cells[i], outcomes, options.seeds);
    }
    printf("%u of %u cells pass (%u seeds)\n", passed, run, options.seeds);
    return passed == run && run > 0 ? 0 : 1;
}
