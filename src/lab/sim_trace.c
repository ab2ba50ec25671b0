/* See sim_trace.h. */
#include "lab/sim_trace.h"

#include <inttypes.h>

static const char *const mark_names[SIM_MARK_COUNT] = {
    [SIM_MARK_SEND] = "send",     [SIM_MARK_ARRIVE] = "arrive", [SIM_MARK_STREAM] = "stream",
    [SIM_MARK_OPEN] = "open",     [SIM_MARK_BLOCK] = "block",   [SIM_MARK_ACKED] = "acked",
    [SIM_MARK_CREDIT] = "credit", [SIM_MARK_ACTION] = "action", [SIM_MARK_RATE] = "rate",
    [SIM_MARK_END] = "end"};

void sim_trace_start(struct sim_trace *trace, FILE *out)
{
    *trace = (struct sim_trace){.hash = UINT64_C(0x9E3779B97F4A7C15), .out = out};
}

/* Order matters and every bit spreads: multiply by an odd constant, fold the high half back. */
static void mix(struct sim_trace *trace, uint64_t value)
{
    uint64_t hash = (trace->hash ^ value) * UINT64_C(0xD6E8FEB86659FD93);
    trace->hash = hash ^ (hash >> 32);
}

void sim_trace_add(struct sim_trace *trace, uint64_t now_ns, enum sim_mark mark, unsigned host,
                   uint64_t a, uint64_t b, uint64_t c)
{
    trace->count++;
    mix(trace, now_ns);
    mix(trace, (uint64_t)mark << 32 | host);
    mix(trace, a);
    mix(trace, b);
    mix(trace, c);
    if (trace->out != NULL) {
        fprintf(trace->out, "%" PRIu64 ".%09" PRIu64 " %u %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                now_ns / 1000000000, now_ns % 1000000000, host, mark_names[mark], a, b, c);
    }
}
