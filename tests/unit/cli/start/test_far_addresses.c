#include "unit.h"

#include "cli/start/far_addresses.h"

static bool is_public(uint8_t family, uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    struct address address = {.family = family, .bytes = {a, b, c, d}};
    return address_is_public(&address);
}

static void test_public(void **state)
{
    (void)state;
    assert_true(is_public(4, 8, 8, 8, 8));
    assert_true(is_public(4, 172, 15, 0, 1));
    assert_true(is_public(4, 172, 32, 0, 1));
    assert_true(is_public(4, 100, 63, 0, 1));
    assert_true(is_public(4, 100, 128, 0, 1));
    assert_true(is_public(4, 192, 167, 0, 1));
    assert_true(is_public(6, 0x20, 1, 0, 0));
    assert_true(is_public(6, 0x3f, 0xff, 0, 0));
}

static void test_private(void **state)
{
    (void)state;
    static const uint8_t private[][4] = {
        {0, 0, 0, 0},     {10, 1, 2, 3},    {127, 0, 0, 1},       {172, 16, 0, 1},
        {172, 31, 0, 1},  {192, 168, 0, 1}, {169, 254, 0, 1},     {100, 64, 0, 1},
        {100, 127, 0, 1}, {224, 0, 0, 1},   {255, 255, 255, 255},
    };
    for (size_t i = 0; i < sizeof(private) / sizeof(private[0]); i++)
        assert_false(is_public(4, private[i][0], private[i][1], private[i][2], private[i][3]));
    assert_false(is_public(6, 0, 0, 0, 0));
    assert_false(is_public(6, 0xfe, 0x80, 0, 0));
    assert_false(is_public(6, 0xfd, 0, 0, 0));
    assert_false(is_public(6, 0xff, 2, 0, 0));
    assert_false(is_public(0, 8, 8, 8, 8));
}

static void test_collecting(void **state)
{
    (void)state;
    struct far_addresses addresses = {.port = 60001};
    far_addresses_add(&addresses, "", true);
    far_addresses_add(&addresses, "no address", true);
    assert_int_equal(addresses.count, 0);
    far_addresses_add(&addresses, "192.0.2.7", true);
    far_addresses_add(&addresses, "2001:db8::7", true);
    far_addresses_add(&addresses, "192.0.2.7", true);
    far_addresses_add(&addresses, "::ffff:192.0.2.7", true);
    assert_int_equal(addresses.count, 2);
    assert_int_equal(addresses.list[0].family, 4);
    assert_int_equal(addresses.list[0].bytes[3], 7);
    assert_int_equal(addresses.list[1].family, 6);
    assert_int_equal(addresses.list[1].port, 60001);
}

static void test_limits(void **state)
{
    (void)state;
    struct far_addresses four = {.family = 4}, public_only = {.public_only = true}, many = {0};
    far_addresses_add(&four, "2001:db8::7", true);
    far_addresses_add(&four, "192.0.2.7", true);
    assert_int_equal(four.count, 1);
    far_addresses_add(&public_only, "10.0.0.1", true);
    far_addresses_add(&public_only, "fe80::1", true);
    assert_int_equal(public_only.count, 0);
    far_addresses_add(&public_only, "2001:db8::7", true);
    assert_int_equal(public_only.count, 1);
    for (unsigned i = 0; i < 2 * FAR_ADDRESSES_MAX; i++) {
        char text[32];
        snprintf(text, sizeof(text), "192.0.2.%u", i);
        far_addresses_add(&many, text, true);
    }
    assert_int_equal(many.count, FAR_ADDRESSES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_public),
        cmocka_unit_test(test_private),
        cmocka_unit_test(test_collecting),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
