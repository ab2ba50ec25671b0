#include "crypto/primitives.h"

#include <limits.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

bool random_bytes(void *bytes, size_t size, struct error *error)
{
    if (size > INT_MAX || RAND_bytes(bytes, (int)size) != 1)
        return error_set(error, ERROR_CRYPTO, "the system gives no random bytes");
    return true;
}

void wipe(void *bytes, size_t size)
{
    OPENSSL_cleanse(bytes, size);
}

bool sha256(const void *bytes, size_t size, uint8_t hash[SHA256_SIZE])
{
    uint8_t result[SHA256_SIZE];
    if (EVP_Digest(bytes, size, result, NULL, EVP_sha256(), NULL) != 1)
        return false;
    memcpy(hash, result, sizeof result);
    return true;
}

static bool hmac_sha256(const void *key, size_t key_size, const uint8_t *bytes, size_t size,
                        uint8_t mac[SHA256_SIZE])
{
    unsigned length = 0;
    if (key_size > INT_MAX)
        return false;
    return HMAC(EVP_sha256(), key, (int)key_size, bytes, size, mac, &length) != NULL &&
           length == SHA256_SIZE;
}

bool hkdf_extract(const void *salt, size_t salt_size, const void *ikm, size_t ikm_size,
                  uint8_t prk[SHA256_SIZE])
{
    return hmac_sha256(salt, salt_size, ikm, ikm_size, prk);
}

bool hkdf_expand(const uint8_t prk[SHA256_SIZE], const void *info, size_t info_size, uint8_t *out,
                 size_t size)
{
    /* T(i) = HMAC(prk, T(i-1) || info || i), T(0) empty. */
    uint8_t input[SHA256_SIZE + HKDF_INFO_MAX + 1];
    uint8_t block[SHA256_SIZE];
    size_t before = 0;
    bool good = info_size <= HKDF_INFO_MAX && size <= 255 * SHA256_SIZE;

    for (unsigned i = 1; good && size > 0; i++) {
        memcpy(input, block, before);
        memcpy(input + before, info, info_size);
        input[before + info_size] = (uint8_t)i;
        good = hmac_sha256(prk, SHA256_SIZE, input, before + info_size + 1, block);
        if (good) {
            size_t part = size < SHA256_SIZE ? size : SHA256_SIZE;
            memcpy(out, block, part);
            out += part;
            size -= part;
            before = SHA256_SIZE;
        }
    }
    wipe(input, sizeof input);
    wipe(block, sizeof block);
    return good;
}
