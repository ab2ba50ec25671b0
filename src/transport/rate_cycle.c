/* CYCLE: CRUISE at the believed rate and watch the queue; now and then an UP (rate_raise.c) or a
 * DOWN (rate_loss.c). See docs/decisions/rate-controller.md. */
#include <math.h>

#include "base/units.h"
#include "transport/rate_state.h"

#define CRUISE_LONGEST_S 0.3 /* on short round trips; else 8 of them */
#define CROWDED 1.25 /* targets of queue: below, raises may be tried; above, the rate follows */
#define CROWDED_BACKGROUND 0.5
#define FAIR_BPS 1e8 /* where the limit is as said, see fair_limit_s */
#define FOLLOW 0.02
#define FOLLOW_MOST 0.03
#define HASTE_BACKGROUND 4.0
#define OWN_RAISE_LOOPS 3.0
#define YIELDED 0.8       /* of the rate is left, and the queue is still there */
#define EXCESS_ENOUGH 0.2 /* this much is looked into, chance or not */
#define OVERLOAD 0.1
#define UNFILLED_PACKETS 40.0
#define TRIED 0.7 /* of the believed rate: below, what arrives says nothing of it */
#define BRAKE_TARGETS 4.0
#define BRAKE_SLOPE 0.3
#define BRAKE_MOST 0.95
#define OWN_QUEUE 0.8 /* targets: what is left of a queue that was ours */
#define OWN_SHARE 0.3 /* of what a drain should have emptied, had the queue been ours */
#define DRAIN_EVERY_LOOPS 8.0
#define FELL 0.85 /* of the believed rate is all that arrives */
#define BASE_RTT_AGE_S 8.0

double rate_since_s(uint64_t now_ns, uint64_t then_ns)
{
    return now_ns > then_ns ? (double)(now_ns - then_ns) / 1e9 : 0;
}

uint64_t rate_later(uint64_t now_ns, double seconds)
{
    return now_ns + (uint64_t)(seconds * 1e9);
}

double rate_loop_s(const struct rate_controller *c)
{
    double rtt = rate_still_rtt_s(c);
    return rtt > 0.005 ? rtt : 0.005;
}

double rate_tally_loss(const struct rate_tally *tally)
{
    return tally->packets > 0 ? tally->lost / tally->packets : 0;
}

double rate_tally_bps(const struct rate_tally *tally)
{
    return tally->seconds > 0 ? tally->bits / tally->seconds : 0;
}

double rate_excess_limit(double sigma)
{
    return rate_clamp(3 * sigma, RATE_EXCESS_MIN, EXCESS_ENOUGH);
}

/* ---- Plans ---- */

void rate_cruise_anew(struct rate_controller *c, uint64_t now_ns)
{
    double loops = 2 + (double)random_below(&c->random, 4);
    double most = CRUISE_LONGEST_S / rate_loop_s(c);
    loops = rate_clamp(loops * c->cycle.patience, 2, most > 8 ? most : 8);
    c->cycle.cruise_until_ns = rate_later(now_ns, loops * rate_loop_s(c));
}

void rate_cycle_enter(struct rate_controller *c, uint64_t now_ns)
{
    c->state = PHASE_CRUISE;
    c->cycle = (struct rate_cycle){.patience = 1, .down_at_ns = now_ns, .hold_until_ns = now_ns};
    c->cycle.stale_loops = RATE_DOWN_STALE_LOOPS;
    c->cycle.cruise_until_ns = rate_later(now_ns, rate_loop_s(c));
}

/* The queue this rate puts up with: less at a high rate than at a low one, so that of several
 * senders the large make room and the small take it. */
double rate_fair_limit_s(const struct rate_controller *c)
{
    if (c->config.policy == RATE_BACKGROUND)
        return rate_queue_limit_s(c, CROWDED_BACKGROUND);
    double slope = sqrt(sqrt(sqrt(FAIR_BPS / c->base_bps)));
    return rate_queue_limit_s(c, 0) + CROWDED * rate_queue_target_s(c) * slope;
}

/* An interval may never be closed, if nothing was sent in it. */
static void give_up_waiting(struct rate_controller *c, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    double patience = 10 * (double)c->last_rtt_ns / 1e9 + 12 * rate_loop_s(c) + 1;
    if (cycle->up_pending && rate_since_s(now_ns, cycle->up_at_ns) > patience)
        cycle->up_pending = false;
    if (cycle->down_asked && rate_since_s(now_ns, cycle->asked_ns) > patience)
        rate_down_end(c);
}

