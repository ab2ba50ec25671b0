#include "transport/rate_controller.h"

#include <math.h>
#include <stdlib.h>

#include "base/units.h"
#include "transport/rate_state.h"

#define PACING_MARGIN 0.995 /* what is paced stays a little under what is believed */
#define CAP_MARGIN 1.15
#define INTERVAL_MIN_S 0.005
#define PACKETS_FEW 12.0
#define PACKETS_WAITING 8.0
#define PACKETS_MANY 120.0
#define BASE_RTT_WINDOW_NS (10 * NS_PER_S)
#define BURST_EVENTS 60.0
#define DEEPEST_WINDOW_NS (15 * NS_PER_S)
#define DEEPEST_LEAST_S 0.001
#define BRIM_SHORT 0.25  /* round trips: a queue that can hold more needs no care */
#define BRIM_SHARE 0.3   /* of a shorter one that overflows may be filled */
#define BRIM_LEAST 0.25  /* of the target as it is elsewhere */
#define BRIM_NEAR 0.8    /* of the longest queue of late */
#define BRIM_EXCESS 0.02 /* of loss, over the ambient one */
#define BRIM_WINDOW_NS (20 * NS_PER_S)
#define JITTER_WEIGHT (1.0 / 16)
#define JITTER_STEPS 3.0     /* an even jitter of J makes steps of J/6 each way */
#define STRAGGLE_MOST_S 0.25 /* and a round trip */
#define STRAGGLE_JITTERS 6.0
#define STRAGGLE_WEIGHT 0.1
#define REST_JITTERS 4.0
#define TRIED_MORE 1.02
#define DROOP_MOST 0.3
#define DROOP 0.4 /* share of the queue over target that is drained per loop time */

double rate_clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

double rate_rtt_s(const struct rate_controller *c)
{
    return seconds(c->base_rtt_ns);
}

/* At a low rate a few packets alone are a queue of milliseconds. */
double rate_queue_target_s(const struct rate_controller *c)
{
    double packets = 4.0 * 8.0 * c->config.datagram_bytes / c->base_bps;
    double most = c->config.policy == RATE_BACKGROUND ? 0.015 : 0.025;
    double target = rate_clamp(rate_rtt_s(c) / 8, 0.004, most);
    if (c->brim_s > 0 && c->brim_s < BRIM_SHORT * rate_rtt_s(c))
        target = rate_clamp(BRIM_SHARE * c->brim_s, BRIM_LEAST * target, target);
    return target > packets ? target : packets;
}

static double rest_s(const struct rate_controller *c)
{
    double most = REST_JITTERS * c->jitter_s;
    return c->rest_s < most ? c->rest_s : most;
}

double rate_still_rtt_s(const struct rate_controller *c)
{
    double strong = c->jitter_s / rate_queue_target_s(c) - 0.5;
    return rate_rtt_s(c) + rate_clamp(strong, 0, 1) * rest_s(c);
}

double rate_queue_limit_s(const struct rate_controller *c, double targets)
{
    double rest = rest_s(c);
    return targets * rate_queue_target_s(c) + (rest > c->jitter_s ? rest : c->jitter_s);
}

/* Under jitter the least RTT of ten seconds is a rare stroke of luck, which every interval misses
 * by about as much. */
void rate_rest(struct rate_controller *c, const struct rate_sample *sample, double weight)
{
    if (sample->queue_s >= 0)
        c->rest_s += weight * (sample->queue_s - c->rest_s);
}

double rate_ack_interval_s(const struct rate_controller *c)
{
    return rate_clamp(rate_rtt_s(c) / 8, 0.001, 0.010);
}

double rate_queue_now_s(const struct rate_controller *c)
{
    uint64_t least = c->recent_min_ns < c->recent_last_ns ? c->recent_min_ns : c->recent_last_ns;
    return least > c->base_rtt_ns && least != UINT64_MAX ? seconds(least - c->base_rtt_ns) : 0;
}

double rate_sigma(const struct rate_controller *c, double loss, double packets)
{
    double p = loss > c->ambient ? loss : c->ambient;
    if (p < 0.001)
        p = 0.001;
    return packets > 0 ? sqrt(p * (2 * c->burst - 1) / packets) : 1; /* geometric runs */
}

