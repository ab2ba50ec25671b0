/* Ed25519 keys (RFC 8032): the secret half is 32 random bytes, the seed, from which all follows.
 *
 * Signing and checking signatures is TLS's work (crypto/handshake.h). No state.
 */
#ifndef PETREL_CRYPTO_ED25519_H
#define PETREL_CRYPTO_ED25519_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define ED25519_SEED_SIZE 32
#define ED25519_KEY_SIZE 32

/* The public key of a seed. ERROR_CRYPTO when the library fails. */
bool ed25519_public_key(const uint8_t seed[ED25519_SEED_SIZE], uint8_t key[ED25519_KEY_SIZE],
                        struct error *error);

#endif
