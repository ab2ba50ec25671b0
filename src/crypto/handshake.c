#include "crypto/handshake.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

static const char exporter_label[] = "EXPORTER-petrel-1";
static const unsigned char cipher_number[2] = {0x13, 0x02}; /* TLS_AES_256_GCM_SHA384 */

struct handshake {
    bool client;
    bool finished, failed;
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out; /* owned by ssl */
    uint8_t secret[START_SECRET_SIZE];
    uint8_t session_id[SESSION_ID_SIZE];
};

/* Says why, in OpenSSL's words; the queue of its errors is emptied. */
static bool library_error(struct error *error, const char *what)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return error_set(error, ERROR_CRYPTO, "%s: %s", what,
                     reason != NULL ? reason : "no reason given");
}

/* The PSK as OpenSSL wants it: a session that was never held. NULL on failure. */
static SSL_SESSION *psk_session(struct handshake *handshake)
{
    const SSL_CIPHER *cipher = SSL_CIPHER_find(handshake->ssl, cipher_number);
    SSL_SESSION *session = SSL_SESSION_new();

    if (session != NULL && cipher != NULL &&
        SSL_SESSION_set1_master_key(session, handshake->secret, START_SECRET_SIZE) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int client_psk(SSL *ssl, const EVP_MD *hash, const unsigned char **identity, size_t *size,
                      SSL_SESSION **session)
{
    struct handshake *handshake = SSL_get_app_data(ssl);

    (void)hash; /* set after a retry request only, and there is only one hash here */
    *session = psk_session(handshake);
    if (*session == NULL)
        return 0;
    *identity = handshake->session_id;
    *size = SESSION_ID_SIZE;
    return 1;
}

static int server_psk(SSL *ssl, const unsigned char *identity, size_t size, SSL_SESSION **session)
{
    struct handshake *handshake = SSL_get_app_data(ssl);

    *session = NULL; /* an unknown identity: OpenSSL goes on to certificates and finds none */
    if (size != SESSION_ID_SIZE ||
        CRYPTO_memcmp(identity, handshake->session_id, SESSION_ID_SIZE) != 0)
        return 1;
    *session = psk_session(handshake);
    return *session != NULL;
}

/* One exact set of parameters, whatever the system's OpenSSL configuration prefers. */
static bool configure(SSL_CTX *context, bool client)
{
    const uint64_t options = SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION;

    if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(context, "TLS_AES_256_GCM_SHA384") != 1 ||
        SSL_CTX_set1_groups_list(context, "X25519") != 1 ||
        SSL_CTX_set_num_tickets(context, 0) != 1 || SSL_CTX_set_max_early_data(context, 0) != 1)
        return false;
    SSL_CTX_set_options(context, options);
    /* Compatibility records help against boxes that look into TCP streams; here they are noise.
     * PSK without Diffie-Hellman would not be forward secret. */
    SSL_CTX_clear_options(context, SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    /* By default OpenSSL's client, though it has a PSK, accepts a server that shows any
     * certificate. Its trust store is empty and it insists, so that none passes. */
    SSL_CTX_set_verify(context, client ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    if (client)
        SSL_CTX_set_psk_use_session_callback(context, client_psk);
    else
        SSL_CTX_set_psk_find_session_callback(context, server_psk);
    return true;
}

static bool make_ssl(struct handshake *handshake)
{
    handshake->context = SSL_CTX_new(TLS_method());
    if (handshake->context == NULL || !configure(handshake->context, handshake->client))
        return false;
    handshake->ssl = SSL_new(handshake->context);
    if (handshake->ssl == NULL)
        return false;
    SSL_set_app_data(handshake->ssl, handshake);
    handshake->in = BIO_new(BIO_s_mem());
    handshake->out = BIO_new(BIO_s_mem());
    if (handshake->in == NULL || handshake->out == NULL) {
        BIO_free(handshake->in);
        BIO_free(handshake->out);
        return false;
    }
    BIO_set_mem_eof_return(handshake->in, -1); /* empty means "not yet", not "the end" */
    SSL_set_bio(handshake->ssl, handshake->in, handshake->out);
    if (handshake->client)
        SSL_set_connect_state(handshake->ssl);
    else
        SSL_set_accept_state(handshake->ssl);
    return true;
}

/* Goes as far as the bytes at hand allow. */
static bool advance(struct handshake *handshake, struct error *error)
{
    int result;

    ERR_clear_error();
    result = SSL_do_handshake(handshake->ssl);
    if (result != 1) {
        if (SSL_get_error(handshake->ssl, result) == SSL_ERROR_WANT_READ)
            return true;
        handshake->failed = true;
        return library_error(error, "the peer was refused by TLS");
    }
    if (SSL_session_reused(handshake->ssl) != 1) {
        handshake->failed = true;
        return error_set(error, ERROR_CRYPTO, "the peer does not hold the session's secret");
    }
    handshake->finished = true;
    return true;
}

struct handshake *handshake_new_psk(bool client, const uint8_t secret[START_SECRET_SIZE],
                                    const uint8_t session_id[SESSION_ID_SIZE], struct error *error)
{
    struct handshake *handshake = calloc(1, sizeof *handshake);
    if (handshake == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a handshake");
        return NULL;
    }
    handshake->client = client;
    memcpy(handshake->secret, secret, START_SECRET_SIZE);
    memcpy(handshake->session_id, session_id, SESSION_ID_SIZE);
    ERR_clear_error();
    if (!make_ssl(handshake)) {
        library_error(error, "OpenSSL cannot begin TLS 1.3");
        handshake_free(handshake);
        return NULL;
    }
    if (client && !advance(handshake, error)) {
        handshake_free(handshake);
        return NULL;
    }
    return handshake;
}

void handshake_free(struct handshake *handshake)
{
    if (handshake == NULL)
        return;
    SSL_free(handshake->ssl);
    SSL_CTX_free(handshake->context);
    wipe(handshake, sizeof *handshake);
    free(handshake);
}

bool handshake_receive(struct handshake *handshake, const uint8_t *bytes, size_t size,
                       struct error *error)
{
    if (handshake->failed)
        return error_set(error, ERROR_CRYPTO, "the handshake has failed before");
    if (size == 0)
        return true;
    if (handshake->finished)
        return error_set(error, ERROR_PROTOCOL, "the peer sent bytes after its TLS handshake");
    if (size > INT_MAX || BIO_write(handshake->in, bytes, (int)size) != (int)size)
        return error_set(error, ERROR_MEMORY, "no memory for handshake bytes");
    if (!advance(handshake, error))
        return false;
    if (handshake->finished && BIO_ctrl_pending(handshake->in) > 0) {
        handshake->failed = true;
        handshake->finished = false;
        return error_set(error, ERROR_PROTOCOL, "the peer sent bytes after its TLS handshake");
    }
    return true;
}

size_t handshake_send(struct handshake *handshake, uint8_t *bytes, size_t capacity)
{
    int size;

    if (capacity == 0 || BIO_ctrl_pending(handshake->out) == 0)
        return 0;
    size = BIO_read(handshake->out, bytes, capacity > INT_MAX ? INT_MAX : (int)capacity);
    return size > 0 ? (size_t)size : 0;
}

bool handshake_finished(const struct handshake *handshake)
{
    return handshake->finished;
}

bool handshake_export(struct handshake *handshake, const uint8_t *context, size_t context_size,
                      uint8_t *secret, size_t secret_size, struct error *error)
{
    if (!handshake->finished)
        return error_set(error, ERROR_CRYPTO, "no session secret before the handshake's end");
    ERR_clear_error();
    if (SSL_export_keying_material(handshake->ssl, secret, secret_size, exporter_label,
                                   sizeof exporter_label - 1, context, context_size, 1) != 1)
        return library_error(error, "cannot derive the session secret");
    return true;
}
