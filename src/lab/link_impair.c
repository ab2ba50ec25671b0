#include "lab/link_impair.h"

#include "base/units.h"

#define PARTS 4294967296.0

static uint32_t to_parts(double share)
{
    return share >= 1.0 ? LINK_ALWAYS : (uint32_t)(share * PARTS);
}

bool link_loss_set(struct link_loss *loss, uint32_t share_parts, double burst,
                   uint32_t correlation_parts, struct error *error)
{
    double share = share_parts == LINK_ALWAYS ? 1.0 : share_parts / PARTS;
    double correlation = correlation_parts / PARTS;
    if (burst != 0 && correlation != 0)
        return error_set(error, ERROR_USAGE, "--burst and --correlation exclude each other");
    if (burst != 0 && burst < 1)
        return error_set(error, ERROR_USAGE, "--burst %g: a run of losses has at least one", burst);
    double enter = share * (1 - correlation);
    double stay = share + correlation * (1 - share);
    if (burst != 0 && share > 0 && share < 1) {
        stay = 1 - 1 / burst;
        enter = share / (burst * (1 - share));
    }
    if (enter > 1)
        return error_set(error, ERROR_USAGE,
                         "loss of %g %% cannot come in runs as short as %g on average", share * 100,
                         burst);
    loss->enter_parts = to_parts(enter);
    loss->stay_parts = to_parts(stay);
    return true;
}

bool link_loss_next(struct link_loss *loss)
{
    uint32_t parts = loss->lost_before ? loss->stay_parts : loss->enter_parts;
    /* One number for each segment whatever the outcome: the pattern depends on the seed only. */
    bool chance = (uint32_t)(random_next(&loss->random) >> 32) < parts;
    loss->lost_before = chance || parts == LINK_ALWAYS;
    return loss->lost_before;
}

void link_limiter_set(struct link_limiter *limiter, uint64_t rate_bps, uint64_t queue_bytes,
                      uint64_t now_ns)
{
    if (limiter->rate_bps != 0 && rate_bps != 0) {
        /* The bytes in the queue stay; they leave at the new rate. */
        double backlog = (double)link_limiter_backlog(limiter, now_ns);
        uint64_t drain = (uint64_t)(backlog * (double)limiter->rate_bps / (double)rate_bps);
        limiter->free_ns = now_ns + drain;
    }
    limiter->fraction = 0;
    limiter->rate_bps = rate_bps;
    limiter->queue_bytes = queue_bytes;
}

uint64_t link_limiter_backlog(const struct link_limiter *limiter, uint64_t now_ns)
{
    return limiter->rate_bps != 0 && limiter->free_ns > now_ns ? limiter->free_ns - now_ns : 0;
}

bool link_limiter_pass(struct link_limiter *limiter, uint64_t now_ns, uint32_t size_bytes,
                       uint64_t *departure_ns)
{
    if (limiter->rate_bps == 0) {
        *departure_ns = now_ns;
        return true;
    }
    uint64_t backlog_ns = link_limiter_backlog(limiter, now_ns);
    double backlog_bytes = (double)backlog_ns * (double)limiter->rate_bps / 8e9;
    if (backlog_ns > 0 && backlog_bytes + size_bytes > (double)limiter->queue_bytes)
        return false;
    if (backlog_ns == 0) {
        limiter->free_ns = now_ns;
        limiter->fraction = 0;
    }
    uint64_t numerator = (uint64_t)size_bytes * 8 * NS_PER_S + limiter->fraction;
    limiter->free_ns += numerator / limiter->rate_bps;
    limiter->fraction = numerator % limiter->rate_bps;
    *departure_ns = limiter->free_ns;
    return true;
}

void link_policer_set(struct link_policer *policer, uint64_t rate_bps, uint64_t bucket_bytes,
                      uint64_t now_ns)
{
    policer->rate_bps = rate_bps;
    policer->bucket_bytes = bucket_bytes;
    policer->tokens_bytes = (double)bucket_bytes;
    policer->last_ns = now_ns;
}

bool link_policer_pass(struct link_policer *policer, uint64_t now_ns, uint32_t size_bytes)
{
    if (policer->rate_bps == 0)
        return true;
    if (now_ns > policer->last_ns) {
        policer->tokens_bytes +=
            (double)(now_ns - policer->last_ns) * (double)policer->rate_bps / 8e9;
        policer->last_ns = now_ns;
        if (policer->tokens_bytes > (double)policer->bucket_bytes)
            policer->tokens_bytes = (double)policer->bucket_bytes;
    }
    if (policer->tokens_bytes < size_bytes)
        return false;
    policer->tokens_bytes -= size_bytes;
    return true;
}