double rate_floor_bps(const struct rate_controller *c)
{
    double floor = 16.0 * c->config.datagram_bytes / rate_rtt_s(c);
    floor = rate_clamp(floor, RATE_MIN_BPS, RATE_FLOOR_MOST_BPS);
    double limit = (double)c->config.limit_bps;
    return limit != 0 && limit < floor ? limit : floor;
}

void rate_set_base(struct rate_controller *c, double bps)
{
    if (c->config.limit_bps != 0 && bps > (double)c->config.limit_bps)
        bps = (double)c->config.limit_bps;
    bps = rate_clamp(bps, rate_floor_bps(c), RATE_MAX_BPS);
    if (bps <= 0.97 * c->base_bps)
        c->epoch++;
    c->base_bps = bps;
}

void rate_tally_add(struct rate_tally *tally, const struct rate_sample *sample)
{
    if (tally->packets == 0)
        tally->since_ns = sample->plan.begun_ns;
    tally->packets += sample->packets;
    tally->lost += sample->lost;
    tally->events += sample->events;
    tally->bits += sample->sent_bps * sample->seconds;
    tally->seconds += sample->seconds;
}

bool rate_tally_speaks(const struct rate_controller *c, const struct rate_tally *tally)
{
    double rtt = rate_rtt_s(c) > INTERVAL_MIN_S ? rate_rtt_s(c) : INTERVAL_MIN_S;
    return tally->packets > 0 && (tally->events >= 25 || tally->seconds >= 5.5 * rtt);
}

/* ---- RTT ---- */

static void note_base_rtt(struct rate_controller *c, uint64_t rtt_ns, uint64_t now_ns)
{
    if (rtt_ns < c->newer_min_ns)
        c->newer_min_ns = rtt_ns;
    if (now_ns - c->window_at_ns > BASE_RTT_WINDOW_NS / 2) {
        c->older_min_ns = c->newer_min_ns;
        c->newer_min_ns = rtt_ns;
        c->window_at_ns = now_ns;
    }
    uint64_t least = c->older_min_ns < c->newer_min_ns ? c->older_min_ns : c->newer_min_ns;
    if (rtt_ns <= c->base_rtt_ns + c->base_rtt_ns / 32)
        c->base_rtt_at_ns = now_ns;
    c->base_rtt_ns = least;
}

/* Queues rise for a while and fall for a while; jitter does both at once. */
static void note_jitter(struct rate_controller *c, uint64_t rtt_ns)
{
    if (c->last_rtt_ns != 0) {
        double step = ((double)rtt_ns - (double)c->last_rtt_ns) / 1e9;
        double weight = 1.0 / (double)++c->rtt_count;
        weight = weight > JITTER_WEIGHT ? weight : JITTER_WEIGHT;
        c->rise_s += weight * ((step > 0 ? step : 0) - c->rise_s);
        c->fall_s += weight * ((step < 0 ? -step : 0) - c->fall_s);
        c->jitter_s = JITTER_STEPS * (c->rise_s < c->fall_s ? c->rise_s : c->fall_s);
    }
    c->last_rtt_ns = rtt_ns;
}

/* The longest queue of the last half minute or so. */
static void note_deepest(struct rate_controller *c, uint64_t now_ns)
{
    double queue = rate_queue_now_s(c);
    if (queue > c->deepest_s)
        c->deepest_s = queue;
    if (queue > c->deepest_next_s)
        c->deepest_next_s = queue;
    if (now_ns - c->deepest_at_ns > DEEPEST_WINDOW_NS) {
        c->deepest_s = c->deepest_next_s;
        c->deepest_next_s = queue;
        c->deepest_at_ns = now_ns;
    }
}

/* Where what was lost too much met a queue as long as it has ever been of late, or one that grew to
 * that within the interval, the path holds no more than that. */
