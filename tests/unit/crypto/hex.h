/* Hexadecimal text to bytes, for vectors written in tests. */
#ifndef PETREL_TESTS_HEX_H
#define PETREL_TESTS_HEX_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline size_t hex_bytes(const char *text, uint8_t *bytes, size_t capacity)
{
    size_t size = 0;
    unsigned value;
    while (text[0] != '\0' && text[0] != '\n' && size < capacity &&
           sscanf(text, "%2x", &value) == 1) {
        bytes[size++] = (uint8_t)value;
        text += 2;
    }
    return size;
}

#endif
