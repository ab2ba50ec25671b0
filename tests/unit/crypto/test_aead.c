/* Published vectors for each provider, providers against each other, tampering. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "crypto/aead.h"
#include "hex.h"

struct vector {
    enum aead_suite suite;
    const char *key, *nonce, *aad, *plain, *cipher, *tag;
};

/* GCM: test cases 13 to 16 of "The Galois/Counter Mode of Operation" (McGrew, Viega), which NIST's
 * SP 800-38D refers to. ChaCha20-Poly1305: RFC 8439 section 2.8.2. */
static const struct vector vectors[] = {
    {AEAD_AES_256_GCM, "0000000000000000000000000000000000000000000000000000000000000000",
     "000000000000000000000000", "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
    {AEAD_AES_256_GCM, "0000000000000000000000000000000000000000000000000000000000000000",
     "000000000000000000000000", "", "00000000000000000000000000000000",
     "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
    {AEAD_AES_256_GCM, "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
     "cafebabefacedbaddecaf888", "",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
     "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
     "b094dac5d93471bdec1a502270e3cc6c"},
    {AEAD_AES_256_GCM, "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
     "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
     "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
     "76fc6ece0f4e1768cddf8853bb2d551b"},
    {AEAD_CHACHA20_POLY1305, "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
     "070000004041424344454647", "50515253c0c1c2c3c4c5c6c7",
     "4c616469657320616e642047656e746c656d656e206f662074686520636c6173"
     "73206f66202739393a204966204920636f756c64206f6666657220796f75206f"
     "6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73"
     "637265656e20776f756c642062652069742e",
     "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6"
     "3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36"
     "92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
     "3ff4def08e4b7a9de576d26586cec64b6116",
     "1ae10b594f09e26a7e902ecbd0600691"},
};

static void for_each_provider(void (*run)(const struct aead_provider *))
{
    unsigned ran = 0;
    for (size_t i = 0; aead_providers[i] != NULL; i++) {
        if (aead_providers[i]->available()) {
            run(aead_providers[i]);
            ran++;
        }
    }
    assert_true(ran >= 2);
}

static void check_vectors(const struct aead_provider *provider)
{
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const struct vector *v = &vectors[i];
        uint8_t key[32], nonce[12], aad[64], plain[256], expected[256], out[256];
        size_t aad_size = hex_bytes(v->aad, aad, sizeof aad);
        size_t size = hex_bytes(v->plain, plain, sizeof plain);
        struct error error = {0};

        if (v->suite != provider->suite)
            continue;
        assert_int_equal(hex_bytes(v->key, key, 32), 32);
        assert_int_equal(hex_bytes(v->nonce, nonce, 12), 12);
        assert_int_equal(hex_bytes(v->cipher, expected, sizeof expected), size);
        assert_int_equal(hex_bytes(v->tag, expected + size, 16), 16);
        struct aead_key *made = provider->key_new(key, &error);
        assert_non_null(made);
        assert_true(provider->seal(made, nonce, aad, aad_size, plain, size, out));
        assert_memory_equal(out, expected, size + 16);
        memset(out, 0xee, sizeof out);
        assert_true(provider->open(made, nonce, aad, aad_size, expected, size + 16, out));
        assert_memory_equal(out, plain, size);
        provider->key_free(made);
    }
}

static void published_vectors(void **state)
{
    (void)state;
    for_each_provider(check_vectors);
}

static void fill(struct random *random, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)random_next(random);
}

/* The same suite from two providers: same bytes, and each opens what the other sealed. */
static void compare(const struct aead_provider *a, const struct aead_provider *b,
                    struct random *random, size_t size)
{
    uint8_t key[32], nonce[12], aad[80];
    size_t aad_size = random_below(random, 80);
    uint8_t *plain = malloc(size > 0 ? size : 1), *one = malloc(size + 16),
            *two = malloc(size + 16);

    fill(random, key, 32);
    fill(random, nonce, 12);
    fill(random, aad, sizeof aad);
    fill(random, plain, size);
    struct aead_key *key_a = a->key_new(key, NULL), *key_b = b->key_new(key, NULL);
    assert_non_null(key_a);
    assert_non_null(key_b);
    for (int round = 0; round < 2; round++) { /* a key serves many packets */
        nonce[11]++;
        assert_true(a->seal(key_a, nonce, aad, aad_size, plain, size, one));
        memcpy(two, plain, size);
        assert_true(b->seal(key_b, nonce, aad, aad_size, two, size, two)); /* in place */
        assert_memory_equal(one, two, size + 16);
        assert_true(a->open(key_a, nonce, aad, aad_size, two, size + 16, two));
        assert_memory_equal(two, plain, size);
        memset(two, 0, size);
        assert_true(b->open(key_b, nonce, aad, aad_size, one, size + 16, two));
        assert_memory_equal(two, plain, size);
    }
    a->key_free(key_a);
    b->key_free(key_b);
    free(plain);
    free(one);
    free(two);
}

