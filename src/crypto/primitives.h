/* The small tools of cryptography that other parts share: random bytes, wiping, SHA-256, HKDF.
 *
 * Thin covers over OpenSSL, so that nobody else needs its headers. No state.
 */
#ifndef PETREL_CRYPTO_PRIMITIVES_H
#define PETREL_CRYPTO_PRIMITIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SHA256_SIZE 32

/* Random bytes for ids and secrets (RAND_bytes). ERROR_CRYPTO when the system has none. */
bool random_bytes(void *bytes, size_t size, struct error *error);

/* Overwrites a secret; not optimised away. */
void wipe(void *bytes, size_t size);

/* False only when the library fails, which leaves `hash` untouched. */
bool sha256(const void *bytes, size_t size, uint8_t hash[SHA256_SIZE]);

/* HKDF with SHA-256 (RFC 5869, sections 2.2 and 2.3). `info_size` is at most HKDF_INFO_MAX and
 * `size` at most 255 x 32. False when the library fails or a size is too large. */
#define HKDF_INFO_MAX 128
bool hkdf_extract(const void *salt, size_t salt_size, const void *ikm, size_t ikm_size,
                  uint8_t prk[SHA256_SIZE]);
bool hkdf_expand(const uint8_t prk[SHA256_SIZE], const void *info, size_t info_size, uint8_t *out,
                 size_t size);

#endif
