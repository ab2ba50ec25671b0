/* TLS in memory: both ends agree, and everyone without the PSK is refused, by either end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "crypto/handshake.h"

static const uint8_t secret[32] = "thirty-two bytes from the client";
static const uint8_t other_secret[32] = "thirty-two bytes of someone else";
static const uint8_t id[16] = "session id bytes", other_id[16] = "another session.";

static struct handshake *new_end(bool client, const uint8_t *key, const uint8_t *name)
{
    struct error error = {0};
    struct handshake *end = handshake_new_psk(client, key, name, &error);
    assert_non_null(end);
    assert_int_equal(error.kind, ERROR_NONE);
    return end;
}

/* Moves all bytes of one end to the other, `piece` at a time. Returns how many went; the
 * receiver's failure is left in `error`. */
static size_t move(struct handshake *from, struct handshake *to, size_t piece, struct error *error)
{
    uint8_t bytes[4096];
    size_t size, total = 0;
    while (error->kind == ERROR_NONE && (size = handshake_send(from, bytes, piece)) > 0) {
        total += size;
        handshake_receive(to, bytes, size, error);
    }
    return total;
}

static void both_ends_agree_with_pieces_of(size_t piece)
{
    struct handshake *client = new_end(true, secret, id), *server = new_end(false, secret, id);
    struct error error = {0};
    uint8_t a[32], b[32], c[32];

    assert_true(move(client, server, piece, &error) > 0);
    assert_false(handshake_finished(server));
    assert_false(handshake_export(client, id, 16, a, 32, &(struct error){0}));
    assert_true(move(server, client, piece, &error) > 0);
    assert_true(handshake_finished(client));
    assert_false(handshake_finished(server)); /* not before the client's Finished */
    assert_true(move(client, server, piece, &error) > 0);
    assert_true(handshake_finished(server));
    assert_int_equal(error.kind, ERROR_NONE);
    assert_int_equal(move(server, client, piece, &error), 0); /* no tickets */
    assert_int_equal(error.kind, ERROR_NONE);
    assert_true(handshake_export(client, (const uint8_t *)"context", 7, a, 32, &error));
    assert_true(handshake_export(server, (const uint8_t *)"context", 7, b, 32, &error));
    assert_memory_equal(a, b, 32);
    assert_true(handshake_export(server, (const uint8_t *)"Context", 7, c, 32, &error));
    assert_memory_not_equal(a, c, 32);
    assert_false(handshake_receive(client, id, 1, &error)); /* TLS is done with */
    assert_int_equal(error.kind, ERROR_PROTOCOL);
    handshake_free(client);
    handshake_free(server);
}

static void both_ends_agree(void **state)
{
    (void)state;
    both_ends_agree_with_pieces_of(4096);
    both_ends_agree_with_pieces_of(100);
    both_ends_agree_with_pieces_of(1);
}

static void sessions_differ(void **state)
{
    uint8_t secrets[2][32];
    (void)state;
    for (int i = 0; i < 2; i++) { /* the same PSK twice: fresh keys all the same */
        struct handshake *client = new_end(true, secret, id), *server = new_end(false, secret, id);
        struct error error = {0};
        move(client, server, 4096, &error);
        move(server, client, 4096, &error);
        assert_true(handshake_export(client, NULL, 0, secrets[i], 32, &error));
        handshake_free(client);
        handshake_free(server);
    }
    assert_memory_not_equal(secrets[0], secrets[1], 32);
}

static void expect_refusal_by_server(const uint8_t *key, const uint8_t *name)
{
    struct handshake *client = new_end(true, key, name), *server = new_end(false, secret, id);
    struct error error = {0}, told = {0};

    move(client, server, 4096, &error);
    assert_int_equal(error.kind, ERROR_CRYPTO);
    assert_true(strlen(error.text) > 10);
    assert_false(handshake_finished(server));
    assert_false(handshake_receive(server, id, 1, &told)); /* stays failed */
    told = (struct error){0};
    move(server, client, 4096, &told); /* the alert tells the client */
    assert_int_equal(told.kind, ERROR_CRYPTO);
    assert_false(handshake_finished(client));
    handshake_free(client);
    handshake_free(server);
}

