/* One session between two simulated hosts, of bare blocks or of a whole transfer of files:
 * described, run and judged.
 *
 * Host 0 sends blocks, host 1 receives them; either may be the client. Link 0 carries the data,
 * link 1 the acks. What a test does not set is a clean path with one bandwidth-delay product of
 * queue.
 */
#ifndef PETREL_TESTS_SIM_CASE_H
#define PETREL_TESTS_SIM_CASE_H

#include "lab/sim_blocks.h"
#include "lab/sim_files.h"
#include "lab/sim_world.h"

enum { SENDER, RECEIVER };

/* A set of error kinds, as bits; ENDS_WELL is the bit of ERROR_NONE. */
#define ENDS_WELL (1u << ERROR_NONE)
#define ENDS_WITH(kind) (1u << (kind))

#define SIM_CASE_FILES_MAX 400u

struct sim_case {
    struct sim_world_config world;
    struct sim_blocks_config blocks;
    bool with_files;               /* a transfer of `sizes` instead of bare blocks */
    struct sim_files_config files; /* what points to sizes is filled in by sim_case_run */
    uint64_t sizes[SIM_CASE_FILES_MAX];
    uint32_t size_count;
    uint32_t allowed[2]; /* how each host may end */
    /* DONE is said for three seconds: in an outage the sender may end without knowing. */
    bool done_may_be_lost;
};

void sim_case_init(struct sim_case *c, uint64_t seed, uint64_t rate_bps, uint64_t rtt_ns);
/* A pull: the receiver is the client. */
void sim_case_pull(struct sim_case *c);
void sim_case_act(struct sim_case *c, uint64_t at_ns, enum sim_action_kind kind, unsigned host,
                  unsigned lane);
void sim_link_change(struct sim_link_config *link, uint64_t at_ns, enum sim_change_kind kind,
                     uint64_t value);
/* Neither direction passes anything from at_ns for length_ns; the path counts as good after it. */
void sim_case_outage(struct sim_case *c, uint64_t at_ns, uint64_t length_ns);

struct sim_outcome {
    bool good;
    char text[600]; /* why not */
    uint64_t hash, events, took_ns;
    uint64_t goodput_bps; /* of bare blocks, from the end of the handshake to the receiver's word */
    enum error_kind ended[2];
    struct session_statistics statistics[2];
    struct sim_oracle_counts counts[2];
};

void sim_case_run(const struct sim_case *c, struct sim_outcome *outcome);

#endif
