/* Runs one transfer on this machine to its end: joins a transfer, the network driver and a disk
 * thread. Used alike by the client and by the far end. */
#ifndef PETREL_CLI_RUN_TRANSFER_H
#define PETREL_CLI_RUN_TRANSFER_H

#include "cli/start/channel_watch.h"
#include "cli/start/tcp_watch.h"
#include "net/driver.h"
#include "transfer/transfer.h"

struct transfer_run {
    struct transfer_config transfer;
    /* The driver's part; `upper`, role, client and initial credit are filled in by the run. */
    struct driver_config driver;
    enum flip_place flip; /* test hook */
    uint32_t flip_after;
    /* About ten times a second while it runs, on the calling thread. NULL for none. */
    void (*on_tick)(void *context, const struct transfer_progress *progress);
    void *tick_context;
    /* As often: what pace is to be kept from now on (0: none). A server's, beside the limit of
     * `driver`. NULL: that one alone. */
    void (*on_pace)(void *context, uint64_t *limit_bps, bool *paused);
    void *pace_context;
    struct driver_udp_end udp_end; /* filled in */
    struct channel_watch *watch;   /* the SSH channel, which the driver watches too; NULL: none */
    struct tcp_watch
        *tcp_watch; /* petrel://, by UDP: whether TCP would do better; NULL: it may not */
};

/* True when the receiver said that all was done, also when single files failed (see
 * progress->files_failed). `progress` is filled in any case. `hint`, if not NULL, gets a line about
 * socket buffers or "". */
bool transfer_run(struct transfer_run *run, struct transfer_progress *progress, char *hint,
                  size_t hint_capacity, struct error *error);

#endif
