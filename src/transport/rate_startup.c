/* STARTUP: the rate grows threefold a round trip while delivery follows it; DRAIN: the queue that
 * the last step left behind goes. Short intervals, judged over windows of half an RTT. */
#include "base/units.h"
#include "transport/rate_state.h"

#define FIRST_BPS 25e6
#define FIRST_PACKETS 64.0
#define FIRST_RTT_MIN_S 0.005 /* acks come no faster than feedback can be used */
#define GROWTH_FIRST 6.0      /* from the first flight, which is a guess at the low end */
#define GROWTH_EMPTY 3.2      /* per interval answered, while there is no queue */
#define GROWTH_QUEUED 2.0
#define FOLLOWS 0.8 /* of the best delivered share seen */
#define WINDOW_PACKETS_MIN 40.0
#define RATIO_LIKELY 0.65  /* no path worth using loses more than a third at a low rate */
#define BEYOND_MEMORY 1.25 /* the second step: a true memory shows as a short queue */
#define RATIO_LIKELY 0.65  /* no path worth using loses more than a third at a low rate */
#define REMEMBERED 0.75
#define LEAVE_LEAST_BPS 1e6
#define LEAVE_LEAST 0.4 /* of the best delivery seen */
#define EVENTS_FEW 8.0
#define HALVED_PACKETS 16.0 /* a loop: enough to see that they arrive again */

struct window {
    double seconds, span, packets, lost, events, sent_bits, delivered_bits;
    double queue_s; /* least; negative: unknown */
};

void rate_startup_init(struct rate_controller *c, uint64_t now_ns)
{
    double rtt = rate_rtt_s(c) > FIRST_RTT_MIN_S ? rate_rtt_s(c) : FIRST_RTT_MIN_S;
    double flight = FIRST_PACKETS * 8.0 * c->config.datagram_bytes / rtt;
    c->state = PHASE_STARTUP;
    c->startup = (struct rate_startup){.grown_ns = now_ns, .best_ratio = RATIO_LIKELY};
    c->startup.pacing_bps = flight > FIRST_BPS ? flight : FIRST_BPS;
    double remembered = rate_memory_first_bps(c);
    if (remembered > c->startup.pacing_bps) {
        c->startup.pacing_bps = remembered;
        c->startup.memory_bps = (double)c->config.remembered.rate_bps;
        c->startup.memory_use = MEMORY_TRIED;
    }
    c->base_bps = c->startup.first_bps = c->startup.pacing_bps;
}

void rate_startup_again(struct rate_controller *c, uint64_t now_ns)
{
    c->state = PHASE_STARTUP;
    c->epoch++;
    c->startup = (struct rate_startup){.grown_ns = now_ns,
                                       .best_ratio = RATIO_LIKELY,
                                       .pacing_bps = c->base_bps,
                                       .first_bps = c->base_bps,
                                       .memory_use = c->startup.memory_use};
}

void rate_startup_halve(struct rate_controller *c)
{
    double least = HALVED_PACKETS * 8.0 * c->config.datagram_bytes / rate_loop_s(c);
    if (c->base_bps <= least)
        return;
    rate_set_base(c, c->base_bps / 2 > least ? c->base_bps / 2 : least);
    c->startup.pacing_bps = c->base_bps;
}

double rate_startup_interval_s(const struct rate_controller *c)
{
    double eighth = rate_rtt_s(c) / 8;
    return eighth > 0.002 ? eighth : 0.002;
}

static const struct rate_sample *logged(const struct rate_startup *startup, unsigned back)
{
    return &startup->log[(startup->count - 1 - back) % RATE_STARTUP_LOG];
}

