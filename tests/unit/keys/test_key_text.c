#include "unit.h"

#include "crypto/ed25519.h"
#include "keys/key_text.h"

/* RFC 8032, section 7.1, test 1. */
static const uint8_t seed[ED25519_SEED_SIZE] = {
    0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4,
    0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60};
static const uint8_t public_key[ED25519_KEY_SIZE] = {
    0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a,
    0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a};
/* By base64 of coreutils, the second from what sha256sum says. */
static const char text[] = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo";
static const char print[] = "SHA256:If4x36FUomFia/hUBG/SJxt77UtqvkWqWId+9H+XIbk";

static void test_public_key(void **state)
{
    (void)state;
    uint8_t key[ED25519_KEY_SIZE];
    struct error error = {0};
    assert_true(ed25519_public_key(seed, key, &error));
    assert_memory_equal(key, public_key, sizeof(key));
}

static void test_both_ways(void **state)
{
    (void)state;
    char written[KEY_TEXT_SIZE], shown[FINGERPRINT_SIZE];
    uint8_t key[KEY_SIZE];
    assert_string_equal(key_format(written, public_key), text);
    assert_true(key_parse(text, strlen(text), key));
    assert_memory_equal(key, public_key, sizeof(key));
    assert_string_equal(fingerprint_format(shown, public_key), print);
    for (unsigned i = 0; i < 256; i++) {
        uint8_t all[KEY_SIZE];
        for (unsigned k = 0; k < KEY_SIZE; k++)
            all[k] = (uint8_t)(i + 7 * k);
        assert_int_equal(strlen(key_format(written, all)), KEY_TEXT_LENGTH);
        assert_true(key_parse(written, KEY_TEXT_LENGTH, key));
        assert_memory_equal(key, all, sizeof(key));
    }
}

static void test_what_is_no_key(void **state)
{
    (void)state;
    uint8_t key[KEY_SIZE] = {1};
    char changed[64];
    for (size_t length = 0; length < KEY_TEXT_LENGTH; length++)
        assert_false(key_parse(text, length, key));
    snprintf(changed, sizeof(changed), "%s=", text);
    assert_false(key_parse(changed, strlen(changed), key));
    for (const char *byte = "=-_ \t.,\x80"; *byte != '\0'; byte++) {
        for (size_t at = 0; at < KEY_TEXT_LENGTH; at++) {
            memcpy(changed, text, sizeof(text));
            changed[at] = *byte;
            assert_false(key_parse(changed, KEY_TEXT_LENGTH, key));
        }
    }
    memcpy(changed, text, sizeof(text));
    changed[3] = '\0';
    assert_false(key_parse(changed, KEY_TEXT_LENGTH, key));
    /* The last character holds four bits: other spellings of them are refused. */
    for (const char *last = "pqr"; *last != '\0'; last++) {
        memcpy(changed, text, sizeof(text));
        changed[KEY_TEXT_LENGTH - 1] = *last;
        assert_false(key_parse(changed, KEY_TEXT_LENGTH, key));
    }
    assert_int_equal(key[0], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_public_key),
        cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_what_is_no_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
