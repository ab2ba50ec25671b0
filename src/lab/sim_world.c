/* See sim_world.h. */
#include "lab/sim_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define STREAM_UNWRITTEN_MAX (256u * 1024u)
#define STREAM_PIECE_MAX 16384u

uint64_t sim_seed(uint64_t seed, unsigned component)
{
    uint64_t mixed = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
    mixed ^= (uint64_t)(component + 1) * UINT64_C(0xD1B54A32D192ED03);
    mixed ^= mixed >> 29;
    return mixed * UINT64_C(0xBF58476D1CE4E5B9);
}

void sim_world_fail(struct sim_world *world, const char *format, ...)
{
    if (world->failure[0] != '\0') {
        return;
    }
    int head = snprintf(world->failure, sizeof(world->failure),
                        "at %" PRIu64 ".%06" PRIu64 " s: ", world->now_ns / NS_PER_S,
                        world->now_ns % NS_PER_S / 1000);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(world->failure + head, sizeof(world->failure) - (size_t)head, format, arguments);
    va_end(arguments);
}

static void on_seal(void *context, const uint8_t *aad, size_t aad_size, const uint8_t *plain,
                    size_t size)
{
    sim_oracle_sealed(context, aad, aad_size, plain, size);
}

static void on_open(void *context, const uint8_t *aad, size_t aad_size, const uint8_t *plain,
                    size_t size)
{
    sim_oracle_opened(context, aad, aad_size, plain, size);
}

static void on_pair(void *context, const uint8_t key[AEAD_KEY_SIZE], uint64_t number)
{
    sim_oracle_pair(context, key, number);
}

static void draw_secrets(struct sim_world *world)
{
    struct random random;
    random_seed(&random, sim_seed(world->config.seed, 1));
    for (size_t i = 0; i < sizeof(world->secret); i++) {
        world->secret[i] = (uint8_t)random_next(&random);
    }
    for (unsigned host = 0; host < SIM_HOSTS_MAX; host++) {
        for (size_t i = 0; i < SESSION_ID_SIZE; i++) {
            world->session_ids[host][i] = (uint8_t)random_next(&random);
        }
    }
    random_seed(&world->random, sim_seed(world->config.seed, 2));
}

static void plan_actions(struct sim_world *world)
{
    for (unsigned i = 0; i < world->config.action_count; i++) {
        struct sim_event *event = sim_queue_make(world->queue);
        event->kind = SIM_EVENT_ACTION;
        event->at_ns = world->config.actions[i].at_ns;
        event->action = i;
        sim_queue_push(world->queue, event);
    }
}

struct sim_world *sim_world_new(const struct sim_world_config *config,
                                const struct sim_upper uppers[])
{
    struct sim_world *world = calloc(1, sizeof(*world));
    if (world == NULL) {
        abort();
    }
    world->config = *config;
    world->queue = sim_queue_new();
    world->oracle = sim_oracle_new();
    world->attacker = sim_attacker_new(&config->attacker, sim_seed(config->seed, 3));
    world->tap = (struct sim_aead_tap){world->oracle, on_seal, on_open, on_pair};
    sim_trace_start(&world->trace, config->trace);
    sim_aead_install(&world->tap, !config->real_aead);
    draw_secrets(world);
    plan_actions(world);
    for (unsigned i = 0; i < config->host_count; i++) {
        const struct sim_host_config *host = &config->hosts[i];
        sim_host_init(&world->hosts[i], world, i, host, &uppers[i]);
        sim_oracle_add_host(world->oracle, i, host->peer, world->hosts[i].connection_base);
        sim_link_init(&world->links[i], &config->links[i], sim_seed(config->seed, 10 + i));
        struct sim_link_config stream = {.rate_bps = host->stream_bps,
                                         .delay_ns = config->links[i].delay_ns};
        sim_link_init(&world->streams[i], &stream, sim_seed(config->seed, 20 + i));
    }
    return world;
}

void sim_world_free(struct sim_world *world)
{
    if (world == NULL) {
        return;
    }
    for (unsigned i = 0; i < world->config.host_count; i++) {
        sim_host_release(&world->hosts[i]);
    }
    sim_aead_remove();
    sim_attacker_free(world->attacker);
    sim_oracle_free(world->oracle);
    sim_queue_free(world->queue);
    free(world);
}

/* ---- datagrams on their way ---- */

/* Who lives at `to`, and by which lane's path: of a client's addresses each is one lane's. */
static struct sim_host *resident(struct sim_world *world, const struct address *to, unsigned *lane)
{
    for (unsigned i = 0; i < world->config.host_count; i++) {
        struct sim_host *host = &world->hosts[i];
        unsigned addresses = host->config.client ? LANES_MAX : 1;
        for (unsigned at = 0; at < addresses; at++) {
            if (address_equal(&host->addresses[at], to)) {
                *lane = at;
                return host;
            }
        }
    }
    return NULL;
}

