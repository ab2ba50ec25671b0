#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/pool.h"

static void test_takes_up_to_the_limit(void **state)
{
    (void)state;
    struct pool *pool = pool_new(10000, 3);
    uint8_t *buffers[3];
    for (size_t i = 0; i < 3; i++) {
        buffers[i] = pool_take(pool);
        assert_non_null(buffers[i]);
        assert_int_equal((uintptr_t)buffers[i] % 4096, 0);
        memset(buffers[i], (int)i, 10000);
    }
    assert_null(pool_take(pool));
    assert_int_equal(pool_taken(pool), 3);
    for (size_t i = 0; i < 3; i++) /* none overlaps another */
        assert_true(buffers[i][0] == i && buffers[i][9999] == i);
    pool_give(pool, buffers[1]);
    assert_ptr_equal(pool_take(pool), buffers[1]); /* the warm one first */
    for (size_t i = 0; i < 3; i++)
        pool_give(pool, buffers[i]);
    pool_give(pool, NULL);
    assert_int_equal(pool_taken(pool), 0);
    pool_free(pool);
}

static void test_tiny_buffers(void **state)
{
    (void)state;
    struct pool *pool = pool_new(1, 2);
    uint8_t *buffer = pool_take(pool);
    assert_non_null(buffer);
    buffer[0] = 1;
    pool_give(pool, buffer);
    pool_free(pool);
    pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_up_to_the_limit),
        cmocka_unit_test(test_tiny_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
