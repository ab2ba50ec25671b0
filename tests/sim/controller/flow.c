#include "flow.h"

#include <stdlib.h>
#include <string.h>

#define DATAGRAM 1440u
#define SILENCE_LEAST_NS (70 * NS_PER_MS) /* as in transport/session_rate.c */
#define NO_INTERVAL UINT32_MAX            /* of a probe */

static uint64_t clamp_u64(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static struct flow_unit *unit_at(struct flow *flow, uint64_t number)
{
    return &flow->units[number & (FLOW_UNITS - 1)];
}

static struct flow_interval *interval_at(struct flow *flow, uint64_t id)
{
    return &flow->intervals[id % FLOW_INTERVALS];
}

static struct flow_bucket *bucket_at(struct flow *flow, uint64_t now_ns)
{
    uint64_t index = now_ns / flow->bucket_ns;
    return &flow->buckets[index < FLOW_BUCKETS ? index : FLOW_BUCKETS - 1];
}

static void decide(struct flow *flow)
{
    if (flow->config.frozen && flow->decision.pacing_bps != 0)
        return;
    rate_controller_decide(flow->controller, &flow->decision);
    if (flow->decision.base_bps > flow->base_bps_peak)
        flow->base_bps_peak = flow->decision.base_bps;
}

static void begin_interval(struct flow *flow, uint64_t now_ns)
{
    uint64_t id = flow->next_interval++;
    if (flow->next_interval - flow->oldest_interval >= FLOW_INTERVALS)
        abort();
    struct flow_interval *interval = interval_at(flow, id);
    memset(interval, 0, sizeof *interval);
    interval->report.id = id;
    interval->report.start_ns = now_ns;
    interval->first_unit = flow->next_unit;
    interval->end_unit = UINT64_MAX;
    rate_controller_begin_interval(flow->controller, id, now_ns);
    decide(flow);
}

void flow_init(struct flow *flow, const struct flow_config *config, unsigned index,
               struct path *path, uint64_t bucket_ns, uint64_t seed)
{
    memset(flow, 0, sizeof *flow);
    flow->config = *config;
    if (flow->config.unit_packets == 0)
        flow->config.unit_packets = 1;
    flow->index = index;
    flow->path = path;
    flow->datagram_bytes = DATAGRAM;
    flow->units = malloc(FLOW_UNITS * sizeof *flow->units);
    flow->buckets = calloc(FLOW_BUCKETS, sizeof *flow->buckets);
    if (flow->units == NULL || flow->buckets == NULL)
        abort();
    flow->bucket_ns = bucket_ns;
    flow->next_send_ns = config->start_ns;
    flow->last_ack_ns = flow->last_probe_ns = config->start_ns;
    flow->srtt_ns = path->config.rtt_ns + path_queue_ns(path, 0);
    flow->ack_interval_ns = clamp_u64(path->config.rtt_ns / 8, NS_PER_MS, 10 * NS_PER_MS);
    if (config->kind != FLOW_PETREL) {
        flow->ack_interval_ns = clamp_u64(path->config.rtt_ns / 64, NS_PER_MS / 20, NS_PER_MS);
        rival_init(flow);
        return;
    }
    struct rate_config rate = {.rtt_ns = path->config.rtt_ns,
                               .datagram_bytes = DATAGRAM,
                               .limit_bps = config->limit_bps,
                               .fixed_bps = config->fixed_bps,
                               .policy = config->policy,
                               .remembered = config->remembered,
                               .seed = seed * 100 + index};
    if (rate.remembered.rtt_ns == 0)
        rate.remembered.rtt_ns = path->config.rtt_ns;
    flow->controller = rate_controller_new(&rate, config->start_ns);
    if (flow->controller == NULL)
        abort();
}

void flow_release(struct flow *flow)
{
    rate_controller_free(flow->controller);
    free(flow->units);
    free(flow->buckets);
    memset(flow, 0, sizeof *flow);
}

/* ---- Sending ---- */

static struct path_fate vanish(struct flow *flow, uint32_t packets)
{
    struct path_fate fate = {.arrives_ns = TIME_NEVER, .lost = packets, .runs = !flow->vanished};
    flow->vanished = true;
    return fate;
}

static void send_unit(struct flow *flow, bool train, enum train_trial trial, uint64_t now_ns)
{
    if (flow->next_unit - flow->oldest_unit >= FLOW_UNITS)
        abort();
    struct flow_unit *unit = unit_at(flow, flow->next_unit++);
    uint32_t packets = flow->config.unit_packets;
    bool faulty = now_ns >= flow->config.vanish_from_ns && now_ns < flow->config.vanish_until_ns;
    struct path_fate fate;
    if (faulty && train && trial != TRAIN_CUT && trial != TRAIN_TRIED_CUT) {
        fate = vanish(flow, packets);
    } else {
        fate = path_send(flow->path, flow->index, packets, flow->datagram_bytes, now_ns);
        flow->vanished = false;
    }
    *unit = (struct flow_unit){.sent_ns = now_ns,
                               .arrives_ns = fate.lost == packets ? TIME_NEVER : fate.arrives_ns,
                               .packets = packets,
                               .lost = fate.lost,
                               .trial = trial,
                               .runs = fate.runs,
                               .delivered_before = flow->delivered_bytes,
                               .delivered_at_ns = flow->last_ack_ns};
    flow->inflight_bytes += (uint64_t)packets * flow->datagram_bytes;
    struct flow_bucket *bucket = bucket_at(flow, now_ns);
    bucket->sent_packets += packets;
    bucket->lost_packets += fate.lost;
    bucket->overflowed_packets += fate.overflowed;
    flow->last_sent_ns = now_ns;
    if (flow->config.kind != FLOW_PETREL)
        return;
    unit->interval = train ? (uint32_t)(flow->next_interval - 1) : NO_INTERVAL;
    if (!train)
        return;
    struct rate_interval *report = &interval_at(flow, unit->interval)->report;
    if (flow->decision.mark_interval && report->sent_packets == 0 &&
        unit->arrives_ns != TIME_NEVER && flow->asked_head - flow->asked_tail < FLOW_ASKED)
        flow->asked_ns[flow->asked_head++ % FLOW_ASKED] = unit->arrives_ns;
    report->sent_packets += packets;
    report->sent_bytes += (uint64_t)packets * flow->datagram_bytes;
}

void flow_send_unit(struct flow *flow, uint64_t now_ns)
{
    send_unit(flow, false, TRAIN_USUAL, now_ns);
}

static void end_interval(struct flow *flow, uint64_t now_ns)
{
    struct flow_interval *interval = interval_at(flow, flow->next_interval - 1);
    interval->report.end_ns = now_ns;
    interval->end_unit = flow->next_unit;
    interval->ended = true;
}

static void maybe_turn_interval(struct flow *flow, uint64_t now_ns)
{
    struct flow_interval *interval = interval_at(flow, flow->next_interval - 1);
    uint64_t age = now_ns - interval->report.start_ns;
    uint64_t longest =
        6 *
        (flow->srtt_ns > flow->decision.interval_ns ? flow->srtt_ns : flow->decision.interval_ns);
    if (flow->next_interval - flow->oldest_interval >= FLOW_OPEN_MOST)
        return; /* the session holds no more of them open */
    if (age < flow->decision.interval_ns ||
        (interval->report.sent_packets < flow->decision.interval_packets && age < longest))
        return;
    end_interval(flow, now_ns);
    begin_interval(flow, now_ns);
}

static bool source_is_idle(const struct flow *flow, uint64_t now_ns)
{
    return now_ns >= flow->config.stall_from_ns && now_ns < flow->config.stall_until_ns;
}

uint32_t flow_ack_bytes(const struct flow *flow)
{
    uint64_t rate = flow->config.kind == FLOW_PETREL ? flow->decision.pacing_bps : 0;
    return 110 + (uint32_t)(rate / 8 * flow->ack_interval_ns / NS_PER_S / flow->datagram_bytes);
}

uint64_t flow_probe_timeout(const struct flow *flow)
{
    return flow->srtt_ns + flow->srtt_ns / 2 + flow->ack_interval_ns + 2 * NS_PER_MS;
}

static uint64_t send_paced(struct flow *flow, uint64_t now_ns)
{
    uint64_t unit_bytes = (uint64_t)flow->config.unit_packets * flow->datagram_bytes;
    uint64_t rate = flow->decision.pacing_bps;
    if (flow->config.source_bps != 0 && rate > flow->config.source_bps)
        rate = flow->config.source_bps;
    uint64_t train = clamp_u64(rate / 8 / 2000, 2 * flow->datagram_bytes, 64000);
    uint64_t sent = 0;
    enum train_trial trial = train_watch_next(&flow->watch);
    flow->blocked = false;
    while (sent < train) {
        if (flow->inflight_bytes + unit_bytes > flow->decision.inflight_cap_bytes) {
            flow->blocked = true;
            break;
        }
        send_unit(flow, true, trial, now_ns);
        sent += unit_bytes;
    }
    if (trial == TRAIN_TRIED_WHOLE)
        flow->delivery.whole_sent += sent / flow->datagram_bytes;
    if (!flow->config.unwatched)
        train_watch_note(&flow->watch, &flow->delivery, now_ns);
    flow->condemned |= flow->watch.verdict == TRAINS_VANISH;
    flow->next_send_ns = now_ns + sent * 8 * NS_PER_S / rate;
    if (flow->blocked && flow->next_send_ns <= now_ns)
        return now_ns + NS_PER_MS / 4; /* looks again soon, an ack wakes it sooner */
    return flow->next_send_ns;
}

static void settle_doubtful(struct flow *flow, uint64_t now_ns);

static uint64_t probe_due(const struct flow *flow)
{
    return flow->inflight_bytes > 0 ? flow->last_sent_ns + flow_probe_timeout(flow) : TIME_NEVER;
}

/* Two single packets ask for news when nothing was sent for a probe timeout. */
static void maybe_probe(struct flow *flow, uint64_t now_ns)
{
    if (now_ns < probe_due(flow))
        return;
    flow->last_probe_ns = now_ns;
    flow_send_unit(flow, now_ns);
    flow_send_unit(flow, now_ns);
}

uint64_t flow_send(struct flow *flow, uint64_t now_ns)
{
    settle_doubtful(flow, now_ns);
    if (flow->config.kind != FLOW_PETREL)
        return rival_send(flow, now_ns);
    if (flow->next_interval == 0)
        begin_interval(flow, now_ns);
    else
        maybe_turn_interval(flow, now_ns);
    if (source_is_idle(flow, now_ns)) {
        interval_at(flow, flow->next_interval - 1)->report.app_limited = true;
        return now_ns + NS_PER_MS;
    }
    maybe_probe(flow, now_ns);
    uint64_t next = now_ns < flow->next_send_ns ? flow->next_send_ns : send_paced(flow, now_ns);
    return next < probe_due(flow) ? next : probe_due(flow);
}

/* ---- Settling ---- */

static void count_delivery(struct flow *flow, const struct flow_unit *unit, uint32_t lost)
{
    struct lane_delivery *count = &flow->delivery;
    uint32_t acked = unit->packets - lost;
    count->acked += acked;
    count->lost += lost;
    if (unit->trial == TRAIN_TRIED_WHOLE) {
        count->whole_acked += acked;
        count->whole_lost += lost;
    } else if (unit->trial == TRAIN_TRIED_CUT) {
        count->cut_acked += acked;
        count->cut_lost += lost;
    }
}

static void settle(struct flow *flow, struct flow_unit *unit, uint32_t lost)
{
    unit->settled = true;
    uint64_t bytes = (uint64_t)unit->packets * flow->datagram_bytes;
    flow->inflight_bytes -= bytes;
    if (flow->config.kind != FLOW_PETREL || unit->interval == NO_INTERVAL)
        return;
    count_delivery(flow, unit, lost);
    if (unit->interval < flow->oldest_interval)
        return; /* it was not waited for */
    struct flow_interval *interval = interval_at(flow, unit->interval);
    interval->settled_packets += unit->packets;
    interval->report.delivered_packets += unit->packets - lost;
    interval->report.delivered_bytes += (uint64_t)(unit->packets - lost) * flow->datagram_bytes;
    interval->report.lost_packets += lost;
    interval->report.loss_events += unit->runs;
}

static void close_intervals(struct flow *flow, uint64_t now_ns)
{
    bool closed = false;
    while (flow->oldest_interval < flow->next_interval) {
        struct flow_interval *interval = interval_at(flow, flow->oldest_interval);
        struct rate_interval *report = &interval->report;
        bool settled = interval->settled_packets >= report->sent_packets;
        uint64_t patience = 4 * flow->srtt_ns + flow_probe_timeout(flow);
        if (!interval->ended || (!settled && now_ns < report->end_ns + patience))
            break;
        report->settled_ns = now_ns;
        report->outage |= !settled;
        if (interval->first_arrival_ns != 0 &&
            interval->last_arrival_ns > interval->first_arrival_ns)
            report->receiver_span_ns = interval->last_arrival_ns - interval->first_arrival_ns;
        if (interval->rtt_count > 0)
            report->rtt_mean_ns = interval->rtt_sum_ns / interval->rtt_count;
        rate_controller_on_interval(flow->controller, report, now_ns);
        flow->oldest_interval++;
        closed = true;
    }
    if (closed)
        decide(flow);
}

/* Losses are believed RTT/8 after an ack showed three later packets. */
static void settle_doubtful(struct flow *flow, uint64_t now_ns)
{
    bool advancing = true;
    for (uint64_t number = flow->oldest_unit; number < flow->ack_unit; number++) {
        struct flow_unit *unit = unit_at(flow, number);
        if (!unit->settled && unit->lost_due_ns != 0 && unit->lost_due_ns <= now_ns) {
            uint32_t lost = unit->acked ? unit->lost : unit->packets;
            if (!unit->acked && unit->arrives_ns != TIME_NEVER)
                flow->spurious_packets += unit->packets - unit->lost;
            settle(flow, unit, lost);
            if (flow->config.kind != FLOW_PETREL)
                rival_on_loss(flow, number);
        }
        advancing = advancing && unit->settled;
        if (advancing)
            flow->oldest_unit = number + 1;
        if (!advancing && unit->lost_due_ns > now_ns)
            break; /* the rest is younger */
    }
    if (flow->config.kind == FLOW_PETREL)
        close_intervals(flow, now_ns);
}

/* The receiver's clock at the ends of intervals, interpolated between acks. */
static void note_arrivals(struct flow *flow, uint64_t unit_before, uint64_t before_ns,
                          uint64_t unit_now, uint64_t now_ns)
{
    for (uint64_t id = flow->oldest_interval; id < flow->next_interval; id++) {
        struct flow_interval *interval = interval_at(flow, id);
        uint64_t first = interval->first_unit;
        uint64_t last = interval->end_unit == UINT64_MAX ? UINT64_MAX : interval->end_unit - 1;
        double slope = (double)(now_ns - before_ns) / (double)(unit_now - unit_before);
        if (first > unit_before && first <= unit_now)
            interval->first_arrival_ns =
                before_ns + (uint64_t)(slope * (double)(first - unit_before));
        if (last > unit_before && last <= unit_now)
            interval->last_arrival_ns =
                before_ns + (uint64_t)(slope * (double)(last - unit_before));
    }
}

static uint64_t note_rtt(struct flow *flow, struct flow_unit *unit, uint64_t now_ns)
{
    uint64_t rtt = unit->arrives_ns + flow->path->config.rtt_ns / 2 - unit->sent_ns;
    flow->srtt_ns = flow->srtt_ns - flow->srtt_ns / 8 + rtt / 8;
    if (flow->config.kind != FLOW_PETREL)
        return rtt;
    bool known = unit->interval != NO_INTERVAL && unit->interval >= flow->oldest_interval;
    uint64_t id = known ? unit->interval : flow->oldest_interval;
    struct flow_interval *interval = interval_at(flow, id);
    interval->rtt_sum_ns += rtt;
    interval->rtt_count++;
    if (interval->report.rtt_min_ns == 0 || rtt < interval->report.rtt_min_ns)
        interval->report.rtt_min_ns = rtt;
    rate_controller_on_rtt(flow->controller, rtt, now_ns);
    decide(flow);
    return rtt;
}

/* After long silence the open intervals tell of an outage, not of the rate. */
static void note_silence(struct flow *flow, uint64_t now_ns)
{
    if (now_ns - flow->last_ack_ns <= 2 * flow->srtt_ns + SILENCE_LEAST_NS)
        return;
    uint64_t limit = flow->oldest_interval + FLOW_INTERVALS;
    for (uint64_t id = flow->oldest_interval; id < flow->next_interval && id < limit; id++)
        interval_at(flow, id)->report.outage = true;
}

void flow_ack(struct flow *flow, uint64_t made_ns, uint64_t now_ns)
{
    uint64_t before = flow->ack_unit, newly = 0, largest = UINT64_MAX, rtt_ns = flow->srtt_ns;
    uint64_t earliest = flow->path->config.rtt_ns / 2;
    for (uint64_t number = flow->oldest_unit; number < flow->next_unit; number++) {
        struct flow_unit *unit = unit_at(flow, number);
        if (unit->sent_ns + earliest > made_ns)
            break;
        if (unit->settled || unit->acked || unit->arrives_ns > made_ns)
            continue;
        unit->acked = true;
        newly += unit->packets - unit->lost;
        largest = number;
        if (unit->lost == 0)
            settle(flow, unit, 0);
    }
    if (largest == UINT64_MAX)
        return;
    if (flow->config.kind == FLOW_PETREL && flow->oldest_interval < flow->next_interval)
        note_silence(flow, now_ns);
    flow->last_ack_ns = now_ns;
    flow->delivered_bytes += newly * flow->datagram_bytes;
    bucket_at(flow, now_ns)->acked_bytes += newly * flow->datagram_bytes;
    if (largest >= before) {
        struct flow_unit *top = unit_at(flow, largest);
        if (flow->config.kind == FLOW_PETREL && before > 0 &&
            flow->ack_arrival_ns < top->arrives_ns)
            note_arrivals(flow, before - 1, flow->ack_arrival_ns, largest, top->arrives_ns);
        flow->ack_unit = largest + 1;
        flow->ack_arrival_ns = top->arrives_ns;
        rtt_ns = note_rtt(flow, top, now_ns);
    }
    uint64_t patience = flow->config.kind != FLOW_PETREL
                            ? 1
                            : clamp_u64(flow->path->config.rtt_ns / 8, NS_PER_MS, UINT64_MAX);
    uint64_t distance = (3 + flow->config.unit_packets - 1) / flow->config.unit_packets;
    for (uint64_t number = flow->oldest_unit; number + distance < flow->ack_unit; number++) {
        struct flow_unit *unit = unit_at(flow, number);
        if (!unit->settled && unit->lost_due_ns == 0)
            unit->lost_due_ns = now_ns + patience;
    }
    if (flow->config.kind != FLOW_PETREL)
        rival_on_ack(flow, (uint32_t)newly, unit_at(flow, largest), rtt_ns, now_ns);
    settle_doubtful(flow, now_ns);
}
