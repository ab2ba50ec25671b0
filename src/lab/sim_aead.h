/* What stands between the protocol core and its cipher in a simulation: a tap that shows every
 * plaintext to the oracle, over the real provider or over a cheap stand-in.
 *
 * The stand-in encrypts nothing and authenticates with a keyed 64-bit hash: bit errors, forgeries
 * and wrong keys are refused as with the real one, at a tenth of the cost. Only a process that has
 * called sim_aead_install can ever get it. One simulation at a time in a process.
 */
#ifndef PETREL_LAB_SIM_AEAD_H
#define PETREL_LAB_SIM_AEAD_H

#include "crypto/aead.h"

struct sim_aead_tap {
    void *context;
    /* Each packet before it is sealed, and each that authenticated; `aad` is the clear header. */
    void (*on_seal)(void *context, const uint8_t *aad, size_t aad_size, const uint8_t *plain,
                    size_t size);
    void (*on_open)(void *context, const uint8_t *aad, size_t aad_size, const uint8_t *plain,
                    size_t size);
    /* Each pair of key and number before it is used. */
    void (*on_pair)(void *context, const uint8_t key[AEAD_KEY_SIZE], uint64_t number);
};

/* From now on aead_best gives the simulator's provider. `tap` is borrowed until removal. */
void sim_aead_install(const struct sim_aead_tap *tap, bool cheap);
void sim_aead_remove(void);

#endif
