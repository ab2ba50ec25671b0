/* AES-256-GCM and ChaCha20-Poly1305 by OpenSSL's EVP interface.
 *
 * A key owns two contexts, one to seal and one to open, so that neither the key schedule nor the
 * nonce's length is set up again for a packet: in OpenSSL 3.0 that costs more than the cipher. */
#include <limits.h>
#include <stdlib.h>

#include <openssl/evp.h>

#include "crypto/aead_providers.h"

struct aead_key {
    EVP_CIPHER_CTX *sealing, *opening;
};

static bool openssl_available(void)
{
    return true;
}

static void openssl_key_free(struct aead_key *key)
{
    if (key == NULL)
        return;
    EVP_CIPHER_CTX_free(key->sealing); /* wipes, and takes NULL */
    EVP_CIPHER_CTX_free(key->opening);
    free(key);
}

static EVP_CIPHER_CTX *context_new(const EVP_CIPHER *cipher, const uint8_t *bytes, int sealing)
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    if (context == NULL)
        return NULL;
    if (EVP_CipherInit_ex(context, cipher, NULL, NULL, NULL, sealing) != 1 ||
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, AEAD_NONCE_SIZE, NULL) != 1 ||
        EVP_CipherInit_ex(context, NULL, NULL, bytes, NULL, sealing) != 1) {
        EVP_CIPHER_CTX_free(context);
        return NULL;
    }
    return context;
}

static struct aead_key *openssl_key_new(const EVP_CIPHER *cipher, const uint8_t *bytes,
                                        struct error *error)
{
    struct aead_key *key = calloc(1, sizeof *key);
    if (key == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a packet key");
        return NULL;
    }
    key->sealing = context_new(cipher, bytes, 1);
    key->opening = context_new(cipher, bytes, 0);
    if (key->sealing == NULL || key->opening == NULL) {
        openssl_key_free(key);
        error_set(error, ERROR_CRYPTO, "OpenSSL cannot make a key for %s",
                  EVP_CIPHER_get0_name(cipher));
        return NULL;
    }
    return key;
}

static struct aead_key *aes_key_new(const uint8_t bytes[AEAD_KEY_SIZE], struct error *error)
{
    return openssl_key_new(EVP_aes_256_gcm(), bytes, error);
}

static struct aead_key *chacha20_key_new(const uint8_t bytes[AEAD_KEY_SIZE], struct error *error)
{
    return openssl_key_new(EVP_chacha20_poly1305(), bytes, error);
}

static bool openssl_seal(struct aead_key *key, const uint8_t nonce[AEAD_NONCE_SIZE],
                         const uint8_t *aad, size_t aad_size, const uint8_t *plain, size_t size,
                         uint8_t *sealed)
{
    EVP_CIPHER_CTX *context = key->sealing;
    int length;

    if (aad_size > INT_MAX || size > INT_MAX)
        return false;
    if (EVP_EncryptInit_ex(context, NULL, NULL, NULL, nonce) != 1)
        return false;
    if (aad_size > 0 && EVP_EncryptUpdate(context, NULL, &length, aad, (int)aad_size) != 1)
        return false;
    if (size > 0 && EVP_EncryptUpdate(context, sealed, &length, plain, (int)size) != 1)
        return false;
    if (EVP_EncryptFinal_ex(context, sealed + size, &length) != 1)
        return false;
    return EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, AEAD_TAG_SIZE, sealed + size) == 1;
}

static bool openssl_open(struct aead_key *key, const uint8_t nonce[AEAD_NONCE_SIZE],
                         const uint8_t *aad, size_t aad_size, const uint8_t *sealed, size_t size,
                         uint8_t *plain)
{
    EVP_CIPHER_CTX *context = key->opening;
    uint8_t end[AEAD_TAG_SIZE];
    int length;

    if (size < AEAD_TAG_SIZE || aad_size > INT_MAX || size > INT_MAX)
        return false;
    size -= AEAD_TAG_SIZE;
    if (EVP_DecryptInit_ex(context, NULL, NULL, NULL, nonce) != 1)
        return false;
    /* The tag is copied by OpenSSL; its interface only forgot to say const. */
    if (EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, AEAD_TAG_SIZE,
                            (void *)(uintptr_t)(sealed + size)) != 1)
        return false;
    if (aad_size > 0 && EVP_DecryptUpdate(context, NULL, &length, aad, (int)aad_size) != 1)
        return false;
    if (size > 0 && EVP_DecryptUpdate(context, plain, &length, sealed, (int)size) != 1)
        return false;
    return EVP_DecryptFinal_ex(context, end, &length) == 1;
}

const struct aead_provider aead_openssl_aes = {
    .name = "openssl",
    .suite = AEAD_AES_256_GCM,
    .available = openssl_available,
    .key_new = aes_key_new,
    .seal = openssl_seal,
    .open = openssl_open,
    .key_free = openssl_key_free,
};

const struct aead_provider aead_openssl_chacha20 = {
    .name = "openssl",
    .suite = AEAD_CHACHA20_POLY1305,
    .available = openssl_available,
    .key_new = chacha20_key_new,
    .seal = openssl_seal,
    .open = openssl_open,
    .key_free = openssl_key_free,
};
