/* A TLS stream over TCP between two pinned keys, as a pair of sockets that others read and write in
 * clear: a thread of its own moves the bytes. For the way to a listening server where UDP is
 * silent.
 */
#ifndef PETREL_CLI_TLS_RELAY_H
#define PETREL_CLI_TLS_RELAY_H

#include "crypto/handshake.h"

struct tls_relay;

/* Does the handshake on the connected socket `tcp`, within `timeout_ns`, less when *stop (NULL:
 * none) is raised; then goes on by itself. *plain is the caller's end. `tcp` becomes the relay's,
 * also on failure. ERROR_PEER_LOST, ERROR_CRYPTO, what the identity's judge says,
 * ERROR_INTERRUPTED. */
struct tls_relay *tls_relay_start(int tcp, bool client, const struct handshake_identity *identity,
                                  uint64_t timeout_ns, const volatile int *stop, int *plain,
                                  struct error *error);
/* A client's: the server has refused our key, which shows after the start only. */
bool tls_relay_was_refused(const struct tls_relay *relay);
/* To be called once the caller's end is closed: what was written to it still goes out, for at most
 * some seconds. */
void tls_relay_end(struct tls_relay *relay);

#endif
