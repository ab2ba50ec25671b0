/* How a far end is to be reached, as the options say it (ssh_option_rows.h) and those who start one
 * take it.
 */
#ifndef PETREL_CLI_SSH_OPTIONS_H
#define PETREL_CLI_SSH_OPTIONS_H

#include <stdint.h>

#include "cli/options/options.h"

struct ssh_options {
    const char *program;       /* -S; NULL: ssh */
    const char *command;       /* -e COMMAND, split at spaces; NULL: program */
    const char *port;          /* -P */
    struct option_list passed; /* further options for ssh, ready to pass on: "-i", "FILE", ... */
    const char *remote_petrel; /* --remote-petrel; NULL: petrel, searched in the usual places */
    bool ipv4, ipv6, batch;    /* -4, -6, -B: nobody is to be asked */
    const char *config;        /* --config: petrel's own settings; NULL: from the usual files */
    bool no_reuse;             /* --no-reuse: keep no master connection, use none of ours */
    uint8_t family;            /* 4 or 6: UDP over that only; 0: both */
    /* petrel://: a petrel listens there, and ssh is not needed. NULL: through ssh. Borrowed. */
    const char *listening;
    uint16_t listening_port;
    const char *identity, *known_hosts; /* NULL: the user's own (petrel key) */
    bool accept_new;                    /* a listening petrel that was not met before is trusted */
    const volatile int *stop;           /* counts the signals that ask us to stop; NULL for none */
    /* About ten times a second while the answer is waited for; NULL for none. */
    void (*on_wait)(void *context);
    void *wait_context;
};

#endif
