#include "base/random.h"

/* Blackman and Vigna, "Scrambled linear pseudorandom number generators" (xoshiro256**), seeded by
 * the splitmix64 sequence as its authors advise. */

static uint64_t rotate_left(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

void random_seed(struct random *random, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t mixed = seed;
        mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
        random->state[i] = mixed ^ mixed >> 31;
    }
}

uint64_t random_next(struct random *random)
{
    uint64_t *state = random->state;
    uint64_t result = rotate_left(state[1] * 5, 7) * 9;
    uint64_t shifted = state[1] << 17;

    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate_left(state[3], 45);
    return result;
}

uint64_t random_below(struct random *random, uint64_t bound)
{
    if (bound == 0)
        return 0;
    /* 2^64 mod bound values at the bottom would make some results likelier: draw again. */
    uint64_t biased = (0 - bound) % bound;
    uint64_t value;
    do {
        value = random_next(random);
    } while (value < biased);
    return value % bound;
}

bool random_chance(struct random *random, uint32_t parts)
{
    return random_next(random) >> 32 < parts;
}
