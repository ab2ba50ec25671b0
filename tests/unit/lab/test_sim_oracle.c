/* The simulator's oracle notices each broken promise, and its cheap cipher refuses what the real
 * ones refuse. A watcher that never barks would make every simulation worthless. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cursor.h"
#include "crypto/packet_keys.h"
#include "lab/sim_aead.h"
#include "lab/sim_oracle.h"

#define SENDER_BASE 0x100u
#define RECEIVER_BASE 0x200u

static struct sim_oracle *make(void)
{
    struct sim_oracle *oracle = sim_oracle_new();
    sim_oracle_add_host(oracle, 0, 1, SENDER_BASE);
    sim_oracle_add_host(oracle, 1, 0, RECEIVER_BASE);
    sim_oracle_grant(oracle, 0, 2);
    return oracle;
}

static void header(uint8_t aad[10], uint8_t type, uint32_t id, uint64_t number)
{
    struct writer writer = writer_of(aad, 10);
    write_u8(&writer, type);
    write_u32(&writer, id);
    write_uint(&writer, number, 5);
}

/* One data packet of `length` bytes from the sender; delivered too when `arrives`. */
static void data(struct sim_oracle *oracle, uint64_t number, uint8_t type, uint64_t block,
                 uint32_t offset, size_t length, bool arrives)
{
    uint8_t aad[10], plain[100] = {0};
    struct writer writer = writer_of(plain, sizeof(plain));
    header(aad, type, RECEIVER_BASE, number);
    write_uint(&writer, block << 20 | offset, 6);
    sim_oracle_sealed(oracle, aad, sizeof(aad), plain, 6 + length);
    if (arrives) {
        sim_oracle_opened(oracle, aad, sizeof(aad), plain, 6 + length);
    }
}

/* One ack from the receiver, of one byte of bitmap, delivered. */
static void ack(struct sim_oracle *oracle, uint64_t number, uint64_t largest, uint32_t credit,
                uint8_t bitmap)
{
    uint8_t aad[10], plain[100] = {0};
    struct writer writer = writer_of(plain, sizeof(plain));
    header(aad, 0x20, SENDER_BASE, number);
    write_u8(&writer, 2);
    write_uint(&writer, largest, 5);
    write_uint(&writer, 0, 6);
    write_u32(&writer, 0);
    write_uint(&writer, 0, 6);
    write_uint(&writer, 0, 6);
    write_u32(&writer, 0);
    write_u32(&writer, 0);
    write_u32(&writer, credit);
    write_u16(&writer, 1);
    write_u8(&writer, bitmap);
    sim_oracle_sealed(oracle, aad, sizeof(aad), plain, writer_size(&writer));
    sim_oracle_opened(oracle, aad, sizeof(aad), plain, writer_size(&writer));
}

static void expect(struct sim_oracle *oracle, const char *part)
{
    const char *failure = sim_oracle_failure(oracle);
    if (part == NULL) {
        assert_null(failure);
    } else {
        assert_non_null(failure);
        assert_non_null(strstr(failure, part));
    }
    sim_oracle_free(oracle);
}

static void test_good_exchange(void **state)
{
    (void)state;
    struct sim_oracle *oracle = make();
    data(oracle, 0, 0x10, 0, 0, 50, true);
    data(oracle, 1, 0x10, 1, 0, 50, false);
    data(oracle, 2, 0x11, 0, 50, 20, true);
    ack(oracle, 0, 2, 3, 0x02); /* 2 and 0, not 1 */
    data(oracle, 3, 0x11, 1, 0, 60, true);
    data(oracle, 4, 0x13, 2, 0, 60, true);
    ack(oracle, 1, 4, 5, 0x0B);
    struct sim_oracle_counts counts;
    sim_oracle_counts(oracle, 0, &counts);
    assert_int_equal(counts.blocks_begun, 3);
    assert_int_equal(counts.credit, 5);
    assert_int_equal(counts.data_bytes, 240);
    expect(oracle, NULL);
}

