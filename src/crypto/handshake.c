#include "crypto/handshake.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "crypto/certificate.h"

static const char exporter_label[] = "EXPORTER-petrel-1";
static const unsigned char cipher_number[2] = {0x13, 0x02}; /* TLS_AES_256_GCM_SHA384 */

struct handshake {
    bool client;
    bool with_keys;
    bool finished, failed;
    bool refused;        /* by the peer, which does not know our key */
    bool peer_known;     /* peer_key is what the peer showed */
    struct error judged; /* why it was not welcome */
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out; /* owned by ssl */
    uint8_t secret[START_SECRET_SIZE];
    uint8_t session_id[SESSION_ID_SIZE];
    struct handshake_identity identity;
    uint8_t peer_key[HANDSHAKE_KEY_SIZE];
};

#define CERTIFICATES_MAX 4096 /* bytes that a peer may show; ours has about 250 */

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

/* Takes the place of OpenSSL's walk along a chain: nobody signed this but its owner. */
static int judge_certificate(X509_STORE_CTX *store, void *argument)
{
    struct handshake *handshake = argument;

    handshake->peer_known =
        certificate_public_key(X509_STORE_CTX_get0_cert(store), handshake->peer_key);
    if (!handshake->peer_known)
        error_set(&handshake->judged, ERROR_CRYPTO, "the peer's key is no Ed25519 key");
    else if (handshake->identity.judge(handshake->identity.context, handshake->peer_key,
                                       &handshake->judged))
        return 1;
    /* One answer for all that is not welcome. */
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
}

static bool configure_keys(struct handshake *handshake)
{
    SSL_CTX *context = handshake->context;

    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_cert_verify_callback(context, judge_certificate, handshake);
    SSL_CTX_set_max_cert_list(context, CERTIFICATES_MAX);
    return SSL_CTX_set1_sigalgs_list(context, "ed25519") == 1 &&
           SSL_CTX_set1_client_sigalgs_list(context, "ed25519") == 1 &&
           certificate_use(context, handshake->identity.seed);
}

static void configure_psk(struct handshake *handshake)
{
    SSL_CTX *context = handshake->context;

    /* By default OpenSSL's client, though it has a PSK, accepts a server that shows any
     * certificate. Its trust store is empty and it insists, so that none passes. */
    SSL_CTX_set_verify(context, handshake->client ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    if (handshake->client)
        SSL_CTX_set_psk_use_session_callback(context, client_psk);
    else
        SSL_CTX_set_psk_find_session_callback(context, server_psk);
}

/* One exact set of parameters, whatever the system's OpenSSL configuration prefers. */
static bool configure(struct handshake *handshake)
{
    SSL_CTX *context = handshake->context;
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
    if (handshake->with_keys)
        return configure_keys(handshake);
    configure_psk(handshake);
    return true;
}

static bool make_ssl(struct handshake *handshake)
{
    handshake->context = SSL_CTX_new(TLS_method());
    if (handshake->context == NULL || !configure(handshake))
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
        if (handshake->judged.kind != ERROR_NONE) {
            ERR_clear_error();
            return error_set(error, handshake->judged.kind, "%s", handshake->judged.text);
        }
        if (!handshake->client &&
            ERR_GET_REASON(ERR_peek_error()) == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE) {
            ERR_clear_error();
            return error_set(error, ERROR_CRYPTO,
                             "the client does not take this server's key, or asks "
                             "its user first");
        }
        return library_error(error, "the peer was refused by TLS");
    }
    if ((SSL_session_reused(handshake->ssl) == 1) == handshake->with_keys) {
        handshake->failed = true;
        return error_set(error, ERROR_CRYPTO, "the peer does not hold the session's secret");
    }
    if (handshake->with_keys && !handshake->peer_known) {
        handshake->failed = true;
        return error_set(error, ERROR_CRYPTO, "the peer has shown no key");
    }
    handshake->finished = true;
    return true;
}

