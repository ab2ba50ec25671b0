/* The way to a listening petrel (petrel://): our key, its key, its addresses, and a TLS stream
 * there that stands for an SSH channel.
 */
#ifndef PETREL_CLI_DIRECT_H
#define PETREL_CLI_DIRECT_H

#include "cli/start/far_addresses.h"
#include "cli/start/ssh_start.h"
#include "crypto/handshake.h"
#include "keys/identity.h"

/* With the server's name. What it says to those that it does not know is no more than that. */
#define DIRECT_REFUSED                                                                             \
    "%s refuses our key: not authorised; its owner adds the line that petrel key prints to "       \
    "authorized_keys there"

struct direct {
    const struct ssh_options *options;
    struct identity own;
    struct handshake_identity identity; /* for handshakes; its judge is this struct's */
    bool is_unknown;                    /* the last handshake ended because nobody vouches for */
    uint8_t key[KEY_SIZE];              /* this key of the server */
};

/* Loads our key, which is made when there is none yet. The struct must not be moved then. */
bool direct_open(struct direct *direct, const struct ssh_options *options, struct error *error);
/* After a handshake that failed: whether it is to be tried again, because the server's key was new
 * and has been accepted. May ask at the terminal. `error` is cleared then, or says why not. */
bool direct_accepts(struct direct *direct, struct error *error);
/* Where it may be. ERROR_UNREACHABLE for a name that nobody knows. */
bool direct_resolve(const struct direct *direct, struct far_addresses *addresses,
                    struct error *error);
void direct_close(struct direct *direct); /* wipes */

/* ssh_start by TCP: on success the channel's descriptors are its TLS stream, and `start` went. */
bool direct_start(struct ssh_channel *channel, const struct ssh_options *options,
                  struct bootstrap_start *start, struct error *error);

#endif
