/* The language of petrel's configuration files, after ssh's: lines "key value" in blocks that begin
 * with "Host PATTERN...". Pure: which keys there are, and what their values mean, is the caller's.
 *
 * A line ends by a newline, with or without a carriage return. Empty ones and those whose first
 * byte but blanks is "#" say nothing. A key ends at a blank or "="; its value is what follows,
 * without the blanks around it, and without one pair of double quotes around all of it. What stands
 * before the first Host is for all hosts. Source: ssh_config(5), without Match and Include.
 */
#ifndef PETREL_CLI_CONFIG_TEXT_H
#define PETREL_CLI_CONFIG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define CONFIG_TEXT_MAX (1u << 20) /* bytes of a file */
#define CONFIG_LINE_MAX 8192       /* bytes of a line */

struct config_line {
    unsigned number;   /* from 1 */
    const char *key;   /* as it stands there */
    const char *value; /* NULL: none */
    bool applies;      /* its block is for this host */
};

typedef bool (*config_take)(void *context, const struct config_line *line, struct error *error);

/* Calls `take` with each line but those of Host, in order, until it returns false. `text` is
 * changed in place and has room for a NUL at [size]; keys and values point into it. False with
 * ERROR_USAGE and *number, the line; the error does not name the file. */
bool config_text_read(char *text, size_t size, const char *host, config_take take, void *context,
                      unsigned *number, struct error *error);

/* Whether a block "Host PATTERNS" is for this host: one of the patterns, which are separated by
 * blanks, matches, and none that begins with "!". "*" stands for any bytes, "?" for one; case does
 * not matter. */
bool config_host_matches(const char *patterns, const char *host);

#endif
