/* What loss means: judged in CRUISE, and settled by a DOWN, an interval or more at a lower rate.
 * Random loss is the same there; loss that the rate itself makes is gone. */
#include <math.h>

#include "base/units.h"
#include "transport/rate_state.h"

#define DOWN_GAIN 0.90
#define DOWN_GAIN_CROWDED 0.75 /* to empty the queue and see whose it is */
#define DOWN_GAIN_CUT 0.97     /* when a cut has just been made */
#define DOWN_GAIN_LEAST 0.5
#define EXCESS_SHARED 0.002 /* with a rival in the queue */
#define EVENTS_PLENTY 100.0 /* of losses; doubt that is left then is dropped */
#define EXCESS_POLITE 0.005
#define CUT_FAIR 0.75
#define CUT_BACKGROUND 0.5
#define CUT_SHARED 0.7
#define EXCESS_GROSS 0.20 /* cut at once, whatever it turns out to be */
#define AMBIENT_MAX 0.5
#define WORSE_SIGMAS 3.0
#define DOWN_STALE_LOOPS_MOST 160.0

/* A DOWN goes low enough that all of the suspected loss would be gone if it were our doing. */
void rate_down_begin(struct rate_controller *c, uint64_t now_ns)
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

void rate_down_end(struct rate_controller *c)
{
    c->cycle.down_pending = c->cycle.down_asked = c->cycle.draining = false;
    c->cycle.cruise = (struct rate_tally){0};
}

/* The path carries `bps`, and loses `own` of what is below. */
static void full(struct rate_controller *c, double own, double bps, uint64_t now_ns)
{
    if (own < c->ambient)
        c->ambient = own;
    bps *= 0.98 / (1 - c->ambient);
    if (bps < c->base_bps)
        rate_cut(c, bps);
    c->path_class = PATH_SHALLOW;
    rate_hold(c, now_ns);
}

/* What every rate of late says at once needs no DOWN. */
static bool is_answered(struct rate_controller *c, double bps, double loss, uint64_t now_ns)
{
    double own = 0, carried_bps = 0;
    enum rate_verdict verdict = rate_answer_judge(c, bps, loss, now_ns, &own, &carried_bps);
    if (verdict == RATE_OWN) {
        c->ambient = rate_clamp(own, 0, AMBIENT_MAX);
        c->ambient_known = true;
    } else if (verdict == RATE_FULL) {
        full(c, own, carried_bps, now_ns);
    }
    return verdict != RATE_UNCLEAR;
}

/* More is lost than the path's own share. */
static void on_excess(struct rate_controller *c, const struct rate_sample *s, double loss,
                      uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    if (is_answered(c, rate_tally_bps(&cycle->cruise), loss, now_ns))
        return;
    double excess = loss - c->ambient;
    bool queue_full = rate_queue_is_full(c, s->queue_s);
    bool gross = excess > EXCESS_GROSS;
    cycle->down_wanted = true;
    double most = 1 - DOWN_GAIN;
    cycle->cure_bps = c->base_bps * 0.97 * (1 - (excess > most ? excess : most));
    if (c->path_class == PATH_QUEUE && !gross && (!queue_full || !c->ambient_known))
        return; /* too much would show as delay: no haste */
    if (cycle->raised_from_bps > 0 &&
        rate_since_s(now_ns, cycle->raised_ns) < RATE_RAISE_PROVED_LOOPS * rate_loop_s(c)) {
        double carried = c->base_bps * (1 - loss) / (1 - c->ambient);
        double back = cycle->raised_from_bps;
        cycle->raised_from_bps = 0;
        cycle->down_wanted = false;
        rate_cut(c, carried > back ? carried : back);
        rate_hold(c, now_ns);
    } else if (gross) {
        rate_cut(c, c->base_bps * (1 - excess > 0.5 ? 1 - excess : 0.5));
    } else if (queue_full || excess > RATE_EXCESS_LARGE) {
        rate_cut(c, c->base_bps * (1 - excess / 2));
    }
}

