#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_SAMPLES 20000u
#define EARLY_RTTS 20u

static uint64_t bucket_size(const struct world_config *config)
{
    uint64_t size = config->duration_ns / (FLOW_BUCKETS - 16);
    uint64_t quarter = config->path.rtt_ns / 4;
    if (size < quarter)
        size = quarter;
    return size < 2 * NS_PER_MS ? 2 * NS_PER_MS : size;
}

static void trace_line(const struct world *world, unsigned index, uint64_t now_ns)
{
    const struct flow *flow = &world->flows[index];
    if (flow->controller == NULL)
        return;
    const struct rate_interval *r =
        &flow->intervals[(flow->oldest_interval + FLOW_INTERVALS - 1) % FLOW_INTERVALS].report;
    double dur = (double)(r->end_ns - r->start_ns);
    printf("%9.4f f%u %-9s base %8.2f pace %8.2f infl %6.0f/%6.0fk | #%llu len %6.2fms n %5llu x "
           "%8.2f "
           "y %8.2f p %5.2f%% ev %3llu span %6.2f q %5.2f mean %5.2f%s%s amb %.2f%% queue %.2fms\n",
           (double)now_ns / 1e9, index, rate_controller_phase(flow->controller),
           (double)flow->decision.base_bps / 1e6, (double)flow->decision.pacing_bps / 1e6,
           (double)flow->inflight_bytes / 1e3, (double)flow->decision.inflight_cap_bytes / 1e3,
           (unsigned long long)r->id, dur / 1e6, (unsigned long long)r->sent_packets,
           (double)r->sent_bytes * 8e3 / dur, (double)r->delivered_bytes * 8e3 / dur,
           r->sent_packets ? 100.0 * (double)r->lost_packets / (double)r->sent_packets : 0,
           (unsigned long long)r->loss_events, (double)r->receiver_span_ns / 1e6,
           ((double)r->rtt_min_ns - (double)rate_controller_base_rtt(flow->controller)) / 1e6,
           ((double)r->rtt_mean_ns - (double)rate_controller_base_rtt(flow->controller)) / 1e6,
           r->app_limited ? " app" : "", r->outage ? " out" : "",
           100 * rate_controller_ambient_loss(flow->controller),
           (double)path_queue_ns((struct path *)&world->path, now_ns) / 1e6);
}

static void sample_queue(struct world *world, uint64_t now_ns)
{
    if (now_ns >= world->config.calm_from_ns && world->queue_us_count < QUEUE_SAMPLES)
        world->queue_us[world->queue_us_count++] =
            (uint32_t)(path_queue_ns(&world->path, now_ns) / NS_PER_US);
    if (now_ns < world->config.queue_from_ns)
        return;
    world->queue_sum_ns += (double)path_queue_ns(&world->path, now_ns);
    world->queue_samples++;
}

/* The next ack of each flow; it is read before the one after it is made. */
struct ack_on_its_way {
    uint64_t made_ns, arrives_ns;
    bool lost;
};

static void make_ack(struct world *world, unsigned flow, struct ack_on_its_way *ack)
{
    ack->made_ns += world->flows[flow].ack_interval_ns;
    ack->lost = !path_ack(&world->path, flow_ack_bytes(&world->flows[flow]), ack->made_ns,
                          &ack->arrives_ns);
}

/* When the next ack that was asked for comes. */
static uint64_t asked_arrives(const struct world *world, unsigned index)
{
    const struct flow *flow = &world->flows[index];
    if (flow->asked_tail == flow->asked_head)
        return TIME_NEVER;
    return flow->asked_ns[flow->asked_tail % FLOW_ASKED] + world->config.path.rtt_ns -
           world->config.path.rtt_ns / 2;
}

static void take_asked(struct world *world, struct flow *flow, uint64_t now_ns)
{
    uint64_t made = flow->asked_ns[flow->asked_tail++ % FLOW_ASKED], arrives = 0;
    if (path_ack(&world->path, 110, made, &arrives))
        flow_ack(flow, made, now_ns);
}

