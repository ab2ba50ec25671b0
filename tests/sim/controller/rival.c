#include "rival.h"

#include "flow.h"

#define CUBIC_C 0.4
#define CUBIC_BETA 0.7
#define BBR_HIGH_GAIN 2.885
#define BBR_WINDOW_GAIN 2.0
#define BBR_MARGIN 0.99
#define BBR_RTT_AGE_NS (10 * NS_PER_S)
#define BBR_PROBE_NS (200 * NS_PER_MS)
#define BBR_PHASES 8u

static uint64_t unit_bytes(const struct flow *flow)
{
    return (uint64_t)flow->config.unit_packets * flow->datagram_bytes;
}

/* After a silence of two probe timeouts something has to ask. */
static bool probe(struct flow *flow, uint64_t now_ns)
{
    uint64_t patience = 2 * flow_probe_timeout(flow);
    if (now_ns - flow->last_ack_ns <= patience || now_ns - flow->last_probe_ns <= patience)
        return false;
    flow->last_probe_ns = now_ns;
    flow_send_unit(flow, now_ns);
    flow_send_unit(flow, now_ns);
    return true;
}

/* ---- CUBIC ---- */

static uint64_t cubic_send(struct flow *flow, uint64_t now_ns)
{
    double window = flow->cubic.window * flow->datagram_bytes;
    double shaped = flow->config.source_bps == 0
                        ? 1e18
                        : (double)flow->config.source_bps *
                              (double)(now_ns - flow->config.start_ns + 5 * NS_PER_MS) / 8e9;
    while ((double)(flow->inflight_bytes + unit_bytes(flow)) <= window &&
           (double)(flow->next_unit * unit_bytes(flow)) < shaped)
        flow_send_unit(flow, now_ns);
    if (probe(flow, now_ns))
        flow->cubic.window = 4;
    return now_ns + (flow->config.source_bps == 0 ? 10 : 1) * NS_PER_MS; /* acks call sooner */
}

static void cubic_on_loss(struct flow *flow, uint64_t number)
{
    struct cubic *cubic = &flow->cubic;
    if (cubic->in_recovery && number < cubic->recover_unit)
        return;
    cubic->in_recovery = true;
    cubic->recover_unit = flow->next_unit;
    cubic->maximum = cubic->window;
    cubic->window *= CUBIC_BETA;
    if (cubic->window < 4)
        cubic->window = 4;
    cubic->threshold = cubic->window;
    cubic->epoch_start_s = -1;
}

static double cube_root(double value)
{
    double root = value > 1 ? value / 3 : 1;
    for (int i = 0; i < 60; i++)
        root = root - (root * root * root - value) / (3 * root * root);
    return root;
}

static void cubic_on_ack(struct flow *flow, uint32_t packets, uint64_t rtt_ns, uint64_t now_ns)
{
    struct cubic *cubic = &flow->cubic;
    double now_s = (double)now_ns / 1e9;
    if (cubic->window < cubic->threshold) {
        uint64_t floor = flow->path->config.rtt_ns, slack = floor / 8;
        slack = slack < 4 * NS_PER_MS ? 4 * NS_PER_MS : slack;
        slack = slack > 16 * NS_PER_MS ? 16 * NS_PER_MS : slack;
        if (rtt_ns > floor + slack && cubic->window > 16)
            cubic->threshold = cubic->window;
        cubic->window += packets;
        return;
    }
    if (cubic->epoch_start_s < 0 || cubic->k == 0) {
        cubic->epoch_start_s = now_s;
        if (cubic->maximum < cubic->window)
            cubic->maximum = cubic->window;
        cubic->k = cube_root((cubic->maximum - cubic->window) / CUBIC_C) + 1e-9;
    }
    double t = now_s - cubic->epoch_start_s + (double)rtt_ns / 1e9 - cubic->k;
    double target = CUBIC_C * t * t * t + cubic->maximum;
    if (target > cubic->window)
        cubic->window += packets * (target - cubic->window) / cubic->window;
    else
        cubic->window += packets * 0.01 / cubic->window;
    /* The TCP-friendly region: one packet each RTT and a bit over half. */
    cubic->window += target > cubic->window ? 0 : packets * 0.53 / cubic->window;
}

/* ---- BBR ---- */

static double bbr_rate(const struct flow *flow)
{
    double best = 0;
    for (unsigned i = 0; i < BBR_ROUNDS; i++)
        best = flow->bbr.best_bps[i] > best ? flow->bbr.best_bps[i] : best;
    /* Before the first sample: ten packets a round trip. */
    return best > 0 ? best : 80.0 * flow->datagram_bytes * 1e9 / (double)flow->bbr.rtt_min_ns;
}

static double bbr_gain(const struct flow *flow)
{
    const struct bbr *bbr = &flow->bbr;
    switch (bbr->state) {
    case BBR_STARTUP:
        return BBR_HIGH_GAIN;
    case BBR_DRAIN:
        return 1 / BBR_HIGH_GAIN;
    case BBR_PROBE_BW:
        return bbr->phase == 0 ? 1.25 : bbr->phase == 1 ? 0.75 : 1;
    case BBR_PROBE_RTT:
        break;
    }
    return 1;
}

static double bbr_window(const struct flow *flow)
{
    const struct bbr *bbr = &flow->bbr;
    if (bbr->state == BBR_PROBE_RTT)
        return 4.0 * (double)unit_bytes(flow);
    double gain =
        bbr->state == BBR_STARTUP || bbr->state == BBR_DRAIN ? BBR_HIGH_GAIN : BBR_WINDOW_GAIN;
    double product = bbr_rate(flow) * (double)bbr->rtt_min_ns / 8e9;
    double acks = bbr_rate(flow) * (double)flow->ack_interval_ns / 8e9;
    return gain * product + acks + 6.0 * (double)unit_bytes(flow);
}

