/* Names of hosts that a user may mean: those of ssh's configuration that are no patterns, with what
 * it includes, and those of known_hosts that are not hashed. What cannot be read is passed over. */
#ifndef PETREL_CLI_COMPLETE_HOSTS_H
#define PETREL_CLI_COMPLETE_HOSTS_H

#include <stddef.h>

typedef void (*complete_host)(void *context, const char *host);

/* `config`: -F's file in place of the usual ones, or NULL. Names may come twice. */
void complete_hosts(const char *config, complete_host found, void *context);

/* The hosts that one line names, for tests and for the above; the line is changed. */
void complete_config_line(char *line, complete_host found, void *context);
void complete_known_line(char *line, complete_host found, void *context);

#endif
