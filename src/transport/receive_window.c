#include "transport/receive_window.h"

#include <stdlib.h>
#include <string.h>

#include "transport/limits.h"

#define WORD_COUNT (REPLAY_WINDOW / 64)
#define WORD_MASK (WORD_COUNT - 1)

bool receive_window_init(struct receive_window *window)
{
    memset(window, 0, sizeof(*window));
    window->words = calloc(WORD_COUNT, sizeof(*window->words));
    return window->words != NULL;
}

void receive_window_release(struct receive_window *window)
{
    free(window->words);
    memset(window, 0, sizeof(*window));
}

bool receive_window_has(const struct receive_window *window, uint64_t number)
{
    if (!window->any || number > window->largest || window->largest - number >= REPLAY_WINDOW)
        return false;
    return window->words[(number / 64) & WORD_MASK] >> (number % 64) & 1;
}

bool receive_window_allows(const struct receive_window *window, uint64_t number)
{
    if (number >= NUMBER_LIMIT)
        return false;
    if (!window->any)
        return number <= NUMBER_AHEAD_MAX;
    if (number > window->largest)
        return number - window->largest <= NUMBER_AHEAD_MAX;
    /* One word less than the ring: the word of the largest may hold its own oldest bits. */
    if (window->largest - number >= REPLAY_WINDOW - 64)
        return false;
    return !receive_window_has(window, number);
}

void receive_window_add(struct receive_window *window, uint64_t number)
{
    if (!window->any) {
        window->any = true;
        window->largest = number;
    } else if (number > window->largest) {
        uint64_t from = window->largest / 64 + 1;
        uint64_t to = number / 64;
        if (to >= from && to - from >= WORD_COUNT)
            from = to - WORD_COUNT + 1;
        for (uint64_t word = from; word <= to; word++)
            window->words[word & WORD_MASK] = 0;
        window->largest = number;
    }
    window->words[(number / 64) & WORD_MASK] |= UINT64_C(1) << (number % 64);
}

static uint8_t reverse8(uint8_t bits)
{
    bits = (uint8_t)((bits & 0xf0) >> 4 | (bits & 0x0f) << 4);
    bits = (uint8_t)((bits & 0xcc) >> 2 | (bits & 0x33) << 2);
    return (uint8_t)((bits & 0xaa) >> 1 | (bits & 0x55) << 1);
}

/* The eight bits of numbers first .. first + 7, lowest first. */
static uint8_t eight_from(const struct receive_window *window, uint64_t first)
{
    uint64_t low = window->words[(first / 64) & WORD_MASK] >> (first % 64);
    if (first % 64 > 56)
        low |= window->words[(first / 64 + 1) & WORD_MASK] << (64 - first % 64);
    return (uint8_t)low;
}

void receive_window_bitmap(const struct receive_window *window, uint8_t *bitmap, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint64_t below = window->largest - 8 * (uint64_t)i; /* bits tell of below-1 .. below-8 */
        if (window->largest < 8 * (uint64_t)i) {
            bitmap[i] = 0;
        } else if (below >= 8) {
            bitmap[i] = reverse8(eight_from(window, below - 8));
        } else {
            bitmap[i] = 0;
            for (uint64_t k = 0; k < below; k++)
                bitmap[i] |= (uint8_t)(receive_window_has(window, below - 1 - k) << k);
        }
    }
}
