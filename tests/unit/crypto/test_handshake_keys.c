/* TLS with pinned keys: both ends learn each other's, and everyone who has none, or one that is not
 * welcome, is refused by either end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "handshake_ends.h"

static const uint8_t client_seed[32] = "the client's own secret seed ...";
static const uint8_t server_seed[32] = "the server's own secret seed ...";
static const uint8_t other_seed[32] = "the seed of somebody else ......";

static void public_of(const uint8_t seed[32], uint8_t key[32])
{
    size_t size = 32;
    EVP_PKEY *pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, 32);
    assert_int_equal(EVP_PKEY_get_raw_public_key(pair, key, &size), 1);
    EVP_PKEY_free(pair);
}

/* Who is welcome: the key of a seed. */
struct pin {
    uint8_t key[32], seen[32];
    unsigned calls;
};

static bool judge(void *context, const uint8_t key[32], struct error *error)
{
    struct pin *pin = context;
    pin->calls++;
    memcpy(pin->seen, key, 32);
    return memcmp(key, pin->key, 32) == 0 ||
           error_set(error, ERROR_PERMISSION, "the key is not known");
}

static struct handshake *new_end(bool client, const uint8_t *seed, struct pin *pin,
                                 const uint8_t *welcome)
{
    struct error error = {0};
    struct handshake_identity identity = {.judge = judge, .context = pin};
    *pin = (struct pin){0};
    memcpy(identity.seed, seed, 32);
    public_of(welcome, pin->key);
    struct handshake *end = handshake_new_keys(client, &identity, &error);
    assert_non_null(end);
    return end;
}

static void both_ends_agree_with_pieces_of(size_t piece)
{
    struct pin of_client, of_server;
    struct handshake *client = new_end(true, client_seed, &of_client, server_seed);
    struct handshake *server = new_end(false, server_seed, &of_server, client_seed);
    struct error error = {0};
    uint8_t a[32], b[32], key[32], expected[32];

    assert_true(move(client, server, piece, &error) > 0);
    assert_false(handshake_peer_key(client, key));
    size_t flight = move(server, client, piece, &error);
    assert_true(flight > 300 && flight < 1200); /* one packet, and less than what came */
    assert_true(handshake_finished(client));
    assert_false(handshake_finished(server)); /* not before the client's key and Finished */
    assert_int_equal(of_server.calls, 0);
    assert_false(handshake_export(server, NULL, 0, b, 32, &(struct error){0}));
    assert_true(move(client, server, piece, &error) > 0);
    assert_int_equal(error.kind, ERROR_NONE);
    assert_true(handshake_finished(server));
    assert_int_equal(move(server, client, piece, &error), 0);
    assert_true(handshake_peer_key(client, key));
    public_of(server_seed, expected);
    assert_memory_equal(key, expected, 32);
    assert_true(handshake_peer_key(server, key));
    public_of(client_seed, expected);
    assert_memory_equal(key, expected, 32);
    assert_true(handshake_export(client, (const uint8_t *)"context", 7, a, 32, &error));
    assert_true(handshake_export(server, (const uint8_t *)"context", 7, b, 32, &error));
    assert_memory_equal(a, b, 32);
    assert_int_equal(of_client.calls, 1);
    assert_int_equal(of_server.calls, 1);
    handshake_free(client);
    handshake_free(server);
}

static void both_ends_agree(void **state)
{
    (void)state;
    both_ends_agree_with_pieces_of(4096);
    both_ends_agree_with_pieces_of(100);
    both_ends_agree_with_pieces_of(1);
}

static void a_client_refuses_another_servers_key(void **state)
{
    struct pin of_client, of_server;
    struct handshake *client = new_end(true, client_seed, &of_client, server_seed);
    struct handshake *server = new_end(false, other_seed, &of_server, client_seed);
    struct error error = {0}, told = {0};
    uint8_t key[32], expected[32];

    (void)state;
    move(client, server, 4096, &error);
    move(server, client, 4096, &error);
    assert_int_equal(error.kind, ERROR_PERMISSION);
    assert_string_equal(error.text, "the key is not known");
    assert_false(handshake_finished(client));
    assert_true(handshake_peer_key(client, key)); /* to ask about it */
    public_of(other_seed, expected);
    assert_memory_equal(key, expected, 32);
    move(client, server, 4096, &told);
    assert_int_equal(told.kind, ERROR_CRYPTO);
    assert_int_equal(of_server.calls, 0); /* the client has not shown who it is */
    assert_false(handshake_finished(server));
    handshake_free(client);
    handshake_free(server);
}

static void a_server_refuses_another_clients_key(void **state)
{
    struct pin of_client, of_server;
    struct handshake *client = new_end(true, other_seed, &of_client, server_seed);
    struct handshake *server = new_end(false, server_seed, &of_server, client_seed);
    struct error error = {0};
    uint8_t bytes[4096], secret[32];

    (void)state;
    move(client, server, 4096, &error);
    move(server, client, 4096, &error);
    assert_true(handshake_finished(client)); /* it cannot know yet */
    assert_int_equal(error.kind, ERROR_NONE);
    move(client, server, 4096, &error);
    assert_int_equal(error.kind, ERROR_PERMISSION);
    assert_false(handshake_finished(server));
    assert_false(handshake_export(server, NULL, 0, secret, 32, &(struct error){0}));
    assert_false(handshake_receive(server, bytes, 1, &(struct error){0})); /* stays failed */
    size_t size = handshake_send(server, bytes, sizeof bytes);
    assert_true(size > 0 && size < 64); /* a refusal, and nothing that says why */
    struct error told = {0};
    assert_true(handshake_hear_refusal(client, bytes, size - 1, &told)); /* not whole yet */
    assert_false(handshake_hear_refusal(client, bytes + size - 1, 1, &told));
    assert_int_equal(told.kind, ERROR_PERMISSION);
    handshake_free(client);
    handshake_free(server);
}

