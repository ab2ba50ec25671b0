/* Whether the key that a server has shown is the server's: known_hosts, and on first use the person
 * at the terminal.
 *
 * To be asked after the handshake has proved that the server holds the key, and before anything is
 * told to it.
 */
#ifndef PETREL_CLI_HOST_KEY_H
#define PETREL_CLI_HOST_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "keys/known_hosts.h"

struct host_key_options {
    const char *path;         /* of known_hosts; NULL: the user's own */
    bool accept_new;          /* a host that was never met is trusted unasked, and noted */
    bool quiet;               /* no line about that */
    bool batch;               /* nobody is to be asked */
    const volatile int *stop; /* may be NULL; not 0: a signal has come */
};

/* True when it is known, or was accepted and noted. ERROR_CRYPTO when it has changed or nobody
 * vouches for it; the error has both fingerprints, file and line. May write to the terminal and
 * stderr. */
bool host_key_accept(const struct host_key_options *options, const char *host, uint16_t port,
                     const uint8_t key[KEY_SIZE], struct error *error);

#endif
