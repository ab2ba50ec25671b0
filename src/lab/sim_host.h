/* One simulated end of a session: opening, session with its lanes, and what is above it; driven as
 * net/driver drives them on sockets, in one fixed order, with no threads and no clock of its own.
 *
 * Its clock is the world's plus an offset, so that nothing can rest on both ends' clocks agreeing.
 */
#ifndef PETREL_LAB_SIM_HOST_H
#define PETREL_LAB_SIM_HOST_H

#include "lab/sim_upper.h"
#include "transport/opening.h"

struct sim_world;
struct sim_event;

struct sim_host_config {
    bool client;
    enum transfer_role role;
    unsigned peer; /* index of the host at the other end */
    unsigned link; /* index of the link that it sends through; may be shared */
    bool stream;   /* no datagrams: all goes by a byte stream beside the link, at stream_bps */
    bool channel;  /* the stream beside the datagrams, for when these are not answered */
    uint64_t stream_bps;
    unsigned lanes;
    bool grows;                       /* a client opens more than `lanes` when they are worth it */
    uint8_t version_min, version_max; /* 0: this program's */
    uint8_t lanes_max;                /* 0: all */
    bool no_aes;
    uint16_t datagram_max; /* 0: DATAGRAM_MAX */
    uint32_t interface_mtu;
    uint64_t clock_offset_ns;
    uint64_t start_ns;      /* when the program starts */
    uint64_t wake_delay_ns; /* from an arrival to its processing; gathers arrivals */
    uint64_t open_timeout_ns, idle_timeout_ns; /* 0: 20 s, the session's own */
    uint64_t limit_bps, fixed_bps;
    uint64_t rtt_ns;           /* told by SSH, 0 if unknown */
    unsigned false_candidates; /* addresses tried first where nobody lives */
    bool wrong_secret;         /* an impostor */
};

struct sim_host {
    struct sim_world *world;
    unsigned index;
    struct sim_host_config config;
    struct sim_upper upper;
    struct opening *opening;
    struct session *session;
    uint32_t connection_base;
    struct address addresses[LANES_MAX]; /* of each lane's socket; a server uses the first */
    bool lane_cut[LANES_MAX];            /* the path of this lane is dead, both ways */
    bool started, gone, ended, confirmed;
    bool stream_ended;   /* the peer's process is gone */
    uint64_t wake_at_ns; /* world's time; TIME_NEVER when nothing arrived */
    struct sim_event *inbox, **inbox_tail;
    uint64_t own_deadline_ns; /* world's time, as computed after the last run */
    unsigned runs_at_instant;
    uint64_t last_run_ns;
    struct error error; /* of an opening that failed */
    /* Bytes of the peer's stream that are no whole packet yet. */
    uint8_t stream_bytes[2 * 16400];
    size_t stream_size;
    uint64_t lanes_opened;
    bool searched; /* a client that began on the stream has opened a lane to the address found */
    uint64_t opened_at_ns; /* when the opening finished */
    uint64_t traced_at_ns;
};

void sim_host_init(struct sim_host *host, struct sim_world *world, unsigned index,
                   const struct sim_host_config *config, const struct sim_upper *upper);
void sim_host_release(struct sim_host *host);
/* Takes a datagram or stream bytes; processed wake_delay_ns later. */
void sim_host_arrive(struct sim_host *host, struct sim_event *event);
uint64_t sim_host_deadline(const struct sim_host *host); /* world's time */
void sim_host_run(struct sim_host *host);
void sim_host_vanish(struct sim_host *host);
void sim_host_abort(struct sim_host *host);
/* Opens one more lane of a client; nothing while there is no session. */
void sim_host_open_lane(struct sim_host *host);
/* How it ended: the opening's, the upper's or the session's error. Kind NONE is a good end. */
const struct error *sim_host_error(const struct sim_host *host);

#endif
