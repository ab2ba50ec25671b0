#include "transfer/allowance.h"

#define FULL_NS 200e6      /* an unused bucket holds what this time brings, */
#define FULL_LEAST 65536.0 /* and at least this */

static double bytes_a_ns(const struct allowance *allowance)
{
    return (double)allowance->limit_bps / 8e9;
}

static void fill(struct allowance *allowance, uint64_t now_ns)
{
    if (now_ns <= allowance->filled_ns)
        return;
    double rate = bytes_a_ns(allowance), full = rate * FULL_NS;
    if (full < FULL_LEAST)
        full = FULL_LEAST;
    /* A pause or a wait earns nothing beyond a full bucket. */
    allowance->bytes += rate * (double)(now_ns - allowance->filled_ns);
    if (allowance->bytes > full)
        allowance->bytes = full;
    allowance->filled_ns = now_ns;
}

void allowance_set(struct allowance *allowance, uint64_t limit_bps, bool paused, uint64_t now_ns)
{
    if (allowance->limit_bps != 0)
        fill(allowance, now_ns);
    else if (limit_bps != 0) { /* what went before was nobody's business */
        allowance->bytes = 0;
        allowance->filled_ns = now_ns;
    }
    allowance->limit_bps = limit_bps;
    allowance->paused = paused;
}

bool allowance_admits(struct allowance *allowance, uint64_t now_ns)
{
    if (allowance->paused)
        return false;
    if (allowance->limit_bps == 0)
        return true;
    fill(allowance, now_ns);
    return allowance->bytes >= 0;
}

void allowance_spend(struct allowance *allowance, int64_t bytes)
{
    if (allowance->limit_bps != 0)
        allowance->bytes -= (double)bytes;
}

uint64_t allowance_deadline(const struct allowance *allowance)
{
    if (allowance->paused)
        return UINT64_MAX;
    if (allowance->limit_bps == 0 || allowance->bytes >= 0)
        return 0;
    return allowance->filled_ns + (uint64_t)(-allowance->bytes / bytes_a_ns(allowance)) + 1;
}
