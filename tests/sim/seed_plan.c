/* See seed_plan.h. */
#include "seed_plan.h"

#include <assert.h>

#include "base/units.h"

#define BLOCKS_MIN 50u

static const char *const names[IMPAIRMENT_COUNT] = {[WITH_LOSS] = "loss",
                                                    [WITH_ACK_LOSS] = "ack loss",
                                                    [WITH_BURSTS] = "burst loss",
                                                    [WITH_CORRELATED_LOSS] = "correlated loss",
                                                    [WITH_JITTER] = "jitter",
                                                    [WITH_REORDERING] = "reordering",
                                                    [WITH_DUPLICATES] = "duplicates",
                                                    [WITH_CORRUPTION] = "corruption",
                                                    [WITH_POLICER] = "policer",
                                                    [WITH_RATE_CHANGE] = "rate change",
                                                    [WITH_SHALLOW_QUEUE] = "shallow queue",
                                                    [WITH_DEEP_QUEUE] = "deep queue",
                                                    [WITH_SLOW_ACK_PATH] = "slow ack path",
                                                    [WITH_OUTAGE] = "outage",
                                                    [WITH_MTU] = "other MTU",
                                                    [WITH_BLACK_HOLE] = "MTU black hole",
                                                    [WITH_PORT_CHANGE] = "port change",
                                                    [WITH_ADDRESS_CHANGE] = "address change",
                                                    [WITH_ATTACKER] = "attacker",
                                                    [WITH_LANES] = "several lanes",
                                                    [WITH_LATE_LANES] = "late lanes",
                                                    [WITH_DEAD_LANE] = "dead lane",
                                                    [WITH_STREAM] = "stream lane",
                                                    [WITH_SLOW_DISK] = "slow disk",
                                                    [WITH_SLOW_SOURCE] = "slow source",
                                                    [WITH_LITTLE_CREDIT] = "little credit",
                                                    [WITH_CONTROL] = "control stream",
                                                    [WITH_LATE_WAKES] = "late wakes",
                                                    [WITH_PULL] = "pull",
                                                    [WITH_REAL_CIPHER] = "real cipher",
                                                    [WITH_EARLY_END] = "early end",
                                                    [WITH_FILES] = "files",
                                                    [WITH_FAULTY_FILES] = "faulty files",
                                                    [WITH_CHANNEL] = "stream beside"};

const char *impairment_name(enum impairment impairment)
{
    return names[impairment];
}

struct draw {
    struct sim_case *c;
    struct random random; /* of the impairment at hand: one more draw here moves nothing there */
    uint64_t seed, drawn;
    uint64_t rate_bps, rtt_ns, expected_ns;
};

static uint64_t between(struct draw *d, uint64_t low, uint64_t high)
{
    return low + random_below(&d->random, high - low + 1);
}

/* About log-uniform over [low, high]: an octave at random, then a place in it, by integers. */
static uint64_t log_between(struct draw *d, uint64_t low, uint64_t high)
{
    unsigned octaves = 0;
    assert(low > 0 && low <= high);
    while (low << (octaves + 1) <= high) {
        octaves++;
    }
    for (;;) {
        uint64_t base = low << random_below(&d->random, octaves + 1);
        uint64_t value = base + random_below(&d->random, base);
        if (value <= high) {
            return value;
        }
    }
}

static uint32_t share_between(struct draw *d, uint32_t low, uint32_t high)
{
    return (uint32_t)log_between(d, low, high);
}

/* True in `percent` of the seeds. */
static bool happens(struct draw *d, enum impairment impairment, unsigned percent)
{
    random_seed(&d->random, sim_seed(d->seed, 1000 + impairment));
    bool yes = random_below(&d->random, 100) < percent;
    d->drawn |= (uint64_t)yes << impairment;
    return yes;
}

/* A moment in the expected run. */
static uint64_t moment(struct draw *d)
{
    return d->rtt_ns + random_below(&d->random, d->expected_ns + d->rtt_ns);
}

/* ---- the path ---- */

static void draw_loss(struct draw *d)
{
    struct sim_link_config *links = d->c->world.links;
    if (happens(d, WITH_LOSS, 40)) {
        links[0].loss = share_between(d, SIM_SHARE(0.1), SIM_SHARE(30));
    }
    if (happens(d, WITH_ACK_LOSS, 40)) {
        links[1].loss = share_between(d, SIM_SHARE(0.1), SIM_SHARE(30));
    }
    if (happens(d, WITH_BURSTS, 15)) {
        struct sim_link_config *link = &links[random_below(&d->random, 2)];
        link->burst_enter = share_between(d, SIM_SHARE(0.1), SIM_SHARE(1));
        link->burst_leave = share_between(d, SIM_SHARE(2), SIM_SHARE(40));
        link->burst_loss = (uint32_t)between(d, SIM_SHARE(50), SIM_SHARE(99.9));
    }
    if (happens(d, WITH_CORRELATED_LOSS, 15)) {
        links[0].loss += share_between(d, SIM_SHARE(0.1), SIM_SHARE(5));
        links[0].loss_repeat = (uint32_t)between(d, SIM_SHARE(5), SIM_SHARE(50));
    }
}

