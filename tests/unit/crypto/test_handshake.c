/* TLS in memory: both ends agree, and everyone without the PSK is refused, by either end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "handshake_ends.h"

static const uint8_t secret[32] = "thirty-two bytes from the client";
static const uint8_t other_secret[32] = "thirty-two bytes of someone else";
static const uint8_t id[16] = "session id bytes", other_id[16] = "another session.";

static struct handshake *new_end(bool client, const uint8_t *key, const uint8_t *name)
{
    struct error error = {0};
    struct handshake *end = handshake_new_psk(client, key, name, &error);
    assert_non_null(end);
    assert_int_equal(error.kind, ERROR_NONE);
    return end;
}

static void both_ends_agree_with_pieces_of(size_t piece)
{
    struct handshake *client = new_end(true, secret, id), *server = new_end(false, secret, id);
    struct error error = {0};
    uint8_t a[32], b[32], c[32];

    assert_true(move(client, server, piece, &error) > 0);
    assert_false(handshake_finished(server));
    assert_false(handshake_export(client, id, 16, a, 32, &(struct error){0}));
    assert_true(move(server, client, piece, &error) > 0);
    assert_true(handshake_finished(client));
    assert_false(handshake_finished(server)); /* not before the client's Finished */
    assert_true(move(client, server, piece, &error) > 0);
    assert_true(handshake_finished(server));
    assert_int_equal(error.kind, ERROR_NONE);
    assert_int_equal(move(server, client, piece, &error), 0); /* no tickets */
    assert_int_equal(error.kind, ERROR_NONE);
    assert_true(handshake_export(client, (const uint8_t *)"context", 7, a, 32, &error));
    assert_true(handshake_export(server, (const uint8_t *)"context", 7, b, 32, &error));
    assert_memory_equal(a, b, 32);
    assert_true(handshake_export(server, (const uint8_t *)"Context", 7, c, 32, &error));
    assert_memory_not_equal(a, c, 32);
    assert_false(handshake_receive(client, id, 1, &error)); /* TLS is done with */
    assert_int_equal(error.kind, ERROR_PROTOCOL);
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

static void sessions_differ(void **state)
{
    uint8_t secrets[2][32];
    (void)state;
    for (int i = 0; i < 2; i++) { /* the same PSK twice: fresh keys all the same */
        struct handshake *client = new_end(true, secret, id), *server = new_end(false, secret, id);
        struct error error = {0};
        move(client, server, 4096, &error);
        move(server, client, 4096, &error);
        assert_true(handshake_export(client, NULL, 0, secrets[i], 32, &error));
        handshake_free(client);
        handshake_free(server);
    }
    assert_memory_not_equal(secrets[0], secrets[1], 32);
}

static void expect_refusal_by_server(const uint8_t *key, const uint8_t *name)
{
    struct handshake *client = new_end(true, key, name), *server = new_end(false, secret, id);
    struct error error = {0}, told = {0};

    move(client, server, 4096, &error);
    assert_int_equal(error.kind, ERROR_CRYPTO);
    assert_true(strlen(error.text) > 10);
    assert_false(handshake_finished(server));
    assert_false(handshake_receive(server, id, 1, &told)); /* stays failed */
    told = (struct error){0};
    move(server, client, 4096, &told); /* the alert tells the client */
    assert_int_equal(told.kind, ERROR_CRYPTO);
    assert_false(handshake_finished(client));
    handshake_free(client);
    handshake_free(server);
}

static void wrong_secret_or_identity_is_refused(void **state)
{
    (void)state;
    expect_refusal_by_server(other_secret, id);
    expect_refusal_by_server(secret, other_id);
    expect_refusal_by_server(other_secret, other_id);
}

static void a_client_refuses_an_impostor_with_a_certificate(void **state)
{
    struct impostor impostor = impostor_new(false, "ED25519");
    struct handshake *client = new_end(true, secret, id);
    struct error error = impostor_talk(&impostor, client);

    (void)state;
    assert_int_equal(error.kind, ERROR_CRYPTO);
    assert_false(handshake_finished(client));
    handshake_free(client);
    impostor_free(&impostor);
}

static void a_server_refuses_a_client_without_the_secret(void **state)
{
    struct impostor impostor = impostor_new(true, "ED25519");
    struct handshake *server = new_end(false, secret, id);
    struct error error = impostor_talk(&impostor, server);

    (void)state;
    assert_int_equal(error.kind, ERROR_CRYPTO);
    assert_false(handshake_finished(server));
    handshake_free(server);
    impostor_free(&impostor);
}

/* Each byte of the server's and the client's flights changed: never finished. */
static void changed_bytes_are_refused(void **state)
{
    (void)state;
    for (size_t at = 0;; at += 7) {
        struct handshake *client = new_end(true, secret, id), *server = new_end(false, secret, id);
        struct error error = {0};
        uint8_t bytes[4096];
        size_t size;

        move(client, server, 4096, &error);
        size = handshake_send(server, bytes, sizeof bytes);
        if (at < size) {
            bytes[at] ^= 1;
            handshake_receive(client, bytes, size, &error);
            assert_false(handshake_finished(client));
        }
        handshake_free(client);
        handshake_free(server);
        if (at >= size)
            break;
    }
}

static void garbage_is_an_error(void **state)
{
    struct handshake *server = new_end(false, secret, id);
    struct error error = {0};
    uint8_t bytes[300];

    (void)state;
    memset(bytes, 0x5a, sizeof bytes);
    assert_false(handshake_receive(server, bytes, sizeof bytes, &error));
    assert_int_equal(error.kind, ERROR_CRYPTO);
    handshake_free(server);
    handshake_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_agree),
        cmocka_unit_test(sessions_differ),
        cmocka_unit_test(wrong_secret_or_identity_is_refused),
        cmocka_unit_test(a_client_refuses_an_impostor_with_a_certificate),
        cmocka_unit_test(a_server_refuses_a_client_without_the_secret),
        cmocka_unit_test(changed_bytes_are_refused),
        cmocka_unit_test(garbage_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
