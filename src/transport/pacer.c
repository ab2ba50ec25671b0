#include "transport/pacer.h"

#include "base/units.h"
#include "transport/limits.h"

#define FORGET_NS (10 * NS_PER_MS)

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

void pacer_sent(struct pacer *pacer, size_t bytes, uint64_t now_ns)
{
    if (pacer->schedule_ns + FORGET_NS < now_ns)
        pacer->schedule_ns = now_ns - FORGET_NS;
    pacer->schedule_ns += duration_of(pacer->rate_bps, bytes);
    uint64_t gate = pacer->gate_ns > now_ns ? pacer->gate_ns : now_ns;
    pacer->gate_ns = gate + duration_of(pacer->rate_bps, bytes) * 4 / 5;
}

static uint64_t bytes_in(uint64_t rate_bps, uint64_t duration_ns)
{
    return rate_bps / 8000 * duration_ns / (NS_PER_S / 1000);
}

size_t pacer_train_bytes(const struct pacer *pacer, uint64_t train_ns, size_t packet_bytes)
{
    size_t bytes = TRAIN_BYTES_MAX;
    uint64_t by_whole = bytes_in(pacer->whole_bps, train_ns);
    uint64_t by_lane = bytes_in(pacer->rate_bps, 4 * train_ns);
    uint64_t limit = by_whole < by_lane ? by_whole : by_lane;
    if (pacer->rate_bps != 0 && limit < bytes)
        bytes = (size_t)limit;
    size_t packets = bytes / packet_bytes;
    if (packets < 2)
        packets = 2;
    if (packets > TRAIN_PACKETS_MAX)
        packets = TRAIN_PACKETS_MAX;
    while (packets > 1 && packets * packet_bytes > TRAIN_BYTES_MAX)
        packets--;
    return packets * packet_bytes;
}
