/* CYCLE: CRUISE at the believed rate, UP to see whether more is carried, DOWN to see whether loss
 * goes away at a lower rate. See docs/decisions/rate-controller.md. */
#include <math.h>

#include "base/units.h"
#include "transport/rate_state.h"

#define DOWN_GAIN 0.90
#define DOWN_GAIN_CROWDED 0.75 /* to empty the queue and see whose it is */
#define DOWN_GAIN_CUT 0.97     /* when a cut has just been made */
#define DOWN_GAIN_LEAST 0.5
#define UP_SMALL 0.06
#define REST_WEIGHT 0.3
#define TRAIN_NOISE_S 0.0002 /* packets leave in trains of up to 0.5 ms */
#define CROWDED 1.25 /* targets of queue: below, raises may be tried; above, the rate follows */
#define FAIR_BPS 1e8 /* where the limit is as said, see fair_limit_s */
#define FOLLOW 0.02
#define FOLLOW_MOST 0.03
#define OWN_RAISE_LOOPS 3.0
#define UP_NOISY 0.25
#define UP_PASSES 0.5 /* share of a raise that must arrive */
#define EXCESS_MIN 0.01
#define EXCESS_SHARED 0.002 /* with a rival in the queue */
#define CUT_SHARED 0.7
#define YIELDED 0.8   /* of the rate is left, and the queue is still there */
#define OWN_SHARE 0.4 /* of what a drain should have emptied, had the queue been ours */
#define DRAIN_EVERY_LOOPS 8.0
#define EXCESS_LARGE 0.05
#define EXCESS_GROSS 0.20 /* cut at once, whatever it turns out to be */
#define AMBIENT_MAX 0.25
#define FELL 0.85 /* of the believed rate is all that arrives */
#define RAISE_PROVED_LOOPS 6.0
#define DOWN_STALE_LOOPS 40.0
#define DOWN_STALE_LOOPS_MOST 160.0
#define BASE_RTT_AGE_S 8.0

static const double ladder_gains[] = {0.25, 0.5, 1.0};

static double since_s(uint64_t now_ns, uint64_t then_ns)
{
    return now_ns > then_ns ? (double)(now_ns - then_ns) / 1e9 : 0;
}

static uint64_t later(uint64_t now_ns, double seconds)
{
    return now_ns + (uint64_t)(seconds * 1e9);
}

static double loop_s(const struct rate_controller *c)
{
    double rtt = rate_rtt_s(c);
    return rtt > 0.005 ? rtt : 0.005;
}

static double tally_loss(const struct rate_tally *tally)
{
    return tally->packets > 0 ? tally->lost / tally->packets : 0;
}

static double tally_bps(const struct rate_tally *tally)
{
    return tally->seconds > 0 ? tally->bits / tally->seconds : 0;
}

static double excess_limit(double sigma)
{
    return 3 * sigma > EXCESS_MIN ? 3 * sigma : EXCESS_MIN;
}

/* ---- Plans ---- */

static void cruise_anew(struct rate_controller *c, uint64_t now_ns)
{
    double loops = 2 + (double)random_below(&c->random, 4);
    loops = rate_clamp(loops * c->cycle.patience, 2, 8);
    c->cycle.cruise_until_ns = later(now_ns, loops * loop_s(c));
}

void rate_cycle_enter(struct rate_controller *c, uint64_t now_ns)
{
    c->state = PHASE_CRUISE;
    c->cycle = (struct rate_cycle){.patience = 1, .down_at_ns = now_ns, .hold_until_ns = now_ns};
    c->cycle.stale_loops = DOWN_STALE_LOOPS;
    c->cycle.cruise_until_ns = later(now_ns, loop_s(c));
}

/* A DOWN goes low enough that all of the suspected loss would be gone if it were our doing. */
static void begin_down(struct rate_controller *c, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    cycle->down_wanted = false;
    cycle->down_pending = true;
    cycle->down_at_ns = now_ns;
    cycle->cruise_before = cycle->cruise;
    cycle->down = (struct rate_tally){0};
    double gain = cycle->draining ? DOWN_GAIN_CROWDED : DOWN_GAIN;
    if (cycle->cure_bps > 0) {
        gain = cycle->cure_bps / c->base_bps; /* a cut may have gone most of the way */
        gain = rate_clamp(gain, DOWN_GAIN_LEAST, DOWN_GAIN_CUT);
    }
    cycle->down_gain = gain;
    cycle->cure_bps = 0;
}

