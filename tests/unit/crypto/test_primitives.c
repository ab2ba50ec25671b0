/* Published vectors for SHA-256 and HKDF. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "crypto/primitives.h"
#include "hex.h"

static void sha256_of_abc(void **state)
{
    uint8_t hash[32], expected[32]; /* FIPS 180-2, appendix B.1 */
    (void)state;
    hex_bytes("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", expected, 32);
    assert_true(sha256("abc", 3, hash));
    assert_memory_equal(hash, expected, 32);
}

static void hkdf_of_rfc5869(void **state)
{
    uint8_t ikm[22], salt[13], info[10], prk[32], okm[42], expected[42];
    (void)state;
    memset(ikm, 0x0b, sizeof ikm); /* test case 1 */
    hex_bytes("000102030405060708090a0b0c", salt, 13);
    hex_bytes("f0f1f2f3f4f5f6f7f8f9", info, 10);
    assert_true(hkdf_extract(salt, 13, ikm, 22, prk));
    hex_bytes("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5", expected, 32);
    assert_memory_equal(prk, expected, 32);
    assert_true(hkdf_expand(prk, info, 10, okm, 42));
    hex_bytes("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b88718"
              "5865",
              expected, 42);
    assert_memory_equal(okm, expected, 42);
}

static void hkdf_refuses_sizes(void **state)
{
    static uint8_t prk[32], info[HKDF_INFO_MAX + 1], out[255 * 32 + 1];
    (void)state;
    assert_false(hkdf_expand(prk, info, sizeof info, out, 32));
    assert_false(hkdf_expand(prk, info, 1, out, sizeof out));
    assert_true(hkdf_expand(prk, info, HKDF_INFO_MAX, out, 255 * 32));
}

static void random_differs(void **state)
{
    uint8_t a[32] = {0}, b[32] = {0}, zero[32] = {0};
    (void)state;
    assert_true(random_bytes(a, 32, NULL));
    assert_true(random_bytes(b, 32, NULL));
    assert_memory_not_equal(a, b, 32);
    wipe(a, 32);
    assert_memory_equal(a, zero, 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_of_abc),
        cmocka_unit_test(hkdf_of_rfc5869),
        cmocka_unit_test(hkdf_refuses_sizes),
        cmocka_unit_test(random_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
