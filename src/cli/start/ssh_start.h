/* Starts the far end through the user's own ssh, so that all of their configuration holds.
 *
 * The start secret goes down the channel's stdin, never into an argument, the environment or a log.
 * ssh keeps the terminal for its prompts; the far end answers with one line, which is found among
 * whatever a login shell may print before it.
 */
#ifndef PETREL_CLI_SSH_START_H
#define PETREL_CLI_SSH_START_H

#include <sys/types.h>

#include "cli/options/ssh_options.h"
#include "cli/start/bootstrap.h"
#include "cli/start/far_addresses.h"

struct ssh_errors;
struct tls_relay;

/* Why nothing answered there, as far as that can be told: it decides what to do next. */
enum ssh_fault {
    SSH_FAULT_OTHER,
    SSH_FAULT_ABSENT, /* there is no such program */
    SSH_FAULT_HELD, /* the login went well, and then something else ended or never came to an end */
    SSH_FAULT_PASSWORD /* something there wants one, and nobody can type it */
};

struct ssh_channel {
    pid_t pid;
    int to_remote, from_remote; /* the far end's stdin and stdout; -1 when closed */
    struct bootstrap_answer answer;
    uint64_t login_ns;              /* from ssh's start until the login was seen over; 0: never */
    enum ssh_fault fault;           /* after a failure */
    bool missing;                   /* searched for over there and not found */
    bool reused;                    /* by a connection kept from before: no login */
    bool jumped;                    /* through a jump host or proxy command */
    struct far_addresses addresses; /* candidates for UDP, best first */
    struct tls_relay *relay;        /* petrel://, in place of ssh; else NULL */
    struct ssh_errors *errors;      /* what comes on stderr; NULL once closed */
    char last_words[160];           /* after ssh_close: stderr's last line, "" if there was none */
};

/* Starts ssh, sends the start line and waits for the answer; as long as ssh waits for its user, and
 * half a minute once the login is over. Draws the start's secret and session id, anew for each
 * connection that is tried. ERROR_SSH when ssh failed, ERROR_NO_REMOTE when petrel is not there,
 * ERROR_VERSION, ERROR_INTERRUPTED, or what the far end said. SIGPIPE has to be ignored
 * (interrupt_watch). To a listening petrel it goes by TCP, see cli/start/direct.h. */
bool ssh_start(struct ssh_channel *channel, const struct ssh_options *options, const char *host,
               struct bootstrap_start *start, struct error *error);
/* Says that nothing more will be written. */
void ssh_end_output(struct ssh_channel *channel);
/* Closes the channel and waits for ssh, at most `wait_ns`, then ends it. Returns ssh's exit status,
 * -1 if there is none to tell: it had to be ended, or never ran. */
int ssh_close(struct ssh_channel *channel, uint64_t wait_ns);

#endif
