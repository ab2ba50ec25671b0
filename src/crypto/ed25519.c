#include "crypto/ed25519.h"

#include <string.h>

#include <openssl/evp.h>

bool ed25519_public_key(const uint8_t seed[ED25519_SEED_SIZE], uint8_t key[ED25519_KEY_SIZE],
                        struct error *error)
{
    uint8_t found[ED25519_KEY_SIZE];
    size_t size = sizeof(found);
    EVP_PKEY *pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, ED25519_SEED_SIZE);
    bool good = pair != NULL && EVP_PKEY_get_raw_public_key(pair, found, &size) == 1 &&
                size == sizeof(found);
    EVP_PKEY_free(pair);
    if (!good)
        return error_set(error, ERROR_CRYPTO, "OpenSSL makes no Ed25519 key");
    memcpy(key, found, sizeof(found));
    return true;
}