void rate_note_brim(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    if (c->brim_s > 0 && now_ns - c->brim_at_ns > BRIM_WINDOW_NS)
        c->brim_s = 0;
    if (s->queue_s < 0 || s->plan.waits || c->deepest_s < DEEPEST_LEAST_S + c->jitter_s)
        return;
    bool near = s->queue_mean_s > BRIM_NEAR * c->deepest_s ||
                2 * s->queue_mean_s - s->queue_s > c->deepest_s;
    double excess = s->loss - c->ambient;
    if (!near || excess < BRIM_EXCESS || excess < 3 * s->sigma)
        return;
    c->brim_s = c->deepest_s;
    c->brim_at_ns = now_ns;
}

bool rate_queue_is_full(const struct rate_controller *c, double queue_s)
{
    double full = 0.6 * c->deepest_s;
    bool deep = c->deepest_s > DEEPEST_LEAST_S + c->jitter_s;
    return queue_s > rate_queue_limit_s(c, 1) || (deep && queue_s > full);
}

void rate_controller_on_rtt(struct rate_controller *c, uint64_t rtt_ns, uint64_t now_ns)
{
    if (rtt_ns == 0)
        return;
    note_base_rtt(c, rtt_ns, now_ns);
    note_jitter(c, rtt_ns);
    uint64_t window = (uint64_t)(rate_loop_s(c) * 1e9 / 2);
    if (now_ns - c->recent_at_ns > window) {
        double grown = (double)c->recent_min_ns - (double)c->recent_last_ns;
        if (c->recent_last_ns != UINT64_MAX)
            rate_brake(c, grown / (double)(now_ns - c->recent_at_ns), now_ns);
        c->recent_last_ns = c->recent_min_ns;
        c->recent_min_ns = rtt_ns;
        c->recent_at_ns = now_ns;
    } else if (rtt_ns < c->recent_min_ns) {
        c->recent_min_ns = rtt_ns;
    }
    note_deepest(c, now_ns);
    if (c->state == PHASE_DRAIN)
        rate_drain_rtt(c, seconds(rtt_ns), now_ns);
}

static void rtt_anew(struct rate_controller *c, uint64_t rtt_ns, uint64_t now_ns)
{
    c->base_rtt_ns = c->newer_min_ns = rtt_ns;
    c->older_min_ns = UINT64_MAX;
    c->recent_min_ns = rtt_ns;
    c->recent_last_ns = UINT64_MAX;
    c->window_at_ns = c->recent_at_ns = c->base_rtt_at_ns = now_ns;
}

/* ---- Life ---- */

struct rate_controller *rate_controller_new(const struct rate_config *config, uint64_t now_ns)
{
    struct rate_controller *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->config = *config;
    random_seed(&c->random, config->seed);
    c->burst_lost = 3; /* 1.5 to begin with */
    c->burst_events = 2;
    c->burst = 1.5;
    rtt_anew(c, config->rtt_ns > 0 ? config->rtt_ns : 1, now_ns);
    c->newer_min_ns = UINT64_MAX; /* it may be a guess: the first sample takes its place */
    if (config->fixed_bps != 0) {
        c->state = PHASE_FIXED;
        c->fixed.bps = (double)config->fixed_bps;
        rate_set_base(c, c->fixed.bps);
    } else {
        rate_startup_init(c, now_ns);
    }
    c->plan = (struct rate_plan){.phase = c->state, .gain = 1, .base_bps = c->base_bps};
    return c;
}

void rate_controller_free(struct rate_controller *c)
{
    free(c);
}

void rate_controller_set_datagram(struct rate_controller *c, uint32_t datagram_bytes)
{
    if (datagram_bytes != 0)
        c->config.datagram_bytes = datagram_bytes;
}

void rate_controller_set_limit(struct rate_controller *c, uint64_t limit_bps)
{
    c->config.limit_bps = limit_bps;
    if (limit_bps != 0 && c->base_bps > (double)limit_bps)
        rate_set_base(c, (double)limit_bps);
}