/* Against a sender that fills the queue, loss is the sign to make room; it comes to both. */
static void judge_shared(struct rate_controller *c, const struct rate_sample *s, double loss,
                         double sigma)
{
    double limit = 3 * sigma > EXCESS_SHARED ? 3 * sigma : EXCESS_SHARED;
    if (loss - c->ambient > limit && s->queue_s > rate_queue_limit_s(c, 1))
        rate_cut(c, c->base_bps * CUT_SHARED);
    c->cycle.cruise = (struct rate_tally){0};
}

/* The polite make room before they ask whose fault it is. */
static bool make_room(struct rate_controller *c, const struct rate_sample *s, double excess,
                      double sigma, uint64_t now_ns)
{
    double limit = 4 * sigma > EXCESS_POLITE ? 4 * sigma : EXCESS_POLITE;
    if (c->config.policy == RATE_AUTO || excess <= limit)
        return false;
    if (c->path_class == PATH_QUEUE && s->queue_s <= rate_queue_limit_s(c, 1))
        return false;
    /* A quick start has seen little of the path: a DOWN says first what it loses by itself. */
    if (!c->ambient_known && (!c->cycle.polite || c->cycle.down_wanted)) {
        c->cycle.down_wanted = c->cycle.polite = true;
        return false;
    }
    c->cycle.down_wanted = true;
    c->cycle.cure_bps = c->base_bps * (1 - excess) * (1 - DOWN_GAIN / 10);
    rate_cut(c, c->base_bps * (c->config.policy == RATE_FAIR ? CUT_FAIR : CUT_BACKGROUND));
    rate_hold(c, now_ns);
    return true;
}

void rate_judge_cruise(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    double loss = rate_tally_loss(&cycle->cruise);
    double sigma = rate_sigma(c, loss, cycle->cruise.packets);
    double limit = rate_excess_limit(sigma);
    if (make_room(c, s, loss - c->ambient, sigma, now_ns))
        return;
    if (cycle->competing) {
        judge_shared(c, s, loss, sigma);
        return;
    }
    bool stale = c->path_class != PATH_QUEUE && loss > RATE_EXCESS_MIN / 2 &&
                 rate_since_s(now_ns, cycle->down_at_ns) > cycle->stale_loops * rate_loop_s(c);
    if (loss - c->ambient > limit)
        on_excess(c, s, loss, now_ns);
    else if (stale)
        cycle->down_wanted = true;
    else if (loss < c->ambient - limit)
        c->ambient = loss + sigma; /* less is lost at a higher rate: no doubt about that */
    bool more = loss - c->ambient > 1.5 * sigma && cycle->cruise.events < EVENTS_PLENTY;
    if (!cycle->down_wanted && !more)
        cycle->cruise = (struct rate_tally){0};
}

/* How far the two may lie apart by chance, were both the same. */
static double down_sigma(const struct rate_controller *c)
{
    const struct rate_tally *before = &c->cycle.cruise_before, *down = &c->cycle.down;
    double packets = down->packets + before->packets;
    double own = packets > 0 ? (down->lost + before->lost) / packets : 0;
    double low = rate_sigma(c, own, down->packets), high = rate_sigma(c, own, before->packets);
    return sqrt(low * low + high * high);
}

/* What going slower could cure of the loss that CRUISE showed. */
static double suspected_loss(const struct rate_controller *c)
{
    const struct rate_tally *before = &c->cycle.cruise_before;
    double suspected = rate_tally_loss(before) - c->ambient;
    double most =
        before->bits > 0 ? 1 - rate_tally_bps(&c->cycle.down) / rate_tally_bps(before) : 0;
    return suspected < most ? suspected : most;
}

/* Whether going slower cured the loss: it went, or, far above what the path carries, as much
 * arrived as before. With other senders on the path only a part goes. */