static void a_forged_refusal_is_none(void **state)
{
    (void)state;
    for (unsigned kind = 20; kind < 24; kind++) { /* TLS's types of records */
        struct pin of_client, of_server;
        struct handshake *client = new_end(true, client_seed, &of_client, server_seed);
        struct handshake *server = new_end(false, server_seed, &of_server, client_seed);
        struct error error = {0};
        uint8_t forged[] = {(uint8_t)kind, 3, 3, 0, 2, 2, 42};
        move(client, server, 4096, &error);
        move(server, client, 4096, &error);
        assert_true(handshake_hear_refusal(client, forged, sizeof forged, &error));
        assert_true(handshake_finished(client));
        handshake_free(client);
        handshake_free(server);
    }
}

static void strangers_are_refused(void **state)
{
    /* Without a certificate, with one of another kind, and with a good one of a key that nobody
     * knows. */
    static const char *const types[] = {NULL, "EC", "ED25519"};

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        bool honest_client = i % 2 == 0;
        if (honest_client && types[i / 2] == NULL)
            continue; /* OpenSSL would not begin */
        struct pin pin;
        struct handshake *honest = new_end(honest_client, honest_client ? client_seed : server_seed,
                                           &pin, honest_client ? server_seed : client_seed);
        struct impostor impostor = impostor_new(!honest_client, types[i / 2]);
        struct error error = impostor_talk(&impostor, honest);
        assert_true(error.kind == ERROR_CRYPTO || error.kind == ERROR_PERMISSION);
        assert_false(handshake_finished(honest));
        handshake_free(honest);
        impostor_free(&impostor);
    }
}

/* A secret is no key and a key no secret: neither kind of end talks to the other. */
static void kinds_do_not_mix(void **state)
{
    static const uint8_t secret[32] = "a start secret", id[16] = "a session";
    (void)state;
    for (unsigned client_has_key = 0; client_has_key < 2; client_has_key++) {
        struct pin pin;
        struct error error = {0};
        struct handshake *client = client_has_key != 0
                                       ? new_end(true, client_seed, &pin, server_seed)
                                       : handshake_new_psk(true, secret, id, NULL);
        struct handshake *server = client_has_key != 0
                                       ? handshake_new_psk(false, secret, id, NULL)
                                       : new_end(false, server_seed, &pin, client_seed);
        for (unsigned i = 0; i < 3 && error.kind == ERROR_NONE; i++) {
            move(client, server, 4096, &error);
            move(server, client, 4096, &error);
        }
        assert_int_equal(error.kind, ERROR_CRYPTO);
        assert_false(handshake_finished(server));
        assert_false(handshake_finished(client));
        handshake_free(client);
        handshake_free(server);
    }
}

static void changed_bytes_are_refused(void **state)
{
    (void)state;
    for (size_t at = 0;; at += 13) {
        struct pin of_client, of_server;
        struct handshake *client = new_end(true, client_seed, &of_client, server_seed);
        struct handshake *server = new_end(false, server_seed, &of_server, client_seed);
        struct error error = {0};
        uint8_t bytes[4096];

        move(client, server, 4096, &error);
        move(server, client, 4096, &error);
        size_t size = handshake_send(client, bytes, sizeof bytes);
        if (at < size) {
            bytes[at] ^= 1;
            handshake_receive(server, bytes, size, &error);
            assert_false(handshake_finished(server));
        }
        handshake_free(client);
        handshake_free(server);
        if (at >= size)
            break;
    }
}

static void tls_carries_a_stream(void **state)
{
    struct pin of_client, of_server;
    struct handshake *client = new_end(true, client_seed, &of_client, server_seed);
    struct handshake *server = new_end(false, server_seed, &of_server, client_seed);
    struct error error = {0};
    uint8_t bytes[4096], text[64];
    bool ended;

    (void)state;
    assert_false(handshake_write(client, text, 1, &(struct error){0})); /* too early */
    for (unsigned i = 0; i < 2; i++) {
        move(client, server, 4096, &error);
        move(server, client, 4096, &error);
    }
    assert_true(handshake_write(client, (const uint8_t *)"through TLS", 11, &error));
    size_t size = handshake_send(client, bytes, sizeof bytes);
    assert_true(size > 11);
    assert_int_equal(handshake_unsent(client), 0);
    assert_true(handshake_feed(server, bytes, size - 1, &error));
    assert_int_equal(handshake_read(server, text, sizeof text, &ended), 0);
    assert_false(ended);
    assert_true(handshake_feed(server, bytes + size - 1, 1, &error));
    assert_int_equal(handshake_read(server, text, sizeof text, &ended), 11);
    assert_memory_equal(text, "through TLS", 11);
    assert_int_equal(handshake_read(server, text, sizeof text, &ended), 0);
    assert_false(ended);
    handshake_close(client);
    size = handshake_send(client, bytes, sizeof bytes);
    assert_true(handshake_feed(server, bytes, size, &error));
    assert_int_equal(handshake_read(server, text, sizeof text, &ended), 0);
    assert_true(ended);
    handshake_free(client);
    handshake_free(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_agree),
        cmocka_unit_test(a_client_refuses_another_servers_key),
        cmocka_unit_test(a_server_refuses_another_clients_key),
        cmocka_unit_test(a_forged_refusal_is_none),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(kinds_do_not_mix),
        cmocka_unit_test(changed_bytes_are_refused),
        cmocka_unit_test(tls_carries_a_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