void world_run(struct world *world, const struct world_config *config, uint64_t seed)
{
    memset(world, 0, sizeof *world);
    world->config = *config;
    path_init(&world->path, &config->path, seed);
    world->queue_us = malloc(QUEUE_SAMPLES * sizeof *world->queue_us);
    if (world->queue_us == NULL)
        abort();
    uint64_t send_at[PATH_FLOWS_MAX];
    struct ack_on_its_way acks[PATH_FLOWS_MAX];
    for (unsigned i = 0; i < config->flow_count; i++) {
        flow_init(&world->flows[i], &config->flows[i], i, &world->path, bucket_size(config), seed);
        send_at[i] = config->flows[i].start_ns;
        acks[i].made_ns = config->flows[i].start_ns;
        make_ack(world, i, &acks[i]);
    }
    uint64_t sample_at = 0;
    for (;;) {
        uint64_t now = sample_at;
        unsigned who = 3 * PATH_FLOWS_MAX;
        for (unsigned i = 0; i < config->flow_count; i++) {
            if (send_at[i] < now) {
                now = send_at[i];
                who = i;
            }
            if (acks[i].arrives_ns < now) {
                now = acks[i].arrives_ns;
                who = PATH_FLOWS_MAX + i;
            }
            if (asked_arrives(world, i) < now) {
                now = asked_arrives(world, i);
                who = 2 * PATH_FLOWS_MAX + i;
            }
        }
        if (now >= config->duration_ns)
            return;
        if (who == 3 * PATH_FLOWS_MAX) {
            sample_queue(world, now);
            sample_at += NS_PER_MS;
            continue;
        }
        struct flow *flow = &world->flows[who % PATH_FLOWS_MAX];
        uint64_t closed = flow->oldest_interval;
        if (who < PATH_FLOWS_MAX) {
            send_at[who] = flow_send(flow, now);
        } else if (who >= 2 * PATH_FLOWS_MAX) {
            who -= 2 * PATH_FLOWS_MAX;
            take_asked(world, flow, now);
        } else {
            who -= PATH_FLOWS_MAX;
            if (!acks[who].lost)
                flow_ack(flow, acks[who].made_ns, now);
            make_ack(world, who, &acks[who]);
            if ((flow->blocked || flow->config.kind != FLOW_PETREL) &&
                now >= config->flows[who].start_ns)
                send_at[who] = flow->next_send_ns > now ? flow->next_send_ns : now;
        }
        if (config->trace && flow->oldest_interval != closed)
            trace_line(world, who, now);
    }
}

void world_release(struct world *world)
{
    for (unsigned i = 0; i < world->config.flow_count; i++)
        flow_release(&world->flows[i]);
    path_release(&world->path);
    free(world->queue_us);
    world->queue_us = NULL;
}

static struct flow_bucket total(const struct world *world, unsigned index, uint64_t from_ns,
                                uint64_t until_ns, uint64_t *span_ns)
{
    const struct flow *flow = &world->flows[index];
    struct flow_bucket sum = {0};
    uint64_t first = from_ns / flow->bucket_ns, end = until_ns / flow->bucket_ns;
    for (uint64_t i = first; i < end && i < FLOW_BUCKETS; i++) {
        sum.acked_bytes += flow->buckets[i].acked_bytes;
        sum.sent_packets += flow->buckets[i].sent_packets;
        sum.lost_packets += flow->buckets[i].lost_packets;
        sum.overflowed_packets += flow->buckets[i].overflowed_packets;
    }
    *span_ns = (end - first) * flow->bucket_ns;
    return sum;
}

double world_goodput_bps(const struct world *world, unsigned flow, uint64_t from_ns,
                         uint64_t until_ns)
{
    uint64_t span = 0;
    struct flow_bucket sum = total(world, flow, from_ns, until_ns, &span);
    return span == 0 ? 0 : (double)sum.acked_bytes * 8e9 / (double)span;
}

double world_lost_share(const struct world *world, unsigned flow, uint64_t from_ns,
                        uint64_t until_ns)
{
    uint64_t span = 0;
    struct flow_bucket sum = total(world, flow, from_ns, until_ns, &span);
    return sum.sent_packets == 0 ? 0 : (double)sum.lost_packets / (double)sum.sent_packets;
}

