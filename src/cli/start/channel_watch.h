/* The SSH channel beside a running copy: what still comes through it is nobody's business, but its
 * end is. The channel may break while UDP goes on, and the copy with it; but it also ends when the
 * other end does. So whoever sees it end asks the peer over UDP, and ends, too, after 3 seconds
 * without an answer. */
#ifndef PETREL_CLI_CHANNEL_WATCH_H
#define PETREL_CLI_CHANNEL_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct channel_watch {
    uint64_t ended_ns; /* 0: still open */
    bool outlived;     /* the peer was heard after that: the copy goes on without the channel */
};

enum channel_verdict {
    CHANNEL_FINE, /* it is open, or the peer lives on without it */
    CHANNEL_ASK,  /* it has ended: ask whether the peer lives */
    CHANNEL_OVER  /* and the peer did not answer */
};

/* For driver_config.on_watch; `watch` is the struct. */
bool channel_watch_read(void *watch, int fd);
/* `heard_ns`: when something of the peer last authenticated, 0 for never. */
enum channel_verdict channel_watch_judge(struct channel_watch *watch, uint64_t heard_ns,
                                         uint64_t now_ns);

#endif
