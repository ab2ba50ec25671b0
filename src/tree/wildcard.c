#include "tree/wildcard.h"

#include <stdint.h>

bool wildcard_is_pattern(const char *pattern, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (pattern[i] == '*' || pattern[i] == '?' || pattern[i] == '[' || pattern[i] == '\\')
            return true;
    }
    return false;
}

/* Matches `byte` against the bracket expression at pattern[*at] == '['. A bracket that never ends
 * is an ordinary '['. Moves *at behind the expression. */
static bool match_bracket(const char *pattern, size_t size, size_t *at, unsigned char byte)
{
    size_t i = *at + 1;
    bool negated = i < size && (pattern[i] == '!' || pattern[i] == '^');
    if (negated)
        i++;
    bool found = false;
    for (size_t start = i; i < size; i++) {
        if (pattern[i] == ']' && i > start) {
            *at = i + 1;
            return found != negated;
        }
        if (pattern[i] == '\\' && i + 1 < size)
            i++;
        unsigned char low = (unsigned char)pattern[i], high = low;
        if (i + 2 < size && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
            i += 2;
            if (pattern[i] == '\\' && i + 1 < size)
                i++;
            high = (unsigned char)pattern[i];
        }
        found = found || (byte >= low && byte <= high);
    }
    *at += 1;
    return byte == '[';
}

/* Matches one byte against the pattern element at *at, which is not '*'. */
static bool match_one(const char *pattern, size_t size, size_t *at, unsigned char byte)
{
    if (pattern[*at] == '?') {
        *at += 1;
        return true;
    }
    if (pattern[*at] == '[')
        return match_bracket(pattern, size, at, byte);
    if (pattern[*at] == '\\' && *at + 1 < size)
        *at += 1;
    bool same = (unsigned char)pattern[*at] == byte;
    *at += 1;
    return same;
}

bool wildcard_match(const char *pattern, size_t pattern_size, const char *name, size_t name_size)
{
    if (name_size > 0 && name[0] == '.') {
        bool literal = pattern_size > 0 && pattern[0] == '.';
        bool quoted = pattern_size > 1 && pattern[0] == '\\' && pattern[1] == '.';
        if (!literal && !quoted)
            return false;
    }
    size_t p = 0, n = 0;
    size_t star = SIZE_MAX, star_name = 0; /* where to go on when a guess for '*' was too short */
    while (n < name_size) {
        if (p < pattern_size && pattern[p] == '*') {
            star = ++p;
            star_name = n;
            continue;
        }
        if (p < pattern_size && match_one(pattern, pattern_size, &p, (unsigned char)name[n])) {
            n++;
            continue;
        }
        if (star == SIZE_MAX)
            return false;
        p = star;
        n = ++star_name;
    }
    while (p < pattern_size && pattern[p] == '*')
        p++;
    return p == pattern_size;
}
