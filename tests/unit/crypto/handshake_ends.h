/* For the tests of handshakes: bytes between two ends, and an end of plain OpenSSL that does as it
 * likes.
 */
#ifndef PETREL_UNIT_HANDSHAKE_ENDS_H
#define PETREL_UNIT_HANDSHAKE_ENDS_H

#include <openssl/ssl.h>

#include "crypto/handshake.h"

/* Moves all bytes of one end to the other, `piece` at a time. Returns how many went; the
 * receiver's failure is left in `error`. */
size_t move(struct handshake *from, struct handshake *to, size_t piece, struct error *error);

/* It does not mind whom it talks to. */
struct impostor {
    SSL_CTX *context;
    SSL *ssl;
};

/* With a certificate signed by itself, of a key of this type ("EC", "ED25519"), or with none. */
struct impostor impostor_new(bool client, const char *type);
void impostor_free(struct impostor *impostor);
/* Runs both until nothing moves; returns what our end says. */
struct error impostor_talk(struct impostor *impostor, struct handshake *honest);

#endif
