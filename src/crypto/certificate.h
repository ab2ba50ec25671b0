/* Certificates that carry nothing but an Ed25519 key (RFC 8410), for handshakes with pinned keys.
 *
 * TLS wants a certificate where petrel has only keys: each end signs one for itself. Names, dates
 * and signatures in it mean nothing. Internal to crypto/.
 */
#ifndef PETREL_CRYPTO_CERTIFICATE_H
#define PETREL_CRYPTO_CERTIFICATE_H

#include <openssl/ssl.h>

#include "crypto/handshake.h"

/* Makes a certificate for the key and gives both to the context. False: OpenSSL says why. */
bool certificate_use(SSL_CTX *context, const uint8_t seed[HANDSHAKE_KEY_SIZE]);
/* False when the certificate's key is none, or NULL was given. */
bool certificate_public_key(const X509 *certificate, uint8_t key[HANDSHAKE_KEY_SIZE]);

#endif
