#include "measure/rate_samples.h"

#include <string.h>

#define NEARLY_ALL_PERCENT 97u

void rate_samples_start(struct rate_samples *samples, uint64_t now_ns)
{
    memset(samples, 0, sizeof(*samples));
    samples->started_ns = now_ns;
    samples->stride = 1;
    samples->count = 1; /* nothing at the start */
}

static void thin_out(struct rate_samples *samples)
{
    for (unsigned i = 0; i < RATE_SAMPLES_MAX / 2; i++)
        samples->taken[i] = samples->taken[2 * i];
    samples->count = RATE_SAMPLES_MAX / 2;
    samples->stride *= 2;
}

void rate_samples_add(struct rate_samples *samples, uint64_t now_ns, uint64_t bytes)
{
    if (samples->stride == 0 || ++samples->skipped < samples->stride)
        return;
    samples->skipped = 0;
    if (samples->count == RATE_SAMPLES_MAX)
        thin_out(samples);
    samples->taken[samples->count].ns = now_ns - samples->started_ns;
    samples->taken[samples->count].bytes = bytes;
    samples->count++;
}

static uint64_t bits_per_second(uint64_t bytes, uint64_t ns)
{
    return ns > 0 ? (uint64_t)((double)bytes * 8e9 / (double)ns) : 0;
}

uint64_t rate_samples_sustained(const struct rate_samples *samples, struct rate_window *window)
{
    if (window != NULL)
        *window = (struct rate_window){0};
    if (samples->count < 4)
        return 0;
    uint64_t all = samples->taken[samples->count - 1].bytes;
    unsigned to = 0, from = 0;
    while (samples->taken[to].bytes < all / 100 * NEARLY_ALL_PERCENT)
        to++;
    while (samples->taken[from].ns < samples->taken[to].ns / 4)
        from++;
    if (from >= to)
        return 0;
    if (window != NULL)
        *window = (struct rate_window){samples->started_ns + samples->taken[from].ns,
                                       samples->started_ns + samples->taken[to].ns};
    return bits_per_second(samples->taken[to].bytes - samples->taken[from].bytes,
                           samples->taken[to].ns - samples->taken[from].ns);
}

/* Bytes that had arrived by then: on a line between the samples around it. */
static uint64_t bytes_at(const struct rate_samples *samples, uint64_t now_ns)
{
    uint64_t ns = now_ns > samples->started_ns ? now_ns - samples->started_ns : 0;
    unsigned after = 0;
    while (after < samples->count && samples->taken[after].ns < ns)
        after++;
    if (after == 0)
        return 0;
    if (after == samples->count)
        return samples->taken[after - 1].bytes;
    uint64_t bytes = samples->taken[after - 1].bytes, from_ns = samples->taken[after - 1].ns;
    double part = (double)(ns - from_ns) / (double)(samples->taken[after].ns - from_ns);
    return bytes + (uint64_t)((double)(samples->taken[after].bytes - bytes) * part);
}

uint64_t rate_samples_within(const struct rate_samples *samples, const struct rate_window *window)
{
    if (window->until_ns <= window->from_ns)
        return 0;
    return bits_per_second(bytes_at(samples, window->until_ns) - bytes_at(samples, window->from_ns),
                           window->until_ns - window->from_ns);
}
