#include "transport/lane_growth.h"

#include "base/units.h"

#define WINDOW_RTTS 6u
#define WINDOW_LEAST_NS (300 * NS_PER_MS)
#define OPENING_RTTS 4u
#define OPENING_LEAST_NS (2 * NS_PER_S)
#define HELD_SHARE 0.8   /* of a window, by the path alone */
#define STILL_GROWS 1.1  /* against the window before */
#define WORTH_BPS 20e6   /* slower paths have no need of more than one lane */
#define KEPT 1.25        /* against the rate without them */
#define TRIAL_WINDOWS 3u /* in the last of which it has to be seen */

void lane_growth_init(struct lane_growth *growth, unsigned lanes, unsigned most)
{
    *growth = (struct lane_growth){.lanes = lanes < 1 ? 1 : lanes, .most = most};
    growth->kept = growth->lanes;
    if (growth->lanes >= most)
        growth->state = GROWTH_OVER;
}

void lane_growth_set(struct lane_growth *growth, unsigned lanes)
{
    growth->lanes = growth->kept = lanes;
    growth->before_bps = 0;
    growth->state = lanes < growth->most ? GROWTH_WATCHING : GROWTH_OVER;
}

static void begin_window(struct lane_growth *growth, const struct lane_growth_view *view)
{
    growth->window_ns = view->now_ns;
    growth->window_bytes = view->bytes;
    growth->window_held_ns = view->held_ns;
}

static uint64_t window_length(const struct lane_growth_view *view)
{
    uint64_t length = WINDOW_RTTS * view->rtt_ns;
    return length > WINDOW_LEAST_NS ? length : WINDOW_LEAST_NS;
}

/* What arrived in the window that ends now, and whether the path alone decided it. */
static double window_bps(const struct lane_growth *growth, const struct lane_growth_view *view,
                         bool *held)
{
    double passed = (double)(view->now_ns - growth->window_ns);
    *held = (double)(view->held_ns - growth->window_held_ns) >= HELD_SHARE * passed;
    return (double)(view->bytes - growth->window_bytes) * 8e9 / passed;
}

static bool watch(struct lane_growth *growth, double bps, bool held)
{
    double before = growth->before_bps;
    growth->before_bps = held ? bps : 0;
    if (!held || before == 0 || bps > STILL_GROWS * before || bps < WORTH_BPS)
        return false;
    unsigned twice = 2 * growth->lanes;
    growth->plain_bps = bps > before ? bps : before;
    growth->lanes = twice < growth->most ? twice : growth->most;
    growth->state = GROWTH_OPENING;
    return true;
}

/* The lanes that were tried come to rest. */
static bool give_up(struct lane_growth *growth)
{
    growth->lanes = growth->kept;
    growth->state = GROWTH_OVER;
    return true;
}

static bool judge(struct lane_growth *growth, double bps, bool held)
{
    if (!held) { /* it says nothing: what holds it back now is not the path */
        growth->kept = growth->lanes;
        growth->before_bps = 0;
        growth->state = GROWTH_WATCHING;
        return false;
    }
    if (bps >= KEPT * growth->plain_bps) {
        growth->kept = growth->lanes;
        growth->before_bps = 0;
        growth->state = growth->lanes < growth->most ? GROWTH_WATCHING : GROWTH_OVER;
        return false;
    }
    return ++growth->windows >= TRIAL_WINDOWS && give_up(growth);
}

static bool await_lanes(struct lane_growth *growth, const struct lane_growth_view *view)
{
    uint64_t longest = OPENING_RTTS * view->rtt_ns;
    longest = longest > OPENING_LEAST_NS ? longest : OPENING_LEAST_NS;
    if (view->joined >= growth->lanes) {
        growth->state = GROWTH_TRYING;
        growth->windows = 0;
        begin_window(growth, view);
        return false;
    }
    return view->now_ns - growth->window_ns > longest && give_up(growth);
}

bool lane_growth_step(struct lane_growth *growth, const struct lane_growth_view *view)
{
    if (growth->state == GROWTH_OVER || !view->settled)
        return false;
    if (growth->window_ns == 0)
        begin_window(growth, view);
    if (growth->state == GROWTH_OPENING)
        return await_lanes(growth, view);
    if (view->now_ns - growth->window_ns < window_length(view))
        return false;
    bool held = false;
    double bps = window_bps(growth, view, &held);
    begin_window(growth, view);
    return growth->state == GROWTH_WATCHING ? watch(growth, bps, held) : judge(growth, bps, held);
}
