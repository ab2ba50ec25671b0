/* A copy that finds no petrel over there: offers to send it, or says how. */
#ifndef PETREL_CLI_INSTALL_OFFER_H
#define PETREL_CLI_INSTALL_OFFER_H

#include <stddef.h>

#include "cli/start/install_host.h"

/* `missing` says what was not found, and where ("HOST: no petrel for USER in ...").
 * Sends petrel, `unasked` or after the user has said so on the terminal; asks only where stdin is a
 * terminal and ssh may ask too (no -B). `said` gets a line for the user, as install_sentence. False
 * with ERROR_NO_REMOTE, its text naming the command, when it is not to be sent; with
 * ERROR_INTERRUPTED, or as install_send. */
bool install_offer(const struct ssh_options *options, const char *host, const char *missing,
                   bool unasked, char *said, size_t capacity, struct error *error);

/* "petrel install ... HOST" with the same options for ssh, ready to be pasted into a shell. */
char *install_command_text(char *text, size_t capacity, const struct ssh_options *options,
                           const char *host);
/* "petrel 0.1.0 (12.3 MB) is on HOST in ~/.cache/petrel/petrel, checked" */
char *install_sentence(char *text, size_t capacity, const char *host, size_t size,
                       const struct install_result *result);

#endif
