#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/address.h"

static void test_equality(void **state)
{
    (void)state;
    struct address a = {.family = 4, .bytes = {192, 0, 2, 1}, .port = 60001};
    struct address b = a;
    assert_true(address_equal(&a, &b));
    b.port = 60002;
    assert_false(address_equal(&a, &b));
    assert_true(address_same_host(&a, &b));
    b.bytes[3] = 2;
    assert_false(address_same_host(&a, &b));
    b = a;
    b.bytes[4] = 9; /* beyond an IPv4 address: means nothing */
    assert_true(address_equal(&a, &b));
    b = a;
    b.family = 6;
    assert_false(address_same_host(&a, &b));
    struct address none = {0}, other = {0};
    assert_true(address_equal(&none, &other));
    struct address link = {.family = 6, .bytes = {0xfe, 0x80}, .scope = 2};
    struct address same = link;
    same.scope = 3; /* the same bytes on another interface are another host */
    assert_false(address_same_host(&link, &same));
}

static const struct {
    struct address address;
    const char *text;
} forms[] = {
    {{.family = 4, .bytes = {192, 0, 2, 1}, .port = 60001}, "192.0.2.1:60001"},
    {{.family = 6, .port = 1}, "[::]:1"},
    {{.family = 6, .bytes = {[15] = 1}, .port = 22}, "[::1]:22"},
    {{.family = 6, .bytes = {0x20, 1, 0xd, 0xb8, [15] = 1}, .port = 60001}, "[2001:db8::1]:60001"},
    {{.family = 6, .bytes = {0xfe, 0x80, [8] = 2, [15] = 0xab}, .port = 5, .scope = 12},
     "[fe80::200:0:0:ab%12]:5"},
    /* one zero group stays, the first of two equal runs is the one shortened */
    {{.family = 6, .bytes = {0, 1, 0, 0, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7}},
     "[1:0:2:3:4:5:6:7]:0"},
    {{.family = 6, .bytes = {0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4}}, "[1::2:0:0:3:4]:0"},
    {{.family = 6, .bytes = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6}}, "[1:2:3:4:5:6::]:0"},
    {{.family = 0}, "(no address)"},
};

static void test_forms(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char text[64];
        assert_ptr_equal(address_format(text, sizeof text, &forms[i].address), text);
        assert_string_equal(text, forms[i].text);
    }
}

static void test_longest_form_fits(void **state)
{
    (void)state;
    struct address longest = {.family = 6, .port = UINT16_MAX, .scope = UINT32_MAX};
    memset(longest.bytes, 0xff, sizeof longest.bytes);
    char text[64];
    assert_string_equal(address_format(text, sizeof text, &longest),
                        "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535");
    char small[8];
    assert_string_equal(address_format(small, sizeof small, &longest), "[ffff:f");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equality),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_longest_form_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
