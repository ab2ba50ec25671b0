#include "crypto/packet_keys.h"

#include <stdlib.h>
#include <string.h>

#include "crypto/primitives.h"

#define SLOTS 3 /* epochs e-1, e and e+1 never share a slot */
#define IV_SIZE AEAD_NONCE_SIZE
_Static_assert(IV_SIZE == 12, "the number goes over the last eight bytes");

void (*packet_keys_recorder)(const uint8_t key[AEAD_KEY_SIZE], uint64_t number);

struct epoch_key {
    struct aead_key *key; /* NULL: empty */
    uint32_t epoch;
    uint8_t bytes[AEAD_KEY_SIZE]; /* only for the recorder */
    uint8_t iv[IV_SIZE];
};

struct packet_keys {
    const struct aead_provider *provider;
    bool single; /* handshake packets: one key for every number */
    uint8_t lane_secret[SHA256_SIZE];
    uint32_t newest; /* sender: epoch in use; receiver: of the newest authenticated number */
    struct epoch_key slots[SLOTS];
};

static uint32_t epoch_of(const struct packet_keys *keys, uint64_t number)
{
    return keys->single ? 0 : (uint32_t)(number >> EPOCH_SHIFT);
}

static void slot_clear(const struct packet_keys *keys, struct epoch_key *slot)
{
    keys->provider->key_free(slot->key);
    wipe(slot, sizeof *slot);
}

/* Puts a key into its slot, and whatever was there away. */
static bool slot_fill(struct packet_keys *keys, uint32_t epoch, const uint8_t material[44],
                      struct error *error)
{
    struct epoch_key *slot = &keys->slots[epoch % SLOTS];
    struct aead_key *key = keys->provider->key_new(material, error);
    if (key == NULL)
        return false;
    slot_clear(keys, slot);
    slot->key = key;
    slot->epoch = epoch;
    memcpy(slot->bytes, material, AEAD_KEY_SIZE);
    memcpy(slot->iv, material + AEAD_KEY_SIZE, IV_SIZE);
    return true;
}

static struct epoch_key *slot_of(struct packet_keys *keys, uint32_t epoch)
{
    struct epoch_key *slot = &keys->slots[epoch % SLOTS];
    return slot->key != NULL && slot->epoch == epoch ? slot : NULL;
}

static void put_u32(uint8_t *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> (24 - 8 * i));
}

static bool derive(struct packet_keys *keys, uint32_t epoch, struct error *error)
{
    uint8_t info[12 + 4] = "petrel 1 key";
    uint8_t material[AEAD_KEY_SIZE + IV_SIZE];
    bool good;

    if (slot_of(keys, epoch) != NULL)
        return true;
    put_u32(info + 12, epoch);
    good = hkdf_expand(keys->lane_secret, info, sizeof info, material, sizeof material);
    if (!good)
        error_set(error, ERROR_CRYPTO, "cannot derive a packet key");
    good = good && slot_fill(keys, epoch, material, error);
    wipe(material, sizeof material);
    return good;
}

static struct packet_keys *keys_new(const struct aead_provider *provider, struct error *error)
{
    struct packet_keys *keys;

    if (provider == NULL) {
        error_set(error, ERROR_CRYPTO, "no provider for this cipher");
        return NULL;
    }
    keys = calloc(1, sizeof *keys);
    if (keys == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for packet keys");
        return NULL;
    }
    keys->provider = provider;
    return keys;
}

struct packet_keys *packet_keys_new(const struct aead_provider *provider,
                                    const uint8_t session_secret[SESSION_SECRET_SIZE],
                                    enum packet_direction direction, unsigned lane,
                                    struct error *error)
{
    uint8_t info[13 + 2] = "petrel 1 lane";
    struct packet_keys *keys = keys_new(provider, error);
    if (keys == NULL)
        return NULL;
    info[13] = (uint8_t)direction;
    info[14] = (uint8_t)lane;
    if (!hkdf_expand(session_secret, info, sizeof info, keys->lane_secret,
                     sizeof keys->lane_secret)) {
        error_set(error, ERROR_CRYPTO, "cannot derive a lane secret");
        packet_keys_free(keys);
        return NULL;
    }
    if (!derive(keys, 0, error) || !derive(keys, 1, error)) {
        packet_keys_free(keys);
        return NULL;
    }
    return keys;
}

