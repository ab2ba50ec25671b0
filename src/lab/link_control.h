/* Talking to a running emulator: a local socket on which one request, words separated by NUL, gets
 * one answer, JSON. The socket's directory belongs to the user alone.
 *
 *   stats | reset | where | down | set OPTION...
 */
#ifndef PETREL_LAB_LINK_CONTROL_H
#define PETREL_LAB_LINK_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define LINK_REQUEST_MAX 4096u
#define LINK_REQUEST_WORDS 64u
#define LINK_ANSWER_MAX 65536u

/* Path of the socket of the link called `name`; a name with a slash is the path itself. Makes the
 * directory. */
bool link_control_path(const char *name, char *path, size_t capacity, struct error *error);

/* Listens, taking over the path from an emulator that died. -1 on failure, also when one runs. */
int link_control_listen(const char *path, struct error *error);

/* Removes the sockets beside `path` that were left behind by emulators that were killed. */
void link_control_sweep(const char *path);

/* Sends the words and returns the answer; NULL with the error that the emulator gave, or when it
 * cannot be reached. */
json_t *link_control_ask(const char *path, size_t count, const char *const *words,
                         struct error *error);

#endif