/* How uncertain the share of a small raise is, for an interval of one loop. */
static double up_noise(const struct rate_controller *c)
{
    double delay = (0.6 * c->jitter_s + TRAIN_NOISE_S) / loop_s(c);
    double packets = c->base_bps * loop_s(c) / 8 / c->config.datagram_bytes;
    double loss = 1.5 * rate_sigma(c, c->ambient, packets);
    return c->path_class == PATH_QUEUE || loss < delay ? delay : loss;
}

static double up_gain(const struct rate_controller *c)
{
    const struct rate_cycle *cycle = &c->cycle;
    if (!cycle->small && !cycle->competing) {
        unsigned last = sizeof ladder_gains / sizeof ladder_gains[0] - 1;
        if (c->path_class == PATH_SHALLOW)
            last = 0; /* a bucket of tokens would carry more, for a while */
        return 1 + ladder_gains[cycle->ladder < last ? cycle->ladder : last];
    }
    return 1 + rate_clamp(4 * up_noise(c), UP_SMALL, UP_NOISY);
}

/* The queue this rate puts up with: less at a high rate than at a low one, so that of several
 * senders the large make room and the small take it. */
static double fair_limit_s(const struct rate_controller *c)
{
    double slope = sqrt(sqrt(sqrt(FAIR_BPS / c->base_bps)));
    return rate_queue_limit_s(c, 0) + CROWDED * rate_queue_target_s(c) * slope;
}

static bool up_is_due(const struct rate_controller *c, uint64_t now_ns)
{
    const struct rate_cycle *cycle = &c->cycle;
    if (now_ns < cycle->cruise_until_ns || now_ns < cycle->hold_until_ns)
        return false;
    if (c->config.limit_bps != 0 && c->base_bps >= 0.999 * (double)c->config.limit_bps)
        return false;
    return cycle->competing || rate_queue_now_s(c) <= fair_limit_s(c);
}

void rate_cycle_plan(struct rate_controller *c, struct rate_plan *plan, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    plan->phase = PHASE_CRUISE;
    if (cycle->up_pending) {
        plan->waits = true;
        return;
    }
    if (!cycle->down_pending && cycle->down_wanted)
        begin_down(c, now_ns);
    if (cycle->down_pending) {
        /* One interval is asked first; if it says too little, more follow. */
        if (cycle->down_asked && cycle->down.packets == 0) {
            plan->waits = true;
            return;
        }
        cycle->down_asked = true;
        cycle->pending_id = plan->id;
        plan->phase = PHASE_DOWN;
        plan->gain = cycle->down_gain;
    } else if (up_is_due(c, now_ns)) {
        plan->phase = PHASE_UP;
        plan->gain = cycle->cap_gain = up_gain(c);
        double doubt = 4 * up_noise(c) / UP_NOISY;
        plan->loops = rate_clamp(sqrt(doubt * sqrt(doubt)), 1, 4);
        cycle->up_pending = true;
        cycle->up_at_ns = now_ns;
        cycle->pending_id = plan->id;
        cruise_anew(c, now_ns);
    }
}

static void end_down(struct rate_controller *c)
{
    c->cycle.down_pending = c->cycle.down_asked = c->cycle.draining = false;
    c->cycle.cruise = (struct rate_tally){0};
}

void rate_cycle_void(struct rate_controller *c, const struct rate_plan *plan)
{
    if (c->state != PHASE_CRUISE || c->cycle.pending_id != plan->id)
        return;
    if (plan->phase == PHASE_UP)
        c->cycle.up_pending = false;
    if (plan->phase == PHASE_DOWN)
        end_down(c);
}

static void cut(struct rate_controller *c, double bps)
{
    rate_set_base(c, bps);
    c->cycle.cruise = (struct rate_tally){0};
    c->cycle.ladder = 0;
    c->cycle.small = true;
}

static void hold(struct rate_controller *c, uint64_t now_ns)
{
    uint64_t until = later(now_ns, rate_clamp(50 * loop_s(c), 1, 5));
    if (until > c->cycle.hold_until_ns)
        c->cycle.hold_until_ns = until;
}

/* ---- CRUISE ---- */

/* The mean queue that an UP is compared to: the last CRUISE on a quiet path, several under jitter.
 */
static void note_queue(struct rate_controller *c, const struct rate_sample *s)
{
    if (s->queue_mean_s < 0)
        return;
    double target = rate_queue_target_s(c);
    double weight = target / (target + 2 * c->jitter_s);
    c->cycle.queue_rest_s += weight * (s->queue_mean_s - c->cycle.queue_rest_s);
}

/* The sender itself falls short (processor, in-flight cap): a belief that is never tried decays
 * to what is. */
