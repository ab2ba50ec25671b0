/* One client of a listening petrel, served from its first packet to its end. Runs in a process of
 * its own. */
#ifndef PETREL_CLI_SERVE_SESSION_H
#define PETREL_CLI_SERVE_SESSION_H

#include "cli/server/serve_grant.h"
#include "keys/identity.h"
#include "net/driver.h"
#include "serve/board.h"
#include "serve/process_limits.h"
#include "transport/open_packet.h"

struct serve_setup {
    struct identity identity;
    const struct authorized_keys *keys;
    struct serve_roots roots;
    struct process_limits limits; /* of each session */
    bool quiet;
};

/* Who came, and how to tell the process at the door that it is let in. */
struct serve_guest {
    struct address from;
    int door;            /* our end of a pair (net/handed.h); a byte is written to it then */
    struct board *board; /* what the door sees of us */
    unsigned place;      /* on it */
    bool logs;           /* a line may be written about a client that is not let in */
};

/* By UDP: its seat, the listener of that, and its first packet, which also waits in guest->door.
 * Both return an exit code. */
int serve_session_udp(const struct serve_setup *setup, const struct serve_guest *guest,
                      struct udp_listener *listener, unsigned seat,
                      const struct open_packet *first);
/* By TCP; takes the connected socket. */
int serve_session_tcp(const struct serve_setup *setup, const struct serve_guest *guest, int tcp);

#endif
