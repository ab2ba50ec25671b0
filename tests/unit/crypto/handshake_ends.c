#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "handshake_ends.h"

size_t move(struct handshake *from, struct handshake *to, size_t piece, struct error *error)
{
    uint8_t bytes[4096];
    size_t size, total = 0;
    while (error->kind == ERROR_NONE && (size = handshake_send(from, bytes, piece)) > 0) {
        total += size;
        handshake_receive(to, bytes, size, error);
    }
    return total;
}

static void give_certificate(SSL_CTX *context, const char *type)
{
    EVP_PKEY *key = strcmp(type, "EC") == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256")
                                            : EVP_PKEY_Q_keygen(NULL, NULL, type);
    X509 *certificate = X509_new();

    assert_non_null(key);
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    assert_true(X509_sign(certificate, key, strcmp(type, "EC") == 0 ? EVP_sha256() : NULL) > 0);
    assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

struct impostor impostor_new(bool client, const char *type)
{
    struct impostor impostor = {.context = SSL_CTX_new(TLS_method())};
    if (type != NULL)
        give_certificate(impostor.context, type);
    SSL_CTX_set_verify(impostor.context, SSL_VERIFY_NONE, NULL);
    impostor.ssl = SSL_new(impostor.context);
    SSL_set_bio(impostor.ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    if (client)
        SSL_set_connect_state(impostor.ssl);
    else
        SSL_set_accept_state(impostor.ssl);
    return impostor;
}

void impostor_free(struct impostor *impostor)
{
    SSL_free(impostor->ssl);
    SSL_CTX_free(impostor->context);
}

struct error impostor_talk(struct impostor *impostor, struct handshake *honest)
{
    struct error error = {0};
    uint8_t bytes[8192];
    for (int round = 0; round < 6; round++) {
        size_t size = handshake_send(honest, bytes, sizeof bytes);
        if (size > 0)
            BIO_write(SSL_get_rbio(impostor->ssl), bytes, (int)size);
        SSL_do_handshake(impostor->ssl);
        int got = BIO_read(SSL_get_wbio(impostor->ssl), bytes, sizeof bytes);
        if (got > 0 && !handshake_receive(honest, bytes, (size_t)got, &error))
            break;
    }
    return error;
}
