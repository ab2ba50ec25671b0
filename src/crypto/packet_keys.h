/* The keys of packets: one per direction, lane and epoch (docs/protocol.md, "Packet keys").
 *
 * HKDF-SHA256 (RFC 5869) from the session secret; epoch = packet number >> 22; the nonce is the
 * key's static IV XOR the packet number (RFC 8446 section 5.3).
 */
#ifndef PETREL_CRYPTO_PACKET_KEYS_H
#define PETREL_CRYPTO_PACKET_KEYS_H

#include "crypto/aead.h"

#define SESSION_SECRET_SIZE 32
#define EPOCH_SHIFT 22
#define PACKET_NUMBER_LIMIT (UINT64_C(1) << 40) /* numbers have five bytes; none above is used */

enum packet_direction { CLIENT_TO_SERVER = 0, SERVER_TO_CLIENT = 1 };

/* One direction of one lane. The sender's side follows the number; the receiver's side holds the
 * keys of epochs e-1, e and e+1 and derives a later one only through packet_keys_accept. */
struct packet_keys;

/* `lane` is 0 to 15, or 16 for the stream lane; `provider` comes from aead_best, NULL gives
 * ERROR_CRYPTO. */
struct packet_keys *packet_keys_new(const struct aead_provider *provider,
                                    const uint8_t session_secret[SESSION_SECRET_SIZE],
                                    enum packet_direction direction, unsigned lane,
                                    struct error *error);
void packet_keys_free(struct packet_keys *keys); /* wipes; takes NULL */

/* Seals with the key of number's epoch; numbers must not fall to an earlier epoch. In place is
 * allowed. False without memory for a new epoch's key, or when the epoch would go back. */
bool packet_keys_seal(struct packet_keys *keys, uint64_t number, const uint8_t *aad,
                      size_t aad_size, const uint8_t *plain, size_t size, uint8_t *sealed);
/* Opens with one of the three keys held; false for any other epoch or a wrong tag. */
bool packet_keys_open(struct packet_keys *keys, uint64_t number, const uint8_t *aad,
                      size_t aad_size, const uint8_t *sealed, size_t size, uint8_t *plain);
/* Tells of an authenticated number: moves the held epochs up when it is in a later one. False
 * without memory: the held epochs stay, and later numbers of the new one ask again. */
bool packet_keys_accept(struct packet_keys *keys, uint64_t number);

/* Handshake packets before the session secret exists: keys from the 32-byte start secret and the
 * 16-byte session id. `direction` is the sender's. */
struct packet_keys *packet_keys_new_handshake(const uint8_t start_secret[32],
                                              const uint8_t session_id[16],
                                              enum packet_direction direction, struct error *error);

/* Test hook: sees (key, number) of every seal when set, so that a simulator can assert that no
 * pair is used twice. Not for production. */
extern void (*packet_keys_recorder)(const uint8_t key[AEAD_KEY_SIZE], uint64_t number);

#endif
