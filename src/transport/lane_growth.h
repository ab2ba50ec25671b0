/* Whether more lanes carry more: some networks limit each flow by itself, and to one sender that
 * looks like the path's end. So, once what arrives has stopped growing while nothing but the path
 * holds it back, twice the lanes are tried; they are kept if at least a quarter more arrives then,
 * and rest otherwise.
 *
 * One rate serves all lanes, so more of them take nothing from others on the path. Pure: counts and
 * times go in, numbers of lanes come out. It opens nothing and knows no packets.
 */
#ifndef PETREL_TRANSPORT_LANE_GROWTH_H
#define PETREL_TRANSPORT_LANE_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

enum lane_growth_state {
    GROWTH_WATCHING, /* for a rate that has stopped growing */
    GROWTH_OPENING,  /* more lanes are wanted */
    GROWTH_TRYING,   /* they are there: does more arrive? */
    GROWTH_OVER      /* no more will be tried */
};

struct lane_growth {
    enum lane_growth_state state;
    unsigned lanes; /* that are used; grows by trials, and when others open some */
    unsigned kept;  /* of these, without those on trial */
    unsigned most;  /* that can be had with this peer */
    uint64_t window_ns, window_bytes, window_held_ns; /* as they were when the window began */
    double before_bps;                                /* in the window before; 0: none */
    double plain_bps;                                 /* without the lanes on trial */
    unsigned windows;                                 /* of the trial so far */
};

/* What a session knows at one moment. */
struct lane_growth_view {
    uint64_t now_ns, rtt_ns;
    uint64_t bytes;   /* that have arrived so far */
    uint64_t held_ns; /* time so far in which only the path held sending back */
    unsigned joined;  /* lanes that could be used */
    bool settled;     /* the rate is past its start */
};

void lane_growth_init(struct lane_growth *growth, unsigned lanes, unsigned most);
/* True when `lanes` changed: those up to it are to be opened (or used again), those above rest. */
bool lane_growth_step(struct lane_growth *growth, const struct lane_growth_view *view);
/* Others have opened lanes for a reason of their own: so many are used from now on. */
void lane_growth_set(struct lane_growth *growth, unsigned lanes);

#endif
