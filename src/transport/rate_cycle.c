/* CYCLE: CRUISE at the believed rate, UP to see whether more is carried, DOWN to see whether loss
 * goes away at a lower rate. See docs/decisions/rate-controller.md. */
#include <math.h>

#include "base/units.h"
#include "transport/rate_state.h"

#define DOWN_GAIN 0.90
#define DOWN_GAIN_CROWDED 0.75
#define UP_SMALL 0.06
#define EXCESS_MIN 0.01
#define AMBIENT_MAX 0.25
#define HOLD_BUCKET_S 5.0
#define HOLD_SATURATED_S 4.0
#define PATIENCE_CRUISE_MAX 8u

static const double ladder_gains[] = {0.25, 0.25, 0.6, 0.6, 1.0};

static double seconds_since(uint64_t now_ns, uint64_t then_ns)
{
    return (double)(now_ns - then_ns) / 1e9;
}

static double loop_s(const struct rate_controller *c)
{
    double rtt = rate_rtt_s(c);
    return rtt > 0.005 ? rtt : 0.005;
}

static void cruise_anew(struct rate_controller *c)
{
    struct rate_cycle *cycle = &c->cycle;
    unsigned length = 2 + (unsigned)random_below(&c->random, 4);
    length *= cycle->patience;
    cycle->cruise_left = length < PATIENCE_CRUISE_MAX ? length : PATIENCE_CRUISE_MAX;
}

void rate_cycle_enter(struct rate_controller *c, uint64_t now_ns)
{
    c->state = PHASE_CRUISE;
    c->cycle = (struct rate_cycle){.patience = 1, .down_at_ns = now_ns, .hold_until_ns = now_ns};
    c->cycle.cruise_left = 1;
}

static void begin_down(struct rate_controller *c, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    cycle->down_wanted = false;
    cycle->down_at_ns = now_ns;
    cycle->cruise_before = cycle->cruise;
    cycle->down = (struct rate_tally){0};
}

static double up_gain(const struct rate_controller *c)
{
    const struct rate_cycle *cycle = &c->cycle;
    if (!cycle->small || cycle->ladder > 0) {
        unsigned last = sizeof ladder_gains / sizeof ladder_gains[0] - 1;
        return 1 + ladder_gains[cycle->ladder < last ? cycle->ladder : last];
    }
    double packets = c->base_bps * loop_s(c) / 8 / c->config.datagram_bytes;
    double noise = 1.5 * rate_sigma(c, c->ambient, packets > 120 ? packets : 120);
    if (c->path_class == PATH_QUEUE)
        noise = 2 * cycle->queue_noise_s / loop_s(c);
    return 1 + rate_clamp(4 * noise, UP_SMALL, 0.25);
}

void rate_cycle_plan(struct rate_controller *c, struct rate_plan *plan, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    plan->phase = PHASE_CRUISE;
    if (cycle->up_pending || (cycle->down_pending && cycle->down.packets == 0 &&
                              seconds_since(now_ns, cycle->down_at_ns) > 1.5 * loop_s(c)))
        return;
    if (cycle->down_wanted || cycle->down_pending) {
        if (!cycle->down_pending)
            begin_down(c, now_ns);
        cycle->down_pending = true;
        cycle->pending_id = plan->id;
        plan->phase = PHASE_DOWN;
        plan->gain = cycle->crowded > 0 ? DOWN_GAIN_CROWDED : DOWN_GAIN;
        return;
    }
    bool at_limit = c->config.limit_bps != 0 && c->base_bps >= 0.999 * (double)c->config.limit_bps;
    bool room = rate_queue_now_s(c) <= rate_queue_target_s(c) || cycle->competing;
    if (cycle->cruise_left == 0 && now_ns >= cycle->hold_until_ns && room && !at_limit) {
        plan->phase = PHASE_UP;
        plan->gain = up_gain(c);
        cycle->up_pending = true;
        cycle->pending_id = plan->id;
        cruise_anew(c);
        return;
    }
    if (cycle->cruise_left > 0)
        cycle->cruise_left--;
}

