/* AES-256-GCM by Intel's ipsec-mb, several times faster a packet than OpenSSL 3.0: no interface
 * layers, and wide (VAES) code for short packets. Its synchronous calls need no job manager of
 * their own: one manager, made once, serves as the table of functions for this processor. */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>

#include "crypto/aead_providers.h"
#include "crypto/primitives.h"

struct aead_key {
    /* The library reads it by aligned loads, but its header says so only under a macro of its
     * own. */
    _Alignas(64) struct gcm_key_data schedule;
    struct gcm_context_data state;
};

static pthread_once_t manager_once = PTHREAD_ONCE_INIT;
static IMB_MGR *manager; /* NULL where the library or the processor cannot */

static void manager_make(void)
{
    const uint64_t needed = IMB_FEATURE_AESNI | IMB_FEATURE_PCLMULQDQ;
    IMB_MGR *made = alloc_mb_mgr(0);
    if (made == NULL)
        return;
    init_mb_mgr_auto(made, NULL);
    /* Without AES instructions the library would emulate them, slower than OpenSSL. */
    if (imb_get_errno(made) != 0 || (made->features & needed) != needed) {
        free_mb_mgr(made);
        return;
    }
    manager = made;
}

static bool ipsec_mb_available(void)
{
    pthread_once(&manager_once, manager_make);
    return manager != NULL;
}

static struct aead_key *ipsec_mb_key_new(const uint8_t bytes[AEAD_KEY_SIZE], struct error *error)
{
    if (!ipsec_mb_available()) {
        error_set(error, ERROR_CRYPTO, "ipsec-mb does not run on this processor");
        return NULL;
    }
    struct aead_key *key = aligned_alloc(_Alignof(struct aead_key), sizeof *key);
    if (key == NULL) {
        error_set(error, ERROR_MEMORY, "no memory for a packet key");
        return NULL;
    }
    IMB_AES256_GCM_PRE(manager, bytes, &key->schedule);
    return key;
}

static void ipsec_mb_key_free(struct aead_key *key)
{
    if (key == NULL)
        return;
    wipe(key, sizeof *key);
    free(key);
}

static bool ipsec_mb_seal(struct aead_key *key, const uint8_t nonce[AEAD_NONCE_SIZE],
                          const uint8_t *aad, size_t aad_size, const uint8_t *plain, size_t size,
                          uint8_t *sealed)
{
    if (size > INT_MAX) /* the library would do nothing, and say so only in a global */
        return false;
    IMB_AES256_GCM_ENC(manager, &key->schedule, &key->state, sealed, plain, size, nonce, aad,
                       aad_size, sealed + size, AEAD_TAG_SIZE);
    return true;
}

static bool ipsec_mb_open(struct aead_key *key, const uint8_t nonce[AEAD_NONCE_SIZE],
                          const uint8_t *aad, size_t aad_size, const uint8_t *sealed, size_t size,
                          uint8_t *plain)
{
    uint8_t tag[AEAD_TAG_SIZE];

    if (size < AEAD_TAG_SIZE || size > INT_MAX)
        return false;
    size -= AEAD_TAG_SIZE;
    IMB_AES256_GCM_DEC(manager, &key->schedule, &key->state, plain, sealed, size, nonce, aad,
                       aad_size, tag, AEAD_TAG_SIZE);
    return CRYPTO_memcmp(tag, sealed + size, AEAD_TAG_SIZE) == 0;
}

const struct aead_provider aead_ipsec_mb_aes = {
    .name = "ipsec-mb",
    .suite = AEAD_AES_256_GCM,
    .available = ipsec_mb_available,
    .key_new = ipsec_mb_key_new,
    .seal = ipsec_mb_seal,
    .open = ipsec_mb_open,
    .key_free = ipsec_mb_key_free,
};