void rate_controller_on_new_path(struct rate_controller *c, uint64_t now_ns)
{
    rtt_anew(c, c->base_rtt_ns, now_ns);
    c->newer_min_ns = UINT64_MAX;
    c->ambient = 0;
    c->ambient_known = false;
    c->path_class = PATH_UNKNOWN;
    c->config.remembered = (struct rate_memory){0};
    c->history = (struct rate_history){0};
    c->brim_s = 0;
    if (c->state == PHASE_FIXED)
        return;
    if (c->state == PHASE_STARTUP) {
        c->epoch++;
        rate_startup_init(c, now_ns);
        return;
    }
    rate_set_base(c, c->base_bps / 2);
    rate_cycle_enter(c, now_ns);
}

void rate_controller_on_more_lanes(struct rate_controller *c, uint64_t now_ns)
{
    if (c->state != PHASE_CRUISE)
        return;
    rate_answer_forget(c);
    if (c->path_class == PATH_SHALLOW)
        c->path_class = PATH_UNKNOWN;
    rate_raise_soon(c, now_ns);
}

bool rate_controller_is_settled(const struct rate_controller *c)
{
    return c->state == PHASE_CRUISE;
}

/* ---- Plans ---- */

void rate_controller_begin_interval(struct rate_controller *c, uint64_t id, uint64_t now_ns)
{
    struct rate_plan plan = {.id = id, .begun_ns = now_ns, .phase = c->state, .gain = 1};
    if (c->state == PHASE_STARTUP)
        rate_startup_plan(c, &plan, now_ns);
    if (c->state == PHASE_CRUISE) {
        rate_cycle_plan(c, &plan, now_ns);
        rate_memory_note(c, now_ns);
    }
    plan.base_bps = c->base_bps;
    plan.epoch = c->epoch;
    c->plan = plan;
    c->plans[id % RATE_PLANS] = plan;
}

static double interval_s(const struct rate_controller *c)
{
    if (c->state == PHASE_STARTUP)
        return rate_startup_interval_s(c);
    double rtt = rate_still_rtt_s(c);
    if (c->plan.waits)
        rtt /= 4;
    rtt = rtt > INTERVAL_MIN_S ? rtt : INTERVAL_MIN_S;
    return c->plan.loops > 1 ? rtt * c->plan.loops : rtt;
}

/* Loss needs many packets to say something; delay needs few. */
static double interval_packets(const struct rate_controller *c, double pacing_bps)
{
    if (c->state == PHASE_STARTUP)
        return rate_startup_interval_packets(c);
    if (c->plan.waits)
        return PACKETS_WAITING;
    double packets = PACKETS_FEW;
    if (c->path_class != PATH_QUEUE && c->ambient > 0.002) {
        double stretch = c->burst * (20 * c->ambient < 1 ? 20 * c->ambient : 1);
        packets = PACKETS_MANY * (stretch > 1 ? stretch : 1);
    }
    double rtt = rate_rtt_s(c) > INTERVAL_MIN_S ? rate_rtt_s(c) : INTERVAL_MIN_S;
    double longest = 6 * rtt * pacing_bps / 8 / c->config.datagram_bytes;
    return packets < longest ? packets : longest;
}

/* A queue over half the target is drained by pacing below the believed rate, in proportion; the
 * belief itself is not touched, so nothing winds up. */
static double droop(const struct rate_controller *c)
{
    if (c->state != PHASE_CRUISE || c->plan.phase == PHASE_UP || c->cycle.competing ||
        c->recent_at_ns < c->droop_from_ns)
        return 1;
    double over = rate_queue_now_s(c) - rate_queue_limit_s(c, 0.5);
    double loop = rate_rtt_s(c) * 1.5 + rate_ack_interval_s(c) + INTERVAL_MIN_S / 2;
    return over > 0 ? 1 - rate_clamp(DROOP * over / loop, 0, DROOP_MOST) : 1;
}

static double pacing_rate(const struct rate_controller *c)
{
    switch (c->state) {
    case PHASE_STARTUP:
        return rate_startup_pacing_bps(c);
    case PHASE_FIXED:
        return c->base_bps;
    case PHASE_DRAIN:
        return c->base_bps * c->drain_gain;
    default:
        break;
    }
    bool at_limit = c->config.limit_bps != 0 && c->base_bps >= 0.999 * (double)c->config.limit_bps;
    return c->base_bps * c->plan.gain * droop(c) * (at_limit ? 1 : PACING_MARGIN);
}

