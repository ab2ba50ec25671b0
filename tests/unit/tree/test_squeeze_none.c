/* -z where an end was built without libzstd: blocks go as they are, and one note says why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/block.h"
#include "tree/squeeze.h"
#include "tree/squeezed_source.h"

static struct transfer_request names = {.name_count = 1};
static unsigned left;

static enum source_result next(void *context, uint8_t *buffer, struct source_item *out)
{
    (void)context;
    *out = (struct source_item){.blocks = 3, .files = 2};
    if (left-- == 0)
        return SOURCE_END;
    memset(buffer, 'a', BLOCK_SIZE);
    out->length = BLOCK_SIZE;
    return SOURCE_BLOCK;
}

static void set_existing(void *context, const uint8_t *bitmap, size_t size)
{
    (void)context, (void)bitmap;
    assert_int_equal(size, 1);
}

static const struct transfer_request *get_names(void *context)
{
    (void)context;
    return &names;
}

static void close_source(void *context)
{
    (void)context;
}

static void test_it_is_said(void **state)
{
    (void)state;
    static uint8_t buffer[BLOCK_SIZE];
    static const struct source_ops ops = {
        .next = next, .set_existing = set_existing, .names = get_names, .close = close_source};
    const uint8_t bitmap[2] = {1, SQUEEZED_IS_READ};
    struct source_item item;
    assert_false(squeeze_is_possible());
    struct squeezed_source *source = squeezed_source_new(&names, &ops, 0);
    assert_non_null(source);
    squeezed_source_ops.set_existing(source, bitmap, sizeof bitmap);
    left = 3;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(squeezed_source_ops.next(source, buffer, &item), SOURCE_BLOCK);
        assert_int_equal(item.length, BLOCK_SIZE);
    }
    assert_int_equal(squeezed_source_ops.next(source, buffer, &item), SOURCE_NOTE);
    assert_non_null(strstr(item.error.text, "the sending end was built without zstd"));
    assert_int_equal(squeezed_source_ops.next(source, buffer, &item), SOURCE_END);
    assert_true(item.blocks == 3 && item.files == 2);
    squeezed_source_ops.close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_it_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
