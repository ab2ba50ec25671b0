/* Nothing arrives although the peer answers: full-size packets or trains fall into a hole (an
 * offload that mangles them, a smaller MTU), which the lane finds out and mends. It says nothing of
 * the rate, and must decide nothing, or the rate ends on its floor for a fault of another kind.
 *
 * A rate that stays without any delivery all the same is halved step by step, for the sake of the
 * others on the path; from wherever it is then, it climbs as at the start. */
#include "base/units.h"
#include "transport/rate_state.h"

#define BLIND_SHARE 50.0 /* less than one packet in so many arrives */
#define BLIND_PACKETS 8.0
#define BELIEVED_LOOPS 8.0
#define BELIEVED_S 1.0

/* Whether the interval shows a hole rather than a rate. */
static bool is_blind(const struct rate_controller *c, const struct rate_interval *interval)
{
    double sent = (double)interval->sent_packets;
    return (double)interval->delivered_packets * BLIND_SHARE < sent &&
           (sent >= BLIND_PACKETS || c->blind.fell);
}

static void see_again(struct rate_controller *c, uint64_t now_ns)
{
    bool fell = c->blind.fell;
    c->blind = (struct rate_blind){0};
    if (fell)
        rate_startup_again(c, now_ns);
    c->startup.grown_ns = now_ns; /* what did not arrive was no answer */
}

bool rate_blind_interval(struct rate_controller *c, const struct rate_interval *interval,
                         uint64_t now_ns)
{
    if (!is_blind(c, interval)) {
        if (c->blind.since_ns != 0)
            see_again(c, now_ns);
        return false;
    }
    if (c->blind.since_ns == 0)
        c->blind.since_ns = c->blind.halved_ns = interval->start_ns;
    double loop = rate_loop_s(c), longest = BELIEVED_LOOPS * loop;
    longest = longest > BELIEVED_S ? longest : BELIEVED_S;
    if (c->state == PHASE_FIXED || rate_since_s(now_ns, c->blind.since_ns) < longest ||
        rate_since_s(now_ns, c->blind.halved_ns) < loop)
        return true;
    c->blind.halved_ns = now_ns;
    c->blind.fell = true;
    rate_startup_halve(c);
    return true;
}
