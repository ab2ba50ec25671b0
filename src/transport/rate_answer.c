/* How delivery answered to rate over the last intervals: whether the present rate is more than the
 * path carries.
 *
 * One comparison of two rates is deceived by a bucket of tokens that was full in one of them, by a
 * burst, or by a cut between them. Here every rate of late counts, against two explanations: the
 * path takes the same share at any rate; or it takes its own share up to what it carries, and more
 * does not arrive. Each sample's distance from what an explanation foretells is measured in
 * deviations to be expected from chance (a chi-square). */
#include "base/units.h"
#include "transport/rate_state.h"

#define SAME_RATE 0.02 /* pooled with the newest */
#define AGE_MOST_LOOPS 60.0
#define PACKETS_LEAST 8.0
#define POOLED_MOST 40000.0 /* packets of one rate; then the older count for less */
#define BLUR 0.01           /* of a span's ends */
#define CLEARLY_FULL 14.0
#define CLEARLY_FULL_QUEUE 20.0
#define CLEARLY_OWN 10.0
#define FITS 3.0 /* chi-square per sample of an explanation worth believing */

void rate_answer_note(struct rate_controller *c, const struct rate_sample *s)
{
    struct rate_answers *answers = &c->answers;
    if (s->packets < PACKETS_LEAST || s->sent_bps <= 0)
        return;
    struct rate_answer *last =
        answers->count > 0 ? &answers->log[(answers->count - 1) % RATE_ANSWERS] : NULL;
    if (last != NULL && s->sent_bps > (1 - SAME_RATE) * last->sent_bps &&
        s->sent_bps < (1 + SAME_RATE) * last->sent_bps) {
        double old = last->packets < POOLED_MOST ? last->packets : POOLED_MOST;
        double weight = s->packets / (s->packets + old);
        last->sent_bps += weight * (s->sent_bps - last->sent_bps);
        last->delivered_bps += weight * (s->delivered_bps - last->delivered_bps);
        last->seconds += s->seconds;
        last->packets = old + s->packets;
        last->at_ns = s->plan.begun_ns;
        return;
    }
    answers->log[answers->count++ % RATE_ANSWERS] =
        (struct rate_answer){.at_ns = s->plan.begun_ns,
                             .sent_bps = s->sent_bps,
                             .delivered_bps = s->delivered_bps,
                             .seconds = s->seconds,
                             .packets = s->packets};
}

void rate_answer_forget(struct rate_controller *c)
{
    c->answers.count = 0;
}

/* The samples that count now. */
struct evidence {
    unsigned count;
    double sent[RATE_ANSWERS], share[RATE_ANSWERS], weight[RATE_ANSWERS]; /* 1 / variance */
};

static void gather(const struct rate_controller *c, uint64_t now_ns, struct evidence *e)
{
    const struct rate_answers *answers = &c->answers;
    unsigned most = answers->count < RATE_ANSWERS ? answers->count : RATE_ANSWERS;
    e->count = 0;
    for (unsigned back = 1; back <= most; back++) {
        const struct rate_answer *a = &answers->log[(answers->count - back) % RATE_ANSWERS];
        if (rate_since_s(now_ns, a->at_ns) > AGE_MOST_LOOPS * rate_loop_s(c))
            break;
        double share = a->delivered_bps / a->sent_bps;
        double sigma = rate_sigma(c, 1 - share, a->packets);
        double blur = BLUR + 2 * c->jitter_s / a->seconds;
        e->sent[e->count] = a->sent_bps;
        e->share[e->count] = share;
        e->weight[e->count++] = 1 / (sigma * sigma + blur * blur);
    }
}

/* How badly the samples fit a path that loses `own` of everything and carries `most_bps` of what is
 * left. */
static double misfit(const struct evidence *e, double own, double most_bps)
{
    double sum = 0;
    for (unsigned i = 0; i < e->count; i++) {
        double foretold = 1 - own;
        if (foretold * e->sent[i] > most_bps)
            foretold = most_bps / e->sent[i];
        double off = e->share[i] - foretold;
        sum += off * off * e->weight[i];
    }
    return sum;
}

static double mean_share(const struct evidence *e, double from_bps, double to_bps)
{
    double shares = 0, weights = 0;
    for (unsigned i = 0; i < e->count; i++) {
        if (e->sent[i] < from_bps || e->sent[i] > to_bps)
            continue;
        shares += e->share[i] * e->weight[i];
        weights += e->weight[i];
    }
    return weights > 0 ? shares / weights : 1;
}

/* A path that could explain them. */
struct explanation {
    double misfit, own, carried_bps;
};

static void consider(struct explanation *best, const struct evidence *e, double own,
                     double carried_bps)
{
    double sum = misfit(e, own, carried_bps);
    if (best->misfit < 0 || sum < best->misfit)
        *best = (struct explanation){sum, own, carried_bps};
}

/* The best of the paths that would carry `bps`, less the share that they take of everything. */
static struct explanation explain_own(const struct evidence *e, double bps)
{
    struct explanation best = {.misfit = -1};
    double mean = mean_share(e, 0.95 * bps, 1.05 * bps);
    for (unsigned i = 0; i <= e->count; i++) {
        double own = 1 - (i < e->count ? e->share[i] : mean);
        consider(&best, e, own, RATE_MAX_BPS);
        for (unsigned j = 0; j < e->count; j++) {
            double carried = e->share[j] * e->sent[j], needed = bps * (1 - own);
            consider(&best, e, own, carried > needed ? carried : needed);
        }
    }
    return best;
}

/* The best of those in which at least half of the suspected excess at `bps` is its own doing. */
static struct explanation explain_full(const struct evidence *e, double bps, double loss,
                                       double excess)
{
    struct explanation best = {.misfit = -1};
    for (unsigned i = 0; i <= e->count; i++) {
        double share = i < e->count ? e->share[i] : 1;
        double own = rate_clamp(1 - share, 0, loss - excess / 2);
        for (unsigned j = 0; j < e->count; j++) {
            double carried = e->share[j] * e->sent[j], most = bps * (1 - own - excess / 2);
            consider(&best, e, own, carried < most ? carried : most);
        }
    }
    return best;
}

enum rate_verdict rate_answer_judge(const struct rate_controller *c, double bps, double loss,
                                    uint64_t now_ns, double *own, double *carried_bps)
{
    struct evidence evidence;
    gather(c, now_ns, &evidence);
    double excess = loss - c->ambient;
    if (evidence.count < 2 || excess <= 0)
        return RATE_UNCLEAR;
    struct explanation alike = explain_own(&evidence, bps);
    struct explanation full = explain_full(&evidence, bps, loss, excess);
    bool is_own = full.misfit - alike.misfit > CLEARLY_OWN;
    *own = is_own ? alike.own : full.own;
    *carried_bps = full.carried_bps;
    if (is_own && alike.misfit < FITS * evidence.count)
        return RATE_OWN;
    /* Where too high a rate has shown as delay, it takes more to blame it for loss. */
    double clear = c->path_class == PATH_QUEUE ? CLEARLY_FULL_QUEUE : CLEARLY_FULL;
    return alike.misfit - full.misfit > clear ? RATE_FULL : RATE_UNCLEAR;
}