static void draw_order(struct draw *d)
{
    struct sim_link_config *links = d->c->world.links;
    if (happens(d, WITH_JITTER, 25)) {
        links[0].jitter_ns = between(d, 0, d->rtt_ns / 4);
        links[1].jitter_ns = between(d, 0, d->rtt_ns / 4);
    }
    if (happens(d, WITH_REORDERING, 20)) {
        for (unsigned i = 0; i < 2; i++) {
            links[i].reorder = share_between(d, SIM_SHARE(0.1), SIM_SHARE(20));
            links[i].reorder_ns = between(d, 1, d->rtt_ns / 2 + 1000);
        }
    }
    if (happens(d, WITH_DUPLICATES, 20)) {
        links[0].duplicate = share_between(d, SIM_SHARE(0.1), SIM_SHARE(30));
        links[1].duplicate = share_between(d, SIM_SHARE(0.1), SIM_SHARE(30));
    }
    if (happens(d, WITH_CORRUPTION, 20)) {
        links[0].corrupt = share_between(d, SIM_SHARE(0.1), SIM_SHARE(5));
        links[1].corrupt = share_between(d, SIM_SHARE(0.1), SIM_SHARE(5));
    }
}

static void draw_capacity(struct draw *d)
{
    struct sim_link_config *links = d->c->world.links;
    if (happens(d, WITH_POLICER, 15)) {
        links[0].policer_bps = between(d, d->rate_bps / 4, d->rate_bps);
        links[0].policer_burst_bytes = log_between(d, 30000, 1000000);
    }
    if (happens(d, WITH_RATE_CHANGE, 15)) {
        uint64_t rate_bps = log_between(d, d->rate_bps / 4, d->rate_bps * 4);
        sim_link_change(&links[0], moment(d), SIM_CHANGE_RATE, rate_bps);
    }
    if (happens(d, WITH_SHALLOW_QUEUE, 15)) {
        uint64_t bytes = links[0].queue_bytes / 10;
        links[0].queue_bytes = bytes < 20000 ? 20000 : bytes;
    } else if (happens(d, WITH_DEEP_QUEUE, 20)) {
        links[0].queue_bytes *= 8;
    }
    if (happens(d, WITH_SLOW_ACK_PATH, 15)) {
        uint64_t rate_bps = d->rate_bps / between(d, 10, 50);
        links[1].rate_bps = rate_bps < 500000 ? 500000 : rate_bps;
        links[1].queue_bytes = 60000;
    }
}

/* One packet size on the whole path, and what each interface says of itself. */
static void draw_mtu(struct draw *d)
{
    static const uint16_t sizes[] = {1280, 1300, 1400, 1420, 1460, 1492, 1500, 4000, 9000};
    uint32_t size = 1500;
    if (happens(d, WITH_MTU, 30)) {
        size = sizes[random_below(&d->random, 9)];
    }
    for (unsigned i = 0; i < 2; i++) {
        d->c->world.links[i].mtu = size;
        d->c->world.hosts[i].interface_mtu = size > 1500 ? 9000 : 1500;
    }
    if (happens(d, WITH_BLACK_HOLE, 15)) {
        uint64_t at_ns = moment(d); /* compilers differ in which argument they draw first */
        sim_link_change(&d->c->world.links[0], at_ns, SIM_CHANGE_MTU, between(d, 1228, 1400));
    }
}

/* ---- mishaps ---- */

static void draw_addresses(struct draw *d)
{
    unsigned client = d->c->world.hosts[SENDER].client ? SENDER : RECEIVER;
    if (happens(d, WITH_PORT_CHANGE, 15)) {
        sim_case_act(d->c, moment(d), SIM_REBIND_PORT, client, 0);
    }
    if (happens(d, WITH_ADDRESS_CHANGE, 15)) {
        sim_case_act(d->c, moment(d), SIM_CHANGE_ADDRESS, client, 0);
    }
    if (happens(d, WITH_ATTACKER, 15)) {
        d->c->world.attacker.share = share_between(d, SIM_SHARE(1), SIM_SHARE(50));
        d->c->world.attacker.flood = (unsigned)random_below(&d->random, 4);
        d->c->world.attacker.spoof = random_below(&d->random, 2) == 0;
    }
    if (happens(d, WITH_OUTAGE, 15)) {
        uint64_t at_ns = moment(d);
        sim_case_outage(d->c, at_ns, log_between(d, 50 * NS_PER_MS, 20 * NS_PER_S));
    }
}

