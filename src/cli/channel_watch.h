/* The SSH channel beside a running copy: what still comes through it is nobody's business, but its
 * end is. Either side ends 3 seconds after it, if the copy has not ended by then. */
#ifndef PETREL_CLI_CHANNEL_WATCH_H
#define PETREL_CLI_CHANNEL_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct channel_watch {
    uint64_t ended_ns; /* 0: still open */
};

/* For driver_config.on_watch; `watch` is the struct. */
bool channel_watch_read(void *watch, int fd);
/* For transfer_run.should_give_up. */
bool channel_watch_is_over(void *watch);

#endif
