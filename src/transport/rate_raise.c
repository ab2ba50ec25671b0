/* UP: whether the path carries more. A raise counts by the share of it that arrives: what shows as
 * a growing queue, or as loss above the path's own, did not. */
#include <math.h>

#include "base/units.h"
#include "transport/rate_state.h"

#define UP_SMALL 0.06
#define TRAIN_NOISE_S 0.0002 /* packets leave in trains of up to 0.5 ms */
#define UP_NOISY 0.25
#define PATIENT_S 0.02  /* shorter round trips can wait for more of them */
#define QUEUE_RESTS 0.3 /* targets */
#define LARGE_STEP 0.2
#define LARGE_ARRIVES 0.25
#define COUNTED 3.0   /* packets that a raise adds, to be counted by them */
#define UP_PASSES 0.5 /* share of a raise that must arrive */

static const double ladder_gains[] = {0.25, 0.5, 1.0};

/* How uncertain the share of a small raise is, for an interval of one loop. */
static double up_noise(const struct rate_controller *c)
{
    double delay = (0.6 * c->jitter_s + TRAIN_NOISE_S) / rate_loop_s(c);
    double packets = c->base_bps * rate_loop_s(c) / 8 / c->config.datagram_bytes;
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

bool rate_raise_is_due(const struct rate_controller *c, uint64_t now_ns)
{
    const struct rate_cycle *cycle = &c->cycle;
    if (now_ns < cycle->cruise_until_ns || now_ns < cycle->hold_until_ns)
        return false;
    if (c->config.limit_bps != 0 && c->base_bps >= 0.999 * (double)c->config.limit_bps)
        return false;
    return cycle->competing || rate_queue_now_s(c) <= rate_fair_limit_s(c);
}

void rate_raise_soon(struct rate_controller *c, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    cycle->cruise_until_ns = cycle->hold_until_ns = now_ns;
    cycle->small = false;
    cycle->ladder = 0;
    cycle->patience = 1;
}

/* Makes the plan an UP. */
void rate_raise_plan(struct rate_controller *c, struct rate_plan *plan, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    plan->phase = PHASE_UP;
    plan->gain = cycle->cap_gain = up_gain(c);
    double doubt = 4 * up_noise(c) / (plan->gain - 1);
    plan->loops = rate_clamp(sqrt(doubt * sqrt(doubt)), 1, 4);
    cycle->up_pending = true;
    cycle->up_at_ns = now_ns;
    cycle->pending_id = plan->id;
    rate_cruise_anew(c, now_ns);
}

static void up_succeeded(struct rate_controller *c, const struct rate_sample *s, double bps,
                         uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    if (cycle->raised_from_bps == 0 ||
        rate_since_s(now_ns, cycle->raised_ns) > RATE_RAISE_PROVED_LOOPS * rate_loop_s(c))
        cycle->raised_from_bps = c->base_bps;
    cycle->raised_ns = now_ns;
    rate_rest(c, s, RATE_REST_WEIGHT);
    if (cycle->small)
        cycle->small = false;
    else
        cycle->ladder++;
    cycle->patience = 1;
    cycle->yielding_from_bps = 0;
    cycle->cruise_until_ns = now_ns;
    if (cycle->competing)
        rate_cruise_anew(c, now_ns);
    cycle->cruise = (struct rate_tally){0};
    rate_set_base(c, bps);
}

static void up_failed(struct rate_controller *c, double ceiling_bps, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    cycle->ladder = 0;
    cycle->small = true;
    if (cycle->patience < (rate_loop_s(c) < PATIENT_S ? 12 : 3))
        cycle->patience++;
    rate_cruise_anew(c, now_ns);
    rate_set_base(c, ceiling_bps);
}

void rate_raise_sample(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    if (cycle->pending_id != s->plan.id)
        return;
    cycle->up_pending = false;
    double base = s->plan.base_bps, step = s->sent_bps / base - 1;
    if (s->packets * (s->plan.gain - 1) < COUNTED)
        step = s->plan.gain - 1; /* a few packets more or less are no measure of the rate */
    if (step < 0.02) { /* the sender could not or the limit forbids it: nothing was learned */
        if (c->config.limit_bps != 0 && base * s->plan.gain > (double)c->config.limit_bps)
            rate_set_base(c, base * 1.02);
        rate_cruise_anew(c, now_ns);
        return;
    }
    double limit_s = rate_queue_limit_s(c, 2);
    if (rate_capacity_fell(c, s, s->queue_mean_s > cycle->queue_rest_s + limit_s, now_ns))
        return;
    double excess = s->loss - c->ambient;
    double grown = s->queue_mean_s >= 0 ? 2 * (s->queue_mean_s - cycle->queue_rest_s) : 0;
    /* The share of the raise that arrived, by either sign: 1 all, 0 none. */
    double by_delay = 1 - grown * (1 + step) / (step * s->seconds);
    double by_loss = 1 - excess / (1 - c->ambient) * (1 + step) / step;
    bool slow = by_delay < UP_PASSES;
    bool lossy = by_loss < UP_PASSES && excess > rate_excess_limit(s->sigma);
    bool full = rate_queue_is_full(c, 2 * s->queue_mean_s - s->queue_s);
    bool by_chance = c->path_class == PATH_QUEUE && !full; /* too much would show as delay */
    if (by_chance)
        lossy = lossy && (slow || excess > RATE_EXCESS_LARGE);
    bool arrived = by_chance ? !lossy : by_loss >= UP_PASSES || excess < RATE_EXCESS_MIN / 2;
    /* A large raise of which nothing arrived, by the receiver's clock, has failed whatever loss is
     * believed to be the path's own. */
    double by_arrival = (s->delivered_bps / (1 - c->ambient) / base - 1) / step;
    bool lacking = step > LARGE_STEP && excess > c->ambient && excess > RATE_EXCESS_MIN &&
                   by_arrival + 2 * s->sigma / step < LARGE_ARRIVES;
    if (arrived && !lacking && (cycle->competing || !slow)) {
        bool shorted = !by_chance && by_loss < by_delay && excess > s->sigma;
        double share = rate_clamp(shorted ? by_loss : by_delay, UP_PASSES, 1);
        if (cycle->competing)
            share = 1;
        up_succeeded(c, s, base * (1 + step * share * share), now_ns);
        return;
    }
    if (slow && arrived)
        c->path_class = PATH_QUEUE;
    else if (lossy && !slow && c->path_class == PATH_UNKNOWN)
        c->path_class = PATH_SHALLOW;
    /* Where no queue stands, the rate before the raise was not too high. */
    bool rests = cycle->queue_rest_s < QUEUE_RESTS * rate_queue_target_s(c);
    double ceiling = base;
    if (lossy)
        ceiling = rate_clamp(s->delivered_bps / (1 - c->ambient), 0.9 * base, base);
    else if (slow)
        ceiling = rate_clamp(s->sent_bps / (1 + grown / s->seconds), rests ? base : 0.98 * base,
                             1.01 * base);
    up_failed(c, ceiling, now_ns);
}
