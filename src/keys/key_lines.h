/* Files of keys, line by line. Pure.
 *
 * A line ends by a newline, with or without a carriage return. Empty ones and those whose first
 * byte but blanks is "#" say nothing. Bytes below blank other than tabs are refused: they are no
 * text, and would reach terminals in messages.
 */
#ifndef PETREL_KEYS_KEY_LINES_H
#define PETREL_KEYS_KEY_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "keys/key_text.h"

#define KEY_LINE_MAX 8192       /* bytes of a line */
#define KEY_FILE_MAX (4u << 20) /* bytes of a file */
#define KEY_COMMENT_MAX 128     /* with the NUL; a longer one is cut */

/* Borrowed text that does not end with a NUL. */
struct key_word {
    const char *text;
    size_t length;
};

struct key_lines {
    const char *at, *end;
    const char *file; /* for errors */
    unsigned number;  /* of the line that was read last, from 1 */
};

struct key_lines key_lines_of(const char *text, size_t size, const char *file);
/* The next line that says something, without blanks around it; length 0 at the end. False with
 * ERROR_USAGE. */
bool key_lines_next(struct key_lines *lines, struct key_word *line, struct error *error);
/* ERROR_USAGE "FILE:LINE: ...". Returns false. */
bool key_lines_refuse(const struct key_lines *lines, struct error *error, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Cuts the next word, which ends at a blank, from the front of `rest`; length 0 when there is none.
 */
struct key_word key_word_cut(struct key_word *rest);
bool key_word_is(struct key_word word, const char *text);
/* For messages: at most 60 bytes of it. */
int key_word_shown(struct key_word word);

/* Takes "petrel-ed25519 KEY" (or another first word) from the front of `rest` and leaves what
 * follows, a comment. False with an error that names file, line and the word that is wrong. */
bool key_line_key(const struct key_lines *lines, struct key_word *rest, const char *word,
                  uint8_t key[KEY_SIZE], struct error *error);

#endif
