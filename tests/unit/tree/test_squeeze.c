/* Squeezed blocks: what is packed comes back, nothing else is unpacked, and a source squeezes only
 * what the other end reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "tree/pack.h"
#include "tree/squeeze.h"
#include "tree/squeezed_source.h"

#define SIZE 300000u

static void fill_text(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)("a line of text, again and again; "[i % 33] + (i / 3300) % 5);
}

static void test_round_trip(void **state)
{
    (void)state;
    static uint8_t text[SIZE], packed[SIZE], back[SIZE];
    struct squeezer *squeezer = squeezer_new();
    if (!squeeze_is_possible()) {
        assert_null(squeezer);
        skip();
    }
    fill_text(text, SIZE);
    for (unsigned level = 1; level <= SQUEEZE_LEVEL_MAX; level += 6) {
        size_t got, size = squeezer_pack(squeezer, level, text, SIZE, packed, SIZE);
        assert_in_range(size, 1, SIZE / 2);
        assert_true(squeezer_unpack(squeezer, packed, size, back, SIZE, &got));
        assert_int_equal(got, SIZE);
        assert_memory_equal(text, back, SIZE);
        assert_false(squeezer_unpack(squeezer, packed, size, back, SIZE - 1, &got));
        assert_int_equal(squeezer_pack(squeezer, level, text, SIZE, packed, size / 2), 0);
    }
    squeezer_free(squeezer);
}

static void test_cut_and_changed(void **state)
{
    (void)state;
    static uint8_t text[5000], packed[5000], back[5000];
    struct squeezer *squeezer = squeezer_new();
    if (squeezer == NULL)
        skip();
    fill_text(text, sizeof text);
    size_t got, size = squeezer_pack(squeezer, 3, text, sizeof text, packed, sizeof packed);
    for (size_t cut = 1; cut < size; cut++) {
        uint8_t *exact = malloc(cut); /* sanitizers see what is read beyond */
        memcpy(exact, packed, cut);
        assert_false(squeezer_unpack(squeezer, exact, cut, back, sizeof back, &got));
        free(exact);
    }
    for (size_t at = 0; at < size; at++) { /* whatever comes out, it stays within its room */
        uint8_t *room = malloc(sizeof back);
        packed[at] ^= 0x40;
        if (squeezer_unpack(squeezer, packed, size, room, sizeof back, &got))
            assert_true(got <= sizeof back);
        packed[at] ^= 0x40;
        free(room);
    }
    squeezer_free(squeezer);
}

/* ---- the source around another ---- */

struct inner {
    struct transfer_request names;
    uint8_t bitmap;
    size_t bitmap_size;
    bool packed, random;
};

static enum source_result inner_next(void *context, uint8_t *buffer, struct source_item *out)
{
    static struct random random;
    const struct inner *inner = context;
    *out = (struct source_item){.packed = inner->packed, .length = BLOCK_SIZE - 1};
    fill_text(buffer, BLOCK_SIZE);
    if (!inner->random)
        return SOURCE_BLOCK;
    random_seed(&random, 7);
    for (size_t at = 0; at < BLOCK_SIZE; at += sizeof(uint64_t)) {
        uint64_t value = random_next(&random);
        memcpy(buffer + at, &value, sizeof value);
    }
    return SOURCE_BLOCK;
}

static void inner_existing(void *context, const uint8_t *bitmap, size_t size)
{
    struct inner *inner = context;
    inner->bitmap = bitmap[0];
    inner->bitmap_size = size;
}

static const struct transfer_request *inner_names(void *context)
{
    return &((struct inner *)context)->names;
}

static void inner_close(void *context)
{
    transfer_request_release(&((struct inner *)context)->names);
}

static const struct source_ops inner_ops = {
    .next = inner_next, .set_existing = inner_existing, .names = inner_names, .close = inner_close};

static uint32_t length_of_next(struct squeezed_source *source, uint8_t *buffer)
{
    struct source_item item;
    assert_int_equal(squeezed_source_ops.next(source, buffer, &item), SOURCE_BLOCK);
    return item.length;
}

static struct squeezed_source *begin(struct inner *inner, unsigned level, uint8_t reads,
                                     size_t size)
{
    assert_true(transfer_request_add(&inner->names, "x", true));
    struct squeezed_source *source = squeezed_source_new(inner, &inner_ops, level);
    if (source == NULL)
        return NULL;
    const uint8_t bitmap[2] = {1, reads};
    squeezed_source_ops.set_existing(source, bitmap, size);
    assert_int_equal(inner->bitmap, 1);
    assert_int_equal(inner->bitmap_size, 1);
    return source;
}

static void test_only_what_is_read(void **state)
{
    (void)state;
    static const struct {
        uint8_t reads;
        size_t size;
        bool squeezes;
    } peers[] = {{SQUEEZED_IS_READ, 2, true}, {0, 2, false}, {SQUEEZED_IS_READ, 1, false}};
    static uint8_t buffer[BLOCK_SIZE];
    if (!squeeze_is_possible())
        skip();
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
        struct inner inner = {.packed = i % 2 == 0};
        struct squeezed_source *source = begin(&inner, 1, peers[i].reads, peers[i].size);
        assert_non_null(source);
        uint32_t length = length_of_next(source, buffer);
        assert_int_equal(length < BLOCK_SIZE / 2, peers[i].squeezes);
        if (peers[i].squeezes)
            assert_int_equal(buffer[0], PACK_SQUEEZED);
        squeezed_source_ops.close(source);
    }
}

static void test_auto(void **state)
{
    (void)state;
    static uint8_t buffer[BLOCK_SIZE];
    if (!squeeze_is_possible())
        skip();
    static const struct {
        uint64_t path_bps;
        bool random;
        unsigned least, most; /* blocks of 128 that get smaller */
    } cases[] = {
        {10000000, false, 110, 114}, {10000000000000, false, 1, 1}, {10000000, true, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct inner inner = {.random = cases[i].random};
        struct squeezed_source *source = begin(&inner, 0, SQUEEZED_IS_READ, 2);
        assert_non_null(source);
        squeezed_source_ops.path_rate(source, cases[i].path_bps);
        unsigned smaller = 0;
        for (int block = 0; block < 128; block++)
            smaller += length_of_next(source, buffer) < BLOCK_SIZE - 1;
        assert_in_range(smaller, cases[i].least, cases[i].most);
        squeezed_source_ops.close(source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_cut_and_changed),
        cmocka_unit_test(test_only_what_is_read),
        cmocka_unit_test(test_auto),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
