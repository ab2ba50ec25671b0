/* Random transfers of files in virtual time: `sim_random_files --seeds A-B [--trace]` draws the
 * path and its mishaps from the same distribution as sim_random (seed_plan.h), and what is copied
 * from the seed as well: files of all sizes, some of them there already, failing or withdrawn, on
 * slow disks, in small pools. Prints the seeds that fail. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/units.h"
#include "lab/sim_files.h"
#include "seed_plan.h"

#define FILES_MAX 400u
#define KIB UINT64_C(1024)

struct plan {
    struct sim_case path;
    struct sim_files_config files;
    uint64_t sizes[FILES_MAX];
    uint32_t count;
    bool file_fails; /* one file fails and the rest goes on */
};

/* As many bytes as the path was drawn for, in files of all sizes. */
static void draw_sizes(struct plan *plan, struct random *random)
{
    uint64_t left = sim_blocks_total(&plan->path.blocks);
    while (plan->count < FILES_MAX && left > 0) {
        uint64_t limit = KIB << (2 * random_below(random, 7)); /* 1 KiB to 4 MiB */
        uint64_t size = random_below(random, limit + 1);
        size = size < left ? size : left;
        plan->sizes[plan->count++] = size;
        left -= size;
    }
}

static uint32_t draw_file(const struct plan *plan, struct random *random, uint32_t chance_in)
{
    uint32_t file = (uint32_t)random_below(random, plan->count * chance_in + 1);
    return file < plan->count ? file : SIM_NO_FILE;
}

static void draw_failures(struct plan *plan, struct random *random)
{
    struct sim_source_config *source = &plan->files.source;
    struct sim_sink_config *sink = &plan->files.sink;
    source->withdrawn = source->missing = source->fails_at = sink->fails_file = SIM_NO_FILE;
    if (random_below(random, 3) == 0) {
        sink->exists_each = 1 + (uint32_t)random_below(random, 4);
        return; /* what is there already cannot fail */
    }
    uint32_t withdrawn = draw_file(plan, random, 3);
    if (withdrawn != SIM_NO_FILE && plan->sizes[withdrawn] > 512 * KIB)
        source->withdrawn = withdrawn;
    source->missing = draw_file(plan, random, 5);
    sink->fails_file = draw_file(plan, random, 5);
    if (sink->fails_file == source->missing || sink->fails_file == source->withdrawn)
        sink->fails_file = SIM_NO_FILE;
    if (source->missing == source->withdrawn)
        source->missing = SIM_NO_FILE;
    plan->file_fails = source->withdrawn != SIM_NO_FILE || source->missing != SIM_NO_FILE ||
                       sink->fails_file != SIM_NO_FILE;
}

static void draw(struct plan *plan, uint64_t seed)
{
    uint64_t drawn;
    struct random random;
    *plan = (struct plan){0};
    seed_plan(&plan->path, seed, &drawn);
    random_seed(&random, sim_seed(seed, 77));
    draw_sizes(plan, &random);
    struct sim_files files = {.seed = seed, .sizes = plan->sizes, .count = plan->count};
    plan->files.pull = plan->path.world.hosts[RECEIVER].client;
    plan->files.source.files = plan->files.sink.files = files;
    draw_failures(plan, &random);
    plan->files.source.tell_entry_block = random_below(&random, 2) == 0;
    plan->files.source.large_ahead = 1 + (uint32_t)random_below(&random, 20);
    plan->files.source.pack_capacity =
        (uint32_t)(600 * KIB + random_below(&random, BLOCK_SIZE - 600 * KIB + 1));
    plan->files.source_bps = plan->path.blocks.source_bps;
    plan->files.disk_bps = plan->path.blocks.disk_bps;
    plan->files.pool_blocks = random_below(&random, 2) == 0 ? 0 : 6 + random_below(&random, 60);
}

/* Why the run was not as it should be, or NULL. */
static const char *judge(const struct plan *plan, const struct sim_world *world)
{
    static char text[700];
    const struct sim_upper *sender = &world->hosts[SENDER].upper;
    const struct sim_upper *receiver = &world->hosts[RECEIVER].upper;
    bool verified = receiver->succeeded(receiver->context);
    /* DONE is repeated for 3 s only: an outage at that moment leaves a sender that waits in vain.
     */
    enum error_kind ended = sim_host_error(&world->hosts[SENDER])->kind;
    bool unheard = ended == ERROR_PEER_LOST || !world->hosts[SENDER].ended;
    if (verified && receiver->failure(receiver->context) == NULL && unheard)
        return NULL;
    if (world->failure[0] != 0)
        return world->failure;
    uint64_t failed[2] = {0};
    for (unsigned i = 0; i < 2; i++) {
        const struct sim_host *host = &world->hosts[i];
        const struct error *error = sim_host_error(host);
        if (!host->gone && (plan->path.allowed[i] >> error->kind & 1) == 0) {
            snprintf(text, sizeof text, "host %u ended with %s: %s", i,
                     error_kind_name(error->kind), error->text);
            return text;
        }
        struct transfer_progress progress;
        sim_files_progress(&host->upper, &progress);
        failed[i] = progress.files_failed;
    }
    if (!sender->succeeded(sender->context))
        return NULL;
    struct sim_sink_result result;
    sim_files_result(receiver, &result);
    if (!verified || !result.finished)
        return "the sender believes in a success that the receiver never said";
    if (failed[SENDER] != failed[RECEIVER] || (failed[SENDER] > 0) != plan->file_fails)
        return "the ends do not agree on the files that failed";
    if (result.done + result.skipped + failed[RECEIVER] != plan->count)
        return "files are missing from the counts";
    return NULL;
}

static bool run_seed(uint64_t seed, FILE *trace)
{
    static struct plan plan;
    draw(&plan, seed);
    plan.path.world.trace = trace;
    struct sim_upper uppers[2] = {sim_files_new(&plan.files, ROLE_SENDER),
                                  sim_files_new(&plan.files, ROLE_RECEIVER)};
    struct sim_world *world = sim_world_new(&plan.path.world, uppers);
    if (world == NULL)
        abort();
    sim_world_run(world);
    const char *why = judge(&plan, world);
    if (why != NULL)
        printf("seed %" PRIu64 " FAILED: %s\n", seed, why);
    fflush(stdout);
    sim_world_free(world);
    return why == NULL;
}

int main(int argc, char **argv)
{
    uint64_t first = 1, last = 20, failures = 0;
    if (argc >= 3 && strcmp(argv[1], "--seeds") == 0) {
        char *end;
        first = last = strtoull(argv[2], &end, 10);
        if (*end == '-')
            last = strtoull(end + 1, &end, 10);
        if (*end != 0)
            return 2;
    }
    FILE *trace = argc == 4 && strcmp(argv[3], "--trace") == 0 ? stdout : NULL;
    for (uint64_t seed = first; seed <= last; seed++)
        failures += run_seed(seed, trace) ? 0 : 1;
    printf("%" PRIu64 " transfers, %" PRIu64 " failed\n", last - first + 1, failures);
    return failures > 0;
}