static uint64_t bbr_send(struct flow *flow, uint64_t now_ns)
{
    double rate = BBR_MARGIN * bbr_gain(flow) * bbr_rate(flow);
    if (now_ns < flow->next_send_ns)
        return flow->next_send_ns;
    uint64_t sent = 0, train = (uint64_t)(rate / 8 / 1000); /* a millisecond, as TSO autosizing */
    flow->blocked = false;
    while (sent == 0 || sent + unit_bytes(flow) <= train) {
        if ((double)(flow->inflight_bytes + unit_bytes(flow)) > bbr_window(flow)) {
            flow->blocked = true;
            break;
        }
        flow_send_unit(flow, now_ns);
        sent += unit_bytes(flow);
    }
    probe(flow, now_ns);
    flow->next_send_ns = now_ns + (uint64_t)((double)sent * 8e9 / rate);
    return sent > 0 ? flow->next_send_ns : now_ns + NS_PER_MS;
}

static void bbr_note_rate(struct flow *flow, const struct flow_unit *top, uint64_t now_ns)
{
    struct bbr *bbr = &flow->bbr;
    uint64_t span_ns = now_ns - top->delivered_at_ns;
    if (top->delivered_before >= bbr->round_ends_delivered) {
        bbr->round_ends_delivered = flow->delivered_bytes;
        bbr->best_bps[++bbr->round % BBR_ROUNDS] = 0;
        if (bbr_rate(flow) >= 1.25 * bbr->full_bps) {
            bbr->full_bps = bbr_rate(flow);
            bbr->full_rounds = 0;
        } else if (++bbr->full_rounds >= 3) {
            bbr->filled = true;
        }
    }
    if (span_ns < bbr->rtt_min_ns / 2)
        return;
    double bps = (double)(flow->delivered_bytes - top->delivered_before) * 8e9 / (double)span_ns;
    double *best = &bbr->best_bps[bbr->round % BBR_ROUNDS];
    *best = bps > *best ? bps : *best;
}

static void bbr_turn_phase(struct flow *flow, uint64_t now_ns)
{
    struct bbr *bbr = &flow->bbr;
    double product = bbr_rate(flow) * (double)bbr->rtt_min_ns / 8e9;
    bool due = now_ns - bbr->phase_at_ns > bbr->rtt_min_ns;
    if (bbr->phase == 0)
        due = due && (double)flow->inflight_bytes >= 1.25 * product;
    else if (bbr->phase == 1)
        due = due || (double)flow->inflight_bytes <= product;
    if (due) {
        bbr->phase = (bbr->phase + 1) % BBR_PHASES;
        bbr->phase_at_ns = now_ns;
    }
}

static void bbr_turn(struct flow *flow, uint64_t now_ns)
{
    struct bbr *bbr = &flow->bbr;
    double product = bbr_rate(flow) * (double)bbr->rtt_min_ns / 8e9;
    if (bbr->state != BBR_PROBE_RTT && now_ns - bbr->rtt_min_at_ns > BBR_RTT_AGE_NS) {
        bbr->state = BBR_PROBE_RTT;
        bbr->probe_until_ns = now_ns + BBR_PROBE_NS + bbr->rtt_min_ns;
        bbr->rtt_min_ns = UINT64_MAX / 4;
    }
    if (bbr->state == BBR_STARTUP && bbr->filled)
        bbr->state = BBR_DRAIN;
    if (bbr->state == BBR_DRAIN && (double)flow->inflight_bytes <= product) {
        bbr->state = BBR_PROBE_BW;
        bbr->phase = 2 + flow->index % 6;
        bbr->phase_at_ns = now_ns;
    }
    if (bbr->state == BBR_PROBE_BW)
        bbr_turn_phase(flow, now_ns);
    if (bbr->state == BBR_PROBE_RTT && now_ns >= bbr->probe_until_ns) {
        bbr->rtt_min_at_ns = now_ns;
        bbr->state = bbr->filled ? BBR_PROBE_BW : BBR_STARTUP;
        bbr->phase = 2;
        bbr->phase_at_ns = now_ns;
    }
}

static void bbr_on_ack(struct flow *flow, const struct flow_unit *top, uint64_t rtt_ns,
                       uint64_t now_ns)
{
    struct bbr *bbr = &flow->bbr;
    if (rtt_ns <= bbr->rtt_min_ns) {
        bbr->rtt_min_ns = rtt_ns;
        bbr->rtt_min_at_ns = now_ns;
    }
    bbr_note_rate(flow, top, now_ns);
    bbr_turn(flow, now_ns);
}

/* ---- either ---- */

void rival_init(struct flow *flow)
{
    flow->cubic = (struct cubic){.window = 10, .threshold = 1e12};
    flow->bbr = (struct bbr){.rtt_min_ns = flow->path->config.rtt_ns,
                             .rtt_min_at_ns = flow->config.start_ns};
}

uint64_t rival_send(struct flow *flow, uint64_t now_ns)
{
    return flow->config.kind == FLOW_BBR ? bbr_send(flow, now_ns) : cubic_send(flow, now_ns);
}

void rival_on_ack(struct flow *flow, uint32_t packets, const struct flow_unit *top, uint64_t rtt_ns,
                  uint64_t now_ns)
{
    if (flow->config.kind == FLOW_BBR)
        bbr_on_ack(flow, top, rtt_ns, now_ns);
    else
        cubic_on_ack(flow, packets, flow->srtt_ns, now_ns);
}

void rival_on_loss(struct flow *flow, uint64_t unit_number)
{
    if (flow->config.kind == FLOW_CUBIC)
        cubic_on_loss(flow, unit_number);
}