void rate_cycle_void(struct rate_controller *c, const struct rate_plan *plan)
{
    if (plan->phase == PHASE_UP && c->cycle.pending_id == plan->id)
        c->cycle.up_pending = false;
    if (plan->phase == PHASE_DOWN && c->cycle.pending_id == plan->id)
        c->cycle.down_pending = false;
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

static void cut(struct rate_controller *c, double bps)
{
    rate_set_base(c, bps);
    c->cycle.cruise = (struct rate_tally){0};
    c->cycle.ladder = 0;
    c->cycle.small = true;
}

static void hold(struct rate_controller *c, double duration_s, uint64_t now_ns)
{
    uint64_t until = now_ns + (uint64_t)(duration_s * 1e9);
    if (until > c->cycle.hold_until_ns)
        c->cycle.hold_until_ns = until;
}

/* ---- CRUISE ---- */

static void note_queue(struct rate_controller *c, const struct rate_sample *s)
{
    struct rate_cycle *cycle = &c->cycle;
    if (s->queue_mean_s < 0)
        return;
    double change = s->queue_mean_s - cycle->queue_last_s;
    if (change < 0)
        change = -change;
    cycle->queue_noise_s += 0.2 * (change - cycle->queue_noise_s);
    cycle->queue_last_s = s->queue_mean_s;
}

/* The sender itself falls short (processor, in-flight cap): a belief that is never tried decays
 * to what is. */
static void note_starving(struct rate_controller *c, const struct rate_sample *s)
{
    struct rate_cycle *cycle = &c->cycle;
    if (s->sent_bps >= 0.8 * c->base_bps) {
        cycle->starved = 0;
    } else if (++cycle->starved >= 4) {
        cycle->starved = 0;
        rate_set_base(c, s->sent_bps * 1.1);
    }
}

static bool capacity_fell(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    double carried = s->sent_bps * (1 - c->ambient);
    if (s->delivered_bps >= 0.85 * carried || s->queue_s < 2 * rate_queue_target_s(c))
        return false;
    cut(c, 0.9 * s->delivered_bps / (1 - c->ambient));
    rate_drain_begin(c, now_ns);
    return true;
}

/* More is lost than the path's own share. */
static void on_excess(struct rate_controller *c, const struct rate_sample *s, double loss,
                      double excess, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    double queue_limit = rate_queue_target_s(c);
    if (cycle->raised_from_bps > 0 && seconds_since(now_ns, cycle->raised_ns) < 6 * loop_s(c)) {
        double carried = c->base_bps * (1 - loss) / (1 - c->ambient);
        double back = cycle->raised_from_bps;
        cycle->raised_from_bps = 0;
        cut(c, carried > back ? carried : back);
        hold(c, HOLD_BUCKET_S, now_ns);
        return;
    }
    if (c->path_class == PATH_QUEUE && s->queue_s <= queue_limit) {
        cycle->down_wanted = true;
        return;
    }
    cycle->down_wanted = true;
    if (excess > 0.05 || s->queue_s > queue_limit)
        cut(c, c->base_bps * (1 - excess / 2));
}

static void cruise_sample(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    note_queue(c, s);
    note_starving(c, s);
    if (capacity_fell(c, s, now_ns))
        return;
    cycle->crowded = s->queue_s > 2 * rate_queue_target_s(c) ? cycle->crowded + 1 : 0;
    if (cycle->crowded >= 4 && !cycle->down_pending &&
        seconds_since(now_ns, cycle->down_at_ns) > 8 * loop_s(c))
        cycle->down_wanted = true;
    rate_tally_add(&cycle->cruise, s);
    if (!rate_tally_speaks(c, &cycle->cruise, now_ns) || cycle->down_pending)
        return;
    double loss = tally_loss(&cycle->cruise);
    double sigma = rate_sigma(c, loss, cycle->cruise.packets);
    if (loss + sigma < c->floor || seconds_since(now_ns, c->floor_at_ns) > 30) {
        c->floor = loss + sigma;
        c->floor_at_ns = now_ns;
    }
    double excess = loss - c->ambient;
    bool stale = c->path_class != PATH_QUEUE && loss > EXCESS_MIN / 2 &&
                 seconds_since(now_ns, cycle->down_at_ns) > 40 * loop_s(c);
    if (excess > excess_limit(sigma))
        on_excess(c, s, loss, excess, now_ns);
    else if (stale || -excess > excess_limit(sigma))
        cycle->down_wanted = true;
    if (!cycle->down_wanted)
        cycle->cruise = (struct rate_tally){0};
}

/* ---- DOWN ---- */

/* A queue that does not shrink when this sender slows down is held by somebody else. */
static void judge_competition(struct rate_controller *c, const struct rate_sample *s)
{
    struct rate_cycle *cycle = &c->cycle;
    double target = rate_queue_target_s(c);
    if (s->queue_s <= target) {
        cycle->competing = false;
        cycle->crowded = 0;
    } else if (s->queue_s > 2 * target && cycle->crowded > 0) {
        double drained = cycle->queue_last_s - s->queue_mean_s;
        double expected = (1 - s->plan.gain) * s->seconds / 2;
        cycle->competing = drained < 0.3 * expected;
    }
}

static void down_sample(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    judge_competition(c, s);
    rate_tally_add(&cycle->down, s);
    if (!rate_tally_speaks(c, &cycle->down, now_ns) && cycle->down.lost > 0)
        return;
    cycle->down_pending = false;
    double low = tally_loss(&cycle->down), high = tally_loss(&cycle->cruise_before);
    double x_low = tally_bps(&cycle->down), x_high = tally_bps(&cycle->cruise_before);
    double sigma_low = rate_sigma(c, low, cycle->down.packets);
    double sigma_high = rate_sigma(c, high, cycle->cruise_before.packets);
    double sigma = sqrt(sigma_low * sigma_low + sigma_high * sigma_high);
    cycle->cruise = (struct rate_tally){0};
    if (x_high < 1.03 * x_low || cycle->cruise_before.packets == 0) {
        if (low < c->ambient)
            c->ambient = low;
        return;
    }
    double step = (x_high - x_low) / x_high;
    double elasticity = (x_high * (1 - high) - x_low * (1 - low)) / (x_high - x_low) / (1 - low);
    bool full = elasticity + 1.5 * sigma / step < 0.6 && high - low > excess_limit(0);
    if (full) {
        double best =
            x_high * (1 - high) > x_low * (1 - low) ? x_high * (1 - high) : x_low * (1 - low);
        double share = low < c->ambient ? low : c->ambient;
        c->ambient = rate_clamp(share, 0, AMBIENT_MAX);
        if (0.98 * best / (1 - c->ambient) < c->base_bps)
            cut(c, 0.98 * best / (1 - c->ambient));
        c->path_class = PATH_SHALLOW;
        hold(c, HOLD_SATURATED_S, now_ns);
        return;
    }
    double weight = c->ambient_known ? 0.5 : 1;
    c->ambient += weight * (low - c->ambient);
    c->ambient = rate_clamp(c->ambient, 0, AMBIENT_MAX);
    c->ambient_known = true;
}

/* ---- UP ---- */

static void up_succeeded(struct rate_controller *c, double bps, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    if (cycle->raised_from_bps == 0 || seconds_since(now_ns, cycle->raised_ns) > 6 * loop_s(c))
        cycle->raised_from_bps = c->base_bps;
    cycle->raised_ns = now_ns;
    if (cycle->small && cycle->ladder == 0)
        cycle->small = false;
    else
        cycle->ladder++;
    cycle->patience = 1;
    cycle->cruise_left = 0;
    cycle->cruise = (struct rate_tally){0};
    rate_set_base(c, bps);
}

static void up_failed(struct rate_controller *c, double ceiling_bps)
{
    struct rate_cycle *cycle = &c->cycle;
    cycle->ladder = 0;
    cycle->small = true;
    if (cycle->patience < 3)
        cycle->patience++;
    cruise_anew(c);
    if (ceiling_bps < c->base_bps)
        rate_set_base(c, ceiling_bps > 0.9 * c->base_bps ? ceiling_bps : 0.9 * c->base_bps);
}

static void up_sample(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    if (cycle->pending_id != s->plan.id)
        return;
    cycle->up_pending = false;
    double base = s->plan.base_bps, x = s->sent_bps;
    double step = x / base - 1;
    if (step < 0.02) { /* the sender could not, so nothing was learned */
        cruise_anew(c);
        return;
    }
    double excess = s->loss - c->ambient;
    double grown = s->queue_mean_s >= 0 ? s->queue_mean_s - cycle->queue_last_s : 0;
    double by_delay = 1 - 2 * grown / (step * s->seconds);
    double by_loss = 1 - excess / (1 - c->ambient) * (1 + step) / step;
    double limit = excess_limit(s->sigma);
    bool lossy = c->path_class == PATH_QUEUE ? excess > 2 * limit && excess > 0.05
                                             : excess > limit || by_loss < 0.5;
    bool slow = by_delay < 0.5;
    if (!lossy && !slow) {
        double share = rate_clamp(by_delay, 0.5, 1);
        up_succeeded(c, base * (1 + step * share), now_ns);
        return;
    }
    if (slow && !lossy)
        c->path_class = PATH_QUEUE;
    else if (lossy && !slow && c->path_class == PATH_UNKNOWN)
        c->path_class = PATH_SHALLOW;
    double ceiling = s->delivered_bps / (1 - c->ambient);
    up_failed(c, lossy || slow ? ceiling : base);
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
