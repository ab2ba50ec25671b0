/* The far end of a channel: reads the start line on stdin, answers with one line on stdout and
 * serves one session or job. Behind sshd's login, or within the TLS stream of a listening petrel.
 */
#ifndef PETREL_CLI_REMOTE_H
#define PETREL_CLI_REMOTE_H

#include "cli/files/file_job.h"
#include "transfer/transfer.h"

/* What a guest of a listening petrel may do. NULL in the place of one: whoever sshd let in, who may
 * do what this user may. */
struct remote_guest {
    void *context;
    /* Opens the storage for a request, or says why not; `sends`: we send. */
    bool (*open_storage)(void *context, bool sends, const struct transfer_request *request,
                         struct storage *storage, struct error *error);
    struct file_job_host jobs; /* with a context of its own */
    /* As of struct transfer_run, with this context; may be NULL. */
    void (*on_tick)(void *context, const struct transfer_progress *progress);
    void (*on_pace)(void *context, uint64_t *limit_bps, bool *paused);
    uint64_t limit_bps; /* 0: none */
    size_t pool_blocks; /* this and the next as of struct transfer_config */
    size_t first_blocks;
    uint64_t files, bytes; /* filled in: what came of it */
    struct error error;
};

/* Returns the exit code. */
int remote_run(struct remote_guest *guest);

/* The storage of whoever may do all. */
bool remote_open_storage(bool sends, const struct transfer_request *request,
                         struct storage *storage, struct error *error);

#endif
