/* The master connection of ssh that petrel keeps for a minute after a copy, so that the next one
 * needs no login. ssh itself makes and ends it (ControlMaster, ControlPersist in ssh_config(5));
 * here is decided whether, and where its socket stands.
 *
 * Not where the user shares connections already, nor for -e, nor without a private directory.
 */
#ifndef PETREL_CLI_SSH_REUSE_H
#define PETREL_CLI_SSH_REUSE_H

#include "cli/start/ssh_command.h"

/* A socket's address holds 104 bytes on the smallest of systems; ssh first binds a name that is 17
 * bytes longer. */
#define SSH_REUSE_PATH_MAX (104 - 17)

struct ssh_reuse {
    bool on;
    bool was_up; /* a master answered when this was planned */
    bool jumped; /* through a jump host, whose ssh then says nothing on stderr */
    char path[SSH_REUSE_PATH_MAX];
    char path_option[SSH_REUSE_PATH_MAX + 16];
    const char *words[4]; /* options for ssh, ends with NULL; empty when not on */
};

/* Makes the directory if need be; a socket that nobody listens on any more is removed. `creates`:
 * whether a master is to be made where there is none. */
void ssh_reuse_plan(struct ssh_reuse *reuse, const struct ssh_options *options,
                    const struct ssh_facts *facts, bool creates);
/* The options that go before the user's: of the master, of its ciphers, and what undoes settings
 * that would keep a command from running; ends with NULL. `first` has room for eight. */
void ssh_reuse_words(const struct ssh_reuse *reuse, const struct ssh_facts *facts,
                     const char **first);
/* Whether the login is over: the master is up, and it is that ssh, or was up before. */
bool ssh_reuse_logged_in(const struct ssh_reuse *reuse, pid_t ssh);
/* Nobody is to use this master any more; who does already goes on. */
void ssh_reuse_forget(struct ssh_reuse *reuse);

#endif
