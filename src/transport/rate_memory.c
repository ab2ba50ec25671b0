/* What one transfer tells the next about a path: the rate it kept, and whether an earlier rate
 * held.
 */
#include <string.h>

#include "base/units.h"
#include "transport/rate_state.h"

#define RTT_LOW 0.8 /* of the remembered round trip: outside, it is another path */
#define RTT_HIGH 1.3
#define FIRST_SHARE 0.75 /* of the remembered rate, tried in the first round trip */
#define FIRST_SHARE_FAIR 0.5
#define WORTH_LOOPS 20.0 /* shorter transfers have nothing to tell */
#define WORTH_SAMPLES 8u
#define WINDOW_S 30.0

double rate_memory_first_bps(const struct rate_controller *c)
{
    const struct rate_memory *memory = &c->config.remembered;
    if (memory->rate_bps == 0 || memory->rtt_ns == 0 || c->config.policy == RATE_BACKGROUND)
        return 0;
    double ratio = (double)c->base_rtt_ns / (double)memory->rtt_ns;
    if (ratio < RTT_LOW || ratio > RTT_HIGH)
        return 0;
    double share = c->config.policy == RATE_FAIR ? FIRST_SHARE_FAIR : FIRST_SHARE;
    return share * (double)memory->rate_bps;
}

/* ---- remembering ---- */

static void thin_out(struct rate_history *history)
{
    for (unsigned i = 0; i < RATE_HISTORY / 2; i++)
        history->bps[i] = history->bps[2 * i + 1];
    history->count = RATE_HISTORY / 2;
    history->spacing_s *= 2;
}

/* Samples a loop apart at first, so that a short transfer has some, and of 30 seconds at last. */
void rate_memory_note(struct rate_controller *c, uint64_t now_ns)
{
    struct rate_history *history = &c->history;
    if (history->spacing_s == 0) {
        history->spacing_s = rate_loop_s(c);
        history->first_ns = history->next_ns = now_ns;
    }
    bool limited = c->config.limit_bps != 0 && c->base_bps > 0.95 * (double)c->config.limit_bps;
    if (now_ns < history->next_ns || limited)
        return;
    history->next_ns = rate_later(now_ns, history->spacing_s);
    if (history->count == RATE_HISTORY) {
        if (history->spacing_s * RATE_HISTORY < WINDOW_S) {
            thin_out(history);
        } else {
            memmove(history->bps, history->bps + 1, sizeof history->bps - sizeof history->bps[0]);
            history->count--;
        }
    }
    history->bps[history->count++] = c->base_bps;
}

static double median(const struct rate_history *history)
{
    double sorted[RATE_HISTORY];
    for (unsigned i = 0; i < history->count; i++) {
        unsigned at = i;
        for (; at > 0 && sorted[at - 1] > history->bps[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = history->bps[i];
    }
    return sorted[history->count / 2];
}

enum rate_memory_use rate_controller_recall(const struct rate_controller *c,
                                            struct rate_memory *memory)
{
    const struct rate_history *history = &c->history;
    *memory = (struct rate_memory){0};
    double loops = rate_since_s(history->next_ns, history->first_ns) / rate_loop_s(c);
    if (history->count >= WORTH_SAMPLES && loops >= WORTH_LOOPS)
        *memory = (struct rate_memory){.rate_bps = (uint64_t)median(history),
                                       .rtt_ns = c->base_rtt_ns,
                                       .loss_millionths = (uint32_t)(c->ambient * 1e6)};
    return c->startup.memory_use;
}