static void draw_lanes(struct draw *d)
{
    struct sim_world_config *world = &d->c->world;
    unsigned client = world->hosts[SENDER].client ? SENDER : RECEIVER;
    if (happens(d, WITH_STREAM, 15)) {
        world->hosts[0].stream = world->hosts[1].stream = true;
        return; /* the rest needs datagrams */
    }
    if (happens(d, WITH_CHANNEL, 35)) {
        world->hosts[0].channel = world->hosts[1].channel = true;
        /* From there on nothing arrives by datagrams, or not before then. */
        if (random_below(&d->random, 3) == 0) {
            bool first = random_below(&d->random, 2) == 0;
            uint64_t at_ns = moment(d);
            for (unsigned link = 0; link < 2; link++) {
                if (first) {
                    sim_link_change(&world->links[link], 0, SIM_CHANGE_UP, 0);
                }
                sim_link_change(&world->links[link], at_ns, SIM_CHANGE_UP, first);
            }
        }
    }
    if (happens(d, WITH_LANES, 50)) {
        world->hosts[0].lanes = world->hosts[1].lanes = (unsigned)log_between(d, 2, LANES_MAX);
    }
    if (happens(d, WITH_LATE_LANES, 15)) {
        unsigned count = (unsigned)between(d, 1, 4);
        for (unsigned i = 0; i < count; i++) {
            sim_case_act(d->c, moment(d), SIM_OPEN_LANE, client, 0);
        }
    }
    if (happens(d, WITH_DEAD_LANE, 40) && world->hosts[0].lanes > 1) {
        unsigned lane = (unsigned)random_below(&d->random, world->hosts[0].lanes);
        sim_case_act(d->c, moment(d), SIM_CUT_LANE, client, lane);
        if (lane == 0) { /* the handshake goes there: it may not have been over */
            uint32_t without = ENDS_WITH(ERROR_UNREACHABLE) | ENDS_WITH(ERROR_PEER_LOST);
            d->c->allowed[SENDER] |= without;
            d->c->allowed[RECEIVER] |= without;
            d->c->world.stall_ns = 0;
        }
    } else {
        d->drawn &= ~(UINT64_C(1) << WITH_DEAD_LANE);
    }
}

static void draw_hosts(struct draw *d)
{
    struct sim_blocks_config *blocks = &d->c->blocks;
    if (happens(d, WITH_SLOW_DISK, 15)) {
        blocks->disk_bps = log_between(d, d->rate_bps / 16 + 1, d->rate_bps + 1);
    }
    if (happens(d, WITH_SLOW_SOURCE, 15)) {
        blocks->source_bps = log_between(d, d->rate_bps / 16 + 1, d->rate_bps + 1);
    }
    if (happens(d, WITH_LITTLE_CREDIT, 15)) {
        blocks->buffers = (uint32_t)between(d, 1, 6);
    }
    if (happens(d, WITH_CONTROL, 15)) {
        blocks->control_bytes = log_between(d, 1000, 300000);
    }
    if (happens(d, WITH_LATE_WAKES, 20)) {
        for (unsigned i = 0; i < 2; i++) {
            d->c->world.hosts[i].wake_delay_ns = log_between(d, 1000, 5 * NS_PER_MS);
        }
    }
    d->c->world.real_aead = happens(d, WITH_REAL_CIPHER, 15);
}

static void draw_early_end(struct draw *d)
{
    struct sim_case *c = d->c;
    if (!happens(d, WITH_EARLY_END, 15)) {
        return;
    }
    unsigned host = (unsigned)random_below(&d->random, 2), other = 1 - host;
    uint32_t any = ENDS_WELL | ENDS_WITH(ERROR_PEER_LOST) | ENDS_WITH(ERROR_UNREACHABLE);
    if (random_below(&d->random, 2) == 0) {
        sim_case_act(c, moment(d), SIM_VANISH, host, 0);
        c->allowed[other] |= any;
    } else {
        sim_case_act(c, moment(d), SIM_ABORT, host, 0);
        c->allowed[host] |= ENDS_WITH(ERROR_INTERRUPTED);
        c->allowed[other] |= any | ENDS_WITH(ERROR_INTERRUPTED); /* the reason travels */
    }
    c->world.stall_ns = 0; /* silence is right then */
    c->world.limit_ns += 100 * NS_PER_S;
}

