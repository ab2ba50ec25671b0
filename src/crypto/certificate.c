#include "crypto/certificate.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

static EVP_PKEY *private_key(const uint8_t seed[HANDSHAKE_KEY_SIZE])
{
    return EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, HANDSHAKE_KEY_SIZE);
}

static bool raw_public_key(EVP_PKEY *key, uint8_t raw[HANDSHAKE_KEY_SIZE])
{
    size_t size = HANDSHAKE_KEY_SIZE;
    return key != NULL && EVP_PKEY_get_id(key) == EVP_PKEY_ED25519 &&
           EVP_PKEY_get_raw_public_key(key, raw, &size) == 1 && size == HANDSHAKE_KEY_SIZE;
}

/* Always the same for a key, so that it tells nothing of the day or the machine. */
static bool fill(X509 *certificate, EVP_PKEY *key)
{
    static const unsigned char name[] = "petrel";
    X509_NAME *subject = X509_get_subject_name(certificate);

    return X509_set_version(certificate, X509_VERSION_3) == 1 &&
           ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1 &&
           ASN1_TIME_set_string(X509_getm_notBefore(certificate), "20000101000000Z") == 1 &&
           ASN1_TIME_set_string(X509_getm_notAfter(certificate), "99991231235959Z") == 1 &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, name, sizeof name - 1, -1, 0) ==
               1 &&
           X509_set_issuer_name(certificate, subject) == 1 &&
           X509_set_pubkey(certificate, key) == 1 && X509_sign(certificate, key, NULL) > 0;
}

bool certificate_use(SSL_CTX *context, const uint8_t seed[HANDSHAKE_KEY_SIZE])
{
    EVP_PKEY *key = private_key(seed);
    X509 *certificate = X509_new();
    bool good = key != NULL && certificate != NULL && fill(certificate, key) &&
                SSL_CTX_use_certificate(context, certificate) == 1 &&
                SSL_CTX_use_PrivateKey(context, key) == 1;
    X509_free(certificate);
    EVP_PKEY_free(key);
    return good;
}

bool certificate_public_key(const X509 *certificate, uint8_t key[HANDSHAKE_KEY_SIZE])
{
    EVP_PKEY *public = certificate != NULL ? X509_get0_pubkey(certificate) : NULL;
    bool good = raw_public_key(public, key);
    ERR_clear_error();
    return good;
}
