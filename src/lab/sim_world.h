/* A virtual-time simulation of whole sessions: hosts, the links between them, an attacker, and a
 * plan of mishaps, driven from one seed by an event queue in integer nanoseconds.
 *
 * After every event the invariants are checked (lab/sim_oracle.h and those of each upper); the
 * first that breaks ends the run with a text. The same seed and configuration give the same trace
 * hash on every compiler. No clock, no threads, no system call. One world at a time in a process.
 */
#ifndef PETREL_LAB_SIM_WORLD_H
#define PETREL_LAB_SIM_WORLD_H

#include "lab/sim_aead.h"
#include "lab/sim_host.h"
#include "lab/sim_link.h"
#include "lab/sim_oracle.h"
#include "lab/sim_queue.h"
#include "lab/sim_trace.h"

#define SIM_ACTIONS_MAX 32

enum sim_action_kind {
    SIM_VANISH,         /* host: its process is gone, without a word */
    SIM_REBIND_PORT,    /* host: new source ports for all lanes, the old ones lead nowhere */
    SIM_CHANGE_ADDRESS, /* host: a new address */
    SIM_OPEN_LANE,      /* host: one more lane */
    SIM_CUT_LANE,       /* host, lane: its path is dead from now on */
    SIM_ABORT           /* host: the user pressed Ctrl-C */
};

struct sim_action {
    uint64_t at_ns;
    enum sim_action_kind kind;
    unsigned host, lane;
};

/* Sees a share of the datagrams, can add to what arrives but not take away. Shares are parts of
 * 2^32 of the datagrams seen; `flood` more for each. */
struct sim_attacker_config {
    uint32_t share;
    unsigned flood;
    bool spoof; /* also from addresses of its own */
};

struct sim_world_config {
    uint64_t seed;
    unsigned host_count;
    struct sim_host_config hosts[SIM_HOSTS_MAX];
    struct sim_link_config links[SIM_HOSTS_MAX];
    struct sim_action actions[SIM_ACTIONS_MAX];
    unsigned action_count;
    struct sim_attacker_config attacker;
    uint64_t limit_ns; /* every host must have ended by then */
    /* The path is good from here on: something must move within stall_ns, again and again, until
     * all have ended. 0 stall_ns: not checked. */
    uint64_t good_from_ns, stall_ns;
    bool real_aead;
    FILE *trace;
};

#define SIM_ATTACKER_ADDRESSES 8u

/* Bytes that an unproved address sent to a host and got from it: at most three times as much. */
struct sim_tally {
    uint64_t from, to;
};

struct sim_attacker;

struct sim_world {
    struct sim_world_config config;
    uint64_t now_ns;
    struct sim_queue *queue;
    struct sim_host hosts[SIM_HOSTS_MAX];
    struct sim_link links[SIM_HOSTS_MAX];
    struct sim_link streams[SIM_HOSTS_MAX]; /* of host i's outgoing stream lane */
    struct sim_oracle *oracle;
    struct sim_aead_tap tap;
    struct sim_trace trace;
    struct sim_attacker *attacker;
    struct random random; /* of stream pieces */
    uint8_t secret[START_SECRET_SIZE], session_ids[SIM_HOSTS_MAX][SESSION_ID_SIZE];
    uint64_t events;
    struct sim_tally tallies[SIM_HOSTS_MAX][SIM_ATTACKER_ADDRESSES];
    uint64_t lost_nowhere; /* datagrams to addresses where nobody lives */
    uint64_t progress, progress_at_ns;
    char failure[400];
};

/* `uppers` belong to the world from here on, also on failure. The world is large: allocate it. */
struct sim_world *sim_world_new(const struct sim_world_config *config,
                                const struct sim_upper uppers[]);
void sim_world_free(struct sim_world *world);
/* Runs until all hosts have ended; false when an invariant broke or time ran out: see failure. */
bool sim_world_run(struct sim_world *world);

/* For hosts and uppers. */
void sim_world_send(struct sim_world *world, struct sim_host *host, unsigned lane,
                    const struct address *to, const uint8_t *bytes, uint32_t size);
void sim_world_stream(struct sim_world *world, struct sim_host *host, const uint8_t *bytes,
                      size_t size);
/* The host's process is gone: its peer reads the end of the stream after what is on its way. */
void sim_world_stream_end(struct sim_world *world, struct sim_host *host);
/* Room in the host's outgoing stream, and when half of it will be free. */
size_t sim_world_stream_room(struct sim_world *world, struct sim_host *host, uint64_t *half_at_ns);
void sim_world_fail(struct sim_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A seed for one component, far from those of its neighbours. */
uint64_t sim_seed(uint64_t seed, unsigned component);

/* The attacker: told of each datagram that is sent, and of the true path's delay. */
struct sim_attacker *sim_attacker_new(const struct sim_attacker_config *config, uint64_t seed);
void sim_attacker_free(struct sim_attacker *attacker);
void sim_attacker_saw(struct sim_attacker *attacker, struct sim_world *world, unsigned target,
                      const struct address *from, const struct address *to, const uint8_t *bytes,
                      uint32_t size, uint64_t delay_ns);
/* Which of its own addresses this is, or SIM_ATTACKER_ADDRESSES when it is none. */
unsigned sim_attacker_address(const struct address *address);

#endif