/* The newest samples that span `seconds` and at least `packets`. */
static struct window window_of(const struct rate_startup *startup, double seconds, double packets)
{
    struct window w = {.queue_s = -1};
    unsigned most = startup->count < RATE_STARTUP_LOG ? startup->count : RATE_STARTUP_LOG;
    for (unsigned back = 0; back < most && (w.seconds < seconds || w.packets < packets); back++) {
        const struct rate_sample *s = logged(startup, back);
        w.seconds += s->seconds;
        w.span += s->span_s > 0 ? s->span_s : s->seconds;
        w.packets += s->packets;
        w.lost += s->lost;
        w.events += s->events;
        w.sent_bits += s->sent_bps * s->seconds;
        w.delivered_bits += s->sent_bps * s->seconds * (1 - s->loss);
        if (s->queue_s >= 0 && (w.queue_s < 0 || s->queue_s < w.queue_s))
            w.queue_s = s->queue_s;
    }
    return w;
}

/* What arrived, over the longer of sending and receiving. A few runs of losses say nothing of the
 * rate: then as much is taken to arrive as ever did, and only the receiver's clock speaks. */
static double window_delivered(const struct rate_startup *startup, const struct window *w)
{
    double bits = w->delivered_bits, usual = w->sent_bits * startup->best_ratio;
    if (w->events < EVENTS_FEW && bits < usual && bits > usual / 2)
        bits = usual;
    return bits / (w->span > w->seconds ? w->span : w->seconds);
}

/* Loss at rates that the path certainly carried cannot be the rate's fault. */
static double loss_below(const struct rate_startup *startup, double bps, double *packets)
{
    double sent = 0, lost = 0;
    unsigned most = startup->count < RATE_STARTUP_LOG ? startup->count : RATE_STARTUP_LOG;
    for (unsigned back = 0; back < most; back++) {
        const struct rate_sample *s = logged(startup, back);
        if (s->sent_bps > bps)
            continue;
        sent += s->packets;
        lost += s->lost;
    }
    *packets = sent;
    return sent > 0 ? lost / sent : 0;
}

static void leave(struct rate_controller *c, const struct window *w, bool queued, uint64_t now_ns)
{
    double packets = 0, delivered = window_delivered(&c->startup, w);
    double loss = loss_below(&c->startup, 0.9 * delivered, &packets);
    if (packets >= WINDOW_PACKETS_MIN) {
        c->ambient = rate_clamp(loss, 0, 0.5);
        c->ambient_known = packets >= 2000;
    }
    if (queued)
        c->path_class = PATH_QUEUE;
    if (c->startup.memory_use == MEMORY_TRIED)
        c->startup.memory_use = MEMORY_FAILED;
    double least = LEAVE_LEAST * c->startup.grown_bps; /* a burst may have eaten the window */
    least = least > LEAVE_LEAST_BPS ? least : LEAVE_LEAST_BPS;
    c->epoch++;
    rate_set_base(c, (delivered > least ? delivered : least) / (1 - c->ambient));
    rate_drain_begin(c, now_ns);
}

static void grow(struct rate_controller *c, bool follows)
{
    struct rate_startup *startup = &c->startup;
    double span = rate_rtt_s(c) / 5, blur = rate_queue_limit_s(c, 0);
    struct window newest = window_of(startup, span > blur ? span : blur, 1);
    double carried = window_delivered(startup, &newest) / startup->best_ratio;
    double queue = rate_queue_now_s(c);
    if (!follows) {
        double least = LEAVE_LEAST * startup->grown_bps;
        least = least > LEAVE_LEAST_BPS ? least : LEAVE_LEAST_BPS;
        double next = 1.25 * (carried > least ? carried : least);
        if (startup->pacing_bps > next)
            startup->pacing_bps = next;
    } else if (queue < rate_queue_limit_s(c, 1)) {
        bool first = newest.sent_bits < 1.1 * startup->first_bps * newest.seconds;
        double growth = first ? GROWTH_FIRST : GROWTH_EMPTY;
        double next = carried * (queue < rate_queue_limit_s(c, 0.5) ? growth : GROWTH_QUEUED);
        if (newest.sent_bits < 1.1 * startup->memory_bps * newest.seconds)
            next = BEYOND_MEMORY * startup->memory_bps;
        if (startup->memory_use == MEMORY_TRIED)
            startup->memory_use = MEMORY_HELD;
        if (next > startup->pacing_bps)
            startup->pacing_bps = next;
    }
    if (c->config.limit_bps != 0 && startup->pacing_bps > (double)c->config.limit_bps)
        startup->pacing_bps = (double)c->config.limit_bps;
    startup->pacing_bps = rate_clamp(startup->pacing_bps, rate_floor_bps(c), RATE_MAX_BPS);
    c->base_bps = startup->pacing_bps; /* no epoch: what was sent before still counts */
}

