#include "crypto/aead.h"

#include "crypto/aead_providers.h"

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

const struct aead_provider *const aead_providers[] = {
#ifdef HAVE_IPSEC_MB
    &aead_ipsec_mb_aes,
#endif
    &aead_openssl_aes,
    &aead_openssl_chacha20,
    NULL,
};

const struct aead_provider *(*aead_override)(enum aead_suite suite);

const struct aead_provider *aead_best(enum aead_suite suite)
{
    if (aead_override != NULL)
        return aead_override(suite);
    for (size_t i = 0; aead_providers[i] != NULL; i++) {
        const struct aead_provider *provider = aead_providers[i];
        if (provider->suite == suite && provider->available())
            return provider;
    }
    return NULL;
}

bool aead_has_aes_hardware(void)
{
    /* GCM needs the carry-less multiply as much as the cipher rounds. */
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__) && defined(__linux__)
    unsigned long features = getauxval(AT_HWCAP);
    return (features & HWCAP_AES) != 0 && (features & HWCAP_PMULL) != 0;
#elif defined(__ARM_FEATURE_AES)
    return true;
#else
    return false;
#endif
}
