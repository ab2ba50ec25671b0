/* The words of a command that takes options and one host: install, doctor, bench. */
#ifndef PETREL_CLI_HOST_COMMAND_H
#define PETREL_CLI_HOST_COMMAND_H

#include "cli/options/operand.h"
#include "cli/options/settings.h"
#include "cli/options/ssh_options.h"

/* The command's own options, which begin with `ssh`, and what it has beside them. All borrowed. */
struct host_command {
    const struct option *table;
    struct ssh_options *ssh;
    struct operand *host;
    struct option_uses *uses;
    struct settings *settings; /* those of copy's that are options here */
    const bool *help;          /* set by the table: then no host is needed */
};

/* The command line first, then what settings say of the host. False with ERROR_USAGE. */
bool host_command_parse(const struct host_command *command, int argc, char **argv,
                        struct error *error);

#endif