static void note_starving(struct rate_controller *c, const struct rate_sample *s)
{
    struct rate_cycle *cycle = &c->cycle;
    if (s->plan.waits)
        return;
    cycle->starved_s = s->sent_bps < 0.8 * c->base_bps ? cycle->starved_s + s->seconds : 0;
    if (cycle->starved_s > 4 * loop_s(c)) {
        cycle->starved_s = 0;
        rate_set_base(c, s->sent_bps * 1.1);
    }
}

/* With a queue all through the interval, what arrived is what the path carries, at whatever rate it
 * was sent. */
static bool capacity_fell(struct rate_controller *c, const struct rate_sample *s, bool queued,
                          uint64_t now_ns)
{
    double carried = s->arrived_bps / (1 - c->ambient);
    double blur =
        2 * rate_queue_limit_s(c, 0) / s->seconds + 3 * s->sigma; /* of the span, and by chance */
    if (!queued || s->plan.waits || c->cycle.competing ||
        carried >= rate_clamp(FELL - blur, 0.3, FELL) * c->base_bps)
        return false;
    cut(c, 0.9 * carried);
    rate_drain_begin(c, now_ns);
    return true;
}

/* A queue that stays over its limit, not by our own raise: the belief is too high and follows. If
 * that has gone on for a while and the queue is still there, it may be somebody else's. */
static void follow_queue(struct rate_controller *c, const struct rate_sample *s)
{
    struct rate_cycle *cycle = &c->cycle;
    double over = (s->queue_s - fair_limit_s(c)) / rate_queue_target_s(c);
    if (cycle->competing || s->plan.waits)
        return;
    if (over <= 0) {
        cycle->yielding_from_bps = 0;
        return;
    }
    if (cycle->yielding_from_bps == 0)
        cycle->yielding_from_bps = c->base_bps;
    if (since_s(s->plan.begun_ns, cycle->up_at_ns) > OWN_RAISE_LOOPS * loop_s(c))
        rate_set_base(c, c->base_bps * (1 - rate_clamp(FOLLOW * over, 0, FOLLOW_MOST)));
}

/* Whether it is time for a DOWN that empties the queue. */
static bool must_drain(const struct rate_controller *c, uint64_t now_ns)
{
    const struct rate_cycle *cycle = &c->cycle;
    double loops = since_s(now_ns, cycle->down_at_ns) / loop_s(c);
    if (cycle->down_pending || loops < DRAIN_EVERY_LOOPS)
        return false;
    if (cycle->competing)
        return loops > 4 * DRAIN_EVERY_LOOPS;
    return cycle->crowded_s > 4 * loop_s(c) || c->base_bps < YIELDED * cycle->yielding_from_bps ||
           since_s(now_ns, c->base_rtt_at_ns) > BASE_RTT_AGE_S;
}

/* More is lost than the path's own share. */
static void on_excess(struct rate_controller *c, const struct rate_sample *s, double loss,
                      uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    double excess = loss - c->ambient;
    bool queue_full = s->queue_s > rate_queue_limit_s(c, 1);
    bool gross = excess > EXCESS_GROSS;
    cycle->down_wanted = true;
    double most = 1 - DOWN_GAIN;
    cycle->cure_bps = c->base_bps * 0.97 * (1 - (excess > most ? excess : most));
    if (c->path_class == PATH_QUEUE && !gross && (!queue_full || !c->ambient_known))
        return; /* too much would show as delay: no haste */
    if (cycle->raised_from_bps > 0 &&
        since_s(now_ns, cycle->raised_ns) < RAISE_PROVED_LOOPS * loop_s(c)) {
        double carried = c->base_bps * (1 - loss) / (1 - c->ambient);
        double back = cycle->raised_from_bps;
        cycle->raised_from_bps = 0;
        cycle->down_wanted = false;
        cut(c, carried > back ? carried : back);
        hold(c, now_ns);
    } else if (gross) {
        cut(c, c->base_bps * (1 - excess > 0.5 ? 1 - excess : 0.5));
    } else if (queue_full || excess > EXCESS_LARGE) {
        cut(c, c->base_bps * (1 - excess / 2));
    }
}

/* Against a sender that fills the queue, loss is the sign to make room; it comes to both. */
static void judge_shared(struct rate_controller *c, const struct rate_sample *s, double loss,
                         double sigma)
{
    double limit = 3 * sigma > EXCESS_SHARED ? 3 * sigma : EXCESS_SHARED;
    if (loss - c->ambient > limit && s->queue_s > rate_queue_limit_s(c, 1))
        cut(c, c->base_bps * CUT_SHARED);
    c->cycle.cruise = (struct rate_tally){0};
}

