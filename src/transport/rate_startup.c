/* STARTUP: the rate grows while delivery follows it; DRAIN: the queue that the last step left
 * behind goes.
 *
 * Whether the path carries more is asked by short probes, a quarter of a round trip at several
 * times the rate that is known to arrive. While the answer is on its way nothing faster than that
 * rate is sent. So a step too far costs half a bandwidth-delay product of queue, and has drained by
 * the time it is known; a whole round trip at that rate would cost two. */
#include "base/units.h"
#include "transport/rate_state.h"

#define FIRST_BPS 25e6
#define FIRST_PACKETS 64.0
#define FIRST_RTT_MIN_S 0.010 /* acks come no faster than feedback can be used */
#define SHORT_RTT_S 0.015     /* a flight is soon over, and a probe a large part of it */
#define GROWTH_MOST 8.0
#define GROWTH_LEAST 4.0
#define GROWTH_SHORT 3.0 /* the least on short round trips */
#define GROWTH_DOUBTED 2.0
#define STRETCH_LONG 1.2     /* of the probe: less is soon made good */
#define QUEUE_OF_STRETCH 0.3 /* half of it, were it seen all along */
#define PROBE_QUEUE_RTTS 0.7 /* what a probe may leave behind where nothing more is carried */
#define FOLLOWS 0.8          /* of the best delivered share seen */
#define NEARLY 0.93          /* ... and a queue at its end */
#define WINDOW_PACKETS_MIN 40.0
#define PROBE_PACKETS 32.0
#define FLIGHT_PACKETS 16.0
#define FLIGHT_LEAST 0.25 /* of its interval */
#define PROBE_RTTS 0.1
#define OVERFLOWS 0.1      /* more lost than before the probe, and a queue: it is full */
#define RATIO_LIKELY 0.65  /* no path worth using loses more than a third at a low rate */
#define BEYOND_MEMORY 1.25 /* the second step: a true memory shows as a short queue */
#define MEMORY_HELD_SHARE 0.95
#define STRETCH_LEAST_S 0.001 /* of a probe on its way: a queue for certain */
#define LEAVE_LEAST_BPS 1e6
#define LEAVE_LEAST 0.4 /* of the best delivery seen */
/* Loss in STARTUP may be the others' doing: more than this has to be shown by a DOWN. */
#define AMBIENT_TRUSTED 0.12
#define EVENTS_FEW 8.0
#define DRAIN_PACKETS 40.0
#define HALVED_PACKETS 16.0 /* a loop: enough to see that they arrive again */
#define DOUBTS_MOST 2u      /* probes that failed without a sign of a full path */

struct window {
    double seconds, span, packets, lost, events, sent_bits, delivered_bits;
    double queue_s;  /* least; negative: unknown */
    bool overflowed; /* what it lost is no chance */
};

/* Under jitter the least RTT of a long path may look like this. */
static bool is_short(const struct rate_controller *c)
{
    return rate_rtt_s(c) + c->jitter_s < SHORT_RTT_S;
}

/* The first flight begins with a short train, to which a path of many times the first rate shows
 * itself an RTT earlier. It is a hint for the next probe and no rate: tokens may carry it. */
static void open_with_train(struct rate_controller *c)
{
    struct rate_startup *startup = &c->startup;
    double limit = c->config.limit_bps != 0 ? (double)c->config.limit_bps : RATE_MAX_BPS;
    startup->probe_bps = GROWTH_MOST * startup->first_bps;
    if (!is_short(c) && startup->probe_bps < limit)
        startup->opening = startup->probe_due = true;
}

void rate_startup_init(struct rate_controller *c, uint64_t now_ns)
{
    double rtt = rate_rtt_s(c) > FIRST_RTT_MIN_S ? rate_rtt_s(c) : FIRST_RTT_MIN_S;
    double flight = FIRST_PACKETS * 8.0 * c->config.datagram_bytes / rtt;
    double first = flight > FIRST_BPS ? flight : FIRST_BPS, remembered = rate_memory_first_bps(c);
    c->base_bps = remembered > first ? remembered : first;
    rate_startup_again(c, now_ns);
    c->startup.memory_use = MEMORY_UNUSED;
    if (remembered > first) {
        c->startup.memory_bps = (double)c->config.remembered.rate_bps;
        c->startup.memory_use = MEMORY_TRIED;
    } else {
        open_with_train(c);
    }
}

