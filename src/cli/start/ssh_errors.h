/* What ssh, and through it the far end, writes to stderr: shown to the user as it comes, its last
 * line kept so that a failure can quote it.
 *
 * ssh gets a pipe of ours and never our own stderr: a master connection that outlives the copy, or
 * a far end that outlives its session, would keep that open, and who reads it would wait.
 * Control characters are shown as '?'.
 */
#ifndef PETREL_CLI_SSH_ERRORS_H
#define PETREL_CLI_SSH_ERRORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct ssh_errors;

/* Starts the thread that shows. `write_end` is for ssh, to be closed by the caller once ssh has
 * it. With `quiet_mux`, what ssh says of a master connection that it cannot use is left out: it
 * makes a connection of its own then, and nothing is amiss. */
struct ssh_errors *ssh_errors_new(bool quiet_mux, int *write_end, struct error *error);
/* Shows what has come until now and ends, whoever else may still hold the other end. */
void ssh_errors_free(struct ssh_errors *errors);

/* The last line that is not blank, ended or not, safe to print; "" if there was none, also when
 * `errors` is NULL. Returns `text`. */
char *ssh_errors_last(struct ssh_errors *errors, char *text, size_t capacity);
/* As above, but only a last line that has not ended, and how long nothing followed it. */
char *ssh_errors_unfinished(struct ssh_errors *errors, char *text, size_t capacity,
                            uint64_t *silent_ns);

#endif