/* Acks tell of what came first. Where packets overtake each other many come long after that, and
 * are in flight until then. */
static void note_straggling(struct rate_controller *c, const struct rate_interval *interval)
{
    uint64_t passed_ns = interval->settled_ns - interval->end_ns;
    double late =
        seconds(passed_ns > interval->rtt_mean_ns ? passed_ns - interval->rtt_mean_ns : 0);
    double most = rate_rtt_s(c) + STRAGGLE_MOST_S;
    if (interval->rtt_mean_ns != 0)
        c->straggle_s += STRAGGLE_WEIGHT * ((late < most ? late : most) - c->straggle_s);
}

/* What may be unacknowledged: the path, the queue allowed, and what waits for an ack to be made or
 * for a loss to be believed. */
static double inflight_cap(const struct rate_controller *c, double pacing_bps)
{
    double rtt = rate_still_rtt_s(c), slack = 2 * rate_ack_interval_s(c) + 0.001;
    /* A queue that grows within an interval looks the same, but makes no jitter. */
    slack = rate_clamp(c->straggle_s, slack, slack + STRAGGLE_JITTERS * c->jitter_s);
    double bps = c->base_bps;
    double hold = rtt + 2 * rate_queue_target_s(c) + slack;
    if (c->state == PHASE_STARTUP || c->state == PHASE_FIXED) {
        bps = c->state == PHASE_STARTUP ? rate_startup_most_bps(c) : pacing_bps;
        hold = 2 * rtt + slack;
    } else if (c->state == PHASE_DRAIN) {
        hold = 4 * rtt + slack; /* losses not yet known fill it; the rate alone drains */
    } else if (c->cycle.competing && hold < 2 * rtt + slack) {
        hold = 2 * rtt + slack;
    }
    if (c->state == PHASE_CRUISE && c->cycle.up_pending)
        bps *= c->cycle.cap_gain;
    double bytes = bps * hold * CAP_MARGIN / 8;
    double least = 10.0 * c->config.datagram_bytes;
    return bytes > least ? bytes : least;
}

void rate_controller_decide(const struct rate_controller *c, struct rate_decision *decision)
{
    double pacing = pacing_rate(c);
    if (c->config.limit_bps != 0 && pacing > (double)c->config.limit_bps)
        pacing = (double)c->config.limit_bps;
    pacing = rate_clamp(pacing, rate_floor_bps(c), RATE_MAX_BPS);
    decision->pacing_bps = (uint64_t)pacing;
    decision->base_bps = (uint64_t)c->base_bps;
    decision->inflight_cap_bytes = (uint64_t)inflight_cap(c, pacing);
    decision->interval_ns = (uint64_t)(interval_s(c) * 1e9);
    decision->interval_packets = (uint64_t)interval_packets(c, pacing);
    decision->mark_interval = c->state == PHASE_STARTUP;
}

/* ---- Measures ---- */

static struct rate_sample measure(const struct rate_controller *c, const struct rate_plan *plan,
                                  const struct rate_interval *interval)
{
    struct rate_sample s = {.plan = *plan, .queue_s = -1, .queue_mean_s = -1};
    s.seconds = seconds(interval->end_ns - interval->start_ns);
    if (s.seconds <= 0)
        s.seconds = 1e-9;
    s.packets = (double)interval->sent_packets;
    s.lost = (double)interval->lost_packets;
    s.events = (double)interval->loss_events;
    s.loss = s.lost / s.packets;
    s.sigma = rate_sigma(c, s.loss, s.packets);
    s.sent_bps = (double)interval->sent_bytes * 8 / s.seconds;
    double span = seconds(interval->receiver_span_ns);
    if (span > 0 && interval->sent_packets > 1) {
        span *= s.packets / (s.packets - 1); /* first to last is one gap short */
        s.span_s = span;
    }
    s.delivered_bps = (double)interval->delivered_bytes * 8 / (span > s.seconds ? span : s.seconds);
    s.arrived_bps =
        s.span_s > 0 ? (double)interval->delivered_bytes * 8 / s.span_s : s.delivered_bps;
    if (interval->rtt_min_ns != 0) {
        s.queue_s = interval->rtt_min_ns > c->base_rtt_ns
                        ? seconds(interval->rtt_min_ns - c->base_rtt_ns)
                        : 0;
        s.queue_mean_s = interval->rtt_mean_ns > c->base_rtt_ns
                             ? seconds(interval->rtt_mean_ns - c->base_rtt_ns)
                             : 0;
    }
    return s;
}

