/* The providers behind aead.h's table, one file each. Only aead.c needs their names. */
#ifndef PETREL_CRYPTO_AEAD_PROVIDERS_H
#define PETREL_CRYPTO_AEAD_PROVIDERS_H

#include "crypto/aead.h"

extern const struct aead_provider aead_ipsec_mb_aes; /* only with HAVE_IPSEC_MB */
extern const struct aead_provider aead_openssl_aes;
extern const struct aead_provider aead_openssl_chacha20;

#endif
