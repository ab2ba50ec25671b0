/* Named scenarios of a whole session in virtual time: each a path, a mishap, how it may end, and
 * the share of what the path allows that it must reach. `sim_scenarios [name...]` runs some or all;
 * with --trace the events of one are printed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

static void build(const struct scenario *scenario, struct sim_case *c)
{
    /* The place in the table is no seed: adding one must not change the others. */
    uint64_t seed = 0;
    for (const char *at = scenario->name; *at != '\0'; at++) {
        seed = seed * 31 + (unsigned char)*at;
    }
    sim_case_init(c, seed, scenario->rate_bps, scenario->rtt_ns);
    if (scenario->blocks != 0) {
        c->blocks.count = scenario->blocks;
    }
    if (scenario->length != 0) {
        c->blocks.length_min = c->blocks.length_max = scenario->length;
    }
    if (scenario->shape != NULL) {
        scenario->shape(c);
    }
}

static bool run(const struct scenario *scenario, FILE *trace)
{
    static struct sim_case c;
    struct sim_outcome outcome;
    build(scenario, &c);
    c.world.trace = trace;
    sim_case_run(&c, &outcome);
    uint64_t loss = c.world.links[0].loss;
    uint64_t allowed_bps =
        sim_scale(scenario->rate_bps, (UINT64_C(1) << 32) - loss, UINT64_C(1) << 32);
    uint64_t share = outcome.goodput_bps * 100 / allowed_bps;
    if (outcome.good && scenario->check != NULL && scenario->check(&outcome) != NULL) {
        outcome.good = false;
        snprintf(outcome.text, sizeof(outcome.text), "%s", scenario->check(&outcome));
    }
    if (outcome.good && share < scenario->share) {
        outcome.good = false;
        snprintf(outcome.text, sizeof(outcome.text),
                 "goodput is %" PRIu64 " %% of what the path allows, at least %u %% expected",
                 share, scenario->share);
    }
    printf("%-26s %s %4" PRIu64 " %% %8.3f s %8" PRIu64 " events %016" PRIx64 "%s%s\n",
           scenario->name, outcome.good ? "ok  " : "FAIL", share,
           (double)outcome.took_ns / (double)NS_PER_S, outcome.events, outcome.hash,
           outcome.good ? "" : "  ", outcome.text);
    return outcome.good;
}

static bool wanted(const char *name, int count, char **names)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return count == 0;
}

int main(int argc, char **argv)
{
    bool trace = argc > 1 && strcmp(argv[1], "--trace") == 0;
    unsigned ran = 0, failed = 0;
    for (unsigned table = 0; table < 2; table++) {
        const struct scenario *scenario = table == 0 ? path_scenarios : session_scenarios;
        for (; scenario->name != NULL; scenario++) {
            if (wanted(scenario->name, argc - 1 - trace, argv + 1 + trace)) {
                ran++;
                failed += !run(scenario, trace ? stdout : NULL);
            }
        }
    }
    printf("%u scenarios, %u failed\n", ran, failed);
    return ran == 0 || failed > 0;
}
