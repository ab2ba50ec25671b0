/* Reads lines of tests/vectors/wire.txt: a kind, then name=value fields. */
#ifndef PETREL_TESTS_VECTOR_LINE_H
#define PETREL_TESTS_VECTOR_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define VECTOR_BYTES_MAX 4096

struct vector_line {
    char text[20000];
    const char *kind;
};

/* False at the end of the file; comments are passed over. */
bool vector_next(FILE *file, struct vector_line *line);
/* Fields that must be there. */
uint64_t vector_number(const struct vector_line *line, const char *name);
size_t vector_bytes(const struct vector_line *line, const char *name,
                    uint8_t bytes[VECTOR_BYTES_MAX]);
bool vector_is(const struct vector_line *line, const char *name, const char *value);

#endif
