#include "transport/train_length.h"

#include <string.h>

#include "base/units.h"

#define QUEUE_MEMORY_NS (20 * NS_PER_S)
#define QUEUE_SHARE 6u
#define MEASURED_NS (14 * NS_PER_MS)
#define MEASURED_SHARE 16u
#define LONGEST_NS (4 * NS_PER_MS)
#define COUNT_RTTS 3u
#define BAD_COUNTS 2u /* in an overshoot any train loses its end: that is over by then */
#define COUNT_LEAST_NS (50 * NS_PER_MS)
#define COUNT_LATE 32u      /* packets of second halves, before they are judged */
#define LOSS_PERCENT 8u     /* more of these lost than of the first: too long */
#define SHORTER_PERCENT 15u /* and even short ones are */
#define SHORTER_MOST 3u
#define SHORT_NS NS_PER_S /* then trains stay short; doubling */
#define SHORT_DOUBLINGS 4u

void train_length_sample(struct train_length *length, const struct rtt *rtt, uint64_t sample_ns)
{
    /* One late sample is jitter, several in a row a queue. */
    uint64_t least_ns = sample_ns;
    for (unsigned i = 0; i < 2; i++)
        if (length->recent_ns[i] < least_ns)
            least_ns = length->recent_ns[i];
    length->recent_ns[0] = length->recent_ns[1];
    length->recent_ns[1] = sample_ns;
    length->queue_ns -= length->queue_ns / (QUEUE_MEMORY_NS / rtt_ack_interval(rtt->smoothed_ns));
    if (least_ns > rtt->min_ns && least_ns - rtt->min_ns > length->queue_ns)
        length->queue_ns = least_ns - rtt->min_ns;
}

static bool lose_their_ends(const struct train_length *length, unsigned percent)
{
    uint64_t first = length->count[0], late = length->count[1];
    return first > 0 &&
           100 * length->lost[1] * first > 100 * length->lost[0] * late + percent * late * first;
}

void train_length_settled(struct train_length *length, const struct rtt *rtt, bool late, bool lost,
                          uint64_t now_ns)
{
    length->count[late]++;
    length->lost[late] += lost;
    uint64_t passed_ns = now_ns - length->counted_since_ns;
    if (length->count[1] < COUNT_LATE || passed_ns < COUNT_RTTS * rtt->smoothed_ns ||
        passed_ns < COUNT_LEAST_NS)
        return;
    bool is_short = now_ns < length->short_until_ns;
    if (!is_short)
        length->shorter = 0;
    if (!lose_their_ends(length, is_short ? SHORTER_PERCENT : LOSS_PERCENT)) {
        length->bad = 0;
    } else if (++length->bad >= BAD_COUNTS) {
        length->queue_ns = 0;
        length->shorter += is_short && length->shorter < SHORTER_MOST;
        length->short_until_ns = now_ns + (SHORT_NS << length->refuted);
        length->refuted += length->refuted < SHORT_DOUBLINGS;
    }
    memset(length->count, 0, sizeof(length->count));
    memset(length->lost, 0, sizeof(length->lost));
    length->counted_since_ns = now_ns;
}

uint64_t train_length_ns(const struct train_length *length, const struct rtt *rtt, uint64_t now_ns)
{
    uint64_t train_ns = length->queue_ns / QUEUE_SHARE;
    uint64_t measured_ns = rtt->smoothed_ns > MEASURED_NS ? rtt->smoothed_ns : MEASURED_NS;
    if (now_ns < length->short_until_ns)
        return TRAIN_SHORT_NS >> length->shorter;
    if (train_ns < TRAIN_SHORT_NS)
        return TRAIN_SHORT_NS;
    if (train_ns > measured_ns / MEASURED_SHARE)
        train_ns = measured_ns / MEASURED_SHARE;
    return train_ns < LONGEST_NS ? train_ns : LONGEST_NS;
}
