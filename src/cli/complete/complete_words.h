/* Words as a shell's completion has them: quotes taken off what was typed, and put onto what is
 * offered. Pure. */
#ifndef PETREL_CLI_COMPLETE_WORDS_H
#define PETREL_CLI_COMPLETE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Takes bash's quoting off, in place: backslashes and both quotes. What a shell would expand stays
 * as it is. Returns the quote that is still open at the end, or '\0'. */
char complete_unquote(char *word);

/* Writes `text` with a backslash before each byte that bash would not take as it is; always ends
 * `out` with NUL. False if it does not fit, or a control character is in it. */
bool complete_quote(char *out, size_t capacity, const char *text);

/* The next of the words that a help text separates by "|": only what is to be typed as it stands,
 * in small letters, such as "auto" of "auto|N" and "fixed:" of "fixed:RATE". False at the end. */
bool complete_next_word(const char **alternatives, char *word, size_t capacity);

#endif
