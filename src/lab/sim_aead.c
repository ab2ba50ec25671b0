/* See sim_aead.h. */
#include "lab/sim_aead.h"

#include <stdlib.h>
#include <string.h>

#include "crypto/packet_keys.h"

static const struct sim_aead_tap *tap;
static bool cheap;

struct sim_key {
    const struct aead_provider *provider; /* NULL: the stand-in */
    struct aead_key *inner;
    uint64_t words[4];
};

static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
    return word;
}

static uint64_t hash_bytes(const struct sim_key *key, uint64_t hash, const uint8_t *bytes,
                           size_t size)
{
    size_t left = size;
    while (left >= 16) {
        hash = fold(load(bytes) ^ key->words[1] ^ hash, load(bytes + 8) ^ key->words[2]);
        bytes += 16;
        left -= 16;
    }
    uint8_t last[16] = {0};
    memcpy(last, bytes, left);
    hash = fold(load(last) ^ key->words[1] ^ hash, load(last + 8) ^ key->words[2] ^ size);
    return hash;
}

static void cheap_tag(const struct sim_key *key, const uint8_t *nonce, const uint8_t *aad,
                      size_t aad_size, const uint8_t *plain, size_t size,
                      uint8_t tag[AEAD_TAG_SIZE])
{
    uint64_t hash = hash_bytes(key, key->words[0], nonce, AEAD_NONCE_SIZE);
    hash = hash_bytes(key, hash, aad, aad_size);
    hash = hash_bytes(key, hash, plain, size);
    uint64_t second = fold(hash ^ key->words[3], key->words[0] | 1);
    memcpy(tag, &hash, 8);
    memcpy(tag + 8, &second, 8);
}

static bool always(void)
{
    return true;
}

static struct aead_key *sim_key_new(const uint8_t bytes[AEAD_KEY_SIZE], enum aead_suite suite,
                                    struct error *error)
{
    struct sim_key *key = calloc(1, sizeof(*key));
    if (key == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a simulated key");
        return NULL;
    }
    memcpy(key->words, bytes, sizeof(key->words));
    for (size_t i = 0; !cheap && key->provider == NULL && aead_providers[i] != NULL; i++) {
        if (aead_providers[i]->suite == suite && aead_providers[i]->available()) {
            key->provider = aead_providers[i];
        }
    }
    if (key->provider != NULL) {
        key->inner = key->provider->key_new(bytes, error);
        if (key->inner == NULL) {
            free(key);
            return NULL;
        }
    }
    return (struct aead_key *)key;
}

static struct aead_key *aes_key_new(const uint8_t bytes[AEAD_KEY_SIZE], struct error *error)
{
    return sim_key_new(bytes, AEAD_AES_256_GCM, error);
}

static struct aead_key *chacha_key_new(const uint8_t bytes[AEAD_KEY_SIZE], struct error *error)
{
    return sim_key_new(bytes, AEAD_CHACHA20_POLY1305, error);
}

static bool sim_seal(struct aead_key *opaque, const uint8_t nonce[AEAD_NONCE_SIZE],
                     const uint8_t *aad, size_t aad_size, const uint8_t *plain, size_t size,
                     uint8_t *sealed)
{
    struct sim_key *key = (struct sim_key *)opaque;
    tap->on_seal(tap->context, aad, aad_size, plain, size);
    if (key->provider != NULL) {
        return key->provider->seal(key->inner, nonce, aad, aad_size, plain, size, sealed);
    }
    uint8_t tag[AEAD_TAG_SIZE];
    cheap_tag(key, nonce, aad, aad_size, plain, size, tag);
    memmove(sealed, plain, size);
    memcpy(sealed + size, tag, sizeof(tag));
    return true;
}

static bool sim_open(struct aead_key *opaque, const uint8_t nonce[AEAD_NONCE_SIZE],
                     const uint8_t *aad, size_t aad_size, const uint8_t *sealed, size_t size,
                     uint8_t *plain)
{
    struct sim_key *key = (struct sim_key *)opaque;
    if (size < AEAD_TAG_SIZE) {
        return false;
    }
    if (key->provider != NULL) {
        if (!key->provider->open(key->inner, nonce, aad, aad_size, sealed, size, plain)) {
            return false;
        }
    } else {
        uint8_t tag[AEAD_TAG_SIZE];
        cheap_tag(key, nonce, aad, aad_size, sealed, size - AEAD_TAG_SIZE, tag);
        if (memcmp(tag, sealed + size - AEAD_TAG_SIZE, sizeof(tag)) != 0) {
            return false;
        }
        memmove(plain, sealed, size - AEAD_TAG_SIZE);
    }
    tap->on_open(tap->context, aad, aad_size, plain, size - AEAD_TAG_SIZE);
    return true;
}

static void sim_key_free(struct aead_key *opaque)
{
    struct sim_key *key = (struct sim_key *)opaque;
    if (key != NULL && key->provider != NULL) {
        key->provider->key_free(key->inner);
    }
    free(key);
}

static const struct aead_provider sim_aes = {
    "simulated", AEAD_AES_256_GCM, always, aes_key_new, sim_seal, sim_open, sim_key_free};
static const struct aead_provider sim_chacha = {
    "simulated", AEAD_CHACHA20_POLY1305, always, chacha_key_new, sim_seal, sim_open, sim_key_free};

static const struct aead_provider *choose(enum aead_suite suite)
{
    return suite == AEAD_AES_256_GCM ? &sim_aes : &sim_chacha;
}

static void record(const uint8_t key[AEAD_KEY_SIZE], uint64_t number)
{
    tap->on_pair(tap->context, key, number);
}

void sim_aead_install(const struct sim_aead_tap *new_tap, bool new_cheap)
{
    tap = new_tap;
    cheap = new_cheap;
    aead_override = choose;
    packet_keys_recorder = record;
}

void sim_aead_remove(void)
{
    aead_override = NULL;
    packet_keys_recorder = NULL;
    tap = NULL;
}