static bool down_cured(const struct rate_controller *c, double sigma)
{
    const struct rate_tally *before = &c->cycle.cruise_before, *down = &c->cycle.down;
    double low = rate_tally_loss(down), high = rate_tally_loss(before);
    double gone = high - low, suspected = suspected_loss(c);
    if (suspected <= RATE_EXCESS_MIN / 2)
        return false;
    double gain = rate_tally_bps(down) / rate_tally_bps(before);
    double arrived = gain * (1 - low) / (1 - high + 1e-6); /* 1: as much as before */
    double held = (arrived - gain) / (1 - gain), blur = sigma / (1 - high + 1e-6);
    if (held > 0.5 && blur * arrived < 0.3 * (1 - gain))
        return true;
    /* Where too high a rate has shown as delay, it takes more to blame it for loss. */
    double doubts = c->path_class == PATH_QUEUE ? 3.5 : 2.5;
    bool proved = gone > doubts * sigma && gone > 0.2 * suspected;
    bool likely = gone > 1.5 * sigma && gone > 0.5 * suspected && c->path_class != PATH_QUEUE;
    return proved || likely;
}

/* Were the path full, the loss above its own share would be gone at this lower rate; were the
 * loss the path's own, it would be the same. With other senders on the path only a part goes. */
static void judge_down(struct rate_controller *c, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    const struct rate_tally *before = &cycle->cruise_before, *down = &cycle->down;
    double low = rate_tally_loss(down), high = rate_tally_loss(before);
    double x_low = rate_tally_bps(down), x_high = rate_tally_bps(before);
    double sigma = down_sigma(c);
    rate_down_end(c);
    if (before->packets == 0 || x_high < 1.03 * x_low) {
        if (low < c->ambient)
            c->ambient = low;
        return;
    }
    if (is_answered(c, x_high, high, now_ns))
        return;
    if (down_cured(c, sigma)) {
        double y_low = x_low * (1 - low), y_high = x_high * (1 - high);
        double best = y_low > y_high ? y_low : y_high;
        if (low < c->ambient)
            c->ambient = low;
        double bps = 0.98 * best / (1 - c->ambient);
        if (bps < c->base_bps)
            rate_cut(c, bps);
        c->path_class = PATH_SHALLOW;
        rate_hold(c, now_ns);
        return;
    }
    if (low - high > RATE_EXCESS_MIN + WORSE_SIGMAS * sigma)
        return; /* less was sent and more was lost: the path changed meanwhile, to be asked anew */
    /* The rate is not to blame, so what both rates lost is the path's own. */
    cycle->hold_until_ns = now_ns;
    double own = (down->lost + before->lost) / (down->packets + before->packets);
    double change = own > c->ambient ? own - c->ambient : c->ambient - own;
    if (change > rate_excess_limit(sigma))
        cycle->stale_loops = RATE_DOWN_STALE_LOOPS;
    else if (cycle->stale_loops < DOWN_STALE_LOOPS_MOST)
        cycle->stale_loops *= 2;
    double weight = c->ambient_known ? 0.5 : 1;
    c->ambient = rate_clamp(c->ambient + weight * (own - c->ambient), 0, AMBIENT_MAX);
    c->ambient_known = true;
}

void rate_down_sample(struct rate_controller *c, const struct rate_sample *s, uint64_t now_ns)
{
    struct rate_cycle *cycle = &c->cycle;
    rate_judge_competition(c, s);
    rate_rest(c, s, RATE_REST_WEIGHT);
    rate_tally_add(&cycle->down, s);
    double suspected = suspected_loss(c), doubt = 3 * down_sigma(c);
    double gone = rate_tally_loss(&cycle->cruise_before) - rate_tally_loss(&cycle->down);
    bool clear = suspected <= 0 || gone > suspected / 2 + doubt || gone < suspected / 2 - doubt;
    if (clear || rate_tally_speaks(c, &cycle->down))
        judge_down(c, now_ns);
}