/* The length of blocks: what the path carries in about two seconds, or enough to fill it a few
 * times, but never more than a seed may cost. */
static void draw_work(struct draw *d)
{
    struct sim_blocks_config *blocks = &d->c->blocks;
    random_seed(&d->random, sim_seed(d->seed, 999));
    uint64_t budget = sim_scale(d->rate_bps, 2 * NS_PER_S, 8 * NS_PER_S);
    uint64_t most = random_below(&d->random, 10) == 0 ? 8000000 : 2000000;
    budget = budget > most ? most : budget;
    blocks->count = (uint32_t)log_between(d, BLOCKS_MIN, 400);
    uint64_t mean = budget / blocks->count;
    blocks->length_min = 1;
    blocks->length_max = (uint32_t)(2 * mean < 3000 ? 3000 : 2 * mean);
    blocks->buffers = (uint32_t)between(d, 16, 96);
    d->expected_ns = sim_scale(budget, 8 * NS_PER_S, d->rate_bps) + 4 * d->rtt_ns;
}

#define LARGE_FILE_MIN (520u * 1024u) /* what is larger than 512 KiB travels as content blocks */

#define WHOLE_BLOCK_BPS 2000000u /* a block of 1 MiB takes four seconds */

static uint64_t at_least_if_any(uint64_t value, uint64_t least)
{
    return value != 0 && value < least ? least : value;
}

/* Many small files in short packed blocks, and now and then a large one, of which some exist, fail
 * or are withdrawn. */
static void draw_files(struct draw *d)
{
    struct sim_case *c = d->c;
    if (!happens(d, WITH_FILES, 35)) {
        return;
    }
    c->with_files = true;
    c->size_count = c->blocks.count;
    for (uint32_t i = 0; i < c->size_count; i++) {
        c->sizes[i] = random_below(&d->random, c->blocks.length_max + 1);
    }
    uint32_t large = (uint32_t)random_below(&d->random, c->size_count);
    if (random_below(&d->random, 2) == 0) {
        c->sizes[large] = between(d, LARGE_FILE_MIN, 5 * LARGE_FILE_MIN);
    }
    uint64_t least = 4 * (uint64_t)c->blocks.length_max;
    c->files.source.pack_capacity =
        least < BLOCK_SIZE ? (uint32_t)log_between(d, least, BLOCK_SIZE) : BLOCK_SIZE;
    c->files.source.tell_entry_block = random_below(&d->random, 2) == 0;
    c->files.source_bps = at_least_if_any(c->blocks.source_bps, WHOLE_BLOCK_BPS);
    c->files.disk_bps = at_least_if_any(c->blocks.disk_bps, WHOLE_BLOCK_BPS);
    c->files.sink.exists_each = (uint32_t)random_below(&d->random, 4);
    c->files.pool_blocks = between(d, 16, 96);
    if (happens(d, WITH_FAULTY_FILES, 40)) {
        switch (random_below(&d->random, 3)) {
        case 0:
            c->files.source.withdrawn = large;
            c->sizes[large] = between(d, 2 * LARGE_FILE_MIN + 1, 5 * LARGE_FILE_MIN);
            break;
        case 1:
            c->files.source.missing = large;
            c->files.sink.exists_each = 0; /* what is missing must not be there already */
            break;
        default:
            c->files.sink.fails_file = large;
        }
    }
}

void seed_plan(struct sim_case *c, uint64_t seed, uint64_t *drawn)
{
    struct draw d = {.c = c, .seed = seed};
    random_seed(&d.random, sim_seed(seed, 998));
    d.rate_bps = log_between(&d, 1000000, UINT64_C(100000000000));
    d.rtt_ns = log_between(&d, 50000, 600 * NS_PER_MS);
    sim_case_init(c, seed, d.rate_bps, d.rtt_ns);
    draw_work(&d);
    for (unsigned i = 0; i < 2; i++) {
        c->world.hosts[i].open_timeout_ns = 100 * NS_PER_S;
    }
    /* Slowest: a sixteenth of the rate for disk or source, a quarter for rate and policer. */
    c->world.stall_ns = 40 * NS_PER_S + 20 * d.rtt_ns;
    c->world.limit_ns = 400 * NS_PER_S + 200 * d.expected_ns;
    if (happens(&d, WITH_PULL, 50)) {
        sim_case_pull(c);
    }
    draw_loss(&d);
    draw_order(&d);
    draw_capacity(&d);
    draw_mtu(&d);
    draw_addresses(&d);
    draw_lanes(&d);
    draw_hosts(&d);
    draw_early_end(&d);
    draw_files(&d);
    *drawn = d.drawn;
}
