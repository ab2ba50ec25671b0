/* How many bytes had arrived at which moments, and the sustained rate that follows.
 *
 * The same yardstick for petrel and for TCP: the start (a ramp, or a policer's full bucket) and the
 * end (resends) of a run say nothing about what a path carries for long. Pure; memory is fixed: a
 * long run keeps every second, fourth, ... sample.
 */
#ifndef PETREL_MEASURE_RATE_SAMPLES_H
#define PETREL_MEASURE_RATE_SAMPLES_H

#include <stdint.h>

#define RATE_SAMPLES_MAX 512u
#define RATE_SAMPLE_NS UINT64_C(50000000) /* how often to take one */

/* A span of time on one machine's clock; empty when the two are equal. */
struct rate_window {
    uint64_t from_ns, until_ns;
};

struct rate_samples {
    uint64_t started_ns;
    unsigned count, stride, skipped;
    struct {
        uint64_t ns, bytes; /* since the start */
    } taken[RATE_SAMPLES_MAX];
};

void rate_samples_start(struct rate_samples *samples, uint64_t now_ns);
/* `bytes` is the total so far, `now_ns` ascends. */
void rate_samples_add(struct rate_samples *samples, uint64_t now_ns, uint64_t bytes);
/* Bits a second between the first quarter of the run and the moment when 97 % of the last total
 * had arrived; 0 when there is too little to say. `window`, if not NULL, is then that time, or
 * empty. */
uint64_t rate_samples_sustained(const struct rate_samples *samples, struct rate_window *window);
/* Bits a second in a window of the same clock: what one flow carried while another ran. */
uint64_t rate_samples_within(const struct rate_samples *samples, const struct rate_window *window);

#endif
