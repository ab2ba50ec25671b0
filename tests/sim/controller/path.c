#include "path.h"

#include <stdlib.h>
#include <string.h>

#define JITTER_SLOT_NS (2 * NS_PER_MS)
#define DEPARTURES (1u << 20)
#define ACK_QUEUE_NS (200 * NS_PER_MS)

static bool chance(struct random *random, double probability)
{
    return probability > 0 && random_chance(random, (uint32_t)(probability * 4294967295.0));
}

void path_init(struct path *path, const struct path_config *config, uint64_t seed)
{
    memset(path, 0, sizeof *path);
    path->config = *config;
    for (unsigned i = 0; i < PATH_FLOWS_MAX; i++)
        random_seed(&path->loss_random[i], seed * 1000 + 10 + i);
    random_seed(&path->jitter_random, seed * 1000 + 1);
    random_seed(&path->reorder_random, seed * 1000 + 2);
    random_seed(&path->noise_random, seed * 1000 + 3);
    random_seed(&path->ack_random, seed * 1000 + 4);
    random_seed(&path->wander_random, seed * 1000 + 5);
    path->wander_share = 1;
    struct random hesitation;
    random_seed(&hesitation, seed * 1000 + 6);
    if (config->hesitates_ns > 0) {
        path->hesitates_ns =
            config->hesitates_ns / 4 + random_below(&hesitation, config->hesitates_ns * 3 / 4);
        path->hesitates_at_ns = random_below(&hesitation, 2 * config->rtt_ns);
    }
    path->mask = DEPARTURES - 1;
    path->departures = malloc(DEPARTURES * sizeof *path->departures);
    if (path->departures == NULL)
        abort();
    path->tokens_bytes = (double)config->bucket_bytes;
}

void path_release(struct path *path)
{
    free(path->departures);
    path->departures = NULL;
}

static unsigned step_at(const struct path *path, uint64_t now_ns)
{
    unsigned step = 0;
    while (step + 1 < path->config.step_count && path->config.steps[step + 1].at_ns <= now_ns)
        step++;
    return step;
}

uint64_t path_rate_bps(const struct path *path, uint64_t now_ns)
{
    return path->config.steps[step_at(path, now_ns)].rate_bps;
}

/* When `bits` that start service at `start_ns` have been sent, across rate steps. */
static uint64_t service_end(const struct path *path, uint64_t start_ns, double bits)
{
    unsigned step = step_at(path, start_ns);
    double now = (double)start_ns;
    for (;;) {
        double rate = (double)path->config.steps[step].rate_bps / 1e9; /* bits per ns */
        bool last = step + 1 >= path->config.step_count;
        double until = last ? 0 : (double)path->config.steps[step + 1].at_ns;
        if (last || (rate > 0 && now + bits / rate <= until))
            return (uint64_t)(now + bits / (rate > 0 ? rate : 1e-6)) + 1;
        bits -= (until - now) * rate;
        now = until;
        step++;
    }
}

static void forget_departed(struct path *path, uint64_t now_ns)
{
    while (path->tail != path->head && path->departures[path->tail & path->mask].at_ns <= now_ns) {
        path->backlog_bytes -= path->departures[path->tail & path->mask].bytes;
        path->tail++;
    }
}

uint64_t path_queue_ns(struct path *path, uint64_t now_ns)
{
    return path->busy_until_ns > now_ns ? path->busy_until_ns - now_ns : 0;
}

static uint32_t take_tokens(struct path *path, uint32_t packets, uint32_t bytes, uint64_t now_ns)
{
    if (path->config.policer_bps == 0)
        return packets;
    path->tokens_bytes +=
        (double)(now_ns - path->tokens_at_ns) * (double)path->config.policer_bps / 8e9;
    path->tokens_at_ns = now_ns;
    if (path->tokens_bytes > (double)path->config.bucket_bytes)
        path->tokens_bytes = (double)path->config.bucket_bytes;
    uint32_t passed = 0;
    while (passed < packets && path->tokens_bytes >= bytes) {
        path->tokens_bytes -= bytes;
        passed++;
    }
    return passed;
}

/* A receiver whose processor is also busy elsewhere stops serving now and then. */
static void maybe_pause(struct path *path, uint64_t now_ns)
{
    if (path->config.service_noise_ns == 0 || now_ns < path->next_pause_ns)
        return;
    path->next_pause_ns =
        now_ns + 2 * NS_PER_MS + random_below(&path->noise_random, 16 * NS_PER_MS);
    if (path->busy_until_ns < now_ns)
        path->busy_until_ns = now_ns;
    path->busy_until_ns += random_below(&path->noise_random, path->config.service_noise_ns);
}

/* An end that gets its memory from the system: nothing moves for a moment, once. */
static void maybe_hesitate(struct path *path, uint64_t now_ns)
{
    if (path->hesitates_ns == 0 || now_ns < path->hesitates_at_ns)
        return;
    uint64_t until = path->hesitates_at_ns + path->hesitates_ns;
    path->hesitates_ns = 0;
    if (path->busy_until_ns < until)
        path->busy_until_ns = until;
}