void rate_startup_again(struct rate_controller *c, uint64_t now_ns)
{
    c->state = PHASE_STARTUP;
    c->epoch++;
    c->startup = (struct rate_startup){.grown_ns = now_ns,
                                       .best_ratio = RATIO_LIKELY,
                                       .carried_bps = c->base_bps,
                                       .first_bps = c->base_bps,
                                       .memory_use = c->startup.memory_use};
}

void rate_startup_halve(struct rate_controller *c)
{
    double least = HALVED_PACKETS * 8.0 * c->config.datagram_bytes / rate_loop_s(c);
    if (c->base_bps <= least)
        return;
    rate_set_base(c, c->base_bps / 2 > least ? c->base_bps / 2 : least);
    c->startup.carried_bps = c->base_bps;
    c->startup.probing = c->startup.probe_due = false;
}

static double flight_interval_s(const struct rate_controller *c)
{
    double eighth = rate_rtt_s(c) / 8;
    return eighth > 0.002 ? eighth : 0.002;
}

double rate_startup_pacing_bps(const struct rate_controller *c)
{
    return c->startup.probing ? c->startup.probe_bps : c->startup.carried_bps;
}

double rate_startup_most_bps(const struct rate_controller *c)
{
    double probe = c->startup.probe_bps, carried = c->startup.carried_bps;
    if (c->startup.opening)
        return carried; /* the train is a short one; a hole in the path shows sooner */
    return probe > carried ? probe : carried;
}

/* Long enough that neither jitter nor the rhythm of acks decides it. */
static double probe_s(const struct rate_controller *c)
{
    double least = 2 * rate_queue_limit_s(c, 0);
    double packets = PROBE_PACKETS * 8.0 * c->config.datagram_bytes / c->startup.probe_bps;
    if (c->startup.opening)
        return packets;
    double seconds = PROBE_RTTS * rate_rtt_s(c), interval = flight_interval_s(c);
    seconds = seconds > least ? seconds : least;
    seconds = seconds > packets ? seconds : packets;
    return seconds > interval ? seconds : interval;
}

double rate_startup_interval_s(const struct rate_controller *c)
{
    const struct rate_startup *startup = &c->startup;
    if (startup->probing)
        return probe_s(c); /* one interval */
    return startup->probe_due ? 0 : flight_interval_s(c);
}

double rate_startup_interval_packets(const struct rate_controller *c)
{
    if (c->startup.probing)
        return PROBE_PACKETS;
    return c->startup.probe_due ? 1 : FLIGHT_PACKETS;
}

void rate_startup_plan(struct rate_controller *c, struct rate_plan *plan, uint64_t now_ns)
{
    struct rate_startup *startup = &c->startup;
    double patience = 4 * rate_loop_s(c) + probe_s(c) + 0.2;
    if (startup->probing) {
        startup->probing = false;
        startup->step++;
    } else if (!startup->probing && startup->probe_ns != 0 &&
               rate_since_s(now_ns, startup->probe_ns) > patience) {
        startup->probe_due = true; /* its answer never came */
    }
    bool unmarked = startup->opening && startup->begun++ == 0; /* the receiver's clock is not known
                                                                  before a packet or two */
    if (startup->probe_due && !unmarked) {
        startup->probe_due = false;
        startup->probing = true;
        startup->probe_ns = now_ns;
        startup->step++;
    }
    plan->step = startup->step;
    plan->probe = startup->probing;
}

/* How long it took to arrive. The first interval has no receiver's clock: then the queue that it
 * met says the same. */
static double span_of(const struct rate_sample *s)
{
    if (s->span_s > 0)
        return s->span_s;
    return s->queue_mean_s > STRETCH_LEAST_S ? s->seconds + 2 * s->queue_mean_s : s->seconds;
}

static const struct rate_sample *logged(const struct rate_startup *startup, unsigned back)
{
    return &startup->log[(startup->count - 1 - back) % RATE_STARTUP_LOG];
}

