#include "transport/opening_talk.h"

#include <string.h>

/* Moves what TLS has to say to the end of our stream. */
static bool take_tls_output(struct talk *talk, struct error *error)
{
    size_t size;

    do {
        size = handshake_send(talk->tls, talk->out + talk->out_size, TALK_OUT_MAX - talk->out_size);
        talk->out_size += (uint32_t)size;
    } while (size > 0);
    if (talk->out_size == TALK_OUT_MAX)
        return error_set(error, ERROR_CRYPTO, "the TLS handshake has too many bytes");
    return true;
}

static bool begin_hello(struct talk *talk, const struct opening_config *config)
{
    size_t size = hello_encode(&talk->own, talk->own_hello, sizeof talk->own_hello);
    if (size != HELLO_SIZE)
        return false;
    if (config->says_wishes)
        size += hello_wishes_encode(&config->wishes, talk->own_hello + HELLO_SIZE,
                                    sizeof talk->own_hello - HELLO_SIZE);
    talk->own_hello_size = size;
    talk->out[0] = (uint8_t)(size >> 8);
    talk->out[1] = (uint8_t)size;
    memcpy(talk->out + 2, talk->own_hello, size);
    talk->out_size = (uint32_t)(2 + size);
    return true;
}

bool talk_begin(struct talk *talk, const struct opening_config *config, struct error *error)
{
    talk->client = config->client;
    talk->own = config->hello;
    talk->with_keys = config->identity != NULL;
    if (!begin_hello(talk, config))
        return error_set(error, ERROR_USAGE, "the hello does not fit");
    talk->tls = talk->with_keys
                    ? handshake_new_keys(config->client, config->identity, error)
                    : handshake_new_psk(config->client, config->secret, config->session_id, error);
    return talk->tls != NULL && take_tls_output(talk, error);
}

/* Takes what belongs to the peer's hello and returns how many bytes that was. */
static size_t collect_hello(struct talk *talk, const uint8_t *bytes, size_t size)
{
    size_t taken = 0;

    while (taken < size) {
        size_t have = talk->peer_hello_have;
        size_t length = (size_t)talk->peer_hello[0] << 8 | talk->peer_hello[1];
        if (have == sizeof talk->peer_hello || (have >= 2 && have == 2 + length))
            break;
        talk->peer_hello[talk->peer_hello_have++] = bytes[taken++];
    }
    return taken;
}

static bool check_hello(struct talk *talk, struct error *error)
{
    size_t length;

    if (talk->peer_hello_have < 2)
        return true;
    length = (size_t)talk->peer_hello[0] << 8 | talk->peer_hello[1];
    if (length == 0 || length > HELLO_MAX)
        return error_set(error, ERROR_PROTOCOL, "the peer's hello has %zu bytes", length);
    if (talk->peer_hello_have < 2 + length)
        return true;
    if (!hello_decode(&talk->result.peer, talk->peer_hello + 2, length, error) ||
        !hello_agree(&talk->own, &talk->result.peer, &talk->result.version, &talk->result.suite,
                     error))
        return false;
    talk->peer_hello_known = true;
    return true;
}

/* Both Finished are verified: the exporter's secret is all that is kept. */
static bool finish(struct talk *talk, struct error *error)
{
    uint8_t hellos[sizeof talk->own_hello + HELLO_MAX], context[SHA256_SIZE];
    const uint8_t *peer = talk->peer_hello + 2;
    size_t peer_size = talk->peer_hello_have - 2, own_size = talk->own_hello_size;

    if (talk->client) {
        memcpy(hellos, talk->own_hello, own_size);
        memcpy(hellos + own_size, peer, peer_size);
    } else {
        memcpy(hellos, peer, peer_size);
        memcpy(hellos + peer_size, talk->own_hello, own_size);
    }
    if (!sha256(hellos, own_size + peer_size, context))
        return error_set(error, ERROR_CRYPTO, "cannot hash the hellos");
    if (!handshake_export(talk->tls, context, sizeof context, talk->result.secret,
                          sizeof talk->result.secret, error))
        return false;
    if (!talk->client || !talk->with_keys) { /* nothing is to come that could be of use */
        handshake_free(talk->tls);
        talk->tls = NULL;
    }
    talk->finished = true;
    return true;
}

bool talk_receive(struct talk *talk, const uint8_t *bytes, size_t size, struct error *error)
{
    bool good;

    if (talk->finished && talk->tls != NULL)
        return handshake_hear_refusal(talk->tls, bytes, size, error);
    if (talk->finished)
        return size == 0 ||
               error_set(error, ERROR_PROTOCOL, "the peer went on after the handshake's end");
    if (talk->tls == NULL)
        return error_set(error, ERROR_CRYPTO, "the handshake has failed before");
    if (!talk->peer_hello_known) {
        size_t taken = collect_hello(talk, bytes, size);
        bytes += taken;
        size -= taken;
        if (!check_hello(talk, error))
            return false;
        if (!talk->peer_hello_known)
            return true;
    }
    good = handshake_receive(talk->tls, bytes, size, error);
    good = take_tls_output(talk, error) && good;
    if (!good || !handshake_finished(talk->tls))
        return good;
    return finish(talk, error);
}

void talk_end(struct talk *talk)
{
    handshake_free(talk->tls);
    wipe(talk, sizeof *talk);
}