struct packet_keys *packet_keys_new_handshake(const uint8_t start_secret[32],
                                              const uint8_t session_id[16],
                                              enum packet_direction direction, struct error *error)
{
    static const char salt[] = "petrel 1 handshake";
    uint8_t info[16 + 1], prk[SHA256_SIZE], material[AEAD_KEY_SIZE + IV_SIZE];
    struct packet_keys *keys = keys_new(aead_best(AEAD_AES_256_GCM), error);
    bool good;

    if (keys == NULL)
        return NULL;
    keys->single = true;
    memcpy(info, session_id, 16);
    info[16] = (uint8_t)direction;
    good = hkdf_extract(salt, sizeof salt - 1, start_secret, 32, prk) &&
           hkdf_expand(prk, info, sizeof info, material, sizeof material);
    if (!good)
        error_set(error, ERROR_CRYPTO, "cannot derive a handshake key");
    good = good && slot_fill(keys, 0, material, error);
    wipe(prk, sizeof prk);
    wipe(material, sizeof material);
    if (!good) {
        packet_keys_free(keys);
        return NULL;
    }
    return keys;
}

void packet_keys_free(struct packet_keys *keys)
{
    if (keys == NULL)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        slot_clear(keys, &keys->slots[i]);
    wipe(keys, sizeof *keys);
    free(keys);
}

static void nonce_of(const struct epoch_key *slot, uint64_t number, uint8_t nonce[AEAD_NONCE_SIZE])
{
    uint8_t big_endian[8];
    uint64_t iv, mask;
    put_u32(big_endian, (uint32_t)(number >> 32));
    put_u32(big_endian + 4, (uint32_t)number);
    memcpy(&mask, big_endian, sizeof mask);
    memcpy(&iv, slot->iv + 4, sizeof iv);
    iv ^= mask;
    memcpy(nonce, slot->iv, 4);
    memcpy(nonce + 4, &iv, sizeof iv);
}

bool packet_keys_seal(struct packet_keys *keys, uint64_t number, const uint8_t *aad,
                      size_t aad_size, const uint8_t *plain, size_t size, uint8_t *sealed)
{
    uint8_t nonce[AEAD_NONCE_SIZE];
    uint32_t epoch = epoch_of(keys, number);
    struct epoch_key *slot;

    if (number >= PACKET_NUMBER_LIMIT || epoch < keys->newest)
        return false;
    if (!derive(keys, epoch, NULL))
        return false;
    keys->newest = epoch;
    slot = slot_of(keys, epoch);
    nonce_of(slot, number, nonce);
    if (packet_keys_recorder != NULL)
        packet_keys_recorder(slot->bytes, number);
    return keys->provider->seal(slot->key, nonce, aad, aad_size, plain, size, sealed);
}

bool packet_keys_open(struct packet_keys *keys, uint64_t number, const uint8_t *aad,
                      size_t aad_size, const uint8_t *sealed, size_t size, uint8_t *plain)
{
    uint8_t nonce[AEAD_NONCE_SIZE];
    struct epoch_key *slot;

    if (number >= PACKET_NUMBER_LIMIT)
        return false;
    slot = slot_of(keys, epoch_of(keys, number));
    if (slot == NULL)
        return false;
    nonce_of(slot, number, nonce);
    return keys->provider->open(slot->key, nonce, aad, aad_size, sealed, size, plain);
}

bool packet_keys_accept(struct packet_keys *keys, uint64_t number)
{
    uint32_t epoch = epoch_of(keys, number);

    if (number >= PACKET_NUMBER_LIMIT)
        return false;
    if (epoch <= keys->newest)
        return true;
    /* e+1 takes the slot of e-2; after a jump the third slot may hold an older epoch still. */
    if (!derive(keys, epoch, NULL) || !derive(keys, epoch + 1, NULL))
        return false;
    keys->newest = epoch;
    for (size_t i = 0; i < SLOTS; i++) {
        if (keys->slots[i].key != NULL && keys->slots[i].epoch + 1 < epoch)
            slot_clear(keys, &keys->slots[i]);
    }
    return true;
}
