/* Names in a directory, here or on a host, for completion. */
#ifndef PETREL_CLI_COMPLETE_PATHS_H
#define PETREL_CLI_COMPLETE_PATHS_H

#include "cli/options/ssh_options.h"

/* `name` is one component; a directory's ends in a slash. */
typedef void (*complete_name)(void *context, const char *name);

/* All names but . and .. of a directory ("" being the current one, "~/" at its beginning the home).
 * Nothing if it cannot be read. */
void complete_local(const char *directory, complete_name found, void *context);

/* The same on a host ("" being the home), through ssh: over a master connection where there is one
 * or one may be left for a minute, and without ever asking anybody anything. Gives up after 10
 * seconds. `options` as ssh_options_finish left them, with `batch`. */
void complete_remote(const struct ssh_options *options, const char *host, const char *directory,
                     complete_name found, void *context);
/* The same at a listening petrel: the names in "root/directory/", "" being the roots. Only where it
 * was met before, and we have a key. */
void complete_listening(const struct ssh_options *options, const char *host, const char *directory,
                        complete_name found, void *context);

#endif
