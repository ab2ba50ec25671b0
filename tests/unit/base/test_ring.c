#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/random.h"
#include "base/ring.h"

static void test_messages_come_back_in_order(void **state)
{
    (void)state;
    struct ring *ring = ring_new(100); /* becomes 128 */
    assert_true(ring_is_empty(ring));
    size_t size;
    assert_null(ring_peek(ring, &size));
    assert_true(ring_put(ring, "one", 3));
    assert_true(ring_put(ring, "", 0));
    assert_true(ring_put(ring, "three", 5));
    assert_false(ring_is_empty(ring));
    assert_memory_equal(ring_peek(ring, &size), "one", 3);
    assert_int_equal(size, 3);
    assert_memory_equal(ring_peek(ring, &size), "one", 3); /* a peek takes nothing */
    ring_release(ring);
    assert_non_null(ring_peek(ring, &size));
    assert_int_equal(size, 0);
    ring_release(ring);
    assert_memory_equal(ring_peek(ring, &size), "three", 5);
    assert_int_equal(size, 5);
    ring_release(ring);
    assert_true(ring_is_empty(ring));
    ring_free(ring);
    ring_free(NULL);
}

static void test_reserved_is_unseen_and_may_shrink(void **state)
{
    (void)state;
    struct ring *ring = ring_new(256);
    size_t size;
    char *space = ring_reserve(ring, 64);
    assert_non_null(space);
    assert_int_equal((uintptr_t)space % 8, 0);
    memset(space, 'a', 64);
    assert_null(ring_peek(ring, &size));
    space = ring_reserve(ring, 32); /* a reservation left alone is forgotten */
    memset(space, 'b', 32);
    ring_commit(ring, 10);
    assert_memory_equal(ring_peek(ring, &size), "bbbbbbbbbb", 10);
    assert_int_equal(size, 10);
    ring_release(ring);
    assert_true(ring_is_empty(ring));
    ring_free(ring);
}

static void test_full_and_room_agree(void **state)
{
    (void)state;
    struct random random;
    random_seed(&random, 4);
    for (size_t capacity = 64; capacity <= 4096; capacity *= 4) {
        struct ring *ring = ring_new(capacity);
        unsigned put = 0, got = 0;
        for (unsigned step = 0; step < 20000; step++) {
            size_t size = (size_t)random_below(&random, capacity / 4 + 1);
            if (random_below(&random, 2) == 0) {
                bool room = ring_has_room(ring, size);
                unsigned char *space = ring_reserve(ring, size);
                assert_int_equal(space != NULL, room);
                if (space != NULL) {
                    memset(space, (int)(put & 0xff), size);
                    ring_commit(ring, size);
                    put++;
                }
            } else {
                const unsigned char *bytes = ring_peek(ring, &size);
                assert_int_equal(bytes == NULL, ring_is_empty(ring));
                assert_int_equal(bytes == NULL, put == got);
                if (bytes != NULL) {
                    for (size_t i = 0; i < size; i++)
                        assert_int_equal(bytes[i], got & 0xff);
                    ring_release(ring);
                    got++;
                }
            }
        }
        /* An empty ring takes the largest message wherever its end stands. */
        size_t size;
        while (ring_peek(ring, &size) != NULL)
            ring_release(ring);
        assert_true(ring_has_room(ring, capacity / 4));
        ring_free(ring);
    }
}

#define THREAD_MESSAGES 200000u

static void *produce(void *argument)
{
    struct ring *ring = argument;
    struct random random;
    random_seed(&random, 5);
    for (uint32_t number = 0; number < THREAD_MESSAGES; number++) {
        uint32_t words = 1 + (uint32_t)random_below(&random, 40);
        uint32_t *space;
        while ((space = ring_reserve(ring, words * 4)) == NULL)
            sched_yield();
        for (uint32_t i = 0; i < words; i++)
            space[i] = number + i;
        ring_commit(ring, words * 4);
    }
    return NULL;
}

static void test_two_threads(void **state)
{
    (void)state;
    struct ring *ring = ring_new(2048);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, produce, ring), 0);
    struct random random;
    random_seed(&random, 5);
    unsigned wrong = 0;
    for (uint32_t number = 0; number < THREAD_MESSAGES; number++) {
        uint32_t words = 1 + (uint32_t)random_below(&random, 40);
        const uint32_t *message;
        size_t size;
        while ((message = ring_peek(ring, &size)) == NULL)
            sched_yield();
        wrong += size != words * 4;
        for (uint32_t i = 0; i < words; i++)
            wrong += message[i] != number + i;
        ring_release(ring);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wrong, 0);
    assert_true(ring_is_empty(ring));
    ring_free(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_come_back_in_order),
        cmocka_unit_test(test_reserved_is_unseen_and_may_shrink),
        cmocka_unit_test(test_full_and_room_agree),
        cmocka_unit_test(test_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
