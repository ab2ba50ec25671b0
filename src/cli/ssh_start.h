/* Starts the far end through the user's own ssh, so that all of their configuration holds.
 *
 * The start secret goes down the channel's stdin, never into an argument, the environment or a log.
 * ssh keeps the terminal for its prompts; the far end answers with one line, which is found among
 * whatever a login shell may print before it.
 */
#ifndef PETREL_CLI_SSH_START_H
#define PETREL_CLI_SSH_START_H

#include <sys/types.h>

#include "base/address.h"
#include "cli/bootstrap.h"
#include "cli/options.h"

struct ssh_options {
    const char *program;       /* -S; NULL: ssh */
    const char *command;       /* -e COMMAND, split at spaces; NULL: program */
    const char *port;          /* -P */
    struct option_list passed; /* further options for ssh, ready to pass on: "-i", "FILE", ... */
    const char *remote_petrel; /* --remote-petrel; NULL: petrel, searched in the usual places */
};

struct ssh_channel {
    pid_t pid;
    int to_remote, from_remote; /* the far end's stdin and stdout; -1 when closed */
    struct bootstrap_answer answer;
    bool jumped; /* through a jump host or proxy command */
    struct address addresses[16];
    unsigned address_count; /* candidates for UDP, best first */
};

/* Starts ssh, sends the start line and waits for the answer; as long as ssh waits for its user.
 * ERROR_SSH when ssh failed, ERROR_NO_REMOTE when petrel is not there, or what the far end said. */
bool ssh_start(struct ssh_channel *channel, const struct ssh_options *options, const char *host,
               const struct bootstrap_start *start, struct error *error);
/* Closes the channel and waits for ssh, at most `wait_ns`, then ends it. Returns ssh's exit status,
 * -1 if it had to be ended. */
int ssh_close(struct ssh_channel *channel, uint64_t wait_ns);
/* Runs a command over there with its stdin fed from `input` (a descriptor, or -1) and its output
 * collected; for install and uninstall. Returns the exit status. */
int ssh_run(const struct ssh_options *options, const char *host, const char *command, int input,
            char *output, size_t capacity, struct error *error);

#endif
