/* Random sessions in virtual time: `sim_random --seeds A-B` runs each seed of the committed
 * distribution (seed_plan.h), checks every invariant, and prints the seeds that fail.
 *
 *   --known         also the seeds that have found a fault once
 *   --trace         prints the events of each run
 *   --hashes FILE   writes "seed hash" lines, to compare builds of different compilers
 *   --slowest       prints the five seeds that took the most events
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "seed_plan.h"

/* From this many seeds on, each impairment must have come up in a tenth of them. */
#define SEEDS_TO_COUNT 1000u
#define SLOWEST 5u

/* Each of these found a fault in the protocol's code, named in the commit that mended it. */
static const uint64_t known_seeds[] = {15,  27,  40,   67,   118,  180,  322,  335,  347,
                                       682, 839, 1196, 1915, 3014, 5263, 5337, 5539, 8411};

struct options {
    uint64_t first, last;
    bool trace, slowest, known;
    const char *hashes;
};

struct tally {
    uint64_t runs, failures, events;
    uint64_t impairments[IMPAIRMENT_COUNT];
    uint64_t ended[ERROR_KIND_COUNT];
    struct {
        uint64_t seed, events;
    } slowest[SLOWEST];
};

static bool parse_options(int argc, char **argv, struct options *options)
{
    *options = (struct options){.first = 1, .last = 100};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
            char *end;
            options->first = options->last = strtoull(argv[++i], &end, 10);
            if (*end == '-') {
                options->last = strtoull(end + 1, &end, 10);
            }
            if (*end != '\0' || options->last < options->first) {
                return false;
            }
        } else if (strcmp(argv[i], "--hashes") == 0 && i + 1 < argc) {
            options->hashes = argv[++i];
        } else if (strcmp(argv[i], "--known") == 0) {
            options->known = true;
        } else if (strcmp(argv[i], "--trace") == 0) {
            options->trace = true;
        } else if (strcmp(argv[i], "--slowest") == 0) {
            options->slowest = true;
        } else {
            return false;
        }
    }
    return true;
}

static void note_slowest(struct tally *tally, uint64_t seed, uint64_t events)
{
    unsigned at = SLOWEST;
    while (at > 0 && events > tally->slowest[at - 1].events) {
        at--;
    }
    for (unsigned i = SLOWEST - 1; i > at; i--) {
        tally->slowest[i] = tally->slowest[i - 1];
    }
    if (at < SLOWEST) {
        tally->slowest[at].seed = seed;
        tally->slowest[at].events = events;
    }
}

static void describe(const struct sim_case *c, uint64_t drawn)
{
    printf("  %" PRIu64 " kbit/s, RTT %" PRIu64 " us, %" PRIu32 " blocks up to %" PRIu32 " bytes;",
           c->world.links[0].rate_bps / 1000, 2 * c->world.links[0].delay_ns / 1000,
           c->blocks.count, c->blocks.length_max);
    for (unsigned i = 0; i < IMPAIRMENT_COUNT; i++) {
        if ((drawn >> i & 1) != 0) {
            printf(" [%s]", impairment_name(i));
        }
    }
    printf("\n");
}

static void run_seed(uint64_t seed, const struct options *options, struct tally *tally,
                     FILE *hashes)
{
    static struct sim_case c;
    struct sim_outcome outcome;
    uint64_t drawn;
    seed_plan(&c, seed, &drawn);
    c.world.trace = options->trace ? stdout : NULL;
    sim_case_run(&c, &outcome);
    tally->runs++;
    tally->events += outcome.events;
    note_slowest(tally, seed, outcome.events);
    for (unsigned i = 0; i < IMPAIRMENT_COUNT; i++) {
        tally->impairments[i] += drawn >> i & 1;
    }
    tally->ended[outcome.ended[SENDER]]++;
    if (hashes != NULL) {
        fprintf(hashes, "%" PRIu64 " %016" PRIx64 "\n", seed, outcome.hash);
    }
    if (!outcome.good) {
        tally->failures++;
        printf("seed %" PRIu64 " FAILED: %s\n", seed, outcome.text);
        describe(&c, drawn);
        printf("  again: sim_random --seeds %" PRIu64 " --trace\n", seed);
        fflush(stdout);
    }
}

/* The distribution keeps its word. */
static bool check_shares(const struct tally *tally)
{
    bool good = true;
    if (tally->runs < SEEDS_TO_COUNT) {
        return true;
    }
    for (unsigned i = 0; i < IMPAIRMENT_COUNT; i++) {
        if (tally->impairments[i] * 10 < tally->runs) {
            printf("only %" PRIu64 " of %" PRIu64 " seeds have: %s\n", tally->impairments[i],
                   tally->runs, impairment_name(i));
            good = false;
        }
    }
    return good;
}

static void report(const struct tally *tally, const struct options *options)
{
    printf("%" PRIu64 " seeds, %" PRIu64 " failed, %" PRIu64 " events; senders ended:", tally->runs,
           tally->failures, tally->events);
    for (unsigned kind = 0; kind < ERROR_KIND_COUNT; kind++) {
        if (tally->ended[kind] > 0) {
            printf(" %s %" PRIu64, error_kind_name(kind), tally->ended[kind]);
        }
    }
    printf("\n");
    for (unsigned i = 0; options->slowest && i < SLOWEST; i++) {
        printf("seed %" PRIu64 ": %" PRIu64 " events\n", tally->slowest[i].seed,
               tally->slowest[i].events);
    }
}

int main(int argc, char **argv)
{
    struct options options;
    static struct tally tally;
    if (!parse_options(argc, argv, &options)) {
        fprintf(
            stderr,
            "usage: sim_random [--seeds A-B] [--known] [--trace] [--hashes FILE] [--slowest]\n");
        return 2;
    }
    FILE *hashes = NULL;
    if (options.hashes != NULL && (hashes = fopen(options.hashes, "w")) == NULL) {
        perror(options.hashes);
        return 2;
    }
    for (uint64_t seed = options.first; seed <= options.last; seed++) {
        run_seed(seed, &options, &tally, hashes);
    }
    for (size_t i = 0; options.known && i < sizeof(known_seeds) / sizeof(known_seeds[0]); i++) {
        if (known_seeds[i] < options.first || known_seeds[i] > options.last) {
            run_seed(known_seeds[i], &options, &tally, hashes);
        }
    }
    if (hashes != NULL && fclose(hashes) != 0) {
        perror(options.hashes);
        return 2;
    }
    report(&tally, &options);
    return !check_shares(&tally) || tally.failures > 0;
}