static void test_credit(void **state)
{
    (void)state;
    struct sim_oracle *oracle = make();
    data(oracle, 0, 0x10, 0, 0, 50, true);
    data(oracle, 1, 0x10, 1, 0, 50, true);
    data(oracle, 2, 0x10, 2, 0, 50, true);
    expect(oracle, "credit");
    oracle = make();
    data(oracle, 0, 0x10, 0, 0, 50, true);
    ack(oracle, 0, 0, 3, 0);
    ack(oracle, 1, 0, 2, 0);
    expect(oracle, "took back credit");
}

static void test_dishonest_acks(void **state)
{
    (void)state;
    struct sim_oracle *oracle = make();
    data(oracle, 0, 0x10, 0, 0, 50, false);
    data(oracle, 1, 0x10, 0, 50, 50, true);
    ack(oracle, 0, 1, 2, 0x01);
    expect(oracle, "number 0 arrived");
    oracle = make();
    data(oracle, 0, 0x10, 0, 0, 50, true);
    data(oracle, 1, 0x10, 0, 50, 50, true);
    ack(oracle, 0, 1, 2, 0x00);
    expect(oracle, "number 0 is missing");
    oracle = make();
    data(oracle, 0, 0x10, 0, 0, 50, true);
    ack(oracle, 0, 1, 2, 0);
    expect(oracle, "largest");
}

static void test_pieces_that_contradict(void **state)
{
    (void)state;
    struct sim_oracle *oracle = make();
    data(oracle, 0, 0x10, 0, 0, 50, true);
    data(oracle, 1, 0x12, 0, 50, 50, true);
    expect(oracle, "contradict");
    oracle = make();
    data(oracle, 0, 0x11, 0, 0, 50, true);
    data(oracle, 1, 0x10, 0, 50, 50, true);
    expect(oracle, "contradict");
    oracle = make();
    data(oracle, 0, 0x11, 0, 0, 50, true);
    data(oracle, 1, 0x10, 0, 0, 50, true); /* the same end without END */
    expect(oracle, "contradict");
    oracle = make();
    data(oracle, 0, 0x10, 0, 0xFFFFF, 2, true);
    expect(oracle, "piece");
}

static void test_numbers(void **state)
{
    (void)state;
    struct sim_oracle *oracle = make();
    data(oracle, 5, 0x10, 0, 0, 50, true);
    data(oracle, 5, 0x10, 0, 50, 50, true);
    expect(oracle, "number 5 after 5");
    oracle = make();
    uint8_t aad[10], plain[8] = {1};
    header(aad, 0x20, SENDER_BASE, 0);
    sim_oracle_opened(oracle, aad, sizeof(aad), plain, 1);
    expect(oracle, "never sealed");
    oracle = make();
    header(aad, 0x20, 0x900, 0);
    sim_oracle_sealed(oracle, aad, sizeof(aad), plain, 1);
    expect(oracle, "nobody");
}

static void test_pairs(void **state)
{
    (void)state;
    struct sim_oracle *oracle = make();
    uint8_t key[AEAD_KEY_SIZE] = {1}, other[AEAD_KEY_SIZE] = {2};
    for (uint64_t number = 0; number < 1000; number++) {
        sim_oracle_pair(oracle, key, number);
        sim_oracle_pair(oracle, other, number);
    }
    assert_null(sim_oracle_failure(oracle));
    sim_oracle_pair(oracle, other, 17);
    expect(oracle, "used twice");
}

static void test_frames(void **state)
{
    (void)state;
    uint8_t aad[10], plain[4] = {0x7F};
    struct sim_oracle *oracle = make();
    header(aad, 0x20, SENDER_BASE, 0);
    sim_oracle_sealed(oracle, aad, sizeof(aad), plain, 1);
    expect(oracle, "unknown type");
    oracle = make();
    plain[0] = 0x05;
    sim_oracle_sealed(oracle, aad, sizeof(aad), plain, 3);
    expect(oracle, "does not parse");
}

