/* Reproducible pseudo-random numbers (xoshiro256**, seeded by splitmix64), the same on every
 * compiler and machine. For simulation, jitter and tests; never for secrets. */
#ifndef PETREL_BASE_RANDOM_H
#define PETREL_BASE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
    uint64_t state[4];
};

void random_seed(struct random *random, uint64_t seed);
uint64_t random_next(struct random *random);
/* Uniform in [0, bound), without bias; bound 0 gives 0. */
uint64_t random_below(struct random *random, uint64_t bound);
/* True with probability parts/2^32. */
bool random_chance(struct random *random, uint32_t parts);

#endif
