/* TLS 1.3 in memory: proves both ends hold the start secret, and gives a fresh session secret.
 *
 * External PSK with (EC)DHE over X25519, TLS_AES_256_GCM_SHA384 only (RFC 8446, RFC 9258 guidance
 * on external PSKs). The client trusts no certificate, the server has none, and both refuse a
 * session in which the PSK was not used. No tickets, resumption or early data. TLS carries no data:
 * when both sides are finished, the exporter (RFC 8446 section 7.5) is all that is kept. Bytes in,
 * bytes out; moving them reliably is transport/opening's work.
 */
#ifndef PETREL_CRYPTO_HANDSHAKE_H
#define PETREL_CRYPTO_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "crypto/primitives.h"

#define START_SECRET_SIZE 32
#define SESSION_ID_SIZE 16

struct handshake;

/* The session id is the PSK identity. The secret is copied, and wiped by handshake_free. */
struct handshake *handshake_new_psk(bool client, const uint8_t secret[START_SECRET_SIZE],
                                    const uint8_t session_id[SESSION_ID_SIZE], struct error *error);
void handshake_free(struct handshake *handshake);

/* Takes the next bytes of the peer's TLS stream, in order. */
bool handshake_receive(struct handshake *handshake, const uint8_t *bytes, size_t size,
                       struct error *error);
/* Moves up to `capacity` bytes of our own TLS stream to `bytes`; returns how many (0: none now).
 * The client has bytes to send from the start. */
size_t handshake_send(struct handshake *handshake, uint8_t *bytes, size_t capacity);
/* True when the peer has proved the PSK and its Finished was verified. A client is finished before
 * its own last flight was taken by handshake_send. */
bool handshake_finished(const struct handshake *handshake);
/* EXPORTER-petrel-1 with `context`; only when finished. */
bool handshake_export(struct handshake *handshake, const uint8_t *context, size_t context_size,
                      uint8_t *secret, size_t secret_size, struct error *error);

#endif
