/* The hello's codec: each field at its limits, each byte cut, and what two hellos come to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/hello.h"

static const struct hello good = {
    .version_min = 1,
    .version_max = 3,
    .role = ROLE_SENDER,
    .lanes_max = 16,
    .aes_hardware = true,
    .connection_base = 0xdeadbee0,
    .credit = 96,
    .datagram_max = 8973,
};

static bool decodes(const struct hello *hello)
{
    uint8_t bytes[HELLO_SIZE];
    struct hello back = {0};
    struct error error = {0};
    assert_int_equal(hello_encode(hello, bytes, sizeof bytes), HELLO_SIZE);
    if (!hello_decode(&back, bytes, sizeof bytes, &error)) {
        assert_int_equal(error.kind, ERROR_PROTOCOL);
        assert_int_equal(back.version_max, 0); /* untouched */
        return false;
    }
    assert_int_equal(back.version_min, hello->version_min);
    assert_int_equal(back.version_max, hello->version_max);
    assert_int_equal(back.role, hello->role);
    assert_int_equal(back.lanes_max, hello->lanes_max);
    assert_int_equal(back.aes_hardware, hello->aes_hardware);
    assert_int_equal(back.connection_base, hello->connection_base);
    assert_int_equal(back.credit, hello->credit);
    assert_int_equal(back.datagram_max, hello->datagram_max);
    return true;
}

static void fields_have_limits(void **state)
{
    struct hello hello = good;
    (void)state;
    assert_true(decodes(&hello));
    hello.aes_hardware = false;
    hello.role = ROLE_RECEIVER;
    hello.credit = UINT32_MAX;
    hello.version_max = 255;
    hello.datagram_max = 1200;
    hello.lanes_max = 1;
    assert_true(decodes(&hello));
#define REFUSED(field, value)                                                                      \
    hello = good;                                                                                  \
    hello.field = value;                                                                           \
    assert_false(decodes(&hello))
    REFUSED(version_min, 0);
    REFUSED(version_min, 4);
    REFUSED(role, 0);
    REFUSED(role, 3);
    REFUSED(lanes_max, 0);
    REFUSED(lanes_max, 17);
    REFUSED(connection_base, 0xdeadbee1);
    REFUSED(connection_base, 0xdeadbee8);
    REFUSED(datagram_max, 1199);
}

static void cut_and_longer(void **state)
{
    static uint8_t bytes[HELLO_MAX + 1];
    struct hello hello;
    (void)state;
    assert_int_equal(hello_encode(&good, bytes, HELLO_SIZE - 1), 0);
    assert_int_equal(hello_encode(&good, bytes, sizeof bytes), HELLO_SIZE);
    for (size_t size = 0; size < HELLO_SIZE; size++)
        assert_false(hello_decode(&hello, bytes, size, NULL));
    assert_true(hello_decode(&hello, bytes, HELLO_MAX, NULL)); /* a later version says more */
    assert_false(hello_decode(&hello, bytes, HELLO_MAX + 1, NULL));
    for (size_t i = 0; i < 4; i++) {
        bytes[i] ^= 0x20;
        assert_false(hello_decode(&hello, bytes, HELLO_SIZE, NULL));
        bytes[i] ^= 0x20;
    }
    bytes[8] |= 0xfe; /* unknown flags are ignored */
    assert_true(hello_decode(&hello, bytes, HELLO_SIZE, NULL));
    assert_true(hello.aes_hardware);
}

static void expect_version(uint8_t own_min, uint8_t own_max, uint8_t peer_min, uint8_t peer_max,
                           int expected)
{
    struct hello own = good, peer = good;
    struct error error = {0};
    enum aead_suite suite;
    uint8_t version = 0;

    own.version_min = own_min;
    own.version_max = own_max;
    peer.version_min = peer_min;
    peer.version_max = peer_max;
    peer.role = ROLE_RECEIVER;
    if (expected > 0) {
        assert_true(hello_agree(&own, &peer, &version, &suite, &error));
        assert_int_equal(version, expected);
        assert_int_equal(suite, AEAD_AES_256_GCM);
    } else {
        assert_false(hello_agree(&own, &peer, &version, &suite, &error));
        assert_int_equal(error.kind, ERROR_VERSION);
        assert_int_equal(version, 0);
    }
}

static void highest_common_version(void **state)
{
    (void)state;
    expect_version(1, 1, 1, 1, 1);
    expect_version(1, 3, 2, 5, 3);
    expect_version(2, 5, 1, 3, 3);
    expect_version(2, 2, 1, 9, 2);
    expect_version(1, 1, 2, 3, 0);
    expect_version(2, 3, 1, 1, 0);
}

static void roles_and_ciphers(void **state)
{
    struct hello own = good, peer = good;
    struct error error = {0};
    enum aead_suite suite;
    uint8_t version;

    (void)state;
    assert_false(hello_agree(&own, &peer, &version, &suite, &error));
    assert_int_equal(error.kind, ERROR_PROTOCOL);
    assert_non_null(strstr(error.text, "send"));
    peer.role = ROLE_RECEIVER;
    peer.aes_hardware = false;
    assert_true(hello_agree(&own, &peer, &version, &suite, NULL));
    assert_int_equal(suite, AEAD_CHACHA20_POLY1305);
    assert_true(hello_agree(&peer, &own, &version, &suite, NULL));
    assert_int_equal(suite, AEAD_CHACHA20_POLY1305);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_have_limits),
        cmocka_unit_test(cut_and_longer),
        cmocka_unit_test(highest_common_version),
        cmocka_unit_test(roles_and_ciphers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
