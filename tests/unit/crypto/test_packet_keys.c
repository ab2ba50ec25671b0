/* Epochs: their edges, going back, what a receiver holds; nonces; the recorder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "crypto/packet_keys.h"

#define EPOCH (UINT64_C(1) << EPOCH_SHIFT)

static const uint8_t secret[32] = "a session secret of 32 bytes....";
static const uint8_t aad[10] = "header.010", plain[20] = "twenty bytes of text";

static struct packet_keys *keys_for(enum packet_direction direction, unsigned lane)
{
    struct packet_keys *keys =
        packet_keys_new(aead_best(AEAD_AES_256_GCM), secret, direction, lane, NULL);
    assert_non_null(keys);
    return keys;
}

static bool seal(struct packet_keys *keys, uint64_t number, uint8_t sealed[36])
{
    return packet_keys_seal(keys, number, aad, sizeof aad, plain, sizeof plain, sealed);
}

static bool open(struct packet_keys *keys, uint64_t number, const uint8_t sealed[36])
{
    uint8_t out[36];
    if (!packet_keys_open(keys, number, aad, sizeof aad, sealed, 36, out))
        return false;
    assert_memory_equal(out, plain, sizeof plain);
    return true;
}

static void every_pair_of_direction_and_lane_differs(void **state)
{
    uint8_t sealed[2][16][36];
    (void)state;
    for (int d = 0; d < 2; d++) {
        for (unsigned lane = 0; lane < 16; lane++) {
            struct packet_keys *keys = keys_for((enum packet_direction)d, lane);
            assert_true(seal(keys, 5, sealed[d][lane]));
            packet_keys_free(keys);
        }
    }
    for (int i = 0; i < 32; i++) {
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(sealed[i / 16][i % 16], sealed[j / 16][j % 16], 36);
    }
}

static void sealing_crosses_epochs_and_never_goes_back(void **state)
{
    struct packet_keys *out = keys_for(CLIENT_TO_SERVER, 1), *in = keys_for(CLIENT_TO_SERVER, 1);
    uint8_t last[36], first[36], far[36];

    (void)state;
    assert_true(seal(out, EPOCH - 1, last));
    assert_true(seal(out, EPOCH, first));
    assert_false(seal(out, EPOCH - 1, far));
    assert_true(open(in, EPOCH - 1, last));
    assert_true(open(in, EPOCH, first));
    assert_false(open(in, EPOCH, last));
    assert_false(open(in, EPOCH - 1, first));
    assert_true(seal(out, 7 * EPOCH, far)); /* a sender may jump */
    assert_false(seal(out, 6 * EPOCH, far));
    assert_true(seal(out, PACKET_NUMBER_LIMIT - 1, far));
    assert_false(seal(out, PACKET_NUMBER_LIMIT, far));
    packet_keys_free(out);
    packet_keys_free(in);
    packet_keys_free(NULL);
}

static void a_receiver_holds_three_epochs(void **state)
{
    struct packet_keys *out = keys_for(SERVER_TO_CLIENT, 0), *in = keys_for(SERVER_TO_CLIENT, 0);
    uint8_t sealed[6][36];

    (void)state;
    for (uint64_t e = 0; e < 6; e++)
        assert_true(seal(out, e * EPOCH + 3, sealed[e]));
    assert_true(open(in, 3, sealed[0]));
    assert_true(open(in, EPOCH + 3, sealed[1]));
    assert_false(open(in, 2 * EPOCH + 3, sealed[2])); /* not before epoch 1 is authenticated */
    assert_true(packet_keys_accept(in, EPOCH + 3));
    assert_true(open(in, 3, sealed[0]));
    assert_true(open(in, 2 * EPOCH + 3, sealed[2]));
    assert_false(open(in, 3 * EPOCH + 3, sealed[3]));
    assert_true(packet_keys_accept(in, 2 * EPOCH + 3));
    assert_true(packet_keys_accept(in, 3)); /* an older one moves nothing */
    assert_false(open(in, 3, sealed[0]));
    assert_true(open(in, EPOCH + 3, sealed[1]));
    assert_true(open(in, 3 * EPOCH + 3, sealed[3]));
    assert_true(packet_keys_accept(in, 4 * EPOCH)); /* skipping one */
    assert_false(open(in, 2 * EPOCH + 3, sealed[2]));
    assert_true(open(in, 3 * EPOCH + 3, sealed[3]));
    assert_true(open(in, 5 * EPOCH + 3, sealed[5]));
    assert_false(packet_keys_accept(in, PACKET_NUMBER_LIMIT));
    packet_keys_free(out);
    packet_keys_free(in);
}

static struct {
    uint8_t key[32];
    uint64_t number;
} seen[4];
static unsigned seen_count;

static void record(const uint8_t key[AEAD_KEY_SIZE], uint64_t number)
{
    memcpy(seen[seen_count].key, key, 32);
    seen[seen_count++].number = number;
}

static void the_recorder_sees_key_and_number(void **state)
{
    struct packet_keys *keys = keys_for(CLIENT_TO_SERVER, 0);
    uint8_t sealed[36];

    (void)state;
    packet_keys_recorder = record;
    assert_true(seal(keys, 1, sealed));
    assert_true(seal(keys, 2, sealed));
    assert_true(seal(keys, EPOCH, sealed));
    assert_true(open(keys, EPOCH, sealed)); /* opening is not told */
    packet_keys_recorder = NULL;
    assert_int_equal(seen_count, 3);
    assert_int_equal(seen[0].number, 1);
    assert_int_equal(seen[2].number, EPOCH);
    assert_memory_equal(seen[0].key, seen[1].key, 32);
    assert_memory_not_equal(seen[0].key, seen[2].key, 32);
    packet_keys_free(keys);
}

static void handshake_keys_have_no_epochs(void **state)
{
    uint8_t id[16] = "a session id 16b", sealed[36];
    struct packet_keys *out = packet_keys_new_handshake(secret, id, CLIENT_TO_SERVER, NULL);
    struct packet_keys *in = packet_keys_new_handshake(secret, id, CLIENT_TO_SERVER, NULL);
    struct packet_keys *other = packet_keys_new_handshake(secret, id, SERVER_TO_CLIENT, NULL);

    (void)state;
    assert_true(seal(out, 3 * EPOCH, sealed));
    assert_true(open(in, 3 * EPOCH, sealed));
    assert_false(open(other, 3 * EPOCH, sealed));
    assert_true(seal(out, 0, sealed));
    assert_true(open(in, 0, sealed));
    packet_keys_free(out);
    packet_keys_free(in);
    packet_keys_free(other);
    id[0] ^= 1;
    other = packet_keys_new_handshake(secret, id, CLIENT_TO_SERVER, NULL);
    assert_false(open(other, 0, sealed));
    packet_keys_free(other);
}

static void no_provider_is_an_error(void **state)
{
    struct error error = {0};
    (void)state;
    assert_null(packet_keys_new(NULL, secret, CLIENT_TO_SERVER, 0, &error));
    assert_int_equal(error.kind, ERROR_CRYPTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_direction_and_lane_differs),
        cmocka_unit_test(sealing_crosses_epochs_and_never_goes_back),
        cmocka_unit_test(a_receiver_holds_three_epochs),
        cmocka_unit_test(the_recorder_sees_key_and_number),
        cmocka_unit_test(handshake_keys_have_no_epochs),
        cmocka_unit_test(no_provider_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
