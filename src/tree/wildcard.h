/* Matching one path component against a shell pattern: * ? [a-z] [!x] and backslash.
 *
 * Pure and without recursion; bytes, not characters; a leading "." is matched only by a leading
 * "." in the pattern, as a shell does. Brace and tilde expansion are not its work.
 * Source: POSIX.1-2017, Shell Command Language 2.13.
 */
#ifndef PETREL_TREE_WILDCARD_H
#define PETREL_TREE_WILDCARD_H

#include <stdbool.h>
#include <stddef.h>

/* Whether `pattern` holds any character with a special meaning. */
bool wildcard_is_pattern(const char *pattern, size_t size);
/* Time is bounded by the product of both lengths. */
bool wildcard_match(const char *pattern, size_t pattern_size, const char *name, size_t name_size);

#endif
