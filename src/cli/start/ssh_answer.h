/* Waiting for the far end's one line, and saying what was wrong when it does not come. */
#ifndef PETREL_CLI_SSH_ANSWER_H
#define PETREL_CLI_SSH_ANSWER_H

#include "cli/start/ssh_reuse.h"

enum ssh_outcome {
    SSH_ANSWERED,
    SSH_FAILED,
    SSH_STUCK /* a master that was there before gave nothing: try without it */
};

/* Whether somebody is there whom ssh could ask for a password. */
bool ssh_user_is_there(const struct ssh_options *options);
/* Reads until the answer is in channel->answer. In the two other cases the channel is closed and
 * `error` says why. */
enum ssh_outcome ssh_answer_wait(struct ssh_channel *channel, const struct ssh_options *options,
                                 const char *host, const struct ssh_reuse *reuse,
                                 struct error *error);

#endif
