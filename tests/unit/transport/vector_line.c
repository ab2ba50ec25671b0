#include "vector_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

bool vector_next(FILE *file, struct vector_line *line)
{
    do {
        if (fgets(line->text, sizeof line->text, file) == NULL)
            return false;
    } while (line->text[0] == '#');
    assert_non_null(strchr(line->text, '\n'));
    /* Fields become strings of their own; a second NUL ends the last. */
    for (char *at = line->text; *at != '\0'; at++) {
        if (*at == ' ' || *at == '\n')
            *at = '\0';
    }
    line->kind = line->text;
    return true;
}

/* The text after "name=". */
static const char *find(const struct vector_line *line, const char *name)
{
    size_t length = strlen(name);
    const char *at = line->text + strlen(line->text) + 1;

    for (; *at != '\0'; at += strlen(at) + 1) {
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    }
    fail_msg("%s has no %s", line->kind, name);
    return "";
}

uint64_t vector_number(const struct vector_line *line, const char *name)
{
    return strtoull(find(line, name), NULL, 10);
}

size_t vector_bytes(const struct vector_line *line, const char *name,
                    uint8_t bytes[VECTOR_BYTES_MAX])
{
    const char *text = find(line, name);
    size_t size = strlen(text) / 2;
    unsigned value;

    assert_true(size <= VECTOR_BYTES_MAX);
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(sscanf(text + 2 * i, "%2x", &value), 1);
        bytes[i] = (uint8_t)value;
    }
    return size;
}

bool vector_is(const struct vector_line *line, const char *name, const char *value)
{
    return strcmp(find(line, name), value) == 0;
}
