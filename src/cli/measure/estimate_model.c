#include "cli/measure/estimate_model.h"

#include <math.h>

#include "cli/estimate_constants.h"

#define SEGMENT 1448.0 /* payload of a TCP segment at MTU 1500 */
#define FIRST_WINDOW (10 * SEGMENT)
#define RTT_LEAST_S 0.0001

const struct estimate_program estimate_programs[] = {ESTIMATE_PROGRAMS{.name = NULL}};
const char *const estimate_fitted_on = ESTIMATE_FITTED_ON;

/* Segments in flight on average at this loss: Reno's, or CUBIC's where that is more (RFC 9438). */
static double loss_window(double loss, double rtt_s)
{
    return fmax(1.22 / sqrt(loss), 1.054 * pow(rtt_s / loss, 0.75));
}

double estimate_rate(const struct estimate_constants *c, const struct estimate_path *path)
{
    double rtt_s = fmax(path->rtt_s, RTT_LEAST_S), rate = c->processor_bytes_per_s;
    if (path->rate_bps > 0)
        rate = fmin(rate, path->rate_bps / 8 * c->payload * (1 - path->loss) * c->share);
    rate /= 1 + c->loss_cost * path->loss + c->loss_rtt_cost * path->loss * rtt_s;
    if (c->window_bytes > 0)
        rate = fmin(rate, c->window_bytes / rtt_s);
    if (c->strength > 0 && path->loss > 0)
        rate = fmin(rate, c->strength * loss_window(path->loss, rtt_s) * SEGMENT / rtt_s);
    return rate;
}

double estimate_seconds(const struct estimate_constants *c, const struct estimate_path *path)
{
    double rate = estimate_rate(c, path);
    double waits_s = c->rtts * path->rtt_s * (1 + c->loss_rtts * path->loss);
    double doublings = log2(1 + rate * path->rtt_s / FIRST_WINDOW);
    return c->fixed_s + waits_s + c->start * doublings * path->rtt_s + path->size_bytes / rate;
}