void rate_startup_sample(struct rate_controller *c, const struct rate_sample *sample,
                         uint64_t now_ns)
{
    struct rate_startup *startup = &c->startup;
    if (sample->plan.epoch != c->epoch)
        return;
    startup->log[startup->count++ % RATE_STARTUP_LOG] = *sample;
    if (sample->sent_bps < 1.1 * startup->first_bps && sample->queue_s >= 0)
        rate_rest(c, sample, 1.0 / ++startup->rests);
    double rtt = rate_rtt_s(c) > 0.004 ? rate_rtt_s(c) : 0.004;
    if (rtt < 4 * sample->seconds)
        rtt = 4 * sample->seconds; /* at a low rate it takes longer to see anything */
    double blur = 2 * rate_queue_limit_s(c, 0), span = rtt / 2 > blur ? rtt / 2 : blur;
    struct window w = window_of(startup, span, WINDOW_PACKETS_MIN);
    double delivered = window_delivered(startup, &w);
    double ratio = delivered * w.seconds / w.sent_bits;
    if (w.packets >= WINDOW_PACKETS_MIN && ratio > startup->best_ratio)
        startup->best_ratio = ratio;
    bool follows = ratio >= FOLLOWS * startup->best_ratio;
    bool queued = w.queue_s > rate_queue_limit_s(c, 2);
    if (delivered > 1.15 * startup->grown_bps) {
        startup->grown_bps = delivered;
        startup->grown_ns = now_ns;
    }
    if (follows && !queued)
        startup->poor = 0;
    else if (startup->poor++ == 0)
        startup->poor_since_ns = now_ns;
    double poor_s = startup->poor > 0 ? (double)(now_ns - startup->poor_since_ns) / 1e9 : 0;
    double still_s = (double)(now_ns - startup->grown_ns) / 1e9;
    bool proved = poor_s >= (w.events >= EVENTS_FEW || queued ? 0.5 : 2) * rtt;
    if ((!follows && queued) || (startup->poor > 0 && proved) || still_s > 4 * rtt) {
        leave(c, &w, queued, now_ns);
        return;
    }
    grow(c, follows);
}

/* ---- DRAIN ---- */

void rate_drain_begin(struct rate_controller *c, uint64_t now_ns)
{
    if (rate_queue_now_s(c) <= rate_queue_limit_s(c, 1)) {
        rate_cycle_enter(c, now_ns);
        return;
    }
    c->state = PHASE_DRAIN;
    c->plan.waits = false;
    c->drain_from_ns = now_ns;
    double longest = 4 * rate_rtt_s(c) + 6 * rate_queue_now_s(c) + 0.02;
    c->drain_until_ns = now_ns + (uint64_t)(longest * 1e9);
}

/* A sample shows the queue as it was an RTT ago. What has been held back since then is gone from
 * it by now: waiting until the samples say so would leave the path idle for a round trip. */
void rate_drain_rtt(struct rate_controller *c, double rtt_s, uint64_t now_ns)
{
    double held_s = (double)(now_ns - c->drain_from_ns) / 1e9;
    if (held_s > rtt_s)
        held_s = rtt_s;
    double queue = rtt_s - rate_rtt_s(c) - (1 - RATE_DRAIN_GAIN) * held_s;
    bool seen = held_s > rate_rtt_s(c) / 2;
    if ((seen && queue <= rate_queue_limit_s(c, 0.5)) || now_ns >= c->drain_until_ns) {
        rate_cycle_enter(c, now_ns);
        c->droop_from_ns = now_ns + (uint64_t)(rtt_s * 1e9); /* until samples say the same */
    }
}