void rate_cycle_plan(struct rate_controller *c, struct rate_plan *plan, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    plan->phase = PHASE_CRUISE;
    give_up_waiting(c, now_ns);
    if (cycle->up_pending) {
        plan->waits = true;
        return;
    }
    if (!cycle->down_pending && cycle->down_wanted)
        rate_down_begin(c, now_ns);
    if (cycle->down_pending) {
        /* One interval is asked first; if it says too little, more follow. */
        if (cycle->down_asked && cycle->down.packets == 0) {
            plan->waits = true;
            return;
        }
        cycle->down_asked = true;
        cycle->asked_ns = now_ns;
        cycle->pending_id = plan->id;
        plan->phase = PHASE_DOWN;
        plan->gain = cycle->down_gain;
    } else if (rate_raise_is_due(c, now_ns)) {
        rate_raise_plan(c, plan, now_ns);
    }
}

void rate_cycle_void(struct rate_controller *c, const struct rate_plan *plan)
{
    if (c->state != PHASE_CRUISE || c->cycle.pending_id != plan->id)
        return;
    if (plan->phase == PHASE_UP)
        c->cycle.up_pending = false;
    if (plan->phase == PHASE_DOWN)
        rate_down_end(c);
}

void rate_cut(struct rate_controller *c, double bps)
{
    rate_set_base(c, bps);
    c->cycle.cruise = (struct rate_tally){0};
    c->cycle.ladder = 0;
    c->cycle.small = true;
}

void rate_hold(struct rate_controller *c, uint64_t now_ns)
{
    uint64_t until = rate_later(now_ns, rate_clamp(50 * rate_loop_s(c), 1, 5));
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
    if (cycle->starved_s > 4 * rate_loop_s(c)) {
        cycle->starved_s = 0;
        rate_set_base(c, s->sent_bps * 1.1);
    }
}

/* Even the less that the sender managed was too much: its interval says nothing of what the path
 * carries, but that the belief is higher yet. */
void rate_cycle_unfilled(struct rate_controller *c, const struct rate_sample *s)
{
    double excess = s->loss - c->ambient;
    if (c->state == PHASE_CRUISE && s->plan.phase == PHASE_CRUISE && s->plan.epoch == c->epoch &&
        !s->plan.waits && s->packets >= UNFILLED_PACKETS && s->sent_bps > TRIED * c->base_bps &&
        excess > OVERLOAD && excess > 3 * s->sigma)
        rate_cut(c, c->base_bps * (1 - excess));
}

/* With a queue all through the interval, what arrived is what the path carries, at whatever rate it
 * was sent. */
bool rate_capacity_fell(struct rate_controller *c, const struct rate_sample *s, bool queued,
                        uint64_t now_ns)
{
    double carried = s->arrived_bps / (1 - c->ambient);
    double blur =
        2 * rate_queue_limit_s(c, 0) / s->seconds + 3 * s->sigma; /* of the span, and by chance */
    if (!queued || s->plan.waits || c->cycle.competing ||
        carried >= rate_clamp(FELL - blur, 0.3, FELL) * c->base_bps)
        return false;
    rate_cut(c, 0.9 * carried);
    rate_drain_begin(c, now_ns);
    return true;
}

/* Between intervals: a queue of over a round trip that still grows by more than a third of the time
 * that passes is a path whose rate has collapsed. Its intervals would take as long to be settled as
 * the queue is; how fast the delay grows says now what is left of the rate. */
void rate_brake(struct rate_controller *c, double slope, uint64_t now_ns)
{
    double long_s = rate_queue_limit_s(c, BRAKE_TARGETS) + 3 * c->jitter_s;
    long_s = long_s > rate_loop_s(c) ? long_s : rate_loop_s(c);
    if (c->state != PHASE_CRUISE || c->cycle.competing || slope < BRAKE_SLOPE ||
        rate_queue_now_s(c) < long_s)
        return;
    rate_cut(c, 0.9 * c->base_bps * (1 - rate_clamp(slope, 0, BRAKE_MOST)));
    rate_drain_begin(c, now_ns);
}

/* A queue that stays over its limit, not by our own raise: the belief is too high and follows. If
 * that has gone on for a while and the queue is still there, it may be somebody else's. */
