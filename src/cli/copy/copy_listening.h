/* A copy's session with a listening petrel by UDP. */
#ifndef PETREL_CLI_COPY_LISTENING_H
#define PETREL_CLI_COPY_LISTENING_H

#include "cli/copy/run_transfer.h"
#include "cli/options/ssh_options.h"

/* transfer_run, once our key and the server's are settled and its addresses known, which are filled
 * into run->driver with all that belongs to them; the rest is the caller's. `alone`: there is no
 * other way, so that an answer is waited for longer. `goes_over`: a session that UDP carries no
 * more is given up when TCP gets through, since the copy is tried again. *silent: nothing has
 * answered at all. */
bool copy_listening_run(struct transfer_run *run, const struct ssh_options *options, bool alone,
                        bool goes_over, struct transfer_progress *progress, char *hint,
                        size_t hint_capacity, bool *silent, struct error *error);

#endif