/* Takes the handshake; NULL, and it is gone, when TLS cannot begin. */
static struct handshake *begin(struct handshake *handshake, struct error *error)
{
    ERR_clear_error();
    if (!make_ssl(handshake)) {
        library_error(error, "OpenSSL cannot begin TLS 1.3");
        handshake_free(handshake);
        return NULL;
    }
    if (handshake->client && !advance(handshake, error)) {
        handshake_free(handshake);
        return NULL;
    }
    return handshake;
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
    return begin(handshake, error);
}

struct handshake *handshake_new_keys(bool client, const struct handshake_identity *identity,
                                     struct error *error)
{
    struct handshake *handshake = calloc(1, sizeof *handshake);
    if (handshake == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a handshake");
        return NULL;
    }
    handshake->client = client;
    handshake->with_keys = true;
    handshake->identity = *identity;
    return begin(handshake, error);
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
    if (handshake->finished && !handshake->identity.stream && BIO_ctrl_pending(handshake->in) > 0) {
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

bool handshake_peer_key(const struct handshake *handshake, uint8_t key[HANDSHAKE_KEY_SIZE])
{
    if (!handshake->peer_known || (!handshake->finished && handshake->judged.kind == ERROR_NONE))
        return false;
    memcpy(key, handshake->peer_key, HANDSHAKE_KEY_SIZE);
    return true;
}

/* ---- after the handshake ---- */

bool handshake_hear_refusal(struct handshake *handshake, const uint8_t *bytes, size_t size,
                            struct error *error)
{
    uint8_t none[64];
    bool ended;

    if (!handshake_feed(handshake, bytes, size, NULL))
        return true;
    handshake_read(handshake, none, sizeof none, &ended);
    if (!handshake->refused)
        return true;
    return error_set(error, ERROR_PERMISSION, HANDSHAKE_REFUSED);
}

bool handshake_write(struct handshake *handshake, const uint8_t *bytes, size_t size,
                     struct error *error)
{
    if (!handshake->finished || handshake->failed)
        return error_set(error, ERROR_CRYPTO, "the handshake is not finished");
    ERR_clear_error();
    if (size == 0 || (size <= INT_MAX && SSL_write(handshake->ssl, bytes, (int)size) == (int)size))
        return true;
    return library_error(error, "TLS cannot seal");
}

bool handshake_feed(struct handshake *handshake, const uint8_t *bytes, size_t size,
                    struct error *error)
{
    if (!handshake->finished || handshake->failed)
        return error_set(error, ERROR_CRYPTO, "the handshake is not finished");
    if (size > INT_MAX || BIO_write(handshake->in, bytes, (int)size) != (int)size)
        return error_set(error, ERROR_MEMORY, "no memory for bytes of TLS");
    return true;
}

size_t handshake_read(struct handshake *handshake, uint8_t *bytes, size_t capacity, bool *ended)
{
    int size;

    *ended = handshake->failed || !handshake->finished;
    if (*ended)
        return 0;
    ERR_clear_error();
    size = SSL_read(handshake->ssl, bytes, capacity > INT_MAX ? INT_MAX : (int)capacity);
    if (size > 0)
        return (size_t)size;
    *ended = SSL_get_error(handshake->ssl, size) != SSL_ERROR_WANT_READ;
    /* TLS took it for an alert of the peer's, under the peer's keys. */
    if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_AD_REASON_OFFSET + SSL_AD_BAD_CERTIFICATE)
        handshake->refused = true;
    ERR_clear_error();
    return 0;
}

bool handshake_was_refused(const struct handshake *handshake)
{
    return handshake->refused;
}

size_t handshake_unsent(const struct handshake *handshake)
{
    return BIO_ctrl_pending(handshake->out);
}

void handshake_close(struct handshake *handshake)
{
    ERR_clear_error();
    if (handshake->finished)
        SSL_shutdown(handshake->ssl);
    ERR_clear_error();
}