static void follow_queue(struct rate_controller *c, const struct rate_sample *s)
{
    struct rate_cycle *cycle = &c->cycle;
    double over = (s->queue_s - rate_fair_limit_s(c)) / rate_queue_target_s(c);
    if (cycle->competing || s->plan.waits)
        return;
    if (over <= 0) {
        cycle->yielding_from_bps = 0;
        return;
    }
    if (cycle->yielding_from_bps == 0)
        cycle->yielding_from_bps = c->base_bps;
    double haste = c->config.policy == RATE_BACKGROUND ? HASTE_BACKGROUND : 1;
    double down = rate_clamp(FOLLOW * over, 0, FOLLOW_MOST) * haste;
    if (rate_since_s(s->plan.begun_ns, cycle->up_at_ns) > OWN_RAISE_LOOPS * rate_loop_s(c))
        rate_set_base(c, c->base_bps * (1 - down));
}

/* Whether it is time for a DOWN that empties the queue. */
static bool must_drain(const struct rate_controller *c, uint64_t now_ns)
{
    const struct rate_cycle *cycle = &c->cycle;
    double loops = rate_since_s(now_ns, cycle->down_at_ns) / rate_loop_s(c);
    if (cycle->down_pending || loops < DRAIN_EVERY_LOOPS)
        return false;
    if (cycle->competing)
        return loops > 4 * DRAIN_EVERY_LOOPS;
    return cycle->crowded_s > 4 * rate_loop_s(c) ||
           c->base_bps < YIELDED * cycle->yielding_from_bps ||
           rate_since_s(now_ns, c->base_rtt_at_ns) > BASE_RTT_AGE_S;
}

static void cruise_sample(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    if (rate_capacity_fell(c, s, s->queue_s > rate_queue_limit_s(c, 2), now_ns))
        return;
    note_queue(c, s);
    note_starving(c, s);
    follow_queue(c, s);
    cycle->crowded_s = s->queue_s > rate_queue_limit_s(c, 2) ? cycle->crowded_s + s->seconds : 0;
    if (must_drain(c, now_ns))
        cycle->down_wanted = cycle->draining = true;
    rate_tally_add(&cycle->cruise, s);
    if (!cycle->down_pending && rate_tally_speaks(c, &cycle->cruise))
        rate_judge_cruise(c, s, now_ns);
}

/* A queue that does not shrink when this sender slows down is held by somebody else. */
void rate_judge_competition(struct rate_controller *c, const struct rate_sample *s)
{
    struct rate_cycle *cycle = &c->cycle;
    double before = cycle->queue_rest_s, after = s->queue_s;
    if (after < 0 || !cycle->draining)
        return;
    if (after <= rate_queue_limit_s(c, OWN_QUEUE)) {
        cycle->competing = false;
        cycle->crowded_s = 0;
        return;
    }
    double expected = (1 - s->plan.gain) * s->seconds; /* were the path ours alone */
    if (expected > before)
        expected = before;
    bool overload = s->loss - c->ambient > OVERLOAD; /* then we keep it full ourselves */
    cycle->competing =
        c->config.policy != RATE_BACKGROUND && !overload && before - after < OWN_SHARE * expected;
    cycle->yielding_from_bps = 0;
}

/* Whatever is believed of loss: twice what arrived in the best of the last intervals is enough. */
static void bound_by_delivery(struct rate_controller *c, const struct rate_sample *s)
{
    struct rate_cycle *cycle = &c->cycle;
    if (s->plan.waits || s->packets < 8 || s->sent_bps < TRIED * c->base_bps)
        return;
    cycle->delivered_bps[cycle->delivered_count++ % RATE_DELIVERED] = s->delivered_bps;
    if (cycle->delivered_count < RATE_DELIVERED)
        return;
    double best = 0;
    for (unsigned i = 0; i < RATE_DELIVERED; i++)
        best = cycle->delivered_bps[i] > best ? cycle->delivered_bps[i] : best;
    if (c->base_bps > 2.2 * best) {
        rate_cut(c, 1.5 * best);
        cycle->delivered_count = 0;
    }
}

void rate_cycle_sample(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    bound_by_delivery(c, s);
    rate_note_brim(c, s, now_ns);
    rate_answer_note(c, s);
    if (s->plan.epoch != c->epoch) {
        rate_cycle_void(c, &s->plan);
        return;
    }
    switch (s->plan.phase) {
    case PHASE_UP:
        rate_raise_sample(c, s, now_ns);
        break;
    case PHASE_DOWN:
        rate_down_sample(c, s, now_ns);
        break;
    case PHASE_CRUISE:
        cruise_sample(c, s, now_ns);
        break;
    default:
        break;
    }
}
