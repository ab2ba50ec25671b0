#include "net/train_watch.h"

#include "base/units.h"

#define WINDOW_NS (50 * NS_PER_MS)
#define WINDOW_PACKETS 32u
#define BAD_PERCENT 80u
#define TRIED_PACKETS 32u /* of each way, before they are compared */
#define TRIED_AT_ONCE 48u /* packets on their way whole: no more than these vanish */
#define TRIED_ARRIVED 16u /* of one way */
#define TRIED_FACTOR 3u   /* cut trains that arrive so much oftener tell, and chance does not */
#define RETRY_NS (10 * NS_PER_S)
#define RETRY_DOUBLINGS 4u

static bool move(struct train_watch *watch, enum train_verdict verdict,
                 const struct lane_delivery *delivery, uint64_t now_ns)
{
    watch->verdict = verdict;
    watch->window_ns = now_ns;
    watch->acked = delivery->acked;
    watch->lost = delivery->lost;
    watch->before = *delivery;
    if (verdict == TRAINS_VANISH) {
        watch->retry_ns = now_ns + (RETRY_NS << watch->failures);
        watch->failures += watch->failures < RETRY_DOUBLINGS;
    }
    return true;
}

/* Not one whole and one cut in turns: what empties a short queue may beat the same time. The order
 * is Thue's and Morse's, which never repeats itself. */
enum train_trial train_watch_next(const struct train_watch *watch)
{
    if (watch->verdict == TRAINS_VANISH)
        return TRAIN_CUT;
    if (watch->verdict == TRAINS_PASS)
        return TRAIN_USUAL;
    const struct lane_delivery *now = &watch->latest;
    if (now->whole_sent >= now->whole_acked + now->whole_lost + TRIED_AT_ONCE)
        return TRAIN_CUT;
    return __builtin_parity(watch->turn) ? TRAIN_TRIED_CUT : TRAIN_TRIED_WHOLE;
}

static bool are_suspect(struct train_watch *watch, const struct lane_delivery *delivery,
                        uint64_t now_ns)
{
    uint64_t acked = delivery->acked - watch->acked, lost = delivery->lost - watch->lost;
    if (acked + lost < WINDOW_PACKETS || now_ns < watch->window_ns + WINDOW_NS)
        return false;
    watch->window_ns = now_ns;
    watch->acked = delivery->acked;
    watch->lost = delivery->lost;
    return lost * 100 > (acked + lost) * BAD_PERCENT;
}

/* TRAINS_ON_TRIAL while it cannot be told. */
static enum train_verdict compare(const struct train_watch *watch,
                                  const struct lane_delivery *delivery)
{
    const struct lane_delivery *before = &watch->before;
    uint64_t whole = delivery->whole_acked - before->whole_acked;
    uint64_t cut = delivery->cut_acked - before->cut_acked;
    uint64_t whole_sent = whole + delivery->whole_lost - before->whole_lost;
    uint64_t cut_sent = cut + delivery->cut_lost - before->cut_lost;
    if (whole_sent < TRIED_PACKETS || cut_sent < TRIED_PACKETS)
        return TRAINS_ON_TRIAL;
    bool vanish = whole * cut_sent * TRIED_FACTOR < cut * whole_sent;
    if ((vanish ? cut : whole) < TRIED_ARRIVED)
        return TRAINS_ON_TRIAL;
    return vanish ? TRAINS_VANISH : TRAINS_PASS;
}

bool train_watch_note(struct train_watch *watch, const struct lane_delivery *delivery,
                      uint64_t now_ns)
{
    enum train_verdict verdict = watch->verdict;
    watch->turn++;
    watch->latest = *delivery;
    switch (watch->verdict) {
    case TRAINS_PASS:
        if (are_suspect(watch, delivery, now_ns))
            verdict = TRAINS_ON_TRIAL;
        break;
    case TRAINS_ON_TRIAL:
        verdict = compare(watch, delivery);
        break;
    case TRAINS_VANISH:
        if (now_ns >= watch->retry_ns)
            verdict = TRAINS_ON_TRIAL;
        break;
    }
    return verdict != watch->verdict && move(watch, verdict, delivery, now_ns);
}