static void judge_cruise(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    double loss = tally_loss(&cycle->cruise);
    double sigma = rate_sigma(c, loss, cycle->cruise.packets);
    double limit = excess_limit(sigma);
    if (cycle->competing) {
        judge_shared(c, s, loss, sigma);
        return;
    }
    bool stale = c->path_class != PATH_QUEUE && loss > EXCESS_MIN / 2 &&
                 since_s(now_ns, cycle->down_at_ns) > cycle->stale_loops * loop_s(c);
    if (loss - c->ambient > limit)
        on_excess(c, s, loss, now_ns);
    else if (stale)
        cycle->down_wanted = true;
    else if (loss < c->ambient - limit)
        c->ambient = loss + sigma; /* less is lost at a higher rate: no doubt about that */
    if (!cycle->down_wanted)
        cycle->cruise = (struct rate_tally){0};
}

static void cruise_sample(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    if (capacity_fell(c, s, s->queue_s > rate_queue_limit_s(c, 2), now_ns))
        return;
    note_queue(c, s);
    note_starving(c, s);
    follow_queue(c, s);
    cycle->crowded_s = s->queue_s > rate_queue_limit_s(c, 2) ? cycle->crowded_s + s->seconds : 0;
    if (must_drain(c, now_ns))
        cycle->down_wanted = cycle->draining = true;
    rate_tally_add(&cycle->cruise, s);
    if (!cycle->down_pending && rate_tally_speaks(c, &cycle->cruise))
        judge_cruise(c, s, now_ns);
}

/* ---- DOWN ---- */

/* A queue that does not shrink when this sender slows down is held by somebody else. */
static void judge_competition(struct rate_controller *c, const struct rate_sample *s)
{
    struct rate_cycle *cycle = &c->cycle;
    double before = cycle->queue_rest_s, after = s->queue_s;
    if (after < 0 || !cycle->draining)
        return;
    if (after <= rate_queue_limit_s(c, 0.5)) {
        cycle->competing = false;
        cycle->crowded_s = 0;
        return;
    }
    double expected = (1 - s->plan.gain) * s->seconds; /* were the path ours alone */
    if (expected > before)
        expected = before;
    cycle->competing = before - after < OWN_SHARE * expected;
    cycle->yielding_from_bps = 0;
}

static double down_sigma(const struct rate_controller *c)
{
    const struct rate_tally *before = &c->cycle.cruise_before, *down = &c->cycle.down;
    double low = rate_sigma(c, tally_loss(down), down->packets);
    double high = rate_sigma(c, tally_loss(before), before->packets);
    return sqrt(low * low + high * high);
}

/* What going slower could cure of the loss that CRUISE showed. */
static double suspected_loss(const struct rate_controller *c)
{
    const struct rate_tally *before = &c->cycle.cruise_before;
    double suspected = tally_loss(before) - c->ambient;
    double most = before->bits > 0 ? 1 - tally_bps(&c->cycle.down) / tally_bps(before) : 0;
    return suspected < most ? suspected : most;
}

/* Were the path full, the loss above its own share would be gone at this lower rate; were the
 * loss the path's own, it would be the same. With other senders on the path only a part goes. */
static void judge_down(struct rate_controller *c, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    const struct rate_tally *before = &cycle->cruise_before, *down = &cycle->down;
    double low = tally_loss(down), high = tally_loss(before);
    double x_low = tally_bps(down), x_high = tally_bps(before);
    double sigma = down_sigma(c);
    end_down(c);
    if (before->packets == 0 || x_high < 1.03 * x_low) {
        if (low < c->ambient)
            c->ambient = low;
        return;
    }
    double gone = high - low, suspected = suspected_loss(c);
    bool proved = gone > 2.5 * sigma && gone > 0.2 * suspected;
    bool likely = gone > 1.5 * sigma && gone > 0.5 * suspected && c->path_class != PATH_QUEUE;
    if (suspected > EXCESS_MIN / 2 && (proved || likely)) {
        double y_low = x_low * (1 - low), y_high = x_high * (1 - high);
        double best = y_low > y_high ? y_low : y_high;
        if (low < c->ambient)
            c->ambient = low;
        double bps = 0.98 * best / (1 - c->ambient);
        if (bps < c->base_bps)
            cut(c, bps);
        c->path_class = PATH_SHALLOW;
        hold(c, now_ns);
        return;
    }
    /* The rate is not to blame, so what both rates lost is the path's own. */
    cycle->hold_until_ns = now_ns;
    double own = (down->lost + before->lost) / (down->packets + before->packets);
    double change = own > c->ambient ? own - c->ambient : c->ambient - own;
    if (change > excess_limit(sigma))
        cycle->stale_loops = DOWN_STALE_LOOPS;
    else if (cycle->stale_loops < DOWN_STALE_LOOPS_MOST)
        cycle->stale_loops *= 2;
    double weight = c->ambient_known ? 0.5 : 1;
    c->ambient = rate_clamp(c->ambient + weight * (own - c->ambient), 0, AMBIENT_MAX);
    c->ambient_known = true;
}

