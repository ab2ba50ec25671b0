/* Authenticated encryption of one packet, by whichever provider is fastest here.
 *
 * AES-256-GCM (RFC 5116, NIST SP 800-38D) and ChaCha20-Poly1305 (RFC 8439). One table of
 * providers; the same suite from different providers gives the same bytes. Keys are expanded once,
 * nothing is allocated by seal or open. A key object is used by one thread at a time.
 */
#ifndef PETREL_CRYPTO_AEAD_H
#define PETREL_CRYPTO_AEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define AEAD_KEY_SIZE 32
#define AEAD_NONCE_SIZE 12
#define AEAD_TAG_SIZE 16

enum aead_suite { AEAD_AES_256_GCM = 1, AEAD_CHACHA20_POLY1305 = 2 };

struct aead_key; /* the start of each provider's own key object */

struct aead_provider {
    const char *name; /* "ipsec-mb", "openssl" */
    enum aead_suite suite;
    bool (*available)(void);
    struct aead_key *(*key_new)(const uint8_t key[AEAD_KEY_SIZE], struct error *error);
    /* Writes size + AEAD_TAG_SIZE bytes to `sealed`, which may be `plain` itself but not overlap
     * it otherwise. */
    bool (*seal)(struct aead_key *key, const uint8_t nonce[AEAD_NONCE_SIZE], const uint8_t *aad,
                 size_t aad_size, const uint8_t *plain, size_t size, uint8_t *sealed);
    /* `size` counts the tag. False, with `plain` undefined, when the tag does not fit. */
    bool (*open)(struct aead_key *key, const uint8_t nonce[AEAD_NONCE_SIZE], const uint8_t *aad,
                 size_t aad_size, const uint8_t *sealed, size_t size, uint8_t *plain);
    void (*key_free)(struct aead_key *key); /* wipes; takes NULL */
};

/* Every provider compiled in, best first, ended by NULL; not all need be available. */
extern const struct aead_provider *const aead_providers[];

/* The best available provider of a suite, NULL if none. */
const struct aead_provider *aead_best(enum aead_suite suite);

/* Test hook: when set, aead_best asks it instead, so that a simulator can watch packets. Not for
 * production. */
extern const struct aead_provider *(*aead_override)(enum aead_suite suite);

/* The suites this machine prefers: AES-256-GCM when the processor has AES instructions. */
bool aead_has_aes_hardware(void);

#endif