/* The newest samples of one step that span `seconds` and at least `packets`. */
static struct window window_of(const struct rate_startup *startup, double seconds, double packets)
{
    struct window w = {.queue_s = -1};
    unsigned most = startup->count < RATE_STARTUP_LOG ? startup->count : RATE_STARTUP_LOG;
    unsigned step = logged(startup, 0)->plan.step;
    for (unsigned back = 0; back < most && (w.seconds < seconds || w.packets < packets); back++) {
        const struct rate_sample *s = logged(startup, back);
        if (s->plan.step != step)
            break;
        w.seconds += s->seconds;
        w.span += span_of(s);
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
    if (!w->overflowed && w->events < EVENTS_FEW && bits < usual && bits > usual / 2)
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

static void leave(struct rate_controller *c, struct window *w, bool queued, uint64_t now_ns)
{
    /* A full queue loses all at its end, in a run or two. Only on short round trips is a probe long
     * enough to fill one. */
    w->overflowed = queued && is_short(c);
    double packets = 0, delivered = window_delivered(&c->startup, w);
    double loss = loss_below(&c->startup, 0.9 * delivered, &packets);
    if (packets >= WINDOW_PACKETS_MIN) {
        c->ambient = rate_clamp(loss, 0, AMBIENT_TRUSTED);
        c->ambient_known = packets >= 2000 && loss <= AMBIENT_TRUSTED;
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

/* A first flight is a guess at the low end. On short round trips a probe takes a large part of one,
 * and the first one would fill the queue of a path that carries little more than that guess. */
static double growth(const struct rate_controller *c)
{
    double longest = PROBE_QUEUE_RTTS * rate_rtt_s(c) / probe_s(c);
    if (is_short(c))
        return rate_clamp(1 + longest, GROWTH_SHORT, GROWTH_MOST);
    if (c->startup.carried_bps < 1.1 * c->startup.first_bps)
        return GROWTH_MOST;
    return rate_clamp(1 + longest, GROWTH_LEAST, GROWTH_MOST);
}

/* `bps` arrived: the next probe asks for more. */
static void grow(struct rate_controller *c, double bps)
{
    struct rate_startup *startup = &c->startup;
    double limit = c->config.limit_bps != 0 ? (double)c->config.limit_bps : RATE_MAX_BPS;
    if (bps > startup->carried_bps)
        startup->carried_bps = rate_clamp(bps, rate_floor_bps(c), limit);
    startup->probe_bps = startup->carried_bps * growth(c);
    if (startup->carried_bps < startup->memory_bps) { /* three quarters of it arrived */
        startup->probe_bps = BEYOND_MEMORY * startup->memory_bps;
        startup->carried_bps = MEMORY_HELD_SHARE * startup->memory_bps;
        startup->memory_bps = 0;
    }
    startup->probe_bps = rate_clamp(startup->probe_bps, rate_floor_bps(c), limit);
    startup->probe_due = true;
    if (startup->memory_use == MEMORY_TRIED)
        startup->memory_use = MEMORY_HELD;
    c->base_bps = startup->carried_bps; /* no epoch: what was sent before still counts */
}

/* `bps` arrived at least, and maybe the path or an end only hesitated. */
static void ask_again(struct rate_controller *c, double bps)
{
    struct rate_startup *startup = &c->startup;
    if (bps > startup->carried_bps)
        c->base_bps = startup->carried_bps = bps;
    startup->probe_bps = startup->carried_bps * GROWTH_DOUBTED;
    startup->probe_due = true;
}

static void note_growth(struct rate_startup *startup, double delivered_bps, uint64_t now_ns)
{
    if (delivered_bps > 1.15 * startup->grown_bps) {
        startup->grown_bps = delivered_bps;
        startup->grown_ns = now_ns;
    }
}

void rate_startup_void(struct rate_controller *c, const struct rate_plan *plan, uint64_t now_ns)
{
    if (c->state != PHASE_STARTUP || plan->epoch != c->epoch)
        return;
    c->startup.grown_ns = now_ns; /* no time in which anything could have been learned */
    c->startup.probe_due = c->startup.probe_due || plan->probe;
}

/* What did not arrive as it was sent says nothing against the path. */
static void judge_opening(struct rate_controller *c, double ratio, double delivered_bps,
                          uint64_t now_ns)
{
    struct rate_startup *startup = &c->startup;
    startup->opening = false;
    startup->grown_ns = now_ns;
    if (ratio < FOLLOWS)
        return;
    double limit = c->config.limit_bps != 0 ? (double)c->config.limit_bps : RATE_MAX_BPS;
    startup->probe_bps = rate_clamp(GROWTH_MOST * delivered_bps, rate_floor_bps(c), limit);
    startup->probe_due = true;
}

static void judge_probe(struct rate_controller *c, const struct rate_sample *sample,
                        uint64_t now_ns)
{
    struct rate_startup *startup = &c->startup;
    struct window w = window_of(startup, 1e-9, 1);
    /* A train may be handed on in one piece however slow the path was: then its delay tells. */
    if (startup->opening && sample->queue_mean_s > w.seconds)
        w.span = w.seconds + sample->queue_mean_s;
    double stretch = w.span - w.seconds;
    double delivered = window_delivered(startup, &w);
    double ratio = delivered * w.seconds / w.sent_bits / startup->best_ratio;
    if (startup->opening) {
        judge_opening(c, ratio, delivered, now_ns);
        return;
    }
    note_growth(startup, delivered, now_ns);
    bool queued = sample->queue_mean_s > rate_queue_limit_s(c, 0.5) ||
                  stretch > STRETCH_LEAST_S + 2 * rate_queue_limit_s(c, 0);
    /* Packets that a slower path stretched met a queue that grew with them, and maybe had no room
     * in it. */
    bool hesitated = startup->doubts == 0 && stretch > STRETCH_LONG * w.seconds &&
                     sample->queue_mean_s < QUEUE_OF_STRETCH * stretch &&
                     w.delivered_bits > FOLLOWS * startup->best_ratio * w.sent_bits;
    double before = 0, known = loss_below(startup, 1.1 * startup->carried_bps, &before);
    bool overflows = queued && w.events >= EVENTS_FEW && before >= FLIGHT_PACKETS &&
                     w.lost > (known + OVERFLOWS) * w.packets;
    if (overflows) {
        leave(c, &w, queued, now_ns);
    } else if (ratio >= NEARLY || (ratio >= FOLLOWS && !queued)) {
        startup->doubts = 0;
        grow(c, delivered / startup->best_ratio);
    } else if (hesitated) {
        startup->doubts++;
        ask_again(c, delivered / startup->best_ratio);
    } else if (queued || w.events >= EVENTS_FEW || ++startup->doubts >= DOUBTS_MOST) {
        leave(c, &w, queued, now_ns);
    } else {
        startup->probe_due = true; /* once more */
    }
}

/* What is sent meanwhile has to arrive as well: tokens may have carried the probe, or the path has
 * less than the first flight takes. */
static void judge_flight(struct rate_controller *c, const struct rate_sample *sample,
                         uint64_t now_ns)
{
    struct rate_startup *startup = &c->startup;
    double rtt = rate_rtt_s(c) > 0.004 ? rate_rtt_s(c) : 0.004;
    if (rtt < 4 * sample->seconds)
        rtt = 4 * sample->seconds; /* at a low rate it takes longer to see anything */
    double blur = 2 * rate_queue_limit_s(c, 0), span = rtt / 2 > blur ? rtt / 2 : blur;
    struct window w = window_of(startup, span, WINDOW_PACKETS_MIN);
    double delivered = window_delivered(startup, &w);
    double ratio = delivered * w.seconds / w.sent_bits;
    if (w.packets >= WINDOW_PACKETS_MIN)
        note_growth(startup, delivered, now_ns);
    if (w.packets >= WINDOW_PACKETS_MIN && ratio > startup->best_ratio)
        startup->best_ratio = ratio < 1 ? ratio : 1;
    bool follows = ratio >= FOLLOWS * startup->best_ratio;
    bool queued = w.queue_s > rate_queue_limit_s(c, 2);
    if (follows && (!queued || sample->plan.step > 0))
        startup->poor = 0;
    else if (startup->poor++ == 0)
        startup->poor_since_ns = now_ns;
    double poor_s = startup->poor > 0 ? (double)(now_ns - startup->poor_since_ns) / 1e9 : 0;
    bool proved = poor_s >= (w.events >= EVENTS_FEW || queued ? 0.5 : 2) * rtt;
    /* A single interval that came late says that an end or the path hesitated. */
    bool seen = w.seconds >= span;
    if ((!follows && queued && seen) || (startup->poor > 0 && proved))
        leave(c, &w, queued, now_ns);
    else if (follows && sample->queue_mean_s <= rate_queue_limit_s(c, 1) &&
             sample->plan.step == startup->step && startup->carried_bps <= startup->first_bps &&
             !startup->opening && !startup->probe_due)
        grow(c, 0);
}

void rate_startup_sample(struct rate_controller *c, const struct rate_sample *sample,
                         uint64_t now_ns)
{
    struct rate_startup *startup = &c->startup;
    if (sample->plan.epoch != c->epoch)
        return;
    /* Ended for a probe with its first train, which left at once: no rate can be read off it. */
    if (!sample->plan.probe && sample->seconds < FLIGHT_LEAST * flight_interval_s(c))
        return;
    startup->log[startup->count++ % RATE_STARTUP_LOG] = *sample;
    if (sample->sent_bps < 1.1 * startup->first_bps && sample->queue_s >= 0)
        rate_rest(c, sample, 1.0 / ++startup->rests);
    double rtt = rate_rtt_s(c) > 0.004 ? rate_rtt_s(c) : 0.004;
    if (sample->plan.probe)
        judge_probe(c, sample, now_ns);
    else
        judge_flight(c, sample, now_ns);
    double still_s = (double)(now_ns - startup->grown_ns) / 1e9;
    double longest = 4 * (rtt > 4 * sample->seconds ? rtt : 4 * sample->seconds) + probe_s(c);
    if (c->state == PHASE_STARTUP && still_s > longest) {
        struct window w = window_of(startup, rtt / 2, WINDOW_PACKETS_MIN);
        leave(c, &w, false, now_ns);
    }
}

/* ---- DRAIN ---- */

void rate_drain_begin(struct rate_controller *c, uint64_t now_ns)
{
    if (rate_queue_now_s(c) <= rate_queue_limit_s(c, 1)) {
        rate_cycle_enter(c, now_ns);
        return;
    }
    c->state = PHASE_DRAIN;
    c->drain_gain = rate_queue_now_s(c) > rate_loop_s(c) ? RATE_DRAIN_GAIN_LONG : RATE_DRAIN_GAIN;
    c->plan.waits = false;
    c->drain_from_ns = now_ns;
    double longest = 4 * rate_rtt_s(c) + 6 * rate_queue_now_s(c) + 0.02;
    c->drain_until_ns = now_ns + (uint64_t)(longest * 1e9);
}

void rate_drain_sample(struct rate_controller *c, const struct rate_sample *s)
{
    double carried = s->arrived_bps / (1 - c->ambient);
    if (s->queue_s > rate_queue_limit_s(c, 2) && s->span_s > 0 && s->packets >= DRAIN_PACKETS &&
        s->plan.begun_ns < c->drain_from_ns)
        rate_set_base(c, rate_clamp(0.97 * carried, c->base_bps, 2 * c->base_bps));
}

/* A sample shows the queue as it was an RTT ago. What has been held back since then is gone from
 * it by now: waiting until the samples say so would leave the path idle for a round trip. */
void rate_drain_rtt(struct rate_controller *c, double rtt_s, uint64_t now_ns)
{
    double held_s = (double)(now_ns - c->drain_from_ns) / 1e9;
    if (held_s > rtt_s)
        held_s = rtt_s;
    double queue = rtt_s - rate_rtt_s(c) - (1 - c->drain_gain) * held_s;
    bool seen = held_s > rate_rtt_s(c) / 2;
    if ((seen && queue <= rate_queue_limit_s(c, 0.5)) || now_ns >= c->drain_until_ns) {
        rate_cycle_enter(c, now_ns);
        c->droop_from_ns = now_ns + (uint64_t)(rtt_s * 1e9); /* until samples say the same */
    }
}
