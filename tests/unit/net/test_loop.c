/* The sleep of a network thread: readiness, deadlines, wake-ups from other threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/units.h"
#include "net/loop.h"

struct record {
    struct loop *loop;
    unsigned calls;
    unsigned ready;
    bool remove;
};

static void note(void *context, int descriptor, unsigned ready)
{
    struct record *record = context;
    char byte;
    record->calls++;
    record->ready = ready;
    if (record->remove)
        loop_remove(record->loop, descriptor);
    else if (ready & LOOP_READ)
        assert_true(read(descriptor, &byte, 1) >= 0);
}

static void test_sources_are_called_when_ready(void **state)
{
    (void)state;
    struct loop *loop = loop_new(NULL);
    assert_non_null(loop);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct record reader = {.loop = loop}, writer = {.loop = loop};
    assert_true(loop_add(loop, ends[0], LOOP_READ, note, &reader, NULL));
    assert_true(loop_add(loop, ends[1], 0, note, &writer, NULL));
    loop_wait(loop, 0, loop_now(), 0);
    assert_int_equal(reader.calls + writer.calls, 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    loop_wait(loop, TIME_NEVER, loop_now(), 0);
    assert_int_equal(reader.calls, 1);
    assert_int_equal(reader.ready, LOOP_READ);

    writer.remove = true;
    loop_set_interest(loop, ends[1], LOOP_WRITE);
    loop_wait(loop, TIME_NEVER, loop_now(), 0);
    assert_int_equal(writer.calls, 1);
    assert_int_equal(writer.ready, LOOP_WRITE);
    loop_wait(loop, 0, loop_now(), 0); /* it removed itself */
    assert_int_equal(writer.calls, 1);

    close(ends[1]); /* a hang-up reaches the reader */
    loop_wait(loop, TIME_NEVER, loop_now(), 0);
    assert_int_equal(reader.calls, 2);
    loop_remove(loop, ends[0]);
    close(ends[0]);
    loop_free(loop);
}

static void test_regular_files_are_always_ready(void **state)
{
    (void)state;
    struct loop *loop = loop_new(NULL);
    FILE *file = tmpfile();
    assert_non_null(file);
    struct record record = {.loop = loop};
    assert_true(loop_add(loop, fileno(file), LOOP_READ, note, &record, NULL));
    loop_wait(loop, TIME_NEVER, loop_now(), 0);
    assert_int_equal(record.calls, 1);
    loop_remove(loop, fileno(file));
    fclose(file);
    loop_free(loop);
}

static void test_deadlines_are_kept(void **state)
{
    (void)state;
    struct loop *loop = loop_new(NULL);
    loop_adopt_thread();
    uint64_t start_ns = loop_now();
    loop_wait(loop, start_ns + 2 * NS_PER_MS, start_ns, 0);
    assert_true(loop_now() >= start_ns + 2 * NS_PER_MS);
    start_ns = loop_now();
    loop_wait(loop, start_ns + 10 * NS_PER_S, start_ns, 20 * NS_PER_S); /* looks, does not sleep */
    assert_true(loop_now() < start_ns + NS_PER_S);
    loop_free(loop);
}

static void test_wake_before_the_wait_is_not_lost(void **state)
{
    (void)state;
    struct loop *loop = loop_new(NULL);
    loop_wake(loop);
    loop_wake(loop);
    uint64_t start_ns = loop_now();
    loop_wait(loop, start_ns + 10 * NS_PER_S, start_ns, 0);
    assert_true(loop_now() < start_ns + 5 * NS_PER_S);
    loop_free(loop);
}

static void test_a_rest_ends_on_time_and_keeps_the_wake_up(void **state)
{
    (void)state;
    struct loop *loop = loop_new(NULL);
    uint64_t start_ns = loop_now();
    loop_rest(loop, start_ns + 2 * NS_PER_MS);
    assert_true(loop_now() >= start_ns + 2 * NS_PER_MS);
    loop_wake(loop);
    start_ns = loop_now();
    loop_rest(loop, start_ns + 10 * NS_PER_S); /* there is work already */
    loop_wait(loop, start_ns + 10 * NS_PER_S, start_ns, 0);
    assert_true(loop_now() < start_ns + 5 * NS_PER_S);
    loop_free(loop);
}

struct ping {
    struct loop *loops[2];
    atomic_uint ball; /* whose turn */
    unsigned rounds;
};

static void play(struct ping *ping, unsigned side)
{
    for (unsigned i = 0; i < ping->rounds; i++) {
        while (atomic_load(&ping->ball) != side)
            loop_wait(ping->loops[side], TIME_NEVER, loop_now(), 0);
        atomic_store(&ping->ball, 1 - side);
        loop_wake(ping->loops[1 - side]);
    }
}

static void *play_far(void *context)
{
    play(context, 1);
    return NULL;
}

static void test_no_wake_up_is_lost_between_threads(void **state)
{
    (void)state;
    struct ping ping = {.loops = {loop_new(NULL), loop_new(NULL)}, .rounds = 20000};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, play_far, &ping), 0);
    play(&ping, 0);
    pthread_join(thread, NULL);
    loop_free(ping.loops[0]);
    loop_free(ping.loops[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources_are_called_when_ready),
        cmocka_unit_test(test_regular_files_are_always_ready),
        cmocka_unit_test(test_deadlines_are_kept),
        cmocka_unit_test(test_a_rest_ends_on_time_and_keeps_the_wake_up),
        cmocka_unit_test(test_wake_before_the_wait_is_not_lost),
        cmocka_unit_test(test_no_wake_up_is_lost_between_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