/* A radio link: the rate holds for a while, then is another. */
static void wander(struct path *path, uint64_t now_ns)
{
    if (path->config.wander_ns == 0 || now_ns < path->wander_until_ns)
        return;
    path->wander_until_ns = now_ns + path->config.wander_ns;
    path->wander_share = 0.5 + (double)random_below(&path->wander_random, 500) / 1000;
}

static uint32_t take_queue(struct path *path, uint32_t packets, uint32_t bytes, uint64_t now_ns)
{
    forget_departed(path, now_ns);
    maybe_pause(path, now_ns);
    maybe_hesitate(path, now_ns);
    uint64_t room = path->config.queue_bytes > path->backlog_bytes
                        ? path->config.queue_bytes - path->backlog_bytes
                        : 0;
    uint32_t passed = room / bytes < packets ? (uint32_t)(room / bytes) : packets;
    if (passed == 0)
        return 0;
    uint64_t start = path->busy_until_ns > now_ns ? path->busy_until_ns : now_ns;
    uint64_t size = (uint64_t)passed * bytes;
    wander(path, now_ns);
    path->busy_until_ns = service_end(path, start, (double)size * 8 / path->wander_share);
    path->departures[path->head++ & path->mask] =
        (struct path_departure){.at_ns = path->busy_until_ns, .bytes = size};
    path->backlog_bytes += size;
    return passed;
}

/* Gilbert's model: all packets are lost in the bad state, none in the good one. */
static bool strike(struct path *path, unsigned flow)
{
    struct random *random = &path->loss_random[flow];
    double loss = path->config.loss, mean = path->config.burst_mean;
    if (path->config.loss_repeat > 0) {
        if (!chance(random, path->config.loss_repeat))
            path->burst_state[flow] = chance(random, loss);
        return path->burst_state[flow];
    }
    if (mean <= 1)
        return chance(random, loss);
    if (path->burst_state[flow])
        path->burst_state[flow] = !chance(random, 1 / mean);
    else
        path->burst_state[flow] = chance(random, loss / (1 - loss) / mean);
    return path->burst_state[flow];
}

static uint64_t jitter(struct path *path, uint64_t now_ns)
{
    if (path->config.jitter_ns == 0)
        return 0;
    uint64_t slot = now_ns / JITTER_SLOT_NS + 1;
    if (slot != path->jitter_slot) {
        path->jitter_slot = slot;
        path->jitter_now_ns = random_below(&path->jitter_random, path->config.jitter_ns);
    }
    return path->jitter_now_ns;
}

static void count_loss(struct path *path, unsigned flow, struct path_fate *fate, bool lost)
{
    if (lost) {
        fate->lost++;
        if (!path->last_lost[flow])
            fate->runs++;
    }
    path->last_lost[flow] = lost;
}

struct path_fate path_send(struct path *path, unsigned flow, uint32_t packets, uint32_t bytes_each,
                           uint64_t now_ns)
{
    struct path_fate fate = {0};
    uint32_t offered = packets, passed = 0;
    for (uint32_t i = 0; path->config.loss_before && i < packets; i++) {
        bool lost = strike(path, flow);
        offered -= lost;
        count_loss(path, flow, &fate, lost);
    }
    if (path_rate_bps(path, now_ns) > 0) {
        passed = take_tokens(path, offered, bytes_each, now_ns);
        passed = take_queue(path, passed, bytes_each, now_ns);
    }
    for (uint32_t i = 0; i < offered; i++) {
        bool dropped = i >= passed;
        fate.overflowed += dropped;
        if (!path->config.loss_before || dropped)
            count_loss(path, flow, &fate, dropped || strike(path, flow));
    }
    uint64_t arrives = path->busy_until_ns + path->config.rtt_ns / 2 + jitter(path, now_ns);
    if (arrives < path->last_arrival_ns[flow])
        arrives = path->last_arrival_ns[flow];
    path->last_arrival_ns[flow] = arrives;
    if (chance(&path->reorder_random, path->config.reorder))
        arrives += random_below(&path->reorder_random, 8 * NS_PER_MS);
    if (path->config.shuffle_ns > 0)
        arrives += random_below(&path->reorder_random, path->config.shuffle_ns);
    if (path->config.bunch_ns > 0)
        arrives += path->config.bunch_ns - arrives % path->config.bunch_ns;
    fate.arrives_ns = arrives;
    return fate;
}

bool path_ack(struct path *path, uint32_t bytes, uint64_t made_ns, uint64_t *arrives_ns)
{
    uint64_t back = path->config.rtt_ns - path->config.rtt_ns / 2;
    uint64_t free_ns = path->back_free_ns > made_ns ? path->back_free_ns : made_ns;
    *arrives_ns = free_ns + back;
    if (chance(&path->ack_random, path->config.ack_loss) || free_ns - made_ns > ACK_QUEUE_NS)
        return false;
    if (path->config.ack_bps > 0) {
        path->back_free_ns = free_ns + bytes * 8 * NS_PER_S / path->config.ack_bps;
        *arrives_ns = path->back_free_ns + back;
    }
    return true;
}
