#include "transport/pacer.h"

#include "base/units.h"
#include "transport/limits.h"
#include "transport/train_length.h"

#define FORGET_NS (10 * NS_PER_MS)
#define BURST_TRAINS 4u /* the system takes as many in one call */

static uint64_t duration_of(uint64_t rate_bps, size_t bytes)
{
    return rate_bps == 0 ? 0 : (uint64_t)bytes * 8 * NS_PER_S / rate_bps;
}

void pacer_set_rate(struct pacer *pacer, uint64_t rate_bps, uint64_t whole_bps)
{
    pacer->rate_bps = rate_bps;
    pacer->whole_bps = whole_bps;
}

uint64_t pacer_ready(const struct pacer *pacer)
{
    if (pacer->rate_bps == 0)
        return 0;
    return pacer->schedule_ns > pacer->gate_ns ? pacer->schedule_ns : pacer->gate_ns;
}

static uint64_t bytes_in(uint64_t rate_bps, uint64_t duration_ns)
{
    return rate_bps / 8000 * duration_ns / (NS_PER_S / 1000);
}

/* What may leave at once in `train_ns` of the rate. */
static uint64_t bytes_at_once(const struct pacer *pacer, uint64_t train_ns)
{
    uint64_t by_whole = bytes_in(pacer->whole_bps, train_ns);
    uint64_t by_lane = bytes_in(pacer->rate_bps, 4 * train_ns);
    return by_whole < by_lane ? by_whole : by_lane;
}

bool pacer_may_send(struct pacer *pacer, uint64_t train_ns, uint64_t now_ns)
{
    /* Less than half a train is better sent with the next burst. */
    if (pacer->burst_ns == now_ns && pacer->burst_left >= TRAIN_BYTES_MAX / 2)
        return true;
    if (pacer_ready(pacer) > now_ns)
        return false;
    uint64_t bytes = bytes_at_once(pacer, train_ns);
    if (bytes > BURST_TRAINS * TRAIN_BYTES_MAX)
        bytes = BURST_TRAINS * TRAIN_BYTES_MAX;
    pacer->burst_ns = now_ns;
    pacer->burst_bytes = bytes > TRAIN_BYTES_MAX ? (size_t)bytes : 0; /* 0: a train is all of it */
    pacer->burst_left = pacer->burst_bytes;
    return true;
}

void pacer_sent(struct pacer *pacer, size_t bytes, uint64_t now_ns)
{
    if (pacer->schedule_ns + FORGET_NS < now_ns)
        pacer->schedule_ns = now_ns - FORGET_NS;
    pacer->schedule_ns += duration_of(pacer->rate_bps, bytes);
    uint64_t gate = pacer->gate_ns > now_ns ? pacer->gate_ns : now_ns;
    pacer->gate_ns = gate + duration_of(pacer->rate_bps, bytes) * 4 / 5;
    pacer->burst_left = pacer->burst_left > bytes ? pacer->burst_left - bytes : 0;
}

size_t pacer_train_bytes(const struct pacer *pacer, uint64_t train_ns, size_t packet_bytes)
{
    size_t bytes = TRAIN_BYTES_MAX;
    uint64_t limit = bytes_at_once(pacer, train_ns);
    if (pacer->rate_bps != 0 && limit < bytes)
        bytes = (size_t)limit;
    size_t packets = bytes / packet_bytes;
    if (packets < 2 && train_ns >= TRAIN_SHORT_NS)
        packets = 2;
    if (packets == 0)
        packets = 1;
    if (packets > TRAIN_PACKETS_MAX)
        packets = TRAIN_PACKETS_MAX;
    while (packets > 1 && packets * packet_bytes > TRAIN_BYTES_MAX)
        packets--;
    return packets * packet_bytes;
}

bool pacer_is_late(const struct pacer *pacer, size_t bytes, size_t train_bytes)
{
    if (pacer->burst_bytes == 0)
        return bytes >= train_bytes / 2;
    return pacer->burst_bytes - pacer->burst_left + bytes >= pacer->burst_bytes / 2;
}