static void providers_agree(void **state)
{
    struct random random;
    (void)state;
    random_seed(&random, 1);
    for (size_t i = 0; aead_providers[i] != NULL; i++) {
        for (size_t j = i; aead_providers[j] != NULL; j++) { /* itself too: in place or not */
            const struct aead_provider *a = aead_providers[i], *b = aead_providers[j];
            if (a->suite != b->suite || !a->available() || !b->available())
                continue;
            for (size_t size = 0; size <= 300; size++)
                compare(a, b, &random, size);
            for (int k = 0; k < 100; k++)
                compare(a, b, &random, random_below(&random, 20000));
            compare(a, b, &random, 1374);
            compare(a, b, &random, 8947);
        }
    }
}

static void check_tampering(const struct aead_provider *provider)
{
    uint8_t key[32] = {1}, nonce[12] = {2}, aad[10] = {3}, plain[100] = {4};
    uint8_t sealed[116], changed[116], out[116];
    struct aead_key *made = provider->key_new(key, NULL);

    assert_true(provider->seal(made, nonce, aad, sizeof aad, plain, sizeof plain, sealed));
    for (size_t i = 0; i < sizeof sealed; i++) {
        memcpy(changed, sealed, sizeof sealed);
        changed[i] ^= (uint8_t)(1u << (i % 8));
        assert_false(provider->open(made, nonce, aad, sizeof aad, changed, sizeof changed, out));
    }
    for (size_t i = 0; i < sizeof aad; i++) {
        aad[i] ^= 0x80;
        assert_false(provider->open(made, nonce, aad, sizeof aad, sealed, sizeof sealed, out));
        aad[i] ^= 0x80;
    }
    for (size_t i = 0; i < sizeof nonce; i++) {
        nonce[i] ^= 1;
        assert_false(provider->open(made, nonce, aad, sizeof aad, sealed, sizeof sealed, out));
        nonce[i] ^= 1;
    }
    for (size_t size = 0; size < sizeof sealed; size++)
        assert_false(provider->open(made, nonce, aad, sizeof aad, sealed, size, out));
    assert_false(provider->open(made, nonce, aad, sizeof aad - 1, sealed, sizeof sealed, out));
    assert_true(provider->open(made, nonce, aad, sizeof aad, sealed, sizeof sealed, out));
    assert_memory_equal(out, plain, sizeof plain);
    provider->key_free(made);
    provider->key_free(NULL);
}

static void tampering_is_refused(void **state)
{
    (void)state;
    for_each_provider(check_tampering);
}

/* Each byte of packets that end in each part of a group of blocks. */
static void check_long_tampering(const struct aead_provider *provider)
{
    static const size_t sizes[] = {256, 271, 300, 512, 1374, 1446};
    uint8_t key[32] = {5}, nonce[12] = {6}, aad[10] = {7}, plain[1446], sealed[1446 + 16],
            out[1446];
    struct aead_key *made = provider->key_new(key, NULL);
    struct random random;
    random_seed(&random, 8);
    fill(&random, plain, sizeof plain);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i], whole = size + 16;
        assert_true(provider->seal(made, nonce, aad, sizeof aad, plain, size, sealed));
        for (size_t at = 0; at < whole; at++) {
            sealed[at] ^= (uint8_t)(1u << (at % 8));
            assert_false(provider->open(made, nonce, aad, sizeof aad, sealed, whole, out));
            sealed[at] ^= (uint8_t)(1u << (at % 8));
        }
        assert_true(provider->open(made, nonce, aad, sizeof aad, sealed, whole, out));
        assert_memory_equal(out, plain, size);
    }
    provider->key_free(made);
}

static void long_packets_are_checked_to_the_end(void **state)
{
    (void)state;
    for_each_provider(check_long_tampering);
}

/* All others of a suite are there because they are faster than OpenSSL. */
static bool has_faster(enum aead_suite suite)
{
    for (size_t i = 0; aead_providers[i] != NULL; i++)
        if (aead_providers[i]->suite == suite && aead_providers[i]->available() &&
            strcmp(aead_providers[i]->name, "openssl") != 0)
            return true;
    return false;
}

static void best_is_available(void **state)
{
    static const enum aead_suite suites[] = {AEAD_AES_256_GCM, AEAD_CHACHA20_POLY1305};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct aead_provider *best = aead_best(suites[i]);
        assert_non_null(best);
        assert_int_equal(best->suite, suites[i]);
        assert_true(best->available());
        assert_int_equal(strcmp(best->name, "openssl") != 0, has_faster(suites[i]));
    }
    assert_null(aead_best((enum aead_suite)9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),
        cmocka_unit_test(providers_agree),
        cmocka_unit_test(tampering_is_refused),
        cmocka_unit_test(long_packets_are_checked_to_the_end),
        cmocka_unit_test(best_is_available),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
