/* What every unit test of measurements includes: cmocka and what it needs first. */
#ifndef PETREL_TESTS_MEASURE_UNIT_H
#define PETREL_TESTS_MEASURE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"

static inline struct address loopback(uint8_t family, uint16_t port)
{
    struct address address = {.family = family, .port = port};
    if (family == 4)
        memcpy(address.bytes, (uint8_t[]){127, 0, 0, 1}, 4);
    else
        address.bytes[15] = 1;
    return address;
}

#endif
