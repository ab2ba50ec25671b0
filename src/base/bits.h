/* Counting bits without calling the compiler's runtime, which not every target has. */
#ifndef PETREL_BASE_BITS_H
#define PETREL_BASE_BITS_H

#include <stdint.h>

/* How many bits are set. */
static inline unsigned bits_set(uint64_t value)
{
    value -= value >> 1 & UINT64_C(0x5555555555555555);
    value = (value & UINT64_C(0x3333333333333333)) + (value >> 2 & UINT64_C(0x3333333333333333));
    value = (value + (value >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(value * UINT64_C(0x0101010101010101) >> 56);
}

#endif