static void wrong_secret_or_identity_is_refused(void **state)
{
    (void)state;
    expect_refusal_by_server(other_secret, id);
    expect_refusal_by_server(secret, other_id);
    expect_refusal_by_server(other_secret, other_id);
}

/* A plain OpenSSL end without the PSK: a server that shows a self-signed certificate, or a client
 * that does not mind whom it talks to. */
struct impostor {
    SSL_CTX *context;
    SSL *ssl;
};

static void give_certificate(SSL_CTX *context)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    X509 *certificate = X509_new();
    X509_NAME *name = X509_get_subject_name(certificate);

    assert_non_null(key);
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"x", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_set_pubkey(certificate, key);
    assert_true(X509_sign(certificate, key, NULL) > 0);
    assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static struct impostor impostor_new(bool client)
{
    struct impostor impostor = {.context = SSL_CTX_new(TLS_method())};
    give_certificate(impostor.context);
    SSL_CTX_set_verify(impostor.context, SSL_VERIFY_NONE, NULL);
    impostor.ssl = SSL_new(impostor.context);
    SSL_set_bio(impostor.ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    if (client)
        SSL_set_connect_state(impostor.ssl);
    else
        SSL_set_accept_state(impostor.ssl);
    return impostor;
}

static void impostor_free(struct impostor *impostor)
{
    SSL_free(impostor->ssl);
    SSL_CTX_free(impostor->context);
}

/* Runs both until nothing moves; returns what our end says. */
static struct error talk(struct handshake *honest, struct impostor *impostor)
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

static void a_client_refuses_an_impostor_with_a_certificate(void **state)
{
    struct impostor impostor = impostor_new(false);
    struct handshake *client = new_end(true, secret, id);
    struct error error = talk(client, &impostor);

    (void)state;
    assert_int_equal(error.kind, ERROR_CRYPTO);
    assert_false(handshake_finished(client));
    handshake_free(client);
    impostor_free(&impostor);
}

static void a_server_refuses_a_client_without_the_secret(void **state)
{
    struct impostor impostor = impostor_new(true);
    struct handshake *server = new_end(false, secret, id);
    struct error error = talk(server, &impostor);

    (void)state;
    assert_int_equal(error.kind, ERROR_CRYPTO);
    assert_false(handshake_finished(server));
    handshake_free(server);
    impostor_free(&impostor);
}

/* Each byte of the server's and the client's flights changed: never finished. */
static void changed_bytes_are_refused(void **state)
{
    (void)state;
    for (size_t at = 0;; at += 7) {
        struct handshake *client = new_end(true, secret, id), *server = new_end(false, secret, id);
        struct error error = {0};
        uint8_t bytes[4096];
        size_t size;

        move(client, server, 4096, &error);
        size = handshake_send(server, bytes, sizeof bytes);
        if (at < size) {
            bytes[at] ^= 1;
            handshake_receive(client, bytes, size, &error);
            assert_false(handshake_finished(client));
        }
        handshake_free(client);
        handshake_free(server);
        if (at >= size)
            break;
    }
}

static void garbage_is_an_error(void **state)
{
    struct handshake *server = new_end(false, secret, id);
    struct error error = {0};
    uint8_t bytes[300];

    (void)state;
    memset(bytes, 0x5a, sizeof bytes);
    assert_false(handshake_receive(server, bytes, sizeof bytes, &error));
    assert_int_equal(error.kind, ERROR_CRYPTO);
    handshake_free(server);
    handshake_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_agree),
        cmocka_unit_test(sessions_differ),
        cmocka_unit_test(wrong_secret_or_identity_is_refused),
        cmocka_unit_test(a_client_refuses_an_impostor_with_a_certificate),
        cmocka_unit_test(a_server_refuses_a_client_without_the_secret),
        cmocka_unit_test(changed_bytes_are_refused),
        cmocka_unit_test(garbage_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
