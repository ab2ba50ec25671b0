/* tree_hash against what b3sum prints (tests/vectors/tree_hash.txt), blocks in every order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "crypto/tree_hash.h"
#include "hex.h"

#define BYTES_MAX (10u * TREE_HASH_BLOCK)
#define BLOCKS_MAX 10

static uint8_t *bytes; /* repeating 0..250 */

struct file {
    uint64_t size;
    size_t blocks;
    uint8_t hash[32];
    uint8_t values[BLOCKS_MAX][32];
};

static void hash_blocks(struct file *file)
{
    file->blocks = file->size == 0 ? 1 : (size_t)((file->size - 1) / TREE_HASH_BLOCK + 1);
    if (file->blocks == 1) {
        tree_hash_whole(bytes, (size_t)file->size, file->values[0]);
        return;
    }
    for (size_t i = 0; i < file->blocks; i++) {
        size_t start = i * TREE_HASH_BLOCK;
        size_t size = (size_t)file->size - start;
        if (size > TREE_HASH_BLOCK)
            size = TREE_HASH_BLOCK;
        tree_hash_block(bytes + start, size, i, file->values[i]);
    }
}

static void check_order(const struct file *file, const size_t *order, bool size_known)
{
    uint8_t result[32];
    struct tree_hash *hash = tree_hash_new(size_known ? file->size : TREE_HASH_SIZE_UNKNOWN);
    assert_non_null(hash);
    for (size_t i = 0; i < file->blocks; i++) {
        assert_false(tree_hash_result(hash, result));
        assert_true(tree_hash_add(hash, order[i], file->values[order[i]]));
    }
    if (!size_known) {
        assert_false(tree_hash_result(hash, result));
        if (file->blocks > 1)
            assert_false(tree_hash_set_size(hash, TREE_HASH_BLOCK));
        assert_true(tree_hash_set_size(hash, file->size));
    }
    assert_false(tree_hash_set_size(hash, file->size));
    assert_true(tree_hash_result(hash, result));
    assert_memory_equal(result, file->hash, 32);
    tree_hash_free(hash);
}

static void swap(size_t *a, size_t *b)
{
    size_t kept = *a;
    *a = *b;
    *b = kept;
}

/* Every permutation (Heap's algorithm, without recursion). */
static void check_all_orders(const struct file *file)
{
    size_t order[BLOCKS_MAX], counters[BLOCKS_MAX] = {0}, i = 0;
    for (size_t k = 0; k < file->blocks; k++)
        order[k] = k;
    check_order(file, order, true);
    check_order(file, order, false);
    while (i < file->blocks) {
        if (counters[i] < i) {
            swap(&order[i % 2 == 0 ? 0 : counters[i]], &order[i]);
            check_order(file, order, true);
            check_order(file, order, false);
            counters[i]++;
            i = 0;
        } else {
            counters[i++] = 0;
        }
    }
}

static void check_some_orders(const struct file *file, struct random *random)
{
    size_t order[BLOCKS_MAX];
    for (size_t k = 0; k < file->blocks; k++)
        order[k] = k;
    for (int round = 0; round < 200; round++) {
        for (size_t k = file->blocks; k > 1; k--)
            swap(&order[k - 1], &order[random_below(random, k)]);
        check_order(file, order, round % 2 == 0);
    }
}

static void equals_b3sum(void **state)
{
    FILE *vectors = fopen(VECTORS_DIR "/tree_hash.txt", "r");
    char line[200], text[100];
    unsigned long size;
    struct random random;
    unsigned count = 0;

    (void)state;
    random_seed(&random, 7);
    assert_non_null(vectors);
    while (fgets(line, sizeof line, vectors) != NULL) {
        struct file file;
        uint8_t whole[32];
        assert_int_equal(sscanf(line, "%lu %99s", &size, text), 2);
        assert_true(size <= BYTES_MAX);
        assert_int_equal(hex_bytes(text, file.hash, 32), 32);
        file.size = size;
        tree_hash_whole(bytes, size, whole);
        assert_memory_equal(whole, file.hash, 32);
        hash_blocks(&file);
        if (file.blocks <= 5)
            check_all_orders(&file);
        else
            check_some_orders(&file, &random);
        count++;
    }
    fclose(vectors);
    assert_true(count > 40);
}

static void refuses_what_does_not_fit(void **state)
{
    struct tree_hash *hash = tree_hash_new(3 * (uint64_t)TREE_HASH_BLOCK);
    uint8_t a[32] = {1}, b[32] = {2};

    (void)state;
    assert_false(tree_hash_add(hash, 3, a));
    assert_false(tree_hash_add(hash, UINT64_MAX, a));
    assert_true(tree_hash_add(hash, 1, a));
    assert_true(tree_hash_add(hash, 1, a));
    assert_false(tree_hash_add(hash, 1, b));
    assert_true(tree_hash_add(hash, 0, b));
    assert_true(tree_hash_add(hash, 1, b)); /* joined with block 0: no longer compared */
    assert_false(tree_hash_result(hash, b));
    tree_hash_free(hash);
    tree_hash_free(NULL);
    hash = tree_hash_new(TREE_HASH_SIZE_UNKNOWN);
    assert_false(tree_hash_add(hash, UINT64_C(1) << 60, a));
    assert_false(tree_hash_set_size(hash, TREE_HASH_SIZE_UNKNOWN));
    tree_hash_free(hash);
}

/* Values made up: what counts is that order does not matter, with many runs held at once. */
static void any_order_of_many_blocks(void **state)
{
    enum { COUNT = 20000 };
    static uint32_t order[COUNT];
    uint8_t first[32], result[32], value[32];
    struct random random;

    (void)state;
    random_seed(&random, 3);
    for (uint32_t i = 0; i < COUNT; i++)
        order[i] = i;
    for (int round = 0; round < 4; round++) {
        struct tree_hash *hash = tree_hash_new(
            round % 2 == 0 ? (uint64_t)COUNT * TREE_HASH_BLOCK - 5 : TREE_HASH_SIZE_UNKNOWN);
        for (uint32_t i = 0; i < COUNT; i++) {
            memset(value, 0, sizeof value);
            memcpy(value, &order[i], sizeof order[i]);
            assert_true(tree_hash_add(hash, order[i], value));
        }
        if (round % 2 != 0)
            assert_true(tree_hash_set_size(hash, (uint64_t)COUNT * TREE_HASH_BLOCK - 5));
        assert_true(tree_hash_result(hash, result));
        if (round == 0)
            memcpy(first, result, 32);
        assert_memory_equal(result, first, 32);
        tree_hash_free(hash);
        for (uint32_t k = COUNT; k > 1; k--) {
            uint32_t other = (uint32_t)random_below(&random, k), kept = order[k - 1];
            order[k - 1] = order[other];
            order[other] = kept;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_b3sum),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(any_order_of_many_blocks),
    };
    bytes = malloc(BYTES_MAX);
    for (size_t i = 0; i < BYTES_MAX; i++)
        bytes[i] = (uint8_t)(i % 251);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(bytes);
    return failed;
}
