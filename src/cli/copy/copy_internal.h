/* A copy while it runs, and the steps that it is made of; for copy*.c alone. copy.c is the command:
 * it takes the options, has each step done, and says how it ended.
 */
#ifndef PETREL_CLI_COPY_INTERNAL_H
#define PETREL_CLI_COPY_INTERNAL_H

#include "cli/copy/copy_manifest.h"
#include "cli/copy/copy_request.h"
#include "cli/copy/copy_words.h"
#include "cli/copy/retry.h"
#include "cli/options/copy_options.h"
#include "cli/report/report.h"
#include "cli/start/channel_watch.h"
#include "cli/start/ssh_start.h"
#include "tree/source.h"

struct copy {
    struct copy_options options;
    struct transfer_request request;
    struct copy_lists lists;
    bool stream_begun; /* standard input is being read, or output written: there is no way back */
    struct file_source *source; /* until the transfer has taken it */
    struct ssh_channel channel;
    struct bootstrap_start start;
    struct report *report;
    struct copy_manifest *manifest; /* --manifest, or NULL */
    const volatile int *stop;
    struct channel_watch watch;
    struct rate_memory remembered; /* of the path, by an earlier copy */
    struct retry retry;
    struct transfer_progress before; /* what earlier tries brought */
    struct transfer_progress shown;  /* while nothing is under way */
    char told_way[COPY_WORDS_WAY];   /* the last line about the way */
    char udp_cause[480];             /* petrel://: why it does not go by UDP; "" */
    uint64_t waits_since_ns;         /* for the first answer; 0: not yet */
    bool told_wait;
    bool ports_are_used; /* no port of the range was free over there */
};

/* One connection to the other end, and what came of it. */
struct copy_try {
    struct error error;
    struct transfer_progress progress;
    char hint[256];
    bool udp_failed; /* that is the error */
    int ssh_status;
};

/* ---- copy_storage.c: what is asked for, and the files and pipes on this side ---- */

/* Fills copy->request, and opens the source of a push: each try begins anew. */
bool copy_prepare(struct copy *copy, struct error *error);
/* For struct transfer_config; the context is the copy. */
bool copy_open_storage(void *context, const struct transfer_request *request,
                       struct storage *storage, struct error *error);
ptrdiff_t copy_read_list(void *context, uint64_t offset, uint8_t *bytes, size_t capacity,
                         struct error *error);

/* ---- copy_try.c: one connection, from the start of the far end to its end ---- */

/* Fills *try; all that was started has ended when it returns. */
void copy_try_once(struct copy *copy, struct copy_try *try);
/* What the words about it have to know. */
struct copy_situation copy_situation_of(const struct copy *copy);

/* ---- copy_again.c: whether there is another try, and the time until then ---- */

/* Waits until it is due. False when there is none: try->error then says why in the words of the
 * whole copy. */
bool copy_goes_on(struct copy *copy, struct copy_try *try);

#endif