static void flip_bit(struct sim_event *event, uint64_t bit)
{
    bit %= (uint64_t)event->size * 8;
    event->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

static void deliver_later(struct sim_world *world, const struct sim_arrival *arrival,
                          unsigned target, const struct address *from, const struct address *to,
                          const uint8_t *bytes, uint32_t size)
{
    struct sim_event *event = sim_queue_make(world->queue);
    event->kind = SIM_EVENT_DATAGRAM;
    event->at_ns = arrival->at_ns;
    event->host = target;
    event->from = *from;
    event->to = *to;
    event->size = size;
    memcpy(event->bytes, bytes, size);
    if (arrival->corrupt) {
        flip_bit(event, arrival->corrupt_bit);
    }
    sim_queue_push(world->queue, event);
}

/* Nobody proved that it lives at an attacker's address. */
static void tally_sent(struct sim_world *world, const struct sim_host *host,
                       const struct address *to, uint32_t size)
{
    unsigned address = sim_attacker_address(to);
    if (address == SIM_ATTACKER_ADDRESSES) {
        return;
    }
    struct sim_tally *tally = &world->tallies[host->index][address];
    tally->to += size;
    if (tally->to > 3 * tally->from) {
        sim_world_fail(world, "host %u sent %" PRIu64 " bytes to an address that sent %" PRIu64,
                       host->index, tally->to, tally->from);
    }
}

void sim_world_send(struct sim_world *world, struct sim_host *host, unsigned lane,
                    const struct address *to, const uint8_t *bytes, uint32_t size)
{
    if (size == 0 || size > DATAGRAM_MAX) {
        sim_world_fail(world, "host %u sends a datagram of %u bytes", host->index, size);
        return;
    }
    const struct address *from = &host->addresses[host->config.client ? lane : 0];
    unsigned target_lane = 0;
    struct sim_host *target = resident(world, to, &target_lane);
    struct sim_arrival arrivals[2];
    enum sim_fate fate;
    unsigned count = sim_link_offer_flow(&world->links[host->config.link], lane, world->now_ns,
                                         size, arrivals, &fate);
    sim_trace_add(&world->trace, world->now_ns, SIM_MARK_SEND, host->index, size, fate,
                  count > 0 ? arrivals[0].at_ns : 0);
    if (target == NULL) {
        world->lost_nowhere++;
        tally_sent(world, host, to, size);
        return;
    }
    const struct sim_host *client = host->config.client ? host : target;
    if (client->lane_cut[host->config.client ? lane : target_lane]) {
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        deliver_later(world, &arrivals[i], target->index, from, to, bytes, size);
    }
    sim_attacker_saw(world->attacker, world, target->index, from, to, bytes, size,
                     world->links[host->config.link].config.delay_ns);
}

static void push_stream(struct sim_world *world, const struct sim_host *host, const uint8_t *bytes,
                        uint32_t size)
{
    struct sim_arrival arrivals[2];
    enum sim_fate fate;
    sim_link_offer(&world->streams[host->index], world->now_ns, size, arrivals, &fate);
    struct sim_event *event = sim_queue_make(world->queue);
    event->kind = SIM_EVENT_STREAM;
    event->at_ns = arrivals[0].at_ns;
    event->host = host->config.peer;
    event->size = size;
    if (size > 0) {
        memcpy(event->bytes, bytes, size);
    }
    sim_queue_push(world->queue, event);
    sim_trace_add(&world->trace, world->now_ns, SIM_MARK_STREAM, host->index, size,
                  arrivals[0].at_ns, 0);
}

void sim_world_stream_end(struct sim_world *world, struct sim_host *host)
{
    push_stream(world, host, NULL, 0);
}

void sim_world_stream(struct sim_world *world, struct sim_host *host, const uint8_t *bytes,
                      size_t size)
{
    while (size > 0) {
        /* Any cut may happen in a pipe. */
        uint32_t piece = (uint32_t)(1 + random_below(&world->random, STREAM_PIECE_MAX));
        piece = piece < size ? piece : (uint32_t)size;
        push_stream(world, host, bytes, piece);
        bytes += piece;
        size -= piece;
    }
}

size_t sim_world_stream_room(struct sim_world *world, struct sim_host *host, uint64_t *half_at_ns)
{
    struct sim_link *link = &world->streams[host->index];
    uint64_t unwritten = sim_link_backlog(link, world->now_ns);
    *half_at_ns = TIME_NEVER;
    if (unwritten > STREAM_UNWRITTEN_MAX / 2) {
        uint64_t surplus = unwritten - STREAM_UNWRITTEN_MAX / 2;
        *half_at_ns = world->now_ns + 1 + sim_scale(surplus, 8 * NS_PER_S, link->config.rate_bps);
    }
    return unwritten < STREAM_UNWRITTEN_MAX ? STREAM_UNWRITTEN_MAX - unwritten : 0;
}

/* ---- the plan ---- */

static void change_addresses(struct sim_host *host, bool port_only)
{
    for (unsigned lane = 0; lane < LANES_MAX; lane++) {
        host->addresses[lane].port = (uint16_t)(host->addresses[lane].port + 100);
        if (!port_only) {
            host->addresses[lane].bytes[3] = (uint8_t)(host->addresses[lane].bytes[3] + 50);
        }
    }
}

static void act(struct sim_world *world, const struct sim_action *action)
{
    struct sim_host *host = &world->hosts[action->host];
    sim_trace_add(&world->trace, world->now_ns, SIM_MARK_ACTION, action->host, action->kind,
                  action->lane, 0);
    switch (action->kind) {
    case SIM_VANISH:
        sim_host_vanish(host);
        break;
    case SIM_REBIND_PORT:
        change_addresses(host, true);
        break;
    case SIM_CHANGE_ADDRESS:
        change_addresses(host, false);
        break;
    case SIM_OPEN_LANE:
        sim_host_open_lane(host);
        break;
    case SIM_CUT_LANE:
        host->lane_cut[action->lane] = true;
        break;
    case SIM_ABORT:
        sim_host_abort(host);
        break;
    }
}

static void take_event(struct sim_world *world, struct sim_event *event)
{
    if (event->kind == SIM_EVENT_ACTION) {
        act(world, &world->config.actions[event->action]);
        sim_queue_give(world->queue, event);
        return;
    }
    struct sim_host *host = &world->hosts[event->host];
    unsigned lane;
    bool moved = event->kind == SIM_EVENT_DATAGRAM && resident(world, &event->to, &lane) != host;
    sim_trace_add(&world->trace, world->now_ns, SIM_MARK_ARRIVE, event->host, event->size,
                  event->hostile, moved);
    if (host->gone || host->ended || moved) {
        sim_queue_give(world->queue, event);
        return;
    }
    if (event->hostile && sim_attacker_address(&event->from) < SIM_ATTACKER_ADDRESSES) {
        world->tallies[event->host][sim_attacker_address(&event->from)].from += event->size;
    }
    sim_host_arrive(host, event);
}

/* ---- the loop ---- */

static uint64_t next_time(const struct sim_world *world)
{
    uint64_t next = sim_queue_next_ns(world->queue);
    for (unsigned i = 0; i < world->config.host_count; i++) {
        uint64_t host_ns = sim_host_deadline(&world->hosts[i]);
        next = host_ns < next ? host_ns : next;
    }
    return next;
}

static bool all_ended(const struct sim_world *world)
{
    for (unsigned i = 0; i < world->config.host_count; i++) {
        if (!world->hosts[i].ended) {
            return false;
        }
    }
    return true;
}

/* Something must move once the path is good. */
static void check_progress(struct sim_world *world)
{
    uint64_t progress = 0;
    for (unsigned i = 0; i < world->config.host_count; i++) {
        const struct sim_host *host = &world->hosts[i];
        if (host->ended) {
            return; /* the others have nobody to move anything with, and an idle timeout */
        }
        progress += host->upper.progress(host->upper.context) + host->lanes_opened;
    }
    if (progress != world->progress || world->now_ns < world->config.good_from_ns) {
        world->progress = progress;
        world->progress_at_ns = world->now_ns;
    } else if (world->config.stall_ns != 0 &&
               world->now_ns - world->progress_at_ns > world->config.stall_ns) {
        sim_world_fail(world, "nothing moved for %" PRIu64 " ms although the path is good",
                       world->config.stall_ns / NS_PER_MS);
    }
}

static void check_invariants(struct sim_world *world)
{
    const char *broken = sim_oracle_failure(world->oracle);
    if (broken != NULL) {
        sim_world_fail(world, "%s", broken);
    }
    for (unsigned i = 0; i < world->config.host_count; i++) {
        const struct sim_host *host = &world->hosts[i];
        broken = host->upper.failure(host->upper.context);
        if (broken != NULL) {
            sim_world_fail(world, "host %u: %s", i, broken);
        }
    }
    check_progress(world);
}

static void step(struct sim_world *world, uint64_t next_ns)
{
    world->now_ns = next_ns;
    while (sim_queue_next_ns(world->queue) <= next_ns) {
        take_event(world, sim_queue_pop(world->queue));
        world->events++;
    }
    for (unsigned i = 0; i < world->config.host_count; i++) {
        if (sim_host_deadline(&world->hosts[i]) <= next_ns) {
            sim_host_run(&world->hosts[i]);
        }
    }
    check_invariants(world);
}

bool sim_world_run(struct sim_world *world)
{
    while (!all_ended(world) && world->failure[0] == '\0') {
        uint64_t next_ns = next_time(world);
        if (next_ns == TIME_NEVER) {
            sim_world_fail(world, "nobody waits for anything, and not all have ended");
        } else if (next_ns > world->config.limit_ns) {
            sim_world_fail(world, "time is up");
        } else {
            step(world, next_ns < world->now_ns ? world->now_ns : next_ns);
        }
    }
    return world->failure[0] == '\0';
}