static void down_sample(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    judge_competition(c, s);
    rate_rest(c, s, REST_WEIGHT);
    rate_tally_add(&cycle->down, s);
    double suspected = suspected_loss(c), doubt = 3 * down_sigma(c);
    double gone = tally_loss(&cycle->cruise_before) - tally_loss(&cycle->down);
    bool clear = suspected <= 0 || gone > suspected / 2 + doubt || gone < suspected / 2 - doubt;
    if (clear || rate_tally_speaks(c, &cycle->down))
        judge_down(c, now_ns);
}

/* ---- UP ---- */

static void up_succeeded(struct rate_controller *c, const struct rate_sample *s, double bps,
                         uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    if (cycle->raised_from_bps == 0 ||
        since_s(now_ns, cycle->raised_ns) > RAISE_PROVED_LOOPS * loop_s(c))
        cycle->raised_from_bps = c->base_bps;
    cycle->raised_ns = now_ns;
    rate_rest(c, s, REST_WEIGHT);
    if (cycle->small)
        cycle->small = false;
    else
        cycle->ladder++;
    cycle->patience = 1;
    cycle->yielding_from_bps = 0;
    cycle->cruise_until_ns = now_ns;
    if (cycle->competing)
        cruise_anew(c, now_ns);
    cycle->cruise = (struct rate_tally){0};
    rate_set_base(c, bps);
}

static void up_failed(struct rate_controller *c, double ceiling_bps, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    cycle->ladder = 0;
    cycle->small = true;
    if (cycle->patience < 3)
        cycle->patience++;
    cruise_anew(c, now_ns);
    rate_set_base(c, ceiling_bps);
}

static void up_sample(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    if (cycle->pending_id != s->plan.id)
        return;
    cycle->up_pending = false;
    double base = s->plan.base_bps, step = s->sent_bps / base - 1;
    if (step < 0.02) { /* the sender could not, so nothing was learned */
        cruise_anew(c, now_ns);
        return;
    }
    double limit_s = rate_queue_limit_s(c, 2);
    if (capacity_fell(c, s, s->queue_mean_s > cycle->queue_rest_s + limit_s, now_ns))
        return;
    double excess = s->loss - c->ambient;
    double grown = s->queue_mean_s >= 0 ? 2 * (s->queue_mean_s - cycle->queue_rest_s) : 0;
    /* The share of the raise that arrived, by either sign: 1 all, 0 none. */
    double by_delay = 1 - grown * (1 + step) / (step * s->seconds);
    double by_loss = 1 - excess / (1 - c->ambient) * (1 + step) / step;
    bool slow = by_delay < UP_PASSES;
    bool lossy = by_loss < UP_PASSES && excess > excess_limit(s->sigma);
    if (c->path_class == PATH_QUEUE) /* here loss is no sign, unless there is much */
        lossy = lossy && (slow || excess > EXCESS_LARGE);
    if (cycle->competing ? !lossy : !lossy && !slow) {
        bool shorted = c->path_class != PATH_QUEUE && by_loss < by_delay && excess > s->sigma;
        double share = rate_clamp(shorted ? by_loss : by_delay, UP_PASSES, 1);
        if (cycle->competing)
            share = 1;
        up_succeeded(c, s, base * (1 + step * share * share), now_ns);
        return;
    }
    if (slow && !lossy)
        c->path_class = PATH_QUEUE;
    else if (lossy && !slow && c->path_class == PATH_UNKNOWN)
        c->path_class = PATH_SHALLOW;
    double ceiling = base;
    if (lossy)
        ceiling = rate_clamp(s->delivered_bps / (1 - c->ambient), 0.9 * base, base);
    else
        ceiling = rate_clamp(s->sent_bps / (1 + grown / s->seconds), 0.98 * base, 1.01 * base);
    up_failed(c, ceiling, now_ns);
}

void rate_cycle_sample(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    if (s->plan.epoch != c->epoch) {
        rate_cycle_void(c, &s->plan);
        return;
    }
    switch (s->plan.phase) {
    case PHASE_UP:
        up_sample(c, s, now_ns);
        break;
    case PHASE_DOWN:
        down_sample(c, s, now_ns);
        break;
    case PHASE_CRUISE:
        cruise_sample(c, s, now_ns);
        break;
    default:
        break;
    }
}
