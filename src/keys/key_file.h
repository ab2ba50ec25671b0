/* The files that keys stand in: where they are by default, reading them whole, and only when nobody
 * else can have written (or, of a secret, read) them.
 */
#ifndef PETREL_KEYS_KEY_FILE_H
#define PETREL_KEYS_KEY_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* ~/.config/petrel/NAME (XDG_CONFIG_HOME is obeyed), for the caller to free. NULL with ERROR_USAGE
 * where there is no home. */
char *key_file_default(const char *name, struct error *error);

/* All of the file, for the caller to free; *size bytes and a NUL. Refused are files of another user
 * than this one or root, those that others may write, with `secret` also those that others may
 * read, those over KEY_FILE_MAX and what is no file: ERROR_PERMISSION or ERROR_USAGE, naming the
 * file and what helps. ERROR_NOT_FOUND when it is missing. */
char *key_file_read(const char *path, bool secret, size_t *size, struct error *error);

/* Makes the file's directory and the missing ones above it, of mode 0700. */
bool key_file_make_directory(const char *path, struct error *error);

/* Makes a new file of mode 0600, whole or not at all. ERROR_EXISTS when there is one. */
bool key_file_make(const char *path, const char *text, struct error *error);

/* Appends a line (with its newline) to the file, which is made with mode 0600 when missing. */
bool key_file_append(const char *path, const char *line, struct error *error);

#endif
