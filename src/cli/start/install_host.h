/* Puts petrel into a host's cache through ssh, and takes it away again: ~/.cache/petrel/petrel, or
 * under $XDG_CACHE_HOME, where ssh_start looks for it. Prints nothing.
 *
 * Over there it takes only sh and the basic tools (cat, mkdir, mv, chmod, rm, uname, wc); any login
 * shell will do. What runs there is in install_host.c.
 */
#ifndef PETREL_CLI_INSTALL_HOST_H
#define PETREL_CLI_INSTALL_HOST_H

#include "cli/options/ssh_options.h"
#include "cli/start/install_program.h"

struct install_result {
    bool changed;   /* false: it was there already, or there was none to remove */
    char path[512]; /* over there, safe to print */
};

/* The program is sent to a temporary name, its length and SHA-256 are checked over there, it is run
 * once, and only then gets its name: a failure leaves what was there before, and nothing else. A
 * program that is there with the same hash is left alone. ERROR_NO_REMOTE for another kind of
 * machine; ERROR_SSH, ERROR_VERIFY, ERROR_INTERRUPTED, or what went wrong over there. SIGPIPE has
 * to be ignored (interrupt_watch). */
bool install_send(const struct ssh_options *options, const char *host,
                  const struct install_program *program, struct install_result *result,
                  struct error *error);
/* Also removes what broken installs may have left, and the folder if it is empty then. */
bool install_remove(const struct ssh_options *options, const char *host,
                    struct install_result *result, struct error *error);

#endif