struct seen {
    unsigned sealed, opened, pairs;
};

static void see_seal(void *context, const uint8_t *aad, size_t aad_size, const uint8_t *plain,
                     size_t size)
{
    struct seen *seen = context;
    assert_int_equal(aad_size, 10);
    assert_int_equal(plain[size - 1], 0x5A);
    (void)aad;
    seen->sealed++;
}

static void see_open(void *context, const uint8_t *aad, size_t aad_size, const uint8_t *plain,
                     size_t size)
{
    struct seen *seen = context;
    assert_int_equal(plain[size - 1], 0x5A);
    (void)aad;
    (void)aad_size;
    seen->opened++;
}

static void see_pair(void *context, const uint8_t key[AEAD_KEY_SIZE], uint64_t number)
{
    struct seen *seen = context;
    (void)key;
    (void)number;
    seen->pairs++;
}

/* Every bit of header, text and tag matters, and so do number and key. */
static void try_cipher(bool cheap, enum aead_suite suite)
{
    struct seen seen = {0};
    struct sim_aead_tap tap = {&seen, see_seal, see_open, see_pair};
    uint8_t secret[SESSION_SECRET_SIZE] = {9}, aad[10] = {0x10}, plain[77], sealed[77 + 16];
    sim_aead_install(&tap, cheap);
    struct packet_keys *from = packet_keys_new(aead_best(suite), secret, CLIENT_TO_SERVER, 0, NULL);
    struct packet_keys *to = packet_keys_new(aead_best(suite), secret, CLIENT_TO_SERVER, 0, NULL);
    struct packet_keys *lane1 =
        packet_keys_new(aead_best(suite), secret, CLIENT_TO_SERVER, 1, NULL);
    memset(plain, 0x5A, sizeof(plain));
    assert_true(packet_keys_seal(from, 3, aad, sizeof(aad), plain, sizeof(plain), sealed));
    uint8_t copy[sizeof(sealed)], out[sizeof(sealed)];
    for (size_t bit = 0; bit < sizeof(sealed) * 8; bit++) {
        memcpy(copy, sealed, sizeof(copy));
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(packet_keys_open(to, 3, aad, sizeof(aad), copy, sizeof(copy), out));
    }
    for (size_t bit = 0; bit < sizeof(aad) * 8; bit++) {
        aad[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(packet_keys_open(to, 3, aad, sizeof(aad), sealed, sizeof(sealed), out));
        aad[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t size = 0; size < sizeof(sealed); size++) {
        assert_false(packet_keys_open(to, 3, aad, sizeof(aad), sealed, size, out));
    }
    assert_false(packet_keys_open(to, 2, aad, sizeof(aad), sealed, sizeof(sealed), out));
    assert_false(packet_keys_open(lane1, 3, aad, sizeof(aad), sealed, sizeof(sealed), out));
    assert_int_equal(seen.opened, 0);
    assert_true(packet_keys_open(to, 3, aad, sizeof(aad), sealed, sizeof(sealed), out));
    assert_memory_equal(out, plain, sizeof(plain));
    assert_int_equal(seen.opened, 1);
    assert_int_equal(seen.sealed, 1);
    assert_int_equal(seen.pairs, 1);
    packet_keys_free(from);
    packet_keys_free(to);
    packet_keys_free(lane1);
    sim_aead_remove();
    assert_true(aead_best(suite) == NULL || strcmp(aead_best(suite)->name, "simulated") != 0);
}

static void test_tapped_ciphers(void **state)
{
    (void)state;
    try_cipher(true, AEAD_AES_256_GCM);
    try_cipher(false, AEAD_AES_256_GCM);
    try_cipher(false, AEAD_CHACHA20_POLY1305);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_exchange),  cmocka_unit_test(test_credit),
        cmocka_unit_test(test_dishonest_acks), cmocka_unit_test(test_pieces_that_contradict),
        cmocka_unit_test(test_numbers),        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_frames),         cmocka_unit_test(test_tapped_ciphers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
