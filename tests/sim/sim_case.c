/* See sim_case.h. */
#include "sim_case.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"

void sim_case_init(struct sim_case *c, uint64_t seed, uint64_t rate_bps, uint64_t rtt_ns)
{
    uint64_t queue_bytes = sim_scale(rate_bps, rtt_ns, 8 * NS_PER_S);
    struct sim_link_config link = {.rate_bps = rate_bps,
                                   .queue_bytes = queue_bytes < 60000 ? 60000 : queue_bytes,
                                   .delay_ns = rtt_ns / 2};
    struct sim_host_config host = {.lanes = 1, .stream_bps = rate_bps};
    *c = (struct sim_case){.world = {.seed = seed,
                                     .host_count = 2,
                                     .hosts = {host, host},
                                     .links = {link, link},
                                     .limit_ns = 200 * NS_PER_S,
                                     .stall_ns = 10 * NS_PER_S + 10 * rtt_ns},
                           .blocks = {.seed = seed,
                                      .count = 64,
                                      .length_min = 200000,
                                      .length_max = 300000,
                                      .buffers = 96},
                           .files = {.source = {.withdrawn = SIM_NO_FILE,
                                                .missing = SIM_NO_FILE,
                                                .fails_at = SIM_NO_FILE,
                                                .tell_entry_block = true},
                                     .sink = {.fails_file = SIM_NO_FILE}},
                           .allowed = {ENDS_WELL, ENDS_WELL}};
    c->world.hosts[SENDER].role = ROLE_SENDER;
    c->world.hosts[SENDER].client = true;
    c->world.hosts[SENDER].peer = RECEIVER;
    c->world.hosts[SENDER].link = 0;
    c->world.hosts[SENDER].clock_offset_ns = 1000 * NS_PER_S + 1;
    c->world.hosts[RECEIVER].role = ROLE_RECEIVER;
    c->world.hosts[RECEIVER].peer = SENDER;
    c->world.hosts[RECEIVER].link = 1;
    c->world.hosts[RECEIVER].clock_offset_ns = 77 * NS_PER_S + 123456789;
}

void sim_case_pull(struct sim_case *c)
{
    c->world.hosts[SENDER].client = false;
    c->world.hosts[RECEIVER].client = true;
}

void sim_case_act(struct sim_case *c, uint64_t at_ns, enum sim_action_kind kind, unsigned host,
                  unsigned lane)
{
    c->world.actions[c->world.action_count++] =
        (struct sim_action){.at_ns = at_ns, .kind = kind, .host = host, .lane = lane};
}

void sim_link_change(struct sim_link_config *link, uint64_t at_ns, enum sim_change_kind kind,
                     uint64_t value)
{
    unsigned at = link->change_count++;
    while (at > 0 && link->changes[at - 1].at_ns > at_ns) {
        link->changes[at] = link->changes[at - 1];
        at--;
    }
    link->changes[at] = (struct sim_change){at_ns, kind, value};
}

void sim_case_outage(struct sim_case *c, uint64_t at_ns, uint64_t length_ns)
{
    for (unsigned link = 0; link < 2; link++) {
        sim_link_change(&c->world.links[link], at_ns, SIM_CHANGE_UP, 0);
        sim_link_change(&c->world.links[link], at_ns + length_ns, SIM_CHANGE_UP, 1);
    }
    if (c->world.good_from_ns < at_ns + length_ns) {
        c->world.good_from_ns = at_ns + length_ns;
    }
    c->world.limit_ns += length_ns;
    c->done_may_be_lost = true;
}

/* What the summary says was sent cannot be less than what has arrived. */
static const char *too_little_told(const struct sim_world *world)
{
    const struct session *session = world->hosts[SENDER].session;
    if (session == NULL) {
        return NULL;
    }
    struct session_statistics statistics;
    session_statistics(session, &statistics);
    return statistics.payload_sent < statistics.payload_acked
               ? "less is said to be sent than has arrived"
               : NULL;
}

static const char *judge(const struct sim_case *c, const struct sim_world *world)
{
    static char text[600];
    if (world->failure[0] != '\0') {
        return world->failure;
    }
    for (unsigned i = 0; i < 2; i++) {
        const struct sim_host *host = &world->hosts[i];
        const struct error *error = sim_host_error(host);
        const struct sim_upper *peer = &world->hosts[1 - i].upper;
        if (i == SENDER && c->done_may_be_lost && error->kind == ERROR_PEER_LOST &&
            peer->done_ns(peer->context) != 0) {
            continue;
        }
        if (!host->gone && (c->allowed[i] >> error->kind & 1) == 0) {
            snprintf(text, sizeof(text), "host %u ended with %s: %s", i,
                     error_kind_name(error->kind), error->text);
            return text;
        }
        if (!host->gone && error->kind == ERROR_NONE &&
            !host->upper.succeeded(host->upper.context)) {
            return "a good end without success";
        }
    }
    const struct sim_upper *sender = &world->hosts[SENDER].upper;
    const struct sim_upper *receiver = &world->hosts[RECEIVER].upper;
    if (sender->succeeded(sender->context) && receiver->done_ns(receiver->context) == 0) {
        return "the sender believes in a success that the receiver never said";
    }
    return sender->succeeded(sender->context) ? too_little_told(world) : NULL;
}

static void measure(const struct sim_case *c, const struct sim_world *world,
                    struct sim_outcome *outcome)
{
    const struct sim_upper *receiver = &world->hosts[RECEIVER].upper;
    uint64_t from_ns = world->hosts[SENDER].opened_at_ns;
    uint64_t done_ns = receiver->done_ns(receiver->context);
    if (done_ns > from_ns && !c->with_files) {
        outcome->goodput_bps =
            sim_scale(sim_blocks_total(&c->blocks) * 8, NS_PER_S, done_ns - from_ns);
    }
    for (unsigned i = 0; i < 2; i++) {
        outcome->ended[i] = sim_host_error(&world->hosts[i])->kind;
        sim_oracle_counts(world->oracle, i, &outcome->counts[i]);
        if (world->hosts[i].session != NULL) {
            session_statistics(world->hosts[i].session, &outcome->statistics[i]);
        }
    }
}

static struct sim_upper upper_of(const struct sim_case *c, enum transfer_role role)
{
    if (!c->with_files) {
        return sim_blocks_new(&c->blocks, role);
    }
    struct sim_files_config config = c->files;
    struct sim_files files = {.seed = c->world.seed, .sizes = c->sizes, .count = c->size_count};
    config.source.files = config.sink.files = files;
    config.pull = c->world.hosts[RECEIVER].client;
    return sim_files_new(&config, role);
}

void sim_case_run(const struct sim_case *c, struct sim_outcome *outcome)
{
    *outcome = (struct sim_outcome){.good = true};
    struct sim_upper uppers[2] = {upper_of(c, ROLE_SENDER), upper_of(c, ROLE_RECEIVER)};
    struct sim_world *world = sim_world_new(&c->world, uppers);
    sim_world_run(world);
    const char *why = judge(c, world);
    if (why != NULL) {
        outcome->good = false;
        snprintf(outcome->text, sizeof(outcome->text), "%s", why);
    }
    outcome->hash = world->trace.hash;
    outcome->events = world->events;
    outcome->took_ns = world->now_ns;
    measure(c, world, outcome);
    sim_world_free(world);
}
