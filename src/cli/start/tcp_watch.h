/* Beside a session by UDP with a listening petrel, which has no other channel: when nothing comes
 * by UDP any more, is there anybody at the TCP port of the same number? Where TCP gets through and
 * UDP does not, the session is given up, to be gone on with by TCP. A path that passes neither is
 * waited for, as ever.
 */
#ifndef PETREL_CLI_TCP_WATCH_H
#define PETREL_CLI_TCP_WATCH_H

#include "base/address.h"
#include "cli/start/channel_watch.h"

struct tcp_watch {
    const struct address *addresses; /* of the server, with its port; borrowed */
    unsigned count;
    unsigned next; /* the address to try */
    bool trying;   /* `tcp` is a connection that is being made */
    int tcp;
    uint64_t since_ns;   /* when that began */
    uint64_t reached_ns; /* when TCP got through in this silence; 0: not yet */
};

/* What to do, asked about ten times a second. `heard_ns`: when something of the peer last
 * authenticated, 0 for never. CHANNEL_ASK: the peer is to be asked by UDP. */
enum channel_verdict tcp_watch_judge(struct tcp_watch *watch, uint64_t heard_ns, uint64_t now_ns);
void tcp_watch_end(struct tcp_watch *watch);

#endif
