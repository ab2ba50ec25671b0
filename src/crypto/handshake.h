/* TLS 1.3 in memory: proves who both ends are, and gives a fresh session secret.
 *
 * Over X25519, TLS_AES_256_GCM_SHA384 only (RFC 8446). No tickets, resumption or early data. Bytes
 * in, bytes out; moving them reliably is transport/opening's work. Two kinds of proof:
 *
 * A start secret that both hold: external PSK with (EC)DHE (RFC 9258). The client trusts no
 * certificate, the server has none, and both refuse a session in which the PSK was not used.
 *
 * Ed25519 keys, one a side, pinned as SSH pins its own: each shows a certificate that it signed
 * itself, of which the other reads nothing but the public key (RFC 8410). TLS proves that its owner
 * is there; whether that key is welcome is the caller's to say. Other keys, and a side without any,
 * are refused.
 *
 * For datagrams TLS carries no data: when both sides are finished, the exporter (RFC 8446 section
 * 7.5) is all that is kept. On a TCP stream it goes on to carry what it is given.
 */
#ifndef PETREL_CRYPTO_HANDSHAKE_H
#define PETREL_CRYPTO_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "crypto/primitives.h"

#define START_SECRET_SIZE 32
#define SESSION_ID_SIZE 16
#define HANDSHAKE_KEY_SIZE 32 /* Ed25519: a private key's seed, or a public key (RFC 8032) */

struct handshake;

/* Who we are, and what the peer's key is worth. */
struct handshake_identity {
    uint8_t seed[HANDSHAKE_KEY_SIZE]; /* of the private key */
    /* False, with an error for our own side, when the peer's key is not welcome. Called once, while
     * handshake_receive runs, before the peer has proved that the key is its own. */
    bool (*judge)(void *context, const uint8_t key[HANDSHAKE_KEY_SIZE], struct error *error);
    void *context;
    bool stream; /* TLS goes on to carry bytes: they may follow its handshake at once */
};

/* The session id is the PSK identity. The secret is copied, and wiped by handshake_free. */
struct handshake *handshake_new_psk(bool client, const uint8_t secret[START_SECRET_SIZE],
                                    const uint8_t session_id[SESSION_ID_SIZE], struct error *error);
/* With keys. The identity is copied, the seed's copies are wiped. */
struct handshake *handshake_new_keys(bool client, const struct handshake_identity *identity,
                                     struct error *error);
void handshake_free(struct handshake *handshake);

/* Takes the next bytes of the peer's TLS stream, in order. */
bool handshake_receive(struct handshake *handshake, const uint8_t *bytes, size_t size,
                       struct error *error);
/* Moves up to `capacity` bytes of our own TLS stream to `bytes`; returns how many (0: none now).
 * The client has bytes to send from the start. */
size_t handshake_send(struct handshake *handshake, uint8_t *bytes, size_t capacity);
/* True when the peer has proved the PSK, or a key that is welcome, and its Finished was verified. A
 * client is finished before its own last flight was taken by handshake_send, and so before a server
 * has judged its key. */
bool handshake_finished(const struct handshake *handshake);
/* EXPORTER-petrel-1 with `context`; only when finished. */
bool handshake_export(struct handshake *handshake, const uint8_t *context, size_t context_size,
                      uint8_t *secret, size_t secret_size, struct error *error);

/* The rest is for handshakes with keys. */

/* The peer's key; only when finished, or when it was not welcome. */
bool handshake_peer_key(const struct handshake *handshake, uint8_t key[HANDSHAKE_KEY_SIZE]);
#define HANDSHAKE_REFUSED "the server refuses our key: not authorised"
/* For a client that is finished: bytes that came after the server's last flight. False with
 * ERROR_PERMISSION, HANDSHAKE_REFUSED, when the server says by them that it refuses us; other bytes
 * are ignored. */
bool handshake_hear_refusal(struct handshake *handshake, const uint8_t *bytes, size_t size,
                            struct error *error);
/* A TLS stream, once finished: seals `size` bytes for handshake_send to give out; and opens what
 * handshake_feed was given. Returns how many bytes, 0: none now; *ended: the peer has closed. */
bool handshake_write(struct handshake *handshake, const uint8_t *bytes, size_t size,
                     struct error *error);
bool handshake_feed(struct handshake *handshake, const uint8_t *bytes, size_t size,
                    struct error *error);
size_t handshake_read(struct handshake *handshake, uint8_t *bytes, size_t capacity, bool *ended);
/* Whether the peer has ended it because our key is not welcome. */
bool handshake_was_refused(const struct handshake *handshake);
/* How many bytes handshake_send would give out. */
size_t handshake_unsent(const struct handshake *handshake);
/* Says that nothing follows. */
void handshake_close(struct handshake *handshake);

#endif