double world_overflow_share(const struct world *world, unsigned flow, uint64_t from_ns,
                            uint64_t until_ns)
{
    uint64_t span = 0;
    struct flow_bucket sum = total(world, flow, from_ns, until_ns, &span);
    return sum.sent_packets == 0 ? 0 : (double)sum.overflowed_packets / (double)sum.sent_packets;
}

double world_early_bdps(const struct world *world, unsigned flow)
{
    uint64_t span = 0, rtt = world->config.path.rtt_ns, from = world->config.flows[flow].start_ns;
    struct flow_bucket sum = total(world, flow, from, from + EARLY_RTTS * rtt, &span);
    double bdp = (double)path_rate_bps(&world->path, from) / 8 * (double)rtt / NS_PER_S;
    return (double)sum.overflowed_packets * world->flows[flow].datagram_bytes / bdp;
}

double world_queue_ms(const struct world *world)
{
    return world->queue_samples == 0 ? 0 : world->queue_sum_ns / (double)world->queue_samples / 1e6;
}

double world_reach_rtts(const struct world *world, unsigned index, uint64_t from_ns,
                        double rate_bps)
{
    const struct flow *flow = &world->flows[index];
    uint64_t rtt = world->config.path.rtt_ns;
    uint64_t window = (rtt + flow->bucket_ns - 1) / flow->bucket_ns;
    for (uint64_t i = from_ns / flow->bucket_ns; i + window < FLOW_BUCKETS; i++) {
        uint64_t from = i * flow->bucket_ns, until = (i + window) * flow->bucket_ns;
        if (until > world->config.duration_ns)
            break;
        if (world_goodput_bps(world, index, from, until) >= rate_bps)
            return (double)(until - from_ns) / (double)rtt;
    }
    return -1;
}

double world_settle_rtts(const struct world *world, unsigned index, uint64_t from_ns,
                         double rate_bps)
{
    const struct flow *flow = &world->flows[index];
    uint64_t rtt = world->config.path.rtt_ns;
    uint64_t window = (rtt + flow->bucket_ns - 1) / flow->bucket_ns;
    for (uint64_t i = from_ns / flow->bucket_ns; i + window < FLOW_BUCKETS; i++) {
        uint64_t span = 0, until = (i + window) * flow->bucket_ns;
        if (until > world->config.duration_ns)
            break;
        struct flow_bucket sum = total(world, index, i * flow->bucket_ns, until, &span);
        double bits = (double)sum.sent_packets * flow->datagram_bytes * 8;
        if (bits * 1e9 / (double)span <= rate_bps)
            return (double)(until - from_ns) / (double)rtt;
    }
    return -1;
}

double world_peak_bps(const struct world *world, unsigned index, uint64_t from_ns)
{
    const struct flow *flow = &world->flows[index];
    uint64_t window = (world->config.path.rtt_ns + flow->bucket_ns - 1) / flow->bucket_ns;
    double peak = 0;
    for (uint64_t i = from_ns / flow->bucket_ns; i + window < FLOW_BUCKETS; i++) {
        uint64_t span = 0, until = (i + window) * flow->bucket_ns;
        if (until > world->config.duration_ns || until > from_ns + 10 * world->config.path.rtt_ns)
            break;
        struct flow_bucket sum = total(world, index, i * flow->bucket_ns, until, &span);
        double bps = (double)sum.sent_packets * flow->datagram_bytes * 8e9 / (double)span;
        peak = bps > peak ? bps : peak;
    }
    return peak;
}

double world_calm_rtts(const struct world *world, uint64_t target_ns)
{
    uint64_t rtt = world->config.path.rtt_ns;
    uint32_t known = (uint32_t)((rtt + NS_PER_MS - 1) / NS_PER_MS);
    if (known >= world->queue_us_count)
        return -1;
    double possible_ms = known + world->queue_us[known] / 1e3;
    for (uint32_t ms = known; ms < world->queue_us_count; ms++) {
        if (world->queue_us[ms] * NS_PER_US > target_ns)
            continue;
        double late = (ms - possible_ms) * 1e6 / (double)rtt;
        return late > 0 ? late : 0;
    }
    return -1;
}
