/* Names and texts from a peer or a disk made safe to print: one line, no control bytes.
 *
 * Control characters (C0, DEL, C1), invalid UTF-8 and the invisible characters that reorder text
 * become \xNN for each of their bytes, a newline \n, a tab \t, a backslash \\. Everything else is
 * left as it is, so the result is valid UTF-8 and can be read back without doubt. Pure.
 */
#ifndef PETREL_TREE_DISPLAY_H
#define PETREL_TREE_DISPLAY_H

#include <stddef.h>

/* Writes at most `capacity` bytes with the final NUL; what does not fit is cut at a whole character
 * and ends in "...". `capacity` is at least 4. Returns `text`. */
char *display_bytes(char *text, size_t capacity, const char *bytes, size_t size);
char *display_name(char *text, size_t capacity, const char *name);

#endif