/* Overflow has runs of its own, which say nothing of the path's. */
static void learn_burst(struct rate_controller *c, const struct rate_interval *interval,
                        const struct rate_sample *sample)
{
    if (sample->queue_s > rate_queue_limit_s(c, 1) || sample->plan.phase == PHASE_DRAIN ||
        sample->plan.phase == PHASE_UP || (c->state == PHASE_STARTUP && c->startup.poor > 0))
        return;
    c->burst_lost += (double)interval->lost_packets;
    c->burst_events += (double)interval->loss_events;
    if (c->burst_events > BURST_EVENTS) {
        c->burst_lost *= BURST_EVENTS / c->burst_events;
        c->burst_events = BURST_EVENTS;
    }
    double mean = c->burst_lost / c->burst_events;
    c->burst = mean > 1 ? mean : 1;
}

/* Under half arriving for 5 seconds is no lossy path but a wrong rate: fall to what arrives. */
static void fixed_sample(struct rate_controller *c, const struct rate_sample *s)
{
    if (s->loss < 0.5) {
        c->fixed.bad_s = 0;
        return;
    }
    c->fixed.bad_s += s->seconds;
    if (c->fixed.bad_s >= 5) {
        c->fixed.bad_s = 0;
        rate_set_base(c, s->delivered_bps);
    }
}

/* An interval that the sender itself could not fill says nothing of the path, unless it was to try
 * more and did try some. */
static bool says_nothing(const struct rate_plan *plan, const struct rate_interval *interval)
{
    if (interval->sent_packets == 0 || interval->outage)
        return true;
    if (!interval->app_limited)
        return false;
    double sent_s = seconds(interval->end_ns - interval->start_ns);
    return !(plan->probe || plan->phase == PHASE_UP) ||
           (double)interval->sent_bytes * 8 < TRIED_MORE * plan->base_bps * sent_s;
}

void rate_controller_on_interval(struct rate_controller *c, const struct rate_interval *interval,
                                 uint64_t now_ns)
{
    const struct rate_plan *plan = &c->plans[interval->id % RATE_PLANS];
    if (plan->id != interval->id)
        return;
    if (says_nothing(plan, interval) || rate_blind_interval(c, interval, now_ns)) {
        if (interval->app_limited && !interval->outage && interval->sent_packets > 0) {
            struct rate_sample unfilled = measure(c, plan, interval);
            rate_cycle_unfilled(c, &unfilled);
        }
        rate_cycle_void(c, plan);
        rate_startup_void(c, plan, now_ns);
        return;
    }
    note_straggling(c, interval);
    struct rate_sample sample = measure(c, plan, interval);
    learn_burst(c, interval, &sample);
    switch (c->state) {
    case PHASE_STARTUP:
        rate_startup_sample(c, &sample, now_ns);
        break;
    case PHASE_DRAIN:
        rate_drain_sample(c, &sample);
        break;
    case PHASE_FIXED:
        fixed_sample(c, &sample);
        break;
    default:
        rate_cycle_sample(c, &sample, now_ns);
        break;
    }
}

/* ---- Telling ---- */

const char *rate_controller_phase(const struct rate_controller *c)
{
    static const char *const names[] = {
        [PHASE_STARTUP] = "startup", [PHASE_DRAIN] = "drain", [PHASE_CRUISE] = "cruise",
        [PHASE_DOWN] = "down",       [PHASE_UP] = "up",       [PHASE_FIXED] = "fixed",
    };
    return names[c->state == PHASE_CRUISE ? c->plan.phase : c->state];
}

uint64_t rate_controller_base_rtt(const struct rate_controller *c)
{
    return c->base_rtt_ns;
}

double rate_controller_ambient_loss(const struct rate_controller *c)
{
    return c->ambient;
}
