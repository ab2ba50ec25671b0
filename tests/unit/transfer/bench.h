/* A whole transfer on one thread: both halves, both disk sides, a wire, simulated storage; what
 * happens next is drawn from a seed. */
#ifndef PETREL_TESTS_TRANSFER_BENCH_H
#define PETREL_TESTS_TRANSFER_BENCH_H

#include "fake_session.h"
#include "lab/sim_storage.h"
#include "transfer/transfer.h"

enum { SENDER = 0, RECEIVER = 1 };

struct seen {
    uint32_t done, skipped, failed, notes;
    struct error last_failure;
    char last_path[64];
};

struct bench {
    /* Set by the test before bench_start. */
    bool pull;
    uint64_t seed;
    struct sim_source_config source_config;
    struct sim_sink_config sink_config;
    size_t sender_pool, receiver_pool;
    unsigned disk_share[2]; /* how often a disk side runs, in 256; 0: always */
    bool open_fails[2];
    const char *offered_name; /* what a pull's server says the name is */

    struct random random;
    struct fake_wire *wire;
    struct transfer *ends[2];
    struct sim_source *source;
    struct sim_sink *sink;
    struct transfer_request request, names;
    struct seen seen[2];
    bool opened[2], paused[2];
    uint64_t now_ns;
};

/* `sizes` stay borrowed. Nothing exists, nothing fails. */
void bench_init(struct bench *bench, uint64_t seed, const uint64_t *sizes, uint32_t count);
void bench_start(struct bench *bench);
/* Makes up to `steps` random steps; true when both ends have ended. */
bool bench_steps(struct bench *bench, unsigned steps);
/* Until both ends have ended; fails the test when they do not. */
void bench_run(struct bench *bench);
/* Runs, and demands that every file came and was verified. */
void bench_succeed(struct bench *bench);
void bench_stop(struct bench *bench);

const struct error *bench_error(const struct bench *bench, int end);
struct transfer_progress bench_progress(const struct bench *bench, int end);
struct sim_sink_result bench_result(const struct bench *bench);

#endif
